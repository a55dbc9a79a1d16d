//! The enumeration is silent on correct code, and loud about members that forget.

use synod_astro::{Profile, Promise};
use synod_broadcast::{bracha, signed};
use synod_machine::host::LaneLog;

use super::super::enumerate::{Edit, Manner, again, one};
use super::super::report::SystemReport;
use super::node::node;
use crate::systems::astro::sight::{Kept, record};

const ALL: Manner = Manner { blocks: false, stride: 1, only: None, edit: None };
const SYSTEMS: [&str; 3] = ["astro/ii-f", "astro/ii", "astro/i"];

fn silent(report: &SystemReport) {
    assert!(report.failures.is_empty(), "{:#?}", report.failures);
    assert_eq!(report.conflicts + report.gate_violations + report.panics, 0);
}

/// T16, T39: at one boundary of so many; `synod sim crash` takes all.
#[test]
fn no_crash_makes_a_member_break_a_promise_or_lose_what_it_acknowledged() {
    for system in SYSTEMS {
        let report = one(system, Manner { stride: 97, ..ALL }, 2).expect("a system");
        silent(&report);
        assert!(report.points > 12, "{system}: {} points", report.points);
        assert!(report.outcomes > report.points, "{system}: {} outcomes", report.outcomes);
        assert!(report.statements > 20 * report.outcomes, "{system}: {} statements", report.statements);
    }
}

#[test]
fn on_the_real_journal_no_crash_makes_a_member_break_a_promise() {
    let report = node(SYSTEMS[0], 1, Manner { blocks: true, stride: 397, ..ALL }).expect("a system");
    silent(&report);
    assert!(report.points > 0 && report.outcomes > report.points, "{} outcomes", report.outcomes);
}

/// Cuts a log before the last record of a kind: a sync that lied.
fn without_last(logs: &mut [LaneLog], profile: Profile, is: impl Fn(&Kept) -> bool) {
    for log in logs {
        let is = |bytes: &synod_wire::Bytes| record(profile, bytes).is_some_and(|kept| is(&kept));
        if let Some(at) = log.records.iter().rposition(is) {
            log.records.truncate(at);
        }
    }
}

fn no_endorsement(logs: &mut [LaneLog]) {
    without_last(logs, Profile::Funded, |kept| matches!(kept, Kept::Own(Promise::Endorsed { .. })));
}

fn no_ack(logs: &mut [LaneLog]) {
    without_last(logs, Profile::II, |kept| matches!(kept, Kept::Signed(signed::Record::Accepted { .. })));
}

fn no_echo(logs: &mut [LaneLog]) {
    without_last(logs, Profile::I, |kept| matches!(kept, Kept::Votes(bracha::Record::Echoed(_))));
}

fn forgetting(system: &str, edit: Edit) -> SystemReport {
    node(system, 0, Manner { stride: 41, edit: Some(edit), ..ALL }).expect("a system")
}

/// The controls: a member that forgets is found, in every profile.
#[test]
fn a_member_that_forgets_a_promise_is_caught() {
    for (system, edit) in
        [(SYSTEMS[0], no_endorsement as Edit), (SYSTEMS[1], no_ack as Edit), (SYSTEMS[2], no_echo as Edit)]
    {
        let report = forgetting(system, edit);
        assert!(!report.failures.is_empty(), "{system}: {} outcomes", report.outcomes);
        let token = report.failures[0].token.parse().expect("a token names its point");
        let repeated = again(&token).expect("the point exists");
        assert_eq!((repeated.points, repeated.outcomes), (1, 1));
        silent(&repeated);
    }
}

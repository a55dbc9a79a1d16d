//! The enumeration is silent on correct code, and loud about nodes that forget.

use synod_chopchop::client::ClientRecord;
use synod_chopchop::server::ServerRecord;
use synod_chopchop::store::StoreRecord;
use synod_machine::host::LaneLog;
use synod_wire::Bytes;

use super::super::enumerate::{Edit, Manner, again, one};
use super::super::report::SystemReport;
use crate::systems::chopchop::SYSTEMS;
use crate::systems::chopchop::order::Numbered;
use crate::systems::chopchop::sight::recalled;

const ALL: Manner = Manner { blocks: false, stride: 1, only: None, edit: None };

fn silent(report: &SystemReport) {
    assert!(report.failures.is_empty(), "{:#?}", report.failures);
    assert_eq!(report.conflicts + report.gate_violations + report.panics, 0);
}

#[test]
fn no_crash_makes_a_server_or_a_client_contradict_itself() {
    for system in SYSTEMS {
        let report = one(system, Manner { stride: 7, ..ALL }, 2).expect("a system");
        silent(&report);
        assert!(report.points > 300, "{system}: {} points", report.points);
        assert!(report.outcomes > report.points && report.statements > 5 * report.outcomes);
    }
}

#[test]
fn on_the_real_journal_no_crash_makes_a_node_contradict_itself() {
    let report = one(SYSTEMS[0], Manner { blocks: true, stride: 151, ..ALL }, 2).expect("a system");
    silent(&report);
    assert!(report.outcomes > report.points, "{} outcomes", report.outcomes);
}

#[test]
fn a_crash_of_a_broker_is_repeated_by_its_place() {
    let own = crate::systems::chopchop::plan::BROKERS;
    let talk = super::talk::talk(SYSTEMS[0]).expect("a conversation");
    let few = super::broker::node(&talk, own, Manner { stride: 40, ..ALL }).expect("a broker");
    silent(&few);
    assert!((3..=6).contains(&few.points) && few.outcomes == few.points, "{} points", few.points);
    let one = super::broker::node(&talk, own, Manner { only: Some((0, 0)), ..ALL }).expect("a broker");
    silent(&one);
    assert_eq!(one.points, 1);
}

/// Cuts each log before its last record of a kind.
fn without_last(logs: &mut [LaneLog], is: impl Fn(&Bytes) -> bool) {
    for log in logs {
        if let Some(at) = log.records.iter().rposition(&is) {
            log.records.truncate(at);
        }
    }
}

fn no_pin(logs: &mut [LaneLog]) {
    without_last(logs, |record| matches!(recalled(record), Some(StoreRecord::Pinned(_))));
}

fn no_entry(logs: &mut [LaneLog]) {
    without_last(logs, |record| matches!(recalled(record), Some(ServerRecord::<Numbered>::Order(_))));
}

fn no_number(logs: &mut [LaneLog]) {
    without_last(logs, |record| matches!(recalled(record), Some(ClientRecord::Next(_))));
}

/// Whether the enumeration catches nodes that forget, with this checker.
fn caught(edit: Edit, checker: &str) -> bool {
    let report = one(SYSTEMS[0], Manner { stride: 23, edit: Some(edit), ..ALL }, 2).expect("a system");
    report.failures.iter().any(|failure| failure.checker == checker)
}

#[test]
fn a_node_that_forgets_a_promise_is_caught() {
    assert!(caught(no_pin, "C-S6"), "a witnessed batch");
    assert!(caught(no_entry, "C-S1"), "a delivered height");
    assert!(caught(no_entry, "X4"), "and another one takes its place");
    assert!(caught(no_number, "X4"), "a number that was signed");
}

#[test]
fn a_token_repeats_its_crash() {
    let manner = Manner { stride: 23, edit: Some(no_pin), ..ALL };
    let report = one(SYSTEMS[0], manner, 1).expect("a system");
    let token = &report.failures.first().expect("forgetful servers are caught").token;
    let repeated = again(&token.parse().expect("a token names its point")).expect("the point exists");
    assert_eq!((repeated.points, repeated.outcomes), (1, 1));
    silent(&repeated);
}

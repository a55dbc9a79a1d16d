//! The enumeration is silent on correct code, and loud about members that forget.

use synod_crypto::Hash;
use synod_hotstuff::{Record, Safety, View};
use synod_machine::host::LaneLog;
use synod_wire::Bytes;

use super::enumerate::{Edit, Manner, SYSTEMS, again, one};
use super::report::SystemReport;
use crate::run::SYSTEMS as PACKS;
use crate::sight::recalled;

const ALL: Manner = Manner { blocks: false, stride: 1, only: None, edit: None };

/// The seed of the gate, which follows from the commit.
fn seed() -> u64 {
    std::env::var("SYNOD_SEED").ok().and_then(|text| u64::from_str_radix(&text, 16).ok()).unwrap_or(0)
}

fn silent(report: &SystemReport) {
    assert!(report.failures.is_empty(), "{:#?}", report.failures);
    assert_eq!(report.conflicts + report.gate_violations + report.panics, 0);
}

/// A quarter of the boundaries of one pack, another one with each commit; the others at one boundary of sixty.
#[test]
fn no_crash_makes_a_member_contradict_itself() {
    let turn = usize::try_from(seed() % PACKS.len() as u64).expect("below four");
    for (at, system) in PACKS.iter().enumerate() {
        let stride = if at == turn { 4 } else { 60 };
        let report = one(system, Manner { stride, ..ALL }, 2).expect("a system");
        silent(&report);
        assert!(report.points > 600 / u64::from(stride), "{system}: {} points", report.points);
        assert!(report.outcomes > report.points && report.statements > 5 * report.outcomes);
    }
}

#[test]
fn on_the_real_journal_no_crash_makes_a_member_contradict_itself() {
    let turn = usize::try_from(seed() % PACKS.len() as u64).expect("below four");
    let report = one(PACKS[turn], Manner { blocks: true, stride: 90, ..ALL }, 2).expect("a system");
    silent(&report);
    // Where nothing is unsynced, what is durable is all there is.
    assert!(report.outcomes > report.points, "{} outcomes", report.outcomes);
}

#[test]
fn the_journal_finds_a_prefix_wherever_the_power_goes() {
    for blocks in [false, true] {
        let report = one("journal", Manner { blocks, ..ALL }, 1).expect("a system");
        silent(&report);
        assert_eq!(report.points, 201);
        assert!(report.outcomes > 600, "{} outcomes", report.outcomes);
    }
}

/// The log as it was before the newest promise of one kind, and before what was written for it: a sync that lied.
fn forget(logs: &mut [LaneLog], promise: impl Fn(&Safety) -> (View, Hash)) {
    for log in logs {
        let (mut before, mut cut) = (None, log.records.len());
        for (at, record) in log.records.iter().enumerate() {
            let Some(Record::Safety(safety)) = recalled(record) else { continue };
            let now = promise(&safety);
            if before.replace(now) != Some(now) {
                cut = at;
            }
        }
        let belongs = |record: &Bytes| matches!(recalled(record), Some(Record::Block { .. } | Record::Qc(_)));
        while cut > 0 && cut < log.records.len() && belongs(&log.records[cut - 1]) {
            cut -= 1;
        }
        log.records.truncate(cut);
    }
}

fn no_vote(logs: &mut [LaneLog]) {
    forget(logs, |safety| (safety.voted.view, safety.voted.digest));
}

fn no_order(logs: &mut [LaneLog]) {
    forget(logs, |safety| (safety.ordered.view, safety.ordered.digest));
}

fn no_proposal(logs: &mut [LaneLog]) {
    forget(logs, |safety| (safety.proposed.view, safety.proposed.digest));
}

fn no_complaint(logs: &mut [LaneLog]) {
    forget(logs, |safety| (safety.complained, Hash::ZERO));
}

/// Whether the enumeration catches members that forget, with a conflict that says `what`.
fn caught(system: &str, edit: Edit, what: &str) -> bool {
    let report = one(system, Manner { stride: 31, edit: Some(edit), ..ALL }, 2).expect("a system");
    let conflicts: Vec<&str> =
        report.failures.iter().filter(|f| f.checker == "X4").map(|failure| failure.what.as_str()).collect();
    report.conflicts > 0 && conflicts.iter().any(|seen| seen.contains(what))
}

/// The controls: for each promise, in each pack that makes it, a member that forgets it is found.
#[test]
fn a_member_that_forgets_a_promise_is_caught() {
    for system in PACKS {
        let vote = if system.ends_with("basic") { "Prepare" } else { "Generic" };
        assert!(caught(system, no_vote, vote), "{system}: votes");
        assert!(caught(system, no_complaint, "after a complaint"), "{system}: complaints");
        assert!(caught(system, no_proposal, "Proposal"), "{system}: proposals");
    }
    assert!(caught(PACKS[3], no_order, "Order"), "order votes");
}

#[test]
fn a_token_repeats_its_crash() {
    let manner = Manner { stride: 20, edit: Some(no_proposal), ..ALL };
    let report = one("hotstuff/chain2", manner, 1).expect("a system");
    let token = &report.failures.first().expect("forgetful members are caught").token;
    let point = token.parse().expect("a token names its point");
    let repeated = again(&point).expect("the point exists");
    assert_eq!((repeated.points, repeated.outcomes), (1, 1));
    silent(&repeated);
    assert!(SYSTEMS.contains(&repeated.system.as_str()));
}

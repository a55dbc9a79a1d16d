//! Crashes at every boundary between two effects (TD1), and disks that fail (TD2), with every oracle watching what was
//! ever promised.
//!
//! The gate crashes one member at every `STRIDE`-th boundary of a short conversation; `SYNOD_CRASH_POINTS=1` at every one.

use synod_machine::{Span, Time};
use synod_quorum::NodeId;
use synod_scenarios::{SYSTEMS, quiet, settles, suffering, with};
use synod_sim::{Family, Loss, Scenario};
use synod_trial::stage::{Stage, What};

/// Of so many boundaries the gate takes one.
const STRIDE: u64 = 5;

fn conversation(system: &str) -> Scenario {
    let mut scenario = with(quiet(system, 4), &[("checkpoint_every", 4), ("timeout_base_ms", 40)]);
    scenario.requests = 0;
    scenario
}

/// Three commands, one after the other. Gives the boundaries that `member` passed.
fn talk(stage: &mut Stage, member: NodeId) -> u64 {
    for guest in [0, 1, 0] {
        stage.ask(guest);
        assert!(stage.answered(Span::secs(8)), "{} crashed and commands wait", member.0);
    }
    stage.world().boundaries(member)
}

/// How often a member started.
fn lives(stage: &Stage, member: NodeId) -> usize {
    stage.diary().of(member).filter(|event| matches!(event.what, What::Started)).count()
}

/// TD1: whatever effect was the last one, what comes after the restart contradicts nothing that was said, and commands
/// are answered.
#[test]
fn a_crash_at_any_boundary_contradicts_no_promise() {
    let stride =
        std::env::var("SYNOD_CRASH_POINTS").ok().and_then(|text| text.parse().ok()).unwrap_or(STRIDE);
    for system in SYSTEMS {
        let scenario = conversation(system);
        let mut calm = Stage::new(&scenario).expect("a scenario of four members");
        calm.run(Span::millis(5));
        let (member, before) = (NodeId(1), calm.world().boundaries(NodeId(1)));
        let all = talk(&mut calm, member) - before;
        assert!(all > 100, "{system}: {all} boundaries");
        let mut crashed = 0;
        for point in (0..all).step_by(usize::try_from(stride).expect("a small step")) {
            let mut stage = Stage::new(&scenario).expect("a scenario of four members");
            stage.run(Span::millis(5));
            let loss =
                [Loss::Drawn, Loss::Durable, Loss::Nothing][usize::try_from(point % 3).expect("below three")];
            stage.world().crash_at(member, point, loss, Some(Span::millis(15)));
            let _ = talk(&mut stage, member);
            stage.run(Span::millis(60));
            crashed += u64::from(lives(&stage, member) == 2);
        }
        assert!(
            crashed * stride * 10 >= all * 9,
            "{system}: {crashed} crashes, {all} boundaries by {stride}"
        );
    }
}

/// A load under one failing disk. The member ends its process, comes back, and takes part again.
fn bears(family: Family, lasts: Span, amount: i64, blocks: i64) {
    for system in SYSTEMS {
        let mut scenario = with(conversation(system), &[("blocks", blocks), ("timeout_base_ms", 100)]);
        let torn = (Span::ZERO, Span::secs(30));
        scenario = suffering(scenario, Family::DiskUnsynced, &[], torn, 1);
        let scenario = suffering(scenario, family, &[1], (Span::millis(200), lasts), amount);
        let mut stage = Stage::new(&scenario).expect("a scenario of four members");
        stage.run(Span::millis(20));
        for _ in 0..40 {
            (0..2).for_each(|guest| stage.ask(guest));
            stage.run(Span::millis(15));
        }
        assert!(stage.answered(Span::secs(8)), "{system}: {} commands wait", stage.book().open());
        assert_eq!(lives(&stage, NodeId(1)), 2, "{system}: the disk did not fail");
        let (back, position) = (stage.now(), stage.book().highest.0);
        for _ in 0..4 {
            (0..2).for_each(|guest| stage.ask(guest));
            assert!(stage.answered(Span::secs(4)), "{system}: commands wait afterwards");
            stage.run(Span::secs(1));
        }
        let took_part = stage.diary().rule_at(NodeId(1), "R7_deliver", back) > Some(Time::ZERO);
        assert!(took_part, "{system}: it delivers nothing beyond {position}");
        let _report = settles(stage);
    }
}

/// TD2: a sync reports an error once.
#[test]
fn a_failed_sync_ends_the_process_and_promises_hold() {
    bears(Family::DiskSyncFail, Span::millis(100), 0, 0);
    bears(Family::DiskSyncFail, Span::millis(100), 0, 1);
}

/// TD2: there is no space for the next record.
#[test]
fn a_full_disk_ends_the_process_and_promises_hold() {
    bears(Family::DiskFull, Span::millis(100), 0, 1);
}

/// TD2: the process dies between writing and syncing; the tail of the real journal is torn.
#[test]
fn a_torn_tail_loses_no_promise() {
    bears(Family::NodeCrash, Span::millis(100), 3, 1);
}

/// TD2: every blob that is read back is damaged. Bodies and snapshots come from the others.
#[test]
fn damaged_blobs_are_fetched_from_the_others() {
    for system in SYSTEMS {
        let scenario = suffering(
            with(conversation(system), &[("timeout_base_ms", 100)]),
            Family::DiskRot,
            &[1],
            (Span::millis(100), Span::secs(30)),
            1,
        );
        let mut stage = Stage::new(&scenario).expect("a scenario of four members");
        stage.run(Span::millis(20));
        for round in 0..30 {
            (0..2).for_each(|guest| stage.ask(guest));
            stage.run(Span::millis(15));
            if round == 15 {
                stage.world().crash(NodeId(1), Loss::Durable, Some(Span::millis(30)));
            }
        }
        assert!(stage.answered(Span::secs(8)), "{system}: {} commands wait", stage.book().open());
        assert_eq!(lives(&stage, NodeId(1)), 2, "{system}: it did not restart");
        let _report = settles(stage);
    }
}

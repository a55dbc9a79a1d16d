//! Runs of many schedules and of many blocks: no wake-up is lost (TL14), nothing stalls (TL15), what is sent does not
//! grow with a dead member's distance (TC1), and one that is far behind catches up under load (TC3).
//!
//! The gate runs a small part of each. `SYNOD_SCHEDULES` and `SYNOD_BLOCKS` are the full numbers: 10,000 and 1,000,000.

use std::collections::BTreeMap;

use synod_hotstuff::Message;
use synod_machine::Span;
use synod_quorum::NodeId;
use synod_scenarios::{SYSTEMS, passes, quiet, settles, stage, with};
use synod_sim::Loss;
use synod_trial::stage::{Stage, What};
use synod_wire::Wire;

/// A number from the environment, or what the gate has time for.
fn scaled(name: &str, gate: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(gate)
}

/// TL14: frames come in drawn orders, timers run out among them, and nothing that is asked for is forgotten: nobody asks
/// for anything later, so nothing wakes a member that slept through its work.
#[test]
fn no_schedule_loses_a_wake_up() {
    let schedules = scaled("SYNOD_SCHEDULES", 240);
    for seed in 0..schedules {
        let system = SYSTEMS[usize::try_from(seed % 4).expect("below four")];
        let mut scenario = with(quiet(system, 4), &[("timeout_base_ms", 20), ("timeout_max_ms", 1_000)]);
        scenario.seed = 0xa11 + seed;
        scenario.requests = 0;
        scenario.jitter =
            Span::micros([100, 1_000, 4_000][usize::try_from(seed / 4 % 3).expect("below three")]);
        let mut stage = Stage::new(&scenario).expect("a scenario of four members");
        stage.run(Span::millis(5 + seed % 7));
        for guest in [0, 1, 0] {
            stage.ask(guest);
            stage.run(Span::micros(seed * 977 % 6_000));
        }
        let took = stage.answered(Span::secs(20));
        assert!(took, "{system}, seed {:x}: {} commands wait", scenario.seed, stage.book().open());
    }
    assert!(schedules >= 4, "every pack has its turn");
}

/// TL15: block after block, each with the next command of a client that waits for its answer.
#[test]
fn the_chain_grows_without_a_stall() {
    for system in SYSTEMS {
        let blocks = scaled("SYNOD_BLOCKS", 4_000) / 4;
        let numbers = [("closed", 1), ("events_max", i64::MAX), ("largest", 64), ("checkpoint_every", 128)];
        let mut scenario = with(quiet(system, 4), &numbers);
        scenario.requests = u32::try_from(blocks).expect("a number of blocks");
        scenario.horizon = Span(blocks * Span::millis(20).0);
        let report = passes(&scenario);
        assert!(report.blocks >= blocks, "{system}: {} blocks of {blocks}", report.blocks);
        assert!(!report.effective.view_change, "{system}: a view was given up");
    }
}

/// Asks for so many commands of one size, one after the other; gives how long that took.
fn ask_in_turn(stage: &mut Stage, count: u64) -> Span {
    let start = stage.now();
    for number in 0..count {
        stage.ask_for(0, format!("{number:012}").into_bytes().into());
        assert!(stage.answered(Span::secs(4)), "a command waits");
    }
    stage.now().since(start)
}

/// TC1, D18: one member is dead for as long as the others go on; the proposals of the last blocks are as long as those
/// of the first ones.
#[test]
fn proposals_do_not_grow_while_a_member_is_dead() {
    for system in SYSTEMS {
        let mut stage = stage(system, 4, &[("reputation", 0), ("checkpoint_every", 16)]);
        stage.run(Span::millis(20));
        stage.kill(NodeId(3));
        let _ = ask_in_turn(&mut stage, scaled("SYNOD_BLOCKS", 600) / 4);
        let mut sizes: BTreeMap<u64, usize> = BTreeMap::new();
        for event in stage.diary().events() {
            match &event.what {
                What::Sent(_, Message::Propose { header, .. }) if header.tc.is_none() => {
                    *sizes.entry(header.view.0).or_default() += header.encode().len();
                }
                What::Sent(_, Message::Body { view, bytes, .. }) => {
                    *sizes.entry(view.0).or_default() += bytes.len();
                }
                _ => {}
            }
        }
        let sizes: Vec<usize> = sizes.into_values().collect();
        let quarter = sizes.len() / 4;
        let most = |part: &[usize]| part.iter().copied().max().unwrap_or(0);
        let (first, last) = (most(&sizes[..quarter]), most(&sizes[3 * quarter..]));
        assert!(quarter > 10, "{system}: {} proposals", sizes.len());
        // Views and heights become longer numbers.
        assert!(last <= first + 16, "{system}: {first} bytes at first, {last} in the end");
        let _report = settles(stage);
    }
}

/// TC3: a member comes back after many blocks, all of which the others still hold. It takes part again while they go on
/// at four fifths of their speed or more.
#[test]
fn a_member_many_blocks_behind_catches_up_while_the_others_go_on() {
    for system in &SYSTEMS[2..] {
        let numbers = &[("retain_blocks", 65_536), ("checkpoint_every", 10_000_000), ("reputation", 0)];
        let mut stage = stage(system, 4, numbers);
        stage.run(Span::millis(20));
        let away = NodeId(3);
        // The leader of the first term lives on; the one that is away never has a turn.
        stage.world().crash(away, Loss::Nothing, None);
        let behind = scaled("SYNOD_BLOCKS", 600);
        let _ = ask_in_turn(&mut stage, behind - 60);
        let alone = ask_in_turn(&mut stage, 60);
        let left = stage.diary().delivered(away);
        assert!(left + behind / 2 < stage.book().highest.0, "{system}: it is not far behind");
        let at = stage.now();
        stage.world().restart(away);
        let mut beside = Span::ZERO;
        let mut rounds = 0;
        while stage.diary().delivered(away) + 4 < stage.book().highest.0 {
            beside = beside.max(ask_in_turn(&mut stage, 20));
            rounds += 1;
            assert!(rounds < 50, "{system}: it does not come closer");
        }
        // Commands per time, beside against alone: at least four fifths.
        let (beside, alone) = (beside.0 * 3, alone.0);
        assert!(
            beside * 4 <= alone * 5,
            "{system}: 60 commands took {alone} ns alone and {beside} ns beside"
        );
        let diary = stage.diary();
        assert!(diary.rule_at(away, "S_range", at).is_some(), "{system}: nothing was asked for");
        let jumped = diary.of(away).any(|event| matches!(event.what, What::Jumped(_)));
        assert!(!jumped, "{system}: it took a snapshot");
        drop(diary);
        let _report = settles(stage);
    }
}

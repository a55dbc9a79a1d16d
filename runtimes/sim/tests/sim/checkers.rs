//! Checkers fire on machines that are wrong and stay silent on those that are not.

use synod_machine::{Span, Time};
use synod_quorum::NodeId;
use synod_sim::{Checker, Family, Incident, Loss, Moment, Options, Setup, Silent, Status, Violation, World};

use crate::counter::{Manner, counters, run};
use crate::probe::{Do, calm, said, setup, tell, world};

fn crashes(seed: u64) -> Vec<Incident> {
    let unsynced = Incident {
        id: 1,
        family: Family::DiskUnsynced,
        at: Span::ZERO,
        lasts: Span::secs(30),
        nodes: vec![],
        amount: 0,
    };
    let crash = |id: u32| Incident {
        id,
        family: Family::NodeCrash,
        at: Span::millis(200 * u64::from(id)),
        lasts: Span::millis(30),
        nodes: vec![id % 4],
        amount: i64::from(id) * 7 % 11 + i64::try_from(seed % 3).expect("small"),
    };
    core::iter::once(unsynced).chain((2..30).map(crash)).collect()
}

fn verdict(manner: Manner, gate: bool, seed: u64) -> Result<World, Violation> {
    let mut world = counters(manner, gate, Options { seed, ..Options::default() });
    world.load(&crashes(seed));
    run(world, Span::secs(10))
}

#[test]
fn a_careful_counter_is_clean_over_many_crashing_seeds() {
    let mut lost = 0;
    for seed in 0..20 {
        let world = verdict(Manner::Careful, true, seed).expect("no checker fires");
        let stats = world.stats();
        assert!(stats.crashes >= 20, "seed {seed} had {} crashes", stats.crashes);
        lost += stats.lost_suffixes;
    }
    assert!(lost > 20, "un-synced suffixes were lost {lost} times");
}

#[test]
fn a_hasty_counter_is_caught_by_the_gate_in_its_first_promise() {
    let violation = verdict(Manner::Hasty, true, 1).err().expect("the gate fires");
    assert_eq!(violation.checker, "T2");
    assert!(violation.event > 0 && violation.node.is_some());
}

#[test]
fn a_hasty_counter_is_caught_by_what_it_does_within_a_few_seeds() {
    let found = (0..20).filter_map(|seed| verdict(Manner::Hasty, false, seed).err()).collect::<Vec<_>>();
    assert!(found.len() > 10, "only {} of 20 seeds found it", found.len());
    assert!(found.iter().all(|violation| violation.checker == "T1"));
}

#[test]
fn x1_a_panic_names_its_place_and_the_token() {
    let options = Options { token: "toy:3:-@0".to_owned(), ..calm(3) };
    let mut world = World::new(setup(2, &[0], options));
    said(&mut world, Span::millis(50));
    tell(&mut world, 1, vec![Do::Panic]);
    let violation = world.run(Time(Span::secs(1).0), &mut ()).expect_err("a machine panicked");
    assert_eq!((violation.checker.as_str(), violation.node), ("X1", Some(NodeId(1))));
    assert!(violation.what.contains("told to panic") && violation.what.contains("probe.rs"));
    assert!(violation.what.contains("toy:3:-@0"));
    assert_eq!(world.status(NodeId(1)), Status::Halted);
    assert_eq!(world.run(Time(Span::secs(2).0), &mut ()), Err(violation), "a failed world stays failed");
}

#[test]
fn x1_does_not_blame_the_machine_inside_a_byzantine_node() {
    let mut world = world(2, 3);
    world.corrupt_node(NodeId(1), Box::new(Silent::ALL));
    tell(&mut world, 1, vec![Do::Panic]);
    said(&mut world, Span::secs(1));
    assert_eq!((world.status(NodeId(1)), world.stats().halts), (Status::Halted, 1));
}

#[test]
fn x2_memory_above_the_formula_is_found_in_the_step_that_took_it() {
    let mut world = world(2, 3);
    let bound = 1_000 + synod_machine::host::HELD_BYTES_MAX;
    tell(&mut world, 0, vec![Do::Hoard(bound)]);
    said(&mut world, Span::millis(1));
    assert_eq!(world.stats().bytes_permille_max, 1_000);
    tell(&mut world, 0, vec![Do::Hoard(bound + 1)]);
    let violation = world.run(world.now() + Span::secs(1), &mut ()).expect_err("above the formula");
    assert_eq!((violation.checker.as_str(), violation.node), ("X2", Some(NodeId(0))));
}

#[test]
fn x6_blaming_an_honest_node_is_a_violation_and_suspecting_it_is_not() {
    let mut world = world(2, 3);
    tell(&mut world, 0, vec![Do::Blame(NodeId(1), "suspected_slow")]);
    said(&mut world, Span::millis(1));
    tell(&mut world, 0, vec![Do::Blame(NodeId(1), "equivocated")]);
    let violation = world.run(world.now() + Span::secs(1), &mut ()).expect_err("an honest node was blamed");
    assert_eq!((violation.checker.as_str(), violation.node), ("X6", Some(NodeId(0))));
}

#[test]
fn x6_excuses_in_a_run_what_that_run_says_proves_nothing_and_nothing_else() {
    let mut world = World::new(setup(2, &[0], Options { excused: &["contradicted"], ..calm(3) }));
    said(&mut world, Span::millis(50));
    tell(&mut world, 0, vec![Do::Blame(NodeId(1), "contradicted")]);
    said(&mut world, Span::millis(1));
    assert_eq!(world.stats().blames, 1);
    tell(&mut world, 0, vec![Do::Blame(NodeId(1), "equivocated")]);
    let violation = world.run(world.now() + Span::secs(1), &mut ()).expect_err("it is not excused");
    assert_eq!(violation.checker, "X6");
}

#[test]
fn x6_allows_blaming_a_faulty_node_and_ignores_what_a_faulty_node_says() {
    let mut world = world(3, 3);
    world.corrupt_node(NodeId(1), Box::new(Silent::ALL));
    tell(&mut world, 0, vec![Do::Blame(NodeId(1), "equivocated")]);
    tell(&mut world, 1, vec![Do::Blame(NodeId(0), "equivocated")]);
    said(&mut world, Span::millis(10));
    assert_eq!(world.stats().blames, 1);
}

#[test]
fn an_intact_log_that_is_refused_is_a_violation() {
    let base = setup(1, &[0], calm(3));
    let factory = |node, machine, log: synod_machine::host::LaneLog, incarnation| {
        if incarnation > 1 {
            return Err(synod_machine::Unrecoverable("no".to_owned()));
        }
        crate::probe::hosted(node, machine, log)
    };
    let mut world = World::new(Setup { factory: Box::new(factory), ..base });
    said(&mut world, Span::millis(10));
    world.crash(NodeId(0), Loss::Drawn, Some(Span::millis(1)));
    let violation = world.run(Time(Span::secs(1).0), &mut ()).expect_err("the log is intact");
    assert_eq!(violation.checker, "recover");
}

#[test]
fn a_run_that_never_moves_on_is_a_violation() {
    let options = Options { events_max: 1_000, ..Options::default() };
    let violation = run(counters(Manner::Careful, true, options), Span::secs(1_000)).err();
    assert_eq!(violation.map(|v| v.checker), Some("runaway".to_owned()));
}

struct AtTheEnd;

impl Checker for AtTheEnd {
    fn see(&mut self, _: &Moment<'_>) -> Result<(), Violation> {
        Ok(())
    }
    fn finish(&mut self, now: Time) -> Result<(), Violation> {
        Err(Violation::new("end", format!("{now}")))
    }
}

#[test]
fn a_checker_has_the_last_word() {
    let mut world = World::new(Setup { checkers: vec![Box::new(AtTheEnd)], ..setup(1, &[0], calm(1)) });
    said(&mut world, Span::millis(5));
    assert_eq!(world.finish().expect_err("it always objects").checker, "end");
}

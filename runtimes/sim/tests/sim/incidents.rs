//! Scenarios as a whole: phases, budgets, shrinking a real failure.

use synod_machine::{Span, Time};
use synod_quorum::NodeId;
use synod_sim::{
    FAMILIES, Family, Incident, Limits, Loss, Mode, Scenario, Status, Swarm, Violation, World, shrink,
};

use crate::counter::{Manner, counters, run};
use crate::probe::{Do, heard, said, tell, world};

fn swarm() -> Swarm {
    Swarm {
        system: "counter".to_owned(),
        nodes: 4,
        guests: 0,
        requests: 0,
        faulty_max: 1,
        horizon: Span::secs(8),
        mode: Mode::Connection,
        families: FAMILIES.to_vec(),
        incidents_max: 8,
    }
}

fn world_of(scenario: &Scenario, manner: Manner) -> World {
    let mut world = counters(manner, false, scenario.world_options("counter"));
    world.load(&scenario.incidents);
    world
}

#[test]
fn after_healing_the_core_is_up_joined_and_makes_progress_in_every_scenario() {
    for seed in 100..140 {
        let scenario = swarm().scenario(seed);
        let mut world = world_of(&scenario, Manner::Careful);
        world.run(Time(scenario.horizon.0), &mut ()).expect("careful counters are clean");
        let core: Vec<NodeId> = (0..4).map(NodeId).filter(|id| world.honest(*id)).collect();
        assert!(core.len() >= 3, "seed {seed}: {core:?}");
        world.heal(&core);
        let before = world.stats().net.delivered;
        world
            .demand(Span::secs(30), &mut (), &mut |world| {
                let joined = core.iter().flat_map(|a| core.iter().map(move |b| (*a, *b)));
                joined.into_iter().all(|(a, b)| a == b || world.linked(a, b))
                    && world.stats().net.delivered > before + 100
            })
            .unwrap_or_else(|violation| unreachable!("seed {seed}: {violation}"));
        let crashes = world.stats().crashes;
        world.run(world.now() + Span::secs(20), &mut ()).expect("still clean");
        assert_eq!(world.stats().crashes, crashes, "seed {seed}");
        assert!(core.iter().all(|id| world.linked(*id, core[0]) || *id == core[0]), "seed {seed}");
    }
}

#[test]
fn what_is_outside_the_core_stays_as_it_is() {
    let mut world = world(4, 3);
    world.crash(NodeId(3), Loss::Durable, Some(Span::secs(1)));
    world.block(NodeId(0), NodeId(1));
    world.block(NodeId(2), NodeId(0));
    world.pause(NodeId(2), Span::secs(2));
    world.heal(&[NodeId(0), NodeId(1)]);
    said(&mut world, Span::secs(5));
    assert_eq!(world.status(NodeId(3)), Status::Down);
    for from in [0, 2] {
        tell(&mut world, from, vec![Do::SendOn(0, NodeId(1), 1), Do::SendOn(0, NodeId(0), 2)]);
    }
    let all = said(&mut world, Span::secs(5));
    assert_eq!(
        (heard(&all, 1), heard(&all, 0)),
        (vec![1], vec![2]),
        "only the core's own link, and loop-back"
    );
}

#[test]
fn a_stall_is_a_failure_that_says_what_everybody_was_doing() {
    let mut world = world(2, 3);
    world.crash(NodeId(1), Loss::Durable, None);
    let violation = world.demand(Span::secs(1), &mut (), &mut |_| false).expect_err("nothing is reached");
    assert_eq!(violation.checker, "stall");
    assert!(violation.what.contains("node 0 up") && violation.what.contains("node 1 down"), "{violation}");
}

#[test]
fn a_demand_ends_as_soon_as_it_is_met() {
    let mut world = world(2, 3);
    let start = world.now();
    world.demand(Span::secs(64), &mut (), &mut |world| world.now() > start).expect("time passes");
    assert_eq!(world.now(), start + Span::secs(1));
}

#[test]
fn every_family_can_begin_and_end_alone() {
    for family in FAMILIES {
        let incident = Incident {
            id: 1,
            family: *family,
            at: Span::millis(100),
            lasts: Span::millis(300),
            nodes: if *family == Family::NodeStorm { vec![] } else { vec![1, 2] },
            amount: 3,
        };
        let scenario = Scenario { incidents: vec![incident], ..Scenario::quiet("counter", 5) };
        let world = run(world_of(&scenario, Manner::Careful), Span::secs(3)).expect("counters stay clean");
        assert_eq!(world.stats().incidents, 1, "{}", family.name());
        assert!(world.stats().families.contains(family));
    }
}

#[test]
fn a_failing_scenario_becomes_small_and_fails_alike() {
    let check = |scenario: &Scenario| -> Option<Violation> {
        (scenario.nodes == 4)
            .then(|| run(world_of(scenario, Manner::Hasty), scenario.horizon).err())
            .flatten()
    };
    let failing =
        (0..40).map(|seed| swarm().scenario(seed)).find(|s| s.incidents.len() > 30 && check(s).is_some());
    let scenario = failing.expect("a busy seed finds the hasty counter");
    let shrunk = shrink(&scenario, Limits { runs_max: 400, nodes_min: 1 }, check).expect("it fails");
    assert_eq!(shrunk.violation.checker, "T1");
    assert!(shrunk.scenario.incidents.len() <= 3, "{:#?}", shrunk.scenario.incidents);
    assert!(
        shrunk
            .scenario
            .incidents
            .iter()
            .all(|incident| scenario.incidents.iter().any(|i| i.id == incident.id))
    );
    let again = Scenario::from_toml(&shrunk.scenario.to_toml()).expect("a scenario");
    assert_eq!(check(&again), Some(shrunk.violation), "the stored scenario fails in the same event");
}

#[test]
fn effective_seeds_are_counted_in_their_three_respects() {
    let mut counts = [0; 2];
    for seed in 0..40 {
        let world = run(world_of(&swarm().scenario(seed), Manner::Careful), Span::secs(8)).expect("clean");
        let effective = world.stats().effective(&["view_change"]);
        counts[0] += u32::from(effective.lost_suffix);
        counts[1] += u32::from(effective.byzantine);
        assert!(!effective.view_change, "counters have no views");
    }
    assert!(counts[0] > 5 && counts[1] > 5, "{counts:?}");
}

//! Equal scenarios give equal runs; taking one fault away changes nothing else.

use synod_machine::{Span, Time};
use synod_quorum::NodeId;
use synod_sim::{Crypto, FAMILIES, Family, Mode, Scenario, Setup, Swarm, Violation, World, twice};

use crate::counter::{Manner, counters, run};

fn swarm() -> Swarm {
    Swarm {
        system: "counter".to_owned(),
        nodes: 4,
        guests: 0,
        requests: 0,
        faulty_max: 1,
        horizon: Span::secs(5),
        mode: Mode::Connection,
        families: FAMILIES.to_vec(),
        incidents_max: 6,
    }
}

fn world_of(scenario: &Scenario) -> World {
    let mut world = counters(Manner::Careful, true, scenario.world_options("counter"));
    world.load(&scenario.incidents);
    world
}

fn trial(scenario: &Scenario) -> Result<World, Violation> {
    run(world_of(scenario), scenario.horizon)
}

#[test]
fn every_scenario_runs_twice_with_one_digest_and_no_violation() {
    let (mut incidents, mut families) = (0, std::collections::BTreeSet::new());
    for seed in 0..40 {
        let scenario = swarm().scenario(seed);
        let world = twice(|| trial(&scenario)).unwrap_or_else(|v| unreachable!("seed {seed}: {v}"));
        incidents += world.stats().incidents;
        families.extend(world.stats().families);
    }
    assert!(incidents > 40 * 30, "{incidents} incidents began");
    assert!(families.len() > 30, "{families:?}");
}

#[test]
fn another_seed_gives_another_digest() {
    let quiet = |seed| {
        let world = trial(&Scenario::quiet("counter", seed)).expect("a quiet run is clean");
        world.digest()
    };
    assert_eq!(quiet(1), quiet(1));
    assert_ne!(quiet(1), quiet(2));
}

#[test]
fn x5_a_run_that_depends_on_anything_else_is_found() {
    let mut runs = 0;
    let found = twice(|| {
        runs += 1;
        trial(&Scenario::quiet("counter", runs))
    });
    assert_eq!(found.err().map(|violation| violation.checker), Some("X5".to_owned()));
}

#[test]
fn the_digest_of_a_fixed_run_is_the_same_in_every_build() {
    let scenario = Scenario { horizon: Span::secs(2), ..swarm().scenario(1) };
    let digest = trial(&scenario).expect("a clean run").digest().to_string();
    assert_eq!(digest, FIXED, "a changed simulator needs a changed value here, and nothing else does");
}

const FIXED: &str = "52058f761bb0d10bdb4b0de6159390df";

/// When each node said what, as (time, node, event), for nodes the fault does not touch.
fn untouched(scenario: &Scenario, nodes: &[u32]) -> Vec<String> {
    let mut world = World::new(Setup {
        options: synod_sim::Options { trace: true, ..scenario.world_options("counter") },
        ..crate::probe::setup(4, &[0], synod_sim::Options::default())
    });
    world.load(&scenario.incidents);
    world.run(Time(scenario.horizon.0), &mut ()).expect("probes do nothing wrong");
    let keep = |line: &&String| nodes.iter().any(|node| line.contains(&format!("\"node\":{node},")));
    let timeless = |line: &String| line.split_once("\"ns\"").map(|(_, rest)| rest.to_owned());
    let lines: Vec<String> = world.trace().steps().map(synod_sim::Step::json).collect();
    lines.iter().filter(keep).filter_map(timeless).collect()
}

#[test]
fn taking_one_fault_away_leaves_all_other_draws_where_they_were() {
    let mut scenario = Scenario::quiet("probe", 4);
    let incident = |id, family, nodes: &[u32], amount| synod_sim::Incident {
        id,
        family,
        at: Span::millis(100 * u64::from(id)),
        lasts: Span::millis(500),
        nodes: nodes.to_vec(),
        amount,
    };
    scenario.incidents = vec![
        incident(1, Family::NetReset, &[0, 1], 0),
        incident(2, Family::NodeCrash, &[2], 3),
        incident(3, Family::NetDelay, &[2, 3], 900),
        incident(4, Family::NetReset, &[0, 1], 0),
    ];
    let all = untouched(&scenario, &[0, 1]);
    let relevant = |line: &String| line.contains("link n0") || line.contains("link n1");
    let pick = |lines: Vec<String>| lines.into_iter().filter(relevant).collect::<Vec<_>>();
    let mut fewer = scenario.clone();
    fewer.incidents.retain(|incident| incident.id == 1 || incident.id == 4);
    let all = pick(all);
    assert_eq!(all, pick(untouched(&fewer, &[0, 1])));
    assert!(all.len() >= 10, "both resets were seen by both ends: {all:#?}");
}

#[test]
fn real_keys_run_as_toy_keys_do() {
    for crypto in [Crypto::Toy, Crypto::Real] {
        let scenario = Scenario { crypto, horizon: Span::secs(1), ..Scenario::quiet("counter", 9) };
        let world = trial(&scenario).expect("a clean run");
        assert_eq!(world.keyring().crypto(), crypto);
        assert_eq!(world.incarnation(NodeId(0)), 1);
    }
}

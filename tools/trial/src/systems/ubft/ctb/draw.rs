//! Drawing scenarios of broadcasts: sizes, waits, links, workload, and faults of replicas and memory nodes. It knows nothing of any
//! planted bug.
//!
//! Most runs are slow: waits that are shorter than a round of messages, receivers that keep silent, messages that are signed at once.
//! Links with memory nodes are drawn apart from those between replicas, and mostly keep no order, as one-sided operations need not.
//!
//! *Budget.* f replicas lie, f_m memory nodes are stopped. Replicas are not started again: in the epoch in which one promised something
//! it may not act anew, and epochs are beyond this system.

use synod_machine::Span;
use synod_sim::{Crypto, Draws, Family, Incident, Mode, Scenario, Stream, Swarm};

use crate::systems::ubft::CTB;
use crate::systems::ubft::draw::{spread, stopped};
use crate::token::RunOptions;

/// What may happen to anybody.
const FAMILIES: &[Family] = &[
    Family::NetReset,
    Family::NetClog,
    Family::NetBand,
    Family::NetDelay,
    Family::NetSpike,
    Family::NetSplit,
    Family::NetOneWay,
    Family::NetFlap,
    Family::NodePause,
    Family::NodeSlow,
    Family::ClockDrift,
    Family::JobDelay,
];

/// Families of links without connections.
const DATAGRAMS: &[Family] = &[Family::NetLoss, Family::NetDup, Family::NetReorder];

/// How often a liar has two messages of a number, in parts per million; else it does something of [`LIES`].
const DOUBLES: u32 = 600_000;

/// What a liar does, each as often as it stands here.
const LIES: &[Family] = &[
    Family::ByzRegisters,
    Family::ByzRegisters,
    Family::ByzAcks,
    Family::ByzAcks,
    Family::ByzForge,
    Family::ByzSilent,
    Family::ByzSilent,
    Family::ByzDelay,
    Family::ByzReplay,
    Family::ByzMutate,
    Family::ByzFlood,
];

/// The scenario of a seed.
///
/// # Errors
/// There are no runs of this kind.
pub fn scenario(seed: u64, options: &RunOptions) -> Result<Scenario, String> {
    if options.twins || options.over_budget || options.forks_only {
        return Err(format!("{CTB} has no runs of twins or over the budget"));
    }
    let draws = Draws::new(seed);
    let mut stream = draws.stream("ctb", 0);
    let drawn = if stream.chance(800_000) { 3 } else { 5 };
    let nodes = options.nodes.unwrap_or(drawn);
    if !matches!(nodes, 3 | 5 | 7) {
        return Err(format!("{CTB} has 3, 5 or 7 replicas"));
    }
    let memory: u32 = if stream.chance(800_000) { 3 } else { 5 };
    let (among, with_memory) = (stream.chance(250_000), stream.chance(850_000));
    let mut families = FAMILIES.to_vec();
    if among || with_memory {
        families.extend(DATAGRAMS);
    }
    let swarm = Swarm {
        system: CTB.to_owned(),
        nodes,
        guests: 0,
        requests: u32::try_from(stream.log_uniform(6, 60)).unwrap_or(6),
        faulty_max: 0,
        horizon: Span(stream.log_uniform(Span::millis(100).0, Span::secs(3).0)),
        mode: if among { Mode::Datagram } else { Mode::Connection },
        families,
        incidents_max: 3,
    };
    let mut scenario = swarm.scenario(seed);
    if stream.chance(500_000) {
        // Nothing else hides what liars do.
        scenario.incidents.clear();
    }
    if let Some(crypto) = options.crypto {
        scenario.crypto = crypto;
    }
    if scenario.crypto == Crypto::Real {
        scenario.requests = scenario.requests.min(20);
    }
    set(&mut scenario, "memory", u64::from(memory));
    set(&mut scenario, "memory_datagrams", u64::from(with_memory));
    set(&mut scenario, "safety_only", u64::from(options.safety_only));
    numbers(&mut scenario, &mut draws.stream("ctb", 1));
    liars(&mut scenario, &draws);
    spread(&mut scenario, &mut draws.stream("ctb", 2));
    if draws.stream("ctb", 3).chance(800_000) {
        stopped(&mut scenario, memory, &draws);
    }
    uneven(&mut scenario, memory, &mut draws.stream("ctb", 4));
    lasting(&mut scenario, memory, &mut draws.stream("ctb", 5));
    if nodes == 3 && draws.stream("ctb", 6).chance(400_000) {
        set(&mut scenario, "merge", 1);
    }
    scenario.incidents.sort_by_key(|incident| incident.at);
    Ok(scenario)
}

fn set(scenario: &mut Scenario, key: &str, value: u64) {
    scenario.options.insert(key.to_owned(), i64::try_from(value).unwrap_or(i64::MAX));
}

/// Draws parameters and workload.
fn numbers(scenario: &mut Scenario, stream: &mut Stream) {
    let far = scenario.latency.largest().0 / 1_000;
    set(scenario, "tail", *stream.pick(&[16, 16, 32]).unwrap_or(&16));
    set(scenario, "echo_raw_max", *stream.pick(&[0, 64, 128, 512]).unwrap_or(&128));
    // Often shorter than a round of messages, so that everything is slow.
    let fast = if stream.chance(500_000) { 3 * far + 200 } else { far / 4 + 100 };
    let fast = fast + stream.log_uniform(500, 8_000);
    set(scenario, "fast_us", fast);
    set(scenario, "echo_us", fast / 2 + 1);
    set(scenario, "suspect_ms", ((5 * fast).div_ceil(1_000) + 1).clamp(1, 9_000));
    let signed = *stream.pick(&[0, 100, 500, 1_000]).unwrap_or(&100);
    set(scenario, "signed_permille", signed);
    set(scenario, "slow", u64::from(stream.chance(200_000)));
    set(scenario, "quota", stream.log_uniform(4, 500));
    set(scenario, "burst", stream.log_uniform(1, 16));
    set(scenario, "summary_us", stream.log_uniform(10, 20_000));
    set(scenario, "sync_floor_us", stream.log_uniform(10, 3_000));
    set(scenario, "sync_mean_us", stream.log_uniform(10, 3_000));
    set(scenario, "pool", stream.below(3));
}

/// In three of five runs operations take as long as they please on their way to memory nodes and back, at each node another time: a read
/// is answered before the write that was said before it. In as many a node misses some of them, where links may lose.
fn uneven(scenario: &mut Scenario, memory: u32, stream: &mut Stream) {
    let (is_late, is_lossy) = (stream.chance(600_000), stream.chance(600_000));
    let mean = stream.log_uniform(50, 5_000);
    let mut places: Vec<u32> = (scenario.nodes..scenario.nodes + memory).collect();
    stream.shuffle(&mut places);
    for (number, place) in places.into_iter().enumerate() {
        let delay = stream.log_uniform(mean / 4 + 1, mean * 2);
        let loss = stream.log_uniform(20_000, 600_000);
        for (family, amount, is_drawn) in
            [(Family::NetDelay, delay, is_late), (Family::NetLoss, loss, is_lossy && number < 2)]
        {
            let id = scenario.incidents.iter().map(|incident| incident.id).max().unwrap_or(0) + 1;
            let (at, lasts, nodes) = (Span::ZERO, scenario.horizon, vec![place]);
            let amount = i64::try_from(amount).unwrap_or(1);
            let incident = Incident { id, family, at, lasts, nodes, amount };
            scenario.incidents.extend(is_drawn.then_some(incident));
        }
    }
}

/// In a fifth of the runs one replica says far more than a tail, all of it signed: registers are written over and over, while one memory
/// node comes back empty and another one misses operations.
fn lasting(scenario: &mut Scenario, memory: u32, stream: &mut Stream) {
    let (is_drawn, more) = (stream.chance(200_000), stream.log_uniform(60, 160));
    let speaker = stream.below(u64::from(scenario.nodes));
    let at = Span(stream.below(scenario.horizon.0 / 2));
    let away = Span(stream.log_uniform(1_000_000, scenario.horizon.0 / 4));
    let loss = i64::try_from(stream.log_uniform(50_000, 500_000)).unwrap_or(1);
    if !is_drawn || scenario.crypto == Crypto::Real {
        return;
    }
    scenario.requests = u32::try_from(more).unwrap_or(60);
    set(scenario, "tail", 16);
    set(scenario, "memory_datagrams", 1);
    set(scenario, "speakers", 1 << speaker);
    set(scenario, "signed_permille", 1_000);
    // No more of them are faulty than were.
    let crashed = scenario.incidents.iter().find(|incident| incident.family == Family::NodeCrash);
    let empty = crashed.and_then(|incident| incident.nodes.first().copied()).unwrap_or(scenario.nodes);
    let other = if empty == scenario.nodes { scenario.nodes + memory - 1 } else { scenario.nodes };
    let next = scenario.incidents.iter().map(|incident| incident.id).max().unwrap_or(0) + 1;
    let horizon = scenario.horizon;
    scenario.incidents.extend([
        Incident { id: next, family: Family::NodeCrash, at, lasts: away, nodes: vec![empty], amount: 1 },
        Incident {
            id: next + 1,
            family: Family::NetLoss,
            at: Span::ZERO,
            lasts: horizon,
            nodes: vec![other],
            amount: loss,
        },
    ]);
}

/// Up to f replicas lie, in one way, in two or in three; those are who speaks, in most runs.
fn liars(scenario: &mut Scenario, draws: &Draws) {
    let mut stream = draws.stream("liars", 0);
    let faulty = u64::from((scenario.nodes - 1) / 2);
    let count = if stream.chance(850_000) { stream.between(1, faulty) } else { 0 };
    let mut places: Vec<u32> = (0..scenario.nodes).collect();
    stream.shuffle(&mut places);
    places.truncate(usize::try_from(count).unwrap_or(0));
    let mut id = scenario.incidents.iter().map(|incident| incident.id).max().unwrap_or(0);
    for place in &places {
        let ways = *stream.pick(&[1, 1, 1, 2, 3]).unwrap_or(&1);
        for _ in 0..ways {
            let (is_double, other) = (stream.chance(DOUBLES), stream.pick(LIES).copied());
            let family = other.filter(|_| !is_double).unwrap_or(Family::ByzEquivocate);
            let (at, lasts) =
                (Span(stream.below(scenario.horizon.0)), Span(stream.below(scenario.horizon.0)));
            let amount = match family {
                Family::ByzDelay => stream.log_uniform(100, 500_000),
                Family::ByzFlood => stream.log_uniform(1, 8),
                _ => stream.log_uniform(1, 1_000),
            };
            id += 1;
            let (nodes, amount) = (vec![*place], i64::try_from(amount).unwrap_or(1));
            scenario.incidents.push(Incident { id, family, at, lasts, nodes, amount });
        }
    }
    // Whoever lies about its own messages must say some.
    let mask = places.iter().fold(0, |mask, place| mask | 1 << place);
    let speakers = if stream.chance(700_000) { mask } else { 0 };
    set(scenario, "speakers", speakers);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use synod_sim::Family;

    use super::scenario;
    use crate::token::RunOptions;

    #[test]
    fn no_more_replicas_and_memory_nodes_are_faulty_than_may_be_and_no_replica_is_started_again() {
        let (mut liars, mut emptied, mut doubles) = (0, 0, 0);
        for seed in 0..300 {
            let drawn = scenario(seed, &RunOptions::default()).expect("a system");
            let (mut faulty, mut stopped) = (BTreeSet::new(), BTreeSet::new());
            for incident in &drawn.incidents {
                let is_crash = incident.family == Family::NodeCrash;
                for place in &incident.nodes {
                    if incident.family.costs_budget() {
                        assert!(*place < drawn.nodes, "memory nodes tell no lies");
                        faulty.insert(*place);
                    }
                    if is_crash {
                        assert!(*place >= drawn.nodes, "seed {seed}: a replica would forget");
                        stopped.insert(*place);
                    }
                }
                doubles += u32::from(incident.family == Family::ByzEquivocate);
            }
            let memory = u32::try_from(drawn.options["memory"]).expect("few");
            assert!(faulty.len() <= (drawn.nodes as usize - 1) / 2, "seed {seed}: {faulty:?}");
            assert!(stopped.len() <= (memory as usize - 1) / 2, "seed {seed}: {stopped:?}");
            (liars, emptied) = (liars + faulty.len(), emptied + stopped.len());
        }
        assert!(liars > 200 && emptied > 50 && doubles > 80, "{liars} {emptied} {doubles}");
    }
}

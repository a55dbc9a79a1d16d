//! Drawing scenarios: sizes, parameters, workload, and faults of replicas, memory nodes and clients. It knows nothing of any planted
//! bug.
//!
//! *Budget.* f replicas are faulty: they lie, or they are started again, which forgets what they promised; f_m memory nodes are. Everybody
//! else may be slow, cut off or paused for as long as a fault lasts.

use synod_machine::Span;
use synod_sim::{Crypto, Draws, Family, Incident, Latency, Mode, Scenario, Stream, Swarm};

use crate::token::{Disk, RunOptions};

/// What may happen to anybody. A restart is no such thing.
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
    Family::ClockOffset,
    Family::ClockDrift,
    Family::DiskUnsynced,
    Family::DiskSlow,
    Family::JobDelay,
    Family::ClientRetry,
    Family::ClientDup,
    // These count as faulty.
    Family::DiskWipe,
    Family::ByzSilent,
    Family::ByzDelay,
    Family::ByzReplay,
    Family::ByzMutate,
    Family::ByzFlood,
    Family::ByzEquivocate,
    Family::ByzEquivocate,
    Family::ByzAcks,
    Family::ByzBatches,
    Family::ByzForge,
    Family::ByzRegisters,
    Family::ByzSync,
];

/// Families of links without connections.
const DATAGRAMS: &[Family] = &[Family::NetLoss, Family::NetDup, Family::NetReorder];
/// Wall clocks of those who count as correct are off by this much at most: a leader's time is judged by them.
const SKEW_MAX_MS: i64 = 35;
/// The longest distance. Replicas vouch for a proposal for half a second, in which the slow path delivers it: it goes six times from one to
/// another.
const FAR: Span = Span::millis(25);

/// The scenario of a seed.
///
/// # Errors
/// The system is unknown, or has no runs of this kind.
pub fn scenario(system: &str, seed: u64, options: &RunOptions) -> Result<Scenario, String> {
    if !super::is(system) {
        return Err(format!("no system is called {system}"));
    }
    if options.twins || options.over_budget || options.forks_only {
        return Err(format!("{system} has no runs of twins or over the budget"));
    }
    if system == super::CTB {
        return super::ctb::draw::scenario(seed, options);
    }
    let draws = Draws::new(seed);
    let mut stream = draws.stream("ubft", 0);
    let drawn = if stream.chance(800_000) { 3 } else { 5 };
    let nodes = options.nodes.unwrap_or(drawn);
    if !matches!(nodes, 3 | 5 | 7) {
        return Err(format!("{system} has 3, 5 or 7 replicas"));
    }
    let memory: u32 = if stream.chance(850_000) { 3 } else { 5 };
    let datagrams = stream.chance(150_000);
    let drawn = if draws.stream("ubft", 3).chance(100_000) { Disk::Blocks } else { Disk::Records };
    let blocks = options.disk.unwrap_or(drawn) == Disk::Blocks;
    let mut families = FAMILIES.to_vec();
    if datagrams {
        families.extend(DATAGRAMS);
    }
    let faulty = (nodes - 1) / 2;
    let horizon = Span(stream.log_uniform(Span::secs(1).0, Span::secs(8).0));
    // Of those who may be faulty some lie, and the others are started again.
    let liars = u32::try_from(stream.below(u64::from(faulty) + 1)).unwrap_or(0);
    let swarm = Swarm {
        system: system.to_owned(),
        nodes,
        guests: u32::try_from(stream.between(1, 4)).unwrap_or(1),
        requests: u32::try_from(stream.log_uniform(8, 100)).unwrap_or(8),
        faulty_max: liars,
        horizon,
        mode: if datagrams { Mode::Datagram } else { Mode::Connection },
        families,
        incidents_max: 6,
    };
    let mut scenario = swarm.scenario(seed);
    if scenario.latency.largest() > FAR {
        (scenario.latency, scenario.jitter) = (Latency::Lan, scenario.jitter.min(Span::micros(500)));
    }
    if let Some(crypto) = options.crypto {
        scenario.crypto = crypto;
    }
    if scenario.crypto == Crypto::Real {
        scenario.requests = scenario.requests.min(20);
    }
    let mut set = |key: &str, value: u64| {
        scenario.options.insert(key.to_owned(), i64::try_from(value).unwrap_or(i64::MAX));
    };
    set("memory", u64::from(memory));
    set("blocks", u64::from(blocks));
    set("safety_only", u64::from(options.safety_only));
    numbers(&mut scenario, &mut draws.stream("ubft", 1));
    spread(&mut scenario, &mut draws.stream("ubft", 2));
    restarts(&mut scenario, faulty - liars, &draws);
    stopped(&mut scenario, memory, &draws);
    guests(&mut scenario, &mut draws.stream("ubft", 4));
    if nodes == 3 && draws.stream("ubft", 5).chance(400_000) {
        scenario.options.insert("merge".to_owned(), 1);
    }
    scenario.incidents.sort_by_key(|incident| incident.at);
    Ok(scenario)
}

/// Draws parameters and workload.
fn numbers(scenario: &mut Scenario, stream: &mut Stream) {
    let far = scenario.latency.largest().0 / 1_000;
    let mut set = |key: &str, value: u64| {
        scenario.options.insert(key.to_owned(), i64::try_from(value).unwrap_or(i64::MAX));
    };
    set("tail", *stream.pick(&[16, 16, 32, 64]).unwrap_or(&16));
    set("window", *stream.pick(&[32, 32, 64]).unwrap_or(&32));
    set("batch_max", stream.log_uniform(1, 16));
    set("echo_raw_max", *stream.pick(&[0, 64, 128, 512]).unwrap_or(&128));
    set("snapshot_halves", stream.log_uniform(1, 16));
    set("archive_bytes", stream.log_uniform(32 << 10, 1 << 20));
    // Sometimes shorter than a round of messages, so that everything is slow.
    let fast = if stream.chance(700_000) { 3 * far + 200 } else { far / 4 + 100 };
    // Waits much shorter than these make runs of millions of events.
    let fast = fast + stream.log_uniform(3_000, 12_000);
    set("fast_us", fast);
    set("echo_us", fast / 2 + 1);
    let least = (5 * fast).div_ceil(1_000) + 1;
    set("suspect_ms", (least + stream.log_uniform(5, 200)).clamp(least, 9_000));
    set("retry_ms", 2 * far / 1_000 + stream.log_uniform(5, 100));
    set("slow_only", u64::from(stream.chance(50_000)));
    set("quota", stream.log_uniform(50, 1_000));
    set("burst", stream.log_uniform(1, 32));
    set("reads", if stream.chance(500_000) { stream.log_uniform(20, 500) } else { 0 });
    set("sync_floor_us", stream.log_uniform(10, 3_000));
    set("sync_mean_us", stream.log_uniform(10, 3_000));
    set("pool", stream.below(3));
}

/// Byzantine replicas lie from the start or from a drawn time, most of them for ever; no fault hits everybody for seconds.
pub(super) fn spread(scenario: &mut Scenario, stream: &mut Stream) {
    for incident in &mut scenario.incidents {
        if incident.family.is_byzantine() {
            if stream.chance(600_000) {
                incident.at = Span::ZERO;
            }
            if stream.chance(800_000) {
                incident.lasts = Span::ZERO;
            }
        }
        match incident.family {
            Family::NetDelay | Family::NetSpike => {
                incident.amount = incident.amount.clamp(-300_000, 300_000);
            }
            Family::ClockOffset => incident.amount = incident.amount.clamp(-SKEW_MAX_MS, SKEW_MAX_MS),
            _ => {}
        }
    }
}

/// Crashes of one place.
fn crashes(scenario: &mut Scenario, place: u32, (count, longest): (u64, Span), stream: &mut Stream) {
    let first = scenario.incidents.iter().map(|incident| incident.id).max().unwrap_or(0) + 1;
    for id in (first..).take(usize::try_from(count).unwrap_or(0)) {
        let at = Span(stream.below(scenario.horizon.0));
        let lasts = Span(stream.log_uniform(1_000_000, longest.0.max(2_000_000)));
        let amount = i64::try_from(stream.log_uniform(1, 2_000)).unwrap_or(1);
        scenario.incidents.push(Incident {
            id,
            family: Family::NodeCrash,
            at,
            lasts,
            nodes: vec![place],
            amount,
        });
    }
}

/// Replicas that do not lie are started again, and are faulty until an epoch lists them.
fn restarts(scenario: &mut Scenario, most: u32, draws: &Draws) {
    let mut stream = draws.stream("restarts", 0);
    let liar = |incident: &Incident| incident.family.costs_budget();
    let liars: Vec<u32> =
        scenario.incidents.iter().filter(|i| liar(i)).flat_map(|i| i.nodes.clone()).collect();
    let mut honest: Vec<u32> = (0..scenario.nodes).filter(|place| !liars.contains(place)).collect();
    stream.shuffle(&mut honest);
    for place in honest.into_iter().take(most as usize) {
        let count = *stream.pick(&[0, 1, 1, 2, 4]).unwrap_or(&1);
        let longest = Span(scenario.horizon.0 / 3);
        crashes(scenario, place, (count, longest), &mut draws.stream("restart", u64::from(place)));
    }
}

/// Memory nodes stop for ever or come back empty, and all of them are slow, cut off or paused.
pub(super) fn stopped(scenario: &mut Scenario, memory: u32, draws: &Draws) {
    let mut stream = draws.stream("memory", 0);
    let first = scenario.nodes + scenario.guests;
    let mut places: Vec<u32> = (first..first + memory).collect();
    stream.shuffle(&mut places);
    for place in places.iter().take(((memory - 1) / 2) as usize) {
        let count = *stream.pick(&[0, 1, 1, 2, 3]).unwrap_or(&1);
        let longest = if stream.chance(300_000) { Span::secs(1_000) } else { Span(scenario.horizon.0 / 3) };
        crashes(scenario, *place, (count, longest), &mut draws.stream("stop", u64::from(*place)));
    }
    let mut next = scenario.incidents.iter().map(|incident| incident.id).max().unwrap_or(0) + 1;
    let families = [
        Family::NetDelay,
        Family::NetSpike,
        Family::NodePause,
        Family::NodeSlow,
        Family::NetOneWay,
        Family::DiskSlow,
    ];
    for family in families {
        if !stream.chance(300_000) {
            continue;
        }
        let at = Span(stream.below(scenario.horizon.0));
        let lasts = Span(stream.log_uniform(10_000_000, scenario.horizon.0 / 2));
        let amount = match family {
            Family::NodeSlow => stream.log_uniform(200, 2_000),
            _ => stream.log_uniform(100, 300_000),
        };
        let nodes = stream.pick(&places).copied().into_iter().collect();
        let amount = i64::try_from(amount).unwrap_or(1);
        scenario.incidents.push(Incident { id: next, family, at, lasts, nodes, amount });
        next += 1;
    }
}

/// Clients are started again.
fn guests(scenario: &mut Scenario, stream: &mut Stream) {
    for guest in 0..scenario.guests {
        let (is_hit, count) = (stream.chance(150_000), stream.between(1, 2));
        if is_hit {
            crashes(scenario, scenario.nodes + guest, (count, Span::secs(2)), stream);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use synod_sim::Family;

    use super::scenario;
    use crate::token::RunOptions;

    #[test]
    fn no_more_replicas_and_memory_nodes_are_faulty_than_may_be() {
        let (mut liars, mut restarted, mut emptied) = (0, 0, 0);
        for seed in 0..300 {
            let drawn = scenario("ubft/smr", seed, &RunOptions::default()).expect("a system");
            let first = drawn.nodes + drawn.guests;
            let mut faulty = BTreeSet::new();
            let mut stopped = BTreeSet::new();
            for incident in &drawn.incidents {
                let crash = incident.family == Family::NodeCrash;
                assert!(incident.family != Family::NodeStorm, "everybody would forget");
                for place in &incident.nodes {
                    let is_faulty = crash || incident.family.costs_budget();
                    if *place < drawn.nodes && is_faulty {
                        liars += u32::from(!crash);
                        restarted += u32::from(crash);
                        faulty.insert(*place);
                    }
                    if *place >= first && is_faulty {
                        assert!(crash, "memory nodes tell no lies");
                        emptied += 1;
                        stopped.insert(*place);
                    }
                }
            }
            let memory = u32::try_from(drawn.options["memory"]).expect("few");
            assert!(faulty.len() <= (drawn.nodes as usize - 1) / 2, "seed {seed}: {faulty:?}");
            assert!(stopped.len() <= (memory as usize - 1) / 2, "seed {seed}: {stopped:?}");
        }
        assert!(liars > 50 && restarted > 50 && emptied > 50, "{liars} {restarted} {emptied}");
    }
}

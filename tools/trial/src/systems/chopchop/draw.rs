//! Drawing scenarios: sizes, parameters, workload, and faults of servers, brokers and clients. It knows nothing of any
//! planted bug.

use synod_machine::Span;
use synod_sim::{Crypto, Draws, Family, Incident, Latency, Mode, Scenario, Stream, Swarm};

use super::plan::Ordering;
use crate::oracle::faults;
use crate::token::{Disk, RunOptions};

/// Families that servers may have, and the network between all.
const FAMILIES: &[Family] = &[
    Family::NetReset,
    Family::NetClog,
    Family::NetBand,
    Family::NetDelay,
    Family::NetSpike,
    Family::NetSplit,
    Family::NetOneWay,
    Family::NetFlap,
    Family::NodeCrash,
    Family::NodeStorm,
    Family::NodePause,
    Family::NodeSlow,
    Family::ClockDrift,
    Family::DiskUnsynced,
    Family::DiskSyncFail,
    Family::DiskSlow,
    Family::DiskRot,
    Family::DiskLie,
    Family::DiskRollback,
    Family::DiskWipe,
    Family::DiskTorn,
    Family::JobDelay,
    Family::ByzSilent,
    Family::ByzDelay,
    Family::ByzReplay,
    Family::ByzMutate,
    Family::ByzAmnesia,
    Family::ByzFlood,
    Family::ByzForge,
    Family::ByzSync,
    Family::ByzBatches,
    Family::ByzCrash,
];

/// Families of links without connections, which clients have.
const DATAGRAMS: &[Family] = &[Family::NetLoss, Family::NetDup, Family::NetReorder];

/// What only replicas of HotStuff do.
const REPLICAS: &[Family] = &[Family::ByzEquivocate, Family::ByzAcks, Family::ByzShave, Family::ByzCollude];

/// What makes any server forget, or end: over uBFT that is for f of them alone, which are started again.
const HARMS: &[Family] = &[
    Family::NodeStorm,
    Family::DiskUnsynced,
    Family::DiskSyncFail,
    Family::DiskRot,
    Family::DiskLie,
    Family::DiskRollback,
    Family::DiskWipe,
    Family::DiskTorn,
    Family::DiskFull,
];
/// The longest distance over uBFT.
const FAR: Span = Span::millis(25);

/// What brokers may do.
const BROKERS: &[Family] = &[
    Family::ByzSilent,
    Family::ByzDelay,
    Family::ByzReplay,
    Family::ByzMutate,
    Family::ByzFlood,
    Family::ByzForge,
    Family::ByzBatches,
    Family::ByzBatches,
    Family::ByzBatches,
];

/// What clients may do.
const CLIENTS: &[Family] = &[
    Family::ByzSilent,
    Family::ByzDelay,
    Family::ByzReplay,
    Family::ByzMutate,
    Family::ByzFlood,
    Family::ByzBatches,
    Family::ByzBatches,
];

/// The scenario of a seed.
///
/// # Errors
/// The system is unknown.
pub fn scenario(system: &str, seed: u64, options: &RunOptions) -> Result<Scenario, String> {
    let ordering = Ordering::of(system).ok_or_else(|| format!("no system is called {system}"))?;
    if options.twins {
        return Ok(super::twins::scenario(system, seed));
    }
    let draws = Draws::new(seed);
    let mut stream = draws.stream("chopchop", 0);
    let is_large = !stream.chance(800_000);
    let drawn = match (ordering, is_large) {
        (Ordering::Ubft, false) => 3,
        (Ordering::Ubft, true) => 5,
        (_, false) => 4,
        (_, true) => 7,
    };
    let nodes = options.nodes.unwrap_or(drawn);
    let brokers = u32::try_from(stream.between(2, 3)).unwrap_or(2);
    let few = u32::try_from(stream.log_uniform(3, 12)).unwrap_or(3);
    let mut crowd = draws.stream("chopchop", 4);
    let rounds = if crowd.chance(350_000) { crowd.between(2, 6) } else { 0 };
    let clients = if rounds > 0 { u32::try_from(crowd.between(6, 16)).unwrap_or(6) } else { few };
    let datagrams = stream.chance(600_000);
    let drawn = if draws.stream("chopchop", 3).chance(100_000) { Disk::Blocks } else { Disk::Records };
    let blocks = options.disk.unwrap_or(drawn) == Disk::Blocks;
    let horizon = Span(stream.log_uniform(Span::secs(3).0, Span::secs(20).0));
    let swarm = Swarm {
        system: system.to_owned(),
        nodes,
        guests: brokers + clients,
        requests: u32::try_from(stream.log_uniform(8, 80)).unwrap_or(8),
        faulty_max: if ordering == Ordering::Ubft { 0 } else { faults(nodes) },
        horizon,
        mode: Mode::Connection,
        families: families(ordering, (datagrams, blocks)),
        incidents_max: 5,
    };
    let mut scenario = swarm.scenario(seed);
    if let Some(crypto) = options.crypto {
        scenario.crypto = crypto;
    }
    if scenario.crypto == Crypto::Real {
        scenario.requests = scenario.requests.min(12);
    }
    let mut set = |key: &str, value: u64| {
        scenario.options.insert(key.to_owned(), i64::try_from(value).unwrap_or(i64::MAX));
    };
    set("brokers", u64::from(brokers));
    set("datagrams", u64::from(datagrams));
    set("blocks", u64::from(blocks));
    set("newcomers", stream.below(3).min(u64::from(clients) - 1));
    set("safety_only", u64::from(options.safety_only));
    application(&mut scenario, &mut draws.stream("chopchop", 5));
    numbers(&mut scenario, ordering, &mut draws.stream("chopchop", 1));
    crowded(&mut scenario, rounds, &mut crowd);
    spread(&mut scenario, &mut draws.stream("chopchop", 2));
    guests(&mut scenario, (brokers, clients), &draws);
    if ordering == Ordering::Ubft {
        over_ubft(&mut scenario, &draws);
    }
    Ok(scenario)
}

fn families(ordering: Ordering, (datagrams, blocks): (bool, bool)) -> Vec<Family> {
    let mut families = FAMILIES.to_vec();
    if datagrams {
        families.extend(DATAGRAMS);
    }
    if ordering == Ordering::HotStuff {
        families.extend(REPLICAS);
    }
    if blocks {
        families.push(Family::DiskFull);
    }
    families
}

/// Rounds in which almost all clients broadcast at one moment; in half of the runs that have some, batches expire so early that
/// brokers which overtake each other seal theirs again while stores still witness them.
fn crowded(scenario: &mut Scenario, rounds: u64, stream: &mut Stream) {
    let rounds = if scenario.crypto == Crypto::Real { rounds.min(2) } else { rounds };
    let mut set = |key: &str, value: u64| {
        scenario.options.insert(key.to_owned(), i64::try_from(value).unwrap_or(i64::MAX));
    };
    set("rounds", rounds);
    if rounds > 0 && stream.chance(500_000) {
        set("horizon", stream.between(8, 20));
    }
}

/// Draws the application beside servers.
fn application(scenario: &mut Scenario, stream: &mut Stream) {
    let app = *stream.pick(&[0, 0, 1, 1, 2]).unwrap_or(&0);
    let drawn = [
        ("app", app),
        ("grant", stream.log_uniform(1, 1_000)),
        ("tokens", stream.between(1, 6)),
        ("app_small", *stream.pick(&[0, 4_096]).unwrap_or(&0)),
    ];
    for (key, value) in drawn.into_iter().take(if app == 0 { 1 } else { 4 }) {
        scenario.options.insert(key.to_owned(), i64::try_from(value).unwrap_or(i64::MAX));
    }
}

/// Draws parameters and workload.
fn numbers(scenario: &mut Scenario, ordering: Ordering, stream: &mut Stream) {
    let far = scenario.latency.largest().0 / 1_000_000;
    let mut set = |key: &str, value: u64| {
        scenario.options.insert(key.to_owned(), i64::try_from(value).unwrap_or(i64::MAX));
    };
    set("lanes", *stream.pick(&[1, 2, 4, 7, 16]).unwrap_or(&4));
    set("batch_max", stream.log_uniform(2, 64));
    set("checkpoint_every", stream.log_uniform(4, 128));
    set("horizon", stream.log_uniform(8, 2_000));
    set("retain_bytes", stream.log_uniform(8 << 10, 1 << 20));
    set("quota_bytes", stream.log_uniform(40 << 10, 512 << 10));
    set("quota_batches", stream.log_uniform(4, 64));
    set("quota_work", stream.log_uniform(300, 25_000));
    set("store_jobs", stream.log_uniform(1, 16));
    set("stranger", stream.below(2));
    let window = stream.log_uniform(1, 60);
    set("window_min_ms", window);
    set("window_max_ms", window * stream.between(2, 10));
    set("pipeline_max", stream.between(1, 4));
    set("distil_min", stream.log_uniform(1, 4));
    set("distil_max_ms", stream.log_uniform(20, 600) + 3 * far);
    set("margin", stream.below(2));
    set("search_max", stream.log_uniform(1, 64));
    set("keep_ms", stream.log_uniform(500, 60_000));
    let submit = stream.log_uniform(300, 2_000) + 16 * far;
    set("submit_ms", submit);
    set("submit_max_ms", submit * stream.between(2, 4));
    set("retransmit_ms", stream.log_uniform(50, 400) + 2 * far);
    set("directory_wait_ms", stream.log_uniform(50, 2_000));
    set("pull_patience_ms", stream.log_uniform(20, 300));
    set("burst", stream.log_uniform(1, 16));
    set("resync", *stream.pick(&[0, 0, 50, 200]).unwrap_or(&0));
    match ordering {
        Ordering::Ideal => {
            set("ahead", stream.log_uniform(8, 64));
            set("retain", stream.log_uniform(1, 64));
            set("empty", *stream.pick(&[0, 50, 500]).unwrap_or(&0));
        }
        Ordering::HotStuff => {
            let base = stream.log_uniform(50, 300);
            set("timeout_base_ms", base);
            set("timeout_max_ms", (16 * far + 200).max(4 * base));
            set("retain_blocks", stream.log_uniform(8, 64));
            set("block_items", stream.log_uniform(2, 64));
            set("executor_lag_max", stream.log_uniform(4, 64));
            set("batch_wait_us", stream.log_uniform(1, 5_000));
        }
        Ordering::Ubft => {}
    }
}

/// Nobody lies over uBFT, f servers at most are started again, which forgets what they promised, and everybody is near: replicas vouch
/// for a proposal for half a second.
fn over_ubft(scenario: &mut Scenario, draws: &Draws) {
    let mut stream = draws.stream("chopchop", 6);
    if scenario.latency.largest() > FAR {
        (scenario.latency, scenario.jitter) = (Latency::Lan, scenario.jitter.min(Span::micros(500)));
    }
    let servers = scenario.nodes;
    let spared = |family: Family| family.is_byzantine() || HARMS.contains(&family);
    scenario.incidents.retain(|incident| !spared(incident.family));
    scenario.incidents.retain(|incident| {
        incident.family != Family::NodeCrash || incident.nodes.iter().all(|node| *node >= servers)
    });
    let far = scenario.latency.largest().0 / 1_000;
    let fast = 3 * far + 200 + stream.log_uniform(3_000, 12_000);
    let least = (5 * fast).div_ceil(1_000) + 1;
    let drawn = [
        ("memory", 3),
        ("fast_us", fast),
        ("echo_us", fast / 2 + 1),
        ("suspect_ms", least + stream.log_uniform(5, 200)),
        ("retry_ms", 2 * far / 1_000 + stream.log_uniform(5, 100)),
        ("slow_only", u64::from(stream.chance(50_000))),
        ("archive_bytes", stream.log_uniform(2 << 20, 16 << 20)),
    ];
    for (key, value) in drawn {
        scenario.options.insert(key.to_owned(), i64::try_from(value).unwrap_or(i64::MAX));
    }
    let mut next = scenario.incidents.iter().map(|incident| incident.id).max().unwrap_or(0) + 1;
    let mut places: Vec<u32> = (0..servers).collect();
    stream.shuffle(&mut places);
    for place in places.into_iter().take(((servers - 1) / 2) as usize) {
        for _ in 0..stream.below(3) {
            let at = Span(stream.below(scenario.horizon.0));
            let lasts = Span(stream.log_uniform(10_000_000, scenario.horizon.0 / 3));
            let amount = i64::try_from(stream.below(200)).unwrap_or(1);
            let (family, nodes) = (Family::NodeCrash, vec![place]);
            scenario.incidents.push(Incident { id: next, family, at, lasts, nodes, amount });
            next += 1;
        }
    }
    scenario.incidents.sort_by_key(|incident| incident.at);
}

/// Byzantine servers lie from the start or from a drawn time, most of them for ever; no fault hits everybody for seconds.
fn spread(scenario: &mut Scenario, stream: &mut Stream) {
    for incident in &mut scenario.incidents {
        if incident.family.is_byzantine() && incident.family != Family::ByzAmnesia {
            lasting(incident, stream);
        }
        if matches!(incident.family, Family::NetDelay | Family::NetSpike) {
            incident.amount = incident.amount.clamp(-300_000, 300_000);
        }
    }
}

fn lasting(incident: &mut Incident, stream: &mut Stream) {
    if stream.chance(600_000) {
        incident.at = Span::ZERO;
    }
    if stream.chance(800_000) {
        incident.lasts = Span::ZERO;
    }
}

/// Faults of brokers, all but one of which may do anything, and of clients, all but one of which may; both crash.
fn guests(scenario: &mut Scenario, (brokers, clients): (u32, u32), draws: &Draws) {
    let mut stream = draws.stream("guests", 0);
    let (good_broker, good_client) =
        (stream.below(u64::from(brokers)), u64::from(brokers) + stream.below(u64::from(clients)));
    let (bad_brokers, bad_clients) = (stream.below(700_000), stream.below(300_000));
    let crashes = stream.below(500_000);
    let mut next = scenario.incidents.iter().map(|incident| incident.id).max().unwrap_or(0) + 1;
    let first = scenario.nodes;
    for guest in 0..u64::from(brokers + clients) {
        let mut stream = draws.stream("guest", guest);
        let is_broker = guest < u64::from(brokers);
        let at = Span(stream.below(scenario.horizon.0));
        let lasts = Span(stream.log_uniform(10_000_000, scenario.horizon.0 / 2));
        let (table, share) = if is_broker { (BROKERS, bad_brokers) } else { (CLIENTS, bad_clients) };
        let family = stream.pick(table).copied().unwrap_or(Family::ByzSilent);
        let amount = i64::try_from(stream.log_uniform(1, 1_000_000)).unwrap_or(1);
        let chosen = stream.chance(u32::try_from(share).unwrap_or(0));
        let nodes = vec![first + u32::try_from(guest).unwrap_or(0)];
        let mut incident = Incident { id: next, family, at, lasts, nodes: nodes.clone(), amount };
        lasting(&mut incident, &mut stream);
        if chosen && guest != good_broker && guest != good_client {
            if incident.family == Family::ByzFlood {
                incident.amount = 1 + incident.amount % 8;
            }
            scenario.incidents.push(incident);
            next += 1;
        }
        if stream.chance(u32::try_from(crashes).unwrap_or(0)) {
            let count = stream.between(1, 3);
            for _ in 0..count {
                let at = Span(stream.below(scenario.horizon.0));
                let lasts = Span(stream.log_uniform(10_000_000, 2_000_000_000));
                let amount = i64::try_from(stream.below(200)).unwrap_or(1);
                let family = Family::NodeCrash;
                scenario.incidents.push(Incident {
                    id: next,
                    family,
                    at,
                    lasts,
                    nodes: nodes.clone(),
                    amount,
                });
                next += 1;
            }
        }
    }
    scenario.incidents.sort_by_key(|incident| incident.at);
}

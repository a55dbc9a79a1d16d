//! Drawing scenarios for HotStuff: sizes, parameters, workload, and faults within the budget. It knows nothing of any
//! planted bug.

mod often;

use synod_machine::Span;
use synod_sim::{Crypto, Draws, Family, Incident, Latency, Mode, Scenario, Stream, Swarm};

use crate::oracle::{faults, weak};
use crate::params::pack_of;
use crate::systems::{astro, chopchop, journal, ubft};
use crate::token::{Disk, RunOptions};
use crate::twins::{self, ROUNDS_MAX};

/// Families every seed may have.
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
    Family::ClockOffset,
    Family::ClockDrift,
    Family::ClockStep,
    Family::DiskUnsynced,
    Family::DiskSyncFail,
    Family::DiskSlow,
    Family::DiskRot,
    Family::DiskLie,
    Family::DiskRollback,
    Family::DiskWipe,
    Family::JobDelay,
    Family::ByzSilent,
    Family::ByzDelay,
    Family::ByzReplay,
    Family::ByzEquivocate,
    Family::ByzMutate,
    Family::ByzAcks,
    Family::ByzAmnesia,
    Family::ByzForge,
    Family::ByzFlood,
    Family::ByzShave,
    Family::ByzCollude,
    Family::ByzCrash,
    Family::ByzBatches,
    Family::ByzSync,
    Family::NodeVersion,
    Family::NodeClone,
    Family::DiskTorn,
    Family::ClientRetry,
    Family::ClientBurst,
    Family::ClientDup,
];

/// Families that only a disk of blocks knows.
const BLOCKS: &[Family] = &[Family::DiskFull, Family::DiskMisdirect];

/// Families that only links without connections know.
const DATAGRAMS: &[Family] = &[Family::NetLoss, Family::NetDup, Family::NetReorder];

/// The scenario of a seed.
///
/// # Errors
/// The system is unknown.
pub fn scenario(system: &str, seed: u64, options: &RunOptions) -> Result<Scenario, String> {
    if system == journal::SYSTEM {
        return Ok(Scenario::quiet(system, seed));
    }
    match () {
        () if astro::is(system) => astro::draw::scenario(system, seed, options),
        () if chopchop::is(system) => chopchop::draw::scenario(system, seed, options),
        () if ubft::is(system) => ubft::draw::scenario(system, seed, options),
        () => of_hotstuff(system, seed, options),
    }
}

fn of_hotstuff(system: &str, seed: u64, options: &RunOptions) -> Result<Scenario, String> {
    let pack = pack_of(system).ok_or_else(|| format!("no system is called {system}"))?;
    if options.twins {
        return Ok(twins::scenario(system, seed));
    }
    let draws = Draws::new(seed);
    let mut stream = draws.stream("hotstuff", 0);
    let drawn = if stream.chance(600_000) { 4 } else { 7 };
    let nodes = options.nodes.unwrap_or(drawn);
    let datagrams = stream.chance(150_000);
    let mut families = FAMILIES.to_vec();
    if datagrams {
        families.extend(DATAGRAMS);
    }
    let drawn = if draws.stream("hotstuff", 3).chance(100_000) { Disk::Blocks } else { Disk::Records };
    let blocks = options.disk.unwrap_or(drawn) == Disk::Blocks;
    if blocks {
        families.extend(BLOCKS);
    }
    let over = options.over_budget || draws.stream("hotstuff", 4).chance(50_000);
    let horizon = Span(stream.log_uniform(Span::secs(2).0, Span::secs(12).0));
    let swarm = Swarm {
        system: system.to_owned(),
        nodes,
        guests: u32::try_from(stream.between(1, 3)).unwrap_or(1),
        requests: u32::try_from(stream.log_uniform(8, 120)).unwrap_or(8),
        faulty_max: if over { weak(nodes) } else { faults(nodes) },
        horizon,
        mode: if datagrams { Mode::Datagram } else { Mode::Connection },
        families,
        incidents_max: 9,
    };
    let mut scenario = swarm.scenario(seed);
    if let Some(crypto) = options.crypto {
        scenario.crypto = crypto;
    }
    if scenario.crypto == Crypto::Real {
        scenario.requests = scenario.requests.min(20);
    }
    numbers(&mut scenario, pack.has_terms(), &mut draws.stream("hotstuff", 1));
    spread(&mut scenario, &mut draws.stream("hotstuff", 2));
    let (forks, safe) = (options.forks_only, options.safety_only);
    let marks = [("blocks", blocks), ("over", over), ("forks_only", forks), ("safety_only", safe)];
    for (name, _) in marks.into_iter().filter(|(_, on)| *on) {
        scenario.options.insert(name.to_owned(), 1);
    }
    short_logs(&mut scenario, &mut draws.stream("hotstuff", 5));
    if pack.has_terms() && draws.stream("hotstuff", 6).chance(250_000) {
        scenario.options.insert("votes_leader".to_owned(), 1);
    }
    let [ways, halves] = [7, 9].map(|stream| draws.stream("hotstuff", stream));
    masks(&mut scenario, over, [ways, halves].each_mut());
    often::unfinished(&mut scenario, &mut draws.stream("hotstuff", 14));
    reads(&mut scenario, [8, 10].map(|stream| draws.stream("hotstuff", stream)).each_mut());
    if pack.has_terms() {
        often::undercuts_more(&mut scenario, &mut draws.stream("hotstuff", 12));
        often::absences(&mut scenario, &mut draws.stream("hotstuff", 11));
    }
    often::left_behind(&mut scenario, &mut draws.stream("hotstuff", 13));
    often::two_bodies(&mut scenario, &mut draws.stream("hotstuff", 15));
    often::stale_reads(&mut scenario, &mut draws.stream("hotstuff", 16));
    Ok(scenario)
}

/// Sometimes a member that counts as faulty anyway is two machines with one key, and in each round each other member hears the first,
/// the second, or both (B5). Over the budget all who are faulty may be such pairs.
fn masks(scenario: &mut Scenario, over: bool, [stream, other]: [&mut Stream; 2]) {
    let (chosen, rounds, length) =
        (stream.chance(150_000), stream.between(2, ROUNDS_MAX), stream.log_uniform(30, 1_000));
    let others = 3_u64.pow(scenario.nodes - 1);
    let ways = |stream: &mut Stream| (0..rounds).map(|_| stream.below(others)).collect::<Vec<u64>>();
    let first = ways(stream);
    let (all, again) = (over && stream.chance(700_000), stream.chance(500_000));
    let lies =
        |incident: &&Incident| (all || incident.family.is_byzantine()) && incident.family.costs_budget();
    let mut liars: Vec<u32> = Vec::new();
    for liar in scenario.incidents.iter().filter(lies).filter_map(|incident| incident.nodes.first()) {
        if *liar < scenario.nodes && !liars.contains(liar) {
            liars.push(*liar);
        }
    }
    if all {
        // Two halves want as many pairs as there may be.
        let mut more: Vec<u32> = (0..scenario.nodes).filter(|id| !liars.contains(id)).collect();
        other.shuffle(&mut more);
        liars.extend(more);
        liars.truncate(twins::PAIRS.len().min(weak(scenario.nodes) as usize));
    }
    if !(chosen || all) || liars.is_empty() {
        return;
    }
    if !all {
        liars.truncate(1);
    }
    let (nodes, far) = (scenario.nodes, scenario.latency.largest().0 / 1_000_000);
    let mut set = |key: String, value: u64| {
        scenario.options.insert(key, i64::try_from(value).unwrap_or(i64::MAX));
    };
    set("twin_rounds".to_owned(), rounds);
    set("twin_round_ms".to_owned(), length);
    set("twin_again".to_owned(), u64::from(again));
    let halves = if liars.len() > 1 { halves(nodes, rounds, other) } else { None };
    set("twin_matched".to_owned(), u64::from(halves.is_some()));
    if halves.is_some() {
        // Long enough for certificates in each half; often so short that both stop in the same view.
        let certified = other.between(4, 12) * far.max(5);
        set(
            "twin_round_ms".to_owned(),
            if other.chance(600_000) { certified } else { length.max(certified) },
        );
    }
    let mut first = Some(first);
    for (liar, pair) in liars.into_iter().zip(twins::PAIRS) {
        set(pair.to_owned(), u64::from(liar) + 1);
        let drawn = first.take().unwrap_or_else(|| ways(stream));
        let ways = halves.as_ref().map_or(drawn, |halves| sided(halves, liar));
        for (round, way) in (0..).zip(ways) {
            set(twins::way(pair, round), way);
        }
    }
}

/// Most often several pairs agree on the halves they show the others: per round, whether each member hears the first twins,
/// the second ones, or both. Two halves that are each a quorum go on by themselves and meet in a later round; where all change
/// sides, what each half was about to finish stays unfinished.
fn halves(nodes: u32, rounds: u64, stream: &mut Stream) -> Option<Vec<Vec<u64>>> {
    let mut before: Vec<u64> = Vec::new();
    let mut round = |stream: &mut Stream| {
        let ways: &[u64] = match stream.below(100) {
            0..30 if !before.is_empty() => &[],
            0..60 => &[0, 1],
            60..85 => &[2],
            _ => &[0, 1, 2],
        };
        before = match ways {
            [] => before.iter().map(|way| if *way < 2 { 1 - way } else { 2 }).collect(),
            _ => (0..nodes).map(|_| *stream.pick(ways).unwrap_or(&2)).collect(),
        };
        before.clone()
    };
    stream.chance(800_000).then(|| (0..rounds).map(|_| round(stream)).collect())
}

/// The ways of one pair: the digits of all members but itself.
fn sided(halves: &[Vec<u64>], liar: u32) -> Vec<u64> {
    let way = |sides: &Vec<u64>| {
        let others = (0_u32..).zip(sides).filter(|(id, _)| *id != liar);
        let worth = others.map(|(_, digit)| *digit).zip((0..).map(|at| 3_u64.pow(at)));
        worth.map(|(digit, power)| digit * power).sum()
    };
    halves.iter().map(way).collect()
}

/// Draws parameters and workload.
fn numbers(scenario: &mut Scenario, terms: bool, stream: &mut Stream) {
    let far = scenario.latency.largest().0 / 1_000_000;
    let base = stream.log_uniform(30, 400);
    let wanted = (16 * far + 200).max(4 * base);
    let largest = if stream.chance(100_000) { 200_000 } else { 3_000 };
    let mut set = |key: &str, value: u64| {
        scenario.options.insert(key.to_owned(), i64::try_from(value).unwrap_or(i64::MAX));
    };
    set("timeout_base_ms", base);
    set("timeout_max_ms", stream.between(wanted, 2 * wanted));
    if terms {
        set("term_views", *stream.pick(&[1, 2, 3, 8, 32]).unwrap_or(&32));
        set("reputation", stream.below(2));
    }
    set("complaints_first", u64::from(stream.chance(200_000)));
    set("checkpoint_every", stream.log_uniform(16, 256));
    set("retain_blocks", stream.log_uniform(4, 64));
    set("block_items", stream.log_uniform(2, 256));
    set("executor_lag_max", stream.log_uniform(2, 64));
    set("view_window", stream.log_uniform(4, 64));
    set("batch_wait_us", stream.log_uniform(1, 20_000));
    set("burst", stream.log_uniform(1, 32));
    set("closed", u64::from(stream.chance(250_000)));
    set("send_all", u64::from(stream.chance(200_000)));
    set("largest", stream.log_uniform(100, largest));
    set("sync_floor_us", stream.log_uniform(10, 3_000));
    set("sync_mean_us", stream.log_uniform(10, 3_000));
    set("pool", stream.below(3));
}

/// Reads among the commands, proofs asked of members, and reads at the heels of an outcome, in thousandths.
fn reads(scenario: &mut Scenario, [stream, other]: [&mut Stream; 2]) {
    let mut set = |name: &str, share: u64| {
        scenario.options.insert(name.to_owned(), i64::try_from(share).unwrap_or(0));
    };
    for (name, least, most) in [("reads", 50, 700), ("proofs", 10, 300)] {
        let (share, some) = (stream.log_uniform(least, most), stream.chance(600_000));
        if some {
            set(name, share);
        }
    }
    if other.chance(700_000) {
        set("heels", other.log_uniform(200, 1_000));
    }
}

/// Sometimes checkpoints come so often and so little is kept that who lags needs a state.
fn short_logs(scenario: &mut Scenario, stream: &mut Stream) {
    let (every, retained) = (stream.between(4, 16), stream.between(4, 8));
    if stream.chance(300_000) {
        for (name, value) in [("checkpoint_every", every), ("retain_blocks", retained)] {
            scenario.options.insert(name.to_owned(), i64::try_from(value).unwrap_or(i64::MAX));
        }
    }
}

/// Byzantine members lie from the start or from a drawn time, most of them for ever; guests crash too.
fn spread(scenario: &mut Scenario, stream: &mut Stream) {
    let (nodes, guests) = (u64::from(scenario.nodes), u64::from(scenario.guests));
    for incident in &mut scenario.incidents {
        if incident.family.is_byzantine() && incident.family != Family::ByzAmnesia {
            if stream.chance(600_000) {
                incident.at = Span::ZERO;
            }
            if stream.chance(800_000) {
                incident.lasts = Span::ZERO;
            }
        }
        if incident.family == Family::NodeCrash && stream.chance(150_000) {
            incident.nodes = vec![u32::try_from(nodes + stream.below(guests)).unwrap_or(0)];
        }
        // A fault that hits everybody for seconds leaves nothing to see.
        if matches!(incident.family, Family::NetDelay | Family::NetSpike) {
            incident.amount = incident.amount.clamp(-300_000, 300_000);
        }
    }
    if scenario.latency == Latency::World && stream.chance(500_000) {
        scenario.jitter = Span::millis(1);
    }
    scenario.incidents.sort_by_key(|incident| incident.at);
}

#[cfg(test)]
mod tests {
    use synod_sim::{Family, Incident};

    use super::scenario;
    use crate::strategy::undercuts;
    use crate::token::RunOptions;
    use crate::twins::PAIRS;

    #[test]
    fn twins_are_drawn_for_members_that_count_as_faulty_anyway() {
        let mut pairs = 0;
        for seed in 0..200 {
            let drawn = scenario("hotstuff/chain2", seed, &RunOptions::default()).expect("a system");
            let Some(twin) = drawn.options.get("twin") else { continue };
            let faulty = drawn.incidents.iter().filter(|incident| incident.family.costs_budget());
            assert!(faulty.flat_map(|incident| &incident.nodes).any(|node| i64::from(*node) + 1 == *twin));
            pairs += 1;
        }
        assert!(pairs > 10, "{pairs} pairs of twins");
    }

    #[test]
    fn pairs_that_agree_on_halves_show_each_member_the_same_side() {
        let halves = [vec![0, 1, 2, 2], vec![2, 2, 0, 1]];
        // Digits to base three of the others, by rising id.
        assert_eq!(super::sided(&halves, 0), [1 + 3 * 2 + 9 * 2, 2 + 9]);
        assert_eq!(super::sided(&halves, 3), [3 + 9 * 2, 2 + 3 * 2]);
    }

    #[test]
    fn where_a_liar_withholds_votes_correct_members_are_often_away() {
        let (mut liars, mut away) = (0, 0);
        for seed in 0..300 {
            let drawn = scenario("hotstuff/chain2", seed, &RunOptions::default()).expect("a system");
            let lies = |incident: &&Incident| undercuts(incident.family, incident.amount.unsigned_abs());
            let Some(liar) = drawn.incidents.iter().find(lies) else { continue };
            let long = |incident: &&Incident| {
                let paused = incident.family == Family::NodePause && incident.nodes != liar.nodes;
                paused && incident.lasts.0 >= drawn.horizon.0 / 4
            };
            liars += 1;
            away += u32::from(drawn.incidents.iter().any(|incident| long(&incident)));
        }
        assert!(liars > 60 && away * 10 > liars * 7, "{away} of {liars}");
    }

    #[test]
    fn where_somebody_lies_a_member_is_sometimes_left_behind_what_is_kept() {
        let is_behind = |seed| {
            let drawn = scenario("hotstuff/basic", seed, &RunOptions::default()).expect("a system");
            let long = |incident: &Incident| {
                incident.family == Family::NodePause && incident.lasts.0 >= drawn.horizon.0 / 3
            };
            drawn.options.get("checkpoint_every") == Some(&4)
                && drawn.requests >= 60
                && drawn.incidents.iter().any(long)
        };
        let behind = (0..300).filter(|seed| is_behind(*seed)).count();
        assert!((15..90).contains(&behind), "{behind} of 300");
    }

    #[test]
    fn over_the_budget_there_are_several_pairs() {
        let over = RunOptions { over_budget: true, ..RunOptions::default() };
        let pairs = |options: &RunOptions| {
            let drawn = (0..100).map(|seed| scenario("hotstuff/basic", seed, options).expect("a system"));
            drawn.filter(|of| PAIRS[..2].iter().all(|pair| of.options.contains_key(*pair))).count()
        };
        assert!(pairs(&over) > 5 && pairs(&over) > 4 * pairs(&RunOptions::default()), "{}", pairs(&over));
    }
}

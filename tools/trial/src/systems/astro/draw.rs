//! Drawing scenarios: sizes, parameters, workload, and faults within the budget. It knows nothing of any planted bug.

use synod_machine::Span;
use synod_sim::{Crypto, Draws, Family, Incident, Mode, Scenario, Stream, Swarm};

use super::names;
use crate::oracle::faults;
use crate::token::{Disk, RunOptions};

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
    Family::DiskTorn,
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
    Family::ByzCollude,
    Family::ByzCrash,
    Family::ByzBatches,
    Family::ByzSync,
];

/// Lies in the words of the protocol.
const OWN: &[Family] = &[
    Family::ByzEquivocate,
    Family::ByzAcks,
    Family::ByzForge,
    Family::ByzShave,
    Family::ByzCollude,
    Family::ByzBatches,
    Family::ByzSync,
];

/// Families that only a disk of blocks knows.
const BLOCKS: &[Family] = &[Family::DiskFull, Family::DiskMisdirect];

/// Families that only links without connections know.
const DATAGRAMS: &[Family] = &[Family::NetLoss, Family::NetDup, Family::NetReorder];

/// The scenario of a seed.
///
/// # Errors
/// The system is unknown, or has no twins.
pub fn scenario(system: &str, seed: u64, options: &RunOptions) -> Result<Scenario, String> {
    if !names::is(system) {
        return Err(format!("no system is called {system}"));
    }
    if options.twins {
        return Err(format!("{system} has no scripts of twins"));
    }
    let draws = Draws::new(seed);
    let mut stream = draws.stream("astro", 0);
    let drawn = *stream.pick(&[4, 4, 4, 5, 7]).unwrap_or(&4);
    let members = options.nodes.unwrap_or(drawn).clamp(2, 12);
    let shards = shards(system, &mut draws.stream("astro", 6));
    let crew = crew(&mut draws.stream("astro", 9));
    let changes = system == names::VIEWS;
    let (nodes, shard) = if changes { (crew.0 + crew.1, 4) } else { (members * shards, members) };
    let drawn = if draws.stream("astro", 1).chance(100_000) { Disk::Blocks } else { Disk::Records };
    let blocks = options.disk.unwrap_or(drawn) == Disk::Blocks;
    let mode = if stream.chance(250_000) { Mode::Datagram } else { Mode::Connection };
    let horizon = Span(stream.log_uniform(Span::secs(2).0, Span::secs(16).0));
    let mut families = FAMILIES.to_vec();
    families.extend(if blocks { BLOCKS } else { &[] });
    families.extend(if mode == Mode::Datagram { DATAGRAMS } else { &[] });
    // Lies of its own need a member's view of one shard.
    families.retain(|family| shards == 1 && !changes || !OWN.contains(family));
    let swarm = Swarm {
        system: system.to_owned(),
        nodes,
        guests: 0,
        requests: u32::try_from(stream.log_uniform(20, 160)).unwrap_or(20),
        // With members that come and go nothing is promised beyond the budget.
        faulty_max: faults(shard) + u32::from(options.over_budget && !changes),
        horizon,
        mode,
        families,
        incidents_max: 5,
    };
    let mut scenario = swarm.scenario(seed);
    if let Some(crypto) = options.crypto {
        scenario.crypto = crypto;
    }
    if scenario.crypto == Crypto::Real {
        scenario.requests = scenario.requests.min(40);
    }
    numbers(&mut scenario, &mut draws.stream("astro", 2));
    let mut set = |key: &str, value: u64| {
        scenario.options.insert(key.to_owned(), i64::try_from(value).unwrap_or(i64::MAX));
    };
    if shards > 1 {
        set("shards", u64::from(shards));
    }
    set("blocks", u64::from(blocks));
    set("safety_only", u64::from(options.safety_only));
    set("over", u64::from(options.over_budget));
    spread(&mut scenario, &mut draws.stream("astro", 3));
    owners(&mut scenario, &mut draws.stream("astro", 4));
    funded(&mut scenario, &draws);
    if changes {
        scenario.options.insert("founders".to_owned(), i64::from(crew.0));
        scenario.options.insert("leaving".to_owned(), i64::from(crew.2));
    }
    Ok(scenario)
}

/// What `astro/ii-f` alone has: cuts, witnesses, wallets.
fn funded(scenario: &mut Scenario, draws: &Draws) {
    let is_funded = scenario.system == "astro/ii-f";
    let nodes = scenario.nodes;
    let mut set = |key: &str, value: u64| {
        scenario.options.insert(key.to_owned(), i64::try_from(value).unwrap_or(0));
    };
    // Cuts in most runs, often enough that some count what is under way.
    let mut cuts = draws.stream("astro", 5);
    let every = if cuts.chance(800_000) { cuts.log_uniform(100, 3_000) } else { 0 };
    set("checkpoint_ms", if is_funded { every } else { 0 });
    // In some runs members take each other's word on what owners signed.
    let mut words = draws.stream("astro", 7);
    if is_funded && words.chance(400_000) {
        set("witness", words.between(1, 3));
    }
    // Owners with wallets, where several members may carry what they sign.
    let mut purses = draws.stream("astro", 8);
    if is_funded && purses.chance(500_000) {
        set("purses", purses.below(1 << nodes));
    }
}

/// Founders, nodes that join, and which founders leave, one bit each. One leaves where four are left without any that join.
fn crew(stream: &mut Stream) -> (u32, u32, u32) {
    let founders = *stream.pick(&[4, 4, 5]).unwrap_or(&4);
    let joins = *stream.pick(&[1, 2, 2, 3]).unwrap_or(&1);
    let leaves = founders > 4 && stream.chance(700_000);
    let who = u32::try_from(stream.below(u64::from(founders))).unwrap_or(0);
    (founders, joins, u32::from(leaves) << who)
}

/// Shards of a system.
fn shards(system: &str, stream: &mut Stream) -> u32 {
    match system == names::SHARDS {
        true => *stream.pick(&[2, 2, 2, 3, 4]).unwrap_or(&2),
        false => 1,
    }
}

/// Draws parameters and workload.
fn numbers(scenario: &mut Scenario, stream: &mut Stream) {
    let far = scenario.latency.largest().0 / 1_000_000;
    let mut set = |key: &str, value: u64| {
        scenario.options.insert(key.to_owned(), i64::try_from(value).unwrap_or(i64::MAX));
    };
    if scenario.system == "astro/i" {
        set("unfunded_max", stream.log_uniform(4, 64));
    }
    set("customers", stream.between(1, 3));
    set("owners", stream.between(1, 3));
    set("burst", stream.log_uniform(1, 16));
    set("batch_max", stream.log_uniform(1, 16));
    set("batch_bytes", stream.log_uniform(4 << 10, 32 << 10));
    set("batch_wait_ms", stream.log_uniform(1, 50));
    set("window", stream.log_uniform(2, 32));
    set("lane_window", stream.log_uniform(1, 16));
    set("retain", stream.log_uniform(256, 1_024));
    set("frontier_ms", stream.log_uniform(20, 300));
    let pull = stream.log_uniform(20, 300) + 2 * far;
    set("pull_ms", pull);
    set("pull_max_ms", pull * stream.between(1, 8));
    let resend = stream.log_uniform(50, 600) + 3 * far;
    set("resend_ms", resend);
    set("resend_max_ms", resend * stream.between(1, 8));
}

/// Byzantine members lie from the start or from a drawn time, most of them for ever; no fault hits everybody for seconds.
fn spread(scenario: &mut Scenario, stream: &mut Stream) {
    for incident in &mut scenario.incidents {
        if incident.family.is_byzantine() && incident.family != Family::ByzAmnesia {
            lasting(incident, stream);
        }
        if matches!(incident.family, Family::NetDelay | Family::NetSpike) {
            incident.amount = incident.amount.clamp(-300_000, 300_000);
        }
        if incident.family == Family::ByzFlood {
            incident.amount = 1 + incident.amount % 8;
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

/// Owners who sign two entries for one place: often one of an institution whose member lies, sometimes one of another.
fn owners(scenario: &mut Scenario, stream: &mut Stream) {
    let mut lying = 0_u64;
    for member in 0..scenario.nodes {
        let lies = |incident: &Incident| incident.family.is_byzantine() && incident.nodes == [member];
        let share = if scenario.incidents.iter().any(lies) { 700_000 } else { 150_000 };
        if stream.chance(share) {
            lying |= 1 << member;
        }
    }
    scenario.options.insert("lying".to_owned(), i64::try_from(lying).unwrap_or(0));
}

#[cfg(test)]
mod tests {
    use synod_sim::Family;

    use super::scenario;
    use crate::token::RunOptions;

    #[test]
    fn members_beyond_the_budget_are_never_faulty_and_every_size_is_drawn() {
        let mut sizes = std::collections::BTreeSet::new();
        for seed in 0..200 {
            let drawn = scenario("astro/ii-f", seed, &RunOptions::default()).expect("a system");
            let costly = drawn.incidents.iter().filter(|incident| incident.family.costs_budget());
            let faulty: std::collections::BTreeSet<u32> =
                costly.flat_map(|incident| incident.nodes.clone()).collect();
            assert!(
                faulty.len() <= usize::from(drawn.nodes > 3) + usize::from(drawn.nodes > 6),
                "seed {seed}"
            );
            sizes.insert(drawn.nodes);
        }
        assert_eq!(sizes.into_iter().collect::<Vec<_>>(), [4, 5, 7]);
    }

    #[test]
    fn whoever_leaves_leaves_four_founders_behind_and_one_member_at_most_is_faulty() {
        let mut leaves = 0;
        for seed in 0..200 {
            let drawn = scenario("astro/views", seed, &RunOptions::default()).expect("a system");
            let of = |key: &str| drawn.options.get(key).copied().unwrap_or(0);
            let stay = of("founders") - i64::from(of("leaving").count_ones());
            assert!(stay >= 4 && i64::from(drawn.nodes) > of("founders"), "seed {seed}");
            let costly = drawn.incidents.iter().filter(|incident| incident.family.costs_budget());
            let faulty: std::collections::BTreeSet<u32> =
                costly.flat_map(|incident| incident.nodes.clone()).collect();
            assert!(faulty.len() <= 1, "seed {seed}");
            leaves += of("leaving").count_ones();
        }
        assert!(leaves > 20, "{leaves}");
    }

    #[test]
    fn owners_lie_more_often_where_their_member_does() {
        let (mut with, mut without) = ((0, 0), (0, 0));
        for seed in 0..300 {
            let drawn = scenario("astro/ii-f", seed, &RunOptions::default()).expect("a system");
            let lying = drawn.options.get("lying").copied().unwrap_or(0);
            for member in 0..drawn.nodes {
                let colludes = drawn.incidents.iter().any(|incident| {
                    incident.family.is_byzantine()
                        && incident.family != Family::ByzCrash
                        && incident.nodes == [member]
                });
                let of = if colludes { &mut with } else { &mut without };
                *of = (of.0 + (lying >> member & 1), of.1 + 1);
            }
        }
        assert!(with.0 * 100 > with.1 * 55 && without.0 * 100 < without.1 * 35, "{with:?} {without:?}");
    }
}

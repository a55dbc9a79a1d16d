//! Twins of servers (B5): two nodes with one server's key, and every way to join them to the others, round by round.
//!
//! *A round* says of each of the three other servers, of both brokers and of the sequencer, where there is one, whom it speaks
//! with: the first twin, the second, or both. The others speak with each other as ever. A round lasts 150 ms of virtual time,
//! in which a batch is witnessed and ordered; behind the last one its joins stay until the network is whole.
//!
//! *Symmetry.* The three servers may change places, the brokers may, and the twins may: 24 ways to rename, each applied to all
//! rounds at once. Scripts that become one another are one, and the least of them is canonical.
//!
//! *An index is a script.* Three of four indices go through all scripts of one round, then of two; the fourth draws one of three
//! to eight rounds, and so do all indices behind the last script of two rounds. When the rounds are over the twins are left out,
//! and every client's broadcasts and two more of each are due, as behind every drawn run.

use std::sync::LazyLock;

use synod_machine::Span;
use synod_quorum::NodeId;
use synod_sim::{Draws, Family, Incident, Scenario, Twins};

use super::names::SYSTEMS;
use super::plan::{ORDERER, Roles};
use crate::params::number;
use crate::twins::Script;

/// Servers of a script.
const MEMBERS: u32 = 4;
/// Brokers.
const BROKERS: u32 = 2;
/// Clients.
const CLIENTS: u32 = 4;
/// Length of a round.
const ROUND: Span = Span::millis(150);
/// Most rounds.
const ROUNDS_MAX: u64 = 8;
/// The wall clock of the second twin is ahead by this.
const AHEAD_MS: i64 = 7;
/// A prime that divides no number of scripts of two rounds.
const STEP: usize = 1_000_003;

/// Who speaks with whom in a round: a digit to base three for each of the others.
type Code = u16;

/// Whether twins are among the nodes of a scenario.
#[must_use]
pub fn is_script(scenario: &Scenario) -> bool {
    scenario.options.contains_key("round_00")
}

/// Ways to rename: where each place goes, and whether the twins change theirs.
fn renamings(places: usize) -> Vec<(Vec<usize>, bool)> {
    let servers = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    let mut all = Vec::new();
    for of_servers in servers {
        for of_brokers in [[3, 4], [4, 3]] {
            let to: Vec<usize> = of_servers.into_iter().chain(of_brokers).chain(5..places).collect();
            all.extend([(to.clone(), false), (to, true)]);
        }
    }
    all
}

fn digits(code: Code, places: usize) -> Vec<u8> {
    let mut left = code;
    let mut next = || {
        let digit = left % 3;
        left /= 3;
        u8::try_from(digit).unwrap_or(0)
    };
    (0..places).map(|_| next()).collect()
}

/// All scripts of one and of two rounds, and what each renaming makes of each round.
struct Tables {
    made: Vec<Vec<Code>>,
    short: [Vec<Vec<Code>>; 2],
}

impl Tables {
    fn new(places: usize) -> Self {
        let codes = (0..places).fold(1, |codes: Code, _| codes * 3);
        let made = |(to, exchange): (Vec<usize>, bool)| {
            let renamed = |code| {
                let mut out = vec![0_u8; places];
                for (digit, to) in digits(code, places).into_iter().zip(&to) {
                    out[*to] = if exchange && digit < 2 { 1 - digit } else { digit };
                }
                out.iter().rev().fold(0, |code, digit| code * 3 + Code::from(*digit))
            };
            (0..codes).map(renamed).collect()
        };
        let mut tables =
            Self { made: renamings(places).into_iter().map(made).collect(), short: [Vec::new(), Vec::new()] };
        let is_canonical = |tables: &Self, script: &Vec<Code>| tables.canonical(script) == *script;
        let one: Vec<Vec<Code>> =
            (0..codes).map(|code| vec![code]).filter(|s| is_canonical(&tables, s)).collect();
        // The first round of a canonical script is canonical.
        let both = |first: &Vec<Code>| (0..codes).map(|code| vec![first[0], code]).collect::<Vec<_>>();
        let two = one.iter().flat_map(both).filter(|s| is_canonical(&tables, s)).collect();
        tables.short = [one, two];
        tables
    }

    fn canonical(&self, script: &[Code]) -> Vec<Code> {
        let renamed =
            |made: &Vec<Code>| script.iter().map(|code| made[usize::from(*code)]).collect::<Vec<_>>();
        self.made.iter().map(renamed).min().unwrap_or_default()
    }

    fn script(&self, index: u64) -> (Vec<Code>, bool) {
        if index % 4 != 3 {
            let rank = usize::try_from(index / 4 * 3 + index % 4).unwrap_or(usize::MAX);
            let [one, two] = &self.short;
            if let Some(script) = one.get(rank) {
                return (script.clone(), true);
            }
            let rank = rank - one.len();
            if rank < two.len() {
                // In leaps, so that any stretch of indices holds scripts of all sorts.
                return (two[rank * STEP % two.len()].clone(), true);
            }
        }
        let mut stream = Draws::new(index).stream("twins", 1);
        let rounds = stream.between(3, ROUNDS_MAX);
        let codes = self.made.first().map_or(1, Vec::len) as u64;
        let drawn: Vec<Code> =
            (0..rounds).map(|_| Code::try_from(stream.below(codes)).unwrap_or(0)).collect();
        (self.canonical(&drawn), false)
    }
}

static OVER_IDEAL: LazyLock<Tables> = LazyLock::new(|| Tables::new(6));
static OVER_HOTSTUFF: LazyLock<Tables> = LazyLock::new(|| Tables::new(5));

fn tables(system: &str) -> &'static Tables {
    if system == SYSTEMS[0] { &OVER_IDEAL } else { &OVER_HOTSTUFF }
}

/// The script of an index, its rounds as bytes.
#[must_use]
pub fn script(system: &str, index: u64) -> Script {
    let (rounds, enumerated) = tables(system).script(index);
    Script { rounds: rounds.into_iter().flat_map(Code::to_le_bytes).collect(), enumerated }
}

/// The scenario of an index: which server the pair is, and the numbers of a run, are drawn beside the script.
#[must_use]
pub fn scenario(system: &str, index: u64) -> Scenario {
    let mut scenario = Scenario::quiet(system, index);
    let mut stream = Draws::new(index).stream("twins", 0);
    let (rounds, _) = tables(system).script(index);
    scenario.nodes = MEMBERS;
    scenario.guests = BROKERS + CLIENTS;
    scenario.requests = 12 * u32::try_from(rounds.len()).unwrap_or(1);
    scenario.horizon = Span(ROUND.0 * rounds.len() as u64);
    let mut set = |key: &str, value: u64| {
        scenario.options.insert(key.to_owned(), i64::try_from(value).unwrap_or(i64::MAX));
    };
    for (key, value) in [
        ("twin", 1 + stream.below(u64::from(MEMBERS))),
        ("brokers", u64::from(BROKERS)),
        ("newcomers", stream.below(2)),
        ("datagrams", 0),
        ("checkpoint_every", stream.between(2, 12)),
        ("batch_max", 8),
        ("horizon", stream.log_uniform(8, 200)),
        ("retain_bytes", stream.log_uniform(4 << 10, 64 << 10)),
        ("window_min_ms", 2),
        ("window_max_ms", 10),
        ("distil_min", 2),
        ("distil_max_ms", 20),
        ("submit_ms", 300),
        ("submit_max_ms", 900),
        ("retransmit_ms", 40),
        ("pull_patience_ms", 40),
        ("directory_wait_ms", 100),
        ("burst", 4),
        ("app", stream.below(3)),
        ("timeout_base_ms", stream.between(20, 60)),
        ("timeout_max_ms", 400),
        ("reputation", 0),
        ("sync_floor_us", 100),
        ("sync_mean_us", 100),
    ] {
        set(key, value);
    }
    for (round, code) in rounds.iter().enumerate() {
        set(&format!("round_{round:02}"), u64::from(*code));
    }
    let sequencer = u32::from(system == SYSTEMS[0]);
    scenario.incidents.push(Incident {
        id: 1,
        family: Family::ClockOffset,
        at: Span::ZERO,
        lasts: Span(2 * scenario.horizon.0),
        nodes: vec![MEMBERS + scenario.guests + sequencer],
        amount: AHEAD_MS,
    });
    scenario
}

/// The server that is two, if one is.
#[must_use]
pub(super) fn pair(of: &Scenario) -> Option<u32> {
    u32::try_from(number(of, "twin", 0)).ok()?.checked_sub(1)
}

/// Whom the twins of a scenario speak with.
#[must_use]
pub(super) fn joins(of: &Scenario, roles: &Roles) -> Option<Twins> {
    let pair = pair(of)?;
    let servers = (0..roles.servers).filter(|id| *id != pair).map(NodeId);
    let others: Vec<NodeId> = servers.chain(roles.brokers()).chain([ORDERER]).collect();
    let keys = (0..).map(|round| format!("round_{round:02}"));
    let mask = |key: String| {
        let code = Code::try_from(number(of, &key, 0)).unwrap_or(0);
        let side = |without: u8| {
            let joined = digits(code, others.len()).into_iter().zip(&others);
            joined.filter(|(digit, _)| *digit != without).map(|(_, id)| *id).collect()
        };
        [side(1), side(0)]
    };
    let masks = keys.take_while(|key| of.options.contains_key(key)).map(mask).collect();
    Some(Twins { id: NodeId(pair), round: ROUND, masks, again: false, matched: false })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use synod_quorum::NodeId;

    use super::{STEP, Tables, joins, scenario, script, tables};
    use crate::systems::chopchop::SYSTEMS;
    use crate::systems::chopchop::plan::{BROKERS, ORDERER, Roles};

    #[test]
    fn short_scripts_are_the_orbits_of_all() {
        for places in [5, 6] {
            let tables = Tables::new(places);
            let codes = u16::try_from(3_usize.pow(u32::try_from(places).expect("few"))).expect("few");
            let orbits: BTreeSet<Vec<u16>> = (0..codes).map(|code| tables.canonical(&[code])).collect();
            let [one, two] = &tables.short;
            assert_eq!(orbits.into_iter().collect::<Vec<_>>(), *one);
            assert!(two.len() > usize::from(codes) * usize::from(codes) / 24);
            let drawn = [[7, 80], [200, 3], [81, 81]].map(|script| tables.canonical(&script));
            assert!(drawn.iter().all(|script| two.contains(script) && tables.canonical(script) == *script));
            let (mut a, mut b) = (two.len(), STEP);
            while b != 0 {
                (a, b) = (b, a % b);
            }
            assert_eq!(a, 1, "steps miss no script");
        }
    }

    #[test]
    fn an_index_is_one_script_and_none_of_the_first_come_twice() {
        for system in SYSTEMS {
            let one = tables(system).short[0].len() as u64;
            let first = (0..2 * one).map(|index| script(system, index)).filter(|s| s.enumerated);
            let first: Vec<Vec<u8>> = first.map(|script| script.rounds).collect();
            assert_eq!(first.iter().collect::<BTreeSet<_>>().len(), first.len());
            assert!(!script(system, 3).enumerated && !script(system, u64::MAX - 4).enumerated);
            assert_eq!(scenario(system, 77), scenario(system, 77));
        }
    }

    #[test]
    fn digits_say_who_speaks_with_which_twin() {
        let mut of = scenario(SYSTEMS[0], 0);
        of.options.retain(|key, _| !key.starts_with("round_"));
        // Of the others the first hears the second twin, the second both, everybody else the first.
        for (key, value) in [("twin", 2), ("round_00", 1 + 2 * 3)] {
            of.options.insert(key.to_owned(), value);
        }
        let roles = Roles::of(&of).expect("a scenario");
        let joins = joins(&of, &roles).expect("a pair");
        let ids = |all: &[u32]| all.iter().copied().map(NodeId).collect::<Vec<_>>();
        assert_eq!((joins.id, joins.masks.len()), (NodeId(1), 1));
        assert_eq!(joins.masks[0][0], ids(&[2, 3, BROKERS, BROKERS + 1, ORDERER.0]));
        assert_eq!(joins.masks[0][1], ids(&[0, 2]));
    }
}

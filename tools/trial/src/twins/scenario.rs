//! From an index to a script, and from a script to a scenario.

use std::sync::LazyLock;

use synod_machine::Span;
use synod_sim::{Draws, Family, Incident, Mode, Scenario};

use super::{MEMBERS, ROUNDS_MAX, ROUNDS_WHOLE, orbits};
use crate::params::number;

/// Longest time a script is played, in milliseconds of virtual time; what is not over then is cut short.
const LONGEST_MS: u64 = 8_000;
/// The wall clock of the second twin is ahead by this, so that the blocks of the two differ.
const AHEAD_MS: i64 = 7;
/// A prime that divides no number of scripts: steps of it, modulo such a number, visit all of them.
const STEP: u128 = 1_000_000_007;

/// A script by its index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// The codes of its rounds, canonical; two bytes each where they are pairs of servers of Chop Chop.
    pub rounds: Vec<u8>,
    /// Whether it is one of those that are enumerated, or drawn.
    pub enumerated: bool,
}

/// How many scripts of at most [`ROUNDS_WHOLE`] rounds there are.
pub static EXHAUSTIVE: LazyLock<u128> = LazyLock::new(|| (1..=ROUNDS_WHOLE).map(orbits::count).sum());

/// The script of an index.
#[must_use]
pub fn script(index: u64) -> Script {
    if index % 4 != 3 {
        let mut rank = u128::from(index / 4 * 3 + index % 4);
        for rounds in 1..=ROUNDS_WHOLE {
            let many = orbits::count(rounds);
            if rank < many {
                // In leaps, so that any stretch of indices holds scripts of all sorts.
                let rounds = orbits::unrank(rounds, rank * STEP % many).unwrap_or_default();
                return Script { rounds, enumerated: true };
            }
            rank -= many;
        }
    }
    let mut stream = Draws::new(index).stream("twins", 1);
    let rounds = stream.between(u64::from(ROUNDS_WHOLE) + 1, ROUNDS_MAX);
    let drawn: Vec<u8> =
        (0..rounds).map(|_| u8::try_from(stream.below(orbits::ROUNDS as u64)).unwrap_or(0)).collect();
    Script { rounds: orbits::canonical(&drawn), enumerated: false }
}

/// The scenario of an index: which member the pair is, and the timeouts, are drawn beside the script.
#[must_use]
pub fn scenario(system: &str, index: u64) -> Scenario {
    let mut scenario = Scenario::quiet(system, index);
    let mut stream = Draws::new(index).stream("twins", 0);
    scenario.nodes = MEMBERS;
    scenario.guests = 1;
    scenario.requests = 0;
    scenario.horizon = Span::millis(LONGEST_MS);
    // What the masks keep back is lost, as datagrams are; connections lose suffixes only.
    scenario.mode = Mode::Datagram;
    let mut set = |key: &str, value: u64| {
        scenario.options.insert(key.to_owned(), i64::try_from(value).unwrap_or(i64::MAX));
    };
    set("twin", 1 + stream.below(u64::from(MEMBERS)));
    set("timeout_base_ms", stream.between(20, 60));
    set("timeout_max_ms", 120);
    set("term_views", 1);
    set("reputation", 0);
    set("block_items", 1);
    set("send_all", 1);
    set("sync_floor_us", 100);
    set("sync_mean_us", 100);
    for (round, code) in script(index).rounds.iter().enumerate() {
        set(&format!("round_{round:02}"), u64::from(*code));
    }
    scenario.incidents.push(Incident {
        id: 1,
        family: Family::ClockOffset,
        at: Span::ZERO,
        lasts: Span::millis(2 * LONGEST_MS),
        nodes: vec![MEMBERS + scenario.guests],
        amount: AHEAD_MS,
    });
    scenario
}

/// Whether a scenario is played by a script.
#[must_use]
pub fn is_script(scenario: &Scenario) -> bool {
    scenario.options.contains_key("round_00")
}

/// The codes of a scenario's rounds.
pub(super) fn rounds(scenario: &Scenario) -> Vec<u8> {
    let codes = (0..ROUNDS_MAX).map(|round| format!("round_{round:02}"));
    let codes = codes.take_while(|key| scenario.options.contains_key(key));
    codes.map(|key| u8::try_from(number(scenario, &key, 0) % 108).unwrap_or(0)).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn indices_go_through_all_short_scripts_once() {
        let short: Vec<Vec<u8>> = (0..1_442).map(script).filter(|s| s.enumerated).map(|s| s.rounds).collect();
        let unique: BTreeSet<&Vec<u8>> = short.iter().collect();
        assert_eq!(unique.len(), short.len(), "none twice");
        let of = |rounds: usize| short.iter().filter(|script| script.len() == rounds).count() as u128;
        assert_eq!((of(1), of(2)), (orbits::count(1), orbits::count(2)), "all of them");
        assert_eq!(of(3), 1);
    }

    #[test]
    fn steps_miss_no_script() {
        for rounds in 1..=ROUNDS_WHOLE {
            assert_ne!(orbits::count(rounds) % STEP, 0);
            let (mut a, mut b) = (orbits::count(rounds), STEP);
            while b != 0 {
                (a, b) = (b, a % b);
            }
            assert_eq!(a, 1, "{rounds} rounds");
        }
        assert_eq!(*EXHAUSTIVE, 11_471_590);
    }

    #[test]
    fn drawn_scripts_are_longer_and_equal_indices_are_equal_scripts() {
        for index in (3..400).step_by(4) {
            let script = script(index);
            assert!(!script.enumerated && (5..=12).contains(&script.rounds.len()), "index {index}");
            assert_eq!(orbits::canonical(&script.rounds), script.rounds);
        }
        assert_eq!(scenario("hotstuff/chain2", 77), scenario("hotstuff/chain2", 77));
        let far = script(u64::MAX - 4);
        assert!(!far.enumerated, "behind the last one they are drawn");
        assert_eq!(rounds(&scenario("hotstuff/chain2", 3)), script(3).rounds);
    }
}

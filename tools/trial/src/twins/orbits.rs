//! Scripts up to symmetry: how many there are, and which is the k-th.
//!
//! The three members beside the pair may change places, and the twins may: 6 x 2 ways to rename, each applied to all
//! rounds of a script at once. Scripts that become one another are one; of each such orbit the least is canonical,
//! comparing rounds by their codes, first round first.
//!
//! A script is canonical exactly when its first round is the least that the twelve renamings make of it, and the rest is
//! canonical under the renamings that leave the first round as it is. So the number of canonical ways to go on depends
//! only on the renamings that are left, and by the orbit-counting lemma it is the mean, over them, of the number of
//! rounds each leaves alone to the power of the rounds still to come. [`unrank`] walks down these counts.

/// Codes of rounds.
pub const ROUNDS: usize = 108;
/// Renamings.
const RENAMINGS: usize = 12;
/// A set of renamings: bit i is the i-th.
type Renamings = u16;
/// All of them.
const ALL: Renamings = 0xfff;

/// One round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Round {
    /// Who leads: 0 the pair, else which of the three others.
    pub leader: u8,
    /// Whose side each of the others is on: 0 the first twin's, 1 the second's, 2 both.
    pub sides: [u8; 3],
}

impl Round {
    /// The round of a code below [`ROUNDS`].
    #[must_use]
    pub const fn of(code: u8) -> Self {
        Self { leader: code / 27, sides: [code % 3, code / 3 % 3, code / 9 % 3] }
    }

    /// Its code.
    #[must_use]
    pub const fn code(self) -> u8 {
        let [a, b, c] = self.sides;
        27 * self.leader + a + 3 * b + 9 * c
    }

    /// The round after a renaming: others by `places`, the twins exchanged when `exchange`.
    fn renamed(self, places: [u8; 3], exchange: bool) -> Self {
        let mut round = self;
        if let Some(place) = usize::from(self.leader).checked_sub(1).and_then(|at| places.get(at)) {
            round.leader = 1 + place;
        }
        for (place, side) in places.iter().zip(self.sides) {
            let side = if exchange && side < 2 { 1 - side } else { side };
            if let Some(slot) = round.sides.get_mut(usize::from(*place)) {
                *slot = side;
            }
        }
        round
    }
}

/// What each renaming makes of each round, and how many rounds it leaves alone.
struct Tables {
    made: Vec<Vec<u8>>,
    alone: Vec<u128>,
}

impl Tables {
    fn new() -> Self {
        let places = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
        let renamings = places.into_iter().flat_map(|places| [(places, false), (places, true)]);
        let made: Vec<Vec<u8>> = renamings
            .map(|(places, exchange)| {
                codes().map(|code| Round::of(code).renamed(places, exchange).code()).collect()
            })
            .collect();
        let alone = made
            .iter()
            .map(|made: &Vec<u8>| codes().zip(made).filter(|(code, made)| code == *made).count() as u128)
            .collect();
        Self { made, alone }
    }

    fn members(set: Renamings) -> impl Iterator<Item = usize> {
        (0..RENAMINGS).filter(move |at| set >> at & 1 == 1)
    }

    fn makes(&self, renaming: usize, code: u8) -> u8 {
        self.made[renaming][usize::from(code)]
    }

    fn is_least(&self, set: Renamings, code: u8) -> bool {
        Self::members(set).all(|renaming| self.makes(renaming, code) >= code)
    }

    /// The renamings of `set` that leave a round alone.
    fn keep(&self, set: Renamings, code: u8) -> Renamings {
        Self::members(set)
            .filter(|renaming| self.makes(*renaming, code) == code)
            .fold(0, |kept, renaming| kept | 1 << renaming)
    }

    /// Canonical scripts of `rounds` rounds under the renamings of `set`.
    fn count(&self, set: Renamings, rounds: u32) -> u128 {
        let sum: u128 = Self::members(set).map(|renaming| self.alone[renaming].pow(rounds)).sum();
        sum / u128::from(set.count_ones().max(1))
    }
}

fn codes() -> impl Iterator<Item = u8> {
    0..108
}

/// How many canonical scripts of `rounds` rounds, at most 12, there are.
#[must_use]
pub fn count(rounds: u32) -> u128 {
    Tables::new().count(ALL, rounds)
}

/// The `rank`-th canonical script of `rounds` rounds, from 0; `None` behind the last.
#[must_use]
pub fn unrank(rounds: u32, rank: u128) -> Option<Vec<u8>> {
    let tables = Tables::new();
    let (mut left, mut rank, mut script) = (ALL, rank, Vec::new());
    for ahead in (0..rounds).rev() {
        let mut chosen = None;
        for code in codes().filter(|code| tables.is_least(left, *code)) {
            let kept = tables.keep(left, code);
            let many = tables.count(kept, ahead);
            if rank < many {
                chosen = Some((code, kept));
                break;
            }
            rank -= many;
        }
        let (code, kept) = chosen?;
        script.push(code);
        left = kept;
    }
    Some(script)
}

/// The least script that renaming makes of this one. Codes are below [`ROUNDS`].
///
/// # Panics
/// When a code is not.
#[must_use]
pub fn canonical(script: &[u8]) -> Vec<u8> {
    let tables = Tables::new();
    let renamed = |renaming| script.iter().map(|code| tables.makes(renaming, *code)).collect::<Vec<u8>>();
    (0..RENAMINGS).map(renamed).min().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Every script of so many rounds, canonical or not.
    fn every(rounds: u32) -> Vec<Vec<u8>> {
        (0..rounds).fold(vec![Vec::new()], |scripts, _| {
            let longer = |script: &Vec<u8>| {
                let script = script.clone();
                codes().map(move |code| [&script[..], &[code]].concat()).collect::<Vec<_>>()
            };
            scripts.iter().flat_map(longer).collect()
        })
    }

    #[test]
    fn a_round_is_its_code() {
        for code in codes() {
            assert_eq!(Round::of(code).code(), code);
        }
        assert_eq!(codes().count(), ROUNDS);
    }

    #[test]
    fn as_many_scripts_are_counted_as_brute_force_finds_orbits() {
        for (rounds, known) in [(1, 16), (2, 1_065)] {
            let orbits: BTreeSet<Vec<u8>> = every(rounds).iter().map(|script| canonical(script)).collect();
            assert_eq!((orbits.len(), count(rounds)), (known, known as u128), "{rounds} rounds");
        }
        assert_eq!((count(3), count(4)), (106_498, 11_364_011));
    }

    #[test]
    fn ranks_and_canonical_scripts_are_one_to_one() {
        for rounds in [1, 2] {
            let orbits: BTreeSet<Vec<u8>> = every(rounds).iter().map(|script| canonical(script)).collect();
            let ranked: Vec<Vec<u8>> = (0..count(rounds))
                .map(|rank| unrank(rounds, rank).expect("a rank below the count"))
                .collect();
            assert_eq!(ranked.len(), orbits.len());
            assert_eq!(ranked.into_iter().collect::<BTreeSet<_>>(), orbits, "all of them, none twice");
            assert_eq!(unrank(rounds, count(rounds)), None);
        }
        for rank in (0..count(3)).step_by(997) {
            let script = unrank(3, rank).expect("a rank below the count");
            assert_eq!(canonical(&script), script);
        }
    }

    #[test]
    fn renamed_scripts_have_one_canonical_form() {
        let script = [3, 40, 107];
        let renamed: Vec<u8> =
            script.iter().map(|code| Round::of(*code).renamed([2, 0, 1], true).code()).collect();
        assert_ne!(renamed, script);
        assert_eq!(canonical(&renamed), canonical(&script));
    }
}

//! Sums of keys that the next batch of a broker may begin from (section 8.3 Q5).
//!
//! Clients that broadcast again and again make batches whose signers are almost those of the batch before. Then the sum of the
//! keys is the sum of before, plus who came, minus who left. Sums are the store's own, of batches whose pairing held, so they
//! are trusted as far as its adder is: a refusal still rests on the reference path alone.
//!
//! *Finding one.* A sketch of 64 numbers tells sets that are mostly equal from others, and the nearest of them: each slot holds the
//! least hash that falls into it of a sixteenth of the ids, and two sets that differ in a twentieth agree in about nine of ten
//! slots. A sum is begun from another one while fewer keys differ than half of all, for adding all is more work then (the written
//! design says a quarter, and 12 of 16 slots).
//!
//! *Those that are still checked.* A broker has several batches on their way, so the newest finished one may be many batches ago. Each
//! check leaves its sum for those behind it as soon as it has it, before its own pairing: a sum of own keys is right, whoever signed.
//! Which sum is begun from depends on the threads; the sum does not.
//!
//! *Bounds.* Eight sums for each broker, and [`StoreParameters::cohort_bytes`](super::StoreParameters) in all; the sums of
//! the broker that was silent for longest go first. Sums of checks that run live as long as these.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, OnceLock, Weak};

use synod_crypto::bls::{KeyAdder, KeySource, KeySum};
use synod_machine::planted;
use synod_quorum::NodeId;

use crate::bits::low;

/// Slots of a sketch.
const SLOTS: usize = 64;
/// Ids that hash above it are in no sketch: all but a sixteenth.
const SAMPLE: u32 = u32::MAX / 16;
/// Slots that must agree.
const SLOTS_MIN: usize = 32;
/// Sums that are kept for one broker.
const PER_BROKER: usize = 8;
/// Bytes of a cohort beside its ids.
const OVERHEAD: u64 = 512;

/// The signers of a batch whose signature held, and the sum of their keys.
#[derive(Debug)]
pub struct Cohort {
    ids: Arc<[u32]>,
    sketch: [u32; SLOTS],
    sum: KeySum,
    /// Whether it was begun from another one.
    near: bool,
}

/// The least hash in each slot, of a sixteenth of the ids: which sixteenth depends on them alone.
fn sketch(ids: &[u32]) -> [u32; SLOTS] {
    let mut least = [u32::MAX; SLOTS];
    for id in ids {
        if id.wrapping_mul(0x9e37_79b1) > SAMPLE {
            continue;
        }
        let mixed = (u64::from(*id) ^ 0x5bd1_e995).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let hash = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let [slot, ..] = (hash >> 58).to_le_bytes();
        if let Some(slot) = least.get_mut(usize::from(slot)) {
            *slot = (*slot).min(low(hash));
        }
    }
    least
}

/// Who is only in `after`, and who is only in `before`, both rising strictly; nothing when they are `most` or more.
fn difference(before: &[u32], after: &[u32], most: usize) -> Option<[Vec<u32>; 2]> {
    let (mut came, mut left) = (Vec::new(), Vec::new());
    let (mut old, mut new) = (before, after);
    while let (Some((a, old_rest)), Some((b, new_rest))) = (old.split_first(), new.split_first()) {
        match a.cmp(b) {
            core::cmp::Ordering::Equal => (old, new) = (old_rest, new_rest),
            core::cmp::Ordering::Less => {
                left.push(*a);
                old = old_rest;
            }
            core::cmp::Ordering::Greater => {
                came.push(*b);
                new = new_rest;
            }
        }
        if came.len() + left.len() >= most {
            return None;
        }
    }
    left.extend_from_slice(old);
    came.extend_from_slice(new);
    (came.len() + left.len() < most).then_some([came, left])
}

/// The sum of a check, once it has it.
type Running = OnceLock<Arc<Cohort>>;

/// Sums that a check may begin from, and where it leaves its own.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// Of batches whose signature held.
    held: Vec<Arc<Cohort>>,
    /// Of checks that were begun before.
    begun: Vec<Arc<Running>>,
    own: Arc<Running>,
}

impl Known {
    /// The newest [`PER_BROKER`] that are known by now, oldest first.
    fn all(&self) -> Vec<Arc<Cohort>> {
        let begun: Vec<&Arc<Cohort>> = self.begun.iter().filter_map(|running| running.get()).collect();
        let older = |held: &&Arc<Cohort>| !begun.iter().any(|one| Arc::ptr_eq(one, held));
        let room = PER_BROKER.saturating_sub(begun.len());
        let held: Vec<&Arc<Cohort>> = self.held.iter().rev().filter(older).take(room).collect();
        held.into_iter().rev().chain(begun).cloned().collect()
    }

    /// [`Cohort::add_up`] from what is known by now; those behind begin from the sum.
    pub(super) fn add_up<S: KeySource>(
        &self,
        ids: Arc<[u32]>,
        source: &S,
        adder: &mut KeyAdder<'_>,
    ) -> Option<Arc<Cohort>> {
        let (cohort, _) = Cohort::add_up(ids, &self.all(), source, adder)?;
        Some(Arc::clone(self.own.get_or_init(|| Arc::new(cohort))))
    }
}

impl Cohort {
    /// The sum of the keys of `ids`, from one of `known` where its signers are almost the same; whether it was. Nothing when
    /// an id has no key.
    pub(super) fn add_up<S: KeySource>(
        ids: Arc<[u32]>,
        known: &[Arc<Self>],
        source: &S,
        adder: &mut KeyAdder<'_>,
    ) -> Option<(Self, bool)> {
        let sketch = sketch(&ids);
        let agreeing = |cohort: &Self| cohort.sketch.iter().zip(&sketch).filter(|(a, b)| a == b).count();
        let best = known.iter().max_by_key(|cohort| agreeing(cohort));
        let near = best.filter(|cohort| agreeing(cohort) >= SLOTS_MIN);
        let found = near.and_then(|near| Some((near, difference(&near.ids, &ids, ids.len() / 2)?)));
        let Some((near, [came, left])) = found else {
            let sum = adder.sum(source, &ids)?;
            return Some((Self { ids, sketch, sum, near: false }, false));
        };
        let mut sum = near.sum;
        sum.add(&adder.sum(source, &came)?);
        let left = if planted!(C25) { Vec::new() } else { left };
        sum.subtract(&adder.sum(source, &left)?);
        Some((Self { ids, sketch, sum, near: true }, true))
    }

    /// The sum of the keys.
    pub(super) const fn sum(&self) -> KeySum {
        self.sum
    }

    /// Whether the sum was begun from that of another batch.
    pub(super) const fn is_near(&self) -> bool {
        self.near
    }

    /// The signers, rising.
    pub(super) fn ids(&self) -> &[u32] {
        &self.ids
    }

    fn bytes(&self) -> u64 {
        OVERHEAD + 4 * self.ids.len() as u64
    }
}

/// Cohorts by broker.
#[derive(Debug, Default)]
pub(super) struct Cohorts {
    by_broker: BTreeMap<NodeId, (u64, VecDeque<Arc<Cohort>>)>,
    /// Checks that were begun for each broker, at most [`PER_BROKER`]: the sums belong to the jobs.
    begun: BTreeMap<NodeId, VecDeque<Weak<Running>>>,
    clock: u64,
    bytes: u64,
}

impl Cohorts {
    /// Those of a broker, for a check that begins; none where no sum may be kept.
    pub(super) fn begin(&mut self, broker: NodeId, bytes_max: u64) -> Known {
        if bytes_max == 0 {
            return Known::default();
        }
        self.begun.retain(|_, begun| begun.iter().any(|running| running.strong_count() > 0));
        let begun = self.begun.entry(broker).or_default();
        let known = begun.iter().filter_map(Weak::upgrade).collect();
        let own = Arc::new(Running::new());
        begun.push_back(Arc::downgrade(&own));
        if begun.len() > PER_BROKER {
            begun.pop_front();
        }
        Known { held: self.of(broker), begun: known, own }
    }

    /// Those of a broker whose signature held.
    fn of(&self, broker: NodeId) -> Vec<Arc<Cohort>> {
        self.by_broker.get(&broker).map(|(_, known)| known.iter().cloned().collect()).unwrap_or_default()
    }

    /// Remembers the newest one of a broker, within `bytes_max` in all.
    pub(super) fn remember(&mut self, broker: NodeId, cohort: Arc<Cohort>, bytes_max: u64) {
        if cohort.bytes() > bytes_max {
            return;
        }
        self.clock += 1;
        self.bytes += cohort.bytes();
        let (used, known) = self.by_broker.entry(broker).or_default();
        *used = self.clock;
        known.push_back(cohort);
        if known.len() > PER_BROKER {
            let oldest = known.pop_front();
            self.bytes -= oldest.map_or(0, |cohort| cohort.bytes());
        }
        while self.bytes > bytes_max {
            self.forget_one();
        }
    }

    /// Forgets the oldest sum of the broker that was silent for longest.
    fn forget_one(&mut self) {
        let silent = self.by_broker.iter().min_by_key(|(_, (used, _))| *used).map(|(broker, _)| *broker);
        let Some(broker) = silent else { return };
        let Some((_, known)) = self.by_broker.get_mut(&broker) else { return };
        self.bytes -= known.pop_front().map_or(0, |cohort| cohort.bytes());
        if known.is_empty() {
            self.by_broker.remove(&broker);
        }
    }

    /// Bytes held, for memory accounting.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use synod_crypto::bls::{BenchFamily, KeySum};
    use synod_crypto::{Keys, Seed};
    use synod_machine::Rng;
    use synod_quorum::NodeId;

    use super::{Cohort, Cohorts, Known, difference, sketch};
    use crate::keybook::KeyBook;

    const SPACE: u32 = 4_096;

    fn keys() -> Keys {
        Keys::ed25519(&Seed::new([1; 32]), [2; 32])
    }

    fn book() -> KeyBook {
        let all = BenchFamily::new(&Seed::new([6; 32])).keys(0, SPACE);
        KeyBook::repeating(&all, SPACE).expect("whole chunks")
    }

    fn reference(ids: &[u32], book: &KeyBook) -> KeySum {
        keys().bls().sum_keys_one_by_one(ids.iter().map(|id| book.key(*id).expect("a key")))
    }

    /// `ids` with every `step`th exchanged for others that rise in between.
    fn exchanged(ids: &[u32], step: usize) -> Vec<u32> {
        let other = |(at, id): (usize, &u32)| if at % step == 0 { id + 1 } else { *id };
        ids.iter().enumerate().map(other).collect()
    }

    #[test]
    fn differences_are_told_apart_and_large_ones_given_up() {
        assert_eq!(difference(&[1, 3, 5], &[0, 3, 4, 9], 9), Some([vec![0, 4, 9], vec![1, 5]]));
        assert_eq!(difference(&[1, 3, 5], &[0, 3, 4, 9], 5), None);
        assert_eq!(difference(&[], &[7], 2), Some([vec![7], vec![]]));
        assert_eq!(difference(&[7, 8], &[], 2), None);
        assert_eq!(difference(&[2, 3], &[2, 3], 1), Some([vec![], vec![]]));
    }

    #[test]
    fn a_sum_from_the_batch_before_is_the_sum_of_all_keys() {
        let (keys, book) = (keys(), book());
        let (mut adder, mut rng) = (keys.key_adder(), Rng::new(7, NodeId(0), 3));
        let mut ids: Vec<u32> = (0..SPACE).step_by(2).collect();
        let mut known = Vec::new();
        for turn in 0..12 {
            let (cohort, near) =
                Cohort::add_up(ids.as_slice().into(), &known, &book, &mut adder).expect("every id has a key");
            assert_eq!(cohort.sum(), reference(&ids, &book), "turn {turn}");
            assert_eq!(near, turn > 0, "the one before is found at turn {turn}");
            known.push(Arc::new(cohort));
            // Some leave, some come, some neighbours are exchanged.
            ids.retain(|_| rng.below(40) > 0);
            ids.extend((0..SPACE).filter(|_| rng.below(90) == 0));
            ids.sort_unstable();
            ids.dedup();
        }
    }

    #[test]
    fn a_check_begins_from_those_before_it_though_none_is_over() {
        let (keys, book) = (keys(), book());
        let mut adder = keys.key_adder();
        let mut cohorts = Cohorts::default();
        let (mut ids, mut sets): (Vec<u32>, Vec<Vec<u32>>) = ((0..SPACE).step_by(2).collect(), Vec::new());
        for _ in 0..12 {
            sets.push(ids.clone());
            ids = exchanged(&ids, 20);
            ids.dedup();
        }
        let mut checks: Vec<Known> = sets.iter().map(|_| cohorts.begin(NodeId(1), 1)).collect();
        assert!(cohorts.begin(NodeId(2), 1).begun.is_empty(), "those of another broker");
        for (at, (check, ids)) in checks.iter().zip(&sets).enumerate() {
            assert_eq!(check.all().len(), at.min(super::PER_BROKER), "those that have a sum by now");
            let cohort = check.add_up(ids.as_slice().into(), &book, &mut adder).expect("every id has a key");
            assert_eq!(cohort.sum(), reference(ids, &book), "check {at}");
        }
        // Those whose signature held are among them once, and the newest only.
        for check in &checks[2..] {
            cohorts.remember(NodeId(1), Arc::clone(check.own.get().expect("a sum")), 1 << 20);
        }
        let last = cohorts.begin(NodeId(1), 1 << 20);
        let sets_of = |known: &Known| known.all().iter().map(|one| one.ids().to_vec()).collect::<Vec<_>>();
        assert_eq!(sets_of(&last), sets[4..], "the last eight");
        // A sum that did not hold lives as long as the checks that may begin from it.
        let (_, held) = cohorts.by_broker.remove(&NodeId(1)).expect("eight");
        checks.clear();
        drop((last, held));
        assert!(cohorts.begin(NodeId(1), 1).all().is_empty() && cohorts.begun.len() == 1);
        assert!(cohorts.begin(NodeId(3), 0).begun.is_empty() && cohorts.begun.len() == 1, "none are kept");
    }

    #[test]
    fn other_signers_are_added_up_anew() {
        let (keys, book) = (keys(), book());
        let mut adder = keys.key_adder();
        let (evens, odds): (Vec<u32>, Vec<u32>) = (0..SPACE).partition(|id| id % 2 == 0);
        let (evens_sum, _) = Cohort::add_up(evens.as_slice().into(), &[], &book, &mut adder).expect("keys");
        let known = [Arc::new(evens_sum)];
        let (cohort, near) = Cohort::add_up(odds.as_slice().into(), &known, &book, &mut adder).expect("keys");
        assert_eq!((cohort.sum(), near), (reference(&odds, &book), false));
        // A third exchanged on both sides is too much, whatever the sketch says.
        let third = exchanged(&evens, 3);
        let (cohort, near) =
            Cohort::add_up(third.as_slice().into(), &known, &book, &mut adder).expect("keys");
        assert_eq!((cohort.sum(), near), (reference(&third, &book), false));
        assert!(Cohort::add_up([SPACE].into(), &known, &book, &mut adder).is_none(), "an id without a key");
    }

    #[test]
    fn sketches_of_almost_equal_sets_agree_in_most_slots() {
        let ids: Vec<u32> = (0..65_536).map(|id| 15 * id).collect();
        let agree = |other: &[u32]| sketch(&ids).iter().zip(sketch(other)).filter(|(a, b)| *a == b).count();
        assert_eq!(agree(&ids), 64);
        assert!(agree(&exchanged(&ids, 20)) >= 48);
        assert!(agree(&exchanged(&ids, 1)) < 16);
    }

    #[test]
    fn the_oldest_go_first_and_bytes_are_counted() {
        let keys = keys();
        let (mut adder, book) = (keys.key_adder(), book());
        let mut cohort = |count: u32| {
            let (cohort, _) = Cohort::add_up((0..count).collect(), &[], &book, &mut adder).expect("keys");
            Arc::new(cohort)
        };
        let mut cohorts = Cohorts::default();
        for count in 1..=10 {
            cohorts.remember(NodeId(1), cohort(count), 1 << 20);
        }
        let sizes = |cohorts: &Cohorts, broker| -> Vec<usize> {
            cohorts.of(NodeId(broker)).iter().map(|cohort| cohort.ids().len()).collect()
        };
        assert_eq!(sizes(&cohorts, 1), (3..=10).collect::<Vec<_>>());
        cohorts.remember(NodeId(2), cohort(20), 4 * 600);
        assert_eq!((sizes(&cohorts, 1), sizes(&cohorts, 2)), (vec![8, 9, 10], vec![20]));
        cohorts.remember(NodeId(3), cohort(2_000), 4 * 600);
        assert_eq!(sizes(&cohorts, 3), [] as [usize; 0], "larger than everything");
        cohorts.remember(NodeId(3), cohort(5), 600);
        assert_eq!((sizes(&cohorts, 1), sizes(&cohorts, 2), sizes(&cohorts, 3)), (vec![], vec![], vec![5]));
        let held: u64 = cohorts.of(NodeId(3)).iter().map(|cohort| cohort.bytes()).sum();
        assert_eq!(cohorts.bytes(), held);
    }
}

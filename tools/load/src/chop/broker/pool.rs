//! Bodies that are made beforehand and sent again and again, under numbers that rise.

use super::books::{Deltas, deltas};
use super::cooldown::Cooldown;
use super::operations::Operations;
use super::source::{Ready, SourcePlan};
use crate::chop::batches::Unfit;
use crate::chop::draw::{IdDraw, pick};
use crate::chop::family::Members;
use std::sync::Arc;
use synod_chopchop::batch::{OwnedEntry, Plan, Seal, Sealed};
use synod_chopchop::config::Cluster;
use synod_chopchop::statement::{BlsSignatureBytes, Root};
use synod_crypto::Hash;
use synod_machine::Rng;

/// Sums of cohorts that a store keeps for a broker: more cohorts would never be met again.
const COHORTS_MAX: u32 = 8;

/// A body, and what a new header over it needs.
struct Template {
    sealed: Sealed,
    name: Hash,
    ids: Arc<[u32]>,
    /// How many signed, and the sum of their numbers in the family.
    signers: (u64, u64),
    deltas: Deltas,
}

/// Bodies, each twice: the second time with the other parity, so that no client's message is its last one again.
pub(super) struct Pool {
    rows: Vec<[Template; 2]>,
    next: usize,
    /// Whether the next one was found to wait.
    waits: bool,
}

impl Pool {
    /// Makes at most `plan.pool` bodies: no more than there are disjoint sets of ids.
    ///
    /// # Errors
    /// [`Unfit`] when the plan means no batch.
    pub(super) fn new(
        (members, cluster): (&Members, &Cluster),
        plan: &SourcePlan,
        rng: &mut Rng,
    ) -> Result<Self, Unfit> {
        let sets = sets(plan, members.length(), rng)?;
        let of = (members, cluster);
        let row = |(number, ids): (u64, Vec<u32>)| {
            let entries = plan.operations.entries(&ids, (number, false), rng);
            let first = Template::new(of, plan.operations, entries, ids.into())?;
            // Drawn once, so that both say the same.
            let second = first.with_other_parity(of, plan.operations)?;
            Ok([first, second])
        };
        let rows = (0_u64..).zip(sets).map(row).collect::<Result<Vec<_>, Unfit>>()?;
        Ok(Self { rows, next: 0, waits: false })
    }

    /// Bodies that were made, each parity counted once.
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The next batch, or none while one of its members is in another one; the second word says whether that is new.
    pub(super) fn next(
        &mut self,
        (members, cluster): (&Members, &Cluster),
        (number, expiry): (u64, u64),
        cooldown: &mut Cooldown,
    ) -> Result<Ready, bool> {
        let (row, round) = (self.next % self.rows.len().max(1), self.next / self.rows.len().max(1));
        let template = self.rows.get(row).and_then(|row| row.get(round % 2));
        let Some(template) = template.filter(|template| cooldown.claim(&template.ids)) else {
            return Err(!std::mem::replace(&mut self.waits, true));
        };
        self.waits = false;
        self.next += 1;
        Ok(template.ready((members, cluster), (number, expiry)))
    }
}

impl Template {
    fn new(
        (members, cluster): (&Members, &Cluster),
        operations: Operations,
        entries: Vec<OwnedEntry>,
        ids: Arc<[u32]>,
    ) -> Result<Self, Unfit> {
        let deltas = deltas(operations, &entries, members.length());
        let plan = Plan {
            broker: 0,
            msg_size: operations.size(),
            epoch: cluster.epoch(),
            k: 0,
            expiry: 0,
            directory: members.length(),
        };
        // The genuine signature comes with the number.
        let none = Some(BlsSignatureBytes::ZERO);
        let sealed = Seal::new(plan, entries).seal(cluster.domains(), none).map_err(Unfit::Seal)?;
        let sum = ids.iter().map(|id| u64::from(members.behind(*id))).sum();
        Ok(Self { name: sealed.name(), signers: (ids.len() as u64, sum), sealed, ids, deltas })
    }

    fn with_other_parity(&self, of: (&Members, &Cluster), operations: Operations) -> Result<Self, Unfit> {
        let batch = synod_chopchop::batch::Batch::open(&self.sealed).map_err(Unfit::Intake)?;
        let other = batch.columns().entries().map(|entry| OwnedEntry {
            id: entry.id,
            message: entry.message.to_vec().into(),
            parity: !entry.parity,
        });
        Self::new(of, operations, other.collect(), self.ids.clone())
    }

    fn ready(&self, (members, cluster): (&Members, &Cluster), (number, expiry): (u64, u64)) -> Ready {
        let mut sealed = self.sealed.clone();
        (sealed.header.k, sealed.header.expiry) = (number, expiry);
        let statement = Root { root_commit: sealed.header.root_commit(cluster.domains()) };
        let together = members.family.bls.signed_by_sum(&cluster.scope(), &statement, self.signers);
        sealed.header.aggregate = together.map(|signature| BlsSignatureBytes(signature.to_bytes()));
        let digest = cluster.domains().head.hash_parts(&[&sealed.header.to_bytes(), &self.name.0]);
        Ready { number, sealed, digest, ids: self.ids.clone(), deltas: self.deltas.clone() }
    }
}

/// Sets of ids, which rise, no two of them with an id in common but those of one cohort.
fn sets(plan: &SourcePlan, space: u32, rng: &mut Rng) -> Result<Vec<Vec<u32>>, Unfit> {
    if plan.count == 0 || plan.count > space {
        return Err(Unfit::Space);
    }
    let pool = u32::try_from(plan.pool).unwrap_or(u32::MAX);
    let wanted = pool.clamp(1, space / plan.count);
    let mut free = Cooldown::new(space);
    let mut draw = |count| free.draw(count, rng).ok_or(Unfit::Space);
    match plan.ids {
        IdDraw::Uniform => (0..wanted).map(|_| draw(plan.count)).collect(),
        IdDraw::Block => {
            Ok((0..wanted).map(|at| (at * plan.count..(at + 1) * plan.count).collect()).collect())
        }
        IdDraw::Cohort(churn) => {
            let leave = plan.count / 100 * u32::from(churn) + plan.count % 100 * u32::from(churn) / 100;
            let cohorts = (space / (plan.count + leave)).min(COHORTS_MAX).min(pool.div_ceil(2)).max(1);
            let whole = plan.count.saturating_add(leave) <= space;
            let firsts = (0..cohorts).map(|_| draw(plan.count)).collect::<Result<Vec<_>, _>>()?;
            let arrive = if whole { leave } else { 0 };
            let others = (0..cohorts).map(|_| draw(arrive)).collect::<Result<Vec<_>, _>>()?;
            let seconds: Vec<Vec<u32>> =
                firsts.iter().zip(others).map(|(first, come)| exchanged(first, come, rng)).collect();
            Ok(firsts.into_iter().chain(seconds).collect())
        }
    }
}

/// `ids` with as many of them exchanged as come.
fn exchanged(ids: &[u32], come: Vec<u32>, rng: &mut Rng) -> Vec<u32> {
    let count = u32::try_from(ids.len()).unwrap_or(0);
    let leave = u32::try_from(come.len()).unwrap_or(count);
    let mut leaving = pick(rng, leave, count).into_iter().peekable();
    let stays = (0_u32..).zip(ids).filter(|(at, _)| leaving.next_if_eq(at).is_none()).map(|(_, id)| *id);
    let mut all: Vec<u32> = stays.chain(come).collect();
    all.sort_unstable();
    all
}

#[cfg(test)]
mod tests {
    use super::sets;
    use crate::chop::broker::{Operations, SourcePlan};
    use crate::chop::{IdDraw, Unfit};
    use std::collections::BTreeSet;
    use synod_machine::Rng;
    use synod_quorum::NodeId;

    fn drawn(ids: IdDraw, count: u32, pool: usize, space: u32) -> Result<Vec<Vec<u32>>, Unfit> {
        let plan = SourcePlan { ids, count, distilled: 1_000, operations: Operations::Bytes(8), pool };
        sets(&plan, space, &mut Rng::new(5, NodeId(0), 0))
    }

    #[test]
    fn sets_of_a_pool_have_no_id_in_common_and_are_no_more_than_fit() {
        for ids in [IdDraw::Uniform, IdDraw::Block] {
            let sets = drawn(ids, 100, 16, 1_050).expect("enough");
            let all: BTreeSet<u32> = sets.iter().flatten().copied().collect();
            assert_eq!((sets.len(), all.len()), (10, 1_000), "{ids}");
            assert!(sets.iter().all(|set| set.is_sorted_by(|a, b| a < b)), "{ids}");
        }
        assert_eq!(drawn(IdDraw::Uniform, 100, 3, 1_050).expect("enough").len(), 3);
        assert_eq!(drawn(IdDraw::Uniform, 11, 3, 10).err(), Some(Unfit::Space));
    }

    #[test]
    fn cohorts_come_back_with_the_share_exchanged_and_meet_no_other_cohort() {
        let sets = drawn(IdDraw::Cohort(5), 100, 16, 1_050).expect("enough");
        assert_eq!(sets.len(), 16);
        let shared = |a: &[u32], b: &[u32]| a.iter().filter(|id| b.contains(id)).count();
        for (at, set) in sets.iter().enumerate() {
            assert_eq!(set.len(), 100);
            for (other_at, other) in sets.iter().enumerate().filter(|(other_at, _)| *other_at != at) {
                let expected = if at % 8 == other_at % 8 { 95 } else { 0 };
                assert_eq!(shared(set, other), expected, "{at} and {other_at}");
            }
        }
        assert_eq!(drawn(IdDraw::Cohort(100), 100, 16, 100).expect("no room to exchange").len(), 2);
    }
}

//! What a witness does with a batch, as its jobs do it, and stage by stage under a clock.
//!
//! [`Witness::check`] runs the jobs of a store: what it takes is what a server takes. [`Witness::timed`] does the same
//! work from the same parts, with a clock between them and another way of adding keys where one is asked for.

use super::family::Members;
use std::sync::Arc;
use std::time::{Duration, Instant};
use synod_chopchop::batch::{Batch, BatchFault, Refusal, Sealed};
use synod_chopchop::config::Cluster;
use synod_chopchop::content::AnyBatch;
use synod_chopchop::statement::{Root, Submission};
use synod_chopchop::store::{CheckBatch, Known, StoreDone, StoreJob, Task, Why};
use synod_crypto::bls::{BlsClaim, BlsPublicKey, KeyAdder, KeySum};
use synod_crypto::{Claim, Keys, Seed, verify_all};
use synod_machine::Job as _;
use synod_quorum::NodeId;

/// Whose batches they are.
const BROKER: NodeId = NodeId(100);

/// A part of the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The digest of body and header.
    Digest,
    /// BV1 to BV4: columns, ids, indices, numbers.
    Decode,
    /// BV5: the entry tree.
    Tree,
    /// BV6: the signatures of stragglers.
    Stragglers,
    /// BV7: the sum of the signers' keys.
    Keysum,
    /// BV7: the aggregate's group and the pairing equation.
    Pairing,
}

/// The stages in their order, with the names that results use.
pub const STAGES: [(Stage, &str); 6] = [
    (Stage::Digest, "digest"),
    (Stage::Decode, "decode"),
    (Stage::Tree, "tree"),
    (Stage::Stragglers, "stragglers"),
    (Stage::Keysum, "keysum"),
    (Stage::Pairing, "pairing"),
];

/// How keys are added up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adding {
    /// As servers do.
    Servers,
    /// By the curve library, thousands with one inversion.
    Batches,
    /// By the curve library, one after another: the reference.
    OneByOne,
    /// From the sum of the batch before: those who came are added, those who left are taken away.
    Difference,
}

/// Time spent in each stage.
#[derive(Clone, Debug, Default)]
pub struct Stages {
    spent: [Duration; STAGES.len()],
    /// Batches that passed.
    pub batches: u64,
    /// Messages of those batches.
    pub messages: u64,
    /// Ids and key sum of the last batch, for [`Adding::Difference`].
    last: Option<(Arc<[u32]>, KeySum)>,
}

impl Stages {
    /// Time spent in a stage, over all batches.
    #[must_use]
    pub fn spent(&self, stage: Stage) -> Duration {
        self.spent.get(stage as usize).copied().unwrap_or_default()
    }

    /// Time spent in all stages.
    #[must_use]
    pub fn total(&self) -> Duration {
        self.spent.iter().sum()
    }

    fn time<T>(&mut self, stage: Stage, work: impl FnOnce() -> T) -> T {
        let begin = Instant::now();
        let out = work();
        if let Some(spent) = self.spent.get_mut(stage as usize) {
            *spent += begin.elapsed();
        }
        out
    }
}

/// A witness: the keys of its jobs, and the directory it checks against.
pub struct Witness<'a> {
    cluster: &'a Cluster,
    members: &'a Members,
    keys: Keys,
}

impl<'a> Witness<'a> {
    /// A witness of `cluster` that knows `members`.
    #[must_use]
    pub fn new(cluster: &'a Cluster, members: &'a Members) -> Self {
        Self { cluster, members, keys: Keys::ed25519(&Seed::new([1; 32]), [2; 32]) }
    }

    /// Digests a batch and checks it, by the jobs of a store.
    ///
    /// # Errors
    /// What the broker would be told.
    pub fn check(&self, batch: &Sealed) -> Result<(), Refusal> {
        let mut verdicts = self.check_together(std::slice::from_ref(batch));
        verdicts.pop().unwrap_or(Err(Refusal::Malformed))
    }

    /// The same for several batches at once: their pairings become one.
    #[must_use]
    pub fn check_together(&self, batches: &[Sealed]) -> Vec<Result<(), Refusal>> {
        let job = |task| StoreJob { cluster: self.cluster.clone(), from: BROKER, task };
        let digest = |batch: &Sealed| job(Task::Digest(Why::Uploaded(true), AnyBatch::from(batch.clone())));
        let digested = StoreJob::run_all(batches.iter().map(digest).collect(), &self.keys);
        let check = |done| match done {
            StoreDone::Digested { batch, digest, .. } => {
                let batch = batch.into_messages()?;
                let (view, keys) = (self.members.view.clone(), self.members.keys.clone());
                Some(job(Task::Batch(Box::new(CheckBatch {
                    digest,
                    batch,
                    view,
                    keys,
                    cohorts: Known::default(),
                }))))
            }
            _ => None,
        };
        let checks: Vec<StoreJob> = digested.into_iter().filter_map(check).collect();
        let verdict = |done| match done {
            StoreDone::Checked { verdict, .. } => verdict.map(|_| ()),
            _ => Err(Refusal::Malformed),
        };
        StoreJob::run_all(checks, &self.keys).into_iter().map(verdict).collect()
    }

    /// Checks a batch stage by stage.
    ///
    /// # Errors
    /// What the broker would be told.
    pub fn timed(&self, sealed: &Sealed, adding: Adding, stages: &mut Stages) -> Result<(), Refusal> {
        let domains = self.cluster.domains();
        let refused = |fault: BatchFault| fault.refusal();
        // The digest is what the item of the batch would name; here only its cost counts.
        std::hint::black_box(stages.time(Stage::Digest, || sealed.digest(domains)));
        let batch = stages.time(Stage::Decode, || {
            let batch = Batch::open(sealed)?;
            batch.check().map(|()| batch)
        });
        let batch = batch.map_err(refused)?;
        stages.time(Stage::Tree, || batch.check_root(domains)).map_err(refused)?;
        stages.time(Stage::Stragglers, || self.stragglers(&batch))?;
        if let Some(aggregate) = &batch.header().aggregate {
            let mut last = stages.last.take();
            let mut adder = self.keys.key_adder();
            let keys = stages.time(Stage::Keysum, || self.key_sum(&batch, adding, &mut adder, &mut last));
            stages.last = last;
            let keys = keys.ok_or(Refusal::Aggregate)?;
            stages.time(Stage::Pairing, || {
                let signature = self.keys.bls().signature(&aggregate.0).map_err(|_| Refusal::Aggregate)?;
                let statement = Root { root_commit: batch.root_commit(domains) };
                let claim = BlsClaim { statement, scope: self.cluster.scope(), keys, signature };
                claim.verify(&self.keys).map_err(|_| Refusal::Aggregate)
            })?;
        }
        stages.batches += 1;
        stages.messages += u64::from(batch.header().count);
        Ok(())
    }

    fn stragglers(&self, batch: &Batch) -> Result<(), Refusal> {
        let mut stragglers = batch.columns().stragglers().peekable();
        let claim = |(index, entry): (u32, synod_chopchop::columns::Entry<'_>)| {
            let straggler = stragglers.next_if(|straggler| straggler.index == index)?;
            let message = self.cluster.domains().msg.hash(entry.message);
            let statement = Submission { id: entry.id, k0: straggler.k, parity: entry.parity, message };
            let key = self.members.view.member(entry.id)?.ed;
            let (scope, signer) = (self.cluster.scope(), NodeId(entry.id));
            Some(Claim { statement, scope, signer, key, signature: straggler.t })
        };
        if batch.header().stragglers == 0 {
            return Ok(());
        }
        let claims: Vec<_> = (0_u32..).zip(batch.columns().entries()).filter_map(claim).collect();
        let whole = claims.len() == batch.header().stragglers as usize;
        let hold = verify_all(claims, &self.keys).iter().all(Result::is_ok);
        if whole && hold { Ok(()) } else { Err(Refusal::Straggler) }
    }

    /// The sum of the signers' keys; `None` when one has none.
    fn key_sum(
        &self,
        batch: &Batch,
        adding: Adding,
        adder: &mut KeyAdder<'_>,
        last: &mut Option<(Arc<[u32]>, KeySum)>,
    ) -> Option<KeySum> {
        let bls = self.keys.bls();
        let ids = batch.signers();
        let book = &self.members.keys;
        let keys = |ids: &[u32]| -> Option<Vec<BlsPublicKey>> {
            ids.iter().map(|id| self.members.keys.key(*id)).collect()
        };
        match adding {
            Adding::Servers => adder.sum(book, &ids),
            Adding::Batches => Some(bls.sum_keys(keys(&ids)?)),
            Adding::OneByOne => Some(bls.sum_keys_one_by_one(keys(&ids)?)),
            Adding::Difference => {
                let sum = match last.take() {
                    None => adder.sum(book, &ids)?,
                    Some((before, mut sum)) => {
                        let (came, left) = difference(&before, &ids);
                        sum.add(&adder.sum(book, &came)?);
                        sum.subtract(&adder.sum(book, &left)?);
                        sum
                    }
                };
                *last = Some((ids, sum));
                Some(sum)
            }
        }
    }
}

/// What is only in `after`, and what is only in `before`; both rise strictly.
fn difference(before: &[u32], after: &[u32]) -> (Vec<u32>, Vec<u32>) {
    let (mut came, mut left) = (Vec::new(), Vec::new());
    let mut before = before.iter().copied().peekable();
    for id in after {
        left.extend(std::iter::from_fn(|| before.next_if(|old| old < id)));
        if before.next_if_eq(id).is_none() {
            came.push(*id);
        }
    }
    left.extend(before);
    (came, left)
}

#[cfg(test)]
mod tests {
    use super::{Adding, STAGES, Stage, Stages, Witness, difference};
    use crate::chop::batches::{BatchPlan, Batches, Forged};
    use crate::chop::{IdDraw, KeyFamily, cluster};
    use std::time::Duration;
    use synod_chopchop::batch::Refusal;
    use synod_crypto::Seed;

    #[test]
    fn what_came_and_what_left_is_told_apart() {
        assert_eq!(difference(&[1, 3, 5], &[0, 3, 4, 9]), (vec![0, 4, 9], vec![1, 5]));
        assert_eq!(difference(&[], &[7]), (vec![7], vec![]));
        assert_eq!(difference(&[7, 8], &[]), (vec![], vec![7, 8]));
        assert_eq!(difference(&[2, 3], &[2, 3]), (vec![], vec![]));
    }

    #[test]
    fn every_way_of_adding_keys_gives_the_verdict_of_the_servers() {
        let cluster = cluster();
        let members = KeyFamily::new(&Seed::new([2; 32])).members(2_048, 2_048).expect("whole chunks");
        let witness = Witness::new(&cluster, &members);
        let plan = BatchPlan { ids: IdDraw::Cohort(20), count: 300, msg_size: 8, distilled: 900 };
        let mut batches = Batches::new(&members, &cluster, plan).expect("enough ids");
        let genuine: Vec<_> = (0..3).map(|_| batches.draw().expect("a sound plan")).collect();
        let forged = Forged::of(&cluster, &genuine[2], 0).expect("an entry");
        for adding in [Adding::Servers, Adding::Batches, Adding::OneByOne, Adding::Difference] {
            let mut stages = Stages::default();
            for batch in &genuine {
                assert_eq!(witness.timed(batch, adding, &mut stages), Ok(()), "{adding:?}");
            }
            let refused = witness.timed(&forged.rerooted, adding, &mut stages);
            assert_eq!(refused, witness.check(&forged.rerooted), "{adding:?}");
            assert!(refused.is_err());
            assert_eq!(witness.timed(&forged.swapped, adding, &mut stages), Err(Refusal::Root), "{adding:?}");
            assert_eq!((stages.batches, stages.messages), (3, 900), "only what passed counts");
            for (stage, name) in STAGES {
                assert!(stages.spent(stage) > Duration::ZERO, "{name}");
            }
            assert!(stages.total() > stages.spent(Stage::Pairing));
        }
    }

    #[test]
    fn batches_checked_together_get_the_verdicts_they_get_alone() {
        let cluster = cluster();
        let members = KeyFamily::new(&Seed::new([3; 32])).members(512, 512).expect("whole chunks");
        let witness = Witness::new(&cluster, &members);
        let plan = BatchPlan { ids: IdDraw::Uniform, count: 100, msg_size: 8, distilled: 1_000 };
        let mut batches = Batches::new(&members, &cluster, plan).expect("enough ids");
        let mut all: Vec<_> = (0..4).map(|_| batches.draw().expect("a sound plan")).collect();
        assert_eq!(witness.check_together(&all), [Ok(()); 4]);
        all[1] = Forged::of(&cluster, &all[1], 7).expect("an entry").rerooted;
        assert_eq!(witness.check_together(&all), [Ok(()), Err(Refusal::Aggregate), Ok(()), Ok(())]);
    }
}

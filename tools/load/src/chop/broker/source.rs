//! Where batches come from: a pool of bodies, or made one after another.

use super::books::{Deltas, deltas};
use super::cooldown::Cooldown;
use super::operations::{APART, Operations};
use super::pool::Pool;
use crate::chop::batches::{BatchPlan, Batches, Unfit};
use crate::chop::draw::IdDraw;
use crate::chop::family::Members;
use std::sync::Arc;
use synod_chopchop::batch::Sealed;
use synod_chopchop::config::Cluster;
use synod_crypto::Hash;
use synod_machine::Rng;
use synod_quorum::NodeId;

/// Messages of a small batch, where there are as many clients.
const SMALL: u32 = 16;

/// What is generated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourcePlan {
    /// How ids are drawn.
    pub ids: IdDraw,
    /// Messages of a batch.
    pub count: u32,
    /// Entries under the multi-signature, of a thousand.
    pub distilled: u16,
    /// What messages ask for.
    pub operations: Operations,
    /// Bodies made beforehand; with none, each batch is made anew.
    pub pool: usize,
}

impl SourcePlan {
    /// Whether bodies are replayed. Stragglers sign their number, so a batch with one is made for its number.
    #[must_use]
    pub const fn is_replayed(&self) -> bool {
        self.pool > 0 && self.distilled == 1_000
    }
}

/// A batch with its number and signatures.
#[derive(Clone)]
pub struct Ready {
    /// Its number, and the sequence number of its signers.
    pub number: u64,
    /// Header and body.
    pub sealed: Sealed,
    /// Its digest.
    pub digest: Hash,
    /// Its members.
    pub ids: Arc<[u32]>,
    pub(super) deltas: Deltas,
}

enum Made<'a> {
    Before(Pool),
    Anew(Box<Batches<'a>>),
}

/// Batches one after another.
pub struct Source<'a> {
    members: &'a Members,
    cluster: &'a Cluster,
    plan: SourcePlan,
    made: Made<'a>,
    rng: Rng,
    number: u64,
    /// First id of the next block.
    base: u32,
    /// Batches that waited for their members, and whether the next one does.
    waits: u64,
    waiting: bool,
}

impl<'a> Source<'a> {
    /// Batches of `plan` by `members`; a pool is made here.
    ///
    /// # Errors
    /// [`Unfit`] when the plan means no batch.
    pub fn new(members: &'a Members, cluster: &'a Cluster, plan: SourcePlan) -> Result<Self, Unfit> {
        let mut rng = Rng::new(u64::from(plan.count), NodeId(0), 3);
        let made = if plan.is_replayed() {
            Made::Before(Pool::new((members, cluster), &plan, &mut rng)?)
        } else {
            let batch = BatchPlan {
                ids: plan.ids,
                count: plan.count,
                msg_size: plan.operations.size(),
                distilled: plan.distilled,
            };
            Made::Anew(Box::new(Batches::new(members, cluster, batch)?.in_step()))
        };
        Ok(Self { members, cluster, plan, made, rng, number: 0, base: 0, waits: 0, waiting: false })
    }

    /// Bodies of the pool; 0 without one.
    #[must_use]
    pub fn pool(&self) -> usize {
        match &self.made {
            Made::Before(pool) => pool.len(),
            Made::Anew(_) => 0,
        }
    }

    /// Batches that had to wait for their members.
    #[must_use]
    pub const fn waits(&self) -> u64 {
        self.waits
    }

    /// The next batch, at a height of `height`; none while members that it needs are in others.
    ///
    /// # Errors
    /// [`Unfit`] when the plan means no batch.
    pub fn next(&mut self, cooldown: &mut Cooldown, height: u64) -> Result<Option<Ready>, Unfit> {
        let (number, of) = (self.number + 1, (self.members, self.cluster));
        let expiry = height + self.cluster.rules().horizon / 4;
        let ready = match &mut self.made {
            Made::Before(pool) => match pool.next(of, (number, expiry), cooldown) {
                Ok(ready) => ready,
                Err(is_new) => {
                    self.waits += u64::from(is_new);
                    return Ok(None);
                }
            },
            Made::Anew(batches) => {
                let ids = match self.plan.ids {
                    IdDraw::Block => block(&mut self.base, self.plan.count, cooldown, self.members.length()),
                    // Cohorts are replayed; made anew, every batch has other members.
                    IdDraw::Uniform | IdDraw::Cohort(_) => cooldown.draw(self.plan.count, &mut self.rng),
                };
                let Some(ids) = ids else {
                    self.waits += u64::from(!std::mem::replace(&mut self.waiting, true));
                    return Ok(None);
                };
                self.waiting = false;
                let at = (number, number % 2 == 1);
                let entries = self.plan.operations.entries(&ids, at, &mut self.rng);
                let deltas = deltas(self.plan.operations, &entries, self.members.length());
                let sealed = batches.seal((number, expiry), entries)?;
                let digest = sealed.digest(self.cluster.domains());
                Ready { number, sealed, digest, ids: ids.into(), deltas }
            }
        };
        self.number = number;
        Ok(Some(ready))
    }

    /// A small batch, at a height of `height`, of members that are in no other one and of messages that no other one holds;
    /// none while too few are free.
    ///
    /// # Errors
    /// [`Unfit`] when there are no clients.
    pub fn small(&mut self, cooldown: &mut Cooldown, height: u64) -> Result<Option<Ready>, Unfit> {
        let (count, operations) = (SMALL.min(self.members.length()), self.plan.operations);
        let Some(ids) = cooldown.draw(count, &mut self.rng) else { return Ok(None) };
        let (number, expiry) = (self.number + 1, height + self.cluster.rules().horizon / 4);
        let entries = operations.entries(&ids, (APART + number, false), &mut self.rng);
        let deltas = deltas(operations, &entries, self.members.length());
        let plan = BatchPlan { ids: IdDraw::Uniform, count, msg_size: operations.size(), distilled: 1_000 };
        let sealed = Batches::new(self.members, self.cluster, plan)?.seal((number, expiry), entries)?;
        let digest = sealed.digest(self.cluster.domains());
        self.number = number;
        Ok(Some(Ready { number, sealed, digest, ids: ids.into(), deltas }))
    }
}

/// The next neighbours; none while one of them is taken.
fn block(base: &mut u32, count: u32, cooldown: &mut Cooldown, space: u32) -> Option<Vec<u32>> {
    let from = if space - *base < count { 0 } else { *base };
    let ids: Vec<u32> = (from..from + count).collect();
    let taken = cooldown.claim(&ids);
    if taken {
        *base = from + count;
    }
    taken.then_some(ids)
}

//! C-S6 and C-S8: what is witnessed is held durably, and what is ordered stays until nobody needs it.

use std::collections::{BTreeMap, BTreeSet};

use synod_crypto::Hash;

use super::Facts;
use crate::oracle::{Verdict, breach};

/// What a record of a server's node says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// A batch is held.
    Pinned(Hash),
    /// It is not held any more.
    Released(Hash),
    /// A checkpoint covers this height.
    Mark(u64),
}

impl Kept {
    /// The height a checkpoint covers.
    #[must_use]
    pub const fn height(&self) -> Option<u64> {
        match self {
            Self::Mark(height) => Some(*height),
            Self::Pinned(_) | Self::Released(_) => None,
        }
    }
}

/// Who holds what.
#[derive(Clone, Debug, Default)]
pub struct Keeping {
    servers: u32,
    faulty: u32,
    /// Written and not yet durable, by node and lane.
    written: BTreeMap<(u32, u8), Vec<(u64, Kept)>>,
    holders: BTreeMap<Hash, BTreeSet<u32>>,
    /// Who held what at any time of this life.
    held: BTreeSet<(u32, Hash)>,
    marks: BTreeMap<u32, u64>,
    /// The same, also of those that lost theirs since: a certificate stays valid.
    ever: BTreeMap<u32, u64>,
    heights: BTreeMap<Hash, u64>,
    releases: u64,
}

impl Keeping {
    /// Of so many servers, of which so many may be faulty.
    #[must_use]
    pub fn new(servers: u32, faulty: u32) -> Self {
        Self { servers, faulty, ..Self::default() }
    }

    /// Batches that were ordered and released by somebody.
    #[must_use]
    pub const fn releases(&self) -> u64 {
        self.releases
    }

    /// A lane was opened with these records.
    pub fn open(&mut self, (node, lane): (u32, u8), records: impl Iterator<Item = Kept>, is_store: bool) {
        self.written.remove(&(node, lane));
        if is_store {
            for holders in self.holders.values_mut() {
                holders.remove(&node);
            }
            self.held.retain(|(holder, _)| *holder != node);
        } else {
            self.marks.remove(&node);
        }
        records.for_each(|kept| self.keep(node, kept));
    }

    fn keep(&mut self, node: u32, kept: Kept) {
        match kept {
            Kept::Pinned(digest) => {
                self.holders.entry(digest).or_default().insert(node);
                self.held.insert((node, digest));
            }
            Kept::Released(digest) => {
                if let Some(holders) = self.holders.get_mut(&digest) {
                    holders.remove(&node);
                }
            }
            Kept::Mark(height) => {
                let mark = self.marks.entry(node).or_insert(0);
                *mark = height.max(*mark);
                let ever = self.ever.entry(node).or_insert(0);
                *ever = height.max(*ever);
            }
        }
    }

    /// A record was written. What is damaged on disk is let go and fetched again.
    ///
    /// # Errors
    /// C-S8: an honest server lets a batch go that somebody needs.
    pub fn write(
        &mut self,
        facts: &Facts,
        (node, lane): (u32, u8),
        (at, kept): (u64, Kept),
        is_damaged: bool,
    ) -> Verdict {
        self.written.entry((node, lane)).or_default().push((at, kept));
        match kept {
            Kept::Released(digest) if facts.honest(node) && !is_damaged => self.release(facts, node, &digest),
            _ => Ok(()),
        }
    }

    fn release(&mut self, facts: &Facts, node: u32, digest: &Hash) -> Verdict {
        let Some(height) = self.heights.get(digest).copied() else { return Ok(()) };
        self.releases += 1;
        let covers = |marks: &BTreeMap<u32, u64>, node: u32| marks.get(&node).is_some_and(|at| *at >= height);
        let mut honest = (0..self.servers).filter(|server| facts.honest(*server));
        let all = honest.all(|server| covers(&self.marks, server));
        let certified = (0..self.servers).filter(|server| covers(&self.ever, *server)).count() as u64;
        let needed = u64::from(self.servers - self.faulty);
        if all || certified >= needed {
            return Ok(());
        }
        let marks = &self.marks;
        breach("C-S8", format!("server {node} lets height {height} go while checkpoints stand at {marks:?}"))
    }

    /// A lane is durable up to a place.
    pub fn durable(&mut self, (node, lane): (u32, u8), until: u64) {
        let Some(written) = self.written.get_mut(&(node, lane)) else { return };
        let split = written.partition_point(|(at, _)| *at <= until);
        let done: Vec<Kept> = written.drain(..split).map(|(_, kept)| kept).collect();
        done.into_iter().for_each(|kept| self.keep(node, kept));
    }

    /// An honest store witnesses a batch. One that it let go since it made the shard, because it was collected or expired,
    /// is not ordered any more; whether it may be let go is judged there.
    ///
    /// # Errors
    /// C-S6: it never held it durably in this life.
    pub fn witness(&self, node: u32, digest: &Hash) -> Verdict {
        if self.held.contains(&(node, *digest)) {
            return Ok(());
        }
        breach("C-S6", format!("server {node} witnesses {digest:?} before it is durable there"))
    }

    /// An honest server says that its checkpoint at a height is durable.
    ///
    /// # Errors
    /// C-S8: it is not.
    pub fn marked(&self, node: u32, height: u64) -> Verdict {
        if self.marks.get(&node).is_some_and(|mark| *mark >= height) {
            return Ok(());
        }
        breach("C-S8", format!("server {node} says that height {height} is durable, and it is not"))
    }

    /// An honest server accepts a batch.
    ///
    /// # Errors
    /// C-S8: no honest server holds it.
    pub fn accepted(&mut self, facts: &Facts, digest: Hash, height: u64) -> Verdict {
        if self.heights.insert(digest, height).is_some() {
            return Ok(());
        }
        let held = self.holders.get(&digest);
        if held.is_some_and(|holders| holders.iter().any(|node| facts.honest(*node))) {
            return Ok(());
        }
        breach("C-S8", format!("{digest:?} is accepted at height {height} and no honest server holds it"))
    }
}

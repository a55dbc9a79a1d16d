//! One batch on its way: who has it, who witnessed it, who delivered it.

use super::source::Ready;
use std::collections::{BTreeMap, VecDeque};
use synod_chopchop::batch::Sealed;
use synod_chopchop::certificate::Signers;
use synod_chopchop::config::Cluster;
use synod_chopchop::item::Item;
use synod_chopchop::statement::{Delivered, Kind, Witness};
use synod_crypto::{Hash, Signature};
use synod_machine::{Span, Time};
use synod_quorum::{NodeId, NodeSet};

/// Times that are remembered.
const SPANS: usize = 64;

/// The last times that something took.
#[derive(Clone, Debug, Default)]
pub(super) struct Recent(VecDeque<Span>);

impl Recent {
    pub(super) fn add(&mut self, span: Span) {
        if self.0.len() >= SPANS {
            self.0.pop_front();
        }
        self.0.push_back(span);
    }

    /// The time that 95 of 100 did not exceed; none before the first.
    pub(super) fn p95(&self) -> Option<Span> {
        let mut sorted: Vec<Span> = self.0.iter().copied().collect();
        sorted.sort_unstable();
        sorted.get((sorted.len() * 95).div_ceil(100).saturating_sub(1)).copied()
    }
}

/// A batch on its way.
pub(super) struct Flight {
    pub(super) sealed: Sealed,
    pub(super) statement: Witness,
    root_commit: Hash,
    /// Servers in the order in which they are asked.
    pub(super) order: Vec<NodeId>,
    pub(super) asked: NodeSet,
    pub(super) uploaded: NodeSet,
    /// Who takes it later, and who never.
    pub(super) later: NodeSet,
    pub(super) refused: NodeSet,
    shards: BTreeMap<NodeId, Signature>,
    pub(super) item: Option<Item>,
    verdicts: BTreeMap<NodeId, Delivered>,
    /// When what is waited for was asked for last. Counted from there, a silent server does not make the wait for others longer
    /// and longer.
    pub(super) since: Time,
}

impl Flight {
    /// A batch that nobody has; the first `ask` servers behind `first` witness it, those `aside` behind all others.
    pub(super) fn new(
        ready: &Ready,
        cluster: &Cluster,
        (first, ask, aside): (u32, u32, NodeSet),
        now: Time,
    ) -> Self {
        let header = &ready.sealed.header;
        let statement = Witness {
            kind: Kind::Messages,
            digest: ready.digest,
            expiry: header.expiry,
            count: header.count,
            body_len: header.body_len,
        };
        let members = cluster.roster().size().max(1);
        let mut order: Vec<NodeId> = (0..members).map(|at| NodeId((first + at) % members)).collect();
        order.sort_by_key(|server| aside.contains(*server));
        let asked = order.iter().copied().take(ask as usize).collect();
        Self {
            root_commit: header.root_commit(cluster.domains()),
            sealed: ready.sealed.clone(),
            statement,
            order,
            asked,
            uploaded: NodeSet::EMPTY,
            later: NodeSet::EMPTY,
            refused: NodeSet::EMPTY,
            shards: BTreeMap::new(),
            item: None,
            verdicts: BTreeMap::new(),
            since: now,
        }
    }

    /// The first so many servers in its order.
    pub(super) fn first(&self, count: u32) -> NodeSet {
        self.order.iter().copied().take(count as usize).collect()
    }

    /// Servers that were to witness it and did not say anything.
    pub(super) fn silent(&self) -> NodeSet {
        let answered: NodeSet = self.shards.keys().copied().collect();
        self.asked.minus(answered).minus(self.refused)
    }

    /// A server witnessed it; whether it can be ordered now.
    pub(super) fn witnessed(&mut self, by: NodeId, shard: Signature, cluster: &Cluster) -> bool {
        self.shards.entry(by).or_insert(shard);
        let needed = cluster.quorums().one_correct() as usize;
        if self.item.is_some() || self.shards.len() < needed {
            return false;
        }
        let set: NodeSet = self.shards.keys().copied().take(needed).collect();
        let shards = self.shards.values().copied().take(needed).collect();
        let signers = Signers::new(set, cluster.roster().size());
        self.item = signers.and_then(|signers| Item::new(self.statement.clone(), signers, shards));
        self.item.is_some()
    }

    /// A server says that it is delivered; the statement once f + 1 say the same.
    pub(super) fn said(&mut self, by: NodeId, said: Delivered, cluster: &Cluster) -> Option<Delivered> {
        let about = (said.kind, said.digest, said.root_commit);
        if about != (Kind::Messages, self.statement.digest, self.root_commit) {
            return None;
        }
        self.verdicts.entry(by).or_insert(said);
        let enough = |statement: &&Delivered| {
            let equal = self.verdicts.iter().filter(|(_, other)| other == statement);
            cluster.quorums().has_correct(equal.map(|(id, _)| *id).collect())
        };
        self.verdicts.values().find(enough).cloned()
    }

    /// Memory, the shared body included.
    pub(super) fn bytes(&self) -> u64 {
        1_024 + self.sealed.body.len() as u64
    }
}

//! What a member knows of the other shards of its network: their members, by their keys and by the ids under which this process
//! reaches them.
//!
//! A member of another shard is a guest in the sense of [`NodeId`]: an id above all members, local to the process, which only the
//! configuration gives. So a message to it is sent like any other and [`synod_machine::Machine`] stays as it is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use synod_crypto::{Hash, Keys};
use synod_machine::broadcast::{Transferable, View};
use synod_quorum::NodeId;
use synod_wire::Bytes;

use crate::bundle::{self, Bundle, Unproven};

/// Another shard of the network.
#[derive(Clone, Debug)]
pub struct Neighbour {
    /// Its members and their keys.
    pub view: Arc<View>,
    /// The ids of its members in this process, in their order: [`NodeId::GUESTS`] or above, none twice.
    pub nodes: Vec<NodeId>,
}

/// How the proofs of the cluster's broadcast are checked and cut, whose type only the configuration names.
#[derive(Clone, Copy, Debug)]
pub struct Proofs {
    /// The digests of a bundle's entries, if its proof holds.
    pub(crate) check: fn(&Bundle, &View, &Keys) -> Result<Vec<Hash>, Unproven>,
    /// Proofs of as many signers as a quorum takes, each with those of the items that all of them endorse.
    pub(crate) cut: fn(&Bytes, Vec<u32>, u32) -> Vec<(Bytes, Vec<u32>)>,
}

/// The other shards; none by default, and then payments to their accounts are refused.
#[derive(Clone, Debug, Default)]
pub struct Shards {
    proofs: Option<Proofs>,
    others: BTreeMap<u16, Neighbour>,
    nodes: BTreeMap<NodeId, (u16, NodeId)>,
}

impl Shards {
    /// Other shards by number; `C` is what the broadcast of all of them gives as proof.
    #[must_use]
    pub fn new<C: Transferable>(others: BTreeMap<u16, Neighbour>) -> Self {
        let nodes = others.iter().flat_map(|(shard, of)| {
            let members = (0_u32..).map(NodeId).zip(&of.nodes);
            members.map(|(member, node)| (*node, (*shard, member)))
        });
        let proofs = Proofs { check: bundle::check::<C>, cut: bundle::cut::<C> };
        Self { proofs: Some(proofs), nodes: nodes.collect(), others }
    }

    /// What cannot work in a member of this shard, in words.
    pub(crate) fn fault(&self, own: u16) -> Option<&'static str> {
        let members: usize = self.others.values().map(|other| other.nodes.len()).sum();
        let is_whole = |(shard, other): (&u16, &Neighbour)| {
            *shard == other.view.context.shard
                && *shard != own
                && usize::try_from(other.view.roster.size()).is_ok_and(|size| size == other.nodes.len())
        };
        let checks = [
            (!self.others.iter().all(is_whole), "other shards have a node for each member"),
            (self.nodes.keys().any(|node| node.is_member()), "members of other shards are no members"),
            (self.nodes.len() != members, "members of other shards have ids of their own"),
        ];
        checks.into_iter().find(|(is_wrong, _)| *is_wrong).map(|(_, why)| why)
    }

    /// Whether there are no others.
    pub(crate) fn is_alone(&self) -> bool {
        self.others.is_empty()
    }

    pub(crate) fn numbers(&self) -> BTreeSet<u16> {
        self.others.keys().copied().collect()
    }

    pub(crate) fn get(&self, shard: u16) -> Option<&Neighbour> {
        self.others.get(&shard)
    }

    /// Which shard's which member a node is.
    pub(crate) fn member(&self, node: NodeId) -> Option<(u16, NodeId)> {
        self.nodes.get(&node).copied()
    }

    pub(crate) const fn proofs(&self) -> Option<Proofs> {
        self.proofs
    }
}

impl Neighbour {
    /// The node of a member, counted around.
    pub(crate) fn nth(&self, at: u64) -> Option<NodeId> {
        let at = at.checked_rem(self.nodes.len() as u64)?;
        self.nodes.get(usize::try_from(at).ok()?).copied()
    }
}

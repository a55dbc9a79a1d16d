//! The message in flight, and under which roots it was shown to stand.

use std::collections::{BTreeMap, VecDeque};

use synod_crypto::{Hash, Signature};
use synod_machine::Time;
use synod_quorum::NodeId;
use synod_wire::{Blob, List};

use super::record::{BURST_MAX, Flying};
use crate::columns::Entry;
use crate::message::Inclusion;
use crate::statement::BlsShareBytes;
use crate::tree::{EntryProof, TreeShape};

/// Roots remembered of each broker, so that a faulty one displaces only its own.
pub(super) const ROOTS_MAX: usize = 8;

/// What became of a root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// It helps to read a delivery.
    Known,
    /// A job checks why its number is legitimate.
    Checking,
    /// A job signs it.
    Signing,
    /// It is signed.
    Signed(Box<BlsShareBytes>),
}

/// A root under which the message stands.
#[derive(Clone, Debug)]
pub(super) struct Shown {
    pub(super) commit: Hash,
    pub(super) root: Hash,
    pub(super) k: u64,
    pub(super) shape: TreeShape,
    pub(super) proof: EntryProof,
    pub(super) stage: Stage,
}

/// First half of a root's commitment, by which messages name it.
pub(super) fn half(commit: &Hash) -> [u8; 16] {
    commit.0.first_chunk().copied().unwrap_or_default()
}

/// The message in flight.
#[derive(Clone, Debug)]
pub(super) struct Flight {
    pub(super) tokens: List<u64, BURST_MAX>,
    pub(super) k0: u64,
    pub(super) message: Blob<65_535>,
    pub(super) parity: bool,
    /// The height above which it is delivered.
    pub(super) after: u64,
    /// Its signature, once the job made it.
    pub(super) t: Option<Signature>,
    /// Whether the broker asked why `k0` is legitimate.
    pub(super) explain: bool,
    /// Whether the broker of the turn showed a root, so that SUBMIT is acknowledged.
    pub(super) included: bool,
    pub(super) since: Time,
    roots: BTreeMap<NodeId, VecDeque<Shown>>,
}

impl Flight {
    pub(super) fn new(flying: Flying, since: Time) -> Self {
        let Flying { tokens, k0, message, parity, after } = flying;
        let roots = BTreeMap::new();
        Self { tokens, k0, message, parity, after, t: None, explain: false, included: false, since, roots }
    }

    pub(super) fn flying(&self) -> Flying {
        Flying {
            tokens: self.tokens.clone(),
            k0: self.k0,
            message: self.message.clone(),
            parity: self.parity,
            after: self.after,
        }
    }

    pub(super) fn entry(&self, id: u32) -> Entry<'_> {
        Entry { id, message: &self.message, parity: self.parity }
    }

    /// The root of this broker, remembered from now on; the oldest gives way.
    pub(super) fn remember(&mut self, broker: NodeId, commit: Hash, inclusion: &Inclusion) -> &mut Shown {
        let of = self.roots.entry(broker).or_default();
        let at = of.iter().position(|shown| shown.commit == commit);
        let at = at.unwrap_or_else(|| {
            if of.len() >= ROOTS_MAX {
                of.pop_front();
            }
            let Inclusion { root, k, shape, proof, .. } = inclusion.clone();
            of.push_back(Shown { commit, root, k, shape, proof, stage: Stage::Known });
            of.len() - 1
        });
        &mut of[at]
    }

    /// The root of this broker.
    pub(super) fn shown_mut(&mut self, broker: NodeId, commit: &Hash) -> Option<&mut Shown> {
        self.roots.get_mut(&broker)?.iter_mut().find(|shown| shown.commit == *commit)
    }

    /// Any root of this name: of this broker first, since names are halves.
    pub(super) fn named(&self, broker: NodeId, name: &[u8; 16]) -> Option<&Shown> {
        let own = self.roots.get(&broker).into_iter().flatten();
        own.chain(self.roots.values().flatten()).find(|shown| half(&shown.commit) == *name)
    }

    /// Whether a job checks a number that this broker proposed.
    pub(super) fn is_checking(&self, broker: NodeId) -> bool {
        let mut of = self.roots.get(&broker).into_iter().flatten();
        of.any(|shown| shown.stage == Stage::Checking)
    }

    /// Every root, for invariants.
    pub(super) fn roots(&self) -> impl Iterator<Item = &Shown> {
        self.roots.values().flatten()
    }

    /// Forgets every root: the message is signed anew under another number.
    pub(super) fn renumber(&mut self, k0: u64) {
        self.k0 = k0;
        self.t = None;
        self.included = false;
        self.roots.clear();
    }
}

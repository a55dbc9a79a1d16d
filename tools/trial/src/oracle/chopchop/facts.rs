//! What honest clients did: the truth that batches are held against.

use std::collections::{BTreeMap, BTreeSet};

/// First half of what a client signs.
pub(super) type Half = [u8; 16];

/// What clients asked for and signed, and who may do anything.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Node of each id.
    nodes: BTreeMap<u32, u32>,
    liars: BTreeSet<u32>,
    asked: BTreeMap<(u32, Vec<u8>), u64>,
    submitted: BTreeSet<(u32, u64, Vec<u8>, bool)>,
    signed: BTreeSet<(u32, Half)>,
}

impl Facts {
    /// The client of an id.
    pub fn enter(&mut self, id: u32, node: u32) {
        self.nodes.insert(id, node);
    }

    /// A node that need not follow the protocol, from now on.
    pub fn fault(&mut self, node: u32) {
        self.liars.insert(node);
    }

    /// Whether a node always followed the protocol.
    #[must_use]
    pub fn honest(&self, node: u32) -> bool {
        !self.liars.contains(&node)
    }

    /// The node of an id, if that always followed the protocol.
    #[must_use]
    pub fn client(&self, id: u32) -> Option<u32> {
        self.nodes.get(&id).copied().filter(|node| self.honest(*node))
    }

    /// A user asked a client to broadcast this.
    pub fn ask(&mut self, node: u32, message: &[u8]) {
        *self.asked.entry((node, message.to_vec())).or_insert(0) += 1;
    }

    /// How often.
    #[must_use]
    pub fn asked(&self, node: u32, message: &[u8]) -> u64 {
        self.asked.get(&(node, message.to_vec())).copied().unwrap_or(0)
    }

    /// A client signed a submission.
    pub fn submit(&mut self, node: u32, k: u64, message: &[u8], parity: bool) {
        self.submitted.insert((node, k, message.to_vec(), parity));
    }

    /// Whether it did.
    #[must_use]
    pub fn submitted(&self, node: u32, k: u64, message: &[u8], parity: bool) -> bool {
        self.submitted.contains(&(node, k, message.to_vec(), parity))
    }

    /// A client signed a root.
    pub fn sign(&mut self, node: u32, half: Half) {
        self.signed.insert((node, half));
    }

    /// Whether it did.
    #[must_use]
    pub fn signed(&self, node: u32, half: &Half) -> bool {
        self.signed.contains(&(node, *half))
    }
}

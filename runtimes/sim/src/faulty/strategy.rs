//! What a corrupted node does with the effects of the honest machine inside it.

use std::collections::BTreeMap;

use synod_crypto::Keys;
use synod_machine::{Queue, Span, Time, To};
use synod_quorum::NodeId;
use synod_wire::Bytes;

use crate::deed::{Deed, Seen};
use crate::draw::Stream;

/// Edits what corrupted nodes do. One value may serve several nodes: colluders.
pub trait Strategy {
    /// Its name in scenarios and reports, such as `byz.B1`.
    fn name(&self) -> &'static str;

    /// Edits the effects of one call: drop, replace, repeat, add, hold back. True when it changed anything.
    fn act(&mut self, act: &mut Act<'_>) -> bool;

    /// Whether the node still follows its protocol under this strategy: one that only crashes it does.
    fn keeps_faith(&self) -> bool {
        false
    }
}

/// One call of a corrupted node, open for editing.
pub struct Act<'a> {
    /// Virtual time.
    pub now: Time,
    /// The corrupted node.
    pub node: NodeId,
    /// The machine's number.
    pub machine: u8,
    /// What happened to the machine.
    pub seen: &'a Seen,
    /// What it is about to do.
    pub deeds: &'a mut Vec<Deed>,
    /// Everybody this node has a link to.
    pub peers: &'a [NodeId],
    /// Deeds to do later; sends only, others are ignored.
    pub later: &'a mut Vec<(Span, Deed)>,
    /// Crash the node once this many recipients and writes of `deeds` are done.
    pub crash_after: &'a mut Option<u64>,
    /// This strategy's own draws.
    pub draws: &'a mut Stream,
    /// What colluders share.
    pub board: &'a mut Board,
    /// The keys of this node and of its colluders.
    pub keys: &'a BTreeMap<NodeId, Keys>,
}

impl Act<'_> {
    /// Replaces a send to a set by one send per recipient, so that they can be treated apart.
    pub fn split_sends(&mut self) {
        let mut split = Vec::with_capacity(self.deeds.len());
        for deed in self.deeds.drain(..) {
            match deed {
                Deed::Send { to: To::Set(set), queue, body } => split
                    .extend(set.iter().map(|id| Deed::Send { to: To::Node(id), queue, body: body.clone() })),
                other => split.push(other),
            }
        }
        *self.deeds = split;
    }

    /// Adds a frame to one peer.
    pub fn inject(&mut self, to: NodeId, queue: Queue, body: Bytes) {
        self.deeds.push(Deed::Send { to: To::Node(to), queue, body });
    }
}

/// Most frames a blackboard remembers.
pub const BOARD_MAX: usize = 256;

/// What colluding strategies share: frames worth repeating and named numbers.
#[derive(Debug, Default)]
pub struct Board {
    frames: Vec<Kept>,
    next: usize,
    /// Named numbers, such as the view under attack.
    pub numbers: BTreeMap<String, u64>,
}

/// A frame on the blackboard.
#[derive(Clone, Debug)]
pub struct Kept {
    /// The machine that sent or received it.
    pub machine: u8,
    /// Its queue.
    pub queue: Queue,
    /// Its body.
    pub body: Bytes,
}

impl Board {
    /// Remembers a frame; the oldest gives way at [`BOARD_MAX`].
    pub fn keep(&mut self, frame: Kept) {
        if self.frames.len() < BOARD_MAX {
            self.frames.push(frame);
        } else {
            self.frames[self.next] = frame;
            self.next = (self.next + 1) % BOARD_MAX;
        }
    }

    /// The frames, in no order that matters.
    #[must_use]
    pub fn frames(&self) -> &[Kept] {
        &self.frames
    }
}

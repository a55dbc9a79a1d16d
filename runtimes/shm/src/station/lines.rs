//! The links of a station, by peer.

use std::collections::BTreeMap;

use synod_machine::{Link, To};
use synod_quorum::NodeId;

use crate::line::{Line, Places, Sent};

/// What a machine's call left to be done about a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// A frame that does not decode.
    Undecodable,
    /// A queue that breaks its link is full, or a peer is above its quota.
    Break,
}

/// The links.
#[derive(Default)]
pub(crate) struct Lines {
    pub(crate) all: Vec<Line>,
    places: BTreeMap<NodeId, usize>,
    pub(crate) trouble: Vec<(NodeId, Trouble)>,
}

impl Lines {
    #[inline]
    pub(crate) fn send(&mut self, to: To, place: usize, body: &[u8]) {
        match to {
            To::Node(node) => self.send_one(node, place, body),
            To::Set(set) => set.iter().for_each(|node| self.send_one(node, place, body)),
        }
    }

    #[inline]
    fn send_one(&mut self, node: NodeId, place: usize, body: &[u8]) {
        let Some(line) = self.places.get(&node).and_then(|at| self.all.get_mut(*at)) else { return };
        if line.send(place, body) == Sent::Overflowed {
            self.trouble.push((node, Trouble::Break));
        }
    }

    /// Which queues of peers have to be looked into.
    #[inline]
    pub(crate) fn listen(&mut self) -> Places {
        self.all.iter_mut().fold(Places::NONE, |all, line| all.or(line.listen()))
    }

    /// Takes a link; whether one to the same peer was up, which is gone.
    pub(crate) fn join(&mut self, line: Line) -> bool {
        let peer = line.peer;
        match self.places.get(&peer).and_then(|at| self.all.get_mut(*at)) {
            Some(old) => {
                let was = old.is_up();
                old.end();
                *old = line;
                was
            }
            None => {
                self.places.insert(peer, self.all.len());
                self.all.push(line);
                false
            }
        }
    }

    pub(crate) fn get_mut(&mut self, peer: NodeId) -> Option<&mut Line> {
        self.places.get(&peer).and_then(|at| self.all.get_mut(*at))
    }

    /// Does what the last call left to be done; the links that went down.
    pub(crate) fn settle(&mut self, down: &mut Vec<(NodeId, Link)>) {
        for (peer, trouble) in core::mem::take(&mut self.trouble) {
            let Some(line) = self.get_mut(peer) else { continue };
            let broke = match trouble {
                Trouble::Undecodable => line.strike(1),
                Trouble::Break => line.reset(),
            };
            if broke {
                down.push((peer, Link::Down));
            }
        }
    }

    /// Forgets guests whose links are dead: their names do not come again.
    pub(crate) fn sweep(&mut self) {
        if self.all.iter().any(|line| line.is_dead() && !line.peer.is_member()) {
            self.all.retain(|line| !line.is_dead() || line.peer.is_member());
            self.places = self.all.iter().zip(0..).map(|(line, at)| (line.peer, at)).collect();
        }
    }
}

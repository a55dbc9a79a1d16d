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
    /// Sends a message; how many links took it.
    #[inline]
    pub(crate) fn send(&mut self, to: To, place: usize, body: &[u8]) -> u32 {
        match to {
            To::Node(node) => self.send_one(node, place, body),
            To::Set(set) => set.iter().map(|node| self.send_one(node, place, body)).sum(),
        }
    }

    #[inline]
    fn send_one(&mut self, node: NodeId, place: usize, body: &[u8]) -> u32 {
        let Some(line) = self.places.get(&node).and_then(|at| self.all.get_mut(*at)) else { return 0 };
        let sent = line.send(place, body);
        if sent == Sent::Overflowed {
            self.trouble.push((node, Trouble::Break));
        }
        u32::from(sent == Sent::Taken)
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

/// Incoming queues in the order in which they are drained.
pub(super) struct Drained {
    /// Slot and place of each.
    all: Vec<(usize, usize)>,
    /// By place, its turn.
    turns: Vec<usize>,
}

impl Drained {
    /// Of queues that are named in their order, each place once, by the slot that hears it.
    pub(super) fn new(all: Vec<(usize, usize)>) -> Self {
        let mut turns = vec![0; all.len()];
        for (turn, (_, place)) in all.iter().enumerate() {
            turns.get_mut(*place).into_iter().for_each(|at| *at = turn);
        }
        Self { all, turns }
    }

    /// The turns of the queues at these places.
    #[inline]
    pub(super) fn turns(&self, mut places: Places) -> Places {
        let mut turns = Places::NONE;
        while let Some(turn) = places.take_lowest().and_then(|place| self.turns.get(place)) {
            turns.add(*turn);
        }
        turns
    }

    #[inline]
    pub(super) fn get(&self, turn: usize) -> Option<(usize, usize)> {
        self.all.get(turn).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_are_drained_in_their_order_wherever_they_stand() {
        let drained = Drained::new(vec![(0, 2), (0, 0), (1, 3), (0, 1)]);
        let mut news = Places::NONE;
        [0, 1, 2].into_iter().for_each(|place| news.add(place));
        let mut turns = drained.turns(news);
        let order = core::iter::from_fn(|| turns.take_lowest().and_then(|turn| drained.get(turn)));
        assert_eq!(order.collect::<Vec<_>>(), [(0, 2), (0, 0), (0, 1)]);
        assert_eq!(drained.turns(Places::NONE), Places::NONE);
    }
}

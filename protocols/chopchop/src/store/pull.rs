//! The state of pulls: which ranges of which batch were asked of whom.
//!
//! *Bounds.* [`PARALLEL`] batches are fetched at a time, each held once in pieces and once put together; the others wait in
//! order of their heights with nothing but their statement.

use std::collections::BTreeMap;

use synod_crypto::Hash;
use synod_quorum::{NodeId, NodeSet};
use synod_wire::Bytes;

use crate::content::head_bytes;
use crate::message::{PIECE_MAX, Pull};
use crate::statement::Witness;

/// Batches that are fetched side by side, so that a slow peer delays only its own.
pub(super) const PARALLEL: usize = 4;
/// Bodies of the largest size that pulls hold.
pub(super) const BYTES_MAX_BODIES: u64 = 2 * PARALLEL as u64;
/// Ranges asked of one peer at a time.
const WINDOW: usize = 8;

/// One batch that is fetched.
#[derive(Clone, Debug)]
pub(super) struct Fetch {
    pub(super) statement: Witness,
    pub(super) height: u64,
    /// Whom to ask: the witnesses first, all servers after a round.
    sources: Vec<NodeId>,
    others: NodeSet,
    first: usize,
    /// One source at a time, after pieces of two did not fit together.
    alone: bool,
    pieces: Vec<Option<Bytes>>,
    asked: BTreeMap<u32, NodeId>,
    ever: NodeSet,
    givers: NodeSet,
    pub(super) attempt: u32,
    pub(super) active: bool,
    pub(super) digesting: bool,
    /// The server waits for it.
    pub(super) needed: bool,
    /// Who said that it is gone, below a certified checkpoint of theirs.
    pub(super) gone: NodeSet,
    /// It is gone below a certified checkpoint.
    pub(super) dead: bool,
}

/// What became of a piece.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Took {
    /// It is not one that was asked for.
    Wrong,
    /// It is here already, or late.
    Known,
    /// It fits.
    Fits,
    /// It was the last.
    Whole(Bytes),
}

impl Fetch {
    pub(super) fn new(statement: Witness, height: u64, signers: NodeSet, others: NodeSet) -> Self {
        let near: Vec<NodeId> = signers.and(others).iter().collect();
        let sources = if near.is_empty() { others.iter().collect() } else { near };
        let count = length(&statement).div_ceil(PIECE_MAX);
        Self {
            statement,
            height,
            sources,
            others,
            first: 0,
            alone: false,
            pieces: vec![None; count],
            asked: BTreeMap::new(),
            ever: NodeSet::EMPTY,
            givers: NodeSet::EMPTY,
            attempt: 0,
            active: false,
            digesting: false,
            needed: false,
            gone: NodeSet::EMPTY,
            dead: false,
        }
    }

    /// The peers whose turn it is: two, or one.
    fn peers(&self) -> impl Iterator<Item = NodeId> + '_ {
        let count = if self.alone { 1 } else { 2.min(self.sources.len()) };
        (0..count).filter_map(|at| self.sources.get((self.first + at) % self.sources.len().max(1)).copied())
    }

    /// What to ask now: ranges that are neither here nor asked for.
    pub(super) fn asks(&mut self) -> Vec<(NodeId, Pull)> {
        if !self.active || self.digesting || self.dead {
            return Vec::new();
        }
        let (total, digest) = (length(&self.statement), self.statement.digest);
        let peers: Vec<NodeId> = self.peers().collect();
        let mut out = Vec::new();
        for at in 0..self.pieces.len() {
            let (Ok(number), Some(None)) = (u32::try_from(at), self.pieces.get(at)) else { continue };
            if self.asked.contains_key(&number) {
                continue;
            }
            let load = |peer: &NodeId| self.asked.values().filter(|asked| *asked == peer).count();
            let free = peers.iter().map(|peer| (load(peer), *peer)).min_by_key(|(load, _)| *load);
            let Some((_, peer)) = free.filter(|(load, _)| *load < WINDOW) else { break };
            let from = at * PIECE_MAX;
            let (Ok(offset), Ok(length)) = (u32::try_from(from), u32::try_from(PIECE_MAX.min(total - from)))
            else {
                break;
            };
            self.asked.insert(number, peer);
            self.ever.insert(peer);
            out.push((peer, Pull { digest, offset, length }));
        }
        out
    }

    /// Those asked had long enough: the next ones. What is here stays, unless one source must give all.
    pub(super) fn rotate(&mut self) {
        // By one, so that each is once the first to be asked, also for a batch of one piece.
        self.first += 1;
        if self.first >= self.sources.len() {
            self.first = 0;
            let more: Vec<NodeId> = self.others.iter().filter(|id| !self.sources.contains(id)).collect();
            self.sources.extend(more);
        }
        self.attempt = self.attempt.saturating_add(1);
        self.asked.clear();
        if self.alone {
            self.clear();
        }
    }

    fn clear(&mut self) {
        self.pieces.iter_mut().for_each(|piece| *piece = None);
        self.asked.clear();
        // Who was asked before may still answer: that is late, and no fault.
        self.givers = NodeSet::EMPTY;
    }

    /// Takes a piece in.
    pub(super) fn take(&mut self, from: NodeId, offset: u32, bytes: Bytes) -> Took {
        let Ok(offset) = usize::try_from(offset) else { return Took::Wrong };
        let total = length(&self.statement);
        let (at, within) = (offset / PIECE_MAX, offset % PIECE_MAX);
        let expected = total.checked_sub(offset).map_or(0, |rest| rest.min(PIECE_MAX));
        if !self.ever.contains(from) {
            // An earlier life of this store may have asked.
            return Took::Known;
        }
        if within != 0 || bytes.len() != expected || expected == 0 {
            return Took::Wrong;
        }
        let late = self.alone && self.peers().next() != Some(from);
        let Some(place) = self.pieces.get_mut(at).filter(|place| place.is_none() && !late) else {
            return Took::Known;
        };
        // A copy of its own, so that a small piece does not keep a large frame.
        *place = Some(Bytes::copy_from_slice(&bytes));
        self.givers.insert(from);
        if let Ok(number) = u32::try_from(at) {
            self.asked.remove(&number);
        }
        if self.pieces.iter().any(Option::is_none) {
            return Took::Fits;
        }
        self.digesting = true;
        Took::Whole(self.pieces.iter().flatten().flat_map(|piece| piece.iter().copied()).collect())
    }

    /// The bytes put together are not the batch: who lied, if only one can have.
    pub(super) fn wrong(&mut self) -> Option<NodeId> {
        self.digesting = false;
        let mut givers = self.givers.iter();
        let liar = givers.next().filter(|_| givers.next().is_none());
        self.clear();
        self.alone = true;
        if let Some(liar) = liar {
            self.drop_source(liar);
        }
        liar
    }

    /// A peer is not asked again before everybody else was.
    pub(super) fn drop_source(&mut self, peer: NodeId) {
        if let Some(at) = self.sources.iter().position(|source| *source == peer) {
            self.sources.remove(at);
            // Whose turn it was keeps it, or one that lies again and again would keep the turn where it is.
            self.first -= usize::from(at < self.first);
        }
        self.asked.retain(|_, asked| *asked != peer);
        if self.sources.is_empty() {
            let rest = self.others.without(peer);
            let fresh = rest.minus(self.gone);
            self.sources = if fresh.is_empty() { rest } else { fresh }.iter().collect();
        }
        if self.first >= self.sources.len() {
            self.first = 0;
        }
    }

    fn bytes(&self) -> u64 {
        let pieces: u64 = self.pieces.iter().flatten().map(|piece| piece.len() as u64).sum();
        if self.digesting { 2 * pieces } else { pieces }
    }
}

/// Bytes of header and body.
fn length(statement: &Witness) -> usize {
    head_bytes(statement.kind) + statement.body_len as usize
}

/// All pulls.
#[derive(Clone, Debug, Default)]
pub(super) struct Pulling {
    of: BTreeMap<Hash, Fetch>,
}

impl Pulling {
    pub(super) fn wants(&self, digest: &Hash) -> bool {
        self.of.get(digest).is_some_and(|fetch| !fetch.dead)
    }

    pub(super) fn add(&mut self, fetch: Fetch) {
        self.of.entry(fetch.statement.digest).or_insert(fetch);
    }

    /// Gives up what lies at or below a height that the server delivered.
    pub(super) fn retain(&mut self, delivered: u64) {
        self.of.retain(|_, fetch| fetch.height > delivered);
    }

    pub(super) fn get_mut(&mut self, digest: &Hash) -> Option<&mut Fetch> {
        self.of.get_mut(digest)
    }

    pub(super) fn remove(&mut self, digest: &Hash) -> Option<Fetch> {
        self.of.remove(digest)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (&Hash, &mut Fetch)> {
        self.of.iter_mut()
    }

    /// Activates the lowest waiting pull, if there is room.
    pub(super) fn next(&mut self) -> Option<Hash> {
        let live = |fetch: &&mut Fetch| !fetch.dead;
        if self.of.values().filter(|fetch| fetch.active && !fetch.dead).count() >= PARALLEL {
            return None;
        }
        let waiting = self.of.values_mut().filter(live).filter(|fetch| !fetch.active);
        let fetch = waiting.min_by_key(|fetch| fetch.height)?;
        fetch.active = true;
        Some(fetch.statement.digest)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.of.values().map(Fetch::bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::{Fetch, PARALLEL, Pulling, Took};
    use crate::message::PIECE_MAX;
    use crate::statement::{Kind, Witness};
    use synod_crypto::Hash;
    use synod_quorum::{NodeId, NodeSet};
    use synod_wire::Bytes;

    const A: NodeId = NodeId(0);
    const B: NodeId = NodeId(1);
    const C: NodeId = NodeId(2);
    const D: NodeId = NodeId(3);

    /// A batch of three pieces, pulled by D from A and B, then from C.
    fn fetch(height: u64) -> Fetch {
        let body_len = u32::try_from(2 * PIECE_MAX).expect("small");
        let digest = Hash::of(&height.to_le_bytes());
        let statement = Witness { kind: Kind::Messages, digest, expiry: 9, count: 1, body_len };
        let others = NodeSet::first(4).without(D);
        Fetch::new(statement, height, NodeSet::only(A).with(B), others)
    }

    fn piece(at: usize) -> (u32, Bytes) {
        let length = if at == 2 { 192 } else { PIECE_MAX };
        (u32::try_from(at * PIECE_MAX).expect("small"), Bytes::from(vec![0; length]))
    }

    #[test]
    fn a_pull_that_waits_for_its_turn_asks_nobody_whatever_peers_send() {
        let mut pulling = Pulling::default();
        for height in 2..9 {
            pulling.add(fetch(height));
        }
        while pulling.next().is_some() {}
        let asking = |pulling: &mut Pulling| {
            let asks: Vec<usize> = pulling.iter_mut().map(|(_, fetch)| fetch.asks().len()).collect();
            asks.into_iter().filter(|asked| *asked > 0).count()
        };
        for (_, fetch) in pulling.iter_mut() {
            let (offset, bytes) = piece(0);
            assert_eq!(fetch.take(C, offset, bytes), Took::Known, "an earlier life may have asked");
        }
        assert_eq!(asking(&mut pulling), PARALLEL);
    }

    #[test]
    fn a_late_piece_of_a_correct_peer_is_no_fault_after_pieces_did_not_fit_together() {
        let mut fetch = fetch(2);
        fetch.active = true;
        assert_eq!(fetch.asks().len(), 3);
        // B is slow: C and A give what was asked of it, and what they give is not the batch.
        for _ in 0..4 {
            fetch.rotate();
        }
        assert_eq!(fetch.asks().len(), 3);
        for (from, at) in [(A, 0), (C, 1), (A, 2)] {
            let (offset, bytes) = piece(at);
            assert_ne!(fetch.take(from, offset, bytes), Took::Wrong);
        }
        assert_eq!(fetch.wrong(), None, "one of two lied");
        fetch.asks();
        let (offset, bytes) = piece(1);
        assert_eq!(fetch.take(B, offset, bytes), Took::Known, "late, and no more");
    }
}

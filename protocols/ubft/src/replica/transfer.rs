//! Catching up by the log (specification, 4.12, first step): batches below a certified checkpoint, from one peer at a time, believed once
//! their chain is the one that was certified. Where nobody has them any more, a snapshot is fetched (`install`).
//!
//! *Bounds.* What is fetched is at most as much as an archive holds.

use std::sync::Arc;

use synod_crypto::Hash;
use synod_machine::{Span, Turn};
use synod_quorum::NodeId;
use synod_wire::List;

use super::admit::batch_bytes;
use super::membership::SERVED_MAX;
use super::state::Replica;
use super::vocabulary::{Output, Timer};
use super::words::Ask;
use crate::batch::{Batch, Slot};
use crate::config::WAIT_TIMES_MAX;
use crate::fault::Fault;
use crate::message::{LOG_MAX, Message};
use crate::trace::Rule;

/// All peers have said so often that they have neither log nor snapshot, before the user learns it.
const STRANDED_TIMES: u32 = 3;
/// Bytes of batches of one answer, beside the first.
const PIECE_BYTES: u64 = 64 << 10;

/// A transfer that is under way.
#[derive(Debug)]
pub(super) struct Transfer {
    /// The checkpoint that is aimed at.
    to: Slot,
    chain: Hash,
    source: NodeId,
    /// From what is executed or decided here on.
    from: Slot,
    got: Vec<Batch>,
    bytes: u64,
    /// Peers that have it no more.
    without: u32,
    /// Pieces that came since a wait was over last.
    pieces: usize,
}

impl Transfer {
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Replica {
    /// What is executed, or waits to be.
    pub(super) fn have(&self) -> Slot {
        Slot(self.executed.0.saturating_add(self.decided.len() as u64))
    }

    /// Whether a certified checkpoint has what is not here.
    pub(super) fn is_behind(&self) -> bool {
        self.newest.as_ref().is_some_and(|newest| newest.subject.low > self.have())
    }

    /// Slots below the newest checkpoint were decided without this replica: their log is fetched.
    pub(super) fn catch_up(&mut self, turn: &mut Turn<'_, Self>) {
        let from = self.have();
        let Some(certified) = self.newest.as_ref().map(|newest| newest.subject) else { return };
        if certified.low <= from {
            return self.ask(Ask::Resume(from), turn);
        }
        let (to, chain) = (certified.low, certified.log_chain);
        if self.install.is_some() {
            return;
        }
        if let Some(transfer) = &mut self.transfer {
            // What was fetched counts for the newer checkpoint as well.
            (transfer.to, transfer.chain) = (to, chain);
            return;
        }
        let source = self.next_source(self.config.me);
        let transfer = Transfer { to, chain, source, from, got: Vec::new(), bytes: 0, without: 0, pieces: 0 };
        self.transfer = Some(transfer);
        turn.applied(Rule::Transfer);
        self.fetch_log(turn);
    }

    fn next_source(&self, after: NodeId) -> NodeId {
        let others = self.config.roster.others(self.config.me);
        others.iter().find(|id| *id > after).or_else(|| others.iter().next()).unwrap_or(after)
    }

    /// How long a peer may take to answer.
    pub(super) fn wait(&self) -> Span {
        self.config.parameters.fast.times(4)
    }

    /// The same for what is fetched piece by piece: longer with each peer that did not keep it, for a link may be slower than all waits.
    pub(super) fn patience(&self) -> Span {
        let fast = self.config.parameters.fast;
        self.wait().times(1 << self.late.min(8)).min(fast.times(WAIT_TIMES_MAX))
    }

    fn fetch_log(&self, turn: &mut Turn<'_, Self>) {
        let Some(transfer) = &self.transfer else { return };
        let from = Slot(transfer.from.0.saturating_add(transfer.got.len() as u64));
        turn.send(transfer.source, Message::FetchLog { from });
        turn.arm(Timer::Transfer, self.patience());
    }

    /// Nothing came: another one is asked. One that gave as much as anybody gives in a while goes on where it stopped, or who has more to
    /// fetch than that would begin anew for ever.
    pub(super) fn on_transfer(&mut self, turn: &mut Turn<'_, Self>) {
        let pieces = self.transfer.as_mut().map_or(0, |transfer| core::mem::take(&mut transfer.pieces));
        if pieces >= SERVED_MAX / 2 {
            return self.fetch_log(turn);
        }
        self.late = self.late.saturating_add(1);
        if !self.on_late(turn) {
            self.start_over(turn);
        }
    }

    fn start_over(&mut self, turn: &mut Turn<'_, Self>) {
        let Some(source) = self.transfer.as_ref().map(|transfer| transfer.source) else { return };
        let next = self.next_source(source);
        if let Some(transfer) = &mut self.transfer {
            (transfer.source, transfer.bytes, transfer.pieces) = (next, 0, 0);
            transfer.got.clear();
        }
        self.fetch_log(turn);
    }

    /// A peer is behind.
    pub(super) fn on_fetch_log(&mut self, peer: NodeId, from: Slot, turn: &mut Turn<'_, Self>) {
        if !self.others().contains(peer) || !self.may_serve(peer, turn.now()) {
            return;
        }
        let (mut batches, mut bytes) = (Vec::new(), 0);
        for (counts_as, batch) in self.archive.from(from).take(LOG_MAX) {
            bytes += counts_as;
            if bytes > PIECE_BYTES && !batches.is_empty() {
                break;
            }
            batches.push(batch);
        }
        let batches = List::try_from(batches).unwrap_or_default();
        turn.send(peer, Message::Log { from, batches });
    }

    /// A piece of the log of the peer that was asked.
    pub(super) fn on_log(
        &mut self,
        peer: NodeId,
        from: Slot,
        batches: Vec<Batch>,
        turn: &mut Turn<'_, Self>,
    ) {
        let (peers, most) = (self.config.roster.size().saturating_sub(1), self.archive_most());
        let Some(transfer) = self.transfer.as_mut().filter(|transfer| transfer.source == peer) else {
            return;
        };
        if from.0 != transfer.from.0.saturating_add(transfer.got.len() as u64) {
            return;
        }
        if batches.is_empty() {
            transfer.without = transfer.without.saturating_add(1);
            let without = transfer.without;
            if without < peers {
                return self.start_over(turn);
            }
            // Nobody has the log: after a while all are asked again, unless one of them shows a snapshot.
            self.seek_snapshot(from, turn);
            if self.install.is_none() {
                turn.arm(Timer::Transfer, self.patience());
                if without >= peers.saturating_mul(STRANDED_TIMES) {
                    turn.output(Output::Stranded { from });
                }
            }
            return;
        }
        (transfer.without, transfer.pieces) = (0, transfer.pieces.saturating_add(1));
        for batch in batches {
            if transfer.from.0.saturating_add(transfer.got.len() as u64) < transfer.to.0 {
                transfer.bytes = transfer.bytes.saturating_add(batch_bytes(&batch) as u64);
                transfer.got.push(batch);
            }
        }
        let is_whole = transfer.from.0.saturating_add(transfer.got.len() as u64) == transfer.to.0;
        if transfer.bytes > most {
            return self.start_over(turn);
        }
        if is_whole { self.take_log(peer, turn) } else { self.fetch_log(turn) }
    }

    /// All is here: it counts if its chain is the certified one.
    fn take_log(&mut self, peer: NodeId, turn: &mut Turn<'_, Self>) {
        let Some(transfer) = self.transfer.take() else { return };
        // What was decided here meanwhile is here already.
        let have = self.executed.0.saturating_add(self.decided.len() as u64);
        if have > transfer.to.0 {
            self.late = 0;
            turn.disarm(Timer::Transfer);
            self.ask(Ask::Resume(Slot(have)), turn);
            return self.execute(turn);
        }
        let known = usize::try_from(have.saturating_sub(transfer.from.0)).unwrap_or(usize::MAX);
        let got = transfer.got.into_iter().skip(known).map(|batch| (batch.digest(), batch));
        let got: Vec<(Hash, Batch)> = got.collect();
        let (half, mut chain) = (self.config.half_window(), self.log_chain.clone());
        let waiting = self.decided.iter().map(|(_, digest, _)| *digest);
        let digests = waiting.chain(got.iter().map(|(digest, _)| *digest));
        (self.executed.0..).zip(digests).for_each(|(slot, digest)| chain.follow(Slot(slot), digest, half));
        if chain.head() != transfer.chain {
            turn.blame(peer, Fault::BadContent);
            self.transfer = Some(Transfer { got: Vec::new(), bytes: 0, ..transfer });
            return self.start_over(turn);
        }
        turn.disarm(Timer::Transfer);
        (self.transfer, self.late) = (None, 0);
        for (slot, (digest, batch)) in (have..).zip(got) {
            self.judging.remove(&Slot(slot));
            self.decided.push_back((Slot(slot), digest, Arc::new(batch)));
        }
        self.ask(Ask::Resume(transfer.to), turn);
        self.execute(turn);
    }
}

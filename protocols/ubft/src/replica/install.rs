//! A snapshot of peers takes the place of what is here (Algorithm 2, line 60; specification, 4.12).
//!
//! Chunks come from all peers at once, each proved against the certified root before it is used; whoever sends another is blamed and asked
//! no more. The replica's own chunks come first; the application's are handed to the user in order.
//!
//! *Bounds.* [`PARALLEL`] chunks are asked for or wait.

use std::collections::BTreeMap;

use synod_crypto::{Hash, merkle};
use synod_machine::{Turn, Wall};
use synod_quorum::{NodeId, NodeSet};
use synod_wire::{Bytes, Limits, Wire as _};

use super::execute::{exec_chain, log_chain};
use super::state::Replica;
use super::vocabulary::{Output, Timer};
use super::words::Ask;
use crate::batch::Slot;
use crate::certificate::Snapshotted;
use crate::epoch::Epochs;
use crate::fault::Fault;
use crate::message::Message;
use crate::sessions::Sessions;
use crate::snapshot::{CHUNK_MAX, Held, Part, Snapshot};
use crate::trace::Rule;

/// Chunks that are asked for or wait to be taken over.
const PARALLEL: u32 = 16;

/// A snapshot that is fetched.
#[derive(Debug)]
pub(super) struct Install {
    certified: Snapshotted,
    snapshot: Option<Snapshot>,
    /// The next chunk to ask for, and the next to take over.
    ask: u32,
    take: u32,
    arrived: BTreeMap<u32, Bytes>,
    /// Chunks asked of peers.
    asked: BTreeMap<u32, NodeId>,
    /// Who was asked for the summary last.
    summary_of: Option<NodeId>,
    own: Vec<u8>,
    /// Peers that lied, have it no more, or said nothing in time.
    refused: NodeSet,
    turns: u32,
}

impl Install {
    const fn new(certified: Snapshotted, refused: NodeSet) -> Self {
        Self {
            certified,
            snapshot: None,
            ask: 0,
            take: 0,
            arrived: BTreeMap::new(),
            asked: BTreeMap::new(),
            summary_of: None,
            own: Vec::new(),
            refused,
            turns: 0,
        }
    }

    /// The next peer to ask: one after the other, of those that are good for something; of all where none is.
    fn source(&mut self, others: NodeSet) -> Option<NodeId> {
        if others.within(self.refused) {
            self.refused = NodeSet::EMPTY;
        }
        let good = others.minus(self.refused);
        let at = self.turns.checked_rem(good.count())?;
        self.turns = self.turns.wrapping_add(1);
        good.iter().nth(usize::try_from(at).ok()?)
    }

    pub(super) fn bytes(&self) -> u64 {
        let waiting: usize = self.arrived.values().map(Bytes::len).sum();
        (waiting + self.own.len()) as u64 + 1_024
    }

    /// Bytes that wait at most, beside the replica's own chunks.
    pub(super) const fn bytes_max() -> u64 {
        PARALLEL as u64 * CHUNK_MAX as u64 + 2_048
    }
}

impl Replica {
    /// The log is in nobody's archive: the newest snapshot is fetched, if it has what is missing.
    pub(super) fn seek_snapshot(&mut self, missing: Slot, turn: &mut Turn<'_, Self>) {
        let newest = self.snapshots.certified().map(|certificate| certificate.subject);
        let is_under_way = self.install.as_ref().map(|install| install.certified.low);
        let newest =
            newest.filter(|newest| newest.low > missing && is_under_way.is_none_or(|low| newest.low > low));
        if let Some(certified) = newest {
            let refused = self.install.take().map_or(NodeSet::EMPTY, |install| install.refused);
            self.transfer = None;
            self.install = Some(Install::new(certified, refused));
            turn.applied(Rule::Install);
            self.pull(turn);
        } else if is_under_way.is_none() {
            self.ask_standing(self.others(), turn);
        }
    }

    /// Asks for the summary, or for as many chunks as may wait.
    fn pull(&mut self, turn: &mut Turn<'_, Self>) {
        let (others, wait) = (self.others(), self.patience());
        let Some(install) = &mut self.install else { return };
        let low = install.certified.low;
        turn.arm(Timer::Transfer, wait);
        let Some(snapshot) = install.snapshot else {
            install.summary_of = install.source(others);
            if let Some(source) = install.summary_of {
                turn.send(source, Message::FetchChunk { low, part: Part::Summary });
            }
            return;
        };
        while install.ask < snapshot.count() && install.ask.saturating_sub(install.take) < PARALLEL {
            let place = install.ask;
            install.ask = install.ask.saturating_add(1);
            if let Some(source) = install.source(others) {
                install.asked.insert(place, source);
                turn.send(source, Message::FetchChunk { low, part: snapshot.part(place) });
            }
        }
    }

    /// Nothing came for a while, or something that is worth nothing: others are asked, all or instead of one.
    fn pull_again(&mut self, of: Option<NodeId>, turn: &mut Turn<'_, Self>) {
        let (others, wait) = (self.others(), self.patience());
        let Some(install) = &mut self.install else { return };
        let (low, Some(snapshot)) = (install.certified.low, install.snapshot) else {
            return self.pull(turn);
        };
        let late: Vec<u32> = install
            .asked
            .iter()
            .filter(|(_, source)| of.is_none_or(|of| of == **source))
            .map(|(place, _)| *place)
            .collect();
        for place in late {
            if let Some(source) = install.source(others) {
                install.asked.insert(place, source);
                turn.send(source, Message::FetchChunk { low, part: snapshot.part(place) });
            }
        }
        turn.arm(Timer::Transfer, wait);
    }

    /// The wait for chunks is over. False where none are fetched.
    pub(super) fn on_late(&mut self, turn: &mut Turn<'_, Self>) -> bool {
        let others = self.others();
        let Some(install) = &mut self.install else { return false };
        let late: Vec<NodeId> = install.asked.values().copied().chain(install.summary_of).collect();
        let is_waiting = install.snapshot.is_none() || !install.asked.is_empty();
        for source in late {
            install.refused.insert(source);
        }
        // Where all have let it go there is a newer one.
        if is_waiting && others.within(install.refused) {
            let low = install.certified.low;
            self.seek_snapshot(low, turn);
            self.ask_standing(others, turn);
        }
        self.pull_again(None, turn);
        true
    }

    /// A part of a snapshot came.
    pub(super) fn on_chunk(
        &mut self,
        from: NodeId,
        (low, part): (Slot, Part),
        bytes: Bytes,
        path: &[Hash],
        turn: &mut Turn<'_, Self>,
    ) {
        let is_peer = self.others().contains(from);
        let Some(install) = self.install.as_mut().filter(|install| is_peer && install.certified.low == low)
        else {
            return;
        };
        let is_good = match (install.snapshot, part) {
            (None, Part::Summary) if install.summary_of == Some(from) => {
                install.snapshot = Snapshot::read(&bytes, &install.certified);
                install.summary_of = None;
                install.snapshot.is_some()
            }
            (Some(snapshot), Part::Own(_) | Part::App(_)) => {
                let Some(place) =
                    snapshot.place(part).filter(|place| install.asked.get(place) == Some(&from))
                else {
                    return;
                };
                let is_proven = snapshot.proves(part, merkle::leaf(&bytes), path);
                if is_proven {
                    install.asked.remove(&place);
                    install.arrived.insert(place, bytes);
                }
                is_proven
            }
            _ => return,
        };
        if is_good {
            self.take_over(turn);
        } else {
            install.refused.insert(from);
            turn.blame(from, Fault::BadContent);
            self.pull_again(Some(from), turn);
        }
    }

    /// Takes chunks over in order; with the last the state is another one.
    fn take_over(&mut self, turn: &mut Turn<'_, Self>) {
        let Some((install, snapshot)) =
            self.install.as_mut().and_then(|install| install.snapshot.map(|snapshot| (install, snapshot)))
        else {
            return;
        };
        let (low, count) = (snapshot.low, snapshot.app_chunks);
        let mut is_begun = false;
        while let Some(bytes) = install.arrived.remove(&install.take) {
            match snapshot.part(install.take) {
                Part::App(index) => {
                    is_begun = true;
                    turn.output(Output::Install { low, index, count, chunk: bytes });
                }
                Part::Own(_) | Part::Summary => install.own.extend_from_slice(&bytes),
            }
            install.take = install.take.saturating_add(1);
        }
        let is_whole = install.take == snapshot.count();
        if is_begun || (is_whole && count == 0) {
            // From here on the application's state is nobody's.
            self.installing = Some(low);
        }
        if is_whole { self.install(&snapshot, turn) } else { self.pull(turn) }
    }

    fn install(&mut self, snapshot: &Snapshot, turn: &mut Turn<'_, Self>) {
        let Some(install) = self.install.take() else { return };
        self.late = 0;
        turn.disarm(Timer::Transfer);
        let frame_max = u32::try_from(install.own.len()).unwrap_or(u32::MAX);
        let Ok(held) = Held::decode(Bytes::from(install.own), &Limits { frame_max }) else {
            unreachable!("certified chunks are what a replica holds")
        };
        if snapshot.app_chunks == 0 {
            turn.output(Output::Install { low: snapshot.low, index: 0, count: 0, chunk: Bytes::new() });
        }
        self.sessions = Sessions::restore(self.settings.sessions, held.sessions);
        self.epochs = held.epochs;
        self.time = Wall(snapshot.time_ms);
        (self.log_chain, self.exec_chain) = (log_chain(snapshot.log_chain), exec_chain(snapshot.exec_chain));
        self.begin_at(snapshot.low, turn);
    }

    /// All that is here is worth nothing: it begins anew, before the first slot.
    pub(super) fn discard(&mut self, turn: &mut Turn<'_, Self>) {
        let keys = self.config.roster.all();
        let keys = keys.iter().filter_map(|id| Some((id, self.config.roster.member(id)?.key)));
        self.sessions = Sessions::new(self.settings.sessions, keys.collect::<Vec<_>>().into_iter());
        self.epochs = Epochs::genesis(&self.genesis);
        self.time = Wall(0);
        (self.log_chain, self.exec_chain) = (log_chain(Hash::ZERO), exec_chain(Hash::ZERO));
        (self.transfer, self.install) = (None, None);
        self.drop_snapshots(turn);
        turn.output(Output::Install { low: Slot(0), index: 0, count: 0, chunk: Bytes::new() });
        self.begin_at(Slot(0), turn);
    }

    /// The state is the one behind a slot, as soon as the user has it too.
    fn begin_at(&mut self, low: Slot, turn: &mut Turn<'_, Self>) {
        self.executed = low;
        self.executing = None;
        self.decided.clear();
        self.judging.retain(|slot, _| *slot >= low);
        self.checkpoints.clear();
        self.archive.clear();
        self.snapshots.restart(low);
        self.installing = Some(low);
        self.forget_done();
        self.ask(Ask::Goto(low), turn);
        self.catch_up(turn);
    }

    /// The user has the state: it goes on.
    pub(super) fn on_installed(&mut self, low: Slot, turn: &mut Turn<'_, Self>) {
        if self.installing == Some(low) && self.executed == low {
            self.installing = None;
            self.judge_again(turn);
            self.execute(turn);
        }
    }
}

//! Entries below certified ones, asked of peers one after another: the certificate of a later entry proves them.

use std::collections::{BTreeMap, BTreeSet};

use synod_crypto::Hash;
use synod_ledger::{AccountId, Digests, EntryId};
use synod_machine::{Span, Turn};
use synod_quorum::NodeId;

use super::{Carrier, Replica, keep, say};
use crate::batch::Line;
use crate::fault::Fault;
use crate::trace::Rule;
use crate::words::{Promise, Timer, Word};
use crate::xlog::Certified;

/// Entries that settled by descent and are kept for others. Each takes a liar's exclusion, so they are few.
pub(super) const DESCENDED_MAX: usize = 65_536;

/// An entry that is asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    digest: Hash,
    wait: Span,
    asked: u32,
}

impl<B: Carrier> Replica<B> {
    /// Asks for an entry until it is here.
    pub(super) fn want(&mut self, id: EntryId, digest: Hash, turn: &mut Turn<'_, Self>) {
        let wait = self.config.parameters.pull;
        let known = self.wanted.insert(id, Wanted { digest, wait, asked: 0 });
        if known.is_none_or(|known| known.digest != digest) {
            self.is_sought = false;
            turn.applied(Rule::Pull);
            self.on_want_due(id, turn);
        }
    }

    pub(super) fn on_want_due(&mut self, id: EntryId, turn: &mut Turn<'_, Self>) {
        let (others, longest) = (self.others(), self.config.parameters.pull_max);
        let Some(wanted) = self.wanted.get_mut(&id) else { return };
        let nth = wanted.asked.checked_rem(others.count()).unwrap_or_default();
        let (digest, wait) = (wanted.digest, wanted.wait);
        wanted.asked = wanted.asked.wrapping_add(1);
        wanted.wait = wait.times(2).min(longest);
        turn.arm(Timer::Want(id), wait);
        if let Some(peer) = others.iter().nth(usize::try_from(nth).unwrap_or_default()) {
            say(turn, peer, Word::Want { id, digest });
        }
    }

    pub(super) fn on_want(&self, from: NodeId, id: EntryId, digest: Hash, turn: &mut Turn<'_, Self>) {
        let open = self.ledger.slot(id).filter(|slot| slot.digest == digest).map(|slot| &slot.line);
        let settled =
            || self.descended.get(&id).filter(|line| Digests::default().entry(&line.entry) == digest);
        if let Some(line) = open.or_else(settled) {
            say(turn, from, Word::Here(line.clone()));
        }
    }

    /// An entry that was asked for, perhaps.
    pub(super) fn on_here(&mut self, from: NodeId, line: Line, turn: &mut Turn<'_, Self>) {
        let id = line.entry.id;
        let Some(wanted) = self.wanted.get(&id).copied() else { return };
        if Digests::default().entry(&line.entry) != wanted.digest {
            return turn.blame(from, Fault::WrongEntry);
        }
        self.take_wanted(&line, wanted.digest, turn);
    }

    /// Takes what is wanted from batches that wait to be judged. In a view that this node entered behind nobody else may tell it: who settled it
    /// settled it with its batch, and that is endorsed here only once it is settled. Whether there was any.
    pub(super) fn take_from_waiting(&mut self, turn: &mut Turn<'_, Self>) -> bool {
        if std::mem::replace(&mut self.is_sought, true) {
            return false;
        }
        let spenders: BTreeSet<AccountId> = self.wanted.keys().map(|id| id.spender).collect();
        let waiting = self.lanes.values().flat_map(|lane| lane.waiting.values());
        let lines = waiting.flat_map(|opened| opened.lines());
        let lines = lines.filter(|(_, line, _)| spenders.contains(&line.entry.id.spender));
        let here: BTreeMap<(EntryId, Hash), Line> =
            lines.map(|(_, line, digest)| ((line.entry.id, digest), line.clone())).collect();
        let mut any = false;
        while let Some((digest, line)) = self.wanted.iter().find_map(|(id, wanted)| {
            here.get(&(*id, wanted.digest)).map(|line| (wanted.digest, line.clone()))
        }) {
            self.take_wanted(&line, digest, turn);
            any = true;
        }
        self.is_sought = true;
        any
    }

    /// An entry that was asked for is here.
    fn take_wanted(&mut self, line: &Line, digest: Hash, turn: &mut Turn<'_, Self>) {
        let id = line.entry.id;
        self.wanted.remove(&id);
        turn.disarm(Timer::Want(id));
        if self.desk.has_unrecorded(id.spender) {
            self.record_admitted_of(&BTreeSet::from([id.spender]), turn);
        }
        keep(turn, Promise::Descended(line.clone()));
        let certified = self.ledger.certify(line, digest);
        match certified {
            Certified::Whole | Certified::Settled => {}
            Certified::Missing(id, digest) => self.want(id, digest, turn),
            Certified::Contradicts => self.tell_contradiction(line, None, turn),
        }
        self.settle([id.spender], turn);
    }

    pub(super) fn keep_descended(&mut self, line: Line) {
        self.descended.insert(line.entry.id, line);
        if self.descended.len() > DESCENDED_MAX {
            self.descended.pop_first();
        }
    }
}

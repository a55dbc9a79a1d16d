//! What is missed, and asked of one replica after the other (specification, 4.16).
//!
//! Answers are recognised by what they are and proven by digest, signature or certificate, so they need no names. *Bounds.*
//! [`WANTS_MAX`] things at a time; a peer is answered [`ANSWERS_MAX`] times in T_fast and may hint 64 times in a second.

use std::collections::BTreeMap;

use std::sync::Arc;

use synod_crypto::Hash;
use synod_machine::{Event, Span, Time, Turn};
use synod_quorum::NodeId;
use synod_wire::{Blob, Bytes, Limits, Wire as _};

use super::consensus::Consensus;
use super::words::{Alarm, PIECE_MAX, Want, Word, node};
use super::work::Work;
use crate::batch::{Batch, Slot, View};
use crate::certificate::{Left, Subject as _};
use crate::config::{Config, WAIT_TIMES_MAX};
use crate::ctb;
use crate::fault::Fault;
use crate::statement::Statement;
use crate::trace::Rule;

/// Things that are asked for at a time.
pub const WANTS_MAX: usize = 256;
/// Answers to one peer in T_fast.
pub(super) const ANSWERS_MAX: usize = 64;
/// Pending wants that are asked again in one turn.
const AGAIN_MAX: usize = 16;

/// What an answer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum For {
    /// It speaks for itself.
    Itself,
    /// The next message of a stream is this long body.
    Body { of: NodeId, length: u32 },
    /// The batch of a slot.
    Batch(Slot),
    /// The body of a signed message.
    Found(u8),
}

#[derive(Clone, Debug)]
struct Pending {
    what: For,
    source: NodeId,
    at: Time,
    wait: Span,
    got: Vec<u8>,
}

/// So many of something in a span.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Budget {
    since: Time,
    used: usize,
}

impl Budget {
    pub(super) fn take(&mut self, now: Time, span: Span, most: usize) -> bool {
        if now.since(self.since) >= span {
            *self = Self { since: now, used: 0 };
        }
        self.used = self.used.saturating_add(1);
        self.used <= most
    }
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Fetches {
    pending: BTreeMap<Want, Pending>,
    hints: BTreeMap<NodeId, Budget>,
    answers: BTreeMap<NodeId, Budget>,
    is_armed: bool,
}

impl Fetches {
    pub(super) fn is_wanted(&self, want: Want) -> bool {
        self.pending.contains_key(&want)
    }

    pub(super) fn forget(&mut self, want: Want) {
        self.pending.remove(&want);
    }

    /// Whether a hint of a peer is heard.
    pub(super) fn may_serve(&mut self, peer: NodeId, now: Time) -> bool {
        self.hints.entry(peer).or_default().take(now, Span::secs(1), 64)
    }

    pub(super) fn bytes(&self) -> u64 {
        let got: usize = self.pending.values().map(|pending| pending.got.len() + size_of::<Pending>()).sum();
        got as u64
    }

    pub(super) fn bytes_max(config: &Config) -> u64 {
        let n = u64::from(config.roster.size());
        let references = n * u64::from(super::summary::reference_max(config));
        WANTS_MAX as u64 * (size_of::<Pending>() as u64 + config.body_max() as u64) + references
    }
}

impl Consensus {
    /// Asks for something, unless it is asked for.
    pub(super) fn want(&mut self, want: Want, what: For, turn: &mut Turn<'_, Self>) {
        if self.fetches.pending.contains_key(&want) || self.fetches.pending.len() >= WANTS_MAX {
            return;
        }
        let first = match (what, want) {
            (For::Body { of, .. }, _) => of,
            (_, Want::Summary { about }) => node(about),
            (For::Batch(_), _) => self.leader(),
            _ => self.me(),
        };
        let source = if first == self.me() { self.after(first) } else { first };
        let (now, wait) = (turn.now(), self.config.parameters.fast);
        self.fetches.pending.insert(want, Pending { what, source, at: now, wait, got: Vec::new() });
        turn.applied(Rule::Fetch);
        turn.send(source, Word::Fetch(want));
        if !self.fetches.is_armed {
            self.fetches.is_armed = true;
            turn.arm(Alarm::Fetch, wait);
        }
    }

    /// The replica after another, but for this one.
    fn after(&self, id: NodeId) -> NodeId {
        let others = self.others();
        others.iter().find(|other| *other > id).or_else(|| others.iter().next()).unwrap_or(id)
    }

    pub(super) fn want_batch(&mut self, slot: Slot, digest: Hash, turn: &mut Turn<'_, Self>) {
        if self.works.get(slot).is_some_and(|work| work.batch(digest).is_none()) {
            self.want(Want::Content { digest, at: 0 }, For::Batch(slot), turn);
        }
    }

    pub(super) fn want_left(&mut self, about: u8, turn: &mut Turn<'_, Self>) {
        self.want(Want::Left { view: self.view, about }, For::Itself, turn);
    }

    /// The body of a signed message is nowhere here (E35).
    pub(super) fn miss_body(&mut self, broadcaster: u8, k: u64, digest: Hash, turn: &mut Turn<'_, Self>) {
        self.want(Want::Message { broadcaster, k }, For::Itself, turn);
        self.want(Want::Content { digest, at: 0 }, For::Found(broadcaster), turn);
    }

    /// Whether something is still missed.
    fn is_missed(&self, want: &Want, what: For) -> bool {
        match (*want, what) {
            (Want::Message { broadcaster, k }, _) => self
                .lanes
                .get(&node(broadcaster))
                .is_some_and(|lane| lane.stream.next_k() <= k && !lane.waiting.contains_key(&k)),
            (Want::Content { digest, .. }, For::Batch(slot)) => self.works.get(slot).is_some_and(|work| {
                work.batch(digest).is_none() && work.ballot.bound().any(|bound| bound == digest)
            }),
            (Want::Content { digest, .. }, For::Body { of, .. }) => self.lanes.get(&of).is_some_and(|lane| {
                let next = lane.waiting.get(&lane.stream.next_k());
                matches!(next, Some(super::work::Stage::Wanting { digest: wanted, .. }) if *wanted == digest)
            }),
            (Want::Content { .. }, For::Found(_)) => true,
            (Want::Content { .. }, For::Itself) | (Want::Share { .. }, _) => false,
            (Want::Checkpoint, _) => true,
            (Want::Summary { about }, _) => self.lanes.get(&node(about)).is_some_and(|lane| lane.has_gap()),
            (Want::Left { view, .. }, _) => view == self.view && !self.own.is_shown,
        }
    }

    /// What is missed and was not answered is asked of the next one.
    pub(super) fn on_refetch(&mut self, turn: &mut Turn<'_, Self>) {
        self.fetches.is_armed = false;
        let (now, fast) = (turn.now(), self.config.parameters.fast);
        let gone: Vec<Want> = self
            .fetches
            .pending
            .iter()
            .filter(|(want, pending)| !self.is_missed(want, pending.what))
            .map(|(want, _)| *want)
            .collect();
        gone.into_iter().for_each(|want| self.fetches.forget(want));
        // The body of a signed message may never come, for its broadcaster lies.
        let most = fast.times(WAIT_TIMES_MAX);
        self.fetches
            .pending
            .retain(|_, pending| !matches!(pending.what, For::Found(_)) || pending.wait < most);
        let due = self.fetches.pending.iter().filter(|(_, pending)| now.since(pending.at) >= pending.wait);
        let due: Vec<(Want, NodeId)> =
            due.map(|(want, pending)| (*want, pending.source)).take(AGAIN_MAX).collect();
        for (want, source) in due {
            let next = self.after(source);
            let Some(pending) = self.fetches.pending.get_mut(&want) else { continue };
            let wait = Span(pending.wait.times(2).0.min(most.0));
            (pending.source, pending.at, pending.wait) = (next, now, wait);
            pending.got.clear();
            turn.send(next, Word::Fetch(want));
        }
        if !self.fetches.pending.is_empty() {
            self.fetches.is_armed = true;
            turn.arm(Alarm::Fetch, fast);
        }
    }

    /// A peer misses something.
    pub(super) fn on_fetch(&mut self, from: NodeId, want: Want, turn: &mut Turn<'_, Self>) {
        let (now, fast) = (turn.now(), self.config.parameters.fast);
        if !self.fetches.answers.entry(from).or_default().take(now, fast, ANSWERS_MAX) {
            return;
        }
        match want {
            Want::Message { broadcaster, k } => self.answer_message(from, broadcaster, k, turn),
            Want::Content { digest, at } => self.answer_content(from, digest, at, turn),
            Want::Share { view, slot } => self.answer_share(from, view, slot, turn),
            Want::Checkpoint => self.answer_checkpoint(from, turn),
            Want::Summary { about } => {
                let summary = self.lanes.get(&node(about)).and_then(|lane| lane.summary.clone());
                summary.into_iter().for_each(|summary| turn.send(from, Word::Summary(Box::new(summary))));
            }
            Want::Left { view, about } => {
                let left = self.lanes.get(&node(about)).and_then(|lane| lane.left.clone());
                let left = left.filter(|left| left.view == view);
                left.into_iter().for_each(|left| turn.send(from, Word::Left(Box::new(left))));
            }
        }
    }

    pub(super) fn answer_checkpoint(&self, from: NodeId, turn: &mut Turn<'_, Self>) {
        self.certified
            .iter()
            .for_each(|certificate| turn.send(from, Word::Checkpoint(Box::new(certificate.clone()))));
    }

    fn answer_message(&mut self, from: NodeId, broadcaster: u8, k: u64, turn: &mut Turn<'_, Self>) {
        if node(broadcaster) == self.me() {
            let message = ctb::Message::Nack { k };
            self.cast(node(broadcaster), Event::Message { from, message }, turn);
            return;
        }
        let Some(one) = self.ctb.get_mut(node(broadcaster)) else { return };
        let (words, body) = one.get_mut().answer(k);
        if let Some(body) = body {
            self.send_piece(from, (Hash::of(&body), 0), &body, turn);
        }
        for word in words {
            turn.send(from, Word::Ctb { broadcaster, word });
        }
    }

    fn answer_content(&self, from: NodeId, digest: Hash, at: u32, turn: &mut Turn<'_, Self>) {
        let batch = self.works.values().find_map(|work| work.batch(digest)).map(|batch| batch.encode());
        let body = batch.or_else(|| self.lanes.values().find_map(|lane| lane.body(digest).cloned()));
        body.into_iter().for_each(|body| self.send_piece(from, (digest, at), &body, turn));
    }

    fn send_piece(&self, to: NodeId, (digest, at): (Hash, u32), body: &Bytes, turn: &mut Turn<'_, Self>) {
        let (Ok(start), Ok(total)) = (usize::try_from(at), u32::try_from(body.len())) else { return };
        let end = start.saturating_add(PIECE_MAX).min(body.len());
        if start < end
            && let Ok(bytes) = Blob::try_from(body.slice(start..end))
        {
            turn.send(to, Word::Content { digest, at, total, bytes });
        }
    }

    /// A promise is honoured at any time and in any view (E12).
    fn answer_share(&mut self, from: NodeId, view: View, slot: Slot, turn: &mut Turn<'_, Self>) {
        if slot < self.low.low {
            self.answer_checkpoint(from, turn);
            return;
        }
        let me = self.me();
        let Some(work) = self.works.get(slot) else { return };
        if let Some((digest, signature)) = work.ballot.own_share(me, view) {
            turn.send(from, Word::Certify { view, slot, digest, signature: Box::new(signature) });
            return;
        }
        let promise = work.ballot.promised().iter().find(|(promised, _)| *promised == view).copied();
        if let Some((_, digest)) = promise {
            turn.applied(Rule::ServeShare);
            self.sign_proposal(view, slot, digest, turn);
        }
    }

    /// A piece of a batch or a body.
    pub(super) fn on_content(
        &mut self,
        from: NodeId,
        (digest, at, total): (Hash, u32, u32),
        bytes: &Bytes,
        turn: &mut Turn<'_, Self>,
    ) {
        let (want, body_max) = (Want::Content { digest, at: 0 }, self.config.body_max());
        let Some(pending) = self.fetches.pending.get_mut(&want) else { return };
        let most = match pending.what {
            For::Body { length, .. } => usize::try_from(length).unwrap_or(0),
            For::Itself | For::Batch(_) | For::Found(_) => body_max,
        };
        let is_asked = pending.source == from || matches!(pending.what, For::Found(_));
        let (Ok(at), Ok(total)) = (usize::try_from(at), usize::try_from(total)) else { return };
        if !is_asked || total > most || at != pending.got.len() || at.saturating_add(bytes.len()) > total {
            return;
        }
        pending.got.extend_from_slice(bytes);
        if pending.got.len() < total {
            let at = u32::try_from(pending.got.len()).unwrap_or(u32::MAX);
            turn.send(from, Word::Fetch(Want::Content { digest, at }));
            return;
        }
        let (what, whole) = (pending.what, Bytes::from(core::mem::take(&mut pending.got)));
        let is_good = match what {
            For::Batch(slot) => self.found_batch(slot, digest, whole, turn),
            For::Body { .. } | For::Found(_) | For::Itself if Hash::of(&whole) != digest => false,
            For::Body { of, .. } => {
                self.fetches.forget(want);
                self.on_reference(of, digest, whole, turn);
                true
            }
            For::Found(broadcaster) => {
                self.cast(node(broadcaster), Event::Input(ctb::Input::Found(whole)), turn);
                true
            }
            For::Itself => true,
        };
        if is_good {
            self.fetches.forget(want);
        } else {
            turn.blame(from, Fault::BadContent);
        }
    }

    fn found_batch(&mut self, slot: Slot, digest: Hash, bytes: Bytes, turn: &mut Turn<'_, Self>) -> bool {
        let limits = Limits { frame_max: u32::try_from(self.config.body_max()).unwrap_or(u32::MAX) };
        let batch = Batch::decode(bytes, &limits).ok().filter(|batch| batch.digest() == digest);
        let is_good = batch.is_some();
        batch.into_iter().for_each(|batch| self.on_batch(slot, digest, Arc::new(batch), turn));
        is_good
    }

    /// Where a replica stood: good if f + 1 signed just this.
    pub(super) fn on_left_body(&mut self, left: Left, turn: &mut Turn<'_, Self>) {
        let (about, need) = (left.about, usize::try_from(self.one_correct()).unwrap_or(usize::MAX));
        let unsigned = left.statement(0);
        let same = |claim: &Statement| {
            matches!((claim, &unsigned),
            (Statement::Left { view: a, low: b, checkpoint: c, commits: d, .. },
             Statement::Left { view: v, low: l, checkpoint: h, commits: m, .. }) if (a, b, c, d) == (v, l, h, m))
        };
        let signed = self.left.range((about, NodeId(0))..=(about, NodeId(u32::MAX)));
        let count = signed.filter(|(_, claim)| same(&claim.statement)).count();
        if left.view == self.view
            && count >= need
            && let Some(lane) = self.lanes.get_mut(&node(about))
        {
            self.fetches.forget(Want::Left { view: left.view, about });
            lane.left = Some(left);
            self.show_view(turn);
        }
    }

    /// Batches that somebody may be bound to and that are not here; for the tests.
    #[must_use]
    pub fn missing(&self) -> usize {
        self.works.values().map(Work::missing).sum()
    }
}

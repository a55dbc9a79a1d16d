//! Streams as they come (paper, section 5.2; Algorithms 4 and 5): in order, checked, and with gaps that a summary closes.
//!
//! Messages wait in t places and are applied strictly in order; their certificates are checked meanwhile. One that may not be there
//! halts its stream. Behind each t / 2 messages every replica signs the state of the stream; f + 1 equal shares are a summary, which its
//! broadcaster keeps and says, and without which it sends t messages at most (E23). Whoever misses messages asks for them, and for the
//! summary that takes their place (E24).

use std::sync::Arc;

use synod_crypto::{Claims, Hash, Verified};
use synod_machine::{Event, Turn, planted};
use synod_quorum::NodeId;
use synod_wire::{Bytes, List};

use super::consensus::{Consensus, Share};
use super::fetch::For;
use super::job::Task;
use super::words::{Alarm, Summary, Want, Word, node};
use super::work::{Stage, read_body};
use crate::body::Body;
use crate::certificate::{Certificate, Judged, Summarized};
use crate::config::Config;
use crate::ctb;
use crate::fault::Fault;
use crate::statement::Statement;
use crate::stream::{Checked, State};
use crate::trace::Rule;

/// Messages that are asked for at a time.
const MISSED_MAX: u64 = 16;

/// Longest body that goes by reference: a NEW_VIEW with where all replicas stood.
pub(super) fn reference_max(config: &Config) -> u32 {
    let (n, window) = (config.roster.size(), config.parameters.window);
    n.saturating_mul(window.saturating_mul(64).saturating_add(n.saturating_mul(72)).saturating_add(256))
}

impl Consensus {
    fn tail(&self) -> u64 {
        u64::from(self.config.parameters.tail)
    }

    /// A message was delivered: nobody delivers another under its number.
    pub(super) fn on_delivered(&mut self, of: NodeId, k: u64, body: Bytes, turn: &mut Turn<'_, Self>) {
        let tail = self.tail();
        if self.lanes.get(&of).is_some_and(|lane| k < lane.stream.next_k()) {
            return self.on_late(of, k, body, turn);
        }
        let Some(lane) = self.lanes.get_mut(&of).filter(|lane| !lane.is_halted) else { return };
        if !lane.wait(k, Stage::Bad, tail) {
            return;
        }
        if let Some(message) = lane.merging.take(k, &body) {
            self.place(of, k, Stage::Ready(Box::new(message)));
            return self.advance(of, turn);
        }
        let frame_max = u32::try_from(crate::config::BODY_MAX).unwrap_or(u32::MAX);
        match read_body(body, frame_max) {
            Some(Body::Ref { digest, length }) => self.place(of, k, Stage::Wanting { digest, length }),
            Some(body) => self.check(of, k, body, turn),
            None => {}
        }
        self.advance(of, turn);
    }

    fn place(&mut self, of: NodeId, k: u64, stage: Stage) {
        if let Some(place) = self.lanes.get_mut(&of).and_then(|lane| lane.waiting.get_mut(&k)) {
            *place = stage;
        }
    }

    /// Has the certificates of a message checked; a proposal has none.
    fn check(&mut self, of: NodeId, k: u64, body: Body, turn: &mut Turn<'_, Self>) {
        let stage = match body {
            Body::Prepare { view, slot, batch } => {
                let (digest, length) = batch.measure();
                Stage::Ready(Box::new(Checked::Prepare {
                    view,
                    slot,
                    batch: Arc::new(batch),
                    digest,
                    length,
                }))
            }
            Body::SealView(view) => Stage::Ready(Box::new(Checked::SealView(view))),
            Body::Commit(_) | Body::Checkpoint(_) | Body::NewView { .. } => {
                if let Some(about) = of.member() {
                    let (seen, config) = (self.seen(&body), Arc::clone(&self.config));
                    turn.compute(Task::Body { about, k, body, seen, config });
                }
                Stage::Checking
            }
            Body::Ref { .. } => Stage::Bad,
        };
        self.place(of, k, stage);
    }

    /// The certificates of a message are checked.
    pub(super) fn on_body(
        &mut self,
        of: NodeId,
        k: u64,
        (checked, seen): (Option<Box<Checked>>, Claims<Statement>),
        turn: &mut Turn<'_, Self>,
    ) {
        let is_checkpoint = matches!(checked.as_deref(), Some(Checked::Checkpoint(_)));
        let place = self.lanes.get_mut(&of).and_then(|lane| lane.waiting.get_mut(&k));
        if let Some(place) = place.filter(|place| matches!(place, Stage::Checking)) {
            *place = checked.map_or(Stage::Bad, Stage::Ready);
            self.advance(of, turn);
        }
        if is_checkpoint {
            self.see(seen);
        }
    }

    /// A long body was found.
    pub(super) fn on_reference(&mut self, of: NodeId, digest: Hash, body: Bytes, turn: &mut Turn<'_, Self>) {
        let frame_max = reference_max(&self.config);
        let Some(lane) = self.lanes.get_mut(&of) else { return };
        let k = lane.stream.next_k();
        let is_wanted =
            |stage: &Stage| matches!(stage, Stage::Wanting { digest: wanted, .. } if *wanted == digest);
        if !lane.waiting.get(&k).is_some_and(is_wanted) {
            return;
        }
        lane.keep_body(digest, body.clone());
        match read_body(body, frame_max) {
            Some(body) => self.check(of, k, body, turn),
            None => self.place(of, k, Stage::Bad),
        }
        self.advance(of, turn);
    }

    /// Applies what is next, as far as it is here.
    fn advance(&mut self, of: NodeId, turn: &mut Turn<'_, Self>) {
        let reference_max = reference_max(&self.config);
        loop {
            let Some(lane) = self.lanes.get_mut(&of).filter(|lane| !lane.is_halted) else { return };
            let k = lane.stream.next_k();
            match lane.waiting.get(&k) {
                Some(Stage::Ready(_)) => {}
                Some(Stage::Wanting { digest, length }) if *length <= reference_max => {
                    let (digest, length) = (*digest, *length);
                    match lane.body(digest).cloned() {
                        Some(body) => self.on_reference(of, digest, body, turn),
                        None => self.want(Want::Content { digest, at: 0 }, For::Body { of, length }, turn),
                    }
                    return;
                }
                Some(Stage::Wanting { .. } | Stage::Bad) => return self.halt(of, turn),
                Some(Stage::Checking) => return,
                None if planted!(U11) && lane.has_gap() => {
                    let state = State { next_k: k + 1, ..lane.stream.state() };
                    lane.stream.restore(&state);
                }
                None => break,
            }
            let Some(Stage::Ready(message)) = lane.waiting.remove(&k) else { return };
            match lane.stream.apply(&self.config, k, &message) {
                Ok(()) => self.on_applied(of, k, *message, turn),
                Err(_) => return self.halt(of, turn),
            }
        }
        self.expect(turn);
    }

    /// A message may not be there: the stream ends here, at every correct replica (Algorithm 5).
    fn halt(&mut self, of: NodeId, turn: &mut Turn<'_, Self>) {
        let Some(lane) = self.lanes.get_mut(&of) else { return };
        lane.is_halted = true;
        lane.waiting.clear();
        turn.applied(Rule::A5Halt);
        turn.blame(of, Fault::InvalidStream.with(&lane.stream.next_k()));
        assert!(of != self.me() && !planted!(U15), "the own stream is valid");
    }

    fn on_applied(&mut self, of: NodeId, k: u64, message: Checked, turn: &mut Turn<'_, Self>) {
        if k.is_multiple_of(self.tail() / 2) {
            self.summarize(of, k, turn);
        }
        match message {
            Checked::Prepare { view, slot, batch, digest, .. } => {
                self.merge(of, (k, view, slot), (digest, &batch), turn);
                self.on_proposed((k, view, slot), digest, Some(batch), turn);
            }
            Checked::Commit(certificate) => self.on_committed(of, *certificate.subject(), turn),
            Checked::Checkpoint(certificate) => self.adopt(certificate.into_inner().into_certificate(), turn),
            Checked::SealView(view) => self.on_sealed(of, view, turn),
            Checked::NewView { view, .. } => self.on_new_view(view, turn),
        }
    }

    /// Alg. 4, lines 1 and 2: the state of a stream is signed, for its broadcaster.
    fn summarize(&mut self, of: NodeId, k: u64, turn: &mut Turn<'_, Self>) {
        let is_own = of == self.me();
        let Some((lane, about)) = self.lanes.get(&of).zip(of.member()) else { return };
        let mut state = lane.stream.state();
        if planted!(V6) {
            state.view = self.view;
        }
        let digest = state.digest();
        if is_own && k > self.own.summarized {
            self.own.states.insert(k, state);
        }
        turn.applied(Rule::A4Share);
        self.sign(turn, |signer| Statement::Summary { signer, about, k, state: digest });
    }

    /// Lines 4 to 9: f + 1 equal shares of the own stream.
    pub(super) fn on_summary_share(&mut self, k: u64, claim: Share, turn: &mut Turn<'_, Self>) {
        let need = usize::try_from(self.one_correct()).unwrap_or(usize::MAX);
        let (Some(state), Some(about)) = (self.own.states.get(&k).cloned(), self.me().member()) else {
            return;
        };
        let digest = state.digest();
        let shares = self.summaries.entry(k).or_default();
        shares.insert(claim.signer, claim);
        let is_of =
            |claim: &Share| matches!(claim.statement, Statement::Summary { state, .. } if state == digest);
        let equal = shares.iter().filter(|(_, claim)| is_of(claim)).take(need);
        let signed: Vec<_> = equal.filter_map(|(id, claim)| Some((id.member()?, claim.signature))).collect();
        let Ok(signed) = List::try_from(signed) else { return };
        if signed.len() < need {
            return;
        }
        let summary = Summary {
            certificate: Certificate { subject: Summarized { about, k, state: digest }, signed },
            state,
        };
        turn.applied(Rule::A4Summary);
        self.own.summarized = k;
        self.own.states.retain(|later, _| *later > k);
        self.summaries.retain(|later, _| *later > k);
        let me = self.me();
        self.lanes.get_mut(&me).into_iter().for_each(|lane| lane.summary = Some(summary.clone()));
        turn.send(self.others(), Word::Summary(Box::new(summary)));
        self.cast(me, Event::Input(ctb::Input::Summarized(k)), turn);
    }

    /// The own newest summary, to whoever may have missed it.
    pub(super) fn say_summary_again(&self, turn: &mut Turn<'_, Self>) {
        if !self.is_said()
            && let Some(summary) = self.lanes.get(&self.me()).and_then(|lane| lane.summary.clone())
        {
            turn.send(self.others(), Word::Summary(Box::new(summary)));
        }
    }

    /// A summary came: it is kept as it is, and checked where it fills a gap.
    pub(super) fn on_summary(&mut self, from: NodeId, summary: Summary, turn: &mut Turn<'_, Self>) {
        let Summarized { about, k, .. } = summary.certificate.subject;
        let half = self.tail() / 2;
        let is_own = node(about) == self.me();
        let Some(lane) = self.lanes.get_mut(&node(about)).filter(|_| !is_own) else { return };
        let is_sound = k > 0 && k < crate::config::NUMBER_END && k.is_multiple_of(half);
        if !is_sound {
            turn.blame(from, Fault::Malformed);
            return;
        }
        let was_asked = self.fetches.is_wanted(Want::Summary { about });
        if from == node(about) && lane.summary.as_ref().is_none_or(|last| last.certificate.subject.k < k) {
            lane.summary = Some(summary.clone());
        }
        let is_heard = from == node(about) || !lane.untold.contains(from);
        if was_asked && is_heard && k >= lane.stream.next_k() && !lane.is_restoring {
            lane.is_restoring = true;
            turn.compute(Task::Summary { from, summary, config: Arc::clone(&self.config) });
        }
        self.expect(turn);
    }

    /// Lines 11 to 16: f + 1 replicas signed the state: it takes the place of what was missed.
    pub(super) fn on_good_summary(
        &mut self,
        (from, about): (NodeId, u8),
        good: Option<(Verified<Judged<Summarized>>, Summary)>,
        turn: &mut Turn<'_, Self>,
    ) {
        let Some((proven, summary)) = good else {
            let lane = self.lanes.get_mut(&node(about));
            lane.into_iter().for_each(|lane| {
                (lane.is_restoring, lane.untold) = (false, lane.untold.with(from));
            });
            // Others pass on what its broadcaster said, unchecked where they miss nothing: one of the two lies.
            if from == node(about) {
                turn.blame(from, Fault::BadCertificate);
            }
            return;
        };
        let Summarized { about, k, .. } = *proven.subject();
        let of = node(about);
        let Some(lane) = self.lanes.get_mut(&of).filter(|lane| !lane.is_halted) else { return };
        lane.is_restoring = false;
        if !lane.stream.restore(&summary.state) {
            return;
        }
        turn.applied(Rule::A4Restore);
        lane.waiting.retain(|waiting, _| *waiting > k);
        lane.gap = None;
        if lane.summary.as_ref().is_none_or(|last| last.certificate.subject.k <= k) {
            lane.summary = Some(summary);
        }
        self.fetches.forget(Want::Summary { about });
        self.on_restored(of, turn);
        self.advance(of, turn);
    }

    /// What a summary shows counts as if it had been applied here; where the replica stood when it left is not signed.
    fn on_restored(&mut self, of: NodeId, turn: &mut Turn<'_, Self>) {
        let Some(lane) = self.lanes.get(&of) else { return };
        let (view, checkpoint) = (lane.stream.view(), lane.stream.checkpoint());
        let (prepared, commits): (Vec<_>, Vec<_>) =
            (lane.stream.prepares().collect(), lane.stream.commits().collect());
        let is_shown = lane.stream.may_propose(&self.config);
        if checkpoint.low > self.low.low {
            self.want(Want::Checkpoint, For::Itself, turn);
        }
        for row in commits {
            let certified =
                crate::certificate::Certified { view: row.view, slot: row.slot, digest: row.digest };
            self.on_committed(of, certified, turn);
        }
        for (slot, digest) in prepared {
            self.fulfil_shown((view, slot), digest, turn);
            self.on_proposed((0, view, slot), digest, None, turn);
        }
        self.cover_early(of, turn);
        self.on_peer_view(of, view, turn);
        if is_shown {
            self.on_new_view(view, turn);
        }
    }

    /// The wait for what is missing begins, where something is.
    pub(super) fn expect(&mut self, turn: &mut Turn<'_, Self>) {
        let now = turn.now();
        let mut is_any = false;
        for lane in self.lanes.values_mut() {
            lane.gap = lane.has_gap().then(|| lane.gap.unwrap_or(now));
            is_any |= lane.gap.is_some();
        }
        if is_any && !self.is_gap_armed {
            self.is_gap_armed = true;
            turn.arm(Alarm::Gap, self.config.parameters.fast);
        }
    }

    /// What is missing for T_fast is asked for: the messages of their broadcaster and of others, and a summary.
    pub(super) fn on_gap(&mut self, turn: &mut Turn<'_, Self>) {
        self.is_gap_armed = false;
        let (now, fast) = (turn.now(), self.config.parameters.fast);
        let due: Vec<NodeId> = self
            .lanes
            .iter()
            .filter(|(_, lane)| lane.gap.is_some_and(|since| now.since(since) >= fast))
            .map(|(id, _)| *id)
            .collect();
        for of in due {
            let (Some(lane), Some(about)) = (self.lanes.get_mut(&of), of.member()) else { continue };
            lane.gap = Some(now);
            let next = lane.stream.next_k();
            let missed = (next..=lane.known()).filter(|k| !lane.waiting.contains_key(k));
            let missed: Vec<u64> = missed.take(usize::try_from(MISSED_MAX).unwrap_or(0)).collect();
            turn.applied(Rule::A4Gap);
            for k in missed {
                turn.send(of, Word::Ctb { broadcaster: about, word: ctb::Message::Nack { k } });
            }
            self.want(Want::Message { broadcaster: about, k: next }, For::Itself, turn);
            self.want(Want::Summary { about }, For::Itself, turn);
            let kept = self.lanes.get(&of).and_then(|lane| lane.summary.clone());
            if let Some(summary) = kept.filter(|summary| summary.certificate.subject.k >= next) {
                self.on_summary(of, summary, turn);
            }
        }
        self.expect(turn);
    }
}

//! Which epoch this replica is in (specification, 4.15): it says where it stands, hears where others do, and comes to the next epoch with
//! the last checkpoint of the one before.
//!
//! *The rule.* A replica speaks in an epoch only if the epoch's certified configuration lists its present life. It comes to each epoch once,
//! with nothing said and nothing locked there, so nothing that it forgot is needed. Of the epoch before it only answers, until the first
//! checkpoint of the new one is certified.
//!
//! *Bounds.* [`CHECKS_MAX`] things that a peer signed are checked at a time. A peer is answered [`SERVED_MAX`] times in T_fast, asked once in four times that, and greeted once in T_suspect.

use std::collections::BTreeMap;
use std::sync::Arc;

use synod_crypto::Hash;
use synod_machine::{Event, Note, Time, Turn, planted};
use synod_quorum::{NodeId, NodeSet};

use super::consensus::Consensus;
use super::fetch::Budget;
use super::state::Replica;
use super::vocabulary::{Job, Output, Timer};
use super::words::{Ask, Word};
use crate::body::CheckpointBy;
use crate::config::NUMBER_END;
use crate::epoch::Configuration;
use crate::fault::Fault;
use crate::message::{Message, Standing};
use crate::stream::Low;
use crate::trace::Rule;

/// Signed things of one peer that are checked at a time; more are heard again when they are repeated.
const CHECKS_MAX: u32 = 16;
/// Answers to one peer in T_fast.
pub(super) const SERVED_MAX: usize = 64;

/// See the module.
#[derive(Debug)]
pub(super) struct Membership {
    /// The newest epoch that is certified, and what certifies it; nothing for the first.
    pub(super) configuration: Configuration,
    pub(super) start: Option<CheckpointBy>,
    /// Which life each peer says it has.
    lives: BTreeMap<NodeId, u64>,
    asked: BTreeMap<NodeId, Time>,
    greeted: BTreeMap<NodeId, Time>,
    served: BTreeMap<NodeId, Budget>,
    /// What of each peer is checked now.
    checks: BTreeMap<NodeId, u32>,
}

impl Membership {
    pub(super) const fn new(configuration: Configuration) -> Self {
        Self {
            configuration,
            start: None,
            lives: BTreeMap::new(),
            asked: BTreeMap::new(),
            greeted: BTreeMap::new(),
            served: BTreeMap::new(),
            checks: BTreeMap::new(),
        }
    }
}

impl Replica {
    pub(super) fn others(&self) -> NodeSet {
        self.config.roster.others(self.config.me)
    }

    /// Whether the newest epoch lists this life of this replica.
    pub(super) fn is_listed(&self) -> bool {
        planted!(V7) || self.membership.configuration.incarnation(self.config.me) == Some(self.incarnation())
    }

    /// Whether a peer says that it lives anew, so that of what it says requests and questions alone count. Its last word on that may be
    /// lost: it is listed as of a life that nobody heard of here, and no word of this epoch is of one before.
    fn is_outsider(&self, peer: NodeId) -> bool {
        let (life, listed) =
            (self.membership.lives.get(&peer), self.membership.configuration.incarnation(peer));
        life.is_some_and(|life| listed.is_none_or(|listed| *life > listed))
    }

    /// Whether a peer is answered.
    pub(super) fn may_serve(&mut self, peer: NodeId, now: Time) -> bool {
        let fast = self.config.parameters.fast;
        self.membership.served.entry(peer).or_default().take(now, fast, SERVED_MAX)
    }

    /// Whether something that a peer signed is checked.
    pub(super) fn may_check(&mut self, peer: NodeId) -> bool {
        let checks = self.membership.checks.entry(peer).or_default();
        let may = *checks < CHECKS_MAX;
        *checks += u32::from(may);
        may
    }

    /// It is.
    pub(super) fn end_check(&mut self, peer: NodeId) {
        self.membership.checks.entry(peer).and_modify(|checks| *checks = checks.saturating_sub(1));
    }

    /// A word of consensus of some epoch.
    pub(super) fn on_word(
        &mut self,
        from: NodeId,
        (epoch, word): (synod_quorum::Epoch, Word),
        turn: &mut Turn<'_, Self>,
    ) {
        let is_question = matches!(word, Word::Fetch(_));
        if self.is_outsider(from) && !is_question {
            return;
        }
        if epoch > self.epoch {
            // Somebody is further: its epoch proves itself.
            if self.others().contains(from) {
                self.ask_standing(NodeSet::only(from), turn);
            }
            return;
        }
        if epoch == self.epoch {
            self.weigh(from, &word, turn);
        }
        if epoch == self.epoch || is_question {
            self.consent_in(epoch, Event::Message { from, message: word }, turn);
        }
    }

    /// What a leader proposes is judged when it comes, if this replica may promise something with what it locks of it (4.18).
    fn weigh(&mut self, from: NodeId, word: &Word, turn: &mut Turn<'_, Self>) {
        let consensus = self.family.get_mut(self.epoch).map(synod_machine::Nested::get_mut);
        let batch = consensus.and_then(|consensus| consensus.weigh(from, word));
        if batch.is_some_and(|batch| self.vouches(&batch, turn))
            && let Some(consensus) = self.family.get_mut(self.epoch)
        {
            consensus.get_mut().vouch();
        }
    }

    fn say_hello(&self, turn: &mut Turn<'_, Self>) {
        let hello = Message::Hello { incarnation: self.incarnation(), epoch: self.epoch };
        turn.send(self.others(), hello);
    }

    /// A peer was started, or came to an epoch.
    pub(super) fn on_hello(
        &mut self,
        from: NodeId,
        (incarnation, epoch): (u64, synod_quorum::Epoch),
        turn: &mut Turn<'_, Self>,
    ) {
        if !self.others().contains(from) {
            return;
        }
        if incarnation >= NUMBER_END {
            turn.blame(from, Fault::Malformed);
            return;
        }
        let life = self.membership.lives.entry(from).or_default();
        *life = incarnation.max(*life);
        if epoch > self.epoch {
            self.ask_standing(NodeSet::only(from), turn);
        } else if epoch < self.epoch || self.is_outsider(from) {
            self.say_standing(from, turn);
        } else {
            let (now, wait) = (turn.now(), self.config.parameters.suspect);
            let last = self.membership.greeted.get(&from);
            if last.is_none_or(|last| now.since(*last) >= wait) {
                self.membership.greeted.insert(from, now);
                self.ask(Ask::Greet(from), turn);
            }
        }
    }

    /// Asks peers where they stand, each once in a while.
    pub(super) fn ask_standing(&mut self, peers: NodeSet, turn: &mut Turn<'_, Self>) {
        let (now, wait) = (turn.now(), self.wait());
        for peer in peers.iter() {
            let last = self.membership.asked.get(&peer);
            if last.is_none_or(|last| now.since(*last) >= wait) {
                self.membership.asked.insert(peer, now);
                turn.applied(Rule::Standing);
                turn.send(peer, Message::FetchStanding);
            }
        }
    }

    /// Says where this replica stands.
    pub(super) fn say_standing(&mut self, to: NodeId, turn: &mut Turn<'_, Self>) {
        if !self.others().contains(to) || !self.may_serve(to, turn.now()) {
            return;
        }
        let Membership { configuration, start, .. } = &self.membership;
        let of_epoch = |newest: &&CheckpointBy| newest.subject.epoch == configuration.epoch;
        let standing = Standing {
            configuration: configuration.clone(),
            start: start.clone(),
            newest: self.newest.as_ref().filter(of_epoch).cloned(),
            snapshot: self.snapshots.certified().cloned(),
        };
        turn.send(to, Message::Standing(Box::new(standing)));
    }

    /// A peer says where it stands: that is checked if it is further than this replica.
    pub(super) fn on_standing(&mut self, from: NodeId, standing: Standing, turn: &mut Turn<'_, Self>) {
        let own = self.newest.as_ref().map_or(0, |newest| newest.subject.low.0);
        let of = |certificate: &CheckpointBy| certificate.subject.low.0;
        let is_newer = standing.configuration.epoch > self.epoch
            || standing.newest.as_ref().or(standing.start.as_ref()).map_or(0, of) > own;
        let snapshot = standing.snapshot.as_ref().map_or(0, |snapshot| snapshot.subject.low.0);
        let is_of_use = is_newer
            || (snapshot > self.snapshots.low().0 && (self.is_behind() || self.snapshots.is_pending()));
        if self.others().contains(from) && is_of_use && self.may_check(from) {
            let genesis = Arc::clone(&self.genesis);
            turn.compute(Job::Standing { from, standing: Box::new(standing), genesis });
        }
    }

    /// It is proven: this replica comes to the epoch, and fetches what it misses.
    pub(super) fn on_proven(
        &mut self,
        from: NodeId,
        standing: Option<Box<Standing>>,
        turn: &mut Turn<'_, Self>,
    ) {
        self.end_check(from);
        let Some(standing) = standing else {
            turn.blame(from, Fault::BadCertificate);
            return;
        };
        let Standing { configuration, start, newest, snapshot } = *standing;
        if let Some(snapshot) = snapshot {
            self.on_snapshotted(snapshot, turn);
        }
        if let Some(start) = start.filter(|_| configuration.epoch > self.epoch) {
            self.enter(configuration, start, turn);
        }
        if let Some(newest) = newest.filter(|newest| newest.subject.epoch == self.epoch) {
            if self.consensus().is_some() {
                self.ask(Ask::Adopt(Box::new(newest)), turn);
            } else {
                self.on_newest(newest, turn);
                self.catch_up(turn);
            }
        }
        if self.is_behind() && self.transfer.is_none() && self.install.is_none() {
            self.catch_up(turn);
        }
    }

    /// A checkpoint is certified: the newest is kept.
    pub(super) fn on_newest(&mut self, certificate: CheckpointBy, turn: &mut Turn<'_, Self>) {
        let subject = certificate.subject;
        let own = self.newest.as_ref().map_or(0, |newest| newest.subject.low.0);
        if subject.low.0 > own {
            self.newest = Some(certificate);
        }
        if subject.epoch == self.epoch {
            // The epoch before is nobody's any more.
            let older: Vec<_> = self.family.keys().filter(|epoch| *epoch < self.epoch).collect();
            older.into_iter().for_each(|epoch| drop(self.family.retire(epoch)));
        }
        self.on_certified(&subject, turn);
    }

    /// With the last checkpoint of its epoch a replica comes to the next one, whose configuration follows from what it executed, or is
    /// fetched.
    pub(super) fn turn_over(&mut self, turn: &mut Turn<'_, Self>) {
        let last = self
            .newest
            .as_ref()
            .filter(|newest| newest.subject.is_last() && newest.subject.epoch == self.epoch);
        let Some(last) = last.cloned() else { return };
        let own = &self.epochs.configuration;
        if own.epoch > self.epoch && own.digest() == last.subject.config {
            let configuration = own.clone();
            self.enter(configuration, last, turn);
        } else {
            self.ask_standing(self.others(), turn);
        }
    }

    fn enter(&mut self, configuration: Configuration, start: CheckpointBy, turn: &mut Turn<'_, Self>) {
        let Some(config) = configuration.config(&self.genesis) else { return };
        assert!(configuration.epoch > self.epoch, "an epoch is entered once");
        turn.applied(Rule::Enter);
        let (was_in, epoch, subject) = (self.consensus().is_some(), configuration.epoch, start.subject);
        // Of the epoch before this replica answers, if it saw its end.
        let before: Vec<_> =
            self.family.iter().filter(|(_, one)| !one.is_over()).map(|(epoch, _)| epoch).collect();
        before.into_iter().for_each(|epoch| drop(self.family.retire(epoch)));
        while self.family.count() > 1 {
            let Some(oldest) = self.family.keys().next() else { break };
            self.family.retire(oldest);
        }
        self.epoch = epoch;
        self.membership.configuration = configuration;
        self.membership.start = Some(start.clone());
        self.membership.greeted.clear();
        let values = [u64::from(epoch.0), subject.low.0, 0, 0];
        turn.note(Note { name: "epoch_entered", values, digest: Hash::ZERO });
        self.pressing = None;
        self.judging.clear();
        if self.is_listed() {
            let low = Low { low: subject.low, digest: subject.digest(), end: None };
            let have = self.have();
            if let Ok(consensus) = Consensus::new(Arc::new(config), low) {
                self.family.member(epoch, || consensus.behind(have));
            }
            self.consent(Event::Start, turn);
            if !self.settings.fast_path {
                self.ask(Ask::SlowOnly, turn);
            }
            self.say_end(turn);
        }
        if was_in != self.consensus().is_some() {
            turn.output(Output::Ready(self.consensus().is_some()));
        }
        self.on_newest(start, turn);
        self.say_hello(turn);
        self.echo_again(turn);
        if self.consensus().is_none() {
            // It was readmitted in an earlier life, or not at all.
            self.catch_up(turn);
        }
    }

    /// At the start.
    pub(super) fn begin(&mut self, turn: &mut Turn<'_, Self>) {
        turn.arm(Timer::Again, self.config.parameters.suspect);
        turn.output(Output::Ready(self.consensus().is_some()));
        if self.is_listed() {
            self.note_view(self.config.first_view, turn);
            self.consent(Event::Start, turn);
            if !self.settings.fast_path {
                self.ask(Ask::SlowOnly, turn);
            }
        } else {
            self.say_hello(turn);
            self.ask_to_rejoin(turn);
            self.ask_standing(self.others(), turn);
        }
    }

    /// What is not certified or not ordered is said again, and what is missed is asked for.
    pub(super) fn on_again(&mut self, turn: &mut Turn<'_, Self>) {
        turn.arm(Timer::Again, self.config.parameters.suspect);
        self.say_snapshots_again(turn);
        self.say_changes_again(turn);
        if !self.is_listed() {
            self.ask_standing(self.others(), turn);
        }
    }
}

//! One follower: its consensus of the epoch that it is in, its user, and what it said in all its lives.

use std::collections::{BTreeMap, VecDeque};

use synod_crypto::{Hash, Signature};
use synod_machine::register::RegisterOp;
use synod_machine::testing::effects;
use synod_machine::{Effect, Event, Job as _, Message as _, To};
use synod_quorum::{Epoch, NodeId};
use synod_ubft::CheckpointBy;
use synod_ubft::batch::{Slot, View};
use synod_ubft::certificate::{Certified, Checkpoint};
use synod_ubft::ctb::{self, Told as Locked};
use synod_ubft::replica::{Ask, Consensus, Told, Word};

use super::cast::{Cast, END, EVENTS_MAX, LIAR, NOW, REPLICAS};
use super::run::Bug;
use crate::oracle::Breach;

/// What a step sends: words to the other follower, and operations to memory nodes, each with its epoch.
#[derive(Clone, Debug, Default)]
pub(super) struct Sent {
    pub(super) words: Vec<Word>,
    pub(super) ops: Vec<(Epoch, u8, RegisterOp)>,
}

impl Sent {
    /// An operation goes to a memory node.
    pub(super) fn operate(&mut self, epoch: Epoch, to: NodeId, op: RegisterOp) {
        let at = to.0.checked_sub(NodeId::GUESTS.0).and_then(|at| u8::try_from(at).ok());
        self.ops.extend(at.map(|at| (epoch, at, op)));
    }
}

/// What a follower said, in whatever life.
#[derive(Clone, Debug, Default)]
pub(super) struct Record {
    /// Digests, by life, epoch, broadcaster and number.
    locked: BTreeMap<(u64, Epoch, u8, u64), Hash>,
    /// The proposals that it spoke of, by eight bytes of their digests.
    spoke: BTreeMap<(Epoch, View, Slot), u64>,
    /// What the leader's stream showed to be certified.
    shown: BTreeMap<(Epoch, View, Slot), Hash>,
    log: BTreeMap<Slot, Hash>,
    /// What the liar has of it: signatures of proposals, and of the end of epoch 0.
    pub(super) certified: BTreeMap<(Epoch, Slot), (Hash, Signature)>,
    pub(super) ended: Option<(Checkpoint, Signature)>,
    /// A memory node told it that the epoch is over.
    pub(super) is_refused: bool,
    broken: Option<(&'static str, String)>,
}

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Seat {
    pub(super) own: u8,
    pub(super) life: u64,
    pub(super) epoch: Epoch,
    /// None where it takes part in no epoch.
    pub(super) machine: Option<Consensus>,
    chain: Option<Hash>,
    pub(super) record: Record,
}

impl Seat {
    /// A first life, and what it sends at its start.
    pub(super) fn begin(cast: &Cast, own: u8) -> (Self, Sent) {
        let machine = Some(cast.first(own));
        let (life, epoch, chain) = (1, Epoch(0), Some(Cast::chain()));
        let mut seat = Self { own, life, epoch, machine, chain, record: Record::default() };
        let sent = seat.run(cast, vec![Event::Start, Event::Input(Ask::SlowOnly)]);
        (seat, sent)
    }

    /// Words of somebody come, one after the other.
    pub(super) fn hear(&mut self, cast: &Cast, from: NodeId, epoch: Epoch, words: Vec<Word>) -> Sent {
        if epoch != self.epoch {
            return Sent::default();
        }
        let event = |message| Event::Message { from, message };
        self.run(cast, words.into_iter().map(event).collect())
    }

    /// It is killed and starts again; all but what the model judges by is forgotten.
    pub(super) fn rise(&mut self, cast: &Cast) -> Sent {
        self.life += 1;
        (self.epoch, self.chain) = (Epoch(0), None);
        let (machine, mut sent) = cast.rise(self.own, self.life);
        self.machine = machine;
        if cast.bug() == Bug::OldEpoch {
            sent = self.run(cast, vec![Event::Start, Event::Input(Ask::SlowOnly)]);
        }
        sent
    }

    /// It is shown that epoch 0 is over.
    pub(super) fn enter(&mut self, cast: &Cast, certificate: &CheckpointBy) -> Sent {
        let Some((machine, mut sent)) = cast.enter(self.own, self.life, certificate) else {
            self.breaks("X6", "is shown the end of the epoch and does not believe it".to_owned());
            return Sent::default();
        };
        (self.epoch, self.machine) = (Epoch(1), machine);
        self.chain = Some(certificate.subject.log_chain);
        // What it lacks of the state it takes from others.
        sent.ops.extend(self.run(cast, vec![Event::Input(Ask::Resume(END))]).ops);
        sent
    }

    fn run(&mut self, cast: &Cast, events: Vec<Event<Consensus>>) -> Sent {
        let mut waiting: VecDeque<Event<Consensus>> = events.into();
        let (mut sent, mut steps) = (Sent::default(), 0);
        while let (Some(event), Some(machine)) = (waiting.pop_front(), self.machine.as_mut()) {
            steps += 1;
            assert!(steps < EVENTS_MAX, "consensus does not come to rest");
            let mut over = None;
            for effect in effects(machine, event, NOW) {
                match effect {
                    Effect::Send { to, message } => self.send(cast, &to, message, &mut sent),
                    Effect::Compute(job) => waiting.push_back(Event::Done(job.run(&cast.keys(self.own)))),
                    Effect::Output(Told::Certified(certificate)) => over = self.certify(*certificate),
                    Effect::Output(told) => waiting.extend(self.told(cast, told).map(Event::Input)),
                    Effect::Blame { peer, fault } if peer != NodeId(u32::from(LIAR)) => {
                        self.breaks("X6", format!("blames {peer} for {}", fault.name));
                    }
                    _ => {}
                }
            }
            self.look();
            if let Some(certificate) = over {
                let entered = self.enter(cast, &certificate);
                sent.ops.extend(entered.ops);
                break;
            }
        }
        sent
    }

    /// What the user is told, and answers.
    fn told(&mut self, cast: &Cast, told: Told) -> Option<Ask> {
        match told {
            Told::Judge { view, slot, digest, .. } => Some(Ask::Endorse { view, slot, digest }),
            Told::Decided { slot, digest, .. } => {
                if self.record.log.insert(slot, digest).is_some_and(|before| before != digest) {
                    self.breaks("U-S7", format!("decides {slot:?} again, and differently"));
                }
                if self.epoch != Epoch(0) || self.chain != Some(Cast::chain()) {
                    return None;
                }
                let checkpoint = cast.last(digest);
                self.chain = Some(checkpoint.log_chain);
                Some(Ask::Executed(Box::new(checkpoint)))
            }
            Told::Retired => {
                self.record.is_refused = true;
                None
            }
            Told::Broken(slot) => {
                self.breaks("U-S7", format!("two batches are decided for {slot:?}"));
                None
            }
            _ => None,
        }
    }

    /// The end of epoch 0 is certified: whatever was executed here led to that state.
    fn certify(&mut self, certificate: CheckpointBy) -> Option<CheckpointBy> {
        let subject = &certificate.subject;
        if self.chain.is_some_and(|chain| chain != Cast::chain() && chain != subject.log_chain) {
            self.breaks("U-S7", "another state than its own is certified".to_owned());
        }
        subject.is_last().then_some(certificate)
    }

    fn breaks(&mut self, checker: &'static str, what: String) {
        let told = format!("life {} of replica {} {what}", self.life, self.own);
        self.record.broken.get_or_insert((checker, told));
    }

    /// What the leader's stream shows.
    fn look(&mut self) {
        let Some(stream) = self.machine.as_ref().and_then(|machine| machine.stream(NodeId(u32::from(LIAR))))
        else {
            return;
        };
        let mut is_other = None;
        for one in stream.commits() {
            let shown = self.record.shown.entry((self.epoch, one.view, one.slot)).or_insert(one.digest);
            is_other = is_other.or((*shown != one.digest).then_some(one.slot));
        }
        if let Some(slot) = is_other {
            self.breaks("U-S1", format!("is shown two certificates of {slot:?}"));
        }
    }

    fn send(&mut self, cast: &Cast, to: &To, word: Word, sent: &mut Sent) {
        if let (Some(op), To::Node(to)) = (word.register(), to) {
            if matches!(op, RegisterOp::Write { .. }) {
                self.promise(cast, "writes a register");
            }
            return sent.operate(self.epoch, *to, *op);
        }
        self.watch(cast, &word);
        let other = NodeId(u32::from(REPLICAS - self.own));
        let is_for = |id: NodeId| match to {
            To::Node(node) => *node == id,
            To::Set(set) => set.contains(id),
        };
        if is_for(NodeId(u32::from(LIAR))) {
            self.give(&word);
        }
        if is_for(other) {
            sent.words.push(word);
        }
    }

    /// U-S13: it speaks in an epoch that lists its life.
    fn promise(&mut self, cast: &Cast, what: &str) {
        let (epoch, listed) = (self.epoch.0, cast.listed(self.epoch, self.own));
        if listed != self.life {
            self.breaks("U-S13", format!("{what} in epoch {epoch}, which lists life {listed}"));
        }
    }

    fn watch(&mut self, cast: &Cast, word: &Word) {
        match word {
            Word::Ctb { broadcaster, word: ctb::Message::Locked { k, told, .. } } => {
                self.promise(cast, "locks a message");
                let digest = match told {
                    Locked::Raw(body) => Hash::of(body.bytes()),
                    Locked::Digest(digest) => *digest,
                };
                let name = (self.life, self.epoch, *broadcaster, *k);
                if *self.record.locked.entry(name).or_insert(digest) != digest {
                    self.breaks("U-S1", format!("locks two messages {k} of {broadcaster}"));
                }
            }
            Word::Ctb { word: ctb::Message::Lock { .. } | ctb::Message::Signed { .. }, .. } => {
                self.promise(cast, "broadcasts");
            }
            Word::WillCertify { view, slot, tag } | Word::WillCommit { view, slot, tag } => {
                self.speak(cast, (*view, *slot), *tag);
            }
            Word::Certify { view, slot, digest, .. } => self.speak(cast, (*view, *slot), digest.short()),
            Word::CertifyCheckpoint { .. } => self.promise(cast, "signs a checkpoint"),
            _ => {}
        }
    }

    fn speak(&mut self, cast: &Cast, (view, slot): (View, Slot), tag: u64) {
        self.promise(cast, "speaks of a proposal");
        if self.epoch == Epoch(0) && slot >= END {
            self.breaks("U-S11", format!("accepts {slot:?} in the epoch that ends there"));
        }
        if *self.record.spoke.entry((self.epoch, view, slot)).or_insert(tag) != tag {
            self.breaks("U-S1", format!("speaks of another proposal of {slot:?} than before"));
        }
    }

    /// What the liar learns.
    fn give(&mut self, word: &Word) {
        match word {
            Word::Certify { slot, digest, signature, .. } => {
                self.record.certified.insert((self.epoch, *slot), (*digest, **signature));
            }
            Word::CertifyCheckpoint { checkpoint, signature } => {
                self.record.ended = Some((**checkpoint, **signature));
            }
            _ => {}
        }
    }

    pub(super) fn has_decided(&self, slot: Slot) -> bool {
        self.record.log.contains_key(&slot)
    }

    /// Whether it takes part in an epoch.
    pub(super) fn is_in(&self, epoch: Epoch) -> bool {
        self.epoch == epoch && self.machine.is_some()
    }
}

/// A certificate's subject.
pub(super) const fn subject(slot: Slot, digest: Hash) -> Certified {
    Certified { view: View(0), slot, digest }
}

/// What two followers must not both be.
pub(super) fn judge(seats: [&Seat; 2]) -> Option<Breach> {
    if let Some((checker, what)) = seats.iter().find_map(|seat| seat.record.broken.clone()) {
        return Some(Breach { checker, what });
    }
    let [one, other] = seats.map(|seat| &seat.record);
    for (name, tag) in &one.spoke {
        if other.spoke.get(name).is_some_and(|said| said != tag) {
            let what = format!("followers speak of two proposals of {:?}", name.2);
            return Some(Breach { checker: "U-S1", what });
        }
    }
    for (name, digest) in &one.shown {
        if other.shown.get(name).is_some_and(|shown| shown != digest) {
            let what = format!("two certificates of {:?} are delivered under one number", name.2);
            return Some(Breach { checker: "U-S1", what });
        }
    }
    let decided = one.log.iter().chain(&other.log);
    for (slot, digest) in decided {
        let is_other = |record: &Record| record.log.get(slot).is_some_and(|found| found != digest);
        if is_other(one) || is_other(other) {
            return Some(Breach { checker: "U-S7", what: format!("two batches of {slot:?} are executed") });
        }
        let accepts = |record: &Record| {
            record.spoke.iter().any(|((_, _, of), tag)| of == slot && *tag != digest.short())
        };
        if accepts(one) || accepts(other) {
            let what = format!("{slot:?} is executed, and another batch of it accepted");
            return Some(Breach { checker: "U-S9", what });
        }
    }
    None
}

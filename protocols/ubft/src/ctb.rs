//! Consistent Tail Broadcast (paper, section 4; Algorithm 1): no two correct replicas deliver different messages for one number of a
//! broadcaster, and the last t messages of a correct one are delivered by all.
//!
//! *Protocol.* The broadcaster sends LOCK. A receiver locks the first message of a number and says so to the other receivers; once
//! all of them have locked the same, nobody can deliver another, and it is delivered: no signature, no memory node. What is not
//! delivered after T_fast is asked for, and its broadcaster signs it. A receiver writes a signed message, if it has locked no other,
//! into its own register, **waits until the write is complete**, and reads the registers of the others: if none has another message
//! of this number or a later one of this place, it is delivered.
//!
//! *Deviations* from Algorithm 1. Nothing of lines 28 to 37 happens outside the test of the lock (E1): as printed, a receiver that
//! locked one message delivers another. Reads begin once the write is complete (E2). The broadcaster is no receiver, and delivers
//! its own messages to itself (E4). A register has digest and signature, over cluster, epoch, broadcaster and number, so that nobody is
//! framed by an entry that was copied (E5). What is locked by its signature is told, too (D1). SIGNED without its body waits for
//! it (E35). A broadcaster has at most t messages that no summary covers (E23).
//!
//! *Bounds.* (n - 1) t (S + 48 n) bytes, as in section 8.1, all but bodies made at the start.

mod early;
mod receiver;
mod sender;
mod slow;
mod words;

use std::sync::Arc;

use synod_crypto::{Hash, Signature};
use synod_machine::{Event, Lift, Machine, Nested, Never, Turn, planted};
use synod_quorum::{NodeId, NodeSet};
use synod_wire::{Blob, Bytes};

pub(crate) use early::EARLY_MAX;
pub use sender::WAITING_MAX;
pub use words::{
    Input, Message, Output, RAW_MAX, SIGNED_BODY_MAX, Timer, Told, TwoMessages, broadcaster_of, register_of,
};

use crate::config::{Config, NUMBER_END, Unsound};
use crate::fault::Fault;
use crate::job::{Done, For, Job};
use crate::registers::{MemoryWords, Registers, Repeat};
use crate::statement::Statement;
use crate::trace::Rule;
use receiver::{Lock, Receiver, Said, Wanted};
use sender::{Sender, Sending};

/// One broadcaster's messages, at itself or at a receiver.
#[derive(Clone, Debug)]
pub struct CtBroadcast {
    config: Arc<Config>,
    broadcaster: NodeId,
    receivers: NodeSet,
    side: Side,
}

#[derive(Clone, Debug)]
enum Side {
    Sender(Sender),
    Receiver { receiver: Box<Receiver>, registers: Nested<Registers> },
}

/// Operations of registers, said in the words of the broadcast.
struct OfRegisters;

impl Lift<Registers, CtBroadcast> for OfRegisters {
    fn message(&self, message: MemoryWords) -> Message {
        Message::Memory(Box::new(message))
    }
    fn timer(&self, timer: Repeat) -> Timer {
        Timer::Registers(timer)
    }
    fn record(&self, record: Never) -> Never {
        record
    }
    fn job(&self, job: Never) -> Job {
        match job {}
    }
}

impl CtBroadcast {
    /// The messages of `broadcaster` in the epoch of a configuration.
    ///
    /// # Errors
    /// A configuration that cannot work, or a broadcaster that is no replica.
    pub fn new(config: Arc<Config>, broadcaster: NodeId) -> Result<Self, Unsound> {
        config.quorums()?;
        if config.roster.member(broadcaster).is_none() {
            return Err(Unsound::Replicas);
        }
        let receivers = config.roster.others(broadcaster);
        let side = if config.me == broadcaster {
            Side::Sender(Sender::new())
        } else {
            let receiver = Box::new(Receiver::new(&config, broadcaster));
            Side::Receiver { receiver, registers: Nested::new(Registers::new(Arc::clone(&config))) }
        };
        Ok(Self { config, broadcaster, receivers, side })
    }

    /// The number of the last message sent; 0 at a receiver.
    #[must_use]
    pub fn sent(&self) -> u64 {
        match &self.side {
            Side::Sender(sender) => sender.last(),
            Side::Receiver { .. } => 0,
        }
    }

    /// Whether messages of the own wait for a summary.
    #[must_use]
    pub fn is_blocked(&self) -> bool {
        match &self.side {
            Side::Sender(sender) => sender.is_blocked(),
            Side::Receiver { .. } => false,
        }
    }

    /// What a receiver can tell another about message `k`, if it delivered it: that it locked it, and the signed message where it has the
    /// signature; the body beside it where that is long (4.16).
    #[must_use]
    pub fn answer(&mut self, k: u64) -> (Vec<Message>, Option<Bytes>) {
        let (index, broadcaster) = (self.config.index(k), self.broadcaster.member());
        let raw_max = usize::try_from(self.config.parameters.echo_raw_max).unwrap_or(0);
        let slot = self.receiver().and_then(|receiver| receiver.slot(index));
        let lock = slot.filter(|slot| slot.delivered == k).and_then(|slot| slot.lock.as_mut());
        let Some((lock, broadcaster)) = lock.filter(|lock| lock.k == k).zip(broadcaster) else {
            return (Vec::new(), None);
        };
        let (digest, told) = (lock.digest(), lock.told(raw_max));
        let short =
            (lock.body.len() <= SIGNED_BODY_MAX).then(|| Blob::try_from(lock.body.clone()).ok()).flatten();
        let long = short.is_none().then(|| lock.body.clone());
        let signed = lock.signature.map(|signature| Message::Signed {
            broadcaster,
            k,
            digest,
            signature: Box::new(signature),
            body: short,
        });
        let locked = Message::Locked { broadcaster, k, told, promise: lock.is_promised };
        (core::iter::once(locked).chain(signed).collect(), long)
    }

    /// Whether the broadcaster was found to have signed two messages for one number.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        match &self.side {
            Side::Sender(_) => false,
            Side::Receiver { receiver, .. } => receiver.is_stopped,
        }
    }

    /// Bytes that are held.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        match &self.side {
            Side::Sender(sender) => sender.bytes(),
            Side::Receiver { receiver, registers } => receiver.bytes() + registers.get().bytes(),
        }
    }

    /// Bytes that are held at most.
    #[must_use]
    pub fn bytes_max(&self) -> u64 {
        let (tail, n) = (u64::from(self.config.parameters.tail), u64::from(self.config.roster.size()));
        let body = self.config.body_max() as u64;
        let memory = self.config.memory.len() as u64;
        // A lock or a kept message, what others said they locked, and operations of registers.
        tail * (body + 512 + n * (RAW_MAX as u64 + 64) + n * (256 + 128 * memory))
            + WAITING_MAX as u64 * (body + 64)
            + EARLY_MAX as u64 * (3 * body + 512)
    }

    fn sending(&mut self) -> Option<Sending<'_>> {
        match &mut self.side {
            Side::Sender(sender) => Some(Sending { sender, config: &self.config, receivers: self.receivers }),
            Side::Receiver { .. } => None,
        }
    }

    fn receiver(&mut self) -> Option<&mut Receiver> {
        match &mut self.side {
            Side::Sender(_) => None,
            Side::Receiver { receiver, .. } => Some(receiver),
        }
    }

    fn on_input(&mut self, input: Input, turn: &mut Turn<'_, Self>) {
        match (self.sending(), input) {
            (Some(mut sending), Input::Broadcast { body, signed }) => sending.broadcast(body, signed, turn),
            (Some(mut sending), Input::Summarized(k)) => sending.summarized(k, turn),
            (Some(sending), Input::Slow(is_slow)) => sending.sender.slow(is_slow),
            (Some(mut sending), Input::Show(k)) => sending.sign(k, turn),
            (Some(sending), Input::Greet(peer)) => sending.greet(peer, turn),
            (None, Input::Greet(peer)) => self.greet(peer, turn),
            (None, Input::Touch) => self.touch(turn),
            (None, Input::Found(body)) => self.on_found(&body, turn),
            (None, Input::Promise { k, body }) => self.promise(k, body, turn),
            (None, Input::Covered(k)) => self.covered(k, turn),
            (None, Input::Settled(k)) => self.settled(k, turn),
            (None, Input::Broadcast { body, .. }) => turn.output(Output::Refused(body)),
            (_, Input::Summarized(_) | Input::Slow(_) | Input::Show(_) | Input::Found(_) | Input::Touch)
            | (Some(_), Input::Promise { .. } | Input::Covered(_) | Input::Settled(_)) => {}
        }
    }

    fn on_message(&mut self, from: NodeId, message: Message, turn: &mut Turn<'_, Self>) {
        let k = match &message {
            Message::Lock { k, .. }
            | Message::Signed { k, .. }
            | Message::Locked { k, .. }
            | Message::Nack { k } => *k,
            Message::Memory(words) => return self.on_memory(from, **words, turn),
        };
        if k == 0 || k >= NUMBER_END {
            turn.blame(from, Fault::Malformed);
            return;
        }
        match message {
            Message::Nack { .. } if self.receivers.contains(from) => {
                self.sending().into_iter().for_each(|mut sending| sending.on_nack(from, k, turn));
            }
            Message::Lock { body, .. } if from == self.broadcaster => {
                self.on_lock(k, body.into_bytes(), turn)
            }
            Message::Signed { digest, signature, body, .. }
                if from == self.broadcaster || self.receivers.contains(from) =>
            {
                self.on_signed(
                    from,
                    Wanted { k, digest, signature: *signature },
                    body.map(Blob::into_bytes),
                    turn,
                );
            }
            Message::Locked { told, promise, .. } if self.receivers.contains(from) => {
                let is_promised = promise && self.config.parameters.merge_promises;
                match self.sending() {
                    Some(mut sending) if is_promised => sending.on_promised(from, k, &told, turn),
                    Some(_) => {}
                    None => self.on_locked(from, Said { k, told, is_promised }, turn),
                }
            }
            Message::Nack { .. } | Message::Lock { .. } | Message::Signed { .. } | Message::Locked { .. } => {
                turn.blame(from, Fault::NoReceiver);
            }
            Message::Memory(_) => {}
        }
    }

    /// Lines 12 to 16: the first message of a number is the one.
    fn on_lock(&mut self, k: u64, body: Bytes, turn: &mut Turn<'_, Self>) {
        let (index, broadcaster) = (self.config.index(k), self.broadcaster);
        if body.len() > self.config.body_max() {
            turn.blame(broadcaster, Fault::Malformed);
            return;
        }
        if self.waits(k) {
            return self.hold_lock(k, body, turn);
        }
        let Some(slot) = self.receiver().and_then(|receiver| receiver.slot(index)) else { return };
        if k < slot.locked() || (k == slot.locked() && !planted!(U1)) {
            return;
        }
        self.lock(Lock::new(k, body), turn);
    }

    /// Locks a message, says so, and delivers it if all others have.
    fn lock(&mut self, mut lock: Lock, turn: &mut Turn<'_, Self>) {
        let (k, index, promise) = (lock.k, self.config.index(lock.k), lock.is_promised);
        let told = self.told(&mut lock);
        let (of, Some(broadcaster)) = (self.broadcaster, self.broadcaster.member()) else { return };
        let Some(receiver) = self.receiver() else { return };
        let others = if promise { receiver.others.with(of) } else { receiver.others };
        let Some(slot) = receiver.slot(index) else { return };
        slot.lock = Some(lock);
        turn.applied(Rule::A1Locked);
        turn.send(others, Message::Locked { broadcaster, k, told, promise });
        self.expect(index, true, turn);
        self.deliver_if_unanimous(index, turn);
    }

    /// What is locked, to a receiver that may have missed it.
    fn greet(&mut self, peer: NodeId, turn: &mut Turn<'_, Self>) {
        let raw_max = usize::try_from(self.config.parameters.echo_raw_max).unwrap_or(0);
        let is_receiver = self.receivers.contains(peer);
        let Some((broadcaster, receiver)) = self.broadcaster.member().zip(self.receiver()) else { return };
        if !is_receiver {
            return;
        }
        for lock in receiver.slots.iter_mut().filter_map(|slot| slot.lock.as_mut()) {
            let (k, told, promise) = (lock.k, lock.told(raw_max), lock.is_promised);
            turn.send(peer, Message::Locked { broadcaster, k, told, promise });
        }
    }

    fn told(&self, lock: &mut Lock) -> Told {
        let raw_max = usize::try_from(self.config.parameters.echo_raw_max).unwrap_or(0);
        lock.told(raw_max)
    }

    /// Lines 18 to 23.
    fn on_locked(&mut self, from: NodeId, said: Said, turn: &mut Turn<'_, Self>) {
        let (k, index) = (said.k, self.config.index(said.k));
        let late =
            self.receiver().is_some_and(|receiver| receiver.early.is_promised(k)).then(|| said.told.clone());
        let Some(receiver) = self.receiver() else { return };
        let is_news = receiver.hear(from, index, said);
        let delivered = receiver.slot(index).map_or(0, |slot| slot.delivered);
        if is_news && delivered == k {
            turn.output(Output::Promised { k, by: from });
        }
        if k > delivered {
            self.expect(index, false, turn);
        }
        self.deliver_if_unanimous(index, turn);
        if let Some(told) = late {
            self.deliver_late(from, k, &told, turn);
        }
    }

    fn deliver_if_unanimous(&mut self, index: usize, turn: &mut Turn<'_, Self>) {
        let Some(receiver) = self.receiver() else { return };
        if receiver.is_unanimous(index)
            && let Some(slot) = receiver.slot(index)
            && let Some(lock) = slot.lock.as_ref().filter(|lock| lock.k > slot.delivered)
        {
            let k = lock.k;
            self.deliver(k, Rule::A1DeliverFast, turn);
        }
    }

    /// Lines 39 to 42: what is locked under `k`, once.
    fn deliver(&mut self, k: u64, rule: Rule, turn: &mut Turn<'_, Self>) {
        let index = self.config.index(k);
        // What is promised and all locked is delivered though its broadcaster is stopped (4.18): nobody can deliver another.
        let is_due = |receiver: &Receiver| rule == Rule::A1DeliverFast && receiver.early.is_promised(k);
        let may = |receiver: &&mut Receiver| !receiver.is_stopped || is_due(receiver);
        let Some(receiver) = self.receiver().filter(may) else { return };
        let Some(slot) = receiver.slot(index).filter(|slot| k > slot.delivered) else { return };
        let Some(body) = slot.lock.as_ref().filter(|lock| lock.k == k).map(|lock| lock.body.clone()) else {
            return;
        };
        slot.delivered = if planted!(U5) && index == 0 { slot.delivered } else { k };
        turn.applied(rule);
        turn.output(Output::Delivered { k, body });
        self.tell_promises(index, k, turn);
        self.settled(k, turn);
    }

    /// A message was spoken of: if it is not here after T_fast, it is asked for.
    fn expect(&mut self, index: usize, is_locked: bool, turn: &mut Turn<'_, Self>) {
        let fast = self.config.parameters.fast;
        let Some(receiver) = self.receiver() else { return };
        if receiver.expect(index, is_locked, turn.now(), fast) && !receiver.is_armed {
            receiver.is_armed = true;
            turn.arm(Timer::Nack, fast);
        }
    }

    fn on_overdue(&mut self, turn: &mut Turn<'_, Self>) {
        let (fast, broadcaster) = (self.config.parameters.fast, self.broadcaster);
        let Some(receiver) = self.receiver() else { return };
        let (due, is_any) = receiver.overdue(turn.now(), fast);
        receiver.is_armed = is_any;
        if is_any {
            turn.arm(Timer::Nack, fast);
        }
        for k in due {
            turn.applied(Rule::Nack);
            turn.send(broadcaster, Message::Nack { k });
        }
    }

    fn on_done(&mut self, done: Done, turn: &mut Turn<'_, Self>) {
        match done {
            Done::Signed(claim) => {
                self.sending().into_iter().for_each(|mut sending| sending.on_signed(&claim, turn));
            }
            Done::Checked { what: For::Signed { body, .. }, claim: Ok(claim) } => {
                self.on_good(&claim, body, turn)
            }
            Done::Checked { what: For::Signed { from, .. }, claim: Err(_) } => {
                turn.blame(from, Fault::BadSignature)
            }
            Done::Checked { what: For::Entry { owner, k }, claim } => self.on_entry(owner, k, claim, turn),
        }
    }
}

/// The statement of a broadcaster about its message.
const fn statement(broadcaster: u8, k: u64, digest: Hash) -> Statement {
    Statement::Broadcast { signer: broadcaster, k, digest }
}

/// What a register holds: digest and signature.
fn value(digest: Hash, signature: Signature) -> [u8; 96] {
    let mut value = [0; 96];
    let (first, second) = value.split_at_mut(32);
    first.copy_from_slice(&digest.0);
    second.copy_from_slice(&signature.0);
    value
}

/// The same, read.
fn read_value(value: &[u8; 96]) -> Option<(Hash, Signature)> {
    let (digest, signature) = value.split_first_chunk::<32>()?;
    Some((Hash(*digest), Signature(*signature.first_chunk::<64>()?)))
}

impl Machine for CtBroadcast {
    type Input = Input;
    type Message = Message;
    type Timer = Timer;
    type Record = Never;
    type Job = Job;
    type Output = Output;

    fn step(&mut self, event: Event<Self>, turn: &mut Turn<'_, Self>) {
        match event {
            Event::Input(input) => self.on_input(input, turn),
            Event::Message { from, message } => self.on_message(from, message, turn),
            Event::Timer(Timer::Nack) => self.on_overdue(turn),
            Event::Timer(Timer::Registers(timer)) => self.registers(Event::Timer(timer), turn),
            Event::Done(done) => self.on_done(done, turn),
            Event::Start | Event::Loaded { .. } | Event::Link { .. } => {}
        }
    }

    fn room(&self) -> u32 {
        match &self.side {
            Side::Sender(sender) => u32::try_from(sender.room()).unwrap_or(u32::MAX),
            Side::Receiver { .. } => 0,
        }
    }

    fn invariants(&self) {
        assert!(self.bytes() <= self.bytes_max(), "{} of {} bytes", self.bytes(), self.bytes_max());
        if let Side::Receiver { receiver, registers } = &self.side {
            registers.get().invariants();
            for slot in &receiver.slots {
                assert!(slot.delivered <= slot.locked(), "what is delivered was locked");
            }
        }
    }
}

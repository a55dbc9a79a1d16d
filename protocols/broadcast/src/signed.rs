//! The signed broadcast (Listing 6, with the checks that the text asks for): PREPARE, ACK, COMMIT.
//!
//! Upon a payload that its source signed and the user judged: record and sign an ACK for all of it but the items excepted.
//! Upon ACKs of a quorum: put them together to a certificate, which proves to anybody that no other payload has the slot, and
//! which items are certified. Upon a certificate and the payload: deliver, in any order. Certificates that certify more are
//! delivered as they come.

mod ack;
mod catch_up;
mod commit;
mod crossing;
mod job;
mod recover;
mod rows;
mod slot;
mod words;

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::Arc;

use synod_crypto::{Claim, Hash, Verified};
use synod_machine::broadcast::{Begun, Broadcast, Offer, Refusal, ReliableBroadcast};
use synod_machine::{Bounded, Event, Machine, Turn, Unrecoverable};
use synod_quorum::{NodeId, NodeSet, Quorums};
use synod_wire::{Bytes, Wire};

use crate::Lot;
use crate::config::{Config, offered};
use crate::fault::Fault;
use crate::patience::Patience;
use crossing::Quora;
pub use job::{CheckedAck, Done, Job, MayExcept, Payload, Read, Reading, View};
pub use recover::Setup;
use rows::{ROWS_BYTES_MAX, RowLog};
use slot::{Lane, Slot};
pub use synod_machine::broadcast::{Independent, Items};
pub use words::{
    Ack, Acked, Certificate, Context, Except, ITEMS_MAX, Message, Record, Row, Said, Timer, TwoPayloads,
    UNCHECKED,
};

/// When a user over its window is to try again, in ms: a few deliveries later.
const RETRY_MS: u32 = 50;
/// Certificates of one slot. Of more, the oldest goes whose items others certify.
const CERTIFICATES_MAX: usize = 64;

/// One member's part in the broadcasts of all.
#[derive(Clone, Debug)]
pub struct SignedBroadcast<I> {
    config: Config,
    quorums: Quorums,
    view: Arc<View>,
    /// What of older views is good in this one.
    begun: Begun,
    quora: Arc<Quora>,
    lanes: BTreeMap<u8, Lane>,
    /// The last slot of this node's own.
    mine: u64,
    /// The last of them whose payload is signed; all before it are, so that a crash leaves no hole.
    sealed: u64,
    /// Signed ones behind one that is not yet.
    ahead: BTreeMap<u64, (Payload, Verified<Claim<Acked>>)>,
    rows: RowLog,
    /// Drawn at the start: rows are numbered anew.
    life: u64,
    /// How far members say they are, and how many of their rows were read.
    frontiers: BTreeMap<u8, catch_up::Frontier>,
    /// The last slot above a gap that others were told of.
    beyond: Option<Lot>,
    /// Payloads that are read from the disk for peers, by the name of their blob.
    wanted: BTreeMap<Hash, (Lot, NodeSet)>,
    /// Slots let go of since the log was last compacted.
    gone: u64,
    /// Payloads on the disk, with the number of slots that have each.
    stored: BTreeMap<Hash, u32>,
    patience: Patience,
    items: PhantomData<I>,
}

impl<I: Items> SignedBroadcast<I> {
    /// A member whose user took care of each source's slots up to `settled`; missing sources have none.
    ///
    /// # Errors
    /// [`Unrecoverable`] where the configuration cannot work, or does not name the members of the view.
    pub fn new(config: Config, view: Arc<View>, settled: &BTreeMap<u8, u64>) -> Result<Self, Unrecoverable> {
        Self::begin(config, view, Begun::default(), settled)
    }

    /// The same in a view that is not the first.
    ///
    /// # Errors
    /// See there.
    pub(crate) fn begin(
        config: Config,
        view: Arc<View>,
        begun: Begun,
        settled: &BTreeMap<u8, u64>,
    ) -> Result<Self, Unrecoverable> {
        let quorums = config.quorums().map_err(|why| Unrecoverable(format!("{why:?}")))?;
        if view.roster.all() != config.members {
            return Err(Unrecoverable("the members are not those of the view".into()));
        }
        let all = config.members.or(begun.sources);
        let sources = all.iter().filter_map(NodeId::member);
        let lane = |source| {
            let from = settled.get(&source).copied().unwrap_or_default();
            (source, Lane::new(from, config.bounds.window, config.bounds.retain))
        };
        let lanes: BTreeMap<u8, Lane> = sources.map(lane).collect();
        let me = config.me.member();
        let mine = me.and_then(|me| lanes.get(&me)).map_or(0, |lane| lane.certified);
        let mine = mine.max(me.map_or(0, |me| begun.tip(me)));
        let quora = Arc::new(Quora::new(&view, quorums.intersecting(), &begun)?);
        Ok(Self {
            config,
            quorums,
            view,
            begun,
            quora,
            lanes,
            mine,
            sealed: mine,
            ahead: BTreeMap::new(),
            rows: RowLog::default(),
            life: 0,
            frontiers: BTreeMap::new(),
            beyond: None,
            wanted: BTreeMap::new(),
            gone: 0,
            stored: BTreeMap::new(),
            patience: Patience::new(me.unwrap_or(u8::MAX)),
            items: PhantomData,
        })
    }

    /// The last slot of this node's own that has a payload.
    #[must_use]
    pub const fn mine(&self) -> u64 {
        self.mine
    }

    /// All slots of a source up to this one are certified here, and the user was told.
    #[must_use]
    pub fn certified(&self, source: NodeId) -> u64 {
        source.member().and_then(|source| self.lanes.get(&source)).map_or(0, |lane| lane.certified)
    }

    fn me(&self) -> u8 {
        self.config.me.member().expect("this node is a member")
    }

    fn others(&self) -> NodeSet {
        self.config.members.without(self.config.me)
    }

    fn slot(&self, lot: Lot) -> Option<&Slot> {
        self.lanes.get(&lot.source)?.slots.get(&lot.sequence)
    }

    fn slot_mut(&mut self, lot: Lot) -> Option<&mut Slot> {
        self.lanes.get_mut(&lot.source)?.slot(lot.sequence)
    }

    fn is_too_long(&self, payload: &Bytes) -> bool {
        u32::try_from(payload.len()).map_or(true, |long| long > self.config.bounds.payload_max)
    }

    fn on_input(&mut self, input: Offer, turn: &mut Turn<'_, Self>) {
        match input {
            Offer::Broadcast { sequence, payload } => self.on_broadcast(sequence, payload, None, turn),
            Offer::BroadcastRead { sequence, payload, digest, read } => {
                self.on_broadcast(sequence, payload, Some((digest, read)), turn);
            }
            Offer::Judge { slot, digest, except } => {
                if let Ok(lot) = Lot::try_from(slot) {
                    self.on_judged(lot, digest, except, turn);
                }
            }
            Offer::Decide { slot, digest } => {
                if let Ok(lot) = Lot::try_from(slot) {
                    self.decide_for(lot, digest, turn);
                }
            }
        }
    }

    /// Listing 6, line 2.
    fn on_broadcast(
        &mut self,
        sequence: u64,
        payload: Bytes,
        known: Option<(Hash, Read)>,
        turn: &mut Turn<'_, Self>,
    ) {
        let lot = Lot { source: self.me(), sequence };
        if self.is_too_long(&payload) {
            return turn.output(Broadcast::Refused { why: Refusal::TooLarge });
        }
        if self.is_left_behind(lot) {
            let view = Arc::clone(&self.view);
            return turn.compute(Job::Seal { view, lot, payload, known, reading: I::read });
        }
        if sequence <= self.mine {
            return self.on_offered_again(sequence, payload, turn);
        }
        if self.room() == 0 {
            return turn.output(Broadcast::Refused { why: Refusal::Busy { retry_ms: RETRY_MS } });
        }
        if self.mine.checked_add(1) != Some(sequence) {
            return turn.output(Broadcast::Refused { why: Refusal::NotReady });
        }
        self.mine = sequence;
        turn.compute(Job::Seal { view: Arc::clone(&self.view), lot, payload, known, reading: I::read });
        self.flush(turn);
    }

    /// A payload that was offered before: after a restart the user may be the only one who has it, for the disk may have lost it and
    /// nobody else may have heard of it.
    fn on_offered_again(&mut self, sequence: u64, payload: Bytes, turn: &mut Turn<'_, Self>) {
        let lot = Lot { source: self.me(), sequence };
        let is_missing = |slot: &Slot| slot.wants().is_some_and(|wanted| slot.payload(wanted).is_none());
        if self.slot(lot).is_some_and(is_missing) {
            let (view, from) = (Arc::clone(&self.view), self.config.me);
            turn.compute(Job::Take { view, from, lot, payload, signature: None, reading: I::read });
        }
    }

    fn on_message(&mut self, from: NodeId, message: Message, turn: &mut Turn<'_, Self>) {
        let Some(member) = from.member().filter(|_| self.config.members.contains(from)) else {
            return turn.blame(from, Fault::Stranger);
        };
        match message {
            Message::Prepare { lot, payload, signature } => {
                self.on_prepare(from, lot, payload.into_bytes(), signature, turn);
            }
            Message::Ack(ack) if ack.said.member == member => self.on_ack(from, ack, turn),
            Message::Ack(_) => turn.blame(from, Fault::NotItsSlot),
            Message::Commit(certificate) => self.on_commit(from, certificate, turn),
            Message::Ask(lot) => self.on_ask(from, lot, turn),
            Message::Pull { lot, digest } => self.on_pull(from, lot, digest, turn),
            Message::Pulled { lot, payload } => self.on_pulled(from, lot, payload.into_bytes(), turn),
            Message::Frontier { certified, beyond, life, rows } => {
                self.on_frontier((from, member), (certified, beyond), (life, rows), turn);
            }
            Message::AskRows(number) => self.on_ask_rows(from, number, turn),
            Message::Rows { life, from: number, rows } => {
                self.on_rows((from, member), (life, number), rows, turn);
            }
        }
    }

    fn on_done(&mut self, done: Done, turn: &mut Turn<'_, Self>) {
        match done {
            Done::Sealed { payload, acked } => self.on_sealed(payload, acked, turn),
            Done::Taken { from, lot, payload, signed } => match payload {
                Some(payload) => self.on_taken((from, lot), payload, signed, turn),
                None => turn.blame(from, Fault::WrongPayload),
            },
            Done::Signed { acked, said } => self.on_signed(&acked, said, turn),
            Done::Acks { lot, digest, said } => self.on_acks_checked(lot, digest, said, turn),
            Done::Certified { from, certificate } => self.on_certified(from, certificate, turn),
        }
    }
}

impl<I: Items> Machine for SignedBroadcast<I> {
    type Input = Offer;
    type Message = Message;
    type Timer = Timer;
    type Record = Record;
    type Job = Job;
    type Output = Broadcast;

    fn step(&mut self, event: Event<Self>, turn: &mut Turn<'_, Self>) {
        match event {
            Event::Start => self.on_start(turn),
            Event::Input(input) => self.on_input(input, turn),
            Event::Message { from, message } => self.on_message(from, message, turn),
            Event::Timer(Timer::Frontier) => self.on_frontier_due(turn),
            Event::Timer(Timer::Resend(lot)) => self.on_resend_due(lot, turn),
            Event::Timer(Timer::Pull(lot)) => self.on_pull_due(lot, turn),
            Event::Done(done) => self.on_done(done, turn),
            Event::Loaded { name, bytes } => self.on_loaded(name, bytes, turn),
            Event::Link { peer, .. } => self.on_link(peer),
        }
    }

    fn room(&self) -> u32 {
        let open = self.mine.saturating_sub(self.certified(self.config.me));
        u32::try_from(offered(self.config.bounds.window).saturating_sub(open)).unwrap_or(u32::MAX)
    }

    fn invariants(&self) {
        for lane in self.lanes.values() {
            assert!(
                lane.slots.keys().all(|sequence| lane.keeps(*sequence)),
                "a slot that is too old to be kept"
            );
            lane.slots.values().for_each(Slot::assert_sound);
        }
        assert!(self.mine >= self.certified(self.config.me), "a slot of this node's own that it never had");
    }
}

impl<I: Items> ReliableBroadcast for SignedBroadcast<I> {
    fn payload_max(&self) -> u32 {
        self.config.bounds.payload_max
    }

    fn proofs(&self, slot: synod_machine::broadcast::Slot) -> Vec<Bytes> {
        let slot = Lot::try_from(slot).ok().and_then(|lot| self.slot(lot));
        slot.map_or_else(Vec::new, |slot| slot.certificates.iter().map(Wire::encode).collect())
    }

    fn crossing(&self) -> Vec<Record> {
        self.crossing_records()
    }

    fn read(&self, slot: synod_machine::broadcast::Slot) -> Option<Read> {
        self.slot(Lot::try_from(slot).ok()?)?.payload.as_ref()?.read.clone()
    }
}

impl<I: Items> Bounded for SignedBroadcast<I> {
    fn bytes(&self) -> u64 {
        let slots: u64 = self.lanes.values().flat_map(|lane| lane.slots.values()).map(Slot::bytes).sum();
        let ahead: u64 = self.ahead.values().map(|(payload, _)| payload.bytes.len() as u64 + 256).sum();
        let wanted = self.wanted.len() * size_of::<(Hash, Lot, NodeSet)>();
        let frontiers: u64 = self.frontiers.values().map(catch_up::Frontier::bytes).sum();
        slots
            + ahead
            + self.rows.bytes()
            + frontiers
            + self.patience.bytes()
            + (wanted + self.stored.len() * size_of::<(Hash, u32)>()) as u64
    }

    fn bytes_max(&self) -> u64 {
        let members = u64::from(self.quorums.members());
        let list = 4 * ITEMS_MAX as u64;
        let said = size_of::<Said>() as u64 + list;
        let certificates = CERTIFICATES_MAX as u64 * (size_of::<Certificate>() as u64 + members * said);
        let slot = size_of::<Slot>() as u64
            + u64::from(self.config.bounds.payload_max)
            + 2 * list
            + certificates
            + 2 * members * said;
        let lanes = self.lanes.len() as u64
            * (2 * self.config.bounds.window + self.config.bounds.retain)
            * (slot + 200);
        lanes + ROWS_BYTES_MAX as u64 + members * (self.lanes.len() as u64 * 32 + 64)
    }
}

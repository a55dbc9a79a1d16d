//! Bracha's reliable broadcast (Listing 5), with digests in place of payloads in the votes.
//!
//! Upon the first PREPARE of a slot that the user endorses: ECHO its digest. Upon a quorum of ECHOs, or f + 1 READYs, for a
//! digest: READY. Upon 2f + 1 READYs and the payload: deliver, each source's slots in order. Links are authenticated and
//! nothing is signed, so nothing can be shown to others; in return everybody delivers what anybody delivers.

mod catch_up;
mod recover;
mod slot;
mod votes;
mod words;

use std::collections::BTreeMap;

use synod_crypto::Hash;
use synod_machine::broadcast::{Broadcast, Offer, Refusal, ReliableBroadcast};
use synod_machine::{Bounded, Event, Machine, Turn, Unrecoverable};
use synod_quorum::{NodeId, NodeSet, Quorums};
use synod_wire::Bytes;

use crate::Lot;
use crate::config::{Config, offered};
use crate::fault::Fault;
use crate::patience::Patience;
use crate::slots::{Lane, Where};
pub use recover::Setup;
use slot::Open;
pub use words::{Hashed, Job, Message, Record, Timer, Vote};

/// When a user over its window is to try again, in ms: a few deliveries later.
const RETRY_MS: u32 = 50;

/// One member's part in the broadcasts of all.
#[derive(Clone, Debug)]
pub struct Bracha {
    config: Config,
    quorums: Quorums,
    lanes: BTreeMap<u8, Lane<Open>>,
    /// The last slot of this node's own.
    mine: u64,
    /// Slots let go of since the log was last compacted.
    gone: u64,
    /// What this node was ready for in slots that are delivered and kept.
    kept: BTreeMap<Lot, Hash>,
    /// How far members say they are.
    frontiers: BTreeMap<u8, Vec<Lot>>,
    /// Payloads that are read from the disk for peers.
    wanted: BTreeMap<Hash, (Lot, NodeSet)>,
    /// Payloads on the disk, with the number of slots that have each.
    stored: BTreeMap<Hash, u32>,
    /// Slots delivered, as last said in a frontier.
    said: u64,
    patience: Patience,
}

impl Bracha {
    /// A member that has delivered each source's slots up to `delivered`, as its user knows from its own records; missing
    /// sources have delivered nothing.
    ///
    /// # Errors
    /// [`Unrecoverable`] where the configuration cannot work.
    pub fn new(config: Config, delivered: &BTreeMap<u8, u64>) -> Result<Self, Unrecoverable> {
        let quorums = config.quorums().map_err(|why| Unrecoverable(format!("{why:?}")))?;
        let sources = config.members.iter().filter_map(|id| u8::try_from(id.0).ok());
        let lane = |source| {
            let from = delivered.get(&source).copied().unwrap_or_default();
            (source, Lane::new(from, config.bounds.window))
        };
        let lanes: BTreeMap<u8, Lane<Open>> = sources.map(lane).collect();
        let me = u8::try_from(config.me.0).unwrap_or(u8::MAX);
        let mine = lanes.get(&me).map_or(0, Lane::delivered);
        Ok(Self {
            config,
            quorums,
            lanes,
            mine,
            gone: 0,
            kept: BTreeMap::new(),
            frontiers: BTreeMap::new(),
            wanted: BTreeMap::new(),
            stored: BTreeMap::new(),
            said: 0,
            patience: Patience::new(me),
        })
    }

    /// How far a source's slots are delivered.
    #[must_use]
    pub fn delivered(&self, source: NodeId) -> u64 {
        u8::try_from(source.0).ok().and_then(|source| self.lanes.get(&source)).map_or(0, Lane::delivered)
    }

    /// The last slot of this node's own that has a payload.
    #[must_use]
    pub const fn mine(&self) -> u64 {
        self.mine
    }

    fn me(&self) -> u8 {
        u8::try_from(self.config.me.0).unwrap_or(u8::MAX)
    }

    fn others(&self) -> NodeSet {
        self.config.members.without(self.config.me)
    }

    fn lane(&mut self, source: u8) -> Option<&mut Lane<Open>> {
        self.lanes.get_mut(&source)
    }

    fn place(&self, lot: Lot) -> Option<Where> {
        self.lanes.get(&lot.source).map(|lane| lane.place(lot.sequence)).filter(|_| lot.sequence > 0)
    }

    fn on_input(&mut self, input: Offer, turn: &mut Turn<'_, Self>) {
        match input {
            Offer::Broadcast { sequence, payload } | Offer::BroadcastRead { sequence, payload, .. } => {
                self.on_broadcast(sequence, payload, turn);
            }
            Offer::Judge { slot, digest, except } => {
                let Ok(lot) = Lot::try_from(slot) else { return };
                self.on_judged(lot, digest, except.is_empty(), turn);
            }
            // Its views do not change.
            Offer::Decide { .. } => {}
        }
    }

    /// Listing 5, line 2.
    fn on_broadcast(&mut self, sequence: u64, payload: Bytes, turn: &mut Turn<'_, Self>) {
        if sequence <= self.mine && !self.is_missing(sequence) {
            return;
        }
        if u32::try_from(payload.len()).is_ok_and(|long| long > self.config.bounds.payload_max) {
            return turn.output(Broadcast::Refused { why: Refusal::TooLarge });
        }
        if sequence <= self.mine {
            let lot = Lot { source: self.me(), sequence };
            return turn.compute(Job { from: self.config.me, lot, payload });
        }
        if self.room() == 0 {
            return turn.output(Broadcast::Refused { why: Refusal::Busy { retry_ms: RETRY_MS } });
        }
        if self.mine.checked_add(1) != Some(sequence) {
            return turn.output(Broadcast::Refused { why: Refusal::NotReady });
        }
        self.mine = sequence;
        let lot = Lot { source: self.me(), sequence: self.mine };
        turn.compute(Job { from: self.config.me, lot, payload });
    }

    /// Whether the payload of a slot of this node's own is not here, though the slot was given before: it was being hashed when this node
    /// crashed and later ones were done first, or the disk has it no more.
    fn is_missing(&self, sequence: u64) -> bool {
        let lane = self.lanes.get(&self.me());
        lane.is_some_and(|lane| {
            lane.place(sequence) == Where::Within
                && lane.get(sequence).is_none_or(|slot| slot.proposed.is_none())
        })
    }

    fn on_message(&mut self, from: NodeId, message: Message, turn: &mut Turn<'_, Self>) {
        if !self.config.members.contains(from) {
            return turn.blame(from, Fault::Stranger);
        }
        match message {
            Message::Prepare { sequence, payload } => {
                self.on_prepare(from, sequence, payload.into_bytes(), turn)
            }
            Message::Echo(vote) => self.on_echo(from, vote, turn),
            Message::Ready(vote) => self.on_ready(from, vote, turn),
            Message::Ask(lot) => self.on_ask(from, lot, turn),
            Message::Pull(vote) => self.on_pull(from, vote, turn),
            Message::Pulled { lot, payload } => self.on_pulled(from, lot, payload.into_bytes(), turn),
            Message::Frontier(lots) => self.on_frontier(from, lots, turn),
        }
    }
}

impl Machine for Bracha {
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
            Event::Done(hashed) => self.on_hashed(hashed, turn),
            Event::Loaded { name, bytes } => self.on_loaded(name, bytes, turn),
            Event::Link { .. } => {}
        }
    }

    fn room(&self) -> u32 {
        let open = self.mine.saturating_sub(self.delivered(self.config.me));
        u32::try_from(offered(self.config.bounds.window).saturating_sub(open)).unwrap_or(u32::MAX)
    }

    fn invariants(&self) {
        for lane in self.lanes.values() {
            lane.assert_bounds();
            lane.open().for_each(|(_, slot)| slot.assert_sound());
        }
        assert!(self.mine >= self.delivered(self.config.me), "a slot of this node's own that it never had");
        let kept_max = self.config.bounds.retain.saturating_mul(self.lanes.len() as u64);
        assert!(self.kept.len() as u64 <= kept_max, "more delivered slots than are kept");
    }
}

impl ReliableBroadcast for Bracha {
    fn payload_max(&self) -> u32 {
        self.config.bounds.payload_max
    }

    /// Nothing of it can be shown to others.
    fn proofs(&self, _: synod_machine::broadcast::Slot) -> Vec<Bytes> {
        Vec::new()
    }

    /// That of its bytes: payloads are broadcast as a whole.
    fn judged_as(&self, slot: synod_machine::broadcast::Slot) -> Option<Hash> {
        let lot = Lot::try_from(slot).ok()?;
        let open = self.lanes.get(&lot.source)?.get(lot.sequence)?;
        open.proposed.as_ref().map(|(digest, _)| *digest)
    }
}

impl Bounded for Bracha {
    fn bytes(&self) -> u64 {
        let open: u64 = self.lanes.values().flat_map(Lane::open).map(|(_, slot)| slot.bytes()).sum();
        let per_lot = (size_of::<Lot>() + size_of::<Hash>()) as u64;
        let frontiers: usize = self.frontiers.values().map(Vec::len).sum();
        let wanted = self.wanted.len() * size_of::<(Hash, Lot, NodeSet)>();
        open + self.patience.bytes()
            + self.kept.len() as u64 * 2 * per_lot
            + (frontiers * size_of::<Lot>() + wanted) as u64
    }

    fn bytes_max(&self) -> u64 {
        let members = u64::from(self.quorums.members());
        let slots: u64 = self.lanes.values().map(Lane::span).sum();
        let votes = members * 2 * size_of::<(Hash, NodeSet)>() as u64 * 2;
        let slot = size_of::<Open>() as u64 + 2 * u64::from(self.config.bounds.payload_max) + votes;
        let kept =
            members * self.config.bounds.retain * (5 * size_of::<Hash>() + 5 * size_of::<Lot>()) as u64;
        slots * slot + kept + members * (members * size_of::<Lot>() as u64 + 64)
    }
}

//! A replica of profile II-F: it endorses what is funded, settles what is certified, and represents its own customers.

mod certify;
mod desk;
mod endorse;
mod lane;
mod pull;
mod receipts;
mod recover;

use std::collections::{BTreeMap, VecDeque};

use synod_broadcast::{Config as BroadcastConfig, Lot, SignedBroadcast, signed};
use synod_ledger::{Book, EntryId};
use synod_machine::broadcast::{Broadcast, Offer};
use synod_machine::{Bounded, Event, Lift, Machine, Nested, Turn, Unrecoverable};
use synod_quorum::{NodeId, NodeSet, Quorums};

use crate::batch::{Batches, Line};
use crate::config::{BATCH_BYTES_MIN, Config};
use crate::fault::Fault;
use crate::job::{Done, Job, Purpose};
use crate::ledger::Ledger;
use crate::words::{Input, Message, Output, Record, Timer};
use desk::Desk;
use lane::Lane;
use pull::Wanted;

/// The broadcast that carries batches.
pub type Channel = SignedBroadcast<Batches>;

/// One member's part in the ledger of its shard.
#[derive(Clone, Debug)]
pub struct Replica {
    config: Config,
    quorums: Quorums,
    broadcast: Nested<Channel>,
    /// What the broadcast said in this step and was not looked at.
    heard: VecDeque<Broadcast>,
    ledger: Ledger,
    lanes: BTreeMap<u8, Lane>,
    desk: Desk,
    /// Entries below certified ones that are not here.
    wanted: BTreeMap<EntryId, Wanted>,
    /// Entries that settled by the certificate of a later one, for whoever is behind.
    descended: BTreeMap<EntryId, Line>,
}

/// The broadcast's words in the replica's.
pub(crate) struct Under;

impl Lift<Channel, Replica> for Under {
    fn message(&self, message: signed::Message) -> Message {
        Message::Broadcast(message)
    }

    fn timer(&self, timer: signed::Timer) -> Timer {
        Timer::Broadcast(timer)
    }

    fn record(&self, record: signed::Record) -> Record {
        Record::Broadcast(record)
    }

    fn job(&self, job: signed::Job) -> Job {
        Job::Broadcast(job)
    }
}

impl Replica {
    /// A replica that has settled nothing.
    ///
    /// # Errors
    /// [`Unrecoverable`] where the configuration cannot work, with the reason.
    fn new(config: Config, channel: Channel) -> Result<Self, Unrecoverable> {
        let quorums = broadcast_config(&config).quorums();
        let quorums = quorums.map_err(|why| Unrecoverable(format!("the broadcast cannot work: {why:?}")))?;
        if let Some(fault) = config.parameters.fault() {
            return Err(Unrecoverable(fault.into()));
        }
        let members = config.view.roster.all();
        let mut lanes: BTreeMap<u8, Lane> =
            members.iter().filter_map(NodeId::member).map(|lane| (lane, Lane::default())).collect();
        let mut book = Book::new(config.view.context.shard);
        for opening in &config.genesis {
            let why = |code| Unrecoverable(format!("account {} of the genesis: {code:?}", opening.id));
            book.open(opening).map_err(why)?;
            let lane = u8::try_from(opening.id.registrar).ok().and_then(|lane| lanes.get_mut(&lane));
            if let Some(lane) = lane {
                lane.grant(std::slice::from_ref(opening));
            }
        }
        Ok(Self {
            ledger: Ledger::new(book, config.parameters.window),
            quorums,
            broadcast: Nested::new(channel),
            heard: VecDeque::new(),
            lanes,
            desk: Desk::default(),
            wanted: BTreeMap::new(),
            descended: BTreeMap::new(),
            config,
        })
    }

    /// The accounts and what has settled in them.
    #[must_use]
    pub const fn book(&self) -> &Book {
        self.ledger.book()
    }

    fn me(&self) -> u8 {
        self.config.me.member().expect("this node is a member")
    }

    fn others(&self) -> NodeSet {
        self.config.view.roster.all().without(self.config.me)
    }

    fn lane_mut(&mut self, lane: u8) -> &mut Lane {
        self.lanes.get_mut(&lane).expect("the broadcast has lanes of members alone")
    }

    /// Steps the broadcast; what it says waits in [`Self::heard`].
    fn tell(&mut self, event: Event<Channel>, turn: &mut Turn<'_, Self>) {
        let said = self.broadcast.step(event, &Under, turn);
        self.heard.extend(said);
    }

    fn on_heard(&mut self, said: Broadcast, turn: &mut Turn<'_, Self>) {
        match said {
            Broadcast::Proposed { slot, payload } => {
                if let Ok(lot) = Lot::try_from(slot) {
                    self.on_proposed(lot, payload, turn);
                }
            }
            Broadcast::Delivered { slot, payload, proof } => {
                if let (Ok(lot), Some(proof)) = (Lot::try_from(slot), proof) {
                    self.on_delivered(lot, payload, proof, turn);
                }
            }
            Broadcast::Conflict { slot, evidence } => {
                turn.output(Output::TwoBatches { lane: slot.source, sequence: slot.sequence, evidence });
            }
            // A batch is built when there is room for it.
            Broadcast::Refused { .. } => {}
        }
    }

    fn on_message(&mut self, from: NodeId, message: Message, turn: &mut Turn<'_, Self>) {
        if !self.config.view.roster.all().contains(from) {
            return turn.blame(from, Fault::Stranger);
        }
        match message {
            Message::Broadcast(message) => self.tell(Event::Message { from, message }, turn),
            Message::Receipt(receipt) => self.on_receipt(from, receipt, turn),
            Message::AskReceipts(lots) => self.on_ask_receipts(from, &lots, turn),
            Message::Want { id, digest } => self.on_want(from, id, digest, turn),
            Message::Here(line) => self.on_here(from, line, turn),
        }
    }

    fn on_done(&mut self, done: Done, turn: &mut Turn<'_, Self>) {
        match done {
            Done::Broadcast(done) => self.tell(Event::Done(done), turn),
            Done::Read { lot, purpose, opened } => match (purpose, opened) {
                (Purpose::Judge, Some(opened)) => self.on_read(lot, opened, turn),
                (Purpose::Settle(open), Some(opened)) => self.on_certified(lot, &opened, open, turn),
                // The broadcast takes no payload that is no batch.
                (_, None) => {}
            },
            Done::Checked { opened, keys } => self.on_checked(&opened, keys, turn),
            Done::Admitted { ticket, line, key } => self.on_admitted(ticket, line, key, turn),
            Done::Built(opened, payload) => self.on_built(&opened, payload, turn),
            Done::Signed(receipt) => self.on_receipt_signed(receipt, turn),
            Done::Receipt { from, receipt } => match receipt {
                Some(receipt) => self.count_receipt(receipt, turn),
                None => turn.blame(from, Fault::BadReceipt),
            },
        }
    }

    fn on_event(&mut self, event: Event<Self>, turn: &mut Turn<'_, Self>) {
        match event {
            Event::Start => self.on_start(turn),
            Event::Input(Input::Order { ticket, draft }) => self.on_order(ticket, draft, turn),
            Event::Input(Input::Signed { ticket, line }) => self.on_signed_order(ticket, line, turn),
            Event::Input(Input::Open { ticket, opening }) => self.on_open(ticket, opening, turn),
            Event::Message { from, message } => self.on_message(from, message, turn),
            Event::Timer(Timer::Broadcast(timer)) => self.tell(Event::Timer(timer), turn),
            Event::Timer(Timer::Flush) => self.on_flush_due(turn),
            Event::Timer(Timer::Want(id)) => self.on_want_due(id, turn),
            Event::Timer(Timer::Receipts) => self.on_receipts_due(turn),
            Event::Done(done) => self.on_done(done, turn),
            Event::Loaded { name, bytes } => self.tell(Event::Loaded { name, bytes }, turn),
            Event::Link { peer, link } => self.tell(Event::Link { peer, link }, turn),
        }
    }

    /// Judges for the broadcast.
    fn judge_slot(
        &mut self,
        lot: Lot,
        digest: synod_crypto::Hash,
        except: Vec<u32>,
        turn: &mut Turn<'_, Self>,
    ) {
        self.tell(Event::Input(Offer::Judge { slot: lot.into(), digest, except }), turn);
    }
}

/// How the broadcast is set up under a replica.
pub(crate) fn broadcast_config(config: &Config) -> BroadcastConfig {
    let parameters = &config.parameters;
    BroadcastConfig {
        window: parameters.lane_window,
        retain: parameters.retain,
        payload_max: parameters.batch_bytes.saturating_add(BATCH_BYTES_MIN),
        frontier_every: parameters.frontier_every,
        resend: parameters.resend,
        resend_max: parameters.resend_max,
        pull: parameters.pull,
        pull_max: parameters.pull_max,
        ..BroadcastConfig::new(config.me, config.view.roster.all())
    }
}

impl Machine for Replica {
    type Input = Input;
    type Message = Message;
    type Timer = Timer;
    type Record = Record;
    type Job = Job;
    type Output = Output;

    fn step(&mut self, event: Event<Self>, turn: &mut Turn<'_, Self>) {
        self.on_event(event, turn);
        while let Some(said) = self.heard.pop_front() {
            self.on_heard(said, turn);
        }
    }

    fn room(&self) -> u32 {
        self.desk.room(&self.config.parameters)
    }

    fn invariants(&self) {
        self.broadcast.get().invariants();
        self.ledger.assert_sound();
        assert!(self.heard.is_empty(), "something was heard and not looked at");
        let mine = self.lanes.get(&self.me()).map_or(0, |lane| lane.judged);
        assert!(mine >= self.broadcast.get().mine(), "a batch went out that is not endorsed");
    }
}

impl Bounded for Replica {
    fn bytes(&self) -> u64 {
        let lanes: u64 = self.lanes.values().map(Lane::bytes).sum();
        let small = self.wanted.len() * size_of::<(EntryId, Wanted)>()
            + self.descended.len() * 2 * size_of::<(EntryId, Line)>();
        self.broadcast.get().bytes() + self.ledger.bytes() + lanes + self.desk.bytes() + small as u64
    }

    fn bytes_max(&self) -> u64 {
        let parameters = &self.config.parameters;
        let members = u64::from(self.quorums.members());
        let line = 8 * size_of::<Line>() as u64;
        // Batches in memory: those under way in every lane, and those certified in part that are kept.
        let batches = members * (parameters.lane_window + parameters.retain);
        let accounts = u64::try_from(self.book().accounts().count()).unwrap_or(u64::MAX);
        self.broadcast.get().bytes_max()
            + self.book().bytes()
            + batches * (u64::from(parameters.batch_max) * line + 4_096)
            + accounts * parameters.window * line
            + pull::DESCENDED_MAX as u64 * 2 * line
    }
}

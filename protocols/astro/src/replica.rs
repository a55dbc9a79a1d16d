//! A replica: it endorses what may be carried (and is funded, in profile II-F), settles what is certified, and represents its own
//! customers.

mod again;
mod certify;
mod check;
mod close;
mod credits;
mod cut;
mod desk;
mod distil;
mod endorse;
mod feed;
mod lane;
mod lanes;
mod names;
mod orders;
mod patience;
mod profile_i;
mod pull;
mod receipts;
mod recover;
mod shards;
mod show;
mod torn;
mod views;
mod witness;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use synod_crypto::Hash;
use synod_ledger::{Book, Digests, EntryId};
use synod_machine::broadcast::{Broadcast, Lot, Offer, ReliableBroadcast};
use synod_machine::{Bounded, Event, Lift, Machine, Nested, Recover, To, Turn, Unrecoverable};
use synod_quorum::{Model, NodeId, NodeSet, Quorums};

use crate::batch::{IMPORTS_MAX, Line};
use crate::bundle;
use crate::config::{Channel, Config};
use crate::fault::Fault;
use crate::job::{Done, Job, Made, Purpose, Work};
use crate::ledger::Ledger;
use crate::together::Points;
use crate::views::Entered;
use crate::words::{Input, Message, Output, Promise, Record, Timer, Word};
use credits::Claims;
use cut::Cuts;
use desk::Desk;
use distil::Distillery;
use feed::Feed;
use lane::Lane;
use pull::Wanted;
use shards::{Asking, Exporter, Importer};

/// A broadcast that can carry batches: one whose deliveries say which items are certified, and whose proofs show it.
pub trait Carrier: ReliableBroadcast + Recover + Bounded {}
impl<B: ReliableBroadcast + Recover + Bounded> Carrier for B {}

fn compute<B: Carrier>(turn: &mut Turn<'_, Replica<B>>, work: Work) {
    turn.compute(work.into());
}

fn keep<B: Carrier>(turn: &mut Turn<'_, Replica<B>>, promise: Promise) {
    turn.persist(promise.into());
}

fn say<B: Carrier>(turn: &mut Turn<'_, Replica<B>>, to: impl Into<To>, word: Word) {
    turn.send(to, word.into());
}

/// One member's part in the ledger of its shard.
pub struct Replica<B: Machine + Recover> {
    config: Config,
    digests: Digests,
    quorums: Quorums,
    broadcast: Nested<B>,
    /// What the broadcast said in this step and was not looked at.
    heard: VecDeque<Broadcast>,
    ledger: Ledger,
    lanes: BTreeMap<u8, Lane>,
    desk: Desk,
    distillery: Distillery,
    /// Keys of those who may sign together.
    points: Points,
    /// What it collects for those it represents (profile II).
    claims: Claims,
    feed: Feed,
    /// Batches whose certificates the user was told, each with the number of entries that had settled then; lowest first.
    shown: VecDeque<(u64, Lot)>,
    /// Entries below certified ones that are not here.
    wanted: BTreeMap<EntryId, Wanted>,
    /// Entries that settled by the certificate of a later one, for whoever is behind.
    descended: BTreeMap<EntryId, Line>,
    cuts: Cuts,
    /// See [`crate::Setup::channel`].
    channel: Arc<Channel<B>>,
    exporter: Exporter,
    importer: Importer,
    asking: Asking,
    /// How its view began, if that is not the first.
    entered: Arc<Entered>,
    /// Whether slots are missing here that were certified before it began: nothing is endorsed until they are here.
    is_behind: bool,
    /// Whether batches that wait to be judged were looked through for what is wanted.
    is_sought: bool,
    /// Payloads of slots that were open to nothing but a certificate: what is certified behind them names these.
    named: BTreeMap<Lot, Hash>,
}

/// The broadcast's words in the replica's.
pub(crate) struct Under;

impl<B: Carrier> Lift<B, Replica<B>> for Under {
    fn message(&self, message: B::Message) -> Message<B::Message> {
        Message::Broadcast(message)
    }

    fn timer(&self, timer: B::Timer) -> Timer<B::Timer> {
        Timer::Broadcast(timer)
    }

    fn record(&self, record: B::Record) -> Record<B::Record> {
        Record::Broadcast(record)
    }

    fn job(&self, job: B::Job) -> Job<B::Job> {
        Job::Broadcast(job)
    }
}

impl<B: Carrier> Replica<B> {
    /// A replica that has settled nothing.
    ///
    /// # Errors
    /// [`Unrecoverable`] where the configuration cannot work, with the reason.
    fn new(
        config: Config,
        entered: Arc<Entered>,
        set_up: Arc<Channel<B>>,
        channel: B,
    ) -> Result<Self, Unrecoverable> {
        let members = config.view.roster.all();
        let quorums = Quorums::new(Model::Byzantine, members.count())
            .map_err(|_| Unrecoverable("no members".into()))?;
        let me = config.me.member().filter(|_| members.contains(config.me));
        let Some(me) = me.map(u32::from) else {
            return Err(Unrecoverable("this node is no member of the view".into()));
        };
        if let Some(fault) = config.fault() {
            return Err(Unrecoverable(fault.into()));
        }
        let (carried, longest) = (channel.payload_max(), config.parameters.payload_max());
        if carried < longest {
            let why = format!("batches have up to {longest} bytes, and the broadcast carries {carried}");
            return Err(Unrecoverable(why));
        }
        let mut lanes: BTreeMap<u8, Lane> = entered
            .sources(members)
            .iter()
            .filter_map(NodeId::member)
            .map(|lane| (lane, Lane::default()))
            .collect();
        let mut book = Book::new(config.view.context.shard);
        for opening in &config.genesis {
            let why = |code| Unrecoverable(format!("account {} of the genesis: {code:?}", opening.id));
            book.open(opening).map_err(why)?;
            let lane = u8::try_from(opening.id.registrar).ok().and_then(|lane| lanes.get_mut(&lane));
            if let Some(lane) = lane {
                lane.grant(std::slice::from_ref(opening));
            }
        }
        let (every, window) = (config.parameters.checkpoint_every, config.parameters.window);
        let cuts = Cuts::new(every, lanes.keys().copied(), &book, window);
        Ok(Self {
            cuts,
            channel: set_up,
            ledger: Ledger::new(
                config.parameters.profile,
                book,
                config.parameters.window,
                config.shards.numbers(),
            )
            .of_owners(config.parameters.owners_sign),
            digests: Digests::default(),
            quorums,
            broadcast: Nested::new(channel),
            heard: VecDeque::new(),
            lanes,
            desk: Desk::of(config.view.context.shard, me),
            distillery: Distillery::default(),
            points: Self::vouched(&config),
            claims: Claims::default(),
            feed: Feed::default(),
            shown: VecDeque::new(),
            wanted: BTreeMap::new(),
            descended: BTreeMap::new(),
            exporter: Exporter::default(),
            importer: Importer::default(),
            asking: Asking::default(),
            is_behind: false,
            is_sought: false,
            named: BTreeMap::new(),
            entered,
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
    fn tell(&mut self, event: Event<B>, turn: &mut Turn<'_, Self>) {
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
            Broadcast::Delivered { slot, payload, open, .. } => {
                if let Ok(lot) = Lot::try_from(slot) {
                    self.on_delivered(lot, payload, open, turn);
                }
            }
            Broadcast::Conflict { slot, evidence } => {
                turn.output(Output::TwoBatches { lane: slot.source, sequence: slot.sequence, evidence });
            }
            // A batch is built when there is room for it.
            Broadcast::Refused { .. } => {}
        }
    }

    fn on_message(&mut self, from: NodeId, message: Message<B::Message>, turn: &mut Turn<'_, Self>) {
        let is_member = self.config.view.roster.all().contains(from);
        if !is_member && self.config.shards.member(from).is_none() {
            return turn.blame(from, Fault::Stranger);
        }
        match message {
            Message::Own(Word::Bundle(bundle)) => self.on_bundle(from, bundle, turn),
            Message::Own(Word::WantProof(place)) => self.on_want_proof(from, place, turn),
            _ if !is_member => self.on_message_from_abroad(from, message, turn),
            Message::Broadcast(message) => self.tell(Event::Message { from, message }, turn),
            Message::Own(Word::Receipt(receipt)) => self.on_receipt(from, receipt, turn),
            Message::Own(Word::AskReceipts(lots)) => self.on_ask_receipts(from, &lots, turn),
            Message::Own(Word::Want { id, digest }) => self.on_want(from, id, digest, turn),
            Message::Own(Word::Here(line)) => self.on_here(from, line, turn),
            Message::Own(Word::Witnessed(word)) => self.on_witness(from, word, turn),
            Message::Own(Word::CutPropose(cut)) => self.on_cut_proposed(from, *cut, turn),
            Message::Own(Word::CutSign(sign)) => self.on_cut_sign(from, sign, turn),
            Message::Own(Word::AskCut(above)) => self.on_ask_cut(from, above, turn),
            Message::Own(Word::CutCertified(certified)) => self.on_cut_certified(from, *certified, turn),
            Message::Own(Word::AskRange { number, piece }) => self.on_ask_range(from, (number, piece), turn),
            Message::Own(Word::Range(served)) => self.on_range(from, *served, turn),
            Message::Own(Word::Credit(credit)) => self.on_credit(from, credit, turn),
            Message::Own(Word::AskCredits(asked)) => self.on_ask_credits(from, &asked, turn),
            Message::Own(Word::Imported { .. } | Word::Heard { .. }) => turn.blame(from, Fault::Stranger),
        }
    }

    /// What a member of another shard may say beside bundles.
    fn on_message_from_abroad(
        &mut self,
        from: NodeId,
        message: Message<B::Message>,
        turn: &mut Turn<'_, Self>,
    ) {
        match message {
            Message::Own(Word::Imported { life, first, places }) => {
                self.on_imported(from, (life, first), &places, turn);
            }
            Message::Own(Word::Heard { life, upto }) => self.on_heard_import(from, (life, upto)),
            _ => turn.blame(from, Fault::Stranger),
        }
    }

    fn on_made(&mut self, made: Made, turn: &mut Turn<'_, Self>) {
        match made {
            Made::Read { lot, purpose, opened } => match (purpose, opened) {
                (Purpose::Judge, Some(opened)) => self.on_read(lot, opened, turn),
                (Purpose::Settle(open), Some(opened)) => self.on_certified(lot, &opened, open, turn),
                // The broadcast takes no payload that is no batch.
                (_, None) => {}
            },
            Made::Checked { opened, keys, forged, said } => {
                self.claims.said.keep(said);
                self.on_checked(&opened, keys, forged, turn);
            }
            Made::Witnessed { opened, wanted, keys, word } => {
                self.on_witnessed(&opened, (wanted, keys), word, turn);
            }
            Made::Looked { from, word } => self.on_looked(from, word, turn),
            Made::Vouched { credit, ids, digests, to } => self.on_vouched(&credit, (ids, digests), to, turn),
            Made::Credit { from, credit } => match credit {
                Some(credit) => self.count_credit(&credit, turn),
                None => turn.blame(from, Fault::BadCredit),
            },
            Made::Admitted { orders } => self.on_admitted(orders, turn),
            Made::Points { registrar, from, keys } => self.on_points(registrar, from, &keys),
            Made::Invited(invited) => self.on_invited(invited, turn),
            Made::AddedUp { number, owners, signature } => {
                self.on_added_up(number, owners, signature, turn);
            }
            Made::Built(opened, payload) => self.on_built(&opened, payload, turn),
            Made::Signed(receipt) => self.on_receipt_signed(receipt, turn),
            Made::Receipt { from, receipt } => match receipt {
                Some(receipt) => self.count_receipt(receipt, turn),
                None => turn.blame(from, Fault::BadReceipt),
            },
            Made::Rooted { proposer, number, rooted } => self.on_rooted(proposer, number, rooted, turn),
            Made::CutSign { sign: Some(sign), .. } => self.count_cut_sign(sign, turn),
            Made::CutCertified { certified: Some(certified), .. } => {
                self.take_certified_cut(*certified, turn)
            }
            Made::CutSign { from, sign: None } | Made::CutCertified { from, certified: None } => {
                turn.blame(from, Fault::WrongCut);
            }
            Made::Bundle { from, bundle, digests } => self.on_bundle_checked(from, &bundle, digests, turn),
        }
    }

    fn on_event(&mut self, event: Event<Self>, turn: &mut Turn<'_, Self>) {
        match event {
            Event::Start => self.on_start(turn),
            Event::Input(Input::Order { ticket, draft }) => self.on_order(ticket, draft, turn),
            Event::Input(Input::Orders(orders)) => self.on_orders(orders, turn),
            Event::Input(Input::Signed { ticket, line }) => self.on_signed_order(ticket, line, turn),
            Event::Input(Input::Open { ticket, opening }) => self.on_open(ticket, opening, turn),
            Event::Input(Input::Kept(position)) => self.on_kept(position, turn),
            Event::Input(Input::Share { number, owner, share }) => self.on_share(number, owner, share, turn),
            Event::Input(Input::Look { ticket, from, count }) => self.on_look(ticket, from, count, turn),
            Event::Input(Input::Prove { ticket, ledger, account }) => {
                self.on_prove(ticket, (ledger, account), turn);
            }
            Event::Input(Input::Check { ticket, entry, key }) => self.on_check(ticket, &entry, key, turn),
            Event::Input(Input::ReadLog { ticket, account }) => self.on_read_log(ticket, account, turn),
            Event::Input(Input::ReadLanes { ticket }) => self.on_read_lanes(ticket, turn),
            Event::Input(Input::ReadBundles { ticket }) => self.on_read_bundles(ticket, turn),
            Event::Message { from, message } => self.on_message(from, message, turn),
            Event::Timer(Timer::Broadcast(timer)) => self.tell(Event::Timer(timer), turn),
            Event::Timer(Timer::Flush) => self.on_flush_due(turn),
            Event::Timer(Timer::Distil(number)) => self.on_distil_due(number, turn),
            Event::Timer(Timer::Plant) => self.on_plant_due(turn),
            Event::Timer(Timer::Want(id)) => self.on_want_due(id, turn),
            Event::Timer(Timer::Receipts) => self.on_receipts_due(turn),
            Event::Timer(Timer::Cut) => self.on_cut_due(turn),
            Event::Timer(Timer::Fetch) => self.on_fetch_due(turn),
            Event::Timer(Timer::Border) => self.on_border_due(turn),
            Event::Timer(Timer::Proof(id)) => self.on_proof_due(id, turn),
            Event::Timer(Timer::Witness(lot)) => self.on_witness_due(lot, turn),
            Event::Done(Done::Broadcast(done)) => self.tell(Event::Done(done), turn),
            Event::Done(Done::Own(made)) => self.on_made(*made, turn),
            Event::Loaded { name, bytes } => {
                if !self.on_bundle_loaded(name, bytes.as_ref(), turn) {
                    self.tell(Event::Loaded { name, bytes }, turn);
                }
            }
            Event::Link { peer, link } => self.tell(Event::Link { peer, link }, turn),
        }
    }

    /// Judges for the broadcast, under its own name of the payload if it has one.
    fn judge_slot(&mut self, lot: Lot, digest: Hash, except: Vec<u32>, turn: &mut Turn<'_, Self>) {
        let digest = self.broadcast.get().judged_as(lot.into()).unwrap_or(digest);
        self.tell(Event::Input(Offer::Judge { slot: lot.into(), digest, except }), turn);
    }
}

impl<B: Carrier> Replica<B> {
    /// Bytes that entries take which cross between shards, of so many accounts here.
    fn border_max(&self, accounts: u64) -> u64 {
        let shards = self.config.shards.numbers().len() as u64;
        if shards == 0 {
            return 0;
        }
        // Below a window for each other shard and one more a bundle of a whole batch is taken.
        let rows = 2 * self.config.parameters.window + bundle::PLACES_MAX as u64;
        let members = u64::from(self.quorums.members());
        accounts * shards * rows * Exporter::row_max()
            + Importer::bytes_max(shards)
            + members * (IMPORTS_MAX * (8 << 10)) as u64 * self.config.parameters.lane_window
            + Asking::bytes_max()
    }
}

impl<B: Carrier> Machine for Replica<B> {
    type Input = Input;
    type Message = Message<B::Message>;
    type Timer = Timer<B::Timer>;
    type Record = Record<B::Record>;
    type Job = Job<B::Job>;
    type Output = Output;

    fn step(&mut self, event: Event<Self>, turn: &mut Turn<'_, Self>) {
        self.on_event(event, turn);
        loop {
            if let Some(said) = self.heard.pop_front() {
                self.on_heard(said, turn);
            } else if self.ledger.is_stirred() {
                self.settle(None, turn);
                self.vouch(None, turn);
            } else {
                self.sign_ready(turn);
                if !self.catch_up_with_view(turn) {
                    return self.consider_install(turn);
                }
            }
        }
    }

    fn room(&self) -> u32 {
        let waiting = u32::try_from(self.distillery.waiting()).unwrap_or(u32::MAX);
        self.desk.room(&self.config.parameters).saturating_sub(waiting)
    }

    fn invariants(&self) {
        self.broadcast.get().invariants();
        self.ledger.assert_sound();
        assert!(self.heard.is_empty(), "something was heard and not looked at");
        assert!(!self.ledger.is_stirred(), "somebody may go on and was not woken");
    }
}

impl<B: Carrier> Bounded for Replica<B> {
    fn bytes(&self) -> u64 {
        let lanes: u64 = self.lanes.values().map(Lane::bytes).sum();
        let small = self.shown.len() * size_of::<(u64, Lot)>()
            + self.wanted.len() * size_of::<(EntryId, Wanted)>()
            + self.named.len() * size_of::<(Lot, Hash)>()
            + self.descended.len() * 2 * size_of::<(EntryId, Line)>();
        self.broadcast.get().bytes()
            + self.ledger.bytes()
            + lanes
            + self.desk.bytes()
            + self.distillery.bytes()
            + self.points_bytes()
            + self.claims.bytes()
            + self.feed.bytes()
            + self.cuts.bytes()
            + self.exporter.bytes()
            + self.importer.bytes()
            + self.asking.bytes()
            + self.entered.bytes()
            + small as u64
    }

    fn bytes_max(&self) -> u64 {
        let parameters = &self.config.parameters;
        let members = self.lanes.len() as u64;
        let line = 8 * size_of::<Line>() as u64;
        // Batches in memory: those under way in every lane, judged or not, and those certified in part that are kept; this node's
        // own once more, for their receipts. In memory a line with its digest, its key and whoever waits with it takes less than
        // seven times its encoding, which is kept as well.
        let batches = (members + 1) * (2 * parameters.lane_window + parameters.retain);
        let payload = u64::from(self.broadcast.get().payload_max());
        let accounts = u64::try_from(self.book().accounts().count()).unwrap_or(u64::MAX);
        self.broadcast.get().bytes_max()
            + self.book().bytes()
            // A user who does not keep up holds what it has not kept, and the names of it.
            + self.feed.bytes()
            // Payments that those who were paid do not spend take memory at every member, as accounts do.
            + self.ledger.credit_bytes()
            + self.claims.bytes()
            // What states told when the view began.
            + self.entered.bytes()
            + self.ledger.pin_bytes()
            + self.ledger.torn_bytes()
            + desk::queue_bytes_max(parameters)
            + Distillery::bytes_max(parameters.batch_max)
            + self.points_bytes()
            + 8 * feed::UNKEPT_MAX as u64 * size_of::<(u128, EntryId)>() as u64
            + batches * (8 * payload + 4_096)
            + members * Lane::looks_max(members, parameters)
            + accounts * parameters.window * line
            + self.shown_max() * size_of::<(u64, Lot)>() as u64
            + pull::DESCENDED_MAX as u64 * 2 * line
            + self.cuts.bytes_max(self.book(), u64::from(parameters.batch_max))
            + self.border_max(accounts)
    }
}

//! Back from a log: what was endorsed is endorsed still, and the same settles in the same order.

use std::collections::BTreeMap;
use std::sync::Arc;

use synod_crypto::Hash;
use synod_ledger::{Applied, Book, Digests, Entry, Part};
use synod_machine::broadcast::{Except, Lot, Offer};
use synod_machine::{Condition, Event, Log, Nested, QueueSpec, Recover, Turn, Unrecoverable, planted};
use synod_wire::{Blob, Bytes, List};

use super::lane::Batch;
use super::receipts::Own;
use super::{Carrier, Replica, compute};
use crate::batch::Opened;
use crate::config::{Channel, Config, Profile, Setup};
use crate::credits::{Credits, Unspent};
use crate::dependency::{With, Withs};
use crate::job::Work;
use crate::ledger::Ledger;
use crate::views::Entered;
use crate::words::{LOTS_MAX, Promise, Record, Timer};
use crate::xlog::Slot;

impl<B: Carrier> Recover for Replica<B> {
    type Config = Setup<B>;

    /// Those of the broadcast, which hold for what is said beside it too.
    fn queues(setup: &Setup<B>) -> Vec<QueueSpec> {
        B::queues(&(setup.channel)(BTreeMap::new()))
    }

    fn recover(setup: Setup<B>, log: Log<'_, Record<B::Record>>) -> Result<Self, Unrecoverable> {
        Self::recover_in(setup, Arc::default(), log)
    }

    fn snapshot(&self, put: &mut dyn FnMut(Record<B::Record>)) {
        let mut own = |promise: Promise| put(promise.into());
        self.book().parts(&mut |part| own(Promise::Book(Box::new(part))));
        self.cut_records(&mut own);
        for (source, lane) in &self.lanes {
            let judged = Lot { source: *source, sequence: lane.judged };
            own(Promise::Lane { judged, head: lane.head, frontier: lane.frontier });
            for (sequence, batch) in &lane.batches {
                own(batch_record(Lot { source: *source, sequence: *sequence }, batch));
                if !batch.rejected.is_empty() || !batch.places.is_empty() {
                    let rejected = Except::new(batch.rejected.iter().copied().collect());
                    let places: Vec<_> = batch.places.iter().map(|(id, at)| (*id, *at)).collect();
                    own(Promise::Outcome {
                        lot: Lot { source: *source, sequence: *sequence },
                        rejected: rejected.expect("indexes rise"),
                        places: List::try_from(places).expect("a batch has so many"),
                    });
                }
            }
        }
        self.ledger.credit_records(&mut own);
        self.claims.ready().for_each(|dependency| own(Promise::Collected(dependency.clone())));
        for slot in self.ledger.open().flat_map(|(_, xlog)| xlog.slots()) {
            if let Some(with) = self.ledger.backing(slot.line.entry.id, slot.digest) {
                let with = List::try_from(with.to_vec()).expect("so many go with one entry");
                own(Promise::Backed { digest: slot.digest, with });
            }
            let lots: Vec<Lot> = slot.lots.iter().take(LOTS_MAX).collect();
            let lots = List::try_from(lots).expect("as many as fit are taken");
            own(Promise::Open {
                line: slot.line.clone(),
                debit: slot.debit,
                is_certified: slot.is_certified,
                lots,
            });
        }
        for line in self.descended.values() {
            own(Promise::Settled(line.clone()));
        }
        self.torn_records(&mut own);
        self.feed.records(self.config.parameters.profile.credits(), &mut own);
        self.border_records(&mut own);
        self.broadcast.get().snapshot(&mut |record| put(Record::Broadcast(record)));
    }
}

/// A batch in a snapshot.
pub(super) fn batch_record(lot: Lot, batch: &Batch) -> Promise {
    Promise::Batch {
        lot,
        digest: batch.digest,
        endorsed: batch.endorsed.clone(),
        certified: batch.certified.clone(),
        batch: batch.opened.as_ref().map(|opened| blob(opened)),
    }
}

/// How far a replay is.
#[derive(Default)]
struct Replay {
    has_book: bool,
    has_carried: bool,
    /// Of the open entry in the next record: its digest, and what it is backed with.
    backed: Option<(Hash, With)>,
}

fn blob<const MAX: usize>(opened: &Opened) -> Blob<MAX> {
    Blob::try_from(opened.payload()).expect("it came in a payload")
}

fn read(profile: Profile, payload: &Bytes) -> Result<Arc<Opened>, Unrecoverable> {
    let opened = Opened::read_as(profile, payload);
    let mut opened = opened.ok_or_else(|| Unrecoverable("a record holds no batch".into()))?;
    opened.backings.retain(|_, _| !planted!(A14));
    Ok(Arc::new(opened))
}

impl<B: Carrier> Replica<B> {
    /// Comes back in a view that it entered.
    pub(crate) fn recover_in(
        setup: Setup<B>,
        entered: Arc<Entered>,
        log: Log<'_, Record<B::Record>>,
    ) -> Result<Self, Unrecoverable> {
        if log.condition == Condition::Damaged {
            return Err(Unrecoverable(
                "promises may be missing: this member can only join again as another".into(),
            ));
        }
        let Setup { config, channel } = setup;
        let channel = Arc::new(channel);
        let mut replica = Self::empty(config, Arc::clone(&entered), channel)?;
        let mut below = Vec::new();
        let mut replay = Replay::default();
        // A snapshot amid the log, until all of it was read.
        let mut anew: Option<(Self, Replay)> = None;
        for record in log.records {
            match (record, &mut anew) {
                (Record::Broadcast(record), _) => below.push(record),
                (Record::Own(Promise::Anew), _) => {
                    let empty = Self::empty(
                        replica.config.clone(),
                        Arc::clone(&entered),
                        Arc::clone(&replica.channel),
                    )?;
                    anew = Some((empty, Replay::default()));
                }
                (Record::Own(Promise::Whole), _) => {
                    if let Some((whole, read)) = anew.take() {
                        (replica, replay) = (whole, read);
                    }
                }
                (Record::Own(promise), Some((whole, read))) => whole.replay(promise, read)?,
                (Record::Own(promise), None) => replica.replay(promise, &mut replay)?,
            }
        }
        if replica.cuts.is_on() && replay.has_book && !replay.has_carried {
            let why =
                "cuts are asked for, and the log was written without: what lanes carried before is not known";
            return Err(Unrecoverable(why.into()));
        }
        replica.ledger.pin(replica.entered.pins());
        let channel = Arc::clone(&replica.channel);
        let settled = replica.lanes.iter().map(|(lane, known)| (*lane, known.frontier)).collect();
        let log = Log { condition: log.condition, records: &mut below.into_iter() };
        replica.broadcast = Nested::new(B::recover(channel(settled), log)?);
        replica.is_behind = replica.is_below_tips();
        Ok(replica)
    }

    /// A replica that has settled nothing, over a broadcast that has nothing.
    pub(super) fn empty(
        config: Config,
        entered: Arc<Entered>,
        channel: Arc<Channel<B>>,
    ) -> Result<Self, Unrecoverable> {
        let none = Log { condition: Condition::Clean, records: &mut std::iter::empty() };
        let broadcast = B::recover(channel(BTreeMap::new()), none)?;
        Self::new(config, entered, channel, broadcast)
    }

    /// Replays the replica's own part of a snapshot.
    pub(super) fn replay_all(&mut self, records: Vec<Promise>) -> Result<(), Unrecoverable> {
        let mut replay = Replay::default();
        records.into_iter().try_for_each(|record| self.replay(record, &mut replay))
    }

    fn replay(&mut self, promise: Promise, replay: &mut Replay) -> Result<(), Unrecoverable> {
        let profile = self.config.parameters.profile;
        match promise {
            Promise::Endorsed { lot, except, batch } => {
                self.replay_endorsed(lot, except, batch.map(Blob::into_bytes))?;
            }
            Promise::Certified { lot, open, batch } => {
                let opened = self.opened(lot, batch.map(Blob::into_bytes))?;
                let before = self.batch(lot)?.and_then(|batch| batch.certified.clone());
                let news = self.take_certificate(lot, &opened, before.as_ref(), open);
                self.settle_again(news.changed);
            }
            Promise::Descended(line) => {
                let digest = Digests::default().entry(&line.entry);
                self.ledger.certify(&line, digest);
                self.settle_again([line.entry.id.spender]);
            }
            Promise::Book(part) => self.replay_book(*part, replay)?,
            Promise::Open { line, debit, is_certified, lots } => {
                let (digest, with) = match replay.backed.take() {
                    Some((digest, with)) => (digest, Some(with)),
                    None => (Digests::default().entry(&line.entry), None),
                };
                for lot in &lots {
                    self.lane_of(*lot)?.count_open(lot.sequence, 1);
                }
                let lots = lots.iter().copied().collect();
                self.replay_open(Slot { line, digest, debit, is_certified, lots }, with);
            }
            Promise::Settled(line) => self.keep_descended(line),
            Promise::Kept(position) => {
                self.feed.replay_kept(position);
                self.let_go_shown(self.feed.kept());
            }
            Promise::Unkept(entry) => self.feed.replay_unkept(entry),
            Promise::Torn(two) => drop(self.ledger.tear(two)),
            // They frame a snapshot, and say nothing themselves.
            Promise::Anew | Promise::Whole => {}
            Promise::CutSigned(sign) => self.replay_cut_signed(sign),
            Promise::CutCertified(certified) => self.replay_cut_certified(*certified),
            Promise::Carried(end) => {
                replay.has_carried = true;
                self.replay_carried(end)?;
            }
            Promise::CarriedTo { account, place } => self.replay_carried_to(account, place),
            Promise::Exported { shard, name, bundle, places } => {
                self.replay_exported(shard, name, bundle, &places);
            }
            Promise::Confirmed { shard, name, ids } => self.replay_confirmed(shard, name, &ids),
            Promise::Inbound(bundle) => self.replay_inbound(&bundle),
            Promise::Incoming(entry) => self.replay_incoming(&entry),
            Promise::Told(place) => self.replay_told(place),
            Promise::Lane { judged, head, frontier } => {
                let lane = self.lane_of(judged)?;
                (lane.judged, lane.head, lane.frontier, lane.opened) =
                    (judged.sequence, head, frontier, frontier);
            }
            Promise::Batch { lot, digest, endorsed, certified, batch } => {
                let opened = batch.map(|batch| read(profile, batch.bytes())).transpose()?;
                let lane = self.lane_of(lot)?;
                if let Some(opened) = opened.as_ref().filter(|_| lot.sequence <= lane.judged) {
                    lane.grant(&opened.batch.openings);
                }
                lane.batches
                    .insert(lot.sequence, Batch { endorsed, certified, opened, ..Batch::new(digest) });
            }
            other => self.replay_credits(other, replay)?,
        }
        Ok(())
    }

    fn replay_open(&mut self, slot: Slot, with: Option<With>) {
        let (id, digest) = (slot.line.entry.id, slot.digest);
        self.ledger.restore(slot);
        self.ledger.back(id, digest, with.as_ref());
        // What it waits for, a snapshot does not say.
        self.settle_again([id.spender]);
    }

    /// What only profile II keeps.
    fn replay_credits(&mut self, promise: Promise, replay: &mut Replay) -> Result<(), Unrecoverable> {
        match promise {
            Promise::UnkeptAs { entry, digest, is_paid } => drop(self.feed.push(entry, digest, is_paid)),
            Promise::Collected(dependency) => self.take_dependency(Arc::new(dependency)),
            Promise::Unspent { to, entry, digest, with } => {
                let owed = (to, entry.id);
                let unspent = Unspent { entry, digest, with };
                self.credits_mut()?.restore(owed, Some(unspent));
            }
            Promise::Ahead { to, id } => self.credits_mut()?.restore((to, id), None),
            Promise::Backed { digest, with } => {
                replay.backed = Some((digest, With::new(Withs::new(with.into_vec()))))
            }
            Promise::Outcome { lot, rejected, places } => {
                if let Some(batch) = self.lane_of(lot)?.batches.get_mut(&lot.sequence) {
                    batch.rejected = rejected.items().iter().copied().collect();
                    batch.places = places.iter().copied().collect();
                }
            }
            _ => unreachable!("the caller knows the others"),
        }
        Ok(())
    }

    fn replay_endorsed(
        &mut self,
        lot: Lot,
        except: Except,
        batch: Option<Bytes>,
    ) -> Result<(), Unrecoverable> {
        let opened = self.opened(lot, batch)?;
        let before = self.batch(lot)?.and_then(|batch| batch.endorsed.clone());
        for (at, line, digest) in opened.lines() {
            let was_left_out = before.as_ref().is_none_or(|before| before.items().binary_search(&at).is_ok());
            let is_new = was_left_out && except.items().binary_search(&at).is_err();
            if is_new && !self.ledger.accept_again(line, digest) {
                return Err(Unrecoverable(format!("{:?} was endorsed and has no place", line.entry.id)));
            }
            self.ledger.back(line.entry.id, digest, opened.backings.get(&at));
        }
        let lane = self.lane_of(lot)?;
        if lot.sequence > lane.judged {
            lane.grant(&opened.batch.openings);
            (lane.judged, lane.head) = (lot.sequence, opened.digest);
        }
        let batch = lane.batches.entry(lot.sequence).or_insert_with(|| Batch::new(opened.digest));
        batch.endorsed = Some(except);
        batch.opened = Some(opened);
        Ok(())
    }

    /// Parts of a book take the place of the genesis.
    fn replay_book(&mut self, part: Part, replay: &mut Replay) -> Result<(), Unrecoverable> {
        if !std::mem::replace(&mut replay.has_book, true) {
            let book = Book::new(self.config.view.context.shard);
            let (shards, parameters) = (self.config.shards.numbers(), &self.config.parameters);
            self.ledger = Ledger::new(parameters.profile, book, parameters.window, shards)
                .of_owners(parameters.owners_sign);
            for lane in self.lanes.values_mut() {
                (lane.locals, lane.granted) = (0, 0);
            }
        }
        if let Part::Account(standing) = &part {
            let lane = u8::try_from(standing.opening.id.registrar).ok();
            if let Some(lane) = lane.and_then(|lane| self.lanes.get_mut(&lane)) {
                lane.grant(std::slice::from_ref(&standing.opening));
            }
        }
        self.ledger.book_mut().restore(part).map_err(|code| Unrecoverable(format!("the book: {code:?}")))
    }

    fn lane_of(&mut self, lot: Lot) -> Result<&mut super::lane::Lane, Unrecoverable> {
        self.lanes.get_mut(&lot.source).ok_or_else(|| Unrecoverable(format!("no lane {}", lot.source)))
    }

    fn credits_mut(&mut self) -> Result<&mut Credits, Unrecoverable> {
        self.ledger.credits_mut().ok_or_else(|| Unrecoverable("a record of another profile".into()))
    }

    fn batch(&self, lot: Lot) -> Result<Option<&Batch>, Unrecoverable> {
        let lane =
            self.lanes.get(&lot.source).ok_or_else(|| Unrecoverable(format!("no lane {}", lot.source)))?;
        Ok(lane.batches.get(&lot.sequence))
    }

    /// The batch of a record: in the record, or of one before it.
    fn opened(&self, lot: Lot, batch: Option<Bytes>) -> Result<Arc<Opened>, Unrecoverable> {
        if let Some(batch) = batch {
            return read(self.config.parameters.profile, &batch);
        }
        let known = self.batch(lot)?.and_then(|batch| batch.opened.clone());
        known.ok_or_else(|| Unrecoverable(format!("a promise for {lot:?} without its batch")))
    }

    /// Settles as before, without a word to anybody.
    fn settle_again(&mut self, changed: impl IntoIterator<Item = synod_ledger::AccountId>) {
        let settlement = self.ledger.settle(changed);
        self.note_credited(settlement.imported);
        for settled in settlement.entries {
            for lot in settled.lots.iter() {
                if let Some(lane) = self.lanes.get_mut(&lot.source) {
                    lane.count_outcome(lot.sequence, (settled.line.entry.id, settled.is_paid));
                    lane.count_settled(lot.sequence, 1);
                }
            }
            self.on_spent(&settled.line.entry, settled.digest, (settled.is_paid, None));
            let entry = Arc::clone(&settled.line.entry);
            self.cuts.settled(Applied { entry: Arc::clone(&entry), overwrote: settled.overwrote });
            self.feed.push(entry, settled.digest, settled.is_paid);
            if settled.by_descent {
                self.keep_descended(settled.line);
            }
        }
    }

    /// A start, first or again: what was endorsed goes out, what is missing is asked for.
    pub(super) fn on_start(&mut self, turn: &mut Turn<'_, Self>) {
        turn.arm(Timer::Receipts, self.receipts_every());
        self.read_points(turn);
        self.start_border(turn);
        self.start_cuts(turn);
        self.tell_shown(turn);
        self.tell_unkept(turn);
        self.show_torn(turn);
        let (own, shard) = (u32::from(self.me()), self.book().shard());
        let is_ours = |entry: &&synod_ledger::Entry| {
            entry.id.spender.registrar == own && entry.id.spender.shard == shard
        };
        for entry in self.feed.unkept().filter(is_ours) {
            self.desk.name(entry);
        }
        self.name_certified();
        self.queue_again();
        self.claim_again();
        self.tell(Event::Start, turn);
        self.name_all(turn);
        self.broadcast_again(turn);
        self.offer_admitted(turn);
        for (id, digest) in self.ledger.missing() {
            self.want(id, digest, turn);
        }
        let lanes: Vec<u8> = self.lanes.keys().copied().collect();
        for lane in lanes {
            self.doubt_again(lane, turn);
            self.go_on(lane, turn);
        }
    }

    /// What is certified and waits in its log for money may be in no batch that is kept: whoever orders it again is told its place.
    fn name_certified(&mut self) {
        let own = u32::from(self.me());
        let slots = self.ledger.open().flat_map(|(_, xlog)| xlog.slots());
        let certified = slots.filter(|slot| slot.is_certified && slot.line.entry.id.spender.registrar == own);
        let entries: Vec<Arc<Entry>> = certified.map(|slot| Arc::clone(&slot.line.entry)).collect();
        entries.iter().for_each(|entry| self.desk.name(entry));
    }

    /// This node's own batches that are under way, those that never left among them, and the last ones behind them: what became
    /// of them may not be told.
    fn broadcast_again(&mut self, turn: &mut Turn<'_, Self>) {
        let source = self.me();
        let under_way: Vec<(u64, Arc<Opened>)> = self
            .lane_mut(source)
            .batches
            .iter()
            .filter_map(|(sequence, batch)| Some((*sequence, Arc::clone(batch.opened.as_ref()?))))
            .collect();
        for (sequence, opened) in under_way {
            // What owners elsewhere signed has no name here, but was carried once more.
            let is_ours = |line: &&crate::batch::Line| line.entry.id.spender.registrar == u32::from(source);
            for line in opened.batch.lines.iter().filter(is_ours) {
                if self.ledger.slot(line.entry.id).is_some() {
                    self.desk.name(&line.entry);
                }
            }
            let payload = opened.payload();
            self.desk.own.insert(sequence, Own::new(opened));
            self.tell(Event::Input(Offer::Broadcast { sequence, payload }), turn);
            self.receipt_if_settled(Lot { source, sequence }, turn);
        }
    }

    /// Batches of which something was left out are judged again, once their signatures are checked again.
    fn doubt_again(&mut self, source: u8, turn: &mut Turn<'_, Self>) {
        let doubtful =
            self.lane_mut(source).batches.iter().filter(|(_, batch)| {
                batch.endorsed.as_ref().is_some_and(|except| !except.items().is_empty())
            });
        let doubtful: Vec<(u64, Arc<Opened>)> = doubtful
            .filter_map(|(sequence, batch)| Some((*sequence, Arc::clone(batch.opened.as_ref()?))))
            .collect();
        for (sequence, opened) in doubtful {
            let keys = self.owners(&opened, |_| true);
            if keys.iter().any(Option::is_some) || !opened.backings.is_empty() {
                let (view, points) = (Arc::clone(&self.config.view), self.points.clone());
                let recalled = self.recall(&opened);
                compute(turn, Work::Check { opened, view, keys, points, recalled });
            } else {
                self.judge_again(Lot { source, sequence }, turn);
            }
        }
    }
}

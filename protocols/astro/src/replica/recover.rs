//! Back from a log: what was endorsed is endorsed still, and the same settles in the same order.

use std::collections::BTreeMap;
use std::sync::Arc;

use synod_broadcast::Lot;
use synod_broadcast::signed::{self, Except, Setup};
use synod_ledger::{Book, Digests, Part};
use synod_machine::broadcast::Offer;
use synod_machine::{Condition, Event, Log, Nested, QueueSpec, Recover, Turn, Unrecoverable};
use synod_wire::{Blob, Bytes, List};

use super::lane::Batch;
use super::receipts::Own;
use super::{Channel, Replica, broadcast_config};
use crate::batch::Opened;
use crate::config::Config;
use crate::job::Job;
use crate::ledger::Ledger;
use crate::words::{LOTS_MAX, Record, Timer};
use crate::xlog::Slot;

impl Recover for Replica {
    type Config = Config;

    fn queues(_: &Config) -> Vec<QueueSpec> {
        QueueSpec::standard()
    }

    fn recover(config: Config, log: Log<'_, Record>) -> Result<Self, Unrecoverable> {
        if log.condition == Condition::Damaged {
            return Err(Unrecoverable(
                "promises may be missing: this member can only join again as another".into(),
            ));
        }
        let setup =
            |settled| Setup { config: broadcast_config(&config), view: Arc::clone(&config.view), settled };
        let none = Log { condition: Condition::Clean, records: &mut std::iter::empty() };
        let mut replica = Self::new(config.clone(), Channel::recover(setup(BTreeMap::new()), none)?)?;
        let mut below = Vec::new();
        let mut replay = Replay::default();
        for record in log.records {
            match record {
                Record::Broadcast(record) => below.push(record),
                record => replica.replay(record, &mut replay)?,
            }
        }
        let settled = replica.lanes.iter().map(|(lane, known)| (*lane, known.frontier)).collect();
        let log = Log { condition: log.condition, records: &mut below.into_iter() };
        replica.broadcast = Nested::new(Channel::recover(setup(settled), log)?);
        Ok(replica)
    }

    fn snapshot(&self, put: &mut dyn FnMut(Record)) {
        self.book().parts(&mut |part| put(Record::Book(part)));
        for (source, lane) in &self.lanes {
            let judged = Lot { source: *source, sequence: lane.judged };
            put(Record::Lane { judged, head: lane.head, frontier: lane.frontier });
            for (sequence, batch) in &lane.batches {
                put(Record::Batch {
                    lot: Lot { source: *source, sequence: *sequence },
                    digest: batch.digest,
                    endorsed: batch.endorsed.clone(),
                    certified: batch.certified.clone(),
                    batch: batch.opened.as_ref().map(|opened| blob(opened)),
                });
            }
        }
        for slot in self.ledger.open().flat_map(|(_, xlog)| xlog.slots()) {
            let lots: Vec<Lot> = slot.lots.iter().copied().take(LOTS_MAX).collect();
            let lots = List::try_from(lots).expect("as many as fit are taken");
            put(Record::Open {
                line: slot.line.clone(),
                debit: slot.debit,
                is_certified: slot.is_certified,
                lots,
            });
        }
        for line in self.descended.values() {
            put(Record::Settled(line.clone()));
        }
        self.broadcast.get().snapshot(&mut |record: signed::Record| put(Record::Broadcast(record)));
    }
}

/// How far a replay is.
#[derive(Default)]
struct Replay {
    has_book: bool,
}

fn blob<const MAX: usize>(opened: &Opened) -> Blob<MAX> {
    Blob::try_from(opened.payload()).expect("it came in a payload")
}

fn read(payload: &Bytes) -> Result<Arc<Opened>, Unrecoverable> {
    let opened = Opened::read(payload).ok_or_else(|| Unrecoverable("a record holds no batch".into()))?;
    Ok(Arc::new(opened))
}

impl Replica {
    fn replay(&mut self, record: Record, replay: &mut Replay) -> Result<(), Unrecoverable> {
        match record {
            Record::Broadcast(_) => {}
            Record::Endorsed { lot, except, batch } => {
                self.replay_endorsed(lot, except, batch.map(Blob::into_bytes))?;
            }
            Record::Certified { lot, open, batch } => {
                let opened = self.opened(lot, batch.map(Blob::into_bytes))?;
                let before = self.batch(lot)?.and_then(|batch| batch.certified.clone());
                let news = self.take_certificate(lot, &opened, before.as_ref(), open);
                self.settle_again(news.changed);
            }
            Record::Descended(line) => {
                let digest = Digests::default().entry(&line.entry);
                self.ledger.certify(&line, digest, None);
                self.settle_again([line.entry.id.spender]);
            }
            Record::Book(part) => self.replay_book(part, replay)?,
            Record::Open { line, debit, is_certified, lots } => {
                let digest = Digests::default().entry(&line.entry);
                for lot in &lots {
                    if let Some(batch) = self.batch_mut(*lot)? {
                        batch.unsettled = batch.unsettled.saturating_add(1);
                    }
                }
                self.ledger.restore(Slot { line, digest, debit, is_certified, lots: lots.into_vec() });
            }
            Record::Settled(line) => self.keep_descended(line),
            Record::Lane { judged, head, frontier } => {
                let lane = self.lane_of(judged)?;
                (lane.judged, lane.head, lane.frontier, lane.opened) =
                    (judged.sequence, head, frontier, frontier);
            }
            Record::Batch { lot, digest, endorsed, certified, batch } => {
                let opened = batch.map(|batch| read(batch.bytes())).transpose()?;
                let lane = self.lane_of(lot)?;
                if let Some(opened) = &opened {
                    let locals = lane.locals;
                    let news = opened.batch.openings.iter().filter(|opening| opening.id.local > locals);
                    let news: Vec<_> = news.cloned().collect();
                    lane.grant(&news);
                }
                lane.batches
                    .insert(lot.sequence, Batch { endorsed, certified, opened, ..Batch::new(digest) });
            }
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
        for (at, line, digest) in opened.lines() {
            if except.items().binary_search(&at).is_err() {
                self.ledger.accept_again(line, digest);
            }
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
            self.ledger = Ledger::new(book, self.config.parameters.window);
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

    fn batch(&self, lot: Lot) -> Result<Option<&Batch>, Unrecoverable> {
        let lane =
            self.lanes.get(&lot.source).ok_or_else(|| Unrecoverable(format!("no lane {}", lot.source)))?;
        Ok(lane.batches.get(&lot.sequence))
    }

    fn batch_mut(&mut self, lot: Lot) -> Result<Option<&mut Batch>, Unrecoverable> {
        Ok(self.lane_of(lot)?.batches.get_mut(&lot.sequence))
    }

    /// The batch of a record: in the record, or of one before it.
    fn opened(&self, lot: Lot, batch: Option<Bytes>) -> Result<Arc<Opened>, Unrecoverable> {
        if let Some(batch) = batch {
            return read(&batch);
        }
        let known = self.batch(lot)?.and_then(|batch| batch.opened.clone());
        known.ok_or_else(|| Unrecoverable(format!("a promise for {lot:?} without its batch")))
    }

    /// Settles as before, without a word to anybody.
    fn settle_again(&mut self, changed: impl IntoIterator<Item = synod_ledger::AccountId>) {
        let settlement = self.ledger.settle(changed);
        for settled in settlement.entries {
            for lot in settled.lots {
                let lane = self.lanes.get_mut(&lot.source);
                if let Some(batch) = lane.and_then(|lane| lane.batches.get_mut(&lot.sequence)) {
                    batch.unsettled = batch.unsettled.saturating_sub(1);
                }
            }
            if settled.by_descent {
                self.keep_descended(settled.line);
            }
        }
    }

    /// A start, first or again: what was endorsed goes out, what is missing is asked for.
    pub(super) fn on_start(&mut self, turn: &mut Turn<'_, Self>) {
        turn.arm(Timer::Receipts, self.receipts_every());
        self.tell(Event::Start, turn);
        self.broadcast_again(turn);
        let missing: Vec<_> = self.ledger.open().filter_map(|(id, _)| self.ledger.missing(id)).collect();
        for (id, digest) in missing {
            self.want(id, digest, turn);
        }
        let lanes: Vec<u8> = self.lanes.keys().copied().collect();
        for lane in lanes {
            self.doubt_again(lane, turn);
            self.go_on(lane, turn);
        }
    }

    /// This node's own batches that are under way, those that never left among them.
    fn broadcast_again(&mut self, turn: &mut Turn<'_, Self>) {
        let (source, sent) = (self.me(), self.broadcast.get().mine());
        let under_way: Vec<(u64, Arc<Opened>)> = self
            .lane_mut(source)
            .batches
            .iter()
            .filter_map(|(sequence, batch)| Some((*sequence, Arc::clone(batch.opened.as_ref()?))))
            .collect();
        for (sequence, opened) in under_way {
            for line in &opened.batch.lines {
                if self.ledger.slot(line.entry.id).is_some() {
                    self.desk.transfers.insert(line.entry.transfer, line.entry.id);
                }
            }
            let payload = opened.payload();
            self.desk.own.insert(sequence, Own::new(opened));
            if sequence > sent {
                self.tell(Event::Input(Offer::Broadcast { payload }), turn);
            }
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
            let keys = self.owners(&opened);
            if keys.iter().any(Option::is_some) {
                turn.compute(Job::Check { opened, view: Arc::clone(&self.config.view), keys });
            } else {
                self.judge_again(Lot { source, sequence }, turn);
            }
        }
    }
}

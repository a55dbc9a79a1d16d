//! The state behind a certified cut takes the place of this node's own, with what it promised and settled beyond.
//!
//! It is done as a restart is: the new state is written as the records of a snapshot between [`Promise::Anew`] and
//! [`Promise::Whole`], and this node goes on from these. A log that ends between the two goes on from what was before. Its own
//! promises stay: what it endorsed above the cut, as far as it continues what settled; below the cut a certificate has decided.

use std::collections::BTreeMap;
use std::sync::Arc;

use synod_ledger::{AccountId, Book, Border, Digests, EntryId, Part, Standing};
use synod_machine::broadcast::Lot;
use synod_machine::{Condition, Log, Nested, Turn};
use synod_wire::List;

use super::cuts::Kept;
use crate::cut::{CertifiedCut, Counted, Crossed, CutState, Range};
use crate::replica::recover::batch_record;
use crate::replica::{Carrier, Replica, keep};
use crate::trace::Rule;
use crate::words::{LOTS_MAX, Output, Promise};
use crate::xlog::{Base, Slot};

impl<B: Carrier> Replica<B> {
    /// Whether a state waits to take its place: nothing of this node's own goes out until then.
    pub(in crate::replica) fn is_installing(&self) -> bool {
        self.cuts.fetch.as_ref().is_some_and(super::fetch::Fetch::is_whole)
    }

    /// Goes on from a fetched state once nothing of this node's own is under way.
    pub(in crate::replica) fn consider_install(&mut self, turn: &mut Turn<'_, Self>) {
        let own = self.me();
        let is_quiet = self.lanes.get(&own).is_some_and(|lane| lane.judged <= lane.frontier);
        if !self.is_installing() || !is_quiet || self.desk.is_building() {
            return;
        }
        let Some(fetch) = self.cuts.fetch.take() else { return };
        let certified = fetch.kept.certified.clone();
        let Some(state) = assemble(&certified, fetch.got) else { return };
        // What settled here beyond the cut may be more than is kept: a later cut has it.
        let Some(records) = self.records_behind(&certified, &state) else { return };
        turn.applied(Rule::CutInstall);
        keep(turn, Promise::Anew);
        for record in &records {
            keep(turn, record.clone());
        }
        keep(turn, Promise::Whole);
        self.begin_anew(records, Arc::new(Kept { certified, state: Some(Arc::new(state)) }), turn);
    }

    fn begin_anew(&mut self, records: Vec<Promise>, kept: Arc<Kept>, turn: &mut Turn<'_, Self>) {
        let (number, position) = (kept.certified.cut.number, self.feed.last());
        let mut anew = Self::empty(self.config.clone(), Arc::clone(&self.entered), Arc::clone(&self.channel))
            .expect("it was set up like this before");
        anew.replay_all(records).expect("records that were made just now");
        let mut below = Vec::new();
        self.broadcast.get().snapshot(&mut |record| below.push(record));
        let settled = anew.lanes.iter().map(|(lane, known)| (*lane, known.frontier)).collect();
        let log = Log { condition: Condition::Clean, records: &mut below.into_iter() };
        let broadcast = B::recover((self.channel)(settled), log).expect("its own records are in order");
        anew.broadcast = Nested::new(broadcast);
        anew.cuts.served = Some(kept);
        anew.cuts.votes = std::mem::take(&mut self.cuts.votes);
        anew.cuts.liars = self.cuts.liars;
        *self = anew;
        turn.output(Output::CaughtUp { number, position });
        self.on_start(turn);
        turn.compact();
    }

    /// The records of a snapshot of this node behind a cut; `None` where it settled more beyond than it keeps.
    fn records_behind(&self, certified: &CertifiedCut, state: &CutState) -> Option<Vec<Promise>> {
        let book = self.book_behind(state)?;
        let mut records = Vec::new();
        book.parts(&mut |part| records.push(Promise::Book(Box::new(part))));
        self.carried_behind(certified, &book, state, &mut records);
        for (source, lane) in &self.lanes {
            let end = certified.cut.lane(*source).copied()?;
            let last = end.lot.sequence;
            let is_behind = lane.frontier < last;
            let (judged, head) =
                if lane.judged < last { (last, end.digest) } else { (lane.judged, lane.head) };
            let frontier = lane.frontier.max(last);
            let judged = Lot { source: *source, sequence: judged };
            records.push(Promise::Lane { judged, head, frontier });
            for (sequence, batch) in &lane.batches {
                let lot = Lot { source: *source, sequence: *sequence };
                match batch_record(lot, batch) {
                    record if !is_behind => records.push(record),
                    // What is certified above the cut, the broadcast tells again.
                    Promise::Batch { lot, digest, endorsed: endorsed @ Some(_), batch, .. }
                        if *sequence > last =>
                    {
                        records.push(Promise::Batch { lot, digest, endorsed, certified: None, batch });
                    }
                    _ => {}
                }
            }
        }
        let is_behind = |lot: &Lot| {
            let here = self.lanes.get(&lot.source).map_or(0, |lane| lane.frontier);
            certified.cut.lane(lot.source).is_some_and(|end| here < end.lot.sequence)
        };
        for (account, xlog) in self.ledger.open() {
            let mut tip = Base::of(&book, account);
            let counted = tip.sequence;
            for slot in xlog.slots().filter(|slot| slot.line.entry.id.n > counted) {
                let (n, prev) = (slot.line.entry.id.n, slot.line.entry.prev);
                let continues = tip.sequence.checked_add(1) == Some(n) && prev == tip.head;
                if continues {
                    tip = Base { sequence: n, head: slot.digest };
                }
                if continues || slot.is_certified {
                    records.push(open_record(slot, &is_behind));
                }
            }
        }
        records.extend(self.descended.values().map(|line| Promise::Settled(line.clone())));
        self.torn_records(&mut |record| records.push(record));
        self.feed.records(false, &mut |record| records.push(record));
        Some(records)
    }

    /// The book behind the cut, with what settled here beyond.
    fn book_behind(&self, state: &CutState) -> Option<Book> {
        let here = self.ledger.book();
        let mut book = Book::new(here.shard());
        let all: BTreeMap<AccountId, &Standing> =
            state.accounts.iter().map(|(standing, _)| (standing.opening.id, standing)).collect();
        for standing in all.into_values() {
            book.restore(Part::Account(standing.clone())).ok()?;
        }
        for open in &state.holds {
            book.restore(Part::Hold { id: open.id, hold: open.hold }).ok()?;
        }
        for root in &state.record.ledgers {
            let border = |crossed: &Crossed| Border { shard: crossed.shard, ledger: root.ledger };
            for crossed in &root.exported {
                let part = Part::Exported { border: border(crossed), total: crossed.total };
                book.restore(part).ok()?;
            }
            for crossed in &root.imported {
                let part = Part::Imported { border: border(crossed), total: crossed.total };
                book.restore(part).ok()?;
            }
        }
        // Accounts that opened here behind the cut.
        for (account, _) in here.accounts() {
            if book.account(account).is_none() {
                book.open(&here.standing(account)?.opening).ok()?;
            }
        }
        let digests = Digests::default();
        for applied in self.cuts.beyond.iter() {
            let EntryId { spender, n } = applied.entry.id;
            if n > Base::of(&book, spender).sequence {
                book.apply(&applied.entry, digests.entry(&applied.entry)).ok()?;
            }
        }
        let is_kept = |(account, here): (AccountId, &synod_ledger::Account)| {
            book.account(account).is_some_and(|there| there.sequence() >= here.sequence())
        };
        here.accounts().all(is_kept).then_some(book)
    }

    /// How far lanes are counted: as the cut says where it is further.
    fn carried_behind(
        &self,
        certified: &CertifiedCut,
        book: &Book,
        state: &CutState,
        records: &mut Vec<Promise>,
    ) {
        records.extend(self.cuts.signed.values().map(|sign| Promise::CutSigned(*sign)));
        records.push(Promise::CutCertified(Box::new(certified.clone())));
        for (lane, carried) in &self.cuts.lanes {
            let Some(end) = certified.cut.lane(*lane) else { continue };
            let is_behind = carried.end().lot.sequence < end.lot.sequence;
            records.push(Promise::Carried(if is_behind { *end } else { carried.end() }));
            let (shard, registrar) = (book.shard(), u32::from(*lane));
            let account = |local| AccountId { shard, registrar, local };
            let counted: Vec<(AccountId, u64)> = if is_behind {
                let of =
                    state.accounts.iter().filter(|(standing, _)| standing.opening.id.registrar == registrar);
                let place = |standing: &Standing| {
                    let exception = certified.cut.exception(standing.opening.id);
                    exception.map_or(standing.sequence, |exception| exception.carried)
                };
                of.map(|(standing, _)| (standing.opening.id, place(standing))).collect()
            } else {
                carried.places().map(|(local, place)| (account(local), place)).collect()
            };
            let differs = |(account, place): &(AccountId, u64)| {
                book.account(*account).is_some_and(|here| here.sequence() != *place)
            };
            let differing = counted.into_iter().filter(differs);
            records.extend(differing.map(|(account, place)| Promise::CarriedTo { account, place }));
        }
    }
}

fn open_record(slot: &Slot, is_behind: &dyn Fn(&Lot) -> bool) -> Promise {
    let lots: Vec<Lot> = slot.lots.iter().filter(|lot| !is_behind(lot)).take(LOTS_MAX).collect();
    Promise::Open {
        line: slot.line.clone(),
        debit: slot.debit,
        is_certified: slot.is_certified,
        lots: List::try_from(lots).expect("as many as fit are taken"),
    }
}

/// The state from its parts, whose root is the one that a quorum signed.
fn assemble(certified: &CertifiedCut, parts: BTreeMap<crate::cut::Piece, Range>) -> Option<CutState> {
    let mut counted = Counted::default();
    for root in &certified.record.ledgers {
        let border =
            |crossed: &Crossed| (Border { shard: crossed.shard, ledger: root.ledger }, crossed.total);
        counted.imported.extend(root.imported.iter().map(border));
        counted.exported.extend(root.exported.iter().map(border));
    }
    for range in parts.into_values() {
        match range {
            Range::Accounts { accounts, .. } => {
                counted
                    .accounts
                    .extend(accounts.into_vec().into_iter().map(|one| (one.standing, one.pending)));
            }
            Range::Holds { holds, .. } => {
                counted.holds.extend(holds.iter().map(|one| (one.id, one.hold)));
            }
        }
    }
    let state = CutState::new(certified.cut.clone(), counted).ok()?;
    (state.record == certified.record).then_some(state)
}

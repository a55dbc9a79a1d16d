//! From a certificate to settled entries (specification 4.4, 4.7).

use std::sync::Arc;

use synod_ledger::{AccountId, Applied, EntryId, Opening};
use synod_machine::Turn;
use synod_machine::broadcast::{Except, Lot};
use synod_wire::{Blob, Bytes, Wire};

use super::desk::AHEAD;
use super::feed::Untold;
use super::lane::Batch;
use super::shards::Credited;
use super::{Carrier, Replica, compute, keep};
use crate::batch::{Line, Opened};
use crate::job::{Purpose, Work};
use crate::ledger::{Settled, Settlement};
use crate::trace::Rule;
use crate::words::{Level, Output, Promise, Timer};
use crate::xlog::Certified;

impl<B: Carrier> Replica<B> {
    /// The broadcast has a certificate and the payload, which is read unless the same one is kept here.
    pub(super) fn on_delivered(&mut self, lot: Lot, payload: Bytes, open: Except, turn: &mut Turn<'_, Self>) {
        let profile = self.config.parameters.profile;
        let lane = self.lane_mut(lot.source);
        let known = lane.batches.get(&lot.sequence);
        if known.and_then(|batch| batch.certified.as_ref()).is_some_and(|before| before.within(&open)) {
            return;
        }
        let read = known.and_then(|batch| batch.opened.as_ref()).or(lane.waiting.get(&lot.sequence));
        match read.filter(|read| read.is(&payload)).cloned() {
            Some(opened) => self.on_certified(lot, &opened, open, turn),
            None => compute(turn, Work::Read { lot, payload, profile, purpose: Purpose::Settle(open) }),
        }
    }

    /// A batch is certified but for some entries.
    pub(super) fn on_certified(
        &mut self,
        lot: Lot,
        opened: &Arc<Opened>,
        open: Except,
        turn: &mut Turn<'_, Self>,
    ) {
        let lane = self.lane_mut(lot.source);
        let known = lane.batches.get(&lot.sequence);
        let before = known.and_then(|batch| batch.certified.clone());
        let open = match &before {
            Some(before) => both(before, &open),
            None => open,
        };
        if before.as_ref() == Some(&open) {
            return;
        }
        self.export(opened, before.as_ref(), &open, turn);
        let known = self.lane_mut(lot.source).batches.get(&lot.sequence);
        let is_kept = known.is_some_and(|batch| batch.digest == opened.digest && batch.opened.is_some());
        let payload = (!is_kept).then(|| Blob::try_from(opened.payload()).expect("it came in a payload"));
        if lot.source != self.me() {
            self.record_admitted(opened, &open, turn);
        }
        keep(turn, Promise::Certified { lot, open: open.clone(), batch: payload });
        let news = self.take_certificate(lot, opened, before.as_ref(), open.clone());
        if lot.source == self.me() {
            self.leave(opened, &open, turn);
        }
        self.tell_certificate(opened, turn);
        self.progress(lot, &news.lines, Level::Certified, turn);
        for account in &news.opened {
            turn.applied(Rule::Open);
            turn.output(Output::Opened(*account));
        }
        for (id, digest) in news.missing {
            self.want(id, digest, turn);
        }
        for at in news.contradicting {
            self.contradict(opened, at, turn);
        }
        self.uncarry(lot);
        self.rely_no_more(lot, turn);
        self.on_imported_here(news.imported, turn);
        self.settle(news.changed, turn);
        self.vouch(Some(opened), turn);
        self.meet_openings(&news.opened, turn);
        self.receipt_if_settled(lot, turn);
        self.go_on(lot.source, turn);
        if lot.source == self.me() {
            self.consider_flush(turn);
        }
    }

    /// What a certificate changes here, without a word to anybody: so it is done again after a restart.
    pub(super) fn take_certificate(
        &mut self,
        lot: Lot,
        opened: &Arc<Opened>,
        before: Option<&Except>,
        open: Except,
    ) -> News {
        let (retain, recent) = (self.config.parameters.retain, self.recent(lot.source));
        let (is_ours, position) = (self.concerns(opened), self.feed.last());
        let lane = self.lanes.get_mut(&lot.source).expect("the broadcast has lanes of members alone");
        if lane.batches.get(&lot.sequence).is_none_or(|batch| batch.digest != opened.digest) {
            // What was endorsed instead stays promised entry by entry; of the batch nothing is left to say.
            lane.batches.insert(lot.sequence, Batch::new(opened.digest));
            self.ledger.let_go(lot);
        }
        let batch = lane.batches.get_mut(&lot.sequence).expect("it was put there above");
        batch.certified = Some(open.clone());
        batch.opened = Some(Arc::clone(opened));
        (batch.receipt, batch.is_signing) = (None, false);
        if batch.is_whole() {
            self.ledger.let_go(lot);
        }
        batch.shown = is_ours.then_some(position);
        lane.close(lot.sequence, recent);
        lane.advance();
        if is_ours {
            self.expect_kept(position, lot);
        }
        let mut news = News::default();
        self.open_accounts(lot.source, &mut news);
        news.imported = self.credit_imports(opened);
        for sequence in self.lane_mut(lot.source).trim(retain) {
            self.ledger.let_go(Lot { source: lot.source, sequence });
        }
        let has_credits = self.config.parameters.profile.credits();
        let (mut unsettled, mut places, mut elsewhere) = (0, Vec::new(), Vec::new());
        news.lines.reserve(opened.batch.lines.len());
        for (place, (at, line, digest)) in opened.lines().enumerate() {
            self.ledger.near(&opened.batch.lines, place);
            let was_open = before.is_none_or(|before| before.items().binary_search(&at).is_ok());
            if !was_open || open.items().binary_search(&at).is_ok() {
                continue;
            }
            news.lines.push(at);
            let (certified, is_new) = self.ledger.certify_in(line, digest, lot);
            // What contradicts never settles, so the batch is never receipted.
            unsettled += u32::from(is_new || certified == Certified::Contradicts);
            match certified {
                Certified::Whole => {}
                Certified::Settled => continue,
                Certified::Missing(id, digest) => news.missing.push((id, digest)),
                Certified::Contradicts => {
                    news.contradicting.push(at);
                    continue;
                }
            }
            let id = line.entry.id;
            self.ledger.back(id, digest, opened.backings.get(&at));
            if has_credits && is_new {
                places.push((id, at));
            } else if has_credits && self.is_settled(id) {
                // Not by this batch: what became of it, the batch that it settled by says.
                elsewhere.push(at);
            }
            news.changed.push(line.entry.id.spender);
        }
        news.changed.sort_unstable();
        news.changed.dedup();
        if unsettled > 0 {
            let lane = self.lane_mut(lot.source);
            lane.count_open(lot.sequence, unsettled);
            lane.place(lot.sequence, places);
        }
        if !elsewhere.is_empty() {
            self.lane_mut(lot.source).reject(lot.sequence, elsewhere);
        }
        news
    }

    /// Tells the user of an entry of a batch that is certified and contradicts what stands.
    fn contradict(&self, opened: &Opened, at: u32, turn: &mut Turn<'_, Self>) {
        let line = usize::try_from(at).ok().and_then(|at| opened.batch.lines.get(at));
        if let Some(line) = line {
            self.tell_contradiction(line, Some(opened.lot()), turn);
        }
    }

    pub(super) fn tell_contradiction(&self, line: &Line, lot: Option<Lot>, turn: &mut Turn<'_, Self>) {
        let id = line.entry.id;
        let standing = self.ledger.slot(id).map(|slot| slot.line.clone());
        turn.output(Output::Contradiction { id, lot, evidence: (standing, line.clone()).encode() });
    }

    /// Opens the accounts of certified batches, in the order of their lane.
    fn open_accounts(&mut self, source: u8, news: &mut News) {
        let recent = self.recent(source);
        let lane = self.lanes.get_mut(&source).expect("the broadcast has lanes of members alone");
        while lane.opened < lane.frontier {
            lane.opened += 1;
            let Some(batch) = lane.batches.get(&lane.opened) else { continue };
            let opened = batch.opened.clone();
            let openings = opened.iter().flat_map(|opened| opened.batch.openings.to_vec());
            let openings: Vec<Opening> = openings.collect();
            lane.close(lane.opened.saturating_sub(recent), recent);
            lane.grant(&openings);
            for opening in &openings {
                // Members who endorsed the batch looked at this; what more liars than there may be let pass is left out.
                if self.ledger.open_account(opening).is_ok() {
                    news.opened.push(opening.id);
                    news.changed.push(opening.id);
                }
            }
            if let Some(opened) = opened {
                self.cuts.carry(source, &opened, self.ledger.book().opened_by(u32::from(source)));
            }
        }
    }

    /// Settles what can be, and all that follows from it.
    pub(super) fn settle(&mut self, changed: impl IntoIterator<Item = AccountId>, turn: &mut Turn<'_, Self>) {
        let Settlement { mut entries, again, imported } = self.ledger.settle(changed);
        let imported = self.note_credited(imported);
        self.on_imported_here(imported, turn);
        for (rule, by_descent) in [(Rule::Settle, false), (Rule::Ancestor, true)] {
            if entries.iter().any(|settled| settled.by_descent == by_descent) {
                turn.applied(rule);
            }
        }
        let (mut done, mut untold) = (Run::default(), self.untold(entries.len()));
        let spenders: Vec<AccountId> = entries.iter().map(|settled| settled.line.entry.id.spender).collect();
        for (at, settled) in entries.drain(..).enumerate() {
            spenders.get(at.saturating_add(AHEAD)).into_iter().for_each(|id| self.desk.near(*id));
            self.on_settled(settled, (&mut done, &mut untold), turn);
        }
        untold.tell(turn);
        self.ledger.take_back(entries);
        self.count_settled(done, turn);
        self.judge_left(again, turn);
        self.let_in_again(turn);
    }

    fn on_settled(
        &mut self,
        settled: Settled,
        (done, untold): (&mut Run, &mut Untold),
        turn: &mut Turn<'_, Self>,
    ) {
        let Settled { line, digest, lots, by_descent, overwrote, is_paid } = settled;
        let funds_first = self.config.parameters.profile.funds_first();
        let id = line.entry.id;
        if !self.wanted.is_empty() && self.wanted.remove(&id).is_some() {
            turn.disarm(Timer::Want(id));
        }
        self.desk.settled(&line.entry);
        if self.cuts.is_on() {
            self.cuts.settled(Applied { entry: Arc::clone(&line.entry), overwrote });
        }
        if by_descent {
            self.keep_descended(line.clone());
        }
        self.on_spent(&line.entry, digest, (is_paid, lots.iter().next()));
        let position = self.feed.push(Arc::clone(&line.entry), digest, is_paid);
        untold.push(position, (line.entry, digest, is_paid), turn);
        if !is_paid {
            turn.applied(Rule::Reject);
        }
        for lot in lots.iter() {
            if !funds_first {
                self.lane_mut(lot.source).count_outcome(lot.sequence, (id, is_paid));
            }
            if done.lot != Some(lot) {
                self.count_settled(std::mem::replace(done, Run { lot: Some(lot), count: 0 }), turn);
            }
            done.count += 1;
        }
    }

    /// So many entries of a batch have settled.
    fn count_settled(&mut self, done: Run, turn: &mut Turn<'_, Self>) {
        let Some(lot) = done.lot else { return };
        self.lane_mut(lot.source).count_settled(lot.sequence, done.count);
        self.receipt_if_settled(lot, turn);
    }
}

/// Entries of one batch that settled one after the other.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    lot: Option<Lot>,
    count: u32,
}

/// What a certificate brought.
#[derive(Clone, Debug, Default)]
pub(super) struct News {
    /// Entries of the batch that are newly certified.
    lines: Vec<u32>,
    /// Logs in which something may settle.
    pub(super) changed: Vec<AccountId>,
    pub(super) missing: Vec<(EntryId, synod_crypto::Hash)>,
    /// Entries of the batch that are certified and contradict others.
    contradicting: Vec<u32>,
    opened: Vec<AccountId>,
    /// Entries of other shards that are credited.
    imported: Vec<Credited>,
}

/// Items that are in both lists.
fn both(one: &Except, other: &Except) -> Except {
    let items = one.items().iter().copied().filter(|item| other.items().binary_search(item).is_ok());
    Except::new(items.collect()).expect("indexes rise")
}

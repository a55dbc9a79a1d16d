//! A replica in its next view: what it had, less what the states of a quorum contradict, and what they tell beside.
//!
//! It is done as a restart is: what was is written as the records of a snapshot, and this node goes on from these in the new view. What
//! it endorsed is endorsed again where nothing else was shown; what was certified here stays so.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use synod_crypto::Hash;
use synod_ledger::{AccountId, EntryId};
use synod_machine::broadcast::{Lot, Offer};
use synod_machine::{Event, Recover, Turn};

use crate::batch::Opened;
use crate::replica::{Carrier, Replica};
use crate::trace::Rule;
use crate::views::{Entered, Pin, PinnedLot};
use crate::words::{Promise, Record};

impl<B: Carrier> Replica<B> {
    /// Slots of this node's own that stand in the next view whatever others show: certified ones above a tip, and those up to a tip that it
    /// endorsed and that nobody certified here.
    pub(crate) fn own_slots(&self, entered: &Entered) -> BTreeMap<Lot, Hash> {
        let mut own = BTreeMap::new();
        for (source, lane) in &self.lanes {
            let tip = entered.tips.iter().find(|tip| tip.source == *source).map_or(0, |tip| tip.sequence);
            for (sequence, batch) in &lane.batches {
                let is_above = *sequence > tip;
                let stands = if is_above { batch.certified.is_some() } else { batch.certified.is_none() };
                if stands && *sequence > lane.frontier.min(tip) {
                    own.insert(Lot { source: *source, sequence: *sequence }, batch.digest);
                }
            }
        }
        own
    }

    /// Whether slots are missing here that were certified before the view began.
    pub(in crate::replica) fn is_below_tips(&self) -> bool {
        let here = |tip: &Lot| self.lanes.get(&tip.source).map_or(0, |lane| lane.frontier);
        self.entered.tips.iter().any(|tip| here(tip) < tip.sequence)
    }

    /// Endorses from here on once all that was certified before the view began is here.
    /// Whether it did.
    pub(in crate::replica) fn catch_up_with_view(&mut self, turn: &mut Turn<'_, Self>) -> bool {
        if !self.is_behind || self.is_below_tips() {
            return false;
        }
        if !self.wanted.is_empty() {
            return self.take_from_waiting(turn);
        }
        self.is_behind = false;
        turn.applied(Rule::CaughtUp);
        let lanes: Vec<u8> = self.lanes.keys().copied().collect();
        for lane in lanes {
            self.go_on(lane, turn);
        }
        self.offer_again(turn);
        true
    }

    /// A payload of which certificates tell, its own or one behind it, names the one before it. Where states showed two, or a member that showed
    /// the certificate kept back what is before it, only this tells which may be endorsed: certificates may be gone, or with liars.
    pub(in crate::replica) fn name_before(&mut self, opened: &Arc<Opened>, turn: &mut Turn<'_, Self>) {
        let mut next = Some(Arc::clone(opened));
        while let Some(opened) = next.take() {
            let (lot, prev) = (opened.lot(), opened.batch.header.prev);
            let is_certain =
                self.named.get(&lot) == Some(&opened.digest) || self.entered.names(lot, &opened.digest);
            let Some(sequence) = lot.sequence.checked_sub(1).filter(|_| is_certain) else { return };
            let before = Lot { sequence, ..lot };
            if !self.entered.is_unknown(before) || self.named.insert(before, prev).is_some() {
                return;
            }
            self.tell(Event::Input(Offer::Decide { slot: before.into(), digest: prev }), turn);
            let here = self.lanes.get(&lot.source).and_then(|lane| lane.batches.get(&sequence));
            next = here.and_then(|batch| batch.opened.clone()).filter(|before| before.digest == prev);
        }
    }

    /// The same of all batches that are here.
    pub(in crate::replica) fn name_all(&mut self, turn: &mut Turn<'_, Self>) {
        let named = |one: &PinnedLot| {
            let batch = self.lanes.get(&one.lot.source)?.batches.get(&one.lot.sequence)?;
            batch.opened.clone().filter(|opened| opened.digest == batch.digest)
        };
        let here: Vec<Arc<Opened>> = self.entered.lots.iter().filter_map(named).collect();
        here.iter().for_each(|opened| self.name_before(opened, turn));
    }

    /// The first slot of a lane in which something else was shown than this node endorsed.
    fn contested(&self, source: u8, entered: &Entered) -> Option<u64> {
        let lane = self.lanes.get(&source)?;
        let mut all = entered.lots.iter().filter(|one| one.lot.source == source);
        let is_contested = |sequence: u64, pin: &Pin| {
            let own = lane.batches.get(&sequence).filter(|batch| batch.certified.is_none());
            own.is_some_and(|own| !pin.allows(&own.digest))
        };
        all.find(|one| is_contested(one.lot.sequence, &one.pin)).map(|one| one.lot.sequence)
    }

    /// The records from which it goes on in the view that it entered.
    pub(crate) fn crossing(&self, entered: &Entered) -> Vec<Record<B::Record>> {
        let contested: BTreeMap<u8, u64> = self
            .lanes
            .keys()
            .filter_map(|source| Some((*source, self.contested(*source, entered)?)))
            .collect();
        let given_up = self.given_up(&contested, entered);
        let mut records: Vec<Record<B::Record>> = Vec::new();
        let mut keeps = |record: Record<B::Record>| {
            let kept = match record {
                Record::Broadcast(_) => None,
                Record::Own(Promise::Lane { judged, head, frontier }) => {
                    let (judged, head) = self.judged_before(judged, head, &contested);
                    Some(Promise::Lane { judged, head, frontier })
                }
                Record::Own(Promise::Batch { lot, ref certified, .. })
                    if certified.is_none() && is_from(&contested, lot) =>
                {
                    None
                }
                Record::Own(Promise::Open { ref line, is_certified: false, .. })
                    if is_above(&given_up, line.entry.id) =>
                {
                    None
                }
                Record::Own(promise) => Some(promise),
            };
            records.extend(kept.map(Record::Own));
        };
        self.snapshot(&mut keeps);
        records.extend(self.broadcast.get().crossing().into_iter().map(Record::Broadcast));
        records
    }

    /// How far a lane is judged in the new view.
    fn judged_before(&self, judged: Lot, head: Hash, contested: &BTreeMap<u8, u64>) -> (Lot, Hash) {
        let Some(last) = contested.get(&judged.source).and_then(|first| first.checked_sub(1)) else {
            return (judged, head);
        };
        if last >= judged.sequence {
            return (judged, head);
        }
        let batch = self.lanes.get(&judged.source).and_then(|lane| lane.batches.get(&last));
        let head = batch.map_or(Hash::ZERO, |batch| batch.digest);
        (Lot { source: judged.source, sequence: last }, head)
    }

    /// The first place of each log whose entry is accepted here no more: something else was shown in its place, or in that of its batch.
    fn given_up(&self, contested: &BTreeMap<u8, u64>, entered: &Entered) -> BTreeMap<AccountId, u64> {
        let mut gone: BTreeSet<EntryId> = BTreeSet::new();
        for (source, first) in contested {
            let Some(lane) = self.lanes.get(source) else { continue };
            let open = lane.batches.range(first..).filter(|(_, batch)| batch.certified.is_none());
            for opened in open.filter_map(|(_, batch)| batch.opened.as_ref()) {
                let accepted = opened.lines().filter(|(_, line, digest)| {
                    let institution = matches!(line.auth, crate::batch::Auth::Institution);
                    let slot = self.ledger.slot(line.entry.id);
                    institution && slot.is_some_and(|slot| slot.digest == *digest && !slot.is_certified)
                });
                gone.extend(accepted.map(|(_, line, _)| line.entry.id));
            }
        }
        let is_other = |id: EntryId, pin: &Pin| {
            let slot = self.ledger.slot(id).filter(|slot| !slot.is_certified);
            slot.is_some_and(|slot| !pin.allows(&slot.digest))
        };
        gone.extend(entered.entries.iter().filter(|one| is_other(one.id, &one.pin)).map(|one| one.id));
        let mut first: BTreeMap<AccountId, u64> = BTreeMap::new();
        for id in gone {
            let place = first.entry(id.spender).or_insert(id.n);
            *place = id.n.min(*place);
        }
        first
    }
}

fn is_from(contested: &BTreeMap<u8, u64>, lot: Lot) -> bool {
    contested.get(&lot.source).is_some_and(|first| lot.sequence >= *first)
}

fn is_above(given_up: &BTreeMap<AccountId, u64>, id: EntryId) -> bool {
    given_up.get(&id.spender).is_some_and(|first| id.n >= *first)
}

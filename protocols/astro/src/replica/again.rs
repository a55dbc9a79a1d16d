//! Entries that were left uncertified: they go out again, unchanged, until they are certified (specification, section 4.2). The
//! reason may be gone, and whoever says so may not have been heard.

use std::collections::{BTreeMap, BTreeSet};

use synod_ledger::{EntryId, Owner};
use synod_machine::broadcast::Except;
use synod_machine::{Span, Time, Turn};

use super::{Carrier, Replica};
use crate::batch::{Auth, Opened};
use crate::config::Parameters;

/// When an entry goes out again.
#[derive(Clone, Copy, Debug)]
struct Offer {
    due: Time,
    wait: Span,
    /// The last of this node's batches that carried it again; 0 if none did.
    carrier: u64,
    /// Whether it is in the queue, or in the batch that is being put together.
    is_waiting: bool,
}

/// Open entries that are in no batch of this node's that is under way, and that it wants certified. What they say stands in the
/// ledger, so they are as many as that has open at most, and outlive their batches.
#[derive(Clone, Debug, Default)]
pub(super) struct Offers(BTreeMap<EntryId, Offer>);

impl Offers {
    /// An entry goes out again at a time, unless that is settled already.
    fn add(&mut self, id: EntryId, due: Time, wait: Span) {
        self.0.entry(id).or_insert(Offer { due, wait, carrier: 0, is_waiting: false });
    }

    /// An entry is certified, or another has its place.
    pub(super) fn remove(&mut self, id: EntryId) {
        self.0.remove(&id);
    }

    /// An entry waits no more: one of this node's batches carries it, or none that is being put together does.
    pub(super) fn carry(&mut self, id: EntryId, carrier: Option<u64>) {
        if let Some(offer) = self.0.get_mut(&id) {
            offer.carrier = carrier.unwrap_or(offer.carrier);
            offer.is_waiting = false;
        }
    }

    /// Entries that are due, those of a registrar first and whichever waited longest, with the batches that carried them last.
    fn due(&self, now: Time, registrar: u8) -> Vec<(EntryId, u64)> {
        let due = self.0.iter().filter(|(_, offer)| offer.due <= now && !offer.is_waiting);
        let mut due: Vec<_> = due.collect();
        due.sort_by_key(|(id, offer)| (id.spender.registrar != u32::from(registrar), offer.due, **id));
        due.into_iter().map(|(id, offer)| (*id, offer.carrier)).collect()
    }

    /// An entry is put into the queue: the next time is twice as far as this one was.
    fn postpone(&mut self, id: EntryId, now: Time, parameters: &Parameters) {
        if let Some(offer) = self.0.get_mut(&id) {
            offer.is_waiting = true;
            offer.due = Time(now.0.saturating_add(offer.wait.0));
            offer.wait = offer.wait.times(2).min(parameters.resend_max);
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        (self.0.len() * 2 * size_of::<(EntryId, Offer)>()) as u64
    }
}

impl<B: Carrier> Replica<B> {
    /// One of this node's own batches is certified but for these entries.
    pub(super) fn leave(&mut self, opened: &Opened, open: &Except, turn: &Turn<'_, Self>) {
        let wait = self.config.parameters.resend;
        for (at, line, digest) in opened.lines() {
            let id = line.entry.id;
            if open.items().binary_search(&at).is_ok() && self.holds_uncertified(id, digest) {
                self.desk.offers.add(id, turn.now(), wait);
            }
        }
    }

    fn holds_uncertified(&self, id: EntryId, digest: synod_crypto::Hash) -> bool {
        self.ledger.slot(id).is_some_and(|slot| slot.digest == digest && !slot.is_certified)
    }

    /// Puts entries that are due into the queue. It takes one batch of them beyond what new orders may fill.
    pub(super) fn offer_again(&mut self, turn: &mut Turn<'_, Self>) {
        let (source, now, parameters) = (self.me(), turn.now(), self.config.parameters);
        for (id, carrier) in self.desk.offers.due(now, source) {
            let Some(slot) = self.ledger.slot(id).filter(|slot| !slot.is_certified) else {
                self.desk.offers.remove(id);
                continue;
            };
            if slot.line.auth == Auth::Together {
                // Good beside the others alone: the owner has its own signature, and gives it again.
                self.desk.offers.remove(id);
                continue;
            }
            let line = slot.line.clone();
            let carrier = self.lanes.get(&source).and_then(|lane| lane.batches.get(&carrier));
            let is_under_way = carrier.is_some_and(|batch| batch.certified.is_none());
            if is_under_way {
                continue;
            }
            if !self.desk.has_room_again(&parameters) {
                break;
            }
            self.desk.offers.postpone(id, now, &parameters);
            let measured = self.digests.measured(&line.entry);
            self.put_in_queue(line, measured);
        }
        self.consider_flush(turn);
    }

    /// After a restart: open entries that are in no batch of this node's that is under way are offered. Those of this institution's
    /// customers go out at once, and those that one of its batches carried. Whoever took what owners signed is in no record, so
    /// those go out as well, once others had time to have them certified.
    pub(super) fn offer_admitted(&mut self, turn: &mut Turn<'_, Self>) {
        let (source, now, wait) = (self.me(), turn.now(), self.config.parameters.resend);
        let (mut under_way, mut carried) = (BTreeSet::new(), BTreeSet::new());
        for batch in self.lane_mut(source).batches.values() {
            let ids = batch.opened.iter().flat_map(|opened| &opened.batch.lines).map(|line| line.entry.id);
            match batch.certified {
                Some(_) => carried.extend(ids),
                None => under_way.extend(ids),
            }
        }
        let later = Time(now.0.saturating_add(wait.0));
        let open = self.ledger.open().flat_map(|(_, xlog)| xlog.slots());
        for slot in open.filter(|slot| !slot.is_certified) {
            let id = slot.line.entry.id;
            let due = match slot.line.auth {
                _ if under_way.contains(&id) || !self.ledger.is_carried_by(id, source) => continue,
                Auth::Institution if self.ledger.owner(id) == Some(Owner::Custodial(source)) => {
                    self.desk.name(&slot.line.entry);
                    now
                }
                Auth::Institution | Auth::Together => continue,
                Auth::Owner(_) | Auth::Straggler(_) if carried.contains(&id) => now,
                Auth::Owner(_) | Auth::Straggler(_) => later,
            };
            self.desk.offers.add(id, due, wait);
        }
        self.offer_again(turn);
    }
}

//! What a replica knows of one representative's batches.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use synod_crypto::{Hash, PublicKey};
use synod_ledger::{EntryId, Opening, Units};
use synod_machine::Time;
use synod_machine::broadcast::Except;
use synod_quorum::NodeId;

use super::patience::Patience;
use crate::batch::Opened;
use crate::config::Parameters;
use crate::together::Signer;
use crate::witness::Witnessed;
use crate::words::Receipt;

/// One batch of a lane.
#[derive(Clone, Debug)]
pub(super) struct Batch {
    pub(super) digest: Hash,
    /// What is not endorsed, if anything is.
    pub(super) endorsed: Option<Except>,
    /// What is not certified, if anything is.
    pub(super) certified: Option<Except>,
    /// The batch, until all of it is certified, its accounts are open, and nobody needs it for receipts.
    pub(super) opened: Option<Arc<Opened>>,
    /// How many entries had settled when the user was told of its certificate, until the user keeps more than that.
    pub(super) shown: Option<u64>,
    /// The keys under which its owners' signatures are good; empty where it was judged in an earlier life.
    pub(super) keys: Vec<Option<PublicKey>>,
    /// Entries whose contradiction with others the user was shown.
    pub(super) conflicting: BTreeSet<u32>,
    /// Entries whose dependencies do not hold; none before that was checked in this life.
    pub(super) forged: Option<BTreeSet<u32>>,
    /// Certified entries that have not settled.
    pub(super) unsettled: u32,
    /// Which they are (profile II).
    pub(super) places: BTreeMap<EntryId, u32>,
    /// Entries that settled and were rejected (profile II).
    pub(super) rejected: BTreeSet<u32>,
    /// This node's own receipt, once it is signed.
    pub(super) receipt: Option<Receipt>,
    /// Whether one is being signed.
    pub(super) is_signing: bool,
}

impl Batch {
    pub(super) const fn new(digest: Hash) -> Self {
        Self {
            digest,
            endorsed: None,
            certified: None,
            opened: None,
            shown: None,
            keys: Vec::new(),
            conflicting: BTreeSet::new(),
            forged: None,
            unsettled: 0,
            places: BTreeMap::new(),
            rejected: BTreeSet::new(),
            receipt: None,
            is_signing: false,
        }
    }

    /// Whether all of it is certified.
    pub(super) fn is_whole(&self) -> bool {
        self.certified.as_ref().is_some_and(|open| open.items().is_empty())
    }

    /// Whether an entry is backed with something that does not hold, or that nobody looked at.
    pub(super) fn is_refused(&self, opened: &Opened, at: u32) -> bool {
        opened.backings.contains_key(&at) && self.forged.as_ref().is_none_or(|forged| forged.contains(&at))
    }

    /// What did not settle by this batch, and what did and was rejected; `None` while it is not certified.
    pub(super) fn open(&self) -> Option<Except> {
        let certified = self.certified.clone()?;
        if self.rejected.is_empty() {
            return Some(certified);
        }
        let all: BTreeSet<u32> = certified.items().iter().chain(&self.rejected).copied().collect();
        Some(Except::new(all.into_iter().collect()).expect("indexes rise"))
    }

    /// Lets go of the batch once all of it is certified and the user keeps what receipts need of it.
    fn close(&mut self) {
        if self.is_whole() && self.shown.is_none() {
            self.opened = None;
        }
    }
}

/// A batch whose owners' signatures witnesses check, and the keys that this node would check them under.
#[derive(Clone, Debug)]
pub(super) struct Reliance {
    pub(super) opened: Arc<Opened>,
    pub(super) keys: Vec<Option<Signer>>,
    /// Since when it waits.
    pub(super) since: Time,
}

/// What was found of the owners' signatures of a batch.
#[derive(Clone, Debug, Default)]
pub(super) struct Looks {
    /// By others.
    pub(super) words: BTreeMap<u8, Witnessed>,
    /// By this node, with the batch and the keys that it checked under.
    pub(super) own: Option<(Witnessed, Arc<Opened>, Vec<Option<Signer>>)>,
}

/// Batches that are judged, and whose words are kept: who lies about them is convicted as long as they are.
const LOOKED: u64 = 2;

/// One representative's lane.
#[derive(Clone, Debug, Default)]
pub(super) struct Lane {
    /// The last batch that was judged, or certified by others in its turn; all before it were.
    pub(super) judged: u64,
    /// Its digest.
    pub(super) head: Hash,
    /// All batches up to this one are certified here.
    pub(super) frontier: u64,
    /// Batches whose turn to be judged has not come.
    pub(super) waiting: BTreeMap<u64, Arc<Opened>>,
    /// The batch whose signatures are being checked.
    pub(super) checking: Option<u64>,
    /// The same one, where others check them.
    pub(super) reliance: Option<Reliance>,
    /// What was found of owners' signatures, by batch.
    pub(super) looks: BTreeMap<u64, Looks>,
    /// How long others are waited for who check them.
    pub(super) patience: Patience,
    pub(super) batches: BTreeMap<u64, Batch>,
    /// The accounts of all batches up to this one are open.
    pub(super) opened: u64,
    /// The batch that waits to be endorsed as a whole, and whether it does because too much of the lane waits for money.
    pub(super) held: Option<(u64, bool)>,
    /// Certified entries of the lane that have not settled (profiles I and II).
    pub(super) unsettled: u64,
    /// Accounts that the lane's registrar has opened or is about to.
    pub(super) locals: u64,
    /// The sum of the limits that they may reach.
    pub(super) granted: u128,
}

impl Lane {
    /// What is found of batches up to this one is forgotten.
    pub(super) const fn looked_from(&self) -> u64 {
        self.judged.saturating_sub(LOOKED)
    }

    /// What was found of a batch.
    pub(super) fn looks(&mut self, sequence: u64) -> &mut Looks {
        let from = self.looked_from();
        self.looks.retain(|at, _| *at > from);
        self.looks.entry(sequence).or_default()
    }

    /// A member speaks of a batch, which may wait for that.
    pub(super) fn hear(&mut self, from: NodeId, sequence: u64, now: Time) {
        let waits = self.reliance.as_ref().filter(|reliance| reliance.opened.lot().sequence == sequence);
        if let Some(member) = from.member() {
            self.patience.hear(member, sequence, waits.map(|reliance| reliance.since), now);
        }
    }

    /// Bytes that words on owners' signatures take, of so many members.
    pub(super) fn looks_max(members: u64, parameters: &Parameters) -> u64 {
        let words =
            (parameters.lane_window + LOOKED) * (members + 1) * 2 * size_of::<(u8, Witnessed)>() as u64;
        let batch = u64::from(parameters.payload_max())
            + u64::from(parameters.batch_max) * size_of::<Option<Signer>>() as u64;
        words + (LOOKED + 2) * 8 * batch + Patience::bytes_max(members)
    }

    fn looks_bytes(&self) -> u64 {
        let own = self.looks.values().filter_map(|looks| looks.own.as_ref());
        let own = own.map(|(_, opened, keys)| (opened, keys));
        let waits = self.reliance.iter().map(|reliance| (&reliance.opened, &reliance.keys));
        let batches = own
            .chain(waits)
            .map(|(opened, keys)| opened.bytes() + (keys.len() * size_of::<Option<Signer>>()) as u64);
        let words: usize = self.looks.values().map(|looks| looks.words.len() + 1).sum();
        batches.sum::<u64>() + (words * 2 * size_of::<(u8, Witnessed)>()) as u64 + self.patience.bytes()
    }

    /// Counts accounts as opened, each once.
    pub(super) fn grant(&mut self, openings: &[Opening]) {
        for opening in openings.iter().filter(|opening| opening.id.local > self.locals).collect::<Vec<_>>() {
            self.locals = self.locals.max(opening.id.local);
            self.granted = self.granted.saturating_add(opening.limit_max.0);
        }
    }

    /// Whether accounts are the registrar's next ones, no more than it may have, with limits within its cap.
    pub(super) fn may_open(
        &self,
        (shard, lane): (u16, u8),
        openings: &[Opening],
        (cap, accounts_max): (Units, u64),
    ) -> bool {
        let mut granted = self.granted;
        (1_u64..).zip(openings).all(|(at, opening)| {
            granted = granted.saturating_add(opening.limit_max.0);
            let id = opening.id;
            opening.is_sound()
                && (id.shard, id.registrar) == (shard, u32::from(lane))
                && Some(id.local) == self.locals.checked_add(at)
                && id.local <= accounts_max
                && granted <= cap.0.max(self.granted)
        })
    }

    /// An entry of a batch is certified and has not settled.
    pub(super) fn count_open(&mut self, sequence: u64, count: u32) {
        self.unsettled = self.unsettled.saturating_add(u64::from(count));
        if let Some(batch) = self.batches.get_mut(&sequence) {
            batch.unsettled = batch.unsettled.saturating_add(count);
        }
    }

    /// Where entries that are certified and have not settled stand in their batch.
    pub(super) fn place(&mut self, sequence: u64, places: Vec<(EntryId, u32)>) {
        if let Some(batch) = self.batches.get_mut(&sequence).filter(|_| !places.is_empty()) {
            batch.places.extend(places);
        }
    }

    /// Such entries have settled.
    pub(super) fn count_settled(&mut self, sequence: u64, count: u32) {
        self.unsettled = self.unsettled.saturating_sub(u64::from(count));
        if let Some(batch) = self.batches.get_mut(&sequence) {
            batch.unsettled = batch.unsettled.saturating_sub(count);
        }
    }

    /// Certified entries of a batch that did not settle by it.
    pub(super) fn reject(&mut self, sequence: u64, elsewhere: Vec<u32>) {
        if let Some(batch) = self.batches.get_mut(&sequence) {
            batch.rejected.extend(elsewhere);
        }
    }

    /// What became of such an entry, whose batch counts it with others.
    pub(super) fn count_outcome(&mut self, sequence: u64, (id, is_paid): (EntryId, bool)) {
        if let Some(batch) = self.batches.get_mut(&sequence) {
            let at = batch.places.remove(&id).filter(|_| !is_paid);
            batch.rejected.extend(at);
        }
    }

    /// Moves on over certified batches.
    pub(super) fn advance(&mut self) {
        while let Some(next) = self.frontier.checked_add(1)
            && self.batches.get(&next).is_some_and(|batch| batch.certified.is_some())
        {
            self.frontier = next;
        }
    }

    /// Lets go of a batch whose accounts are open, if nobody needs it, but for the last `recent` of those.
    pub(super) fn close(&mut self, sequence: u64, recent: u64) {
        if sequence.saturating_add(recent) <= self.opened
            && let Some(batch) = self.batches.get_mut(&sequence)
        {
            batch.close();
        }
    }

    /// Lets go of batches that are older than `retain` and whose accounts are open; gives their numbers.
    pub(super) fn trim(&mut self, retain: u64) -> Vec<u64> {
        let kept = self.frontier.min(self.opened).saturating_sub(retain);
        let mut gone = Vec::new();
        while let Some(oldest) = self.batches.first_entry().filter(|oldest| *oldest.key() <= kept) {
            // What has not settled yet is told by its entries when it does.
            gone.push(*oldest.key());
            oldest.remove();
        }
        gone
    }

    pub(super) fn bytes(&self) -> u64 {
        let batches = self.batches.values().map(|batch| {
            let opened = batch.opened.as_ref().map_or(0, |opened| opened.bytes());
            let keys = batch.keys.len() * size_of::<Option<PublicKey>>();
            let places = batch.places.len() * 2 * size_of::<(EntryId, u32)>() + batch.rejected.len() * 8;
            opened
                + (2 * size_of::<Batch>() + places + keys + batch.conflicting.len() * 2 * size_of::<u32>())
                    as u64
        });
        let waiting = self.waiting.values().map(|opened| opened.bytes());
        batches.chain(waiting).sum::<u64>() + self.looks_bytes()
    }
}

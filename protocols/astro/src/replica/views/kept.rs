//! What this replica keeps of its view (specification 4.11, State): tips of lanes with their certificates, slots above them, and places
//! that owners signed for. What institutions vouch for stands in slots of their own lanes, one after the other, so these tell of it.

use std::collections::{BTreeMap, BTreeSet};

use synod_crypto::Hash;
use synod_ledger::EntryId;
use synod_machine::broadcast::Lot;
use synod_wire::{Blob, List};

use crate::batch::Auth;
use crate::replica::lane::Lane;
use crate::replica::{Carrier, Replica};
use crate::views::{BELOW_MAX, Kept, PinnedLot, Shown, ShownEntry, ShownLot, Tip};
use crate::words::Promise;

/// Two digests of one slot or place at most.
const TWO: usize = 2;

impl<B: Carrier> Replica<B> {
    /// Nothing more is promised in this view. Admitted entries that no record holds are recorded, so that the next view finds them.
    pub(crate) fn stop(&mut self, keep: &mut dyn FnMut(Promise)) {
        let open: BTreeSet<_> = self.ledger.open().map(|(account, _)| account).collect();
        for id in self.desk.unrecorded(&open) {
            let Some(slot) = self.ledger.slot(id) else { continue };
            let (line, debit, is_certified) = (slot.line.clone(), slot.debit, slot.is_certified);
            keep(Promise::Open { line, debit, is_certified, lots: List::default() });
        }
    }

    /// What it keeps; `None` where that is more than a state has place for.
    pub(crate) fn state(&self) -> Option<Kept> {
        let (mut tips, mut lots) = (Vec::new(), BTreeMap::new());
        for (source, lane) in &self.lanes {
            let tip = self.tip(*source, lane);
            // A few below the tip too: where this node leaves, others may not have reached it.
            let from = tip.as_ref().map_or(0, |tip| tip.lot.sequence.saturating_sub(BELOW_MAX));
            for (sequence, batch) in lane.batches.range(from.saturating_add(1)..) {
                if batch.endorsed.is_some() || batch.certified.is_some() {
                    add(&mut lots, Lot { source: *source, sequence: *sequence }, bare(batch.digest));
                }
            }
            tips.extend(tip);
        }
        let is_open = |one: &&PinnedLot| {
            let PinnedLot { lot, .. } = one;
            let is_above = |tip: &Tip| tip.lot.source == lot.source && tip.lot.sequence >= lot.sequence;
            !tips.iter().any(is_above) && !self.is_certified(*lot)
        };
        for one in self.entered.lots.iter().filter(is_open) {
            one.pin.shown().for_each(|shown| add(&mut lots, one.lot, shown));
        }
        // A quorum told this of what was certified before: what this member accepted there itself was not, or was told too.
        for one in self.entered.below.iter().filter(is_open) {
            lots.insert(one.lot, one.pin.shown().collect());
        }
        let is_missing = |tip: &&Tip| tip.lot.sequence > self.frontier(tip.lot.source);
        let behind: Vec<Tip> = self.entered.shown.iter().filter(is_missing).cloned().collect();
        let entries = self.kept_entries();
        let lots = lots.into_iter().flat_map(|(lot, all)| all.into_iter().map(move |shown| (lot, shown)));
        let lots: Vec<ShownLot> = lots.map(|(lot, shown)| ShownLot { lot, shown }).collect();
        let entries = entries.into_iter().flat_map(|(id, all)| all.into_iter().map(move |shown| (id, shown)));
        let entries: Vec<ShownEntry> = entries.map(|(id, shown)| ShownEntry { id, shown }).collect();
        Some(Kept {
            tips: tips.try_into().ok()?,
            behind: behind.try_into().ok()?,
            lots: lots.try_into().ok()?,
            entries: entries.try_into().ok()?,
        })
    }

    /// The last slot of a lane up to which all are certified here and whose certificate finds place.
    fn tip(&self, source: u8, lane: &Lane) -> Option<Tip> {
        (1..=lane.frontier).rev().take_while(|sequence| lane.batches.contains_key(sequence)).find_map(
            |sequence| {
                let lot = Lot { source, sequence };
                let proofs = self.broadcast.get().proofs(lot.into());
                let certificate = proofs.into_iter().find_map(|proof| Blob::try_from(proof).ok())?;
                let digest = lane.batches.get(&sequence)?.digest;
                Some(Tip { lot, shown: Shown { digest, certificate: Some(certificate) } })
            },
        )
    }

    /// All slots of a lane up to this one are certified here.
    pub(crate) fn frontier(&self, source: u8) -> u64 {
        self.lanes.get(&source).map_or(0, |lane| lane.frontier)
    }

    fn is_certified(&self, lot: Lot) -> bool {
        let lane = self.lanes.get(&lot.source);
        let batch = lane.and_then(|lane| lane.batches.get(&lot.sequence));
        batch.is_some_and(|batch| batch.certified.is_some())
            || lane.is_some_and(|lane| lot.sequence <= lane.frontier)
    }

    fn kept_entries(&self) -> BTreeMap<EntryId, Vec<Shown>> {
        let mut entries = BTreeMap::new();
        let open = self.ledger.open().flat_map(|(_, xlog)| xlog.slots());
        for slot in open.filter(|slot| slot.line.auth != Auth::Institution) {
            add(&mut entries, slot.line.entry.id, bare(slot.digest));
        }
        // What settled by slots above a gap.
        for lane in self.lanes.values() {
            let above = lane.batches.range(lane.frontier.saturating_add(1)..).map(|(_, batch)| batch);
            for (open, opened) in
                above.filter_map(|batch| Some((batch.certified.as_ref()?, batch.opened.as_ref()?)))
            {
                for (at, line, digest) in opened.lines() {
                    let is_certified = open.items().binary_search(&at).is_err();
                    if is_certified && line.auth != Auth::Institution {
                        add(&mut entries, line.entry.id, bare(digest));
                    }
                }
            }
        }
        for (id, pin) in self.ledger.pins() {
            pin.shown().for_each(|shown| add(&mut entries, *id, shown));
        }
        entries
    }
}

const fn bare(digest: Hash) -> Shown {
    Shown { digest, certificate: None }
}

/// Adds a digest, this member's own first.
fn add<K: Ord>(all: &mut BTreeMap<K, Vec<Shown>>, key: K, shown: Shown) {
    let known = all.entry(key).or_default();
    if known.len() < TWO && known.iter().all(|one| one.digest != shown.digest) {
        known.push(shown);
        known.sort_by_key(|one| one.digest);
    }
}

//! Batches that were executed, for peers that are behind (specification, 4.12): encoded, for what was read from a frame would keep all that
//! came with it.
//!
//! *Bounds.* Whoever keeps it says how many bytes; each batch counts as [`batch_bytes`] of it.

use std::collections::VecDeque;

use synod_wire::{Bytes, Limits, Wire as _};

use super::admit::batch_bytes;
use crate::batch::{Batch, Slot};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Archive {
    /// The slot of the oldest.
    first: Slot,
    /// One for each slot from there on: what it counts as, and its encoding.
    kept: VecDeque<(u64, Bytes)>,
    bytes: u64,
}

impl Archive {
    /// Bytes that all of it counts as.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Keeps the batch of a slot; what it counts as. Where that is not the next one, what was kept is of no use any more.
    pub(super) fn keep(&mut self, slot: Slot, batch: &Batch) -> u64 {
        if self.end() != slot {
            self.clear();
            self.first = slot;
        }
        let bytes = batch_bytes(batch) as u64;
        self.kept.push_back((bytes, batch.encode()));
        self.bytes = self.bytes.saturating_add(bytes);
        bytes
    }

    fn end(&self) -> Slot {
        Slot(self.first.0.saturating_add(self.kept.len() as u64))
    }

    /// Lets the oldest go, as far as there are more bytes than may be, and none from `low` on.
    pub(super) fn shrink(&mut self, most: u64, low: Slot) {
        while self.bytes > most && self.first < low {
            let Some((bytes, _)) = self.kept.pop_front() else { return };
            self.bytes = self.bytes.saturating_sub(bytes);
            self.first = Slot(self.first.0.saturating_add(1));
        }
    }

    /// Batches from a slot on, with what each counts as; none where that slot is gone.
    pub(super) fn from(&self, from: Slot) -> impl Iterator<Item = (u64, Batch)> {
        let at = from.0.checked_sub(self.first.0).and_then(|at| usize::try_from(at).ok());
        let at = at.unwrap_or(usize::MAX).min(self.kept.len());
        self.kept.range(at..).map_while(|(bytes, encoded)| {
            let frame_max = u32::try_from(encoded.len()).unwrap_or(u32::MAX);
            Some((*bytes, Batch::decode(encoded.clone(), &Limits { frame_max }).ok()?))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{Auth, Op, Request, View};

    fn batch(id: u64) -> Batch {
        let op = Op::Inline(Bytes::from(vec![7; 10]).try_into().expect("short"));
        let request = Request { session: 200, id, op, auth: Auth::Heard };
        Batch { origin: View(0), time_ms: id, requests: vec![request].try_into().expect("few") }
    }

    fn of(archive: &Archive, from: u64) -> Vec<u64> {
        archive.from(Slot(from)).map(|(_, batch)| batch.time_ms).collect()
    }

    #[test]
    fn batches_come_back_as_they_were_from_any_slot_that_is_kept() {
        let mut archive = Archive::default();
        let counted: u64 = (5..9).map(|slot| archive.keep(Slot(slot), &batch(slot))).sum();
        assert_eq!(archive.bytes(), counted);
        assert!(archive.from(Slot(5)).all(|(bytes, kept)| bytes == batch_bytes(&kept) as u64));
        assert_eq!(archive.from(Slot(6)).map(|(_, batch)| batch).next(), Some(batch(6)));
        assert_eq!((of(&archive, 5), of(&archive, 7)), (vec![5, 6, 7, 8], vec![7, 8]));
        assert!([0, 4, 9, u64::MAX].iter().all(|from| of(&archive, *from).is_empty()), "none is made up");
    }

    #[test]
    fn the_oldest_gives_way_and_nothing_that_a_snapshot_lacks() {
        let mut archive = Archive::default();
        let each = archive.keep(Slot(0), &batch(0));
        for slot in 1..8 {
            archive.keep(Slot(slot), &batch(slot));
        }
        archive.shrink(6 * each, Slot(8));
        assert_eq!((of(&archive, 2).len(), archive.bytes()), (6, 6 * each));
        archive.shrink(0, Slot(4));
        assert_eq!((of(&archive, 3), of(&archive, 4)), (vec![], vec![4, 5, 6, 7]));
        assert_eq!(archive.bytes(), 4 * each);
    }

    #[test]
    fn one_that_is_not_the_next_begins_anew() {
        let mut archive = Archive::default();
        for slot in [3, 4, 9] {
            archive.keep(Slot(slot), &batch(slot));
        }
        assert_eq!((of(&archive, 3), of(&archive, 9)), (vec![], vec![9]));
        assert_eq!(archive.bytes(), batch_bytes(&batch(9)) as u64);
    }
}

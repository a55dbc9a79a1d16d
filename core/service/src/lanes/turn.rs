//! One lane in one superstep: what it reads, holds, posts and answers.

use core::ops::Range;
use std::sync::Arc;

use synod_wire::Bytes;

use super::{LaneApp, Layout};
use crate::app::At;

/// Entries or letters whose cells are brought near together.
pub const NEAR: usize = 64;
/// Bytes of an operation.
pub const OPERATION_BYTES: usize = 8;
/// The code of an entry that was not delivered: it was not executed.
pub const NOT_DELIVERED: u8 = 255;
/// The code of an entry that is no operation of eight bytes.
pub const UNREADABLE: u8 = 254;

/// A delivered batch as columns.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Its height.
    pub height: u64,
    /// Where in the order it stands.
    pub at: At,
    /// Length of the directory: clients with smaller numbers have what the application opens for a client.
    pub directory: u32,
    /// The clients, rising strictly.
    pub ids: Arc<[u32]>,
    /// Their operations: eight bytes each, little endian. Of another length when the entries are no operations.
    pub operations: Bytes,
    /// Entries that were not delivered, by rising index.
    pub skipped: Vec<u32>,
}

impl Batch {
    /// Bytes that it holds, a shared body counted once.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        (4 * self.ids.len() + self.operations.len() + 4 * self.skipped.len() + 256) as u64
    }

    /// Whether its entries are operations.
    #[must_use]
    pub fn is_readable(&self) -> bool {
        self.operations.len() == self.ids.len() * OPERATION_BYTES
    }
}

/// What a lane works on in one batch, and what comes of it.
#[derive(Debug)]
pub(crate) struct Run {
    /// Its entries.
    pub(crate) entries: Range<usize>,
    /// A code for each of them.
    pub(crate) codes: Vec<u8>,
}

impl Run {
    pub(super) fn new(entries: Range<usize>) -> Self {
        let codes = vec![NOT_DELIVERED; entries.len()];
        Self { entries, codes }
    }
}

/// One lane in one superstep.
pub struct LaneTurn<'a, P: LaneApp> {
    pub(super) batch: &'a Batch,
    pub(super) layout: &'a Layout,
    pub(super) run: &'a mut Run,
    pub(super) inbox: &'a [Vec<P::Mail>],
    pub(super) outbox: &'a mut [Vec<P::Mail>],
    /// What the lane holds.
    pub shard: &'a mut P::Shard,
}

impl<'a, P: LaneApp> LaneTurn<'a, P> {
    /// Where in the order the batch stands.
    #[must_use]
    pub const fn at(&self) -> &'a At {
        &self.batch.at
    }

    /// How the state is cut.
    #[must_use]
    pub const fn layout(&self) -> &'a Layout {
        self.layout
    }

    /// The lane's entries that were delivered, in order.
    #[must_use]
    pub fn entries(&self) -> Entries<'a> {
        let Range { start, end } = self.run.entries.clone();
        let (operations, _) = self.batch.operations.as_chunks::<OPERATION_BYTES>();
        let skipped = &self.batch.skipped;
        let from = skipped.partition_point(|index| (*index as usize) < start);
        Entries {
            ids: self.batch.ids.get(start..end).unwrap_or_default(),
            operations: operations.get(start..end).unwrap_or_default(),
            skipped: skipped.get(from..).unwrap_or_default(),
            // A batch has fewer entries than there are clients.
            index: u32::try_from(start).unwrap_or(u32::MAX),
        }
    }

    /// What was posted to this lane in the step before, by source lane, then in the order posted; in pieces of at most
    /// [`NEAR`], each with the piece after it, whose cells may be brought near meanwhile.
    pub fn mail(&self) -> impl Iterator<Item = (&'a [P::Mail], &'a [P::Mail])> + use<'a, P> {
        let mut pieces = self.inbox.iter().flat_map(|posted| posted.chunks(NEAR)).peekable();
        core::iter::from_fn(move || Some((pieces.next()?, pieces.peek().copied().unwrap_or_default())))
    }

    /// Posts to `lane`, for the next step.
    pub fn post(&mut self, lane: usize, mail: P::Mail) {
        if let Some(outbox) = self.outbox.get_mut(lane) {
            outbox.push(mail);
        }
    }

    /// What became of the entry `index`, which must be one of this lane's.
    pub fn answer(&mut self, index: u32, code: u8) {
        let at = (index as usize).wrapping_sub(self.run.entries.start);
        if let Some(place) = self.run.codes.get_mut(at) {
            *place = code;
        }
    }
}

/// An entry of a batch that was delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its index in the batch.
    pub index: u32,
    /// The client.
    pub id: u32,
    /// What it asks.
    pub operation: u64,
}

/// Delivered entries of a lane, in order.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    ids: &'a [u32],
    operations: &'a [[u8; OPERATION_BYTES]],
    /// Those of them that were not delivered.
    skipped: &'a [u32],
    /// The index of the first one.
    index: u32,
}

impl<'a> Entries<'a> {
    /// The next entries, at most [`NEAR`], in the place of what `piece` held; false when there are none.
    pub fn piece(&mut self, piece: &mut Vec<Entry>) -> bool {
        piece.clear();
        while piece.is_empty() && !self.ids.is_empty() && !self.operations.is_empty() {
            let skipped = self.skipped;
            piece.extend(self.split(NEAR));
            // Usually nothing is, and each entry is looked at once.
            if self.skipped.len() < skipped.len() {
                piece.retain(|entry| skipped.binary_search(&entry.index).is_err());
            }
        }
        !piece.is_empty()
    }

    /// The clients of the piece that comes next, delivered or not: their cells may be brought near meanwhile.
    pub fn ahead(&self) -> impl Iterator<Item = u64> + use<'a> {
        let ids: &'a [u32] = self.ids;
        ids.iter().take(NEAR).copied().map(u64::from)
    }

    /// Takes the next entries, at most `most`, delivered or not.
    fn split(&mut self, most: usize) -> impl Iterator<Item = Entry> + use<'a> {
        let most = most.min(self.ids.len()).min(self.operations.len());
        let ((ids, later_ids), (operations, later)) =
            (self.ids.split_at(most), self.operations.split_at(most));
        let first = self.index;
        (self.ids, self.operations) = (later_ids, later);
        self.index += u32::try_from(most).unwrap_or(u32::MAX);
        let passed = self.skipped.partition_point(|index| *index < self.index);
        self.skipped = self.skipped.get(passed..).unwrap_or_default();
        let entries = ids.iter().zip(operations).zip(first..);
        let entry = |((id, operation), index): ((&u32, &[u8; OPERATION_BYTES]), u32)| Entry {
            index,
            id: *id,
            operation: u64::from_le_bytes(*operation),
        };
        entries.map(entry)
    }
}

impl Iterator for Entries<'_> {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        loop {
            let skipped = self.skipped.first().copied();
            let entry = self.split(1).next()?;
            if skipped != Some(entry.index) {
                return Some(entry);
            }
        }
    }
}

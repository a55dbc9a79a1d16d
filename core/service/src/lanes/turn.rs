//! One lane in one superstep: what it reads, holds, posts and answers.

use core::iter::Enumerate;
use core::ops::Range;
use core::slice::{ChunksExact, Iter};
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
        let bytes = start * OPERATION_BYTES..end * OPERATION_BYTES;
        let skipped = &self.batch.skipped;
        let from = skipped.partition_point(|index| (*index as usize) < start);
        Entries {
            ids: self.batch.ids.get(start..end).unwrap_or_default().iter().enumerate(),
            operations: self.batch.operations.get(bytes).unwrap_or_default().chunks_exact(OPERATION_BYTES),
            skipped: skipped.get(from..).unwrap_or_default().iter(),
            next: skipped.get(from).copied(),
            start,
        }
    }

    /// What was posted to this lane in the step before, by source lane, then in the order posted; in pieces of at most
    /// [`NEAR`], whose cells may be brought near together.
    pub fn mail(&self) -> impl Iterator<Item = &'a [P::Mail]> + use<'a, P> {
        self.inbox.iter().flat_map(|posted| posted.chunks(NEAR))
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
    ids: Enumerate<Iter<'a, u32>>,
    operations: ChunksExact<'a, u8>,
    skipped: Iter<'a, u32>,
    /// The next entry that was not delivered.
    next: Option<u32>,
    start: usize,
}

impl Entries<'_> {
    /// The next entries, at most [`NEAR`], in the place of what `piece` held; false when there are none.
    pub fn piece(&mut self, piece: &mut Vec<Entry>) -> bool {
        piece.clear();
        piece.extend(self.take(NEAR));
        !piece.is_empty()
    }
}

impl Iterator for Entries<'_> {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        loop {
            let (at, id) = self.ids.next()?;
            let operation = self.operations.next()?;
            let index = u32::try_from(self.start + at).ok()?;
            if self.next == Some(index) {
                self.skipped.next();
                self.next = self.skipped.as_slice().first().copied();
                continue;
            }
            let operation = operation.try_into().map(u64::from_le_bytes).ok()?;
            return Some(Entry { index, id: *id, operation });
        }
    }
}

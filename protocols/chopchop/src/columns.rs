//! The body of a batch: columns one after another, each filled with zeros to a multiple of eight bytes.
//!
//! `ids | lengths u16 (variable size only) | messages | parity bits | stragglers: indices u32, k_i u64, t_i 64 |
//! voids: indices u32`. Every length follows from the header, from the id column's own head or from the length column;
//! [`Columns::open`] checks all of them, so that the accessors need not.
//!
//! *Bounds.* Opening decodes the ids, 4 bytes each, for every check walks over them; all else shares the body's memory.

use core::fmt;
use core::iter::Copied;
use core::slice;
use std::sync::Arc;

use synod_crypto::Signature;
use synod_wire::Bytes;

use crate::bits::{self, Bits};
use crate::ids::{self, IdColumn, IdFault, IdShape};

/// What a header says about its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// How the ids are written, and how many entries there are.
    pub ids: IdShape,
    /// Bytes of each message; 0 when every message has a length of its own.
    pub msg_size: u16,
    /// Entries with a signature of their own.
    pub stragglers: u32,
    /// Entries without any valid signature.
    pub voids: u32,
}

impl Shape {
    /// The least and the greatest body that this shape can have, in bytes; equal unless a range or messages of variable
    /// size leave it open.
    #[must_use]
    pub fn body_bounds(&self) -> (u64, u64) {
        let count = u64::from(self.ids.count);
        let (ids_min, ids_max) = match ids::length(&self.ids, &[]) {
            Ok(length) => (padded(length), padded(length)),
            // A range: at least the ids side by side, at most the whole id space.
            Err(_) => (padded(8 + count.div_ceil(8)), padded(8 + (1 << 29))),
        };
        let (messages_min, messages_max) = match self.msg_size {
            0 => {
                let lengths = padded(2 * count);
                (lengths + padded(count), lengths + padded(count * u64::from(u16::MAX)))
            }
            size => (padded(count * u64::from(size)), padded(count * u64::from(size))),
        };
        let rest = padded(count.div_ceil(8))
            + padded(4 * u64::from(self.stragglers))
            + 72 * u64::from(self.stragglers)
            + padded(4 * u64::from(self.voids));
        (ids_min + messages_min + rest, ids_max + messages_max + rest)
    }
}

const fn padded(bytes: u64) -> u64 {
    bytes.next_multiple_of(8)
}

/// Why bytes are no body of their header (check BV1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ColumnFault {
    /// The id column is not canonical.
    Ids(IdFault),
    /// The body ends inside a column.
    Short,
    /// Bytes follow the last column.
    Trailing,
    /// The filling of a column is not zero.
    Padding,
    /// A parity bit behind the last entry is set.
    Parity,
    /// A message of variable size has no byte.
    EmptyMessage,
}

impl fmt::Display for ColumnFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ids(fault) => write!(f, "{fault}"),
            Self::Short => f.write_str("the body ends inside a column"),
            Self::Trailing => f.write_str("bytes follow the last column"),
            Self::Padding => f.write_str("the filling of a column is not zero"),
            Self::Parity => f.write_str("parity bits behind the last entry are set"),
            Self::EmptyMessage => f.write_str("a message has no byte"),
        }
    }
}

impl core::error::Error for ColumnFault {}

impl From<IdFault> for ColumnFault {
    fn from(fault: IdFault) -> Self {
        match fault {
            IdFault::Short => Self::Short,
            other => Self::Ids(other),
        }
    }
}

/// One entry of a batch, borrowed from its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The client.
    pub id: u32,
    /// What it broadcast.
    pub message: &'a [u8],
    /// Its parity bit.
    pub parity: bool,
}

/// An entry with a sequence number and a signature of its own (the paper's fallback).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Straggler {
    /// Which entry.
    pub index: u32,
    /// Its sequence number.
    pub k: u64,
    /// Its signature over SUBMIT.
    pub t: Signature,
}

/// The columns of a body, read in place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Columns {
    shape: Shape,
    ids: Arc<[u32]>,
    lengths: Bytes,
    messages: Bytes,
    parity: Bytes,
    straggler_indices: Bytes,
    straggler_ks: Bytes,
    straggler_ts: Bytes,
    void_indices: Bytes,
}

impl Columns {
    /// Reads `body` by `shape` (check BV1: column lengths, filling, canonical ids).
    ///
    /// # Errors
    /// [`ColumnFault`] names the first rule that is broken.
    pub fn open(shape: Shape, body: &Bytes) -> Result<Self, ColumnFault> {
        let count = u64::from(shape.ids.count);
        let mut rest = Rest { body, at: 0 };
        let ids = rest.take(ids::length(&shape.ids, body)?)?;
        let ids = IdColumn::decode(shape.ids, ids)?.to_shared();
        let (lengths, messages) = match shape.msg_size {
            0 => {
                let lengths = rest.take(2 * count)?;
                let total = total(&lengths)?;
                (lengths, rest.take(total)?)
            }
            size => (Bytes::new(), rest.take(count * u64::from(size))?),
        };
        let parity = rest.take(count.div_ceil(8))?;
        if !bits::tail_is_zero(&parity, count) {
            return Err(ColumnFault::Parity);
        }
        let straggler_indices = rest.take(4 * u64::from(shape.stragglers))?;
        let straggler_ks = rest.take(8 * u64::from(shape.stragglers))?;
        let straggler_ts = rest.take(64 * u64::from(shape.stragglers))?;
        let void_indices = rest.take(4 * u64::from(shape.voids))?;
        rest.finish()?;
        Ok(Self {
            shape,
            ids,
            lengths,
            messages,
            parity,
            straggler_indices,
            straggler_ks,
            straggler_ts,
            void_indices,
        })
    }

    /// What the body was read by.
    #[must_use]
    pub const fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Number of entries.
    #[must_use]
    pub const fn count(&self) -> u32 {
        self.shape.ids.count
    }

    /// The ids, in entry order.
    pub fn ids(&self) -> Copied<slice::Iter<'_, u32>> {
        self.ids.iter().copied()
    }

    /// The same, shared.
    #[must_use]
    pub const fn shared_ids(&self) -> &Arc<[u32]> {
        &self.ids
    }

    /// The messages, in entry order, shared with the body.
    #[must_use]
    pub const fn messages(&self) -> &Bytes {
        &self.messages
    }

    /// Bytes of the message of entry `index`; 0 beyond the last.
    #[must_use]
    pub fn message_len(&self, index: u32) -> u16 {
        match self.shape.msg_size {
            0 => length_at(&self.lengths, index as usize),
            size => size,
        }
    }

    /// Parity of entry `index`; false beyond the last.
    #[must_use]
    pub fn parity(&self, index: u32) -> bool {
        bits::get(&self.parity, u64::from(index))
    }

    /// Parities of the entries from `index` on.
    pub(crate) fn parities(&self, index: u32) -> Bits<'_> {
        Bits::from(&self.parity, index)
    }

    /// The parity column: bit i is entry i's.
    pub(crate) const fn parity_bytes(&self) -> &Bytes {
        &self.parity
    }

    /// The entries, in order.
    #[must_use]
    pub fn entries(&self) -> Entries<'_> {
        Entries { columns: self, ids: self.ids(), index: 0, offset: 0 }
    }

    /// The stragglers, in the order written.
    pub fn stragglers(&self) -> impl ExactSizeIterator<Item = Straggler> + '_ {
        let indices = self.straggler_indices.chunks_exact(4);
        let ks = self.straggler_ks.chunks_exact(8);
        let ts = self.straggler_ts.chunks_exact(64);
        indices.zip(ks).zip(ts).map(|((index, k), t)| Straggler {
            index: u32::from_le_bytes(array(index)),
            k: u64::from_le_bytes(array(k)),
            t: Signature(array(t)),
        })
    }

    /// Indices of entries without any valid signature, in the order written.
    pub fn voids(&self) -> impl ExactSizeIterator<Item = u32> + '_ {
        self.void_indices.chunks_exact(4).map(|index| u32::from_le_bytes(array(index)))
    }
}

/// The entries of a batch, in order; allocates nothing.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    columns: &'a Columns,
    ids: Copied<slice::Iter<'a, u32>>,
    index: u32,
    offset: usize,
}

impl<'a> Iterator for Entries<'a> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Entry<'a>> {
        let id = self.ids.next()?;
        let length = usize::from(self.columns.message_len(self.index));
        let end = self.offset.checked_add(length)?;
        let message = self.columns.messages.get(self.offset..end)?;
        let parity = self.columns.parity(self.index);
        self.index += 1;
        self.offset = end;
        Some(Entry { id, message, parity })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.ids.size_hint()
    }
}

impl ExactSizeIterator for Entries<'_> {}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.first_chunk::<N>().copied().unwrap_or([0; N])
}

fn length_at(lengths: &[u8], index: usize) -> u16 {
    let at = index.saturating_mul(2);
    lengths.get(at..).and_then(|rest| rest.first_chunk::<2>()).map_or(0, |two| u16::from_le_bytes(*two))
}

/// Sum of the lengths, none of which is zero. At most 2^32 * 2^16, so it cannot overflow.
fn total(lengths: &[u8]) -> Result<u64, ColumnFault> {
    let mut total = 0;
    for two in lengths.chunks_exact(2) {
        match u16::from_le_bytes(array(two)) {
            0 => return Err(ColumnFault::EmptyMessage),
            length => total += u64::from(length),
        }
    }
    Ok(total)
}

/// What of a body is not yet read.
struct Rest<'a> {
    body: &'a Bytes,
    at: usize,
}

impl Rest<'_> {
    /// The next column of `length` bytes, and its filling.
    fn take(&mut self, length: u64) -> Result<Bytes, ColumnFault> {
        let end = usize::try_from(length).ok().and_then(|length| self.at.checked_add(length));
        let end = end.filter(|end| *end <= self.body.len()).ok_or(ColumnFault::Short)?;
        let filled = end.checked_next_multiple_of(8).ok_or(ColumnFault::Short)?;
        let filling = self.body.get(end..filled).ok_or(ColumnFault::Short)?;
        if filling.iter().any(|byte| *byte != 0) {
            return Err(ColumnFault::Padding);
        }
        let column = self.body.slice(self.at..end);
        self.at = filled;
        Ok(column)
    }

    fn finish(&self) -> Result<(), ColumnFault> {
        if self.at == self.body.len() { Ok(()) } else { Err(ColumnFault::Trailing) }
    }
}

/// A body under construction.
#[derive(Debug, Default)]
pub(crate) struct BodyWriter {
    bytes: Vec<u8>,
}

impl BodyWriter {
    /// Appends one column and its filling. The body is a multiple of eight bytes before and after.
    pub(crate) fn column(&mut self, bytes: impl IntoIterator<Item = u8>) {
        self.bytes.extend(bytes);
        let filled = self.bytes.len().next_multiple_of(8);
        self.bytes.resize(filled, 0);
    }

    /// The body.
    pub(crate) fn finish(self) -> Bytes {
        self.bytes.into()
    }
}

//! Id columns: three codecs, each read in place and accepted in one form only (paper 5.1, identifier-sorted batching).
//!
//! *Packed* spends the same bits on every id. *Elias-Fano* spends about two bits above the entropy of the low parts.
//! *Range* is a bitmap over a span and wins above a density of a quarter. A broker takes the smallest; a server takes
//! any.
//!
//! *Canonical* means exact length, exact number of set bits, zero tails. That ids rise strictly and lie below the
//! directory's length is BV2's business, except where a codec cannot say otherwise.
//!
//! *Bounds.* Decoding allocates nothing and looks at each byte at most twice. Iteration costs O(1) per id.

mod encode;
#[cfg(test)]
mod tests;

use core::fmt;
use std::sync::Arc;

use synod_wire::Bytes;

use crate::bits::{self, Ones, field, low, word};

pub use encode::{EncodedIds, encode, encode_as};

/// How ids are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum IdCodec {
    /// Codec 0: each id in this many bits, 1 to 32.
    Packed(u8),
    /// Codec 1: low parts, then high parts in unary.
    EliasFano,
    /// Codec 2: base, span, bitmap.
    Range,
}

impl IdCodec {
    /// The codec of a header's two bytes.
    ///
    /// # Errors
    /// [`IdFault::Codec`] and [`IdFault::Bits`].
    pub const fn of(number: u8, bits: u8) -> Result<Self, IdFault> {
        match (number, bits) {
            (0, 1..=32) => Ok(Self::Packed(bits)),
            (1, 0) => Ok(Self::EliasFano),
            (2, 0) => Ok(Self::Range),
            (0..=2, _) => Err(IdFault::Bits),
            _ => Err(IdFault::Codec),
        }
    }

    /// The header's codec byte.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::Packed(_) => 0,
            Self::EliasFano => 1,
            Self::Range => 2,
        }
    }

    /// The header's bits byte.
    #[must_use]
    pub const fn bits(self) -> u8 {
        match self {
            Self::Packed(bits) => bits,
            Self::EliasFano | Self::Range => 0,
        }
    }
}

/// What must be known to read a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdShape {
    /// How it is written.
    pub codec: IdCodec,
    /// Number of ids, above 0.
    pub count: u32,
    /// Length of the directory that the batch requires, above 0. Elias-Fano is laid out by it.
    pub directory: u32,
}

/// Why bytes are no id column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum IdFault {
    /// No codec has this number.
    Codec,
    /// The width of packed ids is not 1 to 32, or stands beside another codec.
    Bits,
    /// There is no id, or no directory.
    Empty,
    /// The column is shorter than its layout.
    Short,
    /// The column is longer than its layout.
    Long,
    /// The span of a range is smaller than the number of ids, or leaves the id space.
    Span,
    /// The first or the last bit of a range is not set.
    Ends,
    /// The number of set bits is not the number of ids.
    Ones,
    /// A bit behind the last one is set.
    Tail,
    /// Ids to be encoded do not rise strictly below the directory's length, or do not fit the codec.
    Order,
}

impl fmt::Display for IdFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Codec => "no id codec has this number",
            Self::Bits => "the width of ids does not go with the codec",
            Self::Empty => "no ids, or no directory",
            Self::Short => "the id column is too short",
            Self::Long => "the id column is too long",
            Self::Span => "the span holds fewer ids than claimed or leaves the id space",
            Self::Ends => "a range begins or ends with an absent id",
            Self::Ones => "the number of set bits is not the number of ids",
            Self::Tail => "bits behind the last id are set",
            Self::Order => "ids do not rise strictly below the directory's length",
        })
    }
}

impl core::error::Error for IdFault {}

/// Bytes that a range spends before its bitmap.
const RANGE_HEAD: u64 = 8;

/// Bits of an Elias-Fano low part: floor(log2(directory / count)), 0 below two.
pub(crate) const fn low_bits(shape: &IdShape) -> u32 {
    match shape.directory.checked_div(shape.count) {
        Some(0 | 1) | None => 0,
        Some(ratio) => ratio.ilog2(),
    }
}

/// Bits of the Elias-Fano high string: one per id and one per step of the high part.
pub(crate) const fn high_bits(shape: &IdShape) -> u64 {
    shape.count as u64 + (shape.directory.saturating_sub(1) >> low_bits(shape)) as u64
}

const fn low_bytes(shape: &IdShape) -> u64 {
    (shape.count as u64 * low_bits(shape) as u64).div_ceil(8)
}

/// The column's exact length in bytes, without padding. `body` begins with the column; only a range looks at it.
///
/// # Errors
/// [`IdFault::Empty`], [`IdFault::Bits`]; for a range [`IdFault::Short`] and [`IdFault::Span`].
pub fn length(shape: &IdShape, body: &[u8]) -> Result<u64, IdFault> {
    if shape.count == 0 || shape.directory == 0 {
        return Err(IdFault::Empty);
    }
    match shape.codec {
        IdCodec::Packed(bits @ 1..=32) => Ok((u64::from(shape.count) * u64::from(bits)).div_ceil(8)),
        IdCodec::Packed(_) => Err(IdFault::Bits),
        IdCodec::EliasFano => Ok(low_bytes(shape) + high_bits(shape).div_ceil(8)),
        IdCodec::Range => {
            let head = body.first_chunk::<8>().ok_or(IdFault::Short)?;
            let (base, span) = range_head(u64::from_le_bytes(*head));
            if span < u64::from(shape.count) || base + span > 1 << 32 {
                return Err(IdFault::Span);
            }
            Ok(RANGE_HEAD + span.div_ceil(8))
        }
    }
}

const fn range_head(head: u64) -> (u64, u64) {
    (low(head) as u64, head >> 32)
}

/// A column of ids in canonical form, read in place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdColumn {
    shape: IdShape,
    bytes: Bytes,
}

impl IdColumn {
    /// Takes `bytes`, the whole column without padding.
    ///
    /// # Errors
    /// [`IdFault`] names what is not canonical.
    pub fn decode(shape: IdShape, bytes: Bytes) -> Result<Self, IdFault> {
        let length = length(&shape, &bytes)?;
        match (bytes.len() as u64).cmp(&length) {
            core::cmp::Ordering::Less => return Err(IdFault::Short),
            core::cmp::Ordering::Greater => return Err(IdFault::Long),
            core::cmp::Ordering::Equal => {}
        }
        let column = Self { shape, bytes };
        column.check()?;
        Ok(column)
    }

    fn check(&self) -> Result<(), IdFault> {
        let count = u64::from(self.shape.count);
        match self.shape.codec {
            IdCodec::Packed(bits) => zero_tail(&self.bytes, count * u64::from(bits)),
            IdCodec::EliasFano => {
                let (lows, highs) = self.parts();
                zero_tail(lows, count * u64::from(low_bits(&self.shape)))?;
                zero_tail(highs, high_bits(&self.shape))?;
                if bits::ones(highs) == count { Ok(()) } else { Err(IdFault::Ones) }
            }
            IdCodec::Range => {
                let (_, span) = range_head(word(&self.bytes, 0));
                let bitmap = self.bitmap();
                zero_tail(bitmap, span)?;
                if !bits::get(bitmap, 0) || !bits::get(bitmap, span - 1) {
                    return Err(IdFault::Ends);
                }
                if bits::ones(bitmap) == count { Ok(()) } else { Err(IdFault::Ones) }
            }
        }
    }

    /// Elias-Fano: low parts and high string, each in whole bytes.
    fn parts(&self) -> (&[u8], &[u8]) {
        let at = usize::try_from(low_bytes(&self.shape)).unwrap_or(usize::MAX);
        self.bytes.split_at_checked(at).unwrap_or((&self.bytes, &[]))
    }

    fn bitmap(&self) -> &[u8] {
        self.bytes.get(8..).unwrap_or_default()
    }

    /// What the column was read by.
    #[must_use]
    pub const fn shape(&self) -> &IdShape {
        &self.shape
    }

    /// The column's bytes, without padding.
    #[must_use]
    pub const fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The ids, in the order written.
    #[must_use]
    pub fn iter(&self) -> Ids<'_> {
        let walk = match self.shape.codec {
            IdCodec::Packed(bits) => Walk::Packed { bytes: &self.bytes, bits: u32::from(bits), at: 0 },
            IdCodec::EliasFano => {
                let (lows, highs) = self.parts();
                Walk::EliasFano { lows, bits: low_bits(&self.shape), index: 0, highs: Ones::new(highs) }
            }
            IdCodec::Range => Walk::Range { base: low(word(&self.bytes, 0)), ones: Ones::new(self.bitmap()) },
        };
        Ids { walk, left: self.shape.count }
    }
}

impl IdColumn {
    /// The ids of [`IdColumn::iter`] at once, a word of the column at a time.
    #[must_use]
    pub fn to_shared(&self) -> Arc<[u32]> {
        let mut ids: Arc<[u32]> = core::iter::repeat_n(0, self.shape.count as usize).collect();
        match Arc::get_mut(&mut ids) {
            Some(ids) => self.read_all(ids),
            None => unreachable!("nobody else has what was made just now"),
        }
        ids
    }

    fn read_all(&self, ids: &mut [u32]) {
        match self.shape.codec {
            IdCodec::Packed(width) => bits::fields(&self.bytes, u32::from(width), ids),
            IdCodec::EliasFano => {
                let ((lows, highs), width) = (self.parts(), low_bits(&self.shape));
                bits::fields(lows, width, ids);
                let (mut ids, mut index) = (ids.iter_mut(), 0);
                bits::each_one(highs, |bit| {
                    // As many bits are set as there are ids.
                    if let Some(id) = ids.next() {
                        *id |= low((bit - index) << width);
                        index += 1;
                    }
                });
            }
            IdCodec::Range => {
                let (base, mut ids) = (low(word(&self.bytes, 0)), ids.iter_mut());
                bits::each_one(self.bitmap(), |bit| {
                    if let Some(id) = ids.next() {
                        *id = base.wrapping_add(low(bit));
                    }
                });
            }
        }
    }
}

impl<'a> IntoIterator for &'a IdColumn {
    type Item = u32;
    type IntoIter = Ids<'a>;
    fn into_iter(self) -> Ids<'a> {
        self.iter()
    }
}

fn zero_tail(bytes: &[u8], bits: u64) -> Result<(), IdFault> {
    if bits::tail_is_zero(bytes, bits) { Ok(()) } else { Err(IdFault::Tail) }
}

/// The ids of a column; allocates nothing.
#[derive(Clone, Debug)]
pub struct Ids<'a> {
    walk: Walk<'a>,
    left: u32,
}

#[derive(Clone, Debug)]
enum Walk<'a> {
    Packed { bytes: &'a [u8], bits: u32, at: u64 },
    EliasFano { lows: &'a [u8], bits: u32, index: u64, highs: Ones<'a> },
    Range { base: u32, ones: Ones<'a> },
}

impl Iterator for Ids<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        self.left = self.left.checked_sub(1)?;
        match &mut self.walk {
            Walk::Packed { bytes, bits, at } => {
                let id = field(bytes, *at, *bits);
                *at += u64::from(*bits);
                Some(id)
            }
            Walk::EliasFano { lows, bits, index, highs } => {
                let high = highs.next()? - *index;
                let id = (high << *bits) | u64::from(field(lows, *index * u64::from(*bits), *bits));
                *index += 1;
                Some(low(id))
            }
            Walk::Range { base, ones } => Some(base.wrapping_add(low(ones.next()?))),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

impl ExactSizeIterator for Ids<'_> {}

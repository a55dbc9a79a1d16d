//! Writing id columns.

use super::{IdCodec, IdColumn, IdFault, IdShape, high_bits, low_bits};
use crate::bits::{self, BitWriter, low};

/// A column and the codec it was written by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedIds {
    /// The codec.
    pub codec: IdCodec,
    /// The column, without padding.
    pub bytes: Vec<u8>,
}

/// Writes `ids` by the codec that needs the fewest bytes; at a tie the one of the lowest number.
///
/// # Errors
/// [`IdFault::Empty`] and [`IdFault::Order`]: what the caller gave is no id column.
pub fn encode(ids: &[u32], directory: u32) -> Result<EncodedIds, IdFault> {
    let shape = |codec| shape(codec, ids, directory);
    let last = ids.last().ok_or(IdFault::Empty)?;
    let width = u8::try_from(32 - last.leading_zeros()).unwrap_or(32).max(1);
    let (packed, elias, range) = (IdCodec::Packed(width), IdCodec::EliasFano, IdCodec::Range);
    let span = range_span(ids)?;
    let sizes = [
        (super::length(&shape(packed)?, &[])?, packed),
        (super::length(&shape(elias)?, &[])?, elias),
        (8 + span.div_ceil(8), range),
    ];
    let (_, codec) =
        sizes.into_iter().min_by_key(|(size, codec)| (*size, codec.number())).ok_or(IdFault::Empty)?;
    Ok(EncodedIds { codec, bytes: encode_as(codec, ids, directory)? })
}

/// Writes `ids` by `codec`.
///
/// # Errors
/// [`IdFault::Empty`], [`IdFault::Bits`], and [`IdFault::Order`] when the ids do not rise strictly, one is not below
/// `directory`, or one needs more bits than the codec has.
pub fn encode_as(codec: IdCodec, ids: &[u32], directory: u32) -> Result<Vec<u8>, IdFault> {
    let shape = shape(codec, ids, directory)?;
    let rising = ids.windows(2).all(|pair| pair.first() < pair.last());
    let last = *ids.last().ok_or(IdFault::Empty)?;
    if !rising || last >= directory {
        return Err(IdFault::Order);
    }
    let bytes = match codec {
        IdCodec::Packed(width @ 1..=32) if u64::from(last) >> width == 0 => packed(ids, width),
        IdCodec::Packed(1..=32) => return Err(IdFault::Order),
        IdCodec::Packed(_) => return Err(IdFault::Bits),
        IdCodec::EliasFano => elias_fano(ids, &shape),
        IdCodec::Range => range(ids)?,
    };
    debug_assert!(IdColumn::decode(shape, bytes.clone().into()).is_ok(), "what is written is canonical");
    Ok(bytes)
}

fn shape(codec: IdCodec, ids: &[u32], directory: u32) -> Result<IdShape, IdFault> {
    let count = u32::try_from(ids.len()).map_err(|_| IdFault::Order)?;
    if count == 0 || directory == 0 {
        return Err(IdFault::Empty);
    }
    Ok(IdShape { codec, count, directory })
}

fn packed(ids: &[u32], width: u8) -> Vec<u8> {
    let mut out = BitWriter::default();
    ids.iter().for_each(|id| out.push(*id, u32::from(width)));
    out.finish()
}

fn elias_fano(ids: &[u32], shape: &IdShape) -> Vec<u8> {
    let width = low_bits(shape);
    let mut lows = BitWriter::default();
    let mut highs = vec![0; usize::try_from(high_bits(shape).div_ceil(8)).unwrap_or(0)];
    for (index, id) in ids.iter().enumerate() {
        lows.push(*id, width);
        bits::set(&mut highs, u64::from(id >> width) + index as u64);
    }
    let mut bytes = lows.finish();
    bytes.append(&mut highs);
    bytes
}

fn range_span(ids: &[u32]) -> Result<u64, IdFault> {
    let (Some(first), Some(last)) = (ids.first(), ids.last()) else { return Err(IdFault::Empty) };
    last.checked_sub(*first).map(|span| u64::from(span) + 1).ok_or(IdFault::Order)
}

fn range(ids: &[u32]) -> Result<Vec<u8>, IdFault> {
    let span = range_span(ids)?;
    let first = ids.first().copied().unwrap_or(0);
    let mut bitmap = vec![0; usize::try_from(span.div_ceil(8)).map_err(|_| IdFault::Span)?];
    ids.iter().for_each(|id| bits::set(&mut bitmap, u64::from(id.saturating_sub(first))));
    // A span of 2^32 would not fit; ids end at 2^32 - 2.
    let span = u32::try_from(span).map_err(|_| IdFault::Span)?;
    let mut bytes = Vec::with_capacity(8 + bitmap.len());
    bytes.extend_from_slice(&low(u64::from(first)).to_le_bytes());
    bytes.extend_from_slice(&span.to_le_bytes());
    bytes.append(&mut bitmap);
    Ok(bytes)
}

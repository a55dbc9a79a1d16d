//! Pixels as people write them: `pixel X Y RRGGBB`, `rows FROM`.

use synod_service::lanes::text::{NotUnderstood, Words, common};

use crate::{SIDE, TILE_ROWS, operation};

/// Reads `pixel X Y RRGGBB`.
///
/// # Errors
/// [`NotUnderstood`] says what is expected.
pub fn parse(text: &str) -> Result<u64, NotUnderstood> {
    let mut words = Words::new(text, "pixel X Y RRGGBB: places below 2048 and six hexadecimal digits");
    if words.word()? != "pixel" {
        return Err(words.wrong());
    }
    let (x, y, colour) = (words.number()?, words.number()?, words.word()?);
    let digits = colour.len() == 6 && colour.bytes().all(|digit| digit.is_ascii_hexdigit());
    let colour = u32::from_str_radix(colour, 16).ok().filter(|_| digits);
    words.end(colour.and_then(|colour| operation(x, y, colour)))
}

/// Writes an operation as [`parse`] reads it; `None` when its bits are malformed.
#[must_use]
pub fn show(asked: u64) -> Option<String> {
    let (x, y, colour) = (asked & 0x7ff, asked >> 11 & 0x7ff, asked >> 22);
    (colour >> 24 == 0).then(|| format!("pixel {x} {y} {colour:06x}"))
}

/// The question for the rows from `from` on, [`TILE_ROWS`] of them, that [`PixelLanes`](crate::PixelLanes) answers; `None`
/// below the board.
#[must_use]
pub fn rows(from: u32) -> Option<Vec<u8>> {
    let from = u16::try_from(from).ok().filter(|from| u32::from(*from) < SIDE)?;
    Some(from.to_le_bytes().to_vec())
}

/// Reads `rows FROM`.
///
/// # Errors
/// [`NotUnderstood`] says what is expected.
pub fn question(text: &str) -> Result<Vec<u8>, NotUnderstood> {
    let mut words = Words::new(text, "rows FROM, below 2048");
    if words.word()? != "rows" {
        return Err(words.wrong());
    }
    let from = words.number()?;
    words.end(rows(from))
}

/// The questions for the whole board, from its top down.
pub fn board() -> impl Iterator<Item = Vec<u8>> {
    (0..SIDE).step_by(TILE_ROWS as usize).filter_map(rows)
}

/// What a code says.
#[must_use]
pub const fn code(byte: u8) -> &'static str {
    match byte {
        0 => "painted",
        1 => "malformed",
        other => match common(other) {
            Some(words) => words,
            None => "unknown",
        },
    }
}

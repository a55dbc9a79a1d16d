//! The board over lanes: strokes go to the lane of their rows, which keeps the highest (chopchop 4.10).

use core::ops::Range;

use synod_service::lanes::{Cell, Cells, Entry, Extent, Home, LaneApp, LaneTurn, NEAR, State};
use synod_wire::Bytes;

use crate::board::{Code, SIDE};

/// Pixels of the board.
const PIXELS: u64 = SIDE as u64 * SIDE as u64;
/// Places in a word of a set.
const WORD: usize = u64::BITS as usize;

/// A colour on its way to a pixel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stroke {
    id: u32,
    place: u32,
    colour: u32,
}

/// The rules of the board, for lanes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PixelLanes;

impl PixelLanes {
    fn send(turn: &mut LaneTurn<'_, Self>) {
        let pixels = turn.layout().space(0);
        let (mut entries, mut piece) = (turn.entries(), Vec::with_capacity(NEAR));
        while entries.piece(&mut piece) {
            piece.iter().for_each(|entry| Self::send_one(turn, &pixels, entry));
        }
    }

    fn send_one(turn: &mut LaneTurn<'_, Self>, pixels: &Extent, entry: &Entry) {
        let place = entry.operation & 0x3f_ffff;
        let colour = entry.operation >> 22;
        if let (Ok(place), Ok(colour), 0) =
            (u32::try_from(place), u32::try_from(colour), entry.operation >> 46)
        {
            let stroke = Stroke { id: entry.id, place, colour };
            turn.post(pixels.lane(u64::from(place)), stroke);
            turn.answer(entry.index, Code::Painted.byte());
        } else {
            turn.answer(entry.index, Code::Malformed.byte());
        }
    }

    /// Pixels are painted as strokes come; only strokes that share a pixel are sorted, however many they are, and paint it
    /// again. Which pixels have strokes is a bit each, which a cache holds.
    fn paint(turn: &mut LaneTurn<'_, Self>) {
        let words = turn.shard.all().len().div_ceil(WORD);
        let (mut once, mut often, mut is_contested) = (vec![0_u64; words], vec![0_u64; words], false);
        for (piece, next) in turn.mail() {
            turn.shard.near(next.iter().map(|stroke| u64::from(stroke.place)));
            for stroke in piece {
                let place = turn.shard.place(u64::from(stroke.place));
                let (at, bit) = (place / WORD, 1 << (place % WORD));
                if let (Some(pixel), Some(once)) = (turn.shard.get_mut(place), once.get_mut(at)) {
                    if *once & bit == 0 {
                        *pixel = stroke.colour;
                    } else if let Some(often) = often.get_mut(at) {
                        *often |= bit;
                        is_contested = true;
                    }
                    *once |= bit;
                }
            }
        }
        if !is_contested {
            return;
        }
        let mut contested = Vec::new();
        for stroke in turn.mail().flat_map(|(piece, _)| piece) {
            let place = turn.shard.place(u64::from(stroke.place));
            if often.get(place / WORD).is_some_and(|often| often >> (place % WORD) & 1 == 1) {
                contested.push((stroke.place, turn.at().rank(stroke.id), stroke.colour));
            }
        }
        contested.sort_unstable();
        for (place, _, colour) in contested {
            let place = turn.shard.place(u64::from(place));
            if let Some(pixel) = turn.shard.get_mut(place) {
                *pixel = colour;
            }
        }
    }
}

impl LaneApp for PixelLanes {
    const STEPS: usize = 2;
    const CELLS: &'static [usize] = &[u32::BYTES];
    const HOME: Home = Home::Anywhere;
    type Shard = Cells<u32>;
    type Mail = Stroke;

    fn lens(&self, _: u32) -> Vec<u64> {
        vec![PIXELS]
    }

    fn open(&self, _: &mut Cells<u32>, _: usize, _: Range<u64>) {}

    fn step(&self, step: usize, turn: &mut LaneTurn<'_, Self>) {
        if step == 0 { Self::send(turn) } else { Self::paint(turn) }
    }

    /// Rows `from..from + 8`, which two bytes name, as three bytes per pixel: red, green, blue; empty below the board.
    fn query(&self, state: &State<Self>, question: &[u8]) -> Option<Bytes> {
        let from = u32::from(u16::from_le_bytes(question.try_into().ok()?));
        let mut out = Vec::new();
        for y in from..(from + TILE_ROWS).min(SIDE) {
            let rows = (0..SIDE).filter_map(|x| colour(state, x, y));
            rows.for_each(|colour| out.extend_from_slice(&colour.to_be_bytes()[1..]));
        }
        Some(out.into())
    }

    fn invariants(&self, state: &State<Self>) {
        let bits = |cells: &Cells<u32>| cells.all().iter().fold(0, |bits, pixel| bits | pixel);
        assert!(state.shards().iter().all(|cells| bits(cells) >> 24 == 0), "a pixel is a colour of 24 bits");
    }
}

/// Rows that one question asks for: 48 KiB.
pub const TILE_ROWS: u32 = 8;

/// The colour of (x, y); `None` beside the board.
#[must_use]
pub fn colour(state: &State<PixelLanes>, x: u32, y: u32) -> Option<u32> {
    if x >= SIDE || y >= SIDE {
        return None;
    }
    let key = u64::from(y) * u64::from(SIDE) + u64::from(x);
    let shard = state.shard(0, key)?;
    shard.get(shard.place(key)).copied()
}

//! A board of pixels: the last in the agreed order wins.
//!
//! Bits 0 to 10 are x, 11 to 21 y, 22 to 45 the colour, the rest zero. The board is 2,048 by 2,048. Of the operations of
//! one batch on one pixel the one of the highest rank wins, whatever order the batch lists them in.
//!
//! Two forms of one thing: [`Board`] executes a batch in one go and is the oracle of [`PixelLanes`], which lanes execute at
//! once.
//!
//! *Invariant.* The board is what a replay of the log gives.
//! *Bounds.* 16 MiB; a malformed operation changes nothing and yields a code.

mod board;
mod lanes;
#[cfg(test)]
mod tests;
pub mod text;

pub use board::{Board, Code, SIDE, operation};
pub use lanes::{PixelLanes, Stroke, TILE_ROWS, colour};

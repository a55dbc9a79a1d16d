//! What corrupted servers, brokers and clients do beyond what needs no protocol.

mod cards;
mod cheat;
mod craft;
mod frames;
mod liar;
mod rogue;
mod within;

pub(super) use frames::{Corrupted, of};
use frames::{say, sealed};
pub(super) use within::bare;

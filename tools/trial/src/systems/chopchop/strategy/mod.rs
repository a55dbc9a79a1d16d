//! What corrupted servers, brokers and clients do beyond what needs no protocol.

mod cheat;
mod craft;
mod frames;
mod liar;
mod rogue;

pub(super) use frames::of;
use frames::{say, sealed};

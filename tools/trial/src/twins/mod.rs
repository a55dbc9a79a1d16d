//! Twins: two machines with one key, and every way to join them to the others, round by round (B5).
//!
//! *A round* has a leader, the pair or one of the three others, and for each of the others whom it hears: the first
//! twin's side, the second's, or both. Two members speak with each other when they share a side, so the sides overlap
//! where somebody hears both. That makes 4 x 27 rounds; see [`orbits`] for which scripts count as one.
//!
//! *An index is a script.* [`scenario`] is a pure function of system and index. Three of four indices count through all
//! scripts of one round, then of two, three and four, each exactly once; the fourth draws one of 5 to 12 rounds, and so
//! do all indices behind the last script of four rounds. [`enumerate`] runs indices from a number on.
//!
//! *How it is played.* Rounds are views, not times: `masks` looks at the view of each frame. When all rounds are over
//! the network is whole and ten more decisions are due; every oracle watches, as in every run.

mod enumerate;
mod masks;
pub mod orbits;
mod pairs;
mod play;
mod scenario;

pub use enumerate::{HuntReport, Order, TwinsReport, enumerate, hunt};
pub(crate) use masks::masks;
pub(crate) use pairs::{PAIRS, pairs, way};
pub(crate) use play::play;
pub use scenario::{EXHAUSTIVE, Script, is_script, scenario, script};

/// Most rounds of a script.
pub const ROUNDS_MAX: u64 = 12;
/// Rounds up to which all scripts are enumerated.
pub const ROUNDS_WHOLE: u32 = 4;
/// Members of a script.
pub const MEMBERS: u32 = 4;

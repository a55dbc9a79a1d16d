//! The systems by name.

/// The systems that campaigns draw.
pub const SYSTEMS: [&str; 2] = ["chopchop/ideal", "chopchop/hotstuff"];
/// The system over uBFT: without liars among servers and brokers, so no campaign counts on what it reaches.
pub const OVER_UBFT: &str = "chopchop/ubft";

/// Whether a system is one of them.
#[must_use]
pub fn is(system: &str) -> bool {
    SYSTEMS.contains(&system) || system == OVER_UBFT
}

//! The systems by name.

/// The systems.
pub const SYSTEMS: [&str; 2] = ["chopchop/ideal", "chopchop/hotstuff"];

/// Whether a system is one of them.
#[must_use]
pub fn is(system: &str) -> bool {
    SYSTEMS.contains(&system)
}

//! The systems by name.

/// The systems.
pub const SYSTEMS: [&str; 1] = ["ubft/smr"];

/// Whether a system is one of them.
#[must_use]
pub fn is(system: &str) -> bool {
    SYSTEMS.contains(&system)
}

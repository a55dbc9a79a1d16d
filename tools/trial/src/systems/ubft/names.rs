//! The systems by name.

/// Replicas with all that is over them.
pub const SMR: &str = "ubft/smr";
/// Consistent Tail Broadcast alone.
pub const CTB: &str = "ubft/ctb";
/// The systems.
pub const SYSTEMS: [&str; 2] = [SMR, CTB];

/// Whether a system is one of them.
#[must_use]
pub fn is(system: &str) -> bool {
    SYSTEMS.contains(&system)
}

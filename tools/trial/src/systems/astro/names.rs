//! The systems by name, and what each runs.

use synod_astro::Profile;

/// The systems of a soak of Astro.
pub const SYSTEMS: [&str; 5] = ["astro/ii-f", "astro/i", "astro/ii", SHARDS, VIEWS];

/// The system of several shards.
pub const SHARDS: &str = "astro/shards";

/// The system of members that come and go.
pub const VIEWS: &str = "astro/views";

/// Whether a system is one of them.
#[must_use]
pub fn is(system: &str) -> bool {
    SYSTEMS.contains(&system)
}

/// The payment system that a system runs.
#[must_use]
pub fn profile(system: &str) -> Profile {
    match system {
        "astro/i" => Profile::I,
        "astro/ii" => Profile::II,
        _ => Profile::Funded,
    }
}

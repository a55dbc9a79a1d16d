//! The formats of the ideal broadcast and of the application, watched by hashes in `conformance.toml`.

use super::keeper::Kept;
use super::order::{Numbered, Rooted, Say};

synod_wire::conformance!(Kept, Numbered, Rooted, Say,);

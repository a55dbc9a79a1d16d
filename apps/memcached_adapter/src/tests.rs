//! Formats of what is kept.

use crate::snapshot::Header;

synod_wire::conformance!(Header);

//! Formats of what travels and of what is kept.

use crate::snapshot::Header;
use crate::{Command, Operation};

synod_wire::conformance!(Command, Header, Operation);

//! Formats of what a node keeps beside the replica, and of what its pages go on from.

use crate::pay::Cursor;
use crate::pay::cuts::KeptCut;
use crate::pay::statement::Stood;

synod_wire::conformance!(Cursor, KeptCut, Stood);

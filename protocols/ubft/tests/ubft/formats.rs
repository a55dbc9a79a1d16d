//! Formats that replicas and operators rely on.

use synod_ubft::Statement;
use synod_ubft::ctb::{Message, Told, TwoMessages};
use synod_ubft::registers::MemoryWords;

synod_wire::conformance!(Statement, Told, TwoMessages, Message, MemoryWords);

//! The RESP listener: sockets around [`crate::resp::Connection`].
//!
//! One task and one lane per connection. The commands that one read completes become one [`synod_host::Call`] of
//! at most 1,024 operations and one frame's bytes, and while writes are in flight all that arrive become the next one;
//! replies keep the order of the commands and leave in one write per turn. Reads are carried out as the listener was told (`--read`), except behind a write of the same
//! connection, where they are ordered.
//!
//! *Bounds.* Input is read into one buffer per thread; what a connection holds is its unfinished command, its
//! unanswered operations and its unsent replies, bounded by [`crate::resp::Limits`] and drawn from
//! [`crate::Budget`]. A command that takes more than 10 s to arrive, or 5 s with full output, closes the
//! connection. Every operation is answered by its deadline: without an outcome with `-UNKNOWN SYN-3501`.

mod client;
mod outcome;
mod server;

pub(crate) use outcome::reply_code;
pub use server::{RespServer, RespSettings};

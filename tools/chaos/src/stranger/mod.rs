//! Hand-made connections to a node: what an attacker says, byte by byte, instead of what the runtime would.
//!
//! *What.* [`Shown`] is what a client shows in TLS, true or not. [`Line`] speaks TLS and frames over a socket, counts
//! bytes and says how the other side ended it. [`Card`] is what the words of the handshake are filled with.
//!
//! *Why.* The runtime cannot misbehave, so a runtime that attacks shows little. Nothing here shares a rule with the
//! code under attack but the encoding of its words.
//!
//! *Bounds.* One frame of at most 16 MiB is assembled at a time; each read and write waits as long as its caller says.

mod card;
mod line;
mod shown;

pub use card::{Card, hear, link, member_link, tell, verdict};
pub use line::{End, Line};
pub(crate) use line::{alert, client_session};
pub use shown::{Shown, TLS12, TLS13, client, draw_seed, server};
pub(crate) use shown::{raw_key, signing};

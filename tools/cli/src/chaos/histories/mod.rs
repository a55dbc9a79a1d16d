//! A share of the load whose every operation is kept, and judged: is all of it linearizable?
//!
//! *What.* Clients of three kinds (verified ones, one behind `synod proxy`, one behind the gateway of each member) put, read,
//! remove, increment and put conditionally on the same few keys, one operation after the other. Each goes through rounds of
//! keys of their own, so a history is short and is judged, and forgotten, once all clients have left its round.
//!
//! *Bounds.* Clients are at most two rounds apart; a round is 24 operations of each.

mod book;
mod client;
mod resp;
mod run;

pub(crate) use run::Histories;

//! RESP2 and RESP3: parser, renderer, and the state machine of one connection. Pure: no socket, no clock.
//!
//! *What it gives.* [`Connection`] takes the bytes that a client sent and gives [`Ask`]s, each one operation of
//! the key-value store, ordered or not; it takes [`Answer`]s in any order and gives the bytes to send, replies in
//! the order of the commands. Connection commands (HELLO, AUTH, CLIENT, ...) are answered here. MULTI to EXEC
//! becomes one operation, with the versions that WATCH read.
//!
//! *Order.* A read is unordered (a quorum read) only while no ordered operation of this connection is
//! unanswered and none follows in the same burst; a write waits until unordered reads before it are answered.
//! Ordered operations leave one frame at a time: what arrives while a frame is unanswered is gathered into the next
//! one, for frames in flight together are executed in any order. So a pipeline writes in its order, reads what it wrote,
//! and never what it writes later. Behind an operation whose outcome is unknown nothing waits any more: it may still
//! take effect, and later than what follows it.
//!
//! *Whose commands* ([`Store`]). In front of a replicated Redis server all commands that it allows are passed on, each ordered, and a burst
//! is one operation.
//!
//! *Limits* ([`Limits`]). Lengths are refused when they are announced, before anything is kept for them; memory
//! grows with received bytes only. After a refusal of the protocol the connection sends what it owes and closes.
//!
//! *Use.* Feed [`Connection::receive`] while [`Connection::wants_input`]; submit what [`Connection::take_asks`]
//! gives; hand results to [`Connection::answer`]; write [`Connection::output`] and report
//! [`Connection::sent`]; close when [`Connection::is_finished`] or [`Connection::overdue`] says why.

mod catalogue;
mod connection;
mod exchange;
mod foreign;
mod limits;
mod local;
mod multi;
mod parser;
mod render;
mod replies;
#[cfg(test)]
mod tests;

pub use connection::Connection;
pub use exchange::{Answer, Ask, Now, Overdue, Settings, Store, Trust};
pub use limits::Limits;
pub use parser::{Arguments, Parser, Refused};
pub use render::{Protocol, render};
pub use replies::Slot;

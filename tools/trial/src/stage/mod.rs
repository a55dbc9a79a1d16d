//! Directed runs: a test says which message reaches whom, and reads afterwards what each member did.
//!
//! *What it gives.* A [`Stage`] runs a scenario's world step by step, with every oracle watching. Rules decide about
//! each message of an honest member: it passes, is lost, or comes later; that is the network's doing, so the member
//! stays honest, and healing ends it. A corrupted member may also say other things, signed with its own key. The
//! [`Diary`] holds what happened, so that a test can assert that its subject really came about.
//!
//! *Bounds.* A diary keeps every event of its run: for runs of some thousand blocks at most. Rules decode each message
//! once more.

mod diary;
mod direct;
mod play;

pub use diary::{Diary, Entry, Event, What, Why};
pub use direct::{Fate, Pen, Sent, Tally};
pub use play::Stage;

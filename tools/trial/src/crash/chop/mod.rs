//! Crash points of Chop Chop: servers with store and application, clients, and brokers.
//!
//! *What it gives.* One fixed conversation per ordering layer, with a sign-up, checkpoints, and a server and a broker that
//! fall silent for a while. Each server and each client crashes at every boundary between two of its effects, with every
//! outcome of its disk, and comes back alone. Then it is asked about everything it said before, and tempted to say
//! something else: a client is shown other numbers and given other messages; a server over the ideal ordering is told
//! that other items were ordered than those it had not written down yet. Over HotStuff the conversation goes on as it
//! was: what replicas promise to each other is enumerated as their own system. A broker promises nothing; it falls and comes back in
//! the whole world, which goes on.
//!
//! *What must hold.* No two statements of one conflict key (X4): a client's number, a height. No statement without its
//! record (X3). What was witnessed is still handed out (C-S6); what was delivered, marked or answered is not taken back
//! (C-S1, C-S8).
//!
//! *Bounds.* The conversation of one system in memory; one node at a time per job.

mod broker;
mod client;
mod frames;
mod judge;
mod node;
mod order;
mod server;
mod talk;

pub(super) use node::{again, one};

#[cfg(test)]
mod tests;

//! HotStuff: one core of block tree, certificates and pacemaker with several rule packs.
//!
//! *What it gives.* [`Replica`] satisfies `AtomicBroadcast`: payloads in one agreed order at all correct members
//! (Safety 2.2.1), every payload of a correct member ordered once the network behaves (Liveness 2.2.2), at the speed of
//! the network with correct leaders (Optimistic responsiveness 2.2.3).
//!
//! *Model.* n members of total power P, of which power F = (P - 1) / 3 may do anything; partial synchrony; links
//! authenticated by the runtime.
//!
//! *Packs.* `chain2+order` (default: two chained blocks, or order votes for a certified one), `chain2`, `chain3` (the
//! paper's chained algorithm, 3.2.1), `basic` (2.2.3); for the lab `hs2`, `naive2` and `paper`, which show why the others
//! are as they are. They differ in [`rules`] and nowhere else.
//!
//! *Deviations, vocabulary, line map.* `docs/papers/hotstuff.md`.
//!
//! *Bounds.* Memory is the formula of `bytes_max`; votes are kept for the previous and the current view and one beyond
//! them; block sync asks for at most four ranges at a time.

mod batch;
mod block;
mod certificate;
mod chain;
mod checkpoint;
mod config;
mod fault;
mod filter;
#[cfg(test)]
mod formats;
mod job;
mod leader;
mod message;
mod outbox;
mod pacemaker;
mod pool;
mod proof;
mod proven;
mod record;
mod replica;
pub mod rules;
mod serve;
mod statement;
mod sync;
mod trace;
mod tree;
mod view;
mod votes;

pub use block::{Body, Header, Item, Standing};
pub use certificate::{Anchor, CheckpointCert, Complaint, Qc, Tc};
pub use config::{Complaints, Config, Filter, Identity, Invalid, Parameters, Votes};
pub use fault::Fault;
pub use job::Job;
pub use leader::Leaders;
pub use message::{Blocks, Message, Piece, Proof, Status, Want};
pub use proof::{CommitProof, Commitment, EntryProof};
pub use record::{Mark, Record, Safety, Stopped, Why};
pub use replica::{Choice, Configured, Replica, Seen, Timer};
pub use rules::Pack;
pub use statement::{Attested, Kind, Statement};
pub use trace::{Note, NoteName, Rule};
pub use view::{Terms, View};

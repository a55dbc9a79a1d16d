//! Astro: payments by broadcast, without consensus.
mod batch;
mod config;
mod fault;
mod job;
mod ledger;
mod replica;
mod trace;
mod words;
mod xlog;

pub use batch::{Auth, Batch, Batches, EntryProof, Header, Line, OPENINGS_MAX, Opened};
pub use config::{Config, LINE_BYTES_MAX, Parameters, WINDOW_MAX};
pub use fault::Fault;
pub use job::{Done, Job, Purpose};
pub use replica::{Channel, Replica};
pub use trace::Rule;
pub use words::{Authorized, Draft, Input, Level, Message, Output, Receipt, Record, Refusal, Settled, Timer};

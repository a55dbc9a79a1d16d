//! A replica: consensus of its epoch, and around it what requests are: sessions, who heard what, execution, replies.
//!
//! *Protocol.* A client sends its request to all. A follower says to the leader that it heard it; one that all heard, or that its client
//! signed, is proposed, as many together as wait. A replica vouches for a batch if it heard each request itself, or its client signed it,
//! or it is certain to do nothing. Batches are executed in the order of slots; each request once. f + 1 equal results are believed.
//!
//! *The seam.* [`Consensus`] agrees on batches of one epoch and knows no requests, sessions or clients; everything else here knows no
//! stream, view change or certificate. Two people can work on the two.
//!
//! *Epochs.* Consensus is of one epoch. A replica that was started again is in none ([`Output::Ready`] says so) and keeps silent; the order says
//! where the epoch ends and that the next one lists it. Whoever is behind takes the log, or a snapshot where the log is gone.
//!
//! *What is not built, and refused.* Operations above `request_inline_max` are not taken. `merge_promises` is no setting.
//!
//! *Bounds.* [`Replica`] keeps within its `bytes_max`.

mod admit;
mod archive;
mod bounds;
mod certify;
mod changes;
mod checkpoint;
mod commit;
mod consensus;
mod execute;
mod fetch;
mod install;
mod job;
mod judge;
mod membership;
mod merge;
mod new_view;
mod own;
mod pace;
mod pending;
mod promise;
mod propose;
mod seal;
mod shares;
mod snapshots;
mod state;
mod summary;
mod suspect;
mod transfer;
mod vocabulary;
mod words;
mod work;

pub use consensus::Consensus;
pub use fetch::WANTS_MAX;
pub use job::{Finished, Task};
pub use state::Replica;
pub use vocabulary::{
    ChangeFor, ClientFor, Done, Incarnation, Input, Job, Output, ReplicaConfig, Requested, Timer,
};
pub use words::{Alarm, Ask, PIECE_MAX, Summary, Told, WORD_QUEUES, Want, Word};

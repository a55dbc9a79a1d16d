//! A replica whose members come and go while payments go on (specification 4.11, 4.12).
//!
//! *What it gives.* A [`Member`] hosts a [`Replica`](crate::Replica) in the view that is current, and the machine that changes views
//! ([`crate::views`]) beside it. When a view is over the replica stops and tells what it keeps; when the states of a quorum are here, a replica
//! takes its place that goes on in the next view from what this one had and what the states tell. No order that a certificate stands behind is
//! lost, and nothing settles twice (A-S9, A-S1).
//!
//! *How.* Every word, timer, job and job's answer of the replica carries the number of its view, and one comparison lets it pass: what is of
//! another view never reaches the replica. Entering a view is a restart with other keys: one record ([`Entered`](crate::views::Entered)) says what the
//! states came to, and the same log leads to the same replica.
//!
//! *A node that joins* has the accounts of the genesis, and takes all slots that were certified from members, with the certificates of the views in
//! which they were made. It endorses nothing before it has them. So it joins only while lanes are no longer than half of what members keep.
//!
//! *Deviations.* While a member catches up to the tips that states name, certificates of older views settle what is below them. Above, they
//! decide between two payloads and settle nothing.
//!
//! *Not built*: accounts whose owners sign, unless they are trusted ([`Config::trusts_owners`]), profiles but II-F, cuts and other shards beside views that change: such a configuration is refused.
//!
//! *Bounds.* Those of the replica and of the machine of views, and what the last states told.

mod enter;
mod job;
mod machine;
mod recover;
mod words;

pub use job::{Carried, Done, Job};
pub use machine::{Config, Member, Network};
pub use words::{Input, Message, Output, Record, Timer};

//! The replicas of a payment system in this process, with customers who pay each other as fast as they are let.
//!
//! *What is real.* `Replica` of profile II-F over `SignedBroadcast` as nodes run them, or of profile I over `Bracha` or II, every job they ask for with real keys,
//! frames encoded for each peer and decoded by it, customers of all institutions, orders judged and settled; with [`Journals`] the disk as well: what a
//! replica says waits until what it promised before is synced. *What is not.* No
//! socket, no TLS, no index and, without journals, no disk: then records are dropped, batches are kept in memory. So figures made here are of the
//! replicas' own work, and are to be named so.
//!
//! *Threads.* A replica has one for its machine, its jobs and its customers; customers who sign have one of their own, beside that of
//! their institution. Each has a name, so that `/proc` tells what it used.
//!
//! *Shards* are side by side in this process, each with its institutions, and their members know each other as guests.
//!
//! *Audit.* After the clock everything on its way settles: every payment that was taken, once, at every replica of its shard, with equal
//! books in which as much was paid as was received, left for other shards or waits for who was paid; what left came.
//!
//! *Bounds.* Payments on their way, per replica.

mod audit;
mod bank;
mod channel;
mod counted;
mod hosting;
mod journals;
mod model;
mod orders;
mod owners;
mod plan;
mod prices;
mod reference;
mod replicas;
mod seat;
pub mod smallbank;
#[cfg(test)]
mod tests;

pub use audit::Kept;
pub use bank::Bank;
pub use counted::counted;
pub use journals::{Journals, Written};
pub use model::{Counts, model};
pub use plan::{Ownership, PayPlan, Workload};
pub use prices::Prices;
pub use reference::reference;
pub use replicas::{Paid, run};
pub use synod_astro::{Profile, Verify};
pub use synod_journal::SyncMode;

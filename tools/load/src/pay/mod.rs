//! The replicas of a payment system in this process, with customers who pay each other as fast as they are let.
//!
//! *What is real.* `Replica` of profile II-F over `SignedBroadcast` as nodes run them, every job they ask for with real keys,
//! frames encoded for each peer and decoded by it, customers of all institutions, orders judged and settled. *What is not.* No
//! socket, no TLS and no disk: records are dropped, batches are kept in memory. So figures made here are of the replicas' own
//! work, and are to be named so.
//!
//! *Threads.* A replica has one for its machine, its jobs and its customers; customers who sign have one of their own, beside that of
//! their institution. Each has a name, so that `/proc` tells what it used.
//!
//! *Audit.* After the clock everything on its way settles: every payment that was taken, once, at every replica, with equal books
//! in which as much was paid as was received.
//!
//! *Bounds.* Payments on their way, per replica.

mod bank;
mod owners;
mod prices;
mod reference;
mod replicas;
mod seat;
pub mod smallbank;

pub use bank::{Bank, Ownership, PayPlan};
pub use prices::Prices;
pub use reference::reference;
pub use replicas::{Paid, run};
pub use synod_astro::Verify;

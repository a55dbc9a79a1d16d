//! The overdraft of section 4.4 of the specification, in profile II-F (T11): an owner who lies has 100 and signs entries for three
//! places on every chain that they can form, and a representative who lies puts them into its lane.
//!
//! *Machines.* Three real replicas with toy signatures; the fourth member is the liar. A step is an event and all that follows inside
//! the machine. The liar shows every batch to all; before each, the owner may hand entries to members, whose own batches are lost.
//!
//! *State.* The batches so far and what was handed to whom before which: members hear nothing else, so their states follow, and each
//! history of a member is played once.
//!
//! *End.* Behind the third batch the liar adds its own signature wherever it helps. No place has two certified entries, and what is
//! certified, ancestors counted, spends no more than there is (A-S3). Then every certificate reaches everybody, who pull what they
//! lack: no two settle different entries of one place (A-S1), and nobody settles more than there is (A-S6).
//!
//! *Control.* Without a look at `prev` (A17) members on different chains certify (1: 60), (2: 40), (3: 39): 139 of 100.

mod cast;
mod member;
mod overdraft;

pub use overdraft::{CONTROLS, Instance, explore, standard};

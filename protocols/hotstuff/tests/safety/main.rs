//! Safety tests of the HotStuff replica, written against its specification: each is named after the promise it
//! checks, and says which one it is.
//!
//! Most drive one replica among puppets that hold real keys and say what the test makes them say; conversations,
//! counts and random schedules run all members. [`world`] hosts both.

mod world;

mod attest;
mod behind;
mod counts;
mod coverage;
mod delivery;
mod deviations;
mod docs;
mod domains;
mod evidence;
mod gaps;
mod golden;
mod liar;
mod promises;
mod proofs;
mod reconfiguration;
mod rejoin;
mod rules;
mod signers;

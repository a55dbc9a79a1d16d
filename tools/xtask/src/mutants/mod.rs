//! `mutants`: changes to the core and the protocols that a test must notice.
//!
//! cargo-mutants lists every change it knows; the commit chooses which are tried. Each is made in a copy of the tree below
//! `target/mutants`, one copy per job, never in the checkout. A copy keeps its own build, so that the next mutant, and
//! the next gate, compile only what differs; this is why cargo-mutants, which copies the tree for every run and has one
//! test command for all of them, only lists. The suite is the crate's own tests, then 60 seeds and the crash points of the
//! protocol. It must pass without any mutant first.
//!
//! A mutant that does not compile counts for nothing, and the next one is tried. One that hangs is caught. Every mutant
//! that was ever tried is a line of `docs/score/mutants.jsonl`; the score is over the last 200 different ones.

mod copy;
mod list;
mod past;
mod run;
mod suite;

pub(crate) use list::mixed;
pub(crate) use run::run;

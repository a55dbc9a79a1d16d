//! The binary from outside: every verb as a user runs it.
#![expect(clippy::panic, reason = "a test says what it saw and fails")]

mod bench;
mod book;
mod chop;
mod chop_ubft;
mod clusters;
mod conflicts;
mod customers;
mod demo;
mod documents;
mod exits;
mod files;
mod live;
mod members;
mod pay;
mod pay_audit;
mod pay_many;
mod pay_proofs;
mod pay_terms;
mod recovery;
mod rig;
mod score;
mod scrape;
mod shards;
mod surface;
mod ubft;
mod ubft_apps;
mod ubft_asked;
mod ubft_bench;
mod ubft_liars;
mod wallet;
mod webhooks;

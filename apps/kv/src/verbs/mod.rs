//! The commands. Reads take the store as it is; writes may change it; both answer or are refused as a whole.
//!
//! A refused command has changed nothing: every writer checks its arguments before its first change.

mod dispatch;
mod hashes;
mod keys;
mod lists;
mod parse;
mod sets;
mod sorted;
mod strings;

pub(crate) use dispatch::{Writing, read, write};

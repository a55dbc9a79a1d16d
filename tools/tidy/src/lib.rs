//! Checks of structure and style that run as a test.
//!
//! What it gives: [`Tree::load`] reads a checkout, [`check()`] applies every rule to it and returns
//! [`Finding`]s. A refusal fails `cargo test --workspace`; a warning is printed.
//!
//! Why a program: layer edges, the dependency table, sizes, words, links and purity are promises a
//! reviewer forgets to look at. Each rule lives in its own module with samples it must refuse and
//! samples it must accept, so that a rule which can no longer fail is noticed.
//!
//! Bounds: the tree is read once and kept in memory; a text file above 4 MiB is refused. Sources are
//! scanned by a small tokeniser (comments, strings, raw strings, characters, lifetimes), not parsed;
//! what the compiler and clippy already see is left to them.

pub mod check;
pub mod finding;
pub mod items;
pub mod manifest;
pub mod rule;
pub mod scan;
pub mod tree;

pub use check::check;
pub use finding::{Finding, Level};
pub use scan::Source;
pub use tree::{Rust, Tree};

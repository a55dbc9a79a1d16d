//! The papers' experiments, run in the simulator with charged costs, with the papers' numbers beside.
//!
//! *What it gives.* A [`Recipe`] has an id such as `astro/5` and a question of its paper. It runs real machines in virtual time under
//! [`Circumstances`], and gives a [`Figure`]: series, anchors (numbers in the paper's text; curves are never guessed from images), what is
//! expected and whether it held, and what differs from the paper. [`svg::draw`] makes a picture of it.
//!
//! *What is charged.* Links have the delays of four European regions and nodes a rate at which they send; events, frames, bytes and every
//! signature of a job have a price ([`Prices2020`](circumstances::PriceList)). The simulator charges nothing for the work of a handler, so what a
//! payment costs beside is charged by the byte that it comes in. All figures are *simulated*.
//!
//! *Bounds.* A recipe ends after its virtual time; nothing waits for anything.

pub mod astro;
pub mod circumstances;
pub mod figure;
pub mod hotstuff;
pub mod joins;
pub mod recipes;
pub mod slow;
pub mod svg;
pub mod timeline;

pub use circumstances::{Circumstances, PriceList, Scale};
pub use figure::{Anchor, Expectation, Figure, Series};
pub use recipes::{RECIPES, Recipe, find};

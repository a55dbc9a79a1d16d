//! A register of two sub-registers, its owner who WRITEs and somebody who READs, word by word in every order (uBFT, section 6.1).
//!
//! *Algorithms.* Those of production, over words that tell which one is next: the stores of a WRITE are taken from the real owner, a READ is
//! run again from its start for each of its loads. Words that are the same in all values are no steps. Each access may come any time
//! after the one before it, or never, which is a crash of the owner, or a reader that stands still between halves.
//!
//! *Order.* What is stored is seen at once. Weaker orders, and every fence by itself, are explored by the tests of `core/tail`.
//!
//! *Time.* A clock in ticks, of which the cooldown is four; it may tick at any point.
//!
//! *Judged.* U-S6: a READ gives the last completed WRITE or a concurrent one, whole, and a quick one has a verdict. X6: the owner is never to
//! blame.
//!
//! *Controls.* Two bugs that an instance puts in itself: one valid half after a slow READ (V5, E36), and an owner without a cooldown (U16).

mod run;
mod words;
mod writing;

pub use run::{CONTROLS, Instance, SMALL, explore, standard};

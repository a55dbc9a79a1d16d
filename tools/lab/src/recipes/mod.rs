//! What can be run: one file per kind of experiment.

mod joins;
mod list;
mod robust;
mod throughput;

pub use list::{RECIPES, Recipe, find};

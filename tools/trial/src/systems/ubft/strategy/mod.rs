//! Which strategy an incident asks for, and how lies are told.

mod asker;
mod choose;
mod craft;
mod liar;

pub(crate) use asker::Asker;
pub use asker::Asks;
pub(crate) use choose::{Corrupted, of};
pub(crate) use craft::shown;
pub(crate) use liar::Liar;

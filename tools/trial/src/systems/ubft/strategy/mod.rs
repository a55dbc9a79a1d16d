//! Which strategy an incident asks for, and how lies are told.

mod choose;
mod craft;
mod liar;

pub(crate) use choose::{Corrupted, of};
pub(crate) use craft::shown;
pub(crate) use liar::Liar;

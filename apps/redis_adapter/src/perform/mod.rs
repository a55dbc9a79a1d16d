//! The commands that the adapter carries out itself, by what makes them need it.

mod clock;
mod dispatch;
mod random;
mod scan;
mod streams;

pub(crate) use streams::last_id_of;

//! Applications, sessions, exactly-once execution, state transfer and reply matching.

mod app;

pub use app::{App, At, CHUNK_MAX, Replies, Request};
pub use synod_machine::{Unrecoverable, Wall, broadcast::Position};

//! Plans: which machines a node hosts and how their outputs reach inputs; and the client library.

mod backend;

pub use backend::{Backend, Call, Mode, Operation, Outcome, RequestId};

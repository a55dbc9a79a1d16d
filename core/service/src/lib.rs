//! Applications, sessions, exactly-once execution, state transfer and reply matching.

mod app;
pub mod client;
pub mod executor;
mod frame;
pub mod matching;
mod message;
pub mod sessions;
mod state_store;

pub use app::{App, At, CHUNK_MAX, Replies, Request};
pub use client::{Client, ClientConfig, ClientInput, ClientOutput, Command, Outcome};
pub use executor::{
    ClientAuth, Executor, ExecutorConfig, ExecutorInput, ExecutorLimits, ExecutorOutput, ServiceFault,
    StateSummary,
};
pub use frame::{
    COMMANDS_BYTES_MAX, COMMANDS_MAX, ClientFrame, ITEM_MAX, ITEM_VERSION, Item, Opening, SERVICE_PROTOCOL,
    Said, UNSIGNED, item_digest,
};
pub use message::{
    Answer, Answered, Attach, BODY_MAX, ClientMessage, CommandResult, FetchState, PATH_MAX, Part,
    QUESTION_MAX, Query, REPLIES_MAX, ReadMode, Refused, Reply, ReplyBatch, Results, StateChunk, body_digest,
    value_digest,
};
pub use state_store::{Change, MemoryStore, StateStore};
// Applications may not depend on core/machine, and the App trait names these.
pub use synod_machine::{Unrecoverable, Wall, broadcast::Position};

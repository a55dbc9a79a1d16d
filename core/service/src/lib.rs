//! Applications, sessions, exactly-once execution, replies, reads, state transfer and the client.
//!
//! *What it gives.* [`Executor`] executes an agreed order on an [`App`]: each (session, sequence) once, whatever is
//! retried, ordered twice or restarted; replies that a client can match; linearizable reads without ordering; the state
//! as certified snapshots. [`Client`] believes a result only from members of power W = F + 1 and names who lies.
//! [`StateStore`] is for applications whose state does not fit in memory; none of ours uses it yet.
//!
//! *Model.* The order comes from any atomic broadcast; faulty power is at most F; clients may be faulty, and then hurt
//! their own session only. With [`ClientAuth::Channel`] the proposer is trusted for the origin of commands.
//!
//! *Protocol.* A session is opened by an ordered item; its id is the item's position. A frame is 1 to 1,024 commands
//! under one signature, one item of the order, the same bytes on every retry. Upon a delivered frame a node moves the
//! session's base up by what the client acknowledged, executes the commands not seen in the window, and answers with
//! the results (the member that the frame names) or their digest (the others). Upon a retry it waits if the frame is
//! in flight, and answers in full if it was executed. Details: [`sessions`], [`executor`], [`client`], [`matching`].
//!
//! *Deviations* from the written design, each with its reason and test:
//!
//! | Here | Instead of | Why, test |
//! |---|---|---|
//! | one digest per frame, over the body of all its results | a digest per command | a hash per frame, not per command; a frame is matched as a whole, as it is retried as a whole (`a_thousand_commands_are_one_reply`) |
//! | the 4 KiB and 64 KiB rules count bodies of frames; digests of frames not acknowledged always stay | cached replies of single commands | a retry is always answered with its digest, if not with its body (`bodies_leave_oldest_first_and_digests_stay`) |
//! | an admitted frame is recognised in the order by its bytes | a cache of 65,536 verified digests | one comparison, no hash; what others admitted is checked in one batch per block (`an_item_is_submitted_with_the_bytes_that_came`) |
//! | answers to reads are equal if their values are | value and version | every power Q contains an honest node that has executed each acknowledged write, so an equal value is its value; an application may put a version into it (`reads_and_writes_of_two_clients_are_linearizable`) |
//! | replies of a session follow a signed statement of its client to the connection | the last connection that sent a frame | frames are public once ordered, so a liar could replay one to draw replies away (`replies_follow_the_newest_attachment_and_no_copy_of_an_older_one`) |
//! | a body of at most 128 bytes is sent by all | by the named member only | it costs less than asking again (`one_lying_replica_changes_no_answer_and_is_named`) |
//!
//! *Bounds.* [`ExecutorLimits::bytes_max`], [`ClientConfig::bytes_max`]; both are checked after every simulated step.
//!
//! *Composition.* `ExecutorOutput::Submit` to the ordering machine, its `Delivered` back; recover the executor first, its
//! [`Executor::resume_position`] is the ordering machine's `resume`.
//!
//! ```
//! use synod_service::{Item, Opening, UNSIGNED, item_digest};
//! use synod_crypto::PublicKey;
//! let opening = Item::Open(Opening { key: PublicKey([7; 32]), nonce: 1, signature: UNSIGNED });
//! let payload = opening.payload();
//! assert_eq!(Item::parse(&payload), Ok(opening.clone()));
//! // The signature ends the item and is not part of what is signed.
//! assert_eq!(item_digest(&payload), item_digest(&opening.signed(UNSIGNED).payload()));
//! ```

mod app;
pub mod batches;
pub mod client;
pub mod executor;
mod frame;
pub mod lanes;
pub mod matching;
pub mod memory;
mod message;
pub mod sessions;
mod state_store;
mod stream;

pub use app::{App, At, CHUNK_MAX, Replies, Request};
pub use batches::{
    BatchConfig, BatchExecutor, BatchInput, BatchLimits, BatchOutput, BatchQuestion, BatchStanding,
    BatchStatus,
};
pub use client::{Client, ClientConfig, ClientInput, ClientOutput, Command, Outcome};
pub use executor::{
    ClientAuth, Executor, ExecutorConfig, ExecutorInput, ExecutorLimits, ExecutorOutput, ServiceFault,
    StateSummary,
};
pub use frame::{
    COMMANDS_BYTES_MAX, COMMANDS_MAX, ClientFrame, ITEM_MAX, ITEM_VERSION, Item, Opening, SERVICE_PROTOCOL,
    Said, UNSIGNED, item_digest, session_of,
};
pub use lanes::{LaneApp, Lanes, State};
pub use message::{
    Answer, Answered, Attach, BODY_MAX, ClientMessage, CommandResult, FetchState, PATH_MAX, Part,
    QUESTION_MAX, Query, REPLIES_MAX, ReadMode, Refused, Reply, ReplyBatch, Results, StateChunk, body_digest,
    value_digest,
};
pub use state_store::{Change, MemoryStore, StateStore};
pub use stream::{Arriving, Chunks};
// Applications may not depend on core/machine, and the App trait names these; they have planted bugs too.
pub use synod_machine::{Unrecoverable, Wall, broadcast::Position, planted};

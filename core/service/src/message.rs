//! What clients and members say to an executor, and what it answers.
//!
//! One vocabulary serves the roles client and executor. The results of a frame are one *body*, and its digest is
//! the one digest of the frame: a client matches frames, not single commands, so a thousand small results cost one
//! hash. The body names session, first sequence and the position that executed it, so the digest binds them.

use synod_crypto::{Hash, Hasher, Signature};
use synod_machine::broadcast::Position;
use synod_machine::{Message, Queue};
use synod_wire::{Blob, List, wire};

use crate::app::CHUNK_MAX;
use crate::frame::{COMMANDS_MAX, ITEM_MAX};

/// Longest body of the results of one frame, in bytes; results that do not fit are marked so.
pub const BODY_MAX: usize = 3 << 20;
/// Longest question of a read, in bytes.
pub const QUESTION_MAX: usize = 60 << 10;
/// Most replies in one message.
pub const REPLIES_MAX: usize = 1_024;
/// Deepest path of a state chunk: trees of up to 2^32 chunks.
pub const PATH_MAX: usize = 32;

wire! {
    /// What clients and executors say to one another.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum ClientMessage {
        /// An [`crate::Item`] to be ordered; the same bytes on every retry.
        0 = Item(Blob<ITEM_MAX>),
        /// Replies of a session go to the connection that sends this.
        1 = Attach(Attach),
        /// Replies, one message per connection and block.
        2 = Replies(ReplyBatch),
        /// A read.
        3 = Query(Query),
        /// The answer to a read.
        4 = Answer(Answer),
        /// A member asks for a part of a snapshot.
        5 = FetchState(FetchState),
        /// A part of a snapshot.
        6 = StateChunk(StateChunk),
    }

    /// Binds a session's replies to a connection.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Attach {
        /// The session.
        pub session: u64,
        /// The member that is told.
        pub member: u8,
        /// Rises with every attachment of the session.
        pub counter: u64,
        /// By the session's key over [`crate::Said::Channel`]; zero where channels are trusted.
        pub signature: Signature,
    }

    /// Replies of one block for one connection.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ReplyBatch {
        /// Who proposed the block, as far as the answering node knows: a hint, never trusted.
        pub leader: Option<u8>,
        /// The replies in order of execution.
        pub replies: List<Reply, REPLIES_MAX>,
    }

    /// The reply to one item.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Reply {
        /// The opening with this nonce is the session of this id.
        0 = Opened {
            /// Of the opening.
            nonce: u64,
            /// The session's id.
            session: u64,
        },
        /// The frame was executed.
        1 = Executed {
            /// The session.
            session: u64,
            /// The frame's first sequence.
            first: u64,
            /// Its results or their digest.
            answer: Answered,
        },
        /// The item was not taken. An opening is named by session 0 and its nonce.
        2 = Refused {
            /// The session.
            session: u64,
            /// The frame's first sequence.
            first: u64,
            /// Why.
            why: Refused,
        },
    }

    /// A body, or the digest that stands for it.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Answered {
        /// Another member was named to send the body.
        0 = Digest(Hash),
        /// The body; its digest is computed by whoever receives it.
        1 = Body(Blob<BODY_MAX>),
        /// This node no longer keeps the body: the result is too old.
        2 = Gone(Hash),
    }

    /// Why a node did not take an item. It proves nothing about the order: the same bytes may be ordered by others.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Refused {
        /// Over a budget.
        0 = Busy {
            /// Queued bytes over drain rate.
            retry_ms: u32,
        },
        /// The node is recovering.
        1 = NotReady,
        /// No such session here.
        2 = UnknownSession,
        /// A sequence lies beyond the session's window.
        3 = OutsideWindow,
        /// The signature is not the session's.
        4 = BadSignature,
        /// The sequence is in flight with other bytes.
        5 = Reused,
        /// The ordering layer takes no payload of this size.
        6 = TooLarge,
    }

    /// The results of one frame: the body.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Results {
        /// The session.
        pub session: u64,
        /// The frame's first sequence.
        pub first: u64,
        /// The position at which it was executed.
        pub position: Position,
        /// One result per command.
        pub results: List<CommandResult, COMMANDS_MAX>,
    }

    /// What came of one command.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum CommandResult {
        /// Executed now, with this reply of the application.
        0 = Value(Blob<BODY_MAX>),
        /// Executed before, as part of another frame.
        1 = Repeated,
        /// Below the session's base: executed or given up long ago.
        2 = Forgotten,
        /// Beyond the session's window: not executed.
        3 = Outside,
        /// Executed now; the reply does not fit the body.
        4 = Oversize,
    }

    /// A read of executed state.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Query {
        /// Chosen by the client, returned in the answer.
        pub id: u64,
        /// How fresh the state must be.
        pub mode: ReadMode,
        /// The member that answers with the value however large it is.
        pub full: u8,
        /// The application's own encoding of the question.
        pub question: Blob<QUESTION_MAX>,
    }

    /// How fresh the state of a read must be.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum ReadMode {
        /// Behind a barrier: everything that could have been committed when the read arrived is executed.
        0 = Quorum,
        /// The state as it is.
        1 = Local,
    }

    /// The answer to a read.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Answer {
        /// Of the query.
        pub id: u64,
        /// The last position executed before the question was put.
        pub executed: Position,
        /// Whether the application understood the question; the value is empty otherwise.
        pub understood: bool,
        /// The value or its digest.
        pub value: Answered,
    }

    /// Asks for a part of the snapshot of a position.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct FetchState {
        /// The position.
        pub position: Position,
        /// Which part.
        pub part: Part,
    }

    /// A part of a snapshot.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Part {
        /// The [`crate::StateSummary`]: the state root is its digest.
        0 = Summary,
        /// A chunk of the application.
        1 = App(u32),
        /// A chunk of the session table.
        2 = Sessions(u32),
    }

    /// A part of a snapshot with its proof.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct StateChunk {
        /// The position.
        pub position: Position,
        /// Which part.
        pub part: Part,
        /// The part.
        pub bytes: Blob<CHUNK_MAX>,
        /// The siblings up to the root of the part's tree; empty for the summary.
        pub path: List<Hash, PATH_MAX>,
    }
}

impl Message for ClientMessage {
    fn queue(&self) -> Queue {
        match self {
            Self::Attach(_) | Self::Query(_) | Self::FetchState(_) => Queue::CONTROL,
            Self::Item(_) | Self::Replies(_) | Self::Answer(_) => Queue::PROPOSAL,
            Self::StateChunk(_) => Queue::BULK,
        }
    }
}

/// The digest of a body of results.
#[must_use]
pub fn body_digest(body: &[u8]) -> Hash {
    Hasher::new("synod results").add(body).finish()
}

/// The digest of an answer's value.
#[must_use]
pub fn value_digest(understood: bool, value: &[u8]) -> Hash {
    Hasher::new("synod value").add(&[u8::from(understood)]).add(value).finish()
}

const _: () = assert!(ITEM_MAX < 4 << 20, "an item fits a frame of the proposal queue");
const _: () = assert!(BODY_MAX + (64 << 10) < 4 << 20, "a body fits a frame of the proposal queue");
const _: () = assert!(QUESTION_MAX < 64 << 10, "a question fits a frame of the control queue");

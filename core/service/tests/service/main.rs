//! The service against an ideal ordering loop: sessions, execution, clients, reads, state transfer.

mod admission;
mod alone;
mod batches;
mod board;
mod clients;
mod exactly_once;
mod executing;
mod items;
mod matching;
mod memory;
mod patience;
mod purses;
mod reads;
mod replies;
mod resumed;
mod sessions;
mod store;
mod transfer;
mod world;

use synod_service::batches::{BatchCheckpoint, BatchRecord};
use synod_service::executor::{ExecutorRecord, SnapshotRecord};
use synod_service::memory::{Boot, MemoryWord};
use synod_service::sessions::{CachedRecord, SessionRecord, TableHeader};
use synod_service::{
    Answer, Answered, Attach, BatchQuestion, BatchStanding, ClientFrame, ClientMessage, CommandResult,
    FetchState, Item, Opening, Part, Query, ReadMode, Refused, Reply, ReplyBatch, Results, Said, StateChunk,
    StateSummary,
};

synod_wire::conformance!(
    Answer,
    Answered,
    Attach,
    BatchCheckpoint,
    BatchQuestion,
    BatchRecord,
    BatchStanding,
    Boot,
    CachedRecord,
    ClientFrame,
    ClientMessage,
    CommandResult,
    ExecutorRecord,
    FetchState,
    Item,
    MemoryWord,
    Opening,
    Part,
    Query,
    ReadMode,
    Refused,
    Reply,
    ReplyBatch,
    Results,
    Said,
    SessionRecord,
    SnapshotRecord,
    StateChunk,
    StateSummary,
    TableHeader,
);

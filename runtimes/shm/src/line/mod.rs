//! A link to one peer: the rings and pipes of its queues, and the page by which both sides agree on its generation.
//!
//! *Queues.* A queue that evicts its oldest is a ring: its sender asks nobody. One that drops what is newest, or breaks
//! the link, is a pipe with a backlog of its sender's own: only so does a sender know that it is full.
//!
//! *Generations.* Each side shows a number in its page, which only rises; the larger of both is the generation of the
//! link, and it is up while both show it. Whoever breaks the link shows a larger one. What was sent in an earlier
//! generation is dropped unread: a broken link loses a suffix, and then it is up again.
//!
//! *News.* A side counts what it sends in its page, so that queues in which nothing came are not looked into.
//!
//! *Bounds.* A pipe has [`PIPE_BYTES_MAX`] bytes, its backlog the depth of the queue and [`BACKLOG_BYTES_MAX`] bytes,
//! an incomplete frame its queue's longest. At most [`QUEUES_MAX`] queues a side.

mod inlet;
mod link;
mod news;
mod outlet;
mod shape;

pub(crate) use inlet::Came;
pub(crate) use link::{Line, Parts};
pub(crate) use news::Places;
pub(crate) use outlet::Sent;
pub(crate) use shape::{Made, PAGE_WORDS, Seen, Shape, Spot, make, named};

/// Bytes of a pipe.
pub const PIPE_BYTES_MAX: u32 = 256 << 10;
/// Bytes that wait for room in one pipe.
pub const BACKLOG_BYTES_MAX: u64 = 32 << 20;
/// Queues of one side of a link.
pub const QUEUES_MAX: usize = 256;

//! The journal of promises: what a node must remember before it speaks.
//!
//! One journal per data directory holds the lanes of all machines of a node. Records are queued in
//! program order, written together and settled by one fdatasync; a machine's sends wait for that. The
//! journal works on bytes and knows no protocol.
//!
//! # What it gives
//! - *Prefix*: recovery returns a prefix of what was appended to a lane, not shorter than the last
//!   successful sync. A safety record ([`Keep::LogAndSlot`]) found only in its slot comes on top.
//! - *No silent cut*: an invalid record inside the durable region makes the lanes
//!   [`Condition::Damaged`]; only what was never synced is cut as a torn tail.
//! - *Fail stop*: after a failed or short write or a failed sync every call returns that error.
//!
//! # Parts
//! [`record`] and [`segment`] are the format, [`disk`] the directory it lives in, [`memory`] one that
//! loses power; [`Journal`] writes, compacts and recovers; [`thread`] commits groups beside a reactor.
//!
//! # Bounds
//! 64 lanes, records of 16 MiB, safety records of 4,000 bytes, 96 older segments kept for their blobs. A
//! snapshot is as large as what its machine holds; it is written in segments of the usual size. Disk: the log since the last compaction, at most two bytes for each
//! live byte of blobs, and during a compaction the new segment beside the old ones.
//!
//! # Example
//! ```
//! use synod_journal::{Condition, Config, Journal, Keep, memory::MemDisk};
//! let config = Config { segment_bytes: 1 << 16, ..Config::new([7; 32], 0, 1) };
//! let disk = MemDisk::new();
//! Journal::create(Box::new(disk.clone()), &config)?;
//! let mut opened = Journal::open(Box::new(disk.clone()), config.clone())?;
//! assert_eq!(opened.lanes[0].condition, Condition::Fresh);
//! let lsn = opened.journal.append(0, Keep::LogAndSlot, "voted in view 7".into())?;
//! assert_eq!(opened.journal.sync()?, lsn);
//! drop(opened);
//! let again = Journal::open(Box::new(disk), config)?;
//! assert_eq!(again.lanes[0].condition, Condition::Clean);
//! assert_eq!(again.lanes[0].records, ["voted in view 7"]);
//! # Ok::<(), synod_journal::Error>(())
//! ```

mod blobs;
mod compact;
mod config;
pub mod disk;
mod error;
pub mod memory;
mod open;
pub mod record;
mod recover;
mod request;
mod rotate;
pub mod segment;
mod survey;
pub mod thread;
mod walk;
mod writer;

pub use compact::Snapshot;
pub use config::{Condition, Config, Keep, LANES_MAX, Lsn, QUEUE_BYTES_MAX, SEGMENT_BYTES, SyncMode};
pub use disk::{Disk, OsDisk};
pub use error::Error;
pub use open::{LaneLog, Opened};
pub use recover::Spot;
pub use writer::{Counters, Journal};

//! What a node's disk offers the simulator, as a trait: the seam between the record level and the block level.
//!
//! [`RecordJournal`](crate::RecordJournal) keeps records in memory and is what every seed uses unless a plan gives
//! another [`Storage`], such as the real journal over a simulated disk.

use synod_crypto::Hash;
use synod_machine::host::{LaneLog, Lsn};
use synod_machine::{Keep, Unrecoverable};
use synod_wire::Bytes;

use crate::draw::Stream;

/// One thing written to a lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// A record.
    Record(Keep, Bytes),
    /// A blob.
    Blob(Hash, Bytes),
    /// The release of a blob.
    Erase(Hash),
}

/// What a crash leaves of the writes that were not yet durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// A prefix of drawn length; the record behind it may be torn, and is then dropped on recovery.
    Drawn,
    /// Only what was durable.
    Durable,
    /// Everything that was written.
    Nothing,
    /// A prefix whose last write is torn at a sector, where anything is left to tear.
    Torn,
    /// A prefix in the order of the disk's operations, nothing out of order.
    Prefix,
    /// What was durable and this many writes more.
    Keep(u32),
}

/// What a crash took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Writes that were not yet durable.
    pub unsynced: u64,
    /// Those of them that are gone.
    pub lost: u64,
    /// Whether the first write that is gone was torn rather than missing.
    pub torn: bool,
}

/// The data directory of one node: one lane per hosted machine, one sync for all lanes.
pub trait Storage {
    /// What the node finds when it starts: one log per lane.
    ///
    /// # Errors
    /// When the directory refuses to open: a newer format or another owner.
    fn open(&mut self) -> Result<Vec<LaneLog>, Unrecoverable>;

    /// The place of the next write to `lane`; rises with every call. Nothing is written yet.
    fn reserve(&mut self, lane: u8) -> Lsn;

    /// Writes to `lane`, at a place that was reserved before.
    fn write(&mut self, lane: u8, lsn: Lsn, what: Written);

    /// Replaces what the lanes hold by `snapshots`, one per lane, together with the blobs they did not erase, at the
    /// next sync.
    fn compact(&mut self, snapshots: Vec<Vec<(Keep, Bytes)>>);

    /// The machine of a damaged lane has rejoined: the next compaction makes the lane clean for good.
    fn readmit(&mut self, lane: u8);

    /// Starts a sync of everything written so far; false when there is nothing to sync.
    fn begin(&mut self) -> bool;

    /// Ends the sync: per lane that moved, the highest record or blob that is durable now.
    ///
    /// # Errors
    /// The write or the sync failed: the process ends, nothing is tried again.
    fn commit(&mut self) -> Result<Vec<(u8, Lsn)>, WriteFailed>;

    /// Reads a blob of `lane`; `None` when it is missing or its content is not what its name says.
    fn read(&mut self, lane: u8, name: Hash) -> Option<Bytes>;

    /// Whether a write or a sync failed since the last opening: what it covered may be gone.
    fn failed(&self) -> bool;

    /// The node dies. Draws from `stream` only for [`Loss::Drawn`], [`Loss::Torn`] and [`Loss::Prefix`].
    fn crash(&mut self, loss: Loss, stream: &mut Stream) -> Lost;

    /// Does to the disk what an incident asks for; false when this storage cannot.
    fn harm(&mut self, harm: Harm) -> bool;

    /// A disk of its own with the durable content of this one, as a copied directory has; `None` when it cannot be
    /// copied.
    fn copy(&self) -> Option<Box<dyn Storage>> {
        None
    }

    /// Bytes held, for the simulator's own bound.
    fn bytes(&self) -> u64;
}

/// A write or a sync that failed, with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteFailed(pub String);

/// What can happen to a disk besides a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Harm {
    /// Everything is gone; the next start finds a lane whose promises may be missing.
    Wipe,
    /// Everything is gone and the next start takes itself for the first: amnesia.
    Forget,
    /// The present durable content is remembered as an image.
    Image,
    /// The remembered image comes back, as if it were the newest; nothing without an image.
    Rollback,
    /// From now on syncs report success and make nothing durable, or no longer do.
    Lie(bool),
    /// There is no space for the next write, or there is again.
    Full(bool),
    /// The next sync fails and what it covered is lost while it reads as if it were clean, or no longer will.
    SyncFail(bool),
    /// One sector that was durable lies where another belongs, which is gone. The number chooses them.
    Misdirect(u64),
    /// Blobs read back damaged from now on, or no longer do.
    Rot(bool),
}

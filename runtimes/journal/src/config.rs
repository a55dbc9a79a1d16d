//! The few words a journal is configured with, and the bounds that follow from them.

/// The position of a record in the journal: 1 for the first, rising by at least one.
///
/// Marks do not take a position of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct Lsn(pub u64);

/// How long a record is kept where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// In the log.
    Log,
    /// In the log and, until the lane's next such record, in a slot of its own: the safety record.
    LogAndSlot,
}

/// When records reach the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SyncMode {
    /// One fdatasync for all that is queued.
    #[default]
    Group,
    /// One fdatasync for each record.
    Always,
    /// Written, never synced: a power failure can undo promises. UNSAFE.
    NoneUnsafe,
    /// Nothing is written: every restart forgets every promise. UNSAFE.
    VolatileUnsafe,
}

impl SyncMode {
    /// Reads the value of `[storage] sync`; None for any other word.
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "group" => Some(SyncMode::Group),
            "always" => Some(SyncMode::Always),
            "none-UNSAFE" => Some(SyncMode::NoneUnsafe),
            "volatile-UNSAFE" => Some(SyncMode::VolatileUnsafe),
            _ => None,
        }
    }

    /// The label of results measured in this mode: `fsync`, `nosync` or `volatile`.
    pub fn durability(self) -> &'static str {
        match self {
            SyncMode::Group | SyncMode::Always => "fsync",
            SyncMode::NoneUnsafe => "nosync",
            SyncMode::VolatileUnsafe => "volatile",
        }
    }

    /// Whether a report of durability means a completed fdatasync.
    pub(crate) fn syncs(self) -> bool {
        matches!(self, SyncMode::Group | SyncMode::Always)
    }
}

/// What recovery says about a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// Made by `create` and never opened before: nothing was ever promised.
    Fresh,
    /// Every durable record is here.
    Clean,
    /// Records may be missing: promise nothing until the protocol's rejoin rule allows it.
    Damaged,
}

/// Lanes a journal can hold.
pub const LANES_MAX: u8 = 64;

/// Size of a segment in production, in bytes.
pub const SEGMENT_BYTES: u64 = 64 << 20;

/// Bytes queued before `append` and `store` write and sync by themselves.
pub const QUEUE_BYTES_MAX: u64 = 64 << 20;

/// How a journal is laid out and whose it is.
#[derive(Debug, Clone)]
pub struct Config {
    /// The cluster id: BLAKE3 of the canonical genesis.
    pub cluster: [u8; 32],
    /// The member whose promises these are.
    pub member: u32,
    /// Number of lanes, one per hosted machine; 1 to [`LANES_MAX`], fixed when the journal is made.
    pub lanes: u8,
    /// When records reach the disk.
    pub mode: SyncMode,
    /// Size of a segment in bytes; a larger record or snapshot gets a larger segment.
    pub segment_bytes: u64,
    /// Any number peers cannot guess, used when the journal is made: it keeps a peer's payload from
    /// containing bytes that recovery would take for a record.
    pub salt: u64,
}

impl Config {
    /// A journal with production sizes in mode `group`.
    pub fn new(cluster: [u8; 32], member: u32, lanes: u8) -> Self {
        Config { cluster, member, lanes, mode: SyncMode::Group, segment_bytes: SEGMENT_BYTES, salt: 0 }
    }

    pub(crate) fn check(&self) {
        assert!(self.lanes >= 1, "a journal has a lane");
        assert!(self.lanes <= LANES_MAX, "a journal has at most {LANES_MAX} lanes");
    }

    pub(crate) fn all_lanes(&self) -> u64 {
        u64::MAX >> (64 - u32::from(self.lanes))
    }
}

/// An offset within a segment as an index into its bytes.
pub(crate) fn index(offset: u64) -> usize {
    usize::try_from(offset).expect("segments fit the address space of a 64-bit machine")
}

/// A length in memory as a number of bytes on disk.
pub(crate) fn bytes(length: usize) -> u64 {
    u64::try_from(length).expect("no buffer is longer than 64 bits can say")
}

//! The journal in use: records are queued, a sync writes and settles all of them.
//!
//! Nothing is retried. The first failed or short write and the first failed sync are kept, and every
//! later call answers them: after a failed fdatasync the kernel may hold clean pages whose contents never
//! reached the disk, so a second one that succeeds proves nothing.
//!
//! Bounds: the queue holds at most [`QUEUE_BYTES_MAX`] bytes, then `append` and `store` sync by
//! themselves.

use std::collections::BTreeMap;

use bytes::Bytes;
use synod_machine::planted;

use crate::blobs::{Blobs, Place};
use crate::config::{self, Config, Keep, Lsn, QUEUE_BYTES_MAX, SyncMode};
use crate::disk::Disk;
use crate::error::Error;
use crate::record::{self, BODY_MAX, Chain, HEADER_BYTES, Head, Kind, Seed};
use crate::segment::{self, SLOT_BODY_MAX, Slot, SlotRecord};

/// Room every segment keeps for the mark that closes it.
pub(crate) const SEAL_BYTES: u64 = 64;

/// What the journal has done since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Groups written: each is one fdatasync in the modes that sync.
    pub syncs: u64,
    /// Records, blobs and erasures written.
    pub records: u64,
    /// Bytes of records and slots written.
    pub bytes: u64,
    /// Marks written while idle.
    pub marks: u64,
    /// Segments begun.
    pub segments: u64,
    /// Compactions done.
    pub compactions: u64,
}

/// The segment that takes new records.
#[derive(Debug)]
pub(crate) struct Active {
    pub(crate) number: u64,
    pub(crate) name: String,
    pub(crate) bytes: u64,
    pub(crate) tail: u64,
    pub(crate) seed: Seed,
    pub(crate) chain: Chain,
    pub(crate) group: u32,
}

/// A lane's slots.
#[derive(Debug, Clone, Default)]
pub(crate) struct LaneSlots {
    /// The newest safety record written to the log.
    pub(crate) newest: Option<SlotRecord>,
    /// Which of the two slots was written last.
    pub(crate) which: u8,
    /// The newest record is not in a slot yet.
    pub(crate) due: bool,
}

/// Something queued.
#[derive(Debug)]
struct Pending {
    kind: Kind,
    lane: u8,
    slotted: bool,
    name: [u8; 32],
    body: Bytes,
}

impl Pending {
    fn parts(&self) -> [&[u8]; 2] {
        match self.kind {
            Kind::Record | Kind::Mark => [&self.body, &[]],
            Kind::Blob => [&self.name, &self.body],
            Kind::Erase => [&self.name, &[]],
        }
    }

    fn size(&self) -> u64 {
        let [first, second] = self.parts();
        config::bytes(record::size(first.len() + second.len()))
    }
}

/// One node's promises on disk. [`Journal::create`] makes it, [`Journal::open`] recovers it.
pub struct Journal {
    pub(crate) disk: Box<dyn Disk>,
    pub(crate) config: Config,
    pub(crate) active: Active,
    pub(crate) blobs: Blobs,
    pub(crate) slots: Vec<LaneSlots>,
    queue: Vec<Pending>,
    queued_bytes: u64,
    /// Last lsn given out.
    issued: u64,
    /// Last lsn written.
    pub(crate) written: u64,
    /// Last lsn known synced.
    pub(crate) synced: u64,
    /// The last lsn a mark on disk calls synced.
    pub(crate) marked: u64,
    pub(crate) epoch: u32,
    pub(crate) damaged: u64,
    pub(crate) readmitted: u64,
    /// Blobs of mode `volatile-UNSAFE`.
    volatile: BTreeMap<(u8, [u8; 32]), Bytes>,
    failed: Option<Error>,
    /// Bytes of log behind the last compaction.
    pub(crate) log_bytes: u64,
    pub(crate) counters: Counters,
}

/// The parts recovery hands over.
pub(crate) struct Parts {
    pub(crate) disk: Box<dyn Disk>,
    pub(crate) config: Config,
    pub(crate) active: Active,
    pub(crate) blobs: Blobs,
    pub(crate) slots: Vec<LaneSlots>,
    pub(crate) last: u64,
    pub(crate) epoch: u32,
    pub(crate) damaged: u64,
    pub(crate) log_bytes: u64,
}

impl Journal {
    pub(crate) fn assemble(parts: Parts) -> Self {
        Journal {
            disk: parts.disk,
            config: parts.config,
            active: parts.active,
            blobs: parts.blobs,
            slots: parts.slots,
            queue: Vec::new(),
            queued_bytes: 0,
            issued: parts.last,
            written: parts.last,
            synced: parts.last,
            marked: 0,
            epoch: parts.epoch,
            damaged: parts.damaged,
            readmitted: 0,
            volatile: BTreeMap::new(),
            failed: None,
            log_bytes: parts.log_bytes,
            counters: Counters::default(),
        }
    }

    /// Queues a record of a lane and returns its position; it is durable once [`Journal::durable`] has
    /// reached that.
    ///
    /// # Errors
    /// The error that ended the journal.
    ///
    /// # Panics
    /// On a lane the journal does not have, on a body over 16 MiB, and on a safety record over 4,000
    /// bytes: the machine above broke its bounds.
    pub fn append(&mut self, lane: u8, keep: Keep, body: Bytes) -> Result<Lsn, Error> {
        let slotted = keep == Keep::LogAndSlot;
        assert!(body.len() <= BODY_MAX, "a record is at most {BODY_MAX} bytes");
        assert!(!slotted || body.len() <= SLOT_BODY_MAX, "a safety record is at most {SLOT_BODY_MAX} bytes");
        self.push(Pending { kind: Kind::Record, lane, slotted, name: [0; 32], body })
    }

    /// Queues a blob, named by the BLAKE3 of its bytes, and returns its position. Storing a live name
    /// again writes it again.
    ///
    /// # Errors
    /// The error that ended the journal.
    ///
    /// # Panics
    /// On a lane the journal does not have, a blob that with its name is over 16 MiB, and a name that is
    /// not the hash of the bytes.
    pub fn store(&mut self, lane: u8, name: [u8; 32], bytes: Bytes) -> Result<Lsn, Error> {
        assert!(bytes.len() <= BODY_MAX - name.len(), "a blob with its name is at most {BODY_MAX} bytes");
        assert!(*blake3::hash(&bytes).as_bytes() == name, "a blob's name is the BLAKE3 of its bytes");
        self.push(Pending { kind: Kind::Blob, lane, slotted: false, name, body: bytes })
    }

    /// Queues the release of a blob and returns its position. Releasing a name that is not live is
    /// harmless.
    ///
    /// # Errors
    /// The error that ended the journal.
    ///
    /// # Panics
    /// On a lane the journal does not have.
    pub fn erase(&mut self, lane: u8, name: [u8; 32]) -> Result<Lsn, Error> {
        self.push(Pending { kind: Kind::Erase, lane, slotted: false, name, body: Bytes::new() })
    }

    /// A live blob of a lane, queued or written. None when it is not live, cannot be read, or its bytes
    /// do not hash to its name: the machine fetches it from a peer.
    ///
    /// # Errors
    /// The error that ended the journal.
    pub fn load(&mut self, lane: u8, name: [u8; 32]) -> Result<Option<Bytes>, Error> {
        self.check()?;
        for pending in self.queue.iter().rev() {
            match pending.kind {
                Kind::Blob if pending.lane == lane && pending.name == name => {
                    return Ok(Some(pending.body.clone()));
                }
                Kind::Erase if pending.lane == lane && pending.name == name => return Ok(None),
                _ => {}
            }
        }
        if let Some(bytes) = self.volatile.get(&(lane, name)) {
            return Ok(Some(bytes.clone()));
        }
        let Some(place) = self.blobs.get((lane, name)) else { return Ok(None) };
        Ok(self.read_blob(name, place))
    }

    /// Writes all that is queued, with one fdatasync for each segment touched, and returns the highest
    /// durable position.
    ///
    /// # Errors
    /// The error that ended the journal, perhaps this very write or sync: the node must stop, because
    /// what was queued may or may not be on the disk.
    pub fn sync(&mut self) -> Result<Lsn, Error> {
        self.check()?;
        let done = self.write_queue();
        self.keep_failure(done)?;
        Ok(self.durable())
    }

    /// Writes a mark if everything is synced and no mark says so yet; true if it wrote one. Called after
    /// 10 ms without work, it keeps the last group from being taken for a torn tail.
    ///
    /// # Errors
    /// The error that ended the journal.
    pub fn mark(&mut self) -> Result<bool, Error> {
        self.check()?;
        if !self.config.mode.syncs() || !self.queue.is_empty() || self.marked == self.synced {
            return Ok(false);
        }
        let done = self.write_mark();
        self.keep_failure(done)?;
        self.counters.marks += 1;
        Ok(true)
    }

    /// The highest position reported durable; in the UNSAFE modes, the highest written or taken.
    pub fn durable(&self) -> Lsn {
        Lsn(if self.config.mode.syncs() { self.synced } else { self.written })
    }

    /// The last position given out.
    pub fn issued(&self) -> Lsn {
        Lsn(self.issued)
    }

    /// Bytes queued and not yet written.
    pub fn queued_bytes(&self) -> u64 {
        self.queued_bytes
    }

    /// Bytes of all segment files.
    pub fn disk_bytes(&self) -> u64 {
        self.blobs.segments.values().map(|held| held.bytes).sum()
    }

    /// Bytes of log behind the last compaction, blobs included: what a compaction could shorten.
    pub fn log_bytes(&self) -> u64 {
        self.log_bytes
    }

    /// Segment files in use.
    pub fn segments(&self) -> usize {
        self.blobs.segments.len()
    }

    /// Live blobs on disk.
    pub fn live_blobs(&self) -> usize {
        self.blobs.len()
    }

    /// What was done since the journal was opened.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// The error that ended the journal.
    pub fn failure(&self) -> Option<&Error> {
        self.failed.as_ref()
    }

    /// Hands the error that ended the journal to every call after it.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    pub(crate) fn keep_failure<T>(&mut self, done: Result<T, Error>) -> Result<T, Error> {
        if let Err(error) = &done {
            self.failed = Some(error.clone());
        }
        done
    }

    fn push(&mut self, pending: Pending) -> Result<Lsn, Error> {
        assert!(pending.lane < self.config.lanes, "a machine writes to its own lane");
        self.check()?;
        self.issued += 1;
        self.queued_bytes += pending.size();
        self.queue.push(pending);
        let lsn = Lsn(self.issued);
        if self.config.mode == SyncMode::Always || self.queued_bytes > QUEUE_BYTES_MAX {
            self.sync()?;
        }
        Ok(lsn)
    }

    fn write_queue(&mut self) -> Result<(), Error> {
        let queue = std::mem::take(&mut self.queue);
        let queued_bytes = std::mem::take(&mut self.queued_bytes);
        if queue.is_empty() {
            return Ok(());
        }
        if self.config.mode == SyncMode::VolatileUnsafe {
            self.keep_volatile(queue);
            return Ok(());
        }
        let mut buffer = Vec::with_capacity(config::index(queued_bytes));
        for pending in &queue {
            let size = pending.size();
            if !self.fits(config::bytes(buffer.len()), size) {
                self.write_group(&mut buffer)?;
                self.rotate(size)?;
            }
            self.put(pending, &mut buffer);
        }
        self.write_group(&mut buffer)
    }

    fn fits(&self, buffered: u64, size: u64) -> bool {
        self.active.tail + buffered + size + SEAL_BYTES <= self.active.bytes
    }

    /// Encodes one queued item behind the buffer and takes note of what it changes.
    fn put(&mut self, pending: &Pending, buffer: &mut Vec<u8>) {
        self.written += 1;
        let key = (pending.lane, pending.name);
        let begin = self.active.tail + config::bytes(buffer.len() + HEADER_BYTES);
        let head = self.head(pending.kind, pending.lane, pending.slotted);
        self.active.chain =
            record::encode(buffer, self.active.seed, self.active.chain, &head, pending.parts());
        match pending.kind {
            Kind::Record | Kind::Mark => {}
            Kind::Blob => {
                let offset = begin + config::bytes(pending.name.len());
                let place =
                    Place { segment: self.active.number, offset, length: config::bytes(pending.body.len()) };
                self.blobs.insert(key, place);
            }
            Kind::Erase => self.blobs.erase(key),
        }
        if pending.slotted {
            let record = SlotRecord { lsn: self.written, durable: self.synced, body: pending.body.clone() };
            let slots = &mut self.slots[usize::from(pending.lane)];
            slots.newest = Some(record);
            slots.due = true;
        }
        self.counters.records += 1;
    }

    /// The header of the next record, at the position written last.
    pub(crate) fn head(&self, kind: Kind, lane: u8, slotted: bool) -> Head {
        Head {
            kind,
            lane,
            slotted,
            group: self.active.group,
            epoch: self.epoch,
            lsn: self.written,
            durable: self.synced,
        }
    }

    /// Writes the buffer and the slots that are due, and settles both with one sync.
    pub(crate) fn write_group(&mut self, buffer: &mut Vec<u8>) -> Result<(), Error> {
        if buffer.is_empty() {
            return Ok(());
        }
        let name = self.active.name.clone();
        write(&mut *self.disk, &name, self.active.tail, buffer)?;
        self.active.tail += config::bytes(buffer.len());
        self.counters.bytes += config::bytes(buffer.len());
        self.log_bytes += config::bytes(buffer.len());
        buffer.clear();
        for lane in 0..self.config.lanes {
            let slots = &mut self.slots[usize::from(lane)];
            let due = std::mem::take(&mut slots.due);
            let Some(newest) = slots.newest.as_ref().filter(|_| due) else { continue };
            slots.which = 1 - slots.which;
            let page = Slot::encode(newest, lane, self.epoch, self.active.seed);
            write(&mut *self.disk, &name, segment::slot_at(lane, slots.which), &page)?;
            self.counters.bytes += segment::PAGE_BYTES;
        }
        self.settle()
    }

    /// Syncs the active segment and ends the group.
    fn settle(&mut self) -> Result<(), Error> {
        self.counters.syncs += 1;
        self.active.group += 1;
        if self.config.mode.syncs() {
            let done = sync(&mut *self.disk, &self.active.name);
            let retried = done.is_err() && planted!(G3) && sync(&mut *self.disk, &self.active.name).is_ok();
            if !retried && !planted!(H10) {
                done?;
            }
            self.synced = self.written;
        }
        Ok(())
    }

    pub(crate) fn write_mark(&mut self) -> Result<(), Error> {
        if !self.fits(0, config::bytes(HEADER_BYTES)) {
            return self.rotate(0);
        }
        let head = self.head(Kind::Mark, 0, false);
        let mut buffer = Vec::with_capacity(HEADER_BYTES);
        self.active.chain =
            record::encode(&mut buffer, self.active.seed, self.active.chain, &head, [&[], &[]]);
        self.write_group(&mut buffer)?;
        self.marked = self.synced;
        Ok(())
    }

    fn keep_volatile(&mut self, queue: Vec<Pending>) {
        for pending in queue {
            self.written += 1;
            match pending.kind {
                Kind::Record | Kind::Mark => {}
                Kind::Blob => {
                    self.volatile.insert((pending.lane, pending.name), pending.body);
                }
                Kind::Erase => {
                    self.volatile.remove(&(pending.lane, pending.name));
                    self.blobs.erase((pending.lane, pending.name));
                }
            }
        }
    }

    pub(crate) fn read_blob(&mut self, name: [u8; 32], place: Place) -> Option<Bytes> {
        let mut bytes = vec![0; config::index(place.length)];
        self.disk.read_at(&segment::name(place.segment), place.offset, &mut bytes).ok()?;
        (*blake3::hash(&bytes).as_bytes() == name).then(|| Bytes::from(bytes))
    }

    /// Moves the position given out past records written by the journal itself.
    pub(crate) fn advance(&mut self, lsn: u64) {
        assert!(self.queue.is_empty(), "positions of queued records are given out already");
        assert!(lsn >= self.issued, "positions rise");
        self.issued = lsn;
        self.written = lsn;
    }
}

/// Writes all of `bytes`; a part is a failure.
pub(crate) fn write(disk: &mut dyn Disk, file: &str, offset: u64, bytes: &[u8]) -> Result<(), Error> {
    let taken = disk.write_at(file, offset, bytes).map_err(|error| Error::write("write", file, error))?;
    if taken != bytes.len() {
        return Err(Error::write("short write", file, std::io::ErrorKind::WriteZero.into()));
    }
    Ok(())
}

pub(crate) fn sync(disk: &mut dyn Disk, file: &str) -> Result<(), Error> {
    disk.sync(file).map_err(|error| Error::write("sync", file, error))
}

pub(crate) fn sync_dir(disk: &mut dyn Disk) -> Result<(), Error> {
    disk.sync_dir().map_err(|error| Error::write("directory sync", ".", error))
}

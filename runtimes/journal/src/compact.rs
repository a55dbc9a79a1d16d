//! Compaction: every lane's snapshot becomes the log, in one rename.
//!
//! The new segment holds the blobs copied out of sparse segments, the erasures the kept segments do not
//! know of, every lane's snapshot, and a mark. It is written under a temporary name and synced; the
//! rename is the moment it counts. Old segments are removed only after the directory is synced, so a
//! crash at any step leaves the old log or the new one, whole. What a crash leaves behind is removed when
//! the journal is next opened.

use std::collections::BTreeSet;

use bytes::Bytes;

use crate::blobs::{Key, Place};
use crate::config::{self, Keep, Lsn, SyncMode};
use crate::disk::Disk;
use crate::error::Error;
use crate::record::{self, BODY_MAX, Chain, HEADER_BYTES, Head, Kind, Seed};
use crate::rotate::{self, size_for};
use crate::segment::{self, Header, KEPT_MAX, Kept, Origin, SLOT_BODY_MAX, SlotRecord};
use crate::writer::{self, Active, Journal, LaneSlots};

/// Largest snapshot of a lane, in bytes of record bodies.
pub const SNAPSHOT_BYTES_MAX: usize = 64 << 20;

/// Bytes gathered before a compaction writes them.
const CHUNK_BYTES: usize = 1 << 20;

/// The records that are equivalent to a lane's whole log, in order.
pub type Snapshot = Vec<(Keep, Bytes)>;

/// What happens to the old segments.
struct Plan {
    kept: Vec<Kept>,
    copies: Vec<(Key, Place)>,
    erasures: Vec<Key>,
    need: u64,
}

/// A segment under its temporary name, being filled.
struct Tape {
    file: String,
    at: u64,
    seed: Seed,
    chain: Chain,
    head: Head,
    buffer: Vec<u8>,
}

impl Tape {
    /// Adds a record and returns the offset of its body.
    fn put(&mut self, disk: &mut dyn Disk, head: Head, body: [&[u8]; 2]) -> Result<u64, Error> {
        self.head = head;
        let at = self.at + config::bytes(self.buffer.len() + HEADER_BYTES);
        self.chain = record::encode(&mut self.buffer, self.seed, self.chain, &head, body);
        if self.buffer.len() >= CHUNK_BYTES {
            self.flush(disk)?;
        }
        Ok(at)
    }

    fn next(&self, kind: Kind, lane: u8, slotted: bool) -> Head {
        Head { kind, lane, slotted, lsn: self.head.lsn + 1, ..self.head }
    }

    fn flush(&mut self, disk: &mut dyn Disk) -> Result<(), Error> {
        writer::write(disk, &self.file, self.at, &self.buffer)?;
        self.at += config::bytes(self.buffer.len());
        self.buffer.clear();
        Ok(())
    }
}

impl Journal {
    /// States that a damaged lane's machine has rejoined: the next compaction, whose snapshot replaces
    /// what was lost, makes the lane Clean for good.
    pub fn readmit(&mut self, lane: u8) {
        assert!(lane < self.config.lanes, "a machine readmits its own lane");
        self.readmitted |= 1 << lane;
    }

    /// Syncs what is queued, then replaces the log by one snapshot per lane; live blobs stay. Returns the
    /// highest durable position. In mode `volatile-UNSAFE` there is nothing to replace.
    ///
    /// # Errors
    /// The error that ended the journal.
    ///
    /// # Panics
    /// If there is not one snapshot per lane, each within [`SNAPSHOT_BYTES_MAX`] and made of records
    /// `append` would take.
    pub fn compact(&mut self, snapshots: &[Snapshot]) -> Result<Lsn, Error> {
        assert!(snapshots.len() == usize::from(self.config.lanes), "every lane gives its snapshot");
        for snapshot in snapshots {
            let whole: usize = snapshot.iter().map(|(_, body)| body.len()).sum();
            assert!(whole <= SNAPSHOT_BYTES_MAX, "a snapshot is at most {SNAPSHOT_BYTES_MAX} bytes");
            let fits = |keep: &Keep, body: &Bytes| match keep {
                Keep::Log => body.len() <= BODY_MAX,
                Keep::LogAndSlot => body.len() <= SLOT_BODY_MAX,
            };
            assert!(snapshot.iter().all(|(keep, body)| fits(keep, body)), "records keep their bounds");
        }
        self.sync()?;
        if self.config.mode != SyncMode::VolatileUnsafe {
            let done = self.replace(snapshots);
            self.keep_failure(done)?;
            self.counters.compactions += 1;
        }
        Ok(self.durable())
    }

    fn replace(&mut self, snapshots: &[Snapshot]) -> Result<(), Error> {
        let plan = self.plan(snapshots);
        let mut header = self.header(Origin::Compacted, self.active.chain, size_for(&self.config, plan.need));
        header.damaged = self.damaged & !self.readmitted;
        header.kept.clone_from(&plan.kept);
        let mut slots = self.future_slots(&plan, snapshots);
        rotate::build(&mut *self.disk, &header, &mut slots, self.epoch)?;
        let (tape, moved) = self.fill(&header, &plan, snapshots)?;
        rotate::publish(&mut *self.disk, header.number)?;
        if plan.kept.iter().any(|kept| kept.number == self.active.number) {
            let (seal, _) = self.seal(header.number);
            self.close_active(&seal)?;
        }
        self.take_over(&header, &tape, slots);
        for (key, place) in moved {
            self.blobs.insert(key, place);
        }
        self.remove_except(&plan.kept, header.number)
    }

    /// Keeps the segments that are at least half live, and copies the blobs of the others.
    fn plan(&self, snapshots: &[Snapshot]) -> Plan {
        let mut kept = Vec::new();
        for (number, live) in self.blobs.live_bytes() {
            let Some(held) = self.blobs.segments.get(&number) else { continue };
            if live * 2 >= held.bytes && !held.suspect && kept.len() < KEPT_MAX {
                let (lsn, chain) =
                    if number == self.active.number { (self.written, self.active.chain) } else { held.end };
                kept.push(Kept { number, lsn, chain });
            }
        }
        let stays = |number: u64| kept.iter().any(|kept| kept.number == number);
        let copies = self.blobs.live_in(|number| !stays(number));
        let mut dead = BTreeSet::new();
        for (_, held) in self.blobs.segments.iter().filter(|(number, _)| stays(**number)) {
            dead.extend(held.names.iter().copied().filter(|key| !self.blobs.is_live(*key)));
        }
        let records = snapshots.iter().flatten().map(|(_, body)| record::size(body.len()));
        let blobs = copies.iter().map(|(_, place)| record::size(config::index(place.length) + 32));
        let need = records.chain(blobs).map(config::bytes).sum::<u64>()
            + config::bytes(dead.len() * record::size(32) + record::size(0));
        Plan { kept, copies, erasures: dead.into_iter().collect(), need }
    }

    /// The slots of the new segment: each lane's newest safety record, at the position it will have.
    fn future_slots(&self, plan: &Plan, snapshots: &[Snapshot]) -> Vec<LaneSlots> {
        let mut lsn = self.written + config::bytes(plan.copies.len() + plan.erasures.len());
        let mut slots = vec![LaneSlots::default(); snapshots.len()];
        for (snapshot, slots) in snapshots.iter().zip(&mut slots) {
            for (keep, body) in snapshot {
                lsn += 1;
                if *keep == Keep::LogAndSlot {
                    slots.newest = Some(SlotRecord { lsn, durable: self.synced, body: body.clone() });
                }
            }
        }
        slots
    }

    /// Writes the records of a compaction; gives the tape and where the copied blobs are now.
    fn fill(
        &mut self,
        header: &Header,
        plan: &Plan,
        snapshots: &[Snapshot],
    ) -> Result<(Tape, Vec<(Key, Place)>), Error> {
        let mut tape = Tape {
            file: segment::temporary(header.number),
            at: segment::data_at(header.lanes),
            seed: header.seed(),
            chain: header.chain,
            head: Head { group: 1, ..self.head(Kind::Mark, 0, false) },
            buffer: Vec::with_capacity(CHUNK_BYTES),
        };
        let mut moved = Vec::with_capacity(plan.copies.len());
        for ((lane, name), place) in &plan.copies {
            // A live blob that does not read back is a lost promise: stop, and let recovery say so.
            let bytes = self.read_blob(*name, *place).ok_or(Error::Corrupt {
                segment: place.segment,
                offset: place.offset,
                why: "a live blob does not match its name",
            })?;
            let head = tape.next(Kind::Blob, *lane, false);
            let offset = tape.put(&mut *self.disk, head, [name, &bytes])? + 32;
            moved.push(((*lane, *name), Place { segment: header.number, offset, length: place.length }));
        }
        for (lane, name) in &plan.erasures {
            let head = tape.next(Kind::Erase, *lane, false);
            tape.put(&mut *self.disk, head, [name, &[]])?;
        }
        for (lane, snapshot) in (0u8..).zip(snapshots) {
            for (keep, body) in snapshot {
                let head = tape.next(Kind::Record, lane, *keep == Keep::LogAndSlot);
                tape.put(&mut *self.disk, head, [body, &[]])?;
            }
        }
        // By the time anybody sees this mark the segment is synced: the rename comes after.
        let mark =
            Head { kind: Kind::Mark, lane: 0, slotted: false, group: 2, durable: tape.head.lsn, ..tape.head };
        tape.put(&mut *self.disk, mark, [&[], &[]])?;
        tape.flush(&mut *self.disk)?;
        Ok((tape, moved))
    }

    fn take_over(&mut self, header: &Header, tape: &Tape, slots: Vec<LaneSlots>) {
        self.damaged = header.damaged;
        self.readmitted = 0;
        self.slots = slots;
        self.begin(header);
        self.active = Active { tail: tape.at, chain: tape.chain, group: 3, ..Active::new(header) };
        self.advance(tape.head.lsn);
        self.log_bytes = tape.at - segment::data_at(header.lanes);
        self.synced = self.written;
        self.marked = self.written;
        self.counters.syncs += 1;
    }

    fn remove_except(&mut self, kept: &[Kept], newest: u64) -> Result<(), Error> {
        let gone: Vec<u64> = self
            .blobs
            .segments
            .keys()
            .copied()
            .filter(|number| *number != newest && !kept.iter().any(|kept| kept.number == *number))
            .collect();
        for number in gone {
            let file = segment::name(number);
            self.disk.remove(&file).map_err(|error| Error::write("remove", &file, error))?;
            self.blobs.segments.remove(&number);
        }
        writer::sync_dir(&mut *self.disk)
    }
}

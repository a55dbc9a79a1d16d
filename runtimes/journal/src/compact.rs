//! Compaction: every lane's snapshot becomes the log, in one rename.
//!
//! The new log holds the blobs copied out of sparse segments, the erasures the kept segments do not know
//! of, every lane's snapshot, and a mark. It takes as many segments as it needs, each no larger than any
//! other, so that recovery never reads more than one of them at a time. All are written under temporary
//! names and synced, names included; the rename of the first is the moment they count, and its header
//! says how many belong to it. A crash before that rename leaves the old log; after it, opening gives the
//! others their names. Old segments are removed only after the directory is synced. What a crash leaves
//! behind is removed when the journal is next opened.

use std::collections::BTreeSet;

use bytes::Bytes;

use crate::blobs::{Key, Place};
use crate::config::{self, Config, Keep, Lsn, SyncMode};
use crate::disk::Disk;
use crate::error::Error;
use crate::record::{self, BODY_MAX, Chain, HEADER_BYTES, Head, Kind};
use crate::rotate::{self, size_for};
use crate::segment::{self, Header, KEPT_MAX, Kept, Origin, SLOT_BODY_MAX, SlotRecord};
use crate::writer::{self, Active, Journal, LaneSlots};

/// Bytes gathered before a compaction writes them.
const CHUNK_BYTES: usize = 1 << 20;

/// The records that are equivalent to a lane's whole log, in order.
pub type Snapshot = Vec<(Keep, Bytes)>;

/// Copied blobs and where they are now.
type Moved = Vec<(Key, Place)>;

/// What happens to the old segments.
struct Plan {
    kept: Vec<Kept>,
    copies: Vec<(Key, Place)>,
    erasures: Vec<Key>,
    /// Bytes of records in each new segment.
    parts: Vec<u64>,
}

/// A segment that was filled.
struct Part {
    header: Header,
    /// Behind its last record, the closing mark not counted.
    tail: u64,
    chain: Chain,
    lsn: u64,
}

/// The new segments under their temporary names, being filled one after the other.
struct Tape<'a> {
    config: &'a Config,
    needs: std::slice::Iter<'a, u64>,
    slots: &'a mut [LaneSlots],
    header: Header,
    /// Bytes of records that the open segment still takes.
    room: u64,
    at: u64,
    chain: Chain,
    head: Head,
    buffer: Vec<u8>,
    full: Vec<Part>,
}

impl Tape<'_> {
    /// Adds a record and returns the number of its segment and the offset of its body.
    fn put(&mut self, disk: &mut dyn Disk, head: Head, body: [&[u8]; 2]) -> Result<(u64, u64), Error> {
        let size = config::bytes(record::size(body[0].len() + body[1].len()));
        if size > self.room {
            self.turn(disk)?;
        }
        assert!(size <= self.room, "the plan counted every record");
        self.room -= size;
        self.head = head;
        let at = self.at + config::bytes(self.buffer.len() + HEADER_BYTES);
        self.chain = record::encode(&mut self.buffer, self.header.seed(), self.chain, &head, body);
        if self.buffer.len() >= CHUNK_BYTES {
            self.flush(disk)?;
        }
        Ok((self.header.number, at))
    }

    fn next(&self, kind: Kind, lane: u8, slotted: bool) -> Head {
        Head { kind, lane, slotted, lsn: self.head.lsn + 1, ..self.head }
    }

    /// Closes the open segment and begins the next one.
    fn turn(&mut self, disk: &mut dyn Disk) -> Result<(), Error> {
        let next = self.header.number + 1;
        let full = self.part();
        let mark = Head { kind: Kind::Mark, lane: 0, slotted: false, ..self.head };
        let body: [&[u8]; 2] = [&next.to_le_bytes(), &[]];
        let chain = record::encode(&mut self.buffer, self.header.seed(), self.chain, &mark, body);
        self.flush(disk)?;
        assert!(self.at == full.tail + writer::SEAL_BYTES, "a segment keeps room for exactly this mark");
        writer::sync(disk, &segment::temporary(full.header.number))?;
        self.full.push(full);
        let need = self.needs.next().copied().unwrap_or(0);
        self.header = Header {
            number: next,
            origin: Origin::Continued,
            first: self.head.lsn + 1,
            chain,
            bytes: size_for(self.config, need),
            kept: Vec::new(),
            parts: 0,
            ..self.header.clone()
        };
        rotate::build(disk, &self.header, self.slots, self.head.epoch)?;
        self.at = segment::data_at(self.header.lanes);
        (self.room, self.chain) = (need, chain);
        Ok(())
    }

    fn flush(&mut self, disk: &mut dyn Disk) -> Result<(), Error> {
        writer::write(disk, &segment::temporary(self.header.number), self.at, &self.buffer)?;
        self.at += config::bytes(self.buffer.len());
        self.buffer.clear();
        Ok(())
    }

    fn finish(mut self, disk: &mut dyn Disk) -> Result<Vec<Part>, Error> {
        self.flush(disk)?;
        let last = self.part();
        self.full.push(last);
        Ok(self.full)
    }

    /// The open segment as it stands.
    fn part(&self) -> Part {
        let tail = self.at + config::bytes(self.buffer.len());
        Part { header: self.header.clone(), tail, chain: self.chain, lsn: self.head.lsn }
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
    /// If there is not one snapshot per lane, made of records `append` would take. A snapshot has no bound
    /// of its own: it is as large as what its machine holds in memory.
    pub fn compact(&mut self, snapshots: &[Snapshot]) -> Result<Lsn, Error> {
        assert!(snapshots.len() == usize::from(self.config.lanes), "every lane gives its snapshot");
        for snapshot in snapshots {
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
        let need = plan.parts.first().copied().unwrap_or(0);
        let mut header = self.header(Origin::Compacted, self.active.chain, size_for(&self.config, need));
        header.damaged = self.damaged & !self.readmitted;
        header.kept.clone_from(&plan.kept);
        header.parts =
            u16::try_from(plan.parts.len() - 1).expect("a snapshot in memory takes fewer segments");
        let mut slots = self.future_slots(&plan, snapshots);
        rotate::build(&mut *self.disk, &header, &mut slots, self.epoch)?;
        let (parts, moved) = self.fill(header, &plan, snapshots, &mut slots)?;
        self.publish_all(&parts)?;
        if plan.kept.iter().any(|kept| kept.number == self.active.number) {
            let (seal, _) = self.seal(self.active.number + 1);
            self.close_active(&seal)?;
        }
        self.take_over(&parts, slots);
        for (key, place) in moved {
            self.blobs.insert(key, place);
        }
        self.remove_except(&plan.kept, &parts)
    }

    /// Gives the new segments their names. That of the first is the one that counts: by then all of them are
    /// durable under the names that opening looks for.
    fn publish_all(&mut self, parts: &[Part]) -> Result<(), Error> {
        let Some((first, rest)) = parts.split_first() else { unreachable!("a compaction writes a segment") };
        // Those before the last were synced when they were full.
        if let Some(last) = rest.last() {
            writer::sync(&mut *self.disk, &segment::temporary(last.header.number))?;
            writer::sync_dir(&mut *self.disk)?;
        }
        rotate::publish(&mut *self.disk, first.header.number)?;
        for part in rest {
            rotate::give_name(&mut *self.disk, part.header.number)?;
        }
        if rest.is_empty() { Ok(()) } else { writer::sync_dir(&mut *self.disk) }
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
        let sizes = copies.iter().map(|(_, place)| record::size(config::index(place.length) + 32));
        let sizes = sizes.chain(dead.iter().map(|_| record::size(32)));
        let records = snapshots.iter().flatten().map(|(_, body)| record::size(body.len()));
        let sizes = sizes.chain(records).chain([record::size(0)]).map(config::bytes);
        let parts = share(sizes, rotate::room(&self.config));
        Plan { kept, copies, erasures: dead.into_iter().collect(), parts }
    }

    /// The slots of the new segments: each lane's newest safety record, at the position it will have.
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

    /// Writes the records of a compaction; gives the segments and where the copied blobs are now.
    fn fill(
        &mut self,
        header: Header,
        plan: &Plan,
        snapshots: &[Snapshot],
        slots: &mut [LaneSlots],
    ) -> Result<(Vec<Part>, Moved), Error> {
        let mut needs = plan.parts.iter();
        let config = self.config.clone();
        let mut tape = Tape {
            config: &config,
            room: needs.next().copied().unwrap_or(0),
            needs,
            slots,
            at: segment::data_at(header.lanes),
            chain: header.chain,
            head: Head { group: 1, ..self.head(Kind::Mark, 0, false) },
            buffer: Vec::with_capacity(CHUNK_BYTES),
            full: Vec::new(),
            header,
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
            let (segment, at) = tape.put(&mut *self.disk, head, [name, &bytes])?;
            moved.push(((*lane, *name), Place { segment, offset: at + 32, length: place.length }));
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
        // By the time anybody sees this mark all segments are synced: the rename comes after.
        let mark =
            Head { kind: Kind::Mark, lane: 0, slotted: false, group: 2, durable: tape.head.lsn, ..tape.head };
        tape.put(&mut *self.disk, mark, [&[], &[]])?;
        Ok((tape.finish(&mut *self.disk)?, moved))
    }

    fn take_over(&mut self, parts: &[Part], slots: Vec<LaneSlots>) {
        self.readmitted = 0;
        self.slots = slots;
        for part in parts {
            self.damaged = part.header.damaged;
            self.begin(&part.header);
            self.active =
                Active { tail: part.tail, chain: part.chain, group: 3, ..Active::new(&part.header) };
            self.advance(part.lsn);
        }
        self.log_bytes = 0;
        self.synced = self.written;
        self.marked = self.written;
        self.counters.syncs += 1;
    }

    fn remove_except(&mut self, kept: &[Kept], parts: &[Part]) -> Result<(), Error> {
        let stays = |number: u64| {
            parts.iter().any(|part| part.header.number == number)
                || kept.iter().any(|kept| kept.number == number)
        };
        let gone: Vec<u64> = self.blobs.segments.keys().copied().filter(|number| !stays(*number)).collect();
        for number in gone {
            let file = segment::name(number);
            self.disk.remove(&file).map_err(|error| Error::write("remove", &file, error))?;
            self.blobs.segments.remove(&number);
        }
        writer::sync_dir(&mut *self.disk)
    }
}

/// Shares records of these sizes out, in their order, to segments with `room` bytes for them; a larger record gets a
/// segment of its own. Gives the bytes in each.
fn share(sizes: impl Iterator<Item = u64>, room: u64) -> Vec<u64> {
    let mut parts = vec![0];
    for size in sizes {
        match parts.last_mut() {
            Some(part) if *part == 0 || *part + size <= room => *part += size,
            _ => parts.push(size),
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn records_are_shared_out_in_order_and_a_large_one_stands_alone() {
        let shared = |sizes: &[u64]| share(sizes.iter().copied(), 100);
        assert_eq!(shared(&[40, 60]), [100]);
        assert_eq!(shared(&[40, 61, 39]), [40, 100]);
        assert_eq!(shared(&[500, 1, 99, 500, 5]), [500, 100, 500, 5]);
        assert_eq!(shared(&[]), [0]);
    }
}

//! Beginning a segment: built whole under a temporary name, renamed, and only then used.
//!
//! The order is what makes it safe. The new segment, its name included, is durable before the mark that
//! closes the old one is written, and that mark is durable before the first record of the new segment.
//! So a closed segment without its successor, and a used segment behind one that is not closed, are both
//! damage, whatever the moment of a crash.

use synod_machine::planted;

use crate::config::{self, Config};
use crate::disk::Disk;
use crate::error::Error;
use crate::record::{self, Chain, Kind};
use crate::segment::{self, Header, Origin, Slot};
use crate::writer::{self, Active, Journal, LaneSlots, SEAL_BYTES};

/// Makes the file of a segment under its temporary name and writes its header and slots.
pub(crate) fn build(
    disk: &mut dyn Disk,
    header: &Header,
    slots: &mut [LaneSlots],
    epoch: u32,
) -> Result<(), Error> {
    let file = segment::temporary(header.number);
    disk.create(&file, header.bytes).map_err(|error| Error::write("create", &file, error))?;
    writer::write(disk, &file, 0, &header.encode())?;
    for (lane, slots) in (0u8..).zip(slots) {
        if let Some(newest) = &mut slots.newest {
            newest.durable = header.durable;
            let page = Slot::encode(newest, lane, epoch, header.seed());
            writer::write(disk, &file, segment::slot_at(lane, 0), &page)?;
        }
        slots.which = 0;
        slots.due = false;
    }
    Ok(())
}

/// Gives a segment its final name, durably.
pub(crate) fn publish(disk: &mut dyn Disk, number: u64) -> Result<(), Error> {
    writer::sync(disk, &segment::temporary(number))?;
    give_name(disk, number)?;
    if planted!(G4) { Ok(()) } else { writer::sync_dir(disk) }
}

/// Renames a segment; the directory is not synced.
pub(crate) fn give_name(disk: &mut dyn Disk, number: u64) -> Result<(), Error> {
    let (from, to) = (segment::temporary(number), segment::name(number));
    disk.rename(&from, &to).map_err(|error| Error::write("rename", &from, error))
}

/// Bytes of records that fit a segment of the configured size.
pub(crate) fn room(config: &Config) -> u64 {
    config.segment_bytes.saturating_sub(segment::data_at(config.lanes) + SEAL_BYTES)
}

/// Size of a segment that holds `need` bytes of records beside its header, slots and closing mark.
pub(crate) fn size_for(config: &Config, need: u64) -> u64 {
    let whole = segment::data_at(config.lanes) + need + SEAL_BYTES;
    whole.max(config.segment_bytes).next_multiple_of(segment::PAGE_BYTES)
}

impl Active {
    /// A segment that was just built, with nothing in it.
    pub(crate) fn new(header: &Header) -> Self {
        Active {
            number: header.number,
            name: segment::name(header.number),
            bytes: header.bytes,
            tail: segment::data_at(header.lanes),
            seed: header.seed(),
            chain: header.chain,
            group: 1,
        }
    }
}

impl Journal {
    /// Closes the active segment, whose records are all synced, and begins the next one with room for a
    /// record of `need` bytes.
    pub(crate) fn rotate(&mut self, need: u64) -> Result<(), Error> {
        let (seal, chain) = self.seal(self.active.number + 1);
        let header = self.header(Origin::Continued, chain, size_for(&self.config, need));
        build(&mut *self.disk, &header, &mut self.slots, self.epoch)?;
        publish(&mut *self.disk, header.number)?;
        self.close_active(&seal)?;
        self.begin(&header);
        Ok(())
    }

    /// The header of the next segment.
    pub(crate) fn header(&self, origin: Origin, chain: Chain, bytes: u64) -> Header {
        Header {
            cluster: self.config.cluster,
            member: self.config.member,
            lanes: self.config.lanes,
            number: self.active.number + 1,
            origin,
            first: self.written + 1,
            durable: self.synced,
            chain,
            damaged: self.damaged,
            bytes,
            kept: Vec::new(),
            parts: 0,
        }
    }

    /// The mark that closes the active segment in favour of `next`, and the chain value behind it.
    pub(crate) fn seal(&self, next: u64) -> (Vec<u8>, Chain) {
        let head = self.head(Kind::Mark, 0, false);
        let mut seal = Vec::with_capacity(config::index(SEAL_BYTES));
        let chain =
            record::encode(&mut seal, self.active.seed, self.active.chain, &head, [&next.to_le_bytes(), &[]]);
        assert!(config::bytes(seal.len()) == SEAL_BYTES, "a segment keeps room for exactly this mark");
        (seal, chain)
    }

    pub(crate) fn close_active(&mut self, seal: &[u8]) -> Result<(), Error> {
        writer::write(&mut *self.disk, &self.active.name, self.active.tail, seal)?;
        if self.config.mode.syncs() {
            writer::sync(&mut *self.disk, &self.active.name)?;
        }
        Ok(())
    }

    /// Takes a published segment as the active one.
    pub(crate) fn begin(&mut self, header: &Header) {
        let held = self.blobs.segments.entry(self.active.number).or_default();
        held.end = (self.written, self.active.chain);
        self.blobs.segments.entry(header.number).or_default().bytes = header.bytes;
        self.active = Active::new(header);
        self.marked = self.synced;
        self.counters.segments += 1;
    }
}

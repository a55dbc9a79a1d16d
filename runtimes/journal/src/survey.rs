//! What a data directory holds: segment headers, leftovers, and the sign that it was never opened.

use std::collections::BTreeMap;

use crate::config::{self, Config};
use crate::disk::Disk;
use crate::error::Error;
use crate::rotate;
use crate::segment::{self, BadHeader, Header, Origin};
use crate::walk::Image;

/// The file that stands until a journal is opened for the first time.
pub(crate) const FRESH: &str = "FRESH";

/// The files of a journal.
pub(crate) struct Survey {
    /// Every segment; None where the header cannot be used.
    pub(crate) headers: BTreeMap<u64, Option<Header>>,
    /// Segments that were being built when the power went.
    pub(crate) temporaries: Vec<String>,
    /// Never opened.
    pub(crate) fresh: bool,
}

impl Survey {
    /// Reads the directory and every header. Refuses what another cluster, member or release wrote.
    pub(crate) fn take(disk: &mut dyn Disk, config: &Config) -> Result<Self, Error> {
        let mut survey = Survey { headers: BTreeMap::new(), temporaries: Vec::new(), fresh: false };
        for file in disk.list().map_err(|error| Error::read(".", error))? {
            if file == FRESH {
                survey.fresh = true;
            } else if let Some(number) = segment::number_of(&file) {
                survey.headers.insert(number, read_header(disk, config, number)?);
            } else if file.ends_with(".tmp") {
                survey.temporaries.push(file);
            }
        }
        Ok(survey)
    }

    /// Gives the segments of the newest compaction their names, where a crash came before all had theirs. They were
    /// durable, under their temporary names, before the first of them was renamed.
    pub(crate) fn finish_names(&mut self, disk: &mut dyn Disk, config: &Config) -> Result<(), Error> {
        let Some((first, parts)) = self.base().map(|base| (base.number, base.parts)) else { return Ok(()) };
        for number in (first..).skip(1).take(usize::from(parts)) {
            let file = segment::temporary(number);
            let waits = self.temporaries.iter().position(|name| *name == file);
            let Some(at) = waits.filter(|_| !self.headers.contains_key(&number)) else { continue };
            rotate::give_name(disk, number)?;
            self.temporaries.remove(at);
            self.headers.insert(number, read_header(disk, config, number)?);
        }
        Ok(())
    }

    /// The newest compaction, where the log begins.
    pub(crate) fn base(&self) -> Option<&Header> {
        self.headers.values().rev().flatten().find(|header| header.origin == Origin::Compacted)
    }

    /// The newest usable header.
    pub(crate) fn newest(&self) -> Option<&Header> {
        self.headers.values().rev().flatten().next()
    }
}

fn read_header(disk: &mut dyn Disk, config: &Config, number: u64) -> Result<Option<Header>, Error> {
    let mut page = vec![0; config::index(segment::PAGE_BYTES)];
    let file = segment::name(number);
    if disk.length(&file).map_err(|error| Error::read(&file, error))? < segment::PAGE_BYTES {
        return Ok(None);
    }
    disk.read_at(&file, 0, &mut page).map_err(|error| Error::read(&file, error))?;
    let header = match Header::decode(&page) {
        Ok(header) => header,
        Err(BadHeader::Damaged) => return Ok(None),
        Err(BadHeader::Newer) => {
            return Err(Error::Newer { segment: number, offset: 0, what: "a newer format" });
        }
    };
    for (same, what) in [
        (header.cluster == config.cluster, "cluster"),
        (header.member == config.member, "member"),
        (header.lanes == config.lanes, "set of machines"),
    ] {
        if !same {
            return Err(Error::Foreign { segment: number, what });
        }
    }
    // A segment under another's name was put there by hand or by a misdirected write.
    Ok(Some(header).filter(|header| header.number == number))
}

/// Reads a whole segment; a file shorter than its header says gives what there is.
pub(crate) fn read_image(disk: &mut dyn Disk, header: &Header) -> Result<Image, Error> {
    let file = segment::name(header.number);
    let length = disk.length(&file).map_err(|error| Error::read(&file, error))?.min(header.bytes);
    let mut bytes = vec![0; config::index(length)];
    disk.read_at(&file, 0, &mut bytes).map_err(|error| Error::read(&file, error))?;
    Ok(Image { header: header.clone(), bytes })
}

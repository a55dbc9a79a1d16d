//! Walking a journal's records without opening it: for as long as checksums and chain hold.

use crate::cluster::unwritable;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use synod_config::{SynError, code};
use synod_crypto::Hash;
use synod_journal::record::{Decoded, Kind, decode};
use synod_journal::segment::{self, Header};
use synod_machine::Record;
use synod_wire::{Bytes, Limits};

/// Bytes of a blob's name.
const NAME: usize = 32;

/// How often segments may vanish while they are read.
const AGAIN: usize = 100;

/// The journal's segments, oldest first.
fn segments(directory: &Path) -> Result<BTreeMap<u64, PathBuf>, SynError> {
    let unread = |error| unwritable(directory, &error);
    let mut segments = BTreeMap::new();
    for entry in std::fs::read_dir(directory).map_err(unread)? {
        let entry = entry.map_err(unread)?;
        if let Some(number) = entry.file_name().to_str().and_then(segment::number_of) {
            segments.insert(number, entry.path());
        }
    }
    Ok(segments)
}

/// Is shown a segment's path and bytes.
type See<'a> = dyn FnMut(&Path, &[u8]) -> Result<(), SynError> + 'a;

/// Shows `see` the bytes of every segment, oldest first. A node that runs may compact its journal meanwhile: what it wrote anew
/// is in segments behind those that it took away, so these are skipped and the others listed again.
fn each(directory: &Path, see: &mut See<'_>) -> Result<(), SynError> {
    let (mut seen, mut left) = (None, segments(directory)?);
    for _ in 0..AGAIN {
        let mut is_gone = false;
        for (number, path) in left {
            match std::fs::read(&path) {
                Ok(bytes) => see(&path, &bytes)?,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    is_gone = true;
                    break;
                }
                Err(error) => return Err(unwritable(&path, &error)),
            }
            seen = Some(number);
        }
        if !is_gone {
            return Ok(());
        }
        left = segments(directory)?;
        left.retain(|number, _| seen.is_none_or(|seen| *number > seen));
    }
    Err(damaged(directory, 0, "segments vanish faster than they are read"))
}

fn damaged(path: &Path, offset: u64, why: &str) -> SynError {
    let values = [("segment", &*path.display().to_string()), ("offset", &*offset.to_string())];
    SynError::of(code::JOURNAL_CORRUPT, &values).because(why)
}

/// Shows `see` the body of every record of this kind in `lane`, oldest first; what is damaged behind the last one that
/// holds is `inspect wal`'s to tell.
fn walk(
    directory: &Path,
    lane: u8,
    kind: Kind,
    see: &mut dyn FnMut(&[u8]) -> Result<(), &'static str>,
) -> Result<(), SynError> {
    each(directory, &mut |path, bytes| {
        let header = Header::decode(bytes).map_err(|_| damaged(path, 0, "its header cannot be used"))?;
        let (mut at, mut chain) = (segment::data_at(header.lanes), header.chain);
        while let Some(rest) = usize::try_from(at).ok().and_then(|at| bytes.get(at..)) {
            let Decoded::Record(found) = decode(header.seed(), rest) else { break };
            if !found.follows(chain) {
                break;
            }
            chain = found.chain;
            if found.head.kind == kind && found.head.lane == lane {
                see(found.body).map_err(|why| damaged(path, at, why))?;
            }
            at = at.saturating_add(u64::try_from(found.size).unwrap_or(u64::MAX));
        }
        Ok(())
    })
}

/// Shows `see` every promise in `lane`, oldest first.
///
/// # Errors
/// SYN-5001 for a record of another version or of other bytes; SYN-1101 where the system refuses.
pub(super) fn records<R: Record>(directory: &Path, lane: u8, mut see: impl FnMut(R)) -> Result<(), SynError> {
    walk(directory, lane, Kind::Record, &mut |body| {
        let body = match body.split_first() {
            Some((version, body)) if *version == R::VERSION => body,
            _ => return Err("a record has another version"),
        };
        let record = R::decode(Bytes::copy_from_slice(body), &Limits::default());
        see(record.map_err(|_| "a record does not decode")?);
        Ok(())
    })
}

/// The blobs of `lane` that have these names, as far as they are there.
///
/// # Errors
/// Those of the files.
pub(super) fn blobs(
    directory: &Path,
    lane: u8,
    names: &BTreeSet<Hash>,
) -> Result<BTreeMap<Hash, Bytes>, SynError> {
    let mut found = BTreeMap::new();
    walk(directory, lane, Kind::Blob, &mut |body| {
        if let Some((name, bytes)) = body.split_first_chunk::<NAME>()
            && names.contains(&Hash(*name))
        {
            found.insert(Hash(*name), Bytes::copy_from_slice(bytes));
        }
        Ok(())
    })?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_that_a_compaction_takes_away_are_skipped_and_those_it_wrote_are_read() {
        let directory = std::env::temp_dir().join(format!("synod-lanes-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory");
        let file = |number: u64| directory.join(segment::name(number));
        let write = |number: u64| std::fs::write(file(number), number.to_le_bytes()).expect("written");
        (1..=3).for_each(write);
        let mut seen = Vec::new();
        each(&directory, &mut |_, bytes| {
            let number = bytes.first_chunk().map(|bytes| u64::from_le_bytes(*bytes)).expect("a number");
            if number == 1 {
                (1..=3).for_each(|gone| std::fs::remove_file(file(gone)).expect("it was there"));
                (4..=5).for_each(write);
            }
            seen.push(number);
            Ok(())
        })
        .expect("all that is there");
        std::fs::remove_dir_all(&directory).expect("it is there");
        assert_eq!(seen, [1, 4, 5]);
    }
}

//! How often a memory node was started, on its disk before anybody hears of it: one that comes back is empty, and must
//! not be taken for the one it was.
//!
//! A number that is lost is not 1 again: the first start is said to be one, and any other without a number is refused.
//!
//! *Bounds.* A folder for each memory node, with two files of a line each.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use crate::error::Error;

const BOOT: &str = "boot";
const NEXT: &str = "boot.next";
/// Digits of the largest number, and a line's end.
const LINE_MAX: u64 = 21;

/// Which start this is said to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// The first: there must be no number yet.
    First,
    /// A later one: there must be a number.
    Again,
}

/// A start that is recorded. It is the only one of its folder as long as it is held.
#[derive(Debug)]
pub struct Boot {
    number: u64,
    _lock: File,
}

impl Boot {
    /// Records a start in `folder`, which the first one makes.
    ///
    /// # Errors
    /// [`Error::Plan`] when another one holds the folder, or there is a number and should be none, or none and should
    /// be one; or what the system said.
    pub fn record(folder: &Path, start: Start) -> Result<Self, Error> {
        let of = |call| move |source| Error::System { call, source };
        if start == Start::First {
            DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(of("mkdir"))?;
        }
        let lock = File::open(folder).map_err(of("open"))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Error::Plan("another memory node holds this folder"));
            }
            Err(TryLockError::Error(source)) => return Err(of("flock")(source)),
        }
        let number = match (start, read(&folder.join(BOOT)).map_err(of("read"))?) {
            (Start::First, None) => 1,
            (Start::Again, Some(last)) => last.checked_add(1).ok_or(Error::Plan("no number is left"))?,
            (Start::First, Some(_)) => return Err(Error::Plan("this memory node was started before")),
            (Start::Again, None) => {
                return Err(Error::Plan("no number of the last start is here: it may have been lost"));
            }
        };
        write(folder, number).map_err(of("write"))?;
        // The name is on disk before the number is used.
        lock.sync_all().map_err(of("fsync"))?;
        Ok(Self { number, _lock: lock })
    }

    /// How often it was started, this time included.
    #[must_use]
    pub const fn number(&self) -> u64 {
        self.number
    }
}

fn read(path: &Path) -> io::Result<Option<u64>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut text = String::new();
    file.take(LINE_MAX + 1).read_to_string(&mut text)?;
    let number = text.strip_suffix('\n').and_then(|text| text.parse().ok()).filter(|number| *number > 0);
    number.map(Some).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "not a boot number"))
}

fn write(folder: &Path, number: u64) -> io::Result<()> {
    let next = folder.join(NEXT);
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&next)?;
    writeln!(file, "{number}")?;
    file.sync_all()?;
    std::fs::rename(next, folder.join(BOOT))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Folder(std::path::PathBuf);

    impl Drop for Folder {
        fn drop(&mut self) {
            // The folder is this test's own.
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn folder(name: &str) -> Folder {
        Folder(std::env::temp_dir().join(format!("synod-boot-{name}-{}", std::process::id())))
    }

    #[test]
    fn numbers_rise_by_one_a_start_and_the_first_is_said_to_be_one() {
        let at = folder("rise");
        assert!(Boot::record(&at.0, Start::Again).is_err(), "nothing is there");
        assert_eq!(Boot::record(&at.0, Start::First).expect("recorded").number(), 1);
        assert!(matches!(Boot::record(&at.0, Start::First), Err(Error::Plan(_))), "it was started before");
        for number in 2..5 {
            assert_eq!(Boot::record(&at.0, Start::Again).expect("recorded").number(), number);
        }
    }

    #[test]
    fn a_number_that_is_lost_or_no_number_is_refused() {
        let at = folder("lost");
        drop(Boot::record(&at.0, Start::First).expect("recorded"));
        for text in ["", "x\n", "7", "0\n", "-1\n", "99999999999999999999999\n"] {
            std::fs::write(at.0.join(BOOT), text).expect("written");
            assert!(
                matches!(Boot::record(&at.0, Start::Again), Err(Error::System { call: "read", .. })),
                "{text}"
            );
        }
        std::fs::remove_file(at.0.join(BOOT)).expect("removed");
        assert!(matches!(Boot::record(&at.0, Start::Again), Err(Error::Plan(_))));
    }

    #[test]
    fn two_memory_nodes_do_not_share_a_folder() {
        let at = folder("two");
        let held = Boot::record(&at.0, Start::First).expect("recorded");
        assert!(matches!(Boot::record(&at.0, Start::Again), Err(Error::Plan(_))));
        drop(held);
        assert_eq!(Boot::record(&at.0, Start::Again).expect("recorded").number(), 2);
    }
}

//! The position up to which a receiver took everything, on disk.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use synod_config::{SynError, code};

/// The file in the node's data directory.
const FILE: &str = "webhook.cursor";
/// Longest file that is read.
const BYTES_MAX: u64 = 64;

/// See the module.
#[derive(Debug)]
pub(super) struct Cursor {
    path: PathBuf,
    position: u64,
}

impl Cursor {
    /// Reads the file; without one nothing was taken.
    ///
    /// # Errors
    /// SYN-1101 where it cannot be read or holds no position: it is removed by hand, and everything comes again.
    pub(super) fn open(data: &Path) -> Result<Self, SynError> {
        let path = data.join(FILE);
        let shown = path.display().to_string();
        let unreadable = |why: &dyn std::fmt::Display| {
            SynError::of(code::CONFIG_UNREADABLE, &[("file", &shown)]).because(why)
        };
        let mut text = String::new();
        match File::open(&path) {
            Ok(file) => {
                file.take(BYTES_MAX).read_to_string(&mut text).map_err(|error| unreadable(&error))?;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self { path, position: 0 }),
            Err(error) => return Err(unreadable(&error)),
        }
        let position = text.trim_end().parse();
        let position = position
            .map_err(|_| unreadable(&"it holds no position; without it everything is posted again"))?;
        Ok(Self { path, position })
    }

    pub(super) const fn position(&self) -> u64 {
        self.position
    }

    /// Keeps a position as one durable step.
    pub(super) fn keep(&mut self, position: u64) -> io::Result<()> {
        let next = self.path.with_extension("next");
        let mut file = File::create(&next)?;
        writeln!(file, "{position}")?;
        file.sync_all()?;
        std::fs::rename(&next, &self.path)?;
        let folder = self.path.parent().unwrap_or(Path::new("."));
        File::open(folder)?.sync_all()?;
        self.position = position;
        Ok(())
    }
}

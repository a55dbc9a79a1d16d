//! The committed corpora: `corpus/TARGET/NAME`, small inputs that are replayed by the tests.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use synod_wire::Drawn;

use crate::check;
use crate::target::Target;

/// Longest file of a corpus, in bytes.
pub const FILE_BYTES_MAX: u64 = 8 << 10;

/// Where the corpora stand.
#[must_use]
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

/// The files of a target, by name.
///
/// # Errors
/// What the system says, and a file longer than [`FILE_BYTES_MAX`].
pub fn read(root: &Path, target: &str) -> io::Result<Vec<(String, Vec<u8>)>> {
    let folder = root.join(target);
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.metadata()?.len() > FILE_BYTES_MAX {
            return Err(io::Error::other(format!(
                "{} is above {FILE_BYTES_MAX} bytes",
                entry.path().display()
            )));
        }
        files.push((entry.file_name().to_string_lossy().into_owned(), fs::read(entry.path())?));
    }
    files.sort();
    Ok(files)
}

/// Writes what a target's corpus begins with: its shortest accepted value, the same cut by a byte, and one of the
/// usual length. Files that stand there stay: past findings are kept beside them.
///
/// # Errors
/// What the system says.
pub fn bless(root: &Path, target: &Target) -> io::Result<()> {
    let folder = root.join(target.name);
    fs::create_dir_all(&folder)?;
    let mut from = Drawn::new(7);
    let mut drawn: Vec<Vec<u8>> =
        (0..64).map(|_| (target.seed)(&mut from)).filter(|seed| is_accepted(target, seed)).collect();
    drawn.sort_by_key(Vec::len);
    let Some(shortest) = drawn.first() else {
        return Err(io::Error::other(format!("{} accepts none of its own seeds", target.name)));
    };
    let usual = drawn.get(drawn.len() / 2).unwrap_or(shortest);
    let cut = usual.get(..usual.len().saturating_sub(1)).unwrap_or_default();
    for (name, bytes) in [("shortest", shortest.as_slice()), ("usual", usual), ("cut", cut)] {
        fs::write(folder.join(name), bytes)?;
    }
    Ok(())
}

/// Whether the target accepts the input.
fn is_accepted(target: &Target, bytes: &[u8]) -> bool {
    let before = check::accepted();
    (target.run)(bytes);
    check::accepted() > before
}

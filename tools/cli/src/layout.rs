//! Where the files of a cluster and of a node stand.
//!
//! A *node directory* holds `node.toml`, `genesis.toml`, `keys/node.key` and `data/`; all paths in `node.toml`
//! are relative to it, so that it can be copied to its machine as it is. A *data directory* holds `VERSION` and
//! `wal/`, the journal.

use std::path::{Path, PathBuf};
use synod_config::{SynError, code};

/// File with the keys a node chooses alone.
pub(crate) const NODE_FILE: &str = "node.toml";
/// File that all members share.
pub(crate) const GENESIS_FILE: &str = "genesis.toml";
/// The key of the one operator of a cluster that was made without named ones, beside the genesis.
pub(crate) const OPERATOR_FILE: &str = "operator.key";
/// File with the ports a deployment really uses.
pub(crate) const PORTS_FILE: &str = "ports.json";
/// The private key, below the node directory.
pub(crate) const KEY_FILE: &str = "keys/node.key";
/// The data directory, below the node directory.
pub(crate) const DATA_DIRECTORY: &str = "data";
/// File with the format of a data directory.
pub(crate) const VERSION_FILE: &str = "VERSION";
/// The format of a data directory.
pub(crate) const DATA_FORMAT: u32 = 1;

/// The directory of the journal.
pub(crate) fn journal(data: &Path) -> PathBuf {
    data.join("wal")
}

/// Refuses a data directory that a newer release wrote. One without a format is left to the journal to judge.
///
/// # Errors
/// SYN-1110 with what was found.
pub(crate) fn known_format(data: &Path) -> Result<(), SynError> {
    let file = data.join(VERSION_FILE);
    let Ok(text) = std::fs::read_to_string(&file) else { return Ok(()) };
    if text.trim().parse::<u32>().is_ok_and(|found| found <= DATA_FORMAT) {
        return Ok(());
    }
    let (file, known) = (file.display().to_string(), DATA_FORMAT.to_string());
    let values = [("file", &*file), ("found", text.trim()), ("known", &*known)];
    Err(SynError::of(code::FORMAT_NEWER, &values))
}

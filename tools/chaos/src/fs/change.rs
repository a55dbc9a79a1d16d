//! Changes that are not durable yet.

use super::image::Image;
use std::collections::BTreeMap;
use std::ffi::OsString;

/// The names in a directory.
pub(super) type Names = BTreeMap<OsString, u64>;

/// A change of a file.
#[derive(Clone, Debug)]
pub(super) enum Change {
    /// These bytes at this offset.
    Bytes { at: u64, bytes: Vec<u8> },
    /// This length.
    Length(u64),
}

impl Change {
    pub(super) fn apply(&self, image: &mut Image) {
        match self {
            Self::Bytes { at, bytes } => image.write(*at, bytes),
            Self::Length(length) => image.resize(*length),
        }
    }

    /// Bytes of a write.
    pub(super) const fn size(&self) -> u64 {
        match self {
            Self::Bytes { bytes, .. } => bytes.len() as u64,
            Self::Length(_) => 0,
        }
    }
}

/// A change of a directory.
#[derive(Clone, Debug)]
pub(super) enum Entry {
    /// A name for a new file or directory.
    Link { name: OsString, node: u64 },
    /// The name is gone.
    Unlink { name: OsString, node: u64 },
    /// Another name, which may have been that of something else.
    Move { from: OsString, to: OsString, node: u64 },
}

impl Entry {
    pub(super) fn apply(&self, names: &mut Names) {
        match self {
            Self::Link { name, node } => {
                names.insert(name.clone(), *node);
            }
            Self::Unlink { name, node } => forget(names, name, *node),
            Self::Move { from, to, node } => {
                forget(names, from, *node);
                names.insert(to.clone(), *node);
            }
        }
    }

    pub(super) const fn node(&self) -> u64 {
        match self {
            Self::Link { node, .. } | Self::Unlink { node, .. } | Self::Move { node, .. } => *node,
        }
    }
}

/// Removes a name, unless it is something else's by now.
fn forget(names: &mut Names, name: &OsString, node: u64) {
    if names.get(name) == Some(&node) {
        names.remove(name);
    }
}

/// A change with its place in the order of all changes of the file system.
#[derive(Clone, Debug)]
pub(super) struct Unsynced<T> {
    pub(super) order: u64,
    pub(super) what: T,
}

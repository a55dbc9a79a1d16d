//! Files and directories.

use super::change::{Change, Entry, Names, Unsynced};
use super::image::Image;
use fuser::{FileAttr, FileType, INodeNo};
use std::time::{SystemTime, UNIX_EPOCH};

/// Who may use a file, and when it changed last; never lost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Meta {
    pub(super) permissions: u16,
    pub(super) user: u32,
    pub(super) group: u32,
    pub(super) changed: SystemTime,
}

impl Meta {
    /// Of something new.
    pub(super) fn new(permissions: u16, user: u32, group: u32) -> Self {
        Self { permissions, user, group, changed: SystemTime::now() }
    }
}

/// A file.
#[derive(Clone, Debug, Default)]
pub(super) struct File {
    pub(super) now: Image,
    pub(super) durable: Image,
    pub(super) unsynced: Vec<Unsynced<Change>>,
}

/// A directory.
#[derive(Clone, Debug, Default)]
pub(super) struct Directory {
    pub(super) now: Names,
    pub(super) durable: Names,
    pub(super) unsynced: Vec<Unsynced<Entry>>,
}

impl Directory {
    /// Whether a name here leads to the node, now or after any power cut.
    pub(super) fn names(&self, node: u64) -> bool {
        self.now.values().chain(self.durable.values()).any(|named| *named == node)
            || self.unsynced.iter().any(|entry| entry.what.node() == node)
    }
}

#[derive(Clone, Debug)]
pub(super) enum Content {
    File(File),
    Directory(Directory),
}

/// A file or a directory.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) meta: Meta,
    /// The name it was given last.
    pub(super) name: String,
    /// How often the kernel was told of it and has not forgotten.
    pub(super) lookups: u64,
    pub(super) content: Content,
}

impl Node {
    pub(super) const fn kind(&self) -> FileType {
        match self.content {
            Content::File(_) => FileType::RegularFile,
            Content::Directory(_) => FileType::Directory,
        }
    }

    /// What the kernel is told of it.
    pub(super) fn attributes(&self, number: u64) -> FileAttr {
        let (size, allocated) = match &self.content {
            Content::File(file) => (file.now.length(), file.now.allocated()),
            Content::Directory(_) => (4_096, 4_096),
        };
        let changed = self.meta.changed;
        FileAttr {
            ino: INodeNo(number),
            size,
            blocks: allocated / 512,
            atime: changed,
            mtime: changed,
            ctime: changed,
            crtime: UNIX_EPOCH,
            kind: self.kind(),
            perm: self.meta.permissions,
            nlink: if matches!(self.content, Content::Directory(_)) { 2 } else { 1 },
            uid: self.meta.user,
            gid: self.meta.group,
            rdev: 0,
            blksize: 4_096,
            flags: 0,
        }
    }
}

//! All files and directories, and the operations on them. A refusal is the number the caller gets.

use super::change::{Change, Entry, Names, Unsynced};
use super::image::index;
use super::nodes::{Content, Directory, File, Meta, Node};
use fuser::Errno;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::time::SystemTime;

/// The root directory.
pub(super) const ROOT: u64 = 1;
/// Unsynced bytes after which the file system writes back by itself, as systems do.
const BACKLOG_MAX: u64 = 64 << 20;
/// Longest name.
const NAME_MAX: usize = 255;
/// Largest file.
const FILE_MAX: u64 = 1 << 40;

/// All files and directories.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    pub(super) nodes: BTreeMap<u64, Node>,
    pub(super) last: u64,
    order: u64,
    backlog: u64,
}

impl Tree {
    /// An empty root directory.
    pub(super) fn new() -> Self {
        let content = Content::Directory(Directory::default());
        let root = Node { meta: Meta::new(0o755, 0, 0), name: String::new(), lookups: 0, content };
        Self { nodes: BTreeMap::from([(ROOT, root)]), last: ROOT, order: 0, backlog: 0 }
    }

    pub(super) fn node(&self, number: u64) -> Result<&Node, Errno> {
        self.nodes.get(&number).ok_or(Errno::ENOENT)
    }

    pub(super) fn node_mut(&mut self, number: u64) -> Result<&mut Node, Errno> {
        self.nodes.get_mut(&number).ok_or(Errno::ENOENT)
    }

    fn directory(&self, number: u64) -> Result<&Directory, Errno> {
        match &self.node(number)?.content {
            Content::Directory(directory) => Ok(directory),
            Content::File(_) => Err(Errno::ENOTDIR),
        }
    }

    pub(super) fn file(&self, number: u64) -> Result<&File, Errno> {
        match &self.node(number)?.content {
            Content::File(file) => Ok(file),
            Content::Directory(_) => Err(Errno::EISDIR),
        }
    }

    pub(super) fn file_mut(&mut self, number: u64) -> Result<&mut File, Errno> {
        match &mut self.node_mut(number)?.content {
            Content::File(file) => Ok(file),
            Content::Directory(_) => Err(Errno::EISDIR),
        }
    }

    /// The node of a name.
    pub(super) fn find(&self, parent: u64, name: &OsStr) -> Result<u64, Errno> {
        self.directory(parent)?.now.get(name).copied().ok_or(Errno::ENOENT)
    }

    /// The names in a directory.
    pub(super) fn names(&self, number: u64) -> Result<&Names, Errno> {
        Ok(&self.directory(number)?.now)
    }

    /// Makes a file, or a directory.
    pub(super) fn make(
        &mut self,
        parent: u64,
        name: &OsStr,
        meta: Meta,
        content: Content,
    ) -> Result<u64, Errno> {
        if name.len() > NAME_MAX {
            return Err(Errno::ENAMETOOLONG);
        }
        if self.directory(parent)?.now.contains_key(name) {
            return Err(Errno::EEXIST);
        }
        self.last += 1;
        let number = self.last;
        let shown = name.to_string_lossy().into_owned();
        self.nodes.insert(number, Node { meta, name: shown, lookups: 0, content });
        self.enter(parent, Entry::Link { name: name.to_owned(), node: number })?;
        Ok(number)
    }

    /// Removes a name; a directory must be empty, and wanted.
    pub(super) fn remove(&mut self, parent: u64, name: &OsStr, directory: bool) -> Result<(), Errno> {
        let node = self.find(parent, name)?;
        match &self.node(node)?.content {
            Content::Directory(_) if !directory => return Err(Errno::EISDIR),
            Content::Directory(held) if !held.now.is_empty() => return Err(Errno::ENOTEMPTY),
            Content::File(_) if directory => return Err(Errno::ENOTDIR),
            _ => {}
        }
        self.enter(parent, Entry::Unlink { name: name.to_owned(), node })
    }

    /// Gives a file another name in its directory, replacing a file of that name if `replace`.
    pub(super) fn rename(
        &mut self,
        parent: u64,
        from: &OsStr,
        to: &OsStr,
        replace: bool,
    ) -> Result<(), Errno> {
        let node = self.find(parent, from)?;
        match self.find(parent, to) {
            Ok(same) if same == node => return Ok(()),
            Ok(_) if !replace => return Err(Errno::EEXIST),
            Ok(other) => {
                let pair = (&self.node(node)?.content, &self.node(other)?.content);
                if !matches!(pair, (Content::File(_), Content::File(_))) {
                    return Err(Errno::EISDIR);
                }
            }
            Err(_) => {}
        }
        self.node_mut(node)?.name = to.to_string_lossy().into_owned();
        self.enter(parent, Entry::Move { from: from.to_owned(), to: to.to_owned(), node })
    }

    /// Changes a directory, not durably.
    fn enter(&mut self, parent: u64, entry: Entry) -> Result<(), Errno> {
        self.order += 1;
        let order = self.order;
        let parent = self.node_mut(parent)?;
        parent.meta.changed = SystemTime::now();
        let Content::Directory(directory) = &mut parent.content else { return Err(Errno::ENOTDIR) };
        entry.apply(&mut directory.now);
        directory.unsynced.push(Unsynced { order, what: entry });
        Ok(())
    }

    /// Changes a file, not durably.
    pub(super) fn change(&mut self, number: u64, change: Change) -> Result<(), Errno> {
        let end = match &change {
            Change::Bytes { at, bytes } => at.saturating_add(bytes.len() as u64),
            Change::Length(length) => *length,
        };
        if end > FILE_MAX {
            return Err(Errno::EFBIG);
        }
        self.order += 1;
        self.backlog += change.size();
        let order = self.order;
        self.node_mut(number)?.meta.changed = SystemTime::now();
        let file = self.file_mut(number)?;
        change.apply(&mut file.now);
        file.unsynced.push(Unsynced { order, what: change });
        if self.backlog > BACKLOG_MAX {
            let files: Vec<u64> = self.nodes.keys().copied().collect();
            files.into_iter().for_each(|file| drop(self.sync(file)));
        }
        Ok(())
    }

    /// Bytes from a file.
    pub(super) fn read(&self, number: u64, at: u64, size: u32) -> Result<Vec<u8>, Errno> {
        Ok(self.file(number)?.now.read(at, index(u64::from(size))))
    }

    /// Makes a file durable; the ranges written since it was.
    pub(super) fn sync(&mut self, number: u64) -> Result<Vec<(u64, u64)>, Errno> {
        let changes = self.take_unsynced(number)?;
        let file = self.file_mut(number)?;
        changes.iter().for_each(|change| change.what.apply(&mut file.durable));
        let range = |change: &Unsynced<Change>| match &change.what {
            Change::Bytes { at, bytes } => Some((*at, bytes.len() as u64)),
            Change::Length(_) => None,
        };
        Ok(changes.iter().filter_map(range).collect())
    }

    /// Takes the unsynced changes of a file: readers see them, and unless the caller makes them durable nobody does.
    pub(super) fn take_unsynced(&mut self, number: u64) -> Result<Vec<Unsynced<Change>>, Errno> {
        let changes = std::mem::take(&mut self.file_mut(number)?.unsynced);
        let bytes: u64 = changes.iter().map(|change| change.what.size()).sum();
        self.backlog = self.backlog.saturating_sub(bytes);
        Ok(changes)
    }

    /// Makes the names in a directory durable.
    pub(super) fn sync_names(&mut self, number: u64) -> Result<(), Errno> {
        let Content::Directory(directory) = &mut self.node_mut(number)?.content else {
            return Err(Errno::ENOTDIR);
        };
        for entry in std::mem::take(&mut directory.unsynced) {
            entry.what.apply(&mut directory.durable);
        }
        self.sweep();
        Ok(())
    }

    /// The kernel has forgotten some of what it was told of a node.
    pub(super) fn forget(&mut self, number: u64, times: u64) {
        if let Some(node) = self.nodes.get_mut(&number) {
            node.lookups = node.lookups.saturating_sub(times);
            if node.lookups == 0 {
                self.sweep();
            }
        }
    }

    /// Drops what no name leads to and nobody has open.
    pub(super) fn sweep(&mut self) {
        loop {
            let unused = |number: &u64| {
                *number != ROOT
                    && self.nodes[number].lookups == 0
                    && !self.nodes.values().any(|node| match &node.content {
                        Content::Directory(directory) => directory.names(*number),
                        Content::File(_) => false,
                    })
            };
            let unused: Vec<u64> = self.nodes.keys().copied().filter(unused).collect();
            if unused.is_empty() {
                return;
            }
            for number in unused {
                drop(self.take_unsynced(number));
                self.nodes.remove(&number);
            }
        }
    }

    /// Bytes written and not synced.
    pub(super) const fn backlog(&self) -> u64 {
        self.backlog
    }

    /// There is nothing unsynced any more.
    pub(super) const fn settle(&mut self) {
        self.backlog = 0;
    }
}

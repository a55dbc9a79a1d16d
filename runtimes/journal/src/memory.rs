//! A directory in memory that can lose power.
//!
//! Handles are clones that share one state. [`MemDisk::crash`] decides the fate of every write and every
//! directory entry not yet synced, in the order they were issued, and gives the handle of the restarted
//! machine; older handles answer nothing but errors. Faults are armed by counting: the n-th write, sync
//! or directory sync from now. The simulator's disk draws fates and faults from its seed.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::disk::Disk;

/// What a write is torn at, in bytes.
pub const SECTOR_BYTES: u64 = 512;

/// Something that was issued and not synced when the power went.
#[derive(Debug, Clone, Copy)]
pub enum Unsynced<'a> {
    /// Bytes of a file.
    Write {
        /// The file.
        name: &'a str,
        /// Where, in bytes.
        offset: u64,
        /// How many bytes.
        length: u64,
        /// Sectors the write touches.
        sectors: u64,
    },
    /// A creation, rename or removal.
    Entry {
        /// The name that appears, or disappears.
        name: &'a str,
    },
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It reached the disk.
    Keep,
    /// It did not.
    Drop,
    /// Of a write, sector `i` reached the disk if bit `i % 64` is set; an entry is kept if bit 0 is set.
    Torn(u64),
}

/// Which operation of a disk a fault strikes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Strike {
    /// A write of bytes.
    Write,
    /// A sync of a file.
    Sync,
    /// A sync of the directory.
    SyncDir,
    /// Any operation that changes the disk: create, write, sync, directory sync, rename, remove.
    Any,
}

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// Input/output error. A failed sync drops the data: it reads back from memory until the crash, and
    /// later syncs report success without it.
    Error,
    /// No space left: half of a write is taken, then the error comes.
    Full,
    /// A write takes half of its bytes and reports so.
    Short,
    /// A sync reports success and does nothing. The data is not dropped.
    Lie,
    /// The machine stops: this operation and all later ones fail and change nothing.
    Stop,
}

#[derive(Debug, Clone, Default)]
struct Inode {
    durable: Vec<u8>,
    now: Vec<u8>,
    pending: Vec<(u64, Vec<u8>)>,
}

#[derive(Debug, Clone)]
enum Entry {
    Link(String, u64),
    Unlink(String),
    Rename { from: String, to: String, inode: u64 },
}

#[derive(Debug, Clone, Default)]
struct State {
    era: u64,
    locked: bool,
    stopped: bool,
    next: u64,
    inodes: BTreeMap<u64, Inode>,
    names: BTreeMap<String, u64>,
    durable_names: BTreeMap<String, u64>,
    entries: Vec<Entry>,
    faults: Vec<(Strike, u64, Failure)>,
    operations: u64,
    failures: u64,
}

/// A handle of a directory in memory.
#[derive(Debug)]
pub struct MemDisk {
    state: Arc<Mutex<State>>,
    era: u64,
    holds_lock: bool,
}

impl Clone for MemDisk {
    fn clone(&self) -> Self {
        MemDisk { state: Arc::clone(&self.state), era: self.era, holds_lock: false }
    }
}

impl Default for MemDisk {
    fn default() -> Self {
        MemDisk::new()
    }
}

impl MemDisk {
    /// An empty directory.
    pub fn new() -> Self {
        MemDisk { state: Arc::default(), era: 0, holds_lock: false }
    }

    /// Cuts the power. `fate` is asked about everything not synced, per file and then for the directory,
    /// in the order of issue. Returns the handle of the restarted machine.
    pub fn crash(&self, fate: &mut dyn FnMut(Unsynced<'_>) -> Fate) -> MemDisk {
        let mut state = self.state();
        let State { inodes, names, durable_names, entries, .. } = &mut *state;
        for (name, inode) in names.iter() {
            if let Some(inode) = inodes.get_mut(inode) {
                inode.settle(name, fate);
            }
        }
        for entry in std::mem::take(entries) {
            let (Entry::Link(name, _) | Entry::Unlink(name) | Entry::Rename { to: name, .. }) = &entry;
            match fate(Unsynced::Entry { name }) {
                Fate::Keep => entry.apply(durable_names),
                Fate::Torn(sectors) if sectors & 1 == 1 => entry.apply(durable_names),
                Fate::Torn(_) | Fate::Drop => {}
            }
        }
        state.names = state.durable_names.clone();
        let State { inodes, names, .. } = &mut *state;
        inodes.retain(|number, _| names.values().any(|named| named == number));
        for inode in inodes.values_mut() {
            inode.pending.clear();
            inode.now.clone_from(&inode.durable);
        }
        state.faults.clear();
        state.stopped = false;
        state.locked = false;
        state.era += 1;
        MemDisk { state: Arc::clone(&self.state), era: state.era, holds_lock: false }
    }

    /// A directory of its own with the same contents, synced and unsynced.
    pub fn fork(&self) -> MemDisk {
        let mut state = self.state().clone();
        state.locked = false;
        MemDisk { era: state.era, state: Arc::new(Mutex::new(state)), holds_lock: false }
    }

    /// Arms a fault: the `nth` operation of that sort from now (0 is the next one) meets it.
    pub fn fail(&self, strike: Strike, nth: u64, failure: Failure) {
        self.state().faults.push((strike, nth, failure));
    }

    /// Flips the bits of `mask` in one byte of a file, as rot does. False when there is no such byte.
    pub fn rot(&self, name: &str, offset: u64, mask: u8) -> bool {
        let mut state = self.state();
        let Some(inode) = state.names.get(name).copied().and_then(|inode| state.inodes.get_mut(&inode))
        else {
            return false;
        };
        let at = usize::try_from(offset).unwrap_or(usize::MAX);
        match (inode.durable.get_mut(at), inode.now.get_mut(at)) {
            (Some(durable), Some(now)) => {
                *durable ^= mask;
                *now ^= mask;
                true
            }
            _ => false,
        }
    }

    /// Removes every file, as a replaced disk does.
    pub fn wipe(&self) {
        let mut state = self.state();
        state.inodes.clear();
        state.names.clear();
        state.durable_names.clear();
        state.entries.clear();
    }

    /// What a file reads as now; None when there is no such file.
    pub fn contents(&self, name: &str) -> Option<Vec<u8>> {
        let state = self.state();
        state.names.get(name).and_then(|inode| state.inodes.get(inode)).map(|inode| inode.now.clone())
    }

    /// Operations that changed or tried to change the disk, since it was made.
    pub fn operations(&self) -> u64 {
        self.state().operations
    }

    /// Operations that answered with an error or took a part only, since it was made. Stops are not counted.
    pub fn failures(&self) -> u64 {
        self.state().failures
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn alive(&self) -> io::Result<MutexGuard<'_, State>> {
        let state = self.state();
        if state.era != self.era || state.stopped {
            return Err(io::Error::other("the machine has lost its power"));
        }
        Ok(state)
    }

    /// The state, and the failure armed for this operation.
    fn strike(&self, strike: Strike) -> io::Result<(MutexGuard<'_, State>, Option<Failure>)> {
        let mut state = self.alive()?;
        state.operations += 1;
        let mut struck = None;
        state.faults.retain_mut(|(armed, left, failure)| {
            if *armed != strike && *armed != Strike::Any {
                return true;
            }
            if *left == 0 && struck.is_none() {
                struck = Some(*failure);
                return false;
            }
            *left = left.saturating_sub(1);
            true
        });
        state.failures += u64::from(struck.is_some_and(Failure::is_told));
        if struck == Some(Failure::Stop) {
            state.stopped = true;
            return Err(io::Error::other("the machine stops here"));
        }
        Ok((state, struck))
    }

    /// For operations on names, which fail whole.
    fn change(&self) -> io::Result<MutexGuard<'_, State>> {
        match self.strike(Strike::Any)? {
            (state, None | Some(Failure::Lie | Failure::Short)) => Ok(state),
            (_, Some(failure)) => Err(failure.error()),
        }
    }
}

impl Failure {
    /// Whether who asked for the operation hears of it.
    const fn is_told(self) -> bool {
        matches!(self, Failure::Error | Failure::Full | Failure::Short)
    }

    fn error(self) -> io::Error {
        match self {
            Failure::Full => ErrorKind::StorageFull.into(),
            _ => io::Error::other("input/output error"),
        }
    }
}

impl Entry {
    fn apply(self, names: &mut BTreeMap<String, u64>) {
        match self {
            Entry::Link(name, inode) => {
                names.insert(name, inode);
            }
            Entry::Unlink(name) => {
                names.remove(&name);
            }
            Entry::Rename { from, to, inode } => {
                names.remove(&from);
                names.insert(to, inode);
            }
        }
    }
}

impl Inode {
    fn settle(&mut self, name: &str, fate: &mut dyn FnMut(Unsynced<'_>) -> Fate) {
        for (offset, bytes) in std::mem::take(&mut self.pending) {
            let length = bytes.len() as u64;
            let first = offset / SECTOR_BYTES;
            let sectors = (offset + length).div_ceil(SECTOR_BYTES) - first;
            let kept = match fate(Unsynced::Write { name, offset, length, sectors }) {
                Fate::Keep => u64::MAX,
                Fate::Drop => 0,
                Fate::Torn(sectors) => sectors,
            };
            for (at, byte) in (offset..).zip(&bytes) {
                let sector = at / SECTOR_BYTES - first;
                if kept >> (sector % 64) & 1 == 1 {
                    put(&mut self.durable, at, &[*byte]);
                }
            }
        }
    }
}

/// Writes into a file's bytes, which grow as a sparse file does.
fn put(file: &mut Vec<u8>, offset: u64, bytes: &[u8]) {
    let from = usize::try_from(offset).expect("files in memory are smaller than memory");
    let to = from + bytes.len();
    if file.len() < to {
        file.resize(to, 0);
    }
    file[from..to].copy_from_slice(bytes);
}

fn missing() -> io::Error {
    ErrorKind::NotFound.into()
}

impl Disk for MemDisk {
    fn lock(&mut self) -> io::Result<Option<u32>> {
        let mut state = self.alive()?;
        if state.locked {
            return Ok(Some(std::process::id()));
        }
        state.locked = true;
        drop(state);
        self.holds_lock = true;
        Ok(None)
    }

    fn list(&mut self) -> io::Result<Vec<String>> {
        Ok(self.alive()?.names.keys().cloned().collect())
    }

    fn create(&mut self, name: &str, bytes: u64) -> io::Result<()> {
        let mut state = self.change()?;
        if state.names.contains_key(name) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        let zeros = vec![0; usize::try_from(bytes).map_err(io::Error::other)?];
        state.next += 1;
        let number = state.next;
        state.inodes.insert(number, Inode { durable: zeros.clone(), now: zeros, pending: Vec::new() });
        state.names.insert(name.to_owned(), number);
        state.entries.push(Entry::Link(name.to_owned(), number));
        Ok(())
    }

    fn length(&mut self, name: &str) -> io::Result<u64> {
        let state = self.alive()?;
        let inode = state.names.get(name).and_then(|inode| state.inodes.get(inode)).ok_or_else(missing)?;
        Ok(inode.now.len() as u64)
    }

    fn read_at(&mut self, name: &str, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let state = self.alive()?;
        let inode = state.names.get(name).and_then(|inode| state.inodes.get(inode)).ok_or_else(missing)?;
        let from = usize::try_from(offset).map_err(io::Error::other)?;
        let bytes = inode.now.get(from..).and_then(|bytes| bytes.get(..into.len()));
        into.copy_from_slice(bytes.ok_or(ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write_at(&mut self, name: &str, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        let (mut state, struck) = self.strike(Strike::Write)?;
        let number = state.names.get(name).copied().ok_or_else(missing)?;
        let inode = state.inodes.get_mut(&number).ok_or_else(missing)?;
        let taken = match struck {
            Some(Failure::Error) => return Err(Failure::Error.error()),
            Some(Failure::Full | Failure::Short) => bytes.len() / 2,
            _ => bytes.len(),
        };
        if taken > 0 {
            put(&mut inode.now, offset, &bytes[..taken]);
            inode.pending.push((offset, bytes[..taken].to_vec()));
        }
        if struck == Some(Failure::Full) { Err(Failure::Full.error()) } else { Ok(taken) }
    }

    fn sync(&mut self, name: &str) -> io::Result<()> {
        let (mut state, struck) = self.strike(Strike::Sync)?;
        let number = state.names.get(name).copied().ok_or_else(missing)?;
        let inode = state.inodes.get_mut(&number).ok_or_else(missing)?;
        match struck {
            Some(Failure::Lie) => Ok(()),
            Some(failure) => {
                inode.pending.clear();
                Err(failure.error())
            }
            None => {
                for (offset, bytes) in std::mem::take(&mut inode.pending) {
                    put(&mut inode.durable, offset, &bytes);
                }
                Ok(())
            }
        }
    }

    fn sync_dir(&mut self) -> io::Result<()> {
        let (mut state, struck) = self.strike(Strike::SyncDir)?;
        match struck {
            Some(Failure::Lie) => Ok(()),
            Some(failure) => Err(failure.error()),
            None => {
                let State { entries, durable_names, .. } = &mut *state;
                for entry in entries.drain(..) {
                    entry.apply(durable_names);
                }
                Ok(())
            }
        }
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.change()?;
        let inode = state.names.remove(from).ok_or_else(missing)?;
        state.names.insert(to.to_owned(), inode);
        state.entries.push(Entry::Rename { from: from.to_owned(), to: to.to_owned(), inode });
        Ok(())
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        let mut state = self.change()?;
        state.names.remove(name).ok_or_else(missing)?;
        state.entries.push(Entry::Unlink(name.to_owned()));
        Ok(())
    }
}

impl Drop for MemDisk {
    fn drop(&mut self) {
        if self.holds_lock {
            let mut state = self.state();
            if state.era == self.era {
                state.locked = false;
            }
        }
    }
}

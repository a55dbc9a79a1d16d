//! A directory whose syncs can be held and whose writes and syncs can fail.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use synod_journal::{Disk as Files, OsDisk};

use crate::Disk;

/// What the rig and a node's disk share. `None` is the disk of a process that died.
pub(crate) struct Gate {
    disk: Mutex<Option<Disk>>,
    moved: Condvar,
    syncs: AtomicU64,
}

fn error(what: &str) -> io::Error {
    io::Error::other(what.to_owned())
}

impl Gate {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            disk: Mutex::new(Some(Disk::Works)),
            moved: Condvar::new(),
            syncs: AtomicU64::new(0),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Option<Disk>> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set(&self, disk: Disk) {
        *self.lock() = Some(disk);
        self.moved.notify_all();
    }

    /// The process died: nothing reaches the disk any more.
    pub(crate) fn die(&self) {
        *self.lock() = None;
        self.moved.notify_all();
    }

    /// Files that were synced.
    pub(crate) fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Acquire)
    }

    fn alive(&self) -> io::Result<Disk> {
        self.lock().ok_or_else(|| error("the process died"))
    }

    fn write(&self) -> io::Result<()> {
        match self.alive()? {
            Disk::FailsWrite => Err(error("no space left")),
            _ => Ok(()),
        }
    }

    fn sync(&self) -> io::Result<()> {
        let held = |disk: &mut Option<Disk>| *disk == Some(Disk::Holds);
        let disk = self.moved.wait_while(self.lock(), held).unwrap_or_else(PoisonError::into_inner);
        match *disk {
            None => Err(error("the process died")),
            Some(Disk::FailsSync) => Err(error("the sync failed")),
            Some(_) => Ok(()),
        }
    }
}

/// A real directory behind a gate.
pub(crate) struct Gated {
    inner: OsDisk,
    gate: Arc<Gate>,
}

impl Gated {
    pub(crate) fn open(path: &Path, gate: &Arc<Gate>) -> Box<Self> {
        let inner = OsDisk::open(path).expect("the directory for temporary files can be written");
        Box::new(Self { inner, gate: gate.clone() })
    }
}

impl Files for Gated {
    fn lock(&mut self) -> io::Result<Option<u32>> {
        self.inner.lock()
    }
    fn list(&mut self) -> io::Result<Vec<String>> {
        self.inner.list()
    }
    fn create(&mut self, name: &str, bytes: u64) -> io::Result<()> {
        self.gate.alive()?;
        self.inner.create(name, bytes)
    }
    fn length(&mut self, name: &str) -> io::Result<u64> {
        self.inner.length(name)
    }
    fn read_at(&mut self, name: &str, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.inner.read_at(name, offset, into)
    }
    fn write_at(&mut self, name: &str, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        self.gate.write()?;
        self.inner.write_at(name, offset, bytes)
    }
    fn sync(&mut self, name: &str) -> io::Result<()> {
        self.gate.sync()?;
        self.inner.sync(name)?;
        self.gate.syncs.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }
    fn sync_dir(&mut self) -> io::Result<()> {
        self.gate.sync()?;
        self.inner.sync_dir()
    }
    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        self.gate.alive()?;
        self.inner.rename(from, to)
    }
    fn remove(&mut self, name: &str) -> io::Result<()> {
        self.gate.alive()?;
        self.inner.remove(name)
    }
}

/// A directory of this process's own, removed when it is dropped.
pub(crate) struct Scratch(PathBuf);

static SCRATCHES: AtomicU32 = AtomicU32::new(0);

impl Scratch {
    pub(crate) fn new() -> Self {
        let number = SCRATCHES.fetch_add(1, Ordering::Relaxed);
        let name = format!("synod-parity-{}-{number}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A directory that is left behind harms nobody.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

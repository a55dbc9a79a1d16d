//! The directory a journal lives in, as few verbs as it needs, and the real one.
//!
//! Files are named, flat, and of a size fixed when they are made. Nothing is durable before `sync` (the
//! bytes of a file) and `sync_dir` (the names in the directory) have returned.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::FallocateFlags;

/// Name of the lock file, which holds the number of the process that uses the directory.
pub const LOCK: &str = "LOCK";

/// One flat directory of preallocated files.
pub trait Disk: Send {
    /// Claims the directory until this value is dropped. `Some(pid)` names the process that holds it.
    fn lock(&mut self) -> io::Result<Option<u32>>;
    /// The names of all files, in any order.
    fn list(&mut self) -> io::Result<Vec<String>>;
    /// Makes a file of `bytes` zeros, with its blocks reserved; an existing name is an error.
    fn create(&mut self, name: &str, bytes: u64) -> io::Result<()>;
    /// Size of a file in bytes.
    fn length(&mut self, name: &str) -> io::Result<u64>;
    /// Fills `into` from the bytes at `offset`; an end of file before that is an error.
    fn read_at(&mut self, name: &str, offset: u64, into: &mut [u8]) -> io::Result<()>;
    /// Writes once and says how many bytes were taken. The caller treats fewer than all as a failure.
    fn write_at(&mut self, name: &str, offset: u64, bytes: &[u8]) -> io::Result<usize>;
    /// Makes the bytes of a file durable (fdatasync).
    fn sync(&mut self, name: &str) -> io::Result<()>;
    /// Makes creations, renames and removals durable.
    fn sync_dir(&mut self) -> io::Result<()>;
    /// Gives a file another name, replacing any file of that name.
    fn rename(&mut self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file.
    fn remove(&mut self, name: &str) -> io::Result<()>;
}

/// A directory of the operating system.
#[derive(Debug)]
pub struct OsDisk {
    path: PathBuf,
    directory: File,
    files: BTreeMap<String, File>,
    lock: Option<File>,
}

impl OsDisk {
    /// Opens `path`, making the directory (mode 0700) if it is not there.
    pub fn open(path: &Path) -> io::Result<Self> {
        if !path.is_dir() {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
            if let Some(parent) = path.parent().filter(|parent| parent.is_dir()) {
                File::open(parent)?.sync_all()?;
            }
        }
        let directory = File::open(path)?;
        Ok(OsDisk { path: path.to_owned(), directory, files: BTreeMap::new(), lock: None })
    }

    /// The open file of that name: segments are few, so handles are kept.
    fn file(&mut self, name: &str) -> io::Result<&File> {
        if !self.files.contains_key(name) {
            let file = OpenOptions::new().read(true).write(true).open(self.path.join(name))?;
            self.files.insert(name.to_owned(), file);
        }
        self.files.get(name).ok_or_else(|| ErrorKind::NotFound.into())
    }
}

impl Disk for OsDisk {
    fn lock(&mut self) -> io::Result<Option<u32>> {
        let path = self.path.join(LOCK);
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                (&mut file).take(32).read_to_string(&mut text)?;
                return Ok(Some(text.trim().parse().unwrap_or(0)));
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
        file.set_len(0)?;
        writeln!(file, "{}", std::process::id())?;
        self.lock = Some(file);
        Ok(None)
    }

    fn list(&mut self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            if let Ok(name) = entry?.file_name().into_string() {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn create(&mut self, name: &str, bytes: u64) -> io::Result<()> {
        let path = self.path.join(name);
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
        if bytes > 0 {
            match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes) {
                Ok(()) => {}
                Err(rustix::io::Errno::OPNOTSUPP) => fill(&file, bytes)?,
                Err(errno) => return Err(errno.into()),
            }
        }
        self.files.insert(name.to_owned(), file);
        Ok(())
    }

    fn length(&mut self, name: &str) -> io::Result<u64> {
        Ok(self.file(name)?.metadata()?.len())
    }

    fn read_at(&mut self, name: &str, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.file(name)?.read_exact_at(into, offset)
    }

    fn write_at(&mut self, name: &str, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        self.file(name)?.write_at(bytes, offset)
    }

    fn sync(&mut self, name: &str) -> io::Result<()> {
        Ok(rustix::fs::fdatasync(self.file(name)?)?)
    }

    fn sync_dir(&mut self) -> io::Result<()> {
        self.directory.sync_all()
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path.join(from), self.path.join(to))?;
        if let Some(file) = self.files.remove(from) {
            self.files.insert(to.to_owned(), file);
        }
        Ok(())
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        self.files.remove(name);
        fs::remove_file(self.path.join(name))
    }
}

/// Reserves the blocks of a file by writing zeros, where the file system cannot do it otherwise.
fn fill(file: &File, bytes: u64) -> io::Result<()> {
    let zeros = vec![0; 1 << 20];
    let mut at = 0;
    while at < bytes {
        let step = zeros.len().min(usize::try_from(bytes - at).unwrap_or(usize::MAX));
        file.write_all_at(&zeros[..step], at)?;
        at += u64::try_from(step).unwrap_or(u64::MAX);
    }
    Ok(())
}

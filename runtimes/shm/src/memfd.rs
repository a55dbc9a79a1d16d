//! Memory files: made, sealed, checked (uBFT, sections 6.1 and 7; docs/papers/ubft.md).
//!
//! A file has its size for ever from the moment it is made (seals SHRINK and GROW), so that no reader can be killed by
//! a page that is gone, and mode 0600, so that another user cannot open a descriptor for reading anew for writing,
//! through procfs. Once its writer has mapped it, FUTURE_WRITE takes the right to write from every descriptor and
//! leaves that mapping, and SEAL ends all sealing.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{MemfdFlags, Mode, OFlags, SealFlags};
use rustix::io::Errno;

use crate::error::Error;
use crate::map::{Shown, Size, Written};

/// The seals that keep a reader from being killed.
const FIXED: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);

/// What was agreed on about memory that comes from another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// How many words it has.
    pub words: u32,
    /// The user it belongs to, as the system knows its maker.
    pub uid: u32,
}

/// Memory of a fixed size that can be written through its descriptor until it is closed for writing.
#[derive(Debug)]
pub struct Memfd {
    fd: OwnedFd,
    size: Size,
}

impl Memfd {
    /// Makes memory of `words` words, all zero, whose pages are taken at once. `name` is shown by the system to whoever
    /// looks at the mappings of a process, and means nothing.
    ///
    /// # Errors
    /// [`Error::Words`] when it cannot be mapped, [`Error::System`] when the system has no memory for it.
    pub fn create(name: &str, words: u32) -> Result<Self, Error> {
        let size = Size::of(words)?;
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = match rustix::fs::memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
            // Linux knows this flag from 6.3 on.
            Err(Errno::INVAL) => rustix::fs::memfd_create(name, flags),
            made => made,
        };
        let fd = fd.map_err(Error::of("memfd_create"))?;
        rustix::fs::fchmod(&fd, Mode::RUSR | Mode::WUSR).map_err(Error::of("fchmod"))?;
        let none = rustix::fs::FallocateFlags::empty();
        rustix::fs::fallocate(&fd, none, 0, size.bytes()).map_err(Error::of("fallocate"))?;
        rustix::fs::fcntl_add_seals(&fd, FIXED).map_err(Error::of("F_ADD_SEALS"))?;
        Ok(Self { fd, size })
    }

    /// Takes a descriptor for writing that another process made and gave.
    ///
    /// # Errors
    /// Says what about it is not as agreed; it is closed then.
    pub fn adopt(fd: OwnedFd, agreed: Agreed) -> Result<Self, Error> {
        let size = check(fd.as_fd(), agreed)?;
        Ok(Self { fd, size })
    }

    /// How many words it has.
    #[must_use]
    pub const fn words(&self) -> u32 {
        self.size.words()
    }

    /// Maps it for writing.
    ///
    /// # Errors
    /// [`Error::System`] when it was closed for writing before.
    pub fn map(&self) -> Result<Written, Error> {
        Written::new(self.fd.as_fd(), self.size)
    }

    /// Closes it for writing but for what is mapped, and ends sealing. Who calls it has the word of the writer that its
    /// mapping stands.
    ///
    /// # Errors
    /// [`Error::System`] when sealing had ended before.
    pub fn close(&self) -> Result<(), Error> {
        let seals = SealFlags::FUTURE_WRITE | SealFlags::SEAL;
        rustix::fs::fcntl_add_seals(&self.fd, seals).map_err(Error::of("F_ADD_SEALS"))
    }

    /// A descriptor for reading, to be given away.
    ///
    /// # Errors
    /// [`Error::System`] where procfs is not mounted, or the file belongs to another user.
    pub fn reader(&self) -> Result<OwnedFd, Error> {
        let path = format!("/proc/self/fd/{}", self.fd.as_raw_fd());
        rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).map_err(Error::of("open"))
    }
}

/// The descriptor for writing, to be given to the owner.
impl AsFd for Memfd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Makes memory that this process writes, and a descriptor for those who read: what the sender of a ring does. It is
/// closed for writing before anybody else can see it.
///
/// # Errors
/// Those of [`Memfd::create`].
pub fn offer(name: &str, words: u32) -> Result<(Written, OwnedFd), Error> {
    let memory = Memfd::create(name, words)?;
    let written = memory.map()?;
    memory.close()?;
    Ok((written, memory.reader()?))
}

/// Maps memory of another process for reading; `fd` is closed. Readers never wait for its owner.
///
/// # Errors
/// Says what about it is not as agreed. Nothing was mapped then.
#[expect(clippy::needless_pass_by_value, reason = "the descriptor is used up")]
pub fn see(fd: OwnedFd, agreed: Agreed) -> Result<Shown, Error> {
    let size = check(fd.as_fd(), agreed)?;
    Shown::new(fd.as_fd(), size)
}

/// Seals first: what they keep cannot change any more while the rest is looked at.
fn check(fd: BorrowedFd<'_>, agreed: Agreed) -> Result<Size, Error> {
    let size = Size::of(agreed.words)?;
    let seals = match rustix::fs::fcntl_get_seals(fd) {
        Err(Errno::INVAL) => return Err(Error::NoMemory),
        seals => seals.map_err(Error::of("F_GET_SEALS"))?,
    };
    if !seals.contains(FIXED) {
        return Err(Error::Unsealed);
    }
    let stat = rustix::fs::fstat(fd).map_err(Error::of("fstat"))?;
    let found = u64::try_from(stat.st_size).map_err(|_| Error::NoMemory)?;
    if found != size.bytes() {
        return Err(Error::Size { wanted: size.bytes(), found });
    }
    if stat.st_uid != agreed.uid {
        return Err(Error::Owner { wanted: agreed.uid, found: stat.st_uid });
    }
    let mode = stat.st_mode & 0o777;
    if mode & 0o077 != 0 {
        return Err(Error::Mode { mode });
    }
    Ok(size)
}

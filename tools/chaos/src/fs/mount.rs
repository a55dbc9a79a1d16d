//! Mounting a disk, and saying why it cannot be done.

use super::adapter::Adapter;
use super::control::Disk;
use fuser::{BackgroundSession, Config, MountOption, spawn_mount};
use std::fmt;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// The device of file systems in user space.
const DEVICE: &str = "/dev/fuse";

/// Why a disk cannot be mounted, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What is the matter.
    pub cause: String,
    /// What would help.
    pub fix: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}; {}", self.cause, self.fix)
    }
}

impl std::error::Error for Refusal {}

impl Refusal {
    fn of(what: &str, error: &io::Error) -> Self {
        let fix = match error.kind() {
            ErrorKind::NotFound => "load the kernel module with `modprobe fuse`",
            ErrorKind::PermissionDenied => {
                "run as root, or let this user open the device and mount with fusermount3"
            }
            _ => {
                "run as root on a machine whose kernel has FUSE; a container needs the device and CAP_SYS_ADMIN"
            }
        };
        Self { cause: format!("{what}: {error}"), fix: fix.to_owned() }
    }
}

/// Whether this machine has the device that disks are mounted through.
///
/// # Errors
/// Why not.
pub fn available() -> Result<(), Refusal> {
    let opened = std::fs::OpenOptions::new().read(true).write(true).open(DEVICE);
    opened.map(drop).map_err(|error| Refusal::of(&format!("{DEVICE} cannot be opened"), &error))
}

/// A mounted disk. Dropping it takes the mount down; the disk stays.
#[derive(Debug)]
pub struct Mounted {
    path: PathBuf,
    disk: Disk,
    session: Option<BackgroundSession>,
}

impl Mounted {
    /// Mounts a disk over an existing directory, whose own content is hidden until the mount is taken down.
    ///
    /// # Errors
    /// Why the machine does not let it.
    pub fn mount(disk: &Disk, path: &Path) -> Result<Self, Refusal> {
        available()?;
        let mut config = Config::default();
        config.mount_options =
            vec![MountOption::FSName("synod-chaos".to_owned()), MountOption::DefaultPermissions];
        let adapter = Adapter::new(disk.shared.clone());
        let session = spawn_mount(adapter, path, &config)
            .map_err(|error| Refusal::of(&format!("{} cannot be mounted over", path.display()), &error))?;
        Ok(Self { path: path.to_owned(), disk: disk.clone(), session: Some(session) })
    }

    /// The disk.
    #[must_use]
    pub const fn disk(&self) -> &Disk {
        &self.disk
    }

    /// Where it is mounted.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Takes the mount down and waits until the last request was answered.
    ///
    /// # Errors
    /// What the system refuses: somebody uses the file system still.
    pub fn unmount(mut self) -> io::Result<()> {
        self.session.take().map_or(Ok(()), BackgroundSession::umount_and_join)
    }
}

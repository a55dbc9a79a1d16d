//! The disks of the members.

use super::sweep::Sweeper;
use crate::bench::Processes;
use crate::layout::DATA_DIRECTORY;
use std::path::{Path, PathBuf};
use synod_chaos::Draw;
use synod_chaos::fs::{Disk, Loss, Mounted, Refusal, available};
use synod_config::{SynError, code};

/// What a machine without file systems in user space is told.
fn refused(refusal: &Refusal) -> SynError {
    let error = SynError::of(code::CONFIG_UNREADABLE, &[("file", "/dev/fuse")]);
    error.because(&refusal.cause).because(&refusal.fix)
}

/// Whether this machine can mount disks.
///
/// # Errors
/// SYN-1101 with the cause and what would help.
pub(crate) fn check() -> Result<(), SynError> {
    available().map_err(|refusal| refused(&refusal))
}

struct Slot {
    path: PathBuf,
    disk: Disk,
    mounted: Option<Mounted>,
}

/// One disk per member, mounted over its data directory. Dropping it takes all mounts down.
pub(crate) struct Disks(Vec<Slot>);

impl Disks {
    /// Moves the data of the members, none of which runs, to disks that are mounted in their place.
    ///
    /// # Errors
    /// SYN-1101 if this machine does not let it.
    fn lay(directory: &Path, names: &[String]) -> Result<Self, SynError> {
        let mut disks = Self(Vec::new());
        for name in names {
            let path = directory.join(name).join(DATA_DIRECTORY);
            let disk = Disk::of(&path).map_err(|error| crate::cluster::unwritable(&path, &error))?;
            let mounted = Mounted::mount(&disk, &path).map_err(|refusal| refused(&refusal))?;
            disks.0.push(Slot { path, disk, mounted: Some(mounted) });
        }
        Ok(disks)
    }

    /// The disk of a member.
    pub(crate) fn disk(&self, member: usize) -> &Disk {
        &self.0[member].disk
    }

    /// After the power of a member failed and its process ended: what its disk lost. The disk is mounted again.
    ///
    /// # Errors
    /// SYN-1101 if the mount cannot be taken down or made.
    pub(crate) fn lose(&mut self, member: usize, draw: &mut Draw) -> Result<Loss, SynError> {
        let slot = &mut self.0[member];
        slot.disk.release();
        if let Some(mounted) = slot.mounted.take() {
            mounted.unmount().map_err(|error| crate::cluster::unwritable(&slot.path, &error))?;
        }
        let loss = slot.disk.lose(draw);
        slot.mounted = Some(Mounted::mount(&slot.disk, &slot.path).map_err(|refusal| refused(&refusal))?);
        Ok(loss)
    }

    /// Takes all mounts down and, to look at later, puts what the disks hold in their place.
    ///
    /// # Errors
    /// What cannot be written.
    fn keep(&mut self) -> std::io::Result<()> {
        self.clear();
        for slot in &self.0 {
            std::fs::remove_dir_all(&slot.path)?;
            std::fs::create_dir(&slot.path)?;
            slot.disk.export(&slot.path)?;
        }
        Ok(())
    }

    fn clear(&mut self) {
        for slot in &mut self.0 {
            slot.disk.release();
            // What is still in use is left to the sweeper.
            drop(slot.mounted.take().map(Mounted::unmount));
        }
    }
}

impl Drop for Disks {
    fn drop(&mut self) {
        self.clear();
    }
}

/// The disks under a cluster, and who cleans up if this process cannot.
pub(crate) struct Furnished {
    pub(crate) disks: Disks,
    // Behind the disks: it hears that all is done once they are taken down.
    _sweeper: Sweeper,
}

impl Furnished {
    /// Stops the members of a cluster, moves their data to disks that can fail and starts them again.
    ///
    /// # Errors
    /// SYN-1101 if this machine does not let it; that a member did not come back.
    pub(crate) fn lay(processes: &mut Processes) -> Result<Self, SynError> {
        let sweeper = Sweeper::start(processes.directory())?;
        let all = processes.alive();
        all.iter().for_each(|member| processes.kill(*member));
        let names: Vec<String> = all.iter().map(|member| processes.name(*member).to_owned()).collect();
        let disks = Disks::lay(processes.directory(), &names)?;
        for member in all {
            processes.launch(member)?;
        }
        processes.await_all()?;
        Ok(Self { disks, _sweeper: sweeper })
    }

    /// Kills the members and takes the disks down; what they hold is put in their place if it is to be kept.
    ///
    /// # Errors
    /// SYN-1101 if it cannot be written.
    pub(crate) fn end(mut self, processes: &mut Processes, keep: bool) -> Result<(), SynError> {
        processes.alive().into_iter().for_each(|member| processes.kill(member));
        if !keep {
            return Ok(());
        }
        self.disks.keep().map_err(|error| crate::cluster::unwritable(processes.directory(), &error))
    }
}

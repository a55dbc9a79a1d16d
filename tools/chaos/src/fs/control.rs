//! The handle by which a disk is told what to do.

use super::copy;
use super::cut::Loss;
use super::faults::{Cut, Faults, Hits, Synced};
use super::state::{Power, Shared};
use super::tree::Tree;
use crate::Draw;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A disk in memory. Clones are handles of the same disk; it outlives its mounts.
#[derive(Clone, Debug)]
pub struct Disk {
    pub(super) shared: Arc<Shared>,
}

impl Default for Disk {
    fn default() -> Self {
        Self::empty()
    }
}

impl Disk {
    /// An empty disk.
    #[must_use]
    pub fn empty() -> Self {
        Self { shared: Arc::new(Shared::new(Tree::new())) }
    }

    /// A disk with the files and directories below `directory`, all of them durable.
    ///
    /// # Errors
    /// What cannot be read; something that is neither a file nor a directory.
    pub fn of(directory: &Path) -> io::Result<Self> {
        Ok(Self { shared: Arc::new(Shared::new(copy::load(directory)?)) })
    }

    /// Writes what readers of this disk would see into an existing directory.
    ///
    /// # Errors
    /// What cannot be written.
    pub fn export(&self, directory: &Path) -> io::Result<()> {
        let tree = self.shared.lock().tree.clone();
        copy::save(&tree, directory)
    }

    /// Puts these faults in force in place of all others.
    pub fn set(&self, faults: Faults) {
        self.shared.lock().faults = faults;
    }

    /// The faults in force.
    #[must_use]
    pub fn faults(&self) -> Faults {
        self.shared.lock().faults
    }

    /// How often faults were met.
    #[must_use]
    pub fn hits(&self) -> Hits {
        self.shared.lock().hits
    }

    /// Operations so far that changed or synced something.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.shared.lock().operations
    }

    /// Bytes written and not synced.
    #[must_use]
    pub fn unsynced(&self) -> u64 {
        self.shared.lock().tree.backlog()
    }

    /// The newest syncs of files, oldest first.
    #[must_use]
    pub fn syncs(&self) -> Vec<Synced> {
        self.shared.lock().log.iter().cloned().collect()
    }

    /// Lets the power fail at an operation to come.
    pub fn arm(&self, cut: Cut) {
        self.shared.lock().cut = Some(cut);
    }

    /// The power fails now: from here on nothing changes and no operation is answered.
    pub fn off(&self) {
        let mut state = self.shared.lock();
        state.cut = None;
        let on = state.power == Power::On;
        drop(state);
        if on {
            self.shared.set_power(Power::Off);
        }
    }

    /// Waits until the power has failed; false if it has not within `patience`.
    #[must_use]
    pub fn wait_off(&self, patience: Duration) -> bool {
        self.shared.wait_off(patience)
    }

    /// Answers every operation with EIO from now on, so that killed users can end and the mount can be taken down.
    pub fn release(&self) {
        let held = std::mem::take(&mut self.shared.lock().held);
        self.shared.set_power(Power::Dead);
        held.into_iter().for_each(|held| held.reply.error(fuser::Errno::EIO));
    }

    /// After a power cut: draws what is left of the changes that were not synced. No fault is in force any more, and
    /// the disk works again.
    pub fn lose(&self, draw: &mut Draw) -> Loss {
        let mut state = self.shared.lock();
        let loss = state.tree.lose(draw);
        state.faults = Faults::default();
        state.hold = false;
        drop(state);
        self.shared.set_power(Power::On);
        loss
    }

    /// Holds back every sync of a file from now on: its changes are not made durable and it is not answered.
    pub fn hold_syncs(&self) {
        self.shared.lock().hold = true;
    }

    /// Syncs that are held back.
    #[must_use]
    pub fn held(&self) -> usize {
        self.shared.lock().held.len()
    }

    /// Does and answers the syncs that were held back, and holds no more.
    pub fn let_syncs(&self) {
        let mut state = self.shared.lock();
        state.hold = false;
        for held in std::mem::take(&mut state.held) {
            match state.sync(held.node) {
                Ok(()) => held.reply.ok(),
                Err(error) => held.reply.error(error),
            }
        }
    }
}

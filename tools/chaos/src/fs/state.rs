//! The tree with its power supply, its faults and its log.

use super::faults::{Cut, Eio, Faults, Hits, Moment, Synced};
use super::tree::Tree;
use fuser::{Errno, ReplyEmpty};
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Syncs remembered.
const LOG_MAX: usize = 4_096;

/// Whether the disk works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Power {
    /// It works.
    On,
    /// It has stopped: nothing changes and nothing is answered.
    Off,
    /// Nothing changes and everything is answered with EIO, so that its users can end.
    Dead,
}

/// An operation that changes or syncs something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    /// Bytes or the length of a file.
    Write,
    /// A name.
    Name,
    /// The names of a directory.
    SyncNames,
    /// A file.
    Sync,
}

/// A sync that waits for its answer.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) node: u64,
    pub(super) reply: ReplyEmpty,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) tree: Tree,
    pub(super) power: Power,
    pub(super) faults: Faults,
    pub(super) hits: Hits,
    pub(super) cut: Option<Cut>,
    /// Whether syncs of files are held back.
    pub(super) hold: bool,
    pub(super) held: Vec<Held>,
    pub(super) log: VecDeque<Synced>,
    /// Operations that changed or synced something.
    pub(super) operations: u64,
}

/// What the file system and its handles share.
#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl State {
    /// Makes a file durable and takes note of it; a failure as commanded loses what was to become durable.
    pub(super) fn sync(&mut self, node: u64) -> Result<(), Errno> {
        if self.faults.eio == Some(Eio::Sync) {
            self.hits.eio_sync += 1;
            drop(self.tree.take_unsynced(node)?);
            return Err(Errno::EIO);
        }
        let ranges = self.tree.sync(node)?;
        let file = self.tree.node(node)?.name.clone();
        if self.log.len() == LOG_MAX {
            self.log.pop_front();
        }
        self.log.push_back(Synced { at: Instant::now(), file, ranges });
        Ok(())
    }

    /// Refuses what the faults refuse, and says how many bytes of a write are taken.
    pub(super) fn admit(&mut self, operation: Operation, bytes: usize) -> Result<usize, Errno> {
        if self.faults.full && matches!(operation, Operation::Write | Operation::Name) {
            self.hits.full += 1;
            return Err(Errno::ENOSPC);
        }
        if self.faults.eio == Some(Eio::Write) && operation == Operation::Write {
            self.hits.eio_write += 1;
            return Err(Errno::EIO);
        }
        if self.faults.short && bytes > 1 {
            self.hits.short += 1;
            return Ok(bytes / 2);
        }
        Ok(bytes)
    }
}

impl Shared {
    pub(super) const fn new(tree: Tree) -> Self {
        let state = State {
            tree,
            power: Power::On,
            faults: Faults { full: false, eio: None, short: false, slow: Duration::ZERO },
            hits: Hits { full: 0, eio_write: 0, eio_sync: 0, short: 0, slow: 0 },
            cut: None,
            hold: false,
            held: Vec::new(),
            log: VecDeque::new(),
            operations: 0,
        };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the power and tells all who wait for it.
    pub(super) fn set_power(&self, power: Power) {
        self.lock().power = power;
        self.changed.notify_all();
    }

    /// Waits until the power is off; false if it still is on after `patience`.
    pub(super) fn wait_off(&self, patience: Duration) -> bool {
        let on = |state: &mut State| state.power == Power::On;
        let waited = self.changed.wait_timeout_while(self.lock(), patience, on);
        let (_state, late) = waited.unwrap_or_else(PoisonError::into_inner);
        !late.timed_out()
    }

    /// The state once the power is on; an error once the disk is dead.
    pub(super) fn powered(&self) -> Result<MutexGuard<'_, State>, Errno> {
        let off = |state: &mut State| state.power == Power::Off;
        let state = self.changed.wait_while(self.lock(), off).unwrap_or_else(PoisonError::into_inner);
        if state.power == Power::Dead { Err(Errno::EIO) } else { Ok(state) }
    }

    /// Does an operation that changes or syncs something, if the power and the faults allow it.
    pub(super) fn operate<T>(
        &self,
        operation: Operation,
        work: impl FnOnce(&mut State) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let slow = self.powered()?.faults.slow;
        if !slow.is_zero() && matches!(operation, Operation::Write | Operation::Sync) {
            std::thread::sleep(slow);
            self.lock().hits.slow += 1;
        }
        let mut state = self.powered()?;
        state.operations += 1;
        let due = match &mut state.cut {
            Some(cut) if cut.skip == 0 => Some(cut.moment),
            Some(cut) => {
                cut.skip -= 1;
                None
            }
            None => None,
        };
        if due == Some(Moment::Before) {
            return self.fail(state);
        }
        let done = work(&mut state);
        if due == Some(Moment::After) {
            return self.fail(state);
        }
        done
    }

    /// The power fails now: the operation is answered when the disk is dead.
    fn fail<T>(&self, mut state: MutexGuard<'_, State>) -> Result<T, Errno> {
        state.cut = None;
        state.power = Power::Off;
        drop(state);
        self.changed.notify_all();
        drop(self.powered()?);
        // The power came back while the operation waited: its user never saw it fail, and cannot go on.
        Err(Errno::EIO)
    }
}

//! A gate that holds the jobs of one node.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Jobs wait in front of it while it is shut. The simulator never shuts it: there a held job is one whose answer
/// comes later in virtual time.
#[derive(Debug, Default)]
pub struct JobGate {
    shut: Mutex<bool>,
    moved: Condvar,
}

impl JobGate {
    fn lock(&self) -> MutexGuard<'_, bool> {
        self.shut.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shuts or opens it.
    pub fn set(&self, shut: bool) {
        *self.lock() = shut;
        self.moved.notify_all();
    }

    /// Returns once it is open.
    pub fn pass(&self) {
        drop(self.moved.wait_while(self.lock(), |shut| *shut).unwrap_or_else(PoisonError::into_inner));
    }
}

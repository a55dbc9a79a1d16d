//! What every loop drives.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use synod_host::{Backend, Outcome};

use crate::{Tally, Window, Workload};

/// Who is asked, for what, and when.
pub struct Drive {
    /// Who takes calls.
    pub backends: Vec<Arc<dyn Backend>>,
    /// What is asked.
    pub load: Arc<dyn Workload>,
    /// When.
    pub window: Window,
    /// Deadline of each call.
    pub deadline: Duration,
    /// Operations accepted so far, for whoever watches meanwhile.
    pub accepted: Arc<AtomicU64>,
}

impl Drive {
    /// Passes on what became of a call, and counts it.
    pub(crate) fn told(&self, lane: u64, first: u64, outcomes: &[Outcome]) -> Tally {
        self.load.told(lane, first, outcomes);
        let tally = Tally::of(outcomes);
        self.accepted.fetch_add(tally.accepted, Ordering::Relaxed);
        tally
    }
}

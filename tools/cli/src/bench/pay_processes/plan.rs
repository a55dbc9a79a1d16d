//! What is measured.

use std::path::PathBuf;

/// What happens to one institution under load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Fault {
    /// It is killed with SIGKILL, and started again later.
    Kill,
    /// What it says and hears comes 100 ms late, and in time again after that.
    Slow,
}

/// A run.
#[derive(Clone, Debug)]
pub(crate) struct ProcessPlan {
    pub(crate) nodes: u8,
    /// Customers of all institutions.
    pub(crate) accounts: u32,
    pub(crate) payments: u64,
    /// Payments of one request.
    pub(crate) chunk: u32,
    /// Requests on their way to each institution.
    pub(crate) requests: u32,
    pub(crate) faults: Vec<Fault>,
    /// `storage.sync` of the nodes.
    pub(crate) sync: &'static str,
    /// What results call it.
    pub(crate) durability: &'static str,
    pub(crate) out: Option<PathBuf>,
    /// Tells the audit of a payment that never was.
    pub(crate) planted: bool,
}

impl ProcessPlan {
    /// Customers of each institution.
    pub(crate) fn customers(&self) -> u32 {
        (self.accounts / u32::from(self.nodes.max(1))).max(1)
    }

    /// Payments below which the killed institution's customers could hold all that are left of a phase.
    pub(crate) fn payments_min(&self) -> u64 {
        let phases = 1 + 2 * self.faults.len() as u64;
        phases * u64::from(self.chunk) * u64::from(self.requests)
    }

    /// The institution that faults happen to: the last one.
    pub(crate) fn victim(&self) -> usize {
        usize::from(self.nodes.saturating_sub(1))
    }
}

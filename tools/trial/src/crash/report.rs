//! What an enumeration is told, and what it found.

use serde::Serialize;

/// What to enumerate.
#[derive(Clone, Debug)]
pub struct Order {
    /// The systems.
    pub systems: Vec<String>,
    /// Whether journals are the real one on a disk of blocks, with every subset of up to four un-synced writes.
    pub blocks: bool,
    /// Threads.
    pub jobs: usize,
    /// Takes one boundary of so many; 1 takes all.
    pub stride: u32,
}

/// A crash after which something was broken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// Repeats it.
    pub token: String,
    /// The checker.
    pub checker: String,
    /// What it saw.
    pub what: String,
}

/// One system's part.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SystemReport {
    /// The system.
    pub system: String,
    /// Boundaries at which a member crashed.
    pub points: u64,
    /// Storage outcomes of all of them.
    pub outcomes: u64,
    /// Statements on the wire before and after crashes that were compared.
    pub statements: u64,
    /// Outcomes after which one member had signed two statements of one conflict key.
    pub conflicts: u64,
    /// Outcomes with a broken promise gate, a lost acknowledgement, or a log that is no prefix.
    pub gate_violations: u64,
    /// Outcomes after which the member's own rules failed, or it did not come back.
    pub panics: u64,
    /// The first failures, at most 64.
    pub failures: Vec<Failure>,
}

impl SystemReport {
    /// Adds another part of the same system.
    pub(super) fn add(&mut self, other: Self) {
        self.points += other.points;
        self.outcomes += other.outcomes;
        self.statements += other.statements;
        self.conflicts += other.conflicts;
        self.gate_violations += other.gate_violations;
        self.panics += other.panics;
        self.failures.extend(other.failures);
        self.failures.truncate(FAILURES_MAX);
    }
}

/// Failures that a report names.
pub(super) const FAILURES_MAX: usize = 64;

/// What an enumeration found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CrashReport {
    /// Format of this object.
    pub schema: &'static str,
    /// Sums over the systems.
    pub points: u64,
    /// As in each system's part.
    pub outcomes: u64,
    /// As in each system's part.
    pub conflicts: u64,
    /// As in each system's part.
    pub gate_violations: u64,
    /// As in each system's part.
    pub panics: u64,
    /// Whether journals were real ones on disks of blocks.
    pub blocks: bool,
    /// Real milliseconds.
    pub wall_ms: u64,
    /// Each system's part.
    pub per: Vec<SystemReport>,
}

impl CrashReport {
    /// Whether nothing was broken.
    #[must_use]
    pub const fn passed(&self) -> bool {
        self.conflicts + self.gate_violations + self.panics == 0
    }

    /// The first failure.
    #[must_use]
    pub fn first(&self) -> Option<&Failure> {
        self.per.iter().find_map(|system| system.failures.first())
    }
}

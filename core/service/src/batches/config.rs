//! What a batch executor is built from.

use synod_quorum::{NodeId, Roster};

use crate::lanes::{LaneApp, State};

/// The bounds of a batch executor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchLimits {
    /// Bytes of waiting batches above which no input is taken, but while a state is taken over.
    pub lag_bytes: u64,
    /// Bytes of batches, and one batch more, that are handed in at most before one of them is executed.
    pub given_bytes: u64,
    /// Bytes of a batch at most: its body, and 8 for each entry.
    pub batch_bytes: u64,
    /// Bytes of codes and ids that are kept for questions, 5 per operation.
    pub results_bytes: u64,
    /// Heights of which codes are kept.
    pub results_heights: u32,
    /// Most reads that wait for their height; the oldest goes.
    pub reads: u32,
    /// Batches with fewer entries are one job instead of one per lane and step.
    pub small: u32,
}

impl Default for BatchLimits {
    fn default() -> Self {
        Self {
            lag_bytes: 64 << 20,
            given_bytes: 64 << 20,
            batch_bytes: 24 << 20,
            results_bytes: 128 << 20,
            results_heights: 4_096,
            reads: 4_096,
            small: 4_096,
        }
    }
}

/// What a batch executor is built from.
#[derive(Debug)]
pub struct BatchConfig<P: LaneApp> {
    /// The application in its first state; in as many lanes as jobs may run at once. Lanes never change a result.
    pub state: State<P>,
    /// This member.
    pub own: NodeId,
    /// The members, who are the sources of state.
    pub roster: Roster,
    /// Its bounds.
    pub limits: BatchLimits,
}

/// The part of the configuration that stays.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) own: NodeId,
    pub(super) roster: Roster,
    pub(super) limits: BatchLimits,
}

//! What an [`super::Ordering`] starts from, and what of it cannot work.

use synod_machine::broadcast::Position;
use synod_machine::{Span, Unrecoverable};

use super::asking::Asking;
use super::states::States;
use crate::batch::REQUESTS_MAX;
use crate::config::NUMBER_END;
use crate::replica::ReplicaConfig;

/// Positions between two states that are certified, unless it is said otherwise.
pub const CHECKPOINT_EVERY: u64 = 1_024;

/// See the module.
#[derive(Clone, Debug)]
pub struct OrderingConfig {
    /// The replica.
    pub replica: ReplicaConfig,
    /// Positions between two states that are certified.
    pub checkpoint_every: u64,
    /// The last position that the user holds durably.
    pub resume: Position,
    /// Payloads and barriers that wait to be ordered at most.
    pub pending_max: u32,
    /// Bytes of payloads that wait to be ordered at most.
    pub pending_bytes_max: u64,
    /// Entries that are given to the user, and not applied yet, at most. No slot is executed beyond.
    pub ahead_max: u64,
    /// When what is not ordered is said again at the soonest; doubles up to [`super::RETRY_MAX`].
    pub retry: Span,
}

impl OrderingConfig {
    /// A state is certified at each [`CHECKPOINT_EVERY`]th position, and delivery goes on behind `resume`.
    #[must_use]
    pub const fn new(replica: ReplicaConfig, resume: Position) -> Self {
        Self {
            replica,
            checkpoint_every: CHECKPOINT_EVERY,
            resume,
            pending_max: 4_096,
            pending_bytes_max: 4 << 20,
            ahead_max: 4_096,
            retry: Span::millis(10),
        }
    }

    /// Longest payload: a request of it has a place in a batch, signed as well.
    #[must_use]
    pub fn payload_max(&self) -> usize {
        let parameters = &self.replica.config.parameters;
        let room = parameters.batch_bytes_max.saturating_sub(64 + REQUEST_EXTRA);
        usize::try_from(parameters.request_inline_max.min(room)).unwrap_or(0)
    }

    /// Checks the numbers that depend on one another. A snapshot is certified once the users' states are at a position above it, which
    /// must come before archives are full and before it had to give way to newer snapshots: else nothing would ever be executed again.
    ///
    /// # Errors
    /// Which rule is broken.
    pub fn check(&self) -> Result<(), Unrecoverable> {
        let refuse = |why: String| Err(Unrecoverable(why));
        let Self { checkpoint_every, ahead_max, pending_max, retry, resume, .. } = *self;
        if checkpoint_every == 0 || ahead_max == 0 || pending_max == 0 || retry == Span::ZERO {
            return refuse(
                "checkpoints, entries ahead, pending payloads and retries are not none".to_owned(),
            );
        }
        if resume.0 >= NUMBER_END {
            return refuse(format!("no user holds position {}", resume.0));
        }
        let (slots, behind) = (self.replica.config.parameters.snapshot_slots, self.snapshot_slots_min());
        if u64::from(slots) < behind {
            return refuse(format!(
                "snapshots are {slots} slots apart, and must be {behind}: a checkpoint, a window and what is ahead"
            ));
        }
        let need = self.archive_bytes_min();
        if self.replica.archive_bytes_max < need {
            return refuse(format!(
                "an archive of {} bytes is too small: {need} hold the batches between two checkpoints twice",
                self.replica.archive_bytes_max
            ));
        }
        Ok(())
    }

    /// Slots between two snapshots at least: a checkpoint, a window and what is ahead.
    #[must_use]
    pub fn snapshot_slots_min(&self) -> u64 {
        let window = u64::from(self.replica.config.parameters.window);
        self.checkpoint_every.saturating_add(window).saturating_add(self.ahead_max)
    }

    /// Bytes of an archive at least: those of the batches between two checkpoints, twice.
    #[must_use]
    pub fn archive_bytes_min(&self) -> u64 {
        let window = u64::from(self.replica.config.parameters.window);
        self.checkpoint_every.saturating_add(window).saturating_mul(self.batch_bytes()).saturating_mul(2)
    }

    /// Bytes that are held beside the replica's, at most: what waits, a slot that is delivered, states, barriers and snapshots.
    pub(super) fn own_bytes_max(&self) -> u64 {
        let slot = self.batch_bytes() + (REQUESTS_MAX as u64 + 2) * 128;
        let small = (2 * u64::from(self.pending_max) + 16) * 96;
        Asking::bytes_max(self) + slot + States::bytes_max(self.replica.config.roster.size()) + small
    }

    /// Bytes that a batch takes in an archive at most.
    fn batch_bytes(&self) -> u64 {
        let parameters = &self.replica.config.parameters;
        self.replica.config.body_max() as u64 + 64 * u64::from(parameters.batch_max) + 128
    }
}

/// Bytes of a signed request beside its operation, at most.
const REQUEST_EXTRA: u32 = 128;

//! What the application was given and did not execute yet.
//!
//! A server delivers faster than an application may execute, and what waits there waits with its body. So some of the batches
//! are awaited: the application says when they are executed, and with them all before. No batch is begun while more bytes wait
//! than may.
//!
//! *Bounds.* The bytes of the setting and those of one batch; a height and a number per eighth of them.

use std::collections::VecDeque;
use std::sync::Arc;

use synod_crypto::Hash;
use synod_machine::Wall;
use synod_machine::broadcast::Position;

use crate::batch::Batch;
use crate::dedup::Exceptions;

/// Bytes that an application is given at most before it says that it executed some, and one batch more, unless it is set.
pub(super) const GIVEN_BYTES: u64 = 64 << 20;
/// One of the batches is awaited whenever this part of them was given.
const PART: u64 = 8;

/// A delivered batch of messages, for the application.
#[derive(Clone, Debug)]
pub struct Apply {
    /// The height it took.
    pub height: u64,
    /// Its position in the order.
    pub position: Position,
    /// Agreed time.
    pub time: Wall,
    /// Hash of position, agreed time and payload: unknown to the broker when it sealed.
    pub draw: Hash,
    /// The batch.
    pub batch: Batch,
    /// The ids of its entries, in order.
    pub ids: Arc<[u32]>,
    /// What of it was not delivered.
    pub exceptions: Exceptions,
    /// Length of the directory.
    pub directory: u32,
    /// Whether [`super::ServerInput::Executed`] is to follow once this batch and all before it are executed.
    pub awaited: bool,
}

/// What was given and not executed, as far as the server knows.
#[derive(Clone, Debug, Default)]
pub(super) struct Given {
    /// Heights that are awaited, and the bytes up to each behind the one before it.
    awaited: VecDeque<(u64, u64)>,
    /// Bytes behind the last of them.
    rest: u64,
}

impl Given {
    /// A batch of so many bytes is given; whether it is awaited, where `most` may wait.
    pub(super) fn give(&mut self, height: u64, bytes: u64, most: u64) -> bool {
        self.rest += bytes;
        let awaited = self.rest >= most / PART;
        if awaited {
            self.awaited.push_back((height, core::mem::take(&mut self.rest)));
        }
        awaited
    }

    /// The application executed everything up to this height.
    pub(super) fn executed(&mut self, height: u64) {
        while self.awaited.pop_front_if(|(awaited, _)| *awaited <= height).is_some() {}
    }

    /// The application goes on from another state: what waited there is gone.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Bytes that wait there.
    pub(super) fn bytes(&self) -> u64 {
        self.awaited.iter().map(|(_, bytes)| bytes).sum::<u64>() + self.rest
    }
}

#[cfg(test)]
mod tests {
    use super::Given;

    #[test]
    fn what_is_executed_waits_no_more_and_what_is_full_awaits_something() {
        let mut given = Given::default();
        let awaited: Vec<u64> = (2..30).filter(|height| given.give(*height, 30, 800)).collect();
        assert_eq!(awaited, [5, 9, 13, 17, 21, 25, 29], "each 100 bytes");
        assert_eq!(given.bytes(), 28 * 30);
        given.executed(4);
        assert_eq!(given.bytes(), 28 * 30, "nobody waits for 4");
        given.executed(14);
        assert_eq!(given.bytes(), 16 * 30);
        given.executed(29);
        assert_eq!(given.bytes(), 0);
        assert!(given.give(30, 5_000, 800), "a batch above the bound is awaited at once");
        assert!(!given.give(31, 99, 800) && given.give(32, 1, 800));
        given.clear();
        assert_eq!(given.bytes(), 0);
    }

    #[test]
    fn with_everything_executed_less_than_may_wait_is_left() {
        let mut given = Given::default();
        for height in 2..1_000 {
            if given.give(height, height % 70, 800) {
                given.executed(height);
            }
            assert!(given.bytes() < 100, "nothing that is not awaited keeps the next one waiting");
        }
    }
}

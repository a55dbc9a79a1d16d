//! What the machines of Chop Chop tell, counted: batches, messages, exceptions, clients; and a broker's look at itself.
//!
//! Counts are since the process started; a server that replays behind its last mark counts what it delivers again.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use synod_chopchop::batch::Refusal;
use synod_chopchop::broker::Seen as BrokerSeen;
use synod_machine::Note;
use synod_net::histogram::{COUNTS, Histogram, TIMES_NS};

/// States of others that are remembered.
const STATES_MAX: usize = 8;

/// What a server or broker told so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChopSeen {
    /// Batches accepted, genesis included; at a broker the highest height that was proven.
    pub height: u64,
    /// Batches delivered, genesis included.
    pub delivered: u64,
    /// Clients that are known.
    pub directory: u64,
    /// Height of the last certified checkpoint.
    pub stable: u64,
    /// Height that a durable checkpoint of every server covers.
    pub collected: u64,
    /// Batches of messages delivered since the process started.
    pub batches: u64,
    /// Entries of those batches.
    pub entries: u64,
    /// Entries of them that were not delivered: repeated, stale or void.
    pub exceptions: u64,
    /// Height of the own checkpoint that the process began with, if there was one.
    pub resumed: Option<u64>,
    /// States taken from others since the process started.
    pub states: u64,
    /// The last eight of them, oldest first: batches delivered here before, and height of the state. What lies between was not
    /// delivered here.
    pub taken: VecDeque<(u64, u64)>,
    /// Batches witnessed.
    pub witnessed: u64,
    /// Batches refused by this server, or at a broker by servers: by why.
    pub refused: BTreeMap<Refusal, u64>,
    /// Whether keys of a batch are added in vectors; else one by one.
    pub in_vectors: bool,
    /// Bytes of bodies that are witnessed and neither ordered nor expired.
    pub pinned: u64,
    /// Sums of keys under signatures that held, and those of them that were begun from the sum of another batch.
    pub sums: (u64, u64),
    /// Aggregates that a broker checked in its searches for bad shares.
    pub searched: u64,
    /// Batches that a broker sealed.
    pub sealed: u64,
    /// Entries of sealed batches.
    pub sealed_entries: u64,
    /// Entries of sealed batches under their own signature.
    pub stragglers: u64,
    /// Bytes of sealed batches.
    pub sealed_bytes: u64,
    /// A broker's look at itself, of the last second.
    pub broker: Option<BrokerSeen>,
    /// Why the server stopped by itself, if it did.
    pub alarm: Option<&'static str>,
}

impl ChopSeen {
    /// A state of that height took the place of what was delivered here.
    fn took(&mut self, from: u64, height: u64) {
        (self.delivered, self.states) = (self.delivered.max(height), self.states + 1);
        if self.taken.len() == STATES_MAX {
            self.taken.pop_front();
        }
        self.taken.push_back((from, height));
    }
}

/// Counts what is told.
pub struct ChopMeters {
    seen: Mutex<ChopSeen>,
    /// From being asked for a shard to giving it, in nanoseconds.
    pub witness: Histogram,
    /// Entries of batches: delivered at a server, sealed at a broker.
    pub batch_ops: Histogram,
    /// Bytes that servers took in batches which they witnessed.
    witnessed_bytes: AtomicU64,
    /// Entries of those.
    witnessed_entries: AtomicU64,
}

impl Default for ChopMeters {
    fn default() -> Self {
        Self {
            seen: Mutex::default(),
            witness: Histogram::new(TIMES_NS),
            batch_ops: Histogram::new(COUNTS),
            witnessed_bytes: AtomicU64::new(0),
            witnessed_entries: AtomicU64::new(0),
        }
    }
}

impl ChopMeters {
    /// A copy of what was told.
    #[must_use]
    pub fn look(&self) -> ChopSeen {
        self.seen().clone()
    }

    /// Bytes and entries of the batches that this server witnessed.
    #[must_use]
    pub fn witnessed(&self) -> (u64, u64) {
        (self.witnessed_bytes.load(Ordering::Relaxed), self.witnessed_entries.load(Ordering::Relaxed))
    }

    pub(crate) fn seen(&self) -> MutexGuard<'_, ChopSeen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what a machine noted; notes of other protocols are none of these.
    pub(crate) fn note(&self, note: &Note) {
        let [first, second, third, _] = note.values;
        match note.name {
            "batch_witnessed" => {
                self.seen().witnessed += 1;
                self.witness.record(third);
                self.witnessed_entries.fetch_add(first, Ordering::Relaxed);
                self.witnessed_bytes.fetch_add(second, Ordering::Relaxed);
            }
            "batch_refused" => {
                if let Some(why) = Refusal::ALL.iter().find(|why| u64::from(why.code()) == first) {
                    *self.seen().refused.entry(*why).or_default() += 1;
                }
            }
            "store_pinned" => self.seen().pinned = first,
            "keys_added" => {
                let mut seen = self.seen();
                seen.sums = (seen.sums.0 + 1, seen.sums.1 + first);
            }
            "shares_searched" => self.seen().searched += first,
            "batch_delivered" => {
                self.batch_ops.record(second);
                let mut seen = self.seen();
                seen.delivered = seen.delivered.max(first);
                seen.batches += 1;
                seen.entries += second;
                seen.exceptions += third;
            }
            "cards_appended" => {
                let mut seen = self.seen();
                (seen.delivered, seen.directory) = (seen.delivered.max(first), seen.directory.max(second));
            }
            "state_resumed" => {
                let mut seen = self.seen();
                (seen.delivered, seen.resumed) = (seen.delivered.max(second), Some(second));
            }
            "state_installed" => self.seen().took(third, second),
            "batch_sealed" => {
                self.batch_ops.record(first);
                let mut seen = self.seen();
                seen.sealed += 1;
                seen.sealed_entries += first;
                seen.stragglers += second;
                seen.sealed_bytes += third;
            }
            "false_witness" => {
                tracing::error!(
                    height = first,
                    "f + 1 servers witnessed a batch that breaks a rule: the server stops"
                );
                self.seen().alarm = Some("false_witness");
            }
            "adder_mismatch" => {
                tracing::error!("sums of keys disagree between the fast path and its reference");
                self.seen().in_vectors = false;
            }
            "store_silent" => tracing::warn!("the store lost promises: it witnesses nothing for a while"),
            "behind_retention" => {
                tracing::info!(
                    position = first,
                    height = second,
                    "others no longer hold what is missing here: taking over a state"
                );
            }
            _ => {}
        }
    }

    /// Says by which way keys are added.
    pub(crate) fn adds(&self, in_vectors: bool) {
        self.seen().in_vectors = in_vectors;
    }

    pub(crate) fn broker(&self, seen: BrokerSeen) {
        let mut all = self.seen();
        (all.height, all.directory) = (seen.height, u64::from(seen.directory));
        all.broker = Some(seen);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use synod_crypto::Hash;

    #[test]
    fn notes_add_up_and_those_of_others_count_for_nothing() {
        let meters = ChopMeters::default();
        let tell = |name, values: [u64; 3]| {
            let [a, b, c] = values;
            meters.note(&Note { name, values: [a, b, c, 0], digest: Hash::ZERO });
        };
        tell("batch_witnessed", [100, 9_000, 1_000_000]);
        tell("batch_delivered", [2, 100, 3]);
        tell("batch_delivered", [3, 50, 0]);
        tell("batch_sealed", [64, 8, 700]);
        tell("block_delivered", [9, 9, 9]);
        for (name, first) in
            [("batch_refused", 10), ("batch_refused", 10), ("batch_refused", 200), ("shares_searched", 3)]
        {
            tell(name, [first, 0, 0]);
        }
        meters.adds(true);
        let seen = meters.look();
        assert_eq!(seen.refused, BTreeMap::from([(Refusal::Credit, 2)]), "no code of ours is none");
        assert_eq!((seen.searched, seen.in_vectors), (3, true));
        for (name, first) in
            [("store_pinned", 900), ("store_pinned", 70), ("keys_added", 1), ("keys_added", 0)]
        {
            tell(name, [first, 5, 0]);
        }
        assert_eq!((meters.look().pinned, meters.look().sums), (70, (2, 1)));
        tell("adder_mismatch", [1, 0, 0]);
        assert!(!meters.look().in_vectors);
        assert_eq!(seen.delivered, 3);
        assert_eq!((seen.witnessed, seen.batches, seen.entries, seen.exceptions), (1, 2, 150, 3));
        assert_eq!((seen.sealed, seen.sealed_entries, seen.stragglers, seen.sealed_bytes), (1, 64, 8, 700));
        assert_eq!(meters.witnessed(), (9_000, 100));
        assert_eq!((meters.witness.read().count, meters.batch_ops.read().count), (1, 3));
        assert_eq!(seen.alarm, None);
        tell("false_witness", [7, 0, 0]);
        assert_eq!(meters.look().alarm, Some("false_witness"));
    }

    #[test]
    fn states_are_told_with_the_heights_that_were_not_delivered_here() {
        let meters = ChopMeters::default();
        let tell = |name, values: [u64; 3]| {
            let [a, b, c] = values;
            meters.note(&Note { name, values: [a, b, c, 0], digest: Hash::ZERO });
        };
        tell("state_resumed", [8, 9, 0]);
        tell("batch_delivered", [10, 100, 0]);
        assert_eq!((meters.look().resumed, meters.look().states), (Some(9), 0), "its own is none of others");
        tell("state_installed", [64, 60, 10]);
        let seen = meters.look();
        assert_eq!((seen.delivered, seen.entries, seen.states), (60, 100, 1));
        assert_eq!(seen.taken, [(10, 60)]);
        (1..=8).for_each(|n| tell("state_installed", [64 * n, 60 + 10 * n, 60 + 10 * n - 10]));
        let seen = meters.look();
        assert_eq!(
            (seen.states, seen.taken.len()),
            (9, STATES_MAX),
            "all are counted, the last are remembered"
        );
        assert_eq!((seen.taken.front(), seen.taken.back()), (Some(&(60, 70)), Some(&(130, 140))));
    }
}

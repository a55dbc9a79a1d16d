//! Places for items of brokers on their way into the order: nobody takes them all (deviation D17).
//!
//! Half of all places is for whoever comes. Of the other half each broker has a few, so that whoever fills the first, with items
//! that do not hold or that do, keeps nobody else out.

use std::collections::BTreeMap;

use synod_machine::broadcast::AtomicBroadcast;
use synod_quorum::NodeId;

use super::{PENDING_MAX, Server};

/// Places of one broker beyond the first half.
const SHARE: usize = 16;

/// Items of brokers whose shards are being checked.
#[derive(Clone, Debug, Default)]
pub(super) struct Checking {
    of: BTreeMap<NodeId, usize>,
    all: usize,
}

impl Checking {
    /// One more of this broker.
    pub(super) fn add(&mut self, broker: NodeId) {
        *self.of.entry(broker).or_insert(0) += 1;
        self.all += 1;
    }

    /// One of this broker is checked.
    pub(super) fn remove(&mut self, broker: NodeId) {
        let Some(count) = self.of.get_mut(&broker) else { return };
        *count -= 1;
        self.all -= 1;
        if *count == 0 {
            self.of.remove(&broker);
        }
    }

    pub(super) const fn len(&self) -> usize {
        self.all
    }
}

impl<A: AtomicBroadcast> Server<A> {
    /// Whether one more item of this broker is taken.
    pub(super) fn has_place(&self, broker: NodeId) -> bool {
        let all = self.pending.len() + self.checking.len();
        if all < PENDING_MAX / 2 {
            return true;
        }
        let waits = self.pending.values().filter(|pending| pending.brokers.first() == Some(&broker));
        let own = waits.count() + self.checking.of.get(&broker).copied().unwrap_or(0);
        own < SHARE && all < PENDING_MAX
    }
}

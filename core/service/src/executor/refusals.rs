//! How often each connection was refused for what it sent: above 100 times a minute it is cut (hotstuff 6).
//!
//! Counted are faults of the client: bad signatures, unknown sessions, sequences outside the window or reused, items too
//! large. That this node is busy or not ready is not the client's doing.
//!
//! *Bounds.* One count per connection, at most as many as [`REFUSED_MAX`]; the one that began first makes room.

use std::collections::BTreeMap;

use synod_machine::{Span, Time};
use synod_quorum::NodeId;

use super::config::REFUSED_MAX;
use crate::message::Refused;

/// Refusals that a connection may have in a minute.
const REFUSALS_MAX: u32 = 100;
const MINUTE: Span = Span::secs(60);

/// The refusals of the connections, each since its first within a minute.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    counts: BTreeMap<NodeId, (Time, u32)>,
}

impl Refusals {
    /// Counts one; whether it is one too many. Then the count begins anew.
    pub(super) fn count(&mut self, guest: NodeId, why: Refused, now: Time) -> bool {
        match why {
            Refused::Busy { .. } | Refused::NotReady => return false,
            Refused::BadSignature
            | Refused::UnknownSession
            | Refused::OutsideWindow
            | Refused::Reused
            | Refused::TooLarge => {}
        }
        if self.counts.len() >= REFUSED_MAX && !self.counts.contains_key(&guest) {
            let oldest = self.counts.iter().min_by_key(|(_, (since, _))| *since).map(|(guest, _)| *guest);
            oldest.and_then(|guest| self.counts.remove(&guest));
        }
        let (since, count) = self.counts.entry(guest).or_insert((now, 0));
        if now.since(*since) >= MINUTE {
            (*since, *count) = (now, 0);
        }
        *count += 1;
        let over = *count > REFUSALS_MAX;
        if over {
            self.counts.remove(&guest);
        }
        over
    }

    /// The connection is gone.
    pub(super) fn forget(&mut self, guest: NodeId) {
        self.counts.remove(&guest);
    }

    pub(super) fn bytes(&self) -> u64 {
        self.counts.len() as u64 * 64
    }
}

#[cfg(test)]
mod tests {
    use super::{REFUSALS_MAX, REFUSED_MAX, Refusals};
    use crate::message::Refused;
    use synod_machine::{Span, Time};
    use synod_quorum::NodeId;

    const GUEST: NodeId = NodeId(200);

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::millis(ms)
    }

    #[test]
    fn a_hundred_refusals_a_minute_are_borne_and_one_more_is_not() {
        let mut refusals = Refusals::default();
        for n in 0..u64::from(REFUSALS_MAX) {
            assert!(!refusals.count(GUEST, Refused::BadSignature, at(n)));
            assert!(!refusals.count(NodeId(201), Refused::NotReady, at(n)), "not its fault");
        }
        assert!(!refusals.count(NodeId(202), Refused::OutsideWindow, at(59_000)), "another connection");
        assert!(refusals.count(GUEST, Refused::UnknownSession, at(59_999)));
    }

    #[test]
    fn refusals_spread_over_time_are_borne_and_a_new_connection_begins_anew() {
        let mut refusals = Refusals::default();
        for n in 0..10 * u64::from(REFUSALS_MAX) {
            assert!(!refusals.count(GUEST, Refused::Reused, at(n * 601)));
        }
        for n in 0..u64::from(REFUSALS_MAX) {
            assert!(!refusals.count(NodeId(201), Refused::Reused, at(n)));
        }
        refusals.forget(NodeId(201));
        assert!(!refusals.count(NodeId(201), Refused::Reused, at(200)));
    }

    #[test]
    fn the_number_of_counts_is_bounded() {
        let mut refusals = Refusals::default();
        for guest in 0..2 * u32::try_from(REFUSED_MAX).expect("small") {
            refusals.count(NodeId(guest), Refused::Reused, at(u64::from(guest)));
        }
        assert_eq!(refusals.counts.len(), REFUSED_MAX);
        assert!(refusals.counts.contains_key(&NodeId(2 * 4_096 - 1)), "the newest stay");
    }
}

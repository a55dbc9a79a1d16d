//! How many bytes consensus holds, and may hold at most (specification, 8.1).

use synod_machine::Bounded;

use super::consensus::Consensus;
use super::fetch::Fetches;
use super::pace::Pace;
use super::work::{Lane, Work};
use crate::slot::SHARE_BYTES;

impl Bounded for Consensus {
    fn bytes(&self) -> u64 {
        let broadcasts: u64 = self.ctb.iter().map(|(_, one)| one.bytes()).sum();
        let lanes: u64 = self.lanes.values().map(Lane::bytes).sum();
        let works: u64 = self.works.values().map(Work::bytes).sum();
        let spare = (self.spare.len() * size_of::<Work>()) as u64;
        let shares =
            self.summaries.len() + self.left.len() + self.checkpoints.len() + self.certified_by.len();
        let shares = shares as u64 * 512;
        let states: usize = self.own.states.values().map(synod_wire::Wire::size_hint).sum();
        broadcasts + lanes + works + spare + shares + states as u64 + self.pace.bytes() + self.fetches.bytes()
    }

    fn bytes_max(&self) -> u64 {
        let n = u64::from(self.config.roster.size());
        let (tail, window) =
            (u64::from(self.config.parameters.tail), u64::from(self.config.parameters.window));
        let body = self.config.body_max() as u64 + 512;
        let broadcasts: u64 = self.ctb.iter().map(|(_, one)| one.bytes_max()).sum();
        // Messages that wait, what a stream amounts to and its summary, and two bodies by reference.
        let reference = u64::from(super::summary::reference_max(&self.config));
        let lanes = n
            * (tail * (body + 64 + 4 * reference / tail.max(1))
                + 2 * reference
                + 2 * body
                + 4 * window * 160
                + 8_192);
        // Batches that somebody may be bound to, and others; two windows, and one behind.
        let each = 1_024 + n * (2 * SHARE_BYTES as u64 + 192);
        let works = 3 * window * ((n + 12) * body + each);
        let spare = window * size_of::<Work>() as u64;
        let shares = (n * n + n + 16) * 512;
        let rest = 8 * window * 160 + Pace::BYTES_MAX + Fetches::bytes_max(&self.config);
        broadcasts + lanes + works + spare + shares + rest
    }
}

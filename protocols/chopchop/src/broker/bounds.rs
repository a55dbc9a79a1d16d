//! What a broker holds at most: the memory formula of 8.1.

use synod_machine::Bounded;

use super::Broker;
use super::collect::EXPLAINED_TOGETHER;
use super::enrol::Desk;
use super::held::Earlier;
use super::open::{Batch, SLOT_BYTES, Shares};
use super::read::ReadKeys;
use crate::keybook::KeyBook;

/// Bytes of the room of one entry's shares.
const SHARES_BYTES: u64 = size_of::<Shares>() as u64;

impl Bounded for Broker {
    fn bytes(&self) -> u64 {
        let batches: u64 = self.batches.values().map(Batch::bytes).sum();
        let submissions = self.pool.len() + self.held.len() + self.unchecked.len() + self.checking;
        let explained = self.explaining.len() as u64 * (512 + self.config.message_max());
        let rows = self.standings.bytes() + self.pool.row_bytes() + self.under_check.row_bytes();
        let per_client = rows + 24 * self.buckets.len() as u64;
        self.directory.bytes()
            + self.book.bytes()
            + self.read.bytes()
            + per_client
            + submissions as u64 * (160 + self.config.message_max())
            + 96 * self.under_check.len() as u64
            + batches
            + SHARES_BYTES * self.spare.capacity() as u64
            + explained
            + 128 * self.links.len() as u64
            + Earlier::bytes_max(self.config.cluster.roster().size())
            + self.desk.bytes()
    }

    fn bytes_max(&self) -> u64 {
        let parameters = &self.config.parameters;
        let rules = self.config.cluster.rules();
        let clients = u64::from(self.directory.len());
        let entry = SLOT_BYTES + self.config.message_max();
        let open = 2 * u64::from(parameters.pipeline_max) + 1;
        let batch = u64::from(rules.batch_max) * entry + u64::from(rules.body_bytes_max);
        clients * (112 + 72 + 24 + 16)
            + 64
            + KeyBook::bytes_of(self.directory.len())
            + ReadKeys::bytes_max(clients, parameters.read_keys_max)
            + self.config.pool_max() as u64 * (96 + 3 * (160 + self.config.message_max()))
            + (open + 1) * batch
            + 2 * SHARES_BYTES * u64::from(rules.batch_max)
            + EXPLAINED_TOGETHER as u64 * (512 + self.config.message_max())
            + parameters.keep_bytes
            + 128 * u64::from(parameters.links_max)
            + Earlier::bytes_max(self.config.cluster.roster().size())
            + Desk::BYTES_MAX
    }
}

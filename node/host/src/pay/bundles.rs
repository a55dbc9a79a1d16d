//! What is on its way between shards, as this node knows it.

use synod_astro::{BundlesSeen, Input};
use tokio::sync::oneshot;

use super::Teller;
use super::orders::Open;
use super::teller::{Answer, RETRY_MS};
use super::words::Denied;

impl Teller {
    /// What left this node's shard, and a quorum of another has not said to have credited.
    pub fn bundles(&self) -> Answer<BundlesSeen> {
        let (reply, answer) = oneshot::channel();
        if self.has_nobody() {
            // Who asked may have gone.
            let _ = reply.send(Err(Denied::NotMember));
            return answer;
        }
        let ticket = self.state().next(Open::Bundles(reply));
        if !self.give(Input::ReadBundles { ticket }) {
            self.refuse(ticket, Denied::Busy(RETRY_MS));
        }
        answer
    }

    pub(super) fn on_bundles(&self, ticket: u64, bundles: BundlesSeen) {
        if let Some(Open::Bundles(reply)) = self.state().answered(ticket) {
            // Who asked may have gone.
            let _ = reply.send(Ok(bundles));
        }
    }
}

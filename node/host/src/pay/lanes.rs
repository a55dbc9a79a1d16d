//! How far the batches of each representative are.

use std::collections::BTreeMap;

use synod_astro::{Input, LaneSeen};
use tokio::sync::oneshot;

use super::Teller;
use super::orders::Open;
use super::teller::{Answer, RETRY_MS};
use super::words::Denied;

impl Teller {
    /// How far the lanes are at this node.
    pub fn lanes(&self) -> Answer<Vec<LaneSeen>> {
        let (reply, answer) = oneshot::channel();
        if self.has_nobody() {
            // Who asked may have gone.
            let _ = reply.send(Err(Denied::NotMember));
            return answer;
        }
        let ticket = self.state().next(Open::Lanes(reply));
        if !self.give(Input::ReadLanes { ticket }) {
            self.refuse(ticket, Denied::Busy(RETRY_MS));
        }
        answer
    }

    pub(super) fn on_lanes(&self, ticket: u64, lanes: Vec<LaneSeen>) {
        if let Some(Open::Lanes(reply)) = self.state().answered(ticket) {
            // Who asked may have gone.
            let _ = reply.send(Ok(lanes));
        }
    }

    /// Representatives that signed two batches for a place, by number, with the last such place, as far as this node saw since it
    /// started.
    #[must_use]
    pub fn doubled(&self) -> BTreeMap<u32, u64> {
        self.torn.lanes()
    }
}

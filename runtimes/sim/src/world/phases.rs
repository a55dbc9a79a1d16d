//! The liveness phase: progress within a bound, or a stall with its reason.

use synod_machine::{Span, Time};

use super::node::Status;
use super::run::World;
use crate::checker::Violation;
use crate::harness::Harness;

/// How often a demand is looked at, in parts of its bound.
const LOOKS: u64 = 64;

impl World {
    /// Runs until `reached` holds, for at most `bound`. Normally called after [`World::heal`], whose core must then
    /// make the progress that `reached` describes.
    ///
    /// # Errors
    /// The first violation of the run, or one of checker `stall` with what every node was doing.
    pub fn demand(
        &mut self,
        bound: Span,
        harness: &mut dyn Harness,
        reached: &mut dyn FnMut(&Self) -> bool,
    ) -> Result<(), Violation> {
        let start = self.now;
        for look in 0..=LOOKS {
            let passed = u128::from(bound.0) * u128::from(look) / u128::from(LOOKS);
            let until = start.saturating_add(u64::try_from(passed).unwrap_or(u64::MAX));
            self.run(Time(until), harness)?;
            if reached(self) {
                return Ok(());
            }
        }
        let mut what = format!("no progress within {bound}:");
        for node in &self.nodes {
            let state = match node.status {
                Status::Up if node.paused_until > self.now => "paused",
                Status::Up => "up",
                Status::Down => "down",
                Status::Halted => "halted",
            };
            let ready = node.slots.iter().all(|slot| slot.hosted.as_ref().is_some_and(|h| h.ready()));
            let ready = if ready { "" } else { ", not ready" };
            what.push_str(&format!(" node {} {state}{ready} ({} lives);", node.id.0, node.incarnation));
        }
        self.violate(Violation::new("stall", what), None);
        self.violation.clone().map_or(Ok(()), Err)
    }
}

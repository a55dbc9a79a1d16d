//! What operators can see of a node: notes, faults, rules and links, gathered from the reactors.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use synod_machine::{Fault, Link, Note, Rule};
use synod_net::{Failure, Observer};
use synod_quorum::NodeId;
use synod_service::executor::ExecutorStatus;

/// A look at a node's ordering, as its notes told it.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// The current view.
    pub view: u64,
    /// Who leads it, as far as this node knows.
    pub leader: Option<u32>,
    /// Height of the last committed block.
    pub height: u64,
    /// When the last block was committed.
    pub committed_at: Option<Instant>,
    /// Terms given up since the process started.
    pub given_up: u64,
    /// The present view timeout in milliseconds; 0 before the first.
    pub timeout_ms: u64,
    /// Whether the replica only listens, for it lost its promises.
    pub listening: bool,
    /// Faults by peer and name.
    pub faults: BTreeMap<(u32, &'static str), u64>,
    /// Rules applied.
    pub rules: BTreeMap<&'static str, u64>,
    /// Peers whose links are up.
    pub up: BTreeMap<u32, bool>,
    /// Alarms: names of notes after which a replica stops.
    pub alarms: Vec<&'static str>,
    /// The executor's last word about itself.
    pub executor: Option<ExecutorStatus>,
}

/// Gathers what a node's machines tell. Calls come per block, not per command.
#[derive(Default)]
pub struct Watch {
    seen: Mutex<Seen>,
}

impl Watch {
    /// A copy of what was gathered.
    #[must_use]
    pub fn look(&self) -> Seen {
        self.seen().clone()
    }

    pub(crate) fn executor(&self, status: ExecutorStatus) {
        self.seen().executor = Some(status);
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Watch {
    fn blame(&self, _machine: u8, peer: NodeId, fault: &Fault) {
        *self.seen().faults.entry((peer.0, fault.name)).or_default() += 1;
        tracing::warn!(peer = peer.0, fault = fault.name, code = fault.code, "a peer broke a rule");
    }

    fn applied(&self, _machine: u8, rule: Rule) {
        *self.seen().rules.entry(rule.name).or_default() += 1;
    }

    fn note(&self, _machine: u8, note: &Note) {
        let mut seen = self.seen();
        let [first, second, third, _] = note.values;
        match note.name {
            "view_entered" => {
                seen.view = first;
                seen.leader = u32::try_from(third).ok();
                tracing::debug!(view = first, reason = second, leader = third, "view entered");
            }
            "committed" => {
                seen.height = seen.height.max(first);
                seen.committed_at = Some(Instant::now());
            }
            "term_given_up" => {
                seen.given_up += 1;
                tracing::info!(view = first, high = second, "a term was given up");
            }
            "view_timeout" => seen.timeout_ms = first,
            "listening" => seen.listening = true,
            "rejoined" => seen.listening = false,
            "conflicting_commit" | "state_divergence" | "rolled_back" => {
                tracing::error!(alarm = note.name, at = first, "the replica stops");
                if seen.alarms.len() < 64 {
                    seen.alarms.push(note.name);
                }
            }
            _ => {}
        }
    }

    fn link(&self, peer: NodeId, link: Link) {
        if peer.is_member() {
            self.seen().up.insert(peer.0, link == Link::Up);
            tracing::debug!(peer = peer.0, up = link == Link::Up, "link");
        }
    }

    fn failed(&self, failure: &Failure) {
        tracing::debug!(code = failure.code, text = %failure.text, "a handshake or dial failed");
    }
}

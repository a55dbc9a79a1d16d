//! What operators can see of a node: notes, faults, rules and links, gathered from the reactors.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use synod_machine::{Fault, Link, Note, Rule};
use synod_net::{Brake, Failure, Observer};
use synod_quorum::NodeId;
use synod_service::BatchStatus;
use synod_service::executor::ExecutorStatus;
use tokio::sync::watch;

use crate::chop::ChopMeters;
use crate::meters::Meters;

/// The reason in the note of a view that a quorum of complaints began.
const BY_COMPLAINTS: u64 = 2;

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
    /// Height of the last executed block; `None` before the replica told where it starts.
    pub executed: Option<u64>,
    /// Blocks that were committed when delivery last started: up to here execution repeats what was done before.
    pub replay: Option<u64>,
    /// Views entered through complaints since the process started.
    pub view_changes: u64,
    /// Terms given up since the process started.
    pub given_up: u64,
    /// The present view timeout in milliseconds; 0 before the first.
    pub timeout_ms: u64,
    /// Whether the replica only listens, for it lost its promises.
    pub listening: bool,
    /// Faults by peer and name; those of all guests under [`NodeId::GUESTS`].
    pub faults: BTreeMap<(u32, &'static str), u64>,
    /// Rules applied.
    pub rules: BTreeMap<&'static str, u64>,
    /// Peers whose links are up.
    pub up: BTreeMap<u32, bool>,
    /// Alarms: names of notes after which a replica stops.
    pub alarms: Vec<&'static str>,
    /// Slots that a replica of uBFT executed; `None` before it said whether it takes part, and at other nodes.
    pub slots: Option<u64>,
    /// The epoch that a replica of uBFT is in, or knows of.
    pub epoch: u64,
    /// The executor's last word about itself.
    pub executor: Option<ExecutorStatus>,
    /// The same of the executor beside a server of Chop Chop.
    pub batches: Option<BatchStatus>,
}

impl Seen {
    /// How often a peer was blamed for faults of these names.
    pub fn faults_of(&self, peer: u32, named: impl Fn(&str) -> bool) -> u64 {
        let of_peer = self.faults.iter().filter(|((blamed, fault), _)| *blamed == peer && named(fault));
        of_peer.map(|(_, times)| times).sum()
    }
}

/// Why a node stops by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// This peer showed that the log was rolled back.
    RolledBack(u64),
    /// The state before this slot is not the certified one, for the second time.
    Diverged(u64),
    /// This server process, in which the application's state is, is gone or says what it must not.
    ServerFailed(&'static str),
}

/// Gathers what a node's machines tell. Calls come per block, not per command.
#[derive(Default)]
pub struct Watch {
    seen: Mutex<Seen>,
    rejoins: Mutex<Rejoins>,
    /// Stops the node when it must not go on.
    brake: Brake,
    /// Why.
    ended: watch::Sender<Option<End>>,
    meters: Meters,
    chop: ChopMeters,
}

/// Machines that rejoined, and who wants to hear of it.
#[derive(Default)]
struct Rejoins {
    /// Not told yet, for nobody listened.
    early: Vec<u8>,
    hear: Option<Box<dyn Fn(u8) + Send>>,
}

impl Watch {
    /// A copy of what was gathered.
    #[must_use]
    pub fn look(&self) -> Seen {
        let seen = self.seen().clone();
        Seen { executed: self.meters.executed_height().or(seen.slots), ..seen }
    }

    /// What was measured.
    #[must_use]
    pub const fn meters(&self) -> &Meters {
        &self.meters
    }

    /// What machines of Chop Chop told.
    #[must_use]
    pub const fn chop(&self) -> &ChopMeters {
        &self.chop
    }

    pub(crate) fn executor(&self, status: ExecutorStatus) {
        self.seen().executor = Some(status);
    }

    /// Slots below this one were executed, by a replica that has no blocks.
    pub(crate) fn executed(&self, slots: u64) {
        let mut seen = self.seen();
        seen.height = seen.height.max(slots);
        seen.slots = seen.slots.max(Some(slots));
        seen.committed_at = Some(Instant::now());
    }

    /// A replica says whether it takes part.
    pub(crate) fn takes_part(&self, takes_part: bool) {
        let mut seen = self.seen();
        (seen.listening, seen.slots) = (!takes_part, seen.slots.or(Some(0)));
        if !takes_part {
            tracing::warn!(
                "this replica was started again: it promises nothing, for it may have promised what it forgot"
            );
        }
    }

    /// What must never happen did, at this slot.
    pub(crate) fn alarm(&self, name: &'static str, at: u64) {
        tracing::error!(alarm = name, at, "the replica stops answering");
        let mut seen = self.seen();
        if seen.alarms.len() < 64 {
            seen.alarms.push(name);
        }
    }

    /// Nothing leaves the node any more, for this reason; the first one is told.
    pub(crate) fn end(&self, why: End) {
        self.brake.pull();
        self.ended.send_if_modified(|ended| ended.is_none() && ended.replace(why).is_none());
    }

    pub(crate) fn application(&self, status: BatchStatus) {
        self.seen().batches = Some(status);
    }

    /// Tells `hear` of every machine that rejoined so far and will; [`Watch::deafen`] ends it.
    pub(crate) fn on_rejoin(&self, hear: impl Fn(u8) + Send + 'static) {
        let mut rejoins = self.rejoins.lock().unwrap_or_else(PoisonError::into_inner);
        rejoins.early.drain(..).for_each(&hear);
        rejoins.hear = Some(Box::new(hear));
    }

    /// Lets go of who hears of rejoins, and of the node that it holds.
    pub(crate) fn deafen(&self) {
        self.rejoins.lock().unwrap_or_else(PoisonError::into_inner).hear = None;
    }

    /// What stops the node when a peer shows a statement of this node that its log does not have.
    pub(crate) const fn brake(&self) -> &Brake {
        &self.brake
    }

    /// The member that showed such a statement, as soon as one did.
    pub(crate) fn ended(&self) -> watch::Receiver<Option<End>> {
        self.ended.subscribe()
    }

    fn rejoined(&self, machine: u8) {
        let mut rejoins = self.rejoins.lock().unwrap_or_else(PoisonError::into_inner);
        match &rejoins.hear {
            Some(hear) => hear(machine),
            None if rejoins.early.contains(&machine) => {}
            None => rejoins.early.push(machine),
        }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Watch {
    fn blame(&self, _machine: u8, peer: NodeId, fault: &Fault) {
        // Guests come and go under ever new ids, so all of them share a row.
        let row = if peer.is_member() { peer } else { NodeId::GUESTS };
        let times = {
            let mut seen = self.seen();
            let times = seen.faults.entry((row.0, fault.name)).or_default();
            *times += 1;
            *times
        };
        // A flood of equal faults is told ever more seldom.
        if times.is_power_of_two() {
            tracing::warn!(
                peer = peer.0,
                fault = fault.name,
                code = fault.code,
                times,
                "a peer broke a rule"
            );
        }
    }

    fn applied(&self, _machine: u8, rule: Rule) {
        *self.seen().rules.entry(rule.name).or_default() += 1;
    }

    fn note(&self, machine: u8, note: &Note) {
        if note.name == "rejoined" {
            self.rejoined(machine);
        }
        self.meters.note(note);
        self.chop.note(note);
        if note.name == "rolled_back" {
            tracing::error!(
                code = "SYN-5005",
                "a peer holds a statement of this node that its journal does not have: the node stops; \
                 `synod node recover` makes it listen until its peers readmit it"
            );
            // What the log lacks was promised, and nobody knows what else is missing.
            self.end(End::RolledBack(note.values[0]));
        }
        let mut seen = self.seen();
        let [first, second, third, _] = note.values;
        match note.name {
            "view_entered" => {
                seen.view = first;
                seen.leader = u32::try_from(third).ok();
                seen.view_changes += u64::from(second == BY_COMPLAINTS);
                tracing::debug!(view = first, reason = second, leader = third, "view entered");
            }
            "epoch_entered" => {
                seen.epoch = first;
                tracing::info!(epoch = first, slot = second, "epoch entered");
            }
            "committed" => {
                seen.height = seen.height.max(first);
                seen.committed_at = Some(Instant::now());
            }
            "delivery_resumed" => {
                seen.height = seen.height.max(first);
                seen.replay = seen.replay.max(Some(first));
            }
            "term_given_up" => {
                seen.given_up += 1;
                tracing::info!(view = first, high = second, "a term was given up");
            }
            "view_timeout" => seen.timeout_ms = first,
            "takes_part" => {
                seen.listening = first == 0;
                tracing::info!(takes_part = first == 1, "whether this server takes part in ordering");
            }
            "listening" => {
                seen.listening = true;
                tracing::warn!(
                    "this node votes for nothing: its promises are lost, and it listens until its peers show a commit \
                     that none of them can touch; nothing is to be done while the others run and have work"
                );
            }
            "rejoined" => {
                seen.listening = false;
                tracing::info!(through = first, "rejoined: this node votes again");
            }
            "conflicting_commit" | "state_divergence" | "rolled_back" | "ordering_diverged"
            | "ordering_broken" | "stranded" => {
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use synod_crypto::Hash;

    use super::*;

    #[test]
    fn faults_of_guests_share_a_row_however_many_guests_there_were() {
        let watch = Watch::default();
        let fault = Fault { code: 4_001, name: "undecodable_frame", evidence: Default::default() };
        (0..1_000).for_each(|guest| watch.blame(1, NodeId(NodeId::GUESTS.0 + guest), &fault));
        watch.blame(1, NodeId(3), &fault);
        let faults = watch.look().faults;
        assert_eq!(
            faults.into_iter().collect::<Vec<_>>(),
            [((3, "undecodable_frame"), 1), ((NodeId::GUESTS.0, "undecodable_frame"), 1_000)]
        );
    }

    #[test]
    fn a_rolled_back_log_stops_the_node_and_nothing_else_does() {
        let watch = Watch::default();
        let ended = watch.ended();
        let note = |name| Note { name, values: [3, 0, 0, 0], digest: Hash([0; 32]) };
        ["listening", "rejoined", "view_timeout"].into_iter().for_each(|name| watch.note(0, &note(name)));
        assert!(!watch.brake().is_pulled());
        assert_eq!(*ended.borrow(), None);
        watch.note(0, &note("rolled_back"));
        assert!(watch.brake().is_pulled());
        watch.end(End::Diverged(8));
        let why = Some(End::RolledBack(3));
        assert_eq!((*ended.borrow(), *watch.ended().borrow()), (why, why), "the first reason");
        assert_eq!(watch.look().alarms, ["rolled_back"]);
    }

    #[test]
    fn a_rejoin_is_heard_once_whether_it_came_before_the_listener_or_after() {
        let watch = Watch::default();
        let note = |name| Note { name, values: [0; 4], digest: Hash([0; 32]) };
        watch.note(0, &note("view_entered"));
        watch.note(0, &note("rejoined"));
        let heard = Arc::new(Mutex::new(Vec::new()));
        let ear = Arc::clone(&heard);
        watch.on_rejoin(move |machine| ear.lock().expect("no panic").push(machine));
        assert_eq!(*heard.lock().expect("no panic"), [0]);
        watch.note(1, &note("rejoined"));
        assert_eq!(*heard.lock().expect("no panic"), [0, 1]);
        watch.deafen();
        assert_eq!(Arc::strong_count(&heard), 1, "who hears is let go");
    }
}

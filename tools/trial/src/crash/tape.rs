//! The conversation, as each member's disk and links saw it, one boundary after the other.
//!
//! A member's state at a crash is a function of what it wrote and said before, and the conversation is the same in
//! every run: it is played once, and each crash point is a place on the tape of its member.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use synod_crypto::Hash;
use synod_hotstuff::{Header, Message};
use synod_machine::host::Lsn;
use synod_machine::{Keep, Span, Time, To};
use synod_quorum::NodeId;
use synod_sim::{Checker, Deed, Family, Incident, Moment, Scenario, Seen as Event, Violation, Written};
use synod_wire::Bytes;

use super::taped::Taped;
use crate::oracle::Sighting;
use crate::sight::{REPLICA, Sight, opened};
use crate::systems::hotstuff::build_on;

/// Calls of a member's replica that belong to the conversation.
pub(super) const CALLS: u32 = 200;
/// Virtual time in which every member has made them.
const LASTS: Span = Span::secs(4);
/// Of the conversation: another one is as good.
const SEED: u64 = 9;

/// Lanes of a member.
pub(super) const LANES: usize = 2;

/// The lane of a member's machine: executors recover first.
pub(super) const fn lane_of(machine: u8) -> u8 {
    if machine == REPLICA { 1 } else { 0 }
}

/// One step of a tape. A crash can fall before each, and behind the last.
#[derive(Clone)]
pub(super) enum Step {
    /// One recipient was served, or one thing was written or told.
    Effect(Option<(u8, Lsn, Written)>, Vec<Sighting>),
    /// A sync began.
    Begin,
    /// It ended.
    Commit,
    /// The lanes are to be replaced by their snapshots.
    Compact(Vec<Vec<(Keep, Bytes)>>),
}

/// What one member did.
#[derive(Clone, Default)]
pub(super) struct Tape {
    /// In order.
    pub(super) steps: Vec<Step>,
    /// Calls of its replica.
    pub(super) calls: u32,
}

/// Blocks that anybody proposed.
#[derive(Clone, Default)]
pub(super) struct Lore {
    /// By digest.
    pub(super) headers: BTreeMap<Hash, Header>,
    /// Encoded items, by payload root.
    pub(super) bodies: BTreeMap<Hash, Bytes>,
    /// The latest agreed time of them, in Unix milliseconds.
    pub(super) latest: u64,
}

/// A conversation and what is known of it.
pub(super) struct Talk {
    /// Its scenario.
    pub(super) scenario: Scenario,
    /// By member.
    pub(super) tapes: Vec<Tape>,
    /// What was proposed.
    pub(super) lore: Lore,
    /// What an oracle found in it, which ended it.
    pub(super) broken: Option<(String, String)>,
}

#[derive(Default)]
struct Recorded {
    tapes: BTreeMap<u32, Tape>,
    lore: Lore,
}

type Recorder = Rc<RefCell<Recorded>>;

/// The scenario of the conversation: four members, commands one after the other, terms of two views where the pack has
/// terms, and twice a member that falls silent, so that terms are given up.
pub(super) fn scenario(system: &str) -> Scenario {
    let mut scenario = Scenario::quiet(system, SEED);
    scenario.guests = 2;
    scenario.requests = 200;
    scenario.horizon = LASTS;
    let numbers = [
        ("closed", 1),
        ("checkpoint_every", 4),
        ("timeout_base_ms", 10),
        ("timeout_max_ms", 200),
        // Faster than the network: a promise is on its way while what follows from it is not written yet.
        ("sync_floor_us", 60),
        ("sync_mean_us", 40),
        ("reputation", 0),
        ("largest", 40),
    ];
    scenario.options.extend(numbers.map(|(key, value)| (key.to_owned(), value)));
    if system.contains("chain2") {
        scenario.options.insert("term_views".to_owned(), 2);
    }
    for (id, at) in [(1, Span::millis(13)), (2, Span::millis(36))] {
        let nodes = vec![id];
        let lasts = Span::millis(30);
        scenario.incidents.push(Incident { id, family: Family::NodePause, at, lasts, nodes, amount: 0 });
    }
    scenario
}

/// Plays the conversation of a system.
pub(super) fn talk(system: &str) -> Result<Talk, String> {
    let scenario = scenario(system);
    let recorded = Recorder::default();
    let disks = recorded.clone();
    let writer: Box<dyn Checker> = Box::new(Writer(recorded.clone()));
    let mut trial = build_on(
        &scenario,
        &format!("{system}:{SEED:x}:crash"),
        (false, vec![writer]),
        Box::new(move |node, lanes| {
            let recorded = disks.clone();
            Box::new(Taped::new(lanes, Box::new(move |step| recorded.borrow_mut().synced(node, step))))
        }),
    )?;
    let members = scenario.nodes as usize;
    let slice = Span::millis(1);
    let mut broken = None;
    loop {
        let until = trial.world.now() + slice;
        if let Err(violation) = trial.world.run(until, &mut trial.workload) {
            broken = Some((violation.checker, violation.what));
            break;
        }
        let recorded = recorded.borrow();
        let done = recorded.tapes.values().filter(|tape| tape.calls >= CALLS).count();
        if done >= members {
            break;
        }
        if trial.world.now() > Time(LASTS.0) {
            let calls: Vec<u32> = recorded.tapes.values().map(|tape| tape.calls).collect();
            return Err(format!("the conversation of {system} is too short: {calls:?} calls"));
        }
    }
    drop(trial);
    let recorded = core::mem::take(&mut *recorded.borrow_mut());
    let tapes = recorded.tapes.into_values().take(members).collect();
    Ok(Talk { scenario, tapes, lore: recorded.lore, broken })
}

/// Writes what members do.
struct Writer(Recorder);

impl Recorded {
    /// A member's disk did something.
    fn synced(&mut self, node: NodeId, step: Step) {
        if node.is_member() {
            let tape = self.tapes.entry(node.0).or_default();
            if tape.calls <= CALLS {
                tape.steps.push(step);
            }
        }
    }

    fn learn(&mut self, body: &Bytes) {
        match opened(body) {
            Some(Message::Propose { header, .. }) => {
                self.lore.latest = self.lore.latest.max(header.time.0);
                self.lore.headers.insert(header.digest(), header);
            }
            Some(Message::Body { root, bytes, .. }) => {
                self.lore.bodies.insert(root, Bytes::copy_from_slice(&bytes));
            }
            _ => {}
        }
    }

    fn add(&mut self, moment: &Moment<'_>) {
        let lane = lane_of(moment.machine);
        for deed in moment.deeds {
            if let Deed::Send { body, .. } = deed
                && moment.machine == REPLICA
            {
                self.learn(body);
            }
            let sightings = if moment.machine == REPLICA { seen(moment, deed) } else { Vec::new() };
            let (units, written) = units(lane, deed);
            let tape = self.tapes.entry(moment.node.0).or_default();
            if tape.calls > CALLS {
                continue;
            }
            let mut first = Some((written, sightings));
            for _ in 0..units {
                let (written, sightings) = first.take().unwrap_or_default();
                tape.steps.push(Step::Effect(written, sightings));
            }
        }
    }
}

/// What one deed shows.
pub(super) fn seen(moment: &Moment<'_>, deed: &Deed) -> Vec<Sighting> {
    let mut sightings = Vec::new();
    let alone = Moment { seen: &Event::Done, deeds: core::slice::from_ref(deed), ..*moment };
    Sight::of(&alone, &mut sightings);
    sightings
}

/// Boundaries that a deed adds, and what it writes.
pub(super) fn units(lane: u8, deed: &Deed) -> (u32, Option<(u8, Lsn, Written)>) {
    match deed {
        Deed::Send { to: To::Set(set), .. } => (set.count(), None),
        Deed::Append { lsn, keep, record } => (1, Some((lane, *lsn, Written::Record(*keep, record.clone())))),
        Deed::Store { lsn, name, bytes } => (1, Some((lane, *lsn, Written::Blob(*name, bytes.clone())))),
        Deed::Erase { lsn, name } => (1, Some((lane, *lsn, Written::Erase(*name)))),
        Deed::Applied(_) | Deed::Note(_) | Deed::Timer { .. } | Deed::Blame { .. } => (0, None),
        _ => (1, None),
    }
}

impl Checker for Writer {
    fn see(&mut self, moment: &Moment<'_>) -> Result<(), Violation> {
        if moment.node.is_member() {
            let mut recorded = self.0.borrow_mut();
            if moment.machine == REPLICA {
                recorded.tapes.entry(moment.node.0).or_default().calls += 1;
            }
            recorded.add(moment);
        }
        Ok(())
    }
}

//! The conversation, as each node's disk and links saw it, one boundary after the other.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use synod_chopchop::config::Cluster;
use synod_chopchop::content::AnyBatch;
use synod_chopchop::message::StoreMessage;
use synod_chopchop::vocabulary::Message;
use synod_crypto::Hash;
use synod_hotstuff::{Header, Message as Replica};
use synod_machine::{Span, Time};
use synod_quorum::NodeId;
use synod_sim::{Checker, Deed, Family, Incident, Moment, Scenario, Seen, Violation};
use synod_wire::Bytes;

use super::super::lone::Did;
use super::super::tape::{Step, units};
use super::super::taped::Taped;
use super::frames::opened;
use crate::systems::chopchop::order::Say;
use crate::systems::chopchop::plan::{KEEPER, Ordering, Plan, Roles, SERVER, STORE};
use crate::systems::chopchop::sight;
use crate::systems::chopchop::world::{Beside, build_on};

/// Calls of a server's machines, together, that belong to the conversation.
const SERVER_CALLS: u32 = 400;
/// Calls of a client.
const CLIENT_CALLS: u32 = 60;
/// Virtual time in which everybody has made them.
const LASTS: Span = Span::secs(6);
/// Of the conversation: another one is as good.
const SEED: u64 = 11;

/// The machines of a server, by lane.
pub(super) const OF_SERVER: [u8; 3] = [KEEPER, SERVER, STORE];

/// Something that is to be judged once everything before a step has happened.
#[derive(Clone)]
pub(super) enum Event {
    /// The node did it.
    Did(u8, Did),
    /// It heard a frame.
    Heard(Bytes),
}

/// What one node did.
#[derive(Clone, Default)]
pub(super) struct Tape {
    /// In order.
    pub(super) steps: Vec<Step>,
    /// What happened in each step, in order.
    pub(super) events: Vec<(usize, Event)>,
    calls: u32,
}

/// What anybody showed.
#[derive(Clone, Default)]
pub(super) struct Lore {
    /// Batches, by digest.
    pub(super) batches: BTreeMap<Hash, AnyBatch>,
    /// Entries of the ideal ordering.
    pub(super) entries: BTreeMap<u64, Bytes>,
    /// Blocks of HotStuff, by view.
    pub(super) headers: BTreeMap<u64, Header>,
    /// Their bodies, by payload root.
    pub(super) bodies: BTreeMap<Hash, Bytes>,
}

/// A conversation and what is known of it.
pub(super) struct Talk {
    /// Its scenario.
    pub(super) scenario: Scenario,
    /// Who is there.
    pub(super) roles: Roles,
    /// By node.
    pub(super) tapes: BTreeMap<u32, Tape>,
    /// What was shown.
    pub(super) lore: Lore,
    /// What an oracle found in it, which ended it.
    pub(super) broken: Option<(String, String)>,
}

struct Recorded {
    ordering: Ordering,
    cluster: Cluster,
    servers: u32,
    tapes: BTreeMap<u32, Tape>,
    lore: Lore,
}

impl Recorded {
    fn calls(&self, node: NodeId) -> u32 {
        if node.0 < self.servers { SERVER_CALLS } else { CLIENT_CALLS }
    }

    /// The tape of a node that crashes, as long as the conversation lasts.
    fn tape(&mut self, node: NodeId) -> Option<&mut Tape> {
        let most = self.calls(node);
        self.tapes.get_mut(&node.0).filter(|tape| tape.calls <= most)
    }

    fn is_done(&self) -> bool {
        self.tapes.iter().all(|(node, tape)| tape.calls >= self.calls(NodeId(*node)))
    }

    fn learn(&mut self, body: &Bytes) {
        if let Some(Message::Store(StoreMessage::Batch(upload))) = sight::opened(body) {
            if let Some(batch) = AnyBatch::of_upload(&upload) {
                let (_, digest) = batch.name_and_digest(self.cluster.domains());
                self.lore.batches.insert(digest, batch);
            }
            return;
        }
        match self.ordering {
            Ordering::Ideal => {
                if let Some(Message::Ordering(Say::Numbered(numbered))) = opened(body) {
                    self.lore.entries.insert(numbered.position.0, numbered.payload.into_bytes());
                }
            }
            Ordering::Ubft => {}
            Ordering::HotStuff => match opened(body) {
                Some(Message::Ordering(Replica::Propose { header, .. })) => {
                    self.lore.headers.insert(header.view.0, header);
                }
                Some(Message::Ordering(Replica::Body { root, bytes, .. })) => {
                    self.lore.bodies.insert(root, bytes.into_bytes());
                }
                _ => {}
            },
        }
    }

    fn add(&mut self, moment: &Moment<'_>) {
        let lane = OF_SERVER.iter().position(|machine| *machine == moment.machine).unwrap_or(0);
        let lane = u8::try_from(lane).unwrap_or(0);
        let Some(tape) = self.tape(moment.node) else { return };
        tape.calls += 1;
        if let Seen::Frame(frame) = moment.seen {
            tape.events.push((tape.steps.len(), Event::Heard(frame.body.clone())));
        }
        for deed in moment.deeds {
            let did = match deed {
                Deed::Send { to, body, .. } => Some(Did::Said(*to, body.clone())),
                Deed::Append { record, .. } => Some(Did::Wrote(record.clone())),
                _ => None,
            };
            tape.events.extend(did.map(|did| (tape.steps.len(), Event::Did(moment.machine, did))));
            let (units, mut written) = units(lane, deed);
            tape.steps.extend((0..units).map(|_| Step::Effect(written.take(), Vec::new())));
        }
    }
}

struct Writer(Rc<RefCell<Recorded>>);

impl Checker for Writer {
    fn see(&mut self, moment: &Moment<'_>) -> Result<(), Violation> {
        let mut recorded = self.0.borrow_mut();
        for deed in moment.deeds {
            if let Deed::Send { body, .. } = deed {
                recorded.learn(body);
            }
        }
        recorded.add(moment);
        Ok(())
    }
}

/// Four servers, two brokers, three clients of whom one signs up, checkpoints often; a server and a broker are silent
/// for a while, so that batches are fetched and clients turn to the other.
pub(super) fn scenario(system: &str) -> Scenario {
    let mut scenario = Scenario::quiet(system, SEED);
    scenario.guests = 5;
    scenario.requests = 60;
    scenario.horizon = Span::secs(2);
    let numbers = [
        ("brokers", 2),
        ("newcomers", 1),
        ("datagrams", 0),
        ("checkpoint_every", 8),
        ("batch_max", 8),
        ("horizon", 2_000),
        ("window_min_ms", 2),
        ("window_max_ms", 8),
        ("distil_min", 2),
        ("distil_max_ms", 20),
        ("submit_ms", 120),
        ("submit_max_ms", 500),
        ("retransmit_ms", 40),
        ("burst", 4),
        ("resync", 200),
        ("lanes", 2),
        ("empty", 100),
        ("timeout_base_ms", 10),
        ("timeout_max_ms", 200),
        ("reputation", 0),
        // Faster than the network: a promise is on its way while what follows from it is not written yet.
        ("sync_floor_us", 60),
        ("sync_mean_us", 40),
    ];
    scenario.options.extend(numbers.map(|(key, value)| (key.to_owned(), value)));
    // Places are servers first, then brokers.
    for (id, place, at) in [(1, 2, 60), (2, 4, 200)] {
        let (nodes, at, lasts) = (vec![place], Span::millis(at), Span::millis(120));
        scenario.incidents.push(Incident { id, family: Family::NodePause, at, lasts, nodes, amount: 0 });
    }
    scenario
}

/// Plays the conversation of a system.
pub(super) fn talk(system: &str) -> Result<Talk, String> {
    let scenario = scenario(system);
    let roles = Roles::of(&scenario)?;
    let nodes = (0..roles.servers).chain(roles.clients.iter().map(|id| id.0));
    let tapes = nodes.map(|id| (id, Tape::default())).collect();
    let plan = Plan::new(&scenario)?;
    let (ordering, cluster, lore) = (plan.ordering, plan.cluster, Lore::default());
    let recorded = Recorded { ordering, cluster, servers: roles.servers, tapes, lore };
    let recorded = Rc::new(RefCell::new(recorded));
    let disks = recorded.clone();
    let mut trial = build_on(
        &scenario,
        &format!("{system}:{SEED:x}:crash"),
        Beside { checkers: vec![Box::new(Writer(recorded.clone()))], ..Beside::default() },
        Box::new(move |node, lanes| {
            let recorded = disks.clone();
            let tell = move |step| {
                if let Some(tape) = recorded.borrow_mut().tape(node) {
                    tape.steps.push(step);
                }
            };
            Box::new(Taped::new(lanes, Box::new(tell)))
        }),
    )?;
    let mut broken = None;
    while !recorded.borrow().is_done() {
        let until = trial.world.now() + Span::millis(2);
        if let Err(violation) = trial.world.run(until, &mut trial.workload) {
            broken = Some((violation.checker, violation.what));
            break;
        }
        if trial.world.now() > Time(LASTS.0) {
            let calls: Vec<(u32, u32)> =
                recorded.borrow().tapes.iter().map(|(node, tape)| (*node, tape.calls)).collect();
            return Err(format!("the conversation of {system} is too short: {calls:?} calls"));
        }
    }
    drop(trial);
    let recorded = recorded.borrow();
    let (tapes, lore) = (recorded.tapes.clone(), recorded.lore.clone());
    Ok(Talk { scenario, roles, tapes, lore, broken })
}

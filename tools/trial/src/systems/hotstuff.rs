//! HotStuff: members host the executor (machine 1) and the replica (machine 0), guests a client (machine 1).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use synod_crypto::{Hash, PublicKey};
use synod_hotstuff::{Config, Identity, Pack, Parameters, Replica};
use synod_machine::broadcast::{Delivered, Position};
use synod_machine::host::{Host, HostConfig, Hosted, LaneLog};
use synod_machine::{Span, Unrecoverable};
use synod_quorum::{Epoch, Member, NodeId, Roster, Weights};
use synod_service::client::SendMode;
use synod_service::matching::Trust;
use synod_service::sessions::SessionLimits;
use synod_service::{
    Client, ClientAuth, ClientConfig, Executor, ExecutorConfig, ExecutorInput, ExecutorLimits, ExecutorOutput,
};
use synod_sim::{
    BlockJournal, Checker, Disks, Family, Keyring, Options, RecordJournal, Routed, Scenario, Script, Seat,
    Setup, Storage, Twins, World,
};

use crate::app::{Executions, RecordingApp};
use crate::book::{Book, GUESTS, Shared};
use crate::cells;
use crate::oracle;
use crate::params::{number, pack_of, parameters};
use crate::sight::REPLICA;
use crate::strategy;
use crate::twins;
use crate::watch::Watch;
use crate::words::HotStuffWords;
use crate::workload::{CLIENT, Workload};

/// The executor's machine number.
pub(crate) const EXECUTOR: u8 = CLIENT;
/// Commands a session may have in flight.
const WINDOW: u32 = 256;

/// A world, its user, and what both know.
pub struct Trial {
    /// The world.
    pub world: World,
    /// Its user.
    pub workload: Workload,
    /// What both know.
    pub book: Shared,
}

/// What machines are built from.
pub(crate) struct Plan {
    scenario: Scenario,
    pack: Pack,
    cluster: Hash,
    roster: Roster,
    keyring: Keyring,
    executions: Executions,
    /// Executors recover before their replicas and leave here where those resume.
    resume: RefCell<BTreeMap<NodeId, Position>>,
}

/// What nodes blame one another for because f + 1 members said something else, or because they executed something else: over
/// the budget all of them may lie, and members may have executed forks, in which a session has another owner. A member refuses
/// each item of a client that believes the other fork, and says so as `quota_exceeded` once there were too many.
const BELIEVED: [&str; 3] = ["contradicted_result", "forged_item", "quota_exceeded"];

/// The oracles' name of a pack.
#[must_use]
pub const fn judged(pack: Pack) -> oracle::Pack {
    match pack {
        Pack::Basic => oracle::Pack::Basic,
        Pack::Chain3 | Pack::Paper => oracle::Pack::Chain3,
        Pack::Chain2 => oracle::Pack::Chain2,
        Pack::Chain2Order => oracle::Pack::Chain2Order,
        Pack::Hs2 | Pack::Naive2 => oracle::Pack::Lab2,
    }
}

/// Builds the world of a scenario. `trace` keeps every event as text.
///
/// # Errors
/// The system is unknown or a parameter is outside its range.
pub fn build(scenario: &Scenario, token: &str, trace: bool) -> Result<Trial, String> {
    build_watched(scenario, token, trace, Vec::new())
}

/// As [`build`], with checkers beside the oracles.
///
/// # Errors
/// As [`build`].
pub fn build_watched(
    scenario: &Scenario,
    token: &str,
    trace: bool,
    beside: Vec<Box<dyn Checker>>,
) -> Result<Trial, String> {
    let blocks = number(scenario, "blocks", 0) == 1;
    build_on(scenario, token, (trace, beside), Box::new(move |node, lanes| disk(blocks, node, lanes)))
}

/// As [`build_watched`], on these disks.
pub(crate) fn build_on(
    scenario: &Scenario,
    token: &str,
    (trace, beside): (bool, Vec<Box<dyn Checker>>),
    disks: Box<Disks>,
) -> Result<Trial, String> {
    let plan = Plan::new(scenario)?;
    let (pack, executions) = (plan.pack, plan.executions.clone());
    let other = plan.other();
    let book: Shared = Rc::new(RefCell::new(Book::default()));
    let seats = seats(scenario);
    let mode = scenario.mode;
    let over_budget = number(scenario, "over", 0) == 1;
    let turns = pack.has_terms().then(|| {
        let Parameters { term_views: views, reputation, .. } = parameters(scenario, pack);
        strategy::Turns { views, reputation }
    });
    let secrets = strategy::Secrets { cluster: cluster(), pack, members: scenario.nodes, over_budget, turns };
    let watch = Watch::new(judged(pack), scenario.nodes, executions, book.clone())
        .over_budget(over_budget)
        .forks_only(number(scenario, "forks_only", 0) == 1)
        .with_evidence(trace);
    let setup = Setup {
        connector: Box::new(connect),
        links: Box::new(move |a, b| (a.is_member() || b.is_member()).then_some(mode)),
        checkers: core::iter::once(Box::new(watch) as Box<dyn Checker>).chain(beside).collect(),
        strategies: Box::new(move |incident| strategy::of(incident, secrets)),
        disks,
        twins: twins::pairs(scenario).map(|pair| twins_of(scenario, pair)).collect(),
        script: twins::masks(scenario).map(|masks| Box::new(masks) as Box<dyn Script>),
        kinds: Box::new(cells::kind),
        words: Box::new(HotStuffWords),
        other: Some(Box::new(move |node, machine, log, life| other.machine(node, machine, log, life))),
        options: options(scenario, token, trace),
        ..Setup::new(seats, move |node, machine, log, life| plan.machine(node, machine, log, life))
    };
    let mut world = World::new(setup);
    world.load(&scenario.incidents);
    Ok(Trial { world, workload: Workload::new(scenario, book.clone()), book })
}

/// The disk of a node: the real journal on blocks, or a list of records.
fn disk(blocks: bool, node: NodeId, lanes: usize) -> Box<dyn Storage> {
    if blocks { Box::new(BlockJournal::new(node, lanes)) } else { Box::new(RecordJournal::new(lanes)) }
}

/// Members, then guests, then second instances: of the pairs of twins, and of whom a fault clones.
fn seats(scenario: &Scenario) -> Vec<Seat> {
    let member = |id: u32| Seat::new(NodeId(id), &[EXECUTOR, REPLICA]);
    let cloned = scenario.incidents.iter().filter(|incident| incident.family == Family::NodeClone);
    let cloned: Vec<u32> = cloned.flat_map(|incident| incident.nodes.clone()).collect();
    let is_double = |id: &u32| twins::pairs(scenario).any(|(_, pair)| pair == *id) || cloned.contains(id);
    let guests = (0..scenario.guests).map(|id| Seat::new(NodeId(GUESTS + id), &[CLIENT]));
    let second = (0..scenario.nodes).filter(is_double).map(|id| Seat { twin: 1, ..member(id) });
    (0..scenario.nodes).map(member).chain(guests).chain(second).collect()
}

/// Whom the twins reach: per round one number, whose digits to base three say for each other member whether it
/// hears the first twin, the second, or both.
fn twins_of(scenario: &Scenario, (pair, id): (&str, u32)) -> Twins {
    if twins::is_script(scenario) {
        // The script looks at frames; its masks are the rest of the network's.
        let all = || (0..scenario.nodes).chain(GUESTS..GUESTS + scenario.guests).map(NodeId).collect();
        return Twins {
            id: NodeId(id),
            round: Span::secs(1),
            masks: vec![[all(), all()]],
            again: false,
            matched: false,
        };
    }
    let guests = (0..scenario.guests).map(|guest| NodeId(GUESTS + guest));
    let mut masks = Vec::new();
    for round in 0..number(scenario, "twin_rounds", 1) {
        let mut way = number(scenario, &twins::way(pair, round), 0);
        let mut mask: [Vec<NodeId>; 2] = [guests.clone().collect(), guests.clone().collect()];
        for other in (0..scenario.nodes).filter(|other| *other != id) {
            let digit = way % 3;
            way /= 3;
            if digit != 1 {
                mask[0].push(NodeId(other));
            }
            if digit != 0 {
                mask[1].push(NodeId(other));
            }
        }
        masks.push(mask);
    }
    let round = Span::millis(number(scenario, "twin_round_ms", 100));
    let is = |name| number(scenario, name, 0) == 1;
    Twins { id: NodeId(id), round, masks, again: is("twin_again"), matched: is("twin_matched") }
}

/// The cluster all trials speak of.
#[must_use]
pub fn cluster() -> Hash {
    Hash::of(b"synod trial cluster")
}

fn options(scenario: &Scenario, token: &str, trace: bool) -> Options {
    let micros = |key: &str, default: u64| Span::micros(number(scenario, key, default));
    Options {
        sync_floor: micros("sync_floor_us", 1_500),
        sync_mean: micros("sync_mean_us", 700),
        pool: u32::try_from(number(scenario, "pool", 1)).unwrap_or(1),
        egress: number(scenario, "egress", 0),
        events_max: number(scenario, "events_max", 12_000_000),
        trace,
        excused: if number(scenario, "over", 0) == 1 { &BELIEVED } else { &[] },
        ..scenario.world_options(token)
    }
}

/// What a machine says goes to its neighbour, or to the user.
pub(crate) fn connect(node: NodeId, machine: u8, output: Box<dyn core::any::Any + Send>) -> Vec<Routed> {
    if node.0 >= GUESTS {
        return vec![Routed::Harness(output)];
    }
    let routed = match machine {
        REPLICA => output
            .downcast::<Delivered>()
            .map(|delivered| Routed::Machine(EXECUTOR, Box::new(ExecutorInput::Delivered(*delivered)))),
        _ => output.downcast::<ExecutorOutput>().map(|output| match *output {
            ExecutorOutput::Submit(submit) => Routed::Machine(REPLICA, Box::new(submit)),
            other => Routed::Harness(Box::new(other)),
        }),
    };
    vec![routed.unwrap_or_else(Routed::Harness)]
}

impl Plan {
    /// The plan of a scenario.
    pub(crate) fn new(scenario: &Scenario) -> Result<Self, String> {
        let pack =
            pack_of(&scenario.system).ok_or_else(|| format!("no system is called {}", scenario.system))?;
        if !(1..=31).contains(&scenario.nodes) || scenario.guests == 0 {
            return Err("a HotStuff scenario has 1 to 31 members and at least one guest".to_owned());
        }
        let keyring = Keyring::new(scenario.crypto, scenario.seed);
        let key = |id: u32| Member { key: keyring.public(u64::from(id)), power: 1 };
        let members = (0..scenario.nodes).map(key).collect();
        let plan = Self {
            scenario: scenario.clone(),
            pack,
            cluster: cluster(),
            roster: Roster::new(Epoch(0), members).map_err(|e| e.to_string())?,
            keyring,
            executions: Executions::default(),
            resume: RefCell::default(),
        };
        plan.config(NodeId(0), Position(0)).map_err(|e| e.0)?;
        Ok(plan)
    }

    /// The other release of the program: the same protocol, with other numbers where members need not agree.
    fn other(&self) -> Self {
        let mut scenario = self.scenario.clone();
        let of = |key: &str, default: u64| number(&self.scenario, key, default);
        for (key, value) in [
            ("batch_wait_us", (2 * of("batch_wait_us", 1_000) + 500).min(50_000)),
            ("executor_lag_max", of("executor_lag_max", 64).div_ceil(2)),
            ("view_window", 2 * of("view_window", 64)),
            ("pool_items", 2 * of("pool_items", 4_096)),
        ] {
            scenario.options.insert(key.to_owned(), i64::try_from(value).unwrap_or(i64::MAX));
        }
        Self {
            scenario,
            pack: self.pack,
            cluster: self.cluster,
            roster: self.roster.clone(),
            keyring: self.keyring,
            executions: self.executions.clone(),
            resume: RefCell::default(),
        }
    }

    fn config(&self, own: NodeId, resume: Position) -> Result<Config, synod_hotstuff::Invalid> {
        let identity = Identity { own, cluster: self.cluster, roster: self.roster.clone() };
        Config::new(identity, parameters(&self.scenario, self.pack), resume)
    }

    /// Builds one machine of a node from its lane; executors come before their replicas.
    pub(crate) fn machine(
        &self,
        node: NodeId,
        machine: u8,
        log: LaneLog,
        life: u32,
    ) -> Result<Box<dyn Hosted>, Unrecoverable> {
        let config = HostConfig {
            own: node,
            machine,
            seed: self.scenario.seed ^ u64::from(life) << 48,
            jobs_max: 4_096,
            checked: true,
        };
        if node.0 >= GUESTS {
            return Ok(Box::new(Host::<Client>::open(config, self.client(node, life), log)?));
        }
        if machine == EXECUTOR {
            let host = Host::<Executor<RecordingApp>>::open(config, self.executor(node), log)?;
            self.resume.borrow_mut().insert(node, host.machine().resume_position());
            return Ok(Box::new(host));
        }
        let resume = self.resume.borrow().get(&node).copied().unwrap_or_default();
        let replica = self.config(node, resume).map_err(|e| Unrecoverable(e.0.to_owned()))?;
        Ok(Box::new(Host::<Replica>::open(config, replica, log)?))
    }

    fn executor(&self, own: NodeId) -> ExecutorConfig<RecordingApp> {
        let sessions = SessionLimits { sessions_max: 256, window: WINDOW, ..SessionLimits::default() };
        let checkpoint_every = parameters(&self.scenario, self.pack).checkpoint_every;
        ExecutorConfig {
            app: RecordingApp::new(self.executions.clone()),
            own,
            roster: self.roster.clone(),
            cluster: self.cluster,
            auth: ClientAuth::Signed,
            limits: ExecutorLimits {
                sessions,
                checkpoint_every,
                app_bytes: 1 << 20,
                ..ExecutorLimits::default()
            },
        }
    }

    fn client(&self, node: NodeId, life: u32) -> ClientConfig {
        let trust = Trust::Members(Weights::equal(self.scenario.nodes));
        let key: PublicKey = self.keyring.public(u64::from(node.0));
        let all = number(&self.scenario, "send_all", 0) == 1;
        ClientConfig {
            window: WINDOW,
            send: if all { SendMode::All } else { SendMode::One },
            nearest: NodeId(node.0 % self.scenario.nodes),
            ..ClientConfig::new(trust, self.cluster, key, u64::from(life))
        }
    }
}

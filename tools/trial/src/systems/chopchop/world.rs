//! The world of a scenario.

use std::cell::RefCell;
use std::rc::Rc;

use synod_chopchop::client;
use synod_chopchop::server::{ServerInput, ServerOutput};
use synod_chopchop::store::StoreOutput;
use synod_chopchop::vocabulary::{
    BROKER as TO_BROKER, BROKER_BULK, BROKER_CLIENTS, CLIENT as TO_CLIENT, SERVER as TO_SERVER, SERVER_BULK,
    STORE as TO_STORE, STORE_BULK,
};
use synod_crypto::{Keys, check_key};
use synod_machine::{Queue, Span};
use synod_quorum::NodeId;
use synod_sim::{
    BlockJournal, Checker, Disks, Keyring, Memory, Mode, Options, RecordJournal, Routed, Scenario, Script,
    Seat, Setup, Storage, World,
};
use synod_wire::{Bytes, Wire};

use super::book::{Book, Shared};
use super::executing::{self, App};
use super::plan::{
    BROKER, CLIENT, KEEPER, MEMORY, ORDERER, Ordering, Plan, Roles, SEQUENCER, SERVER, STORE, member,
};
use super::strategy::{self, Corrupted};
use super::twins;
use super::watch::Watch;
use super::words::ChopChopWords;
use super::workload::Workload;
use crate::params::number;

/// The first name of keys that are no node's.
const SPARE: u32 = 100_000;
/// Keys that corrupted brokers have beyond their own.
const SPARES: usize = 4;

/// A world, its user, and what both know.
pub struct Trial {
    /// The world.
    pub world: World,
    /// Its user.
    pub workload: Workload,
    /// What both know.
    pub book: Shared,
    /// Who is there.
    pub roles: Roles,
    /// What orders.
    pub ordering: Ordering,
}

fn is_client(id: NodeId) -> bool {
    (super::plan::CLIENTS..ORDERER.0).contains(&id.0)
}

fn is_broker(id: NodeId) -> bool {
    (super::plan::BROKERS..super::plan::CLIENTS).contains(&id.0)
}

/// Servers know each other, their sequencer and all brokers; clients know brokers, by datagrams unless the scenario says
/// otherwise.
fn linked(a: NodeId, b: NodeId, mode: Mode, datagrams: bool) -> Option<Mode> {
    let (low, high) = if a < b { (a, b) } else { (b, a) };
    if low.is_member() {
        return (!is_client(high)).then_some(mode);
    }
    let spoken = is_broker(low) && is_client(high);
    spoken.then_some(if datagrams { Mode::Datagram } else { Mode::Connection })
}

/// The role that a queue leads to. What applications say is for applications.
fn route(machine: u8, queue: Queue, to: NodeId) -> u8 {
    match queue {
        _ if machine == KEEPER || machine == MEMORY => machine,
        TO_SERVER | SERVER_BULK => SERVER,
        TO_STORE | STORE_BULK => STORE,
        TO_BROKER | BROKER_BULK | BROKER_CLIENTS => BROKER,
        TO_CLIENT => CLIENT,
        _ if to == ORDERER => SEQUENCER,
        _ => SERVER,
    }
}

/// What a machine says goes to its neighbours, or to the user.
pub(crate) fn connect(machine: u8, output: Box<dyn core::any::Any + Send>) -> Routed {
    let routed = match machine {
        SERVER => output.downcast::<ServerOutput>().map(|output| match *output {
            ServerOutput::Store(input) => Routed::Machine(STORE, Box::new(input)),
            other => Routed::Machine(KEEPER, Box::new(other)),
        }),
        STORE => output
            .downcast::<StoreOutput>()
            .map(|output| Routed::Machine(SERVER, Box::new(ServerInput::Store(*output)))),
        KEEPER => output.downcast::<ServerInput>().map(|input| Routed::Machine(SERVER, input)),
        _ => output.downcast::<client::Output>().map(|output| Routed::Harness(output)),
    };
    routed.unwrap_or_else(Routed::Harness)
}

/// Names of keys that whoever is corrupted made for itself.
fn spares(keyring: &Keyring) -> impl Iterator<Item = NodeId> + use<> {
    let keyring = *keyring;
    // A toy key need not be a point of the curve, and a card needs one that is.
    let sound = move |id: &NodeId| check_key(&keyring.public(u64::from(id.0))).is_ok();
    (SPARE..).map(NodeId).filter(sound).take(SPARES)
}

/// Servers, brokers, clients, the sequencer, then the second instance of a pair of twins.
fn seats(plan: &Plan, pair: Option<u32>) -> Vec<Seat> {
    let server = |id: u32| Seat::new(NodeId(id), &[KEEPER, SERVER, STORE]);
    let servers = (0..plan.roles.servers).map(server);
    let brokers = plan.roles.brokers().map(|id| Seat::new(id, &[BROKER]));
    let clients = plan.roles.clients.iter().map(|id| Seat::new(*id, &[CLIENT]));
    let ideal = plan.ordering == Ordering::Ideal;
    let sequencer = ideal.then(|| Seat::new(ORDERER, &[SEQUENCER]));
    let second = pair.map(|id| Seat { twin: 1, ..server(id) });
    let memory = plan.roles.memory().map(|id| Seat::new(id, &[MEMORY]));
    servers.chain(brokers).chain(clients).chain(sequencer).chain(memory).chain(second).collect()
}

/// The kind of message in a frame, also of those of the ordering layer.
fn kind(body: &Bytes) -> Option<&'static str> {
    let replicas = || crate::cells::kind(crate::sight::REPLICA, &strategy::bare(body)?);
    super::words::kind(body).or_else(replicas)
}

fn disk(blocks: bool, node: NodeId, lanes: usize) -> Box<dyn Storage> {
    // Only servers have disks worth breaking.
    if blocks && node.is_member() {
        Box::new(BlockJournal::new(node, lanes))
    } else {
        Box::new(RecordJournal::new(lanes))
    }
}

fn options(scenario: &Scenario, token: &str, trace: bool) -> Options {
    let micros = |key: &str, default: u64| Span::micros(number(scenario, key, default));
    Options {
        sync_floor: micros("sync_floor_us", 1_500),
        sync_mean: micros("sync_mean_us", 700),
        pool: u32::try_from(number(scenario, "pool", 1)).unwrap_or(1),
        egress: number(scenario, "egress", 0),
        events_max: number(scenario, "events_max", 6_000_000),
        trace,
        ..scenario.world_options(token)
    }
}

/// Builds the world of a scenario. `trace` keeps every event as text.
///
/// # Errors
/// The scenario is none of this system.
pub fn build(scenario: &Scenario, token: &str, trace: bool) -> Result<Trial, String> {
    build_on(scenario, token, Beside { trace, ..Beside::default() }, disk_of(scenario))
}

/// The disks of a scenario.
pub(crate) fn disk_of(scenario: &Scenario) -> Box<Disks> {
    let blocks = number(scenario, "blocks", 0) == 1;
    Box::new(move |node, lanes| disk(blocks, node, lanes))
}

/// What a world has beyond its scenario.
#[derive(Default)]
pub(crate) struct Beside {
    /// Whether every event is kept as text.
    pub(crate) trace: bool,
    /// Checkers beside the oracles.
    pub(crate) checkers: Vec<Box<dyn Checker>>,
    /// What the network carries.
    pub(crate) script: Option<Box<dyn Script>>,
}

/// As [`build`], on these disks.
pub(crate) fn build_on(
    scenario: &Scenario,
    token: &str,
    Beside { trace, checkers, script }: Beside,
    disks: Box<Disks>,
) -> Result<Trial, String> {
    let plan = Plan::new(scenario)?;
    let (roles, ordering, cluster) = (plan.roles.clone(), plan.ordering, plan.cluster.clone());
    let book: Shared = Rc::new(RefCell::new(Book::default()));
    let keyring = Keyring::new(scenario.crypto, scenario.seed);
    let guests = roles.clients.iter().copied().chain(roles.brokers());
    let owners: Vec<(Vec<u8>, u32)> = guests
        .chain((0..roles.servers).map(NodeId))
        .chain(spares(&keyring))
        .filter_map(|id| Some((member(&keyring, id)?.encode().to_vec(), id.0)))
        .collect();
    let people = (roles.servers, plan.faulty(), ORDERER.0);
    let patience = Span::millis(number(scenario, "directory_wait_ms", 2_000));
    let app = App::of(scenario);
    let joins = if app == App::Chain { connect } else { executing::connect };
    let watch = Watch::new(cluster.clone(), people, owners, book.clone(), patience).beside(app, roles.known);
    let (mode, datagrams) = (scenario.mode, number(scenario, "datagrams", 1) == 1);
    let spares: Rc<[Keys]> = spares(&keyring).map(|id| keyring.keys(u64::from(id.0))).collect();
    let corrupted = Corrupted { cluster, roles: roles.clone(), ordering, spares };
    let setup = Setup {
        connector: Box::new(move |_, machine, output| vec![joins(machine, output)]),
        links: Box::new(move |a, b| linked(a, b, mode, datagrams)),
        route: Box::new(|_, machine, queue, to| route(machine, queue, to)),
        memory: (ordering == Ordering::Ubft).then_some(Memory { user: SERVER, machine: MEMORY }),
        checkers: core::iter::once(Box::new(watch) as Box<dyn Checker>).chain(checkers).collect(),
        script,
        disks,
        strategies: Box::new(move |incident| strategy::of(incident, &corrupted)),
        words: Box::new(ChopChopWords),
        kinds: Box::new(|_, body| kind(body)),
        options: options(scenario, token, trace),
        twins: twins::joins(scenario, &roles).into_iter().collect(),
        ..Setup::new(seats(&plan, twins::pair(scenario)), move |node, machine, log, life| {
            plan.machine(node, machine, log, life)
        })
    };
    let mut world = World::new(setup);
    world.load(&scenario.incidents);
    let workload = Workload::new(scenario, roles.clone(), book.clone());
    Ok(Trial { world, workload, book, roles, ordering })
}

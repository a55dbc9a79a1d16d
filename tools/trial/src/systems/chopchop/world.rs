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
use synod_machine::{Queue, Span};
use synod_quorum::NodeId;
use synod_sim::{
    BlockJournal, Checker, Keyring, Mode, Options, RecordJournal, Routed, Scenario, Seat, Setup, Storage,
    World,
};
use synod_wire::Wire;

use super::book::{Book, Shared};
use super::plan::{BROKER, CLIENT, KEEPER, ORDERER, Ordering, Plan, Roles, SEQUENCER, SERVER, STORE, member};
use super::strategy;
use super::watch::Watch;
use super::words::ChopChopWords;
use super::workload::Workload;
use crate::params::number;

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

/// The role that a queue leads to.
fn route(queue: Queue, to: NodeId) -> u8 {
    match queue {
        TO_SERVER | SERVER_BULK => SERVER,
        TO_STORE | STORE_BULK => STORE,
        TO_BROKER | BROKER_BULK | BROKER_CLIENTS => BROKER,
        TO_CLIENT => CLIENT,
        _ if to == ORDERER => SEQUENCER,
        _ => SERVER,
    }
}

/// What a machine says goes to its neighbours, or to the user.
fn connect(machine: u8, output: Box<dyn core::any::Any + Send>) -> Routed {
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

fn seats(plan: &Plan) -> Vec<Seat> {
    let servers = (0..plan.roles.servers).map(|id| Seat::new(NodeId(id), &[KEEPER, SERVER, STORE]));
    let brokers = plan.roles.brokers().map(|id| Seat::new(id, &[BROKER]));
    let clients = plan.roles.clients.iter().map(|id| Seat::new(*id, &[CLIENT]));
    let ideal = plan.ordering == Ordering::Ideal;
    let sequencer = ideal.then(|| Seat::new(ORDERER, &[SEQUENCER]));
    servers.chain(brokers).chain(clients).chain(sequencer).collect()
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
    let plan = Plan::new(scenario)?;
    let (roles, ordering, cluster) = (plan.roles.clone(), plan.ordering, plan.cluster.clone());
    let book: Shared = Rc::new(RefCell::new(Book::default()));
    let keyring = Keyring::new(scenario.crypto, scenario.seed);
    let guests = roles.clients.iter().copied().chain(roles.brokers());
    let owners: Vec<(Vec<u8>, u32)> = guests
        .chain((0..roles.servers).map(NodeId))
        .filter_map(|id| Some((member(&keyring, id)?.encode().to_vec(), id.0)))
        .collect();
    let watch = Watch::new(cluster.clone(), roles.servers, owners, book.clone());
    let (mode, datagrams) = (scenario.mode, number(scenario, "datagrams", 1) == 1);
    let blocks = number(scenario, "blocks", 0) == 1;
    let (known, who) = (cluster, roles.clone());
    let setup = Setup {
        connector: Box::new(|_, machine, output| vec![connect(machine, output)]),
        links: Box::new(move |a, b| linked(a, b, mode, datagrams)),
        route: Box::new(|_, _, queue, to| route(queue, to)),
        checkers: vec![Box::new(watch) as Box<dyn Checker>],
        disks: Box::new(move |node, lanes| disk(blocks, node, lanes)),
        strategies: Box::new(move |incident| strategy::of(incident, &known, &who)),
        words: Box::new(ChopChopWords),
        kinds: Box::new(|_, body| super::words::kind(body)),
        options: options(scenario, token, trace),
        ..Setup::new(seats(&plan), move |node, machine, log, life| plan.machine(node, machine, log, life))
    };
    let mut world = World::new(setup);
    world.load(&scenario.incidents);
    let workload = Workload::new(scenario, roles.clone(), book.clone());
    Ok(Trial { world, workload, book, roles, ordering })
}

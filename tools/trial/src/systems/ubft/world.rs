//! The world of a scenario.

use std::cell::RefCell;
use std::rc::Rc;

use synod_machine::Span;
use synod_quorum::NodeId;
use synod_sim::{
    BlockJournal, Memory, Mode, Options, RecordJournal, Routed, Scenario, Seat, Setup, Storage, World,
};
use synod_ubft::replica::Output;

use super::book::{Book, Shared};
use super::ledger::Ledgers;
use super::plan::{MEMORY, Plan, REPLICA, Roles};
use super::strategy::{self, Corrupted};
use super::watch::Watch;
use super::words::UbftWords;
use super::workload::Workload;
use crate::params::number;

/// A world, its users, and what both know.
pub struct Trial {
    /// The world.
    pub world: World,
    /// Its users.
    pub workload: Workload,
    /// What both know.
    pub book: Shared,
    /// Who is there.
    pub roles: Roles,
}

/// Replicas speak with everybody; nobody else speaks with anybody else.
fn linked(roles: Roles, (a, b): (NodeId, NodeId), mode: Mode) -> Option<Mode> {
    (roles.is_replica(a) || roles.is_replica(b)).then_some(mode)
}

/// What a replica tells its application is answered at once; everything else is the user's.
fn connect(ledgers: &Ledgers, node: NodeId, output: Box<dyn core::any::Any + Send>) -> Vec<Routed> {
    let output = match output.downcast::<Output>() {
        Ok(output) => output,
        Err(other) => return vec![Routed::Harness(other)],
    };
    let mut ledgers = ledgers.borrow_mut();
    let answer = ledgers.entry(node).or_default().answer((*output).clone());
    match answer {
        Some(input) => vec![Routed::Machine(REPLICA, Box::new(input))],
        None => vec![Routed::Harness(output)],
    }
}

pub(super) fn seats(roles: Roles) -> Vec<Seat> {
    let replicas = roles.replicas().map(|id| Seat::new(id, &[REPLICA]));
    let clients = roles.clients().map(|id| Seat::new(id, &[REPLICA]));
    let memory = roles.memory().map(|id| Seat::new(id, &[MEMORY]));
    replicas.chain(clients).chain(memory).collect()
}

fn disk(blocks: bool, node: NodeId, lanes: usize) -> Box<dyn Storage> {
    if blocks && node.is_member() {
        Box::new(BlockJournal::new(node, lanes))
    } else {
        Box::new(RecordJournal::new(lanes))
    }
}

pub(super) fn options(scenario: &Scenario, token: &str, trace: bool) -> Options {
    let micros = |key: &str, default: u64| Span::micros(number(scenario, key, default));
    Options {
        sync_floor: micros("sync_floor_us", 1_500),
        sync_mean: micros("sync_mean_us", 700),
        pool: u32::try_from(number(scenario, "pool", 1)).unwrap_or(1),
        egress: number(scenario, "egress", 0),
        events_max: number(scenario, "events_max", 3_000_000),
        trace,
        ..scenario.world_options(token)
    }
}

/// Builds the world of a scenario. `trace` keeps every event as text.
///
/// # Errors
/// The scenario is none of this system.
pub fn build(scenario: &Scenario, token: &str, trace: bool) -> Result<Trial, String> {
    if !super::is(&scenario.system) {
        return Err(format!("no system is called {}", scenario.system));
    }
    let ledgers = Ledgers::default();
    let plan = Plan::new(scenario, ledgers.clone())?;
    let (roles, window) = (plan.roles, plan.genesis.parameters.window);
    let book: Shared = Rc::new(RefCell::new(Book::default()));
    let watch = Watch::new(roles, window, ledgers.clone(), book.clone());
    let corrupted = Corrupted { genesis: plan.genesis.clone(), roles };
    let (mode, blocks) = (scenario.mode, number(scenario, "blocks", 0) == 1);
    let setup = Setup {
        connector: Box::new(move |node, _, output| connect(&ledgers, node, output)),
        links: Box::new(move |a, b| linked(roles, (a, b), mode)),
        memory: Some(Memory { user: REPLICA, machine: MEMORY }),
        checkers: vec![Box::new(watch)],
        disks: Box::new(move |node, lanes| disk(blocks, node, lanes)),
        strategies: Box::new(move |incident| strategy::of(incident, &corrupted)),
        words: Box::new(UbftWords),
        kinds: Box::new(|machine, body| (machine == REPLICA).then(|| super::sight::kind(body)).flatten()),
        options: options(scenario, token, trace),
        ..Setup::new(seats(roles), move |node, machine, log, life| plan.machine(node, machine, log, life))
    };
    let mut world = World::new(setup);
    world.load(&scenario.incidents);
    let workload = Workload::new(scenario, roles, book.clone());
    Ok(Trial { world, workload, book, roles })
}

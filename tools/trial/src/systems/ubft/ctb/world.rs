//! The world of a scenario of broadcasts.

use std::cell::RefCell;
use std::rc::Rc;

use synod_quorum::NodeId;
use synod_sim::{Memory, Mode, Scenario, Setup, World};

use super::book::{Book, Shared};
use super::liar::{self, Corrupted};
use super::watch::Watch;
use super::workload::Workload;
use crate::params::number;
use crate::systems::ubft::ledger::Ledgers;
use crate::systems::ubft::plan::{MEMORY, Plan, REPLICA, Roles};
use crate::systems::ubft::sight;
use crate::systems::ubft::words::UbftWords;
use crate::systems::ubft::world::{options, seats};

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

/// Links between replicas, and those with memory nodes; both are drawn to keep order or not.
fn linked(roles: Roles, (a, b): (NodeId, NodeId), (among, memory): (Mode, Mode)) -> Option<Mode> {
    match (roles.is_replica(a), roles.is_replica(b)) {
        (true, true) => Some(among),
        (false, false) => None,
        _ => Some(memory),
    }
}

/// Builds the world of a scenario. `trace` keeps every event as text.
///
/// # Errors
/// The scenario is none of this system.
pub fn build(scenario: &Scenario, token: &str, trace: bool) -> Result<Trial, String> {
    let plan = Plan::new(scenario, Ledgers::default())?;
    let roles = plan.roles;
    let book: Shared = Rc::new(RefCell::new(Book::default()));
    let watch = Watch::new(roles, book.clone());
    let corrupted = Corrupted { genesis: plan.genesis.clone(), roles };
    let is_lossy = number(scenario, "memory_datagrams", 0) == 1;
    let modes = (scenario.mode, if is_lossy { Mode::Datagram } else { Mode::Connection });
    let setup = Setup {
        links: Box::new(move |a, b| linked(roles, (a, b), modes)),
        memory: Some(Memory { user: REPLICA, machine: MEMORY }),
        checkers: vec![Box::new(watch)],
        strategies: Box::new(move |incident| liar::of(incident, &corrupted)),
        words: Box::new(UbftWords),
        kinds: Box::new(|machine, body| (machine == REPLICA).then(|| sight::kind(body)).flatten()),
        options: options(scenario, token, trace),
        ..Setup::new(seats(roles), move |node, machine, log, life| plan.machine(node, machine, log, life))
    };
    let mut world = World::new(setup);
    world.load(&scenario.incidents);
    let workload = Workload::new(scenario, roles, book.clone());
    Ok(Trial { world, workload, book, roles })
}

//! The world of a scenario.

use std::cell::RefCell;
use std::rc::Rc;

use synod_machine::Span;
use synod_quorum::NodeId;
use synod_sim::{BlockJournal, Disks, Options, RecordJournal, Routed, Scenario, Seat, Setup, Storage, World};

use super::book::{Book, Shared};
use super::plan::{People, Plan, REPLICA};
use super::strategy::{self, Corrupted};
use super::watch::{Watch, Watching};
use super::words::AstroWords;
use super::workload::Workload;
use crate::params::number;

/// A world, its users, and what all know.
pub struct Trial {
    /// The world.
    pub world: World,
    /// Its users.
    pub workload: Workload,
    /// What all know.
    pub book: Shared,
    /// Who has accounts.
    pub people: People,
    /// The checker.
    pub watch: Rc<RefCell<Watch>>,
}

fn disk(blocks: bool, node: NodeId, lanes: usize) -> Box<dyn Storage> {
    if blocks { Box::new(BlockJournal::new(node, lanes)) } else { Box::new(RecordJournal::new(lanes)) }
}

/// The disks of a scenario.
pub(crate) fn disk_of(scenario: &Scenario) -> Box<Disks> {
    let blocks = number(scenario, "blocks", 0) == 1;
    Box::new(move |node, lanes| disk(blocks, node, lanes))
}

pub(super) fn options(scenario: &Scenario, token: &str, trace: bool) -> Options {
    let micros = |key: &str, default: u64| Span::micros(number(scenario, key, default));
    Options {
        sync_floor: micros("sync_floor_us", 1_500),
        sync_mean: micros("sync_mean_us", 700),
        pool: u32::try_from(number(scenario, "pool", 1)).unwrap_or(1),
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
    build_on(scenario, token, trace, disk_of(scenario))
}

/// The same on disks of somebody's choice.
///
/// # Errors
/// Those of [`build`].
pub(crate) fn build_on(
    scenario: &Scenario,
    token: &str,
    trace: bool,
    disks: Box<Disks>,
) -> Result<Trial, String> {
    let plan = Plan::new(scenario)?;
    let (people, view, recovered) = (plan.people.clone(), plan.view.clone(), plan.recovered.clone());
    let book: Shared = Rc::new(RefCell::new(Book::default()));
    let over_budget = number(scenario, "over", 0) == 1;
    let watch = Watch::new(&people, view.context, (recovered, book.clone()), over_budget);
    let watch = Rc::new(RefCell::new(watch));
    let (mode, profile) = (scenario.mode, people.profile);
    let corrupted = Rc::new(Corrupted { view: view.clone(), people: people.clone(), book: book.clone() });
    let setup = Setup {
        connector: Box::new(|_, _, output| vec![Routed::Harness(output)]),
        links: Box::new(move |_, _| Some(mode)),
        checkers: vec![Box::new(Watching(watch.clone()))],
        strategies: Box::new(move |incident| strategy::of(incident, &corrupted)),
        disks,
        words: Box::new(AstroWords { profile }),
        kinds: Box::new(move |_, body| super::words::kind(profile, body)),
        options: options(scenario, token, trace),
        ..Setup::new(
            (0..scenario.nodes).map(|id| Seat::new(NodeId(id), &[REPLICA])).collect(),
            move |node, machine, log, life| plan.machine(node, machine, log, life),
        )
    };
    let mut world = World::new(setup);
    world.load(&scenario.incidents);
    let workload = Workload::new(scenario, people.clone(), view, book.clone());
    Ok(Trial { world, workload, book, people, watch })
}

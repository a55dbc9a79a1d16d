//! One run: safety phase, healing, liveness phase.

use std::cell::RefCell;
use std::rc::Rc;

use synod_astro::{Profile, Promise};
use synod_machine::{Span, Time};
use synod_quorum::NodeId;
use synod_sim::{Draws, Options, Routed, Scenario, Seat, Setup, Violation, World, generic};

use super::judge::{Judge, Judging};
use super::judge_books::BookSeen;
use super::plan::{LOCALS, Plan, Sizes, account};
use super::workload::Workload;
use crate::oracle::{Breach, quorum};
use crate::params::number;
use crate::run::Manner;
use crate::systems::astro::book::{Book, Shared, Stage};
use crate::systems::astro::plan::REPLICA;
use crate::systems::astro::run::{LOOKS, MORE, SLICE, bound, is_late};
use crate::systems::astro::sight::{self, Kept};
use crate::systems::astro::words::{AstroWords, kind};
use crate::systems::astro::world::{disk_of, options};

/// A world with all shards, its users, and what is known.
pub struct Trial {
    /// The world.
    pub world: World,
    workload: Workload,
    /// What is known.
    pub book: Shared,
    sizes: Sizes,
    judge: Rc<RefCell<Judge>>,
}

fn build(scenario: &Scenario, token: &str, trace: bool) -> Result<Trial, String> {
    let plan = Plan::new(scenario)?;
    let (sizes, mode, profile) = (plan.sizes, scenario.mode, Profile::Funded);
    let book: Shared = Rc::new(RefCell::new(Book::default()));
    let judge = Rc::new(RefCell::new(Judge::new(sizes, book.clone())));
    let options: Options = options(scenario, token, trace);
    let setup = Setup {
        connector: Box::new(|_, _, output| vec![Routed::Harness(output)]),
        links: Box::new(move |_, _| Some(mode)),
        checkers: vec![Box::new(Judging(judge.clone()))],
        strategies: Box::new(generic),
        disks: disk_of(scenario),
        words: Box::new(AstroWords { profile }),
        kinds: Box::new(move |_, body| kind(profile, body)),
        options,
        ..Setup::new(
            (0..scenario.nodes).map(|id| Seat::new(NodeId(id), &[REPLICA])).collect(),
            move |node, machine, log, life| plan.machine(node, machine, log, life),
        )
    };
    let mut world = World::new(setup);
    world.load(&scenario.incidents);
    let workload = Workload::new(scenario, sizes, book.clone());
    Ok(Trial { world, workload, book, sizes, judge })
}

/// Plays a scenario to its end, or to the first violation.
///
/// # Errors
/// The scenario is not one the system can run.
pub fn play(scenario: &Scenario, token: &str, manner: Manner) -> Result<(Trial, Option<Violation>), String> {
    let mut trial = build(scenario, token, manner.trace)?;
    if let Some(until) = manner.until {
        trial.world.stop_behind(until);
    }
    if let Some(redraw) = manner.redraw {
        trial.world.redraw_behind(redraw);
    }
    let verdict = phases(&mut trial, scenario).and_then(|()| trial.world.finish());
    let owed = scenario.heard.is_none() || manner.redraw.is_some();
    let counts =
        |violation: &Violation| violation.checker != "until" && (owed || !is_late(&violation.checker));
    Ok((trial, verdict.err().filter(counts)))
}

fn phases(trial: &mut Trial, scenario: &Scenario) -> Result<(), Violation> {
    for look in 1..=LOOKS {
        trial.world.run(Time(scenario.horizon.0 / LOOKS * look), &mut trial.workload)?;
        (0..scenario.nodes).try_for_each(|member| adds_up(trial, NodeId(member)))?;
    }
    if number(scenario, "safety_only", 0) == 1 {
        return Ok(());
    }
    let Some(core) = core(trial, scenario) else { return Ok(()) };
    trial.world.heal(&core);
    liveness(trial, scenario, &core)
}

/// The book of a member that runs and never lied.
fn book_of(trial: &Trial, member: NodeId) -> Option<BookSeen> {
    let snapshot = trial.world.snapshot(member, REPLICA).filter(|_| trial.world.honest(member))?;
    let parts = snapshot.iter().filter_map(|bytes| match sight::record(Profile::Funded, bytes)? {
        Kept::Own(Promise::Book(part)) => Some(*part),
        _ => None,
    });
    Some(BookSeen::of(parts))
}

fn violated(trial: &Trial, member: NodeId, breach: Breach) -> Violation {
    Violation { time: trial.world.now(), node: Some(member), ..Violation::new(breach.checker, breach.what) }
}

fn adds_up(trial: &Trial, member: NodeId) -> Result<(), Violation> {
    let Some(book) = book_of(trial, member) else { return Ok(()) };
    book.adds_up().map_err(|breach| violated(trial, member, breach))
}

/// Draws the legal core: of each shard n - f members that never lied, or all of them.
fn core(trial: &Trial, scenario: &Scenario) -> Option<Vec<NodeId>> {
    let mut core = Vec::new();
    let mut stream = Draws::new(scenario.seed).stream("core", 0);
    for shard in 0..trial.sizes.shards {
        let mut members: Vec<NodeId> =
            trial.sizes.nodes(shard).filter(|id| trial.world.honest(*id)).collect();
        let wanted = quorum(trial.sizes.members) as usize;
        if members.len() < wanted {
            return None;
        }
        stream.shuffle(&mut members);
        if stream.chance(600_000) {
            members.truncate(wanted);
        }
        core.extend(members);
    }
    core.sort_unstable();
    Some(core)
}

fn liveness(trial: &mut Trial, scenario: &Scenario, core: &[NodeId]) -> Result<(), Violation> {
    let healed = trial.world.now();
    trial.world.run(healed, &mut trial.workload)?;
    for round in 0..MORE {
        for (node, input) in trial.workload.more(core, healed) {
            trial.world.input(node, REPLICA, Span::millis(200 * round as u64), Box::new(input));
        }
    }
    let (started, most) = (trial.world.now(), bound(scenario));
    loop {
        match waits(trial, core) {
            None => return core.iter().try_for_each(|member| ends(trial, *member)),
            Some((checker, what)) if trial.world.now().0 >= started.0 + most.0 => {
                let late = most.0 / 1_000_000;
                return Err(Violation::new(checker, format!("{late} ms after healing: {what}")));
            }
            Some(_) => {}
        }
        let until = trial.world.now() + SLICE;
        trial.world.run(until, &mut trial.workload)?;
    }
}

/// What is due and has not happened: orders that the core took settle, what settled does so at all of its shard's core and is
/// imported where it pays, and nothing of it is on its way any more.
fn waits(trial: &Trial, core: &[NodeId]) -> Option<(&'static str, String)> {
    let (book, judge) = (trial.book.borrow(), trial.judge.borrow());
    let due = |order: &crate::systems::astro::book::Order| {
        !order.settled && order.stage != Stage::Dropped && core.contains(&NodeId(order.node))
    };
    if let Some((ticket, order)) = (1..).zip(&book.orders).find(|(_, order)| due(order)) {
        return Some(("A-L1", format!("order {ticket} of {} is {:?}", order.spender, order.stage)));
    }
    let late = |what: String| Some(("A-L2", what));
    for member in core {
        let (shard, none) = (trial.sizes.shard(member.0), std::collections::BTreeSet::new());
        let at = judge.at.get(&member.0).unwrap_or(&none);
        let mut own = judge.settled.keys().filter(|id| id.spender.shard == shard);
        if let Some(id) = own.find(|id| !at.contains(id)) {
            return late(format!("member {} has not settled {id:?}", member.0));
        }
        let snapshot = trial.world.snapshot(*member, REPLICA).unwrap_or_default();
        let seen = book_of(trial, *member).unwrap_or_default();
        let made = made(trial, &judge, shard);
        if let Some(id) = made.used.difference(&seen.used).next() {
            return late(format!("member {} has not imported {id:?}", member.0));
        }
        let is_export = |bytes: &synod_wire::Bytes| {
            matches!(sight::record(Profile::Funded, bytes), Some(Kept::Own(Promise::Exported { .. })))
        };
        if snapshot.iter().any(is_export) {
            return late(format!("member {} keeps what others imported", member.0));
        }
    }
    None
}

/// What all that settled makes of the book of a shard.
fn made(trial: &Trial, judge: &Judge, shard: u16) -> BookSeen {
    let registrars = 0..trial.sizes.members;
    let accounts = registrars.flat_map(|registrar| (1..=LOCALS).map(move |local| (registrar, local)));
    let accounts = accounts.map(|(registrar, local)| account(u32::from(shard), registrar, local));
    BookSeen::made_by(shard, accounts, judge.settled.values().map(|(entry, _)| entry))
}

fn ends(trial: &Trial, member: NodeId) -> Result<(), Violation> {
    let Some(book) = book_of(trial, member) else { return Ok(()) };
    let made = made(trial, &trial.judge.borrow(), trial.sizes.shard(member.0));
    let verdict = book.adds_up().and_then(|()| book.is(&made, member.0));
    verdict.map_err(|breach| violated(trial, member, breach))
}

//! One run: safety phase, healing, liveness phase.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use synod_astro::Promise;
use synod_astro::member::{Message, Record};
use synod_broadcast::signed;
use synod_ledger::Part;
use synod_machine::{Span, Time};
use synod_quorum::NodeId;
use synod_sim::{Options, Routed, Scenario, Seat, Setup, Violation, World, generic};

use super::judge::{Judge, Judging, spoken};
use super::plan::{Crew, Plan};
use super::words::ViewWords;
use super::workload::Workload;
use crate::params::number;
use crate::run::Manner;
use crate::systems::astro::book::{Book, Shared, Stage};
use crate::systems::astro::plan::REPLICA;
use crate::systems::astro::run::{LOOKS, MORE, SLICE, bound, is_late};
use crate::systems::astro::world::{disk_of, options};
use crate::systems::chopchop::sight::recalled;

/// A world with all nodes, its users, and what is known.
pub struct Trial {
    /// The world.
    pub world: World,
    workload: Workload,
    /// What is known.
    pub book: Shared,
    crew: Crew,
    judge: Rc<RefCell<Judge>>,
}

fn build(scenario: &Scenario, token: &str, trace: bool) -> Result<Trial, String> {
    let plan = Plan::new(scenario)?;
    let (crew, mode) = (plan.crew().clone(), scenario.mode);
    let book: Shared = Rc::new(RefCell::new(Book::default()));
    let judge = Rc::new(RefCell::new(Judge::new(book.clone())));
    let options: Options = options(scenario, token, trace);
    let setup = Setup {
        connector: Box::new(|_, _, output| vec![Routed::Harness(output)]),
        links: Box::new(move |_, _| Some(mode)),
        checkers: vec![Box::new(Judging(judge.clone()))],
        strategies: Box::new(generic),
        disks: disk_of(scenario),
        words: Box::new(ViewWords),
        kinds: Box::new(|_, body| {
            Some(match spoken(body)? {
                Message::In { .. } => "payments",
                Message::Views(_) => "views",
            })
        }),
        options,
        ..Setup::new(
            (0..scenario.nodes).map(|id| Seat::new(NodeId(id), &[REPLICA])).collect(),
            move |node, machine, log, life| plan.machine(node, machine, log, life),
        )
    };
    let mut world = World::new(setup);
    world.load(&scenario.incidents);
    let workload = Workload::new(scenario, crew.clone(), book.clone());
    Ok(Trial { world, workload, book, crew, judge })
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
    }
    if number(scenario, "safety_only", 0) == 1 {
        return Ok(());
    }
    // All that never lied: who leaves has to be there until it is gone.
    let core: Vec<NodeId> = (0..scenario.nodes).map(NodeId).filter(|id| trial.world.honest(*id)).collect();
    if core.len() + 1 < scenario.nodes as usize {
        return Ok(());
    }
    trial.world.heal(&core);
    liveness(trial, scenario, &core)
}

fn liveness(trial: &mut Trial, scenario: &Scenario, core: &[NodeId]) -> Result<(), Violation> {
    let healed = trial.world.now();
    trial.world.run(healed, &mut trial.workload)?;
    for round in 0..MORE {
        for (node, input) in trial.workload.more(core, healed) {
            trial.world.input(node, REPLICA, Span::millis(200 * round as u64), Box::new(input));
        }
    }
    // Each change may take a view of its own, and each view what a run without them takes.
    let views = trial.crew.changes().len() as u64 + 1;
    let (started, most) = (trial.world.now(), Span(bound(scenario).0 * views));
    loop {
        match waits(trial, core) {
            None => return apart(trial, core),
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

/// What is due and has not happened: all changes are made and whoever stays goes on in the view with them; orders that members took
/// that stay settle, and what settled anywhere does so at all of them.
fn waits(trial: &Trial, core: &[NodeId]) -> Option<(&'static str, String)> {
    let (book, judge) = (trial.book.borrow(), trial.judge.borrow());
    let last = trial.crew.last();
    let stay = || core.iter().filter(|member| trial.crew.stays(member.0));
    if let Some(member) = stay().find(|member| judge.running.get(&member.0) != Some(&last)) {
        let at = judge.running.get(&member.0).map(synod_astro::views::View::id);
        let far = if judge.too_far.contains(&member.0) { ", too far behind" } else { "" };
        let what = format!("member {} goes on in {at:?} and not in {:?}{far}", member.0, last.id());
        return Some(("A-L1", what));
    }
    let due = |order: &crate::systems::astro::book::Order| {
        let is_served = core.contains(&NodeId(order.node)) && trial.crew.stays(order.node);
        !order.settled && order.stage != Stage::Dropped && is_served
    };
    if let Some((ticket, order)) = (1..).zip(&book.orders).find(|(_, order)| due(order)) {
        return Some(("A-L1", format!("order {ticket} of {} is {:?}", order.spender, order.stage)));
    }
    let none = BTreeSet::new();
    for member in stay() {
        let at = judge.at.get(&member.0).unwrap_or(&none);
        if let Some(id) = judge.settled.keys().find(|id| !at.contains(id)) {
            return Some(("A-L2", format!("member {} has not settled {id:?}", member.0)));
        }
    }
    None
}

/// A-L2: the books of all that stay are equal.
fn apart(trial: &Trial, core: &[NodeId]) -> Result<(), Violation> {
    let book = |member: &NodeId| -> Vec<Part> {
        let snapshot = trial.world.snapshot(*member, REPLICA).unwrap_or_default();
        let parts = snapshot.iter().filter_map(|bytes| match recalled::<Record<signed::Record>>(bytes)? {
            Record::In(synod_astro::Record::Own(Promise::Book(part))) => Some(*part),
            _ => None,
        });
        parts.collect()
    };
    let mut books =
        core.iter().filter(|member| trial.crew.stays(member.0)).map(|member| (member.0, book(member)));
    let Some((first, one)) = books.next() else { return Ok(()) };
    match books.find(|(_, other)| *other != one) {
        Some((other, _)) => {
            Err(Violation::new("A-L2", format!("the books of members {first} and {other} differ")))
        }
        None => Ok(()),
    }
}

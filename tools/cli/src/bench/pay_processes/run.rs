//! The run: phases under load, each of which begins with what happens to one institution.

use super::audit::{Audit, audit};
use super::load::{Load, Settled};
use super::plan::{Fault, ProcessPlan};
use super::report::report;
use super::setup::{open, places, start};
use crate::bench::processes::Processes;
use crate::exit::{Done, bug};
use crate::session::Session;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use synod_chaos::links::Manner;
use synod_config::{Exit, SynError};
use synod_load::usage;

/// How late a slow institution's words come, in each direction.
const LATE: Duration = Duration::from_millis(100);
const LOOK: Duration = Duration::from_millis(5);
/// Windows of which the slowest is told.
const WINDOW: Duration = Duration::from_secs(1);

/// What begins with a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begin {
    Nothing,
    Kill,
    Restart,
    Slow,
    Heal,
}

/// A stretch of the run.
#[derive(Clone, Debug)]
pub(super) struct Phase {
    pub(super) name: &'static str,
    pub(super) begun: Instant,
    pub(super) ended: Instant,
    /// CPU of all nodes, and of this process.
    pub(super) cpu: [Duration; 2],
    /// Payments of each institution's customers, and in the slowest second of all but the victim's.
    pub(super) payments: Vec<u64>,
    pub(super) slowest: Option<u64>,
    pub(super) slowest_others: Option<u64>,
}

/// What a run gave.
pub(super) struct Findings {
    pub(super) phases: Vec<Phase>,
    pub(super) opened: Duration,
    pub(super) took: Duration,
    pub(super) again: u64,
    /// From the start of the killed process until a payment of its customers settled.
    pub(super) back_after: Option<Duration>,
    pub(super) rss: u64,
    pub(super) audit: Audit,
}

/// The phases of a run with these faults, and what begins with each.
fn phases(faults: &[Fault]) -> Vec<(&'static str, Begin)> {
    let mut phases = vec![("before", Begin::Nothing)];
    for fault in faults {
        phases.extend(match fault {
            Fault::Kill => [("killed", Begin::Kill), ("restarted", Begin::Restart)],
            Fault::Slow => [("slowed", Begin::Slow), ("healed", Begin::Heal)],
        });
    }
    phases
}

/// Runs `plan` and prints its result; without figures and with exit code 8 if the audit fails.
///
/// # Errors
/// What could not be started; SYN-6009 if the audit fails.
pub(crate) fn run(session: &Session, plan: &ProcessPlan) -> Done {
    session.watched("starting the institutions");
    let mut cluster = start(plan, "bench-pay")?;
    session.watched("opening accounts");
    let begun = Instant::now();
    let mut books = open(plan, &cluster)?;
    let opened = begun.elapsed();
    let load = Load::start(plan, places(&cluster))?;
    let begun = Instant::now();
    let (mut told, restarted) = measure(session, plan, (&mut cluster, &load))?;
    let took = begun.elapsed();
    let (events, again) = (load.events(), load.again());
    books.add(load.end()?);
    cluster.await_all()?;
    session.watched("auditing every account at every node");
    if plan.planted {
        let first = books.accounts.first_mut().ok_or_else(|| bug("bench", &"no account"))?;
        first.places.push(u64::MAX);
    }
    for phase in &mut told {
        count(phase, &events, (usize::from(plan.nodes), plan.victim()));
    }
    let audit = audit(&places(&cluster), books)?;
    audit.passed()?;
    let back = restarted.and_then(|at| {
        let own = events.iter().filter(|event| event.institution == plan.victim() && event.payments > 0);
        own.map(|event| event.at).find(|then| *then > at).map(|then| then.duration_since(at))
    });
    let rss = cluster.pids().iter().filter_map(|(_, pid)| usage(*pid)).map(|used| used.rss_peak_bytes).max();
    let findings =
        Findings { phases: told, opened, took, again, back_after: back, rss: rss.unwrap_or(0), audit };
    let report = report(plan, &findings);
    if let Some(file) = &plan.out {
        std::fs::write(file, report.to_json()).map_err(|e| crate::cluster::unwritable(file, &e))?;
    }
    session.output.print(&report)?;
    Ok(Exit::Success)
}

/// Goes through the phases; each ends when its share of the payments has settled.
fn measure(
    session: &Session,
    plan: &ProcessPlan,
    (cluster, load): (&mut Processes, &Load),
) -> Result<(Vec<Phase>, Option<Instant>), SynError> {
    let all = phases(&plan.faults);
    let (mut told, mut restarted): (Vec<Phase>, _) = (Vec::new(), None);
    for (number, (name, begin)) in all.iter().enumerate() {
        session.watched(&format!("{name}: {} payments settled", load.settled()?));
        // What settles while a fault is made belongs to its phase.
        let start = told.last().map_or_else(Instant::now, |last| last.ended);
        match begin {
            Begin::Nothing => {}
            Begin::Kill => cluster.kill(plan.victim()),
            Begin::Restart => {
                cluster.launch(plan.victim())?;
                restarted = Some(Instant::now());
            }
            Begin::Slow => late(cluster, plan, Manner::Late(LATE))?,
            Begin::Heal => late(cluster, plan, Manner::Pass)?,
        }
        let before = cpu(cluster);
        let share = plan.payments * (number as u64 + 1) / all.len() as u64;
        while load.settled()? < share {
            std::thread::sleep(LOOK);
        }
        told.push(Phase {
            name,
            begun: start,
            ended: Instant::now(),
            cpu: since(&before, &cpu(cluster)),
            payments: Vec::new(),
            slowest: None,
            slowest_others: None,
        });
    }
    Ok((told, restarted))
}

/// Makes the victim's links slow, or as fast as they were.
fn late(cluster: &Processes, plan: &ProcessPlan, manner: Manner) -> Result<(), SynError> {
    let links = cluster.links().ok_or_else(|| bug("bench", &"the links have no proxies"))?;
    for other in (0..usize::from(plan.nodes)).filter(|other| *other != plan.victim()) {
        links.set(plan.victim(), other, manner);
        links.set(other, plan.victim(), manner);
    }
    Ok(())
}

/// CPU of the processes that run; this one has number 0.
fn cpu(cluster: &Processes) -> BTreeMap<u32, Duration> {
    let nodes = cluster.pids().into_iter().map(|(_, pid)| (pid, pid));
    let all = nodes.chain([(0, std::process::id())]);
    all.filter_map(|(name, pid)| Some((name, usage(pid)?.cpu))).collect()
}

fn since(before: &BTreeMap<u32, Duration>, after: &BTreeMap<u32, Duration>) -> [Duration; 2] {
    let spent = |name: &u32| {
        let before = before.get(name).copied().unwrap_or_default();
        after.get(name).map_or(Duration::ZERO, |after| after.saturating_sub(before))
    };
    [after.keys().filter(|name| **name > 0).map(spent).sum(), spent(&0)]
}

/// Counts what settled in a phase.
fn count(phase: &mut Phase, events: &[Settled], (institutions, victim): (usize, usize)) {
    let within: Vec<&Settled> =
        events.iter().filter(|event| event.at > phase.begun && event.at <= phase.ended).collect();
    phase.payments = vec![0; institutions];
    for event in &within {
        if let Some(own) = phase.payments.get_mut(event.institution) {
            *own += event.payments;
        }
    }
    let span = phase.ended.duration_since(phase.begun);
    let of = |is_of: &dyn Fn(usize) -> bool| {
        let events = within.iter().filter(|event| is_of(event.institution));
        slowest(events.map(|event| (event.at.duration_since(phase.begun), event.payments)), span)
    };
    (phase.slowest, phase.slowest_others) = (of(&|_| true), of(&|institution| institution != victim));
}

/// Payments of the slowest whole second; `None` where there was no whole one.
fn slowest(events: impl Iterator<Item = (Duration, u64)>, span: Duration) -> Option<u64> {
    let windows = usize::try_from(span.as_nanos() / WINDOW.as_nanos()).unwrap_or(usize::MAX);
    let mut counts = vec![0_u64; windows];
    for (at, payments) in events {
        let window = usize::try_from(at.as_nanos() / WINDOW.as_nanos()).unwrap_or(usize::MAX);
        if let Some(count) = counts.get_mut(window) {
            *count += payments;
        }
    }
    counts.into_iter().min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_second_is_one_of_the_whole_ones() {
        let ms = Duration::from_millis;
        let events = [(ms(10), 5), (ms(900), 2), (ms(1_500), 3), (ms(2_100), 1)];
        assert_eq!(slowest(events.into_iter(), ms(2_500)), Some(3));
        assert_eq!(slowest(events.into_iter(), ms(3_000)), Some(1));
        assert_eq!(slowest(events.into_iter(), ms(999)), None);
        assert_eq!(slowest(events.into_iter(), ms(4_000)), Some(0));
    }

    #[test]
    fn each_fault_is_followed_by_its_end() {
        let names = |faults: &[Fault]| phases(faults).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        assert_eq!(names(&[]), ["before"]);
        let all = names(&[Fault::Kill, Fault::Slow]);
        assert_eq!(all, ["before", "killed", "restarted", "slowed", "healed"]);
    }
}

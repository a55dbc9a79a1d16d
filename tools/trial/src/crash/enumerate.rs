//! The enumeration itself.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use synod_crypto::Keys;
use synod_machine::host::LaneLog;
use synod_quorum::NodeId;
use synod_sim::{Keyring, Storage};

use super::judge::{Broken, Judge};
use super::outcomes::{Disk, Forgetful};
use super::point::Point;
use super::report::{CrashReport, FAILURES_MAX, Failure, Order, SystemReport};
use super::rig::Rig;
use super::tape::{LANES, Step, Talk, talk};
use super::tempter::Tempter;
use crate::params::{pack_of, parameters};
use crate::run::commit;
use crate::systems::hotstuff::{Plan, judged};
use crate::systems::{astro, chopchop, journal};

/// Systems that have an enumeration.
pub const SYSTEMS: [&str; 10] = [
    "hotstuff/basic",
    "hotstuff/chain3",
    "hotstuff/chain2",
    "hotstuff/chain2+order",
    "chopchop/ideal",
    "chopchop/hotstuff",
    "astro/i",
    "astro/ii",
    "astro/ii-f",
    journal::SYSTEM,
];

/// What a test double does to the logs that a start finds.
pub(super) type Edit = fn(&mut [LaneLog]);

/// How a member's tape is read.
#[derive(Clone, Copy)]
pub(super) struct Manner {
    pub(super) blocks: bool,
    pub(super) stride: u32,
    /// Only this boundary and this outcome.
    pub(super) only: Option<(u32, u32)>,
    /// What a start does not find; for controls.
    pub(super) edit: Option<Edit>,
}

/// Enumerates the crashes of some systems.
///
/// # Errors
/// A system is unknown, or its conversation did not come about.
pub fn enumerate(order: &Order) -> Result<CrashReport, String> {
    let started = Instant::now();
    let manner = Manner { blocks: order.blocks, stride: order.stride.max(1), only: None, edit: None };
    let mut per = Vec::new();
    for system in &order.systems {
        per.push(one(system, manner, order.jobs)?);
    }
    let sum = |of: fn(&SystemReport) -> u64| per.iter().map(of).sum();
    Ok(CrashReport {
        schema: "synod-sim-crash/1",
        points: sum(|s| s.points),
        outcomes: sum(|s| s.outcomes),
        conflicts: sum(|s| s.conflicts),
        gate_violations: sum(|s| s.gate_violations),
        panics: sum(|s| s.panics),
        blocks: order.blocks,
        wall_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
        per,
    })
}

/// Repeats one crash.
///
/// # Errors
/// There is no such point.
pub fn again(point: &Point) -> Result<SystemReport, String> {
    let manner =
        Manner { blocks: point.blocks, stride: 1, only: Some((point.boundary, point.outcome)), edit: None };
    let report = if point.system == journal::SYSTEM {
        super::journal::enumerate(manner)
    } else if chopchop::is(&point.system) {
        super::chop::again(point, manner)?
    } else if SYSTEMS.contains(&&*point.system) && astro::is(&point.system) {
        super::pay::again(point, manner)?
    } else {
        let talk = talk(&point.system)?;
        if point.member >= talk.scenario.nodes {
            return Err(format!("there is no member {}", point.member));
        }
        member(&talk, point.member, manner)?
    };
    if report.outcomes == 0 {
        return Err(format!("there is no point {point}"));
    }
    Ok(report)
}

pub(super) fn point(system: &str, (member, boundary, outcome): (u32, u32, u32), blocks: bool) -> Point {
    Point { system: system.to_owned(), member, boundary, outcome, blocks, commit: commit() }
}

/// One system, its members spread over `jobs` threads.
pub(super) fn one(system: &str, manner: Manner, jobs: usize) -> Result<SystemReport, String> {
    if system == journal::SYSTEM {
        return Ok(super::journal::enumerate(manner));
    }
    if chopchop::is(system) {
        return super::chop::one(system, manner, jobs);
    }
    if SYSTEMS.contains(&system) && astro::is(system) {
        return super::pay::one(system, manner, jobs);
    }
    let talk = talk(system)?;
    let next = AtomicUsize::new(0);
    let mut all = SystemReport { system: system.to_owned(), ..SystemReport::default() };
    if let Some((checker, what)) = talk.broken.clone() {
        // Already without a crash: the enumeration goes on with what there is of the conversation.
        all.gate_violations += 1;
        let token = point(system, (0, 0, 0), manner.blocks).to_string();
        all.failures.push(Failure { token, checker, what: format!("in the conversation: {what}") });
    }
    let sums = Mutex::new(Ok(all));
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                loop {
                    let id = u32::try_from(next.fetch_add(1, Ordering::Relaxed)).unwrap_or(u32::MAX);
                    if id >= talk.scenario.nodes {
                        return;
                    }
                    let part = member(&talk, id, manner);
                    if let Ok(mut sums) = sums.lock() {
                        match (&mut *sums, part) {
                            (Ok(sums), Ok(part)) => sums.add(part),
                            (Ok(_), Err(why)) => *sums = Err(why),
                            (Err(_), _) => {}
                        }
                    }
                }
            });
        }
    });
    sums.into_inner().map_err(|_| "a thread panicked".to_owned())?
}

/// What one member needs to be rebuilt and tempted.
struct Scene<'a> {
    talk: &'a Talk,
    plan: Plan,
    ring: Keyring,
    keys: Vec<Keys>,
    own: NodeId,
    manner: Manner,
    report: SystemReport,
}

/// All crashes of one member.
pub(super) fn member(talk: &Talk, id: u32, manner: Manner) -> Result<SystemReport, String> {
    let scenario = &talk.scenario;
    let ring = Keyring::new(scenario.crypto, scenario.seed);
    let mut scene = Scene {
        talk,
        plan: Plan::new(scenario)?,
        ring,
        keys: (0..scenario.nodes).map(|id| ring.keys(u64::from(id))).collect(),
        own: NodeId(id),
        manner,
        report: SystemReport { system: scenario.system.clone(), ..SystemReport::default() },
    };
    let pack = pack_of(&scenario.system).ok_or_else(|| format!("no system is called {}", scenario.system))?;
    let tape = usize::try_from(id).ok().and_then(|id| talk.tapes.get(id)).ok_or("no such member")?;
    let mut judge = Judge::new(judged(pack));
    judge.know(talk.lore.headers.values());
    let mut disk = Disk::new(NodeId(id), LANES, manner.blocks)?;
    let mut committed = false;
    for (at, step) in (0_u32..).zip(&tape.steps) {
        if committed || matches!(step, Step::Effect(..)) {
            scene.crash(at, &disk, &judge);
        }
        committed = matches!(step, Step::Commit);
        if let Step::Effect(_, sightings) = step {
            judge.see(sightings);
        }
        disk.take(step);
        if !judge.broken.is_empty() {
            // What is broken without a crash is reported once, at its place, and judged no more.
            let broken = core::mem::take(&mut judge.broken);
            scene.broke((at, 0), &broken);
        }
    }
    let last = u32::try_from(tape.steps.len()).unwrap_or(u32::MAX);
    scene.crash(last, &disk, &judge);
    Ok(scene.report)
}

impl Scene<'_> {
    /// The member crashes at a boundary, once per storage outcome.
    fn crash(&mut self, boundary: u32, disk: &Disk, judge: &Judge) {
        let Manner { stride, only, .. } = self.manner;
        if only.is_some_and(|(wanted, _)| wanted != boundary)
            || !(boundary.wrapping_add(self.own.0)).is_multiple_of(stride)
        {
            return;
        }
        self.report.points += 1;
        for (outcome, storage) in (0_u32..).zip(disk.outcomes()) {
            if only.is_some_and(|(_, wanted)| wanted != outcome) {
                continue;
            }
            self.report.outcomes += 1;
            let tempted = catch_unwind(AssertUnwindSafe(|| self.come_back(storage, judge)));
            match tempted {
                Ok(Ok(after)) => {
                    self.report.statements += after.statements();
                    self.broke((boundary, outcome), &after.broken);
                }
                Ok(Err(why)) => self.fell((boundary, outcome), "recover", &why),
                Err(_) => self.fell((boundary, outcome), "X1", "the member panicked after the crash"),
            }
        }
    }

    /// It comes back from what the disk kept, and is tempted.
    fn come_back(&self, storage: Box<dyn Storage>, judge: &Judge) -> Result<Judge, String> {
        let storage: Box<dyn Storage> = match self.manner.edit {
            None => storage,
            Some(edit) => Box::new(Forgetful { inner: storage, edit }),
        };
        let own = (self.own, self.ring.keys(u64::from(self.own.0)));
        let wall = self.talk.lore.latest + 1_000;
        let mut rig = Rig::open(&self.plan, own, storage, wall).map_err(|refusal| refusal.0)?;
        if rig.condition == synod_machine::Condition::Damaged {
            return Err("J-S2: a crash alone made the log count as damaged".to_owned());
        }
        let mut judge = judge.clone();
        let acknowledged = judge.delivered();
        judge.see(&core::mem::take(&mut rig.sightings));
        if self.manner.edit.is_none() {
            judge.demand_acknowledged(&acknowledged);
        }
        let scenario = &self.talk.scenario;
        let pack = pack_of(&scenario.system).ok_or("no such system")?;
        let term_views = parameters(scenario, pack).term_views;
        let promised = judge.promised.clone();
        let mut tempter = Tempter::new(self.own, (pack, term_views), &self.keys, &self.talk.lore);
        tempter.tempt(&mut rig, &promised);
        judge.know(tempter.known.values());
        judge.see(&core::mem::take(&mut rig.sightings));
        Ok(judge)
    }

    fn broke(&mut self, at: (u32, u32), broken: &[Broken]) {
        let conflict = broken.iter().find_map(|broken| match broken {
            Broken::Conflict(conflict) => Some(conflict.what.clone()),
            Broken::Gate(_) => None,
        });
        let gate = broken.iter().find_map(|broken| match broken {
            Broken::Gate(breach) => Some(breach.clone()),
            Broken::Conflict(_) => None,
        });
        if let Some(what) = conflict {
            self.report.conflicts += 1;
            self.fail(at, "X4", what);
        }
        if let Some(breach) = gate {
            self.report.gate_violations += 1;
            self.fail(at, breach.checker, breach.what);
        }
    }

    fn fell(&mut self, at: (u32, u32), checker: &str, what: &str) {
        self.report.panics += 1;
        self.fail(at, checker, what.to_owned());
    }

    fn fail(&mut self, (boundary, outcome): (u32, u32), checker: &str, what: String) {
        if self.report.failures.len() < FAILURES_MAX {
            let point = point(&self.report.system, (self.own.0, boundary, outcome), self.manner.blocks);
            let checker = checker.to_owned();
            self.report.failures.push(Failure { token: point.to_string(), checker, what });
        }
    }
}

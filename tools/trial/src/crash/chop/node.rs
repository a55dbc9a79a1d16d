//! All crashes of one node, and of all nodes of a system.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use synod_crypto::Keys;
use synod_quorum::NodeId;
use synod_sim::{Keyring, Storage};

use super::super::enumerate::{Manner, point};
use super::super::outcomes::{Disk, Forgetful};
use super::super::point::Point;
use super::super::report::{FAILURES_MAX, Failure, SystemReport};
use super::super::tape::Step;
use super::judge::{Broken, Judge};
use super::talk::{OF_SERVER, Talk, talk};
use super::{broker, client, server};
use crate::systems::chopchop::plan::Plan;

/// All nodes of a system, spread over `jobs` threads.
pub(in super::super) fn one(system: &str, manner: Manner, jobs: usize) -> Result<SystemReport, String> {
    let talk = talk(system)?;
    let mut all = SystemReport { system: system.to_owned(), ..SystemReport::default() };
    if let Some((checker, what)) = talk.broken.clone() {
        all.gate_violations += 1;
        let token = point(system, (0, 0, 0), manner.blocks).to_string();
        all.failures.push(Failure { token, checker, what: format!("in the conversation: {what}") });
    }
    // Brokers take longest.
    let with_brokers = !manner.blocks && manner.edit.is_none();
    let brokers = with_brokers.then(|| talk.roles.brokers().map(|id| id.0));
    let nodes: Vec<u32> = brokers.into_iter().flatten().chain(talk.tapes.keys().copied()).collect();
    let (next, sums) = (AtomicUsize::new(0), Mutex::new(Ok(all)));
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                while let Some(id) = nodes.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let part = of_any(&talk, *id, manner);
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

/// Repeats one crash.
pub(in super::super) fn again(wanted: &Point, manner: Manner) -> Result<SystemReport, String> {
    let talk = talk(&wanted.system)?;
    of_any(&talk, wanted.member, manner)
}

fn of_any(talk: &Talk, id: u32, manner: Manner) -> Result<SystemReport, String> {
    if talk.roles.brokers().any(|broker| broker.0 == id) {
        broker::node(talk, id, manner)
    } else {
        node(talk, id, manner)
    }
}

/// What one node needs to be rebuilt and tempted.
struct Scene<'a> {
    talk: &'a Talk,
    plan: Plan,
    ring: Keyring,
    servers: Vec<Keys>,
    own: NodeId,
    manner: Manner,
    report: SystemReport,
}

fn node(talk: &Talk, id: u32, manner: Manner) -> Result<SystemReport, String> {
    let scenario = &talk.scenario;
    let tape = talk.tapes.get(&id).ok_or_else(|| format!("there is no node {id} that crashes"))?;
    let ring = Keyring::new(scenario.crypto, scenario.seed);
    let plan = Plan::new(scenario)?;
    let mut judge = Judge::new(plan.cluster.clone());
    let lanes = if id < talk.roles.servers { OF_SERVER.len() } else { 1 };
    let mut disk = Disk::new(NodeId(id), lanes, manner.blocks)?;
    let mut scene = Scene {
        talk,
        plan,
        ring,
        servers: (0..talk.roles.servers).map(|id| ring.keys(u64::from(id))).collect(),
        own: NodeId(id),
        manner,
        report: SystemReport { system: scenario.system.clone(), ..SystemReport::default() },
    };
    let (mut events, mut committed) = (tape.events.iter().peekable(), false);
    for (place, step) in tape.steps.iter().enumerate() {
        let at = u32::try_from(place).unwrap_or(u32::MAX);
        if committed || matches!(step, Step::Effect(..)) {
            scene.crash(at, &disk, &judge);
        }
        committed = matches!(step, Step::Commit);
        while let Some((_, event)) = events.next_if(|(upto, _)| *upto <= place) {
            judge.see(event);
        }
        disk.take(step);
        // What is broken without a crash is reported once, at its place, and judged no more.
        let broken = core::mem::take(&mut judge.broken);
        scene.broke((at, 0), &broken);
    }
    let last = u32::try_from(tape.steps.len()).unwrap_or(u32::MAX);
    scene.crash(last, &disk, &judge);
    Ok(scene.report)
}

impl Scene<'_> {
    /// The node crashes at a boundary, once per storage outcome.
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
            let visited = catch_unwind(AssertUnwindSafe(|| self.come_back(storage, judge)));
            match visited {
                Ok(Ok(after)) => {
                    self.report.statements += judge.statements + after.statements;
                    self.broke((boundary, outcome), &after.broken);
                }
                Ok(Err(why)) => self.fell((boundary, outcome), "recover", &why),
                Err(_) => self.fell((boundary, outcome), "X1", "the node panicked after the crash"),
            }
        }
    }

    fn come_back(&self, storage: Box<dyn Storage>, judge: &Judge) -> Result<Judge, String> {
        let storage: Box<dyn Storage> = match self.manner.edit {
            None => storage,
            Some(edit) => Box::new(Forgetful { inner: storage, edit }),
        };
        let own = (self.own, self.ring.keys(u64::from(self.own.0)));
        let known = (self.talk, &self.plan);
        if self.own.0 < self.talk.roles.servers {
            server::visit(known, &self.servers, own, storage, judge)
        } else {
            client::visit(known, &self.servers, own, storage, judge)
        }
    }

    fn broke(&mut self, at: (u32, u32), broken: &[Broken]) {
        for one in broken {
            match one {
                Broken::Conflict(what) => {
                    self.report.conflicts += 1;
                    self.fail(at, "X4", what.clone());
                }
                Broken::Gate(checker, what) => {
                    self.report.gate_violations += 1;
                    self.fail(at, checker, what.clone());
                }
            }
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

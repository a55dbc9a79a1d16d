//! Runs a plan: cluster on disks that forget, load, cuts, order windows, audit, result.

use super::disks::{Disks, Furnished, check};
use super::order::Order;
use super::report::{Findings, report};
use crate::bench::{Processes, Start, are_settled, settled};
use crate::chaos::load::{Done as Told, Load};
use crate::chaos::schedule::Stage;
use crate::chaos::timeline::{Phase, Timeline};
use crate::context::client_addresses;
use crate::deployment::{Blow, log_file};
use crate::exit::{Done, bug};
use crate::health::{blames, vitals};
use crate::session::Session;
use std::sync::Arc;
use std::time::{Duration, Instant};
use synod_chaos::Draw;
use synod_chaos::fs::{Cut, Faults, Loss, Moment};
use synod_config::{Exit, SynError};

/// Members.
const NODES: u16 = 4;
/// How long members may take to come to the same state once the load has ended.
const SETTLE: Duration = Duration::from_secs(60);
/// How long the drawn operation may take to come.
const REACH: Duration = Duration::from_secs(3);
/// How long one look at a member may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// Operations that may go by before the one at which the power fails.
const SKIP: usize = 48;
/// What a write or a sync takes longer than memory does.
const DISK: Duration = Duration::from_micros(500);
/// Of so many cuts one hits all members at once.
const ALL_OF: usize = 4;
/// Of so many cuts one is followed by an order window.
const WINDOW_EVERY: u32 = 10;

/// One run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Power cuts.
    pub(crate) cuts: u32,
    /// Mean time of load between them.
    pub(crate) pause: Duration,
    /// The value of `storage.sync` at every member.
    pub(crate) sync: &'static str,
    /// What everything is drawn from.
    pub(crate) seed: u64,
}

impl Plan {
    /// Whether syncs are switched off, so that the run must fail.
    fn is_control(&self) -> bool {
        self.sync == "none-UNSAFE"
    }
}

/// What happened.
#[derive(Clone, Debug, Default)]
pub(super) struct Events {
    /// Power cuts.
    pub(super) cuts: u32,
    /// Those of all members at once.
    pub(super) cuts_all: u32,
    /// Those at the drawn operation; the others came when no operation did.
    pub(super) at_operation: u32,
    /// Those by which readers see less than before.
    pub(super) lossy: u32,
    pub(super) loss: Loss,
    /// Double signatures that members reported.
    pub(super) equivocations: u64,
    /// Members that did not come back, in words.
    pub(super) gone: Vec<String>,
}

/// A cluster, its disks and its load.
pub(super) struct Site<'a> {
    pub(super) stage: Stage<'a>,
    pub(super) disks: &'a mut Disks,
    pub(super) draw: Draw,
    pub(super) order: Order,
    pub(super) events: Events,
}

/// Runs `plan` and prints its result.
///
/// # Errors
/// SYN-1101 on a machine without FUSE; the error of the cluster; SYN-6009 with what differed if the audit fails.
pub(crate) fn run(session: &Session, plan: &Plan) -> Done {
    check()?;
    session.tell("starting the cluster");
    let flags = [
        ("storage.sync".to_owned(), plan.sync.to_owned()),
        ("storage.retain_bytes".to_owned(), "256Mi".to_owned()),
    ];
    let start = Start { name: "power", nodes: NODES, dead: 0, parameters: &|_| {}, flags: &flags };
    let mut processes = Processes::start(&start)?;
    let mut furnished = Furnished::lay(&mut processes)?;
    let played = play(session, plan, &mut processes, &mut furnished.disks);
    let failed = match &played {
        Ok(findings) if findings.ok() => None,
        Ok(findings) => Some(findings.error()),
        Err(error) => Some(error.clone()),
    };
    let kept = furnished.end(&mut processes, failed.is_some());
    if let Ok(findings) = &played {
        let report = report(plan, findings);
        // A run with syncs switched off must fail; it is no figure of what is built.
        session.score(if plan.is_control() { "chaos-control" } else { "chaos-power" }, &report);
        session.output.print(&report)?;
    }
    let Some(error) = failed else { return kept.map(|()| Exit::Success) };
    processes.keep();
    let directory = processes.directory().display();
    let kept = match kept {
        Ok(()) => format!("data and logs are kept in {directory}; the seed is {}", plan.seed),
        Err(why) => format!("logs are kept in {directory}, data are not: {why}"),
    };
    Err(error.because(kept))
}

fn play(
    session: &Session,
    plan: &Plan,
    processes: &mut Processes,
    disks: &mut Disks,
) -> Result<Findings, SynError> {
    let begun = Instant::now();
    let timeline = Arc::new(Timeline::new(begun));
    let load = Load::start(&processes.genesis, timeline.clone())?;
    let stage = Stage::new(session, processes, timeline, plan.seed)?;
    let (draw, order, events) = (Draw::new(plan.seed ^ 0x706f_7765), Order::default(), Events::default());
    let mut site = Site { stage, disks, draw, order, events };
    let played = site.play(plan);
    session.tell("auditing");
    let told = load.finish();
    played?;
    site.look_at_all();
    let Told { lane, blamed, .. } = told?;
    let (order, events, restarts) = (site.order, site.events, site.stage.events);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| bug("runtime", &error))?;
    let addresses = client_addresses(&processes.genesis);
    let states = runtime.block_on(settled(&processes.genesis, &addresses, SETTLE))?;
    Ok(Findings {
        hash_equal: are_settled(&states, usize::from(NODES)),
        keys: states.first().map_or(0, |(_, keys)| *keys),
        members: states.len(),
        damaged: damaged(processes),
        blamed: blamed.len() as u64,
        to_vote: restarts.to_vote,
        lane,
        order,
        events,
        took: begun.elapsed(),
    })
}

/// How often members took what a power cut left for damage.
fn damaged(processes: &Processes) -> u64 {
    let members = processes.alive().into_iter().map(|member| processes.name(member));
    let logs = members.map(|name| std::fs::read_to_string(log_file(processes.directory(), name)));
    let lines = logs.flatten().map(|log| log.matches("the journal is damaged").count() as u64);
    lines.sum()
}

impl Site<'_> {
    /// Members of the cluster.
    pub(super) fn members(&self) -> usize {
        usize::from(NODES)
    }

    fn play(&mut self, plan: &Plan) -> Result<(), SynError> {
        for member in 0..self.members() {
            self.slow(member);
        }
        std::thread::sleep(plan.pause);
        self.order_window(0)?;
        while self.events.cuts < plan.cuts && self.events.gone.is_empty() {
            let pause = self.draw.pause(plan.pause);
            std::thread::sleep(pause);
            let all = self.draw.below(ALL_OF) == 0;
            let victims =
                if all { self.stage.processes.alive() } else { vec![self.draw.below(self.members())] };
            self.cut(&victims)?;
            if self.events.cuts.is_multiple_of(WINDOW_EVERY) && self.events.gone.is_empty() {
                self.order_window(self.events.cuts)?;
            }
        }
        Ok(())
    }

    /// The power of these members fails, and comes back.
    fn cut(&mut self, victims: &[usize]) -> Result<(), SynError> {
        victims.iter().for_each(|member| self.look_at(*member));
        let trigger = victims[self.draw.below(victims.len())];
        let moment = if self.draw.coin() { Moment::Before } else { Moment::After };
        let skip = self.draw.below(SKIP) as u64;
        self.disks.disk(trigger).arm(Cut { skip, moment });
        let reached = self.disks.disk(trigger).wait_off(REACH);
        let phase = if victims.len() > 1 { Phase::RestartAll } else { Phase::Kill };
        self.stage.timeline.enter(phase);
        victims.iter().for_each(|member| self.disks.disk(*member).off());
        for member in victims {
            self.stage.strike(*member, Blow::Kill)?;
        }
        let mut loss = Loss::default();
        for member in victims {
            // A process that waits for its disk ends once it is answered.
            self.disks.disk(*member).release();
            self.stage.processes.kill(*member);
            loss.add(&self.disks.lose(*member, &mut self.draw)?);
            self.slow(*member);
        }
        if let Err(error) = self.stage.restart(victims) {
            self.events.gone.push(error.to_string());
        }
        self.stage.timeline.enter(Phase::Steady);
        self.events.cuts += 1;
        self.events.cuts_all += u32::from(victims.len() > 1);
        self.events.at_operation += u32::from(reached);
        self.events.lossy += u32::from(loss.any());
        self.events.loss.add(&loss);
        let hit = if victims.len() > 1 { "all" } else { self.stage.processes.name(trigger) };
        self.stage.session.tell(&format!("cut {} of {hit}: {loss:?}", self.events.cuts));
        Ok(())
    }

    /// A disk that answers at once would hardly ever be caught with something unsynced.
    fn slow(&self, member: usize) {
        self.disks.disk(member).set(Faults { slow: DISK, ..Faults::default() });
    }

    /// Takes down what a member reported of double signatures, before its counters are gone.
    fn look_at(&mut self, member: usize) {
        let told = self.stage.metrics.get(member).map(|address| blames(address, PATIENCE));
        for (_, fault, times) in told.and_then(Result::ok).into_iter().flatten() {
            self.events.equivocations += if fault.starts_with("equivocated_") { times } else { 0 };
        }
    }

    fn look_at_all(&mut self) {
        for member in self.stage.processes.alive() {
            self.look_at(member);
            let told = self.stage.metrics.get(member).map(|address| vitals(address, PATIENCE));
            if told.and_then(Result::ok).is_some_and(|vitals| vitals.diverged) {
                let name = self.stage.processes.name(member);
                self.events.gone.push(format!("{name} has another state than the certified one"));
            }
        }
    }
}

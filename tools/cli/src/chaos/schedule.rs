//! The events of a run, one after the other: at most one member is away at a time, or all at once.

use super::breakage::Breakage;
use super::plan::Plan;
use super::power::Disks;
use super::timeline::{Phase, Timeline};
use crate::bench::Processes;
use crate::deployment::{Blow, describe_ports};
use crate::health::{Vitals, blames, vitals};
use crate::session::Session;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use synod_chaos::Draw;
use synod_config::{Address, Service, SynError, code};

/// How long a member may take to come back.
const BACK: Duration = Duration::from_secs(60);
/// Pause between two looks at a member.
const LOOK: Duration = Duration::from_millis(10);
/// How long one look may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long a killed leader stays away, at most.
const AWAY: Duration = Duration::from_secs(1);
/// Quiet time between events of different kinds, so that a gap is not taken for one of another.
const BETWEEN: Duration = Duration::from_secs(1);
/// How long all stay away.
const ALL_AWAY: Duration = Duration::from_millis(200);

/// What happened.
#[derive(Clone, Debug, Default)]
pub(crate) struct Events {
    pub(crate) kills: u32,
    pub(crate) stops: u32,
    pub(crate) restarts_all: u32,
    /// Nodes that ended because their disk was full, and came back.
    pub(crate) disk_full: u32,
    /// Nodes that ended because a write or a sync failed, and came back.
    pub(crate) eio: u32,
    /// From the start of a process until its node was ready.
    pub(crate) to_ready: Vec<Duration>,
    /// From the start of a process until its node voted.
    pub(crate) to_vote: Vec<Duration>,
    /// From the end of a stop until the follower had what the others had when it ended.
    pub(crate) to_catch_up: Vec<Duration>,
    /// Links that were hurt, by how.
    pub(crate) links: BTreeMap<&'static str, u32>,
    /// Splits, by shape.
    pub(crate) splits: BTreeMap<&'static str, u32>,
    /// From the moment links were healed until all members had what the others had.
    pub(crate) to_mend: Vec<Duration>,
    /// The member that was faulty.
    pub(crate) liar: Option<usize>,
    /// Equivocations that members which are not faulty reported: who, of whom, which, how often.
    pub(crate) reported: Vec<(String, String, String, u64)>,
}

/// A cluster with its load, and where its members tell about themselves.
pub(crate) struct Stage<'a> {
    pub(crate) session: &'a Session,
    pub(crate) processes: &'a mut Processes,
    pub(crate) timeline: Arc<Timeline>,
    pub(super) metrics: Vec<Address>,
    pub(super) draw: Draw,
    /// Disks that can fail, if they were laid.
    pub(super) disks: Option<&'a mut Disks>,
    pub(crate) events: Events,
}

impl<'a> Stage<'a> {
    /// # Errors
    /// The errors of the deployment's files.
    pub(crate) fn new(
        session: &'a Session,
        processes: &'a mut Processes,
        timeline: Arc<Timeline>,
        seed: u64,
    ) -> Result<Self, SynError> {
        let ports = describe_ports(processes.directory())?;
        let metrics = ports.nodes.iter().filter_map(|node| node.ports.get(&Service::Metrics));
        let metrics = metrics.map(|port| Address::loopback(*port)).collect();
        let (draw, events) = (Draw::new(seed), Events::default());
        Ok(Self { session, processes, timeline, metrics, draw, disks: None, events })
    }

    /// Plays the plan.
    ///
    /// # Errors
    /// That a member ended by itself or did not come back in time.
    pub(crate) fn play(&mut self, plan: &Plan) -> Result<(), SynError> {
        let begun = Instant::now();
        std::thread::sleep(BETWEEN);
        if let Some(lie) = plan.lie {
            let liar = self.leader()?;
            self.events.liar = Some(liar);
            self.session.tell(&format!("{} is faulty: {}", self.processes.name(liar), lie.as_str()));
            self.timeline.enter(Phase::Lie);
            self.tell(liar, lie.line())?;
            std::thread::sleep(plan.span.saturating_sub(begun.elapsed()));
            self.events.reported = self.reported(liar);
            self.tell(liar, "heal")?;
            self.timeline.enter(Phase::Steady);
            return Ok(());
        }
        if plan.mix {
            self.mix(plan, begun)?;
        }
        while self.events.kills < plan.kills || (plan.kills > 0 && begun.elapsed() < plan.span) {
            let pause = self.draw.pause(plan.kill_mean);
            std::thread::sleep(pause);
            self.kill_leader()?;
        }
        std::thread::sleep(BETWEEN);
        if let Some(span) = plan.stop {
            self.stop_follower(span)?;
            std::thread::sleep(BETWEEN);
        }
        if plan.restart_all {
            self.restart_all()?;
        }
        for (breakage, times) in [(Breakage::Full, plan.disk_full), (Breakage::Failing, plan.eio)] {
            for _ in 0..times {
                let pause = self.draw.pause(plan.kill_mean);
                std::thread::sleep(pause);
                self.break_disk(breakage)?;
            }
        }
        for number in 0..usize::try_from(plan.links).unwrap_or(0) {
            let pause = self.draw.pause(plan.kill_mean);
            std::thread::sleep(pause);
            if let Some(hurt) = plan.hurts.get(number % plan.hurts.len().max(1)) {
                self.hurt(*hurt)?;
            }
        }
        std::thread::sleep(plan.span.saturating_sub(begun.elapsed()).max(BETWEEN));
        Ok(())
    }

    /// The equivocations that all members but the faulty one counted.
    fn reported(&self, liar: usize) -> Vec<(String, String, String, u64)> {
        let honest = self.processes.alive().into_iter().filter(|member| *member != liar);
        let told = honest.filter_map(|member| {
            let blames = blames(self.metrics.get(member)?, PATIENCE).ok()?;
            Some((self.processes.name(member).to_owned(), blames))
        });
        told.flat_map(|(by, blames)| {
            let equivocations = blames.into_iter().filter(|(_, fault, _)| fault.starts_with("equivocated_"));
            equivocations.map(move |(of, fault, times)| (by.clone(), of, fault, times))
        })
        .collect()
    }

    fn tell(&self, member: usize, line: &str) -> Result<(), SynError> {
        let folder = self.processes.directory().join(self.processes.name(member));
        crate::admin::ask(&crate::verbs::fault::admin_socket(&folder)?, line)
    }

    pub(super) fn look(&self, member: usize) -> Option<Vitals> {
        vitals(self.metrics.get(member)?, PATIENCE).ok()
    }

    /// The leader of the highest view that a member states.
    pub(super) fn leader(&self) -> Result<usize, SynError> {
        let told = self.processes.alive().into_iter().filter_map(|member| self.look(member));
        let newest = told.filter(|vitals| vitals.leader.is_some()).max_by_key(|vitals| vitals.view);
        let leader = newest.and_then(|vitals| usize::try_from(vitals.leader?).ok());
        leader.ok_or_else(|| SynError::of(code::NO_QUORUM, &[("names", "a member that knows the leader")]))
    }

    pub(super) fn kill_leader(&mut self) -> Result<(), SynError> {
        let leader = self.leader()?;
        self.timeline.enter(Phase::Kill);
        self.processes.kill(leader);
        let away = AWAY.mul_f64(f64::from(u16::try_from(self.draw.below(1_000)).unwrap_or(0)) / 1_000.0);
        std::thread::sleep(away);
        self.restart(&[leader])?;
        self.timeline.enter(Phase::Steady);
        self.events.kills += 1;
        let (ready, vote) = (self.events.to_ready.last(), self.events.to_vote.last());
        self.session.tell(&format!(
            "kill {}: {} was away for {} ms, ready after {} ms, voted after {} ms",
            self.events.kills,
            self.processes.name(leader),
            away.as_millis(),
            ready.map_or(0, Duration::as_millis),
            vote.map_or(0, Duration::as_millis),
        ));
        Ok(())
    }

    pub(super) fn stop_follower(&mut self, span: Duration) -> Result<(), SynError> {
        let leader = self.leader()?;
        let followers: Vec<usize> =
            self.processes.alive().into_iter().filter(|member| *member != leader).collect();
        let Some(follower) = followers.get(self.draw.below(followers.len())).copied() else { return Ok(()) };
        self.session.tell(&format!("stopping {} for {} ms", self.processes.name(follower), span.as_millis()));
        self.strike(follower, Blow::Pause)?;
        self.timeline.enter(Phase::Stop);
        std::thread::sleep(span);
        let ahead = self.look(leader).and_then(|vitals| vitals.height);
        self.strike(follower, Blow::Resume)?;
        self.timeline.enter(Phase::Resume);
        let resumed = Instant::now();
        self.until(follower, "catch up", |vitals| vitals.ready && vitals.height >= ahead)?;
        self.timeline.enter(Phase::Steady);
        self.events.stops += 1;
        self.events.to_catch_up.push(resumed.elapsed());
        Ok(())
    }

    pub(super) fn strike(&self, member: usize, blow: Blow) -> Result<(), SynError> {
        let name = self.processes.name(member);
        let struck = self.processes.running(member).map(|running| running.strike(blow)).transpose()?;
        if struck == Some(true) {
            return Ok(());
        }
        Err(SynError::of(code::REFUSED, &[("address", &format!("node {name}"))])
            .because("it ended by itself"))
    }

    pub(super) fn restart_all(&mut self) -> Result<(), SynError> {
        self.session.tell("killing all at once");
        let all = self.processes.alive();
        self.timeline.enter(Phase::RestartAll);
        for member in &all {
            if let Some(running) = self.processes.running(*member) {
                running.strike(Blow::Kill)?;
            }
        }
        all.iter().for_each(|member| self.processes.kill(*member));
        std::thread::sleep(ALL_AWAY);
        self.restart(&all)?;
        self.timeline.enter(Phase::Steady);
        self.events.restarts_all += 1;
        Ok(())
    }

    /// Starts these members and waits until each is ready and has voted.
    pub(super) fn restart(&mut self, members: &[usize]) -> Result<(), SynError> {
        let mut begun = Vec::new();
        for member in members {
            begun.push((*member, Instant::now()));
            self.processes.launch(*member)?;
        }
        for (member, begun) in &begun {
            self.until(*member, "ready", |vitals| vitals.ready)?;
            self.events.to_ready.push(begun.elapsed());
        }
        for (member, begun) in begun {
            self.until(member, "vote", |vitals| vitals.votes > 0)?;
            self.events.to_vote.push(begun.elapsed());
        }
        Ok(())
    }

    /// Waits until a member says so.
    pub(super) fn until(
        &self,
        member: usize,
        stage: &str,
        done: impl Fn(&Vitals) -> bool,
    ) -> Result<(), SynError> {
        let deadline = Instant::now() + BACK;
        loop {
            let seen = self.look(member);
            if seen.as_ref().is_some_and(&done) {
                return Ok(());
            }
            let alive = self.processes.running(member).is_some_and(crate::deployment::Running::is_alive);
            if !alive || Instant::now() > deadline {
                let address = format!("node {}", self.processes.name(member));
                let error = SynError::of(code::NO_ANSWER, &[("address", &address), ("stage", stage)]);
                let why = if alive { format!("it says {seen:?}") } else { "it ended by itself".to_owned() };
                return Err(error.because(why));
            }
            std::thread::sleep(LOOK);
        }
    }
}

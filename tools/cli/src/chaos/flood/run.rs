//! Runs the turns.

use super::super::attacked::Attacked;
use super::honest::{BIG_KEY, Honest, Measured};
use super::memory::{Memory, weight};
use super::report::{Findings, Turn, report};
use crate::exit::{Done, bug};
use crate::session::Session;
use serde_json::{Value, json};
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use synod_chaos::flood::{Byzantine, Stalled, Strangers, descriptors};
use synod_config::{Exit, Service, SynError, code};

/// Members; the key of the last one is the attacker's, and it never runs.
const NODES: u16 = 4;
/// The attacker's member.
const ABSENT: usize = 3;
/// How long the load runs before anything is measured.
const WARM: Duration = Duration::from_secs(2);
/// How long members may take to settle after a turn, before the next one is measured.
const AFTER: Duration = Duration::from_secs(1);
/// Turns.
const TURNS: u32 = 4;
/// Descriptors this process needs besides those of strangers, and a node as well.
const SPARE: u64 = 2_048;
/// Redis clients that stall, at every member.
const STALLED: usize = 16;

/// A run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// All turns together.
    pub(crate) seconds: u32,
    /// Strangers at once.
    pub(crate) connections: u32,
    /// What frames are drawn from.
    pub(crate) seed: u64,
}

impl Plan {
    fn turn(&self) -> Duration {
        Duration::from_secs(u64::from(self.seconds)) / TURNS
    }
}

/// Runs `plan` and prints its result.
///
/// # Errors
/// The error of the cluster; SYN-7001 with the goals that were missed.
pub(crate) fn run(session: &Session, plan: Plan) -> Done {
    let wanted = u64::from(plan.connections) + SPARE;
    let limit = descriptors(wanted);
    if limit < wanted {
        session.watched(&format!("this process may open {limit} files, so there are fewer strangers"));
    }
    let strangers = usize::try_from(limit.saturating_sub(SPARE)).unwrap_or(usize::MAX);
    let strangers = strangers.min(usize::try_from(plan.connections).unwrap_or(usize::MAX));
    session.watched("starting three of four members");
    let mut attacked = Attacked::start("flood", NODES, 1)?;
    let found = flood(session, &attacked, plan, strangers)?;
    let shown = report(plan, &found);
    session.score("chaos-flood", &shown);
    session.output.print(&shown)?;
    let wrong = found.wrong();
    if wrong.is_empty() {
        return Ok(Exit::Success);
    }
    attacked.processes.keep();
    let kept = format!("data and logs are kept in {}", attacked.processes.directory().display());
    let token = format!("synod chaos flood --seconds {} --seed {}", plan.seconds, plan.seed);
    let error = SynError::of(code::PROPERTY_VIOLATED, &[("property", "N3, N5, N6, N16"), ("token", &token)]);
    Err(wrong.into_iter().chain([kept]).fold(error, SynError::because))
}

/// Where a member can be reached.
#[derive(Clone, Copy)]
struct Doors {
    peers: SocketAddr,
    guests: SocketAddr,
    resp: SocketAddr,
}

struct Stage<'a> {
    session: &'a Session,
    honest: Honest,
    memory: Memory,
    span: Duration,
}

impl Stage<'_> {
    /// One turn with what `flood` does; `said` tells what it did.
    fn turn<F>(
        &mut self,
        name: &'static str,
        flood: impl FnOnce() -> io::Result<F>,
        said: impl Fn(&F) -> Value,
    ) -> Result<Turn, SynError> {
        let before = self.memory.begin();
        self.honest.begin();
        let begun = Instant::now();
        let running = flood().map_err(|why| bug(name, &why))?;
        std::thread::sleep(self.span.saturating_sub(begun.elapsed()));
        let measured: Measured = self.honest.take();
        let (growth, detail) = (self.memory.growth(&before), said(&running));
        drop(running);
        self.session.watched(&format!(
            "{name}: {} writes/s, p99 {} ms, memory +{} MiB, {detail}",
            measured.rate(),
            measured.p99.as_millis(),
            growth >> 20
        ));
        std::thread::sleep(AFTER);
        Ok(Turn { name, measured, growth, detail })
    }
}

fn flood(session: &Session, attacked: &Attacked, plan: Plan, strangers: usize) -> Result<Findings, SynError> {
    let mut doors = Vec::new();
    for member in attacked.processes.alive() {
        doors.push(Doors {
            peers: attacked.at(Service::Peer, member)?,
            guests: attacked.at(Service::Client, member)?,
            resp: attacked.at(Service::Resp, member)?,
        });
    }
    let key = attacked.secret(ABSENT)?;
    let begun = Instant::now();
    let logs = attacked.processes.directory().join("logs");
    let weight_before = weight(&logs);
    let pids = attacked.processes.pids().into_iter().map(|(_, pid)| pid).collect();
    let (honest, memory) = (Honest::start(&attacked.processes.genesis)?, Memory::watch(pids));
    std::thread::sleep(WARM);
    let mut stage = Stage { session, honest, memory, span: plan.turn() };
    let mut turns = vec![stage.turn("nothing", || Ok(()), |()| json!({}))?];
    let listeners: Vec<SocketAddr> = doors.iter().flat_map(|one| [one.peers, one.guests]).collect();
    turns.push(stage.turn(
        "strangers",
        || Strangers::gather(&listeners, strangers),
        |crowd| {
            let counts = crowd.counts();
            json!({
                "most": counts.most, "opened": counts.opened,
                "ended": counts.ended, "not_in_time": counts.refused,
            })
        },
    )?);
    let pairs =
        |of: fn(&Doors) -> SocketAddr| -> Vec<_> { doors.iter().map(|one| (one.peers, of(one))).collect() };
    turns.push(stage.turn(
        "byzantine",
        || Byzantine::start(&pairs(|one| one.guests), &key, plan.seed),
        |flood| {
            let sent = flood.sent();
            json!({
                "frames": sent.frames, "bytes": sent.bytes,
                "links": sent.links, "oversized": sent.oversized,
            })
        },
    )?);
    turns.push(stage.turn(
        "stalled",
        || Stalled::start(&pairs(|one| one.resp), STALLED, BIG_KEY, &key),
        |readers| json!({ "readers": STALLED * doors.len(), "asked": readers.asked() }),
    )?);
    let Stage { honest, .. } = stage;
    honest.end()?;
    Ok(Findings {
        turns,
        strangers,
        log_bytes: weight(&logs).saturating_sub(weight_before),
        took: begun.elapsed(),
        fallen: attacked.fallen(),
    })
}

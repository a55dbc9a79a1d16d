//! Placement `isolated`: a process for each replica and memory node, or for the server; the client is this process. They share memory that
//! they hand to one another over Unix sockets in a folder of the run.
//!
//! *Cores.* On two the client and the leader share one, the followers the other; where there are more than replicas, each has its own.
//! Everybody yields when there is nothing to do.
//!
//! *Life.* A part says what it counted whenever a line of its input asks, and ends when that ends, so none outlives this process.

use crate::exit::{Done, bug};
use crate::session::usage;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use synod_config::{Exit, SynError};
use synod_quorum::NodeId;
use synod_shm::{Door, Doorbell, Neighbour, Neighbourhood, Porter, Rest, Running, Station, poller};

use super::caller::Taken;
use super::plan::{App, Part, System, UbftBench};
use super::rig::{
    Folder, MEMORY, Measured, PATIENCE, REPLICAS, caller, cores, memory_door, regions, seat, server_of,
    unanswered,
};
use super::run::refused;
use super::tally::{Tally, Used};

/// How long a part may take to have its door.
const READY: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(5);

/// A process of the run.
struct Process {
    name: String,
    child: Child,
    line: Arc<Line>,
}

impl Drop for Process {
    fn drop(&mut self) {
        self.line.close();
        // One that has ended by itself is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Asks a process what it counted: a line for each question, and one for each answer.
struct Line(Mutex<Option<(ChildStdin, BufReader<ChildStdout>)>>);

impl Line {
    /// What the process says; null where it says nothing.
    fn ask(&self) -> Value {
        let mut line = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((questions, answers)) = &mut *line else { return Value::Null };
        let mut said = String::new();
        let asked = questions.write_all(b"\n").and_then(|()| answers.read_line(&mut said));
        asked.ok().and_then(|_| serde_json::from_str(&said).ok()).unwrap_or(Value::Null)
    }

    /// The process ends when its input does.
    fn close(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl Process {
    fn start(plan: &UbftBench, app: App, name: String, folder: &Path) -> Result<Self, SynError> {
        let program = std::env::current_exe().map_err(|error| bug("program", &error))?;
        let mut command = Command::new(program);
        command.args(options(plan, app)).args(["--part", &name]).arg("--folder").arg(folder);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| bug("part", &error))?;
        let ends = child.stdin.take().zip(child.stdout.take().map(BufReader::new));
        let line = Arc::new(Line(Mutex::new(ends)));
        Ok(Self { name, child, line })
    }

    fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Asks it to end, and waits until it has.
    fn end(mut self) {
        self.line.close();
        // One that cannot be waited for is gone.
        let _ = self.child.wait();
    }
}

/// The options that make a process of `app` in a run of `plan`: everything that the parts must have alike.
fn options(plan: &UbftBench, app: App) -> Vec<String> {
    let path = if plan.fast_path { "fast" } else { "slow" };
    let words = [
        "bench",
        "ubft",
        "--placement",
        "isolated",
        "--system",
        "synod",
        "--app",
        app.word(),
        "--path",
        path,
        "--merge",
        plan.merge(),
    ];
    let mut options: Vec<String> = words.map(str::to_owned).to_vec();
    let numbers =
        [("--tail", plan.tail), ("--window", plan.window), ("--size", plan.size), ("--batch", plan.batch)];
    let load = plan.rate.map_or(("--closed", plan.closed), |rate| ("--rate", rate));
    for (option, value) in numbers.into_iter().chain([load]) {
        options.extend([option.to_owned(), value.to_string()]);
    }
    options
}

/// Runs one system with one application as processes.
pub(super) fn measure(plan: &UbftBench, system: System, app: App) -> Result<Measured, SynError> {
    let folder = Folder::make()?;
    let (memory, served) = match system {
        System::Synod => (MEMORY, (0..REPLICAS).map(|at| format!("n{at}")).collect()),
        System::Unreplicated => (0, vec!["s0".to_owned()]),
    };
    let start = |name: String| Process::start(plan, app, name, &folder.0);
    let mut nodes = (0..memory).map(|at| start(format!("m{at}"))).collect::<Result<Vec<_>, _>>()?;
    let mut parts = served.iter().cloned().map(start).collect::<Result<Vec<_>, _>>()?;

    let bell = Doorbell::new().map_err(|error| refused(&error))?;
    let lines: Vec<Arc<Line>> = parts.iter().map(|part| part.line.clone()).collect();
    let own = Arc::new(Tally::default());
    let counted = own.clone();
    let probe = Box::new(move || Used::of(counted.counts(), lines.iter().map(|line| line.ask())));
    let (station, taken) = caller(plan, (system, app), (own, probe), bell.ropes())?;
    let neighbours = (0..).zip(&served).map(|(at, name)| neighbour(at, Some(folder.0.join(name))));
    let known = Neighbourhood { incarnation: 1, door: None, neighbours: neighbours.collect() };
    let porter = Porter::start(&station, bell.ropes(), known).map_err(|error| refused(&error))?;
    let calling = Running::start(poller(vec![station], Rest::Yield, bell), (cores()? > 1).then_some(0));
    let calling = calling.map_err(|error| refused(&error))?;
    let taken = await_taken(&taken, &mut nodes, &mut parts);
    drop(porter);
    calling.stop().map_err(|error| refused(&error))?;
    let taken = taken?;
    let peaks = parts.iter().filter_map(|part| synod_load::usage(part.child.id()));
    let resident = peaks.map(|used| used.rss_peak_bytes).max();
    let disaggregated = nodes.iter().filter_map(|node| node.line.ask()["bytes"].as_u64()).max();
    parts.into_iter().chain(nodes).for_each(Process::end);
    Ok(Measured { taken, resident, disaggregated })
}

/// What the client took, unless a part ends before.
fn await_taken(
    taken: &Receiver<Taken>,
    nodes: &mut [Process],
    parts: &mut [Process],
) -> Result<Taken, SynError> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match taken.recv_timeout(Duration::from_millis(500)) {
            Ok(taken) => return Ok(taken),
            Err(RecvTimeoutError::Disconnected) => return Err(unanswered()),
            Err(RecvTimeoutError::Timeout) => {}
        }
        if let Some(part) =
            nodes.iter_mut().chain(&mut *parts).find_map(|part| part.has_ended().then_some(part))
        {
            return Err(bug(&part.name, &"the process ended"));
        }
        if Instant::now() >= deadline {
            return Err(unanswered());
        }
    }
}

fn neighbour(node: u32, door: Option<PathBuf>) -> Neighbour {
    Neighbour { node: NodeId(node), uid: synod_shm::hand::own_user(), door }
}

/// This process is a part of a run: it serves until its input ends.
///
/// # Errors
/// SYN-1001 for a name that is no part's; what the system refused.
pub(super) fn part(plan: &UbftBench, part: &Part) -> Done {
    let app = plan.apps.first().copied().unwrap_or(App::Flip);
    let unknown = || usage(&format!("{} is no part of a run", part.name));
    let (kind, at) = part.name.split_at_checked(1).ok_or_else(unknown)?;
    let at: u32 = at.parse().map_err(|_| unknown())?;
    let tally = Arc::new(Tally::default());
    match kind {
        "m" if at < MEMORY => {
            let regions = regions(&part.folder, at, plan.tail)?;
            answer(&|| json!({ "bytes": regions.status().bytes }));
        }
        "n" if at < REPLICAS => {
            (0..MEMORY).try_for_each(|at| await_door(&memory_door(&part.folder, at)))?;
            let bell = Doorbell::new().map_err(|error| refused(&error))?;
            let station = seat(plan, (app, at), bell.ropes(), tally.clone(), &part.folder)?;
            // The lower one calls.
            let door = |other: u32| (other > at).then(|| part.folder.join(format!("n{other}")));
            let others = (0..REPLICAS).filter(|other| *other != at);
            let neighbours = others.map(|other| neighbour(other, door(other))).collect();
            serve(part, (station, bell), (neighbours, &tally), core(at)?)?;
        }
        "s" if at == 0 => {
            let bell = Doorbell::new().map_err(|error| refused(&error))?;
            let station = server_of(plan, app, bell.ropes(), tally.clone())?;
            serve(part, (station, bell), (Vec::new(), &tally), (cores()? > 1).then_some(1))?;
        }
        _ => return Err(unknown()),
    }
    Ok(Exit::Success)
}

/// Where a replica stands: with the client where cores are few and it leads, with the other followers else.
fn core(at: u32) -> Result<Option<usize>, SynError> {
    let all = cores()?;
    let core = if all > REPLICAS { at + 1 } else { at.min(1) };
    Ok((all > 1).then_some(usize::try_from(core).unwrap_or(0)))
}

/// Serves behind a door until the input of this process ends.
fn serve(
    part: &Part,
    (station, bell): (Station, Doorbell),
    (neighbours, tally): (Vec<Neighbour>, &Tally),
    core: Option<usize>,
) -> Result<(), SynError> {
    let door = Door::bind(&part.folder.join(&part.name)).map_err(|error| refused(&error))?;
    let known = Neighbourhood { incarnation: 1, door: Some(door), neighbours };
    let porter = Porter::start(&station, bell.ropes(), known).map_err(|error| refused(&error))?;
    let running = Running::start(poller(vec![station], Rest::Yield, bell), core);
    let running = running.map_err(|error| refused(&error))?;
    answer(&|| Used::said(tally.counts()));
    drop(porter);
    running.stop().map_err(|error| refused(&error))
}

/// Says what is to be told, once for each line of this process's input, until that ends.
fn answer(said: &dyn Fn() -> Value) {
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        // Who asks no longer, or cannot be told, ends the run.
        if line.is_err() || writeln!(out, "{}", said()).and_then(|()| out.flush()).is_err() {
            return;
        }
    }
}

fn await_door(door: &Path) -> Result<(), SynError> {
    let deadline = Instant::now() + READY;
    while !door.exists() {
        if Instant::now() >= deadline {
            return Err(bug("memory node", &"it has no door"));
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}

//! A cluster of separate processes for one run, in a directory that goes with it.

use super::wired::Wired;
use crate::cluster::{self, ChopPlan, ChopSeats, Membership, Purpose, Seat};
use crate::deployment::{Claim, Running, await_ready, start, stop};
use crate::exit::bug;
use crate::layout::{GENESIS_FILE, NODE_FILE};
use crate::signals::Signals;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use synod_chaos::links::Links;
use synod_config::{Address, Effective, Genesis, Parameters, Service, SynError};

/// What writes the files of a cluster's nodes into a folder.
type Files<'a> = &'a dyn Fn(&[Seat], &Path) -> Result<Genesis, SynError>;

/// How long the processes may take to become ready.
const READY: Duration = Duration::from_secs(120);

/// What a signal ends: processes that run, and their directories. One for all clusters of this process.
#[derive(Default)]
struct Mortal {
    /// Held while anything is being made or started: a signal waits for that.
    alive: Mutex<Alive>,
    /// A signal came: this process ends in a moment.
    ending: AtomicBool,
}

#[derive(Default)]
struct Alive {
    directories: Vec<PathBuf>,
    running: Vec<Running>,
    contexts: Vec<String>,
}

static MORTAL: OnceLock<Arc<Mortal>> = OnceLock::new();

impl Mortal {
    /// The one of this process; the first call makes it hear signals.
    fn get() -> Result<Arc<Self>, SynError> {
        if let Some(mortal) = MORTAL.get() {
            return Ok(mortal.clone());
        }
        let mortal = MORTAL.get_or_init(Arc::default).clone();
        mortal.listen()?;
        Ok(mortal)
    }

    fn alive(&self) -> MutexGuard<'_, Alive> {
        self.alive.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hears signals on a thread of its own: whoever waits for a cluster does not look at them.
    fn listen(self: &Arc<Self>) -> Result<(), SynError> {
        let mortal = self.clone();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| bug("signals", &error))?;
        let mut signals = {
            let _guard = runtime.enter();
            Signals::listen()?
        };
        let work = move || {
            let exit = runtime.block_on(signals.next());
            // The lock is kept: nothing is started any more.
            let alive = mortal.alive();
            mortal.ending.store(true, Ordering::Relaxed);
            // Nobody is left to hear what could not be ended or removed.
            let _ = stop(&alive.running, Duration::ZERO);
            for directory in &alive.directories {
                let _ = std::fs::remove_dir_all(directory);
            }
            for context in &alive.contexts {
                let _ = crate::context::remove(context);
            }
            std::process::exit(i32::from(exit.number()));
        };
        let thread = std::thread::Builder::new().name("signals".to_owned()).spawn(work);
        thread.map(drop).map_err(|error| bug("signals", &error))
    }
}

/// What a cluster is started with.
pub(crate) struct Start<'a> {
    /// Names the cluster and its directory.
    pub(crate) name: &'a str,
    /// Members.
    pub(crate) nodes: u16,
    /// Members, the last ones, that are never started; under Chop Chop brokers are the last ones, under uBFT memory nodes.
    pub(crate) dead: u16,
    /// Sets protocol parameters.
    pub(crate) parameters: &'a dyn Fn(&mut Parameters),
    /// Keys of node.toml.
    pub(crate) flags: &'a [(String, String)],
}

/// What a cluster of Chop Chop is started with, beside its servers.
pub(crate) struct ChopStart<'a> {
    /// Brokers; they come behind all others in every list.
    pub(crate) brokers: u16,
    /// Memory nodes, behind the members: with some uBFT orders.
    pub(crate) memory: u16,
    /// Application, parameters and clients.
    pub(crate) plan: ChopPlan<'a>,
    /// Keys of the brokers' node.toml.
    pub(crate) flags: &'a [(String, String)],
}

/// A proxy in front of the members.
struct Proxy {
    child: Child,
    running: Running,
    /// Open, so that what it says goes somewhere.
    _says: BufReader<ChildStderr>,
}

/// The running members. Dropping it kills them and removes the directory; so does a signal that asks this process to
/// end.
pub(crate) struct Processes {
    program: PathBuf,
    own: Running,
    directory: PathBuf,
    pub(crate) genesis: Genesis,
    names: Vec<String>,
    members: Vec<Option<(Child, Running)>>,
    kept: bool,
    mortal: Arc<Mortal>,
    proxy: Option<Proxy>,
    wired: Option<Wired>,
    ports: Claim,
}

impl Processes {
    /// Makes and starts a cluster.
    ///
    /// # Errors
    /// The error of the file, port or node that refused.
    pub(crate) fn start(with: &Start<'_>) -> Result<Self, SynError> {
        Self::found(with, false, &Self::ordered(with))
    }

    /// The same, but the members dial one another through proxies that can be hurt.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub(crate) fn start_wired(with: &Start<'_>) -> Result<Self, SynError> {
        Self::found(with, true, &Self::ordered(with))
    }

    /// Makes and starts a payment system; its members dial one another through proxies if it is to be wired.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub(crate) fn start_pay(with: &Start<'_>, is_wired: bool) -> Result<Self, SynError> {
        let found = |seats: &[Seat], directory: &Path| {
            cluster::found_pay((with.name, Purpose::Drill), seats, &Membership::default(), directory)
        };
        Self::found(with, is_wired, &found)
    }

    /// Makes the files of a cluster that orders.
    fn ordered(with: &Start<'_>) -> impl Fn(&[Seat], &Path) -> Result<Genesis, SynError> {
        |seats, directory| cluster::found_with(with.name, Purpose::Drill, seats, directory, with.parameters)
    }

    /// Makes and starts a cluster of Chop Chop: servers and brokers.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub(crate) fn start_chop(with: &Start<'_>, chop: ChopStart<'_>) -> Result<Self, SynError> {
        let directory = std::env::temp_dir().join(format!("synod-{}-{}", with.name, std::process::id()));
        let mortal = Mortal::get()?;
        let mut making = mortal.alive();
        making.directories.push(directory.clone());
        let ports = Claim::free(with.nodes.saturating_add(chop.brokers).saturating_add(chop.memory))?;
        let blocks: Vec<Address> =
            ports.seats.iter().filter_map(|seat| seat.address(Service::Peer).cloned()).collect();
        let ChopSeats { servers: seats, brokers, memory } =
            cluster::chop_seats(&blocks, (with.nodes, chop.brokers))?;
        let plan = ChopPlan { brokers: &brokers, memory: &memory, ..chop.plan };
        let of = (with.name, Purpose::Drill);
        let genesis = cluster::found_chop(of, &seats, &plan, &directory, with.parameters)?;
        let program = std::env::current_exe().map_err(|e| cluster::unwritable(Path::new("synod"), &e))?;
        for (seats, flags) in [(&seats, with.flags), (&brokers, chop.flags)] {
            for seat in seats {
                set(&directory.join(&seat.name).join(NODE_FILE), flags)?;
            }
        }
        drop(making);
        let names = seats.iter().chain(&memory).chain(&brokers).map(|seat| seat.name.clone()).collect();
        Self::run((program, directory, genesis), names, (mortal, None, ports), with)
    }

    /// Makes and starts a cluster of uBFT with an application: replicas, and so many memory nodes, which come behind them in every list.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub(crate) fn start_ubft(with: &Start<'_>, (app, memory): (&str, u16)) -> Result<Self, SynError> {
        let directory = std::env::temp_dir().join(format!("synod-{}-{}", with.name, std::process::id()));
        let mortal = Mortal::get()?;
        let mut making = mortal.alive();
        making.directories.push(directory.clone());
        let ports = Claim::free(with.nodes.saturating_add(memory))?;
        let blocks: Vec<Address> =
            ports.seats.iter().filter_map(|seat| seat.address(Service::Peer).cloned()).collect();
        let (seats, memory) = cluster::ubft_seats(&blocks, with.nodes)?;
        let of = (with.name, app, Purpose::Drill);
        let genesis = cluster::found_ubft(of, (&seats, &memory), &directory)?;
        let program = std::env::current_exe().map_err(|e| cluster::unwritable(Path::new("synod"), &e))?;
        for seat in seats.iter().chain(&memory) {
            set(&directory.join(&seat.name).join(NODE_FILE), with.flags)?;
        }
        drop(making);
        let names = seats.iter().chain(&memory).map(|seat| seat.name.clone()).collect();
        Self::run((program, directory, genesis), names, (mortal, None, ports), with)
    }

    /// Starts all but the dead ones, and waits until they are ready.
    fn run(
        (program, directory, genesis): (PathBuf, PathBuf, Genesis),
        names: Vec<String>,
        (mortal, wired, ports): (Arc<Mortal>, Option<Wired>, Claim),
        with: &Start<'_>,
    ) -> Result<Self, SynError> {
        let mut cluster = Self {
            program,
            own: Running::own(with.name)?,
            directory,
            genesis,
            members: names.iter().map(|_| None).collect(),
            names,
            kept: false,
            mortal,
            proxy: None,
            wired,
            ports,
        };
        for index in 0..cluster.names.len().saturating_sub(usize::from(with.dead)) {
            cluster.launch(index)?;
        }
        cluster.await_all()?;
        Ok(cluster)
    }

    fn found(with: &Start<'_>, is_wired: bool, files: Files<'_>) -> Result<Self, SynError> {
        let directory = std::env::temp_dir().join(format!("synod-{}-{}", with.name, std::process::id()));
        let mortal = Mortal::get()?;
        let mut making = mortal.alive();
        making.directories.push(directory.clone());
        let ports = Claim::free(with.nodes)?;
        let wired = if is_wired { Some(Wired::start(&ports.seats)?) } else { None };
        let seats = wired.as_ref().map_or_else(|| ports.seats.clone(), |wired| wired.seats(&ports.seats));
        let genesis = files(&seats, &directory)?;
        let program = std::env::current_exe().map_err(|e| cluster::unwritable(Path::new("synod"), &e))?;
        let names: Vec<String> = ports.seats.iter().map(|seat| seat.name.clone()).collect();
        for seat in &ports.seats {
            let own = seat.address(Service::Peer).filter(|_| is_wired);
            let own = own.map(|peer| ("listen.peer".to_owned(), peer.to_string()));
            let flags: Vec<(String, String)> = with.flags.iter().cloned().chain(own).collect();
            set(&directory.join(&seat.name).join(NODE_FILE), &flags)?;
        }
        drop(making);
        Self::run((program, directory, genesis), names, (mortal, wired, ports), with)
    }

    /// Starts a proxy with these options; where it listens.
    ///
    /// # Errors
    /// What the system or the proxy refuses.
    pub(crate) fn start_proxy(&mut self, options: &[&str]) -> Result<SocketAddr, SynError> {
        let mut alive = self.mortal.alive();
        let mut command = Command::new(&self.program);
        command.arg("proxy").args(["--resp", "127.0.0.1:0"]).args(options);
        command.arg("--genesis").arg(self.directory.join(GENESIS_FILE));
        command.args(["--supervisor", &self.own.to_word()]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn().map_err(|e| cluster::unwritable(&self.program, &e))?;
        let ended = || bug("proxy", &"it ended");
        let running = Running::of("proxy", child.id()).ok_or_else(ended)?;
        alive.running.push(running.clone());
        drop(alive);
        let mut says = BufReader::new(child.stderr.take().ok_or_else(ended)?);
        let mut line = String::new();
        says.read_line(&mut line).map_err(|error| bug("proxy", &error))?;
        self.proxy = Some(Proxy { child, running, _says: says });
        let address = line.strip_prefix("resp ").and_then(|address| address.trim().parse().ok());
        address.ok_or_else(|| bug("proxy", &line.trim()))
    }

    /// The proxies between the members, if there are any.
    pub(crate) fn links(&self) -> Option<&Links> {
        self.wired.as_ref().map(|wired| &wired.links)
    }

    /// The process of the proxy, if there is one.
    pub(crate) fn proxy(&self) -> Option<u32> {
        self.proxy.as_ref().map(|proxy| proxy.running.pid)
    }

    /// Where the members offer a service, in the order of the genesis.
    pub(crate) fn addresses(&self, service: Service) -> Vec<Address> {
        self.ports.seats.iter().filter_map(|seat| seat.address(service).cloned()).collect()
    }

    /// Starts one member.
    ///
    /// # Errors
    /// What the system refuses.
    pub(crate) fn launch(&mut self, index: usize) -> Result<(), SynError> {
        let mut alive = self.mortal.alive();
        let started = start(&self.program, &self.directory, &self.names[index], Some(&self.own))?;
        alive.running.retain(Running::is_alive);
        alive.running.push(started.1.clone());
        drop(alive);
        if let Some(wired) = &self.wired {
            wired.runs(index, started.1.pid);
        }
        self.members[index] = Some(started);
        Ok(())
    }

    /// Waits until every member that runs says it is ready.
    ///
    /// # Errors
    /// The error a member left, or that it is not ready in time.
    pub(crate) fn await_all(&self) -> Result<(), SynError> {
        let running: Vec<Running> =
            self.members.iter().flatten().map(|(_, running)| running.clone()).collect();
        await_ready(&self.directory, &running, READY)
    }

    /// Kills one member with SIGKILL.
    pub(crate) fn kill(&mut self, index: usize) {
        if let Some((mut child, _)) = self.members[index].take() {
            // A process that has gone already is as dead as one that was killed.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// The process of a member, if it runs.
    pub(crate) fn running(&self, index: usize) -> Option<&Running> {
        self.members.get(index)?.as_ref().map(|(_, running)| running)
    }

    /// Name of a member.
    pub(crate) fn name(&self, index: usize) -> &str {
        self.names.get(index).map_or("?", String::as_str)
    }

    /// Has a signal that ends this process remove this context too.
    pub(crate) fn takes_along(&self, context: &str) {
        self.mortal.alive().contexts.push(context.to_owned());
    }

    /// Leaves the directory behind when the processes end.
    pub(crate) fn keep(&mut self) {
        self.kept = true;
    }

    /// Process numbers of the members that run, by member.
    pub(crate) fn pids(&self) -> Vec<(usize, u32)> {
        let members = self.members.iter().enumerate();
        members.filter_map(|(at, member)| Some((at, member.as_ref()?.0.id()))).collect()
    }

    /// Which members run.
    pub(crate) fn alive(&self) -> Vec<usize> {
        (0..self.members.len()).filter(|at| self.members[*at].is_some()).collect()
    }

    /// The directory of the deployment.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        while self.mortal.ending.load(Ordering::Relaxed) {
            // Whatever went wrong, went wrong because of the signal.
            std::thread::park();
        }
        let members = self.members.iter().flatten().map(|(_, running)| running);
        let running: Vec<Running> =
            members.chain(self.proxy.as_ref().map(|proxy| &proxy.running)).cloned().collect();
        // What is left after this is reported by nobody who could act on it.
        let _ = stop(&running, Duration::from_secs(3));
        let children = self.members.iter_mut().flatten().map(|(child, _)| child);
        for child in children.chain(self.proxy.as_mut().map(|proxy| &mut proxy.child)) {
            let _ = child.wait();
        }
        if !self.kept {
            let _ = std::fs::remove_dir_all(&self.directory);
        }
        let mut alive = self.mortal.alive();
        alive.running.retain(|known| !running.contains(known));
        alive.directories.retain(|known| *known != self.directory);
    }
}

/// Rewrites a node.toml with other values of some keys.
fn set(file: &Path, flags: &[(String, String)]) -> Result<(), SynError> {
    let text = std::fs::read_to_string(file).map_err(|e| cluster::unwritable(file, &e))?;
    let shown = file.display().to_string();
    let effective = Effective::load(Some((shown.as_str(), text.as_str())), [], flags.iter().cloned())?;
    std::fs::write(file, effective.to_toml()).map_err(|e| cluster::unwritable(file, &e))
}

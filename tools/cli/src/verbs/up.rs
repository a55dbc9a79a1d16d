//! `synod up`: a cluster of separate processes on this machine.

use crate::cluster::{self, ChopPlan, Purpose, chop_seats, ubft_seats};
use crate::context::Gone;
use crate::deployment::{
    Claim, Ended, GRACE, READY, Record, Running, await_ready_until, describe_ports, log_file, node_names,
    refuse_taken, start, stop,
};
use crate::exit::{Done, bug};
use crate::layout::{GENESIS_FILE, PORTS_FILE};
use crate::output::{Report, progress};
use crate::session::{Session, absolute, home, usage};
use crate::signals::Signals;
use crate::verbs::init::{KindOptions, local_blocks, local_seats};
use clap::{Args, ValueEnum};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use synod_config::{
    Address, BASE_PORT, Context, Contexts, Exit, Genesis, Ports, Protocol, Service, SynError, code,
};

/// Pause between two looks at the nodes while they run.
const LOOK: Duration = Duration::from_millis(100);

/// Starts a cluster of separate processes on this machine, waits until it is ready and selects its context.
///
/// The cluster stays until Ctrl-C, `synod down` or the end of this process, and its directory until you remove it: the next `up` goes on
/// with the same data. Faults may be injected into it.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod up --ephemeral --base-port 0 --detach")]
pub(crate) struct Arguments {
    /// Number of nodes, of each shard where there are several; 4 if the directory is new, where ubft orders 3. 3f + 1 of them tolerate f faulty
    /// ones, where ubft orders 2f + 1.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=128))]
    nodes: Option<u16>,
    #[command(flatten)]
    kind: KindOptions,
    /// How the replicas of a cluster of ubft reach one another and the registers; network if nothing is said.
    #[arg(long, value_enum, value_name = "PLACEMENT")]
    placement: Option<Placement>,
    /// Name of the cluster and of its context.
    #[arg(long, default_value = "main")]
    name: String,
    /// The directory of the deployment; by default one per name in the user's data directory.
    #[arg(long, value_name = "DIR", conflicts_with = "ephemeral")]
    dir: Option<PathBuf>,
    /// First port of a new deployment; node i takes ten ports from here + 10 i on. 0 takes free ones.
    #[arg(long, value_name = "PORT")]
    base_port: Option<u16>,
    /// In a temporary directory that goes with the cluster.
    #[arg(long)]
    ephemeral: bool,
    /// Writes the ports to this file as well.
    #[arg(long, value_name = "FILE")]
    ports_file: Option<PathBuf>,
    /// Returns once the cluster is ready, which then outlives this process; `synod down` ends it.
    #[arg(long)]
    detach: bool,
}

/// Where the processes of a cluster of uBFT stand to one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Placement {
    /// Processes that are linked by TLS.
    Network,
    /// Processes of one host that share memory: refused, not built yet.
    Isolated,
    /// The same with a core each: refused, not built yet.
    Dedicated,
    /// One process: refused, `synod bench ubft` alone has it.
    Cooperative,
}

/// What the thread that starts a deployment and the one that hears signals tell each other.
#[derive(Default)]
struct Flags {
    /// A signal came: nothing more is started.
    stopped: AtomicBool,
    /// The record in the directory is this process's own: a refusal before that must not end somebody's nodes.
    ours: AtomicBool,
}

impl Flags {
    fn take_down(&self, directory: &Path) -> Result<(), SynError> {
        if self.ours.load(Ordering::Relaxed) { take_down(directory).map(drop) } else { Ok(()) }
    }
}

/// A deployment that has been started.
struct Up {
    directory: PathBuf,
    children: Vec<(Child, Running)>,
    context: String,
}

impl Arguments {
    pub(crate) fn run(self, session: &Session) -> Done {
        let directory = self.directory()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| bug("runtime", &error))?;
        let ephemeral = self.ephemeral;
        let done = runtime.block_on(self.supervise(session.clone(), directory.clone()));
        if ephemeral
            && !matches!(done, Ok(Exit::Success))
            && Record::read(&directory).is_ok_and(|up| up.is_none())
        {
            // It came to nothing, or it has ended: its directory goes with it.
            drop(std::fs::remove_dir_all(&directory));
        }
        done
    }

    /// Starts the deployment on a thread of its own, so that a signal is heard from the first moment on.
    async fn supervise(self, session: Session, directory: PathBuf) -> Done {
        let mut signals = Signals::listen()?;
        let flags = Arc::new(Flags::default());
        let (seen, detach, place) = (Arc::clone(&flags), self.detach, directory.clone());
        let mut starting = tokio::task::spawn_blocking(move || self.bring_up(&session, &place, &seen));
        let up = tokio::select! {
            started = &mut starting => started.map_err(|error| bug("start", &error))?,
            exit = signals.next() => {
                flags.stopped.store(true, Ordering::Relaxed);
                // It starts nothing more and waits for nothing. Only then is everything it started on record.
                drop(starting.await);
                flags.take_down(&directory)?;
                return Ok(exit);
            }
        };
        match up {
            Ok(_) if detach => Ok(Exit::Success),
            Ok(up) => stay(up, &mut signals).await,
            Err(error) => {
                flags.take_down(&directory)?;
                Err(error)
            }
        }
    }

    fn bring_up(&self, session: &Session, directory: &Path, flags: &Flags) -> Result<Up, SynError> {
        let begun = Instant::now();
        let (genesis, _claim) = self.prepare(directory)?;
        let ports = describe_ports(directory)?;
        ports.write(&directory.join(PORTS_FILE))?;
        refuse_taken(&addresses(&ports))?;
        flags.ours.store(true, Ordering::Relaxed);
        let (children, mut record) = self.start(session, directory, &flags.stopped)?;
        await_ready_until(directory, &record.nodes, session.timeout.unwrap_or(READY), &flags.stopped)?;
        if flags.stopped.load(Ordering::Relaxed) {
            return Ok(Up { directory: directory.to_owned(), children, context: String::new() });
        }
        record.context = select(directory, &genesis, &ports)?;
        record.write(directory)?;
        let up = Up { directory: directory.to_owned(), children, context: record.context };
        if let Some(file) = &self.ports_file {
            ports.write(file)?;
        }
        let ready = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        session.output.print(&described(&up, &genesis, &ports, ready))?;
        Ok(up)
    }

    fn directory(&self) -> Result<PathBuf, SynError> {
        match &self.dir {
            Some(directory) => absolute(directory),
            None if self.ephemeral => {
                Ok(std::env::temp_dir().join(format!("synod-up-{}-{}", self.name, std::process::id())))
            }
            None => {
                Ok(home("XDG_DATA_HOME", ".local/share", "the directory of deployments")?.join(&self.name))
            }
        }
    }

    /// The genesis of the deployment: of the one that is there, else of a new one. Ports that were drawn are claimed
    /// until the nodes listen.
    fn prepare(&self, directory: &Path) -> Result<(Genesis, Option<Claim>), SynError> {
        self.check_placement()?;
        let is_chop = self.kind.is_chop()?;
        let protocol = self.kind.protocol();
        if !directory.join(GENESIS_FILE).exists() {
            let count = self.kind.members(self.nodes.unwrap_or_else(|| self.kind.members_default()))?;
            let base = self.base_port.unwrap_or(BASE_PORT);
            if is_chop {
                return self.prepare_chop(directory, count, base);
            }
            if self.kind.is_ubft() {
                synod_host::ubft::installed(self.kind.app())?;
                return self.prepare_ubft(directory, count, base);
            }
            let claim = (base == 0).then(|| Claim::free(count)).transpose()?;
            let seats = claim.as_ref().map_or_else(|| local_seats(count, base), |c| Ok(c.seats.clone()))?;
            let genesis = if protocol == Protocol::Astro {
                cluster::found_pay((&self.name, Purpose::Drill), &seats, &self.kind.membership(), directory)?
            } else if self.kind.is_book() {
                cluster::found_book(&self.name, Purpose::Drill, &seats, directory)?
            } else {
                cluster::found(&self.name, Purpose::Drill, &seats, directory)?
            };
            return Ok((genesis, claim));
        }
        let genesis = Genesis::read(&directory.join(GENESIS_FILE))?;
        let there = genesis.groups().first().map_or(0, ExactSizeIterator::len);
        if self.kind.kind.is_some_and(|_| protocol != genesis.cluster().protocol)
            || self.kind.app.is_some()
            || self.kind.brokers.is_some()
            || self.kind.memory_nodes.is_some()
            || self.kind.ordering.is_some()
            || self.kind.reserve.is_some()
            || self.kind.shards.is_some()
            || self.kind.cut_every.is_some()
            || !self.kind.operator.is_empty()
        {
            let problem =
                format!("{} holds a cluster of kind {}", directory.display(), genesis.cluster().protocol);
            return Err(usage(&problem).because(
                "leave --kind, --app, --ordering, --brokers, --memory-nodes, --reserve, --shards, --cut-every and --operator out, or give another --dir",
            ));
        }
        if self.nodes.is_some_and(|wanted| usize::from(wanted) != there) {
            let of_each = if genesis.groups().len() > 1 { " in each shard" } else { "" };
            let problem = format!("{} holds a cluster of {there} nodes{of_each}", directory.display());
            return Err(usage(&problem).because("leave --nodes out, or give another --dir"));
        }
        if self.base_port.is_some() {
            let problem = format!("{} has its ports already", directory.display());
            return Err(usage(&problem).because("leave --base-port out, or give another --dir"));
        }
        if let Some(running) = alive(directory)? {
            let values =
                [("directory", &*directory.display().to_string()), ("pid", &*running.pid.to_string())];
            return Err(SynError::of(code::DATA_DIR_LOCKED, &values).because("the deployment is up"));
        }
        if genesis.ubft().is_some() {
            never_ran(directory)?;
        }
        Ok((genesis, None))
    }

    /// Refuses a placement that is not built, and one of a cluster that has none.
    fn check_placement(&self) -> Result<(), SynError> {
        match self.placement {
            None => Ok(()),
            Some(_) if !self.kind.is_ubft() => Err(usage("--placement needs --kind ubft")),
            Some(Placement::Network) => Ok(()),
            Some(Placement::Isolated | Placement::Dedicated | Placement::Cooperative) => {
                let error = SynError::of(code::UNSUPPORTED, &[("verb", "a cluster that shares memory")]);
                Err(error.because("replicas of a cluster are linked by TLS so far: --placement network"))
            }
        }
    }

    fn prepare_chop(
        &self,
        directory: &Path,
        count: u16,
        base: u16,
    ) -> Result<(Genesis, Option<Claim>), SynError> {
        let (brokers, memory) = (self.kind.brokers(), self.kind.memory_nodes());
        let (claim, blocks) = blocks(count.saturating_add(brokers).saturating_add(memory), base)?;
        let seats = chop_seats(&blocks, (count, brokers))?;
        let plan = ChopPlan {
            app: self.kind.app(),
            brokers: &seats.brokers,
            memory: &seats.memory,
            ..ChopPlan::default()
        };
        let of = (&*self.name, Purpose::Drill);
        let genesis = cluster::found_chop(of, &seats.servers, &plan, directory, &|_| {})?;
        Ok((genesis, claim))
    }

    fn prepare_ubft(
        &self,
        directory: &Path,
        count: u16,
        base: u16,
    ) -> Result<(Genesis, Option<Claim>), SynError> {
        let (claim, blocks) = blocks(count.saturating_add(self.kind.memory_nodes()), base)?;
        let (seats, memory) = ubft_seats(&blocks, count)?;
        let genesis =
            cluster::found_ubft((&self.name, self.kind.app(), Purpose::Drill), (&seats, &memory), directory)?;
        Ok((genesis, claim))
    }

    /// Starts the nodes one by one until one fails or `stopped` is said. Each is on record before the next.
    fn start(
        &self,
        session: &Session,
        directory: &Path,
        stopped: &AtomicBool,
    ) -> Result<(Vec<(Child, Running)>, Record), SynError> {
        let program =
            std::env::current_exe().map_err(|error| cluster::unwritable(Path::new("synod"), &error))?;
        let mut children = Vec::new();
        let supervisor = (!self.detach).then(|| Running::own("up")).transpose()?;
        let mut record = Record::new("", self.ephemeral, Vec::new()).under(supervisor.clone());
        for name in node_names(directory)? {
            if stopped.load(Ordering::Relaxed) {
                break;
            }
            session.tell(&format!("starting {name}"));
            let (child, running) = start(&program, directory, &name, supervisor.as_ref())?;
            record.nodes.push(running.clone());
            if let Err(error) = record.write(directory) {
                // Nobody else would know of it.
                stop(std::slice::from_ref(&running), GRACE)?;
                return Err(error);
            }
            children.push((child, running));
        }
        Ok((children, record))
    }
}

/// The first ports of `count` blocks: from `base` on, or with 0 free ones, which are claimed.
fn blocks(count: u16, base: u16) -> Result<(Option<Claim>, Vec<Address>), SynError> {
    let claim = (base == 0).then(|| Claim::free(count)).transpose()?;
    let blocks = match &claim {
        Some(claim) => claim.seats.iter().filter_map(|seat| seat.address(Service::Peer).cloned()).collect(),
        None => local_blocks(count, base)?,
    };
    Ok((claim, blocks))
}

/// Refuses a cluster that uBFT orders and that ran before: its replicas keep what they decided in memory alone, and all of them are gone.
fn never_ran(directory: &Path) -> Result<(), SynError> {
    let ran = node_names(directory)?.iter().any(|name| log_file(directory, name).exists());
    if !ran {
        return Ok(());
    }
    let verb = "up of a cluster that ubft orders and that was stopped as a whole";
    let why = "its replicas hold what they decided in memory, and no more than f of them may be gone at once";
    Err(SynError::of(code::UNSUPPORTED, &[("verb", verb)]).because(why).because("give another --dir"))
}

/// A process of the deployment that runs.
fn alive(directory: &Path) -> Result<Option<Running>, SynError> {
    Ok(Record::read(directory)?.and_then(|record| record.nodes.into_iter().find(Running::is_alive)))
}

fn addresses(ports: &Ports) -> Vec<Address> {
    ports.nodes.iter().flat_map(|node| node.ports.values()).map(|port| Address::loopback(*port)).collect()
}

/// Ends the processes of a deployment and, if it is ephemeral, removes its context and its directory.
pub(crate) fn take_down(directory: &Path) -> Result<Vec<(String, &'static str)>, SynError> {
    let Some(record) = Record::read(directory)? else { return Ok(Vec::new()) };
    let ended = stop(&record.nodes, GRACE)?;
    Record::remove(directory)?;
    if record.ephemeral {
        forget(&record.context)?;
        std::fs::remove_dir_all(directory).map_err(|error| cluster::unwritable(directory, &error))?;
    }
    let names = record.nodes.into_iter().map(|node| node.name);
    Ok(names.zip(ended.into_iter().map(Ended::as_str)).collect())
}

/// Removes a context and goes back to the one before.
fn forget(name: &str) -> Result<(), SynError> {
    let configuration = Session::directory()?;
    let mut contexts = Contexts::read(&configuration)?;
    if contexts.get(name).is_none() {
        return Ok(());
    }
    let selected = contexts.current().is_some_and(|current| current.name == name);
    contexts.remove(name)?;
    if selected && contexts.previous().is_some() {
        contexts.select_previous()?;
    }
    contexts.write(&configuration)
}

/// Adds and selects the context of the deployment. A context of that name for another directory is left alone.
fn select(directory: &Path, genesis: &Genesis, ports: &Ports) -> Result<String, SynError> {
    let configuration = Session::directory()?;
    let mut contexts = Contexts::read(&configuration)?;
    let cluster = &genesis.cluster().name;
    let candidates =
        std::iter::once(cluster.clone()).chain((2..).map(|number| format!("{cluster}-{number}")));
    let gone = Gone::of(&mut contexts);
    let is_ours = |context: &Context| context.directory.as_deref() == Some(directory);
    let free = |name: &String| contexts.get(name).is_none_or(is_ours);
    let name = candidates.take(synod_config::CONTEXTS_MAX + 1).find(free).unwrap_or_else(|| cluster.clone());
    // What a user added by hand stays the user's.
    let managed = contexts.get(&name).is_none_or(|context| context.managed);
    if contexts.get(&name).is_some() {
        contexts.remove(&name)?;
    }
    let of = |service| {
        let found = ports.nodes.iter().filter_map(move |node| node.ports.get(&service));
        found.map(|port| Address::loopback(*port))
    };
    // Users of payments speak HTTP with the node of their institution.
    let users = if genesis.pay().is_some() { Service::Http } else { Service::Client };
    contexts.add(Context {
        name: name.clone(),
        genesis: directory.join(GENESIS_FILE),
        addresses: of(users).collect(),
        directory: Some(directory.to_owned()),
        resp: of(Service::Resp).next(),
        http: of(Service::Http).next(),
        member: None,
        token_file: None,
        managed,
    })?;
    contexts.select(&name)?;
    contexts.write(&configuration)?;
    gone.tell();
    Ok(name)
}

fn described(up: &Up, genesis: &Genesis, ports: &Ports, ready_ms: u64) -> Report {
    let rows = ports.nodes.iter().zip(&up.children).map(|(node, (_, running))| {
        let port = |service| Value::from(node.ports.get(&service).copied());
        vec![
            Value::from(node.name.clone()),
            Value::from(running.pid),
            port(Service::Client),
            port(Service::Http),
            port(Service::Resp),
            port(Service::Memcached),
            port(Service::Metrics),
            port(Service::Datagram),
            port(Service::Memory),
            Value::from(log_file(&up.directory, &node.name).display().to_string()),
        ]
    });
    Report::new("synod-up/1")
        .field("cluster", genesis.cluster().name.clone())
        .field("context", up.context.clone())
        .field("f", genesis.f())
        .field("ready_ms", ready_ms)
        .field("directory", up.directory.display().to_string())
        .field("next", crate::tree::next_steps(true))
        .list(
            "nodes",
            &["node", "pid", "client", "http", "resp", "memcached", "metrics", "datagram", "memory", "log"],
            rows.collect(),
        )
}

/// Stays until a signal, `synod down`, or the end of every node.
async fn stay(mut up: Up, signals: &mut Signals) -> Done {
    let exit = watch(&mut up, signals).await;
    let taken = take_down(&up.directory);
    for (child, _) in &mut up.children {
        // The process has ended; this only lets the system forget it.
        drop(child.wait());
    }
    taken?;
    exit
}

async fn watch(up: &mut Up, signals: &mut Signals) -> Done {
    let mut told: Vec<u32> = Vec::new();
    loop {
        tokio::select! {
            exit = signals.next() => return Ok(exit),
            () = tokio::time::sleep(LOOK) => {}
        }
        let Some(record) = Record::read(&up.directory)? else { return Ok(Exit::Success) };
        for (child, running) in &mut up.children {
            let ended = child.try_wait().ok().flatten().filter(|_| !told.contains(&running.pid));
            if let Some(status) = ended {
                told.push(running.pid);
                // A node that was restarted has another process on record.
                if record.node(&running.name) == Some(running) {
                    let name = &running.name;
                    progress(&format!(
                        "node {name} ended ({status}); `synod restart {name}` starts it again"
                    ));
                }
            }
        }
        if !record.nodes.iter().any(Running::is_alive) {
            return Err(SynError::of(code::CONTEXT_STALE, &[("context", &up.context), ("origin", "up")])
                .because("every node has ended"));
        }
    }
}

//! The demo's replicas and memory nodes, as processes, in a directory that goes with them.

use crate::bench::{Processes, Start};
use crate::deployment::{describe_ports, log_file};
use crate::exit::bug;
use crate::health::{Node, Survey, Vitals};
use crate::layout::{GENESIS_FILE, PORTS_FILE};
use crate::serve::client;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use synod_config::{Address, Context, Genesis, Ports, SynError, code};
use synod_host::ClusterClient;
use synod_quorum::NodeId;

/// Replicas, of which one may do anything.
pub(crate) const REPLICAS: u16 = 3;
/// Memory nodes, of which one may stop.
pub(crate) const MEMORY: u16 = 3;
/// How long a node may take to tell.
const TOLD: Duration = Duration::from_secs(2);
/// How long what is wanted of the nodes may take on a slow and busy machine.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(50);
/// Bytes of the end of a log that are read.
const TAIL: u64 = 4 << 10;

/// Replicas, memory nodes, and a client that believes none of them alone.
pub(crate) struct UbftCluster {
    processes: Processes,
    /// The ports of all.
    pub(crate) ports: Ports,
    pub(super) client: Arc<ClusterClient>,
}

impl UbftCluster {
    /// Makes a cluster that keeps keys and values, and starts its processes.
    ///
    /// # Errors
    /// The code of whatever refused.
    pub(crate) fn start() -> Result<Self, SynError> {
        let quiet = ("log.level".to_owned(), "warn".to_owned());
        let start = Start {
            name: "demo-ubft",
            nodes: REPLICAS,
            dead: 0,
            parameters: &|_| {},
            flags: std::slice::from_ref(&quiet),
        };
        let processes = Processes::start_ubft(&start, ("kv", MEMORY))?;
        let ports = describe_ports(processes.directory())?;
        ports.write(&processes.directory().join(PORTS_FILE))?;
        let client = client(&processes.genesis, "verified", NodeId(0), 1)?;
        Ok(Self { processes, ports, client })
    }

    /// The genesis.
    pub(crate) fn genesis(&self) -> &Genesis {
        &self.processes.genesis
    }

    /// The directory, which goes with the demo.
    pub(crate) fn directory(&self) -> &Path {
        self.processes.directory()
    }

    /// The context of the demo. A signal that ends this process removes it.
    pub(crate) fn context(&self, name: &str) -> Context {
        self.processes.takes_along(name);
        let addresses = crate::context::client_addresses(self.genesis());
        Context {
            name: name.to_owned(),
            genesis: self.directory().join(GENESIS_FILE),
            addresses: addresses.iter().filter_map(|(_, text)| Address::parse(text)).collect(),
            directory: Some(self.directory().to_owned()),
            resp: None,
            http: None,
            member: None,
            token_file: None,
            managed: true,
        }
    }

    /// Kills a replica or, behind the replicas, a memory node, with SIGKILL.
    pub(super) fn kill(&mut self, index: usize) {
        self.processes.kill(index);
    }

    /// Starts those that do not run again and waits until all say that they are ready.
    ///
    /// # Errors
    /// What kept one of them.
    pub(super) fn launch(&mut self) -> Result<(), SynError> {
        let running = self.processes.alive();
        for index in (0..usize::from(REPLICAS + MEMORY)).filter(|index| !running.contains(index)) {
            self.processes.launch(index)?;
        }
        self.processes.await_all()
    }

    /// Name of a replica or memory node.
    pub(super) fn name(&self, index: usize) -> &str {
        self.processes.name(index)
    }

    /// Asks the nodes until they say so.
    ///
    /// # Errors
    /// SYN-2003, with what was waited for and how far each was at last, when they do not in time.
    pub(super) fn until<T>(
        &self,
        context: &Context,
        what: &str,
        is_so: impl Fn(&Survey) -> Option<T>,
    ) -> Result<T, SynError> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let survey = Survey::take(context, TOLD);
            if let Some(found) = survey.as_ref().ok().and_then(&is_so) {
                return Ok(found);
            }
            if Instant::now() >= deadline {
                let values = [("address", "the demo's nodes"), ("stage", what)];
                let error = SynError::of(code::NO_ANSWER, &values);
                return Err(match survey {
                    Ok(survey) => {
                        survey.nodes.iter().fold(error, |error, node| error.because(self.how_far(node)))
                    }
                    Err(why) => error.because(why),
                });
            }
            std::thread::sleep(LOOK);
        }
    }

    /// How far a node says that it is, and what it logged last.
    fn how_far(&self, node: &Node) -> String {
        let end = tail(&log_file(self.directory(), &node.name)).unwrap_or_default();
        let end = String::from_utf8_lossy(&end);
        let last = end.lines().last().unwrap_or("nothing");
        let far = match &node.vitals {
            Ok(vitals) => format!(
                "ready {}, epoch {:?}, view {:?}, {:?} slots, state {:?}, memory nodes {:?}",
                vitals.ready, vitals.epoch, vitals.view, vitals.executed, vitals.digest, vitals.memory_nodes
            ),
            Err(why) => why.to_string(),
        };
        format!("{}: {far}; logged last: {last}", node.name)
    }

    /// The replica that leads now, as the replicas say.
    ///
    /// # Errors
    /// Those of [`Self::until`].
    pub(super) fn leader(&self, context: &Context) -> Result<usize, SynError> {
        self.until(context, "a leader", |survey| {
            let leader = survey.leader()?;
            survey.nodes.iter().position(|node| node.name == leader)
        })
    }

    /// Slots, and the digest of the state behind them, once all replicas say the same of both.
    ///
    /// # Errors
    /// Those of [`Self::until`].
    pub(super) fn agreed(&self, context: &Context) -> Result<(u64, u64), SynError> {
        self.until(context, "equal states", |survey| {
            let mut standings = survey.nodes.iter().map(|node| standing(node.vitals.as_ref().ok()?));
            let first = standings.next()??;
            standings.all(|standing| standing == Some(first)).then_some(first)
        })
    }

    /// A verb for a second shell, as long as the demo runs.
    ///
    /// # Errors
    /// The system does not say where this program is.
    pub(crate) fn program() -> Result<String, SynError> {
        let program = std::env::current_exe().map_err(|error| bug("program", &error))?;
        Ok(program.display().to_string())
    }
}

fn standing(vitals: &Vitals) -> Option<(u64, u64)> {
    vitals.executed.zip(vitals.digest)
}

/// The end of a file: its last line, unless that is very long.
fn tail(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let end = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(end.saturating_sub(TAIL)))?;
    let mut last = Vec::new();
    file.take(TAIL).read_to_end(&mut last)?;
    Ok(last)
}

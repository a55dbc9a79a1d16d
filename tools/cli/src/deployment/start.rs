//! Starting the nodes of a deployment and waiting until they take requests.

use super::process::Running;
use crate::cluster::unwritable;
use crate::layout::{GENESIS_FILE, NODE_FILE};
use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use synod_config::{
    Address, ClusterKind, Effective, Genesis, NodeConfig, NodePorts, Ports, Service, SynError, code,
};

/// The variable that names the planted bug of a node, in builds that hold some; other builds do not look at it.
pub(crate) const PLANT: &str = "SYNOD_PLANT";
/// Pause between two looks at a node that starts.
const LOOK: Duration = Duration::from_millis(20);
/// How long one look may take.
const PATIENCE: Duration = Duration::from_secs(1);
/// Last bytes of a log that are searched for the reason a node ended.
const LOG_TAIL: usize = 16 << 10;

/// The names of the nodes of a deployment, in the order of its genesis: members, then brokers or memory nodes.
///
/// # Errors
/// Those of [`Genesis::read`].
pub(crate) fn node_names(directory: &Path) -> Result<Vec<String>, SynError> {
    let genesis = Genesis::read(&directory.join(GENESIS_FILE))?;
    let members = genesis.members().iter().map(|member| member.name.clone());
    Ok(members.chain(broker_names(&genesis)).chain(memory_names(&genesis)).collect())
}

/// The names of the brokers of a cluster, in the order of its genesis.
pub(crate) fn broker_names(genesis: &Genesis) -> Vec<String> {
    let brokers = genesis.chop().map(|chop| chop.brokers.as_slice()).unwrap_or_default();
    brokers.iter().map(|broker| broker.name.clone()).collect()
}

/// The names of the memory nodes of a cluster, in the order of its genesis.
pub(crate) fn memory_names(genesis: &Genesis) -> Vec<String> {
    let nodes = genesis.ubft().map(|ubft| ubft.memory.as_slice()).unwrap_or_default();
    nodes.iter().map(|node| node.name.clone()).collect()
}

/// Where a node's standard output and error go.
pub(crate) fn log_file(directory: &Path, name: &str) -> PathBuf {
    directory.join("logs").join(format!("{name}.log"))
}

fn node_config(directory: &Path, name: &str) -> Result<NodeConfig, SynError> {
    Effective::read(&directory.join(name).join(NODE_FILE), [], [])?.config()
}

/// The ports of every node, from their configuration.
///
/// # Errors
/// The errors of the files.
pub(crate) fn describe_ports(directory: &Path) -> Result<Ports, SynError> {
    let genesis = Genesis::read(&directory.join(GENESIS_FILE))?;
    let mut nodes = Vec::new();
    for (index, name) in (0_u16..).zip(node_names(directory)?) {
        let listen = node_config(directory, &name)?.listen;
        let is_member = genesis.member(&name).is_some();
        let on = [
            (Service::Peer, Some(listen.peer).filter(|_| is_member)),
            (Service::Client, listen.client),
            (Service::Http, listen.http),
            (Service::Resp, listen.resp),
            (Service::Metrics, listen.metrics),
            (Service::Datagram, listen.datagram),
            (Service::Memcached, listen.memcached),
            (Service::Memory, listen.memory),
        ];
        let ports =
            on.into_iter().filter_map(|(service, address)| Some((service, address?.port()))).collect();
        nodes.push(NodePorts { cluster: genesis.cluster().name.clone(), name, index, ports });
    }
    Ok(Ports::new(nodes))
}

/// Starts the process of a node, in a process group of its own so that Ctrl-C reaches only who started it. It ends
/// by itself when its supervisor ends, however that ends.
///
/// # Errors
/// SYN-1101 if its log cannot be opened or the program cannot be started.
pub(crate) fn start(
    program: &Path,
    directory: &Path,
    name: &str,
    supervisor: Option<&Running>,
) -> Result<(Child, Running), SynError> {
    let path = log_file(directory, name);
    let open = || {
        std::fs::create_dir_all(directory.join("logs"))?;
        let log = File::options().create(true).append(true).open(&path)?;
        Ok((log.try_clone()?, log))
    };
    let (output, errors) = open().map_err(|error| unwritable(&path, &error))?;
    let genesis = Genesis::read(&directory.join(GENESIS_FILE))?;
    let role = match (genesis.broker(name), genesis.memory_node(name)) {
        (Some(_), _) => "broker",
        (None, Some(_)) => "memnode",
        (None, None) => "node",
    };
    let mut command = Command::new(program);
    command.args([role, "run", "--data"]).arg(directory.join(name));
    if genesis.chop().is_some_and(|chop| chop.kind == ClusterKind::Bench) {
        // Only who measures makes such a genesis.
        command.arg("--i-am-a-benchmark");
    }
    if let Some(supervisor) = supervisor {
        command.args(["--supervisor", &supervisor.to_word()]);
    }
    if synod_trial::plants::is_plant_build() {
        // Whoever runs such a build tests it.
        command.arg("--i-am-a-test");
    }
    command.stdin(Stdio::null()).stdout(output).stderr(errors).process_group(0);
    let child = command.spawn().map_err(|error| unwritable(program, &error))?;
    match Running::of(name, child.id()) {
        Some(running) => Ok((child, running)),
        None => Err(ended(directory, name)),
    }
}

/// Waits until each of these nodes says that it is ready.
///
/// # Errors
/// The error a node left in its log when it ended; SYN-2003 for the first that is not ready by the deadline.
pub(crate) fn await_ready(directory: &Path, nodes: &[Running], patience: Duration) -> Result<(), SynError> {
    await_ready_until(directory, nodes, patience, &AtomicBool::new(false))
}

/// The same, but gives up without an error once `stopped` is said.
///
/// # Errors
/// Those of [`await_ready`].
pub(crate) fn await_ready_until(
    directory: &Path,
    nodes: &[Running],
    patience: Duration,
    stopped: &AtomicBool,
) -> Result<(), SynError> {
    let deadline = Instant::now() + patience;
    let genesis = Genesis::read(&directory.join(GENESIS_FILE))?;
    for node in nodes {
        let Some(metrics) = node_config(directory, &node.name)?.listen.metrics else { continue };
        // Whoever stands in reserve takes requests once it has joined, which is nobody's to wait for here.
        let page = if is_reserve(&genesis, &node.name) { "/livez" } else { "/readyz" };
        while !stopped.load(Ordering::Relaxed) {
            let Err(why) = answers(&metrics, page) else { break };
            if !node.is_alive() {
                return Err(ended(directory, &node.name));
            }
            if Instant::now() >= deadline {
                return Err(unready(directory, &node.name, &metrics, &why));
            }
            std::thread::sleep(LOOK);
        }
    }
    Ok(())
}

/// A node that runs and is not ready, with what it lacks.
fn unready(directory: &Path, name: &str, metrics: &Address, why: &str) -> SynError {
    SynError::of(code::NO_ANSWER, &[("address", &*metrics.to_string()), ("stage", "ready")])
        .because(format!("node {name} runs: {why}"))
        .because(format!("its log is {}", log_file(directory, name).display()))
}

/// Nothing, if the page says that all is well; else what is not.
fn answers(metrics: &Address, page: &str) -> Result<(), String> {
    match crate::http::get(metrics, page, PATIENCE) {
        Ok(answer) if answer.status == 200 => Ok(()),
        Ok(answer) => {
            let failing: Vec<&str> = answer.body.lines().filter(|line| line.starts_with("[-]")).collect();
            Err(if failing.is_empty() {
                format!("{page} says {}", answer.status)
            } else {
                failing.join(", ")
            })
        }
        Err(error) => Err(format!("{page} is not served: {}", error.message())),
    }
}

/// Whether a member did not begin, so that it may be none yet.
fn is_reserve(genesis: &Genesis, name: &str) -> bool {
    let founders = genesis.pay().filter(|pay| pay.has_views()).map(|pay| pay.founders);
    let own = genesis.member(name).map(|(id, _)| id.0);
    founders.zip(own).is_some_and(|(founders, own)| own >= founders)
}

/// Why a node ended: the last error in its log, under the same code.
fn ended(directory: &Path, name: &str) -> SynError {
    let path = log_file(directory, name);
    let log = std::fs::read(&path).unwrap_or_default();
    let tail = String::from_utf8_lossy(log.get(log.len().saturating_sub(LOG_TAIL)..).unwrap_or_default())
        .into_owned();
    let told = |error: SynError| error.because(format!("node {name} ended; its log is {}", path.display()));
    match last_error(&tail) {
        Some(error) => told(error),
        None => told(SynError::of(code::REFUSED, &[("address", &format!("node {name}"))])),
    }
}

fn last_error(log: &str) -> Option<SynError> {
    let (code, message) = log.lines().rev().find_map(|line| {
        let (code, message) = line.strip_prefix("error ")?.split_once(": ")?;
        Some((synod_config::Code::parse(code)?, message))
    })?;
    Some(SynError::with_message(code, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_a_node_ended_is_the_last_error_of_its_log() {
        let log =
            "INFO started\nerror SYN-2004: a:1 is taken by b\nfix: x\nerror SYN-1112: d is in use\nfix: y\n";
        let error = last_error(log).expect("there is one");
        assert_eq!((error.code().number(), error.message()), (1112, "d is in use"));
        assert_eq!(last_error("INFO nothing wrong\n"), None);
    }
}

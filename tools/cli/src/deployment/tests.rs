//! Deployments whose nodes are shell scripts, with a health port that the test answers.

use super::*;
use crate::cluster::{Purpose, Seat, found};
use crate::http::fake;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use synod_config::{Address, Service, code};

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A cluster in a directory of its own and a program that stands for `synod node run --data DIR`.
struct Stage {
    directory: PathBuf,
    program: PathBuf,
}

impl Stage {
    fn new(script: &str, health: Vec<TcpListener>) -> Self {
        Self::telling(script, health, (200, "ok\n"))
    }

    /// The same, whose nodes answer with this when they are asked whether they are ready.
    fn telling(script: &str, health: Vec<TcpListener>, (status, body): (u16, &str)) -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let directory =
            std::env::temp_dir().join(format!("synod-deployment-{}-{number}", std::process::id()));
        let count = u16::try_from(health.len()).expect("few nodes");
        let mut seats = Claim::free(count).expect("ports are free").seats;
        for (seat, listener) in seats.iter_mut().zip(health) {
            let address = fake::serve_on(listener, vec![("/readyz", status, body.to_owned())]);
            put_metrics(seat, &address);
        }
        found("shop", Purpose::Drill, &seats, &directory).expect("the cluster is built");
        let program = directory.join("program");
        // Written by another process: a program that this one has open for writing cannot be started by a
        // thread that inherits the descriptor meanwhile.
        let write = "printf '#!/bin/sh\\n%s\\n' \"$1\" > \"$2\"; chmod 700 \"$2\"";
        let written = Command::new("sh").args(["-c", write, "sh", script]).arg(&program).status();
        assert!(written.expect("a shell starts").success());
        Self { directory, program }
    }

    fn start(&self, name: &str) -> Result<(std::process::Child, Running), synod_config::SynError> {
        start(&self.program, &self.directory, name, None)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.directory));
    }
}

fn put_metrics(seat: &mut Seat, address: &Address) {
    for (service, listen) in &mut seat.listen {
        if *service == Service::Metrics {
            *listen = address.clone();
        }
    }
}

fn listener() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").expect("a port is free")
}

/// The first line of a node's log, once it is complete.
fn first_line(stage: &Stage, name: &str) -> String {
    let deadline = Instant::now() + READY;
    loop {
        let log = std::fs::read_to_string(log_file(&stage.directory, name)).expect("there is a log");
        if let Some((line, _)) = log.split_once('\n') {
            return line.to_owned();
        }
        assert!(Instant::now() < deadline, "{name} writes nothing");
        std::thread::yield_now();
    }
}

const STAYS: &str = "echo \"$@\"; exec tail -f /dev/null";

#[test]
fn nodes_start_become_ready_and_end() {
    let stage = Stage::new(STAYS, vec![listener(), listener()]);
    let names = node_names(&stage.directory).expect("the genesis names them");
    assert_eq!(names, ["n0", "n1"]);
    let (mut children, nodes): (Vec<_>, Vec<_>) =
        names.iter().map(|name| stage.start(name).expect("it starts")).unzip();
    assert_eq!(await_ready(&stage.directory, &nodes, READY), Ok(()));
    for name in &names {
        // The health port is the test's, so the script may not have come to its first line yet.
        assert_eq!(
            first_line(&stage, name),
            format!("node run --data {}", stage.directory.join(name).display())
        );
    }
    Record::new("shop", false, nodes.clone()).write(&stage.directory).expect("it is written");
    let record = Record::read(&stage.directory).expect("it is read").expect("it is up");
    let ended = stop(&record.nodes, GRACE).expect("they are ours");
    assert_eq!(ended.into_iter().map(Ended::as_str).collect::<Vec<_>>(), ["stopped", "stopped"]);
    for child in &mut children {
        assert!(child.try_wait().expect("it is our child").is_some());
    }
}

#[test]
fn the_ports_that_are_told_are_those_of_the_nodes() {
    let stage = Stage::new(STAYS, vec![listener()]);
    let ports = describe_ports(&stage.directory).expect("the files are right");
    assert_eq!((ports.nodes.len(), ports.nodes[0].cluster.as_str()), (1, "shop"));
    let services: Vec<Service> = ports.nodes[0].ports.keys().copied().collect();
    assert_eq!(services, [Service::Peer, Service::Client, Service::Http, Service::Resp, Service::Metrics]);
    let metrics = Address::loopback(ports.nodes[0].ports[&Service::Metrics]);
    let taken = refuse_taken(&[metrics]).map_err(|error| error.code());
    assert_eq!(taken, Err(code::PORT_TAKEN), "the test's health port listens there");
}

#[test]
fn a_node_that_ends_while_it_starts_is_reported_with_its_own_error() {
    let script = "echo 'error SYN-1112: data is in use by process 7' >&2; echo 'fix: wait' >&2; exit 3";
    let stage = Stage::new(script, vec![listener()]);
    // Nobody answers the health port of this node.
    let config = stage.directory.join("n0/node.toml");
    let text = std::fs::read_to_string(&config).expect("it exists");
    let closed = listener().local_addr().expect("it has an address").to_string();
    let metrics = text.lines().find(|line| line.starts_with("metrics")).expect("it is stated");
    std::fs::write(&config, text.replace(metrics, &format!("metrics = \"{closed}\"")))
        .expect("it is written");

    let failed = stage.start("n0").and_then(|(mut child, running)| {
        let waited = await_ready(&stage.directory, &[running], READY);
        drop(child.wait());
        waited
    });
    let error = failed.expect_err("it ended");
    assert_eq!((error.code(), error.message()), (code::DATA_DIR_LOCKED, "data is in use by process 7"));
    assert!(error.causes()[0].starts_with("node n0 ended; its log is "), "{error:?}");
}

#[test]
fn a_node_that_does_not_become_ready_is_reported_with_what_it_lacks() {
    let lacks = "[-]replay SYN-3403 a state is being taken over\nfailed\n";
    let stage = Stage::telling(STAYS, vec![listener()], (503, lacks));
    let (mut child, running) = stage.start("n0").expect("it starts");
    let waited = await_ready(&stage.directory, std::slice::from_ref(&running), Duration::from_millis(1));
    drop(child.kill());
    drop(child.wait());
    let error = waited.expect_err("it is not ready");
    assert_eq!(error.code(), code::NO_ANSWER);
    let causes = error.causes();
    assert_eq!(causes[0], "node n0 runs: [-]replay SYN-3403 a state is being taken over");
    assert!(causes[1].starts_with("its log is "), "{error:?}");
}

#[test]
fn a_deployment_is_found_by_its_directory() {
    let session = crate::session::Session {
        output: crate::output::Output::new(crate::output::Format::Json, true),
        context: None,
        timeout: None,
        verbose: false,
        recorder: crate::score::record::Recorder::start(),
    };
    let found = directory_of(&session, Some(Path::new("/somewhere/main"))).expect("it was given");
    assert_eq!(found, Path::new("/somewhere/main"));
}

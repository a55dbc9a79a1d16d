//! Servers as they are behind clusters of uBFT: each replica runs one, and clients speak to a proxy that believes f + 1 replicas.
//!
//! What needs a server that is not installed says so and shows the refusal alone.

use crate::rig::Rig;
use crate::ubft::{Deployed, rows};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long anything of a cluster may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Whether all of these programs are installed; says which is not.
fn has(programs: &[&str]) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |name: &str| std::env::split_paths(&path).any(|directory| directory.join(name).is_file());
    let missing = programs.iter().find(|name| !is_there(name));
    if let Some(name) = missing {
        eprintln!(
            "skipped: {name} is not installed; the packages redis-server, redis-tools and memcached are wanted"
        );
    }
    missing.is_none()
}

/// A proxy of the selected context; it ends with it.
struct Proxy {
    child: Child,
    port: u16,
}

impl Proxy {
    fn start(rig: &Rig) -> Self {
        let line = "proxy --resp 127.0.0.1:0 --memcached 127.0.0.1:0 --timeout 60s";
        let mut child = rig.command(line).stderr(Stdio::piped()).spawn().expect("the binary starts");
        let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        let line = lines.next().expect("it says where it listens").expect("text");
        let port = line.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
        Self { port: port.unwrap_or_else(|| panic!("no port: {line}")), child }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        stream
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The one process of this name that process `parent` started.
fn child_of(parent: i32, name: &str) -> Option<i32> {
    let all = std::fs::read_dir("/proc").expect("a list of processes").flatten();
    let mut pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.find(|pid| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let Some((front, behind)) = stat.rsplit_once(") ") else { return false };
        front.ends_with(&format!("({name}")) && behind.split(' ').nth(1) == Some(&parent.to_string())
    })
}

/// Waits until a process is gone, or only its parent has to forget it.
fn until_gone(pid: i32) {
    let begun = Instant::now();
    let is_there = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, behind)| !behind.starts_with('Z'))
    };
    while is_there() {
        assert!(begun.elapsed() < PATIENCE, "process {pid} is still there");
        std::thread::yield_now();
    }
}

/// The replica that leads, once that is known.
fn leader(rig: &Deployed) -> String {
    let status = rig.until("a leader", |status| status["leader"].is_string());
    status["leader"].as_str().expect("a name").to_owned()
}

/// What a connection answers to a line, up to `end`.
fn say(stream: &mut TcpStream, bytes: &[u8], end: &str) -> String {
    stream.write_all(bytes).expect("it listens");
    let mut heard = Vec::new();
    let mut piece = [0; 4 << 10];
    while !heard.ends_with(end.as_bytes()) {
        let read = stream.read(&mut piece).expect("it answers");
        assert!(read > 0, "it closed behind {:?}", String::from_utf8_lossy(&heard));
        heard.extend_from_slice(&piece[..read]);
    }
    String::from_utf8(heard).expect("text")
}

#[test]
fn redis_benchmark_ends_without_errors_through_a_crash_of_the_leader_and_all_servers_end_alike() {
    if !has(&["redis-server", "redis-benchmark", "setpriv"]) {
        return;
    }
    let (rig, _) = Deployed::up("--app redis");
    let proxy = Proxy::start(&rig);
    let mut benchmark = Command::new("redis-benchmark");
    let tests = "set,get,incr,lpush,rpush,lpop,rpop,sadd,hset,spop,zadd,zpopmin,lrange_100,mset";
    benchmark.args([
        "-p",
        &proxy.port.to_string(),
        "-n",
        "192",
        "-c",
        "4",
        "-P",
        "8",
        "-r",
        "50",
        "-q",
        "-t",
        tests,
    ]);
    let benchmark = benchmark.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it is installed");
    let executed = |status: &serde_json::Value| {
        rows(status, "nodes").iter().filter_map(|node| node["executed"].as_u64()).max().unwrap_or(0)
    };
    rig.until("it has begun", |status| executed(status) > 20);
    let leader = leader(&rig);
    let server = child_of(rig.pid(&leader), "redis-server").expect("a server of its own");
    rig.kill(&leader);
    until_gone(server);
    let ended = benchmark.wait_with_output().expect("it ends");
    let said =
        format!("{}{}", String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert!(ended.status.success() && !said.contains("rror"), "{said}");
    for test in
        ["SET", "GET", "INCR", "LPUSH", "LPOP", "SADD", "HSET", "ZADD", "LRANGE_100", "MSET (10 keys)"]
    {
        assert!(said.contains(&format!("{test}: ")) || said.contains(&format!("{test} (")), "{test}: {said}");
    }
    rig.agree(2);
    rig.ok(&format!("restart {leader} --timeout 120s"));
    let mut client = proxy.connect();
    assert_eq!(say(&mut client, b"SET last one\r\nGET last\r\n", "one\r\n"), "+OK\r\n$3\r\none\r\n");
    rig.agree(3);
}

#[test]
fn a_burst_and_a_transaction_of_redis_are_one_request_and_what_blocks_is_refused() {
    if !has(&["redis-server", "setpriv"]) {
        return;
    }
    let (rig, _) = Deployed::up("--app redis");
    let proxy = Proxy::start(&rig);
    let mut client = proxy.connect();
    let slots = || rig.until("it runs", |status| rows(status, "nodes")[0]["executed"].is_u64());
    let executed = || rows(&slots(), "nodes").iter().filter_map(|node| node["executed"].as_u64()).max();
    assert_eq!(say(&mut client, b"SET n 0\r\n", "\r\n"), "+OK\r\n");
    rig.agree(3);
    let before = executed().expect("a number");
    let burst = b"INCR n\r\n".repeat(40);
    assert!(say(&mut client, &burst, ":40\r\n").starts_with(":1\r\n:2\r\n"));
    let multi = b"MULTI\r\nINCR n\r\nLPUSH n x\r\nPING\r\nGET n\r\nEXEC\r\n";
    let answer = say(&mut client, multi, "$2\r\n41\r\n");
    assert!(
        answer.starts_with("+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*4\r\n:41\r\n-WRONGTYPE"),
        "{answer}"
    );
    rig.agree(3);
    let after = executed().expect("a number");
    assert!((2..=10).contains(&(after - before)), "46 commands took slots {before} to {after}");
    for (line, error) in [
        ("BLPOP l 0", "-ERR SYN-3003 commands that block are not built"),
        ("WATCH n", "-ERR SYN-3003 WATCH is not built"),
        ("EVAL return 0", "-ERR SYN-3003 scripts are not executed"),
        ("GET", "-ERR SYN-3003 wrong number of arguments"),
        ("HELLO 3", "-NOPROTO SYN-3003 "),
        ("SHUTDOWN", "-ERR SYN-3003 "),
    ] {
        let answer = say(&mut client, format!("{line}\r\n").as_bytes(), "\r\n");
        assert!(answer.starts_with(error), "{line}: {answer}");
    }
    rig.refused("kv get n", "SYN-3003", 5);
}

#[test]
fn a_node_whose_server_dies_ends_by_its_code_and_takes_the_state_over_when_it_is_started_again() {
    if !has(&["redis-server", "setpriv"]) {
        return;
    }
    let (rig, _) = Deployed::up("--app redis");
    let proxy = Proxy::start(&rig);
    let mut client = proxy.connect();
    assert_eq!(say(&mut client, b"SET a 1\r\n", "\r\n"), "+OK\r\n");
    let node = rig.pid("n1");
    let server = child_of(node, "redis-server").expect("a server of its own");
    kill_process(Pid::from_raw(server).expect("a number"), Signal::KILL).expect("it is ours");
    for round in 0..4 {
        assert_eq!(
            say(&mut client, format!("APPEND a {round}\r\n").as_bytes(), "\r\n"),
            format!(":{}\r\n", round + 2)
        );
    }
    until_gone(node);
    let log = rig.ok("logs n1");
    assert!(log.contains("SYN-1206") && log.contains("redis-server"), "{log}");
    rig.ok("restart n1 --timeout 120s");
    assert_eq!(say(&mut client, b"GET a\r\n", "\r\n10123\r\n"), "$5\r\n10123\r\n");
    rig.agree(3);
}

#[test]
fn a_client_of_memcached_meets_no_error_through_a_crash_of_the_leader_and_all_servers_end_alike() {
    if !has(&["memcached", "setpriv"]) {
        return;
    }
    let (rig, _) = Deployed::up("--app memcached");
    let proxy = Proxy::start(&rig);
    let mut client = proxy.connect();
    let store = |client: &mut TcpStream, round: u32| {
        let value = format!("value of {round}");
        let set = format!("set k{} 7 0 {}\r\n{value}\r\n", round % 5, value.len());
        assert_eq!(say(client, set.as_bytes(), "\r\n"), "STORED\r\n");
        let expected = format!("VALUE k{} 7 {}\r\n{value}\r\nEND\r\n", round % 5, value.len());
        assert_eq!(say(client, format!("get k{} none\r\n", round % 5).as_bytes(), "END\r\n"), expected);
    };
    (0..6).for_each(|round| store(&mut client, round));
    // A pipeline with what nobody waits for.
    let pipeline = b"set n 0 0 1 noreply\r\n5\r\nincr n 37\r\ndelete k0\r\nget k0\r\n";
    assert_eq!(say(&mut client, pipeline, "END\r\n"), "42\r\nDELETED\r\nEND\r\n");
    let leader = leader(&rig);
    let server = child_of(rig.pid(&leader), "memcached").expect("a server of its own");
    rig.kill(&leader);
    until_gone(server);
    (6..12).for_each(|round| store(&mut client, round));
    assert!(say(&mut client, b"stats\r\n", "\r\n").starts_with("CLIENT_ERROR"));
    rig.agree(2);
    rig.ok(&format!("restart {leader} --timeout 120s"));
    (12..15).for_each(|round| store(&mut client, round));
    rig.agree(3);
}

#[test]
fn flip_runs_over_ubft_and_gives_back_a_request_reversed() {
    let (rig, _) = Deployed::up("--app flip");
    // "uBFT" and "TFBu".
    let told = rig.json("client submit main 75424654 --timeout 60s");
    assert_eq!((&told["value"], &told["text"]), (&"54464275".into(), &"TFBu".into()));
    rig.agree(3);
}

#[test]
fn an_application_that_is_a_server_is_refused_where_it_is_not_installed_and_over_other_protocols() {
    let rig = Rig::new();
    for (app, package) in [("redis", "redis-server"), ("memcached", "memcached")] {
        let mut command = rig.command(&format!("up --kind ubft --app {app} --dir cluster --base-port 0"));
        let ran = command.env("PATH", rig.path("empty")).output().expect("the binary starts");
        let said = String::from_utf8(ran.stderr).expect("text");
        assert_eq!(ran.status.code(), Some(1), "{said}");
        assert!(said.starts_with("error SYN-1205: "), "{said}");
        assert!(said.contains(&format!("the package {package} has it")), "{said}");
        rig.refused(&format!("up --app {app} --dir cluster"), "SYN-1001", 2);
        rig.refused(
            &format!("init --name x --kind chopchop --app {app} --nodes 4 --out made"),
            "SYN-1001",
            2,
        );
    }
    assert!(!Path::new(&rig.path("cluster")).exists(), "nothing was made");
}

//! Clusters of real processes: `up`, what is asked of them, and their end.

use crate::rig::{Rig, read};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// Ends the deployment of a rig even when an assertion fails first.
struct Deployed(Rig);

impl Drop for Deployed {
    fn drop(&mut self) {
        drop(self.0.command("down --dir cluster").output());
    }
}

impl std::ops::Deref for Deployed {
    type Target = Rig;

    fn deref(&self) -> &Rig {
        &self.0
    }
}

fn processes(up: &Value) -> Vec<u64> {
    let nodes = up["nodes"].as_array().expect("a list of nodes");
    nodes.iter().map(|node| node["pid"].as_u64().expect("a number")).collect()
}

/// Whether a process runs, zombies not counted.
fn runs(pid: u64) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, fields)| !fields.trim_start().starts_with('Z'))
}

fn end(child: &mut Child, signal: Signal) -> Option<i32> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("a process id");
    kill_process(pid, signal).expect("it is our child");
    child.wait().expect("it ends").code()
}

/// The same for one that may be about to hear signals: the one that comes in the microseconds in which it begins to is lost to everybody
/// (`signal-hook-registry` puts its handler in place before what the handler calls), so it is said again.
fn end_early(child: &mut Child, signal: Signal) -> Option<i32> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("a process id");
    let mut said = None;
    loop {
        if let Some(ended) = child.try_wait().expect("it is our child") {
            return ended.code();
        }
        if said.is_none_or(|said: Instant| said.elapsed() > Duration::from_secs(20)) {
            kill_process(pid, signal).expect("it is our child");
            said = Some(Instant::now());
        }
        std::thread::yield_now();
    }
}

#[test]
fn a_cluster_comes_up_is_looked_at_and_goes_down() {
    let rig = Deployed(Rig::new());
    let up = rig.json("up --dir cluster --base-port 0 --detach --ports-file ports.json");
    assert_eq!((&up["context"], &up["f"]), (&"main".into(), &1.into()));
    assert_eq!(read(&rig.path("ports.json")), read(&rig.path("cluster/ports.json")));
    let before = processes(&up);
    assert_eq!(before.len(), 4);
    assert!(before.iter().all(|pid| runs(*pid)));

    let status = rig.json("status");
    assert_eq!((&status["quorum_need"], &status["quorum_have"]), (&3.into(), &4.into()), "{status}");
    assert!(status["leader"].is_string() && status["view"].as_u64().is_some(), "{status}");
    assert_eq!(rig.json("why")["cause"], "healthy");
    rig.refused("up --dir cluster", "SYN-1112", 3);
    rig.refused("up --dir cluster --nodes 7", "SYN-1001", 2);
    assert!(before.iter().all(|pid| runs(*pid)), "a refused up ends nobody's nodes");

    let again = rig.json("restart n2");
    assert!(!runs(before[2]) && runs(again["pid"].as_u64().expect("a number")));
    assert!(runs(before[0]) && runs(before[1]) && runs(before[3]), "the others were left alone");
    assert!(rig.ok("logs n2").lines().all(|line| line.starts_with("n2 ")));
    rig.refused("restart n9", "SYN-1001", 2);

    let down = rig.json("down");
    assert_eq!(down["nodes"].as_array().map(Vec::len), Some(4));
    assert!(before.iter().all(|pid| !runs(*pid)));
    rig.refused("status", "SYN-2005", 4);
    assert_eq!(rig.json("down")["nodes"], Value::Array(Vec::new()), "a second time finds nothing to end");
}

#[test]
fn a_cluster_without_a_quorum_says_who_is_missing() {
    let rig = Deployed(Rig::new());
    let up = rig.json("up --dir cluster --base-port 0 --detach");
    for pid in &processes(&up)[2..] {
        let pid = i32::try_from(*pid).ok().and_then(Pid::from_raw).expect("a process id");
        kill_process(pid, Signal::KILL).expect("it is ours");
    }
    let deadline = Instant::now() + Duration::from_secs(60);
    let why = loop {
        let ran = rig.run("why --json");
        let why: Value = serde_json::from_str(&ran.out).expect("one object");
        // While a process dies, its port may answer with silence first.
        if why["code"] == "SYN-2001" || Instant::now() > deadline {
            assert_eq!(ran.code, 4, "{why}");
            break why;
        }
    };
    assert!(why["cause"].as_str().is_some_and(|cause| cause.contains("n2 is unreachable")), "{why}");
    assert_eq!(why["code"], "SYN-2001");
}

#[test]
fn one_node_is_a_cluster_and_says_that_it_tolerates_nothing() {
    let rig = Deployed(Rig::new());
    let up = rig.json("up --dir cluster --nodes 1 --base-port 0 --detach");
    assert_eq!(up["f"], 0);
    for line in ["status", "why", "logs n0", "restart n0", "down"] {
        rig.ok(line);
    }
    let mut command = rig.command("node run --data cluster/n0");
    let mut node = command.stderr(Stdio::null()).spawn().expect("the binary starts");
    let deadline = Instant::now() + Duration::from_secs(60);
    while rig.run("why").code != 0 && Instant::now() < deadline {
        assert!(node.try_wait().expect("it is our child").is_none(), "the node ended");
    }
    assert_eq!(rig.json("why")["cause"], "healthy");
    rig.refused("node recover --data cluster/n0", "SYN-1112", 3);
    assert_eq!(end(&mut node, Signal::TERM), Some(143));
}

#[test]
fn a_context_goes_with_a_directory_that_was_removed_by_hand_and_others_stay() {
    let rig = Deployed(Rig::new());
    let names = || {
        let told = rig.json("ctx ls");
        told["contexts"].as_array().expect("a list").iter().map(|row| row["name"].clone()).collect::<Vec<_>>()
    };
    rig.ok("up --dir first --nodes 1 --base-port 0 --detach");
    rig.ok("down");
    assert_eq!(names(), ["main"], "a deployment that is down keeps its context");
    let file = rig.path("xdg/synod/contexts.toml");
    let by_hand = (1..64).map(|n| {
        let place = "genesis = \"gone/genesis.toml\"\ndirectory = \"gone\"";
        format!("\n[[context]]\nname = \"c{n}\"\naddresses = [\"127.0.0.1:1\"]\n{place}\n")
    });
    std::fs::write(&file, read(&file) + &by_hand.collect::<String>()).expect("a file of ours");

    std::fs::remove_dir_all(rig.path("first")).expect("a directory of ours");
    let up = rig.run("up --dir second --nodes 1 --base-port 0 --detach");
    assert_eq!(up.code, 0, "{}", up.err);
    let told = format!("context main dropped: {} is gone", rig.path("first").display());
    assert!(up.err.lines().any(|line| line == told), "{}", up.err);
    assert_eq!(names().len(), 64, "the new one took its place");
    rig.ok("down");

    std::fs::remove_dir_all(rig.path("second")).expect("a directory of ours");
    let listed = rig.run("ctx ls");
    assert!(listed.err.contains("context main dropped: "), "{}", listed.err);
    assert_eq!((names().len(), &names()[0]), (63, &"c1".into()));
    assert_eq!(rig.run("ctx ls").err, "", "it is said once");
}

/// All files below a directory.
fn files(directory: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(directory).expect("a directory").flatten();
    entries
        .flat_map(|entry| if entry.path().is_dir() { files(&entry.path()) } else { vec![entry.path()] })
        .collect()
}

/// The forms in which the first half of a secret could have been written: raw, hex digits, a list of numbers.
fn written(secret: &str) -> Vec<Vec<u8>> {
    let bytes = (0..16).map(|at| u8::from_str_radix(&secret[2 * at..][..2], 16).expect("hex digits"));
    let bytes: Vec<u8> = bytes.collect();
    let list = bytes.iter().map(u8::to_string).collect::<Vec<_>>().join(", ");
    let digits = &secret[..32];
    vec![bytes, digits.as_bytes().to_vec(), digits.to_uppercase().into_bytes(), list.into_bytes()]
}

#[test]
fn no_byte_of_a_key_is_in_what_nodes_log_at_any_level_or_keep_beside_it() {
    let rig = Deployed(Rig::new());
    rig.ok("up --dir cluster --base-port 0 --detach");
    rig.ok("down");
    for node in 0..4 {
        let config = rig.path(&format!("cluster/n{node}/node.toml"));
        std::fs::write(&config, read(&config) + "\n[log]\nlevel = \"trace\"\n").expect("a file of ours");
    }
    rig.ok("up --dir cluster --detach");
    rig.ok("kv put k v");
    rig.ok("down");

    let (keys, others): (Vec<_>, Vec<_>) =
        files(&rig.path("cluster")).into_iter().partition(|path| path.ends_with("keys/node.key"));
    assert_eq!(keys.len(), 4, "{keys:?}");
    let is_in = |needle: &[u8], bytes: &[u8]| bytes.windows(needle.len()).any(|window| window == needle);
    let mut traces = 0;
    let secrets: Vec<String> = keys.iter().map(|path| read(path)).collect();
    let secrets = secrets.iter().filter_map(|text| text.split_whitespace().nth(2));
    let forms: Vec<Vec<u8>> = secrets.flat_map(written).collect();
    assert_eq!(forms.len(), 16);
    assert!(is_in(&forms[1], &std::fs::read(&keys[0]).expect("a file")), "the key file has the digits");
    for path in others {
        let bytes = std::fs::read(&path).expect("a file of ours");
        let zeros = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        traces += usize::from(is_in(b"DEBUG", &bytes[..zeros]));
        for form in &forms {
            assert!(!is_in(form, &bytes[..zeros]), "{} holds a secret", path.display());
        }
    }
    assert_eq!(traces, 4, "each node logged below its usual level");
}

#[test]
fn a_node_gives_up_the_rights_that_it_never_needs() {
    let rig = Deployed(Rig::new());
    let up = rig.json("up --dir cluster --nodes 1 --base-port 0 --detach");
    let [node] = processes(&up)[..] else { unreachable!("one node: {up}") };
    let says = |file: &str, line: &str| {
        let told = std::fs::read_to_string(format!("/proc/{node}/{file}")).expect("it runs");
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(told.lines().any(|told| words(told).starts_with(line)), "{line}: {told}");
    };
    says("status", "NoNewPrivs: 1");
    says("status", "Umask: 0077");
    says("limits", "Max core file size 0 0");
    rig.ok("down");
}

#[test]
fn an_interrupted_cluster_leaves_no_process_no_file_and_no_context() {
    let rig = Rig::new();
    let mut command = rig.command("up --ephemeral --nodes 1 --base-port 0 --json");
    let mut up = command.stdout(Stdio::piped()).spawn().expect("the binary starts");
    let mut line = String::new();
    BufReader::new(up.stdout.take().expect("a pipe")).read_line(&mut line).expect("it says that it is ready");
    let told: Value = serde_json::from_str(&line).expect("one object");
    let directory = told["directory"].as_str().expect("a text").to_owned();
    assert_eq!(rig.json("ctx show")["name"], "main");
    assert!(std::path::Path::new(&directory).is_dir());
    assert_eq!(end(&mut up, Signal::INT), Some(130));
    assert!(processes(&told).iter().all(|pid| !runs(*pid)));
    assert!(!std::path::Path::new(&directory).exists());
    rig.refused("ctx show", "SYN-1001", 2);
}

/// Waits until none of these processes runs.
fn await_end(pids: &[u64]) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while pids.iter().any(|pid| runs(*pid)) {
        assert!(Instant::now() < deadline, "one of {pids:?} still runs");
        std::thread::yield_now();
    }
}

#[test]
fn nodes_end_when_their_up_is_killed_also_one_that_was_restarted() {
    let rig = Deployed(Rig::new());
    let mut command = rig.command("up --dir cluster --base-port 0 --json");
    let mut up = command.stdout(Stdio::piped()).spawn().expect("the binary starts");
    let mut line = String::new();
    BufReader::new(up.stdout.take().expect("a pipe")).read_line(&mut line).expect("it says that it is ready");
    let told: Value = serde_json::from_str(&line).expect("one object");
    let mut nodes = processes(&told);
    nodes.push(rig.json("restart n1")["pid"].as_u64().expect("a number"));
    assert!([0, 2, 3, 4].iter().all(|index| runs(nodes[*index])));
    assert_eq!(end(&mut up, Signal::KILL), None);
    await_end(&nodes);
    let down = rig.json("down");
    let ends = down["nodes"].as_array().expect("a list").iter().map(|node| node["end"].clone());
    assert_eq!(ends.collect::<Vec<_>>(), vec![Value::from("had ended"); 4]);
}

/// Processes whose command line names something in the directory of this rig.
fn processes_of(rig: &Rig) -> Vec<u64> {
    let directory = rig.path("").display().to_string();
    let numbers = std::fs::read_dir("/proc").expect("a directory").flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<u64>().ok());
    let named = numbers.filter(|pid| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(&directory)
    });
    named.filter(|pid| runs(*pid)).collect()
}

/// Waits until so many processes of this rig run, or the one that starts them has ended.
fn await_processes(rig: &Rig, starter: &mut Child, count: usize) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while processes_of(rig).len() < count && starter.try_wait().is_ok_and(|end| end.is_none()) {
        assert!(Instant::now() < deadline, "fewer than {count} processes");
        std::thread::yield_now();
    }
}

/// What is left below the directory for temporary files of a rig.
fn left_in(rig: &Rig) -> Vec<String> {
    let (mut left, mut open) = (Vec::new(), vec![rig.path("tmp")]);
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            left.push(entry.path().display().to_string());
            open.extend(entry.file_type().is_ok_and(|kind| kind.is_dir()).then(|| entry.path()));
        }
    }
    left
}

#[test]
fn no_node_survives_whenever_its_starter_is_interrupted_or_killed() {
    let rig = Rig::new();
    std::fs::create_dir_all(rig.path("tmp")).expect("a directory");
    // What starts processes is the same in each, and how each ends them is its own.
    let starters: [(&str, &[usize]); 3] = [
        ("up --ephemeral --base-port 0", &[0, 1, 3, 4]),
        ("bench kv --for 60s", &[1, 4]),
        ("chaos run --kills 100", &[1, 4]),
    ];
    for (line, counts) in starters {
        for count in counts.iter().copied() {
            for signal in [Signal::INT, Signal::KILL] {
                let mut command = rig.command(line);
                command.env("TMPDIR", rig.path("tmp")).stdout(Stdio::null()).stderr(Stdio::null());
                let mut starter = command.spawn().expect("the binary starts");
                await_processes(&rig, &mut starter, count);
                let ended =
                    if count == 0 { end_early(&mut starter, signal) } else { end(&mut starter, signal) };
                await_end(&processes_of(&rig));
                // A process that has not come to hear signals yet ends by the signal itself.
                let heard = signal == Signal::INT && ended.is_some();
                assert!(ended.is_none() || ended == Some(130), "{line}: {ended:?} at {count} processes");
                assert!(heard || signal == Signal::KILL || count == 0, "{line}: {count} processes");
                if heard {
                    assert_eq!(left_in(&rig), Vec::<String>::new(), "{line}: {count} processes");
                }
                drop(std::fs::remove_dir_all(rig.path("tmp")));
                std::fs::create_dir_all(rig.path("tmp")).expect("a directory");
            }
        }
    }
}

#[test]
fn a_detached_cluster_outlives_its_up() {
    let rig = Deployed(Rig::new());
    let up = rig.json("up --dir cluster --nodes 1 --base-port 0 --detach");
    assert_eq!(rig.json("why")["cause"], "healthy");
    assert!(processes(&up).iter().all(|pid| runs(*pid)));
}

#[test]
fn a_start_that_is_interrupted_ends_what_it_started() {
    let rig = Deployed(Rig::new());
    rig.ok("up --dir cluster --base-port 0 --detach");
    rig.ok("down");
    // A node that cannot start keeps the others from becoming ready, so the start goes on until it is interrupted.
    let config = rig.path("cluster/n3/node.toml");
    std::fs::write(&config, read(&config) + "\n[storage]\ndisk_reserve_bytes = \"1048576Gi\"\n")
        .expect("a file");
    let mut up = rig.command("up --dir cluster --timeout 600s").spawn().expect("the binary starts");
    let record = rig.path("cluster/deployment.json");
    let deadline = Instant::now() + Duration::from_secs(60);
    let started = loop {
        let text = std::fs::read_to_string(&record).unwrap_or_default();
        let told: Value = serde_json::from_str(&text).unwrap_or_default();
        if told["nodes"].as_array().is_some_and(|nodes| nodes.len() == 4) {
            break processes(&told);
        }
        assert!(Instant::now() < deadline && up.try_wait().is_ok_and(|end| end.is_none()), "{text}");
    };
    assert_eq!(end(&mut up, Signal::INT), Some(130));
    assert!(started.iter().all(|pid| !runs(*pid)));
    assert!(!record.exists());
}

#[test]
fn a_taken_port_is_refused_with_its_owner_and_nothing_starts() {
    let rig = Deployed(Rig::new());
    rig.ok("up --dir cluster --nodes 1 --base-port 0 --detach");
    rig.ok("down");
    let ports = synod_config::Ports::read(&rig.path("cluster/ports.json")).expect("it was written");
    let port = ports.nodes[0].ports[&synod_config::Service::Resp];
    let listener = std::net::TcpListener::bind(("127.0.0.1", port)).expect("the node is gone");
    let refusal = rig.refused("up --dir cluster --detach", "SYN-2004", 4);
    assert!(refusal.contains(&format!("process {} (", std::process::id())), "{refusal}");
    drop(listener);
}

#[test]
fn a_second_up_of_one_directory_goes_on_with_its_data() {
    let rig = Deployed(Rig::new());
    rig.ok("up --dir cluster --nodes 1 --base-port 0 --detach");
    rig.ok("down");
    let genesis = read(&rig.path("cluster/genesis.toml"));
    let up = rig.json("up --dir cluster --detach");
    assert_eq!(up["context"], "main");
    assert_eq!(read(&rig.path("cluster/genesis.toml")), genesis);
    let wal = rig.json("node inspect wal --data cluster/n0");
    assert_eq!(wal["damaged_lanes"], 0);
}

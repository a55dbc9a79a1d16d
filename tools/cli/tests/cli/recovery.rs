//! Nodes whose data is damaged, foreign or newer than the program: what they do, what they say, how they come back.

use crate::rig::{Rig, read};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};
use synod_hotstuff::Record;
use synod_journal::record::{Decoded, HEADER_BYTES, Kind, decode};
use synod_journal::segment::{self, Header, PAGE_BYTES};
use synod_wire::{Bytes, Limits, Wire as _};

/// What a wait may take.
const PATIENCE: Duration = Duration::from_secs(90);

/// A cluster that ends with the test, and the node that the test started by hand.
struct Broken(Rig, Option<Child>);

impl Drop for Broken {
    fn drop(&mut self) {
        if let Some(child) = &mut self.1 {
            drop(child.kill());
            drop(child.wait());
        }
        drop(self.0.command("down --dir cluster").output());
    }
}

fn kill(pid: &Value) {
    let pid = pid.as_i64().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
    kill_process(pid.expect("a process id"), Signal::KILL).expect("it is ours");
}

/// Waits until `held`, and does `meanwhile` in between.
fn until(what: &str, mut meanwhile: impl FnMut(), mut held: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !held() {
        assert!(Instant::now() < deadline, "{what}");
        meanwhile();
        std::thread::yield_now();
    }
}

/// Waits until nobody holds the lock of a journal.
fn is_let_go(wal: &Path) {
    until(
        "the killed node holds its lock",
        || {},
        || {
            synod_journal::OsDisk::open(wal)
                .is_ok_and(|mut disk| synod_journal::Disk::lock(&mut disk).is_ok_and(|held| held.is_none()))
        },
    );
}

fn segments(wal: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(wal).expect("the journal's directory").flatten();
    let named = entries.filter(|entry| entry.file_name().to_str().and_then(segment::number_of).is_some());
    named.map(|entry| entry.path()).collect()
}

/// Offsets of the bodies of safety records in a segment.
fn promises(bytes: &[u8]) -> Vec<usize> {
    let header = Header::decode(bytes).expect("a header");
    let mut at = usize::try_from(segment::data_at(header.lanes)).expect("it fits");
    let mut found = Vec::new();
    while let Some(Decoded::Record(record)) = bytes.get(at..).map(|rest| decode(header.seed(), rest)) {
        let body = record.body.get(1..).map(Bytes::copy_from_slice).unwrap_or_default();
        let safety = matches!(Record::decode(body, &Limits::default()), Ok(Record::Safety(_)));
        if record.head.kind == Kind::Record && record.head.lane == 0 && safety {
            found.push(at + HEADER_BYTES);
        }
        at += record.size;
    }
    found
}

/// Flips a byte in an old safety record, with thousands of synced bytes behind it, and bytes of both slots of the lane.
fn damage(wal: &Path) {
    let mut done = false;
    for path in segments(wal) {
        let mut bytes = std::fs::read(&path).expect("a segment");
        let found = promises(&bytes);
        let Some(body) = found.get(found.len() / 2) else { continue };
        bytes[body + 9] ^= 0x10;
        let page = usize::try_from(PAGE_BYTES).expect("it fits");
        for slot in 1..=2 {
            bytes[slot * page..][..64].iter_mut().for_each(|byte| *byte ^= 0xff);
        }
        std::fs::write(&path, bytes).expect("a file of ours");
        done = true;
    }
    assert!(done, "no safety record was found");
}

#[test]
fn a_node_whose_vote_record_is_damaged_listens_says_so_and_rejoins() {
    let mut broken = Broken(Rig::new(), None);
    let up = broken.0.json("up --dir cluster --base-port 0 --detach");
    for number in 0..20 {
        broken.0.ok(&format!("kv put before{number} v{number}"));
    }
    kill(&up["nodes"][2]["pid"]);
    let data = broken.0.path("cluster/n2/data/wal");
    is_let_go(&data);
    damage(&data);

    let log = broken.0.path("n2.log");
    let mut command = broken.0.command("node run --data cluster/n2");
    let node = command.stderr(File::create(&log).expect("a file")).spawn().expect("the binary starts");
    broken.1 = Some(node);
    until("it does not say what it does", || {}, || read(&log).contains("this node votes for nothing"));
    let text = read(&log);
    assert!(text.contains("SYN-5001") && text.contains("the journal is damaged"), "{text}");
    assert!(!text.contains("rejoined"), "an idle cluster commits nothing that readmits it: {text}");
    let mut why = Value::Null;
    until(
        "`why` does not name it",
        || {},
        || {
            why = serde_json::from_str(&broken.0.run("why --json").out).unwrap_or_default();
            why["cause"].as_str().is_some_and(|cause| cause.contains("n2 is not ready"))
                && why["cause"].as_str().is_some_and(|cause| cause.contains("its promises are lost"))
        },
    );
    let status = broken.0.json("status");
    assert_eq!(
        (&status["nodes"][2]["state"], &status["quorum_have"]),
        (&"not ready".into(), &3.into()),
        "{status}"
    );

    // Work brings the commit that none of its lost promises can touch.
    let mut number = 0;
    let mut work = || {
        number += 1;
        broken.0.ok(&format!("kv put during{number} v"));
    };
    until("it does not rejoin", &mut work, || read(&log).contains("rejoined: this node votes again"));
    until("it is not ready", &mut work, || broken.0.run("why").code == 0);

    // With another one gone its vote is needed.
    kill(&up["nodes"][1]["pid"]);
    broken.0.ok("kv put after v");
    assert_eq!(broken.0.json("kv get before7")["value"], "v7");
}

#[test]
fn a_node_that_is_started_on_an_older_copy_of_its_data_ends_with_exit_code_9() {
    let mut broken = Broken(Rig::new(), None);
    let up = broken.0.json("up --dir cluster --base-port 0 --detach");
    broken.0.ok("kv put before v");
    kill(&up["nodes"][2]["pid"]);
    let data = broken.0.path("cluster/n2/data");
    is_let_go(&data.join("wal"));
    broken.0.shell("cp -a cluster/n2/data older");
    let log = File::create(broken.0.path("n2.log")).expect("a file");
    let node = broken.0.command("node run --data cluster/n2").stderr(log).spawn();
    broken.1 = Some(node.expect("the binary starts"));
    // With another one gone its votes are needed.
    kill(&up["nodes"][1]["pid"]);
    for number in 0..20 {
        broken.0.ok(&format!("kv put after{number} v"));
    }
    let mut node = broken.1.take().expect("it was started");
    node.kill().expect("it is ours");
    node.wait().expect("it ended");
    is_let_go(&data.join("wal"));

    std::fs::remove_dir_all(&data).expect("a directory of ours");
    std::fs::rename(broken.0.path("older"), &data).expect("a directory of ours");
    let ended = broken.0.run("node run --data cluster/n2");
    assert_eq!(ended.code, 9, "{}", ended.err);
    let error = ended.err.lines().find(|line| line.starts_with("error SYN-5005: "));
    assert!(error.is_some_and(|line| line.contains("holds a statement of this node")), "{}", ended.err);
}

#[test]
fn exchanged_disks_and_newer_formats_are_refused() {
    let rig = Rig::new();
    rig.ok("init --name shop --nodes 4 --out cluster");
    std::fs::rename(rig.path("cluster/n0/data"), rig.path("kept")).expect("a directory of ours");
    std::fs::rename(rig.path("cluster/n1/data"), rig.path("cluster/n0/data")).expect("a directory of ours");
    let text = rig.refused("node run --data cluster/n0", "SYN-1108", 3);
    assert!(text.contains("another member"), "{text}");
    std::fs::rename(rig.path("kept"), rig.path("cluster/n1/data")).expect("a directory of ours");
    rig.refused("node run --data cluster/n1", "SYN-1108", 3);

    std::fs::write(rig.path("cluster/n2/data/VERSION"), "2\n").expect("a file of ours");
    let text = rig.refused("node run --data cluster/n2", "SYN-1110", 3);
    assert!(text.contains("format 2"), "{text}");
}

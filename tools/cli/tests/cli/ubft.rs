//! Clusters of uBFT as processes: replicas, memory nodes, what is asked of them, and what of them may be killed.

use crate::rig::Rig;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::time::{Duration, Instant};

/// Verbs that need a memory node.
pub(crate) const OF_UBFT: &[&str] = &["memnode", "memnode run", "memnode status"];

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

impl Deployed {
    fn up(more: &str) -> (Self, Value) {
        let rig = Self(Rig::new());
        let up = rig.json(&format!("up --kind ubft --dir cluster --base-port 0 --detach {more}"));
        (rig, up)
    }

    /// Kills the process of a node as a crash would.
    fn kill(&self, up: &Value, name: &str) {
        let nodes = up["nodes"].as_array().expect("a list of nodes");
        let node = nodes.iter().find(|node| node["node"] == name).expect("a node of the cluster");
        let pid = node["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        kill_process(pid.expect("a number"), Signal::KILL).expect("it is ours");
    }

    fn set(&self, key: &str, value: &str) {
        self.ok(&format!("kv put {key} {value} --timeout 60s"));
    }

    fn get(&self, key: &str) -> Value {
        self.json(&format!("kv get {key} --timeout 60s"))["value"].clone()
    }

    /// Asks for the status until it is so.
    fn until(&self, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let status = self.json("status");
            if is_so(&status) {
                return status;
            }
            assert!(Instant::now() < deadline, "{what}: {status}");
        }
    }

    /// The replicas that answer have executed equally many slots, this many of them, and have equal states.
    fn agree(&self, count: usize) {
        let standing = |node: &Value| (node["executed"].clone(), node["digest"].clone());
        self.until("one state", |status| {
            let there: Vec<_> =
                rows(status, "nodes").iter().filter(|node| node["state"] == "ready").collect();
            there.len() == count
                && there[0]["executed"].as_u64() > Some(0)
                && there[0]["digest"].is_string()
                && there.iter().all(|node| standing(node) == standing(there[0]))
        });
    }
}

fn rows<'a>(status: &'a Value, list: &str) -> &'a [Value] {
    status[list].as_array().expect("a list")
}

fn state<'a>(status: &'a Value, list: &str, column: &str, name: &str) -> &'a Value {
    let found = rows(status, list).iter().find(|row| row[column] == name);
    &found.expect("a row of this name")["state"]
}

#[test]
#[ignore = "now and then an operation has no outcome: docs/adr/open.md, clusters of uBFT"]
fn a_cluster_of_ubft_goes_on_without_a_memory_node_and_without_a_follower() {
    let (rig, up) = Deployed::up("");
    assert_eq!((&up["f"], rows(&up, "nodes").len()), (&1.into(), 6));
    rig.set("before", "1");
    let status = rig.until("three memory nodes at each replica", |status| {
        rows(status, "nodes").iter().all(|node| node["memory_nodes"] == 3)
    });
    assert_eq!(
        (&status["kind"], &status["quorum_need"], &status["quorum_have"]),
        (&"ubft".into(), &2.into(), &3.into())
    );
    assert!(rows(&status, "memory_nodes").iter().all(|node| node["state"] == "ready" && node["boot"] == 1));
    rig.agree(3);

    rig.kill(&up, "m1");
    rig.set("without_memory", "2");
    let status = rig.until("the loss is seen", |status| {
        rows(status, "nodes").iter().all(|node| node["memory_nodes"] == 2)
    });
    assert_eq!(state(&status, "memory_nodes", "memory_node", "m1"), "unreachable");
    rig.agree(3);

    let follower = if status["leader"] == "n2" { "n1" } else { "n2" };
    rig.kill(&up, follower);
    rig.set("without_follower", "3");
    for (key, value) in [("before", "1"), ("without_memory", "2"), ("without_follower", "3")] {
        assert_eq!(rig.get(key), value, "{key}");
    }
    rig.agree(2);

    // Started again they are there, and believed by nobody before they are let in again.
    rig.ok("restart m1");
    let again = rig.json("memnode status");
    assert_eq!(state(&again, "memory_nodes", "memory_node", "m1"), "excluded");
    drop(rig.run(&format!("restart {follower} --timeout 1s")));
    rig.set("after_restarts", "4");
    assert_eq!(rig.get("after_restarts"), "4");

    // What two replicas agree on goes through the registers of f + 1 memory nodes: with one left nothing is decided.
    rig.kill(&up, "m2");
    rig.refused("kv put never 5 --timeout 3s", "SYN-3501", 7);

    rig.ok("down");
    rig.refused("up --dir cluster", "SYN-3003", 5);
}

#[test]
#[ignore = "now and then an operation has no outcome: docs/adr/open.md, clusters of uBFT"]
fn a_cluster_of_ubft_elects_another_leader() {
    let (rig, up) = Deployed::up("");
    rig.set("before", "1");
    let before = rig.until("a leader", |status| status["leader"].is_string());
    let leader = before["leader"].as_str().expect("a name").to_owned();
    rig.kill(&up, &leader);
    rig.set("after", "2");
    assert_eq!((rig.get("before"), rig.get("after")), ("1".into(), "2".into()));
    let after = rig.until("another leader", |status| status["leader"] != before["leader"]);
    assert!(after["view"].as_u64() > before["view"].as_u64(), "{after}");
    rig.agree(2);
}

#[test]
fn what_no_cluster_of_ubft_can_be_made_of_is_refused() {
    let rig = Rig::new();
    for line in [
        "up --kind ubft --nodes 4 --dir cluster",
        "up --kind ubft --nodes 1 --dir cluster",
        "up --kind ubft --memory-nodes 2 --dir cluster",
        "up --memory-nodes 3 --dir cluster",
        "init --name x --kind ubft --nodes 2 --out made",
        "init --name x --kind ubft --member a=127.0.0.1:9000 --out made",
    ] {
        rig.refused(line, "SYN-1001", 2);
    }
    rig.refused("up --placement network --dir cluster", "SYN-1001", 2);
    for placement in ["isolated", "dedicated", "cooperative"] {
        rig.refused(&format!("up --kind ubft --placement {placement} --dir cluster"), "SYN-3003", 5);
    }
    assert!(!rig.path("cluster").exists(), "nothing was made");
    let made = rig.json("init --name x --kind ubft --nodes 5 --memory-nodes 1 --out made");
    assert_eq!((&made["f"], rows(&made, "memory_nodes").len()), (&2.into(), 1));
    // Each serves in its own role.
    rig.refused("node run --data made/m0", "SYN-1107", 3);
    rig.refused("memnode run --data made/n0", "SYN-1107", 3);
    rig.refused("broker run --data made/m0", "SYN-1107", 3);
}

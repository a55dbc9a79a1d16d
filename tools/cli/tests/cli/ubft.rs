//! Clusters of uBFT as processes: replicas, memory nodes, what is asked of them, and what of them may be killed.

use crate::rig::Rig;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::time::{Duration, Instant};

/// Verbs that need a memory node.
pub(crate) const OF_UBFT: &[&str] = &["memnode", "memnode run", "memnode status"];

/// Ends the deployment of a rig even when an assertion fails first.
pub(crate) struct Deployed(Rig);

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
    pub(crate) fn up(more: &str) -> (Self, Value) {
        Self::of(&format!("up --kind ubft --dir cluster --base-port 0 --detach {more}"))
    }

    /// The deployment that this line starts in `cluster/`.
    pub(crate) fn of(line: &str) -> (Self, Value) {
        let rig = Self(Rig::new());
        let up = rig.json(line);
        (rig, up)
    }

    /// Kills the process of a node as a crash would: the one that the deployment runs now.
    pub(crate) fn kill(&self, name: &str) {
        kill_process(Pid::from_raw(self.pid(name)).expect("a number"), Signal::KILL).expect("it is ours");
    }

    /// The process of a node that the deployment runs now.
    pub(crate) fn pid(&self, name: &str) -> i32 {
        let record = crate::rig::read(&self.path("cluster/deployment.json"));
        let record: Value = serde_json::from_str(&record).expect("a record");
        let node =
            rows(&record, "nodes").iter().find(|node| node["name"] == name).expect("a node of the cluster");
        node["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok()).expect("a number")
    }

    fn set(&self, key: &str, value: &str) {
        self.ok(&format!("kv put {key} {value} --timeout 60s"));
    }

    fn get(&self, key: &str) -> Value {
        self.json(&format!("kv get {key} --timeout 60s"))["value"].clone()
    }

    /// Asks for the status until it is so.
    pub(crate) fn until(&self, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
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
    pub(crate) fn agree(&self, count: usize) {
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

pub(crate) fn rows<'a>(status: &'a Value, list: &str) -> &'a [Value] {
    status[list].as_array().expect("a list")
}

pub(crate) fn state<'a>(status: &'a Value, list: &str, column: &str, name: &str) -> &'a Value {
    let found = rows(status, list).iter().find(|row| row[column] == name);
    &found.expect("a row of this name")["state"]
}

/// The members of a cluster are taken away and come back, one after the other, and finally its leader goes.
#[test]
fn a_cluster_of_ubft_goes_on_without_some_takes_them_in_again_and_elects_another_leader() {
    let (rig, up) = Deployed::up("");
    assert_eq!((&up["f"], rows(&up, "nodes").len()), (&1.into(), 6));
    rig.set("before", "1");
    let status = rig.until("three memory nodes at each replica", |status| {
        rows(status, "nodes").iter().all(|node| node["memory_nodes"] == 3)
    });
    let figures = ["kind", "quorum_need", "quorum_have", "epoch"].map(|name| status[name].clone());
    let expected: [Value; 4] = ["ubft".into(), 2.into(), 3.into(), 0.into()];
    assert_eq!(figures, expected);
    assert!(rows(&status, "memory_nodes").iter().all(|node| node["state"] == "ready" && node["boot"] == 1));
    rig.agree(3);

    rig.kill("m1");
    rig.set("without_memory", "2");
    let status = rig.until("the loss is seen", |status| {
        rows(status, "nodes").iter().all(|node| node["memory_nodes"] == 2)
    });
    assert_eq!(state(&status, "memory_nodes", "memory_node", "m1"), "unreachable");

    let follower = if status["leader"] == "n2" { "n1" } else { "n2" };
    rig.kill(follower);
    // Each is a session of its own: none may be left without an outcome.
    for round in 0..6 {
        rig.set("without_follower", &round.to_string());
        assert_eq!(rig.get("without_follower"), round.to_string());
    }
    rig.agree(2);

    // Both come back empty, and are let in again: a replica that is ready takes part in an epoch that lists its new life.
    rig.ok("restart m1 --timeout 120s");
    rig.ok(&format!("restart {follower} --timeout 120s"));
    rig.set("after_restarts", "4");
    let again = rig.until("an epoch that lists them", |status| status["epoch"].as_u64() > Some(0));
    let memory = rows(&again, "memory_nodes");
    assert!(memory.iter().any(|node| node["memory_node"] == "m1" && node["boot"] == 2), "{again}");
    rig.agree(3);

    let before = rig.until("a leader", |status| status["leader"].is_string());
    let leader = before["leader"].as_str().expect("a name");
    rig.kill(leader);
    rig.set("after_leader", "5");
    for (key, value) in
        [("before", "1"), ("without_memory", "2"), ("after_restarts", "4"), ("after_leader", "5")]
    {
        assert_eq!(rig.get(key), value, "{key}");
    }
    let after = rig.until("another leader", |status| status["leader"] != before["leader"]);
    assert!(after["view"].as_u64() > before["view"].as_u64(), "{after}");
    rig.agree(2);

    rig.ok("down");
    rig.refused("up --dir cluster", "SYN-3003", 5);
}

#[test]
fn a_cluster_of_ubft_without_a_majority_of_memory_nodes_and_without_a_follower_decides_nothing() {
    let (rig, _) = Deployed::up("");
    rig.set("before", "1");
    ["n2", "m0", "m1"].into_iter().for_each(|name| rig.kill(name));
    let before = rig.json("status");
    rig.refused("kv put never 5 --timeout 2s", "SYN-3501", 7);
    // Those that are left live, and are as they were.
    let after = rig.json("status");
    for (status, name) in [&before, &after].into_iter().flat_map(|status| [(status, "n0"), (status, "n1")]) {
        assert_eq!(state(status, "nodes", "node", name), "ready", "{status}");
    }
    assert_eq!(state(&after, "memory_nodes", "memory_node", "m2"), "ready", "{after}");
    let executed = |status: &Value| rows(status, "nodes").iter().map(|node| node["executed"].as_u64()).max();
    assert_eq!(executed(&before), executed(&after));
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

#[test]
fn the_demo_of_ubft_passes_and_leaves_nothing() {
    let rig = Rig::new();
    let told = rig.json("demo ubft --headless");
    let scenes = rows(&told, "scenes");
    let names: Vec<&str> = scenes.iter().filter_map(|scene| scene["name"].as_str()).collect();
    let expected = ["ready", "write", "memory", "follower", "recover", "leader", "return", "audit"];
    assert_eq!(names, expected);
    assert!(scenes.iter().all(|scene| scene["ok"] == true), "{told}");
    // Something was written while each was away, and nothing was lost.
    let of = |name: &str| scenes.iter().find(|scene| scene["name"] == name).expect("a scene");
    for name in ["memory", "follower", "leader"] {
        assert!(of(name)["ops"].as_u64() > Some(0), "{told}");
    }
    assert!(of("audit")["note"].as_str().is_some_and(|note| note.starts_with("0 of ")), "{told}");
    rig.refused("demo ubft --nodes 5", "SYN-1001", 2);
    rig.refused("demo hotstuff --nodes 3", "SYN-1001", 2);
}

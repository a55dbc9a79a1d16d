//! Chop Chop whose servers uBFT orders, as processes: what of them may be killed, and that each message is delivered once all the same.

use crate::rig::Rig;
use crate::ubft::{Deployed, rows, state};
use serde_json::Value;
use std::sync::mpsc;
use std::thread;

/// Payments that are made before something is killed, and at least as many after it.
const PAYMENTS: usize = 3;

/// Pays 1 to client 1, checks the receipt off line, and gives its height.
fn pay(rig: &Rig) -> u64 {
    let paid = rig.json("payments transfer 1 1 --home alice --timeout 120s");
    assert_eq!((&paid["outcome"], &paid["result"]), (&"delivered".into(), &"paid".into()), "{paid}");
    let checked = rig.json(&format!("client verify {}", paid["receipt"].as_str().expect("a receipt")));
    assert_eq!(checked["height"], paid["height"], "{checked}");
    paid["height"].as_u64().expect("a height")
}

/// What each of the two clients has, as f + 1 servers state it from a height on.
fn balances(rig: &Rig, since: u64) -> (u64, u64) {
    let of = |who: &str| {
        let told = rig.json(&format!("payments balance --home {who} --since {since} --timeout 120s"));
        told["balance"].as_u64().expect("a balance")
    };
    (of("alice"), of("bob"))
}

/// Pays again and again while something is done, and a few times after it; gives the number of payments and the last height.
fn paying(rig: &Rig, meanwhile: impl FnOnce()) -> (u64, u64) {
    let (under_way, begun) = mpsc::channel();
    let (say, done) = mpsc::channel();
    thread::scope(|scope| {
        let payer = scope.spawn(move || {
            let (mut paid, mut left, mut height) = (0, None, 0);
            while left != Some(0) {
                height = pay(rig).max(height);
                paid += 1;
                under_way.send(paid).expect("they are counted");
                left = match left {
                    Some(left) => Some(left - 1),
                    None => done.try_recv().ok().map(|()| PAYMENTS),
                };
            }
            (paid, height)
        });
        for _ in 0..PAYMENTS {
            begun.recv().expect("payments go on");
        }
        meanwhile();
        say.send(()).expect("payments go on");
        payer.join().expect("every payment is delivered")
    })
}

#[test]
fn each_payment_over_ubft_is_delivered_once_though_a_server_a_memory_node_and_then_the_leader_are_killed() {
    let (rig, up) = Deployed::of("up --kind chop --ordering ubft --dir cluster --base-port 0 --detach");
    assert_eq!((&up["f"], rows(&up, "nodes").len()), (&1.into(), 7));
    for (number, who) in ["alice", "bob"].into_iter().enumerate() {
        assert_eq!(rig.json(&format!("client signup main --home {who} --timeout 120s"))["id"], number);
    }
    // Accounts open with the first batch of operations.
    let first = pay(&rig);
    let (alice, bob) = balances(&rig, first);

    let status = rig.until("a leader", |status| status["leader"].is_string());
    let follower = if status["leader"] == "n2" { "n1" } else { "n2" };
    let (paid, height) = paying(&rig, || {
        rig.kill(follower);
        rig.kill("m1");
    });
    assert!(paid >= 2 * PAYMENTS as u64, "{paid}");
    assert_eq!(balances(&rig, height), (alice - paid, bob + paid));

    // Both come back: the server is ready in an epoch that lists its new life.
    rig.ok(&format!("restart {follower} --timeout 120s"));
    rig.ok("restart m1 --timeout 120s");
    let status = rig.until("an epoch that lists them", |status| {
        status["epoch"].as_u64() > Some(0) && status["quorum_have"] == 3
    });
    assert_eq!(state(&status, "memory_nodes", "memory_node", "m1"), "restarted", "{status}");

    // Without the leader nothing is decided and no balance is believed but by the one that came back.
    let before = rig.until("a leader", |status| status["leader"].is_string());
    let leader = before["leader"].as_str().expect("a name");
    let lost = if leader == follower { "n0" } else { leader };
    let (more, height) = paying(&rig, || rig.kill(lost));
    assert_eq!(balances(&rig, height), (alice - paid - more, bob + paid + more));

    rig.ok("down --dir cluster");
    rig.refused("up --dir cluster", "SYN-3003", 5);
}

#[test]
fn auctions_and_pixels_run_over_ubft_as_payments_do() {
    for app in ["auction", "pixels"] {
        let line =
            format!("up --kind chopchop --ordering ubft --app {app} --dir cluster --base-port 0 --detach");
        let (rig, _) = Deployed::of(&line);
        for who in ["alice", "bob"] {
            rig.ok(&format!("client signup main --home {who} --timeout 120s"));
        }
        if app == "pixels" {
            let painted = rig.json("pixel paint 3 4 ff8800 --home alice --timeout 120s");
            let shown = rig.json(&format!("pixel show 3 4 --since {} --timeout 120s", painted["height"]));
            assert_eq!((&painted["result"], &shown["colour"]), (&"painted".into(), &"ff8800".into()));
        } else {
            // Accounts open with the first batch of operations, whatever comes of those.
            rig.refused("auction take 0 --home alice --timeout 120s", "SYN-3304", 5);
            rig.ok("auction bid 1 10 --home alice --timeout 120s");
            let sold = rig.json("auction take 1 --home bob --timeout 120s");
            let shown = rig.json(&format!("auction show 1 --since {} --timeout 120s", sold["height"]));
            assert_eq!((&sold["result"], &shown["owner"]), (&"sold".into(), &0.into()));
        }
    }
}

#[test]
fn what_no_cluster_of_chop_chop_over_ubft_can_be_made_of_is_refused() {
    let rig = Rig::new();
    for line in [
        "up --kind chopchop --ordering ubft --nodes 4 --dir cluster",
        "up --kind chopchop --ordering ubft --memory-nodes 2 --dir cluster",
        "up --kind chopchop --memory-nodes 3 --dir cluster",
        "up --kind chopchop --ordering solo --dir cluster",
        "up --kind ubft --ordering ubft --dir cluster",
        "up --ordering hotstuff --dir cluster",
        "init --name x --kind chopchop --ordering ubft --nodes 2 --out made",
        "init --name x --kind chopchop --ordering ubft --member a=127.0.0.1:9000 --out made",
    ] {
        rig.refused(line, "SYN-1001", 2);
    }
    assert!(!rig.path("cluster").exists() && !rig.path("made").exists(), "nothing was made");
    let made =
        rig.json("init --name x --kind chopchop --ordering ubft --nodes 5 --memory-nodes 1 --out made");
    assert_eq!(made["f"], Value::from(2));
    // Each serves in its own role.
    rig.refused("node run --data made/m0", "SYN-1107", 3);
    rig.refused("memnode run --data made/n0", "SYN-1107", 3);
    rig.refused("broker run --data made/m0", "SYN-1107", 3);
}

//! Payments without an order as users meet them: accounts, payments once per id, nodes that are killed, books that are equal.

use crate::rig::{Rig, verbs};
use crate::surface::{assert_one_object, example};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::time::{Duration, Instant};

/// Verbs that need a cluster of payments, in the order in which their examples run.
pub(crate) const OF_PAY: &[&str] = &[
    "pay account new",
    "pay account",
    "pay account ls",
    "pay account show",
    "pay faucet",
    "pay send",
    "pay",
    "pay status",
    "pay history",
];

/// A payment system that goes with its test.
struct Deployed {
    rig: Rig,
    up: Value,
}

impl Drop for Deployed {
    fn drop(&mut self) {
        drop(self.rig.command("down").output());
    }
}

impl Deployed {
    fn new() -> Self {
        let rig = Rig::new();
        let up = rig.json("up --kind astro --ephemeral --base-port 0 --detach");
        Self { rig, up }
    }

    fn kill(&self, node: usize) {
        let pid = self.up["nodes"][node]["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok());
        let pid = pid.and_then(Pid::from_raw).expect("a process");
        kill_process(pid, Signal::KILL).expect("it runs");
    }

    /// The accounts as one node states them.
    fn accounts(&self, node: usize) -> Vec<Value> {
        let told = self.rig.json(&format!("pay account ls --node n{node}"));
        told["accounts"].as_array().expect("a list").clone()
    }

    /// Waits until every node knows an account: others than its institution hear of it a moment later.
    fn known(&self, account: &str) {
        let deadline = Instant::now() + Duration::from_secs(60);
        let knows = |node: usize| self.accounts(node).iter().any(|row| row["id"] == account);
        while !(0..4).all(knows) {
            assert!(Instant::now() < deadline, "{account} is not known everywhere");
        }
    }

    /// What one account can spend, as its institution states it.
    fn available(&self, account: &str) -> String {
        let told = self.rig.json(&format!("pay account show {account}"));
        told["available"].as_str().expect("a sum").to_owned()
    }

    /// The accounts once every node states the same.
    fn equal_books(&self) -> Vec<Value> {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let books: Vec<Vec<Value>> = (0..4).map(|node| self.accounts(node)).collect();
            if books.iter().all(|book| *book == books[0]) {
                return books[0].clone();
            }
            assert!(Instant::now() < deadline, "books differ: {books:?}");
        }
    }
}

fn sum(book: &[Value], column: &str) -> u128 {
    let of = |row: &Value| row[column].as_str().and_then(|text| text.parse::<u128>().ok()).expect("a sum");
    book.iter().map(of).sum()
}

#[test]
fn payments_happen_once_per_id_and_survive_nodes_that_are_killed() {
    let deployed = Deployed::new();
    let rig = &deployed.rig;
    for (node, id) in [("n0", "0-0-2"), ("n1", "0-1-2"), ("n2", "0-2-2")] {
        assert_eq!(rig.json(&format!("pay account new --node {node}"))["id"], id);
        deployed.known(id);
    }
    rig.ok("pay faucet 0-0-2 --amount 1000");
    let paid = rig.json("pay send --from 0-0-2 --to 0-1-2 --amount 5 --id 7 --until stable");
    assert_eq!((&paid["state"], &paid["n"]), (&"stable".into(), &"1".into()), "{paid}");
    let again = rig.json("pay send --from 0-0-2 --to 0-1-2 --amount 5 --id 7");
    assert_eq!(again["digest"], paid["digest"], "the same order is the same payment");
    rig.refused("pay send --from 0-0-2 --to 0-1-2 --amount 6 --id 7", "SYN-3116", 5);
    rig.refused("pay send --from 0-0-2 --to 0-1-2 --amount 996", "SYN-3115", 5);
    rig.refused("pay send --from 0-0-2 --to 0-1-9 --amount 1", "SYN-3106", 5);
    rig.refused("pay send --from 0-0-9 --to 0-1-2 --amount 1", "SYN-3105", 5);
    rig.refused("pay send --from 0-0-2 --to 0-0-2 --amount 1", "SYN-3110", 5);
    rig.refused("pay send --from 0-0-2 --to 0-1-2 --amount 0", "SYN-3107", 5);
    rig.refused("pay send --from 0-0-2 --to 0-1-2 --amount 1 --ledger 9", "SYN-3109", 5);
    rig.refused("pay account show 0-1-77", "SYN-3132", 5);
    rig.refused("pay status 8", "SYN-3132", 5);
    assert_eq!(deployed.available("0-0-2"), "995", "what is refused takes nothing");

    // Any one node may go; only the customers of its own institution wait.
    deployed.kill(3);
    for _ in 0..3 {
        rig.ok("pay send --from 0-0-2 --to 0-2-2 --amount 10");
    }
    rig.ok("restart n3");
    deployed.kill(0);
    rig.refused("pay send --from 0-0-2 --to 0-1-2 --amount 1", "SYN-2001", 4);
    rig.ok("pay send --from 0-2-2 --to 0-1-2 --amount 3");
    rig.ok("restart n0");
    let known = rig.json("pay send --from 0-0-2 --to 0-1-2 --amount 5 --id 7");
    assert_eq!(known["digest"], paid["digest"], "an id is known after a crash");
    rig.refused("pay send --from 0-0-2 --to 0-2-2 --amount 5 --id 7", "SYN-3116", 5);
    rig.ok("pay send --from 0-0-2 --to 0-1-2 --amount 1");

    let history = rig.json("pay history 0-0-2");
    let amounts: Vec<&str> = history["transfers"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|row| row["amount"].as_str().expect("a sum"))
        .collect();
    assert_eq!(amounts, ["1000", "5", "10", "10", "10", "1"], "nothing is lost and nothing doubled");
    let book = deployed.equal_books();
    assert_eq!(sum(&book, "credits"), sum(&book, "debits"), "money is neither made nor lost");
    assert_eq!(sum(&book, "credits"), 1_000 + 5 + 30 + 3 + 1);
    let row = |id: &str| book.iter().find(|row| row["id"] == id).expect("an account").clone();
    assert_eq!(row("0-0-2")["available"], "964");
    assert_eq!((&row("0-1-2")["available"], &row("0-2-2")["available"]), (&"9".into(), &"27".into()));
    let status = rig.json("status");
    assert_eq!((&status["kind"], &status["quorum_have"]), (&"astro".into(), &4.into()), "{status}");
}

#[test]
fn the_examples_of_payments_run_on_a_cluster_of_payments() {
    let deployed = Deployed::new();
    let rig = &deployed.rig;
    rig.ok("pay account new --node n1");
    deployed.known("0-1-2");
    let mut run = 0;
    for verb in OF_PAY {
        let (_, help) = verbs().iter().find(|(known, _)| known == verb).expect("a verb");
        let line = example(help);
        if *verb == "pay status" {
            rig.ok("pay send --from 0-0-1 --to 0-1-1 --amount 5 --id 7");
        }
        assert_one_object(&line, &rig.ok(&format!("{line} --json")));
        run += 1;
    }
    assert_eq!(run, OF_PAY.len());
    // What another protocol has is refused with its reason.
    rig.refused("kv get a", "SYN-3003", 5);
}

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
    "pay account evidence",
    "pay limit",
    "pay account rekey",
    "pay account move",
    "pay faucet",
    "pay send",
    "pay",
    "pay status",
    "pay receipt",
    "pay multi",
    "pay hold",
    "pay post",
    "pay void",
    "pay history",
    "pay changes",
    "pay watch",
    "pay cuts",
    "pay proof balance",
    "pay proof liabilities",
    "pay proof absence",
    "pay proof",
    "pay statement",
    "pay lanes",
    "pay bundles",
    "pay resolve",
    "pay freeze",
    "pay export",
    "pay audit",
    "pay wallet new",
    "pay wallet",
    "pay wallet show",
    "pay wallet send",
    "pay wallet status",
    "pay wallet multi",
    "pay wallet hold",
    "pay wallet post",
    "pay wallet void",
    "pay wallet move",
    "pay wallet recover",
    "pay wallet close",
    "pay account close",
];

/// Verbs of these whose examples are refused there, with the code.
const REFUSED: [(&str, &str); 3] =
    [("pay account evidence", "SYN-3132"), ("pay resolve", "SYN-3003"), ("pay freeze", "SYN-3003")];

/// A payment system that goes with its test.
pub(crate) struct Deployed {
    pub(crate) rig: Rig,
    pub(crate) up: Value,
}

impl Drop for Deployed {
    fn drop(&mut self) {
        drop(self.rig.command("down").output());
    }
}

impl Deployed {
    pub(crate) fn new() -> Self {
        Self::with("")
    }

    /// With more options of `up`.
    pub(crate) fn with(options: &str) -> Self {
        let rig = Rig::new();
        let up = rig.json(&format!("up --kind astro --ephemeral --base-port 0 --detach {options}"));
        Self { rig, up }
    }

    pub(crate) fn kill(&self, node: usize) {
        let pid = self.up["nodes"][node]["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok());
        let pid = pid.and_then(Pid::from_raw).expect("a process");
        kill_process(pid, Signal::KILL).expect("it runs");
        // It ends a moment later: until then its sockets answer and its data is locked.
        let stat = format!("/proc/{}/stat", pid.as_raw_nonzero());
        // Its first thread may end before one that is syncing does.
        let threads =
            || std::fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero())).map_or(0, Iterator::count);
        let is_there =
            || std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z")) || threads() > 1;
        let deadline = Instant::now() + Duration::from_secs(60);
        while is_there() {
            assert!(Instant::now() < deadline, "n{node} does not end");
            std::thread::yield_now();
        }
    }

    /// The accounts as one node states them.
    fn accounts(&self, node: usize) -> Vec<Value> {
        let told = self.rig.json(&format!("pay account ls --node n{node}"));
        told["accounts"].as_array().expect("a list").clone()
    }

    /// Waits until every node knows an account: others than its institution hear of it a moment later.
    pub(crate) fn known(&self, account: &str) {
        let deadline = Instant::now() + Duration::from_secs(60);
        let knows = |node: usize| self.accounts(node).iter().any(|row| row["id"] == account);
        while !(0..4).all(knows) {
            assert!(Instant::now() < deadline, "{account} is not known everywhere");
        }
    }

    /// What the history of an account lists.
    pub(crate) fn kinds(&self, account: &str) -> Vec<String> {
        let history = self.rig.json(&format!("pay history {account}"));
        let rows = history["transfers"].as_array().expect("a list").iter();
        rows.map(|row| row["kind"].as_str().expect("a kind").to_owned()).collect()
    }

    /// What one account can spend, as its institution states it.
    pub(crate) fn available(&self, account: &str) -> String {
        let told = self.rig.json(&format!("pay account show {account}"));
        told["available"].as_str().expect("a sum").to_owned()
    }

    /// The genesis of the cluster.
    pub(crate) fn genesis(&self) -> std::path::PathBuf {
        std::path::Path::new(self.up["directory"].as_str().expect("a path")).join("genesis.toml")
    }

    /// Waits until a node has settled a payment.
    pub(crate) fn settled_at(&self, id: u32, node: usize) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while self.rig.run(&format!("pay status {id} --node n{node}")).code != 0 {
            assert!(Instant::now() < deadline, "payment {id} does not settle at n{node}");
        }
    }

    /// The accounts once every node states the same.
    pub(crate) fn equal_books(&self) -> Vec<Value> {
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

/// Payer, payee, amount and level, as a receipt says.
fn said(receipt: &Value) -> [&str; 5] {
    ["from", "to", "amount", "id", "level"].map(|name| receipt[name].as_str().unwrap_or_default())
}

#[test]
fn a_receipt_is_checked_by_whoever_has_the_genesis_and_nothing_else() {
    let deployed = Deployed::new();
    let rig = &deployed.rig;
    rig.ok("pay account new --node n1");
    deployed.known("0-1-2");
    rig.ok("pay send --from 0-0-1 --to 0-1-2 --amount 5 --id 7 --until stable");
    let taken = rig.json("pay receipt 7 --out 7.receipt");
    let wanted = ["0-0-1", "0-1-2", "5", "7", "stable"];
    assert_eq!(said(&taken), wanted, "{taken}");
    rig.refused("pay receipt 8", "SYN-3132", 5);
    rig.refused("pay receipt 7 --out 7.receipt", "SYN-1101", 3);
    // The payee's institution has the certificate, and others have nothing of it.
    deployed.settled_at(7, 1);
    assert_eq!(said(&rig.json("pay receipt 7 --node n1")), ["0-0-1", "0-1-2", "5", "7", "certified"]);
    deployed.settled_at(7, 2);
    rig.refused("pay receipt 7 --node n2", "SYN-3008", 5);

    // An empty folder, and no cluster to ask.
    let away = Rig::new();
    std::fs::copy(deployed.genesis(), away.path("genesis.toml")).expect("it is there");
    std::fs::copy(rig.path("7.receipt"), away.path("7.receipt")).expect("it was written");
    let checked = away.json("client verify 7.receipt --genesis genesis.toml");
    assert_eq!((said(&checked), &checked["kind"]), (wanted, &"payment".into()), "{checked}");
    for by in ["certified_by", "settled_by"] {
        assert_eq!(checked[by].as_array().map(Vec::len), Some(3), "{checked}");
    }
    let text = crate::rig::read(&away.path("7.receipt"));
    let proof: Value = serde_json::from_str(&text).expect("it is JSON");
    let bytes = proof["bytes"].as_str().expect("digits");
    let mut refused = 0;
    for at in (0..bytes.len()).step_by(bytes.len() / 12) {
        let mut changed = bytes.as_bytes().to_vec();
        changed[at] = if changed[at] == b'0' { b'1' } else { b'0' };
        let changed = String::from_utf8(changed).expect("digits");
        let name = format!("{at}.receipt");
        away.write_private(&name, &text.replace(bytes, &changed));
        let ran = away.run(&format!("client verify {name} --genesis genesis.toml"));
        // The first byte is the format.
        assert_eq!(ran.code, if at == 0 { 3 } else { 8 }, "byte {}: {}", at / 2, ran.err);
        refused += 1;
    }
    assert!(refused > 10);
    // Labels say nothing that the signatures do not.
    away.ok("init --name other --kind astro --nodes 4 --out other");
    let of_other = "client verify 7.receipt --genesis other/genesis.toml";
    let told = away.refused(of_other, "SYN-2101", 3);
    let theirs = told.split(|sign: char| !sign.is_ascii_hexdigit()).filter(|word| word.len() == 64);
    let other = theirs.into_iter().find(|id| proof["cluster"] != *id).expect("the other's id").to_owned();
    let cluster = proof["cluster"].as_str().expect("an id");
    away.write_private("label.receipt", &text.replace(cluster, &other));
    away.refused("client verify label.receipt --genesis other/genesis.toml", "SYN-6003", 8);
    away.write_private("epoch.receipt", &text.replace("\"epoch\": 0", "\"epoch\": 1"));
    away.refused("client verify epoch.receipt --genesis genesis.toml", "SYN-6003", 8);

    // What a node was told is with it after a crash.
    deployed.kill(0);
    rig.ok("restart n0");
    deployed.settled_at(7, 0);
    assert_eq!(said(&rig.json("pay receipt 7 --node n0")), wanted);
}

/// Of hold 8, of verdict 81 over it, and of payment 10 to two.
fn receipts_say_what_they_prove(rig: &Rig) {
    let verdict = rig.json("pay receipt 81");
    assert_eq!(said(&verdict)[..4], ["0-1-2", "", "50", "81"]);
    assert_eq!(verdict["holds"], serde_json::json!(["0-0-2/1"]), "{verdict}");
    let held = rig.json("pay receipt 8");
    assert_eq!((&held["resolver"], &held["expires_at"]), (&"0-1-2".into(), &"0".into()), "{held}");
    let proved = held["proved"].as_str().expect("a sentence");
    assert!(proved.contains("60 aside and pays nothing"), "{proved}");
    let several = rig.json("pay receipt 10");
    assert_eq!(several["legs"], serde_json::json!(["0-1-2=5", "0-2-2=7"]), "{several}");
}

#[test]
fn money_is_held_posted_voided_and_paid_to_several_once_per_id() {
    let deployed = Deployed::new();
    let rig = &deployed.rig;
    for (node, id) in [("n0", "0-0-2"), ("n1", "0-1-2"), ("n2", "0-2-2")] {
        assert_eq!(rig.json(&format!("pay account new --node {node}"))["id"], id);
        deployed.known(id);
    }
    rig.ok("pay faucet 0-0-2 --amount 100");
    let hold = rig.json("pay hold --from 0-0-2 --to 0-1-2 --amount 60 --resolver 0-1-2 --id 8");
    assert_eq!(
        (&hold["kind"], &hold["hold"], &hold["resolver"]),
        (&"hold".into(), &"open".into(), &"0-1-2".into())
    );
    assert_eq!(rig.json("pay account show 0-0-2")["pending"], "60");
    assert_eq!(deployed.available("0-0-2"), "40");
    rig.refused("pay send --from 0-0-2 --to 0-2-2 --amount 41", "SYN-3115", 5);
    rig.refused("pay hold --from 0-0-2 --to 0-1-2 --amount 60 --id 8", "SYN-3116", 5);
    deployed.settled_at(8, 1);
    rig.refused("pay post 8 --by 0-0-2", "SYN-3126", 5);
    rig.refused("pay post 8 --amount 61", "SYN-3127", 5);
    rig.refused("pay post 8 --amount 0", "SYN-3107", 5);
    rig.refused("pay post 77", "SYN-3132", 5);
    rig.refused("pay void 77 --by 0-1-2", "SYN-3124", 5);
    let posted = rig.json("pay post 8 --amount 50 --id 81 --until stable");
    assert_eq!(
        (&posted["kind"], &posted["pending_id"], &posted["amount"]),
        (&"post".into(), &"8".into(), &"50".into())
    );
    let again = rig.json("pay post 8 --amount 50 --id 81");
    assert_eq!(again["digest"], posted["digest"], "the same order is the same entry");
    rig.refused("pay post 8 --amount 49 --id 81", "SYN-3116", 5);
    rig.refused("pay void 8 --id 81", "SYN-3116", 5);
    rig.refused("pay void 8", "SYN-3125", 5);
    deployed.settled_at(81, 0);
    assert_eq!(
        (deployed.available("0-0-2"), deployed.available("0-1-2")),
        ("50".to_owned(), "50".to_owned())
    );
    let decided = rig.json("pay status 8 --node n0");
    assert_eq!((&decided["hold"], &decided["decided_by"]), (&"posted".into(), &"81".into()), "{decided}");

    // The payer decides where nobody else is named.
    rig.ok("pay hold --from 0-0-2 --to 0-2-2 --amount 20 --id 9");
    deployed.settled_at(9, 2);
    rig.refused("pay void 9 --by 0-2-2", "SYN-3126", 5);
    assert_eq!(rig.json("pay void 9 --id 91")["kind"], "void");
    assert_eq!(rig.json("pay status 9 --node n0")["hold"], "voided");
    assert_eq!(deployed.available("0-0-2"), "50");

    let paid = rig.json("pay multi --from 0-0-2 --leg 0-1-2=5 --leg 0-2-2=7 --id 10 --until stable");
    assert_eq!(
        (&paid["kind"], &paid["amount"], paid["legs"].as_array().map(Vec::len)),
        (&"multi".into(), &"12".into(), Some(2))
    );
    rig.refused("pay multi --from 0-0-2 --leg 0-1-2=5 --leg 0-2-2=8 --id 10", "SYN-3116", 5);
    rig.refused("pay multi --from 0-0-2 --leg 0-1-2=5 --leg 0-2-2=34", "SYN-3115", 5);
    let many = " --leg 0-1-2=1".repeat(65);
    rig.refused(&format!("pay multi --from 0-0-2{many}"), "SYN-3128", 5);
    rig.refused("pay multi --from 0-0-2 --leg 0-1-2", "SYN-1001", 2);
    receipts_say_what_they_prove(rig);

    // What was held and decided is in the history of everybody whom it touched.
    assert_eq!(deployed.kinds("0-0-2"), ["pay", "hold", "post", "hold", "void", "multi"]);
    deployed.settled_at(10, 1);
    assert_eq!(deployed.kinds("0-1-2"), ["hold", "post", "multi"]);
    deployed.kill(0);
    rig.ok("restart n0");
    deployed.settled_at(10, 0);
    assert_eq!(rig.json("pay void 9 --id 91")["kind"], "void", "an id is known after a crash");
    let book = deployed.equal_books();
    assert_eq!(sum(&book, "credits"), sum(&book, "debits"), "money is neither made nor lost");
    assert_eq!(sum(&book, "pending"), 0);
}

#[test]
fn a_node_that_asks_for_a_token_is_used_with_it() {
    let rig = Rig::new();
    rig.ok("up --kind astro --nodes 1 --dir bank --base-port 0 --detach");
    rig.ok("down");
    let config = rig.path("bank/n0/node.toml");
    let guarded = crate::rig::read(&config) + "\n[access]\nhttp_token_file = \"token\"\n";
    std::fs::write(config, guarded).expect("the file is writable");
    rig.write_private("bank/n0/token", "0123456789abcdef\n");
    rig.write_private("other", "another\n");
    let up = rig.json("up --dir bank --detach");
    let deployed = Deployed { rig, up };
    let rig = &deployed.rig;
    rig.refused("pay account ls", "SYN-3011", 5);
    rig.refused("pay account ls --token-file other", "SYN-3012", 5);
    let opened = rig.json("pay account new --token-file bank/n0/token");
    assert_eq!(opened["id"], "0-0-2");
    rig.ok("pay send --from 0-0-1 --to 0-0-2 --amount 5 --token-file bank/n0/token");
}

#[test]
fn the_examples_of_payments_run_on_a_cluster_of_payments() {
    let deployed = Deployed::with("--cut-every 300ms");
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
        if *verb == "pay proof balance" {
            let deadline = Instant::now() + Duration::from_secs(60);
            while rig.run("pay proof liabilities").code != 0 {
                assert!(Instant::now() < deadline, "no cut is certified");
            }
        }
        if *verb == "pay audit" {
            rig.ok("pay export --node n1 --out n1.log");
        }
        if *verb == "pay wallet send" {
            let account = rig.json("pay wallet show alice")["account"].clone();
            rig.ok(&format!("pay faucet {} --amount 10", account.as_str().expect("an account")));
        }
        if *verb == "pay wallet void" {
            rig.ok("pay wallet hold alice --to 0-1-1 --amount 1 --id 13");
        }
        if *verb == "pay void" {
            rig.ok("pay hold --from 0-0-1 --to 0-1-1 --amount 5 --id 9");
        }
        run += 1;
        if let Some((_, code)) = REFUSED.iter().find(|(of, _)| of == verb) {
            rig.refused(&line, code, 5);
            continue;
        }
        assert_one_object(&line, &rig.ok(&format!("{line} --json")));
    }
    assert_eq!(run, OF_PAY.len());
    // What another protocol has is refused with its reason.
    rig.refused("kv get a", "SYN-3003", 5);
}

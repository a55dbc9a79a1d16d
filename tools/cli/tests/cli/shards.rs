//! Two shards of a payment system, four processes each, whose customers pay each other.

use crate::pay::Deployed;
use crate::rig::Rig;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Payments of one request of the load; every second one crosses.
const MANY: u32 = 20;
/// How long anything may take on a machine that others use too.
const PATIENCE: Duration = Duration::from_secs(120);
/// The nodes of each shard.
const SHARDS: [[&str; 4]; 2] = [["n0", "n1", "n2", "n3"], ["n4", "n5", "n6", "n7"]];

/// Customers of one institution of each shard, who pay until they are told to end.
#[derive(Default)]
struct Load {
    is_over: AtomicBool,
    rounds: [AtomicU32; 2],
}

/// The account that pays in a shard; its representative is the first node there.
fn payer(shard: usize) -> String {
    format!("{shard}-0-1")
}

impl Load {
    /// Sends requests of many payments, one after the other; gives the ids of those that cross, and of those that do not. What a node
    /// that is killed did not answer is sent again under its id.
    fn pay(&self, rig: &Rig, shard: usize) -> [BTreeSet<u64>; 2] {
        let mut paid = [BTreeSet::new(), BTreeSet::new()];
        while !self.is_over.load(Ordering::Relaxed) {
            let round = self.rounds[shard].load(Ordering::Relaxed);
            let first = u64::try_from(shard + 1).expect("few") * 1_000_000 + u64::from(round * MANY);
            let mut text = "id,from,to,amount\n".to_owned();
            for id in first..first + u64::from(MANY) {
                let stays = usize::try_from(id % 2).expect("0 or 1");
                let to = if stays == 1 { shard } else { 1 - shard };
                writeln!(text, "{id},{},{to}-1-1,3", payer(shard)).expect("a string");
                paid[stays].insert(id);
            }
            let name = format!("{shard}-{round}.csv");
            rig.write_private(&name, &text);
            let told = rig.json(&format!("pay send --file {name} --timeout 120s"));
            assert_eq!(told["paid"], MANY, "{told}");
            self.rounds[shard].fetch_add(1, Ordering::Relaxed);
        }
        paid
    }

    /// Waits until each payer has made one request more than it had begun.
    fn goes_on(&self) {
        let deadline = Instant::now() + PATIENCE;
        let before: Vec<u32> = self.rounds.iter().map(|rounds| rounds.load(Ordering::Relaxed)).collect();
        while self.rounds.iter().zip(&before).any(|(now, before)| now.load(Ordering::Relaxed) < before + 2) {
            assert!(Instant::now() < deadline, "nobody is paid any more");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Every row that a node lists of an account.
fn rows(rig: &Rig, account: &str, node: &str) -> Vec<Value> {
    let (mut all, mut after) = (Vec::new(), "0".to_owned());
    loop {
        let page = rig.json(&format!("pay history {account} --node {node} --after {after} --limit 1000"));
        let rows = page["transfers"].as_array().expect("a list");
        if let Some(last) = rows.last() {
            last["position"].as_str().expect("a position").clone_into(&mut after);
        }
        all.extend(rows.iter().cloned());
        if page["more"] != true {
            return all;
        }
    }
}

/// The ids of what one account was paid by another, as a node lists them, each as often as it does.
fn paid(rig: &Rig, (from, to): (&str, &str), node: &str) -> Vec<u64> {
    let rows = rows(rig, to, node).into_iter().filter(|row| row["from"] == from && row["to"] == to);
    rows.map(|row| row["id"].as_str().and_then(|id| id.parse().ok()).expect("an id")).collect()
}

/// The accounts as a node states them.
fn book(rig: &Rig, node: &str) -> Vec<Value> {
    rig.json(&format!("pay account ls --node {node}"))["accounts"].as_array().expect("a list").clone()
}

/// Waits until these nodes state the same of all accounts.
fn equal_books(rig: &Rig, nodes: &[&str]) -> Vec<Value> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let books: Vec<Vec<Value>> = nodes.iter().map(|node| book(rig, node)).collect();
        if books.iter().all(|book| *book == books[0]) {
            return books[0].clone();
        }
        assert!(Instant::now() < deadline, "books differ: {books:?}");
    }
}

/// What all accounts of a shard were credited less what they were debited.
fn surplus(book: &[Value]) -> i128 {
    let sum = |column: &str| -> i128 {
        let of =
            |row: &Value| row[column].as_str().and_then(|text| text.parse::<i128>().ok()).expect("a sum");
        book.iter().map(of).sum()
    };
    sum("credits") - sum("debits")
}

/// Waits until no node has anything on its way.
fn is_quiet(rig: &Rig) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let told = rig.json("pay bundles");
        let is_nothing =
            told["leaving"] == "0" && told["coming"] == "0" && told["bundles"] == Value::from([(); 0]);
        if is_nothing && told["nodes"].as_array().map(Vec::len) == Some(8) {
            return;
        }
        assert!(Instant::now() < deadline, "still on its way: {told}");
    }
}

/// Runs the load while both representatives are killed at once and started again, twice.
fn paid_through_crashes(deployed: &Deployed, load: &Load) -> Vec<[BTreeSet<u64>; 2]> {
    let rig = &deployed.rig;
    std::thread::scope(|scope| {
        let payers: Vec<_> = (0..2).map(|shard| scope.spawn(move || load.pay(rig, shard))).collect();
        // Whatever fails here, the payers end.
        let killed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            load.goes_on();
            deployed.kill(0);
            deployed.kill(4);
            rig.ok("restart n4");
            rig.ok("restart n0");
            load.goes_on();
        }));
        load.is_over.store(true, Ordering::Relaxed);
        let all = payers.into_iter().map(|payer| payer.join().expect("every order was acknowledged"));
        let all: Vec<_> = all.collect();
        killed.expect("nodes come back");
        all
    })
}

#[test]
fn what_crosses_is_credited_once_and_totals_are_kept_when_both_representatives_are_killed() {
    let deployed = Deployed::with("--shards 2");
    let rig = &deployed.rig;
    let status = rig.json("status");
    let shards: Vec<&Value> =
        status["nodes"].as_array().expect("a list").iter().map(|row| &row["shard"]).collect();
    assert_eq!(shards, [0, 0, 0, 0, 1, 1, 1, 1], "{status}");
    assert_eq!((&status["shards"], &status["f"], &status["quorum_need"]), (&2.into(), &1.into(), &3.into()));

    // One step: who paid is told that it settled, and it comes by itself.
    let told = rig.json("pay send --from 0-2-1 --to 1-2-1 --amount 7 --id 7 --until settled");
    assert!(["settled", "stable"].map(Value::from).contains(&told["state"]), "{told}");
    let deadline = Instant::now() + PATIENCE;
    while paid(rig, ("0-2-1", "1-2-1"), "n6") != [7] {
        assert!(Instant::now() < deadline, "it does not come");
    }
    assert_eq!(rig.json("pay account show 1-2-1 --linearizable")["credits"], "7");

    let load = Load::default();
    let all = paid_through_crashes(&deployed, &load);
    is_quiet(rig);

    let books = SHARDS.map(|nodes| equal_books(rig, &nodes));
    let mut crossed: BTreeMap<usize, i128> = BTreeMap::new();
    for (shard, [cross, stay]) in all.iter().enumerate() {
        assert!(cross.len() > 20 && stay.len() == cross.len(), "the load ran");
        for (to, ids) in [(1 - shard, cross), (shard, stay)] {
            let account = format!("{to}-1-1");
            for node in SHARDS[to] {
                let found = paid(rig, (&payer(shard), &account), node);
                let once: BTreeSet<u64> = found.iter().copied().collect();
                assert_eq!((found.len(), &once), (ids.len(), ids), "{node}: what {account} was paid");
            }
        }
        *crossed.entry(shard).or_default() -= 3 * i128::try_from(cross.len()).expect("few");
        *crossed.entry(1 - shard).or_default() += 3 * i128::try_from(cross.len()).expect("few");
    }
    // Seven crossed alone. To the last unit: what one shard has more the other has less, and it is what crossed.
    let surplus = books.map(|book| surplus(&book));
    assert_eq!(surplus, [crossed[&0] - 7, crossed[&1] + 7]);
    assert_eq!(surplus.iter().sum::<i128>(), 0, "money is neither made nor lost");
    audited(&deployed, all.iter().map(|[cross, stay]| cross.len() + stay.len()).sum());
}

/// Logs of both shards are audited together, with the genesis alone.
fn audited(deployed: &Deployed, paid: usize) {
    let rig = &deployed.rig;
    for node in ["n0", "n4"] {
        rig.ok(&format!("pay export --node {node} --out {node}.log"));
    }
    let away = Rig::new();
    std::fs::copy(deployed.genesis(), away.path("genesis.toml")).expect("it is there");
    for file in ["n0.log", "n4.log"] {
        std::fs::copy(rig.path(file), away.path(file)).expect("it was written");
    }
    let found = away.json("pay audit n0.log n4.log --genesis genesis.toml");
    let payments = paid + 1;
    assert_eq!((&found["ok"], &found["payments"]), (&true.into(), &payments.into()), "{found}");
    away.ok("pay audit n4.log --genesis genesis.toml");
}

#[test]
fn what_cannot_cross_is_refused_and_a_node_speaks_of_its_own_shard_alone() {
    let deployed = Deployed::with("--shards 2");
    let rig = &deployed.rig;
    for line in [
        "pay hold --from 0-0-1 --to 1-0-1 --amount 5",
        "pay hold --from 0-0-1 --to 0-1-1 --amount 5 --resolver 1-0-1",
        "pay send --from 0-0-1 --to 7-0-1 --amount 5",
        "pay account show 1-0-1 --node n0",
        "pay history 1-0-1 --node n0",
    ] {
        rig.refused(line, "SYN-3102", 5);
    }
    let told = rig.refused("pay send --from 2-0-1 --to 0-0-1 --amount 5", "SYN-3105", 5);
    assert!(told.contains("no member 0 in shard 2"), "{told}");
    rig.refused("pay cuts", "SYN-3003", 5);

    // Accounts are opened where their institution is, and a receipt is one of its shard.
    assert_eq!(rig.json("pay account new --node n5")["id"], "1-1-2");
    rig.ok("pay multi --from 0-3-1 --leg 1-1-2=5 --leg 0-0-1=6 --id 9 --until stable");
    let receipt = rig.json("pay receipt 9 --from 0-3-1 --out 9.receipt");
    assert_eq!(receipt["level"], "stable", "{receipt}");
    let away = Rig::new();
    for (from, file) in [(deployed.genesis(), "genesis.toml"), (rig.path("9.receipt"), "9.receipt")] {
        std::fs::copy(from, away.path(file)).expect("it is there");
    }
    let checked = away.ok("client verify 9.receipt --genesis genesis.toml");
    assert!(checked.contains("0-3-1"), "{checked}");
    let deadline = Instant::now() + PATIENCE;
    while rig.json("pay account show 1-1-2")["credits"] != "5" {
        assert!(Instant::now() < deadline, "its leg does not come");
    }
    rig.refused("pay send --from 1-1-2 --to 0-3-1 --amount 6", "SYN-3115", 5);
    rig.ok("pay send --from 1-1-2 --to 0-3-1 --amount 5");

    // Names of members are numbers of their own shard.
    rig.refused("pay account move 1-1-2 --to n2", "SYN-1001", 2);
    assert_eq!(rig.json("pay account move 1-1-2 --to n6")["representative"], 2);
    // An owner signs what crosses as what stays.
    let account = rig.json("pay wallet new alice --node n7")["account"].as_str().expect("a name").to_owned();
    assert_eq!(account, "1-3-2");
    rig.ok("pay faucet 1-3-2 --amount 9");
    rig.ok("pay wallet send alice --to 0-1-1 --amount 4 --id 44 --timeout 60s");
    let deadline = Instant::now() + PATIENCE;
    while paid(rig, ("1-3-2", "0-1-1"), "n1") != [44] {
        assert!(Instant::now() < deadline, "it does not come");
    }
}

#[test]
fn shards_that_cannot_be_are_refused() {
    let rig = Rig::new();
    rig.refused("init --name x --nodes 4 --shards 2 --out x", "SYN-1001", 2);
    rig.refused("init --name x --kind astro --nodes 65 --shards 2 --out x", "SYN-1001", 2);
    rig.refused("init --name x --kind astro --nodes 5 --reserve 1 --shards 2 --out x", "SYN-1106", 3);
    rig.refused("init --name x --kind astro --nodes 4 --shards 2 --cut-every 1s --out x", "SYN-1106", 3);
    let three = "--member a=127.0.0.1:7100 --member b=127.0.0.1:7200 --member c=127.0.0.1:7300";
    rig.refused(&format!("init --name x --kind astro {three} --shards 2 --out x"), "SYN-1106", 3);
    let made = rig.json("init --name x --kind astro --nodes 4 --shards 3 --out made");
    assert_eq!((&made["members"], &made["f"]), (&12.into(), &1.into()), "{made}");
}

//! Members of a payment system that come and go while its customers pay.

use crate::pay::Deployed;
use crate::rig::{Rig, verbs};
use crate::surface::{assert_one_object, example};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Verbs that need a payment system with a reserve, in the order in which their examples run.
pub(crate) const OF_MEMBERS: &[&str] = &["member ls", "member", "member plan", "member add", "member remove"];

/// Payments of one request of the load.
const MANY: u32 = 40;
/// How long anything may take on a machine that others use too.
const PATIENCE: Duration = Duration::from_secs(120);

/// Four who begin and one in reserve, with their operator's key in the working directory.
fn deployed() -> Deployed {
    let rig = Rig::new();
    let up = rig.json("up --kind astro --nodes 5 --reserve 1 --ephemeral --base-port 0 --detach");
    let folder = std::path::Path::new(up["directory"].as_str().expect("a path")).to_owned();
    std::fs::copy(folder.join("operator.key"), rig.path("operator.key")).expect("a key was made");
    Deployed { rig, up }
}

/// The names of the members of the newest view, and its number.
fn members(rig: &Rig) -> (u64, Vec<String>) {
    let told = rig.json("member ls");
    let rows = told["nodes"].as_array().expect("a list").iter().filter(|row| row["member"] == true);
    let names = rows.map(|row| row["name"].as_str().expect("a name").to_owned());
    (told["view"].as_u64().expect("a number"), names.collect())
}

/// Waits until a node says that this is what it is.
fn until_says(rig: &Rig, node: usize, word: &str) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let told = rig.json("member ls");
        if told["nodes"][node]["says"] == word {
            return;
        }
        assert!(Instant::now() < deadline, "n{node} does not say that it is {word}: {told}");
    }
}

/// The ids that one node lists of an account, each as often as it does.
fn ids(rig: &Rig, account: &str, node: &str) -> Vec<u64> {
    let (mut ids, mut after) = (Vec::new(), 0);
    loop {
        let page = rig.json(&format!("pay history {account} --node {node} --after {after} --limit 1000"));
        let rows = page["transfers"].as_array().expect("a list");
        for row in rows.iter().filter(|row| row["from"] == account) {
            ids.push(row["id"].as_str().and_then(|id| id.parse().ok()).expect("an id"));
        }
        after = rows.last().map_or(after, |row| {
            let position = &row["position"];
            position.as_u64().or_else(|| position.as_str()?.parse().ok()).expect("a position")
        });
        if page["more"] != true {
            return ids;
        }
    }
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

fn sum(book: &[Value], column: &str) -> u128 {
    let of = |row: &Value| row[column].as_str().and_then(|text| text.parse::<u128>().ok()).expect("a sum");
    book.iter().map(of).sum()
}

/// Customers of three institutions, who pay until they are told to end.
#[derive(Default)]
struct Load {
    is_over: AtomicBool,
    rounds: [AtomicU32; 3],
}

impl Load {
    /// Sends requests of many payments, one after the other; gives the ids of all that were acknowledged.
    fn pay(&self, rig: &Rig, payer: usize) -> BTreeSet<u64> {
        let mut paid = BTreeSet::new();
        while !self.is_over.load(Ordering::Relaxed) {
            let round = self.rounds[payer].load(Ordering::Relaxed);
            let first = u64::try_from(payer + 1).expect("few") * 1_000_000 + u64::from(round * MANY);
            let own = first..first + u64::from(MANY);
            let mut text = "id,from,to,amount\n".to_owned();
            for id in own.clone() {
                writeln!(text, "{id},0-{payer}-1,0-{}-1,1", (payer + 1) % 3).expect("a string");
            }
            let name = format!("{payer}-{round}.csv");
            rig.write_private(&name, &text);
            // No order waits for a view longer than its deadline, so none has an unknown outcome.
            let told = rig.json(&format!("pay send --file {name} --timeout 60s"));
            assert_eq!(told["paid"], MANY, "{told}");
            paid.extend(own);
            self.rounds[payer].fetch_add(1, Ordering::Relaxed);
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

#[test]
fn a_member_joins_and_another_leaves_under_load_and_no_payment_is_lost() {
    let deployed = deployed();
    let rig = &deployed.rig;
    // Nobody waits for a node in reserve when a cluster comes up.
    until_says(rig, 4, "aside");
    assert_eq!(members(rig), (0, ["n0", "n1", "n2", "n3"].map(str::to_owned).into()));
    rig.refused("pay send --from 0-4-1 --to 0-0-1 --amount 1", "SYN-3604", 5);
    rig.refused("pay account ls --node n4", "SYN-3604", 5);

    let load = Load::default();
    let paid: Vec<BTreeSet<u64>> = std::thread::scope(|scope| {
        let payers: Vec<_> = (0..3)
            .map(|payer| {
                scope.spawn({
                    let load = &load;
                    move || load.pay(rig, payer)
                })
            })
            .collect();
        // Whatever fails here, the payers end.
        let changed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            load.goes_on();
            rig.ok("member add n4 --operator operator.key --timeout 60s");
            assert_eq!(members(rig), (1, ["n0", "n1", "n2", "n3", "n4"].map(str::to_owned).into()));
            load.goes_on();
            rig.ok("member remove n3 --operator operator.key --timeout 60s");
            assert_eq!(members(rig), (2, ["n0", "n1", "n2", "n4"].map(str::to_owned).into()));
            load.goes_on();
        }));
        load.is_over.store(true, Ordering::Relaxed);
        let paid =
            payers.into_iter().map(|payer| payer.join().expect("every order was acknowledged")).collect();
        changed.expect("members change under load");
        paid
    });
    rig.ok("pay send --from 0-4-1 --to 0-0-1 --amount 7 --id 7 --timeout 60s");
    // Who leaves is busy until a quorum of the next view has its state.
    until_says(rig, 3, "left");
    rig.refused("pay send --from 0-3-1 --to 0-0-1 --amount 1", "SYN-3604", 5);
    rig.refused("member add n3 --operator operator.key", "SYN-3604", 5);
    rig.refused("member remove n0 --operator operator.key", "SYN-3605", 5);

    // A crash leads through the same views.
    for node in [1, 4] {
        deployed.kill(node);
        rig.ok(&format!("restart n{node}"));
    }
    let stay = ["n0", "n1", "n2", "n4"];
    let count: usize = paid.iter().map(BTreeSet::len).sum();
    let settled = |node: &str| {
        let of = |payer: usize| ids(rig, &format!("0-{payer}-1"), node).len();
        (0..3).map(of).sum::<usize>() == count && ids(rig, "0-4-1", node) == [7]
    };
    let deadline = Instant::now() + PATIENCE;
    while !stay.iter().all(|node| settled(node)) {
        assert!(Instant::now() < deadline, "what was acknowledged does not settle everywhere");
    }
    for node in stay {
        for (payer, paid) in paid.iter().enumerate() {
            let ids = ids(rig, &format!("0-{payer}-1"), node);
            let once: BTreeSet<u64> = ids.iter().copied().collect();
            assert_eq!((once.len(), &once), (ids.len(), paid), "{node}: what 0-{payer}-1 paid");
        }
    }
    let book = equal_books(rig, &stay);
    assert_eq!(sum(&book, "credits"), sum(&book, "debits"), "money is neither made nor lost");
    assert_eq!(sum(&book, "credits"), count as u128 + 7);
}

#[test]
fn the_examples_of_members_run_and_what_nobody_endorsed_changes_nothing() {
    let deployed = deployed();
    let rig = &deployed.rig;
    rig.ok("keys new --out other.key");
    rig.refused("member add n4 --operator other.key", "SYN-1001", 2);
    rig.refused("member add n9 --operator operator.key", "SYN-3604", 5);
    rig.refused("member remove n4 --operator operator.key", "SYN-3604", 5);
    assert_eq!(members(rig).0, 0);
    for verb in OF_MEMBERS {
        let (_, help) = verbs().iter().find(|(known, _)| known == verb).expect("a verb");
        let line = example(help);
        assert_one_object(&line, &rig.ok(&format!("{line} --json --timeout 60s")));
    }
    assert_eq!(members(rig), (2, ["n0", "n1", "n2", "n4"].map(str::to_owned).into()));
    let plan = rig.json("member plan --remove n0");
    assert_eq!((&plan["f"], &plan["f_then"]), (&1.into(), &0.into()), "{plan}");
    // Founders certify with receipts that anybody checks; later views do not yet.
    rig.ok("pay send --from 0-0-1 --to 0-1-1 --amount 5 --id 5");
    rig.refused("pay receipt 5", "SYN-3008", 5);
    rig.refused(
        "pay account new --node n0 --key 2152f8d19b791d24453242e15f2eab6cb7cffa7b6a5ed30097960e069881db12",
        "SYN-3003",
        5,
    );
}

#[test]
fn where_members_are_there_for_good_nothing_changes_them() {
    let deployed = Deployed::new();
    let rig = &deployed.rig;
    let told = rig.refused("member ls", "SYN-1001", 2);
    assert!(told.contains("there for good"), "{told}");
    rig.refused("init --name x --nodes 4 --reserve 1 --out x", "SYN-1001", 2);
    rig.refused("init --name x --kind astro --nodes 4 --reserve 4 --out x", "SYN-1001", 2);
}

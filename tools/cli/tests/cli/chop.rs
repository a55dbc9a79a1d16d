//! Chop Chop as users meet it: a client signs up, sends, and anybody checks its receipt off line.

use crate::rig::{Rig, read, verbs};
use crate::surface::{assert_one_object, example};
use rustix::process::{Pid, Signal, kill_process};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Verbs that need or start a cluster of Chop Chop, in the order in which their examples run.
pub(crate) const OF_CHOP: &[&str] = &[
    "broker",
    "broker run",
    "broker status",
    "client signup",
    "client resync",
    "payments",
    "payments transfer",
    "payments balance",
    "node inspect directory",
    "node inspect batch",
    "node inspect height",
];
/// Those that need a cluster that runs auctions, and those that need a board.
pub(crate) const OF_AUCTION: &[&str] =
    &["auction", "auction bid", "auction take", "auction show", "auction money"];
pub(crate) const OF_PIXELS: &[&str] = &["pixel", "pixel paint", "pixel show", "pixel board"];

/// A deployment that goes with its test.
struct Deployed(Rig);

impl Drop for Deployed {
    fn drop(&mut self) {
        drop(self.0.command("down").output());
    }
}

/// The payment of 1 to client 0.
const PAYMENT: &str = "0000000001000000";

fn changed(rig: &Rig, receipt: &str, change: impl Fn(&mut serde_json::Value)) -> String {
    let mut proof: serde_json::Value = serde_json::from_str(receipt).expect("a proof");
    change(&mut proof);
    let path = rig.path("broken.json");
    std::fs::write(&path, proof.to_string()).expect("a file");
    "broken.json".to_owned()
}

/// Flips a bit of the hex digit at `at` of the receipt's bytes.
fn flipped(at: usize) -> impl Fn(&mut serde_json::Value) {
    move |proof| {
        let mut digits = proof["bytes"].as_str().expect("digits").to_owned();
        let digit = digits[at..=at].to_owned();
        let value = u8::from_str_radix(&digit, 16).expect("a digit") ^ 1;
        digits.replace_range(at..=at, &format!("{value:x}"));
        proof["bytes"] = digits.into();
    }
}

#[test]
fn a_client_signs_up_sends_and_anybody_checks_its_receipt() {
    let rig = Rig::new();
    rig.ok("up --kind chopchop --ephemeral --base-port 0 --detach");
    let deployed = Deployed(rig);
    let rig = &deployed.0;
    rig.refused("client submit main 0000000001000000 --home alice", "SYN-3201", 5);
    let signed = rig.json("client signup main --home alice --timeout 60s");
    assert_eq!((&signed["outcome"], &signed["id"]), (&"signed up".into(), &0.into()), "{signed}");
    let again = rig.json("client signup main --home alice --timeout 60s");
    assert_eq!(again["id"], 0, "whoever has an id keeps it");
    rig.refused("client submit main 00 --home alice", "SYN-3203", 5);
    let mut receipts = Vec::new();
    for _ in 0..2 {
        let sent = rig.json(&format!("client submit main {PAYMENT} --home alice --timeout 60s"));
        assert_eq!(sent["outcome"], "delivered", "{sent}");
        receipts.push(sent["receipt"].as_str().expect("a receipt").to_owned());
    }
    assert_ne!(receipts[0], receipts[1], "two equal payments are two messages");
    let stands = rig.json("client resync main --home alice --timeout 60s");
    assert_eq!((&stands["outcome"], &stands["finished"]), (&"resynced".into(), &false.into()));
    assert!(stands["next_number"].as_u64() >= Some(2), "{stands}");
    let checked = rig.json(&format!("client verify {}", receipts[1]));
    assert_eq!(
        (&checked["kind"], &checked["client"], &checked["message"]),
        (&"receipt".into(), &0.into(), &PAYMENT.into())
    );
    let text = read(Path::new(&rig.path(&receipts[1])));
    let broken: [(usize, &str); 2] = [(0, "does not stand under the root"), (400, "")];
    for (at, reason) in broken {
        let file = changed(rig, &text, flipped(at));
        let told = rig.refused(&format!("client verify {file}"), "SYN-6002", 8);
        assert!(told.contains(reason), "{told}");
    }
    let file = changed(rig, &text, |proof| proof["cluster"] = "00".repeat(32).into());
    rig.refused(&format!("client verify {file}"), "SYN-2101", 3);
}

/// The example of a verb.
fn of(verb: &str) -> String {
    example(&verbs().iter().find(|(name, _)| name == verb).expect("a verb").1)
}

#[test]
fn payments_move_money_and_a_broken_rule_has_its_code() {
    let deployed = Deployed(Rig::new());
    let rig = &deployed.0;
    rig.ok("up --kind chopchop --ephemeral --base-port 0 --detach");
    for (number, who) in ["alice", "bob"].into_iter().enumerate() {
        assert_eq!(rig.json(&format!("client signup main --home {who} --timeout 60s"))["id"], number);
    }
    let balance = |who: &str, since: u64| {
        let told = rig.json(&format!("payments balance --home {who} --since {since} --timeout 60s"));
        told["balance"].as_u64().expect("a balance")
    };
    rig.refused("payments balance --home alice", "SYN-3105", 5);
    // To oneself: accounts open with the first batch of operations, and nothing moves.
    rig.ok("payments transfer 0 1 --home alice --timeout 60s");
    let (alice, bob) = (balance("alice", 1), balance("bob", 1));
    assert!(alice > 5 && alice == bob, "{alice} {bob}");
    let paid = rig.json("payments transfer 1 5 --home alice --timeout 60s");
    assert_eq!((&paid["result"], &paid["operation"]), (&"paid".into(), &"pay 1 5".into()), "{paid}");
    let height = paid["height"].as_u64().expect("a height");
    assert_eq!((balance("alice", height), balance("bob", height)), (alice - 5, bob + 5));
    let checked = rig.json(&format!("client verify {}", paid["receipt"].as_str().expect("a receipt")));
    assert_eq!(checked["height"], height);
    let told = rig.refused("payments transfer 1 4000000000 --home alice --timeout 60s", "SYN-3115", 5);
    assert!(told.contains("it was delivered at height") && told.contains("its receipt is"), "{told}");
    rig.refused("payments transfer 77 5 --home alice --timeout 60s", "SYN-3106", 5);
    rig.refused("payments transfer 1 0 --home alice --timeout 60s", "SYN-3107", 5);
    rig.refused("payments balance 77", "SYN-3105", 5);
    rig.refused("payments transfer 268435456 1 --home alice", "SYN-1001", 2);
    rig.refused("auction show 0", "SYN-3003", 5);
    assert_eq!(balance("alice", height), alice - 5, "what was refused moved nothing");
}

#[test]
fn a_token_is_sold_to_whoever_bid_most() {
    let deployed = Deployed(Rig::new());
    let rig = &deployed.0;
    rig.ok("up --kind chopchop --app auction --ephemeral --base-port 0 --detach");
    for who in ["alice", "bob"] {
        rig.ok(&format!("client signup main --home {who} --timeout 60s"));
    }
    // Accounts open with the first batch of operations, whatever comes of those.
    rig.refused("auction take 0 --home alice", "SYN-3304", 5);
    let before = rig.json("auction money --home alice");
    rig.ok(&of("auction bid"));
    rig.refused(&of("auction bid"), "SYN-3302", 5);
    rig.refused("auction bid 1 20 --home bob", "SYN-3303", 5);
    rig.refused("auction take 1 --home alice", "SYN-3304", 5);
    let shown = rig.json(&of("auction show"));
    assert_eq!(
        (&shown["owner"], &shown["best_bidder"], &shown["best_bid"]),
        (&1.into(), &0.into(), &10.into())
    );
    let money = rig.json(&of("auction money"));
    assert_eq!(money["locked"], 10);
    assert_eq!(money["available"], before["available"].as_u64().expect("money") - 10);
    let sold = rig.json(&of("auction take"));
    assert_eq!(sold["result"], "sold");
    let shown = rig.json(&format!("auction show 1 --since {}", sold["height"]));
    assert_eq!((&shown["owner"], &shown["best_bid"]), (&0.into(), &serde_json::Value::Null));
    rig.refused(&of("auction"), "SYN-3303", 5);
    rig.refused("auction show 4000", "SYN-3301", 5);
    for verb in ["auction show", "auction money"] {
        rig.ok(&of(verb));
        assert_one_object(verb, &rig.ok(&format!("{} --json", of(verb))));
    }
}

#[test]
fn a_stroke_is_on_the_board_and_in_the_picture() {
    let deployed = Deployed(Rig::new());
    let rig = &deployed.0;
    rig.ok("up --kind chopchop --app pixels --brokers 2 --ephemeral --base-port 0 --detach");
    rig.ok("client signup main --home alice --timeout 60s");
    let before = rig.json("pixel board");
    assert_eq!(before["painted"], 0);
    for verb in OF_PIXELS {
        rig.ok(&of(verb));
    }
    let painted = rig.json(&of("pixel paint"));
    assert_eq!((&painted["result"], &painted["operation"]), (&"painted".into(), &"pixel 3 4 ff8800".into()));
    let since = format!("--since {}", painted["height"]);
    assert_eq!(rig.json(&format!("pixel show 3 4 {since}"))["colour"], "ff8800");
    assert_eq!(rig.json(&format!("pixel show 4 3 {since}"))["colour"], "000000");
    let board = rig.json(&format!("pixel board --png again.png {since}"));
    assert_eq!(board["painted"], 1);
    assert_ne!(board["digest"], before["digest"]);
    let picture = std::fs::read(rig.path("again.png")).expect("a picture");
    assert!(picture.starts_with(b"\x89PNG\r\n\x1a\n") && picture.len() < 100_000, "{} bytes", picture.len());
    assert_eq!(picture, std::fs::read(rig.path("board.png")).expect("a picture"), "one stroke, one picture");
    rig.refused("pixel paint 2048 0 ff8800 --home alice", "SYN-1001", 2);
    rig.refused("pixel show 0 2048", "SYN-1001", 2);
}

/// What a server's files say while it runs.
fn offline(rig: &Rig) {
    let signed = rig.json("node inspect height 2 --data cluster/n0");
    assert_eq!(
        (&signed["kind"], &signed["count"], &signed["height"]),
        (&"sign-up".into(), &1.into(), &2.into())
    );
    let directory = rig.json("node inspect directory --data cluster/n0");
    assert_eq!(directory["clients"], 1, "{directory}");
    assert_eq!(directory["list"][0]["ed25519"], signed["cards"][0]["ed25519"]);
    let paid = rig.json("node inspect height 3 --data cluster/n0");
    let entry = &paid["entries"][0];
    assert_eq!(
        (&paid["kind"], &entry["client"], &entry["signed"]),
        (&"messages".into(), &0.into(), &"alone".into())
    );
    assert_eq!(entry["message"], "0000000005000000", "a payment of 5 to client 0");
    let digest = paid["digest"].as_str().expect("a digest");
    let again = rig.json(&format!("node inspect batch {} --data cluster/n0", &digest[..12]));
    assert_eq!(again["digest"], digest);
    rig.refused("node inspect height 9999 --data cluster/n0", "SYN-1001", 2);
    rig.refused("node inspect batch 00000000 --data cluster/n0", "SYN-1001", 2);
}

#[test]
fn the_demo_distils_a_crowd_kills_a_broker_and_a_server_and_loses_nothing() {
    let rig = Rig::new();
    let object = rig.json("demo chop --headless --painters 1024");
    let scenes = object["scenes"].as_array().expect("scenes");
    let names: Vec<&str> = scenes.iter().map(|scene| scene["name"].as_str().expect("a name")).collect();
    assert_eq!(names, ["ready", "signup", "storm", "broker", "server", "recover", "receipts", "audit"]);
    assert!(scenes.iter().all(|scene| scene["ok"] == true), "{object}");
    let figures = &object["chop"];
    assert_eq!(figures["strokes"], 8 * 1_024);
    assert!(
        figures["receipts_verified"].as_u64() > figures["strokes"].as_u64(),
        "those of people too: {object}"
    );
    assert_eq!((&object["audit"]["lost"], &object["audit"]["duplicated"]), (&0.into(), &0.into()));
    assert_eq!(object["audit"]["members"], 4);
    rig.refused("ctx show", "SYN-1001", 2);
    rig.refused("demo chop --nodes 7", "SYN-1001", 2);
    rig.refused("demo chop --painters 257", "SYN-1001", 2);
}

#[test]
fn the_examples_of_verbs_for_brokers_and_their_clients_run() {
    let deployed = Deployed(Rig::new());
    let rig = &deployed.0;
    rig.ok("up --kind chopchop --dir cluster --base-port 0 --detach");
    for verb in OF_CHOP.iter().filter(|verb| **verb != "broker run") {
        rig.ok(&of(verb));
        assert_one_object(verb, &rig.ok(&format!("{} --json", of(verb))));
    }
    offline(rig);
    rig.ok("down");
    let state = || rig.json("broker status")["brokers"][0]["state"].clone();
    assert_eq!(state(), "unreachable");
    let mut command = rig.command(&of("broker run"));
    let mut broker = command.stderr(Stdio::null()).spawn().expect("the binary starts");
    let deadline = Instant::now() + Duration::from_secs(60);
    while state() == "unreachable" {
        assert!(Instant::now() < deadline, "it never answered");
        assert!(broker.try_wait().expect("it is our child").is_none(), "the broker ended");
    }
    kill_process(Pid::from_child(&broker), Signal::TERM).expect("it is our child");
    assert_eq!(broker.wait().expect("it ends").code(), Some(143));
}

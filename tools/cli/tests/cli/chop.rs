//! Chop Chop as users meet it: a client signs up, sends, and anybody checks its receipt off line.

use crate::rig::{Rig, read, verbs};
use crate::surface::{assert_one_object, example};
use rustix::process::{Pid, Signal, kill_process};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Verbs that need or start a cluster of Chop Chop.
pub(crate) const OF_CHOP: &[&str] =
    &["broker", "broker run", "broker status", "client signup", "client resync"];

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

#[test]
fn the_examples_of_verbs_for_brokers_and_their_clients_run() {
    let deployed = Deployed(Rig::new());
    let rig = &deployed.0;
    rig.ok("up --kind chopchop --dir cluster --base-port 0 --detach");
    let examples: Vec<(String, String)> =
        verbs(rig).into_iter().map(|(verb, help)| (verb, example(&help))).collect();
    let of = |verb: &str| &examples.iter().find(|(name, _)| name == verb).expect("a verb").1;
    for verb in OF_CHOP.iter().filter(|verb| **verb != "broker run") {
        rig.ok(of(verb));
        assert_one_object(of(verb), &rig.ok(&format!("{} --json", of(verb))));
    }
    rig.ok("down");
    let state = || rig.json("broker status")["brokers"][0]["state"].clone();
    assert_eq!(state(), "unreachable");
    let mut command = rig.command(of("broker run"));
    let mut broker = command.stderr(Stdio::null()).spawn().expect("the binary starts");
    let deadline = Instant::now() + Duration::from_secs(60);
    while state() == "unreachable" {
        assert!(Instant::now() < deadline, "it never answered");
        assert!(broker.try_wait().expect("it is our child").is_none(), "the broker ended");
    }
    kill_process(Pid::from_child(&broker), Signal::TERM).expect("it is our child");
    assert_eq!(broker.wait().expect("it ends").code(), Some(143));
}

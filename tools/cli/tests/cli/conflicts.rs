//! A wallet that was copied, and both copies sign: what members show of it, and what it does to others.

use crate::pay::Deployed;
use crate::rig::{Rig, read};
use crate::wallet::{Before, begin, entry_of, furnished};
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};
use synod_config::{Genesis, NodeKey, hex};
use synod_host::pay::wallet::{Done, Job};
use synod_host::pay::{Auth, Entry, EntryId, Line, digest, view_of};
use synod_machine::Job as _;
use synod_wire::Wire as _;

/// How long something may take that has to come.
const PATIENCE: Duration = Duration::from_secs(60);

fn show(rig: &Rig, node: usize) -> Value {
    rig.json(&format!("pay account show 0-0-2 --node n{node}"))
}

/// Gives a node a signed entry; what it answers within a moment.
fn give(deployed: &Deployed, node: usize, body: &Value) -> Value {
    let port = &deployed.up["nodes"][node]["http"];
    let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).expect("the node takes requests");
    let body = body.to_string();
    let head = format!(
        "POST /v1/pay/entries HTTP/1.0\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nSynod-Deadline-Ms: 2000\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).expect("it is sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (_, body) = answer.split_once("\r\n\r\n").expect("a body");
    serde_json::from_str(body).expect("JSON")
}

/// Each of two copies signs an entry for the first place, and one half of the members endorses each. Gives the first of them.
fn split(deployed: &Deployed) -> Entry {
    let rig = &deployed.rig;
    assert_eq!(rig.shell("cp -a alice copy").code, 0);
    let before = Before::new(deployed);
    let signed = [("alice", 5_u128), ("copy", 6)].map(|(wallet, id)| {
        let options = &before.options;
        let line =
            format!("pay wallet send {wallet} --to 0-1-2 --amount {id} --id {id} --timeout 60s{options}");
        let mut child = begin(rig.command(&line));
        // It may be given to several; no member has it.
        let mut given = std::iter::repeat_with(|| before.given());
        let given = given.find(|given| entry_of(given).transfer == id).expect("it was given away");
        child.kill().expect("it runs");
        child.wait().expect("it ends");
        given
    });
    for node in ["n0", "n2"] {
        rig.ok(&format!("fault partition {node} --from n1,n3"));
    }
    for (node, body) in [0, 1].into_iter().zip(&signed) {
        assert_eq!(give(deployed, node, body)["code"], "SYN-3501", "half of the members certify nothing");
    }
    let deadline = Instant::now() + PATIENCE;
    while (0..4).any(|node| show(rig, node)["open_entries"] != 1) {
        assert!(Instant::now() < deadline, "every member endorses one");
    }
    for node in ["n0", "n2"] {
        rig.ok(&format!("fault heal {node}"));
    }
    entry_of(&signed[0])
}

/// The next entry of a wallet's log, signed with its key though the wallet would not.
fn behind(deployed: &Deployed, wallet: &str, last: &Entry) -> Value {
    let genesis = Genesis::read(&deployed.genesis()).expect("it is there");
    let view = Arc::new(view_of(genesis.id(), genesis.roster().clone()));
    let key = NodeKey::read(&deployed.rig.path(wallet).join("key")).expect("it is there");
    let id = EntryId { n: last.id.n + 1, ..last.id };
    let entry = Arc::new(Entry { id, prev: digest(last), transfer: 9, ..last.clone() });
    let done = Job::Sign { view, entry }.run(&key.to_keys().expect("a key"));
    let Done::Signed(Line { entry, auth: Auth::Owner(signature) }) = done else { unreachable!("{done:?}") };
    json!({ "entry": hex(&entry.encode()), "signature": hex(&signature.0) })
}

#[test]
fn an_account_whose_wallet_was_copied_is_conflicted_with_evidence_and_delays_no_other() {
    let deployed = furnished();
    let rig = &deployed.rig;
    (0..4).for_each(|node| deployed.settled_at(1, node));
    rig.refused("pay account evidence 0-0-2", "SYN-3132", 5);
    let one = split(&deployed);
    let deadline = Instant::now() + PATIENCE;
    while (0..4).any(|node| show(rig, node)["state"] != "conflicted") {
        let shown = || (0..4).map(|node| show(rig, node)).collect::<Vec<_>>();
        assert!(Instant::now() < deadline, "{:?}", shown());
    }
    let shown = show(rig, 3);
    assert_eq!((&shown["conflict"]["n"], &shown["available"]), (&"1".into(), &"1000".into()), "{shown}");
    // Others pay as before, and pay it.
    rig.ok("pay send --from 0-0-1 --to 0-1-2 --amount 7 --until stable");
    rig.ok("pay send --from 0-1-2 --to 0-0-2 --amount 3");

    // What comes behind either entry is refused, with both.
    let refused = give(&deployed, 0, &behind(&deployed, "alice", &one));
    assert_eq!(refused["code"], "SYN-3120", "{refused}");
    let taken = rig.json("pay account evidence 0-0-2 --node n0 --out 0-0-2.evidence");
    let text = read(&rig.path("0-0-2.evidence"));
    let proof: Value = serde_json::from_str(&text).expect("it is JSON");
    assert_eq!(refused["evidence"], proof);
    let rows = taken["entries"].as_array().expect("two").iter();
    let amounts: Vec<&str> = rows.map(|row| row["amount"].as_str().expect("a sum")).collect();
    assert_eq!(amounts, ["5", "6"], "{taken}");
    assert_eq!(taken["ed25519"], rig.json("pay wallet show alice")["ed25519"]);
    only_whole_evidence_holds(&deployed, &text, &proof);

    let told = rig.run("pay wallet send alice --to 0-1-2 --amount 1 --timeout 20s").err;
    assert!(told.contains("SYN-3112") || told.contains("SYN-3120"), "{told}");
    deployed.kill(1);
    rig.ok("restart n1");
    assert_eq!(show(rig, 1)["state"], "conflicted", "a restart forgets it not");
    let status = rig.json("status");
    let rows = status["nodes"].as_array().expect("a list");
    assert!(rows.iter().all(|row| row["conflicted"] == 1), "{status}");
}

/// It is checked where nobody is asked.
fn only_whole_evidence_holds(deployed: &Deployed, text: &str, proof: &Value) {
    let away = Rig::new();
    std::fs::copy(deployed.genesis(), away.path("genesis.toml")).expect("it is there");
    away.write_private("whole", text);
    let checked = away.json("client verify whole --genesis genesis.toml");
    assert_eq!((&checked["account"], &checked["n"]), (&"0-0-2".into(), &"1".into()), "{checked}");
    let bytes = proof["bytes"].as_str().expect("digits");
    for at in (0..bytes.len()).step_by(bytes.len() / 12) {
        let mut changed = bytes.as_bytes().to_vec();
        changed[at] = if changed[at] == b'0' { b'1' } else { b'0' };
        let changed = String::from_utf8(changed).expect("digits");
        away.write_private(&format!("{at}"), &text.replace(bytes, &changed));
        away.refused(&format!("client verify {at} --genesis genesis.toml"), "SYN-6002", 8);
    }
}

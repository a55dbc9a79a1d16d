//! Accounts whose owner signs: paid from while their representative is dead, after a crash at the worst moment, and without the log.

use crate::pay::Deployed;
use crate::rig::{Rig, read};
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use synod_host::pay::{Entry, LINE_BYTES_MAX, digest};
use synod_wire::{Limits, Wire as _};

/// How long something may take that has to come.
const PATIENCE: Duration = Duration::from_secs(60);

/// A wallet `alice` with 1,000 at n0, and an account 0-1-2 at n1 that it pays.
pub(crate) fn furnished() -> Deployed {
    let deployed = Deployed::new();
    let rig = &deployed.rig;
    let made = rig.json("pay wallet new alice --node n0");
    assert_eq!((&made["account"], &made["node"]), (&"0-0-2".into(), &"n0".into()), "{made}");
    assert_eq!(rig.json("pay account new --node n1")["id"], "0-1-2");
    deployed.known("0-1-2");
    deployed.known("0-0-2");
    rig.ok("pay faucet 0-0-2 --amount 1000 --id 1");
    deployed
}

/// Stands before the nodes of a deployment and hands on what is asked, but for entries: those it keeps, and answers never.
pub(crate) struct Before {
    pub(crate) options: String,
    kept: Receiver<Value>,
}

/// What is asked on one connection.
fn asked(stream: &mut TcpStream) -> String {
    let (mut text, mut part) = (String::new(), [0; 4 << 10]);
    loop {
        let count = stream.read(&mut part).expect("a request");
        text.push_str(std::str::from_utf8(&part[..count]).expect("it is text"));
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
        if length.map_or(0, |length| length.parse().expect("a length")) <= body.len() {
            return text;
        }
    }
}

fn hand_on(mut stream: TcpStream, node: &str, kept: &Sender<Value>, held: &mut Vec<TcpStream>) {
    let text = asked(&mut stream);
    if text.starts_with("POST /v1/pay/entries") {
        let (_, body) = text.split_once("\r\n\r\n").expect("a body");
        held.push(stream);
        // Who reads them may have what it needs.
        drop(kept.send(serde_json::from_str(body).expect("JSON")));
        return;
    }
    let mut to = TcpStream::connect(node).expect("the node takes requests");
    to.write_all(text.as_bytes()).expect("it is sent");
    let mut answer = Vec::new();
    to.read_to_end(&mut answer).expect("an answer");
    // A wallet that ended waits for no answer.
    drop(stream.write_all(&answer).and_then(|()| stream.shutdown(Shutdown::Both)));
}

impl Before {
    pub(crate) fn new(deployed: &Deployed) -> Self {
        let (said, kept) = channel();
        let mut options = String::new();
        for row in deployed.up["nodes"].as_array().expect("a list") {
            let name = row["node"].as_str().expect("a name");
            let node = format!("127.0.0.1:{}", row["http"]);
            let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
            let port = listener.local_addr().expect("it has an address").port();
            options.push_str(&format!(" --http {name}=127.0.0.1:{port}"));
            let said = said.clone();
            std::thread::spawn(move || {
                let mut held = Vec::new();
                for stream in listener.incoming() {
                    hand_on(stream.expect("a connection"), &node, &said, &mut held);
                }
            });
        }
        Self { options, kept }
    }

    /// Waits until an entry was given away; gives it as it was given.
    pub(crate) fn given(&self) -> Value {
        self.kept.recv_timeout(PATIENCE).expect("the wallet signs and gives the entry away")
    }

    /// The same; gives its digest.
    fn entry(&self) -> String {
        digest(&entry_of(&self.given())).to_string()
    }
}

/// The entry that was given away.
pub(crate) fn entry_of(given: &Value) -> Entry {
    let bytes = synod_config::unhex(given["entry"].as_str().expect("digits")).expect("digits");
    Entry::decode(bytes.into(), &Limits { frame_max: LINE_BYTES_MAX }).expect("an entry")
}

pub(crate) fn begin(mut command: Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts")
}

#[test]
fn an_owner_who_signs_pays_through_others_while_its_representative_is_dead_and_has_receipts() {
    let deployed = furnished();
    let rig = &deployed.rig;
    let mode = |name: &str| rig.path(name).metadata().expect("it is there").permissions().mode() & 0o777;
    assert_eq!((mode("alice"), mode("alice/key"), mode("alice/wallet.json")), (0o700, 0o600, 0o600));
    rig.refused("pay wallet new alice", "SYN-1109", 3);
    let paid = rig.json("pay wallet send alice --to 0-1-2 --amount 5 --id 7 --until stable");
    assert_eq!((&paid["state"], &paid["n"], &paid["from"]), (&"stable".into(), &"1".into(), &"0-0-2".into()));
    // No institution can pay from it.
    rig.refused("pay send --from 0-0-2 --to 0-1-2 --amount 1", "SYN-3104", 5);
    // Its receipt needs the genesis and nothing else.
    let away = Rig::new();
    let directory = deployed.up["directory"].as_str().expect("a path");
    std::fs::copy(format!("{directory}/genesis.toml"), away.path("genesis.toml")).expect("it is there");
    let receipt = paid["receipt"].as_str().unwrap_or_else(|| panic!("a receipt is kept: {paid}"));
    std::fs::copy(rig.path(receipt), away.path("7.receipt")).expect("it was written");
    let checked = away.json("client verify 7.receipt --genesis genesis.toml");
    assert_eq!((&checked["from"], &checked["amount"]), (&"0-0-2".into(), &"5".into()), "{checked}");
    assert_eq!(checked["level"], paid["receipt_shows"]);

    deployed.kill(0);
    let others = rig.json("pay wallet send alice --to 0-1-2 --amount 6 --id 8 --timeout 60s");
    assert_eq!((&others["n"], &others["amount"]), (&"2".into(), &"6".into()), "{others}");
    rig.refused("pay wallet send alice --to 0-1-2 --amount 990 --timeout 60s", "SYN-3115", 5);
    rig.refused("pay wallet send alice --to 0-1-9 --amount 1 --timeout 60s", "SYN-3106", 5);
    rig.refused("pay wallet send alice --to 0-1-2 --amount 7 --id 8 --timeout 60s", "SYN-3116", 5);
    let again = rig.json("pay wallet send alice --to 0-1-2 --amount 5 --id 7");
    assert_eq!((&again["digest"], &again["n"]), (&paid["digest"], &"1".into()), "a name is paid once");
    rig.ok("restart n0");
    deployed.settled_at(8, 0);
    assert_eq!(deployed.available("0-0-2"), "989", "what is refused takes nothing");
}

#[test]
fn what_was_signed_when_the_wallet_was_killed_goes_on_and_is_the_only_entry_of_its_place() {
    let deployed = furnished();
    let rig = &deployed.rig;
    let before = Before::new(&deployed);
    let Before { options, .. } = &before;

    // Nothing of it reaches a member: the outcome is unknown, and the same name is the same entry later.
    let send = "pay wallet send alice --to 0-1-2 --amount 5 --id 7";
    let child = begin(rig.command(&format!("{send} --timeout 10s{options}")));
    let signed = before.entry();
    rig.refused("pay wallet show alice", "SYN-1112", 3);
    let ended = child.wait_with_output().expect("it ends");
    let said = String::from_utf8(ended.stderr).expect("text");
    assert_eq!(ended.status.code(), Some(7), "{said}");
    assert!(said.starts_with("error SYN-3501: ") && said.contains("synod pay wallet status alice"), "{said}");
    rig.refused("pay wallet send alice --to 0-1-2 --amount 6 --id 7", "SYN-3116", 5);
    let paid = rig.json(&format!("{send} --timeout 60s"));
    assert_eq!((paid["digest"].as_str(), &paid["n"]), (Some(&*signed), &"1".into()), "{paid}");

    // Killed between signing and the first member that hears of it.
    let mut child =
        begin(rig.command(&format!("pay wallet send alice --to 0-1-2 --amount 9 --id 8{options}")));
    let signed = loop {
        // The first entry may have been given to several.
        match before.entry() {
            digest if digest == signed => {}
            digest => break digest,
        }
    };
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    let kept = rig.json("pay wallet show alice");
    let rows = kept["open"].as_array().expect("a list");
    assert_eq!(rows.last().map(|row| (&row["id"], &row["n"])), Some((&"8".into(), &"2".into())), "{kept}");
    let told = rig.json("pay wallet status alice --timeout 60s");
    let rows = told["entries"].as_array().expect("a list");
    assert!(rows.iter().all(|row| row["state"] == "settled" || row["state"] == "stable"), "{told}");
    deployed.settled_at(8, 1);
    assert_eq!(rig.json("pay status 8 --node n1")["digest"], signed, "the same bytes");
    deployed.settled_at(8, 0);
    assert_eq!(deployed.available("0-0-2"), "986");
}

/// Copies a wallet as a user would.
fn copy(rig: &Rig, from: &str, to: &str) {
    assert_eq!(rig.shell(&format!("cp -a {from} {to}")).code, 0);
}

#[test]
fn an_old_copy_of_a_wallet_says_that_another_signs_and_a_lost_log_is_read_from_members() {
    let deployed = furnished();
    let rig = &deployed.rig;
    copy(rig, "alice", "copy");
    rig.ok("pay wallet send alice --to 0-1-2 --amount 5 --id 7 --until stable --timeout 60s");
    let told = rig.refused("pay wallet send copy --to 0-1-2 --amount 6 --timeout 60s", "SYN-3112", 5);
    assert!(told.contains("entry 1") && told.contains("signed by another wallet"), "{told}");
    rig.refused("pay wallet status copy --timeout 60s", "SYN-3112", 5);
    assert_eq!(deployed.available("0-0-2"), "995", "the copy spent nothing");

    std::fs::remove_dir_all(rig.path("alice/log")).expect("it is there");
    let lost = rig.refused("pay wallet send alice --to 0-1-2 --amount 6", "SYN-5008", 9);
    assert!(lost.contains("synod pay wallet recover"), "{lost}");
    rig.refused("pay wallet show alice", "SYN-5008", 9);
    rig.refused("pay wallet recover alice", "SYN-1001", 2);
    rig.refused("pay wallet send nobody --to 0-1-2 --amount 6", "SYN-1101", 3);
    assert_eq!(rig.json("pay wallet recover alice --accept-lock-risk --timeout 60s")["n"], "1");
    let paid = rig.json("pay wallet send alice --to 0-1-2 --amount 6 --id 8 --until stable --timeout 60s");
    assert_eq!(paid["n"], "2");
    // The copy is of use again in the same way, and alice then is the old one.
    assert_eq!(rig.json("pay wallet recover copy --accept-lock-risk --timeout 60s")["n"], "2");
    rig.ok("pay wallet send copy --to 0-1-2 --amount 7 --id 9 --until stable --timeout 60s");
    rig.refused("pay wallet send alice --to 0-1-2 --amount 1 --timeout 60s", "SYN-3112", 5);
    assert_eq!(deployed.available("0-0-2"), "982");
}

#[test]
fn a_wallet_whose_making_was_interrupted_takes_the_account_that_was_opened_for_its_key() {
    let deployed = furnished();
    let rig = &deployed.rig;
    // The key is there and the account was opened; what came of it was not written.
    std::fs::create_dir(rig.path("bob")).expect("it is new");
    let key = rig.json("keys new --out bob/key")["public"].as_str().expect("digits").to_owned();
    let opened = rig.json(&format!("pay account new --node n2 --key {key}"))["id"].clone();
    assert_eq!(rig.json("pay wallet new bob --node n2")["account"], opened);
    let other = rig.path("alice/wallet.json");
    let text = read(&other);
    let cluster = text.split('"').find(|word| word.len() == 64).expect("the cluster's id").to_owned();
    std::fs::write(&other, text.replace(&cluster, &"0".repeat(64))).expect("it is ours");
    rig.refused("pay wallet show alice", "SYN-1108", 3);
}

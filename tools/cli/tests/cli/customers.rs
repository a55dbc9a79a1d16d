//! Customers of payments whose node is a program of the test: what they send, and what they are told whatever comes back.

use crate::rig::{Rig, read};
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// What a request said.
#[derive(Clone, Debug, Default)]
struct Heard {
    line: String,
    headers: Vec<String>,
    body: Value,
}

/// A user with the genesis of a payment system of four, whose first node is this test.
struct Customer {
    rig: Rig,
    port: u16,
    heard: Arc<Mutex<Vec<Heard>>>,
}

fn hear(stream: &TcpStream) -> Heard {
    let mut reader = BufReader::new(stream);
    let mut head: Vec<String> = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).expect("a line of the head");
        let line = line.trim_end().to_owned();
        if line.is_empty() {
            break;
        }
        head.push(line);
    }
    let length = head.iter().find_map(|line| line.strip_prefix("Content-Length: "));
    let length = length.map_or(0, |length| length.parse().expect("a length"));
    let mut body = vec![0; length];
    reader.read_exact(&mut body).expect("the body");
    let body = if body.is_empty() { Value::Null } else { serde_json::from_slice(&body).expect("JSON") };
    let line = head.remove(0);
    Heard { line, headers: head, body }
}

/// An answer of this status with this body.
fn answer(status: u16, body: &str) -> String {
    format!("HTTP/1.0 {status} x\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// A listener whose port a node can have for HTTP, with other nodes' ports behind it.
fn listener() -> (TcpListener, u16) {
    loop {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let port = listener.local_addr().expect("it has an address").port();
        if (1_024..65_000).contains(&port) {
            return (listener, port);
        }
    }
}

impl Customer {
    /// A node that answers all that comes with what `says` gives, and closes the connection.
    fn of(says: impl Fn(&Heard) -> String + Send + 'static) -> Self {
        let (listener, port) = listener();
        let rig = Rig::new();
        rig.ok(&format!("init --name bank --kind astro --nodes 4 --base-port {} --out bank", port - 2));
        rig.ok("ctx add bank --genesis bank/genesis.toml");
        let heard = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&heard);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.expect("a connection");
                let asked = hear(&stream);
                let said = says(&asked);
                kept.lock().expect("nobody failed").push(asked);
                stream.write_all(said.as_bytes()).expect("the customer listens");
            }
        });
        Self { rig, port, heard }
    }

    /// What came since the last look.
    fn heard(&self) -> Vec<Heard> {
        std::mem::take(&mut *self.heard.lock().expect("nobody failed"))
    }

    /// Changes the genesis that the customer has.
    fn genesis(&self, change: impl Fn(&str) -> String) {
        let path = self.rig.path("bank/genesis.toml");
        let (before, after) = (read(&path), change(&read(&path)));
        assert_ne!(before, after, "the genesis changes");
        std::fs::write(path, after).expect("the file is writable");
    }
}

/// Every verb that orders something of the first institution.
const ORDERS: [&str; 7] = [
    "pay send --from 0-0-2 --to 0-1-2 --amount 5",
    "pay multi --from 0-0-2 --leg 0-1-2=5 --leg 0-2-2=7",
    "pay hold --from 0-0-2 --to 0-1-2 --amount 5",
    "pay post 8 --by 0-0-2",
    "pay void 8 --by 0-0-2",
    "pay faucet 0-0-2",
    "pay send --from 0-0-2 --to 0-1-2 --amount 5 --id 7",
];

fn in_a_drill(text: &str) -> String {
    text.replace("drill = false", "drill = true")
}

#[test]
fn an_order_that_was_sent_and_not_answered_is_unknown_and_named() {
    let halves =
        ["", "HTTP/1.0 200 OK\r\nContent-Length: 100\r\n\r\n{\"id\"", "HTTP/1.0 200 OK\r\n\r\n<html>"];
    for half in halves {
        let customer = Customer::of(move |_| half.to_owned());
        customer.genesis(in_a_drill);
        for line in ORDERS {
            let told = customer.rig.refused(line, "SYN-3502", 7);
            let ids: Vec<String> = customer
                .heard()
                .iter()
                .map(|heard| heard.body["id"].as_str().expect("an order has an id").to_owned())
                .collect();
            assert_eq!(ids.len(), 2, "{line} was sent twice, as text and as JSON");
            for shown in ["synod pay status ", "--id ", "transfer "] {
                assert!(told.contains(&format!("{shown}{}", ids[0])), "{line}: {told}");
            }
        }
        let told = customer.rig.refused("pay account new", "SYN-3502", 7);
        assert!(told.contains("`synod pay account ls --node n0`"), "{told}");
        // A question changes nothing, so nothing is unknown.
        assert_ne!(customer.rig.run("pay account ls").code, 7);
    }
}

#[test]
fn an_order_that_nobody_took_says_so_and_still_names_itself() {
    let rig = Rig::new();
    // Ports of services that nothing has offered for decades.
    rig.ok("init --name bank --kind astro --nodes 4 --base-port 1 --out bank");
    rig.ok("ctx add bank --genesis bank/genesis.toml");
    let told = rig.refused("pay send --from 0-0-2 --to 0-1-2 --amount 5 --id 77", "SYN-2001", 4);
    assert!(told.contains("`synod pay status 77 --from 0-0-2`"), "{told}");
}

#[test]
fn what_is_plainly_refused_names_no_id_to_ask_for() {
    let body = r#"{"code":"SYN-3115","detail":"0-0-2 has less than 5","causes":[]}"#;
    let customer = Customer::of(move |_| answer(409, body));
    let told = customer.rig.refused(ORDERS[6], "SYN-3115", 5);
    assert!(told.contains("0-0-2 has less than 5") && !told.contains("pay status"), "{told}");
    // What the node itself does not know is asked for by the id.
    let body = r#"{"code":"SYN-3501","detail":"no outcome for transfer 7 before its deadline of 5s"}"#;
    let customer = Customer::of(move |_| answer(504, body));
    assert!(customer.rig.refused(ORDERS[6], "SYN-3501", 7).contains("`synod pay status 7 --from 0-0-2`"));
}

/// What is known of an account, as a node says.
const STANDING: &str = r#"{"id":"0-0-1","available":"0"}"#;

#[test]
fn nodes_on_machines_of_their_own_are_reached_where_their_users_say() {
    let customer =
        Customer::of(|heard| answer(200, if heard.line.starts_with("GET") { STANDING } else { "{}" }));
    let rig = &customer.rig;
    let members =
        "--member a=10.0.0.1:7100 --member b=10.0.0.2:7100 --member c=10.0.0.3:7100 --member d=10.0.0.4:7100";
    rig.ok(&format!("init --name far --kind astro {members} --out far"));
    rig.ok("ctx add far --genesis far/genesis.toml");
    let send = "pay send --from 0-1-2 --to 0-0-2 --amount 5";
    let told = rig.refused(send, "SYN-1001", 2);
    assert!(told.contains("node of b") && told.contains("--http b=127.0.0.1:PORT"), "{told}");
    rig.refused("pay account ls", "SYN-1001", 2);
    assert_eq!(customer.heard().len(), 0);

    let here = format!("b=127.0.0.1:{}", customer.port);
    rig.ok(&format!("{send} --http {here}"));
    // Who names nobody means the one that can be reached.
    rig.ok(&format!("pay --http {here} account ls"));
    assert_eq!(customer.heard().len(), 2);
    let told = rig.refused(&format!("pay account show 0-0-1 --http {here}"), "SYN-1001", 2);
    assert!(told.contains("--node b"), "{told}");
    rig.ok(&format!("pay account show 0-0-1 --http {here} --node b"));
    rig.refused("pay account ls --http x=127.0.0.1:1", "SYN-1001", 2);

    rig.refused(
        &format!("ctx add near --genesis far/genesis.toml --http 127.0.0.1:{}", customer.port),
        "SYN-1001",
        2,
    );
    rig.refused("ctx add near --genesis far/genesis.toml --http x=127.0.0.1:1", "SYN-1001", 2);
    rig.ok(&format!("ctx add near --genesis far/genesis.toml --http {here}"));
    assert_eq!(rig.json("ctx show")["member"], "b");
    customer.heard();
    rig.ok(send);
    assert_eq!(customer.heard().len(), 1);
}

#[test]
fn the_token_of_a_node_is_shown_to_it_and_to_nobody_else() {
    let customer = Customer::of(|_| answer(200, STANDING));
    let rig = &customer.rig;
    let shown = || {
        let heard = customer.heard();
        let header = |heard: &Heard| {
            let found = heard.headers.iter().find_map(|line| line.strip_prefix("Authorization: "));
            found.map(str::to_owned)
        };
        heard.iter().map(header).collect::<Vec<_>>()
    };
    rig.write_private("token", "0123456789abcdef\n");
    rig.write_private("other", "another\n");
    rig.ok("pay account show 0-0-1");
    rig.ok("pay account show 0-0-1 --token-file token");
    assert_eq!(shown(), [None, Some("Bearer 0123456789abcdef".to_owned())]);
    rig.ok("ctx add guarded --genesis bank/genesis.toml --token-file token");
    rig.ok("pay account show 0-0-1");
    rig.ok("pay account show 0-0-1 --token-file other");
    assert_eq!(shown(), ["0123456789abcdef", "another"].map(|word| Some(format!("Bearer {word}"))));

    std::fs::write(rig.path("open"), "word").expect("the directory is writable");
    rig.refused("pay account show 0-0-1 --token-file open", "SYN-1104", 3);
    rig.refused("pay account show 0-0-1 --token-file absent", "SYN-1101", 3);
    rig.refused("pay account show 0-0-1 --http n0=10.0.0.1:1", "SYN-1001", 2);
    assert_eq!(customer.heard().len(), 0);
}

#[test]
fn a_faucet_takes_from_nobody_but_an_issuer() {
    let customer = Customer::of(|_| answer(200, "{}"));
    customer.genesis(in_a_drill);
    customer.rig.ok("pay faucet 0-0-2 --amount 7");
    let ordered = customer.heard();
    assert_eq!((&ordered[0].body["from"], &ordered[0].body["to"]), (&"0-0-1".into(), &"0-0-2".into()));
    customer.rig.refused("pay faucet 0-0-1", "SYN-1001", 2);
    // Where n0 is no registrar, 0-0-1 is its first customer.
    customer.genesis(|text| {
        let sections = text.split("\n\n");
        let others = sections.filter(|part| !part.starts_with("[[registrar]]\nmember = \"n0\""));
        others.collect::<Vec<_>>().join("\n\n")
    });
    let told = customer.rig.refused("pay faucet 0-0-2", "SYN-3013", 5);
    assert!(told.contains("n0 is no registrar"), "{told}");
    assert_eq!(customer.heard().len(), 0);
}

/// A payment of this name and payer, as a node says.
fn payment(id: &str, from: &str) -> String {
    format!(r#"{{"id":"{id}","from":"{from}","state":"settled","resolver":"0-0-2"}}"#)
}

#[test]
fn a_payment_is_asked_for_by_its_name_and_its_payer() {
    let customer = Customer::of(|heard| {
        let asked = heard.line.split(' ').nth(1).unwrap_or_default();
        let from = asked.split_once("?from=").map_or("0-1-2", |(_, from)| from);
        answer(200, &payment("7", from))
    });
    let (rig, here) = (&customer.rig, format!("n1=127.0.0.1:{}", customer.port));
    let told = rig.json(&format!("pay status 7 --from 0-1-9 --http {here}"));
    assert_eq!((&told["from"], &told["node"]), (&"0-1-9".into(), &"n1".into()));
    rig.ok("pay post 7 --payer 0-0-9");
    rig.ok("pay void 7 --payer 0-0-9 --by 0-0-2");
    rig.ok("pay post 7 --by 0-0-2");
    let heard = customer.heard();
    let lines: Vec<&str> = heard.iter().map(|heard| heard.line.as_str()).collect();
    assert_eq!(lines[0], "GET /v1/pay/transfers/7?from=0-1-9 HTTP/1.0");
    assert_eq!(lines[1], "GET /v1/pay/transfers/7?from=0-0-9 HTTP/1.0", "the hold says who decides");
    let named: Vec<&Value> = heard[2..].iter().map(|heard| &heard.body["pending_from"]).collect();
    assert_eq!(named, [&Value::from("0-0-9"), &Value::from("0-0-9"), &Value::Null]);
}

#[test]
fn a_name_of_two_payers_is_not_taken_for_one_payment() {
    let customer = Customer::of(|_| answer(200, &payment("7", "0-0-2")));
    let other = Customer::of(|_| answer(200, &payment("7", "0-1-2")));
    let rig = &customer.rig;
    // Two nodes answer; nobody is at the ports of the others.
    let nobody = "--http n2=127.0.0.1:1 --http n3=127.0.0.1:1";
    let both = format!("{nobody} --http n1=127.0.0.1:{}", other.port);
    let told = rig.refused(&format!("pay status 7 {both}"), "SYN-1001", 2);
    for part in ["0-0-2", "0-1-2", "--from"] {
        assert!(told.contains(part), "{told}");
    }
    assert!(rig.refused(&format!("pay void 7 {both}"), "SYN-1001", 2).contains("--payer"));
    let one = format!("{nobody} --http n1=127.0.0.1:{}", customer.port);
    assert_eq!(rig.json(&format!("pay status 7 {one}"))["node"], "n0", "the word of the payer's institution");
}

#[test]
fn a_node_that_knows_several_payers_is_asked_again_with_one() {
    let body = r#"{"code":"SYN-3133","detail":"several accounts have a payment 7 here"}"#;
    let customer = Customer::of(move |_| answer(409, body));
    for (line, option) in [
        ("pay status 7 --node n0", "--from ACCOUNT"),
        ("pay receipt 7 --node n0", "--from ACCOUNT"),
        ("pay post 7 --by 0-0-2", "--payer ACCOUNT"),
    ] {
        let ran = customer.rig.run(line);
        assert!(
            ran.code != 0 && ran.err.contains("SYN-3133") && ran.err.contains(option),
            "{line}: {}",
            ran.err
        );
    }
}

//! A receiver that is told what settles: it fails first, and the node is killed meanwhile.

use crate::pay::Deployed;
use crate::rig::{Rig, read};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// A request: its head, its body as text.
type Heard = (String, String);

/// Answers the first so many requests with an error, and others with OK.
fn receiver(fails: usize) -> (u16, Receiver<Heard>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = listener.local_addr().expect("it has an address").port();
    let (told, heard) = channel();
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let mut stream = stream.expect("a connection");
            let (mut text, mut part) = (String::new(), [0; 4 << 10]);
            let request = loop {
                let count = stream.read(&mut part).expect("a request");
                // A node that is killed sends half of one.
                if count == 0 {
                    break None;
                }
                text.push_str(std::str::from_utf8(&part[..count]).expect("text"));
                let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
                let length =
                    head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).expect("a length");
                if body.len() == length.parse::<usize>().expect("a number") {
                    break Some((head.to_owned(), body.to_owned()));
                }
            };
            let Some(request) = request else { continue };
            let answer = if number < fails { "503 Later" } else { "200 OK" };
            drop(stream.write_all(format!("HTTP/1.1 {answer}\r\nContent-Length: 0\r\n\r\n").as_bytes()));
            if told.send(request).is_err() {
                return;
            }
        }
    });
    (port, heard)
}

/// A payment system of one node that tells this port.
fn hooked(port: u16) -> Deployed {
    let rig = Rig::new();
    rig.ok("up --kind astro --nodes 1 --dir bank --base-port 0 --detach");
    rig.ok("down");
    let config = rig.path("bank/n0/node.toml");
    let section =
        format!("\n[webhook]\naddress = \"127.0.0.1:{port}\"\npath = \"/settled\"\nsecret_file = \"hook\"\n");
    std::fs::write(&config, read(&config) + &section).expect("the file is writable");
    rig.write_private("bank/n0/hook", "0123456789abcdef\n");
    let up = rig.json("up --dir bank --detach");
    Deployed { rig, up }
}

/// Waits until rows up to a position came; each is checked for its signature.
fn until(heard: &Receiver<Heard>, rows: &mut BTreeMap<u64, Value>, last: u64) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while rows.len() < usize::try_from(last).expect("few") {
        let left = deadline.saturating_duration_since(Instant::now());
        let (head, body) = heard.recv_timeout(left).unwrap_or_else(|_| panic!("{rows:?}"));
        assert!(head.starts_with("POST /settled HTTP/1.1\r\n"), "{head}");
        let signed =
            head.lines().find_map(|line| line.strip_prefix("Synod-Signature: t=")).expect("it is signed");
        let (seconds, tag) = signed.split_once(",v1=").expect("a time and a tag");
        let wanted =
            synod_host::hmac_sha256(b"0123456789abcdef", &[seconds.as_bytes(), b".", body.as_bytes()]);
        assert_eq!(tag, synod_config::hex(&wanted));
        let body: Value = serde_json::from_str(&body).expect("JSON");
        for row in body["changes"].as_array().expect("rows") {
            let position = row["position"].as_str().and_then(|text| text.parse().ok()).expect("a position");
            let known = rows.insert(position, row.clone());
            assert!(known.is_none_or(|known| known == *row), "a row that comes again is the same");
            assert!(rows.keys().copied().eq(1..=rows.len() as u64), "nothing is left out: {:?}", rows.keys());
        }
    }
}

#[test]
fn all_that_settles_is_posted_though_the_receiver_fails_first_and_the_node_is_killed() {
    let (port, heard) = receiver(2);
    let deployed = hooked(port);
    let rig = &deployed.rig;
    let pay = |id: u32| rig.ok(&format!("pay send --from 0-0-1 --to 0-0-2 --amount {id} --id {id}"));
    assert_eq!(rig.json("pay account new")["id"], "0-0-2");
    (1..=5).for_each(|id| drop(pay(id)));
    let mut rows = BTreeMap::new();
    until(&heard, &mut rows, 5);
    pay(6);
    deployed.kill(0);
    rig.ok("restart n0");
    pay(7);
    until(&heard, &mut rows, 7);
    let shown = rig.json("pay changes");
    for (row, listed) in rows.values().zip(shown["changes"].as_array().expect("rows")) {
        for name in ["position", "id", "kind", "from", "to", "amount", "n", "code"] {
            assert_eq!(row[name], listed[name], "{row} and {listed}");
        }
    }
    assert_eq!(rig.run("config explain webhook.address").code, 0);
}

//! Logs that nodes export, and their audit by whoever has the genesis.

use crate::pay::Deployed;
use crate::rig::Rig;
use std::path::Path;

#[test]
fn the_log_of_any_node_is_audited_with_the_genesis_alone_and_a_changed_one_is_told() {
    let deployed = Deployed::new();
    let rig = &deployed.rig;
    rig.ok("pay account new --node n1");
    deployed.known("0-1-2");
    for id in 1..=6 {
        rig.ok(&format!("pay send --from 0-{}-1 --to 0-1-2 --amount {id} --id {id} --until stable", id % 3));
    }
    rig.ok("pay hold --from 0-1-2 --to 0-2-1 --amount 5 --id 7 --until stable");
    rig.ok("pay post 7 --amount 3 --id 71 --until stable");
    // A node that carried none of them, and one that did.
    for (node, file) in [(3, "n3.log"), (0, "n0.log")] {
        deployed.settled_at(71, node);
        let told = rig.json(&format!("pay export --node n{node} --out {file}"));
        assert_eq!((&told["payments"], &told["node"]), (&8.into(), &format!("n{node}").into()), "{told}");
    }
    rig.refused("pay export --out n0.log", "SYN-1101", 3);

    let away = Rig::new();
    std::fs::copy(deployed.genesis(), away.path("genesis.toml")).expect("it is there");
    for file in ["n0.log", "n3.log"] {
        std::fs::copy(rig.path(file), away.path(file)).expect("it was written");
    }
    let found = away.json("pay audit n3.log --genesis genesis.toml");
    assert_eq!(
        (&found["ok"], &found["payments"], &found["unseen_orders"]),
        (&true.into(), &8.into(), &0.into()),
        "{found}"
    );
    assert!(found["certificates"].as_u64() >= Some(4), "{found}");
    // Six payments to one, and three of five that were set aside.
    assert_eq!(
        (&found["money"][0]["credits"], &found["money"][0]["debits"]),
        (&"24".into(), &"24".into()),
        "{found}"
    );
    let found = away.json("pay audit n0.log n3.log --genesis genesis.toml");
    assert_eq!((&found["ok"], &found["logs"]), (&true.into(), &2.into()), "{found}");
    changed(&away);
}

/// A log that was changed or cut off, and one of another cluster.
fn changed(away: &Rig) {
    let bytes = std::fs::read(away.path("n3.log")).expect("it is there");
    let write = |name: &str, bytes: &[u8]| std::fs::write(away.path(name), bytes).expect("a folder");
    let audit = |name: &str, code: &str, exit: i32| {
        away.refused(&format!("pay audit {name} --genesis genesis.toml"), code, exit)
    };
    write("cut.log", &bytes[..bytes.len() - 10]);
    assert!(audit("cut.log", "SYN-6002", 8).contains("cut off"));
    let mut other = bytes.clone();
    other[bytes.len() / 2] ^= 1;
    write("other.log", &other);
    audit("other.log", "SYN-6002", 8);
    write("none.log", b"nothing of the kind");
    audit("none.log", "SYN-6002", 8);
    audit("missing.log", "SYN-1101", 3);
    away.ok("init --name other --kind astro --nodes 4 --out other");
    away.refused("pay audit n3.log --genesis other/genesis.toml", "SYN-6003", 8);
    // Whoever exports may write a sound file of false records: without the second payment the next ones hang in the air.
    forge(&away.path("n3.log"), &away.path("forged.log"));
    let ran = away.run("pay audit forged.log --genesis genesis.toml --json");
    assert_eq!(ran.code, 8, "{}", ran.err);
    assert!(ran.err.contains("SYN-6009"), "{}", ran.err);
    let found: serde_json::Value = serde_json::from_str(&ran.out).expect("a report");
    assert_eq!(found["ok"], false, "{found}");
    let first = &found["violations"][0];
    assert_eq!((&first["what"], &first["log"]), (&"refused".into(), &"forged.log".into()), "{found}");
    assert!(first["shown"].as_str().is_some_and(|shown| shown.starts_with("entry ")), "{found}");
}

/// Writes a log without its second record.
fn forge(from: &Path, to: &Path) {
    use synod_host::pay::{Frames, Write};
    use synod_wire::Wire as _;
    let open = |path: &Path| std::io::BufReader::new(std::fs::File::open(path).expect("a file"));
    let mut frames = Frames::open(open(from)).expect("a log");
    let head = *frames.head();
    let mut log = Write::begin(std::fs::File::create(to).expect("a folder"), &head).expect("it is written");
    while let Some((record, item)) = frames.next_item().expect("a whole log") {
        if record != 2 {
            log.record(&item.encode()).expect("it is written");
        }
    }
    log.end().expect("it is written");
}

#[test]
fn whoever_follows_a_node_sees_each_payment_once_in_its_order() {
    let deployed = Deployed::new();
    let rig = &deployed.rig;
    rig.ok("pay account new --node n1");
    deployed.known("0-1-2");
    for id in 1..=5 {
        rig.ok(&format!("pay send --from 0-0-1 --to 0-1-2 --amount {id} --id {id}"));
    }
    deployed.settled_at(5, 2);
    let (mut cursor, mut seen) = ("0".to_owned(), Vec::new());
    loop {
        let page = rig.json(&format!("pay changes --node n2 --from {cursor} --limit 2"));
        let rows = page["changes"].as_array().expect("a list");
        seen.extend(rows.iter().map(|row| row["id"].as_str().expect("a name").to_owned()));
        page["cursor"].as_str().expect("a position").clone_into(&mut cursor);
        if page["more"] == false {
            break;
        }
    }
    assert_eq!(seen, ["1", "2", "3", "4", "5"]);
    assert_eq!(rig.json(&format!("pay changes --node n2 --from {cursor}"))["changes"], serde_json::json!([]));
    rig.refused("pay changes --from x", "SYN-1001", 2);
    let lines = rig.ok("pay watch --node n2 --from 1 --count 3 --json");
    let ids = lines
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("a row")["id"].clone());
    assert_eq!(ids.collect::<Vec<_>>(), ["2", "3", "4"]);
    rig.ok("pay send --from 0-0-1 --to 0-1-1 --amount 6 --id 6");
    let watched = rig.ok("pay watch --node n2 --account 0-1-1 --count 1");
    assert!(watched.starts_with("6  6  "), "{watched}");
    rig.refused("pay watch --node n9", "SYN-1001", 2);
}

/// The next events of a stream: their ids and the names of their payments. Comments that keep it alive are passed over.
fn events(stream: &mut impl std::io::BufRead, count: usize) -> Vec<(String, String)> {
    let (mut ids, mut names, mut line) = (Vec::new(), Vec::new(), String::new());
    while names.len() < count {
        line.clear();
        assert!(stream.read_line(&mut line).expect("a line") > 0, "the stream ended behind {names:?}");
        if let Some(id) = line.strip_prefix("id: ") {
            ids.push(id.trim().to_owned());
        }
        if let Some(row) = line.strip_prefix("data: ") {
            let row: serde_json::Value = serde_json::from_str(row).expect("a row");
            names.push(row["id"].as_str().expect("a name").to_owned());
        }
    }
    ids.into_iter().zip(names).collect()
}

#[test]
fn events_go_on_as_payments_settle_and_behind_the_last_one_seen_and_end_with_the_node() {
    use std::io::{BufReader, Read as _, Write as _};
    let deployed = Deployed::new();
    let rig = &deployed.rig;
    let follow = |last: &str| {
        let port = deployed.up["nodes"][2]["http"].as_u64().and_then(|port| u16::try_from(port).ok());
        let mut stream =
            std::net::TcpStream::connect(("127.0.0.1", port.expect("a port"))).expect("it listens");
        let head = "GET /v1/changes HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n";
        stream.write_all(format!("{head}{last}\r\n").as_bytes()).expect("it is sent");
        BufReader::new(stream)
    };
    let mut first = follow("");
    for id in 1..=3 {
        rig.ok(&format!("pay send --from 0-0-1 --to 0-1-1 --amount 5 --id {id}"));
        let position = id.to_string();
        assert_eq!(events(&mut first, 1), [(position.clone(), position)]);
    }
    let pair = |id: &str| (id.to_owned(), id.to_owned());
    let mut again = follow("Last-Event-ID: 1\r\n");
    assert_eq!(events(&mut again, 2), [pair("2"), pair("3")]);
    let mut wrong = String::new();
    let mut refused = follow("Last-Event-ID: last\r\nConnection: close\r\n");
    refused.read_to_string(&mut wrong).expect("an answer");
    assert!(wrong.starts_with("HTTP/1.1 400") && wrong.contains("Last-Event-ID"), "{wrong}");
    // Two of 64 places are taken: behind the others there is none, and those who have one go on.
    let status = |stream: &mut BufReader<std::net::TcpStream>| {
        let mut line = String::new();
        std::io::BufRead::read_line(stream, &mut line).expect("an answer");
        line
    };
    let mut held: Vec<_> = (2..64).map(|_| follow("Last-Event-ID: 3\r\n")).collect();
    assert!(held.iter_mut().all(|stream| status(stream).starts_with("HTTP/1.1 200")));
    let (mut beyond, mut busy) = (follow("Connection: close\r\n"), String::new());
    beyond.read_to_string(&mut busy).expect("an answer");
    assert!(busy.starts_with("HTTP/1.1 429") && busy.contains("SYN-3402"), "{busy}");
    rig.ok("pay send --from 0-0-1 --to 0-1-1 --amount 5 --id 4");
    assert_eq!(events(&mut again, 1), [pair("4")]);
    rig.ok("down");
    let mut rest = Vec::new();
    assert!(first.read_to_end(&mut rest).is_ok(), "a node that stops ends its streams");
}

//! Verbs that make and check files.

use crate::rig::{Rig, read};
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Every file below a directory with its content.
fn contents(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open = vec![directory.to_owned()];
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(&next).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                open.push(path);
            } else {
                found.insert(path.clone(), std::fs::read(&path).expect("a file"));
            }
        }
    }
    found
}

#[test]
fn init_makes_a_cluster_that_checks_out() {
    let rig = Rig::new();
    let made = rig.json("init --name shop --nodes 4 --out cluster");
    assert_eq!((&made["f"], &made["members"]), (&1.into(), &4.into()));
    for node in ["n0", "n1", "n2", "n3"] {
        rig.ok(&format!("config check cluster/{node}"));
        let seen = rig.json(&format!("node inspect genesis --data cluster/{node}"));
        assert_eq!((&seen["id"], &seen["this_node"]), (&made["id"], &node.into()));
        let wal = rig.json(&format!("node inspect wal --data cluster/{node}"));
        assert_eq!((&wal["cluster"], &wal["damaged_lanes"]), (&made["id"], &0.into()));
        let key = std::fs::metadata(rig.path(&format!("cluster/{node}/keys/node.key"))).expect("a key");
        assert_eq!(key.permissions().mode() & 0o7777, 0o600);
    }
    let names: Vec<PathBuf> =
        std::fs::read_dir(rig.path("")).expect("a directory").flatten().map(|e| e.path()).collect();
    assert_eq!(names, [rig.path("cluster")], "nothing is left beside the cluster");
}

#[test]
fn members_are_placed_where_they_were_said_to_be() {
    let rig = Rig::new();
    rig.ok("init --name shop --member a=10.0.0.1:7100 --member b=10.0.0.2:9000 --out cluster");
    rig.ok("config check cluster/a cluster/b");
    let seen = rig.json("node inspect genesis --data cluster/b");
    assert_eq!(
        (&seen["list"][1]["peer"], &seen["list"][1]["client"]),
        (&"10.0.0.2:9000".into(), &"10.0.0.2:9001".into())
    );
    assert!(read(&rig.path("cluster/b/node.toml")).contains("resp = \"127.0.0.1:9004\""));
}

#[test]
fn init_never_overwrites() {
    let rig = Rig::new();
    rig.ok("init --name shop --nodes 1 --out cluster");
    let before = contents(&rig.path("cluster"));
    for line in [
        "init --name shop --nodes 1 --out cluster",
        "init --name shop --nodes 1 --out cluster/n0",
        "init --name shop --nodes 1 --out cluster/genesis.toml",
        "init --join cluster/genesis.toml --key cluster/n0/keys/node.key --out cluster/n0",
    ] {
        rig.refused(line, "SYN-1109", 3);
        assert!(contents(&rig.path("cluster")) == before, "{line} changed a file");
    }
    std::fs::create_dir(rig.path("empty")).expect("a directory");
    rig.ok("init --name shop --nodes 1 --out empty");
}

#[test]
fn a_refused_init_leaves_nothing() {
    let rig = Rig::new();
    for (line, code, exit) in [
        ("init --name shop --member a=h:1 --member a=h:20 --out x", "SYN-1105", 3),
        ("init --name shop --member a=h:7100 --member b=h:7101 --out x", "SYN-1105", 3),
        ("init --name shop --member ../a=h:7100 --out x", "SYN-1103", 3),
        ("init --name sh/op --nodes 1 --out x", "SYN-1103", 3),
        ("init --name shop --member a=h:65535 --out x", "SYN-1103", 3),
        ("init --name shop --nodes 1 --base-port 65530 --out x", "SYN-1103", 3),
        ("init --name shop --out x", "SYN-1001", 2),
        ("init --name shop --nodes 1 --kind ubft --out x", "SYN-1001", 2),
    ] {
        rig.refused(line, code, exit);
        assert_eq!(std::fs::read_dir(rig.path("")).expect("a directory").count(), 0, "{line} left something");
    }
}

#[test]
fn a_cluster_is_made_from_cards_without_moving_a_key() {
    let rig = Rig::new();
    for (name, port) in [("a", 7100), ("b", 7200), ("c", 7300), ("d", 7400)] {
        rig.ok(&format!("keys new --out {name}.key"));
        let peer = format!("--peer 127.0.0.1:{port} --client 127.0.0.1:{}", port + 1);
        rig.ok(&format!("keys card {name}.key --name {name} {peer} --out {name}.card"));
    }
    let made = rig.json("init --name shop --cards a.card b.card c.card d.card --out shared");
    assert_eq!(made["f"], 1);
    rig.ok("init --join shared/genesis.toml --key c.key --out c");
    rig.ok("config check c shared/genesis.toml a.card");
    assert_eq!(rig.json("node inspect genesis --data c")["id"], made["id"]);
    assert_eq!(read(&rig.path("c/keys/node.key")), read(&rig.path("c.key")));

    rig.ok("keys new --out other.key");
    rig.refused("init --join shared/genesis.toml --key other.key --out e", "SYN-1107", 3);
    let forged = read(&rig.path("a.card")).replace("7100", "7999");
    std::fs::write(rig.path("forged.card"), forged).expect("the file is written");
    rig.refused("init --name shop --cards forged.card b.card --out f", "SYN-1105", 3);
    assert!(!rig.path("e").exists() && !rig.path("f").exists());
}

#[test]
fn a_cluster_of_chop_chop_is_made_from_cards_of_servers_and_brokers() {
    let rig = Rig::new();
    for (name, port) in [("n0", 7100), ("n1", 7200), ("n2", 7300), ("n3", 7400)] {
        rig.ok(&format!("keys new --out {name}.key"));
        let at = format!("--peer 127.0.0.1:{port} --client 127.0.0.1:{}", port + 1);
        rig.ok(&format!("keys card {name}.key --name {name} {at} --out {name}.card"));
    }
    rig.ok("keys new --out b0.key");
    rig.ok("keys card b0.key --name b0 --broker 127.0.0.1:7508 --out b0.card");
    rig.ok("config check b0.card n0.card");
    let cards = "--cards n0.card n1.card n2.card n3.card b0.card";
    let made = rig.json(&format!("init --name shop --kind chopchop {cards} --out shared"));
    assert_eq!((&made["f"], &made["members"]), (&1.into(), &4.into()));
    assert_eq!(made["brokers"][0]["datagram"], "127.0.0.1:7508");
    for name in ["n2", "b0"] {
        let joined = rig.json(&format!("init --join shared/genesis.toml --key {name}.key --out {name}"));
        assert_eq!((&joined["node"], &joined["id"]), (&name.into(), &made["id"]));
        assert_eq!(
            read(&rig.path(&format!("{name}/keys/node.key"))),
            read(&rig.path(&format!("{name}.key")))
        );
    }
    assert_eq!(rig.json("node inspect genesis --data n2")["protocol"], "chopchop");
    assert_eq!(rig.json("node inspect directory --data n2")["clients"], 0);

    let without = read(&rig.path("n0.card"));
    let without: Vec<&str> =
        without.lines().filter(|l| !l.starts_with("bls") && !l.starts_with("pop")).collect();
    std::fs::write(rig.path("old.card"), without.join("\n")).expect("the file is written");
    rig.refused("init --name x --kind chopchop --cards old.card --out f", "SYN-1105", 3);
    rig.refused("init --name x --cards n0.card b0.card --out f", "SYN-1001", 2);
    rig.refused("init --name x --kind chopchop --brokers 1 --cards n0.card --out f", "SYN-1001", 2);
    rig.refused("keys card b0.key --name b0 --out f", "SYN-1001", 2);
    rig.ok("keys new --out other.key");
    rig.refused("init --join shared/genesis.toml --key other.key --out f", "SYN-1107", 3);
    assert!(!rig.path("f").exists());
}

#[test]
fn config_check_names_the_code_of_each_wrong_file() {
    let rig = Rig::furnished();
    let node = read(&rig.path("cluster/n0/node.toml"));
    let genesis = read(&rig.path("cluster/genesis.toml"));
    let cases = [
        ("node.toml", "[node".to_owned(), "SYN-1101"),
        ("node.toml", format!("{node}\n[storage]\nsink = \"group\"\n"), "SYN-1102"),
        ("node.toml", format!("{node}\n[storage]\nsync = \"never\"\n"), "SYN-1103"),
        ("node.toml", format!("{node}\n[protocol]\ntimeout_base = \"20s\"\n"), "SYN-1106"),
        ("node.toml", node.replace("127.0.0.1:7102", "0.0.0.0:7102"), "SYN-1111"),
        ("genesis.toml", genesis.replace("format = 1", "format = 2"), "SYN-1110"),
        ("genesis.toml", genesis.replace("f = 0", "f = 3"), "SYN-1106"),
        ("genesis.toml", genesis.replace("stake = 1", "steak = 1"), "SYN-1102"),
        ("contexts.toml", "current = \"gone\"\n".to_owned(), "SYN-1103"),
        ("ports.json", "{}".to_owned(), "SYN-1101"),
        ("odd.card", "format = 1\n".to_owned(), "SYN-1103"),
    ];
    for (name, text, code) in cases {
        std::fs::write(rig.path(name), text).expect("the file is written");
        rig.refused(&format!("config check {name}"), code, 3);
    }
    std::fs::write(rig.path("open.key"), read(&rig.path("node.key"))).expect("the file is written");
    rig.refused("config check open.key", "SYN-1104", 3);
    rig.refused("config check absent.card", "SYN-1101", 3);
    rig.refused("config check what.txt", "SYN-1001", 2);

    std::fs::remove_file(rig.path("cluster/n0/keys/node.key")).expect("the key was there");
    rig.ok("keys new --out cluster/n0/keys/node.key");
    rig.refused("config check cluster/n0", "SYN-1107", 3);
}

#[test]
fn an_effective_value_says_where_it_came_from() {
    let rig = Rig::furnished();
    let line = "config show --effective --data cluster/n0 --set runtime.jobs=3 --json";
    let run = rig.command(line).env("SYNOD_LOG__LEVEL", "debug").output().expect("the binary starts");
    let object: serde_json::Value = serde_json::from_slice(&run.stdout).expect("one object");
    let rows = object["values"].as_array().expect("a list");
    assert_eq!(rows.len(), synod_config::KEYS.len());
    let origin = |key: &str| {
        let row = rows.iter().find(|row| row["key"] == key).unwrap_or_else(|| panic!("{key} is missing"));
        row["origin"].as_str().expect("a text").to_owned()
    };
    assert_eq!(origin("storage.sync"), "default");
    assert_eq!(origin("node.name"), "file cluster/n0/node.toml");
    assert_eq!(origin("log.level"), "environment SYNOD_LOG__LEVEL");
    assert_eq!(origin("runtime.jobs"), "flag");
    assert_eq!(rig.json("config show --data cluster/n0")["values"].as_array().map(Vec::len), Some(6));
    let typo = rig.command("version").env("SYNOD_LOG__LEVLE", "x").output().expect("the binary starts");
    assert!(typo.status.success(), "verbs that read no configuration do not mind");
    rig.refused("config show --data cluster/n0 --set log.levle=debug", "SYN-1102", 3);
    assert!(rig.refused("config explain storage.snyc", "SYN-1102", 3).contains("storage.sync"));
}

#[test]
fn a_second_shell_sees_the_selected_context() {
    let rig = Rig::furnished();
    assert!(rig.ok("").contains("context: shop"));
    assert_eq!(rig.json("ctx show")["name"], "shop");
    assert_eq!(rig.json("ctx show -c old")["name"], "old");
    rig.ok("ctx -");
    assert_eq!(rig.json("ctx ls")["selected"], "old");
    rig.ok("ctx use shop");
    rig.ok("ctx rm shop");
    assert!(!rig.ok("").contains("context:"));
    let file = std::fs::metadata(rig.path("xdg/synod/contexts.toml")).expect("the file exists");
    assert_eq!(file.permissions().mode() & 0o7777, 0o600);
    rig.refused("ctx add old --genesis cluster/genesis.toml", "SYN-1109", 3);
    assert!(rig.refused("ctx use odl", "SYN-1103", 3).contains("the nearest is \"old\""));
    rig.refused("ctx show", "SYN-1001", 2);
    let refusal = rig.refused("status", "SYN-1001", 2);
    assert!(refusal.contains("cause: start with `synod "), "{refusal}");
    rig.ok("ctx add gone --genesis cluster/genesis.toml --dir cluster");
    assert!(rig.refused("status", "SYN-2005", 4).contains("context gone"));
}

#[test]
fn keys_show_public_halves_only() {
    let rig = Rig::furnished();
    let file = read(&rig.path("node.key"));
    let secret = file.split(' ').nth(2).expect("three words").trim().to_owned();
    let outputs = ["keys show node.key", "keys export --spki node.key", "keys show node.key --json"];
    for line in outputs {
        assert!(!rig.ok(line).contains(&secret), "synod {line} prints the secret");
    }
    assert!(!read(&rig.path("node.card")).contains(&secret));
    assert!(rig.ok("keys export --spki node.key").starts_with("-----BEGIN PUBLIC KEY-----\n"));
    rig.refused("keys new --out node.key", "SYN-1109", 3);
    assert_eq!(read(&rig.path("node.key")), file);
    rig.ok("keys import made.pem --out imported.key");
    let public = "19bf44096984cdfe8541bac167dc3b96c85086aa30b6b6cb0c5c38ad703166e1";
    assert_eq!(rig.json("keys show imported.key")["public"], public);
    rig.refused("keys import node.key --out other.key", "SYN-1103", 3);
    let (shown, again) = (rig.json("keys pop node.key"), rig.json("keys pop node.key"));
    assert_eq!(
        (shown["bls"].as_str().map(str::len), shown["pop"].as_str().map(str::len)),
        (Some(96), Some(192))
    );
    assert_eq!(shown, again, "both follow from the key");
    let both = rig.json("keys new --bls --out both.key");
    assert_eq!(both["bls"], rig.json("keys pop both.key")["bls"]);
    assert_ne!(both["bls"], shown["bls"]);
    rig.refused("keys rotate node.key", "SYN-3003", 5);
    rig.refused("keys export node.key", "SYN-1001", 2);
    rig.refused("keys card node.key --name a/b --peer h:1 --out bad.card", "SYN-1103", 3);
    assert!(!rig.path("bad.card").exists());
}

#[test]
fn damage_in_the_journal_is_named_and_nothing_is_written() {
    let rig = Rig::furnished();
    let segment = rig.path("cluster/n0/data/wal/0000000000000001.seg");
    let before = std::fs::metadata(&segment).and_then(|meta| meta.modified()).expect("a segment");
    rig.ok("node inspect wal --data cluster/n0");
    rig.ok("node inspect wal --records --data cluster/n0");
    assert_eq!(std::fs::metadata(&segment).and_then(|meta| meta.modified()).expect("a segment"), before);

    let mut bytes = std::fs::read(&segment).expect("a segment");
    bytes[20] ^= 1;
    std::fs::write(&segment, &bytes).expect("the file is written");
    rig.refused("node inspect wal --data cluster/n0", "SYN-5001", 9);
    std::fs::remove_file(&segment).expect("it was there");
    rig.refused("node inspect wal --data cluster/n0", "SYN-5001", 9);
}

#[test]
fn a_recovered_node_is_damaged_and_never_new() {
    let rig = Rig::furnished();
    assert_eq!(rig.json("node inspect wal --data cluster/n0")["damaged_lanes"], 0);
    rig.ok("node recover --data cluster/n0");
    assert_eq!(rig.json("node inspect wal --data cluster/n0")["damaged_lanes"], 2);

    std::fs::remove_dir_all(rig.path("cluster/n0/data/wal")).expect("the disk is lost");
    rig.refused("node inspect wal --data cluster/n0", "SYN-1101", 3);
    rig.ok("node recover --data cluster/n0");
    let wal = rig.json("node inspect wal --data cluster/n0");
    assert_eq!((&wal["damaged_lanes"], &wal["segments"][0]["origin"]), (&2.into(), &"restarted".into()));
    rig.refused("init --name shop --nodes 1 --out cluster", "SYN-1109", 3);
}

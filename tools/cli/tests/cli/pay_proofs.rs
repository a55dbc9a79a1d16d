//! Cuts of a running cluster: proofs that are checked away from it, statements, balances that a quorum states, and audits against what
//! was signed.

use crate::pay::Deployed;
use crate::rig::{Rig, read};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Waits until a node keeps a cut behind which an account was paid this much in all; gives the newest statement.
fn stated(rig: &Rig, account: &str, credits: &str) -> Value {
    let deadline = Instant::now() + Duration::from_secs(90);
    loop {
        let ran = rig.run(&format!("pay statement {account} --json"));
        if ran.code == 0 {
            let found: Value = serde_json::from_str(&ran.out).expect("a statement");
            if found["closing_credits"] == *credits {
                return found;
            }
        }
        assert!(Instant::now() < deadline, "{account} is not paid {credits} behind any cut: {}", ran.err);
    }
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

/// What each line of a statement did, and the balance behind it.
fn lines(statement: &Value) -> Vec<[&str; 4]> {
    let rows = statement["entries"].as_array().expect("a list").iter();
    rows.map(|row| ["id", "credit", "debit", "balance"].map(|name| text(&row[name]))).collect()
}

#[test]
fn how_accounts_stood_is_proved_away_from_the_cluster_and_survives_a_node_that_is_killed() {
    let deployed = Deployed::with("--cut-every 400ms");
    let rig = &deployed.rig;
    rig.refused("pay proof balance 0-0-1 --as-of 999999", "SYN-3134", 5);
    rig.ok("pay account new --node n1");
    deployed.known("0-1-2");
    for id in [7, 8] {
        rig.ok(&format!("pay send --from 0-0-1 --to 0-1-2 --amount {id}0 --id {id}"));
    }
    rig.ok("pay hold --from 0-1-2 --to 0-2-1 --amount 25 --id 9");
    let statement = stated(rig, "0-1-2", "150");
    let cut = text(&statement["closing_cut"]).to_owned();
    assert_eq!(lines(&statement)[..2], [["7", "70", "0", "70"], ["8", "80", "0", "150"]], "{statement}");
    assert_eq!(statement["signers"].as_array().map(Vec::len), Some(3), "{statement}");

    let proved = rig.json(&format!("pay proof balance 0-1-2 --as-of {cut} --out balance.proof"));
    assert_eq!((&proved["balance"], &proved["cut"]), (&"150".into(), &cut.as_str().into()), "{proved}");
    rig.ok(&format!("pay proof liabilities --as-of {cut} --out owed.proof"));
    rig.ok(&format!("pay proof absence 0-1-9 --as-of {cut} --node n3 --out absent.proof"));
    rig.refused("pay proof balance 0-1-9", "SYN-3132", 5);
    rig.refused("pay proof absence 0-1-2", "SYN-6002", 8);
    rig.refused("pay proof liabilities --ledger 9", "SYN-3132", 5);
    rig.refused("pay proof balance 0-0-1 --as-of 0", "SYN-3135", 5);
    checked_away(&deployed, &cut);

    // The cut is with the node after a crash, and later ones come.
    deployed.kill(1);
    rig.ok("restart n1");
    let again = rig.json(&format!("pay proof balance 0-1-2 --as-of {cut}"));
    assert_eq!(again["root"], proved["root"], "the same state");
    let later = rig.json(&format!("pay statement 0-1-2 --since {cut} --as-of {cut}"));
    assert_eq!((lines(&later).len(), &later["opening_balance"]), (0, &"150".into()), "{later}");
    rig.ok("pay send --from 0-0-1 --to 0-1-2 --amount 1 --id 10");
    stated(rig, "0-1-2", "151");
    let since = rig.json(&format!("pay statement 0-1-2 --since {cut}"));
    let paid: Vec<[&str; 4]> = lines(&since).into_iter().filter(|line| line[1] != "0").collect();
    assert_eq!(paid, [["10", "1", "0", "151"]], "{since}");
    assert_eq!((&since["opening_cut"], &since["opening_credits"]), (&cut.as_str().into(), &"150".into()));
    let cuts = rig.json("pay cuts --node n2 --limit 2");
    let rows = cuts["cuts"].as_array().expect("a list");
    assert!(!rows.is_empty() && rows.iter().all(|row| row["liabilities"] == row["issued"]), "{cuts}");
}

/// Proofs are good where nothing but the genesis is, and changed ones are not.
fn checked_away(deployed: &Deployed, cut: &str) {
    let away = Rig::new();
    std::fs::copy(deployed.genesis(), away.path("genesis.toml")).expect("it is there");
    for (name, shown, words) in [
        ("balance", "balance", format!("account 0-1-2 had 150 behind cut {cut}")),
        ("owed", "liabilities", format!("all accounts of ledger 1 together were owed 150 behind cut {cut}")),
        ("absent", "absence", format!("ledger 1 had no account 0-1-9 behind cut {cut}")),
    ] {
        let file = format!("{name}.proof");
        std::fs::copy(deployed.rig.path(&file), away.path(&file)).expect("it was written");
        let line = format!("client verify {file} --genesis genesis.toml");
        let told = away.json(&line);
        assert_eq!((&told["kind"], &told["shown"]), (&"cut".into(), &shown.into()), "{told}");
        assert!(text(&told["proved"]).starts_with(&words), "{told}");
        assert!(told["signers"].as_array().is_some_and(|signers| signers.len() >= 3), "{told}");
        let whole = read(&away.path(&file));
        let proof: Value = serde_json::from_str(&whole).expect("it is JSON");
        let bytes = text(&proof["bytes"]);
        for at in (0..bytes.len()).step_by(bytes.len() / 8) {
            let mut changed = bytes.as_bytes().to_vec();
            changed[at] = if changed[at] == b'0' { b'1' } else { b'0' };
            let changed = String::from_utf8(changed).expect("digits");
            let other = format!("{name}-{at}.proof");
            away.write_private(&other, &whole.replace(bytes, &changed));
            let ran = away.run(&format!("client verify {other} --genesis genesis.toml"));
            // The first byte is the format.
            assert_eq!(ran.code, if at == 0 { 3 } else { 8 }, "{name}, byte {}: {}", at / 2, ran.err);
        }
        away.write_private(&format!("label-{name}"), &whole.replace("\"epoch\": 0", "\"epoch\": 1"));
        away.refused(&format!("client verify label-{name} --genesis genesis.toml"), "SYN-6003", 8);
    }
    away.ok("init --name other --kind astro --nodes 4 --out other");
    away.refused("client verify balance.proof --genesis other/genesis.toml", "SYN-2101", 3);
}

#[test]
fn a_quorum_states_a_balance_and_an_audit_holds_the_log_against_what_was_signed() {
    let deployed = Deployed::with("--cut-every 400ms");
    let rig = &deployed.rig;
    for (id, amount) in [(1, 40), (2, 2)] {
        rig.ok(&format!("pay send --from 0-0-1 --to 0-1-1 --amount {amount} --id {id} --until stable"));
        // What was stable before is in it, whichever nodes were quick.
        let told = rig.json("pay account show 0-1-1 --linearizable");
        assert_eq!(
            (&told["read"], &told["credits"]),
            (&"linearizable".into(), &(if id == 1 { "40" } else { "42" }).into())
        );
        assert!(told["agreed"].as_array().is_some_and(|names| names.len() >= 3), "{told}");
    }
    rig.refused("pay account show 0-1-9 --linearizable", "SYN-3132", 5);
    rig.refused("pay account show 0-1-1 --linearizable --node n0", "SYN-1001", 2);
    let statement = stated(rig, "0-1-1", "42");
    rig.ok("pay export --node n1 --out n1.log");
    let found = rig.json("pay audit n1.log");
    assert_eq!((&found["ok"], &found["payments"]), (&json!(true), &json!(2)), "{found}");
    let newest = text(&found["newest_cut"]).parse::<u64>().expect("a number");
    assert!(newest >= text(&statement["closing_cut"]).parse::<u64>().expect("a number"), "{found}");
    assert!(found["cuts"].as_u64() >= Some(1), "{found}");
    forge(rig);
    let ran = rig.run("pay audit forged.log --json");
    assert_eq!(ran.code, 8, "{}", ran.err);
    let found: Value = serde_json::from_str(&ran.out).expect("a report");
    assert_eq!(found["violations"][0]["what"], "cut_state", "{found}");
    assert!(text(&found["violations"][0]["shown"]).contains("certificate "), "{found}");

    deployed.kill(2);
    assert_eq!(rig.json("pay account show 0-1-1 --linearizable")["credits"], "42", "three are a quorum");
    deployed.kill(3);
    rig.refused("pay account show 0-1-1 --linearizable --timeout 2s", "SYN-3401", 6);
}

/// Writes the log anew, with cuts that count one payment less of the first account that they name.
fn forge(rig: &Rig) {
    use synod_host::pay::{CountedAt, Frames, Item, Write};
    use synod_wire::{List, Wire as _};
    let from = std::io::BufReader::new(std::fs::File::open(rig.path("n1.log")).expect("a file"));
    let mut frames = Frames::open(from).expect("a log");
    let head = *frames.head();
    let to = std::fs::File::create(rig.path("forged.log")).expect("a folder");
    let mut log = Write::begin(to, &head).expect("it is written");
    while let Some((_, item)) = frames.next_item().expect("a whole log") {
        let item = match item {
            Item::Counted(counted) => {
                let less = |of: &CountedAt| CountedAt { n: of.n.map(|n| n.saturating_sub(1)), ..*of };
                Item::Counted(List::try_from(counted.iter().map(less).collect::<Vec<_>>()).expect("as many"))
            }
            item => item,
        };
        log.record(&item.encode()).expect("it is written");
    }
    log.end().expect("it is written");
}

#[test]
fn where_no_cuts_are_made_that_is_told_and_founders_make_none() {
    let rig = Rig::new();
    let up = rig.json("up --kind astro --nodes 1 --ephemeral --base-port 0 --cut-every 0 --detach");
    let deployed = Deployed { rig, up };
    let rig = &deployed.rig;
    for line in ["proof balance 0-0-1", "proof liabilities", "proof absence 0-0-9", "statement 0-0-1", "cuts"]
    {
        let told = rig.refused(&format!("pay {line}"), "SYN-3003", 5);
        assert!(told.contains("protocol.cut_every"), "{told}");
    }
    let away = Rig::new();
    let line = "init --name a --kind astro --nodes 4 --reserve 1 --cut-every 1s --out a";
    let told = away.refused(line, "SYN-1106", 3);
    assert!(told.contains("protocol.founders") && told.contains("protocol.cut_every"), "{told}");
    away.refused("init --name b --nodes 4 --cut-every 1s --out b", "SYN-1001", 2);
    away.refused("init --name c --kind astro --nodes 4 --cut-every 2d --out c", "SYN-1001", 2);
    away.ok("init --name d --kind astro --nodes 4 --reserve 1 --out d");
    assert!(read(&away.path("d/genesis.toml")).contains("cut_every = \"0\""));
    away.ok("init --name e --kind astro --nodes 4 --out e");
    assert!(read(&away.path("e/genesis.toml")).contains("cut_every = \"30s\""));
}

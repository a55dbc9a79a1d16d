//! Accounts that close, change their owners, representatives and limits; and how far the batches of members are.

use crate::pay::Deployed;
use crate::rig::Rig;
use serde_json::Value;
use std::time::{Duration, Instant};

fn furnished() -> Deployed {
    let deployed = Deployed::new();
    for (node, id) in [("n0", "0-0-2"), ("n1", "0-1-2")] {
        assert_eq!(deployed.rig.json(&format!("pay account new --node {node}"))["id"], id);
        deployed.known(id);
    }
    deployed.rig.ok("pay faucet 0-0-2 --amount 100 --id 1");
    deployed
}

fn show(rig: &Rig, account: &str) -> Value {
    rig.json(&format!("pay account show {account}"))
}

#[test]
fn an_account_is_closed_with_all_that_it_has_and_what_comes_later_leaves_by_closing_it_again() {
    let deployed = furnished();
    let rig = &deployed.rig;
    rig.ok("pay hold --from 0-0-2 --to 0-1-2 --amount 10 --id 8");
    rig.refused("pay account close 0-0-2 --to 0-1-2", "SYN-3131", 5);
    rig.ok("pay void 8");
    let told = rig.refused("pay account close 0-0-2 --to 0-1-2 --amount 99", "SYN-3131", 5);
    assert!(told.contains("synod pay account show 0-0-2"), "{told}");
    rig.refused("pay account close 0-0-2 --to 0-1-2 --amount 101", "SYN-3115", 5);
    rig.refused("pay account close 0-0-2 --to 0-1-9", "SYN-3106", 5);
    rig.refused("pay account close 0-0-9 --to 0-1-2", "SYN-3105", 5);
    rig.refused("pay account close 0-0-2 --to 0-1-2 --node n1", "SYN-3104", 5);
    let closed = rig.json("pay account close 0-0-2 --to 0-1-2 --id 20 --until stable");
    assert_eq!((&closed["kind"], &closed["amount"]), (&"close".into(), &"100".into()), "{closed}");
    assert_eq!(
        (&show(rig, "0-0-2")["state"], deployed.available("0-0-2")),
        (&"closed".into(), "0".to_owned())
    );
    let again = rig.json("pay account close 0-0-2 --to 0-1-2 --id 20");
    assert_eq!(
        again["digest"], closed["digest"],
        "sent again it happens once, though nothing is left by now"
    );
    rig.refused("pay account close 0-0-2 --to 0-1-1 --id 20", "SYN-3116", 5);
    rig.refused("pay send --from 0-0-2 --to 0-1-2 --amount 1", "SYN-3118", 5);
    rig.refused("pay account move 0-0-2 --to n1", "SYN-3118", 5);
    rig.ok("pay faucet 0-0-2 --amount 7 --id 21");
    assert_eq!(rig.json("pay account close 0-0-2 --to 0-1-2 --id 22")["amount"], "7");
    deployed.kill(0);
    rig.ok("restart n0");
    let known = rig.json("pay account close 0-0-2 --to 0-1-2 --id 20");
    assert_eq!(known["digest"], closed["digest"], "an id is known after a crash");
    assert_eq!(deployed.kinds("0-0-2"), ["pay", "hold", "void", "close", "pay", "close"]);
    deployed.settled_at(22, 1);
    assert_eq!(deployed.available("0-1-2"), "107");
    deployed.equal_books();
}

#[test]
fn limits_owners_and_representatives_change_once_per_id_within_what_was_agreed() {
    let deployed = furnished();
    let rig = &deployed.rig;
    rig.refused("pay limit 0-0-2 --to 5", "SYN-3129", 5);
    rig.refused("pay limit 0-0-1 --to 99", "SYN-3130", 5);
    let set = rig.json("pay limit 0-0-1 --to 100 --id 30");
    assert_eq!((&set["kind"], &set["limit"]), (&"limit".into(), &"100".into()), "{set}");
    rig.refused("pay limit 0-0-1 --to 101 --id 30", "SYN-3116", 5);
    rig.refused("pay faucet 0-0-2 --amount 1", "SYN-3115", 5);
    let most = show(rig, "0-0-1")["limit_max"].as_str().expect("a sum").to_owned();
    rig.refused(&format!("pay limit 0-0-1 --to {most}0"), "SYN-3129", 5);
    rig.ok(&format!("pay limit 0-0-1 --to {most}"));
    rig.ok("pay faucet 0-0-2 --amount 1");

    assert_eq!(rig.json("pay account move 0-0-2 --to n2")["representative"], 2);
    assert_eq!(show(rig, "0-0-2")["representative"], 2);
    rig.refused("pay account move 0-0-2 --to n9", "SYN-1001", 2);
    rig.ok("pay send --from 0-0-2 --to 0-1-2 --amount 1");

    rig.refused("pay account rekey 0-0-2", "SYN-1001", 2);
    rig.refused("pay account rekey 0-0-2 --key 07", "SYN-3001", 5);
    let key = rig.json("keys new --out owner.key")["public"].as_str().expect("digits").to_owned();
    let named = rig.json(&format!("pay account rekey 0-0-2 --key {key} --until stable"));
    assert_eq!(named["owner"]["ed25519"], *key, "{named}");
    assert_eq!(show(rig, "0-0-2")["owner"]["ed25519"], *key);
    rig.refused("pay send --from 0-0-2 --to 0-1-2 --amount 1", "SYN-3104", 5);
    rig.refused("pay account close 0-0-2 --to 0-1-2", "SYN-3104", 5);
    assert_eq!(deployed.kinds("0-0-2"), ["pay", "pay", "move", "pay", "rekey"]);
    deployed.equal_books();
}

#[test]
fn lanes_name_who_is_silent_and_who_is_slow() {
    let deployed = furnished();
    let rig = &deployed.rig;
    let row = |told: &Value, lane: &str| {
        let rows = told["lanes"].as_array().expect("a list");
        rows.iter().find(|row| row["lane"] == lane).expect("each member has a lane").clone()
    };
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let told = rig.json("pay lanes");
        let own = row(&told, "n0");
        let is_quiet = own["silent"] == serde_json::json!([]) && own["lag"] == "0";
        assert_eq!(told["away"], serde_json::json!([]), "{told}");
        if is_quiet && own["last"] != "0" {
            break;
        }
        assert!(Instant::now() < deadline, "{told}");
    }
    deployed.kill(3);
    rig.ok("pay send --from 0-0-2 --to 0-1-2 --amount 1");
    let told = rig.json("pay lanes");
    assert_eq!(
        (&told["away"], &row(&told, "n0")["silent"]),
        (&serde_json::json!(["n3"]), &serde_json::json!(["n3"]))
    );
    assert_eq!(
        row(&rig.json("pay lanes --node n0"), "n3")["silent"],
        serde_json::json!([]),
        "only a lane's own node knows"
    );
    rig.refused("pay lanes --node n3", "SYN-2001", 4);
}

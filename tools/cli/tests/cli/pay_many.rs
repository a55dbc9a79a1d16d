//! Many payments: of a file, and of customers of institutions one of which is killed and slowed.

use crate::pay::Deployed;
use crate::rig::Rig;
use std::fmt::Write as _;

#[test]
fn payments_of_a_file_happen_once_however_often_it_is_sent() {
    let deployed = Deployed::new();
    let rig = &deployed.rig;
    for (node, id) in [("n0", "0-0-2"), ("n1", "0-1-2")] {
        assert_eq!(rig.json(&format!("pay account new --node {node}"))["id"], id);
        deployed.known(id);
        rig.ok(&format!("pay faucet {id} --amount 1000"));
    }
    let mut text = "id,from,to,amount\n".to_owned();
    for id in 1..=150 {
        write!(text, "{id},0-0-2,0-1-2,1\n\n{},0-1-2,0-0-2,2\n", 1_000 + id).expect("a string");
    }
    text.push_str("7777,0-0-2,0-1-2,5000\n");
    rig.write_private("all.csv", &text);
    for round in 0..2 {
        let ran = rig.run("pay send --file all.csv --json");
        assert_eq!(ran.code, 5, "one is refused: {}", ran.err);
        let told: serde_json::Value = serde_json::from_str(&ran.out).expect("JSON");
        let counts = (&told["paid"], &told["refused"], &told["unknown"]);
        assert_eq!(counts, (&300.into(), &1.into(), &0.into()), "round {round}: {told}");
        assert_eq!(told["by_code"]["SYN-3115"], 1, "{told}");
        assert_eq!(told["failed"][0]["id"], "7777", "{told}");
        assert_eq!(deployed.available("0-0-2"), "1150", "round {round}");
    }
    let book = deployed.equal_books();
    let payer = book.iter().find(|row| row["id"] == "0-1-2").expect("it is open");
    assert_eq!((&payer["entries"], &payer["debits"]), (&"150".into(), &"300".into()));

    // A line of JSON per payment; a file that a node could not take as it stands pays nothing.
    rig.write_private(
        "more.jsonl",
        "{\"id\":\"9001\",\"from\":\"0-0-2\",\"to\":\"0-1-2\",\"amount\":\"3\",\"code\":7}\n",
    );
    assert_eq!(rig.json("pay send --file more.jsonl")["paid"], 1);
    assert_eq!(rig.json("pay status 9001 --from 0-0-2")["code"], 7);
    rig.write_private("wrong.csv", "id,from,to\n1,0-0-2,0-1-2\n");
    rig.refused("pay send --file wrong.csv", "SYN-1001", 2);
    rig.refused("pay send --file more.jsonl --amount 5", "SYN-1001", 2);
    rig.refused("pay send", "SYN-1001", 2);
}

const PROCESSES: &str = "bench pay --part processes --accounts 40 --payments 3000 --chunk 100 --requests 2";

#[test]
fn payments_keep_their_books_while_an_institution_is_killed_restarted_and_slowed() {
    let rig = Rig::new();
    let told = rig.json(&format!("{PROCESSES} --fault kill --fault slow"));
    let audit = &told["audit"];
    assert_eq!((&audit["ok"], &audit["nodes"], &audit["accounts"]), (&true.into(), &4.into(), &40.into()));
    let own = &told["pay"];
    let phases = own["phases"].as_array().expect("phases");
    let names: Vec<&str> = phases.iter().filter_map(|phase| phase["phase"].as_str()).collect();
    assert_eq!(names, ["before", "killed", "restarted", "slowed", "healed"]);
    let payments = |phase: &serde_json::Value| phase["payments"].as_u64().expect("a count");
    assert_eq!(phases.iter().map(payments).sum::<u64>(), 3_000, "{own}");
    let others = phases[1]["pps_others"].as_f64().expect("a rate");
    assert!(others > 0.0, "the customers of the others go on: {own}");
    assert!(own["sent_again"].as_u64() > Some(0), "its customers tried: {own}");
    assert_eq!(own["victim"], "n3");
}

#[test]
fn a_payment_that_never_was_shows_no_figure_and_options_that_mean_nothing_start_nothing() {
    let rig = Rig::new();
    let told = rig.refused(&format!("{PROCESSES} --durability nosync --i-am-a-test"), "SYN-6009", 8);
    assert!(told.contains("lost and"), "{told}");
    rig.refused(&format!("{PROCESSES} --durability volatile --fault kill"), "SYN-1001", 2);
    rig.refused(&format!("{PROCESSES} --nodes 3 --fault slow"), "SYN-1001", 2);
    rig.refused("bench pay --part processes --payments 10", "SYN-1001", 2);
    rig.refused("bench pay --fault kill", "SYN-1001", 2);
}

#[test]
fn the_demo_of_payments_passes_and_leaves_nothing() {
    let rig = Rig::new();
    let told = rig.json("demo pay --headless");
    let scenes = told["scenes"].as_array().expect("scenes");
    let names: Vec<&str> = scenes.iter().filter_map(|scene| scene["name"].as_str()).collect();
    assert_eq!(names, ["ready", "accounts", "pay", "kill", "recover", "double", "receipt", "audit"]);
    assert!(scenes.iter().all(|scene| scene["ok"] == true), "{told}");
    assert_eq!((&told["audit"]["ok"], &told["audit"]["nodes"]), (&true.into(), &4.into()));
    rig.refused("demo pay --nodes 5", "SYN-1001", 2);
}

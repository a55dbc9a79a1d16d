//! The scoreboard from outside: what a command finds in a checkout is in its score.

use crate::rig::Rig;
use serde_json::{Value, json};

/// A directory that looks like a checkout without git: then the commit is the one the binary was built from.
fn checkout() -> Rig {
    let rig = Rig::new();
    std::fs::create_dir_all(rig.path("tools/cli")).expect("made");
    for file in ["Cargo.lock", "tools/cli/Cargo.toml"] {
        std::fs::write(rig.path(file), "").expect("written");
    }
    rig
}

fn score(rig: &Rig, line: &str) -> Value {
    let ran = rig.run(line);
    assert_eq!(ran.code, 8, "most rows were not run: {}", ran.err);
    assert!(ran.err.contains("SYN-7002"), "{}", ran.err);
    serde_json::from_str(&ran.out).expect("one object")
}

#[test]
fn what_a_soak_finds_in_a_checkout_is_in_its_score() {
    let rig = checkout();
    rig.ok("sim soak --system hotstuff/chain2 --seeds 3 --from 11");
    let first = score(&rig, "score --json --append --plot history.svg");
    assert_eq!(first["schema"], json!("synod-score/1"));
    let row = |of: &Value, key: &str| of["rows"][key].clone();
    let clean = row(&first, "sim.clean.hotstuff");
    assert_eq!((&clean["value"], &clean["n"], &clean["kind"]), (&json!(3), &json!(3), &json!("simulated")));
    assert_eq!((&clean["pass_first"], &clean["first"]), (&json!(false), &json!(1000)), "three are too few");
    assert!(clean["command"].as_str().is_some_and(|words| words.contains("--seeds 3")), "{clean}");
    assert_eq!(row(&first, "crash.points")["value"], Value::Null);
    assert_eq!((&first["pass"], &first["gate"]), (&json!(false), &json!("full")));

    let file =
        std::fs::read_to_string(rig.path("target/score/sim-soak-hotstuff-chain2.json")).expect("written");
    let file: Value = serde_json::from_str(&file).expect("one object");
    for key in ["commit", "date", "machine", "wall_s", "command", "seeds", "clean"] {
        assert!(!file[key].is_null(), "{key}");
    }

    // The next gate: its seeds are added to those of the history, which stay counted once.
    rig.ok("sim soak --system hotstuff/basic --seeds 2 --from 21");
    let second = score(&rig, "score --json --append");
    assert_eq!(row(&second, "sim.seeds")["value"], json!(5));
    std::fs::remove_file(rig.path("target/score/sim-soak-hotstuff-chain2.json")).expect("there");
    let third = score(&rig, "score --json");
    assert_eq!(
        (&row(&third, "sim.seeds")["value"], &row(&third, "sim.clean.hotstuff")["value"]),
        (&json!(5), &json!(2))
    );
    let lines = std::fs::read_to_string(rig.path("docs/score/history.jsonl")).expect("kept");
    assert_eq!(lines.lines().count(), 2);
    assert!(std::fs::read_to_string(rig.path("history.svg")).is_ok_and(|text| text.starts_with("<svg")));
}

#[test]
fn a_figure_of_another_commit_counts_as_missing() {
    let rig = checkout();
    std::fs::create_dir_all(rig.path("target/score")).expect("made");
    let file = json!({ "commit": "0123456789ab", "seeds": 9, "clean": 9 });
    std::fs::write(rig.path("target/score/sim-soak-hotstuff.json"), file.to_string()).expect("written");
    let score = score(&rig, "score --json");
    assert_eq!(score["rows"]["sim.seeds"]["value"], Value::Null);
    assert_eq!(score["other_commits"], json!(["sim-soak-hotstuff"]));
}

#[test]
fn outside_a_checkout_nothing_is_written_and_there_is_no_score() {
    let rig = Rig::new();
    rig.ok("sim soak --system hotstuff/chain2 --seeds 1 --from 11");
    assert!(!rig.path("target").exists());
    rig.refused("score", "SYN-1001", 2);
}

#[test]
fn what_is_not_built_is_said_and_only_a_release_needs_it() {
    let rig = checkout();
    let full = score(&rig, "score --json");
    let missing = &full["rows"]["sim.clean.picsou"];
    assert_eq!((&missing["not_built"], &missing["value"]), (&json!(true), &Value::Null));
    let names = |of: &Value, key: &str| of[key].as_array().cloned().unwrap_or_default();
    assert!(names(&full, "left_out").contains(&json!("sim.clean.picsou")));
    assert!(!names(&full, "failing").contains(&json!("sim.clean.picsou")));
    let release = score(&rig, "score --json --gate release");
    assert!(names(&release, "failing").contains(&json!("sim.clean.picsou")));
    assert_eq!(names(&score(&rig, "score --json --gate commit"), "failing").len(), 3);
}

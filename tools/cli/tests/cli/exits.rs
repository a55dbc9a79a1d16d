//! Exit codes from outside, and errors in both forms.

use crate::rig::Rig;
use std::fs::File;

#[test]
fn each_exit_code_that_needs_no_cluster_is_reached() {
    let rig = Rig::furnished();
    rig.ok("version");
    rig.refused("keys", "SYN-1001", 2);
    rig.refused("config check absent.card", "SYN-1101", 3);
    rig.refused("status", "SYN-2005", 4);
    rig.refused("keys rotate node.key", "SYN-3003", 5);
    std::fs::remove_file(rig.path("cluster/n0/data/wal/0000000000000001.seg")).expect("a segment");
    rig.refused("node inspect wal --data cluster/n0", "SYN-5001", 9);
}

#[test]
fn data_that_cannot_be_written_is_a_failure() {
    let rig = Rig::new();
    let full = File::options().write(true).open("/dev/full").expect("the device exists");
    let ran = rig.command("explain").stdout(full).output().expect("the binary starts");
    assert_eq!(ran.status.code(), Some(1));
    let told = String::from_utf8(ran.stderr).expect("text");
    assert!(told.starts_with("error SYN-1201: standard output cannot be written\ncause: "), "{told}");
}

#[test]
fn an_error_has_the_fields_of_the_catalogue_in_json() {
    let rig = Rig::new();
    let ran = rig.run("config check absent.card --json");
    let object: serde_json::Value = serde_json::from_str(&ran.err).expect("one object");
    let keys: Vec<&String> = object.as_object().expect("an object").keys().collect();
    assert_eq!(keys, ["causes", "code", "exit", "fix", "message", "name", "retry"]);
    let page = rig.json("explain SYN-1101");
    for key in ["code", "name", "fix", "retry", "exit"] {
        assert_eq!(object[key], page[key], "{key}");
    }
}

#[test]
fn every_exit_code_of_the_table_is_in_the_manual() {
    let page = Rig::new().ok("man");
    for row in synod_config::EXITS {
        assert!(page.contains(&format!("\\fB{}\\fR\n", row.exit.number())), "{:?}", row.exit);
    }
}

#[test]
fn a_build_that_does_not_ask_for_planted_bugs_holds_none() {
    let rig = Rig::new();
    for line in ["sim plant list", "sim plant run --starred", "sim plant run H1 --replays"] {
        rig.refused(line, "SYN-1003", 2);
    }
    assert!(!rig.ok("version").contains("PLANT"));
    let program = std::fs::read(env!("CARGO_BIN_EXE_synod")).expect("the binary is there");
    let mark = b"synod-plant-build";
    assert!(
        !program.windows(mark.len()).any(|window| window == mark),
        "the binary says that it holds plants"
    );
}

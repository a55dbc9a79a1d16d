//! Short runs of `bench ubft`: what rows, phases and gates say, and what is refused. No figure is judged.

use crate::rig::{Rig, read};
use serde_json::Value;

/// A run, and its own object.
fn ran(options: &str) -> (Value, Value) {
    let told = Rig::new().json(&format!("bench ubft {options}"));
    assert_eq!(told["schema"], "synod-bench/1");
    let own = told["ubft"].clone();
    (told, own)
}

fn list<'a>(own: &'a Value, key: &str) -> &'a [Value] {
    own[key].as_array().unwrap_or_else(|| panic!("{key}: {own}"))
}

fn words<'a>(all: &'a [Value], key: &str) -> Vec<&'a str> {
    all.iter().map(|value| value[key].as_str().expect("a word")).collect()
}

#[test]
fn a_client_of_shared_memory_is_answered_in_one_process_and_by_processes() {
    for (placement, tail, held) in [("cooperative", 256, 319_488), ("isolated", 128, 159_744)] {
        let line = format!("--placement {placement} --app flip --samples 200 --warmup-ops 20 --tail {tail}");
        let (told, own) = ran(&line);
        assert_eq!((&told["header"]["placement"], &told["held"]), (&placement.into(), &true.into()));
        let found = list(&own, "rows");
        assert_eq!(words(found, "system"), ["unreplicated", "synod"]);
        for row in found {
            assert_eq!((&row["samples"], &row["errors"]), (&200.into(), &0.into()), "{row}");
            for key in ["p50_ns", "p99_ns", "ops_per_s", "cpu_ns_per_op", "cpu_client_ns_per_op"] {
                assert!(row[key].as_f64() > Some(0.0), "{key}: {row}");
            }
            assert!(row.get("cpu_steal_pct").is_some(), "{row}");
            let is_synod = row["system"] == "synod";
            // A server is asked and answers; that of three replicas may be slow here, and then it takes more.
            let messages = row["messages_per_op"].as_f64().expect("a number");
            if is_synod {
                assert!(messages >= 21.0, "{row}")
            } else {
                assert_eq!(messages, 2.0, "{row}")
            }
            assert_eq!(row["slow_per_1000"].is_number(), is_synod, "{row}");
            // Whole pages, two halves of 104 bytes for each register of three owners.
            let expected = if is_synod { Value::from(held) } else { Value::Null };
            assert_eq!(row["disaggregated_bytes"], expected, "{row}");
            assert_eq!(row["rss_bytes"].is_u64(), placement == "isolated", "{row}");
            assert!(row["ratio_unreplicated"].is_number(), "{row}");
        }
    }
}

#[test]
fn several_requests_in_flight_are_answered_wherever_replicas_stand() {
    for placement in ["cooperative", "isolated"] {
        let line = format!("--placement {placement} --app flip --system synod --samples 200 --warmup-ops 20");
        let (told, own) = ran(&format!("{line} --closed 4 --batch 16"));
        assert_eq!(told["header"]["loop"], "closed");
        let row = &list(&own, "rows")[0];
        let given = [&row["closed"], &row["batch"], &row["samples"], &row["errors"]];
        assert_eq!(given, [&4.into(), &16.into(), &200.into(), &Value::from(0)], "{row}");
        for key in ["ops_per_slot", "slow_per_1000", "signs_per_op", "checks_per_op", "views_left"] {
            assert!(row[key].is_number(), "{key}: {row}");
        }
        assert!(list(&own, "breakdown").is_empty() && own["unavailable"]["breakdown"].is_string(), "{own}");
        let gates = list(&own, "gates");
        assert!(gates.iter().any(|gate| gate["id"] == "throughput" && gate["skipped"].is_string()), "{own}");
    }
    let (_, own) = ran("--app flip --system synod --samples 100 --warmup-ops 10 --closed 16 --batch 16");
    let gates = list(&own, "gates");
    assert!(gates.iter().any(|gate| gate["id"] == "throughput" && gate["value"].is_number()), "{own}");
}

#[test]
fn an_open_loop_offers_its_rate_and_no_more() {
    for placement in ["cooperative", "isolated"] {
        let line = format!("--placement {placement} --app kv --rate 400 --samples 100 --warmup-ops 20");
        let (told, own) = ran(&line);
        assert_eq!(told["header"]["loop"], "open");
        for row in list(&own, "rows") {
            assert_eq!(
                (&row["rate"], &row["closed"], &row["errors"]),
                (&400.into(), &Value::Null, &0.into())
            );
            // The last is due 99 times 2.5 ms after the first.
            assert!(row["ops_per_s"].as_f64() <= Some(100.0 / 0.2475), "{row}");
        }
        assert!(told["held"].is_boolean(), "{told}");
    }
}

#[test]
fn phases_of_a_request_are_told_of_the_fast_path_at_one_poller() {
    let (_, own) = ran("--app flip --samples 300 --warmup-ops 30");
    let phases = list(&own, "breakdown");
    let names = ["rpc", "echo", "ctb", "will_certify", "will_commit", "execute", "reply"];
    assert_eq!(words(phases, "phase"), names);
    assert!(
        phases.iter().all(|phase| phase["p50_ns"].as_u64() > Some(0) && phase["until"].is_string()),
        "{own}"
    );
    let told = &own["breakdown_requests"];
    assert!(told["told"].as_u64() > Some(0) && told["told"].as_u64() <= told["of"].as_u64(), "{told}");
    for other in ["--path slow", "--placement isolated", "--system unreplicated", "--closed 2"] {
        let (_, own) = ran(&format!("{other} --app flip --samples 100 --warmup-ops 10"));
        assert!(list(&own, "breakdown").is_empty() && own["unavailable"]["breakdown"].is_string(), "{other}");
    }
}

#[test]
fn every_application_answers_requests_of_every_size() {
    for (options, size) in [
        ("--app flip --size 2", 2),
        ("--app flip --size 8192", 8_192),
        ("--app noop --size 2", 2),
        ("--app kv --size 8192 --closed 4 --batch 4 --placement isolated", 8_192),
        ("--app flip --size 8192 --path slow", 8_192),
    ] {
        let (_, own) = ran(&format!("{options} --samples 100 --warmup-ops 10"));
        for row in list(&own, "rows") {
            assert_eq!((&row["size"], &row["errors"]), (&size.into(), &0.into()), "{row}");
        }
    }
    let (_, own) = ran("--app book --samples 200 --warmup-ops 20");
    assert!(
        list(&own, "rows").iter().all(|row| row["size"].as_u64() > Some(8) && row["errors"] == 0),
        "{own}"
    );
}

#[test]
fn the_suite_judges_every_gate_that_is_measured_here_and_ends_with_what_it_finds() {
    let rig = Rig::new();
    let ran = rig.run("bench ubft --suite gate --samples 100 --warmup-ops 10 --out found.json --json");
    let told: Value = serde_json::from_str(&read(&rig.path("found.json"))).expect("a result");
    let own = &told["ubft"];
    let placements = ["cooperative", "cooperative", "cooperative", "isolated", "isolated", "isolated"];
    assert_eq!(words(list(own, "rows"), "placement"), placements);
    let gates = list(own, "gates");
    let measured: Vec<&Value> = gates.iter().filter(|gate| gate["skipped"].is_null()).collect();
    let ids: Vec<&str> = measured.iter().map(|gate| gate["id"].as_str().expect("a word")).collect();
    assert_eq!(ids, ["coop.p50", "coop.ratio", "iso.p50", "slow.iso", "throughput", "rss", "memory.node"]);
    assert!(measured.iter().all(|gate| gate["value"].is_number() && gate["pass"].is_boolean()), "{own}");
    assert_eq!(measured[6]["pass"], true, "registers of 128 messages are 156 KiB: {own}");
    let is_missed = measured.iter().any(|gate| gate["pass"] == false);
    assert_eq!(ran.code, if is_missed { 8 } else { 0 }, "{}", ran.err);
    assert_eq!(ran.err.contains("SYN-7002"), is_missed, "{}", ran.err);
}

#[test]
fn rows_of_a_baseline_stand_behind_those_of_the_same_run_and_fill_its_gates() {
    let rig = Rig::new();
    let row = |system: &str, enclave: &str, p50: u64| {
        format!(r#"{{"system":"{system}","size":32,"enclave_us":{enclave},"p50_ns":{p50},"errors":0}}"#)
    };
    // A program that writes down what it is asked and answers with these rows.
    let answers = |rows: &str| {
        let told = format!(r#"{{"schema":"synod-bench/1","ubft":{{"rows":[{rows}]}}}}"#);
        let script = format!("#!/bin/sh\necho \"$@\" >asked\necho '{told}'\n");
        // A shell writes it: what this process has open for writing cannot be started while another test starts a program.
        let written = rig.shell(&format!("cat >program <<'END'\n{script}END\nchmod 755 program"));
        assert_eq!(written.code, 0, "{}", written.err);
    };
    answers(&row("minbft-enclave", "8.0", 1_000_000_000));
    let program = rig.path("program").display().to_string();
    let line =
        format!("bench ubft --samples 100 --warmup-ops 10 --baseline {program} --system minbft-enclave");
    let own = rig.json(&line)["ubft"].clone();
    assert_eq!(read(&rig.path("asked")).trim(), "--size 32 --samples 100 --warmup-ops 10 --enclave-us 8");
    assert_eq!(words(list(&own, "rows"), "system"), ["synod", "minbft-enclave"]);
    let gate = |id: &str| list(&own, "gates").iter().find(|gate| gate["id"] == id).expect("a gate").clone();
    let ratio = gate("minbft.ratio");
    assert!(ratio["pass"] == true && ratio["value"].as_f64() > Some(5.0), "{ratio}");
    assert!(gate("minbft.raw")["skipped"].as_str().is_some_and(|why| why.contains("--baseline")), "{own}");
    for wrong in [row("minbft-raw", "0.0", 7), String::new(), row("synod", "8.0", 7)] {
        answers(&wrong);
        rig.refused(&line, "SYN-7002", 8);
    }
    answers(&row("minbft-enclave", "8.0", 7).replace(r#""errors":0"#, r#""errors":1"#));
    rig.refused(&line, "SYN-6009", 8);
    rig.refused(&line.replace(&program, "nothing/here"), "SYN-1205", 1);
}

#[test]
fn what_is_not_built_or_means_nothing_together_is_refused_with_the_reason() {
    let rig = Rig::new();
    for line in ["--placement dedicated", "--suite figures", "--system minbft-enclave"] {
        rig.refused(&format!("bench ubft {line}"), "SYN-3003", 5);
    }
    let why = rig.refused("bench ubft --system minbft-raw", "SYN-3003", 5);
    assert!(why.contains("--baseline") && why.contains("baselines/minbft/Cargo.toml"), "{why}");
    for line in [
        "--placement isolated --part x1 --folder .",
        "--size 1",
        "--size 8193",
        "--closed 65",
        "--closed 2 --rate 100",
        "--app book --closed 2",
        "--app book --rate 100",
        "--suite gate --size 64",
        "--baseline x",
        "--suite gate --baseline x --enclave-us 9",
        "--system minbft-raw --baseline x --app kv",
        "--system minbft-raw --baseline x --closed 2",
        "--system minbft-raw --baseline x --placement isolated",
        "--system minbft-raw --baseline x --path slow",
    ] {
        rig.refused(&format!("bench ubft {line}"), "SYN-1001", 2);
    }
}

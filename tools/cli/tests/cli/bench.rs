//! Short runs of every mode of `bench`: what is counted, what is null and why, and that a loss is found. No figure is
//! judged.

use crate::rig::Rig;
use serde_json::Value;

const SHORT: &str = "--for 1s --warmup 200ms --no-baseline";

/// Runs a benchmark that must pass its audit; its own keys.
fn ran(line: &str) -> (Value, Value) {
    let told = Rig::new().json(&format!("bench {line}"));
    let name = line.split(' ').next().expect("a benchmark");
    assert_eq!(told["schema"], "synod-bench/1");
    assert_eq!(told["audit"]["ok"], true, "{line}: {told}");
    assert!(told["outcomes"]["accepted"].as_u64().is_some_and(|count| count > 0), "{line}: {told}");
    let own = told[name].clone();
    let reasons = own["unavailable"].as_object().expect("reasons").clone();
    for (key, why) in &reasons {
        let (outer, inner) = key.split_once('.').unwrap_or((key, ""));
        let place = own.get(outer).unwrap_or(&told[outer]);
        let value = if inner.is_empty() { place } else { &place[inner] };
        assert!(value.is_null() && why.as_str().is_some_and(|why| !why.is_empty()), "{line}: {key}: {why}");
    }
    for (key, value) in own.as_object().expect("an object") {
        assert!(
            !value.is_null() || key == "read" || reasons.contains_key(key),
            "{line}: {key} is null without a reason"
        );
    }
    (told, own)
}

#[test]
fn ordering_tells_every_key_and_its_baseline() {
    let (told, own) = ran("order --clients 2 --inflight 32 --pipeline 8 --for 1s --warmup 200ms");
    for key in
        ["blocks_per_s", "commands_per_block", "gap_ms", "busy", "view_changes", "inflight", "rules", "send"]
    {
        assert!(!own[key].is_null(), "{key}: {own}");
    }
    for key in ["fdatasync_per_s", "tls_loopback_bytes_s", "unreplicated_per_s"] {
        assert!(own["baseline"][key].as_u64().is_some_and(|figure| figure > 0), "{key}: {own}");
    }
    for key in ["consensus_us", "stage_us", "syncs_per_s", "unavailable"] {
        assert!(own.get(key).is_some(), "{key}: {own}");
    }
    assert_eq!((&told["header"]["processes"], &told["header"]["access"]), (&5.into(), &"binary".into()));
    assert_eq!(
        (&told["audit"]["members"], &told["audit"]["keys"]),
        (&4.into(), &3.into()),
        "two lanes, one marker"
    );
    assert!(told["bytes_per_op"]["by_link"]["n0-n1"].as_f64().is_some_and(|bytes| bytes > 0.0), "{told}");
}

#[test]
fn redis_clients_reach_the_store_through_a_proxy_at_a_share_of_its_peak() {
    let line = "kv --clients 4 --pipeline 4 --op mix --keys 40 --rate 0.25x --read ordered --send all";
    let (told, own) = ran(&format!("{line} {SHORT}"));
    assert_eq!(
        (&told["header"]["processes"], &told["header"]["access"]),
        (&6.into(), &"resp via proxy".into())
    );
    assert_eq!(
        (&told["header"]["loop"], &own["read"], &own["send"]),
        (&"open".into(), &"ordered".into(), &"all".into())
    );
    assert!(told["cpu_us_per_op"]["by_role"]["proxy"].is_number(), "{told}");
    assert_eq!(own["unavailable"]["baseline"], "left out by --no-baseline");
    assert_eq!(told["audit"]["keys"], 41);
}

#[test]
fn redis_clients_of_the_nodes_lose_nothing_with_a_killed_leader() {
    let (told, own) =
        ran("kv --clients 4 --via node --kill-leader-at 1 --for 4s --warmup 200ms --no-baseline");
    assert!(own["killed"].as_str().is_some_and(|name| name.starts_with('n')), "{own}");
    assert_eq!((&told["header"]["processes"], &told["audit"]["members"]), (&5.into(), &4.into()));
}

#[test]
fn binary_clients_read_from_one_member_while_another_never_ran() {
    let line = "kv --api binary --clients 2 --inflight 16 --op get --keys 20 --read local --dead 1";
    let (told, own) = ran(&format!("{line} {SHORT}"));
    assert_eq!(
        (&own["dead"], &own["read"], &told["audit"]["members"]),
        (&1.into(), &"local".into(), &3.into())
    );
    assert_eq!(told["header"]["processes"], 4);
}

#[test]
fn a_write_that_the_cluster_does_not_hold_shows_no_figure() {
    let line = format!("bench order --clients 2 --inflight 32 {SHORT} --i-am-a-test");
    let told = Rig::new().refused(&line, "SYN-6009", 8);
    assert!(told.contains("1 lost and 0 duplicated"), "{told}");
}

#[test]
fn options_that_mean_nothing_together_start_nothing() {
    let rig = Rig::new();
    rig.refused("bench order --in-process", "SYN-1001", 2);
    rig.refused("bench kv --inflight 5", "SYN-1001", 2);
}

const PAY: &str = "pay --accounts 400 --batch 64 --inflight 256 --for 1s --warmup 50ms --repeat 2";

#[test]
fn payments_are_counted_once_everywhere_beside_the_ledger_alone() {
    let (told, own) = ran(PAY);
    let runs = own["runs"].as_array().expect("runs");
    assert_eq!(runs.len(), 2);
    for key in ["pps", "cpu_us_per_payment", "bytes_per_payment"] {
        assert!(runs.iter().all(|run| run[key].as_f64() > Some(0.0)), "{key}: {own}");
    }
    for level in ["certified", "settled", "stable"] {
        // A machine that is busy with other things may be slow in one of them.
        assert!(runs.iter().any(|run| run["by_level"][level].as_f64() > Some(0.0)), "{level}: {own}");
    }
    let total = |key: &str| runs.iter().map(|run| run[key].as_u64().expect("a count")).sum::<u64>();
    assert_eq!(
        told["outcomes"],
        serde_json::json!({ "accepted": total("accepted"), "rejected": total("busy"), "unknown": 0 })
    );
    assert!(told["held"].is_null() && total("accepted") > 0, "{told}");
    assert!(
        own["reference_pps"].as_f64() > Some(0.0) && own["ratio"]["reference"].as_f64() > Some(0.0),
        "{own}"
    );
    assert!(told["achieved_per_s"].as_f64() > Some(0.0));
    assert_eq!((&told["audit"]["books_equal"], &told["audit"]["conserved"]), (&true.into(), &true.into()));
    let rig = Rig::new();
    assert!(rig.refused(&format!("bench {PAY} --i-am-a-test"), "SYN-6009", 8).contains("1 lost"));
    rig.refused("bench pay --accounts 3", "SYN-1001", 2);
    assert_eq!((&told["header"]["durability"], &runs[0]["fsyncs_per_s"]), (&"volatile".into(), &Value::Null));
    assert_eq!(own["unavailable"]["fsyncs_per_s"], "nothing is stored");
}

#[test]
fn replicas_with_journals_tell_what_is_written_and_that_it_is_synced() {
    for (durability, says) in [("fsync", "syncs what it promises"), ("nosync", "syncs nothing")] {
        let (told, own) = ran(&format!("{PAY} --durability {durability}"));
        assert_eq!(told["header"]["durability"], durability);
        assert!(own["semantics"].as_str().is_some_and(|text| text.contains(says)), "{own}");
        let runs = own["runs"].as_array().expect("runs");
        for key in
            ["disk_bytes_per_payment", "fsyncs_per_s", "write_and_sync_ms", "journals_cpu_us_per_payment"]
        {
            assert!(runs.iter().any(|run| run[key].as_f64() > Some(0.0)), "{key}: {own}");
        }
        assert!(
            own["unit_costs"]["fsync_us"].as_f64() > Some(0.0)
                && own["unavailable"]["fsyncs_per_s"].is_null()
        );
    }
}

#[test]
fn payments_that_owners_sign_tell_what_signing_costs_them_and_what_members_check() {
    let small = "--accounts 40 --batch 64 --inflight 256 --for 1s --warmup 50ms --repeat 1";
    let (told, own) = ran(&format!("pay --ownership self {small}"));
    assert_eq!((&own["config"]["ownership"], &told["header"]["auth"]), (&"self".into(), &"self".into()));
    let run = &own["runs"][0];
    // How much settles in a second is the machine's affair, and so is what a payment costs then.
    for key in ["pps", "owners_cpu_us_per_payment", "signatures_per_payment", "verifications_per_payment"] {
        assert!(run.get(key).is_some(), "{key}: {own}");
    }
    for price in ["sign_us", "verify_us", "batch_verify_us", "hash64_us"] {
        assert!(own["unit_costs"][price].as_f64() > Some(0.0), "{price}: {own}");
    }
    assert!(own["model_pps"].as_f64() > Some(0.0) && own["ratio"].get("model").is_some(), "{own}");
    let (_, own) = ran(&format!("pay --ownership self --verify witness {small}"));
    assert_eq!(own["config"]["verify"], "witness");
    let rig = Rig::new();
    rig.refused("bench pay --verify witness", "SYN-1001", 2);
    rig.refused("bench pay --ownership self --part processes", "SYN-1001", 2);
    let (told, own) = ran(&format!("pay --ownership distilled {small}"));
    assert_eq!(
        (&own["config"]["ownership"], &own["config"]["verify"]),
        (&"distilled".into(), &"witness".into())
    );
    assert_eq!((&told["audit"]["books_equal"], &told["audit"]["conserved"]), (&true.into(), &true.into()));
    rig.refused("bench pay --ownership distilled --profile II", "SYN-1001", 2);
}

#[test]
fn each_profile_of_payments_is_measured_and_told_beside_its_own_model() {
    let small = "--accounts 40 --inflight 256 --for 1s --warmup 0s --repeat 1";
    for (profile, batch) in [("I", 256), ("II", 256), ("II-F", 4_096)] {
        let (told, own) = ran(&format!("pay --profile {profile} {small}"));
        let config = &own["config"];
        assert_eq!((&config["profile"], &config["batch"]), (&profile.into(), &batch.into()));
        assert!(own["model_pps"].as_f64() > Some(0.0) && own["ratio"].get("model").is_some(), "{own}");
        assert!(own["unit_costs"]["sign_us"].as_f64() > Some(0.0), "{own}");
        assert_eq!(
            (&told["audit"]["books_equal"], &told["audit"]["conserved"]),
            (&true.into(), &true.into())
        );
    }
    let rig = Rig::new();
    for line in ["--profile III", "--profile II --shards 2", "--profile I --workload smallbank"] {
        rig.refused(&format!("bench pay {line}"), "SYN-1001", 2);
    }
    rig.refused("bench pay --profile II --ownership self --verify witness", "SYN-1001", 2);
    rig.refused("bench pay --profile I --part processes", "SYN-1001", 2);
}

#[test]
fn smallbank_is_measured_in_one_shard_and_between_shards() {
    let small = "pay --accounts 160 --batch 64 --inflight 256 --for 1s --warmup 0s --repeat 1";
    for shards in [1_u64, 2] {
        let (told, own) = ran(&format!("{small} --workload smallbank --shards {shards}"));
        assert_eq!(
            (&own["config"]["workload"], &own["config"]["shards"]),
            (&"smallbank".into(), &shards.into())
        );
        let run = &own["runs"][0];
        assert!(run["transactions"].as_u64() > Some(0), "{own}");
        let crossed = ["crossing", "crossed_units"].map(|key| run[key].as_u64() > Some(0));
        assert_eq!(crossed, [shards > 1; 2], "{own}");
        let sound = [&told["audit"]["books_equal"], &told["audit"]["conserved"]];
        assert_eq!(sound, [&serde_json::Value::from(true); 2]);
    }
    let rig = Rig::new();
    for line in
        ["--shards 2 --profile I", "--shards 0", "--cross-shard 0.1", "--workload smallbank --ownership self"]
    {
        rig.refused(&format!("bench pay {line}"), "SYN-1001", 2);
    }
}

const CHOP: &str = "chop --clients 2048 --batch 512 --pool 4 --for 100ms --warmup 0s --repeat 2";

#[test]
fn a_witness_of_chop_chop_tells_its_stages_and_other_ways() {
    let (told, own) = ran(&format!("{CHOP} --distilled 0.9"));
    assert_eq!(
        (&own["part"], &own["ids"], &own["distilled"]),
        (&"auth".into(), &"uniform".into(), &0.9.into())
    );
    for stage in ["digest", "decode", "tree", "stragglers", "keysum", "pairing"] {
        assert!(own["stage_ns"][stage].as_f64().is_some_and(|ns| ns > 0.0), "{stage}: {own}");
    }
    let [least, most] = [0, 1].map(|at| own["batches_per_s_spread"][at].as_f64());
    let median = own["batches_per_s"].as_f64();
    assert!(least > Some(0.0) && least <= median && median <= most, "{own}");
    let paths = own["paths"].as_array().expect("other ways");
    // Where this process has huge pages, one without them stands beside.
    let plain = paths.iter().filter(|path| path["path"] == "without huge pages").count();
    assert_eq!(plain, usize::from(told["header"]["huge_pages"] == "asked"), "{own}");
    assert_eq!(paths.len() - plain, 7, "four sums, two multi-pairings of at most four batches, none: {own}");
    assert!(paths.iter().all(|path| path["batches_per_s"].as_f64() > Some(0.0)), "{own}");
    assert_eq!((&told["audit"]["genuine"], &told["audit"]["forged"]), (&4.into(), &9.into()));
    assert_eq!((&told["header"]["processes"], &told["header"]["transport"]), (&1.into(), &"none".into()));
}

#[test]
fn a_benchmark_has_huge_pages_where_the_system_gives_them_unless_somebody_says_no() {
    let system = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    let (usual, refused) = match system {
        system if system.contains("[always]") => ("always", "always"),
        system if system.contains("[madvise]") && cfg!(target_env = "gnu") => ("asked", "none"),
        _ => ("none", "none"),
    };
    let of =
        |options: &str| ran(&format!("{CHOP} --no-ablations {options}")).0["header"]["huge_pages"].clone();
    assert_eq!((of(""), of("--no-huge-pages")), (usual.into(), refused.into()));
}

#[test]
fn ids_of_chop_chop_are_drawn_as_asked_and_beyond_the_clients() {
    for ids in ["cohort:5", "block"] {
        let (_, own) = ran(&format!("{CHOP} --ids {ids} --id-space 10000 --size 30 --no-ablations"));
        assert_eq!((&own["ids"], &own["id_space"], &own["size"]), (&ids.into(), &10_240.into(), &30.into()));
        assert_eq!(own["paths"].as_array().map(Vec::len), Some(0));
    }
}

#[test]
fn a_forged_batch_that_passes_shows_no_figure() {
    let told = Rig::new().refused(&format!("bench {CHOP} --i-am-a-test"), "SYN-6009", 8);
    assert!(told.contains("3 were not refused"), "{told}");
    assert!(!told.contains("batches_per_s"), "{told}");
}

const STRAGGLERS: &str =
    "chop --part server --distilled 0 --clients 2048 --batch 256 --window 4 --for 600s --warmup 600s";

#[test]
fn a_server_is_sent_stragglers_that_were_made_before_its_clock_ran() {
    let (told, own) = ran(&format!("{STRAGGLERS} --pool 24 --repeat 2"));
    let audit = &told["audit"];
    assert_eq!(
        (&audit["sent"], &audit["ok"], &audit["genuine"]),
        (&audit["delivered"], &true.into(), &1.into())
    );
    assert_eq!((&audit["forged"], &audit["forged_taken"]), (&9.into(), &0.into()));
    assert_eq!(
        (&own["distilled"], &own["pool"], &own["stragglers_per_batch"]),
        (&0.0.into(), &24.into(), &256.into())
    );
    assert!(own["generated"].as_str().is_some_and(|how| how.contains("none is sent twice")), "{own}");
    let paths = own["paths"].as_array().expect("other ways");
    // Where this process has huge pages and keeps its memory, one without each stands beside.
    let apart = |path: &&Value| path["path"] == "without huge pages" || path["path"] == "without kept memory";
    let apart = paths.iter().filter(apart).count();
    assert_eq!(apart, if told["header"]["huge_pages"] == "asked" { 2 } else { 0 }, "{own}");
    assert_eq!(paths.len() - apart, 3, "no sums of keys, so no other way to add them: {own}");
    for path in paths {
        assert!(positive(&path["messages_per_s"]) && path["measured_s"].is_number(), "{path}");
        assert_eq!(path["used_up"], true, "the clock stops with the last of them: {path}");
    }
}

#[test]
fn a_wrong_straggler_that_passes_shows_no_figure() {
    let told = Rig::new().refused(
        &format!("bench {STRAGGLERS} --pool 16 --no-ablations --i-am-a-test"),
        "SYN-6009",
        8,
    );
    assert!(told.contains("3 were not refused") && !told.contains("messages_per_s"), "{told}");
    Rig::new().refused(&format!("bench {STRAGGLERS} --pool 15"), "SYN-1001", 2);
}

const LOAD: &str = "--clients 2048 --batch 128 --for 500ms --warmup 100ms --repeat 1";

/// Whether a figure is above zero.
fn positive(value: &Value) -> bool {
    value.as_f64().is_some_and(|figure| figure > 0.0)
}

#[test]
fn four_servers_deliver_what_a_load_broker_sends_once_and_hold_one_state() {
    let (told, own) = ran(&format!("chop --part e2e {LOAD} --pool 8 --window 4"));
    let audit = &told["audit"];
    assert_eq!(
        (&audit["servers"], &audit["accounts"], &audit["sent"]),
        (&4.into(), &256.into(), &audit["delivered"])
    );
    assert_eq!((&own["part"], &own["pool"]), (&"e2e".into(), &8.into()));
    // Whether a batch had to wait for a member of a slow one is a matter of time.
    assert_eq!(own["cooldown_ok"], own["cooldown_waits"] == 0, "{own}");
    for key in ["messages_per_s", "batches_per_s", "ingress_bytes_per_msg", "wire_bytes_per_msg"] {
        assert!(positive(&own[key]), "{key}: {own}");
    }
    assert!(positive(&own["cpu_ns_per_msg"]["server"]) && positive(&own["cpu_ns_per_msg"]["load"]), "{own}");
    assert!(positive(&own["at_a_tenth"]["latency_us"]["p50"]), "{own}");
    let paths = own["paths"].as_array().expect("other ways");
    let ways: Vec<(&Value, &Value)> = paths.iter().map(|way| (&way["durability"], &way["ids"])).collect();
    assert_eq!(ways, [(&"fsync".into(), &"uniform".into()), (&"volatile".into(), &"cohort:5".into())]);
    assert!(own["generated"].as_str().is_some_and(|words| words.contains("generated")), "{own}");
    assert_eq!(
        (&told["header"]["transport"], &told["header"]["durability"]),
        (&"tls".into(), &"volatile".into())
    );
}

#[test]
fn three_servers_over_ubft_deliver_what_a_load_broker_sends_once_and_hold_one_state() {
    let (told, own) = ran(&format!("chop --part e2e --ordering ubft {LOAD} --no-ablations"));
    let audit = &told["audit"];
    assert_eq!(
        (&audit["servers"], &audit["accounts"], &audit["sent"]),
        (&3.into(), &256.into(), &audit["delivered"])
    );
    assert_eq!((&audit["duplicated"], &audit["state_hash_equal"]), (&0.into(), &true.into()));
    let figures = ["ordering", "n", "f", "memory_nodes"].map(|name| own[name].clone());
    assert_eq!(figures, [Value::from("ubft"), 3.into(), 1.into(), 3.into()]);
    // In so short a run memory nodes may take less than a tick of their counters.
    assert!(positive(&own["messages_per_s"]) && own["cpu_ns_per_msg"]["memory_nodes"].is_number(), "{own}");
    assert_eq!(told["header"]["processes"], 7);
    Rig::new().refused("bench chop --part faults --ordering ubft", "SYN-1001", 2);
}

#[test]
fn a_message_that_servers_do_not_hold_shows_no_figure_of_a_load_broker() {
    let line =
        format!("bench chop --part e2e {LOAD} --no-ablations --rate 1000 --durability fsync --i-am-a-test");
    let told = Rig::new().refused(&line, "SYN-6009", 8);
    assert!(told.contains("1 lost and 0 duplicated"), "{told}");
}

#[test]
fn bytes_on_the_wire_are_counted_in_both_forms_of_ids() {
    let (_, own) = ran(&format!("chop --part linerate {LOAD} --id-space 1000000 --no-ablations"));
    let forms = own["forms"].as_array().expect("forms");
    let bytes = |at: usize| forms[at]["ingress_bytes_per_msg"].as_f64().expect("a figure");
    assert!(bytes(0) > bytes(1) && bytes(1) > 8.0, "{own}");
    assert_eq!(
        (&forms[0]["ids"], &forms[1]["ids"], &own["id_space"]),
        (&"packed".into(), &"smallest".into(), &1_000_000.into())
    );
    assert!(positive(&own["overhead_fig9"]) && positive(&own["overhead_entropy"]), "{own}");
}

#[test]
fn batches_are_delivered_whatever_part_of_them_is_distilled() {
    let (_, own) = ran(&format!("chop --part partial {LOAD} --pool 2 --window 2"));
    let curve = own["ratio_curve"].as_array().expect("a curve");
    let shares: Vec<f64> = curve.iter().filter_map(|point| point["distilled"].as_f64()).collect();
    assert_eq!(shares, [0.0, 0.25, 0.5, 0.75, 0.95, 1.0]);
    assert!(curve.iter().all(|point| positive(&point["messages_per_s"])), "{own}");
}

#[test]
fn every_application_executes_the_load() {
    let (_, own) = ran(&format!("chop --part apps {LOAD}"));
    let apps: Vec<&str> =
        own["apps"].as_array().expect("rows").iter().filter_map(|row| row["app"].as_str()).collect();
    assert_eq!(apps[1..], ["payments", "pixels", "auction"]);
    assert!(positive(&own["auction_alone_per_s"]) && own["unavailable"]["auction_alone_per_s"].is_null());
    assert_eq!(own["alone"]["auction"]["messages_per_s"], own["auction_alone_per_s"]);
}

#[test]
fn nothing_is_lost_with_leader_server_and_broker_killed() {
    let (told, own) = ran(&format!("chop --part faults {LOAD} --no-ablations"));
    let faults = own["faults"].as_array().expect("faults");
    let names: Vec<&str> = faults.iter().filter_map(|fault| fault["fault"].as_str()).collect();
    assert_eq!(names, ["leader killed", "server killed", "broker killed"]);
    assert!(faults.iter().all(|fault| positive(&fault["is"]["longest_gap_s"])), "{own}");
    assert_eq!((&told["audit"]["servers"], &told["audit"]["ok"]), (&4.into(), &true.into()));
    assert_eq!(own["memory"]["in_formula"], true, "{own}");
}

#[test]
fn the_broker_of_the_real_part_is_a_part_of_its_own() {
    let (_, own) = ran("chop --part broker --clients 512 --honest 0 --for 2s --warmup 500ms --repeat 1");
    assert!(positive(&own["cpu_us_per_msg"]), "{own}");
    assert_eq!((&own["part"], &own["real"]["part"]), (&"broker".into(), &"real".into()));
    let levers = own["real"]["levers"].as_array().expect("levers");
    assert!(
        levers.len() == 4 && levers.iter().all(|one| positive(&one["ns"]) && positive(&one["ns_without"]))
    );
}

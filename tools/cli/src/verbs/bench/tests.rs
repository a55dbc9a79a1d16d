//! What the options mean, and what they do not.

use super::{Access, Arguments, Mode, Pace, Plan, Target, Work, pace};
use clap::{Args as _, FromArgMatches as _};
use std::time::Duration;

fn plan(line: &str) -> Result<Plan, String> {
    let words = std::iter::once("bench").chain(line.split_whitespace());
    let matches = Arguments::augment_args(clap::Command::new("bench")).try_get_matches_from(words);
    let matches = matches.map_err(|error| error.to_string())?;
    let arguments = Arguments::from_arg_matches(&matches).map_err(|error| error.to_string())?;
    match arguments.what.work() {
        Ok(Work::Cluster(plan)) => Ok(plan),
        Ok(Work::Chop(_) | Work::Pay(_) | Work::Ubft(_)) => Err("no cluster".to_owned()),
        Err(error) => Err(error.message().to_owned()),
    }
}

fn planned(line: &str) -> Plan {
    plan(line).unwrap_or_else(|why| unreachable!("{line}: {why}"))
}

#[test]
fn defaults_are_those_of_the_specification() {
    let order = planned("order");
    assert_eq!((order.nodes, order.size, order.inflight, order.pipeline), (4, 128, 16_384, 256));
    assert_eq!((order.access, order.pace, order.baseline), (Access::Binary, Pace::Closed, true));
    let kv = planned("kv --clients 50");
    assert_eq!((kv.access, kv.inflight, kv.pipeline, kv.read), (Access::Proxy, 800, 16, Mode::Quorum));
    assert_eq!(kv.target, Target::Kv { keys: 100_000, reads: 0 });
    assert_eq!((kv.window(), kv.batch(), kv.processes()), (16, 16, 6));
}

#[test]
fn each_way_to_the_store_is_chosen() {
    assert_eq!(planned("kv --via node").access, Access::Node);
    assert_eq!(planned("kv --api binary --inflight 64").access, Access::Binary);
    assert_eq!(planned("kv --op get --read ordered").read, Mode::Ordered);
    assert_eq!(planned("kv --op mix --read local --api binary").read, Mode::Local);
    assert_eq!(planned("kv --op mix --read-ratio 90").target, Target::Kv { keys: 100_000, reads: 900 });
    assert!(planned("order --send all").send_all && planned("kv --send all").send_all);
    let killed = planned("order --kill-leader-at 5");
    assert_eq!(killed.kill_leader_at, Some(Duration::from_secs(5)));
    assert_eq!(planned("order --kill-leader-at 1500ms").kill_leader_at, Some(Duration::from_millis(1_500)));
}

#[test]
fn a_rate_is_absolute_or_a_multiple_of_the_peak() {
    let read = |text| pace(text).ok();
    assert_eq!(read("5000"), Some(Pace::Rate(5_000)));
    assert_eq!(
        (read("3x"), read("0.5x"), read("1.125x")),
        (Some(Pace::Peak(3_000)), Some(Pace::Peak(500)), Some(Pace::Peak(1_125)))
    );
    for wrong in ["0", "-1", "x", "0x", "1.x", "1.0001x", "101x", "1e3", "+3x", "fast", "99999999999"] {
        assert_eq!(read(wrong), None, "{wrong}");
    }
}

#[test]
fn what_means_nothing_together_is_refused_with_the_reason() {
    for (line, reason) in [
        ("order --in-process", "process of its own"),
        ("order --for 0s", "measures nothing"),
        ("order --size 16", "at least 24 bytes"),
        ("kv --inflight 100", "--inflight goes with binary clients"),
        ("kv --api binary --via node", "--via goes with --api resp"),
        ("kv --via node --send all", "--send all does not go with --via node"),
        ("kv --read quorum", "--read goes with --op get or mix"),
        ("kv --op get --read local", "--read local goes with --api binary"),
        ("kv --op get --read ordered --via node", "--read ordered does not go with --via node"),
        ("kv --read-ratio 50", "--read-ratio goes with --op mix"),
        ("kv --clients 16 --keys 15", "--keys is below --clients"),
        ("order --rate 100 --inflight 10", "go with a closed loop"),
        ("kv --rate 100 --pipeline 10", "go with a closed loop"),
        ("order --dead 2", "4 nodes tolerate 1"),
        ("order --nodes 3 --kill-leader-at 1", "3 nodes tolerate 0"),
        ("order --dead 1 --kill-leader-at 1", "4 nodes tolerate 1"),
        ("order --for 3s --kill-leader-at 3", "behind the measured time"),
    ] {
        let why = plan(line).map(|_| ()).expect_err(line);
        assert!(why.contains(reason), "{line}: {why}");
    }
    for line in ["order --read quorum", "order --op get", "kv --api http", "order --rate 0", "kv --size 7"] {
        assert!(plan(line).is_err(), "{line}");
    }
}

#[test]
fn one_member_alone_takes_the_same_load() {
    let plan = planned("kv --clients 8 --dead 1 --rate 3x --kill-leader-at 1 --nodes 7 --op mix");
    let alone = plan.alone();
    assert_eq!((alone.nodes, alone.dead, alone.pace, alone.kill_leader_at), (1, 0, Pace::Closed, None));
    assert_eq!((alone.durability(), alone.baseline, alone.access), ("volatile", false, plan.access));
    assert_eq!((alone.clients, alone.pipeline, alone.size), (plan.clients, plan.pipeline, plan.size));
}

//! The result of a run.

use super::Plan;
use super::ledger::Lane;
use super::schedule::Events;
use super::timeline::Phase;
use crate::output::Report;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use synod_chaos::linear::Tally;
use synod_chaos::links::Counts;

/// What a run found.
pub(crate) struct Findings {
    pub(crate) lane: Lane,
    /// Bytes that were appended and acknowledged, and those of them that are not there.
    pub(crate) bytes_acked: u64,
    pub(crate) bytes_lost: u64,
    /// What the clients saw whose histories were kept.
    pub(crate) seen: Tally,
    /// What happened to connections between members, if they went through proxies.
    pub(crate) connections: Option<Counts>,
    pub(crate) events: Events,
    pub(crate) gaps: BTreeMap<Phase, Vec<Duration>>,
    /// Whether all members hold the same keys and values.
    pub(crate) hash_equal: bool,
    pub(crate) keys: u64,
    /// Members whose state was compared.
    pub(crate) members: usize,
    /// The faulty member.
    pub(crate) liar: Option<String>,
    /// Whether clients must have named it.
    pub(crate) must_name: bool,
    /// Whether honest members must have caught it signing twice.
    pub(crate) must_report: bool,
    /// Whom clients named, for what, how often.
    pub(crate) blamed: Vec<(String, &'static str, u64)>,
    pub(crate) took: Duration,
}

impl Findings {
    /// Whether nothing is wrong.
    pub(crate) fn ok(&self) -> bool {
        let none = self.lane.lost == 0 && self.lane.duplicated == 0;
        none && self.lane.acked > 0 && self.differences().is_empty()
    }

    /// What is wrong besides lost and duplicated writes.
    pub(crate) fn differences(&self) -> Vec<String> {
        let mut found = Vec::new();
        if !self.hash_equal {
            found.push(format!("the states of {} members that answered are not all equal", self.members));
        }
        let named: BTreeSet<&String> = self.blamed.iter().map(|(member, ..)| member).collect();
        let honest = named.iter().filter(|member| Some(**member) != self.liar.as_ref());
        found.extend(honest.map(|member| format!("clients blame {member}, which is honest")));
        if let Some(liar) = self.liar.as_ref().filter(|liar| self.must_name && !named.contains(liar)) {
            found.push(format!("no client names {liar}"));
        }
        let caught: BTreeSet<&String> = self.events.reported.iter().map(|(_, of, ..)| of).collect();
        let honest = caught.iter().filter(|member| Some(**member) != self.liar.as_ref());
        found.extend(
            honest.map(|member| format!("members report that {member}, which is honest, equivocates")),
        );
        if let Some(liar) = self.liar.as_ref().filter(|liar| self.must_report && !caught.contains(liar)) {
            found.push(format!("no member reports that {liar} equivocates"));
        }
        if self.seen.refuted > 0 {
            found.push(format!("the histories of {} keys are not linearizable", self.seen.refuted));
        }
        if self.seen.operations == 0 {
            found.push("no history was kept".to_owned());
        }
        if self.lane.acked == 0 {
            found.push("nothing was acknowledged".to_owned());
        }
        found
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// `p50, p99, max` in milliseconds, by nearest rank; null where nothing was measured.
pub(super) fn spread(spans: &[Duration]) -> Value {
    let mut sorted = spans.to_vec();
    sorted.sort_unstable();
    let rank = |of_hundred: usize| sorted.get((sorted.len() * of_hundred).div_ceil(100).saturating_sub(1));
    let shown = |span: Option<&Duration>| span.map(|span| millis(*span));
    json!({ "n": sorted.len(), "p50": shown(rank(50)), "p99": shown(rank(99)), "max": shown(sorted.last()) })
}

/// The result as it is printed.
pub(crate) fn report(plan: &Plan, found: &Findings) -> Report {
    let longest = |phase: &Phase| found.gaps.get(phase)?.iter().max().copied().map(millis);
    let mut gaps = Map::new();
    gaps.insert("longest".to_owned(), json!(Phase::ALL.iter().filter_map(longest).max()));
    for phase in &Phase::ALL {
        gaps.insert(phase.as_str().to_owned(), json!(longest(phase)));
    }
    let after_kill = found.gaps.get(&Phase::Kill).cloned().unwrap_or_default();
    let blamed = found
        .blamed
        .iter()
        .map(|(member, fault, times)| json!({ "member": member, "fault": fault, "times": times }));
    let reported = found
        .events
        .reported
        .iter()
        .map(|(by, of, fault, times)| json!({ "by": by, "member": of, "fault": fault, "times": times }));
    let report = Report::new("synod-chaos/1")
        .field("commit", env!("SYNOD_BUILD_COMMIT"))
        .field("system", "hotstuff")
        .field("nodes", plan.nodes)
        .field("seed", plan.seed)
        .field("seconds", found.took.as_secs())
        .field("hours", hours(found.took));
    let report = faults(plan, found, report)
        .field("lie", plan.lie.map(super::Lie::as_str))
        .field("liar", found.liar.clone())
        .field("blamed", blamed.collect::<Vec<Value>>())
        .field("reported", reported.collect::<Vec<Value>>());
    let report = found
        .lane
        .onto(report)
        .field("bytes_acked", found.bytes_acked)
        .field("bytes_lost", found.bytes_lost)
        // No protocol here moves money.
        .field("money_created", Value::Null)
        .field("hash_equal", found.hash_equal)
        .field("members", found.members)
        .field("keys", found.keys);
    histories(&found.seen, report)
        .field("gap_ms", Value::Object(gaps))
        .field("first_commit_ms", spread(&after_kill))
        .field("restart_to_ready_ms", spread(&found.events.to_ready))
        .field("restart_to_vote_ms", spread(&found.events.to_vote))
        .field("catch_up_ms", spread(&found.events.to_catch_up))
        .field("healed_to_level_ms", spread(&found.events.to_mend))
        .field("ok", found.ok())
}

/// Hours to a thousandth.
fn hours(took: Duration) -> Value {
    let thousandths = took.as_secs() * 1_000 / 3_600;
    let text = format!("{}.{:03}", thousandths / 1_000, thousandths % 1_000);
    text.parse::<f64>().map_or(Value::Null, Value::from)
}

/// What was done to the cluster.
fn faults(plan: &Plan, found: &Findings, report: Report) -> Report {
    let events = &found.events;
    // A mix without disks that can fail did not try them.
    let tried = |times: u32| (!plan.mix || plan.mixed_disks).then_some(times);
    let connections = found.connections.map(|counts| {
        json!({
            "carried": counts.connections,
            "reset": counts.reset,
            "half_open": counts.half_open,
            "corrupted": counts.corrupted,
        })
    });
    report
        .field("kills", events.kills)
        .field("stops", events.stops)
        .field("restarts_all", events.restarts_all)
        .field("splits", events.splits.values().sum::<u32>())
        .field("split_shapes", json!(events.splits))
        .field("links", json!(events.links))
        .field("connections", connections)
        .field("disk_full", tried(events.disk_full))
        .field("eio", tried(events.eio))
        .field("slow_ms", plan.slow.map(millis))
}

/// Whether what clients saw is linearizable, and how much that was.
fn histories(seen: &Tally, report: Report) -> Report {
    let word = match seen.word() {
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        word => Value::from(word),
    };
    report
        .field("linearizable", word)
        .field("histories", seen.histories)
        .field("history_ops", seen.operations)
        .field("history_unknown", seen.unknown)
        .field("histories_undecided", seen.undecided)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings() -> Findings {
        Findings {
            lane: Lane { acked: 5, ..Lane::default() },
            events: Events::default(),
            bytes_acked: 64,
            bytes_lost: 0,
            seen: Tally { histories: 1, operations: 9, ..Tally::default() },
            connections: None,
            gaps: BTreeMap::new(),
            hash_equal: true,
            keys: 1,
            members: 4,
            liar: None,
            must_name: false,
            must_report: false,
            blamed: Vec::new(),
            took: Duration::ZERO,
        }
    }

    #[test]
    fn any_difference_fails_the_run() {
        assert!(findings().ok());
        let mut silent = findings();
        (silent.liar, silent.must_name) = (Some("n1".to_owned()), true);
        assert!(!silent.ok(), "a lie that nobody notices was not told");
        silent.blamed = vec![("n1".to_owned(), "contradicted_result", 3)];
        assert!(silent.ok());
        silent.blamed.push(("n2".to_owned(), "contradicted_result", 1));
        assert!(!silent.ok(), "an honest member was named");
        let mut double = findings();
        (double.liar, double.must_report) = (Some("n1".to_owned()), true);
        assert!(!double.ok(), "double signing that nobody notices was not done");
        let report = |of: &str| ("n0".to_owned(), of.to_owned(), "equivocated_vote".to_owned(), 1);
        double.events.reported = vec![report("n1")];
        assert!(double.ok());
        double.events.reported.push(report("n2"));
        assert!(!double.ok(), "an honest member was caught");
        for spoil in [
            |f: &mut Findings| f.hash_equal = false,
            |f: &mut Findings| f.lane.lost = 1,
            |f: &mut Findings| f.lane.duplicated = 1,
            |f: &mut Findings| f.lane.acked = 0,
            |f: &mut Findings| f.seen.refuted = 1,
            |f: &mut Findings| f.seen.operations = 0,
        ] {
            let mut spoilt = findings();
            spoil(&mut spoilt);
            assert!(!spoilt.ok());
        }
    }

    #[test]
    fn a_history_that_nothing_explains_is_false_and_one_given_up_is_undecided() {
        let word = |seen: Tally| {
            let text = histories(&seen, Report::new("synod-chaos/1")).to_json();
            serde_json::from_str::<Value>(&text).expect("it is JSON")["linearizable"].clone()
        };
        assert_eq!(word(Tally::default()), json!(true));
        assert_eq!(word(Tally { undecided: 1, ..Tally::default() }), json!("undecided"));
        assert_eq!(word(Tally { undecided: 1, refuted: 1, ..Tally::default() }), json!(false));
        assert_eq!(hours(Duration::from_secs(180)), json!(0.05));
    }

    #[test]
    fn ranks_are_those_of_what_was_measured() {
        let spans: Vec<Duration> = (1..=200).map(Duration::from_millis).collect();
        assert_eq!(spread(&spans), json!({ "n": 200, "p50": 100, "p99": 198, "max": 200 }));
        assert_eq!(spread(&[]), json!({ "n": 0, "p50": null, "p99": null, "max": null }));
    }
}

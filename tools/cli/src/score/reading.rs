//! From the files of a command to one figure.

use super::bar::number;
use super::files::Found;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A figure.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Reading {
    /// The figure; an object where a row has several parts.
    pub(crate) value: Value,
    /// What it was counted over.
    pub(crate) n: u64,
    /// Why it fails whatever the figure.
    pub(crate) bad: Option<String>,
    /// What must be known to read it.
    pub(crate) note: Option<&'static str>,
    /// Rows that sum over history: what each run adds.
    pub(crate) parts: BTreeMap<String, u64>,
    /// Whether the parts are seconds and the figure is hours.
    pub(crate) is_hours: bool,
}

impl Reading {
    fn new(value: impl Into<Value>, n: u64) -> Option<Self> {
        Some(Self { value: value.into(), n, ..Self::default() })
    }

    fn failed(mut self, bad: bool, why: &str) -> Self {
        if bad {
            self.bad = Some(why.to_owned());
        }
        self
    }
}

/// Makes a figure of the files of a command; none where they do not say it.
pub(crate) type Read = fn(&[&Found]) -> Option<Reading>;

fn sum(found: &[&Found], key: &str) -> u64 {
    found.iter().map(|one| one.number(key)).sum()
}

/// Those that say this key; none where no file does.
fn saying<'a>(found: &[&'a Found], key: &str) -> Option<Vec<&'a Found>> {
    let saying: Vec<&Found> = found.iter().filter(|one| one.has(key)).copied().collect();
    (!saying.is_empty()).then_some(saying)
}

fn at(found: &Found, key: &str, part: &str) -> Option<u64> {
    found.keys.get(key)?.get(part)?.as_u64()
}

fn list<'a>(found: &'a Found, key: &str) -> &'a [Value] {
    found.keys.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The file with the most of something.
fn largest<'a>(found: &[&'a Found], key: &str) -> Option<&'a Found> {
    saying(found, key)?.into_iter().max_by_key(|one| one.number(key))
}

/// A share in per cent, to a tenth.
fn percent(part: u64, whole: u64) -> Value {
    number((part * 1_000).checked_div(whole).map_or(0.0, |tenths| tenths as f64 / 10.0))
}

/// What each file adds to a sum over history.
fn added(found: &[&Found], of: impl Fn(&Found) -> u64) -> Option<Reading> {
    let parts: BTreeMap<String, u64> = found.iter().map(|one| (one.run(), of(one))).collect();
    let value: u64 = parts.values().sum();
    Some(Reading { value: json!(value), n: value, parts, ..Reading::default() })
}

/// The same in hours, of a key in seconds.
fn hours(found: &[&Found], key: &str) -> Option<Reading> {
    let reading = added(found, |one| one.number(key))?;
    Some(Reading { value: in_hours(reading.n), is_hours: true, ..reading })
}

/// Seconds as hours, to a hundredth.
pub(super) fn in_hours(seconds: u64) -> Value {
    number((seconds / 36) as f64 / 100.0)
}

pub(super) fn clean(found: &[&Found]) -> Option<Reading> {
    let found = saying(found, "clean")?;
    Reading::new(sum(&found, "clean"), sum(&found, "seeds"))
}

pub(super) fn seeds(found: &[&Found]) -> Option<Reading> {
    added(&saying(found, "clean")?, |one| one.number("seeds"))
}

pub(super) fn virtual_hours(found: &[&Found]) -> Option<Reading> {
    hours(&saying(found, "virtual_s")?, "virtual_s")
}

pub(super) fn virtual_per_real(found: &[&Found]) -> Option<Reading> {
    let main = largest(found, "seeds")?;
    Reading::new(at(main, "virtual_per_real", "wan")?, main.number("seeds"))
}

fn of_soak(found: &[&Found], key: &str) -> Option<Reading> {
    let main = largest(found, "seeds")?;
    Reading::new(main.keys.get(key)?.clone(), main.number("seeds"))
}

pub(super) fn faults(found: &[&Found]) -> Option<Reading> {
    of_soak(found, "faults_p50")
}

pub(super) fn families(found: &[&Found]) -> Option<Reading> {
    of_soak(found, "families_active")
}

pub(super) fn effective(found: &[&Found]) -> Option<Reading> {
    of_soak(found, "effective_pct")
}

pub(super) fn cells(found: &[&Found]) -> Option<Reading> {
    let main = largest(found, "seeds")?;
    let of = at(main, "cells", "of")?;
    Reading::new(percent(at(main, "cells", "reached")?, of), of)
}

pub(super) fn rules(found: &[&Found]) -> Option<Reading> {
    let main = largest(found, "seeds")?;
    let of = at(main, "rules", "of")?;
    Reading::new(percent(at(main, "rules", "hit")?, of), of)
}

pub(super) fn repeats(found: &[&Found]) -> Option<Reading> {
    let found = saying(found, "repeats")?;
    let total = |part| found.iter().filter_map(|one| at(one, "repeats", part)).sum::<u64>();
    Reading::new(total("mismatch"), total("run"))
}

/// The plants of all searches from fresh seeds, each with the search that found it, or else the longest.
fn plants(found: &[&Found]) -> Option<BTreeMap<String, Value>> {
    let mut plants: BTreeMap<String, Value> = BTreeMap::new();
    let fresh = found.iter().filter(|one| at(one, "replays", "run") == Some(0));
    for one in fresh.flat_map(|one| list(one, "per")) {
        let Some(id) = one.get("id").and_then(Value::as_str) else { continue };
        let is_found = |plant: &Value| plant.get("found") == Some(&Value::Bool(true));
        if is_found(one) || !plants.get(id).is_some_and(is_found) {
            plants.insert(id.to_owned(), one.clone());
        }
    }
    (!plants.is_empty()).then_some(plants)
}

fn counted(found: &[&Found], wanted: fn(&Value) -> bool) -> Option<Reading> {
    let plants = plants(found)?;
    let wanted: Vec<&Value> = plants.values().filter(|plant| wanted(plant)).collect();
    let hit = wanted.iter().filter(|plant| plant.get("found") == Some(&Value::Bool(true))).count();
    Reading::new(hit as u64, wanted.len() as u64)
}

pub(super) fn starred(found: &[&Found]) -> Option<Reading> {
    counted(found, |plant| plant.get("starred") == Some(&Value::Bool(true)))
}

pub(super) fn all_plants(found: &[&Found]) -> Option<Reading> {
    counted(found, |_| true)
}

pub(super) fn plant_seeds(found: &[&Found]) -> Option<Reading> {
    let plants = plants(found)?;
    let hit = plants.values().filter(|plant| plant.get("found") == Some(&Value::Bool(true)));
    let mut seeds: Vec<u64> = hit.filter_map(|plant| plant.get("seeds")?.as_u64()).collect();
    seeds.sort_unstable();
    let (p50, max) = (seeds.get(seeds.len() / 2)?, seeds.last()?);
    Reading::new(json!({ "p50": p50, "max": max }), seeds.len() as u64)
}

pub(super) fn false_alarms(found: &[&Found]) -> Option<Reading> {
    let found = saying(found, "false_alarms")?;
    let tried = found.iter().flat_map(|one| list(one, "per"));
    let tried = tried.filter_map(|plant| plant.get("seeds")?.as_u64()).sum();
    Reading::new(sum(&found, "false_alarms"), tried)
}

pub(super) fn mutants(found: &[&Found]) -> Option<Reading> {
    let found = largest(found, "tested")?;
    let (score, over) = (found.keys.get("score_200")?.clone(), found.number("score_over"));
    Reading::new(score, over)
}

fn unbroken(reading: Reading, found: &[&Found], keys: &[&str], why: &str) -> Reading {
    let broken = |one: &Found, key: &str| one.number(key) > 0 || !list(one, key).is_empty();
    reading.failed(found.iter().any(|one| keys.iter().any(|key| broken(one, key))), why)
}

pub(super) fn twins(found: &[&Found]) -> Option<Reading> {
    let found = saying(found, "unique")?;
    let reading = added(&found, |one| one.number("unique"))?;
    Some(unbroken(reading, &found, &["violations"], "scripts of twins broke a property"))
}

pub(super) fn twins_per_s(found: &[&Found]) -> Option<Reading> {
    let main = largest(found, "unique")?;
    Reading::new(main.number("per_s"), main.number("executed"))
}

pub(super) fn crash_points(found: &[&Found]) -> Option<Reading> {
    let found = saying(found, "points")?;
    Reading::new(sum(&found, "points"), sum(&found, "outcomes"))
}

pub(super) fn crash_conflicts(found: &[&Found]) -> Option<Reading> {
    let found = saying(found, "conflicts")?;
    let reading = Reading::new(sum(&found, "conflicts"), sum(&found, "points"))?;
    Some(unbroken(reading, &found, &["gate_violations"], "a promise left before its record was durable"))
}

pub(super) fn amnesia(found: &[&Found]) -> Option<Reading> {
    let found = saying(found, "passed")?;
    Reading::new(sum(&found, "passed"), sum(&found, "cells"))
}

pub(super) fn model_states(found: &[&Found]) -> Option<Reading> {
    let main = largest(found, "unique_total")?;
    let models = list(main, "models");
    let broken = models.iter().any(|one| one.get("violations").and_then(Value::as_u64).unwrap_or(0) > 0);
    let reading = Reading::new(main.number("unique_total"), models.len() as u64)?;
    Some(reading.failed(broken, "a model broke a property"))
}

pub(super) fn models_exhausted(found: &[&Found]) -> Option<Reading> {
    let main = largest(found, "unique_total")?;
    let models = list(main, "models");
    let exhausted = models.iter().filter(|one| one.get("exhausted") == Some(&Value::Bool(true)));
    Reading::new(exhausted.count() as u64, models.len() as u64)
}

pub(super) fn fuzz_inputs(found: &[&Found]) -> Option<Reading> {
    let found = saying(found, "inputs")?;
    let reading = added(&found, |one| one.number("inputs"))?;
    Some(unbroken(reading, &found, &["roundtrip"], "an encoding did not come back"))
}

pub(super) fn fuzz_crashes(found: &[&Found]) -> Option<Reading> {
    let found = saying(found, "crashes")?;
    Reading::new(sum(&found, "crashes"), sum(&found, "inputs"))
}

pub(super) fn fuzz_overalloc(found: &[&Found]) -> Option<Reading> {
    let found = saying(found, "overalloc")?;
    Reading::new(sum(&found, "overalloc"), sum(&found, "inputs"))
}

pub(super) fn refused(found: &[&Found]) -> Option<Reading> {
    let main = largest(found, "of")?;
    Reading::new(main.keys.get("refused")?.clone(), main.number("of"))
}

pub(super) fn flood_kept(found: &[&Found]) -> Option<Reading> {
    let main = saying(found, "honest_kept_pct")?.into_iter().next()?;
    Reading::new(main.keys.get("honest_kept_pct")?.clone(), 1)
}

pub(super) fn flood_memory(found: &[&Found]) -> Option<Reading> {
    let main = saying(found, "rss_growth")?.into_iter().next()?;
    let (growth, formula) = (main.keys.get("rss_growth")?, main.keys.get("formula").cloned());
    Reading::new(json!({ "rss_growth": growth, "formula": formula.unwrap_or(Value::Null) }), 1)
}

pub(super) fn chaos_hours(found: &[&Found]) -> Option<Reading> {
    hours(&saying(found, "kills")?, "seconds")
}

pub(super) fn chaos_kills(found: &[&Found]) -> Option<Reading> {
    added(&saying(found, "kills")?, |one| one.number("kills"))
}

pub(super) fn chaos_audit(found: &[&Found]) -> Option<Reading> {
    let found = saying(found, "acked")?;
    let total = |key: &str| match found.iter().any(|one| one.has(key)) {
        true => json!(sum(&found, key)),
        false => Value::Null,
    };
    let value = json!({
        "lost": sum(&found, "lost"),
        "duplicated": sum(&found, "duplicated"),
        "bytes_lost": total("bytes_lost"),
        "money_created": total("money_created"),
    });
    let apart = found.iter().any(|one| one.keys.get("hash_equal") == Some(&Value::Bool(false)));
    let mut reading = Reading::new(value, sum(&found, "acked"))?.failed(apart, "states differ");
    reading.note = Some("null: no stream and no money in what runs");
    Some(reading)
}

/// The worst of `part` over the runs that measured it.
fn worst(found: &[&Found], key: &str, part: &str) -> Option<Reading> {
    let n = found.iter().filter_map(|one| at(one, key, "n")).sum();
    Reading::new(found.iter().filter_map(|one| at(one, key, part)).max()?, n)
}

pub(super) fn first_commit(found: &[&Found]) -> Option<Reading> {
    worst(found, "first_commit_ms", "p99")
}

pub(super) fn restart_to_vote(found: &[&Found]) -> Option<Reading> {
    worst(found, "restart_to_vote_ms", "p99")
}

pub(super) fn power_cuts(found: &[&Found]) -> Option<Reading> {
    added(&saying(found, "cuts")?, |one| one.number("cuts"))
}

pub(super) fn power_violations(found: &[&Found]) -> Option<Reading> {
    let found = saying(found, "violations")?;
    Reading::new(sum(&found, "violations"), sum(&found, "cuts"))
}

pub(super) fn power_order(found: &[&Found]) -> Option<Reading> {
    let found = saying(found, "order_violations")?;
    Reading::new(sum(&found, "order_violations"), sum(&found, "cuts"))
}

pub(super) fn shrunk(found: &[&Found]) -> Option<Reading> {
    let main = saying(found, "events_after")?.into_iter().next()?;
    Reading::new(main.keys.get("events_after")?.clone(), main.number("shrunk").max(1))
}

fn passed(found: &[&Found], key: &str) -> Option<Reading> {
    let main = saying(found, key)?.into_iter().next()?;
    let (passed, failed) = (at(main, key, "passed")?, at(main, key, "failed")?);
    Reading::new(passed, passed + failed)
}

pub(super) fn parity(found: &[&Found]) -> Option<Reading> {
    passed(found, "parity")
}

pub(super) fn contract(found: &[&Found]) -> Option<Reading> {
    passed(found, "contract")
}

pub(super) fn advisories(found: &[&Found]) -> Option<Reading> {
    let main = saying(found, "advisories")?.into_iter().next()?;
    Reading::new(main.keys.get("advisories")?.clone(), main.number("advisories_over").max(1))
}

pub(super) fn crates(found: &[&Found]) -> Option<Reading> {
    let main = saying(found, "crates")?.into_iter().next()?;
    let crates = main.keys.get("crates")?;
    Reading::new(crates.clone(), crates.get("all").and_then(Value::as_u64).unwrap_or(0))
}

pub(super) fn unsafe_code(found: &[&Found]) -> Option<Reading> {
    let main = saying(found, "unsafe_outside_allowed")?.into_iter().next()?;
    Reading::new(main.number("unsafe_outside_allowed"), main.number("sources"))
}

pub(super) fn allows(found: &[&Found]) -> Option<Reading> {
    let main = saying(found, "allows")?.into_iter().next()?;
    let unexplained = main.number("allows_without_reason") > 0;
    let reading = Reading::new(main.number("allows"), main.number("sources"))?;
    Some(reading.failed(unexplained, "an exception has no reason"))
}

pub(super) fn planted(found: &[&Found]) -> Option<Reading> {
    let main = saying(found, "release_has_plants")?.into_iter().next()?;
    Reading::new(u64::from(main.keys.get("release_has_plants") == Some(&Value::Bool(true))), 1)
}

/// Rows whose protocol is not built read nothing.
pub(super) fn nothing(_: &[&Found]) -> Option<Reading> {
    None
}

/// An object of one key, for tests.
#[cfg(test)]
pub(super) fn found(name: &str, keys: Value) -> Found {
    let keys = keys.as_object().cloned().unwrap_or_default();
    Found { name: name.to_owned(), keys, age_s: 5 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plant_that_one_search_found_counts_once() {
        let one = |id: &str, found: bool, seeds: u64| json!({"id": id, "starred": id == "H1", "found": found, "seeds": seeds});
        let replays = json!({ "run": 0, "found": 0 });
        let a = found(
            "sim-plant",
            json!({ "replays": replays, "per": [one("H1", true, 3), one("H4", false, 500)] }),
        );
        let b = found(
            "sim-plant-all",
            json!({ "replays": replays, "per": [one("H1", false, 500), one("H5", true, 9)] }),
        );
        let c = found(
            "sim-plant-replays",
            json!({ "replays": { "run": 1, "found": 1 }, "per": [one("H4", true, 1)] }),
        );
        let all = [&a, &b, &c];
        assert_eq!(
            all_plants(&all).map(|r| (r.value, r.n)),
            Some((json!(2), 3)),
            "a replay is no fresh search"
        );
        assert_eq!(starred(&all).map(|r| (r.value, r.n)), Some((json!(1), 1)));
        assert_eq!(plant_seeds(&all).map(|r| r.value), Some(json!({ "p50": 9, "max": 9 })));
    }

    #[test]
    fn a_broken_property_fails_the_row_whatever_its_figure() {
        let file = found("sim-twins-hotstuff", json!({ "unique": 9000, "per_s": 40, "violations": [{}] }));
        assert!(twins(&[&file]).is_some_and(|reading| reading.bad.is_some()));
        let file = found("sim-twins-hotstuff", json!({ "unique": 9000, "per_s": 40, "violations": [] }));
        assert!(twins(&[&file]).is_some_and(|reading| reading.bad.is_none()));
        let file = found("chaos-run", json!({ "acked": 5, "lost": 0, "duplicated": 0, "hash_equal": false }));
        assert!(chaos_audit(&[&file]).is_some_and(|reading| reading.bad.is_some()));
        let file = found("sim-crash", json!({ "points": 5, "conflicts": 0, "gate_violations": 1 }));
        assert!(crash_conflicts(&[&file]).is_some_and(|reading| reading.bad.is_some()));
    }

    #[test]
    fn what_files_do_not_say_is_no_figure() {
        let empty = found("any", json!({ "advisories": null }));
        for read in [
            clean,
            seeds,
            cells,
            rules,
            twins,
            crash_points,
            amnesia,
            refused,
            chaos_audit,
            advisories,
            parity,
        ] {
            assert_eq!(read(&[&empty]), None);
            assert_eq!(read(&[]), None);
        }
    }

    #[test]
    fn shares_are_per_cent_to_a_tenth_and_runs_add_up() {
        let file = |name: &str, seeds: u64| {
            let keys =
                json!({ "clean": seeds, "seeds": seeds, "cells": { "reached": 1, "of": 3 }, "date": "d" });
            found(name, keys)
        };
        let (a, b) = (file("sim-soak-hotstuff", 10), file("sim-soak-hotstuff-basic", 4));
        assert_eq!(cells(&[&a, &b]).map(|r| (r.value, r.n)), Some((json!(33.3), 3)));
        let sum = seeds(&[&a, &b]).expect("both say it");
        assert_eq!((sum.value, sum.parts.len()), (json!(14), 2));
    }
}

//! The score of one commit.

use super::files::{Files, Found};
use super::reading::{Reading, in_hours};
use super::rows::{COMMIT, ROWS, Row};
use super::{bar, history};
use serde_json::{Map, Value, json};
use std::fmt::Write as _;

/// What is demanded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    /// What every commit must meet.
    Commit,
    /// The first gate.
    Full,
    /// A release.
    Release,
}

impl Gate {
    /// Its name.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Commit => "commit",
            Self::Full => "full",
            Self::Release => "release",
        }
    }

    /// Whether a row counts. What is not built is left out of everything but a release.
    fn demands(self, row: &Row) -> bool {
        match self {
            Self::Commit => row.built && COMMIT.contains(&row.key),
            Self::Full => row.built && row.first.is_some(),
            Self::Release => true,
        }
    }
}

/// One row with its figure.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    row: &'static Row,
    reading: Option<Reading>,
    age_s: Option<u64>,
    command: String,
    pass_first: bool,
    pass_release: bool,
}

/// All rows.
#[derive(Clone, Debug)]
pub(crate) struct Board {
    gate: Gate,
    lines: Vec<Line>,
}

impl Board {
    /// Holds what was found against every row. Rows that sum over history take its runs along.
    pub(crate) fn of(files: &Files, past: &[Map<String, Value>], gate: Gate) -> Self {
        Self { gate, lines: ROWS.iter().map(|row| line(row, files, past)).collect() }
    }

    /// Whether every row that the gate demands passes.
    pub(crate) fn passes(&self) -> bool {
        self.failing().is_empty()
    }

    /// The rows that fail the gate.
    pub(crate) fn failing(&self) -> Vec<&'static str> {
        let passes = |line: &Line| match self.gate {
            Gate::Release => line.pass_release,
            Gate::Commit | Gate::Full => line.pass_first,
        };
        let demanded = self.lines.iter().filter(|line| self.gate.demands(line.row));
        demanded.filter(|line| !passes(line)).map(|line| line.row.key).collect()
    }

    /// The rows that the gate leaves out because what they measure is not built.
    pub(crate) fn left_out(&self) -> Vec<&'static str> {
        let out = |line: &&Line| !line.row.built && self.gate != Gate::Release;
        self.lines.iter().filter(out).map(|line| line.row.key).collect()
    }

    /// All rows by key.
    pub(crate) fn rows(&self) -> Value {
        Value::Object(self.lines.iter().map(|line| (line.row.key.to_owned(), line.to_json())).collect())
    }

    /// The rows as people read them.
    pub(crate) fn page(&self) -> String {
        let mut text = format!(
            "{:<22} {:>28} {:>9} {:<9} {:>22} {:>5} {:>5} {:>9}\n",
            "row", "value", "n", "kind", "first", "first", "rel.", "age"
        );
        for line in &self.lines {
            let age = line.age_s.map_or_else(|| "-".to_owned(), |age| format!("{} min", age / 60));
            let n = line.reading.as_ref().map_or_else(|| "-".to_owned(), |reading| reading.n.to_string());
            let mark = |pass| if pass { "yes" } else { "no" };
            let first = if line.row.built { mark(line.pass_first) } else { "-" };
            let _infallible = writeln!(
                text,
                "{:<22} {:>28} {n:>9} {:<9} {:>22} {first:>5} {:>5} {age:>9}",
                line.row.key,
                line.shown(),
                line.row.kind.as_str(),
                line.bar_shown(),
                mark(line.pass_release),
            );
        }
        let notes =
            self.lines.iter().filter_map(|line| Some((line.row.key, line.reading.as_ref()?.bad.as_ref()?)));
        for (key, why) in notes {
            let _infallible = writeln!(text, "{key}: {why}");
        }
        text
    }
}

fn line(row: &'static Row, files: &Files, past: &[Map<String, Value>]) -> Line {
    let found: Vec<&Found> = files.of(row.files);
    let planted = |one: &&&Found| one.keys.get("plants") == Some(&Value::Bool(true));
    let found: Vec<&Found> = found.iter().filter(|one| row.planted || !planted(one)).copied().collect();
    let reading = (row.read)(&found).map(|reading| summed(row, reading, past));
    let met = |bar: Option<bar::Bar>| {
        let good = reading.as_ref().filter(|reading| reading.bad.is_none() && !reading.value.is_null());
        good.is_some_and(|good| bar.is_none_or(|bar| bar.is_met(&good.value, good.n)))
    };
    let made: Vec<&str> = found.iter().map(|one| one.command()).filter(|words| !words.is_empty()).collect();
    Line {
        row,
        pass_first: met(row.first),
        pass_release: met(Some(row.release)),
        age_s: reading.as_ref().and_then(|_| found.iter().map(|one| one.age_s).max()),
        command: if reading.is_none() || made.is_empty() { row.command.to_owned() } else { made.join("; ") },
        reading,
    }
}

fn summed(row: &Row, mut reading: Reading, past: &[Map<String, Value>]) -> Reading {
    if row.sums {
        let all: u64 = history::parts(past, row.key, &reading.parts).values().sum();
        reading.value = if reading.is_hours { in_hours(all) } else { json!(all) };
        reading.n = all;
    }
    reading
}

impl Line {
    fn to_json(&self) -> Value {
        let Row { kind, first, release, .. } = self.row;
        let mut object = Map::new();
        let mut put = |key: &str, value: Value| drop(object.insert(key.to_owned(), value));
        let reading = self.reading.as_ref();
        put("value", reading.map_or(Value::Null, |reading| reading.value.clone()));
        put("n", reading.map_or(Value::Null, |reading| json!(reading.n)));
        put("kind", json!(kind.as_str()));
        put("first", first.map_or(Value::Null, bar::Bar::to_json));
        put("release", release.to_json());
        put("pass_first", json!(self.pass_first));
        put("pass_release", json!(self.pass_release));
        put("command", json!(self.command));
        put("age_s", json!(self.age_s));
        if let Some(whole) = self.row.first_whole {
            put("first_whole", json!(whole));
        }
        if !self.row.built {
            put("not_built", json!(true));
        }
        if self.row.sums {
            put("parts", json!(reading.map(|reading| &reading.parts)));
        }
        if let Some(note) = reading.and_then(|reading| reading.note) {
            put("note", json!(note));
        }
        if let Some(why) = reading.and_then(|reading| reading.bad.as_ref()) {
            put("failed", json!(why));
        }
        Value::Object(object)
    }

    fn shown(&self) -> String {
        match &self.reading {
            Some(reading) => plain(&reading.value),
            None if self.row.built => "not run".to_owned(),
            None => "not built".to_owned(),
        }
    }

    fn bar_shown(&self) -> String {
        let bar = self.row.first.map_or_else(|| "-".to_owned(), |bar| plain(&bar.to_json()));
        self.row.first_whole.map_or(bar.clone(), |whole| format!("{bar} (whole {whole})"))
    }
}

/// Parts divided by slashes, in the order of their names.
fn plain(value: &Value) -> String {
    match value {
        Value::Object(parts) => parts.values().map(plain).collect::<Vec<_>>().join("/"),
        Value::String(text) => text.clone(),
        Value::Null => "-".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(named: &[(&str, Value)]) -> Files {
        let mut files = Files::default();
        for (name, keys) in named {
            files.add(name, keys.as_object().cloned().unwrap_or_default(), 60);
        }
        files
    }

    fn row<'a>(rows: &'a Value, key: &str) -> &'a Value {
        rows.get(key).expect("the row is there")
    }

    #[test]
    fn a_check_that_did_not_run_has_no_value_and_fails_both_bars() {
        let board = Board::of(&Files::default(), &[], Gate::Full);
        let rows = board.rows();
        for (key, row) in rows.as_object().expect("an object") {
            assert!(row["value"].is_null() && row["age_s"].is_null() && row["command"].is_string(), "{key}");
            assert_eq!((&row["pass_first"], &row["pass_release"]), (&json!(false), &json!(false)), "{key}");
        }
        assert!(!board.passes());
        assert_eq!(row(&rows, "sim.clean.picsou")["not_built"], json!(true));
    }

    #[test]
    fn what_is_not_built_is_left_out_of_all_but_a_release() {
        let full = Board::of(&Files::default(), &[], Gate::Full);
        assert!(full.left_out().contains(&"ubft.flat") && !full.failing().contains(&"ubft.flat"));
        let release = Board::of(&Files::default(), &[], Gate::Release);
        assert!(release.left_out().is_empty() && release.failing().contains(&"ubft.flat"));
        let commit = Board::of(&Files::default(), &[], Gate::Commit);
        assert_eq!(commit.failing(), COMMIT);
    }

    #[test]
    fn figures_are_held_against_their_bars() {
        let soak = json!({
            "clean": 1200, "seeds": 1200, "virtual_s": 36000, "virtual_per_real": { "wan": 900 }, "faults_p50": 41,
            "families_active": 25, "effective_pct": { "view_change": 71, "lost_suffix": 49, "byzantine": 95 },
            "repeats": { "run": 12, "mismatch": 0 }, "date": "d1", "command": "synod sim soak",
        });
        let board = Board::of(&files(&[("sim-soak-hotstuff", soak)]), &[], Gate::Full);
        let rows = board.rows();
        let passes =
            |key: &str| (row(&rows, key)["pass_first"].clone(), row(&rows, key)["pass_release"].clone());
        assert_eq!(passes("sim.clean.hotstuff"), (json!(true), json!(false)));
        assert_eq!(passes("sim.effective"), (json!(false), json!(false)), "one share of three is too low");
        assert_eq!(passes("sim.families"), (json!(true), json!(true)));
        assert_eq!(passes("sim.repeats"), (json!(true), json!(true)));
        assert_eq!(
            (&row(&rows, "sim.repeats")["value"], &row(&rows, "sim.repeats")["n"]),
            (&json!(0), &json!(12))
        );
        assert_eq!(row(&rows, "sim.virtual_hours")["value"], json!(10));
        assert_eq!(row(&rows, "sim.seeds")["command"], json!("synod sim soak"));
        assert!(board.page().contains("sim.clean.hotstuff"), "{}", board.page());
    }

    #[test]
    fn sums_take_the_runs_of_history_along_but_need_one_of_this_commit() {
        let past: Vec<Map<String, Value>> = vec![
            serde_json::from_value(
                json!({ "rows": { "chaos.hours": { "parts": { "chaos-run d0": 86400 } } } }),
            )
            .expect("an object"),
        ];
        let none = Board::of(&Files::default(), &past, Gate::Full).rows();
        assert!(row(&none, "chaos.hours")["value"].is_null());
        let run = json!({ "seconds": 360, "kills": 3, "date": "d1" });
        let rows = Board::of(&files(&[("chaos-run-hotstuff", run)]), &past, Gate::Full).rows();
        assert_eq!(row(&rows, "chaos.hours")["value"], json!(24.1));
        assert_eq!(row(&rows, "chaos.hours")["parts"], json!({ "chaos-run-hotstuff d1": 360 }));
        assert_eq!(row(&rows, "chaos.hours")["pass_release"], json!(true));
    }

    #[test]
    fn a_bar_over_all_protocols_is_scaled_for_the_first_gate_alone() {
        let ids = synod_trial::plants::STARRED;
        let built = json!(super::super::rows::STARRED_BUILT);
        let plants: Vec<Value> =
            ids.iter().map(|id| json!({ "id": id, "starred": true, "found": true, "seeds": 4 })).collect();
        let run = json!({ "replays": { "run": 0 }, "per": plants, "false_alarms": 0, "plants": true });
        let rows = Board::of(&files(&[("sim-plant-starred", run)]), &[], Gate::Full).rows();
        let starred = row(&rows, "plant.starred");
        assert_eq!((&starred["value"], &starred["n"]), (&built, &built));
        assert_eq!((&starred["first"], &starred["first_whole"]), (&built, &json!(23)));
        assert_eq!((&starred["pass_first"], &starred["pass_release"]), (&json!(true), &json!(false)));
    }

    #[test]
    fn a_build_with_planted_bugs_makes_no_figure_of_correct_code() {
        let run = json!({ "clean": 9000, "seeds": 9000, "plants": true });
        let rows = Board::of(&files(&[("sim-soak-hotstuff", run)]), &[], Gate::Full).rows();
        assert!(row(&rows, "sim.clean.hotstuff")["value"].is_null());
    }
}

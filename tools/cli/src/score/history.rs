//! One line per full gate: `docs/score/history.jsonl`.

use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::path::Path;

/// The file below the root of a checkout.
pub(crate) const FILE: &str = "docs/score/history.jsonl";

/// All scores that were kept, oldest first.
///
/// # Errors
/// The file is there and cannot be read, or a line of it is no object.
pub(crate) fn read(file: &Path) -> io::Result<Vec<Map<String, Value>>> {
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    lines.map(|line| serde_json::from_str(line).map_err(io::Error::other)).collect()
}

/// Adds a score as one line, and syncs it.
///
/// # Errors
/// The folder cannot be made or the file cannot be written.
pub(crate) fn append(file: &Path, score: &Value) -> io::Result<()> {
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut out = std::fs::OpenOptions::new().create(true).append(true).open(file)?;
    out.write_all(format!("{score}\n").as_bytes())?;
    out.sync_all()
}

/// What all runs added to a row: those of the history and the present ones, each run once.
pub(crate) fn parts(
    history: &[Map<String, Value>],
    key: &str,
    present: &BTreeMap<String, u64>,
) -> BTreeMap<String, u64> {
    let mut parts = present.clone();
    for score in history {
        let kept = score.get("rows").and_then(|rows| rows.get(key)?.get("parts")?.as_object());
        for (run, count) in kept.into_iter().flatten() {
            parts.entry(run.clone()).or_insert_with(|| count.as_u64().unwrap_or(0));
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_run_that_two_lines_hold_counts_once() {
        let file = std::env::temp_dir().join(format!("synod-history-{}/a/history.jsonl", std::process::id()));
        assert!(read(&file).expect("nothing yet").is_empty());
        let line = |parts: Value| json!({ "rows": { "sim.seeds": { "parts": parts } } });
        append(&file, &line(json!({ "sim-soak-hotstuff d1": 100 }))).expect("appended");
        append(&file, &line(json!({ "sim-soak-hotstuff d1": 100, "sim-soak-hotstuff d2": 20 })))
            .expect("appended");
        let lines = read(&file).expect("read");
        std::fs::write(&file, "{\"rows\"").expect("written");
        let torn = read(&file);
        let folder = file.parent().and_then(Path::parent).expect("made above");
        std::fs::remove_dir_all(folder).expect("removed");
        let present = BTreeMap::from([("sim-soak-hotstuff d3".to_owned(), 3)]);
        assert_eq!(parts(&lines, "sim.seeds", &present).values().sum::<u64>(), 123);
        assert_eq!(parts(&lines, "chaos.hours", &BTreeMap::new()).len(), 0);
        assert!(torn.is_err(), "a line that cannot be read is not left out silently");
    }
}

//! Where the next run goes on: the number behind the last one that was run, per verb and system.
//!
//! `marks.json` in the folder of scores holds an object of numbers. What cannot be read counts as absent: then numbers
//! begin at 1 and may have been run before, which costs nothing but news.

use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

/// The folder of scores, below the folder the command is started in.
pub(super) const FOLDER: &str = "target/score";

fn file(folder: &Path) -> PathBuf {
    folder.join("marks.json")
}

fn all(folder: &Path) -> Map<String, Value> {
    let text = std::fs::read_to_string(file(folder)).unwrap_or_default();
    serde_json::from_str::<Map<String, Value>>(&text).unwrap_or_default()
}

fn name(verb: &str, system: &str) -> String {
    format!("{verb} {system}")
}

/// The first number that `verb` has not run on `system` yet.
pub(super) fn next(folder: &Path, verb: &str, system: &str) -> u64 {
    all(folder).get(&name(verb, system)).and_then(Value::as_u64).unwrap_or(1)
}

/// States that everything below `next` was run. A lower number than the one that is stored changes nothing.
///
/// # Errors
/// The folder cannot be made or the file cannot be replaced.
pub(super) fn raise(folder: &Path, verb: &str, system: &str, next: u64) -> std::io::Result<()> {
    if next <= self::next(folder, verb, system) {
        return Ok(());
    }
    let mut marks = all(folder);
    marks.insert(name(verb, system), Value::from(next));
    std::fs::create_dir_all(folder)?;
    let new = folder.join(format!("marks.{}.new", std::process::id()));
    std::fs::write(&new, Value::Object(marks).to_string())?;
    std::fs::rename(&new, file(folder))
}

#[cfg(test)]
mod tests {
    use super::{next, raise};

    #[test]
    fn marks_rise_per_verb_and_system_and_never_fall() {
        let folder = std::env::temp_dir().join(format!("synod-marks-{}", std::process::id()));
        assert_eq!(next(&folder, "soak", "hotstuff"), 1, "nothing is stored yet");
        raise(&folder, "soak", "hotstuff", 101).expect("the folder is made");
        raise(&folder, "twins", "hotstuff", 7).expect("the file is replaced");
        raise(&folder, "soak", "hotstuff", 50).expect("nothing to do");
        let marks = ["soak", "twins"].map(|verb| next(&folder, verb, "hotstuff"));
        std::fs::remove_dir_all(&folder).expect("the folder is removed");
        assert_eq!(marks, [101, 7]);
    }
}

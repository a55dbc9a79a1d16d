//! What was found at one commit: the files of the folder of scores that name it.

use super::stamp;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::UNIX_EPOCH;

/// Largest file that is read, in bytes.
const BYTES_MAX: u64 = 16 << 20;

/// What a command found.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    /// The name of its file, without `.json`.
    pub(crate) name: String,
    /// Its keys.
    pub(crate) keys: Map<String, Value>,
    /// Seconds since it was written.
    pub(crate) age_s: u64,
}

impl Found {
    /// A number, 0 where there is none.
    pub(crate) fn number(&self, key: &str) -> u64 {
        self.keys.get(key).and_then(Value::as_u64).unwrap_or(0)
    }

    /// Whether it has this key, and not as null.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.keys.get(key).is_some_and(|value| !value.is_null())
    }

    /// Its name and its date: what is told from all other runs.
    pub(crate) fn run(&self) -> String {
        let date = self.keys.get("date").and_then(Value::as_str).unwrap_or_default();
        format!("{} {date}", self.name)
    }

    /// The words that started it.
    pub(crate) fn command(&self) -> &str {
        self.keys.get("command").and_then(Value::as_str).unwrap_or_default()
    }
}

/// Whether two names mean one commit: one may be longer than the other.
fn is_same(one: &str, other: &str) -> bool {
    let shared = one.len().min(other.len());
    shared >= 7 && one.get(..shared) == other.get(..shared)
}

/// All that was found at a commit, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Files {
    found: BTreeMap<String, Found>,
    /// Names of files of other commits, which count as missing.
    pub(crate) other: Vec<String>,
}

impl Files {
    /// Reads a folder. What is no object with a commit, or too large, counts as missing.
    pub(crate) fn read(folder: &Path, commit: &str) -> Self {
        let mut files = Self::default();
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let Some(name) = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".json")) else {
                continue;
            };
            let Some((keys, age_s)) = object(&path) else { continue };
            match keys.get("commit").and_then(Value::as_str) {
                Some(of) if is_same(of, commit) => files.add(name, keys, age_s),
                Some(_) => files.other.push(name.to_owned()),
                None => {}
            }
        }
        files.other.sort();
        files
    }

    /// Adds what was found.
    pub(crate) fn add(&mut self, name: &str, keys: Map<String, Value>, age_s: u64) {
        self.found.insert(name.to_owned(), Found { name: name.to_owned(), keys, age_s });
    }

    /// The file of this name, and those of the same command on parts of it: `name-...`.
    pub(crate) fn of(&self, name: &str) -> Vec<&Found> {
        let part = |found: &&Found| {
            found.name.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        self.found.values().filter(part).collect()
    }
}

fn object(path: &Path) -> Option<(Map<String, Value>, u64)> {
    let known = std::fs::metadata(path).ok().filter(|known| known.is_file() && known.len() <= BYTES_MAX)?;
    let keys = serde_json::from_str(&std::fs::read_to_string(path).ok()?).ok()?;
    let written = known.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some((keys, stamp::now().saturating_sub(written.as_secs())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn commits_are_the_same_whatever_their_length() {
        assert!(is_same("5a9f7aa00112", "5a9f7aa0011223"));
        assert!(!is_same("5a9f7aa00112", "5a9f7ab00112"));
        assert!(!is_same("", "5a9f7aa00112"), "no commit is every commit");
    }

    #[test]
    fn files_of_other_commits_and_of_none_count_as_missing() {
        let folder = std::env::temp_dir().join(format!("synod-files-{}", std::process::id()));
        let write = |name: &str, value: &Value| stamp::put(&folder, name, value).expect("written");
        write("sim-soak-hotstuff", &json!({ "commit": "5a9f7aa00112", "seeds": 3 }));
        write("sim-soak-hotstuff-basic", &json!({ "commit": "5a9f7aa00112", "seeds": 4 }));
        write("sim-twins-hotstuff", &json!({ "commit": "000000000000", "unique": 5 }));
        write("marks", &json!({ "soak hotstuff": 7 }));
        std::fs::write(folder.join("sim-crash.json"), "{\"commit\":\"5a9f7").expect("written");
        let files = Files::read(&folder, "5a9f7aa00112");
        let none = Files::read(&folder.join("missing"), "5a9f7aa00112");
        std::fs::remove_dir_all(&folder).expect("removed");
        let seeds: Vec<u64> =
            files.of("sim-soak-hotstuff").iter().map(|found| found.number("seeds")).collect();
        assert_eq!(seeds, [3, 4]);
        assert_eq!(files.of("sim-soak").len(), 2);
        assert!(files.of("sim-soak-hot").is_empty(), "a name is not cut within a word");
        assert!(
            files.of("sim-twins").is_empty()
                && files.of("sim-crash").is_empty()
                && files.of("marks").is_empty()
        );
        assert_eq!(files.other, ["sim-twins-hotstuff"]);
        assert!(none.of("sim-soak").is_empty());
    }
}

//! What makes a figure comparable: the commit, the date, the machine, the time it took.
//!
//! A command writes its figures to `target/score/NAME.json` of the checkout it is started in. Where there is none, as
//! for an installed program, nothing is written. The file holds what the command printed plus the keys below.
//! Compiled into `synod` and into `cargo xtask`, so that there is one form of these files.
//!
//! | key | what |
//! |---|---|
//! | `commit` | what the program was built from, 12 digits |
//! | `changed` | whether tracked files differed from that commit when the file was written |
//! | `date` | UTC, to the second |
//! | `machine` | processor, cores, memory |
//! | `wall_s` | seconds that the command took |
//! | `command` | the words it was started with; `DIR` for every folder and file of that machine |
//! | `plants` | whether the program holds planted bugs |

use serde_json::{Map, Number, Value};
use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The folder of scores below the root of a checkout.
pub(crate) const FOLDER: &str = "target/score";

/// What stands in a command for a folder or a file of the machine.
const PLACE: &str = "DIR";

/// What is known of a run besides its figures.
#[derive(Clone, Debug)]
pub(crate) struct Stamp {
    /// What was run is of this commit.
    pub(crate) commit: String,
    /// Whether tracked files differ from it.
    pub(crate) changed: bool,
    /// The words that started it.
    pub(crate) command: String,
    /// How long it took.
    pub(crate) wall: Duration,
    /// Whether it holds planted bugs.
    pub(crate) plants: bool,
}

impl Stamp {
    /// The figures with the keys of this page. A key of the figures by the same name is replaced.
    pub(crate) fn on(&self, figures: Value) -> Value {
        let mut object = match figures {
            Value::Object(object) => object,
            other => Map::from_iter([("value".to_owned(), other)]),
        };
        let mut put = |key: &str, value: Value| drop(object.insert(key.to_owned(), value));
        put("commit", Value::from(self.commit.clone()));
        put("changed", Value::from(self.changed));
        put("date", Value::from(date(now())));
        put("machine", Value::from(machine()));
        put("wall_s", seconds(self.wall));
        put("command", Value::from(self.command.clone()));
        put("plants", Value::from(self.plants));
        Value::Object(object)
    }
}

/// A command as one line that names no place of a machine: `DIR` stands for the value of every option of `paths`
/// (`--folder`, `-f`), and for every other word, or value behind `=`, that is an absolute path or leaves the checkout.
pub(crate) fn line(program: &str, words: &[String], paths: &BTreeSet<String>) -> String {
    let (mut line, mut is_value) = (program.to_owned(), false);
    for word in words {
        let shown = if is_value { PLACE.to_owned() } else { without_place(word, paths) };
        is_value = !is_value && paths.contains(word);
        line += " ";
        line += &shown;
    }
    line
}

/// A word, with `DIR` for the path that it is or holds.
fn without_place(word: &str, paths: &BTreeSet<String>) -> String {
    // The value of a short option may stand right behind its letter.
    let short = word.split_at_checked(2).filter(|(name, _)| !name.starts_with("--") && paths.contains(*name));
    match (short, word.split_once('=')) {
        (_, Some((name, value))) if paths.contains(name) || !is_place(name) && is_place(value) => {
            format!("{name}={PLACE}")
        }
        (Some((name, value)), _) if !value.is_empty() => format!("{name}{PLACE}"),
        _ if is_place(word) => PLACE.to_owned(),
        _ => word.to_owned(),
    }
}

/// Whether a word is a path that means something on one machine alone.
fn is_place(word: &str) -> bool {
    word.starts_with(['/', '~']) || word.split('/').any(|part| part == "..")
}

/// The commit of a checkout, 12 digits.
pub(crate) fn head(root: &Path) -> Option<String> {
    git(root, &["rev-parse", "--short=12", "HEAD"]).filter(|text| !text.is_empty())
}

/// Whether tracked files of a checkout differ from its commit. Without git nobody knows, which counts as yes.
pub(crate) fn is_changed(root: &Path) -> bool {
    git(root, &["status", "--porcelain", "--untracked-files=no"]).is_none_or(|text| !text.is_empty())
}

fn git(root: &Path, words: &[&str]) -> Option<String> {
    let done = Command::new("git").args(words).current_dir(root).stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8(done.stdout).ok().filter(|_| done.status.success())?;
    Some(text.trim().to_owned())
}

/// Replaces `NAME.json` in a folder, which is made if need be.
///
/// # Errors
/// The folder cannot be made or the file cannot be replaced.
pub(crate) fn put(folder: &Path, name: &str, object: &Value) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let new = folder.join(format!("{name}.{}.new", std::process::id()));
    std::fs::write(&new, format!("{object}\n"))?;
    std::fs::rename(&new, folder.join(format!("{name}.json")))
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// A moment as `YYYY-MM-DDThh:mm:ssZ`.
pub(crate) fn date(unix: u64) -> String {
    let (day, second) = (unix / 86_400, unix % 86_400);
    format!("{}T{:02}:{:02}:{:02}Z", civil(day), second / 3_600, second / 60 % 60, second % 60)
}

/// The civil date of a day since 1970 (Gregorian calendar, years of 400-year eras).
pub(crate) fn civil(days: u64) -> String {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

/// The model of the processor.
pub(crate) fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|line| line.strip_prefix("model name"));
    model.map_or_else(|| "unknown".to_owned(), |m| m.trim_start_matches([' ', '\t', ':']).to_owned())
}

/// The machine in words: processor, cores, memory.
pub(crate) fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = kib.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    let memory =
        kib.map_or_else(|| "unknown memory".to_owned(), |kib| format!("{} GiB", kib.div_ceil(1 << 20)));
    format!("{}, {cores} cores, {memory}", processor())
}

fn seconds(span: Duration) -> Value {
    let text = format!("{}.{:03}", span.as_secs(), span.subsec_millis());
    text.parse::<Number>().map_or(Value::Null, Value::Number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn moments_become_dates() {
        for (day, shown) in
            [(0, "1970-01-01"), (59, "1970-03-01"), (11_016, "2000-02-29"), (20_778, "2026-11-21")]
        {
            assert_eq!(civil(day), shown);
        }
        assert_eq!(date(20_778 * 86_400 + 45_296), "2026-11-21T12:34:56Z");
    }

    #[test]
    fn a_command_names_no_place_of_a_machine() {
        let paths = BTreeSet::from(["--db".to_owned(), "-f".to_owned()]);
        for (words, shown) in [
            ("supply --db near/by --json", "t supply --db DIR --json"),
            ("supply --db=/home/x/db", "t supply --db=DIR"),
            ("supply --db /home/x --seed 7", "t supply --db DIR --seed 7"),
            ("supply -f x -fx -f=x -f", "t supply -f DIR -fDIR -f=DIR -f"),
            ("supply --db -f 7", "t supply --db DIR 7"),
            ("run /home/x ~/x ../x a/../b --of=/home/x", "t run DIR DIR DIR DIR --of=DIR"),
            ("run /home/x=y ../x=/y of=/home/../x a=b", "t run DIR DIR of=DIR a=b"),
            (
                "soak --share 1/2 --system hotstuff/basic a..b",
                "t soak --share 1/2 --system hotstuff/basic a..b",
            ),
            ("", "t"),
        ] {
            let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
            assert_eq!(line("t", &words, &paths), shown);
        }
    }

    #[test]
    fn a_stamp_keeps_the_figures_and_says_where_they_are_from() {
        let stamp = Stamp {
            commit: "5a9f7aa00112".to_owned(),
            changed: true,
            command: "synod sim soak".to_owned(),
            wall: Duration::from_millis(1_250),
            plants: false,
        };
        let file = stamp.on(json!({ "seeds": 3, "commit": "of the figures" }));
        assert_eq!((&file["seeds"], &file["commit"]), (&json!(3), &json!("5a9f7aa00112")));
        assert_eq!(
            (&file["wall_s"], &file["changed"], &file["plants"]),
            (&json!(1.25), &json!(true), &json!(false))
        );
        assert!(file["date"].as_str().is_some_and(|date| date.len() == 20 && date.ends_with('Z')));
        assert!(file["machine"].as_str().is_some_and(|machine| machine.contains(" cores, ")));
    }

    #[test]
    fn a_file_is_replaced_and_its_folder_made() {
        let folder = std::env::temp_dir().join(format!("synod-stamp-{}", std::process::id()));
        for value in [1, 2] {
            put(&folder.join(FOLDER), "a", &json!({ "x": value })).expect("replaced");
        }
        let text = std::fs::read_to_string(folder.join("target/score/a.json")).expect("read");
        let files = std::fs::read_dir(folder.join(FOLDER)).expect("read").count();
        std::fs::remove_dir_all(&folder).expect("removed");
        assert_eq!((text.as_str(), files), ("{\"x\":2}\n", 1));
    }
}

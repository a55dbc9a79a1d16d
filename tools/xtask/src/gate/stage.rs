//! Running the lanes of a group.

use std::fs::File;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use super::plan::{Group, Step};

/// Exit code of `timeout` for a command that it ended.
const ENDED: i32 = 124;

/// How a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Passed,
    Failed,
    /// It took longer than its box.
    Ended,
    /// This build has no such command.
    Missing,
    /// A step before it in its lane failed, and the gate was not told to keep going.
    Skipped,
}

impl State {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "FAILED",
            Self::Ended => "FAILED: over its box",
            Self::Missing => "not in this build",
            Self::Skipped => "not run",
        }
    }
}

/// A step that is over.
#[derive(Clone, Debug)]
pub(super) struct Done {
    pub(super) stage: &'static str,
    pub(super) lane: usize,
    pub(super) name: String,
    pub(super) command: String,
    pub(super) state: State,
    pub(super) wall_s: u64,
    pub(super) limit_s: u64,
}

/// Runs all lanes of a group at the same time. A failure ends its lane, unless all is to be `whole`.
pub(super) fn run(root: &Path, group: &Group, whole: bool) -> Vec<Done> {
    let lanes = group.lanes.iter().enumerate();
    std::thread::scope(|scope| {
        let running: Vec<_> = lanes
            .map(|(number, lane)| {
                let place = (group.name, number + 1);
                scope.spawn(move || in_order(root, place, lane, whole))
            })
            .collect();
        running.into_iter().flat_map(|lane| lane.join().unwrap_or_default()).collect()
    })
}

fn in_order(root: &Path, (stage, lane): (&'static str, usize), steps: &[Step], whole: bool) -> Vec<Done> {
    let mut failed = false;
    let mut done = Vec::new();
    for step in steps {
        let started = Instant::now();
        let state = if failed && !whole { State::Skipped } else { one(root, step) };
        failed |= matches!(state, State::Failed | State::Ended);
        let wall_s = started.elapsed().as_secs();
        eprintln!("xtask: {} {} after {wall_s} s", step.name, state.word());
        done.push(Done {
            stage,
            lane,
            name: step.name.clone(),
            command: step.words.join(" "),
            state,
            wall_s,
            limit_s: step.limit_s,
        });
    }
    done
}

fn one(root: &Path, step: &Step) -> State {
    if step.may_miss && !exists(root, &step.words) {
        return State::Missing;
    }
    match logged(root, step) {
        Ok(Some(0)) => State::Passed,
        Ok(Some(ENDED) | None) => State::Ended,
        Ok(Some(_)) => State::Failed,
        Err(why) => {
            eprintln!("xtask: {}: {why}", step.name);
            State::Failed
        }
    }
}

/// Whether a program has a verb: its help can be asked for.
fn exists(root: &Path, words: &[String]) -> bool {
    let verbs = words.iter().skip(1).take_while(|word| !word.starts_with('-'));
    let Some(program) = words.first() else { return false };
    let mut command = Command::new(program);
    command.args(verbs).arg("--help").current_dir(root);
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// Runs a step under its time limit; what it says goes to a file of its own.
fn logged(root: &Path, step: &Step) -> io::Result<Option<i32>> {
    let folder = root.join("target/score/logs");
    std::fs::create_dir_all(&folder)?;
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let path = folder.join(format!("{}.log", step.name.chars().map(plain).collect::<String>()));
    let log = File::create(&path)?;
    let mut command = Command::new("timeout");
    command.args(["--kill-after=20", &step.limit_s.to_string()]).args(&step.words).current_dir(root);
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    let status = command.status()?;
    if !status.success() {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        eprintln!("xtask: {} said last:", step.name);
        lines.iter().skip(lines.len().saturating_sub(20)).for_each(|line| eprintln!("  {line}"));
    }
    Ok(status.code())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(name: &str, limit_s: u64, words: &[&str], may_miss: bool) -> Step {
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        Step { name: name.to_owned(), words, limit_s, may_miss }
    }

    /// What became of two lanes, the first of which has a failure in its middle, and how many logs they left.
    fn two_lanes(name: &str, whole: bool) -> (Vec<(usize, String, State)>, usize) {
        let root = std::env::temp_dir().join(format!("synod-stage-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&root).expect("made");
        let lanes = vec![
            vec![
                step("a", 9, &["true"], false),
                step("b", 9, &["false"], false),
                step("c", 9, &["true"], false),
            ],
            vec![step("d", 9, &["true"], false), step("e", 9, &["false", "verb"], true)],
        ];
        let done = run(&root, &Group { name: "g", lanes }, whole);
        let logs = std::fs::read_dir(root.join("target/score/logs")).expect("made").count();
        std::fs::remove_dir_all(&root).expect("removed");
        (done.into_iter().map(|d| (d.lane, d.name, d.state)).collect(), logs)
    }

    fn wanted(third: State) -> Vec<(usize, String, State)> {
        let first = [(1, "a", State::Passed), (1, "b", State::Failed), (1, "c", third)];
        let second = [(2, "d", State::Passed), (2, "e", State::Missing)];
        first.into_iter().chain(second).map(|(lane, name, state)| (lane, name.to_owned(), state)).collect()
    }

    #[test]
    fn a_failure_stops_its_lane_and_nothing_beside_it() {
        assert_eq!(two_lanes("stops", false), (wanted(State::Skipped), 3));
    }

    #[test]
    fn a_gate_that_keeps_going_runs_what_stands_behind_a_failure() {
        assert_eq!(two_lanes("goes", true), (wanted(State::Passed), 4));
    }
}

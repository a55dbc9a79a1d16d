//! The tests that must notice a mutant.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::Context as _;

use super::copy::Copy;

/// Longest time that a build may take, in seconds; the first one builds all dependencies.
const BUILD_S: u32 = 1_800;
/// Longest time that a crate's tests may take, and that seeds and crash points may.
const TEST_S: u32 = 240;
/// Most address space of a test, in KiB: a change may make a loop that allocates without end.
const MEMORY_KIB: u32 = 8 << 20;
/// Exit code of `timeout` for a command that it ended.
const ENDED: i32 = 124;
/// Seeds of the protocol.
const SEEDS: &str = "60";
/// The tests of the protocol: fresh seeds and crash points.
const PROTOCOL: [&str; 8] = [
    "--package",
    "synod-scenarios",
    "--test",
    "hotstuff",
    "--",
    "fresh_seeds",
    "crash_points",
    "--test-threads=1",
];

/// How a mutant fared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// A test failed.
    Caught,
    /// A test did not end.
    Timeout,
    /// Every test passed.
    Missed,
    /// It does not compile.
    Unviable,
}

impl Outcome {
    /// Its name.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Caught => "caught",
            Self::Timeout => "timeout",
            Self::Missed => "missed",
            Self::Unviable => "unviable",
        }
    }

    /// The outcome of this name.
    pub(crate) fn of(word: &str) -> Option<Self> {
        [Self::Caught, Self::Timeout, Self::Missed, Self::Unviable].into_iter().find(|one| one.word() == word)
    }
}

/// How a step of the suite ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Passed,
    Failed,
    Ended,
}

/// The suite in one copy.
pub(super) struct Suite {
    tree: PathBuf,
    target: PathBuf,
    seed: String,
    /// Crates whose tests pass without any mutant.
    sound: BTreeSet<String>,
}

impl Suite {
    pub(super) fn new(copy: &Copy, commit: &str) -> Self {
        let seed = commit.chars().filter(char::is_ascii_hexdigit).take(12).collect();
        Self { tree: copy.tree(), target: copy.target(), seed, sound: BTreeSet::new() }
    }

    /// Makes sure that the suite passes without any mutant, once per crate.
    ///
    /// # Errors
    /// It does not: nothing would be learned from a mutant.
    pub(super) fn baseline(&mut self, package: &str) -> anyhow::Result<()> {
        if self.sound.contains(package) {
            return Ok(());
        }
        let own = crate_tests(package);
        let mut steps = vec![(BUILD_S, with(&own, &["--no-run"])), (TEST_S, own)];
        if self.sound.is_empty() {
            steps.push((BUILD_S, with(&PROTOCOL[..4], &["--no-run"])));
            steps.push((TEST_S, PROTOCOL.to_vec()));
        }
        for (seconds, words) in steps {
            let step = self.step(seconds, &words)?;
            anyhow::ensure!(
                step == Step::Passed,
                "without any mutant `cargo test {}` fails",
                words.join(" ")
            );
        }
        self.sound.insert(package.to_owned());
        Ok(())
    }

    /// Builds what the suite of these crates needs and runs nothing.
    ///
    /// # Errors
    /// A build fails.
    pub(super) fn prepare<'a>(&self, packages: impl Iterator<Item = &'a str>) -> anyhow::Result<()> {
        let builds = packages.map(crate_tests).chain([PROTOCOL[..4].to_vec()]);
        for words in builds.map(|words| with(&words, &["--no-run"])) {
            let built = self.step(BUILD_S, &words)?;
            anyhow::ensure!(built == Step::Passed, "`cargo test {}` fails", words.join(" "));
        }
        Ok(())
    }

    /// Runs the suite over what is in the copy now; what noticed it.
    pub(super) fn run(&self, package: &str) -> anyhow::Result<(Outcome, String)> {
        let own = crate_tests(package);
        if self.step(BUILD_S, &with(&own, &["--no-run"]))? != Step::Passed {
            return Ok((Outcome::Unviable, "the compiler".to_owned()));
        }
        let protocol_build = with(&PROTOCOL[..4], &["--no-run"]);
        for (by, build, words) in [
            ("crate tests", None, &own),
            ("seeds and crash points", Some(protocol_build), &PROTOCOL.to_vec()),
        ] {
            // The protocol's tests compile whenever the crate does, or the change breaks what others build on.
            if build.is_some_and(|build| self.step(BUILD_S, &build).ok() != Some(Step::Passed)) {
                return Ok((Outcome::Unviable, "the compiler".to_owned()));
            }
            match self.step(TEST_S, words)? {
                Step::Passed => {}
                Step::Failed => return Ok((Outcome::Caught, by.to_owned())),
                Step::Ended => return Ok((Outcome::Timeout, by.to_owned())),
            }
        }
        Ok((Outcome::Missed, "nothing".to_owned()))
    }

    fn step(&self, seconds: u32, words: &[&str]) -> anyhow::Result<Step> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        // Whoever ends this task ends what it runs, which has a process group of its own.
        let limited = format!(
            "ulimit -v {MEMORY_KIB} && exec setpriv --pdeathsig TERM timeout --kill-after=5 {seconds} \"$@\""
        );
        let mut command = Command::new("sh");
        command.args(["-c", &limited, "sh"]).arg(cargo).args(["test", "--locked", "--quiet"]).args(words);
        command.current_dir(&self.tree).env("CARGO_TARGET_DIR", &self.target);
        command.env("SYNOD_SEED", &self.seed).env("SYNOD_SEEDS", SEEDS);
        // What this task was started with belongs to its own crate.
        for (name, _) in
            std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("CARGO_PKG_"))
        {
            command.env_remove(name);
        }
        command.env_remove("CARGO_MANIFEST_DIR");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let status = command.status().context("no shell starts")?;
        Ok(match status.code() {
            Some(0) => Step::Passed,
            Some(ENDED) | None => Step::Ended,
            Some(_) => Step::Failed,
        })
    }
}

fn crate_tests(package: &str) -> Vec<&str> {
    vec!["--package", package, "--lib", "--tests"]
}

fn with<'a>(words: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    words.iter().chain(more).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_kept_by_their_names() {
        for outcome in [Outcome::Caught, Outcome::Timeout, Outcome::Missed, Outcome::Unviable] {
            assert_eq!(Outcome::of(outcome.word()), Some(outcome));
        }
        assert_eq!(Outcome::of("survived"), None);
    }

    #[test]
    fn a_build_names_the_tests_and_runs_none() {
        assert_eq!(
            with(&crate_tests("p"), &["--no-run"]),
            ["--package", "p", "--lib", "--tests", "--no-run"]
        );
        assert!(!with(&PROTOCOL[..4], &["--no-run"]).contains(&"--"));
    }
}

//! Every mutant that was tried: `docs/score/mutants.jsonl`, oldest first.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Write as _};
use std::path::Path;

use anyhow::Context as _;
use serde_json::{Value, json};

use super::suite::Outcome;

/// The file below the root of the checkout.
pub(super) const FILE: &str = "docs/score/mutants.jsonl";

/// Different mutants that the score is over.
const OVER: usize = 200;

/// A mutant that was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tried {
    pub(super) commit: String,
    pub(super) name: String,
    pub(super) package: String,
    pub(super) outcome: Outcome,
    /// What noticed it.
    pub(super) by: String,
}

impl Tried {
    fn read(line: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(line).ok()?;
        let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        Some(Self {
            commit: text("commit")?,
            name: text("name")?,
            package: text("package")?,
            outcome: Outcome::of(&text("outcome")?)?,
            by: text("by")?,
        })
    }

    /// Adds it to the file.
    pub(super) fn append(&self, file: &Path) -> anyhow::Result<()> {
        let Self { commit, name, package, outcome, by } = self;
        let line = json!({ "commit": commit, "name": name, "package": package, "outcome": outcome.word(), "by": by });
        file.parent().map_or(Ok(()), std::fs::create_dir_all)?;
        let mut out = std::fs::OpenOptions::new().create(true).append(true).open(file)?;
        writeln!(out, "{line}").with_context(|| format!("{} cannot be written", file.display()))
    }
}

/// All that were tried.
#[derive(Clone, Debug, Default)]
pub(super) struct Past {
    tried: Vec<Tried>,
}

impl Past {
    /// Reads the file; none is an empty past.
    ///
    /// # Errors
    /// It cannot be read, or a line is no mutant.
    pub(super) fn read(file: &Path) -> anyhow::Result<Self> {
        let text = match std::fs::read_to_string(file) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(error).with_context(|| format!("{} cannot be read", file.display())),
        };
        let read =
            |line| Tried::read(line).with_context(|| format!("{} has no mutant in `{line}`", file.display()));
        Ok(Self {
            tried: text.lines().filter(|line| !line.is_empty()).map(read).collect::<anyhow::Result<_>>()?,
        })
    }

    pub(super) fn add(&mut self, tried: Tried) {
        self.tried.push(tried);
    }

    /// The last trial of each mutant that compiles, newest first.
    fn last(&self) -> impl Iterator<Item = &Tried> {
        let mut seen = BTreeSet::new();
        let newest = self.tried.iter().rev().filter(move |one| seen.insert(one.name.as_str()));
        newest.filter(|one| one.outcome != Outcome::Unviable)
    }

    /// The last trial of each mutant at a commit.
    pub(super) fn at(&self, commit: &str) -> Vec<&Tried> {
        let mut seen = BTreeSet::new();
        let newest = self.tried.iter().rev().filter(|one| one.commit == commit);
        newest.filter(|one| seen.insert(one.name.as_str())).collect()
    }

    /// How many of the last 200 different mutants were caught, and how many those are.
    pub(super) fn score(&self) -> (usize, usize) {
        let last: Vec<&Tried> = self.last().take(OVER).collect();
        (last.iter().filter(|one| one.outcome != Outcome::Missed).count(), last.len())
    }

    /// Those of the last 200 that nothing noticed, by name.
    pub(super) fn survivors(&self) -> Vec<String> {
        let missed = self.last().take(OVER).filter(|one| one.outcome == Outcome::Missed);
        let names: BTreeSet<String> = missed.map(|one| one.name.clone()).collect();
        names.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tried(name: &str, outcome: Outcome) -> Tried {
        let text = |text: &str| text.to_owned();
        Tried { commit: text("c"), name: text(name), package: text("p"), outcome, by: text("crate tests") }
    }

    #[test]
    fn the_last_trial_of_a_mutant_counts_and_only_200_do() {
        let mut past = Past::default();
        for number in 0..300 {
            past.add(tried(&format!("m{number}"), Outcome::Caught));
        }
        assert_eq!(past.score(), (200, 200));
        past.add(tried("m299", Outcome::Missed));
        past.add(tried("m5", Outcome::Missed));
        assert_eq!((past.score(), past.survivors()), ((198, 200), vec!["m299".to_owned(), "m5".to_owned()]));
        past.add(tried("m299", Outcome::Caught));
        assert_eq!((past.score(), past.survivors()), ((199, 200), vec!["m5".to_owned()]));
        past.add(tried("m5", Outcome::Unviable));
        assert_eq!(past.score(), (200, 200), "what does not compile any more counts for nothing");
    }

    #[test]
    fn the_past_is_kept_line_by_line() {
        let file = std::env::temp_dir().join(format!("synod-past-{}/mutants.jsonl", std::process::id()));
        assert_eq!(Past::read(&file).expect("none yet").score(), (0, 0));
        let all = [tried("a:1:2: replace \"x\"", Outcome::Missed), tried("b", Outcome::Timeout)];
        all.iter().for_each(|one| one.append(&file).expect("appended"));
        let past = Past::read(&file).expect("read");
        std::fs::write(&file, "{}\n").expect("written");
        let bad = Past::read(&file);
        file.parent().map(std::fs::remove_dir_all).expect("a folder").expect("removed");
        assert_eq!(past.tried, all);
        assert_eq!(past.at("c").len(), 2);
        assert!(bad.is_err(), "a trial is not forgotten silently");
    }
}

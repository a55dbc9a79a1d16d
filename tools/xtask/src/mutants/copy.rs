//! A copy of the tree, in which a mutant is made and taken back.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context as _;

use super::list::Mutant;

/// A copy. Its build is beside it and stays.
#[derive(Clone, Debug)]
pub(super) struct Copy {
    root: PathBuf,
}

impl Copy {
    /// Makes a copy of the files that git knows or would, or brings it up to date. Files that are the same are left
    /// alone, so that what was built from them stays.
    pub(super) fn of(root: &Path, place: PathBuf) -> anyhow::Result<Self> {
        let copy = Self { root: place };
        let listed = listed(root)?;
        let mut names = BTreeSet::new();
        for name in listed.lines().filter(|name| root.join(name).is_file()) {
            let (from, to) = (root.join(name), copy.tree().join(name));
            let wanted = std::fs::read(&from).with_context(|| format!("{name} cannot be read"))?;
            if std::fs::read(&to).ok().as_deref() != Some(&wanted) {
                to.parent().map_or(Ok(()), std::fs::create_dir_all)?;
                std::fs::write(&to, wanted).with_context(|| format!("{} cannot be written", to.display()))?;
            }
            names.insert(to);
        }
        anyhow::ensure!(!names.is_empty(), "git lists no file of {}", root.display());
        sweep(&copy.tree(), &names)?;
        Ok(copy)
    }

    /// The root of the copied tree.
    pub(super) fn tree(&self) -> PathBuf {
        self.root.join("tree")
    }

    /// Where it is built.
    pub(super) fn target(&self) -> PathBuf {
        self.root.join("build")
    }

    /// Does something while a mutant is in place.
    pub(super) fn with<T>(
        &self,
        mutant: &Mutant,
        work: impl FnOnce() -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let file = self.tree().join(&mutant.file);
        let before =
            std::fs::read_to_string(&file).with_context(|| format!("{} is not there", mutant.file))?;
        let after =
            changed(&before, &mutant.diff).with_context(|| format!("{} does not apply", mutant.name))?;
        std::fs::write(&file, after)?;
        let done = work();
        std::fs::write(&file, before)?;
        done
    }
}

fn listed(root: &Path) -> anyhow::Result<String> {
    let mut command = Command::new("git");
    command
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .stdin(Stdio::null());
    let done = command.output().context("git does not start")?;
    anyhow::ensure!(done.status.success(), "git lists no files");
    String::from_utf8(done.stdout).context("a file name is not UTF-8")
}

/// Removes files that are no longer part of the tree.
fn sweep(dir: &Path, names: &BTreeSet<PathBuf>) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sweep(&entry.path(), names)?;
        } else if !names.contains(&entry.path()) {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Applies a unified diff of one hunk; none where the text is not what the hunk says.
fn changed(before: &str, diff: &str) -> Option<String> {
    let (_, hunk) = diff.split_once("@@ -")?;
    let (first, hunk) = hunk.split_once(',')?;
    let at = first.parse::<usize>().ok()?.checked_sub(1)?;
    let (_, hunk) = hunk.split_once('\n')?;
    let lines = |sign: char| {
        let of = hunk.lines().filter(move |line| line.starts_with([' ', sign]) || line.is_empty());
        of.map(|line| line.get(1..).unwrap_or_default()).collect::<Vec<&str>>()
    };
    let (old, new) = (lines('-'), lines('+'));
    let text: Vec<&str> = before.lines().collect();
    let end = at.checked_add(old.len())?;
    if text.get(at..end)? != old.as_slice() {
        return None;
    }
    let all = text.get(..at)?.iter().chain(&new).chain(text.get(end..)?);
    Some(all.flat_map(|line| [*line, "\n"]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIFF: &str =
        "--- a.rs\n+++ replace f\n@@ -2,3 +2,3 @@\n \n-    b == c\n+    b != c /* ~ changed ~ */\n d\n";

    #[test]
    fn a_hunk_applies_only_to_the_text_it_was_made_of() {
        let before = "a\n\n    b == c\nd\ne\n";
        assert_eq!(changed(before, DIFF).as_deref(), Some("a\n\n    b != c /* ~ changed ~ */\nd\ne\n"));
        assert_eq!(changed("a\n\n    b >= c\nd\ne\n", DIFF), None);
        assert_eq!(changed("a\n", DIFF), None);
        assert_eq!(changed(before, "no diff"), None);
    }

    #[test]
    fn a_mutant_is_taken_back_whatever_happens() {
        let root = std::env::temp_dir().join(format!("synod-copy-{}", std::process::id()));
        let copy = Copy { root: root.clone() };
        std::fs::create_dir_all(copy.tree()).expect("made");
        let before = "a\n\n    b == c\nd\ne\n";
        std::fs::write(copy.tree().join("a.rs"), before).expect("written");
        std::fs::write(copy.tree().join("gone.rs"), before).expect("written");
        let mutant = Mutant {
            name: "m".to_owned(),
            package: "p".to_owned(),
            file: "a.rs".to_owned(),
            diff: DIFF.to_owned(),
        };
        let read = || std::fs::read_to_string(copy.tree().join("a.rs")).expect("read");
        let done: anyhow::Result<()> = copy.with(&mutant, || {
            assert!(read().contains("b != c"));
            anyhow::bail!("the suite does not start")
        });
        let after = read();
        sweep(&copy.tree(), &BTreeSet::from([copy.tree().join("a.rs")])).expect("swept");
        let swept = copy.tree().join("gone.rs").exists();
        std::fs::remove_dir_all(&root).expect("removed");
        assert!(done.is_err() && after == before && !swept);
    }
}

//! Numbers that need another program: compiled crates by `cargo tree`, commits by `git log`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Stdio};

use synod_tidy::Tree;
use synod_tidy::rule::table::DENIED;

use crate::row::{Row, percentile, share};

/// Marks the start of a commit in the log that is read.
const COMMIT: char = '\u{1}';

/// Measures crates and commits of the checkout at `root`.
pub(crate) fn of(root: &Path, tree: &Tree) -> Vec<Row> {
    let counts = counts(root, tree);
    let external = |of: &str| counts.clone().map(|counts| counts.get(of).copied().unwrap_or(0).to_string());
    let denied = compiled(root, &["--workspace", "--all-features"]).map(|names| {
        let found: Vec<&str> =
            DENIED.iter().copied().filter(|name| names.iter().any(|n| n == name)).collect();
        if found.is_empty() { "0".to_owned() } else { found.join(", ") }
    });
    let mut rows = vec![
        Row { name: "external crates, core and protocols", value: external("core"), target: "<= 60" },
        Row { name: "external crates, default build", value: external("default"), target: "<= 200" },
        Row { name: "external crates, all features", value: external("all"), target: "<= 240" },
        Row { name: "denied crates compiled", value: denied, target: "0" },
    ];
    rows.extend(commits(output(root, "git", &["log", "--no-merges", "--shortstat", "--format=%x01%b"])));
    rows
}

/// Numbers of third-party crates: of `core` and protocols, of the `default` build, of `all` features.
pub(crate) fn counts(root: &Path, tree: &Tree) -> Result<BTreeMap<&'static str, usize>, String> {
    let pure =
        tree.manifests.iter().filter(|m| m.dir.starts_with("core/") || m.dir.starts_with("protocols/"));
    let pure: Vec<&str> = pure.flat_map(|m| ["--package", m.name.as_str()]).collect();
    let builds: [(&str, &[&str]); 3] = [
        ("core", &pure),
        ("default", &["--package", "synod-cli"]),
        ("all", &["--workspace", "--all-features"]),
    ];
    builds.into_iter().map(|(name, words)| Ok((name, compiled(root, words)?.len()))).collect()
}

/// Names the third-party crates of normal dependencies on Linux x86-64.
fn compiled(root: &Path, arguments: &[&str]) -> Result<BTreeSet<String>, String> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let mut all = vec!["tree", "--locked", "--edges", "normal", "--prefix", "none", "--format", "{p}"];
    all.extend(["--target", "x86_64-unknown-linux-gnu"]);
    all.extend(arguments);
    output(root, &cargo, &all).map(|text| external(&text))
}

/// Reads lines `name vVERSION ...`; crates of this workspace do not count, two versions count twice.
fn external(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut names = BTreeSet::new();
    for line in text.lines() {
        let mut parts = line.split_whitespace();
        if let (Some(name), Some(version)) = (parts.next(), parts.next())
            && !name.starts_with("synod-")
            && found.insert(format!("{name} {version}"))
        {
            // The first version goes by its plain name, so that a name can be looked up.
            if !names.insert(name.to_owned()) {
                names.insert(format!("{name} {version}"));
            }
        }
    }
    names
}

fn output(root: &Path, program: &str, arguments: &[&str]) -> Result<String, String> {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root).stdin(Stdio::null());
    let done = command.output().map_err(|why| format!("{program}: {why}"))?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr);
        return Err(format!("{program}: {}", said.lines().next().unwrap_or("failed without a word")));
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

/// Reads a log of commits, each started by [`COMMIT`], then its body, then its statistics.
fn commits(log: Result<String, String>) -> Vec<Row> {
    let (lines, bodies) = match log {
        Ok(log) => {
            let mut changed: Vec<usize> = log.split(COMMIT).skip(1).map(changed_lines).collect();
            let bodies = log.split(COMMIT).skip(1).filter(|commit| has_body(commit)).count();
            let share = format!("{} %", share(bodies, changed.len(), 100));
            (Ok(percentile(&mut changed, 50).to_string()), Ok(share))
        }
        Err(why) => (Err(why.clone()), Err(why)),
    };
    vec![
        Row { name: "changed lines per commit, median", value: lines, target: "<= 150" },
        Row { name: "commits with a body", value: bodies, target: ">= 80 %" },
    ]
}

fn is_statistics(line: &str) -> bool {
    line.contains("changed, ") && (line.contains("insertion") || line.contains("deletion"))
}

fn has_body(commit: &str) -> bool {
    commit.lines().any(|line| !line.trim().is_empty() && !is_statistics(line))
}

fn changed_lines(commit: &str) -> usize {
    let Some(statistics) = commit.lines().find(|line| is_statistics(line)) else { return 0 };
    let parts = statistics.split(", ").filter(|p| p.contains("insertion") || p.contains("deletion"));
    parts.filter_map(|part| part.split_whitespace().next()?.parse::<usize>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::{commits, external, output};
    use std::path::Path;

    #[test]
    fn crates_of_this_workspace_do_not_count_and_versions_do() {
        let text = "synod-wire v0.1.0 (x)\nbytes v1.12.0\nbytes v1.12.0 (*)\nhash v0.1.0\nhash v0.2.0\n\n";
        let names: Vec<String> = external(text).into_iter().collect();
        assert_eq!(names, ["bytes", "hash", "hash v0.2.0"]);
    }

    #[test]
    fn commits_give_their_median_and_their_share_of_bodies() {
        let log = "\u{1}why\n\n 2 files changed, 10 insertions(+), 5 deletions(-)\n\u{1}\n\n 1 file changed, 1 insertion(+)\n\
            \u{1}more\n 1 file changed, 300 deletions(-)\n";
        let rows = commits(Ok(log.to_owned()));
        assert_eq!(rows[0].value, Ok("15".to_owned()));
        assert_eq!(rows[1].value, Ok("66.7 %".to_owned()));
        assert!(commits(Err("no git".to_owned())).iter().all(|row| !row.is_measured()));
    }

    #[test]
    fn a_program_that_fails_gives_a_reason() {
        let missing = output(Path::new("."), "synod-no-such-program", &[]);
        assert!(missing.is_err_and(|why| why.starts_with("synod-no-such-program: ")));
    }
}

//! The mutants that there are, and which of them a commit chooses.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Context as _;
use serde_json::Value;
use synod_tidy::Tree;

use crate::cargo;

/// A change of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mutant {
    /// Place and change in words; what tells it from others.
    pub(super) name: String,
    /// The crate.
    pub(super) package: String,
    /// The file, from the root of the tree.
    pub(super) file: String,
    /// The change, as a unified diff of one hunk.
    pub(super) diff: String,
}

/// Every mutant of the core and the protocols.
///
/// # Errors
/// cargo-mutants is not installed or does not answer.
pub(super) fn all(root: &Path) -> anyhow::Result<Vec<Mutant>> {
    let program = cargo::tool(root, "cargo-mutants")
        .with_context(|| format!("cargo-mutants is not installed: {}", cargo::install("cargo-mutants")))?;
    let tree = Tree::load(root)?;
    let mut command = Command::new(program);
    command
        .args(["mutants", "--list", "--json"])
        .current_dir(root)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit());
    let pure =
        tree.manifests.iter().filter(|m| m.dir.starts_with("core/") || m.dir.starts_with("protocols/"));
    command.args(pure.flat_map(|manifest| ["--package", manifest.name.as_str()]));
    let done = command.output().context("cargo-mutants does not start")?;
    anyhow::ensure!(done.status.success(), "cargo-mutants lists nothing");
    let mutants = read(&String::from_utf8_lossy(&done.stdout))?;
    anyhow::ensure!(!mutants.is_empty(), "cargo-mutants knows no mutant");
    Ok(mutants)
}

fn read(text: &str) -> anyhow::Result<Vec<Mutant>> {
    let list: Vec<Value> = serde_json::from_str(text).context("the list of cargo-mutants is no JSON")?;
    let mutant = |one: &Value| {
        let text = |key: &str| one.get(key).and_then(Value::as_str).map(str::to_owned);
        Some(Mutant {
            name: text("name")?,
            package: text("package")?,
            file: text("file")?,
            diff: text("diff")?,
        })
    };
    list.iter().map(|one| mutant(one).context("a mutant lacks its name, package, file or diff")).collect()
}

/// The same mutants in the order that a commit draws.
pub(super) fn chosen(mut mutants: Vec<Mutant>, commit: &str) -> Vec<Mutant> {
    mutants.sort_by_cached_key(|mutant| (mixed(&[commit, &mutant.name]), mutant.name.clone()));
    mutants
}

/// FNV-1a, then the last steps of splitmix, which spread what the former leaves alike.
pub(crate) fn mixed(words: &[&str]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in words.iter().flat_map(|word| word.bytes().chain([0])) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

#[cfg(test)]
mod tests {
    use super::{Mutant, chosen, read};

    fn mutants() -> Vec<Mutant> {
        let mutant = |number: usize| Mutant {
            name: format!("m{number}"),
            package: "p".to_owned(),
            file: "f".to_owned(),
            diff: String::new(),
        };
        (0..500).map(mutant).collect()
    }

    #[test]
    fn a_commit_chooses_the_same_mutants_again_and_another_one_others() {
        let first =
            |commit| chosen(mutants(), commit).into_iter().take(20).map(|m| m.name).collect::<Vec<_>>();
        assert_eq!(first("5a9f7aa00112"), first("5a9f7aa00112"));
        let both: Vec<String> =
            first("5a9f7aa00112").into_iter().filter(|m| first("5a9f7aa00113").contains(m)).collect();
        assert!(both.len() < 5, "{both:?}");
        let tenths: Vec<usize> =
            first("5a9f7aa00112").iter().map(|m| m[1..].parse::<usize>().unwrap_or(0) / 50).collect();
        assert!((0..10).filter(|tenth| tenths.contains(tenth)).count() > 5, "{tenths:?}");
    }

    #[test]
    fn a_mutant_without_its_change_is_refused() {
        let whole = r#"[{"name":"a","package":"p","file":"f","diff":"d","genre":"FnValue"}]"#;
        assert_eq!(read(whole).expect("whole").len(), 1);
        assert!(read(r#"[{"name":"a","package":"p","file":"f"}]"#).is_err() && read("no list").is_err());
    }
}

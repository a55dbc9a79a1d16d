//! `conformance`: the stored hashes of every wire and record type against their encodings.
//!
//! Each crate with such types keeps `conformance.toml` and a test named after the promise. With `--accept` the hashes
//! are written anew, which is a change of its own, and what moved is listed.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{ExitCode, Stdio};

use synod_tidy::Tree;

use crate::cargo;

/// The test of each crate, by the end of its path.
const TEST: &str = "formats_have_not_moved";
/// The file of each crate.
const FILE: &str = "conformance.toml";

/// Checks every crate, or writes its hashes anew.
pub(crate) fn run(root: &Path, accept: bool) -> anyhow::Result<ExitCode> {
    let tree = Tree::load(root)?;
    let packages = packages(&tree);
    anyhow::ensure!(!packages.is_empty(), "no crate below {} has formats", root.display());
    let (mut hashes, mut failed, mut moved) = (0, 0, 0);
    for (package, dir) in &packages {
        let path = root.join(dir).join(FILE);
        let before = entries(&std::fs::read_to_string(&path).unwrap_or_default());
        let sound = test(root, package, accept)?;
        let after = entries(&std::fs::read_to_string(&path).unwrap_or_default());
        for line in differences(&before, &after) {
            println!("{dir}: {line}");
            moved += 1;
        }
        hashes += after.len();
        failed += usize::from(!sound);
        println!("{dir}: {} types {}", after.len(), if sound { "as stored" } else { "MOVED or not tested" });
    }
    println!("crates {}\nhashes {hashes}\nmoved {moved}\nfailed {failed}", packages.len());
    if accept && moved > 0 {
        println!("commit the hashes as a change of its own; an unchanged version byte needs an ADR");
    }
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::from(8) })
}

/// The crates that store hashes or draw encodings: (package, directory). One that does only half of it fails.
fn packages(tree: &Tree) -> Vec<(String, String)> {
    let stores = |dir: &str| tree.texts.contains_key(&format!("{dir}/{FILE}"));
    let draws = |dir: &str| {
        let root = format!("{dir}/");
        let mut sources = tree.sources.iter().filter(|(path, _)| path.starts_with(&root));
        dir != "core/wire" && sources.any(|(_, rust)| rust.source.code.contains("conformance!("))
    };
    let found = tree.manifests.iter().filter(|m| stores(&m.dir) || draws(&m.dir));
    found.map(|m| (m.name.clone(), m.dir.clone())).collect()
}

/// Runs the tests of a crate; whether all passed and there was one.
fn test(root: &Path, package: &str, accept: bool) -> anyhow::Result<bool> {
    let mut command = cargo::command(root, "test");
    command.args(["--package", package, "--lib", "--tests", TEST]).stderr(Stdio::inherit());
    if accept {
        command.env("SYNOD_BLESS", "1");
    }
    let done = command.output()?;
    let said = String::from_utf8_lossy(&done.stdout);
    if !done.status.success() {
        print!("{said}");
    }
    Ok(done.status.success() && passed(&said) > 0)
}

/// How many tests of the name a test run reports as passed.
fn passed(said: &str) -> usize {
    said.lines().filter(|line| line.starts_with("test ") && line.ends_with(&format!("{TEST} ... ok"))).count()
}

fn entries(text: &str) -> BTreeMap<String, String> {
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    pairs.map(|(name, hash)| (name.trim().to_owned(), hash.trim().to_owned())).collect()
}

/// What changed, one line per type.
fn differences(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, hash) in after {
        match before.get(name) {
            None => lines.push(format!("{name} is new")),
            Some(old) if old != hash => lines.push(format!("{name} has another hash")),
            Some(_) => {}
        }
    }
    lines.extend(
        before.keys().filter(|name| !after.contains_key(*name)).map(|name| format!("{name} is gone")),
    );
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_that_store_or_draw_are_checked() {
        let manifest = |name: &str| format!("[package]\nname = \"synod-{name}\"\n");
        let tree = Tree::of(&[
            ("core/a/Cargo.toml", &manifest("a")),
            ("core/a/conformance.toml", "\"A\" = \"0\"\n"),
            ("core/b/Cargo.toml", &manifest("b")),
            ("core/b/src/b.rs", "//! B.\nsynod_wire::conformance!(B);\n"),
            ("core/c/Cargo.toml", &manifest("c")),
            ("core/c/src/c.rs", "//! C.\n"),
        ]);
        let found: Vec<String> = packages(&tree).into_iter().map(|(package, _)| package).collect();
        assert_eq!(found, ["synod-a", "synod-b"]);
    }

    #[test]
    fn a_run_without_the_test_proves_nothing() {
        assert_eq!(passed("running 0 tests\n\ntest result: ok. 0 passed\n"), 0);
        assert_eq!(passed("test vocabulary::formats_have_not_moved ... ok\n"), 1);
        assert_eq!(passed("test formats_have_not_moved ... FAILED\n"), 0);
    }

    #[test]
    fn what_moved_is_named() {
        let (before, after) =
            (entries("\"A\" = \"1\"\n\"B\" = \"2\"\n"), entries("\"A\" = \"3\"\n\"C\" = \"4\"\n"));
        assert_eq!(differences(&before, &after), ["\"A\" has another hash", "\"C\" is new", "\"B\" is gone"]);
        assert!(differences(&before, &before).is_empty());
    }
}

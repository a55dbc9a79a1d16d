//! Keeps the lint table shared, features out of pure crates and `unsafe` in its two crates.

use toml::{Table, Value};

use crate::finding::Finding;
use crate::manifest::{Manifest, lookup};
use crate::scan::words;
use crate::tree::Tree;

const RULE: &str = "lints";

/// Crates with a lint table of their own, because they hold `unsafe` blocks.
const UNSAFE: &[&str] = &["runtimes/shm", "core/simd"];

/// The word itself, spelled in two parts so that this file passes its own rule.
const WORD: &str = concat!("un", "safe");

/// Checks lint tables, cargo features and the word in code.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings: Vec<Finding> = tree.manifests.iter().flat_map(manifest).collect();
    if let Some(text) = tree.texts.get("Cargo.toml") {
        let table = text.parse::<Table>().unwrap_or_default();
        let forbidden = lookup(&table, &["workspace", "lints", "rust", "unsafe_code"]);
        if forbidden.and_then(Value::as_str) != Some("forbid") {
            findings.push(Finding::refuse(
                RULE,
                "Cargo.toml",
                0,
                "workspace lints do not forbid unsafe_code",
            ));
        }
    }
    for (path, rust) in &tree.sources {
        let code = &rust.source.code;
        if !UNSAFE.iter().any(|dir| path.starts_with(&format!("{dir}/"))) {
            findings.extend(words(code, WORD).into_iter().map(|at| {
                Finding::refuse(RULE, path, rust.source.line(at), format!("`{WORD}` outside its two crates"))
            }));
        }
        if is_pure(path) {
            // `cfg(feature = ...)`, whose quoted name is not in the code view.
            let gates = words(code, "feature").into_iter();
            let gates = gates.filter(|at| code[at + "feature".len()..].trim_start().starts_with('='));
            findings.extend(gates.filter(|at| code[..*at].trim_end().ends_with(['(', ','])).map(|at| {
                Finding::refuse(RULE, path, rust.source.line(at), "a cargo feature in core or protocols")
            }));
        }
    }
    findings
}

fn is_pure(path: &str) -> bool {
    path.starts_with("core/") || path.starts_with("protocols/")
}

fn manifest(manifest: &Manifest) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut refuse = |what: &str| findings.push(Finding::refuse(RULE, &manifest.path, 0, what));
    let own = UNSAFE.contains(&manifest.dir.as_str());
    let shared = lookup(&manifest.table, &["lints", "workspace"]).and_then(Value::as_bool) == Some(true);
    if !own && !shared {
        refuse("no `[lints] workspace = true`");
    }
    if own && lookup(&manifest.table, &["lints", "clippy", "undocumented_unsafe_blocks"]).is_none() {
        refuse("its lint table lacks undocumented_unsafe_blocks");
    }
    if is_pure(&manifest.path) && manifest.table.contains_key("features") {
        refuse("cargo features in core or protocols");
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::{WORD, check};
    use crate::tree::Tree;

    const SHARED: &str = "[package]\nname = \"synod-a\"\n[lints]\nworkspace = true\n";

    fn found(path: &str, text: &str) -> usize {
        check(&Tree::of(&[(path, text)])).len()
    }

    #[test]
    fn every_crate_shares_the_lint_table() {
        assert_eq!(found("core/a/Cargo.toml", SHARED), 0);
        assert_eq!(found("core/a/Cargo.toml", "[package]\nname = \"synod-a\"\n"), 1);
        let own = "[package]\nname = \"synod-shm\"\n[lints.clippy]\nundocumented_unsafe_blocks = \"deny\"\n";
        assert_eq!(found("runtimes/shm/Cargo.toml", own), 0);
        assert_eq!(found("runtimes/net/Cargo.toml", own), 1);
        assert_eq!(found("runtimes/shm/Cargo.toml", "[package]\nname = \"synod-shm\"\n"), 1);
    }

    #[test]
    fn the_workspace_forbids_the_word() {
        assert_eq!(
            found("Cargo.toml", "[workspace.lints.rust]\nunsafe_code = \"forbid\"\n[package]\nname=\"a\"\n"),
            0
        );
        assert_eq!(found("Cargo.toml", "[workspace.lints.rust]\nunsafe_code = \"warn\"\n"), 1);
        assert_eq!(found("Cargo.toml", "[workspace]\n"), 1);
    }

    #[test]
    fn features_stay_out_of_pure_crates() {
        let features = format!("{SHARED}[features]\nx = []\n");
        assert_eq!(found("core/a/Cargo.toml", &features), 1);
        assert_eq!(found("protocols/a/Cargo.toml", &features), 1);
        assert_eq!(found("tools/a/Cargo.toml", &features), 0);
        assert_eq!(found("core/a/src/a.rs", "#[cfg(feature = \"x\")]\nfn a() {}\n"), 1);
        assert_eq!(found("core/a/src/a.rs", "#[cfg(all(unix, feature = \"x\"))]\nfn a() {}\n"), 1);
        assert_eq!(found("core/a/src/a.rs", "fn a() { let feature = 1; }\n"), 0);
    }

    #[test]
    fn the_word_stays_in_its_two_crates() {
        let text = format!("fn a() {{ {WORD} {{ b() }} }}\n");
        assert_eq!(found("core/a/src/a.rs", &text), 1);
        assert_eq!(found("runtimes/shm/src/a.rs", &text), 0);
        assert_eq!(found("core/simd/src/a.rs", &text), 0);
        assert_eq!(found("core/a/src/a.rs", &format!("// {WORD}\nconst {WORD}_code: u8 = 0;\n")), 0);
    }
}

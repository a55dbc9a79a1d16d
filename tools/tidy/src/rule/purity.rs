//! Refuses clocks, threads, files, sockets, unordered maps and floats in pure production code.

use crate::finding::Finding;
use crate::items;
use crate::scan::words;
use crate::tree::Tree;

const RULE: &str = "purity";

/// Layers whose production code is pure.
const PURE: &[&str] = &["core/", "protocols/", "apps/"];

/// Paths refused wherever they are named, also inside a grouped import.
const PATHS: &[&str] =
    &["std::time", "std::thread", "std::fs", "std::net", "std::env", "std::process", "tokio", "core::time"];

/// Identifiers refused as such.
const NAMES: &[&str] = &["HashMap", "HashSet", "Mutex", "RwLock", "Instant", "SystemTime", "OsRng", "await"];

/// Types whose arithmetic differs between builds.
const FLOATS: &[&str] = &["f32", "f64"];

/// Crates that may use floats: the scores of the key-value store are floats by its protocol.
const FLOATING: &[&str] = &["apps/kv/"];

/// The conformance harness, a tool for tests that keeps its stored hashes in a file of each crate.
const HARNESS: &[&str] = &["core/wire/src/conformance.rs"];

/// Checks core, protocols and apps outside their tests.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let pure = |path: &str| PURE.iter().any(|dir| path.starts_with(dir)) && !HARNESS.contains(&path);
    for (path, rust) in tree.sources.iter().filter(|(path, _)| pure(path)) {
        let code = rust.production();
        let mut refuse = |line, name: &str| {
            findings.push(Finding::refuse(RULE, path, line, format!("`{name}` in pure code")));
        };
        let floats = if FLOATING.iter().any(|dir| path.starts_with(dir)) { &[] } else { FLOATS };
        for name in NAMES.iter().chain(floats).chain(PATHS) {
            for at in words(&code, name) {
                refuse(rust.source.line(at), name);
            }
        }
        let first = |path: &str, prefix: &str| {
            path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
        };
        let starts = words(&rust.source.code, "use").into_iter();
        let tested: Vec<usize> =
            starts.filter(|at| rust.is_test(*at)).map(|at| rust.source.line(at)).collect();
        for import in items::imports(&rust.source).iter().filter(|i| !tested.contains(&i.line)) {
            for prefix in PATHS.iter().filter(|prefix| first(&import.path, prefix)) {
                refuse(import.line, prefix);
            }
        }
    }
    findings.sort();
    findings.dedup();
    findings
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tree::Tree;

    fn found(path: &str, text: &str) -> usize {
        check(&Tree::of(&[(path, text)])).len()
    }

    #[test]
    fn impure_names_are_refused_in_production_code() {
        for text in [
            "use std::time::Duration;\n",
            "use std::{fmt, fs};\n",
            "fn a() { std::thread::yield_now() }\n",
            "use std::{net::{self}};\n",
            "fn a() { let b = std::env::vars(); }\n",
            "use tokio::net;\n",
            "type A = std::collections::HashMap<u8, u8>;\n",
            "fn a(x: f64) {}\n",
        ] {
            for layer in ["core", "protocols", "apps"] {
                assert_eq!(found(&format!("{layer}/a/src/a.rs"), text), 1, "{layer}: {text}");
            }
            assert_eq!(found("runtimes/a/src/a.rs", text), 0, "{text}");
            assert_eq!(found("core/a/tests/a.rs", text), 0, "{text}");
            assert_eq!(found("core/a/src/a.rs", &format!("#[cfg(test)]\nmod t {{\n{text}}}\n")), 0, "{text}");
        }
    }

    #[test]
    fn documents_look_alikes_and_scores_pass() {
        let text =
            "//! Replaces std::time.\nuse std::fmt;\nconst A: &str = \"HashMap\";\nfn tokio_like() {}\n";
        assert_eq!(found("core/a/src/a.rs", text), 0);
        assert_eq!(found("apps/kv/src/a.rs", "fn a(x: f64) {}\n"), 0);
    }
}

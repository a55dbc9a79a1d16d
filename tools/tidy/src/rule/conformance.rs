//! Refuses encodings whose bytes no test watches (architecture, section 6).

use crate::finding::Finding;
use crate::items;
use crate::manifest::Manifest;
use crate::rule::edges::{Layer, layer};
use crate::scan::{closing, words};
use crate::tree::{Rust, Tree};

const RULE: &str = "conformance";

/// The crate that defines the macro, the harness and the encodings of Rust's own types.
const DEFINES: &str = "core/wire";

/// Crates that may still lack the file. Stays empty: a format without hashes is a format that drifts.
const LATER: &[&str] = &[];

/// Types without a value, whose encoding nobody can draw: (crate, type).
const EMPTY: &[(&str, &str)] = &[("core/machine", "Never")];

/// Checks that every type with an encoding has a line in its crate's `conformance.toml`, and that a test
/// of the crate compares that file.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    // What a baseline says ends with the process that says it.
    let lasts = |m: &&Manifest| m.dir != DEFINES && layer(&m.dir) != Some(Layer::Baselines);
    for manifest in tree.manifests.iter().filter(lasts).filter(|m| !LATER.contains(&m.dir.as_str())) {
        findings.extend(of_crate(tree, manifest));
    }
    findings
}

fn of_crate(tree: &Tree, manifest: &Manifest) -> Vec<Finding> {
    let file = format!("{}/conformance.toml", manifest.dir);
    let root = format!("{}/", manifest.dir);
    let sources: Vec<_> = tree.sources.iter().filter(|(path, _)| path.starts_with(&root)).collect();
    let mut findings = Vec::new();
    let entries: Vec<&str> = tree.texts.get(&file).map(|text| names(text)).unwrap_or_default();
    for (path, rust) in &sources {
        let known = |name: &str| entries.contains(&name) || EMPTY.contains(&(&manifest.dir, name));
        for (name, at) in encoded(rust).iter().filter(|(name, _)| !known(name)) {
            let what = format!("`{name}` has an encoding, but no entry in {file}");
            findings.push(Finding::refuse(RULE, path, rust.source.line(*at), what));
        }
    }
    let compared = sources.iter().any(|(_, rust)| !words(&rust.source.code, "conformance").is_empty());
    if tree.paths.contains(&file) && !compared {
        findings.push(Finding::refuse(RULE, &file, 0, "no test of the crate compares it"));
    }
    findings
}

/// Gives the type names of a file of lines `Type = "hash"`; a generic type is named without its arguments.
fn names(text: &str) -> Vec<&str> {
    let keys =
        text.lines().filter_map(|line| line.split_once('=')).map(|(key, _)| key.trim().trim_matches('"'));
    keys.map(|key| key.split(|c: char| !is_name(c)).next().unwrap_or(key)).collect()
}

const fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Finds the types of production code that have an encoding, with the offset that declares it.
fn encoded(rust: &Rust) -> Vec<(String, usize)> {
    let code = rust.production();
    let macros = items::blocks(&rust.source, "macro_rules!");
    let in_macro = |at: usize| macros.iter().any(|(start, end)| (*start..*end).contains(&at));
    let mut found = Vec::new();
    let name_at =
        |at: usize| -> String { code[at..].trim_start().chars().take_while(|c| is_name(*c)).collect() };
    for start in words(&code, "wire!").into_iter().filter(|at| !in_macro(*at)) {
        let Some(open) = code[start..].find(['{', '(']).map(|at| start + at) else { continue };
        let end = closing(&code, open);
        for keyword in ["struct", "enum"] {
            let inside = words(&code[open..end], keyword).into_iter().map(|at| open + at);
            found.extend(inside.map(|at| (name_at(at + keyword.len()), at)));
        }
    }
    for start in words(&code, "Wire for").into_iter().filter(|at| !in_macro(*at)) {
        found.push((name_at(start + "Wire for".len()), start));
    }
    found.retain(|(name, _)| name.starts_with(|c: char| c.is_ascii_uppercase()));
    found
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tree::Tree;

    const TEST: (&str, &str) = ("protocols/a/tests/conformance.rs", "use synod_wire::conformance;\n");

    fn found(code: &str, more: &[(&str, &str)]) -> usize {
        let manifest = "[package]\nname = \"synod-a\"\n";
        let mut files = vec![("protocols/a/Cargo.toml", manifest), ("protocols/a/src/a.rs", code)];
        files.extend(more);
        check(&Tree::of(&files)).len()
    }

    #[test]
    fn every_type_with_an_encoding_has_an_entry() {
        let code = "wire! {\n    /// A.\n    pub struct A { a: u8 }\n    pub enum B { 0 => C }\n}\n";
        assert_eq!(found(code, &[TEST]), 2);
        let file = |text| ("protocols/a/conformance.toml", text);
        assert_eq!(found(code, &[TEST, file("A = \"0\"\n")]), 1);
        assert_eq!(found(code, &[TEST, file("A = \"0\"\nB = \"0\"\n")]), 0);
        assert_eq!(found("impl<T> Wire for A<T> {}\n", &[TEST, file("\"A<u8>\" = \"0\"\n")]), 0);
        assert_eq!(found("impl synod_wire::Wire for A {}\n", &[TEST, file("AB = \"0\"\n")]), 1);
    }

    #[test]
    fn a_file_that_no_test_compares_is_refused() {
        assert_eq!(found("fn a() {}\n", &[("protocols/a/conformance.toml", "")]), 1);
        assert_eq!(found("fn a() {}\n", &[("protocols/a/conformance.toml", ""), TEST]), 0);
    }

    #[test]
    fn a_crate_without_encodings_needs_none() {
        assert_eq!(found("fn a() {}\n// wire! { struct A {} }\n", &[]), 0);
        assert_eq!(found("#[cfg(test)]\nmod t { wire! { struct A { a: u8 } } }\n", &[]), 0);
        assert_eq!(found("macro_rules! m { ($n:ident) => { impl Wire for $n {} } }\n", &[]), 0);
        assert_eq!(found("trait Message: Wire {}\n", &[]), 0);
    }
}

//! Numbers that the tree alone gives: sizes, shares, counts.

use synod_tidy::rule::{attributes, lints, purity, sizes, words as word_rule};
use synod_tidy::scan::words;
use synod_tidy::{Finding, Rust, Tree, items};

use crate::lines::Lines;
use crate::row::{Row, percentile, share};

/// Layers whose lines are counted for documentation and for `expect`.
const PURE: &[&str] = &["core/", "protocols/"];

/// Measures a tree.
pub(crate) fn of(tree: &Tree) -> Vec<Row> {
    let mut rows = sizes_of(tree);
    rows.extend(shares(tree));
    rows.extend(counts(tree));
    rows
}

/// Files with production lines, in path order.
fn production(tree: &Tree) -> impl Iterator<Item = (&String, &Rust, Lines)> {
    let counted = tree.sources.iter().map(|(path, rust)| (path, rust, Lines::of(rust)));
    counted.filter(|(_, _, lines)| lines.production() > 0)
}

fn is_in(path: &str, dirs: &[&str]) -> bool {
    dirs.iter().any(|dir| path.starts_with(dir))
}

fn sizes_of(tree: &Tree) -> Vec<Row> {
    let mut files: Vec<usize> = production(tree).map(|(_, _, lines)| lines.production()).collect();
    let mut bodies: Vec<usize> = Vec::new();
    for (_, rust, _) in production(tree) {
        let found = items::functions(&rust.source).into_iter().filter(|f| !rust.is_test(f.start));
        bodies.extend(found.map(|f| f.body_lines));
    }
    let long = bodies.iter().filter(|lines| **lines > sizes::FUNCTION_LINES_MAX).count();
    let inline = warned(&sizes::check(tree), "inline test module");
    let max = files.iter().max().copied().unwrap_or(0);
    let file_lines = format!("{} / {} / {max}", percentile(&mut files, 50), percentile(&mut files, 90));
    let function_lines = format!(
        "{} / {} / {} %",
        percentile(&mut bodies, 50),
        percentile(&mut bodies, 95),
        share(long, bodies.len(), 100)
    );
    vec![
        Row::new("production files", files.len().to_string(), "-"),
        Row::new("production file lines, median / 90 % / max", file_lines, "150 / 400 / 500"),
        Row::new("functions", bodies.len().to_string(), "-"),
        Row::new("function lines, median / 95 % / share above 70", function_lines, "7 / 45 / 0.0 %"),
        Row::new("inline test modules above 200 lines", inline.to_string(), "0"),
    ]
}

fn warned(findings: &[Finding], about: &str) -> usize {
    findings.iter().filter(|f| f.what.contains(about)).count()
}

fn shares(tree: &Tree) -> Vec<Row> {
    let (mut all, mut pure) = (Lines::default(), Lines::default());
    let (mut unwraps, mut expects) = (0, 0);
    let (mut functions, mut asserts) = (0, 0);
    for (path, rust) in &tree.sources {
        let lines = Lines::of(rust);
        all.add(&lines);
        if is_in(path, PURE) {
            let code = rust.production();
            pure.add(&lines);
            unwraps += words(&code, ".unwrap()").len();
            expects += words(&code, ".expect(").len();
            if path.starts_with("protocols/") {
                let found = items::functions(&rust.source);
                functions += found.iter().filter(|f| !rust.is_test(f.start)).count();
                asserts += ["assert!", "assert_eq!", "assert_ne!"]
                    .map(|m| words(&code, m).len())
                    .iter()
                    .sum::<usize>();
            }
        }
    }
    let per_thousand = share(unwraps + expects, pure.code, 1_000);
    vec![
        Row::new("lines of Rust", all.all.to_string(), "-"),
        Row::new("test share of lines", format!("{} %", share(all.tests, all.all, 100)), "50-60 %"),
        Row::new(
            "doc lines / code, core and protocols",
            format!("{} %", share(pure.docs, pure.code, 100)),
            "25-40 %",
        ),
        Row::new(
            "comments / code, core and protocols",
            format!("{} %", share(pure.comments, pure.code, 100)),
            "4-8 %",
        ),
        Row::new("unwrap and expect per 1,000 lines of code, core and protocols", per_thousand, "<= 1.0"),
        Row::new("asserts per function, protocols", share(asserts, functions, 1), ">= 0.5"),
    ]
}

fn counts(tree: &Tree) -> Vec<Row> {
    let allowed = warned(&attributes::check(tree), "a lint is allowed");
    let skipped = warned(&attributes::check(tree), "skipped");
    let lint_findings = lints::check(tree);
    let outside = warned(&lint_findings, "outside its two crates");
    let features = warned(&lint_findings, "cargo feature");
    let expected: usize = tree.sources.values().map(expected_lints).sum();
    let mut hashes = 0;
    for (_, text) in tree.texts.iter().filter(|(path, _)| path.ends_with("/conformance.toml")) {
        hashes += text.lines().filter(|line| line.contains('=')).count();
    }
    vec![
        Row::new("marks of unfinished work and banned words", word_rule::check(tree).len().to_string(), "0"),
        Row::new("lints allowed", allowed.to_string(), "0"),
        Row::new("lints expected with a reason", expected.to_string(), "<= 20"),
        Row::new("skipped tests", skipped.to_string(), "0"),
        Row::new("impure names in core, protocols and apps", purity::check(tree).len().to_string(), "0"),
        Row::new("unsafe outside its two crates", outside.to_string(), "0"),
        Row::new("cargo features in core and protocols", features.to_string(), "0"),
        Row::new("conformance hashes", hashes.to_string(), "every encoded type"),
    ]
}

fn expected_lints(rust: &Rust) -> usize {
    let found = items::attributes(&rust.source);
    found.iter().filter(|a| a.text.starts_with("expect(") && !rust.is_test(a.start)).count()
}

#[cfg(test)]
mod tests {
    use super::of;
    use synod_tidy::Tree;

    fn value(tree: &Tree, name: &str) -> String {
        let rows = of(tree);
        let row = rows.iter().find(|row| row.name.starts_with(name)).expect("the number is measured");
        row.value.clone().expect("the tree alone gives it")
    }

    fn sample() -> Tree {
        let long = format!("//! Long.\nfn long() {{\n{}}}\nfn short() {{}}\n", "a();\n".repeat(71));
        let code = "//! Doc.\nfn a() {\n    assert!(b);\n    c.expect(\"why\");\n}\n#[cfg(test)]\nmod t {\n    fn t() { x.unwrap() }\n}\n";
        Tree::of(&[
            ("tools/a/src/long.rs", &long),
            ("protocols/a/src/a.rs", code),
            ("core/a/conformance.toml", "A = \"0\"\n"),
        ])
    }

    #[test]
    fn sizes_are_of_production_code() {
        let tree = sample();
        assert_eq!(value(&tree, "production files"), "2");
        assert_eq!(value(&tree, "production file lines"), "5 / 75 / 75");
        assert_eq!(value(&tree, "functions"), "3");
        assert_eq!(value(&tree, "function lines"), "2 / 71 / 33.3 %");
    }

    #[test]
    fn shares_tell_tests_documents_and_code_apart() {
        let tree = sample();
        assert_eq!(value(&tree, "test share"), "4.8 %", "4 of 84 lines");
        assert_eq!(value(&tree, "doc lines"), "25.0 %", "1 of 4 lines");
        assert_eq!(value(&tree, "unwrap and expect"), "250.0", "1 in 4 lines, the test's own not counted");
        assert_eq!(value(&tree, "asserts per function"), "1.0");
    }

    #[test]
    fn counts_are_of_findings_and_hashes() {
        let bad = "//! A.\n#[allow(x)]\nfn a() { let f: f64; }\n#[expect(y, reason = \"z\")]\nfn b() {}\n";
        let tree = Tree::of(&[("core/a/src/a.rs", bad), ("core/a/conformance.toml", "A = \"0\"\n")]);
        assert_eq!(value(&tree, "lints allowed"), "1");
        assert_eq!(value(&tree, "lints expected"), "1");
        assert_eq!(value(&tree, "impure"), "1");
        assert_eq!(value(&tree, "conformance hashes"), "1");
        assert_eq!(value(&tree, "skipped tests"), "0");
    }
}

//! The page about the paper names the rules of the code and a living test for each deviation.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use synod_hotstuff::Rule;

/// A file of the workspace.
fn file(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::read_to_string(root.join(path)).unwrap_or_default()
}

fn page() -> String {
    let page = file("docs/papers/hotstuff.md");
    assert!(page.contains("## Line map") && page.contains("## Deviations"), "the page is where it was");
    page
}

/// The lines of the table under a heading, without its two head lines, as cells.
fn table(page: &str, heading: &str) -> Vec<Vec<String>> {
    let section = page.split(&format!("## {heading}\n")).nth(1).expect("the heading");
    let section = section.split("\n## ").next().expect("a section");
    let rows = section.lines().filter(|line| line.starts_with('|')).skip(2);
    rows.map(|row| row.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect()).collect()
}

/// What stands in backticks.
fn quoted(cell: &str) -> Vec<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The line map is complete and names nothing else.
#[test]
fn the_line_map_names_every_rule_once() {
    let mut seen = BTreeMap::new();
    for row in table(&page(), "Line map") {
        for name in quoted(&row[1]) {
            *seen.entry(name).or_insert(0) += 1;
        }
    }
    let named: BTreeSet<&str> = seen.keys().map(String::as_str).collect();
    let known: BTreeSet<&str> = Rule::ALL.iter().map(|rule| rule.name()).collect();
    assert_eq!(named, known);
    let twice: Vec<_> = seen.iter().filter(|(_, count)| **count > 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
}

/// Whether `source` holds a test of this name.
fn holds_test(source: &str, name: &str) -> bool {
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let declared = lines.iter().position(|line| line.contains(&format!("fn {name}(")));
    let marks = |at: usize| lines[..at].iter().rev().take_while(|line| line.starts_with("#["));
    declared.is_some_and(|at| marks(at).any(|line| *line == "#[test]"))
}

/// Each deviation names its test, and the test is there.
#[test]
fn every_deviation_names_a_test_that_exists() {
    let rows = table(&page(), "Deviations");
    let numbers: Vec<String> = rows.iter().map(|row| row[0].clone()).collect();
    assert_eq!(numbers, (1..=20).map(|n| format!("D{n}")).collect::<Vec<_>>());
    for row in rows {
        let tests = quoted(row.last().expect("cells"));
        assert!(!tests.is_empty(), "{} names no test", row[0]);
        for test in tests {
            let (path, name) = test.split_once("::").expect("a path and the name of a test");
            assert!(holds_test(&file(path), name), "{}: no test {name} in {path}", row[0]);
        }
    }
}

/// The check itself can fail.
#[test]
fn a_function_that_is_no_test_and_a_name_that_is_not_there_are_found_out() {
    let source = "#[test]\nfn good() {}\n\nfn plain() {}\n";
    assert!(holds_test(source, "good"));
    assert!(!holds_test(source, "plain") && !holds_test(source, "goo") && !holds_test("", "good"));
}

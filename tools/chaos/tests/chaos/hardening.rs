//! The page about hardening names a state for every measure, and only tests and commands that exist.

use std::path::Path;

const STATES: [&str; 3] = ["shown", "in part", "missing"];

fn file(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::read_to_string(root.join(path)).unwrap_or_default()
}

/// The rows of the one table, as cells.
fn rows(page: &str) -> Vec<Vec<String>> {
    let lines = page.lines().filter(|line| line.starts_with('|')).skip(2);
    lines
        .map(|row| row[1..].trim_end_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect())
        .collect()
}

/// What stands in backticks.
fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// Whether `source` holds a test of this name.
fn holds_test(source: &str, name: &str) -> bool {
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let declared = lines.iter().position(|line| line.contains(&format!("fn {name}(")));
    let marks = |at: usize| lines[..at].iter().rev().take_while(|line| line.starts_with("#["));
    declared.is_some_and(|at| marks(at).any(|line| *line == "#[test]" || line.starts_with("#[tokio::test")))
}

/// What a row names that does not exist.
fn unknown(cell: &str, commands: &str) -> Vec<String> {
    let exists = |named: &&str| match named.split_once(".rs::") {
        Some((path, name)) => holds_test(&file(&format!("{path}.rs")), name),
        None => commands.contains(&format!("\n## {named}\n")),
    };
    quoted(cell).filter(|named| !exists(named)).map(str::to_owned).collect()
}

#[test]
fn every_measure_has_a_state_and_every_test_of_it_exists() {
    let rows = rows(&file("docs/testing/hardening.md"));
    let numbers: Vec<&str> = rows.iter().map(|row| row[0].as_str()).collect();
    assert_eq!(numbers, (1..=20).map(|n| format!("N{n}")).collect::<Vec<_>>());
    let commands = file("docs/reference/commands.md");
    for row in &rows {
        let [number, _, tests, state] = row.as_slice() else { unreachable!("four cells: {row:?}") };
        assert_eq!(unknown(tests, &commands), Vec::<String>::new(), "{number}");
        let known = STATES.iter().find(|known| state.starts_with(*known));
        assert!(known.is_some(), "{number}: {state}");
        assert_eq!(quoted(tests).next().is_none(), known == Some(&"missing"), "{number}: tests or a reason");
    }
}

#[test]
fn a_test_or_command_that_is_not_there_is_found_out() {
    let own = "tools/chaos/tests/chaos/hardening.rs";
    let named = |cell: &str| unknown(cell, "\n## synod chaos run\n");
    let good = format!("`{own}::a_test_or_command_that_is_not_there_is_found_out`, `synod chaos run`");
    assert_eq!(named(&good), Vec::<String>::new());
    assert_eq!(named(&format!("`{own}::holds_test`")).len(), 1, "no test");
    assert_eq!(named("`synod chaos nothing` and `tools/none.rs::a_test`").len(), 2);
}

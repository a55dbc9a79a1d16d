//! Counts of the tests of runtimes: `target/score/tests.json`.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use serde_json::{Map, Value, json};

use crate::cargo;
use crate::score::Recorder;

/// Rows of the score and the test targets of `synod-parity` that they count.
const TARGETS: [(&str, &str); 2] = [("parity", "scenarios"), ("contract", "contract")];

/// Runs the tests and writes their counts. Exit code 8 when one failed or none ran.
pub(crate) fn run(root: &Path) -> anyhow::Result<ExitCode> {
    let recorder = Recorder::start(root);
    let mut figures = Map::new();
    let mut all = true;
    for (row, target) in TARGETS {
        let mut command = cargo::command(root, "test");
        let done = command
            .args(["--package", "synod-parity", "--test", target])
            .output()
            .context("cargo does not start")?;
        let said = String::from_utf8_lossy(&done.stdout);
        let (passed, failed) = counts(&said).unwrap_or((0, 0));
        all &= done.status.success() && passed > 0 && failed == 0;
        println!("{row}: {passed} passed, {failed} failed");
        if !done.status.success() {
            eprintln!("{said}{}", String::from_utf8_lossy(&done.stderr));
        }
        figures.insert(row.to_owned(), json!({ "passed": passed, "failed": failed }));
    }
    recorder.record("tests", Value::Object(figures))?;
    Ok(if all { ExitCode::SUCCESS } else { ExitCode::from(8) })
}

/// Tests passed and failed, of the line in which a test program sums them up.
fn counts(said: &str) -> Option<(u64, u64)> {
    let line = said.lines().rev().find(|line| line.starts_with("test result:"))?;
    let number = |word: &str| {
        let (before, _) = line.split_once(&format!(" {word}"))?;
        before.rsplit(' ').next()?.parse().ok()
    };
    Some((number("passed")?, number("failed")?))
}

#[cfg(test)]
mod checks {
    use super::counts;

    #[test]
    fn the_sum_of_a_test_program_is_read() {
        let said = "running 2 tests\ntest a ... ok\n\ntest result: ok. 12 passed; 3 failed; 0 ignored; 0 measured\n\n";
        assert_eq!(counts(said), Some((12, 3)));
        assert_eq!(counts("error: could not compile"), None);
    }
}

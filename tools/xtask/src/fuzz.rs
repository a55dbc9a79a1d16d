//! `fuzz`: a campaign over the targets of `synod-fuzz`, in release.
//!
//! The program is a test of that crate, because its allocator, which holds every target to its bound, is for tests
//! alone. Exit codes are its own: 0, 2 for wrong arguments, 8 for a finding. Without `--seed` the stream of inputs is
//! one that was not run before: it is numbered by the clock, and told.

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::cargo;
use crate::score::Recorder;

/// Builds the campaign and runs it with `words`.
pub(crate) fn run(root: &Path, words: &[&str]) -> anyhow::Result<ExitCode> {
    let program = cargo::test_program(root, "synod-fuzz", "campaign")?;
    let recorder = Recorder::start(root);
    let mut command = Command::new(program);
    command.arg("run").args(words).current_dir(root).stdin(Stdio::null()).stderr(Stdio::inherit());
    if !words.contains(&"--json") {
        command.arg("--json");
    }
    if !words.contains(&"--seed") {
        let seed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        eprintln!("xtask: inputs of seed {seed}");
        command.args(["--seed", &seed.to_string()]);
    }
    let done = command.output()?;
    let said = String::from_utf8_lossy(&done.stdout);
    match serde_json::from_str::<Value>(&said) {
        Ok(report) => {
            print!("{}", if words.contains(&"--json") { said.into_owned() } else { text(&report) });
            recorder.record("fuzz", report)?;
        }
        // Wrong arguments: the program says so on standard error and reports nothing.
        Err(_) => print!("{said}"),
    }
    let code = done.status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

/// Lines of `key value`; a finding per line after them.
fn text(report: &Value) -> String {
    let mut text = String::new();
    let keys = report.as_object().into_iter().flatten();
    for (key, value) in keys.filter(|(_, value)| value.is_u64()) {
        text.push_str(&format!("{key} {value}\n"));
    }
    for finding in report.get("findings").and_then(Value::as_array).into_iter().flatten() {
        text.push_str(&format!("finding {finding}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn a_report_is_lines_of_numbers_and_findings() {
        let report =
            serde_json::json!({ "schema": "s", "inputs": 5, "findings": [{ "target": "kv-reply" }] });
        assert_eq!(text(&report), "inputs 5\nfinding {\"target\":\"kv-reply\"}\n");
    }
}

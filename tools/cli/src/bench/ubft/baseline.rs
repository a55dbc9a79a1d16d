//! Replicas of MinBFT: a program beside this one measures them, for it needs crates that the lock file of what ships refuses
//! (docs/adr/0033-baselines-stand-apart.md). Its rows have the names of ours and stand behind them.

use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use synod_config::{SynError, code};

use super::beside::{self, Ran};
use super::plan::{Baseline, UbftBench};
use crate::session::Session;

/// What a row of it needs.
pub(crate) const WANTED: &str = "needs --baseline with the program of baselines/minbft: `cargo build --release --locked \
                                 --manifest-path baselines/minbft/Cargo.toml` makes \
                                 baselines/minbft/target/release/synod-baseline-minbft";

/// Longest that the program may take.
const MOST: Duration = Duration::from_secs(900);

/// A row of another program, and what of it gates look at.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Beside {
    pub(super) size: u64,
    pub(super) enclave_us: u32,
    pub(super) p50_ns: u64,
    pub(super) shown: Value,
}

/// Runs the program, and takes its rows.
///
/// # Errors
/// SYN-1205 where it cannot be started, SYN-7002 where it ends with an error, too late, or says something else, SYN-6009 for a row with
/// wrong results.
pub(super) fn rows(session: &Session, plan: &UbftBench, of: &Baseline) -> Result<Vec<Beside>, SynError> {
    session.tell("flip of minbft, cooperative");
    let program = of.program.display().to_string();
    let mut command = Command::new(&of.program);
    for (option, number) in
        [("--size", plan.size), ("--samples", plan.samples), ("--warmup-ops", plan.warmup)]
    {
        command.args([option, &number.to_string()]);
    }
    for each in &of.uses_us {
        command.args(["--enclave-us", &each.to_string()]);
    }
    let ran = beside::run(&mut command, MOST).map_err(|error| {
        SynError::of(code::PROGRAM_MISSING, &[("program", &program), ("package", "baselines/minbft")])
            .because(error)
    })?;
    let failed = |why: &str| {
        let values = [("check", "the baseline"), ("problem", why)];
        SynError::of(code::EXPECTATION_FAILED, &values).because(&program)
    };
    let Ran::Ended(status, out, err) = ran else {
        return Err(failed("it took over 15 min, and was stopped"));
    };
    if !status.success() {
        let said = String::from_utf8_lossy(&err);
        return Err(failed(said.lines().next_back().unwrap_or("it ended with an error")));
    }
    let told = parsed(&out).ok_or_else(|| failed("it told no rows of MinBFT"))?;
    let enclaves: Vec<u32> = told.iter().map(|row| row.enclave_us).collect();
    if enclaves != of.uses_us || told.iter().any(|row| row.size != u64::from(plan.size)) {
        return Err(failed("it told other rows than it was asked for"));
    }
    if told.iter().any(|row| row.shown["errors"] != 0) {
        return Err(SynError::with_message(code::AUDIT_FAILED, "results of MinBFT were wrong"));
    }
    Ok(told)
}

/// The rows of an answer; none where it is no answer.
fn parsed(answer: &[u8]) -> Option<Vec<Beside>> {
    let answer: Value = serde_json::from_slice(answer).ok()?;
    if answer["schema"] != "synod-bench/1" {
        return None;
    }
    let rows = answer["ubft"]["rows"].as_array()?;
    rows.iter().map(row).collect()
}

fn row(shown: &Value) -> Option<Beside> {
    let p50_ns = shown["p50_ns"].as_u64()?;
    let enclave_us = match shown["system"].as_str()? {
        "minbft-raw" => 0,
        // Whole microseconds, told with a point.
        "minbft-enclave" => shown["enclave_us"].to_string().strip_suffix(".0")?.parse().ok()?,
        _ => return None,
    };
    Some(Beside { size: shown["size"].as_u64()?, enclave_us, p50_ns, shown: shown.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_answer_is_rows_of_minbft_and_anything_else_is_none() {
        let row = |system: &str, enclave: f64| json!({"system": system, "size": 32, "enclave_us": enclave, "p50_ns": 7});
        let answer = |rows: Value| json!({"schema": "synod-bench/1", "ubft": {"rows": rows}}).to_string();
        let told = parsed(answer(json!([row("minbft-raw", 0.0), row("minbft-enclave", 8.0)])).as_bytes());
        let told: Vec<_> =
            told.expect("rows").iter().map(|row| (row.size, row.enclave_us, row.p50_ns)).collect();
        assert_eq!(told, [(32, 0, 7), (32, 8, 7)]);
        for wrong in [
            String::new(),
            "{}".to_owned(),
            answer(json!(7)),
            answer(json!([row("synod", 0.0)])),
            answer(json!([row("minbft-enclave", 8.5)])),
            answer(json!([{"system": "minbft-raw"}])),
        ] {
            assert_eq!(parsed(wrong.as_bytes()), None, "{wrong}");
        }
    }
}

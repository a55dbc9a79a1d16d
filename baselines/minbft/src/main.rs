//! `synod-baseline-minbft`: the rows of MinBFT, as one line of JSON.
//!
//! Options, each with a number behind it: `--size` (32), `--samples` (20000), `--warmup-ops` (2000), and
//! `--enclave-us`, as often as there are rows: how long a use of the trusted counter takes beyond the counter itself.
//! Without it there are two rows, of 0 and of 8.

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use serde_json::{Value, json};
use synod_minbft::{Plan, SAMPLES_MAX, SIZE_MAX, header, measure, row};

/// Microseconds of a use at most.
const USE_US_MAX: u64 = 10_000;

fn plans(mut words: impl Iterator<Item = String>) -> anyhow::Result<Vec<Plan>> {
    let mut plan = Plan { size: 32, samples: 20_000, warmup: 2_000, each_use: Duration::ZERO };
    let mut uses = Vec::new();
    while let Some(word) = words.next() {
        let number = words.next().with_context(|| format!("{word} wants a number"))?;
        let number: u32 = number.parse().with_context(|| format!("{word} {number}"))?;
        match word.as_str() {
            "--size" => plan.size = number,
            "--samples" => plan.samples = number,
            "--warmup-ops" => plan.warmup = number,
            "--enclave-us" => uses.push(u64::from(number)),
            _ => bail!("no option is {word}"),
        }
    }
    if uses.is_empty() {
        uses = vec![0, 8];
    }
    ensure!((2..=SIZE_MAX).contains(&plan.size), "--size is 2 to {SIZE_MAX}");
    ensure!((100..=SAMPLES_MAX).contains(&plan.samples), "--samples is 100 to {SAMPLES_MAX}");
    ensure!(plan.warmup <= SAMPLES_MAX, "--warmup-ops is at most {SAMPLES_MAX}");
    ensure!(uses.iter().all(|each| *each <= USE_US_MAX), "--enclave-us is at most {USE_US_MAX}");
    Ok(uses.into_iter().map(|each| Plan { each_use: Duration::from_micros(each), ..plan }).collect())
}

fn main() -> anyhow::Result<()> {
    let mut rows: Vec<Value> = Vec::new();
    for plan in plans(std::env::args().skip(1))? {
        rows.push(row(&plan, &measure(&plan)?));
    }
    println!("{}", json!({ "schema": "synod-bench/1", "header": header(), "ubft": { "rows": rows } }));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> anyhow::Result<Vec<Plan>> {
        plans(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn each_time_of_a_use_is_a_row_and_what_is_out_of_bounds_is_refused() {
        let told = of("--samples 100 --size 64 --enclave-us 0 --enclave-us 8").expect("a plan");
        let all: Vec<(u32, u32, u128)> =
            told.iter().map(|plan| (plan.samples, plan.size, plan.each_use.as_micros())).collect();
        assert_eq!(all, [(100, 64, 0), (100, 64, 8)]);
        assert_eq!(of("").expect("a plan").len(), 2);
        for wrong in
            ["--size", "--size 1", "--size 8193", "--samples 99", "--samples x", "--enclave-us 10001", "x 1"]
        {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }
}

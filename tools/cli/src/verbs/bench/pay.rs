//! The options of `synod bench pay`.

use super::duration;
use crate::bench::PayBench;
use crate::session::usage;
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;
use synod_config::SynError;
use synod_load::pay::PayPlan;

/// Options of `pay` alone.
#[derive(Debug, Args)]
pub(super) struct PayOptions {
    /// Replicas; 3f + 1 of them tolerate f faulty ones. Each is an institution.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=32))]
    nodes: u8,
    /// Customers of all institutions together.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    accounts: u32,
    /// Most payments of a batch.
    #[arg(long, default_value_t = 4_096, value_parser = clap::value_parser!(u32).range(1..=16_384))]
    batch: u32,
    /// Payments on their way at each replica.
    #[arg(long, default_value_t = 32_768, value_parser = clap::value_parser!(u32).range(1..=1_048_576))]
    inflight: u32,
    /// Time measured, in each repetition.
    #[arg(long = "for", default_value = "10s", value_name = "SPAN", value_parser = duration)]
    span: Duration,
    /// Time before measuring.
    #[arg(long, default_value = "2s", value_parser = duration)]
    warmup: Duration,
    /// Repetitions; the result is the median, and the spread stands beside it.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    repeat: u32,
    /// Tells the audit of a payment that never was.
    #[arg(long, hide = true)]
    i_am_a_test: bool,
    /// Writes the result to this file as well.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl PayOptions {
    /// What is to be measured.
    ///
    /// # Errors
    /// Fewer customers than institutions.
    pub(super) fn bench(self) -> Result<PayBench, SynError> {
        if self.accounts < u32::from(self.nodes) {
            return Err(usage("--accounts is below --nodes, and each institution has a customer"));
        }
        let plan = PayPlan {
            nodes: self.nodes,
            accounts: self.accounts,
            batch: self.batch,
            inflight: self.inflight,
            warmup: self.warmup,
            span: self.span,
        };
        Ok(PayBench { plan, repeat: self.repeat, out: self.out, planted: self.i_am_a_test })
    }
}

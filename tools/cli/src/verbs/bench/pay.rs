//! The options of `synod bench pay`.

use super::{Durability, duration};
use crate::bench::{Fault, PayBench, ProcessPlan};
use crate::session::usage;
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;
use synod_config::SynError;
use synod_load::pay::smallbank::Share;
use synod_load::pay::{Ownership, PayPlan, Profile, SyncMode, Verify, Workload};

/// Most payments of a batch that owners sign together, as the specification's model has it: what signing together costs is for a batch.
const DISTILLED_BATCH: u32 = 16_384;

/// Which part of a payment system is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Replicas alone, in this process, without sockets; with journals where --durability says so.
    Replicas,
    /// Nodes as processes with journals, over HTTP.
    Processes,
}

/// Which payment system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Profiled {
    /// Over Bracha's broadcast, which signs nothing.
    #[value(name = "I")]
    I,
    /// What was paid is spent once f + 1 members vouch for it.
    #[value(name = "II")]
    II,
    /// What is endorsed is funded.
    #[value(name = "II-F")]
    Funded,
}

/// What customers do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Worked {
    /// Each pays anybody one unit at a time.
    Pay,
    /// They save and pay from two accounts each, as in the Smallbank benchmark.
    Smallbank,
}

/// A share of one, in parts of ten thousand.
fn share(text: &str) -> Result<Share, String> {
    let share: f64 = text.parse().map_err(|_| format!("'{text}' is no number"))?;
    if !(0.0..=1.0).contains(&share) {
        return Err("a share is between 0 and 1".to_owned());
    }
    // Exact: the largest is 10,000.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 10,000")]
    let parts = (share * 1e4).round() as u32;
    Ok(Share(parts))
}

/// Who signs for customers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Owned {
    /// Their institution.
    Custodial,
    /// They themselves, each payment; what that costs them is told apart.
    #[value(name = "self")]
    SelfSigned,
    /// They themselves: each payment alone, and the payments of a batch together.
    Distilled,
}

/// Who checks what customers sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Verified {
    /// Every member.
    All,
    /// The representative and f witnesses, whose word the others take.
    Witness,
}

/// What is to be measured.
#[derive(Debug)]
pub(super) enum Chosen {
    Replicas(PayBench),
    Processes(ProcessPlan),
}

/// Options of `pay` alone.
#[derive(Debug, Args)]
pub(super) struct PayOptions {
    /// Which part is measured.
    #[arg(long, value_enum, default_value = "replicas")]
    part: Part,
    /// Which payment system; of processes II-F.
    #[arg(long, value_enum, default_value = "II-F")]
    profile: Profiled,
    /// Replicas of each shard; 3f + 1 of them tolerate f faulty ones. Each is an institution.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=32))]
    nodes: u8,
    /// Shards, which pay each other; of replicas in profile II-F.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=8))]
    shards: u16,
    /// What customers do, of replicas.
    #[arg(long, value_enum, default_value = "pay")]
    workload: Worked,
    /// The share of transactions that pay somebody in another shard; as it comes unless said otherwise.
    #[arg(long, value_name = "SHARE", value_parser = share)]
    cross_shard: Option<Share>,
    /// Customers of all institutions together; 100000 of replicas and 1000 of processes unless said otherwise.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    accounts: Option<u32>,
    /// Who signs for customers; they themselves of replicas alone.
    #[arg(long, value_enum, default_value = "custodial")]
    ownership: Owned,
    /// Who checks what customers sign, with --ownership self or distilled; witness of distilled ones and all of others unless said otherwise.
    #[arg(long, value_enum)]
    verify: Option<Verified>,
    /// Payments that customers sign before the clock runs, with --ownership self or distilled; what they sign meanwhile takes the
    /// processors of the replicas. As many as this machine could settle unless said otherwise.
    #[arg(long, value_name = "PAYMENTS", value_parser = clap::value_parser!(u32).range(0..=4_194_304))]
    signed_ahead: Option<u32>,
    /// Payments, of processes.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    payments: u64,
    /// Payments of one request, of processes.
    #[arg(long, default_value_t = 1_024, value_parser = clap::value_parser!(u32).range(1..=8_189))]
    chunk: u32,
    /// Requests on their way to each institution, of processes.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    requests: u32,
    /// What happens to the last institution under load, of processes; repeat it.
    #[arg(long = "fault", value_enum)]
    faults: Vec<Fault>,
    /// Whether promises are synced to disk, written, or only remembered; fsync of processes and volatile of replicas unless said otherwise.
    #[arg(long, value_enum)]
    durability: Option<Durability>,
    /// Most payments of a batch; 4096 in profile II-F, 16384 of distilled ones and 256 in the other profiles unless said otherwise.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=16_384))]
    batch: Option<u32>,
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
    /// Options that mean no run.
    pub(super) fn bench(self) -> Result<Chosen, SynError> {
        match self.part {
            Part::Replicas => self.replicas().map(Chosen::Replicas),
            Part::Processes => self.processes().map(Chosen::Processes),
        }
    }

    fn accounts(&self, usual: u32) -> Result<u32, SynError> {
        let accounts = self.accounts.unwrap_or(usual);
        if accounts < u32::from(self.nodes) * u32::from(self.shards) {
            return Err(usage(
                "--accounts is below --nodes times --shards, and each institution has a customer",
            ));
        }
        Ok(accounts)
    }

    fn replicas(self) -> Result<PayBench, SynError> {
        let accounts = self.accounts(100_000)?;
        if !self.faults.is_empty() {
            return Err(usage("--fault goes with --part processes"));
        }
        if self.verify.is_some() && self.ownership == Owned::Custodial {
            return Err(usage(
                "--verify goes with --ownership self or distilled: customers of institutions sign nothing",
            ));
        }
        if self.signed_ahead.is_some() && self.ownership == Owned::Custodial {
            return Err(usage(
                "--signed-ahead goes with --ownership self or distilled: customers of institutions sign nothing",
            ));
        }
        if self.cross_shard.is_some() && self.shards == 1 {
            return Err(usage("--cross-shard goes with --shards of two or more"));
        }
        let profile = match self.profile {
            Profiled::I => Profile::I,
            Profiled::II => Profile::II,
            Profiled::Funded => Profile::Funded,
        };
        let plan = PayPlan {
            profile,
            shards: self.shards,
            nodes: self.nodes,
            accounts,
            workload: match self.workload {
                Worked::Pay => Workload::Pay,
                Worked::Smallbank => Workload::Smallbank,
            },
            cross: self.cross_shard,
            ownership: match self.ownership {
                Owned::Custodial => Ownership::Custodial,
                Owned::SelfSigned => Ownership::SelfSigned,
                Owned::Distilled => Ownership::Distilled,
            },
            verify: match (self.verify, self.ownership) {
                (Some(Verified::Witness), _) | (None, Owned::Distilled) => Verify::Witness { margin: 0 },
                (Some(Verified::All), _) | (None, Owned::Custodial | Owned::SelfSigned) => Verify::All,
            },
            ahead: self.signed_ahead.unwrap_or(0),
            batch: self.batch.unwrap_or_else(|| match self.ownership {
                Owned::Distilled => DISTILLED_BATCH,
                Owned::Custodial | Owned::SelfSigned => profile.batch_max(),
            }),
            inflight: self.inflight,
            warmup: self.warmup,
            span: self.span,
        };
        if let Some(fault) = plan.fault() {
            return Err(usage(fault));
        }
        let is_ahead_measured = self.signed_ahead.is_none() && plan.ownership.signs();
        let durability = self.durability.unwrap_or(Durability::Volatile);
        Ok(PayBench {
            plan,
            sync: match durability {
                Durability::Volatile => None,
                Durability::Fsync => Some(SyncMode::Group),
                Durability::Nosync => Some(SyncMode::NoneUnsafe),
            },
            durability: durability.word(),
            is_ahead_measured,
            repeat: self.repeat,
            out: self.out,
            planted: self.i_am_a_test,
        })
    }

    fn processes(self) -> Result<ProcessPlan, SynError> {
        let accounts = self.accounts(1_000)?;
        if self.ownership != Owned::Custodial {
            return Err(usage("--ownership self and distilled go with --part replicas"));
        }
        if self.profile != Profiled::Funded || self.shards != 1 {
            return Err(usage(
                "--profile I and II and --shards go with --part replicas: nodes run II-F in one shard",
            ));
        }
        if self.workload != Worked::Pay || self.cross_shard.is_some() {
            return Err(usage("--workload and --cross-shard go with --part replicas"));
        }
        let durability = self.durability.unwrap_or(Durability::Fsync);
        if self.faults.contains(&Fault::Kill) && matches!(durability, Durability::Volatile) {
            return Err(usage("--fault kill needs a journal: --durability fsync or nosync"));
        }
        if !self.faults.is_empty() && self.nodes < 4 {
            return Err(usage("--fault needs four --nodes: fewer tolerate none"));
        }
        let plan = ProcessPlan {
            nodes: self.nodes,
            accounts,
            payments: self.payments,
            chunk: self.chunk,
            requests: self.requests,
            faults: self.faults,
            sync: durability.sync(),
            durability: durability.word(),
            out: self.out,
            planted: self.i_am_a_test,
        };
        if plan.payments < plan.payments_min() {
            let least = plan.payments_min();
            return Err(usage(&format!(
                "--payments is below {least}: what customers hold at once in each phase"
            )));
        }
        Ok(plan)
    }
}

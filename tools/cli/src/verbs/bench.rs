//! `synod bench`: figures of this machine, with the header that makes them comparable.

use crate::bench::{self, Plan, Target};
use crate::exit::Done;
use crate::session::{Session, usage};
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;
use synod_config::{Rules, SynError, parse_duration};

/// Measures a cluster of separate processes on this machine, then audits it; a failed audit shows no figures.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  synod bench kv --clients 4 --inflight 256 --pipeline 16 --for 1s --warmup 500ms"
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Ordering: commands of a size with the cheapest execution there is.
    #[command(
        after_help = "Example:\n  synod bench order --clients 4 --inflight 256 --pipeline 16 --for 1s --warmup 500ms"
    )]
    Order(Options),
    /// The key-value store.
    #[command(
        after_help = "Example:\n  synod bench kv --clients 4 --inflight 256 --pipeline 16 --for 1s --warmup 500ms"
    )]
    Kv {
        #[command(flatten)]
        options: Options,
        /// What the clients do.
        #[arg(long, value_enum, default_value = "set")]
        op: Op,
        /// Number of keys.
        #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
        keys: u64,
    },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Op {
    Set,
    Get,
    Mix,
}

/// Options of every benchmark of a cluster.
#[derive(Debug, Args)]
struct Options {
    /// Members; 3f + 1 of them tolerate f faulty ones.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=32))]
    nodes: u16,
    /// Client sessions.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=256))]
    clients: u16,
    /// Commands in flight over all clients.
    #[arg(long, default_value_t = 16_384, value_parser = clap::value_parser!(u32).range(1..=1_048_576))]
    inflight: u32,
    /// Commands per call of a client; they share a signed frame.
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=1_024))]
    pipeline: u32,
    /// Bytes of a command or value.
    #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    size: u32,
    /// Commands per second, due at times fixed in advance; without it the loop is closed.
    #[arg(long)]
    rate: Option<u32>,
    /// Time measured.
    #[arg(long = "for", default_value = "10s", value_parser = duration)]
    span: Duration,
    /// Time before measuring.
    #[arg(long, default_value = "3s", value_parser = duration)]
    warmup: Duration,
    /// The rule pack.
    #[arg(long, default_value = "chain2+order", value_parser = rules)]
    rules: Rules,
    /// Whether client frames are signed, or the receiving node vouches by its link.
    #[arg(long, default_value = "signed", value_enum)]
    auth: Auth,
    /// Whether promises are synced to disk, written, or only remembered.
    #[arg(long, default_value = "fsync", value_enum)]
    durability: Durability,
    /// Kills this many members before the load begins.
    #[arg(long, default_value_t = 0)]
    dead: u16,
    /// Writes the result to this file as well.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Auth {
    Signed,
    Channel,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Durability {
    Fsync,
    Nosync,
    Volatile,
}

fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| "not a duration such as 500ms or 5s".to_owned())
}

fn rules(text: &str) -> Result<Rules, String> {
    Rules::parse(text).ok_or_else(|| format!("one of {}", Rules::WORDS.join(", ")))
}

impl Arguments {
    pub(crate) fn run(self, session: &Session) -> Done {
        let (options, target) = match self.what {
            What::Order(options) => (options, Target::Order),
            What::Kv { options, op, keys } => {
                let reads = match op {
                    Op::Set => 0,
                    Op::Get => 1_000,
                    Op::Mix => 500,
                };
                (options, Target::Kv { keys, reads })
            }
        };
        bench::run(session, &options.plan(target)?)
    }
}

impl Options {
    fn plan(self, target: Target) -> Result<Plan, SynError> {
        if self.span.is_zero() {
            return Err(usage("--for 0 measures nothing"));
        }
        let faulty = self.nodes.saturating_sub(1) / 3;
        if self.dead > faulty {
            return Err(usage(&format!("{} nodes tolerate {faulty} dead ones", self.nodes)));
        }
        Ok(Plan {
            target,
            nodes: self.nodes,
            clients: self.clients,
            inflight: self.inflight,
            pipeline: self.pipeline,
            size: self.size,
            rate: self.rate,
            span: self.span,
            warmup: self.warmup,
            rules: self.rules,
            channel: matches!(self.auth, Auth::Channel),
            sync: match self.durability {
                Durability::Fsync => "group",
                Durability::Nosync => "none-UNSAFE",
                Durability::Volatile => "volatile-UNSAFE",
            },
            dead: self.dead,
            out: self.out,
        })
    }
}

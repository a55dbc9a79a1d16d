//! `synod bench`: figures of this machine, with the header that makes them comparable.

mod chop;
mod pay;
mod ubft;

use crate::bench::{self, Access, Pace, Plan, Target};
use crate::exit::Done;
use crate::session::{Session, usage};
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;
use synod_config::{Rules, SynError, parse_duration};
use synod_host::Mode;

/// Operations in flight over all binary clients, unless said otherwise.
const INFLIGHT: u32 = 16_384;
/// Operations of a call of a binary client, unless said otherwise.
const PIPELINE_BINARY: u32 = 256;
/// Operations of a call of a Redis connection, unless said otherwise.
const PIPELINE_RESP: u32 = 16;
/// Smallest command of `order`: a key and the number of the command.
const COMMAND_BYTES: usize = synod_load::KEY_BYTES + synod_load::INDEX_BYTES;

/// Measures a cluster of separate processes, or a part of a protocol, on this machine; a failed audit shows no figures.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  synod bench kv --clients 4 --pipeline 16 --for 1s --warmup 500ms --no-baseline"
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
    /// The key-value store, by default as Redis clients of a proxy use it.
    #[command(
        after_help = "Example:\n  synod bench kv --clients 4 --pipeline 16 --for 1s --warmup 500ms --no-baseline"
    )]
    Kv(KvOptions),
    /// Chop Chop: how fast a witness authenticates batches, or clients, brokers and servers together.
    #[command(
        after_help = "Example:\n  synod bench chop --clients 4096 --batch 1024 --pool 4 --for 300ms --warmup 0s --repeat 1"
    )]
    Chop(chop::ChopOptions),
    /// Payments: replicas and customers of all institutions in one process, without sockets and disk, or nodes as processes with
    /// journals, of which one is killed, restarted and slowed under load.
    #[command(
        after_help = "Example:\n  synod bench pay --accounts 1000 --batch 256 --for 300ms --warmup 0s --repeat 1"
    )]
    Pay(pay::PayOptions),
    /// uBFT: how long a client of three replicas waits in shared memory, beside one server alone.
    #[command(after_help = "Example:\n  synod bench ubft --samples 1000 --warmup-ops 100")]
    Ubft(ubft::UbftOptions),
}

/// Options of `kv` alone.
#[derive(Debug, Args)]
struct KvOptions {
    #[command(flatten)]
    options: Options,
    /// What the clients do.
    #[arg(long, value_enum, default_value = "set")]
    op: Op,
    /// Number of keys.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    keys: u64,
    /// Reads of a hundred operations, with --op mix; 50 unless said otherwise.
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u16).range(1..=99))]
    read_ratio: Option<u16>,
    /// How reads are carried out: quorum unless said otherwise.
    #[arg(long, value_enum)]
    read: Option<Read>,
    /// What the clients speak.
    #[arg(long, value_enum, default_value = "resp")]
    api: Api,
    /// Whether Redis clients speak to one proxy or to the gateways of the nodes; the proxy unless said otherwise.
    #[arg(long, value_enum)]
    via: Option<Via>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Op {
    Set,
    Get,
    Mix,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Read {
    /// By a quorum without ordering; ordered when the quorum does not agree.
    Quorum,
    /// Ordered like a write.
    Ordered,
    /// From one member, believed by nobody: with --api binary only.
    Local,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Api {
    /// Sessions with all members, as the client library holds them.
    Binary,
    /// The Redis protocol.
    Resp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Via {
    Proxy,
    Node,
}

/// Options of every benchmark of a cluster.
#[derive(Debug, Args)]
struct Options {
    /// Members; 3f + 1 of them tolerate f faulty ones.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=32))]
    nodes: u16,
    /// Clients: sessions, or connections of Redis clients.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=256))]
    clients: u16,
    /// Commands in flight over all binary clients, 16384 unless said otherwise; Redis clients keep --pipeline each.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_048_576))]
    inflight: Option<u32>,
    /// Commands per call of a client: 256 in a signed frame of a binary client, 16 on a Redis connection.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_024))]
    pipeline: Option<u32>,
    /// Bytes of a command (order, at least 24) or value (kv, at least 8).
    #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u32).range(8..=65_536))]
    size: u32,
    /// Commands per second, due at times fixed in advance, or a multiple of the measured peak such as 3x; without it
    /// the loop is closed.
    #[arg(long, value_name = "R|Nx", value_parser = pace)]
    rate: Option<Pace>,
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
    /// Whether a command goes to one member first, or to all at once.
    #[arg(long, default_value = "one", value_enum)]
    send: Send,
    /// Never starts this many members.
    #[arg(long, default_value_t = 0)]
    dead: u16,
    /// Kills the leader this many seconds into the measured time, and starts it again a second later.
    #[arg(long, value_name = "SECONDS", value_parser = moment)]
    kill_leader_at: Option<Duration>,
    /// Leaves out what this machine does without a cluster.
    #[arg(long)]
    no_baseline: bool,
    /// All members in this process: refused, members are processes of their own.
    #[arg(long, hide = true)]
    in_process: bool,
    /// Tells the audit of a write that never was.
    #[arg(long, hide = true)]
    i_am_a_test: bool,
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

impl Durability {
    /// `storage.sync` of the nodes.
    const fn sync(self) -> &'static str {
        match self {
            Self::Fsync => "group",
            Self::Nosync => "none-UNSAFE",
            Self::Volatile => "volatile-UNSAFE",
        }
    }

    /// As results call it.
    const fn word(self) -> &'static str {
        match self {
            Self::Fsync => "fsync",
            Self::Nosync => "nosync",
            Self::Volatile => "volatile",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Send {
    One,
    All,
}

fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| "not a duration such as 500ms or 5s".to_owned())
}

/// Seconds, or a duration.
fn moment(text: &str) -> Result<Duration, String> {
    text.parse().map(Duration::from_secs).or_else(|_| duration(text))
}

fn rules(text: &str) -> Result<Rules, String> {
    Rules::parse(text).ok_or_else(|| format!("one of {}", Rules::WORDS.join(", ")))
}

/// `R` or `Nx`, N with up to three digits behind the point.
fn pace(text: &str) -> Result<Pace, String> {
    let wrong = || "neither a rate above 0 nor a multiple such as 3x or 0.5x, at most 100x".to_owned();
    let Some(multiple) = text.strip_suffix('x') else {
        return text.parse().ok().filter(|rate| *rate > 0).map(Pace::Rate).ok_or_else(wrong);
    };
    let (whole, part) = multiple.split_once('.').unwrap_or((multiple, "0"));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(part) || part.is_empty() || part.len() > 3 {
        return Err(wrong());
    }
    let thousandths: Option<u32> = format!("{whole}{part:0<3}").parse().ok();
    thousandths.filter(|share| (1..=100_000).contains(share)).map(Pace::Peak).ok_or_else(wrong)
}

impl Arguments {
    pub(crate) fn run(self, session: &Session) -> Done {
        match self.what.work()? {
            Work::Cluster(plan) => bench::run(session, &plan),
            Work::Chop(chop::Chosen::Auth(plan)) => {
                if plan.huge {
                    crate::huge::ask();
                }
                bench::run_chop(session, &plan)
            }
            Work::Chop(chop::Chosen::Real(plan)) => bench::run_real(session, &plan),
            Work::Chop(chop::Chosen::Load(plan)) => {
                if plan.huge {
                    crate::huge::ask();
                }
                bench::run_load(session, &plan)
            }
            Work::Chop(chop::Chosen::Children(plan)) => bench::run_children(session, &plan),
            Work::Pay(pay::Chosen::Replicas(plan)) => bench::run_pay(session, &plan),
            Work::Pay(pay::Chosen::Processes(plan)) => bench::run_pay_processes(session, &plan),
            Work::Ubft(plan) => bench::run_ubft(session, &plan),
        }
    }
}

/// What is to be done.
#[derive(Debug)]
enum Work {
    Cluster(Plan),
    Chop(chop::Chosen),
    Pay(pay::Chosen),
    Ubft(bench::UbftBench),
}

impl What {
    fn work(self) -> Result<Work, SynError> {
        match self {
            Self::Order(options) => {
                options.plan(Target::Order, Access::Binary, Mode::Quorum).map(Work::Cluster)
            }
            Self::Kv(options) => options.plan().map(Work::Cluster),
            Self::Chop(options) => options.chosen().map(Work::Chop),
            Self::Pay(options) => options.bench().map(Work::Pay),
            Self::Ubft(options) => options.plan().map(Work::Ubft),
        }
    }
}

impl KvOptions {
    fn plan(self) -> Result<Plan, SynError> {
        let access = match (self.api, self.via) {
            (Api::Binary, None) => Access::Binary,
            (Api::Binary, Some(_)) => {
                return Err(usage("--via goes with --api resp: binary clients need nobody"));
            }
            (Api::Resp, None | Some(Via::Proxy)) => Access::Proxy,
            (Api::Resp, Some(Via::Node)) => Access::Node,
        };
        let reads = match (self.op, self.read_ratio) {
            (Op::Mix, ratio) => ratio.unwrap_or(50) * 10,
            (_, Some(_)) => return Err(usage("--read-ratio goes with --op mix")),
            (Op::Get, None) => 1_000,
            (Op::Set, None) => 0,
        };
        let read = match (self.read, access) {
            (Some(_), _) if reads == 0 => return Err(usage("--read goes with --op get or mix")),
            (Some(Read::Local), Access::Proxy | Access::Node) => {
                return Err(usage(
                    "--read local goes with --api binary: no gateway reads from one member alone",
                ));
            }
            (Some(Read::Ordered), Access::Node) => {
                return Err(usage("--read ordered does not go with --via node: its gateway reads by quorum"));
            }
            (None | Some(Read::Quorum), _) => Mode::Quorum,
            (Some(Read::Ordered), _) => Mode::Ordered,
            (Some(Read::Local), _) => Mode::Local,
        };
        if self.keys < u64::from(self.options.clients) {
            return Err(usage("--keys is below --clients, and each client has keys of its own"));
        }
        self.options.plan(Target::Kv { keys: self.keys, reads }, access, read)
    }
}

impl Options {
    fn plan(self, target: Target, access: Access, read: Mode) -> Result<Plan, SynError> {
        self.check(target, access)?;
        let default = if access.is_resp() { PIPELINE_RESP } else { PIPELINE_BINARY };
        let pipeline = self.pipeline.unwrap_or(default);
        let inflight = match access {
            Access::Binary => self.inflight.unwrap_or(INFLIGHT),
            _ => pipeline * u32::from(self.clients),
        };
        Ok(Plan {
            target,
            access,
            nodes: self.nodes,
            clients: self.clients,
            inflight,
            pipeline,
            size: self.size,
            pace: self.rate.unwrap_or(Pace::Closed),
            span: self.span,
            warmup: self.warmup,
            rules: self.rules,
            channel: matches!(self.auth, Auth::Channel),
            sync: self.durability.sync(),
            dead: self.dead,
            send_all: self.send == Send::All,
            read,
            kill_leader_at: self.kill_leader_at,
            baseline: !self.no_baseline,
            planted: self.i_am_a_test,
            out: self.out,
        })
    }

    /// Refuses what means nothing together.
    fn check(&self, target: Target, access: Access) -> Result<(), SynError> {
        if self.in_process {
            return Err(usage("--in-process is not built: every member is a process of its own"));
        }
        if self.span.is_zero() {
            return Err(usage("--for 0 measures nothing"));
        }
        let size = usize::try_from(self.size).unwrap_or(usize::MAX);
        if target == Target::Order && size < COMMAND_BYTES {
            return Err(usage(&format!("a command of order has at least {COMMAND_BYTES} bytes")));
        }
        if access.is_resp() && self.inflight.is_some() {
            return Err(usage(
                "--inflight goes with binary clients: a Redis connection keeps --pipeline commands",
            ));
        }
        if access == Access::Node && self.send == Send::All {
            return Err(usage("--send all does not go with --via node: its gateway asks its own node first"));
        }
        if matches!(self.rate, Some(Pace::Rate(_))) && (self.inflight.is_some() || self.pipeline.is_some()) {
            return Err(usage(
                "--inflight and --pipeline go with a closed loop, and --rate R is an open one",
            ));
        }
        let faulty = self.nodes.saturating_sub(1) / 3;
        let killed = u16::from(self.kill_leader_at.is_some());
        if self.dead.saturating_add(killed) > faulty {
            let absent = "that are dead or killed";
            return Err(usage(&format!("{} nodes tolerate {faulty} {absent}", self.nodes)));
        }
        match self.kill_leader_at {
            Some(at) if at >= self.span => Err(usage("--kill-leader-at lies behind the measured time")),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;

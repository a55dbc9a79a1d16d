//! `synod chaos`: faults in real processes under load, then an audit.

use crate::chaos::{self, Lie, Plan, flood, identities, poison, power};
use crate::exit::Done;
use crate::session::{Session, usage};
use clap::{Args, Subcommand, ValueEnum};
use soak::{Soak, Way, seconds};
use std::path::PathBuf;
use std::time::Duration;
use synod_config::{SynError, parse_duration};

mod soak;

/// Faults in a cluster of real processes under load; a violation ends with exit code 8.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod chaos run --kills 1 --kill-mean 500ms")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Kills leaders, stops a follower, restarts all at once; or makes one member lie. Then audits.
    #[command(after_help = "Example:\n  synod chaos run --kills 1 --kill-mean 500ms")]
    Run(Options),
    /// Faults of all kinds in a drawn order, for hours. Then audits.
    #[command(after_help = "Example:\n  synod chaos soak --hours 0.002")]
    Soak(Soak),
    /// Cuts the power of nodes whose disks forget what was not synced, then audits. Needs FUSE.
    #[command(after_help = "Example:\n  synod chaos power --cuts 2")]
    Power(Power),
    /// Shows a real node the fourteen kinds of bad identity; each must be refused by name.
    #[command(after_help = "Example:\n  synod chaos identities")]
    Identities,
    /// Gives every node of a cluster under load the same bad input by the thousand; all must survive.
    #[command(after_help = "Example:\n  synod chaos poison --inputs 100")]
    Poison(Poison),
    /// Floods a cluster under load with strangers, a faulty member and readers that do not read.
    #[command(after_help = "Example:\n  synod chaos flood --seconds 4 --connections 200")]
    Flood(Flood),
    /// Waits beside a run and cleans up after it if it does not do so itself.
    #[command(hide = true)]
    Sweep {
        /// The directory of the run.
        directory: PathBuf,
    },
}

#[derive(Debug, Args)]
struct Power {
    /// Power cuts; one in four hits all nodes at once.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(0..=100_000))]
    cuts: u32,
    /// Mean time of load between two cuts.
    #[arg(long, default_value = "500ms", value_parser = duration)]
    pause: Duration,
    /// When the nodes sync; anything but group and always is a control, which must fail.
    #[arg(long, value_enum, default_value_t = When::Group)]
    sync: When,
    /// What everything is drawn from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Debug, Args)]
struct Poison {
    /// Inputs to each node by each of four ways: faulty member, guest, Redis client, HTTP client.
    #[arg(long, value_name = "N", default_value_t = 2_500, value_parser = clap::value_parser!(u64).range(10..=10_000_000))]
    inputs: u64,
    /// What inputs are drawn from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Debug, Args)]
struct Flood {
    /// Length of the run: a turn without a flood and three with one share it.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(4..=86_400))]
    seconds: u32,
    /// Strangers at once, as far as this process may open files.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    connections: u32,
    /// What frames are drawn from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum When {
    /// Once for all records of a turn.
    Group,
    /// After each record.
    Always,
    /// Never.
    #[value(name = "none-UNSAFE")]
    None,
}

#[derive(Debug, Args)]
struct Options {
    /// Members; 3f + 1 of them tolerate f faulty ones.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(4..=32))]
    nodes: u16,
    /// Leaders killed with SIGKILL and started again; 20, or none with --lie, --disk-full, --eio and --links.
    #[arg(long)]
    kills: Option<u32>,
    /// Mean time between the return of a member and the next kill.
    #[arg(long, default_value = "2500ms", value_parser = duration)]
    kill_mean: Duration,
    /// The same in seconds.
    #[arg(long, value_name = "SECONDS", conflicts_with = "kill_mean", value_parser = seconds)]
    kill_mean_s: Option<Duration>,
    /// Hurts links between members, which then go through proxies, so many times; 6 without any other fault.
    #[arg(long, value_name = "N")]
    links: Option<u32>,
    /// In which ways links are hurt, in turn.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "WAY,...", default_values = ["split", "half-open", "reset", "delay", "drip", "corrupt"])]
    link: Vec<Way>,
    /// Which protocol; there is one.
    #[arg(long, default_value = "hotstuff", value_parser = ["hotstuff", "all"])]
    system: String,
    /// Stops a follower with SIGSTOP for this long.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    stop: Option<Duration>,
    /// Kills all members at once and starts them again.
    #[arg(long)]
    restart_all: bool,
    /// Fills the disk of a drawn member so many times; its node must end itself, and comes back. Needs FUSE.
    #[arg(long, default_value_t = 0)]
    disk_full: u32,
    /// Makes writes or syncs of a drawn member's disk fail so many times; the same holds. Needs FUSE.
    #[arg(long, default_value_t = 0)]
    eio: u32,
    /// Makes every write and sync of a drawn member's disk take so much longer. Needs FUSE.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    slow: Option<Duration>,
    /// Makes the member that leads at the beginning lie to clients, equivocate or say nothing, until the end.
    #[arg(long, value_enum)]
    lie: Option<Kind>,
    /// Goes on for at least so many minutes; --lie goes on for 10 s otherwise. Without any fault that is asked for,
    /// faults of all kinds come in a drawn order, those of disks where FUSE is there.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_080))]
    minutes: Option<u32>,
    /// Faults of all kinds in a drawn order for as long as --minutes says, then leaders are killed until there were
    /// --kills of them.
    #[arg(long, requires = "minutes", conflicts_with_all = ["links", "stop", "restart_all", "disk_full", "eio", "slow", "lie"])]
    mix: bool,
    /// What pauses and victims are drawn from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    /// Says nothing to anybody.
    Silent,
    /// Tells clients wrong results.
    Replies,
    /// Signs two proposals for each view it leads, and votes for both.
    Equivocate,
}

fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| "not a duration such as 500ms or 5s".to_owned())
}

impl Arguments {
    pub(crate) fn run(self, session: &Session) -> Done {
        match self.what {
            What::Run(options) => chaos::run(session, &options.plan()?),
            What::Soak(options) => chaos::run(session, &options.plan()),
            What::Power(options) => power::run(session, &options.plan()),
            What::Identities => identities::run(session),
            What::Poison(Poison { inputs, seed }) => {
                poison::run(session, poison::Plan { each: inputs, seed })
            }
            What::Flood(Flood { seconds, connections, seed }) => {
                flood::run(session, flood::Plan { seconds, connections, seed })
            }
            What::Sweep { directory } => power::sweep(&directory),
        }
    }
}

impl Power {
    fn plan(self) -> power::Plan {
        let sync = match self.sync {
            When::Group => "group",
            When::Always => "always",
            When::None => "none-UNSAFE",
        };
        power::Plan { cuts: self.cuts, pause: self.pause, sync, seed: self.seed }
    }
}

impl Options {
    fn plan(self) -> Result<Plan, SynError> {
        let disks = self.disk_full + self.eio > 0;
        let asked = self.kills.is_some()
            || self.stop.is_some()
            || self.restart_all
            || disks
            || self.slow.is_some()
            || self.lie.is_some()
            || self.links.is_some();
        let mix = self.mix || self.minutes.is_some() && !asked;
        let few = self.lie.is_some() || disks || self.links.is_some() || mix;
        let kills = self.kills.unwrap_or(if few { 0 } else { 20 });
        let links = self.links.unwrap_or(if asked || mix { 0 } else { 6 });
        let events = kills > 0 || self.stop.is_some() || self.restart_all || disks || links > 0;
        if self.lie.is_some() && events {
            let problem = "a liar and a member that is away are two faults";
            return Err(usage(problem).because(
                "leave --kills, --links, --stop, --restart-all, --disk-full and --eio out with --lie",
            ));
        }
        let least = if self.lie.is_some() { 10 } else { 0 };
        let minutes = self.minutes.map(|minutes| Duration::from_secs(60 * u64::from(minutes)));
        Ok(Plan {
            nodes: self.nodes,
            kills,
            kill_mean: self.kill_mean_s.unwrap_or(self.kill_mean),
            stop: self.stop,
            restart_all: self.restart_all,
            disk_full: self.disk_full,
            eio: self.eio,
            links,
            hurts: self.link.iter().map(|way| way.hurt()).collect(),
            mix,
            slow: self.slow,
            lie: self.lie.map(|lie| match lie {
                Kind::Silent => Lie::Silent,
                Kind::Replies => Lie::Replies,
                Kind::Equivocate => Lie::Equivocate,
            }),
            span: minutes.unwrap_or(Duration::from_secs(least)),
            seed: self.seed,
            mixed_disks: mix && power::check().is_ok(),
            soak: false,
        })
    }
}

//! `synod chaos`: faults in real processes under load, then an audit.

use crate::chaos::{self, Lie, Plan};
use crate::exit::Done;
use crate::session::{Session, usage};
use clap::{Args, Subcommand, ValueEnum};
use std::time::Duration;
use synod_config::{SynError, parse_duration};

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
}

#[derive(Debug, Args)]
struct Options {
    /// Members; 3f + 1 of them tolerate f faulty ones.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(4..=32))]
    nodes: u16,
    /// Leaders killed with SIGKILL and started again; 20, or none with --lie.
    #[arg(long)]
    kills: Option<u32>,
    /// Mean time between the return of a member and the next kill.
    #[arg(long, default_value = "2500ms", value_parser = duration)]
    kill_mean: Duration,
    /// Stops a follower with SIGSTOP for this long.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    stop: Option<Duration>,
    /// Kills all members at once and starts them again.
    #[arg(long)]
    restart_all: bool,
    /// Makes the member that leads at the beginning lie to clients, equivocate or say nothing, until the end.
    #[arg(long, value_enum)]
    lie: Option<Kind>,
    /// Goes on for at least so many minutes; --lie goes on for 10 s otherwise.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_080))]
    minutes: Option<u32>,
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
        let What::Run(options) = self.what;
        chaos::run(session, &options.plan()?)
    }
}

impl Options {
    fn plan(self) -> Result<Plan, SynError> {
        let kills = self.kills.unwrap_or(if self.lie.is_some() { 0 } else { 20 });
        let events = kills > 0 || self.stop.is_some() || self.restart_all;
        if self.lie.is_some() && events {
            let problem = "a liar and a member that is away are two faults";
            return Err(usage(problem).because("leave --kills, --stop and --restart-all out with --lie"));
        }
        let least = if self.lie.is_some() { 10 } else { 0 };
        let minutes = self.minutes.map(|minutes| Duration::from_secs(60 * u64::from(minutes)));
        Ok(Plan {
            nodes: self.nodes,
            kills,
            kill_mean: self.kill_mean,
            stop: self.stop,
            restart_all: self.restart_all,
            lie: self.lie.map(|lie| match lie {
                Kind::Silent => Lie::Silent,
                Kind::Replies => Lie::Replies,
                Kind::Equivocate => Lie::Equivocate,
            }),
            span: minutes.unwrap_or(Duration::from_secs(least)),
            seed: self.seed,
        })
    }
}

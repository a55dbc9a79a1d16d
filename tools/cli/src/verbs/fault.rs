//! `synod fault`: faults in a deployment made for drills.

use crate::admin::{DELAY_MAX, ask};
use crate::deployment::{Blow, Record, directory_of, node_names};
use crate::exit::Done;
use crate::layout::{GENESIS_FILE, NODE_FILE};
use crate::output::Report;
use crate::session::{Session, usage};
use clap::{Args, Subcommand};
use std::path::{Path, PathBuf};
use std::time::Duration;
use synod_config::{Effective, Exit, Genesis, SynError, code, parse_duration};

/// Injects faults into a node of a deployment on this machine; one made with `up` or `demo`, no other.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod fault lie n1")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Answers clients wrongly, until healed.
    #[command(after_help = "Example:\n  synod fault lie n1")]
    Lie(Target),
    /// Signs two proposals for each view it leads, one for each half of the members, and votes for both, until healed.
    #[command(after_help = "Example:\n  synod fault equivocate n1")]
    Equivocate(Target),
    /// Says nothing to anybody, until healed.
    #[command(after_help = "Example:\n  synod fault silence n1")]
    Silence(Target),
    /// Cuts the node off from some members, in both directions, until healed.
    #[command(after_help = "Example:\n  synod fault partition n1 --from n2,n3")]
    Partition {
        #[command(flatten)]
        target: Target,
        /// The members it no longer reaches.
        #[arg(long, value_delimiter = ',', required = true, value_name = "NODE,...")]
        from: Vec<String>,
    },
    /// Drops a share of what the node sends, until healed.
    #[command(after_help = "Example:\n  synod fault drop n1 --share 200")]
    Drop {
        #[command(flatten)]
        target: Target,
        /// Of a thousand frames.
        #[arg(long, value_parser = clap::value_parser!(u16).range(0..=1_000))]
        share: u16,
    },
    /// Sends everything later, until healed.
    #[command(after_help = "Example:\n  synod fault delay n1 --by 50ms")]
    Delay {
        #[command(flatten)]
        target: Target,
        /// How much later; at most 10s.
        #[arg(long, value_name = "TIME", value_parser = delay)]
        by: Duration,
    },
    /// Ends lies, equivocation, silence, cuts, drops and delays.
    #[command(after_help = "Example:\n  synod fault heal n1")]
    Heal(Target),
    /// Ends the process with SIGKILL; `synod restart` starts it again.
    #[command(after_help = "Example:\n  synod fault kill n1")]
    Kill(Target),
    /// Stops the process with SIGSTOP.
    #[command(after_help = "Example:\n  synod fault pause n1")]
    Pause(Target),
    /// Lets a stopped process go on.
    #[command(after_help = "Example:\n  synod fault resume n1")]
    Resume(Target),
}

#[derive(Debug, Args)]
struct Target {
    /// Name of the node.
    node: String,
    /// The directory of the deployment; by default that of the context.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

fn delay(text: &str) -> Result<Duration, String> {
    let span = parse_duration(text).ok_or_else(|| "not a duration such as 50ms or 1s".to_owned())?;
    if span > DELAY_MAX { Err("at most 10s".to_owned()) } else { Ok(span) }
}

/// How a fault gets to the node.
enum Way {
    /// As a line to its admin socket.
    Line(String),
    /// As a signal to its process.
    Signal(Blow),
}

impl Verb {
    fn parts(self) -> (&'static str, Target, Way) {
        match self {
            Self::Lie(target) => ("lie", target, Way::Line("lie on".to_owned())),
            Self::Equivocate(target) => ("equivocate", target, Way::Line("equivocate on".to_owned())),
            Self::Silence(target) => ("silence", target, Way::Line("silence on".to_owned())),
            Self::Partition { target, from } => {
                ("partition", target, Way::Line(format!("cut {}", from.join(","))))
            }
            Self::Drop { target, share } => ("drop", target, Way::Line(format!("drop {share}"))),
            Self::Delay { target, by } => {
                let line = format!("delay {}", by.as_millis());
                ("delay", target, Way::Line(line))
            }
            Self::Heal(target) => ("heal", target, Way::Line("heal".to_owned())),
            Self::Kill(target) => ("kill", target, Way::Signal(Blow::Kill)),
            Self::Pause(target) => ("pause", target, Way::Signal(Blow::Pause)),
            Self::Resume(target) => ("resume", target, Way::Signal(Blow::Resume)),
        }
    }
}

impl Arguments {
    pub(crate) fn run(self, session: &Session) -> Done {
        let (fault, target, way) = self.verb.parts();
        let directory = directory_of(session, target.dir.as_deref())?;
        let names = node_names(&directory)?;
        if !names.contains(&target.node) {
            let problem = format!("{:?} is no node", target.node);
            return Err(usage(&problem).because(format!("one of {}", names.join(", "))));
        }
        match way {
            Way::Line(line) => ask(&admin_socket(&directory.join(&target.node))?, &line)?,
            Way::Signal(blow) => strike(&directory, &target.node, blow)?,
        }
        let report = Report::new("synod-fault/1").field("node", target.node).field("fault", fault);
        session.output.print(&report)?;
        Ok(Exit::Success)
    }
}

/// Where the node whose directory is `folder` listens for its operator.
///
/// # Errors
/// The errors of its files; SYN-1001 if it does not listen.
pub(crate) fn admin_socket(folder: &Path) -> Result<PathBuf, SynError> {
    let config = Effective::read(&folder.join(NODE_FILE), [], [])?.config()?;
    let socket = config.listen.admin.as_ref();
    socket.map(|socket| folder.join(socket)).ok_or_else(|| usage("listen.admin is off at this node"))
}

fn strike(directory: &Path, node: &str, blow: Blow) -> Result<(), SynError> {
    if !Genesis::read(&directory.join(GENESIS_FILE))?.cluster().drill {
        return Err(SynError::of(code::NOT_PERMITTED, &[("what", "fault injection")]));
    }
    let down = || usage(&format!("node {node} does not run")).because("`synod restart` starts it");
    let record = Record::read(directory)?.ok_or_else(down)?;
    let running = record.node(node).ok_or_else(down)?;
    if running.strike(blow)? { Ok(()) } else { Err(down()) }
}

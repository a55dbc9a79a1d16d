//! `synod memnode`: a memory node of uBFT on this host, which hands regions of shared memory to replicas.

use crate::exit::{Done, bug};
use crate::output::Report;
use crate::session::Session;
use crate::signals::Signals;
use clap::{Args, Subcommand};
use std::path::PathBuf;
use synod_config::{SynError, code};
use synod_shm::hand::own_user;
use synod_shm::regions::ask;
use synod_shm::{Boot, Door, Regions, RegionsConfig, Start};

/// A memory node: run one, look at one.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod memnode status --door /run/synod/memory-0")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Run(Run),
    Status(Status),
}

/// Hands regions of registers to replicas of this host until it is interrupted or terminated. Replicas are known by
/// their users. Memory nodes of one host fail together: several of them tolerate no more than one.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  synod memnode run --data memory-0 --door memory-0/door --users 1001,1002,1003 --first"
)]
struct Run {
    /// The folder with its boot number.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Where replicas call it: a socket that it makes.
    #[arg(long, value_name = "PATH")]
    door: PathBuf,
    /// The users of the replicas, in the order of their numbers; 2f + 1.
    #[arg(long, value_name = "UID,...", value_delimiter = ',', required = true)]
    users: Vec<u32>,
    /// The tail t of the cluster: registers are t for each replica but the owner.
    #[arg(long, value_name = "T", default_value_t = 256)]
    tail: u32,
    /// It was never started before; later starts find their number.
    #[arg(long)]
    first: bool,
}

/// How a memory node is. It answers its own user and the replicas'.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod memnode status --door memory-0/door")]
struct Status {
    /// Where it is called.
    #[arg(long, value_name = "PATH")]
    door: PathBuf,
    /// The user it runs under; this one unless it is given.
    #[arg(long, value_name = "UID")]
    user: Option<u32>,
}

impl Arguments {
    pub(crate) fn run(self, session: &Session) -> Done {
        match self.verb {
            Verb::Run(run) => run.run(session),
            Verb::Status(status) => status.run(session),
        }
    }
}

fn refused(what: &dyn std::fmt::Display, error: &synod_shm::Error) -> SynError {
    SynError::of(code::SHARED_MEMORY, &[("problem", &format!("{what}: {error}"))])
}

impl Run {
    fn run(self, session: &Session) -> Done {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.map_err(|error| bug("runtime", &error))?.block_on(self.serve(session))
    }

    async fn serve(self, session: &Session) -> Done {
        let mut signals = Signals::listen()?;
        let Self { data, door: path, users, tail, first } = self;
        let members = u32::try_from(users.len()).unwrap_or(u32::MAX);
        if members < 3 || members.is_multiple_of(2) {
            let problem = "replicas are 2f + 1 with an f of one at least, each with a user";
            return Err(SynError::of(code::SHARED_MEMORY, &[("problem", problem)]));
        }
        let start = if first { Start::First } else { Start::Again };
        let at = data.display();
        let boot = Boot::record(&data, start).map_err(|error| refused(&at, &error))?;
        // The folder is held, so whoever left this door behind is gone.
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                let problem = format!("{}: {error}", path.display());
                return Err(SynError::of(code::SHARED_MEMORY, &[("problem", &problem)]));
            }
            _ => {}
        }
        let door = Door::bind(&path).map_err(|error| refused(&path.display(), &error))?;
        let config = RegionsConfig {
            uids: users,
            faulty: members.saturating_sub(1) / 2,
            registers: members.saturating_sub(1).saturating_mul(tail),
            tail,
            boot: boot.number(),
        };
        let regions = Regions::start(config, door).map_err(|error| refused(&at, &error))?;
        session.tell(&format!("serving {} (boot {})", path.display(), boot.number()));
        let exit = signals.next().await;
        drop(regions);
        // Nobody calls a door that nobody is behind; if it stays, the next start removes it.
        drop(std::fs::remove_file(&path));
        Ok(exit)
    }
}

impl Status {
    fn run(self, session: &Session) -> Done {
        let door = self.door.display().to_string();
        let user = self.user.unwrap_or_else(own_user);
        let told = ask(&self.door, user).map_err(|error| match error {
            synod_shm::Error::System { call: "connect", .. } => {
                SynError::of(code::REFUSED, &[("address", &door)]).because(&error)
            }
            error => refused(&door, &error),
        })?;
        let report = Report::new("synod-memnode/1")
            .field("door", door)
            .field("boot", told.boot)
            .field("oldest_epoch", told.oldest.0)
            .field("regions", told.regions)
            .field("replicas_connected", told.members);
        session.output.print(&report)?;
        Ok(synod_config::Exit::Success)
    }
}

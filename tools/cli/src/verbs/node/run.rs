//! `synod node run`: serves one node until it is told to stop.

use crate::admin::Admin;
use crate::deployment::{PLANT, Running};
use crate::exit::{Done, bug};
use crate::serve::Served;
use crate::session::{Session, usage};
use crate::signals::Signals;
use crate::verbs::config::{Source, environment};
use clap::Args;
use rustix::fs::Mode;
use rustix::process::{Resource, Rlimit, setrlimit};
use synod_config::{Exit, Format, Genesis, HugePages, Level, Log, SynError};
use synod_gateway::Stopper;

/// Serves one node until it is interrupted or terminated. Logs go to standard error.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod node run --data cluster/n0")]
pub(crate) struct Arguments {
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    guarded: Guarded,
}

/// What stands between a process and serving by mistake.
#[derive(Debug, Args)]
pub(crate) struct Guarded {
    /// The process, by number and start time, whose end is the end of this node: who starts nodes says so.
    #[arg(long, value_name = "PID:START", hide = true, value_parser = Running::supervisor)]
    pub(crate) supervisor: Option<Running>,
    /// Lets a build with planted bugs serve.
    #[arg(long, hide = true)]
    i_am_a_test: bool,
    /// Serves a cluster whose clients' secrets a load generator knows.
    #[arg(long)]
    i_am_a_benchmark: bool,
}

impl Guarded {
    /// Refuses a build with planted bugs.
    ///
    /// # Errors
    /// SYN-1001.
    pub(crate) fn check_build(&self) -> Result<(), SynError> {
        if synod_trial::plants::is_plant_build() && !self.i_am_a_test {
            let why = "this build holds planted bugs and serves nobody without --i-am-a-test";
            return Err(usage(why));
        }
        if let Some(plant) = std::env::var_os(PLANT).filter(|_| synod_trial::plants::is_plant_build()) {
            synod_trial::plants::activate(&plant.to_string_lossy()).map_err(|why| usage(&why))?;
        }
        Ok(())
    }

    /// Refuses a cluster that is for benchmarks.
    ///
    /// # Errors
    /// SYN-1001.
    pub(crate) fn check_kind(&self, is_bench: bool) -> Result<(), SynError> {
        if is_bench && !self.i_am_a_benchmark {
            let why = "a load generator knows the secrets of this cluster's clients; it is served only with --i-am-a-benchmark";
            return Err(usage(why));
        }
        Ok(())
    }
}

impl Arguments {
    pub(crate) fn run(self, session: &Session) -> Done {
        self.guarded.check_build()?;
        let effective = self.source.effective()?;
        let config = effective.config()?;
        let genesis = self.source.data.join(&config.node.genesis);
        give_up_rights()?;
        log_to_standard_error(&config.log);
        if config.runtime.huge_pages == HugePages::Auto && Genesis::read(&genesis)?.chop().is_some() {
            // A server holds keys and slots of all clients.
            crate::huge::ask();
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.map_err(|error| bug("runtime", &error))?.block_on(self.serve(session))
    }

    async fn serve(self, session: &Session) -> Done {
        let mut signals = Signals::listen()?;
        let (stopper, stop) = Stopper::new();
        let data = &self.source.data;
        let setup = synod_host::Setup::read(data, environment(), &self.source.set)?;
        self.guarded.check_kind(setup.is_bench())?;
        let served = Served::start(setup, data, stop).await?;
        let socket = self.source.effective()?.config()?.listen.admin;
        let _admin = Admin::of(&served, data, socket.as_deref())?;
        tracing::info!(directory = %data.display(), "serving");
        session.tell(&format!("serving {}", data.display()));
        let exit = tokio::select! {
            exit = signals.next() => exit,
            gone = Running::left_alone(self.guarded.supervisor.as_ref()) => { gone?; Exit::Terminated }
            failed = served.failing() => failed.exit_code(),
        };
        tracing::info!("stopping");
        stopper.stop();
        // The reason of a node that stopped by itself comes back here.
        served.end().await?;
        Ok(exit)
    }
}

/// What a node never needs: files that others may read, more rights by running a program, an image of its memory on a
/// disk. The user stays the one that started it.
///
/// # Errors
/// SYN-9001 if the system refuses.
pub(crate) fn give_up_rights() -> Result<(), SynError> {
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    setrlimit(Resource::Core, none).map_err(|error| bug("core images", &error))?;
    rustix::thread::set_no_new_privs(true).map_err(|error| bug("privileges", &error))
}

/// Writes log lines of this process as `[log]` says: no colours, since they end in files.
pub(crate) fn log_to_standard_error(log: &Log) {
    let level = match log.level {
        Level::Error => tracing::Level::ERROR,
        Level::Warn => tracing::Level::WARN,
        Level::Debug => tracing::Level::DEBUG,
        Level::Trace => tracing::Level::TRACE,
        _ => tracing::Level::INFO,
    };
    let lines = tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr).with_ansi(false);
    // Whoever set a subscriber before, such as a test, keeps it.
    let _set = match log.format {
        Format::Json => lines.json().try_init(),
        _ => lines.try_init(),
    };
}

//! `synod node run`: serves one node until it is told to stop.

use crate::admin::{Admin, Subject};
use crate::exit::{Done, bug};
use crate::serve::Served;
use crate::session::Session;
use crate::verbs::config::{Source, environment};
use clap::Args;
use synod_config::{Exit, Format, Level, Log, SynError};
use synod_gateway::Stopper;
use tokio::signal::unix::{SignalKind, signal};

/// Serves one node until it is interrupted or terminated. Logs go to standard error.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod node run --data cluster/n0")]
pub(crate) struct Arguments {
    #[command(flatten)]
    source: Source,
}

impl Arguments {
    pub(crate) fn run(self, session: &Session) -> Done {
        log_to_standard_error(&self.source.effective()?.config()?.log);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.map_err(|error| bug("runtime", &error))?.block_on(self.serve(session))
    }

    async fn serve(self, session: &Session) -> Done {
        let mut interrupted = signal(SignalKind::interrupt()).map_err(|error| bug("signals", &error))?;
        let mut terminated = signal(SignalKind::terminate()).map_err(|error| bug("signals", &error))?;
        let (stopper, stop) = Stopper::new();
        let data = &self.source.data;
        let served = Served::start(data, environment(), &self.source.set, stop).await?;
        let _admin = self.admin(&served)?;
        tracing::info!(directory = %data.display(), "serving");
        session.tell(&format!("serving {}", data.display()));
        let exit = tokio::select! {
            _ = interrupted.recv() => Exit::Interrupted,
            _ = terminated.recv() => Exit::Terminated,
        };
        tracing::info!("stopping");
        stopper.stop();
        served.end().await?;
        Ok(exit)
    }
}

impl Arguments {
    /// The socket of the node's operator, where it is on.
    fn admin(&self, served: &Served) -> Result<Option<Admin>, SynError> {
        let Some(socket) = self.source.effective()?.config()?.listen.admin.clone() else { return Ok(None) };
        let subject = served.node.with(|server| Subject {
            drill: server.drill().cloned(),
            members: server.genesis().members().iter().map(|member| member.name.clone()).collect(),
        });
        subject.map(|subject| Admin::serve(&self.source.data.join(socket), subject)).transpose()
    }
}

/// Writes log lines of this process as `[log]` says: no colours, since they end in files.
fn log_to_standard_error(log: &Log) {
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

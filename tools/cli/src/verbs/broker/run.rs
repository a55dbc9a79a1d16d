//! `synod broker run`: distils until it is told to stop.

use crate::deployment::Running;
use crate::exit::{Done, bug};
use crate::serve::ServedBroker;
use crate::session::Session;
use crate::signals::Signals;
use crate::verbs::config::{Source, environment};
use crate::verbs::node::{Guarded, give_up_rights, log_to_standard_error};
use clap::Args;
use synod_config::Exit;
use synod_gateway::Stopper;

/// Serves one broker until it is interrupted or terminated. Logs go to standard error.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod broker run --data cluster/b0")]
pub(crate) struct Arguments {
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    guarded: Guarded,
}

impl Arguments {
    pub(crate) fn run(self, session: &Session) -> Done {
        self.guarded.check_build()?;
        give_up_rights()?;
        log_to_standard_error(&self.source.effective()?.config()?.log);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.map_err(|error| bug("runtime", &error))?.block_on(self.serve(session))
    }

    async fn serve(self, session: &Session) -> Done {
        let mut signals = Signals::listen()?;
        let (stopper, stop) = Stopper::new();
        let data = &self.source.data;
        let setup = synod_host::chop::BrokerSetup::read(data, environment(), &self.source.set)?;
        self.guarded.check_kind(setup.is_bench())?;
        let served = ServedBroker::start(setup, data, stop).await?;
        tracing::info!(directory = %data.display(), clients = %served.datagram(), "serving");
        session.tell(&format!("serving {}", data.display()));
        let exit = tokio::select! {
            exit = signals.next() => exit,
            gone = Running::left_alone(self.guarded.supervisor.as_ref()) => { gone?; Exit::Terminated }
        };
        tracing::info!("stopping");
        stopper.stop();
        served.end().await?;
        Ok(exit)
    }
}

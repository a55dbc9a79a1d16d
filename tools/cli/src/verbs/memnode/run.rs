//! `synod memnode run`: holds registers until it is told to stop.

use crate::deployment::Running;
use crate::exit::{Done, bug};
use crate::serve::ServedMemory;
use crate::session::Session;
use crate::signals::Signals;
use crate::verbs::config::{Source, environment};
use crate::verbs::node::{Guarded, give_up_rights, log_to_standard_error};
use clap::Args;
use synod_config::Exit;
use synod_gateway::Stopper;

/// Serves one memory node until it is interrupted or terminated. Logs go to standard error.
///
/// It holds a region of registers for each replica: everybody reads, the region's owner alone writes, known by the key of its link. One
/// that stops loses them: started again it says so by its boot number, and replicas count it as crashed.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod memnode run --data cluster/m0")]
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
        let setup = synod_host::ubft::MemorySetup::read(data, environment(), &self.source.set)?;
        let served = ServedMemory::start(setup, data, stop).await?;
        tracing::info!(directory = %data.display(), replicas = %served.address(), boot = served.boot(), "serving");
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

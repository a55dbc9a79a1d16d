//! `synod proxy`: Redis and HTTP clients beside their user, believing nobody.

use crate::cluster::MEMCACHED;
use crate::deployment::Running;
use crate::exit::{Done, bug};
use crate::serve::{BUILD, client_setup, store_of};
use crate::session::Session;
use crate::signals::Signals;
use clap::Args;
use std::path::PathBuf;
use std::sync::Arc;
use synod_config::{Address, Exit};
use synod_gateway::resp::Store;
use synod_gateway::{
    DEADLINE, HttpServer, HttpSettings, RespServer, RespSettings, Shared, Stopper, TextServer, TextSettings,
};
use synod_host::{Backend, ClientSetup, ClusterClient, Mode};
use synod_quorum::NodeId;

/// Serves RESP and HTTP on this machine and accepts a result only when f + 1 members give it; Memcached text where the cluster runs that.
///
/// An operation that has no outcome when --timeout is over, 5s if nothing is said, is answered as unknown: it may still take effect.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod proxy --resp 127.0.0.1:0 --http 127.0.0.1:0")]
pub(crate) struct Arguments {
    /// The genesis of the cluster; by default that of the context.
    #[arg(long, value_name = "FILE")]
    genesis: Option<PathBuf>,
    /// Where RESP clients connect; port 0 takes a free one.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:6400", value_parser = address)]
    resp: Address,
    /// Where clients of Memcached connect, of a cluster with app memcached, which has no RESP.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:6411", value_parser = address)]
    memcached: Address,
    /// Where HTTP clients connect, of a cluster with app kv.
    #[arg(long, value_name = "HOST:PORT", value_parser = address)]
    http: Option<Address>,
    /// How reads are carried out.
    #[arg(long, value_enum, default_value = "linearizable")]
    read: Read,
    /// Sessions with the cluster; connections are spread over them.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    sessions: u16,
    /// Whether a command goes to one member first, or to all at once.
    #[arg(long, value_enum, default_value = "one")]
    send: Send,
    /// The process, by number and start time, whose end is the end of this proxy.
    #[arg(long, value_name = "PID:START", hide = true, value_parser = Running::supervisor)]
    supervisor: Option<Running>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Send {
    /// To one member; to all when it stays silent.
    One,
    /// To all members.
    All,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Read {
    /// By a quorum without ordering; ordered when the quorum does not agree.
    Linearizable,
    /// Ordered like a write.
    Ordered,
}

fn address(text: &str) -> Result<Address, String> {
    Address::parse(text).ok_or_else(|| "not of the form HOST:PORT".to_owned())
}

impl Arguments {
    pub(crate) fn run(self, session: &Session) -> Done {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.map_err(|error| bug("runtime", &error))?.block_on(self.serve(session))
    }

    async fn serve(self, session: &Session) -> Done {
        let genesis = crate::context::genesis_of(session, self.genesis.as_deref())?;
        let (app, store) = (genesis.cluster().app.as_str(), store_of(&genesis));
        if store == Store::Keys && app != MEMCACHED {
            super::kv::runs_keys(&genesis, "proxy")?;
        } else if self.http.is_some() {
            super::kv::runs_keys(&genesis, "proxy --http")?;
        }
        let setup = ClientSetup {
            send_all: self.send == Send::All,
            ..client_setup(&genesis, "verified", NodeId(0), usize::from(self.sessions))
        };
        let backend: Arc<dyn Backend> = Arc::new(ClusterClient::connect(&setup)?);
        let reads = match self.read {
            Read::Linearizable => Mode::Quorum,
            Read::Ordered => Mode::Ordered,
        };
        let mut signals = Signals::listen()?;
        let (stopper, stop) = Stopper::new();
        let shared = Shared::new(backend, &crate::serve::default_limits()?, stop);
        let deadline = session.timeout.unwrap_or(DEADLINE);
        let (mut lines, mut tasks) = (Vec::new(), Vec::new());
        if app == MEMCACHED {
            let text = TextServer::bind(&self.memcached, TextSettings { deadline }, shared.clone()).await?;
            lines.push(format!("memcached {}", text.local()));
            tasks.push(tokio::spawn(text.run()));
        } else {
            let settings = RespSettings { store, reads, deadline, ..RespSettings::default() };
            let resp = RespServer::bind(&self.resp, settings, shared.clone()).await?;
            lines.push(format!("resp {}", resp.local()));
            tasks.push(tokio::spawn(resp.run()));
        }
        if let Some(address) = &self.http {
            let settings = HttpSettings { reads, build: BUILD, ..HttpSettings::default() };
            let http = HttpServer::bind(address, settings, shared).await?;
            lines.push(format!("http {}", http.local()));
            tasks.push(tokio::spawn(http.run()));
        }
        lines.iter().for_each(|line| crate::output::progress(line));
        let exit = tokio::select! {
            exit = signals.next() => exit,
            gone = Running::left_alone(self.supervisor.as_ref()) => { gone?; Exit::Terminated }
        };
        stopper.stop();
        for task in tasks {
            // A connection that takes longer is cut with the process.
            let _ = tokio::time::timeout(std::time::Duration::from_secs(2), task).await;
        }
        Ok(exit)
    }
}

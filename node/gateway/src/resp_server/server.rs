//! Binding, accepting, stopping.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use synod_config::{Address, NodeConfig, SynError};
use synod_host::Mode;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::{
    access::{Secret, loopback_only, named, without_tls},
    bind::{accept, bind},
    resp::{Limits, Settings, Store, Trust},
    resp_server::client::{Client, Manner},
    shared::{DEADLINE, Shared},
    traffic::Api,
};

/// The reply to a connection that finds no place.
const NO_PLACE: &[u8] = b"-ERR SYN-3402 max number of clients reached\r\n";

/// How the listener behaves.
#[derive(Clone, Debug)]
pub struct RespSettings {
    /// Whose commands are taken.
    pub store: Store,
    /// How long an operation may take; never zero.
    pub deadline: Duration,
    /// How reads are carried out that no write stands before: `--read`.
    pub reads: Mode,
    /// What AUTH must show; `None` asks for nothing.
    pub password: Option<Secret>,
    /// Limits of each connection.
    pub limits: Limits,
    /// Synod's version, for INFO and HELLO.
    pub version: String,
}

impl Default for RespSettings {
    /// 5 s, quorum reads, no password, the limits of surface.md 4.3.
    fn default() -> Self {
        Self {
            store: Store::Keys,
            deadline: DEADLINE,
            reads: Mode::Quorum,
            password: None,
            limits: Limits::default(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}

impl RespSettings {
    /// What a node's file says; `directory` is where that file is.
    ///
    /// # Errors
    /// SYN-1003 if it asks for TLS, else those of [`Secret::read`].
    pub fn from_config(config: &NodeConfig, directory: &Path) -> Result<Self, SynError> {
        without_tls(&config.access)?;
        let password = named(config.access.resp_password_file.as_ref(), directory)?;
        let mut settings = Self { password, ..Self::default() };
        let request_max = usize::try_from(config.limits.request_max).unwrap_or(usize::MAX);
        settings.limits.request_bytes_max = settings.limits.request_bytes_max.min(request_max);
        Ok(settings)
    }
}

/// A bound listener.
pub struct RespServer {
    listener: TcpListener,
    local: SocketAddr,
    shared: Shared,
    manner: Arc<Manner>,
}

impl RespServer {
    /// Binds `address`; port 0 lets the system choose.
    ///
    /// # Errors
    /// SYN-2004 if the port is taken, SYN-1111 if other machines can reach it: RESP here is plain.
    pub async fn bind(address: &Address, settings: RespSettings, shared: Shared) -> Result<Self, SynError> {
        assert!(!settings.deadline.is_zero(), "a deadline of zero answers nothing");
        let (listener, local) = bind(address, "listen.resp").await?;
        loopback_only(local, "listen.resp")?;
        let trust = match shared.backend.trust() {
            "verified" => Trust::Verified,
            _ => Trust::Gateway,
        };
        let connection = Settings {
            store: settings.store,
            limits: settings.limits,
            password: settings.password.map(|password| password.digest()),
            trust,
            version: settings.version,
            port: local.port(),
        };
        let manner =
            Manner { deadline: settings.deadline, reads: settings.reads, connection: Arc::new(connection) };
        Ok(Self { listener, local, shared, manner: Arc::new(manner) })
    }

    /// Where it listens.
    #[must_use]
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// Serves until stop is said and every connection has what it is owed or its deadlines have passed.
    pub async fn run(self) {
        let mut clients = JoinSet::new();
        let stopped = self.shared.stop.clone().stopped();
        tokio::pin!(stopped);
        loop {
            tokio::select! {
                () = &mut stopped => break,
                stream = accept(&self.listener) => self.admit(stream, &mut clients),
                Some(ended) = clients.join_next(), if !clients.is_empty() => report(&ended),
            }
        }
        drop(self.listener);
        while let Some(ended) = clients.join_next().await {
            report(&ended);
        }
    }

    fn admit(&self, stream: TcpStream, clients: &mut JoinSet<()>) {
        let Some(share) = self.shared.budget.admit() else {
            self.shared.traffic.cut();
            // Best effort: a client that does not read learns it from the closed connection.
            drop(stream.try_write(NO_PLACE));
            return;
        };
        self.shared.traffic.opened(Api::Resp);
        let client = Client::new(stream, share, self.shared.clone(), Arc::clone(&self.manner));
        let traffic = Arc::clone(&self.shared.traffic);
        clients.spawn(async move {
            client.run().await;
            traffic.left(Api::Resp);
        });
    }
}

fn report(ended: &Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "a connection's task failed");
    }
}

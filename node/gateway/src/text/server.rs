//! Binding, accepting, stopping.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::BytesMut;
use synod_config::{Address, SynError};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::{
    access::loopback_only,
    bind::{accept, bind},
    shared::{DEADLINE, Shared},
    text::client::Client,
    traffic::Api,
};

/// The reply to a connection that finds no place.
const NO_PLACE: &[u8] = b"SERVER_ERROR SYN-3402 max number of clients reached\r\n";

/// How the listener behaves.
#[derive(Clone, Debug)]
pub struct TextSettings {
    /// How long an operation may take; never zero.
    pub deadline: Duration,
}

impl Default for TextSettings {
    /// 5 s.
    fn default() -> Self {
        Self { deadline: DEADLINE }
    }
}

/// A bound listener.
pub struct TextServer {
    listener: TcpListener,
    local: SocketAddr,
    shared: Shared,
    settings: TextSettings,
}

impl TextServer {
    /// Binds `address`; port 0 lets the system choose.
    ///
    /// # Errors
    /// SYN-2004 if the port is taken, SYN-1111 if other machines can reach it: the protocol knows no password.
    pub async fn bind(address: &Address, settings: TextSettings, shared: Shared) -> Result<Self, SynError> {
        assert!(!settings.deadline.is_zero(), "a deadline of zero answers nothing");
        let (listener, local) = bind(address, "listen.memcached").await?;
        loopback_only(local, "listen.memcached")?;
        Ok(Self { listener, local, shared, settings })
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
        self.shared.traffic.opened(Api::Memcached);
        let (shared, deadline) = (self.shared.clone(), self.settings.deadline);
        let traffic = shared.traffic.clone();
        let client = Client { stream, share, shared, deadline, held: BytesMut::new() };
        clients.spawn(async move {
            client.run().await;
            traffic.left(Api::Memcached);
        });
    }
}

fn report(ended: &Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "a connection's task failed");
    }
}

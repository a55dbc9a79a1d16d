//! The accepting side: connections in, established links out, nothing spent on strangers beyond a fixed place.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use tokio::net::{TcpListener, UnixListener};
use tokio::task::JoinSet;

use crate::config::{Bound, Role};
use crate::counters::Counters;
use crate::handshake::{Established, Local, accept};
use crate::link::Socket;
use crate::mailbox::{Mail, Mailbox};
use crate::observer::Observer;
use crate::quotas::{Door, Place};
use crate::{Error, Failure, tls};

/// What a listener needs.
pub(crate) struct Welcome {
    pub(crate) local: Arc<Local>,
    pub(crate) tls: Option<Arc<ServerConfig>>,
    /// The role of those who may come in.
    pub(crate) role: Role,
    pub(crate) within: Duration,
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) observer: Arc<dyn Observer>,
}

enum Accepting {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// Accepts until the reactor ends.
pub(crate) async fn listen(bound: Bound, mut door: Door, welcome: Arc<Welcome>) -> Result<(), Error> {
    let broken = |source| Error::PortTaken { address: "listener".to_owned(), source };
    let listener = match bound {
        Bound::Tcp(listener) => Accepting::Tcp(TcpListener::from_std(listener).map_err(broken)?),
        Bound::Unix(listener, _) => Accepting::Unix(UnixListener::from_std(listener).map_err(broken)?),
    };
    // Aborts what is under way when the listener ends.
    let mut handshakes = JoinSet::new();
    loop {
        let accepted = match &listener {
            Accepting::Tcp(listener) => {
                listener.accept().await.map(|(s, from)| (Socket::Tcp(s), Some(from.ip())))
            }
            Accepting::Unix(listener) => listener.accept().await.map(|(s, _)| (Socket::Unix(s), None)),
        };
        while handshakes.try_join_next().is_some() {}
        match accepted {
            Ok((socket, from)) if door.admits(from, welcome.local.clock.at().now) => {
                // Without a place this one waits here, and those behind it in the system's queue, which is bounded.
                let place = door.enter().await;
                handshakes.spawn(greet(socket, from, place, welcome.clone()));
            }
            Ok(_) => welcome.counters.handshakes_broken.add(1),
            Err(error) => {
                tracing::debug!(%error, "accept failed");
                // Out of descriptors, most likely: others must end first.
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    }
}

async fn greet(socket: Socket, from: Option<IpAddr>, place: Place, welcome: Arc<Welcome>) {
    welcome.counters.handshakes_open.add(1);
    let met = tokio::time::timeout(welcome.within, meet(socket, &welcome)).await;
    welcome.counters.handshakes_open.sub(1);
    drop(place);
    let ended = match met {
        Ok(ended) => ended,
        Err(_) => Err(Error::NoAnswer { stage: "hello" }),
    };
    match ended {
        Ok(Some(joined)) => welcome.mailbox.push(Mail::Joined(Box::new(joined))),
        Ok(None) => {}
        Err(error) => {
            tracing::debug!(?from, %error, "handshake refused");
            report(&error, None, &welcome.counters, &*welcome.observer);
        }
    }
}

async fn meet(socket: Socket, welcome: &Welcome) -> Result<Option<Established>, Error> {
    let session = match &welcome.tls {
        Some(config) => Some(tls::server(config.clone())?),
        None => None,
    };
    accept(socket, session, welcome.role, &welcome.local).await
}

/// Counts and shows a failed handshake.
pub(crate) fn report(
    error: &Error,
    peer: Option<synod_quorum::NodeId>,
    counters: &Counters,
    observer: &dyn Observer,
) {
    match error {
        Error::Handshake { refusal, .. } => counters.refuse(*refusal),
        _ => counters.handshakes_broken.add(1),
    }
    observer.failed(&Failure { peer, code: error.code(), text: error.to_string() });
}

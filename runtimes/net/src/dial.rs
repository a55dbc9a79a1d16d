//! The dialling side: one task per member keeps its lines up.
//!
//! The lower member dials at once; the higher one gives it a moment first, so that simultaneous dials are rare, and
//! dials then, so that a one-way firewall does not part the two. Failures wait 50 ms, doubling to 5 s, with jitter; a
//! line that ends within 2 s of its handshake counts as a failure.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::ClientConfig;
use synod_crypto::PublicKey;
use synod_quorum::NodeId;
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::watch;

use crate::config::{Address, Role};
use crate::counters::Counters;
use crate::handshake::{Established, Line, Local, dial, nonce};
use crate::link::Socket;
use crate::listen::report;
use crate::mailbox::{Mail, Mailbox};
use crate::observer::Observer;
use crate::reactor::Lines;
use crate::{Error, tls};

const FIRST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// A line that lives this long is no failure.
const STABLE: Duration = Duration::from_secs(2);
/// How long the higher member leaves the dialling to the lower one.
const COURTESY: Duration = Duration::from_millis(400);

/// What a dialler needs.
pub(crate) struct Call {
    pub(crate) peer: NodeId,
    pub(crate) key: PublicKey,
    pub(crate) address: watch::Receiver<Option<Address>>,
    pub(crate) lines: watch::Receiver<Lines>,
    pub(crate) local: Arc<Local>,
    pub(crate) tls: Option<Arc<ClientConfig>>,
    pub(crate) role: Role,
    pub(crate) within: Duration,
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) observer: Arc<dyn Observer>,
}

/// Dials whenever a line is missing, until the reactor ends.
pub(crate) async fn keep(mut call: Call) {
    let lower = call.role == Role::Guest || call.local.own < call.peer;
    let mut wait = FIRST_WAIT;
    let mut joined: [Option<Instant>; 2] = [None; 2];
    loop {
        let Some(line) = call.missing().await else { return };
        let since = &mut joined[usize::from(line == Line::Bulk)];
        if let Some(since) = since.take() {
            if since.elapsed() >= STABLE {
                wait = FIRST_WAIT;
            }
            tokio::time::sleep(jitter(wait)).await;
            wait = wait.saturating_mul(2).min(LONGEST_WAIT);
            continue;
        }
        if !lower && call.waited(COURTESY).await {
            continue;
        }
        match call.attempt(line).await {
            Ok(Some(established)) => {
                *since = Some(Instant::now());
                call.mailbox.push(Mail::Joined(Box::new(established)));
                // The reactor takes it over before the next look.
                call.waited(LONGEST_WAIT).await;
            }
            Ok(None) => {
                call.waited(jitter(wait)).await;
            }
            Err(error) => {
                tracing::debug!(peer = %call.peer, %error, "dial failed");
                report(&error, Some(call.peer), &call.counters, &*call.observer);
                call.waited(jitter(wait)).await;
                wait = wait.saturating_mul(2).min(LONGEST_WAIT);
            }
        }
    }
}

/// Between half of `span` and all of it.
fn jitter(span: Duration) -> Duration {
    let [a, ..] = nonce();
    let half = span / 2;
    half + half * u32::from(a) / 255
}

impl Call {
    /// The line to dial next, once one is missing; `None` when the reactor is gone.
    async fn missing(&mut self) -> Option<Line> {
        loop {
            let lines = *self.lines.borrow_and_update();
            let known = self.address.borrow_and_update().is_some();
            if known && !lines.main {
                return Some(Line::Main);
            }
            if known && !lines.bulk && self.role == Role::Member {
                return Some(Line::Bulk);
            }
            tokio::select! {
                changed = self.lines.changed() => changed.ok()?,
                changed = self.address.changed() => changed.ok()?,
            }
        }
    }

    /// Waits for `span`, or less when the lines or the address change, which it tells.
    async fn waited(&mut self, span: Duration) -> bool {
        tokio::select! {
            () = tokio::time::sleep(span) => false,
            changed = self.lines.changed() => changed.is_ok(),
            changed = self.address.changed() => changed.is_ok(),
        }
    }

    async fn attempt(&self, line: Line) -> Result<Option<Established>, Error> {
        let address = self.address.borrow().clone();
        let Some(address) = address else { return Ok(None) };
        let socket = match tokio::time::timeout(self.within, connect(&address)).await {
            Ok(socket) => socket?,
            Err(_) => return Err(Error::NoAnswer { stage: "tcp" }),
        };
        let session = match &self.tls {
            Some(config) => Some(tls::client(config.clone())?),
            None => None,
        };
        match tokio::time::timeout(self.within, dial(socket, session, (line, self.key), &self.local)).await {
            Ok(ended) => ended,
            Err(_) => Err(Error::NoAnswer { stage: "hello" }),
        }
    }
}

async fn connect(address: &Address) -> Result<Socket, Error> {
    let refused = |source| Error::Refused { address: address.to_string(), source };
    match address {
        Address::Unix(path) => UnixStream::connect(path).await.map(Socket::Unix).map_err(refused),
        Address::Tcp(name) => {
            let found = tokio::net::lookup_host(name).await;
            let mut found = found.map_err(|error| Error::NameNotFound(format!("{name}: {error}")))?;
            let Some(address) = found.next() else { return Err(Error::NameNotFound(name.clone())) };
            TcpStream::connect(address).await.map(Socket::Tcp).map_err(refused)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_stays_between_half_and_the_whole() {
        for _ in 0..1_000 {
            let wait = jitter(Duration::from_millis(100));
            assert!(wait >= Duration::from_millis(50) && wait <= Duration::from_millis(100));
        }
    }
}

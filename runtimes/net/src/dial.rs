//! The dialling side: one task per member keeps its lines up.
//!
//! The lower member dials at once; the higher one gives it a moment first, so that simultaneous dials are rare, and
//! dials then, so that a one-way firewall does not part the two. Failures wait 50 ms, doubling to 5 s, with jitter; a
//! line that ends within 2 s of its handshake counts as a failure.

use std::io;
use std::net::SocketAddr;
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
/// Addresses of one name that are tried.
const ADDRESSES_MAX: usize = 4;
/// How long an address may take to answer while others are left.
const ADDRESS_WAIT: Duration = Duration::from_secs(1);
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
            let found = found.map_err(|error| Error::NameNotFound(format!("{name}: {error}")))?;
            match reach(found).await {
                Some(reached) => reached.map(Socket::Tcp).map_err(refused),
                None => Err(Error::NameNotFound(name.clone())),
            }
        }
    }
}

/// Connects to the first of the addresses that answers; what the last one said if none does, `None` without any. A name
/// often has one address per family, and the peer listens on one of them.
async fn reach(addresses: impl Iterator<Item = SocketAddr>) -> Option<io::Result<TcpStream>> {
    let mut addresses = addresses.take(ADDRESSES_MAX).peekable();
    let mut last = None;
    while let Some(address) = addresses.next() {
        let connecting = TcpStream::connect(address);
        // The last one has all the time that is left.
        let ended = match addresses.peek() {
            Some(_) => tokio::time::timeout(ADDRESS_WAIT, connecting)
                .await
                .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())),
            None => connecting.await,
        };
        let reached = ended.is_ok();
        last = Some(ended);
        if reached {
            break;
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_several_addresses_is_reached_by_the_one_that_answers() {
        // Nobody listens on port 0.
        let gone = SocketAddr::from(([127, 0, 0, 1], 0));
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let there = listener.local_addr().expect("bound");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let reached = |addresses: &[SocketAddr]| runtime.block_on(reach(addresses.iter().copied()));
        let peer = reached(&[gone, there]).and_then(Result::ok).and_then(|stream| stream.peer_addr().ok());
        assert_eq!(peer, Some(there));
        assert!(reached(&[there, gone]).is_some_and(|reached| reached.is_ok()));
        assert!(reached(&[gone]).is_some_and(|reached| reached.is_err()));
        assert!(reached(&[]).is_none());
    }

    #[test]
    fn jitter_stays_between_half_and_the_whole() {
        for _ in 0..1_000 {
            let wait = jitter(Duration::from_millis(100));
            assert!(wait >= Duration::from_millis(50) && wait <= Duration::from_millis(100));
        }
    }
}

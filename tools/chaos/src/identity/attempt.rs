//! One try, and how it ended.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::{ClientConfig, SupportedProtocolVersion};
use synod_crypto::Seed;

use crate::stranger::{Card, End, Line, Shown, TLS13, client};

/// How long one read may wait.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// One try.
#[derive(Clone, Debug)]
pub(super) struct Attempt {
    /// What was tried.
    pub(super) what: &'static str,
    /// How it ended.
    pub(super) end: End,
    /// How long that took.
    pub(super) took: Duration,
    /// Bytes in both directions.
    pub(super) bytes: u64,
}

impl Attempt {
    pub(super) fn of(what: &'static str, end: End, line: &Line) -> Self {
        Self { what, end, took: line.took(), bytes: line.bytes() }
    }
}

/// Speaks TLS alone and waits for what the node says of it.
///
/// # Errors
/// The node does not listen.
pub(super) fn tls(
    what: &'static str,
    to: SocketAddr,
    shown: &Shown,
    versions: &[&'static SupportedProtocolVersion],
) -> io::Result<Attempt> {
    spoken(what, to, client(shown, versions)?, &[])
}

/// The same with a configuration that may hold tickets, and early data to go with one.
///
/// # Errors
/// The node does not listen, or there is no ticket for the early data.
pub(super) fn spoken(
    what: &'static str,
    to: SocketAddr,
    config: Arc<ClientConfig>,
    early: &[u8],
) -> io::Result<Attempt> {
    let mut line = Line::dial(to, config, PATIENCE)?;
    if !early.is_empty() && !line.early(early) {
        return Err(io::Error::other("there is no ticket that allows early data"));
    }
    let shaken = line.shake();
    let mut end = match shaken {
        // A client is done before the server has seen its key.
        Ok(()) => line.end(),
        Err(end) => end,
    };
    if line.was_resumed() {
        end = End::Admitted;
    }
    Ok(Attempt::of(what, end, &line))
}

/// Speaks TLS with the key of `seed`, then says `card`, signed with the same key.
///
/// # Errors
/// The node does not listen.
pub(super) fn presented(what: &'static str, to: SocketAddr, seed: &Seed, card: &Card) -> io::Result<Attempt> {
    let mut line = Line::dial(to, client(&Shown::own(seed), TLS13)?, PATIENCE)?;
    let end = card.present(&mut line, seed);
    Ok(Attempt::of(what, end, &line))
}

/// Says bytes without TLS.
///
/// # Errors
/// The node does not listen.
pub(super) fn plain(what: &'static str, to: SocketAddr, bytes: &[u8]) -> io::Result<Attempt> {
    let mut line = Line::plain(to, PATIENCE)?;
    let end = match line.say(bytes) {
        Ok(()) => line.end(),
        Err(end) => end,
    };
    Ok(Attempt::of(what, end, &line))
}

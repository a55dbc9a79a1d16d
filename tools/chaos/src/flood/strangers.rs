//! Connections that never say who they are.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::thread::Crew;
use crate::stranger::{Shown, TLS13, client, client_session, draw_seed};

/// Threads that share the connections.
const THREADS: usize = 12;
/// How long a connection may take to come about: the queue of a listener may be full.
const CONNECT: Duration = Duration::from_millis(250);
/// Pause between two bytes of a connection.
const DRIP: Duration = Duration::from_secs(1);

/// What a crowd did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Connections that came about.
    pub opened: u64,
    /// Connections that the node ended.
    pub ended: u64,
    /// Connections at once, at most.
    pub most: u64,
    /// Connections that did not come about in time.
    pub refused: u64,
}

#[derive(Default)]
struct Shared {
    opened: AtomicU64,
    ended: AtomicU64,
    open: AtomicU64,
    most: AtomicU64,
    refused: AtomicU64,
}

/// A crowd of strangers; dropping it closes their connections.
pub struct Strangers {
    shared: Arc<Shared>,
    _crew: Crew,
}

impl Strangers {
    /// Keeps `count` connections open, spread over `listeners`, and drips the beginning of a sound TLS handshake into
    /// each, a byte a second.
    ///
    /// # Errors
    /// The system gives no threads or no randomness.
    pub fn gather(listeners: &[SocketAddr], count: usize) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let mut crew = Crew::new();
        let hello = Arc::new(first_flight()?);
        for thread in 0..THREADS {
            let (shared, hello, listeners) = (shared.clone(), hello.clone(), listeners.to_vec());
            let share = count / THREADS + usize::from(thread < count % THREADS);
            crew.start("strangers", move |stop| {
                let mut part = Part { shared: &shared, hello: &hello, open: Vec::new(), next: thread };
                part.run(&listeners, share, stop);
            })?;
        }
        Ok(Self { shared, _crew: crew })
    }

    /// What they did so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            opened: of(&self.shared.opened),
            ended: of(&self.shared.ended),
            most: of(&self.shared.most),
            refused: of(&self.shared.refused),
        }
    }
}

/// The first bytes of a client that would be honest.
fn first_flight() -> io::Result<Vec<u8>> {
    let mut tls = client_session(client(&Shown::own(&draw_seed()?), TLS13)?)?;
    let mut flight = Vec::new();
    while tls.wants_write() {
        tls.write_tls(&mut flight)?;
    }
    Ok(flight)
}

struct Dripping {
    stream: TcpStream,
    said: usize,
    last: Instant,
}

struct Part<'a> {
    shared: &'a Shared,
    hello: &'a [u8],
    open: Vec<Dripping>,
    next: usize,
}

impl Part<'_> {
    fn run(&mut self, listeners: &[SocketAddr], share: usize, stop: &AtomicBool) {
        let mut looked = Instant::now();
        while !stop.load(Ordering::Relaxed) {
            if self.open.len() < share {
                self.join(listeners);
            } else {
                std::thread::sleep(Duration::from_millis(20));
            }
            if looked.elapsed() >= DRIP / 4 {
                looked = Instant::now();
                self.drip();
            }
        }
    }

    fn join(&mut self, listeners: &[SocketAddr]) {
        let Some(to) = listeners.get(self.next % listeners.len().max(1)) else { return };
        self.next = self.next.wrapping_add(1);
        let joined = TcpStream::connect_timeout(to, CONNECT);
        let Ok(stream) = joined.and_then(|stream| stream.set_nonblocking(true).map(|()| stream)) else {
            self.shared.refused.fetch_add(1, Ordering::Relaxed);
            return;
        };
        self.open.push(Dripping { stream, said: 0, last: Instant::now() });
        self.shared.opened.fetch_add(1, Ordering::Relaxed);
        let open = self.shared.open.fetch_add(1, Ordering::Relaxed) + 1;
        self.shared.most.fetch_max(open, Ordering::Relaxed);
    }

    /// Gives each connection whose time has come its next byte, and forgets those that ended.
    fn drip(&mut self) {
        let before = self.open.len();
        let hello = self.hello;
        self.open.retain_mut(|one| {
            let mut answer = [0; 64];
            let ended = match one.stream.read(&mut answer) {
                Ok(0) => true,
                Ok(_) => false,
                Err(why) => why.kind() != io::ErrorKind::WouldBlock,
            };
            if ended {
                return false;
            }
            if one.last.elapsed() < DRIP {
                return true;
            }
            one.last = Instant::now();
            let byte = hello.get(one.said).copied().unwrap_or(0);
            one.said += 1;
            one.stream.write(&[byte]).is_ok()
        });
        let ended = (before - self.open.len()) as u64;
        self.shared.ended.fetch_add(ended, Ordering::Relaxed);
        self.shared.open.fetch_sub(ended, Ordering::Relaxed);
    }
}

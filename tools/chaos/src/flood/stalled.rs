//! Readers that ask and do not read.

use std::io::{self, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use synod_crypto::Seed;

use super::thread::Crew;
use crate::stranger::member_link;

/// How long one write may wait.
const PATIENCE: Duration = Duration::from_millis(500);
/// Pause between two looks.
const AGAIN: Duration = Duration::from_millis(100);
/// How long a reader that was closed stays away.
const AWAY: Duration = Duration::from_secs(5);
/// Questions of a reader. Their answers are more than the buffers of a connection hold.
const QUESTIONS: usize = 64;

/// Readers that stall; ends when dropped.
pub struct Stalled {
    asked: Arc<AtomicU64>,
    _crew: Crew,
}

impl Stalled {
    /// `each` Redis clients at every gateway that ask 64 times for the value of `key` and read nothing, for ever or until
    /// they are closed, and the member `member` with a link to every node from which it reads nothing.
    ///
    /// # Errors
    /// The system gives no threads, or a node does not introduce itself.
    pub fn start(
        nodes: &[(SocketAddr, SocketAddr)],
        each: usize,
        key: &str,
        member: &Seed,
    ) -> io::Result<Self> {
        let asked = Arc::new(AtomicU64::new(0));
        let mut crew = Crew::new();
        let question = format!("*2\r\n$3\r\nGET\r\n${}\r\n{key}\r\n", key.len()).repeat(QUESTIONS);
        for (peers, resp) in nodes.iter().copied() {
            let (question, asked) = (question.clone(), asked.clone());
            crew.start("stalled", move |stop| {
                let mut places: Vec<Place> = (0..each).map(|_| Place::Free(Instant::now())).collect();
                while !stop.load(Ordering::Relaxed) {
                    for place in &mut places {
                        let before = matches!(place, Place::Free(_));
                        place.step(resp, question.as_bytes());
                        if before && matches!(place, Place::Mute(_)) {
                            asked.fetch_add(QUESTIONS as u64, Ordering::Relaxed);
                        }
                    }
                    std::thread::sleep(AGAIN);
                }
            })?;
            let card = crate::poison::learned(peers, member)?.of(member.public(), 9);
            let own = member.clone();
            crew.start("mute", move |stop| {
                while !stop.load(Ordering::Relaxed) {
                    let linked = member_link(peers, &card, &own, PATIENCE);
                    // Held, and not read from, for as long as the node keeps it.
                    while let Ok(Ok([main, _bulk])) = &linked {
                        if stop.load(Ordering::Relaxed) || is_closed(main.stream()) {
                            break;
                        }
                        std::thread::sleep(AGAIN);
                    }
                    std::thread::sleep(AGAIN);
                }
            })?;
        }
        Ok(Self { asked, _crew: crew })
    }

    /// Questions asked so far.
    #[must_use]
    pub fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }
}

/// One reader, or its absence.
enum Place {
    /// Nobody, until then.
    Free(Instant),
    /// Asked and reads nothing.
    Mute(TcpStream),
}

impl Place {
    /// Asks, or looks whether the gateway has closed.
    fn step(&mut self, resp: SocketAddr, question: &[u8]) {
        let away = || Self::Free(Instant::now() + AWAY);
        match self {
            Self::Free(until) if Instant::now() < *until => {}
            Self::Free(_) => {
                let asked = TcpStream::connect_timeout(&resp, PATIENCE).and_then(|mut stream| {
                    stream.set_nonblocking(true)?;
                    stream.write_all(question).map(|()| stream)
                });
                *self = asked.map_or_else(|_| away(), Self::Mute);
            }
            // An empty line is no command; it cannot be written to a connection that is gone.
            Self::Mute(stream) => match stream.write(b"\r\n") {
                Err(why) if why.kind() != io::ErrorKind::WouldBlock => *self = away(),
                _ => {}
            },
        }
    }
}

/// Whether the other side reset the connection: that shows without reading what it said.
fn is_closed(stream: &TcpStream) -> bool {
    stream.take_error().is_ok_and(|error| error.is_some())
}

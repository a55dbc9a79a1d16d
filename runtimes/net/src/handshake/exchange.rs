//! The conversation itself, on either side of a fresh connection.

#![deny(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::as_conversions
)]

use std::sync::Arc;
use std::time::Duration;

use synod_crypto::{Hash, Hasher, Keys, PublicKey};
use synod_quorum::{NodeId, Roster};
use synod_wire::{Bytes, Limits as WireLimits, Wire};

use super::hello::{Expected, Greeting, Hello, Introduction, Verdict, introduce, judge, word};
use super::registry::{Applicant, Denied};
use super::{Claim, Line, Registry, Role};
use crate::clock::Clock;
use crate::frames::{LINK, LINK_MAX, QueueTable, Route, Speaker};
use crate::link::{Channel, Read, Socket};
use crate::{Error, Refusal, tls};

/// Most bytes read from a stranger.
const STRANGER_MAX: usize = 64 << 10;
/// How long a refused side may take to read why.
const LINGER: Duration = Duration::from_millis(300);

/// What this process says of itself and needs for judging others; shared by all handshakes.
pub(crate) struct Local {
    pub(crate) hello: Hello,
    pub(crate) own: NodeId,
    pub(crate) roster: Roster,
    pub(crate) keys: Arc<Keys>,
    pub(crate) registry: Registry,
    pub(crate) clock: Clock,
    pub(crate) table: Arc<QueueTable>,
    pub(crate) skew_ms: Option<u64>,
}

/// A connection whose other side is known.
pub(crate) struct Established {
    pub(crate) channel: Channel,
    pub(crate) claim: Claim,
    pub(crate) key: PublicKey,
    /// The member, or `None` for a guest.
    pub(crate) member: Option<NodeId>,
    pub(crate) line: Line,
}

impl Local {
    fn hello(&self, line: Line) -> Hello {
        Hello { line, wall: self.clock.at().wall, ..self.hello.clone() }
    }

    fn claim(&self, theirs: &Hello, they_dialled: bool) -> Result<Claim, Denied> {
        if theirs.key == self.hello.key {
            return Err(Denied::Refused(Refusal::SecondInstance));
        }
        let peer = self.roster.holder(&theirs.key).filter(|_| theirs.role == Role::Member);
        let they_are_lower = peer.is_some_and(|peer| peer < self.own);
        let by_lower = peer.is_none() || they_are_lower == they_dialled;
        let who = Applicant { key: theirs.key, line: theirs.line, instance: theirs.instance, by_lower };
        let claimed = self.registry.claim(who, self.clock.at().now);
        match &claimed {
            Ok(_) => self.registry.introduced(theirs),
            Err(Denied::Refused(Refusal::SecondInstance)) if self.registry.second(theirs) => {
                let (key, instance) = (theirs.key, theirs.instance);
                tracing::error!(code = "SYN-2109", ?key, instance, "a second live process uses this key");
            }
            Err(_) => {}
        }
        claimed
    }
}

/// Accepts a connection on a listener for `role`; `Ok(None)` when another connection stays.
///
/// # Errors
/// What ended it; the other side was told when it could be.
pub(crate) async fn accept(
    socket: Socket,
    tls: Option<rustls::Connection>,
    role: Role,
    local: &Local,
) -> Result<Option<Established>, Error> {
    let mut talk = Talk::new(socket, tls, local);
    let ended = talk.accept(role).await;
    talk.end(ended).await
}

/// Speaks first on a connection to a member whose key is `expected`; `Ok(None)` when another connection stays.
///
/// # Errors
/// What ended it; the other side was told when it could be.
pub(crate) async fn dial(
    socket: Socket,
    tls: Option<rustls::Connection>,
    call: (Line, PublicKey),
    local: &Local,
) -> Result<Option<Established>, Error> {
    let mut talk = Talk::new(socket, tls, local);
    let ended = talk.dial(call.0, call.1).await;
    talk.end(ended).await
}

struct Talk<'a> {
    channel: Channel,
    local: &'a Local,
    scratch: Vec<u8>,
    read: usize,
    closed: bool,
}

/// What the Hellos agreed on.
struct Known {
    claim: Claim,
    key: PublicKey,
    line: Line,
}

enum Stop {
    Error(Error),
    Spare,
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl<'a> Talk<'a> {
    fn new(socket: Socket, tls: Option<rustls::Connection>, local: &'a Local) -> Self {
        let scratch = vec![0; 4 << 10];
        Self { channel: Channel::new(socket, tls), local, scratch, read: 0, closed: false }
    }

    async fn accept(&mut self, role: Role) -> Result<Known, Stop> {
        let session = self.session(false).await?;
        let said: Introduction = self.hear().await?;
        // The answer is on the line that was asked for; judging compares the rest.
        let own = self.local.hello(said.hello.line);
        let expected = Expected {
            own: &own,
            role,
            key: self.proved(),
            skew_ms: self.local.skew_ms,
            session,
            dialled: true,
        };
        let judged = self.judge(&said, &expected);
        self.introduce(own, session, false);
        let known = self.verdict(&said.hello, judged, true).await?;
        self.told().await?;
        Ok(known)
    }

    async fn dial(&mut self, line: Line, key: PublicKey) -> Result<Known, Stop> {
        let session = self.session(true).await?;
        let own = self.local.hello(line);
        self.introduce(own.clone(), session, true);
        self.flush().await?;
        let said: Introduction = self.hear().await?;
        let refused = self.told().await;
        let expected = Expected {
            own: &own,
            role: Role::Member,
            key: Some(key),
            skew_ms: self.local.skew_ms,
            session,
            dialled: false,
        };
        refused?;
        let judged = self.judge(&said, &expected);
        self.verdict(&said.hello, judged, false).await
    }

    /// The key that TLS proved.
    fn proved(&self) -> Option<PublicKey> {
        self.channel.tls.as_ref().and_then(|tls| tls::peer_key(tls))
    }

    fn judge(&self, said: &Introduction, expected: &Expected<'_>) -> Result<(), Error> {
        judge(said, expected, &self.local.keys)?;
        let known = self.local.roster.holder(&said.hello.key).is_some();
        if said.hello.role == Role::Member && !known {
            return Err(Error::refuse(Refusal::UnknownKey, format!("{:?} is no member", said.hello.key)));
        }
        if said.hello.role == Role::Guest && synod_crypto::check_key(&said.hello.key).is_err() {
            return Err(Error::refuse(Refusal::UnknownKey, "the guest's key may not be registered"));
        }
        Ok(())
    }

    fn introduce(&mut self, own: Hello, session: [u8; 32], dialled: bool) {
        let greeting = Greeting::new(session, dialled, &own);
        let said = introduce(own, greeting, &self.local.keys);
        self.say(&said);
    }

    /// Says the verdict on the other side and turns it into a result.
    async fn verdict(
        &mut self,
        theirs: &Hello,
        judged: Result<(), Error>,
        they_dialled: bool,
    ) -> Result<Known, Stop> {
        let claimed = match judged {
            Ok(()) => self.local.claim(theirs, they_dialled),
            Err(error) => {
                self.say(&Verdict(error.code()));
                let _ = self.flush().await;
                return Err(error.into());
            }
        };
        let (verdict, stop) = match claimed {
            Ok(claim) => {
                self.say(&Verdict::ADMITTED);
                self.flush().await?;
                return Ok(Known { claim, key: theirs.key, line: theirs.line });
            }
            Err(Denied::Spare) => (Verdict::SPARE, Stop::Spare),
            Err(Denied::Refused(refusal)) => {
                (Verdict(refusal.code()), Error::refuse(refusal, "the key is in use").into())
            }
            Err(Denied::Penalty) => (Verdict::PENALTY, refused("the key is in its penalty").into()),
        };
        self.say(&verdict);
        let _ = self.flush().await;
        Err(stop)
    }

    /// Hears the verdict of the other side.
    async fn told(&mut self) -> Result<(), Stop> {
        match self.hear::<Verdict>().await? {
            Verdict::ADMITTED => Ok(()),
            Verdict::SPARE => Err(Stop::Spare),
            Verdict(code) => Err(match Refusal::from_code(code) {
                Some(refusal) => Error::refused_by_peer(refusal, "see the peer's log").into(),
                None => refused(&format!("the peer answered SYN-{code}")).into(),
            }),
        }
    }

    /// Completes TLS; the bytes that name this session.
    async fn session(&mut self, dialled: bool) -> Result<[u8; 32], Error> {
        if self.channel.tls.is_some() {
            while self.channel.tls.as_ref().is_some_and(|tls| tls.is_handshaking()) {
                self.flush().await?;
                if self.channel.tls.as_ref().is_some_and(|tls| tls.is_handshaking()) {
                    self.fill().await?;
                }
            }
            self.flush().await?;
            let session = self.channel.tls.as_ref().and_then(|tls| tls::exporter(tls));
            return session.ok_or_else(|| Error::refuse(Refusal::TlsAlert, "no exporter"));
        }
        let mine = Hash(nonce());
        self.say(&mine);
        self.flush().await?;
        let theirs: Hash = self.hear().await?;
        if mine == theirs {
            return Err(Error::refuse(Refusal::UnknownKey, "a reflected nonce"));
        }
        let (first, second) = if dialled { (mine, theirs) } else { (theirs, mine) };
        Ok(Hasher::new("synod plain session").add(&first.0).add(&second.0).finish().0)
    }

    fn say<T: Wire>(&mut self, value: &T) {
        let body = word(value);
        assert!(body.len() <= 1_024, "words of the handshake are short");
        self.channel.outward.put(Route { machine: LINK, queue: 0 }, body);
    }

    async fn hear<T: Wire>(&mut self) -> Result<T, Error> {
        loop {
            if let Some(body) = self.word()? {
                let limits = WireLimits { frame_max: LINK_MAX };
                return T::decode(body, &limits).map_err(|why| {
                    // A Hello that does not decode is of a format this build does not know.
                    Error::refuse(Refusal::VersionSkew, why.to_string())
                });
            }
            self.fill().await?;
        }
    }

    fn word(&mut self) -> Result<Option<Bytes>, Error> {
        match self.channel.frame(&self.local.table, Speaker::Member) {
            Ok(Some((Route { machine: LINK, queue: 0 }, body))) => Ok(Some(body)),
            Ok(None) => Ok(None),
            Ok(Some((route, _))) => {
                Err(Error::refuse(Refusal::VersionSkew, format!("{route:?} before the verdict")))
            }
            Err(bad) => Err(Error::refuse(Refusal::VersionSkew, format!("{bad:?}"))),
        }
    }

    async fn fill(&mut self) -> Result<(), Error> {
        loop {
            if self.closed {
                return Err(refused("closed in the handshake"));
            }
            match self.channel.read(&mut self.scratch)? {
                Read::Bytes(count) => {
                    self.read = self.read.saturating_add(count);
                    if self.read > STRANGER_MAX {
                        return Err(refused("too many bytes before the verdict"));
                    }
                    return Ok(());
                }
                Read::Closed => self.closed = true,
                Read::Blocked => {
                    self.channel.socket.readable().await.map_err(broken)?;
                    continue;
                }
            }
            // What came before the end may hold the peer's last word.
            return Ok(());
        }
    }

    async fn flush(&mut self) -> Result<(), Error> {
        while self.channel.wants_write() {
            if self.channel.write()?.blocked {
                self.channel.socket.writable().await.map_err(broken)?;
            }
        }
        Ok(())
    }

    /// Gives the connection over, or lets the other side read why not before the socket closes.
    async fn end(mut self, ended: Result<Known, Stop>) -> Result<Option<Established>, Error> {
        let stop = match ended {
            Ok(Known { claim, key, line }) => {
                let member = self.local.roster.holder(&key);
                return Ok(Some(Established { channel: self.channel, claim, key, member, line }));
            }
            Err(stop) => stop,
        };
        // The alert or verdict may still be queued.
        self.channel.goodbye();
        self.channel.socket.shutdown().await;
        let _ = tokio::time::timeout(LINGER, self.linger()).await;
        match stop {
            Stop::Error(error) => Err(error),
            Stop::Spare => Ok(None),
        }
    }

    /// Closing with unread bytes would reset the connection and take our last word with it.
    async fn linger(&mut self) {
        while self.read <= STRANGER_MAX && !self.closed {
            match self.channel.drain(&mut self.scratch) {
                Read::Bytes(count) => self.read = self.read.saturating_add(count.max(1)),
                Read::Blocked if self.channel.socket.readable().await.is_ok() => {}
                Read::Blocked | Read::Closed => break,
            }
        }
    }
}

fn broken(source: std::io::Error) -> Error {
    Error::Refused { address: "peer".to_owned(), source }
}

fn refused(why: &str) -> Error {
    Error::Refused { address: "peer".to_owned(), source: std::io::Error::other(why.to_owned()) }
}

/// 32 bytes nobody can guess.
pub(crate) fn nonce() -> [u8; 32] {
    let mut out = [0; 32];
    // Without randomness there is no security to continue with.
    assert!(aws_lc_rs::rand::fill(&mut out).is_ok(), "the operating system gives randomness");
    out
}

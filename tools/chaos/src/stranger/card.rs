//! The words of the handshake, filled in by hand.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use synod_crypto::{Hash, Keys, PublicKey, Scope, Seed};
use synod_net::foreign::{self, Greeting, Hello, Introduction, LINK, LINK_MAX, Line as Which, Role, Verdict};
use synod_quorum::NodeId;
use synod_wire::{Limits, List, Wire};

use super::{End, Line, Shown, TLS13, client};

/// What a handshake is filled with: the Hello of the node under attack, with the changes of the attacker.
#[derive(Clone, Debug)]
pub struct Card {
    /// What is said.
    pub hello: Hello,
}

impl Card {
    /// Learns what a sound Hello of the node's cluster looks like from the node itself, which introduces itself to
    /// whoever proved a key of the roster. It refuses the caller, which names no machines.
    ///
    /// # Errors
    /// How the connection ended instead.
    pub fn learn(line: &mut Line, seed: &Seed) -> Result<Self, End> {
        let blank = Hello {
            oldest: 1,
            newest: u8::MAX,
            cluster: Hash::of(b""),
            name: Default::default(),
            epoch: synod_quorum::Epoch(0),
            role: Role::Member,
            line: Which::Main,
            machines: List::default(),
            instance: 0,
            wall: Default::default(),
            key: seed.public(),
        };
        line.shake()?;
        Self { hello: blank }.say(line, seed, true)?;
        let said: Introduction = hear(line)?;
        Ok(Self { hello: said.hello })
    }

    /// The same for the holder of another key, as a process of its own.
    #[must_use]
    pub fn of(&self, key: PublicKey, instance: u64) -> Self {
        Self { hello: Hello { key, instance, ..self.hello.clone() } }
    }

    /// The same in another role.
    #[must_use]
    pub fn as_role(mut self, role: Role) -> Self {
        self.hello.role = role;
        self
    }

    /// The same for the connection of bulk data.
    #[must_use]
    pub fn bulk(mut self) -> Self {
        self.hello.line = Which::Bulk;
        self
    }

    /// The introduction of this card, signed with `signer` for one session.
    #[must_use]
    pub fn introduction(&self, session: [u8; 32], signer: &Seed, dialled: bool) -> Introduction {
        let hello = Hash::of_value("synod hello", &self.hello);
        let scope = Scope { cluster: self.hello.cluster, epoch: self.hello.epoch };
        let greeting = Greeting { session, dialled, hello };
        // The batch secret matters to who verifies, and nobody does here.
        let keys = Keys::ed25519(signer, [0; 32]);
        let signature = keys.sign(scope, NodeId::GUESTS, greeting).signature;
        Introduction { hello: self.hello.clone(), signature }
    }

    /// Says it, signed with `signer` for this session.
    ///
    /// # Errors
    /// How the connection ended instead.
    pub fn say(&self, line: &mut Line, signer: &Seed, dialled: bool) -> Result<(), End> {
        let session = line.session().ok_or_else(|| End::Broken("TLS is not complete".to_owned()))?;
        tell(line, &self.introduction(session, signer, dialled))
    }

    /// Completes TLS, says it, and hears what the node says of it.
    #[must_use]
    pub fn present(&self, line: &mut Line, signer: &Seed) -> End {
        let said = line.shake().and_then(|()| self.say(line, signer, true));
        said.map_or_else(|end| end, |()| verdict(line))
    }
}

/// Opens both lines of a member's link, main and bulk, as the process that `card` describes: a node takes frames of a
/// member only once both are there. The inner error says how one of them ended instead.
///
/// # Errors
/// The node does not listen.
pub fn member_link(
    to: SocketAddr,
    card: &Card,
    seed: &Seed,
    patience: Duration,
) -> io::Result<Result<[Line; 2], End>> {
    let open = |card: &Card| link(to, card, seed, patience);
    let main = match open(card)? {
        Ok(main) => main,
        Err(end) => return Ok(Err(end)),
    };
    Ok(open(&card.clone().bulk())?.map(|bulk| [main, bulk]))
}

/// Opens one line and completes its handshake. The inner error says how it ended instead.
///
/// # Errors
/// The node does not listen.
pub fn link(to: SocketAddr, card: &Card, seed: &Seed, patience: Duration) -> io::Result<Result<Line, End>> {
    let mut line = Line::dial(to, client(&Shown::own(seed), TLS13)?, patience)?;
    Ok(match card.present(&mut line, seed) {
        End::Admitted => tell(&mut line, &Verdict(0)).map(|()| line),
        end => Err(end),
    })
}

/// Hears how the node introduces itself, and its verdict.
pub fn verdict(line: &mut Line) -> End {
    match hear::<Introduction>(line).and_then(|_| hear::<Verdict>(line)) {
        Ok(Verdict(0)) => End::Admitted,
        Ok(Verdict(code)) => End::Verdict(code),
        Err(end) => end,
    }
}

/// Says one word of the handshake.
///
/// # Errors
/// How the connection ended instead.
pub fn tell<T: Wire>(line: &mut Line, word: &T) -> Result<(), End> {
    let frame = foreign::frame(LINK, 0, &word.encode());
    line.say(&frame.ok_or_else(|| End::Broken("a word longer than any frame".to_owned()))?)
}

/// Hears one word of the handshake.
///
/// # Errors
/// How the connection ended instead.
pub fn hear<T: Wire>(line: &mut Line) -> Result<T, End> {
    let (_, _, body) = line.frame()?;
    T::decode(body.into(), &Limits { frame_max: LINK_MAX })
        .map_err(|why| End::Broken(format!("a word that does not decode: {why}")))
}

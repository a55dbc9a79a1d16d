//! The words of the handshake and the pure rules that judge them.

#![deny(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::as_conversions
)]

use synod_crypto::{Claim, Hash, Keys, PublicKey, Scope, Signature, Statement};
use synod_machine::{Wall, planted};
use synod_quorum::{Epoch, NodeId};
use synod_wire::{Blob, List, Wire, wire};

use crate::{Error, Refusal};

/// Oldest format of frames and messages this build speaks.
const OLDEST: u8 = 1;
/// Newest format of frames and messages this build speaks.
const NEWEST: u8 = 1;

wire! {
    /// What a process is to the cluster.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Role {
        /// Holds a key of the roster.
        0 = Member,
        /// Holds any key: a client, proxy or load generator.
        1 = Guest,
    }

    /// Which of a pair's two connections this is.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Line {
        /// Every queue but bulk.
        0 = Main,
        /// Queue 2.
        1 = Bulk,
    }

    /// How a process introduces itself.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Hello {
        /// Oldest format it speaks.
        pub oldest: u8,
        /// Newest format it speaks.
        pub newest: u8,
        /// Digest of its genesis.
        pub cluster: Hash,
        /// Its cluster's name.
        pub name: Blob<64>,
        /// Its epoch.
        pub epoch: Epoch,
        /// What it is.
        pub role: Role,
        /// Which connection this is.
        pub line: Line,
        /// The machines of its plan.
        pub machines: List<u8, 64>,
        /// Drawn at start; tells two lives of a key apart.
        pub instance: u64,
        /// Its wall clock.
        pub wall: Wall,
        /// Its key; equals the one TLS proved.
        pub key: PublicKey,
    }

    /// A Hello with its signature.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Introduction {
        /// What is said.
        pub hello: Hello,
        /// Over [`Greeting`].
        pub signature: Signature,
    }

    /// What is signed: the session, the side of it, and the Hello.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Greeting {
        /// Bytes exported by the session.
        pub session: [u8; 32],
        /// Whether the signer dialled; a reflected greeting is of the wrong side.
        pub dialled: bool,
        /// Digest of the Hello.
        pub hello: Hash,
    }

    /// The end of the handshake: 0 admits, 1 says that another connection stays, others are SYN codes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Verdict(pub u16);
}

wire! {
    /// What a link says of itself once it is up.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Beat {
        /// Asks for an answer; carries the asker's monotonic nanoseconds.
        0 = Ask(u64),
        /// Gives the number back.
        1 = Answer(u64),
    }
}

impl Verdict {
    pub(crate) const ADMITTED: Self = Self(0);
    pub(crate) const SPARE: Self = Self(1);
    /// The key's holder is in its penalty.
    pub(crate) const PENALTY: Self = Self(2_001);
}

impl Statement for Greeting {
    // Protocol 0 is the runtime's own.
    const PROTOCOL: u8 = 0;
    const VERSION: u8 = 1;
    fn kind(&self) -> u16 {
        2_100
    }
}

impl Greeting {
    pub(crate) fn new(session: [u8; 32], dialled: bool, hello: &Hello) -> Self {
        Self { session, dialled, hello: Hash::of_value("synod hello", hello) }
    }
}

/// Signs a Hello for one session.
pub(crate) fn introduce(hello: Hello, greeting: Greeting, keys: &Keys) -> Introduction {
    let scope = Scope { cluster: hello.cluster, epoch: hello.epoch };
    let signature = keys.sign(scope, NodeId::GUESTS, greeting).signature;
    Introduction { hello, signature }
}

/// What this side wants to hear.
pub(crate) struct Expected<'a> {
    /// The own Hello on this line.
    pub(crate) own: &'a Hello,
    /// The role the other side must have.
    pub(crate) role: Role,
    /// The key TLS proved, or the one that was dialled; `None` on plain transports that were accepted.
    pub(crate) key: Option<PublicKey>,
    /// The largest difference of wall clocks, in milliseconds.
    pub(crate) skew_ms: Option<u64>,
    /// The session, seen from the other side.
    pub(crate) session: [u8; 32],
    /// Whether the other side dialled.
    pub(crate) dialled: bool,
}

/// Judges an introduction, cheapest rule first.
///
/// # Errors
/// [`Error::Handshake`] names the first rule that is broken.
pub(crate) fn judge(said: &Introduction, expected: &Expected<'_>, keys: &Keys) -> Result<(), Error> {
    let (theirs, own) = (&said.hello, expected.own);
    if theirs.newest < own.oldest || own.newest < theirs.oldest {
        let detail =
            format!("theirs {}..{}, mine {}..{}", theirs.oldest, theirs.newest, own.oldest, own.newest);
        return Err(Error::refuse(Refusal::VersionSkew, detail));
    }
    if theirs.cluster != own.cluster {
        let refusal = if theirs.name == own.name { Refusal::GenesisDiffers } else { Refusal::WrongCluster };
        let detail = format!("theirs {}, mine {}", theirs.cluster, own.cluster);
        return Err(Error::refuse(refusal, detail));
    }
    let line = theirs.line == own.line && (theirs.role == Role::Member || theirs.line == Line::Main);
    if theirs.role != expected.role || !line {
        let detail = format!("theirs {:?} {:?}, wanted {:?}", theirs.role, theirs.line, expected.role);
        return Err(Error::refuse(Refusal::WrongRole, detail));
    }
    let members = theirs.role == Role::Member && own.role == Role::Member;
    if members && theirs.epoch != own.epoch {
        let detail = format!("theirs {}, mine {}", theirs.epoch.0, own.epoch.0);
        return Err(Error::refuse(Refusal::OldEpoch, detail));
    }
    if members && *theirs.machines != *own.machines {
        let detail = format!("machines: theirs {:?}, mine {:?}", &*theirs.machines, &*own.machines);
        return Err(Error::refuse(Refusal::GenesisDiffers, detail));
    }
    let apart = theirs.wall.0.abs_diff(own.wall.0);
    if members && expected.skew_ms.is_some_and(|bound| apart > bound) {
        return Err(Error::refuse(Refusal::ClockSkew, format!("measured {apart} ms")));
    }
    if expected.key.is_some_and(|key| !planted!(G6) && key != theirs.key) {
        return Err(Error::refuse(Refusal::UnknownKey, format!("the Hello names {:?}", theirs.key)));
    }
    let claim = Claim {
        statement: Greeting::new(expected.session, expected.dialled, theirs),
        scope: Scope { cluster: theirs.cluster, epoch: theirs.epoch },
        signer: NodeId::GUESTS,
        // Equal to the one in the Hello; where TLS proved a key, that one signs.
        key: expected.key.unwrap_or(theirs.key),
        signature: said.signature,
    };
    match claim.verify(keys) {
        Ok(_) => Ok(()),
        Err(_) => Err(Error::refuse(Refusal::UnknownKey, "the Hello is not signed for this session")),
    }
}

/// Oldest and newest format this build speaks.
pub(crate) const fn versions() -> (u8, u8) {
    (OLDEST, NEWEST)
}

/// A name that fits a Hello.
pub(crate) fn name(text: &str) -> Result<Blob<64>, Error> {
    Blob::try_from(synod_wire::Bytes::copy_from_slice(text.as_bytes()))
        .map_err(|_| Error::Config("a cluster's name has at most 64 bytes".to_owned()))
}

/// Encodes one word of the handshake.
pub(crate) fn word<T: Wire>(value: &T) -> synod_wire::Bytes {
    value.encode()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datagram::exchange::Vouched;
    use synod_crypto::Seed;

    synod_wire::conformance!(Role, Line, Hello, Introduction, Greeting, Verdict, Beat, Vouched);

    const SESSION: [u8; 32] = [5; 32];

    fn keys(n: u8) -> Keys {
        Keys::ed25519(&Seed::new([n; 32]), [0; 32])
    }

    fn hello(n: u8) -> Hello {
        Hello {
            oldest: 1,
            newest: 2,
            cluster: Hash::of(b"cluster"),
            name: name("prod").expect("short"),
            epoch: Epoch(3),
            role: Role::Member,
            line: Line::Main,
            machines: List::try_from(vec![0, 1]).expect("two"),
            instance: 9,
            wall: Wall(1_000_000),
            key: Seed::new([n; 32]).public(),
        }
    }

    fn verdict(theirs: Hello, session: [u8; 32], dialled: bool) -> Option<u16> {
        let own = hello(1);
        let greeting = Greeting::new(session, dialled, &theirs);
        let said = introduce(theirs, greeting, &keys(2));
        let expected = Expected {
            own: &own,
            role: Role::Member,
            key: Some(Seed::new([2; 32]).public()),
            skew_ms: Some(500),
            session: SESSION,
            dialled: true,
        };
        judge(&said, &expected, &keys(1)).err().map(|error| error.code())
    }

    #[test]
    fn a_good_hello_is_admitted() {
        assert_eq!(verdict(hello(2), SESSION, true), None);
    }

    #[test]
    fn each_mismatch_has_its_code() {
        let other = Hash::of(b"other");
        let cases: [(Hello, u16); 9] = [
            (Hello { cluster: other, name: name("test").expect("short"), ..hello(2) }, 2_101),
            (Hello { cluster: other, ..hello(2) }, 2_103),
            (Hello { epoch: Epoch(2), ..hello(2) }, 2_104),
            (Hello { oldest: 3, newest: 4, ..hello(2) }, 2_105),
            (Hello { wall: Wall(1_000_501), ..hello(2) }, 2_107),
            (Hello { role: Role::Guest, ..hello(2) }, 2_108),
            (Hello { line: Line::Bulk, ..hello(2) }, 2_108),
            (Hello { machines: List::default(), ..hello(2) }, 2_103),
            (Hello { key: Seed::new([3; 32]).public(), ..hello(2) }, 2_102),
        ];
        for (theirs, code) in cases {
            assert_eq!(verdict(theirs.clone(), SESSION, true), Some(code), "{theirs:?}");
        }
        assert_eq!(verdict(Hello { wall: Wall(1_000_500), ..hello(2) }, SESSION, true), None);
    }

    #[test]
    fn a_hello_of_another_session_or_reflected_is_refused() {
        assert_eq!(verdict(hello(2), [6; 32], true), Some(2_102));
        assert_eq!(verdict(hello(2), SESSION, false), Some(2_102));
    }
}

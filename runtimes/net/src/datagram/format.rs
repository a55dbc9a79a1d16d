//! Layouts: the words of the handshake, and the datagrams of a link.
//!
//! A datagram of a link is a header of 16 bytes, a body and a tag of 16 bytes. The first four bytes of the body stand in
//! the header (a message's type, version and flags), so that a body costs 28 bytes and no more; bodies are opaque here.
//! First bytes from 240 on are the handshake's own, so no body may begin with one.
//!
//! *Bounds.* A datagram has at most 1,200 bytes. Nothing is allocated but the body of an authentic datagram.

#![deny(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::as_conversions
)]

use core::fmt;

use synod_crypto::{Hash, HashKey, Hasher, Signature};
use synod_wire::Bytes;

/// Longest datagram, in bytes: no network that carries IPv6 cuts it up.
pub const DATAGRAM_MAX: usize = 1_200;
/// Longest body of a datagram, in bytes.
pub const BODY_MAX: usize = DATAGRAM_MAX - OVERHEAD;
/// Shortest body of a datagram, in bytes.
pub const BODY_MIN: usize = 4;

/// Bytes of a datagram that are not its body's.
pub(crate) const OVERHEAD: usize = HEADER - BODY_MIN + TAG;
/// Bytes of HELLO and PROVE, most of them padding: what is sent unasked is longer than any answer to it.
pub(crate) const PADDED: usize = 160;
/// Bytes of COOKIE.
pub(crate) const COOKIE: usize = HEADER + 32;
/// Bytes of ACCEPT.
pub(crate) const ACCEPT: usize = HEADER + 4 + 32 + 64;

const HEADER: usize = 16;
const TAG: usize = 16;
const VERSION: u8 = 1;
const HELLO_TYPE: u8 = 240;
const COOKIE_TYPE: u8 = 241;
const PROVE_TYPE: u8 = 242;
const ACCEPT_TYPE: u8 = 243;

/// Why a datagram was dropped. It is counted and never answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Dropped {
    /// Longer than any datagram.
    Oversize,
    /// Shorter than its kind.
    Truncated,
    /// A type, version, flag or padding that this version does not know.
    Format,
    /// Of no link or handshake that is known here, or not from its address.
    Unknown,
    /// Its tag is not that of the link's key.
    Tag,
    /// Its number was seen before, or is too old to tell.
    Replayed,
    /// The cookie is not the one of this address, greeting and time.
    Cookie,
    /// An acceptance that the acceptor's key did not sign.
    Forged,
    /// A handshake above the rate of its address or of the node.
    Busy,
}

impl Dropped {
    /// Every reason.
    pub const ALL: [Self; 9] = [
        Self::Oversize,
        Self::Truncated,
        Self::Format,
        Self::Unknown,
        Self::Tag,
        Self::Replayed,
        Self::Cookie,
        Self::Forged,
        Self::Busy,
    ];

    /// The word in metrics.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Oversize => "oversize",
            Self::Truncated => "truncated",
            Self::Format => "format",
            Self::Unknown => "unknown_link",
            Self::Tag => "tag",
            Self::Replayed => "replayed",
            Self::Cookie => "cookie",
            Self::Forged => "forged",
            Self::Busy => "busy",
        }
    }
}

impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// Names a handshake; every word of it carries the dialler's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket {
    /// Which of the dialler's links.
    pub place: u32,
    /// Drawn for each attempt: whoever does not see the dialler's datagrams cannot answer them.
    pub attempt: u64,
}

/// What a dialler says first, and again with the cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    /// Names the handshake.
    pub ticket: Ticket,
    /// Drawn for each attempt.
    pub random: [u8; 32],
    /// The dialler's X25519 share.
    pub share: [u8; 32],
}

impl Opening {
    /// The digest that the cookie, and later the acceptor's signature, stand for.
    #[must_use]
    pub fn digest(&self) -> Hash {
        let mut hasher = Hasher::new("synod link opening");
        hasher.add(&self.ticket.place.to_le_bytes()).add(&self.ticket.attempt.to_le_bytes());
        hasher.add(&self.random).add(&self.share);
        hasher.finish()
    }
}

/// What an acceptor says once the cookie came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acceptance {
    /// Names the handshake.
    pub ticket: Ticket,
    /// The number of the link, below 2^31.
    pub link: u32,
    /// The acceptor's X25519 share.
    pub share: [u8; 32],
    /// Over the whole conversation.
    pub signature: Signature,
}

/// A datagram by its kind, before anything of it is believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Datagram<'a> {
    /// Dialler to acceptor: who wants a link. 160 bytes, most of them zero.
    Hello(Opening),
    /// Acceptor to dialler: show this to be heard. 48 bytes.
    Cookie {
        /// Names the handshake.
        ticket: Ticket,
        /// Only the acceptor can make it, and only the holder of the address reads it.
        cookie: [u8; 32],
    },
    /// Dialler to acceptor: the greeting again, with the cookie. 160 bytes.
    Prove {
        /// The greeting.
        opening: Opening,
        /// The cookie.
        cookie: [u8; 32],
    },
    /// Acceptor to dialler: the link is there. 116 bytes.
    Accept(Acceptance),
    /// Either way: a body on a link.
    Sealed(Sealed<'a>),
}

/// A datagram of a link, not yet checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sealed<'a> {
    /// The link it names.
    pub link: u32,
    /// Its number within the link and direction.
    pub sequence: u64,
    head: [u8; BODY_MIN],
    fields: &'a [u8],
    authentic: &'a [u8],
    tag: [u8; TAG],
}

/// The front of what is left, which it takes.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Dropped> {
        let (front, rest) = self.0.split_first_chunk::<N>().ok_or(Dropped::Truncated)?;
        self.0 = rest;
        Ok(*front)
    }

    fn u32(&mut self) -> Result<u32, Dropped> {
        self.take().map(u32::from_le_bytes)
    }

    fn ticket(&mut self) -> Result<Ticket, Dropped> {
        Ok(Ticket { place: self.u32()?, attempt: self.take().map(u64::from_le_bytes)? })
    }

    fn opening(&mut self, ticket: Ticket) -> Result<Opening, Dropped> {
        Ok(Opening { ticket, random: self.take()?, share: self.take()? })
    }

    /// What is left must be zero.
    fn zeros(&self) -> Result<(), Dropped> {
        if self.0.iter().all(|byte| *byte == 0) { Ok(()) } else { Err(Dropped::Format) }
    }
}

impl<'a> Datagram<'a> {
    /// Tells the kind of a datagram and reads its fields.
    ///
    /// # Errors
    /// [`Dropped::Oversize`], [`Dropped::Truncated`] and [`Dropped::Format`].
    pub fn read(bytes: &'a [u8]) -> Result<Self, Dropped> {
        if bytes.len() > DATAGRAM_MAX {
            return Err(Dropped::Oversize);
        }
        let mut rest = Rest(bytes);
        let head: [u8; BODY_MIN] = rest.take()?;
        let [kind, version, flag_low, flag_high] = head;
        let length = match kind {
            HELLO_TYPE | PROVE_TYPE => PADDED,
            COOKIE_TYPE => COOKIE,
            ACCEPT_TYPE => ACCEPT,
            _ if kind > ACCEPT_TYPE => return Err(Dropped::Format),
            _ => return Self::sealed(bytes, head),
        };
        if bytes.len() < length {
            return Err(Dropped::Truncated);
        }
        if bytes.len() > length || version != VERSION || flag_low != 0 || flag_high != 0 {
            return Err(Dropped::Format);
        }
        let ticket = rest.ticket()?;
        let word = match kind {
            HELLO_TYPE => Self::Hello(rest.opening(ticket)?),
            PROVE_TYPE => Self::Prove { opening: rest.opening(ticket)?, cookie: rest.take()? },
            COOKIE_TYPE => Self::Cookie { ticket, cookie: rest.take()? },
            _ => Self::Accept(Acceptance {
                ticket,
                link: rest.u32()?,
                share: rest.take()?,
                signature: Signature(rest.take()?),
            }),
        };
        rest.zeros()?;
        Ok(word)
    }

    fn sealed(bytes: &'a [u8], head: [u8; BODY_MIN]) -> Result<Self, Dropped> {
        let (authentic, tag) = bytes.split_last_chunk::<TAG>().ok_or(Dropped::Truncated)?;
        let mut rest = Rest(authentic);
        let _head: [u8; BODY_MIN] = rest.take()?;
        let (link, sequence) = (rest.u32()?, rest.take().map(u64::from_le_bytes)?);
        Ok(Self::Sealed(Sealed { link, sequence, head, fields: rest.0, authentic, tag: *tag }))
    }

    /// The bytes of a word of the handshake, or of a sealed datagram again.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Hello(opening) => {
                word(HELLO_TYPE, opening.ticket, PADDED, &[&opening.random, &opening.share])
            }
            Self::Prove { opening, cookie } => {
                word(PROVE_TYPE, opening.ticket, PADDED, &[&opening.random, &opening.share, cookie])
            }
            Self::Cookie { ticket, cookie } => word(COOKIE_TYPE, *ticket, COOKIE, &[cookie]),
            Self::Accept(acceptance) => {
                let Acceptance { ticket, link, share, signature } = acceptance;
                word(ACCEPT_TYPE, *ticket, ACCEPT, &[&link.to_le_bytes(), share, &signature.0])
            }
            Self::Sealed(sealed) => [sealed.authentic, &sealed.tag].concat(),
        }
    }
}

fn word(kind: u8, ticket: Ticket, length: usize, parts: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::with_capacity(length);
    out.extend_from_slice(&[kind, VERSION, 0, 0]);
    out.extend_from_slice(&ticket.place.to_le_bytes());
    out.extend_from_slice(&ticket.attempt.to_le_bytes());
    parts.iter().for_each(|part| out.extend_from_slice(part));
    out.resize(length, 0);
    out
}

impl<'a> Sealed<'a> {
    /// What `key` must have tagged, and the tag.
    pub(crate) const fn claim<'k>(&self, key: &'k HashKey) -> (&'k HashKey, &'a [u8], [u8; TAG]) {
        (key, self.authentic, self.tag)
    }

    /// The body of a datagram whose tag is good.
    pub(crate) fn body(&self) -> Bytes {
        [self.head.as_slice(), self.fields].concat().into()
    }

    /// The body, if `key` tagged the datagram.
    ///
    /// # Errors
    /// [`Dropped::Tag`].
    pub fn open(&self, key: &HashKey) -> Result<Bytes, Dropped> {
        if !key.tagged(&[self.authentic], &self.tag) {
            return Err(Dropped::Tag);
        }
        Ok(self.body())
    }
}

/// The datagram of a body; `None` when a datagram does not hold it, or it begins like a word of the handshake.
#[must_use]
pub fn seal(key: &HashKey, link: u32, sequence: u64, body: &[u8]) -> Option<Vec<u8>> {
    let mut out = bare(link, sequence, body)?;
    let tag = key.tag(&[&out]);
    out.extend_from_slice(&tag);
    Some(out)
}

/// The same without the tag, for which there is room.
pub(crate) fn bare(link: u32, sequence: u64, body: &[u8]) -> Option<Vec<u8>> {
    let (head, fields) = body.split_first_chunk::<BODY_MIN>()?;
    if body.len() > BODY_MAX || head.first().is_none_or(|kind| *kind >= HELLO_TYPE) {
        return None;
    }
    let mut out = Vec::with_capacity(body.len().saturating_add(OVERHEAD));
    out.extend_from_slice(head);
    out.extend_from_slice(&link.to_le_bytes());
    out.extend_from_slice(&sequence.to_le_bytes());
    out.extend_from_slice(fields);
    Some(out)
}

#[cfg(test)]
#[expect(clippy::indexing_slicing, reason = "tests know the lengths")]
mod tests {
    use super::*;

    fn ticket() -> Ticket {
        Ticket { place: 3, attempt: 0x0102_0304_0506_0708 }
    }

    fn opening() -> Opening {
        Opening { ticket: ticket(), random: [5; 32], share: [6; 32] }
    }

    fn words() -> Vec<(Vec<u8>, usize)> {
        let accept = Acceptance { ticket: ticket(), link: 9, share: [8; 32], signature: Signature([4; 64]) };
        vec![
            (Datagram::Hello(opening()).encode(), PADDED),
            (Datagram::Cookie { ticket: ticket(), cookie: [7; 32] }.encode(), COOKIE),
            (Datagram::Prove { opening: opening(), cookie: [7; 32] }.encode(), PADDED),
            (Datagram::Accept(accept).encode(), ACCEPT),
        ]
    }

    #[test]
    fn words_round_trip_and_have_the_published_sizes() {
        for (bytes, length) in words() {
            assert_eq!(bytes.len(), length);
            assert_eq!(Datagram::read(&bytes).expect("whole").encode(), bytes);
        }
        assert_eq!((COOKIE, ACCEPT), (48, 116));
    }

    #[test]
    fn words_that_are_cut_lengthened_or_padded_with_anything_but_zeros_are_refused() {
        for (bytes, length) in words() {
            for cut in 0..length {
                assert_eq!(Datagram::read(&bytes[..cut]), Err(Dropped::Truncated), "{cut} of {length}");
            }
            let longer = [bytes.as_slice(), &[0]].concat();
            assert_eq!(Datagram::read(&longer), Err(Dropped::Format));
            for at in 1..4 {
                let mut other = bytes.clone();
                other[at] ^= 2;
                assert_eq!(Datagram::read(&other), Err(Dropped::Format), "byte {at}");
            }
            if length == PADDED {
                let mut other = bytes.clone();
                other[PADDED - 1] = 1;
                assert_eq!(Datagram::read(&other), Err(Dropped::Format));
            }
        }
        assert_eq!(Datagram::read(&[255; 100]), Err(Dropped::Format));
    }

    #[test]
    fn a_body_opens_under_its_key_and_no_flipped_bit_goes_unseen() {
        let key = HashKey::derive("synod test link", b"secret");
        let sealed = seal(&key, 7, 300, b"headfields").expect("short");
        assert_eq!(sealed.len(), 10 + OVERHEAD);
        let Ok(Datagram::Sealed(read)) = Datagram::read(&sealed) else { panic!("a sealed datagram") };
        assert_eq!((read.link, read.sequence), (7, 300));
        assert_eq!(read.open(&key).as_deref(), Ok(b"headfields".as_slice()));
        let other = HashKey::derive("synod test link", b"other");
        assert_eq!(read.open(&other), Err(Dropped::Tag));
        for bit in 0..8 * sealed.len() {
            let mut changed = sealed.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            match Datagram::read(&changed) {
                Ok(Datagram::Sealed(changed)) => {
                    assert_eq!(changed.open(&key), Err(Dropped::Tag), "bit {bit}")
                }
                other => assert!(other.is_err(), "bit {bit} made {other:?}"),
            }
        }
    }

    #[test]
    fn bodies_have_a_shortest_and_a_longest_and_never_look_like_a_handshake() {
        let key = HashKey::derive("synod test link", b"secret");
        for (length, good) in [(0, false), (3, false), (4, true), (BODY_MAX, true), (BODY_MAX + 1, false)] {
            let sealed = seal(&key, 1, 1, &vec![1; length]);
            assert_eq!(sealed.is_some(), good, "{length}");
            assert!(sealed.is_none_or(|sealed| sealed.len() <= DATAGRAM_MAX));
        }
        assert!(seal(&key, 1, 1, &[239; 8]).is_some());
        assert!(seal(&key, 1, 1, &[240; 8]).is_none());
        assert_eq!(Datagram::read(&[0; DATAGRAM_MAX + 1]), Err(Dropped::Oversize));
        assert_eq!(Datagram::read(&[0; 31]), Err(Dropped::Truncated));
        assert!(Datagram::read(&[0; 32]).is_ok());
    }
}

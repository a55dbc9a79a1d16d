//! Datagrams of links: the four words of the handshake, and what travels on a link.

use synod_crypto::{HashKey, Signature};
use synod_net::foreign::{Acceptance, Datagram, Opening, Ticket, seal};
use synod_wire::Drawn;

use super::some_bytes;
use crate::check::{accept, bounded};
use crate::{Kind, Target};

/// The targets of this module.
pub(crate) const TARGETS: &[Target] = &[
    Target::new("link-hello", Kind::Decoder, hello, |from| Datagram::Hello(opening(from)).encode()),
    Target::new("link-cookie", Kind::Decoder, cookie, |from| {
        Datagram::Cookie { ticket: ticket(from), cookie: array(from) }.encode()
    }),
    Target::new("link-prove", Kind::Decoder, prove, |from| {
        Datagram::Prove { opening: opening(from), cookie: array(from) }.encode()
    }),
    Target::new("link-accept", Kind::Decoder, acceptance, |from| {
        let (ticket, link) = (ticket(from), u32::from_le_bytes(array(from)));
        let signature = Signature(array(from));
        Datagram::Accept(Acceptance { ticket, link, share: array(from), signature }).encode()
    }),
    Target::new("link-sealed", Kind::Decoder, sealed, seals),
];

/// Reads a datagram that may be the dialler's greeting.
///
/// # Panics
/// With the property that broke.
pub fn hello(bytes: &[u8]) {
    word(bytes, |datagram| matches!(datagram, Datagram::Hello(_)));
}

/// Reads a datagram that may be a cookie.
///
/// # Panics
/// With the property that broke.
pub fn cookie(bytes: &[u8]) {
    word(bytes, |datagram| matches!(datagram, Datagram::Cookie { .. }));
}

/// Reads a datagram that may be the greeting with its cookie.
///
/// # Panics
/// With the property that broke.
pub fn prove(bytes: &[u8]) {
    word(bytes, |datagram| matches!(datagram, Datagram::Prove { .. }));
}

/// Reads a datagram that may be an acceptance.
///
/// # Panics
/// With the property that broke.
pub fn acceptance(bytes: &[u8]) {
    word(bytes, |datagram| matches!(datagram, Datagram::Accept(_)));
}

/// Whatever is read is written as the same bytes, and is nothing with a byte more or less.
fn word(bytes: &[u8], is_kind: impl Fn(&Datagram<'_>) -> bool) {
    let Ok(datagram) = bounded(bytes.len(), || Datagram::read(bytes)) else { return };
    if is_kind(&datagram) {
        accept();
    }
    assert!(datagram.encode() == bytes, "roundtrip: {datagram:?} was read from other bytes");
    if matches!(datagram, Datagram::Sealed(_)) {
        return;
    }
    let longer: Vec<u8> = bytes.iter().copied().chain([0]).collect();
    assert!(Datagram::read(&longer).is_err(), "a byte behind {datagram:?} was accepted");
    let shorter = bytes.split_last().map_or(bytes, |(_, shorter)| shorter);
    assert!(Datagram::read(shorter).is_err(), "{datagram:?} without its last byte was accepted");
}

fn key() -> HashKey {
    HashKey::derive("synod fuzz datagrams", b"key")
}

/// Opens a datagram of a link.
///
/// # Panics
/// When a datagram is opened that its body is not sealed as.
pub fn sealed(bytes: &[u8]) {
    let key = key();
    let opened = bounded(bytes.len(), || match Datagram::read(bytes) {
        Ok(Datagram::Sealed(sealed)) => {
            sealed.open(&key).ok().map(|body| (sealed.link, sealed.sequence, body))
        }
        _ => None,
    });
    let Some((link, sequence, body)) = opened else { return };
    accept();
    let again = seal(&key, link, sequence, &body);
    assert_eq!(again.as_deref(), Some(bytes), "roundtrip: a body is sealed otherwise");
}

fn seals(from: &mut Drawn) -> Vec<u8> {
    let (link, sequence) = (u32::from_le_bytes(array(from)), from.next());
    let body = [&[1, 2, 3, 4], some_bytes(from, 1_000).as_slice()].concat();
    seal(&key(), link, sequence, &body).unwrap_or_default()
}

fn array<const N: usize>(from: &mut Drawn) -> [u8; N] {
    core::array::from_fn(|_| from.next().to_le_bytes()[0])
}

fn ticket(from: &mut Drawn) -> Ticket {
    Ticket { place: u32::from_le_bytes(array(from)), attempt: from.next() }
}

fn opening(from: &mut Drawn) -> Opening {
    Opening { ticket: ticket(from), random: array(from), share: array(from) }
}

//! Cards: how a client gives its keys (paper 2.2).
//!
//! 240 bytes: BLS key 48, Ed25519 key 32, possession 96, Ed25519 signature 64 over SIGNUP. Decoding refuses what is
//! not canonical: coordinates at or above the field's order, wrong flags, points at infinity, Ed25519 keys of small order.
//! Whether points lie on their curve and in their group, and whether possession and signature hold, is checked where
//! BLS is.

use core::fmt;

use synod_crypto::{BadKey, PublicKey, Signature, check_key};
use synod_wire::{Draw, Drawn, Malformed, Reader, Why, Wire, Writer};

use crate::fixed::Fixed;
use crate::statement::{BlsKeyBytes, BlsSignatureBytes, Possession, SignUp};

/// Bytes of a card.
pub const CARD_BYTES: usize = 240;

/// Order of the base field of BLS12-381, big-endian.
const FIELD: [u8; 48] = [
    0x1a, 0x01, 0x11, 0xea, 0x39, 0x7f, 0xe6, 0x9a, 0x4b, 0x1b, 0xa7, 0xb6, 0x43, 0x4b, 0xac, 0xd7, 0x64,
    0x77, 0x4b, 0x84, 0xf3, 0x85, 0x12, 0xbf, 0x67, 0x30, 0xd2, 0xa0, 0xf6, 0xb0, 0xf6, 0x24, 0x1e, 0xab,
    0xff, 0xfe, 0xb1, 0x53, 0xff, 0xff, 0xb9, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xaa, 0xab,
];

/// Set in the first byte of every compressed point.
const COMPRESSED: u8 = 0x80;
/// Set for the point at infinity.
const INFINITY: u8 = 0x40;
/// The greater of the two roots.
const SIGN: u8 = 0x20;

/// The rule of encodings that a card breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CardFault {
    /// The BLS key is no canonical compressed point, or infinity.
    BlsKey,
    /// The possession is no canonical compressed point, or infinity.
    Possession,
    /// The Ed25519 key is no point, not canonical or of small order.
    EdKey,
}

impl fmt::Display for CardFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BlsKey => "the BLS key is not a canonical encoding",
            Self::Possession => "the possession is not a canonical encoding",
            Self::EdKey => "the Ed25519 key is not one that binds its owner",
        })
    }
}

impl core::error::Error for CardFault {}

/// The keys of a client, canonically encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Card {
    bls: BlsKeyBytes,
    ed: PublicKey,
    pop: BlsSignatureBytes,
    signature: Signature,
}

impl Card {
    /// A card of these parts.
    ///
    /// # Errors
    /// [`CardFault`] names the part that is not canonical.
    pub fn new(
        bls: BlsKeyBytes,
        ed: PublicKey,
        pop: BlsSignatureBytes,
        signature: Signature,
    ) -> Result<Self, CardFault> {
        if !is_point(&[&bls.0]) {
            return Err(CardFault::BlsKey);
        }
        let (first, second) = pop.0.split_at(48);
        if !is_point(&[first, second]) {
            return Err(CardFault::Possession);
        }
        match check_key(&ed) {
            Ok(()) => Ok(Self { bls, ed, pop, signature }),
            Err(BadKey::NoPoint | BadKey::NonCanonical | BadKey::SmallOrder) => Err(CardFault::EdKey),
        }
    }

    /// Reads a card.
    ///
    /// # Errors
    /// [`CardFault`] names the part that is not canonical.
    pub fn decode_bytes(bytes: &[u8; CARD_BYTES]) -> Result<Self, CardFault> {
        let part = |from: usize| bytes.get(from..).unwrap_or_default();
        let bls = part(0).first_chunk().copied().map(BlsKeyBytes).ok_or(CardFault::BlsKey)?;
        let ed = part(48).first_chunk().copied().map(PublicKey).ok_or(CardFault::EdKey)?;
        let pop = part(80).first_chunk().copied().map(BlsSignatureBytes).ok_or(CardFault::Possession)?;
        let signature = part(176).first_chunk().copied().map(Signature).ok_or(CardFault::EdKey)?;
        Self::new(bls, ed, pop, signature)
    }

    /// The 240 bytes.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; CARD_BYTES] {
        self.encode().first_chunk::<CARD_BYTES>().copied().unwrap_or([0; CARD_BYTES])
    }

    /// The BLS key.
    #[must_use]
    pub const fn bls(&self) -> &BlsKeyBytes {
        &self.bls
    }

    /// The Ed25519 key.
    #[must_use]
    pub const fn ed(&self) -> &PublicKey {
        &self.ed
    }

    /// The possession, over [`Card::possession`].
    #[must_use]
    pub const fn pop(&self) -> &BlsSignatureBytes {
        &self.pop
    }

    /// The signature of the Ed25519 key, over [`Card::sign_up`].
    #[must_use]
    pub const fn signature(&self) -> &Signature {
        &self.signature
    }

    /// What the BLS key must have signed.
    #[must_use]
    pub const fn possession(&self) -> Possession {
        Possession { bls: self.bls, ed: self.ed }
    }

    /// What the Ed25519 key must have signed.
    #[must_use]
    pub const fn sign_up(&self) -> SignUp {
        SignUp { bls: self.bls, ed: self.ed, pop: self.pop }
    }
}

/// Whether these are the coordinates of a compressed point other than infinity: flags, and each below the field's order.
fn is_point(coordinates: &[&[u8]]) -> bool {
    let flags = coordinates.first().and_then(|first| first.first()).copied().unwrap_or(0);
    let below = |(place, coordinate): (usize, &&[u8])| {
        let mask = if place == 0 { !(COMPRESSED | INFINITY | SIGN) } else { 0xff };
        let masked =
            coordinate.iter().enumerate().map(|(at, byte)| if at == 0 { byte & mask } else { *byte });
        coordinate.len() == FIELD.len() && masked.lt(FIELD)
    };
    flags & (COMPRESSED | INFINITY) == COMPRESSED && coordinates.iter().enumerate().all(below)
}

impl Wire for Card {
    fn write(&self, out: &mut Writer) {
        self.bls.put(out);
        self.ed.put(out);
        self.pop.put(out);
        self.signature.put(out);
    }
    fn read(input: &mut Reader) -> Result<Self, Malformed> {
        let refusal = input.refuse(Why::NotCanonical);
        Self::decode_bytes(&input.array()?).map_err(|_| refusal)
    }
    fn size_hint(&self) -> usize {
        CARD_BYTES
    }
}

impl Draw for Card {
    /// Coordinates below the field's order with the flags of a point; one of two sound Ed25519 keys.
    fn draw(from: &mut Drawn) -> Self {
        let mut bls = <[u8; 48]>::draw(from);
        let mut pop = <[u8; 96]>::draw(from);
        for coordinate in [&mut bls[..], &mut pop[..]] {
            coordinate[0] = COMPRESSED | coordinate[0] & (SIGN | 0x0f);
        }
        pop[48] &= 0x0f;
        let ed = if bool::draw(from) { BASE } else { DOUBLE };
        let parts = (BlsKeyBytes(bls), PublicKey(ed), BlsSignatureBytes(pop), Signature(Draw::draw(from)));
        match Self::new(parts.0, parts.1, parts.2, parts.3) {
            Ok(card) => card,
            Err(why) => unreachable!("a drawn card is canonical: {why}"),
        }
    }
}

/// Ed25519's base point, and twice it: keys that anybody may use in tests.
const BASE: [u8; 32] = {
    let mut bytes = [0x66; 32];
    bytes[0] = 0x58;
    bytes
};
const DOUBLE: [u8; 32] = [
    0xc9, 0xa3, 0xf8, 0x6a, 0xae, 0x46, 0x5f, 0x0e, 0x56, 0x51, 0x38, 0x64, 0x51, 0x0f, 0x39, 0x97, 0x56,
    0x1f, 0xa2, 0xc9, 0xe8, 0x5e, 0xa2, 0x1d, 0xc2, 0x29, 0x23, 0x09, 0xf3, 0xcd, 0x60, 0x22,
];

#[cfg(test)]
mod tests {
    use super::{CARD_BYTES, Card, CardFault, FIELD};
    use synod_wire::{Draw, Drawn};

    fn with(change: impl Fn(&mut [u8; CARD_BYTES])) -> Result<Card, CardFault> {
        let mut bytes = Card::draw(&mut Drawn::new(3)).to_bytes();
        change(&mut bytes);
        Card::decode_bytes(&bytes)
    }

    #[test]
    fn a_card_comes_back_from_its_240_bytes() {
        let card = Card::draw(&mut Drawn::new(3));
        assert_eq!(with(|_| {}).as_ref(), Ok(&card));
        assert_eq!(card.sign_up().bls, card.possession().bls);
        let mut joined = card.bls().0.to_vec();
        joined.extend(card.ed().0);
        joined.extend(card.pop().0);
        joined.extend(card.signature().0);
        assert_eq!(joined, card.to_bytes());
    }

    #[test]
    fn encodings_that_are_not_canonical_are_refused_part_by_part() {
        for (at, fault) in [(0, CardFault::BlsKey), (80, CardFault::Possession)] {
            assert_eq!(with(|b| b[at] &= 0x7f), Err(fault), "not compressed");
            assert_eq!(with(|b| b[at] |= 0x40), Err(fault), "infinity");
            let order = |b: &mut [u8; CARD_BYTES], less: u8| {
                b[at..at + 48].copy_from_slice(&FIELD);
                b[at] |= 0x80;
                b[at + 47] -= less;
            };
            assert_eq!(with(|b| order(b, 0)), Err(fault), "the order itself");
            assert!(with(|b| order(b, 1)).is_ok(), "one below the order");
            assert!(with(|b| b[at] ^= 0x20).is_ok(), "either sign");
        }
        assert_eq!(with(|b| b[128..176].copy_from_slice(&FIELD)), Err(CardFault::Possession));
        assert_eq!(with(|b| b[128] |= 0x80), Err(CardFault::Possession), "flags in the second coordinate");
        let ed = |bytes: [u8; 32]| with(|b| b[48..80].copy_from_slice(&bytes));
        assert_eq!(ed([0; 32]), Err(CardFault::EdKey), "small order");
        assert_eq!(ed([0xff; 32]), Err(CardFault::EdKey), "not canonical");
    }
}

//! Sign-up batches: cards under a header of 64 bytes, witnessed and ordered like any batch (kind 2; paper 2.2).
//!
//! *Bounds.* Cards are read one at a time from the shared body; nothing is allocated.

use synod_crypto::Hash;
use synod_quorum::Epoch;
use synod_wire::{Bytes, Draw, Drawn, Malformed, Reader, Why, Wire, Writer};

use crate::Domains;
use crate::batch::{BatchFault, Intake};
use crate::card::{CARD_BYTES, Card};
use crate::fixed::Fixed;

/// Bytes of the header.
pub const SIGN_UP_HEADER_BYTES: usize = 64;

pub(crate) const MAGIC: [u8; 4] = *b"CCS1";
const VERSION: u16 = 1;

/// What a sign-up batch says about itself. The length of its body follows from the count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignUpHeader {
    /// The broker's number in genesis, or `u32::MAX`; not trusted.
    pub broker: u32,
    /// Number of cards, above 0.
    pub count: u32,
    /// The epoch it may be witnessed in.
    pub epoch: Epoch,
    /// Height from which it may not be accepted any more.
    pub expiry: u64,
}

impl SignUpHeader {
    /// Bytes of the body.
    #[must_use]
    pub const fn body_len(&self) -> u64 {
        self.count as u64 * CARD_BYTES as u64
    }

    pub(crate) fn take_after(magic: [u8; 4], input: &mut Reader) -> Result<Self, Malformed> {
        let refusal = input.refuse(Why::NotCanonical);
        let (version, flags) = (u16::take(input)?, u16::take(input)?);
        let (broker, count) = (u32::take(input)?, u32::take(input)?);
        let (epoch, expiry) = (Epoch::take(input)?, u64::take(input)?);
        let (body_len, zero): (u32, [u8; 32]) = (Fixed::take(input)?, input.array()?);
        let header = Self { broker, count, epoch, expiry };
        let plain = magic == MAGIC && version == VERSION && flags == 0 && zero == [0; 32];
        if !plain || count == 0 || u64::from(body_len) != header.body_len() {
            return Err(refusal);
        }
        Ok(header)
    }

    /// Checks I of a sign-up batch: epoch, caps, expiry.
    ///
    /// # Errors
    /// [`BatchFault`] names the first rule that is broken.
    pub const fn intake(&self, against: &Intake) -> Result<(), BatchFault> {
        if self.epoch.0 != against.epoch.0 {
            return Err(BatchFault::Epoch);
        }
        if self.count > against.batch_max {
            return Err(BatchFault::Counts);
        }
        if self.body_len() > against.body_bytes_max as u64 {
            return Err(BatchFault::BodyLength);
        }
        against.expiry(self.expiry)
    }
}

impl Wire for SignUpHeader {
    fn write(&self, out: &mut Writer) {
        out.bytes(&MAGIC);
        VERSION.put(out);
        0_u16.put(out);
        self.broker.put(out);
        self.count.put(out);
        self.epoch.put(out);
        self.expiry.put(out);
        u32::try_from(self.body_len()).unwrap_or(u32::MAX).put(out);
        out.bytes(&[0; 32]);
    }
    fn read(input: &mut Reader) -> Result<Self, Malformed> {
        let magic = input.array()?;
        Self::take_after(magic, input)
    }
    fn size_hint(&self) -> usize {
        SIGN_UP_HEADER_BYTES
    }
}

impl Draw for SignUpHeader {
    fn draw(from: &mut Drawn) -> Self {
        let count = 1 + u32::try_from(from.below(1_000)).unwrap_or(0);
        Self { broker: Draw::draw(from), count, epoch: Draw::draw(from), expiry: Draw::draw(from) }
    }
}

/// A sign-up batch as it travels: a header that is well formed and a body of the length it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedSignUp {
    /// The header.
    pub header: SignUpHeader,
    /// The cards, side by side.
    pub body: Bytes,
}

impl SealedSignUp {
    /// Lays out `cards` under a header; `None` when there is none, or more than a header can count.
    #[must_use]
    pub fn seal(broker: u32, epoch: Epoch, expiry: u64, cards: &[Card]) -> Option<Self> {
        let count = u32::try_from(cards.len()).ok().filter(|count| *count > 0)?;
        let header = SignUpHeader { broker, count, epoch, expiry };
        u32::try_from(header.body_len()).ok()?;
        Some(Self { header, body: cards.iter().flat_map(Card::to_bytes).collect() })
    }

    /// The digest by which servers witness and order the batch.
    #[must_use]
    pub fn digest(&self, domains: &Domains) -> Hash {
        domains.head.hash_parts(&[&self.header.encode(), &Hash::of(&self.body).0])
    }

    /// The cards, in listed order.
    ///
    /// # Errors
    /// [`BatchFault::Card`]: a card is not canonical, and the batch is not witnessed.
    pub fn cards(&self) -> Result<Vec<Card>, BatchFault> {
        let each = self.body.chunks_exact(CARD_BYTES);
        let card = |bytes: &[u8]| {
            let bytes = bytes.first_chunk::<CARD_BYTES>().ok_or(BatchFault::BodyLength)?;
            Card::decode_bytes(bytes).map_err(BatchFault::Card)
        };
        if !each.remainder().is_empty() || each.len() != self.header.count as usize {
            return Err(BatchFault::BodyLength);
        }
        each.map(card).collect()
    }
}

impl Wire for SealedSignUp {
    fn write(&self, out: &mut Writer) {
        self.header.write(out);
        out.bytes(&self.body);
    }
    fn read(input: &mut Reader) -> Result<Self, Malformed> {
        let header = SignUpHeader::read(input)?;
        let refusal = input.refuse(Why::Short);
        let body = input.take(usize::try_from(header.body_len()).map_err(|_| refusal)?)?;
        Ok(Self { header, body })
    }
    fn size_hint(&self) -> usize {
        SIGN_UP_HEADER_BYTES + self.body.len()
    }
}

impl Draw for SealedSignUp {
    fn draw(from: &mut Drawn) -> Self {
        let cards: Vec<Card> = (0..=from.below(4)).map(|_| Card::draw(from)).collect();
        let sealed = Self::seal(Draw::draw(from), Draw::draw(from), Draw::draw(from), &cards);
        sealed.unwrap_or_else(|| unreachable!("there is a card"))
    }
}

#[cfg(test)]
mod tests {
    use super::{SealedSignUp, SignUpHeader};
    use crate::batch::{BatchFault, Intake};
    use crate::card::{Card, CardFault};
    use synod_quorum::Epoch;
    use synod_wire::{Draw, Drawn, Limits, Wire};

    fn sealed() -> SealedSignUp {
        let mut from = Drawn::new(1);
        let cards: Vec<Card> = (0..3).map(|_| Card::draw(&mut from)).collect();
        SealedSignUp::seal(2, Epoch(1), 9, &cards).expect("three cards")
    }

    #[test]
    fn cards_come_back_in_listed_order() {
        let sealed = sealed();
        assert_eq!(sealed.encode().len(), 64 + 3 * 240);
        let again = SealedSignUp::decode(sealed.encode(), &Limits::default()).expect("what was sealed");
        let cards = again.cards().expect("canonical cards");
        assert_eq!(SealedSignUp::seal(2, Epoch(1), 9, &cards), Some(sealed));
        assert_eq!(SealedSignUp::seal(2, Epoch(1), 9, &[]), None);
    }

    #[test]
    fn a_header_or_a_card_that_is_not_canonical_is_refused() {
        let good = sealed().encode().to_vec();
        for at in [0, 4, 6, 12, 28, 32, 63] {
            let mut bytes = good.clone();
            bytes[at] ^= 1;
            assert!(SealedSignUp::decode(bytes.into(), &Limits::default()).is_err(), "byte {at}");
        }
        let mut bytes = good;
        bytes[64 + 240] |= 0x40;
        let batch = SealedSignUp::decode(bytes.into(), &Limits::default()).expect("its form is sound");
        assert_eq!(batch.cards(), Err(BatchFault::Card(CardFault::BlsKey)));
    }

    #[test]
    fn intake_refuses_at_each_bound_and_takes_what_lies_on_it() {
        let header = sealed().header;
        let against = Intake { epoch: Epoch(1), height: 8, horizon: 1, batch_max: 3, body_bytes_max: 720 };
        assert_eq!(header.intake(&against), Ok(()));
        let refused = |header: &SignUpHeader, against: Intake, fault| {
            assert_eq!(header.intake(&against), Err(fault));
        };
        refused(&header, Intake { epoch: Epoch(2), ..against }, BatchFault::Epoch);
        refused(&header, Intake { height: 9, ..against }, BatchFault::Expired);
        refused(&header, Intake { height: 7, ..against }, BatchFault::TooFar);
        refused(&header, Intake { batch_max: 2, ..against }, BatchFault::Counts);
        refused(&header, Intake { body_bytes_max: 719, ..against }, BatchFault::BodyLength);
    }
}

//! What is ordered: the digest of a batch with the shards that witness it (paper 4.2, steps 11 and 12).
//!
//! 178 bytes at four servers, 1.5 KB at sixty-four. The ordering layer vouches for neither authenticity nor uniqueness
//! of items; servers check both.

use synod_crypto::{Hash, Signature};
use synod_wire::{Draw, Drawn, Malformed, Reader, Why, Wire, Writer};

use crate::certificate::Signers;
use crate::fixed::Fixed;
use crate::statement::{Kind, Witness};

/// Bytes of a signature.
const SHARD: usize = 64;
/// Most members of a cluster.
const MEMBERS_MAX: u32 = 128;

/// A witnessed batch. Read to the end of what it stands in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    statement: Witness,
    signers: Signers,
    shards: Vec<Signature>,
}

impl Item {
    /// An item of these shards, in member order; `None` when their number is not that of the signers.
    #[must_use]
    pub fn new(statement: Witness, signers: Signers, shards: Vec<Signature>) -> Option<Self> {
        let equal = u32::try_from(shards.len()) == Ok(signers.set().count());
        (equal && !shards.is_empty()).then_some(Self { statement, signers, shards })
    }

    /// What each signer signed.
    #[must_use]
    pub const fn statement(&self) -> &Witness {
        &self.statement
    }

    /// Who signed.
    #[must_use]
    pub const fn signers(&self) -> &Signers {
        &self.signers
    }

    /// The signatures, in member order.
    #[must_use]
    pub fn shards(&self) -> &[Signature] {
        &self.shards
    }
}

impl Wire for Item {
    fn write(&self, out: &mut Writer) {
        self.statement.put(out);
        self.signers.put(out);
        self.shards.iter().for_each(|shard| shard.put(out));
    }
    fn read(input: &mut Reader) -> Result<Self, Malformed> {
        let statement = Fixed::take(input)?;
        let refusal = input.refuse(Why::NotCanonical);
        let width = Signers::width_of(input.remaining(), SHARD).ok_or(refusal)?;
        let signers = Signers::take(input, width)?;
        // At most 128 members, so at most 128 shards, whatever follows.
        let count = signers.set().count().min(MEMBERS_MAX);
        if input.remaining() != count as usize * SHARD {
            return Err(refusal);
        }
        let shards = (0..count).map(|_| Fixed::take(input)).collect::<Result<_, _>>()?;
        Self::new(statement, signers, shards).ok_or(refusal)
    }
    fn size_hint(&self) -> usize {
        66 + self.shards.len() * SHARD
    }
}

impl Draw for Item {
    fn draw(from: &mut Drawn) -> Self {
        let signers = loop {
            let signers = Signers::draw(from);
            if !signers.set().is_empty() {
                break signers;
            }
        };
        let shards = (0..signers.set().count()).map(|_| Signature::draw(from)).collect();
        let drawn = Self::new(Draw::draw(from), signers, shards);
        drawn.unwrap_or_else(|| unreachable!("a shard per signer"))
    }
}

impl Item {
    /// The digest of the batch.
    #[must_use]
    pub const fn digest(&self) -> &Hash {
        &self.statement.digest
    }

    /// What the batch holds.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.statement.kind
    }
}

#[cfg(test)]
mod tests {
    use super::Item;
    use crate::certificate::Signers;
    use crate::statement::{Kind, Witness};
    use synod_crypto::{Hash, Signature};
    use synod_quorum::{NodeId, NodeSet};
    use synod_wire::{Limits, Wire};

    fn item(members: u32, signers: u32) -> Item {
        let statement =
            Witness { kind: Kind::Messages, digest: Hash::of(b"d"), expiry: 7, count: 8, body_len: 9 };
        let set: NodeSet = (members - signers..members).map(NodeId).collect();
        let signers = Signers::new(set, members).expect("members");
        let shards = (0..signers.set().count()).map(|_| Signature([5; 64])).collect();
        Item::new(statement, signers, shards).expect("a shard per signer")
    }

    #[test]
    fn items_have_the_published_sizes_and_come_back() {
        for (members, signers, bytes) in [(4, 2, 178), (64, 22, 1_465), (128, 43, 49 + 16 + 43 * 64)] {
            let item = item(members, signers);
            let encoded = item.encode();
            assert_eq!(encoded.len(), bytes);
            assert_eq!(Item::decode(encoded, &Limits::default()), Ok(item));
        }
    }

    #[test]
    fn shards_and_signers_that_differ_in_number_are_refused() {
        let good = item(4, 2).encode().to_vec();
        for bitmap in [0, 1, 7, 0xff] {
            let mut bytes = good.clone();
            bytes[49] = bitmap;
            assert!(Item::decode(bytes.into(), &Limits::default()).is_err(), "{bitmap:b}");
        }
        for length in [49, 50, 177, good.len() - 64] {
            assert!(Item::decode(good[..length].to_vec().into(), &Limits::default()).is_err(), "{length}");
        }
        let (signers, statement) = (*item(4, 2).signers(), item(4, 2).statement().clone());
        assert!(Item::new(statement.clone(), signers, vec![Signature([5; 64])]).is_none());
        let none = Signers::new(NodeSet::EMPTY, 4).expect("nobody");
        assert!(Item::new(statement, none, Vec::new()).is_none());
    }
}

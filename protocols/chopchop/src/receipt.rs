//! Receipts: delivery that anybody can check off line (section 1).
//!
//! A receipt is the DELIVERED certificate of f + 1 servers, the proof that an entry stands in the batch they mean, and,
//! where something of that batch was not delivered, the proof that this entry was. SAME proves nothing to others, for a
//! client can make two messages with one tag: only an entry without exception makes a receipt.
//!
//! *Bounds.* A receipt is read from at most its own bytes; proofs have the shape that index and count imply.

use core::fmt;

use synod_crypto::{Hash, Keys, Refusal};
use synod_wire::{Blob, Draw, Drawn, Malformed, Reader, Why, Wire, Writer};

use crate::certificate::{Aggregate, DeliveryCertificate};
use crate::certified::certified;
use crate::columns::Entry;
use crate::config::Cluster;
use crate::dedup::{EXC_LEAF_BYTES, Exceptions, exceptions_leaves};
use crate::fixed::Fixed;
use crate::message::{COUNT_MAX, ExceptionProof};
use crate::statement::{Delivered, Kind};
use crate::tree::{EntryProof, TreeShape, path_len, root_commit};

/// Entries of a leaf of the exceptions tree.
const LEAF_ENTRIES: u32 = 256;

/// Proof that a client's message was delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The client.
    pub id: u32,
    /// What it broadcast.
    pub message: Blob<65_535>,
    /// Its parity bit.
    pub parity: bool,
    /// The number that all signers of the batch share.
    pub k: u64,
    /// Entries and message size of the batch.
    pub shape: TreeShape,
    /// Root of its entry tree.
    pub root: Hash,
    /// That the message stands in it.
    pub proof: EntryProof,
    /// What f + 1 servers say of the batch.
    pub certificate: DeliveryCertificate,
    /// That the message is none of those not delivered; there is one exactly when there are such.
    pub exception: Option<ExceptionProof>,
}

/// Why a receipt proves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoReceipt {
    /// The message does not stand under the root.
    Inclusion,
    /// The certificate is of another batch, or of cards.
    OtherBatch,
    /// The message is among those that were not delivered, or it is not shown that it is not.
    Exception,
    /// The servers' signatures.
    Certificate(Refusal),
}

impl fmt::Display for NoReceipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inclusion => f.write_str("the message does not stand under the root"),
            Self::OtherBatch => f.write_str("the certificate is of another batch"),
            Self::Exception => f.write_str("the message is not shown to be delivered"),
            Self::Certificate(why) => write!(f, "the certificate does not hold: {why}"),
        }
    }
}

impl core::error::Error for NoReceipt {}

impl Receipt {
    /// The message as an entry of the batch.
    #[must_use]
    pub fn entry(&self) -> Entry<'_> {
        Entry { id: self.id, message: &self.message, parity: self.parity }
    }

    /// Checks the receipt against a cluster, without network: one pairing equation. `keys` may be anybody's.
    ///
    /// # Errors
    /// [`NoReceipt`] names what it does not prove.
    pub fn verify(&self, cluster: &Cluster, keys: &Keys) -> Result<(), NoReceipt> {
        self.shows(cluster)?;
        let said = &self.certificate.statement;
        let signed = certified(said.clone(), &self.certificate.aggregate, cluster, keys);
        signed.map(|_| ()).map_err(NoReceipt::Certificate)
    }

    /// Checks all but the servers' signatures: a receipt whose certificate equals one that [`Receipt::verify`] found good
    /// proves its delivery by this alone, for 2 us instead of a pairing.
    ///
    /// # Errors
    /// [`NoReceipt`] names what it does not prove.
    pub fn shows(&self, cluster: &Cluster) -> Result<(), NoReceipt> {
        let domains = cluster.domains();
        if self.proof.root(domains, &self.shape, &self.entry()) != Some(self.root) {
            return Err(NoReceipt::Inclusion);
        }
        let said = &self.certificate.statement;
        let commit = root_commit(domains, self.k, &self.shape, &self.root);
        if said.kind != Kind::Messages || said.root_commit != commit {
            return Err(NoReceipt::OtherBatch);
        }
        if self.is_no_exception(cluster) { Ok(()) } else { Err(NoReceipt::Exception) }
    }

    fn is_no_exception(&self, cluster: &Cluster) -> bool {
        let said = &self.certificate.statement;
        match &self.exception {
            None => said.exc_count == 0 && said.exceptions_root == Hash::ZERO,
            Some(ExceptionProof { leaf, path }) => {
                let at = (self.proof.index, self.shape.count);
                let proved = Exceptions::proved(cluster.domains(), &said.exceptions_root, at, leaf, path);
                said.exc_count > 0 && proved == Some(None)
            }
        }
    }
}

/// Digests on the way up from the exceptions leaf of entry `index` of `count`.
fn exception_path(index: u32, count: u32) -> Option<u32> {
    path_len(index / LEAF_ENTRIES, exceptions_leaves(count))
}

fn take_path(input: &mut Reader, digests: u32) -> Result<Vec<Hash>, Malformed> {
    let refusal = input.refuse(Why::Short);
    if u64::from(digests) * 32 > input.remaining() as u64 {
        return Err(refusal);
    }
    (0..digests).map(|_| Fixed::take(input)).collect()
}

impl Wire for Receipt {
    fn write(&self, out: &mut Writer) {
        self.id.put(out);
        self.message.write(out);
        self.parity.put(out);
        self.k.put(out);
        self.shape.count.put(out);
        self.shape.msg_size.put(out);
        self.root.put(out);
        self.proof.index.put(out);
        out.bytes(&self.proof.neighbours);
        self.proof.path.iter().for_each(|digest| digest.put(out));
        self.certificate.statement.put(out);
        if let Some(exception) = &self.exception {
            exception.leaf.put(out);
            exception.path.iter().for_each(|digest| digest.put(out));
        }
        self.certificate.aggregate.put(out);
    }

    fn read(input: &mut Reader) -> Result<Self, Malformed> {
        let id = Fixed::take(input)?;
        let message = Blob::read(input)?;
        let (parity, k) = (Fixed::take(input)?, Fixed::take(input)?);
        let refusal = input.refuse(Why::OutOfRange);
        let shape = TreeShape { count: Fixed::take(input)?, msg_size: Fixed::take(input)? };
        let root = Fixed::take(input)?;
        let index = Fixed::take(input)?;
        let digests = shape.path_len(index).filter(|_| shape.count <= COUNT_MAX).ok_or(refusal)?;
        let neighbours = input.take(shape.neighbour_bytes())?;
        let path = take_path(input, digests)?;
        let statement = Delivered::take(input)?;
        let exception = if statement.exc_count == 0 {
            None
        } else {
            let leaf: [u8; EXC_LEAF_BYTES] = input.array()?;
            let digests = exception_path(index, shape.count).ok_or(refusal)?;
            Some(ExceptionProof { leaf, path: take_path(input, digests)? })
        };
        let rest = input.remaining();
        let certificate = DeliveryCertificate { statement, aggregate: Aggregate::take(input, rest)? };
        let proof = EntryProof { index, neighbours, path };
        Ok(Self { id, message, parity, k, shape, root, proof, certificate, exception })
    }

    fn size_hint(&self) -> usize {
        1_024 + self.message.len()
    }
}

impl Draw for Receipt {
    fn draw(from: &mut Drawn) -> Self {
        let count = 1 + u32::try_from(from.below(2_000)).unwrap_or(0);
        let shape = TreeShape { count, msg_size: 8 };
        let index = u32::try_from(from.below(u64::from(count))).unwrap_or(0);
        let digests = |from: &mut Drawn, length: Option<u32>| {
            (0..length.unwrap_or(0)).map(|_| Hash::draw(from)).collect::<Vec<_>>()
        };
        let neighbours = (0..shape.neighbour_bytes()).map(|_| u8::draw(from)).collect();
        let path = digests(from, shape.path_len(index));
        let certificate = DeliveryCertificate::draw(from);
        let exception = (certificate.statement.exc_count > 0).then(|| {
            let path = digests(from, exception_path(index, count));
            ExceptionProof { leaf: Draw::draw(from), path }
        });
        Self {
            id: Draw::draw(from),
            message: Draw::draw(from),
            parity: Draw::draw(from),
            k: Draw::draw(from),
            shape,
            root: Draw::draw(from),
            proof: EntryProof { index, neighbours, path },
            certificate,
            exception,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Receipt;
    use synod_wire::{Draw, Drawn, Limits, Wire};

    #[test]
    fn receipts_come_back_from_their_bytes_and_no_part_of_one_is_one() {
        for seed in 0..200 {
            let receipt = Receipt::draw(&mut Drawn::new(seed));
            let bytes = receipt.encode();
            assert_eq!(Receipt::decode(bytes.clone(), &Limits::default()), Ok(receipt));
            for length in 0..bytes.len() - 16 {
                assert!(Receipt::decode(bytes.slice(..length), &Limits::default()).is_err(), "{length}");
            }
        }
    }
}

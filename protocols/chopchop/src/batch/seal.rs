//! Sealing: sorted entries become a batch.

use core::fmt;

use synod_crypto::{Hash, Signature};
use synod_quorum::Epoch;
use synod_wire::{Bytes, Draw, Drawn};

use super::{Header, Sealed};
use crate::Domains;
use crate::bits::BitWriter;
use crate::columns::{BodyWriter, Entry, Straggler};
use crate::ids::{self, IdFault};
use crate::statement::BlsSignatureBytes;
use crate::tree::{TreeShape, entry_root};

/// An entry that a broker holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedEntry {
    /// The client.
    pub id: u32,
    /// What it broadcasts.
    pub message: Bytes,
    /// Its parity bit.
    pub parity: bool,
}

impl OwnedEntry {
    /// The entry, borrowed.
    #[must_use]
    pub fn as_entry(&self) -> Entry<'_> {
        Entry { id: self.id, message: &self.message, parity: self.parity }
    }
}

/// What the header of a batch says beyond its entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The broker's number in genesis, or `u32::MAX`.
    pub broker: u32,
    /// Bytes of each message; 0 when variable.
    pub msg_size: u16,
    /// The epoch.
    pub epoch: Epoch,
    /// The sequence number of all signers.
    pub k: u64,
    /// Height from which it may not be accepted any more.
    pub expiry: u64,
    /// Length of the directory that the ids need.
    pub directory: u32,
}

/// Entries on their way into a batch.
#[derive(Clone, Debug)]
pub struct Seal {
    plan: Plan,
    entries: Vec<OwnedEntry>,
    stragglers: Vec<Straggler>,
    voids: Vec<u32>,
}

/// Why entries are no batch: what the caller gave breaks a rule that servers check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsealable {
    /// Ids do not rise strictly below the directory's length, or there is none.
    Ids(IdFault),
    /// A message does not have the size that the plan says, or has no byte.
    Size,
    /// Straggler or void indices do not rise strictly, meet, or name no entry; or a number is above k.
    Indices,
    /// There is an aggregate without signers, or signers without one.
    Aggregate,
    /// The body is longer than a header can say.
    TooLong,
}

impl fmt::Display for Unsealable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ids(fault) => write!(f, "{fault}"),
            Self::Size => f.write_str("a message does not have the size of its class"),
            Self::Indices => f.write_str("stragglers or voids name entries wrongly"),
            Self::Aggregate => f.write_str("the aggregate does not go with the signers"),
            Self::TooLong => f.write_str("the body is too long"),
        }
    }
}

impl core::error::Error for Unsealable {}

impl Seal {
    /// Starts with `entries` in the order of their ids.
    #[must_use]
    pub const fn new(plan: Plan, entries: Vec<OwnedEntry>) -> Self {
        Self { plan, entries, stragglers: Vec::new(), voids: Vec::new() }
    }

    /// With these entries carrying signatures of their own, in the order of their indices.
    #[must_use]
    pub fn with_stragglers(mut self, stragglers: Vec<Straggler>) -> Self {
        self.stragglers = stragglers;
        self
    }

    /// With these entries without any valid signature, in rising order.
    #[must_use]
    pub fn with_voids(mut self, voids: Vec<u32>) -> Self {
        self.voids = voids;
        self
    }

    /// Lays out the body, computes the root and writes the header.
    ///
    /// # Errors
    /// [`Unsealable`]: the batch would be refused.
    pub fn seal(self, domains: &Domains, aggregate: Option<BlsSignatureBytes>) -> Result<Sealed, Unsealable> {
        let sized = |entry: &OwnedEntry| match self.plan.msg_size {
            0 => !entry.message.is_empty() && entry.message.len() <= usize::from(u16::MAX),
            size => entry.message.len() == usize::from(size),
        };
        if !self.entries.iter().all(sized) {
            return Err(Unsealable::Size);
        }
        let ids: Vec<u32> = self.entries.iter().map(|entry| entry.id).collect();
        let encoded = ids::encode(&ids, self.plan.directory).map_err(Unsealable::Ids)?;
        let count = u32::try_from(ids.len()).map_err(|_| Unsealable::TooLong)?;
        let body = self.body(encoded.bytes);
        let shape = TreeShape { count, msg_size: self.plan.msg_size };
        let root = entry_root(domains, &shape, self.entries.iter().map(OwnedEntry::as_entry));
        let Plan { broker, msg_size, epoch, k, expiry, directory } = self.plan;
        let header = Header {
            broker,
            msg_size,
            codec: encoded.codec,
            count,
            stragglers: u32::try_from(self.stragglers.len()).map_err(|_| Unsealable::Indices)?,
            voids: u32::try_from(self.voids.len()).map_err(|_| Unsealable::Indices)?,
            epoch,
            k,
            expiry,
            directory,
            body_len: u32::try_from(body.len()).map_err(|_| Unsealable::TooLong)?,
            root,
            aggregate,
        };
        let apart = u64::from(header.stragglers) + u64::from(header.voids);
        if (apart < u64::from(count)) != aggregate.is_some() {
            return Err(Unsealable::Aggregate);
        }
        let sealed = Sealed { header, body };
        let sound = super::Batch::open(&sealed).and_then(|batch| batch.check());
        if sound.is_err() || apart > u64::from(count) {
            return Err(Unsealable::Indices);
        }
        Ok(sealed)
    }

    fn body(&self, ids: Vec<u8>) -> Bytes {
        let mut body = BodyWriter::default();
        body.column(ids);
        if self.plan.msg_size == 0 {
            let length = |entry: &OwnedEntry| u16::try_from(entry.message.len()).unwrap_or(u16::MAX);
            body.column(self.entries.iter().flat_map(|entry| length(entry).to_le_bytes()));
        }
        body.column(self.entries.iter().flat_map(|entry| entry.message.iter().copied()));
        let mut parity = BitWriter::default();
        self.entries.iter().for_each(|entry| parity.push(u32::from(entry.parity), 1));
        body.column(parity.finish());
        body.column(self.stragglers.iter().flat_map(|straggler| straggler.index.to_le_bytes()));
        body.column(self.stragglers.iter().flat_map(|straggler| straggler.k.to_le_bytes()));
        body.column(self.stragglers.iter().flat_map(|straggler| straggler.t.0));
        body.column(self.voids.iter().flat_map(|void| void.to_le_bytes()));
        body.finish()
    }
}

/// A batch of up to 40 entries, of every class and codec, that passes every check but those of signatures.
pub(super) fn drawn(from: &mut Drawn) -> Sealed {
    let msg_size = match from.below(4) {
        0 => 0,
        1 => 8,
        _ => 1 + u16::try_from(from.below(40)).unwrap_or(0),
    };
    let step = [1, 2, 5, 1_000, 90_000_000][usize::try_from(from.below(5)).unwrap_or(0)];
    let mut id = u32::try_from(from.below(1_000)).unwrap_or(0);
    let (mut entries, mut stragglers, mut voids) = (Vec::new(), Vec::new(), Vec::new());
    let (k, spoiled) = (u64::draw(from) & (u64::MAX - 1), from.below(4));
    for index in 0..1 + u32::try_from(from.below(40)).unwrap_or(0) {
        let length = if msg_size == 0 { 1 + from.below(20) } else { u64::from(msg_size) };
        let message = (0..length).map(|_| u8::draw(from)).collect();
        entries.push(OwnedEntry { id, message, parity: bool::draw(from) });
        id += 1 + u32::try_from(from.below(step)).unwrap_or(0);
        match from.below(8) {
            kind if kind < spoiled || spoiled == 3 => {
                let t = Signature(Draw::draw(from));
                stragglers.push(Straggler { index, k: k.min(u64::draw(from)), t });
            }
            7 => voids.push(index),
            _ => {}
        }
    }
    let apart = stragglers.len() + voids.len();
    let aggregate = (apart < entries.len()).then(|| BlsSignatureBytes::draw(from));
    let plan = Plan {
        broker: Draw::draw(from),
        msg_size,
        epoch: Draw::draw(from),
        k,
        expiry: Draw::draw(from),
        directory: id,
    };
    let seal = Seal::new(plan, entries).with_stragglers(stragglers).with_voids(voids);
    match seal.seal(&Domains::of(&Hash::of(b"drawn")), aggregate) {
        Ok(sealed) => sealed,
        Err(why) => unreachable!("a drawn batch is sound: {why}"),
    }
}

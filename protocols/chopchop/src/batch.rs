//! Distilled batches: a header of 192 bytes, a body of columns, and the checks of a server (paper 4.2, steps 9 and 10).
//!
//! `D = H_head(header || h(body))`: the body is hashed flat once, and `h(body)` names its blob. The checks are pure and
//! in the order of their price: [`Header::decode`] and [`Header::intake`] need the header alone, [`Batch::open`] is BV1,
//! [`Batch::check`] BV2 to BV4, [`Batch::check_root`] BV5. BV6 to BV8 need keys and are not here, but that a header
//! without signers carries no signature is a rule of [`Header::decode`].
//!
//! *Bounds.* No check allocates, but the tree of BV5: 32 bytes per leaf.

mod check;
mod header;
mod seal;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use synod_crypto::Hash;
use synod_wire::{Bytes, Draw, Drawn, Malformed, Reader, Wire, Writer};

use crate::Domains;
use crate::columns::Columns;

pub use check::{BatchFault, Refusal};
pub use header::{HEADER_BYTES, Header, Intake};
pub use seal::{OwnedEntry, Plan, Seal, Unsealable};

/// A batch as it travels: a header that is well formed, and a body of the length it says, not yet read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// The header.
    pub header: Header,
    /// The body, as long as the header says.
    pub body: Bytes,
}

impl Sealed {
    /// The digest by which servers witness and order the batch.
    #[must_use]
    pub fn digest(&self, domains: &Domains) -> Hash {
        domains.head.hash_parts(&[&self.header.to_bytes(), &Hash::of(&self.body).0])
    }

    /// The name of the body's blob.
    #[must_use]
    pub fn name(&self) -> Hash {
        Hash::of(&self.body)
    }
}

impl Wire for Sealed {
    fn write(&self, out: &mut Writer) {
        out.bytes(&self.header.to_bytes());
        out.bytes(&self.body);
    }
    fn read(input: &mut Reader) -> Result<Self, Malformed> {
        let header = Header::read(input)?;
        let body = input.take(header.body_len as usize)?;
        Ok(Self { header, body })
    }
    fn size_hint(&self) -> usize {
        HEADER_BYTES + self.body.len()
    }
}

impl Draw for Sealed {
    /// A batch that passes every check but those of signatures.
    fn draw(from: &mut Drawn) -> Self {
        seal::drawn(from)
    }
}

/// A batch that passed BV1: its columns can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    header: Header,
    columns: Columns,
}

impl Batch {
    /// Reads the body of `sealed` in place.
    ///
    /// # Errors
    /// [`BatchFault::Columns`] and [`BatchFault::BodyLength`].
    pub fn open(sealed: &Sealed) -> Result<Self, BatchFault> {
        if sealed.body.len() as u64 != u64::from(sealed.header.body_len) {
            return Err(BatchFault::BodyLength);
        }
        let columns = Columns::open(sealed.header.shape(), &sealed.body).map_err(BatchFault::Columns)?;
        Ok(Self { header: sealed.header.clone(), columns })
    }

    /// The header.
    #[must_use]
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// The columns.
    #[must_use]
    pub const fn columns(&self) -> &Columns {
        &self.columns
    }

    /// The ids of the entries that are neither straggler nor void, in entry order; the batch's own where it has no others.
    #[must_use]
    pub fn signers(&self) -> Arc<[u32]> {
        if self.header.stragglers == 0 && self.header.voids == 0 {
            return Arc::clone(self.columns.shared_ids());
        }
        let mut stragglers = self.columns.stragglers().map(|straggler| straggler.index).peekable();
        let mut voids = self.columns.voids().peekable();
        let mut apart =
            |index: u32| stragglers.next_if_eq(&index).is_some() || voids.next_if_eq(&index).is_some();
        (0_u32..).zip(self.columns.ids()).filter(|(index, _)| !apart(*index)).map(|(_, id)| id).collect()
    }

    /// What its signers signed.
    #[must_use]
    pub fn root_commit(&self, domains: &Domains) -> Hash {
        self.header.root_commit(domains)
    }
}

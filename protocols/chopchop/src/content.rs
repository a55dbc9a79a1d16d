//! A batch of either kind: what stores hold and servers deliver.
//!
//! *Bounds.* A body shares the memory of the frame it came in.

use synod_crypto::Hash;
use synod_wire::{Bytes, Limits, Wire, wire};

use crate::Domains;
use crate::batch::{BatchFault, HEADER_BYTES, Header, Intake, Sealed};
use crate::message::Upload;
use crate::signup::{SIGN_UP_HEADER_BYTES, SealedSignUp, SignUpHeader};
use crate::statement::{Kind, Witness};

wire! {
    /// The header of a batch of either kind.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum AnyHeader {
        /// Of messages.
        1 = Messages(Header),
        /// Of cards.
        2 = SignUp(SignUpHeader),
    }
}

impl AnyHeader {
    /// What the batch holds.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Messages(_) => Kind::Messages,
            Self::SignUp(_) => Kind::SignUp,
        }
    }

    /// Height from which it may not be accepted any more.
    #[must_use]
    pub const fn expiry(&self) -> u64 {
        match self {
            Self::Messages(header) => header.expiry,
            Self::SignUp(header) => header.expiry,
        }
    }

    /// Its entries or cards.
    #[must_use]
    pub const fn count(&self) -> u32 {
        match self {
            Self::Messages(header) => header.count,
            Self::SignUp(header) => header.count,
        }
    }

    /// Bytes of the body.
    #[must_use]
    pub fn body_len(&self) -> u32 {
        match self {
            Self::Messages(header) => header.body_len,
            Self::SignUp(header) => u32::try_from(header.body_len()).unwrap_or(u32::MAX),
        }
    }

    /// Length of the directory that its ids need.
    #[must_use]
    pub const fn directory(&self) -> u32 {
        match self {
            Self::Messages(header) => header.directory,
            Self::SignUp(_) => 0,
        }
    }

    /// Checks I.
    ///
    /// # Errors
    /// [`BatchFault`] names the first rule that is broken.
    pub fn intake(&self, against: &Intake) -> Result<(), BatchFault> {
        match self {
            Self::Messages(header) => header.intake(against),
            Self::SignUp(header) => header.intake(against),
        }
    }

    /// The bytes before the body.
    #[must_use]
    pub fn head(&self) -> Bytes {
        match self {
            Self::Messages(header) => header.encode(),
            Self::SignUp(header) => header.encode(),
        }
    }

    /// What a server that found it sound and holds it says.
    #[must_use]
    pub fn witness(&self, digest: Hash) -> Witness {
        Witness {
            kind: self.kind(),
            digest,
            expiry: self.expiry(),
            count: self.count(),
            body_len: self.body_len(),
        }
    }
}

/// Bytes before the body of a batch of this kind.
#[must_use]
pub const fn head_bytes(kind: Kind) -> usize {
    match kind {
        Kind::Messages => HEADER_BYTES,
        Kind::SignUp => SIGN_UP_HEADER_BYTES,
    }
}

/// A batch of either kind, with a body of the length its header says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnyBatch {
    /// The header.
    pub header: AnyHeader,
    /// The body.
    pub body: Bytes,
}

impl AnyBatch {
    /// Reads header and body side by side; `None` when the header is none of its kind or the length is another.
    #[must_use]
    pub fn read(kind: Kind, bytes: &Bytes) -> Option<Self> {
        let at = head_bytes(kind);
        if bytes.len() < at {
            return None;
        }
        let (head, body) = (bytes.slice(..at), bytes.slice(at..));
        let limits = Limits::default();
        let header = match kind {
            Kind::Messages => AnyHeader::Messages(Header::decode_wire(head, &limits)?),
            Kind::SignUp => AnyHeader::SignUp(SignUpHeader::decode(head, &limits).ok()?),
        };
        (body.len() as u64 == u64::from(header.body_len())).then_some(Self { header, body })
    }

    /// The name of the body's blob, and the digest by which the batch is witnessed and ordered. Hashes the body once.
    #[must_use]
    pub fn name_and_digest(&self, domains: &Domains) -> (Hash, Hash) {
        let name = Hash::of(&self.body);
        (name, domains.head.hash_parts(&[&self.header.head(), &name.0]))
    }

    /// The batch, if it holds messages.
    #[must_use]
    pub fn into_messages(self) -> Option<Sealed> {
        match self.header {
            AnyHeader::Messages(header) => Some(Sealed { header, body: self.body }),
            AnyHeader::SignUp(_) => None,
        }
    }

    /// The batch, if it holds cards.
    #[must_use]
    pub fn into_sign_up(self) -> Option<SealedSignUp> {
        match self.header {
            AnyHeader::SignUp(header) => Some(SealedSignUp { header, body: self.body }),
            AnyHeader::Messages(_) => None,
        }
    }
}

impl Header {
    /// As a frame part: the encoding of [`Header::to_bytes`] and nothing behind it.
    fn decode_wire(bytes: Bytes, limits: &Limits) -> Option<Self> {
        <Self as Wire>::decode(bytes, limits).ok()
    }
}

impl From<Sealed> for AnyBatch {
    fn from(batch: Sealed) -> Self {
        Self { header: AnyHeader::Messages(batch.header), body: batch.body }
    }
}

impl From<SealedSignUp> for AnyBatch {
    fn from(batch: SealedSignUp) -> Self {
        Self { header: AnyHeader::SignUp(batch.header), body: batch.body }
    }
}

impl AnyBatch {
    /// The batch of an upload.
    #[must_use]
    pub fn of_upload(upload: &Upload) -> Option<Self> {
        let messages = upload.as_messages().cloned().map(Self::from);
        messages.or_else(|| upload.as_sign_up().cloned().map(Self::from))
    }
}

#[cfg(test)]
mod tests {
    use super::{AnyBatch, AnyHeader};
    use crate::Domains;
    use crate::batch::Sealed;
    use crate::signup::SealedSignUp;
    use crate::statement::Kind;
    use synod_crypto::Hash;
    use synod_wire::{Bytes, Draw, Drawn, Wire};

    #[test]
    fn a_batch_of_either_kind_keeps_its_digest_and_comes_back_from_its_bytes() {
        let domains = Domains::of(&Hash::of(b"c"));
        let mut from = Drawn::new(5);
        for _ in 0..20 {
            let (sealed, signed) = (Sealed::draw(&mut from), SealedSignUp::draw(&mut from));
            let any = AnyBatch::from(sealed.clone());
            assert_eq!(any.name_and_digest(&domains), (sealed.name(), sealed.digest(&domains)));
            let bytes = sealed.encode();
            assert_eq!(AnyBatch::read(Kind::Messages, &bytes), Some(any));
            assert_eq!(AnyBatch::read(Kind::Messages, &bytes.slice(..bytes.len() - 1)), None);
            assert_eq!(AnyBatch::read(Kind::SignUp, &bytes), None);
            let any = AnyBatch::from(signed.clone());
            assert_eq!(any.name_and_digest(&domains).1, signed.digest(&domains));
            assert_eq!(AnyBatch::read(Kind::SignUp, &signed.encode()), Some(any));
        }
        assert_eq!(AnyBatch::read(Kind::SignUp, &Bytes::new()), None);
    }

    #[test]
    fn headers_of_both_kinds_come_back() {
        let mut from = Drawn::new(6);
        for _ in 0..20 {
            let header = AnyHeader::draw(&mut from);
            let again = AnyHeader::decode(header.encode(), &synod_wire::Limits::default());
            assert_eq!(again, Ok(header));
        }
    }
}

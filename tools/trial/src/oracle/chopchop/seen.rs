//! What oracles are shown of a batch, without a type of the protocol.

use synod_crypto::Hash;

/// How an entry is vouched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// By the multi-signature.
    Together,
    /// By a signature of its own.
    Alone,
    /// By nothing.
    Void,
}

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntrySeen {
    /// The client.
    pub id: u32,
    /// What it says.
    pub message: Vec<u8>,
    /// Its parity bit.
    pub parity: bool,
    /// The number it has in this batch.
    pub k: u64,
    /// How it is vouched for.
    pub how: How,
}

/// A batch of messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchSeen {
    /// Its digest.
    pub digest: Hash,
    /// The root its header names.
    pub root: Hash,
    /// What its signers sign.
    pub commit: Hash,
    /// Bytes of each message.
    pub size: u16,
    /// Its entries.
    pub entries: Vec<EntrySeen>,
}

/// A certificate of delivery, as a client believed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateSeen {
    /// The height.
    pub height: u64,
    /// The batch.
    pub digest: Hash,
    /// How many servers signed.
    pub signers: u32,
}

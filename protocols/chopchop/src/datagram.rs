//! Datagrams of client links: a header of 16 bytes, a message, a tag of 16 bytes.
//!
//! The first four bytes of the header are the first four of the message, so that a stream carries the same messages
//! without header and tag. Every byte before the tag is authenticated. Nothing is allocated on the way in.

use core::fmt;

use synod_crypto::HashKey;
use synod_wire::Bytes;

/// Bytes of the header.
pub const DATAGRAM_HEADER_BYTES: usize = 16;
/// Bytes of the tag.
pub const TAG_BYTES: usize = 16;
/// Longest datagram, in bytes: it is never fragmented.
pub const DATAGRAM_MAX: usize = 1_200;

/// Bytes of a message that stand in the header.
const HEAD: usize = 4;

/// Which link, and the how-manieth datagram on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// The link, as its acceptor numbered it.
    pub link: u32,
    /// Rises with every datagram of a direction.
    pub sequence: u64,
}

/// Why bytes are no datagram of a link. Dropped and counted, never answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DatagramFault {
    /// Longer than any datagram.
    Oversize,
    /// Shorter than header and tag.
    Truncated,
    /// The tag is not that of the link's key.
    Tag,
}

impl fmt::Display for DatagramFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Oversize => "longer than any datagram",
            Self::Truncated => "shorter than header and tag",
            Self::Tag => "not tagged by the link's key",
        })
    }
}

impl core::error::Error for DatagramFault {}

impl Envelope {
    /// Reads the envelope, which is what finds the key; nothing is authentic yet.
    ///
    /// # Errors
    /// [`DatagramFault::Oversize`], [`DatagramFault::Truncated`].
    pub fn peek(datagram: &[u8]) -> Result<Self, DatagramFault> {
        if datagram.len() > DATAGRAM_MAX {
            return Err(DatagramFault::Oversize);
        }
        if datagram.len() < DATAGRAM_HEADER_BYTES + TAG_BYTES {
            return Err(DatagramFault::Truncated);
        }
        let link = datagram.get(HEAD..).and_then(|rest| rest.first_chunk::<4>());
        let sequence = datagram.get(HEAD + 4..).and_then(|rest| rest.first_chunk::<8>());
        match (link, sequence) {
            (Some(link), Some(sequence)) => {
                Ok(Self { link: u32::from_le_bytes(*link), sequence: u64::from_le_bytes(*sequence) })
            }
            _ => Err(DatagramFault::Truncated),
        }
    }

    /// The datagram of an encoded message; `None` when it is too long for one, or no message.
    #[must_use]
    pub fn seal(&self, key: &HashKey, message: &[u8]) -> Option<Bytes> {
        let (head, fields) = message.split_at_checked(HEAD)?;
        let length = message.len().checked_add(DATAGRAM_HEADER_BYTES - HEAD + TAG_BYTES)?;
        if length > DATAGRAM_MAX {
            return None;
        }
        let mut out = Vec::with_capacity(length);
        out.extend_from_slice(head);
        out.extend_from_slice(&self.link.to_le_bytes());
        out.extend_from_slice(&self.sequence.to_le_bytes());
        out.extend_from_slice(fields);
        let tag = key.tag(&[&out]);
        out.extend_from_slice(&tag);
        Some(out.into())
    }

    /// The envelope and the encoded message of a datagram that `key` tagged.
    ///
    /// # Errors
    /// [`DatagramFault`] names why it is none.
    pub fn open(key: &HashKey, datagram: &[u8]) -> Result<(Self, Bytes), DatagramFault> {
        let envelope = Self::peek(datagram)?;
        let (body, tag) = datagram.split_last_chunk::<TAG_BYTES>().ok_or(DatagramFault::Truncated)?;
        if !key.tagged(&[body], tag) {
            return Err(DatagramFault::Tag);
        }
        let head = body.get(..HEAD).unwrap_or_default();
        let fields = body.get(DATAGRAM_HEADER_BYTES..).unwrap_or_default();
        Ok((envelope, [head, fields].concat().into()))
    }
}

#[cfg(test)]
mod tests {
    use super::{DATAGRAM_MAX, DatagramFault, Envelope};
    use synod_crypto::HashKey;

    #[test]
    fn a_datagram_opens_under_its_key_and_no_flipped_bit_goes_unseen() {
        let key = HashKey::derive("synod test link", b"secret");
        let envelope = Envelope { link: 7, sequence: 300 };
        let datagram = envelope.seal(&key, b"headfields").expect("short");
        assert_eq!(datagram.len(), 10 + 12 + 16);
        assert_eq!(Envelope::peek(&datagram), Ok(envelope));
        assert_eq!(Envelope::open(&key, &datagram), Ok((envelope, b"headfields"[..].into())));
        let other = HashKey::derive("synod test link", b"other");
        assert_eq!(Envelope::open(&other, &datagram), Err(DatagramFault::Tag));
        for bit in 0..8 * datagram.len() {
            let mut changed = datagram.to_vec();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Envelope::open(&key, &changed), Err(DatagramFault::Tag), "bit {bit}");
        }
    }

    #[test]
    fn datagrams_that_are_too_short_or_too_long_are_refused() {
        let key = HashKey::derive("synod test link", b"secret");
        let envelope = Envelope { link: 7, sequence: 300 };
        assert_eq!(Envelope::open(&key, &[0; 31]), Err(DatagramFault::Truncated));
        assert_eq!(Envelope::open(&key, &[0; 32]), Err(DatagramFault::Tag));
        assert_eq!(Envelope::open(&key, &[0; DATAGRAM_MAX + 1]), Err(DatagramFault::Oversize));
        let fits = envelope.seal(&key, &[1; DATAGRAM_MAX - 28]).expect("it fits exactly");
        assert_eq!(fits.len(), DATAGRAM_MAX);
        assert!(Envelope::open(&key, &fits).is_ok());
        assert!(envelope.seal(&key, &[1; DATAGRAM_MAX - 27]).is_none());
        assert!(envelope.seal(&key, &[1; 3]).is_none());
    }
}

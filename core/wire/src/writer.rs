//! Writing, and the trait that every value on a wire or in a record implements.

use bytes::Bytes;
use commonware_codec::Write;

use crate::{Limits, Malformed, Reader};

/// A value with one canonical encoding.
pub trait Wire: Sized {
    /// Appends the encoding.
    fn write(&self, out: &mut Writer);

    /// Reads one value, leaving the reader behind it.
    ///
    /// # Errors
    /// [`Malformed`] when the bytes are not the encoding of a value.
    fn read(input: &mut Reader) -> Result<Self, Malformed>;

    /// Capacity to reserve for the encoding, in bytes; a hint, exactness is not required.
    fn size_hint(&self) -> usize {
        64
    }

    /// Encodes into fresh bytes.
    fn encode(&self) -> Bytes {
        let mut out = Writer::with_capacity(self.size_hint());
        self.write(&mut out);
        out.freeze()
    }

    /// Decodes a whole input.
    ///
    /// # Errors
    /// [`Malformed`] when the input is over its limits, not canonical, or has bytes behind the value.
    fn decode(bytes: Bytes, limits: &Limits) -> Result<Self, Malformed> {
        Self::decode_behind(&bytes, 0, limits)
    }

    /// Decodes what follows the first `head` bytes of a frame, which are the caller's: a version, for example.
    ///
    /// # Errors
    /// See [`Wire::decode`].
    fn decode_behind(frame: &Bytes, head: usize, limits: &Limits) -> Result<Self, Malformed> {
        let mut input = Reader::behind(frame, head, limits)?;
        let value = Self::read(&mut input)?;
        input.finish()?;
        Ok(value)
    }
}

/// The bytes of an encoding under construction.
#[derive(Default)]
pub struct Writer {
    out: Vec<u8>,
}

impl Writer {
    /// Starts empty, with room for `capacity` bytes.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Self { out: Vec::with_capacity(capacity) }
    }

    /// Starts empty in a buffer that was used before, and comes back by [`Writer::into_buffer`].
    #[must_use]
    pub fn over(mut buffer: Vec<u8>) -> Self {
        buffer.clear();
        Self { out: buffer }
    }

    /// Ends the writing and gives the buffer.
    #[must_use]
    pub fn into_buffer(self) -> Vec<u8> {
        self.out
    }

    /// Appends raw bytes.
    #[inline]
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// Appends one byte.
    #[inline]
    pub fn byte(&mut self, byte: u8) {
        self.out.push(byte);
    }

    /// Appends a minimal varint: seven bits a byte, the least first, the highest bit set in all but the last.
    #[inline]
    pub fn varint(&mut self, value: u64) {
        let mut rest = value;
        while rest >= 0x80 {
            self.out.push(rest.to_le_bytes()[0] | 0x80);
            rest >>= 7;
        }
        self.out.push(rest.to_le_bytes()[0]);
    }

    /// Appends the count of a sequence.
    #[inline]
    pub fn count(&mut self, count: usize) {
        self.varint(count as u64);
    }

    /// Appends a fixed-width value through the codec library.
    pub(crate) fn fixed<T: Write>(&mut self, value: &T) {
        value.write(&mut self.out);
    }

    /// Bytes written so far.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.out.len()
    }

    /// Whether nothing was written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    /// What was written, without ending the writing.
    #[inline]
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        &self.out
    }

    /// Ends the writing.
    #[must_use]
    pub fn freeze(self) -> Bytes {
        Bytes::from(self.out)
    }
}

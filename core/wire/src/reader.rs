//! Reading: a cursor over shared bytes that never allocates from a length field.

use bytes::Bytes;
use commonware_codec::{Copying, Error, FixedSize, Read};

use crate::{Malformed, Why};

/// What a decoder may accept before looking at any field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest input, in bytes.
    pub frame_max: u32,
}

impl Default for Limits {
    /// The largest frame any queue carries: 16 MiB.
    fn default() -> Self {
        Self { frame_max: 16 << 20 }
    }
}

/// A cursor over one frame. Slices taken from it share the frame's memory.
pub struct Reader<'a> {
    frame: &'a Bytes,
    at: usize,
}

impl<'a> Reader<'a> {
    /// Starts at the first byte of `frame`, or refuses it as too large.
    ///
    /// # Errors
    /// [`Why::TooLarge`] when `frame` is longer than `limits.frame_max`.
    pub fn new(frame: &'a Bytes, limits: &Limits) -> Result<Self, Malformed> {
        Self::behind(frame, 0, limits)
    }

    /// Starts behind the first `head` bytes of `frame`, which are the caller's and do not count.
    ///
    /// # Errors
    /// [`Why::TooLarge`] when more than `limits.frame_max` bytes follow.
    pub fn behind(frame: &'a Bytes, head: usize, limits: &Limits) -> Result<Self, Malformed> {
        let reader = Self { frame, at: head.min(frame.len()) };
        match u32::try_from(reader.remaining()) {
            Ok(length) if length <= limits.frame_max => Ok(reader),
            _ => Err(Malformed { at: 0, why: Why::TooLarge }),
        }
    }

    /// A refusal that names the present position.
    #[inline]
    #[must_use]
    pub fn refuse(&self, why: Why) -> Malformed {
        Malformed { at: u32::try_from(self.at()).unwrap_or(u32::MAX), why }
    }

    /// Bytes read so far.
    #[inline]
    #[must_use]
    pub const fn at(&self) -> usize {
        self.at
    }

    /// Bytes not yet read.
    #[inline]
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.rest().len()
    }

    #[inline]
    fn rest(&self) -> &[u8] {
        self.frame.get(self.at..).unwrap_or_default()
    }

    /// Takes `count` bytes, sharing the frame's memory.
    ///
    /// # Errors
    /// [`Why::Short`] when fewer remain.
    pub fn take(&mut self, count: usize) -> Result<Bytes, Malformed> {
        if count > self.remaining() {
            return Err(self.refuse(Why::Short));
        }
        let end = self.at.saturating_add(count);
        let taken = self.frame.slice(self.at..end);
        self.at = end;
        Ok(taken)
    }

    /// Takes `count` bytes where they are: for what is copied anyway.
    ///
    /// # Errors
    /// [`Why::Short`] when fewer remain.
    #[inline]
    pub fn borrow(&mut self, count: usize) -> Result<&[u8], Malformed> {
        let end = self.at.saturating_add(count);
        if end > self.frame.len() {
            return Err(self.refuse(Why::Short));
        }
        let start = core::mem::replace(&mut self.at, end);
        Ok(self.frame.get(start..end).unwrap_or_default())
    }

    /// Takes exactly `N` bytes by value.
    ///
    /// # Errors
    /// [`Why::Short`] when fewer remain.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let Some(out) = self.rest().first_chunk::<N>().copied() else {
            return Err(self.refuse(Why::Short));
        };
        self.at = self.at.saturating_add(N);
        Ok(out)
    }

    /// Reads a fixed-width value through the codec library.
    pub(crate) fn fixed<T: Read<Cfg = ()> + FixedSize>(&mut self) -> Result<T, Malformed> {
        let mut rest = Copying(self.rest());
        let value = T::read_cfg(&mut rest, &()).map_err(|error| self.refuse(translate(&error)))?;
        let left = rest.0.len();
        self.at = self.frame.len().saturating_sub(left);
        Ok(value)
    }

    /// Takes one byte.
    ///
    /// # Errors
    /// [`Why::Short`] at the end.
    #[inline]
    pub fn byte(&mut self) -> Result<u8, Malformed> {
        self.array().map(|[byte]| byte)
    }

    /// Reads a minimal varint.
    ///
    /// # Errors
    /// [`Why::BadVarint`] when it is padded or too wide, [`Why::Short`] when the input ends in it.
    #[inline]
    pub fn varint(&mut self) -> Result<u64, Malformed> {
        // Most fit a byte.
        if let Some(small) = self.rest().first().copied().filter(|first| *first < 0x80) {
            self.at = self.at.saturating_add(1);
            return Ok(u64::from(small));
        }
        let (mut value, mut shift) = (0_u64, 0_u32);
        for (at, byte) in (1_usize..).zip(self.rest()) {
            // Of the tenth byte one bit is left.
            if shift == 63 && *byte > 1 {
                return Err(self.refuse(Why::BadVarint));
            }
            value |= u64::from(*byte & 0x7f) << shift;
            shift = shift.saturating_add(7);
            if *byte >= 0x80 {
                continue;
            }
            if *byte == 0 {
                return Err(self.refuse(Why::BadVarint));
            }
            self.at = self.at.saturating_add(at);
            return Ok(value);
        }
        Err(self.refuse(Why::Short))
    }

    /// Reads the count of a sequence and checks it against `max` and against what remains, so that it can be
    /// trusted as a loop bound.
    ///
    /// # Errors
    /// [`Why::TooLong`] above `max`, [`Why::Short`] when even one byte per element is missing.
    #[inline]
    pub fn count(&mut self, max: usize) -> Result<usize, Malformed> {
        let refusal = self.refuse(Why::TooLong);
        let count = usize::try_from(self.varint()?).map_err(|_| refusal)?;
        if count > max {
            return Err(refusal);
        }
        if count > self.remaining() {
            return Err(Malformed { why: Why::Short, ..refusal });
        }
        Ok(count)
    }

    /// Ends the reading.
    ///
    /// # Errors
    /// [`Why::Trailing`] when bytes remain.
    pub fn finish(self) -> Result<(), Malformed> {
        if self.rest().is_empty() { Ok(()) } else { Err(self.refuse(Why::Trailing)) }
    }
}

fn translate(error: &Error) -> Why {
    match error {
        Error::EndOfBuffer => Why::Short,
        Error::InvalidBool => Why::BadBool,
        _ => Why::BadVarint,
    }
}

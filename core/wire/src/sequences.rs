//! Sequences whose bound is part of their type.

use core::ops::Deref;

use bytes::Bytes;

use crate::{Draw, Drawn, Malformed, Reader, Why, Wire, Writer};

/// A refusal to build a sequence longer than its type allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

/// At most `MAX` bytes, shared with the frame they came in.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Blob<const MAX: usize>(Bytes);

impl<const MAX: usize> Blob<MAX> {
    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.0
    }

    /// The bytes, by value.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        self.0
    }
}

impl<const MAX: usize> TryFrom<Bytes> for Blob<MAX> {
    type Error = TooLong;
    fn try_from(bytes: Bytes) -> Result<Self, TooLong> {
        if bytes.len() <= MAX { Ok(Self(bytes)) } else { Err(TooLong) }
    }
}

impl<const MAX: usize> Deref for Blob<MAX> {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl<const MAX: usize> Wire for Blob<MAX> {
    fn write(&self, out: &mut Writer) {
        out.count(self.0.len());
        out.bytes(&self.0);
    }
    fn read(input: &mut Reader) -> Result<Self, Malformed> {
        let count = input.count(MAX)?;
        Ok(Self(input.take(count)?))
    }
    fn size_hint(&self) -> usize {
        self.0.len() + 5
    }
}

impl<const MAX: usize> Draw for Blob<MAX> {
    fn draw(from: &mut Drawn) -> Self {
        let length = from.length(MAX);
        Self((0..length).map(|_| u8::draw(from)).collect())
    }
}

/// At most `MAX` values.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct List<T, const MAX: usize>(Vec<T>);

impl<T, const MAX: usize> Default for List<T, MAX> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T, const MAX: usize> List<T, MAX> {
    /// The longest list of this type.
    pub const MAX: usize = MAX;

    /// Appends `value`, or gives it back when the list is full.
    ///
    /// # Errors
    /// [`TooLong`] at `MAX` values.
    pub fn push(&mut self, value: T) -> Result<(), TooLong> {
        if self.0.len() >= MAX {
            return Err(TooLong);
        }
        self.0.push(value);
        Ok(())
    }

    /// The values, by value.
    #[must_use]
    pub fn into_vec(self) -> Vec<T> {
        self.0
    }
}

impl<T, const MAX: usize> TryFrom<Vec<T>> for List<T, MAX> {
    type Error = TooLong;
    fn try_from(values: Vec<T>) -> Result<Self, TooLong> {
        if values.len() <= MAX { Ok(Self(values)) } else { Err(TooLong) }
    }
}

impl<T, const MAX: usize> Deref for List<T, MAX> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T, const MAX: usize> IntoIterator for List<T, MAX> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a, T, const MAX: usize> IntoIterator for &'a List<T, MAX> {
    type Item = &'a T;
    type IntoIter = core::slice::Iter<'a, T>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl<T: Wire, const MAX: usize> Wire for List<T, MAX> {
    fn write(&self, out: &mut Writer) {
        out.count(self.0.len());
        for value in &self.0 {
            value.write(out);
        }
    }

    fn read(input: &mut Reader) -> Result<Self, Malformed> {
        let count = input.count(MAX)?;
        // Room for what the remaining bytes could hold at the size in memory: a short input that claims many
        // elements reserves little and then ends.
        let room = input.remaining().checked_div(size_of::<T>()).unwrap_or(count).saturating_add(1);
        let mut values = Vec::with_capacity(count.min(room));
        for _ in 0..count {
            values.push(T::read(input)?);
        }
        Ok(Self(values))
    }

    fn size_hint(&self) -> usize {
        5 + self.0.iter().map(Wire::size_hint).sum::<usize>()
    }
}

impl<T: Draw, const MAX: usize> Draw for List<T, MAX> {
    fn draw(from: &mut Drawn) -> Self {
        let length = from.length(MAX);
        Self((0..length).map(|_| T::draw(from)).collect())
    }
}

impl Wire for String {
    /// UTF-8 of at most 64 KiB; longer text is cut off by nobody, it is refused.
    fn write(&self, out: &mut Writer) {
        out.count(self.len());
        out.bytes(self.as_bytes());
    }
    fn read(input: &mut Reader) -> Result<Self, Malformed> {
        let count = input.count(64 << 10)?;
        let refusal = input.refuse(Why::NotCanonical);
        let bytes = input.take(count)?;
        core::str::from_utf8(&bytes).map(str::to_owned).map_err(|_| refusal)
    }
    fn size_hint(&self) -> usize {
        self.len() + 3
    }
}

impl Draw for String {
    fn draw(from: &mut Drawn) -> Self {
        let length = from.length(24);
        (0..length).map(|_| char::from(b'a' + u8::draw(from) % 26)).collect()
    }
}

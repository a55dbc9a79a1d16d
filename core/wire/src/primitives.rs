//! Encodings of the primitive types, options, arrays and pairs.
//!
//! `u8`, `bool` and byte arrays are fixed; `u16`, `u32`, `u64` and `u128` that count or name something are
//! minimal varints (`u128` is sixteen big-endian bytes). `usize` has no encoding on purpose.

use std::sync::Arc;

use crate::{Draw, Drawn, Malformed, Reader, Why, Wire, Writer};

impl Wire for u8 {
    #[inline]
    fn write(&self, out: &mut Writer) {
        out.byte(*self);
    }
    #[inline]
    fn read(input: &mut Reader) -> Result<Self, Malformed> {
        input.byte()
    }
    fn size_hint(&self) -> usize {
        1
    }
}

impl Wire for bool {
    #[inline]
    fn write(&self, out: &mut Writer) {
        out.fixed(self);
    }
    #[inline]
    fn read(input: &mut Reader) -> Result<Self, Malformed> {
        input.fixed()
    }
    fn size_hint(&self) -> usize {
        1
    }
}

impl Wire for u64 {
    #[inline]
    fn write(&self, out: &mut Writer) {
        out.varint(*self);
    }
    #[inline]
    fn read(input: &mut Reader) -> Result<Self, Malformed> {
        input.varint()
    }
    fn size_hint(&self) -> usize {
        10
    }
}

macro_rules! narrow_varint {
    ($($type:ty),*) => {$(
        impl Wire for $type {
            #[inline]
            fn write(&self, out: &mut Writer) {
                out.varint(u64::from(*self));
            }
            #[inline]
            fn read(input: &mut Reader) -> Result<Self, Malformed> {
                let refusal = input.refuse(Why::BadVarint);
                Self::try_from(input.varint()?).map_err(|_| refusal)
            }
            fn size_hint(&self) -> usize {
                size_of::<Self>() + 1
            }
        }
    )*};
}
narrow_varint!(u16, u32);

impl Wire for u128 {
    #[inline]
    fn write(&self, out: &mut Writer) {
        out.bytes(&self.to_be_bytes());
    }
    #[inline]
    fn read(input: &mut Reader) -> Result<Self, Malformed> {
        input.array().map(Self::from_be_bytes)
    }
    fn size_hint(&self) -> usize {
        16
    }
}

impl<const N: usize> Wire for [u8; N] {
    #[inline]
    fn write(&self, out: &mut Writer) {
        out.bytes(self);
    }
    #[inline]
    fn read(input: &mut Reader) -> Result<Self, Malformed> {
        input.array()
    }
    fn size_hint(&self) -> usize {
        N
    }
}

impl<T: Wire> Wire for Option<T> {
    #[inline]
    fn write(&self, out: &mut Writer) {
        self.is_some().write(out);
        if let Some(value) = self {
            value.write(out);
        }
    }
    #[inline]
    fn read(input: &mut Reader) -> Result<Self, Malformed> {
        if bool::read(input)? { Ok(Some(T::read(input)?)) } else { Ok(None) }
    }
    fn size_hint(&self) -> usize {
        1 + self.as_ref().map_or(0, Wire::size_hint)
    }
}

impl<T: Wire> Wire for Box<T> {
    #[inline]
    fn write(&self, out: &mut Writer) {
        T::write(self, out);
    }
    #[inline]
    fn read(input: &mut Reader) -> Result<Self, Malformed> {
        Ok(Self::new(T::read(input)?))
    }
    fn size_hint(&self) -> usize {
        T::size_hint(self)
    }
}

impl<T: Wire> Wire for Arc<T> {
    #[inline]
    fn write(&self, out: &mut Writer) {
        T::write(self, out);
    }
    #[inline]
    fn read(input: &mut Reader) -> Result<Self, Malformed> {
        Ok(Self::new(T::read(input)?))
    }
    fn size_hint(&self) -> usize {
        T::size_hint(self)
    }
}

impl<A: Wire, B: Wire> Wire for (A, B) {
    #[inline]
    fn write(&self, out: &mut Writer) {
        self.0.write(out);
        self.1.write(out);
    }
    #[inline]
    fn read(input: &mut Reader) -> Result<Self, Malformed> {
        Ok((A::read(input)?, B::read(input)?))
    }
    fn size_hint(&self) -> usize {
        self.0.size_hint() + self.1.size_hint()
    }
}

impl Wire for () {
    #[inline]
    fn write(&self, _: &mut Writer) {}
    #[inline]
    fn read(_: &mut Reader) -> Result<Self, Malformed> {
        Ok(())
    }
}

impl Draw for () {
    fn draw(_: &mut Drawn) -> Self {}
}

impl Draw for u8 {
    fn draw(from: &mut Drawn) -> Self {
        from.next().to_le_bytes()[0]
    }
}

impl Draw for bool {
    fn draw(from: &mut Drawn) -> Self {
        from.below(2) == 1
    }
}

impl Draw for u64 {
    /// Small, middling and large values in equal shares, so that every varint length appears.
    fn draw(from: &mut Drawn) -> Self {
        let shift = from.below(64);
        from.next() >> shift
    }
}

macro_rules! narrow_draw {
    ($($type:ty),*) => {$(
        impl Draw for $type {
            fn draw(from: &mut Drawn) -> Self {
                let wide = u64::draw(from) % (u64::from(<$type>::MAX) + 1);
                <$type>::try_from(wide).unwrap_or(<$type>::MAX)
            }
        }
    )*};
}
narrow_draw!(u16, u32);

impl Draw for u128 {
    fn draw(from: &mut Drawn) -> Self {
        (Self::from(u64::draw(from)) << 64) | Self::from(from.next())
    }
}

impl<const N: usize> Draw for [u8; N] {
    fn draw(from: &mut Drawn) -> Self {
        core::array::from_fn(|_| u8::draw(from))
    }
}

impl<T: Draw> Draw for Option<T> {
    fn draw(from: &mut Drawn) -> Self {
        if bool::draw(from) { Some(T::draw(from)) } else { None }
    }
}

impl<T: Draw> Draw for Box<T> {
    fn draw(from: &mut Drawn) -> Self {
        Self::new(T::draw(from))
    }
}

impl<T: Draw> Draw for Arc<T> {
    fn draw(from: &mut Drawn) -> Self {
        Self::new(T::draw(from))
    }
}

impl<A: Draw, B: Draw> Draw for (A, B) {
    fn draw(from: &mut Drawn) -> Self {
        (A::draw(from), B::draw(from))
    }
}

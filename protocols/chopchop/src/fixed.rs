//! Fixed-width little-endian encodings: what Chop Chop signs, hashes and puts into datagrams.
//!
//! Why not the minimal varints of the other protocols: a header is read in place, a datagram has a known size, and a
//! signed body has one form that other languages lay out without a codec.

use synod_crypto::{Hash, PublicKey, Signature};
use synod_quorum::Epoch;
use synod_wire::{Malformed, Reader, Why, Writer};

/// A value of fixed width.
pub(crate) trait Fixed: Sized {
    /// Appends the value.
    fn put(&self, out: &mut Writer);

    /// Reads one value.
    ///
    /// # Errors
    /// [`Malformed`] when the input ends in it or the bytes are no value.
    fn take(input: &mut Reader) -> Result<Self, Malformed>;
}

macro_rules! integers {
    ($($type:ty),*) => {$(
        impl Fixed for $type {
            fn put(&self, out: &mut Writer) {
                out.bytes(&self.to_le_bytes());
            }
            fn take(input: &mut Reader) -> Result<Self, Malformed> {
                Ok(Self::from_le_bytes(input.array()?))
            }
        }
    )*};
}
integers!(u8, u16, u32, u64);

impl Fixed for bool {
    fn put(&self, out: &mut Writer) {
        out.byte(u8::from(*self));
    }
    fn take(input: &mut Reader) -> Result<Self, Malformed> {
        let refusal = input.refuse(Why::BadBool);
        match u8::take(input)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(refusal),
        }
    }
}

impl<const N: usize> Fixed for [u8; N] {
    fn put(&self, out: &mut Writer) {
        out.bytes(self);
    }
    fn take(input: &mut Reader) -> Result<Self, Malformed> {
        input.array()
    }
}

macro_rules! wrapped {
    ($($type:ident),*) => {$(
        impl Fixed for $type {
            fn put(&self, out: &mut Writer) {
                self.0.put(out);
            }
            fn take(input: &mut Reader) -> Result<Self, Malformed> {
                Ok(Self(Fixed::take(input)?))
            }
        }
    )*};
}
wrapped!(Hash, PublicKey, Signature, Epoch);

/// Declares structs whose encoding is their fields in order, each of fixed width.
macro_rules! fixed {
    ($(
        $(#[$meta:meta])*
        $vis:vis struct $name:ident { $( $(#[$fmeta:meta])* $fvis:vis $field:ident : $type:ty ),* $(,)? }
    )*) => {$(
        $(#[$meta])*
        $vis struct $name { $( $(#[$fmeta])* $fvis $field: $type ),* }
        impl $crate::fixed::Fixed for $name {
            fn put(&self, out: &mut synod_wire::Writer) {
                $( $crate::fixed::Fixed::put(&self.$field, out); )*
            }
            fn take(input: &mut synod_wire::Reader) -> Result<Self, synod_wire::Malformed> {
                Ok(Self { $( $field: $crate::fixed::Fixed::take(input)? ),* })
            }
        }
        impl synod_wire::Wire for $name {
            fn write(&self, out: &mut synod_wire::Writer) {
                $crate::fixed::Fixed::put(self, out);
            }
            fn read(input: &mut synod_wire::Reader) -> Result<Self, synod_wire::Malformed> {
                $crate::fixed::Fixed::take(input)
            }
        }
        impl synod_wire::Draw for $name {
            fn draw(from: &mut synod_wire::Drawn) -> Self {
                Self { $( $field: synod_wire::Draw::draw(from) ),* }
            }
        }
    )*};
}
pub(crate) use fixed;

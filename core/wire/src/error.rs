//! Why bytes were refused.

use core::fmt;

/// A refusal to decode: where and why. The peer that sent the bytes is at fault, nobody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// Offset of the first byte of the field that was refused.
    pub at: u32,
    /// The rule that was broken.
    pub why: Why,
}

/// The rule of the encoding that bytes broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Why {
    /// The input ended inside a field.
    Short,
    /// Bytes follow the last field.
    Trailing,
    /// The frame is longer than its queue allows.
    TooLarge,
    /// An integer is not in its shortest form, or does not fit its type.
    BadVarint,
    /// A boolean or an option tag is neither 0 nor 1.
    BadBool,
    /// No variant has this tag.
    UnknownTag(u8),
    /// A sequence is longer than its type allows.
    TooLong,
    /// Set members are not in strictly rising order, or unused bits are set.
    NotCanonical,
    /// The version byte is not one that this build speaks.
    UnknownVersion(u8),
    /// A value is outside the range its type allows.
    OutOfRange,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "malformed at byte {}: {:?}", self.at, self.why)
    }
}

impl core::error::Error for Malformed {}

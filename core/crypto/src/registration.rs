//! Keys that may enter a roster or a session table.

use core::fmt;

use ed25519_zebra::VerificationKey;

use crate::PublicKey;

/// Why a key is refused at registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadKey {
    /// The bytes are no point of the curve.
    NoPoint,
    /// The point has another, canonical encoding.
    NonCanonical,
    /// The point has small order: signatures under it bind nobody.
    SmallOrder,
}

impl fmt::Display for BadKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoPoint => "the key is no point of the curve",
            Self::NonCanonical => "the key is not in its canonical encoding",
            Self::SmallOrder => "the key has small order",
        })
    }
}

impl core::error::Error for BadKey {}

/// y coordinates of the points of order 1, 2, 4 and 8, little-endian (RFC 8032 encoding without the sign bit).
const SMALL_ORDER: [[u8; 32]; 5] = [
    y(b"0100000000000000000000000000000000000000000000000000000000000000"),
    y(b"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"),
    y(b"0000000000000000000000000000000000000000000000000000000000000000"),
    y(b"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"),
    y(b"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"),
];

/// 2^255 - 19, little-endian.
const FIELD: [u8; 32] = y(b"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f");

/// Accepts a key that is a canonical encoding of a point of large order. Verification itself follows ZIP-215 and
/// accepts more; what may be *registered* is stricter, so that one identity has one name.
///
/// # Errors
/// [`BadKey`] says which rule the key breaks.
pub fn check_key(key: &PublicKey) -> Result<(), BadKey> {
    let mut y = key.0;
    y[31] &= 0x7f;
    if SMALL_ORDER.contains(&y) {
        return Err(BadKey::SmallOrder);
    }
    if y.iter().rev().ge(FIELD.iter().rev()) {
        return Err(BadKey::NonCanonical);
    }
    VerificationKey::try_from(key.0).map(|_| ()).map_err(|_| BadKey::NoPoint)
}

const fn y(hex: &[u8; 64]) -> [u8; 32] {
    let mut out = [0; 32];
    let mut at = 0;
    while at < 32 {
        out[at] = digit(hex[2 * at]) << 4 | digit(hex[2 * at + 1]);
        at += 1;
    }
    out
}

const fn digit(hex: u8) -> u8 {
    match hex {
        b'0'..=b'9' => hex - b'0',
        _ => hex - b'a' + 10,
    }
}

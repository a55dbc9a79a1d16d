//! Error replies: Redis's words behind a Synod code. They are part of the result, equal at every replica.

use std::borrow::Cow;

/// A command that was refused and changed nothing; holds the text of its error reply without the leading `-`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denied(Cow<'static, str>);

const fn fixed(text: &'static str) -> Denied {
    Denied(Cow::Borrowed(text))
}

/// The key holds a value of another type.
pub(crate) const WRONG_TYPE: Denied =
    fixed("WRONGTYPE SYN-3004 Operation against a key holding the wrong kind of value");
/// An argument should be an integer.
pub(crate) const NOT_INTEGER: Denied = fixed("ERR SYN-3001 value is not an integer or out of range");
/// An argument should be a number.
pub(crate) const NOT_FLOAT: Denied = fixed("ERR SYN-3001 value is not a valid float");
/// A score range should be of numbers.
pub(crate) const NOT_FLOAT_RANGE: Denied = fixed("ERR SYN-3001 min or max is not a float");
/// A count should not be negative.
pub(crate) const NOT_POSITIVE: Denied = fixed("ERR SYN-3001 value is out of range, must be positive");
/// A field should hold an integer.
pub(crate) const FIELD_NOT_INTEGER: Denied = fixed("ERR SYN-3001 hash value is not an integer");
/// The sum does not fit 64 bits.
pub(crate) const OVERFLOW: Denied = fixed("ERR SYN-3001 increment or decrement would overflow");
/// The negated operand does not fit 64 bits.
pub(crate) const DECREMENT_OVERFLOW: Denied = fixed("ERR SYN-3001 decrement would overflow");
/// The sum of scores is not a number.
pub(crate) const NOT_A_NUMBER: Denied = fixed("ERR SYN-3001 resulting score is not a number (NaN)");
/// Options do not parse.
pub(crate) const SYNTAX: Denied = fixed("ERR SYN-3001 syntax error");
/// A cursor is not a number that SCAN gives.
pub(crate) const BAD_CURSOR: Denied = fixed("ERR SYN-3001 invalid cursor");
/// A pattern takes too long on one key.
pub(crate) const PATTERN_TOO_SLOW: Denied =
    fixed("ERR SYN-3002 the pattern takes more than 1048576 steps to match one key");
/// NX with XX in ZADD.
pub(crate) const NX_WITH_XX: Denied =
    fixed("ERR SYN-3001 XX and NX options at the same time are not compatible");
/// GT with LT or NX in ZADD.
pub(crate) const GT_WITH_LT: Denied =
    fixed("ERR SYN-3001 GT, LT, and/or NX options at the same time are not compatible");
/// NX with another condition in EXPIRE.
pub(crate) const EXPIRE_NX: Denied =
    fixed("ERR SYN-3001 NX and XX, GT or LT options at the same time are not compatible");
/// GT with LT in EXPIRE.
pub(crate) const EXPIRE_GT_LT: Denied =
    fixed("ERR SYN-3001 GT and LT options at the same time are not compatible");
/// ZADD INCR with several pairs.
pub(crate) const ZADD_INCR: Denied =
    fixed("ERR SYN-3001 INCR option supports a single increment-element pair");
/// LIMIT without a score range.
pub(crate) const LIMIT_ALONE: Denied =
    fixed("ERR SYN-3001 syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX");
/// Lexical ranges are not offered.
pub(crate) const NO_BYLEX: Denied = fixed("ERR SYN-3003 BYLEX is not supported");
/// A string would pass its limit.
pub(crate) const STRING_TOO_LONG: Denied =
    fixed("ERR SYN-3002 string exceeds maximum allowed size (524288 bytes)");
/// A key passes its limit.
pub(crate) const KEY_TOO_LONG: Denied = fixed("ERR SYN-3002 key exceeds maximum allowed size (65536 bytes)");
/// A collection would pass its limit.
pub(crate) const ENTRY_TOO_LARGE: Denied =
    fixed("ERR SYN-3002 value exceeds maximum allowed size (67108864 bytes)");
/// The reply would pass its limit.
pub(crate) const REPLY_TOO_LARGE: Denied =
    fixed("ERR SYN-3002 reply exceeds maximum allowed size (2097152 bytes)");
/// The operation does not decode, or is over the limits of its format.
pub(crate) const MALFORMED: Denied = fixed("ERR SYN-3001 malformed operation");
/// The store is full.
pub(crate) const FULL: Denied = fixed("OOM SYN-3402 command not allowed when used memory > 'maxmemory'.");

impl Denied {
    /// The text of the reply, without the leading `-`.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }

    /// The number of arguments does not fit the command `name`.
    #[must_use]
    pub fn arity(name: &str) -> Self {
        Self(format!("ERR SYN-3001 wrong number of arguments for '{name}' command").into())
    }

    /// The time to live given to the command `name` is not positive or does not fit.
    pub(crate) fn expire_time(name: &str) -> Self {
        Self(format!("ERR SYN-3001 invalid expire time in '{name}' command").into())
    }

    /// An option that the command does not have; bytes that are not printable are shown as `?`.
    pub(crate) fn option(given: &[u8]) -> Self {
        let shown: String = given
            .iter()
            .take(64)
            .map(|byte| if byte.is_ascii_graphic() { char::from(*byte) } else { '?' })
            .collect();
        Self(format!("ERR SYN-3001 Unsupported option {shown}").into())
    }
}

//! The properties that every decoder shares, and the measures around them.

use std::cell::Cell;
use std::fmt::Debug;
use std::sync::OnceLock;

use synod_wire::{Bytes, Draw, Drawn, Limits, Wire};

/// What a decoder may allocate beyond 8 times its input, in bytes.
pub const SLACK_BYTES: usize = 64 << 10;

/// Begins and ends a limit on allocation: `Some(bytes)` allows that many more bytes than are allocated now, `None`
/// lifts the limit.
pub type Meter = fn(Option<usize>);

static METER: OnceLock<Meter> = OnceLock::new();

thread_local! {
    static ACCEPTED: Cell<u64> = const { Cell::new(0) };
}

/// Installs what limits allocation from now on; without it nothing is limited. The first one stays.
pub fn install(meter: Meter) {
    let _first_stays = METER.set(meter);
}

/// Lifts the limit: what reports a finding allocates as it likes.
pub fn lift() {
    if let Some(meter) = METER.get() {
        meter(None);
    }
}

/// How many inputs of this thread were accepted so far.
#[must_use]
pub fn accepted() -> u64 {
    ACCEPTED.get()
}

/// Counts an accepted input: a campaign in which nothing was accepted has shown nothing.
pub(crate) fn accept() {
    ACCEPTED.set(ACCEPTED.get() + 1);
}

struct Lifted;

impl Drop for Lifted {
    fn drop(&mut self) {
        lift();
    }
}

/// Runs `decode` under the bound for an input of `length` bytes: 8 times its length and [`SLACK_BYTES`].
pub(crate) fn bounded<T>(length: usize, decode: impl FnOnce() -> T) -> T {
    let Some(meter) = METER.get() else { return decode() };
    meter(Some(length.saturating_mul(8).saturating_add(SLACK_BYTES)));
    let _lifted = Lifted;
    decode()
}

/// A drawn value's encoding, of which the value comes back.
///
/// # Panics
/// When it does not: decode(encode(x)) = x is broken.
pub(crate) fn drawn<T: Wire + Draw + PartialEq + Debug>(from: &mut Drawn) -> Vec<u8> {
    let value = T::draw(from);
    let bytes = value.encode();
    let again = T::decode(bytes.clone(), &Limits::default());
    assert!(again.as_ref() == Ok(&value), "roundtrip: {value:?} came back as {again:?}");
    bytes.to_vec()
}

/// The properties of a canonical encoding for any input.
///
/// # Panics
/// With the property that broke.
pub(crate) fn wire<T: Wire + PartialEq + Debug>(bytes: &[u8]) {
    let limits = Limits::default();
    let input = Bytes::copy_from_slice(bytes);
    let Ok(value) = bounded(bytes.len(), || T::decode(input, &limits)) else { return };
    accept();
    canonical(bytes, &value, |bytes| T::decode(bytes, &limits).ok(), T::encode);
}

/// What must hold of an accepted input: it is the encoding of its value, the value comes back from it, and with one
/// byte more or less it is refused.
pub(crate) fn canonical<T: PartialEq + Debug>(
    bytes: &[u8],
    value: &T,
    decode: impl Fn(Bytes) -> Option<T>,
    encode: impl Fn(&T) -> Bytes,
) {
    let again = encode(value);
    assert!(again == bytes, "roundtrip: {value:?} was decoded from other bytes, it is encoded as {again:?}");
    assert!(decode(again).as_ref() == Some(value), "roundtrip: {value:?} does not come back");
    let longer: Vec<u8> = bytes.iter().copied().chain([0]).collect();
    assert!(decode(Bytes::from(longer)).is_none(), "a byte behind {value:?} was accepted");
    if let Some((_, shorter)) = bytes.split_last() {
        let shorter = Bytes::copy_from_slice(bytes.get(..shorter.len()).unwrap_or_default());
        assert!(decode(shorter).is_none(), "{value:?} without its last byte was accepted");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use synod_wire::{Malformed, Reader, Writer};

    /// A codec with the mistake that the properties are for: it reads numbers that it would not write.
    #[derive(Debug, PartialEq)]
    struct Loose(u8);

    impl Wire for Loose {
        fn write(&self, out: &mut Writer) {
            out.byte(self.0);
        }
        fn read(input: &mut Reader) -> Result<Self, Malformed> {
            input.array::<1>().map(|[byte]| Self(byte & 0x7f))
        }
    }

    #[test]
    fn a_codec_that_reads_what_it_does_not_write_is_found() {
        wire::<Loose>(&[5]);
        let found =
            std::panic::catch_unwind(|| wire::<Loose>(&[0x85])).expect_err("two encodings of one value");
        let text = found.downcast_ref::<String>().map(String::as_str).unwrap_or_default();
        assert!(text.starts_with("roundtrip: "), "{text}");
    }

    #[test]
    fn accepted_inputs_are_counted() {
        let before = accepted();
        wire::<u64>(&[]);
        assert_eq!(accepted(), before);
        wire::<bool>(&[1]);
        assert_eq!(accepted(), before + 1);
    }
}

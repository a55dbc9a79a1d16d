//! Public bytes as hex digits.

use std::fmt::Write as _;

/// Two digits per byte.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().saturating_mul(2));
    for byte in bytes {
        let _infallible = write!(text, "{byte:02x}");
    }
    text
}

/// The bytes of an even number of hex digits, of either case; `None` for anything else.
#[must_use]
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.chars().map(|digit| digit.to_digit(16).and_then(|value| u8::try_from(value).ok()));
    let digits: Vec<u8> = digits.collect::<Option<_>>()?;
    let pairs = digits.chunks_exact(2);
    pairs.remainder().is_empty().then(|| pairs.map(|pair| pair[0] << 4 | pair[1]).collect())
}

#[cfg(test)]
mod tests {
    use super::{hex, unhex};

    #[test]
    fn digits_become_bytes_and_bytes_digits() {
        assert_eq!(unhex("00fF1a"), Some(vec![0, 255, 26]));
        assert_eq!(hex(&[0, 255, 26]), "00ff1a");
        assert_eq!(
            (unhex(""), unhex("0"), unhex("0g"), unhex("\u{e9}1")),
            (Some(Vec::new()), None, None, None)
        );
    }
}

//! Bytes as text: the JSON rule, base64, percent-encoding.

use serde_json::{Map, Value};

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const PAD: u8 = b'=';

/// Base64 with padding.
fn to_base64(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |at: usize| u32::from(group.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            let six = usize::try_from(bits >> (18 - 6 * place) & 63).unwrap_or(0);
            out.push(char::from(if place > group.len() { PAD } else { ALPHABET[six] }));
        }
    }
    out
}

/// The value of one character.
fn six_bits(character: u8) -> Option<u32> {
    let value = match character {
        b'A'..=b'Z' => character - b'A',
        b'a'..=b'z' => character - b'a' + 26,
        b'0'..=b'9' => character - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(u32::from(value))
}

/// Reads base64 with padding; `None` for anything that [`to_base64`] does not write.
fn from_base64(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let (groups, _) = text.as_bytes().as_chunks::<4>();
    for (at, group) in groups.iter().enumerate() {
        let padding = group.iter().rev().take_while(|character| **character == PAD).count();
        if padding > 2 || (padding > 0 && at + 1 < groups.len()) {
            return None;
        }
        let mut bits = 0;
        for character in &group[..4 - padding] {
            bits = bits << 6 | six_bits(*character)?;
        }
        bits <<= 6 * padding;
        let [_, bytes @ ..] = bits.to_be_bytes();
        let (kept, rest) = bytes.split_at(3 - padding);
        if rest.iter().any(|byte| *byte != 0) {
            return None;
        }
        out.extend_from_slice(kept);
    }
    Some(out)
}

/// Puts bytes into an object by the rule of the module's documentation.
pub(super) fn put(object: &mut Map<String, Value>, name: &str, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) => object.insert(name.to_owned(), Value::from(text)),
        Err(_) => object.insert(format!("{name}_base64"), Value::from(to_base64(bytes))),
    };
}

/// Takes bytes out of the two fields of a request.
///
/// # Errors
/// What is wrong, for SYN-3001.
pub(super) fn take(name: &str, text: Option<String>, base64: Option<String>) -> Result<Vec<u8>, String> {
    match (text, base64) {
        (Some(text), None) => Ok(text.into_bytes()),
        (None, Some(base64)) => {
            from_base64(&base64).ok_or_else(|| format!("{name}_base64 is not padded base64"))
        }
        (None, None) => Err(format!("{name} or {name}_base64 is missing")),
        (Some(_), Some(_)) => Err(format!("{name} and {name}_base64 are both given")),
    }
}

/// Reads percent-encoded bytes; `None` when a `%` is not followed by two hex digits.
pub(crate) fn from_percent(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        if *first == b'%' {
            let (digits, behind) = behind.split_at_checked(2)?;
            let digit = |at: usize| char::from(digits[at]).to_digit(16);
            out.push(u8::try_from(digit(0)? << 4 | digit(1)?).ok()?);
            rest = behind;
        } else {
            out.push(*first);
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_agrees_with_the_vectors_of_rfc_4648() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(to_base64(bytes.as_bytes()), text);
            assert_eq!(from_base64(text).as_deref(), Some(bytes.as_bytes()));
        }
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(from_base64(&to_base64(&all)), Some(all));
    }

    #[test]
    fn base64_that_nobody_writes_is_refused() {
        for text in ["Z", "Zg", "Zg=", "Zh==", "Zm9=", "Zg==Zg==", "====", "Zm 9", "Zm9v\n", "Zm9_", "=Zg="] {
            assert_eq!(from_base64(text), None, "{text:?}");
        }
    }

    #[test]
    fn bytes_stand_as_text_if_they_are_text() {
        let shown = |bytes: &[u8]| {
            let mut object = Map::new();
            put(&mut object, "value", bytes);
            Value::from(object).to_string()
        };
        assert_eq!(shown("grün".as_bytes()), r#"{"value":"grün"}"#);
        assert_eq!(shown(&[0xff, 0]), r#"{"value_base64":"/wA="}"#);
        let text = || Some("a".to_owned());
        assert_eq!(take("key", text(), None), Ok(b"a".to_vec()));
        assert_eq!(take("key", None, Some("/wA=".to_owned())), Ok(vec![0xff, 0]));
        assert!(take("key", None, None).is_err() && take("key", text(), text()).is_err());
        assert!(take("key", None, text()).is_err());
    }

    #[test]
    fn percent_encoding_is_read_byte_by_byte() {
        assert_eq!(from_percent("a%2Fb%ff+").as_deref(), Some(&b"a/b\xff+"[..]));
        for text in ["%", "%2", "%2g", "a%"] {
            assert_eq!(from_percent(text), None, "{text}");
        }
    }
}

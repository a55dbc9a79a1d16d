//! Key files, public cards, and the form in which TLS tools take a public key.
//!
//! A key file is one line, `synod-key-1 KIND HEX`, where HEX are the 64 digits of the secret. It is created with
//! mode 0600 and refused unless it is a regular file of that mode that belongs to the user who reads it; links
//! are not followed. Secrets are wiped when dropped and have no printed form.

mod card;
mod file;
mod pkcs8;
mod spki;

pub use card::{Card, Subject};
pub(crate) use file::checker;
pub use file::{KeyKind, NodeKey};
pub use spki::spki_pem;

/// Exactly `N` bytes from lower-case hex digits.
pub(crate) fn from_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    if digits.len() != N.checked_mul(2)? {
        return None;
    }
    let mut out = [0; N];
    for (byte, pair) in out.iter_mut().zip(digits.chunks_exact(2)) {
        let [high, low] = pair else { return None };
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(out)
}

fn digit(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests;

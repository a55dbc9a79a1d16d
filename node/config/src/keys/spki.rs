//! The SubjectPublicKeyInfo form of an Ed25519 key (RFC 8410), as TLS libraries and openssl read it.

use synod_crypto::PublicKey;

/// SEQUENCE { SEQUENCE { OID 1.3.101.112 }, BIT STRING of 32 bytes }.
const PREFIX: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// The symbols of standard base64.
pub(super) const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The key as PEM, `-----BEGIN PUBLIC KEY-----` and so on. 44 bytes of DER fit one line.
#[must_use]
pub fn spki_pem(key: &PublicKey) -> String {
    let der: Vec<u8> = PREFIX.iter().chain(&key.0).copied().collect();
    format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", base64(&der))
}

/// Standard base64 with padding.
pub(super) fn base64(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3).saturating_mul(4));
    for group in bytes.chunks(3) {
        let byte = |at: usize| group.get(at).copied().unwrap_or(0);
        let bits = u32::from_be_bytes([0, byte(0), byte(1), byte(2)]);
        for (at, shift) in [18, 12, 6, 0].into_iter().enumerate() {
            let symbol = usize::try_from((bits >> shift) & 63).expect("six bits fit any machine word");
            out.push(if at <= group.len() { char::from(ALPHABET[symbol]) } else { '=' });
        }
    }
    out
}

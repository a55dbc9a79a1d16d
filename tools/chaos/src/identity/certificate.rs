//! X.509 certificates for Ed25519 keys, just good enough that only a verifier that speaks X.509 could fault them.
//!
//! Nodes do not speak X.509, so nothing here is read back in production.

use std::io;

use rustls::SignatureScheme;
use synod_crypto::{PublicKey, Seed};

use crate::stranger::raw_key;

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
/// 1.3.101.112, Ed25519.
const ED25519: [u8; 7] = [SEQUENCE, 5, 0x06, 3, 0x2b, 0x65, 0x70];
/// 2.5.4.3, the common name.
const COMMON_NAME: [u8; 5] = [0x06, 3, 0x55, 0x04, 0x03];

/// The DER of a certificate for `key` in the name of `subject`, signed by `authority` in the name of `issuer`.
///
/// # Errors
/// The authority's secret is refused.
pub(super) fn certificate(
    key: &PublicKey,
    subject: &str,
    authority: &Seed,
    issuer: &str,
) -> io::Result<Vec<u8>> {
    let validity = [tagged(0x17, b"200101000000Z"), tagged(0x17, b"491231235959Z")].concat();
    let body = tagged(
        SEQUENCE,
        &[
            tagged(0xa0, &[0x02, 1, 2]),
            tagged(0x02, &[1]),
            ED25519.to_vec(),
            name(issuer),
            tagged(SEQUENCE, &validity),
            name(subject),
            raw_key(key),
        ]
        .concat(),
    );
    let signer = crate::stranger::signing(authority)?;
    let signer = signer
        .choose_scheme(&[SignatureScheme::ED25519])
        .ok_or_else(|| io::Error::other("no Ed25519 from the provider"))?;
    let signature = signer.sign(&body).map_err(io::Error::other)?;
    let bits = tagged(0x03, &[&[0], signature.as_slice()].concat());
    Ok(tagged(SEQUENCE, &[body, ED25519.to_vec(), bits].concat()))
}

fn name(common: &str) -> Vec<u8> {
    let value = [COMMON_NAME.to_vec(), tagged(0x0c, common.as_bytes())].concat();
    tagged(SEQUENCE, &tagged(SET, &tagged(SEQUENCE, &value)))
}

/// One value under its tag. Values here are shorter than 64 KiB.
fn tagged(tag: u8, value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(value.len()).unwrap_or(u16::MAX).to_be_bytes();
    let head = match length {
        [0, short @ ..=127] => vec![tag, short],
        [0, long] => vec![tag, 0x81, long],
        [high, low] => vec![tag, 0x82, high, low],
    };
    [&head, value].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_holds_the_key_and_says_its_own_length() {
        let (seed, authority) = (Seed::new([3; 32]), Seed::new([4; 32]));
        let der = certificate(&seed.public(), "n0", &authority, "authority").expect("a sound secret");
        assert_eq!(der[..2], [SEQUENCE, 0x81]);
        assert_eq!(usize::from(der[2]), der.len() - 3);
        assert!(der.windows(32).any(|window| window == seed.public().0));
        assert!(!der.windows(32).any(|window| window == seed.expose()), "the secret is not in it");
    }

    #[test]
    fn lengths_have_their_shortest_form() {
        assert_eq!(tagged(2, &[0; 127])[..2], [2, 127]);
        assert_eq!(tagged(2, &[0; 128])[..3], [2, 0x81, 128]);
        assert_eq!(tagged(2, &[0; 256])[..4], [2, 0x82, 1, 0]);
    }
}

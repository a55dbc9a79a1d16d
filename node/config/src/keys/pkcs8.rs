//! The PKCS #8 form of an Ed25519 secret (RFC 8410), as openssl writes it, for keys that were made elsewhere.
#![deny(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::as_conversions
)]

use zeroize::{Zeroize as _, Zeroizing};

/// SEQUENCE { version 0, SEQUENCE { OID 1.3.101.112 }, OCTET STRING { OCTET STRING of 32 bytes } }.
const PREFIX: [u8; 16] =
    [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];
const DER_BYTES: usize = 48;
/// 48 bytes are 64 symbols without padding.
const SYMBOLS: usize = 64;

const BEGIN: &str = "-----BEGIN PRIVATE KEY-----";
const END: &str = "-----END PRIVATE KEY-----";

/// The secret in a PEM text. Messages never quote the content.
pub(super) fn parse(content: &[u8]) -> Result<Zeroizing<[u8; 32]>, &'static str> {
    let text = std::str::from_utf8(content).map_err(|_| "not text")?;
    let body = text.trim_end().strip_prefix(BEGIN).and_then(|rest| rest.strip_suffix(END));
    let symbols = body
        .ok_or("not an unencrypted private key in PEM")?
        .bytes()
        .filter(|byte| !byte.is_ascii_whitespace());
    let der = decode(symbols).ok_or("not the base64 of an Ed25519 key in PKCS #8")?;
    let (prefix, secret) =
        der.split_at_checked(PREFIX.len()).ok_or("shorter than an Ed25519 key in PKCS #8")?;
    if prefix != PREFIX {
        return Err("of another kind than Ed25519, or holds more than the secret");
    }
    let mut out = Zeroizing::new([0; 32]);
    out.copy_from_slice(secret);
    Ok(out)
}

/// Exactly [`SYMBOLS`] symbols of standard base64 without padding.
fn decode(symbols: impl Iterator<Item = u8>) -> Option<Zeroizing<[u8; DER_BYTES]>> {
    let mut out = Zeroizing::new([0; DER_BYTES]);
    let mut places = out.iter_mut();
    let (mut bits, mut held, mut count) = (0_u32, 0_u32, 0_usize);
    for symbol in symbols {
        count = count.checked_add(1).filter(|count| *count <= SYMBOLS)?;
        bits = bits << 6 | value(symbol)?;
        held = held.checked_add(6)?;
        if held >= 8 {
            held = held.checked_sub(8)?;
            *places.next()? = u8::try_from(bits >> held & 0xff).ok()?;
        }
    }
    bits.zeroize();
    (count == SYMBOLS).then_some(out)
}

fn value(symbol: u8) -> Option<u32> {
    let at = super::spki::ALPHABET.iter().position(|known| *known == symbol)?;
    u32::try_from(at).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::NodeKey;
    use synod_crypto::Seed;

    /// The private key of RFC 8410, section 10.3.
    const RFC: &str = "-----BEGIN PRIVATE KEY-----\n\
        MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n\
        -----END PRIVATE KEY-----\n";
    /// Its public half there.
    const PUBLIC: &str = "19bf44096984cdfe8541bac167dc3b96c85086aa30b6b6cb0c5c38ad703166e1";

    #[test]
    fn the_key_of_the_standard_gives_its_public_half() {
        let secret = parse(RFC.as_bytes()).expect("the standard's key is well formed");
        let key = NodeKey::from_seed(Seed::new(*secret));
        assert_eq!(crate::hex(&key.public().0), PUBLIC);
    }

    #[test]
    fn everything_else_is_refused() {
        let bad = [
            String::new(),
            RFC.replace("MC4C", "MC4D"),
            RFC.replace("BCIEI", "BCIE"),
            RFC.replace("EdVhC", "EdVhCAAAA"),
            RFC.replace("EdVhC", "EdVh="),
            RFC.replace("PRIVATE", "ENCRYPTED PRIVATE"),
            RFC.replace("VwBC", "WwBC"),
            format!("{RFC}{RFC}"),
        ];
        for text in bad {
            assert!(parse(text.as_bytes()).is_err(), "{text}");
        }
        assert!(parse(&[0xff; 64]).is_err());
    }

    #[test]
    fn every_shorter_text_is_refused() {
        let whole = RFC.trim_end().as_bytes();
        for length in 0..whole.len() {
            let cut = whole.get(..length).unwrap_or_default();
            assert!(parse(cut).is_err(), "{length}");
        }
    }
}

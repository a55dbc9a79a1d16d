//! The secret key.

use blst::min_pk::SecretKey;

use super::points::{BlsPublicKey, BlsSignature};
use crate::Seed;

/// A secret key for multi-signatures. Zeroised on drop, never printed, never serialised:
///
/// ```compile_fail
/// fn shown<T: core::fmt::Debug>() {}
/// shown::<synod_crypto::bls::BlsSecret>();
/// ```
pub struct BlsSecret(SecretKey);

impl BlsSecret {
    /// Derives the key from a seed by the standard `KeyGen`; equal seeds give equal keys.
    ///
    /// # Panics
    /// Never: derivation refuses only material shorter than 32 bytes, and a seed has 32.
    #[must_use]
    pub fn new(seed: &Seed) -> Self {
        Self(SecretKey::key_gen(seed.expose(), &[]).expect("a seed has 32 bytes"))
    }

    /// The secret that a family of benchmark keys has for a member.
    pub(super) const fn of(secret: SecretKey) -> Self {
        Self(secret)
    }

    /// The public key of this secret. Its owner needs no proof of possession.
    #[must_use]
    pub fn public(&self) -> BlsPublicKey {
        BlsPublicKey(self.0.sk_to_pk())
    }

    pub(super) fn sign(&self, suite: &[u8], message: &[u8]) -> BlsSignature {
        BlsSignature(self.0.sign(message, suite, &[]))
    }
}

#[cfg(test)]
mod tests {
    use blst::min_pk::SecretKey;

    use super::BlsSecret;
    use crate::Seed;
    use crate::bls::SIGNING;

    fn bytes<const N: usize>(hex: &str) -> [u8; N] {
        assert_eq!(hex.len(), 2 * N);
        core::array::from_fn(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).expect("hexadecimal"))
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn a_key_is_derived_as_the_standard_says() {
        // EIP-2333, test case 1: its master key is KeyGen of the seed. Decimal there, hexadecimal here.
        let seed = bytes("3141592653589793238462643383279502884197169399375105820974944592");
        let secret = BlsSecret::new(&Seed::new(seed));
        let expected =
            decimal("29757020647961307431480504535336562678282505419141012933316116377660817309383");
        assert_eq!(hex(&secret.0.to_bytes()), hex(&expected));
    }

    /// The big-endian bytes of a decimal number.
    fn decimal(digits: &str) -> [u8; 32] {
        let mut out = [0_u8; 32];
        for digit in digits.bytes() {
            let mut carry = u32::from(digit - b'0');
            for byte in out.iter_mut().rev() {
                let value = u32::from(*byte) * 10 + carry;
                *byte = value.to_le_bytes()[0];
                carry = value >> 8;
            }
            assert_eq!(carry, 0, "it fits 32 bytes");
        }
        out
    }

    #[test]
    fn signatures_are_those_of_the_suite() {
        // Published vectors of the suite with proofs of possession: key, message of 32 equal bytes, signature.
        let secret = bytes::<32>("263dbd792f5b1be47ed85f8938c0f29586af0d3ac7b977f21c278fe1462040e3");
        let secret = BlsSecret(SecretKey::from_bytes(&secret).expect("below the order"));
        assert_eq!(
            hex(&secret.public().to_bytes()),
            "a491d1b0ecd9bb917989f0e74f0dea0422eac4a873e5e2644f368dffb9a6e20f\
             d6e10c1b77654d067c0618f6e5a7f79a"
        );
        assert_eq!(
            hex(&secret.sign(SIGNING, &[0; 32]).to_bytes()),
            "b6ed936746e01f8ecf281f020953fbf1f01debd5657c4a383940b020b26507f6\
             076334f91e2366c96e9ab279fb5158090352ea1c5b0c9274504f4f0e7053af24\
             802e51e4568d164fe986834f41e55c8e850ce1f98458c0cfc9ab380b55285a55"
        );
        let other = bytes::<32>("47b8192d77bf871b62e87859d653922725724a5c031afeabc60bcef5ff665138");
        let other = BlsSecret(SecretKey::from_bytes(&other).expect("below the order"));
        assert_eq!(
            hex(&other.sign(SIGNING, &[0; 32]).to_bytes()),
            "b23c46be3a001c63ca711f87a005c200cc550b9429d5f4eb38d74322144f1b63\
             926da3388979e5321012fb1a0526bcd100b5ef5fe72628ce4cd5e904aeaa3279\
             527843fae5ca9ca675f4f51ed8f83bbf7155da9ecc9663100a885d5dc6df96d9"
        );
    }
}

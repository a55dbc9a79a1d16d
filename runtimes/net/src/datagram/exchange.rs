//! The key exchange: X25519 shares in, one key per direction out, vouched for by the acceptor's Ed25519 key.

#![deny(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::as_conversions
)]

use aws_lc_rs::agreement::{PrivateKey, UnparsedPublicKey, X25519, agree};
use synod_crypto::{Claim, Hash, HashKey, Hasher, Keys, PublicKey, Scope, Signature, Statement};
use synod_quorum::{Epoch, NodeId};
use synod_wire::wire;

use super::format::{Acceptance, Opening};

wire! {
    /// What an acceptor signs: the whole conversation.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub(crate) struct Vouched {
        /// Digest of opening, link number and acceptor's share.
        pub(crate) conversation: Hash,
    }
}

impl Statement for Vouched {
    // Protocol 0 is the runtime's own.
    const PROTOCOL: u8 = 0;
    const VERSION: u8 = 1;
    fn kind(&self) -> u16 {
        2_110
    }
}

/// The keys of a link, one per direction.
pub(crate) struct LinkKeys {
    pub(crate) to_acceptor: HashKey,
    pub(crate) to_dialler: HashKey,
}

/// One side's secret of one exchange.
pub(crate) struct Secret {
    secret: PrivateKey,
    pub(crate) share: [u8; 32],
}

impl Secret {
    /// Draws a secret; `None` when the library cannot, which it does not say why.
    pub(crate) fn new() -> Option<Self> {
        let secret = PrivateKey::generate(&X25519).ok()?;
        let share = secret.compute_public_key().ok()?.as_ref().first_chunk::<32>().copied()?;
        Some(Self { secret, share })
    }

    /// The keys that this secret and the other side's share give; `None` for a share of small order.
    pub(crate) fn agree(&self, share: &[u8; 32], conversation: &Hash) -> Option<LinkKeys> {
        let theirs = UnparsedPublicKey::new(&X25519, share);
        let agreed = agree(&self.secret, theirs, (), |secret| {
            let material = [secret, &conversation.0].concat();
            Ok(LinkKeys {
                to_acceptor: HashKey::derive("synod link v1 to acceptor", &material),
                to_dialler: HashKey::derive("synod link v1 to dialler", &material),
            })
        });
        agreed.ok()
    }
}

/// The digest of what both sides said.
pub(crate) fn conversation(opening: &Hash, link: u32, share: &[u8; 32]) -> Hash {
    let mut hasher = Hasher::new("synod link conversation");
    hasher.add(&opening.0).add(&link.to_le_bytes()).add(share);
    hasher.finish()
}

/// A link is of no epoch: a dialler may know an older roster.
pub(crate) const fn scope(cluster: Hash) -> Scope {
    Scope { cluster, epoch: Epoch(0) }
}

/// Signs a conversation.
pub(crate) fn vouch(conversation: Hash, cluster: Hash, keys: &Keys) -> Signature {
    keys.sign(scope(cluster), NodeId::GUESTS, Vouched { conversation }).signature
}

/// The keys of an accepted link, if `key` vouches for it.
pub(crate) fn accepted(
    opening: &Opening,
    secret: &Secret,
    acceptance: &Acceptance,
    key: PublicKey,
    judge: (&Keys, Hash),
) -> Option<LinkKeys> {
    let (keys, cluster) = judge;
    let conversation = conversation(&opening.digest(), acceptance.link, &acceptance.share);
    let statement = Vouched { conversation };
    let signature = acceptance.signature;
    let claim = Claim { statement, scope: scope(cluster), signer: NodeId::GUESTS, key, signature };
    claim.verify(keys).ok()?;
    secret.agree(&acceptance.share, &conversation)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_get_the_same_keys_and_every_conversation_others() {
        let (a, b) = (Secret::new().expect("drawn"), Secret::new().expect("drawn"));
        let said = Hash::of(b"said");
        let tag = |keys: &LinkKeys| [keys.to_acceptor.tag(&[b"x"]), keys.to_dialler.tag(&[b"x"])];
        let one = tag(&a.agree(&b.share, &said).expect("sound shares"));
        assert_eq!(one, tag(&b.agree(&a.share, &said).expect("sound shares")));
        assert_ne!(one[0], one[1], "the directions differ");
        assert_ne!(one, tag(&a.agree(&b.share, &Hash::of(b"else")).expect("sound shares")));
        assert_ne!(conversation(&said, 1, &a.share), conversation(&said, 2, &a.share));
    }

    #[test]
    fn a_share_that_forces_the_secret_is_refused() {
        let secret = Secret::new().expect("drawn");
        for forced in [[0; 32], core::array::from_fn(|at| u8::from(at == 0))] {
            assert!(secret.agree(&forced, &Hash::ZERO).is_none());
        }
    }
}

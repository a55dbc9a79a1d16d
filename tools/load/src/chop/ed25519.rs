//! The Ed25519 half of the key family: scalars a' + i * b', and nonces that advance by a fixed step as well.

use aws_lc_rs::digest::{Context, SHA512};
use curve25519_dalek::edwards::EdwardsPoint;
use curve25519_dalek::scalar::Scalar;
use synod_crypto::{Hasher, PublicKey, Seed, Signature};

/// Points that are compressed by one inversion.
const POINTS_AT_ONCE: usize = 4_096;

/// A family of Ed25519 keys for benchmarks. Who knows two of its secrets or nonces knows all.
pub struct EdFamily {
    first: Scalar,
    step: Scalar,
    nonce: Scalar,
}

impl EdFamily {
    /// The family of a seed; equal seeds give equal families.
    #[must_use]
    pub fn new(seed: &Seed) -> Self {
        let derive = |purpose: &[u8]| {
            let mut wide = [0; 64];
            for (half, number) in wide.chunks_exact_mut(32).zip([0_u8, 1]) {
                let mut hasher = Hasher::new("synod bench ed25519 family");
                half.copy_from_slice(&hasher.add(seed.expose()).add(purpose).add(&[number]).finish().0);
            }
            Scalar::from_bytes_mod_order_wide(&wide)
        };
        Self { first: derive(b"first"), step: derive(b"step"), nonce: derive(b"nonce") }
    }

    fn secret(&self, member: u32) -> Scalar {
        self.first + self.step * Scalar::from(member)
    }

    /// The keys of `count` members from `first` on: less than 1 us each.
    #[must_use]
    pub fn keys(&self, first: u32, count: u32) -> Vec<PublicKey> {
        let mut row = Row::new(&self.secret(first), &self.step);
        let mut keys = Vec::with_capacity(count as usize);
        let mut left = count as usize;
        while left > 0 {
            let part = left.min(POINTS_AT_ONCE);
            keys.extend(row.take(part).into_iter().map(PublicKey));
            left -= part;
        }
        keys
    }

    /// Who signs for members from now on.
    #[must_use]
    pub fn signer(&self) -> EdSigner<'_> {
        self.signer_at(0)
    }

    /// Who signs for members, with the nonces from number `first` on: signers of disjoint numbers share none.
    #[must_use]
    pub fn signer_at(&self, first: u64) -> EdSigner<'_> {
        let nonce = self.nonce + self.step * Scalar::from(first);
        EdSigner { family: self, row: Row::new(&nonce, &self.step), nonce }
    }
}

/// Points in arithmetic progression.
struct Row {
    next: EdwardsPoint,
    step: EdwardsPoint,
}

impl Row {
    fn new(first: &Scalar, step: &Scalar) -> Self {
        Self { next: EdwardsPoint::mul_base(first), step: EdwardsPoint::mul_base(step) }
    }

    /// The encodings of the next `count` points.
    fn take(&mut self, count: usize) -> Vec<[u8; 32]> {
        let next = |_| {
            let point = self.next;
            self.next += self.step;
            point
        };
        let points: Vec<EdwardsPoint> = (0..count).map(next).collect();
        EdwardsPoint::compress_batch_alloc(&points).iter().map(|point| point.to_bytes()).collect()
    }
}

/// Signs for members, each signature with the next nonce.
pub struct EdSigner<'a> {
    family: &'a EdFamily,
    row: Row,
    nonce: Scalar,
}

impl EdSigner<'_> {
    /// Genuine signatures, one for each member, its key and what it signs: 3 us each.
    #[must_use]
    pub fn sign<'m>(
        &mut self,
        signed: impl ExactSizeIterator<Item = (u32, PublicKey, &'m [u8])>,
    ) -> Vec<Signature> {
        let mut signatures = Vec::with_capacity(signed.len());
        let commitments = self.row.take(signed.len());
        for ((member, key, message), commitment) in signed.zip(commitments) {
            let mut hash = Context::new(&SHA512);
            [commitment.as_slice(), &key.0, message].into_iter().for_each(|part| hash.update(part));
            let wide = hash.finish().as_ref().first_chunk::<64>().copied().unwrap_or([0; 64]);
            let challenge = Scalar::from_bytes_mod_order_wide(&wide);
            let response = self.nonce + challenge * self.family.secret(member);
            self.nonce += self.family.step;
            let mut signature = [0; 64];
            let (front, back) = signature.split_at_mut(32);
            front.copy_from_slice(&commitment);
            back.copy_from_slice(response.as_bytes());
            signatures.push(Signature(signature));
        }
        signatures
    }
}

#[cfg(test)]
mod tests {
    use super::{EdFamily, POINTS_AT_ONCE};
    use crate::chop::family::cluster;
    use curve25519_dalek::edwards::EdwardsPoint;
    use synod_chopchop::statement::Submission;
    use synod_crypto::{Claim, Hash, Keys, Seed, Statement as _, check_key, verify_all};
    use synod_quorum::NodeId;

    #[test]
    fn keys_by_addition_are_the_keys_of_the_secrets() {
        let family = EdFamily::new(&Seed::new([5; 32]));
        let count = u32::try_from(POINTS_AT_ONCE).expect("it fits") + 3;
        let keys = family.keys(7, count);
        assert_eq!(keys.len(), POINTS_AT_ONCE + 3);
        for at in [0, 1, POINTS_AT_ONCE - 1, POINTS_AT_ONCE, POINTS_AT_ONCE + 2] {
            let secret = family.secret(7 + u32::try_from(at).expect("it fits"));
            assert_eq!(keys[at].0, EdwardsPoint::mul_base(&secret).compress().to_bytes(), "member {at}");
            assert_eq!(check_key(&keys[at]), Ok(()), "a key that a roster would take");
        }
        assert_ne!(EdFamily::new(&Seed::new([6; 32])).keys(7, 1), keys[..1]);
    }

    #[test]
    fn signers_of_disjoint_numbers_share_no_nonce_and_go_on_where_another_ended() {
        let family = EdFamily::new(&Seed::new([5; 32]));
        let key = family.keys(0, 1)[0];
        let mut one = family.signer();
        let all: Vec<_> = one.sign((0..6).map(|_| (0, key, b"word".as_slice())));
        let late = family.signer_at(4).sign((0..2).map(|_| (0, key, b"word".as_slice())));
        assert_eq!(all[4..], late);
        assert_ne!(all[3], late[0]);
    }

    #[test]
    fn signatures_are_good_for_their_member_and_statement_alone() {
        let (family, cluster) = (EdFamily::new(&Seed::new([5; 32])), cluster());
        let checker = Keys::ed25519(&Seed::new([1; 32]), [2; 32]);
        let statement =
            |id: u32| Submission { id, k0: u64::from(id), parity: id < 7, message: Hash([3; 32]) };
        let keys = family.keys(0, 40);
        let bytes: Vec<Vec<u8>> = (0..40).map(|id| statement(id).signed_bytes(&cluster.scope())).collect();
        let mut signer = family.signer();
        let mut sign = |from: u32| {
            let ids = from as usize..from as usize + 20;
            let signed = ids.map(|id| (u32::try_from(id).expect("small"), keys[id], bytes[id].as_slice()));
            signer.sign(signed)
        };
        let signatures: Vec<_> = sign(0).into_iter().chain(sign(20)).collect();
        let claim = |id: u32, by: u32| {
            let (key, signature) = (keys[by as usize], signatures[by as usize]);
            Claim { statement: statement(id), scope: cluster.scope(), signer: NodeId(id), key, signature }
        };
        let all = verify_all((0..40).map(|id| claim(id, id)).collect(), &checker);
        assert_eq!(all.iter().filter(|verdict| verdict.is_ok()).count(), 40);
        assert!(claim(3, 3).verify(&checker).is_ok() && claim(3, 4).verify(&checker).is_err());
        let mut commitments: Vec<&[u8]> = signatures.iter().map(|signature| &signature.0[..32]).collect();
        commitments.sort_unstable();
        commitments.dedup();
        assert_eq!(commitments.len(), 40, "no nonce twice");
    }
}

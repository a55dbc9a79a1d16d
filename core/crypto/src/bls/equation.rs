//! The pairing equation on the curve, for one and for many.

use blst::min_pk::{AggregatePublicKey, PublicKey, Signature};
use blst::{BLST_ERROR, Pairing, blst_p1_affine, blst_p2_affine};

/// Bits of the coefficients of a batch.
const COEFFICIENT_BITS: usize = 64;

/// What must hold: e(g1, signature) = e(key, H(message)).
pub(super) struct Equation<'a> {
    pub(super) key: PublicKey,
    pub(super) signature: Signature,
    pub(super) message: &'a [u8],
}

impl Equation<'_> {
    /// Whether neither side is infinity and the signature is in G2. A key is in G1 by its type, and so are sums.
    pub(super) fn is_fit(&self) -> bool {
        *self.points().0 != blst_p1_affine::default() && self.signature.validate(true).is_ok()
    }

    fn holds_alone(&self, suite: &[u8]) -> bool {
        let mut pairing = Pairing::new(true, suite);
        let (key, signature) = self.points();
        let taken = pairing.aggregate(key, false, signature, false, self.message, &[]);
        pairing.commit();
        taken == BLST_ERROR::BLST_SUCCESS && pairing.finalverify(None)
    }

    fn points(&self) -> (&blst_p1_affine, &blst_p2_affine) {
        ((&self.key).into(), (&self.signature).into())
    }
}

/// Which of `equations` hold. One multi-pairing when all do; those of unfit points are not part of it.
pub(super) fn which_hold(suite: &[u8], equations: &[Equation<'_>], secret: &[u8; 32]) -> Vec<bool> {
    let mut good: Vec<bool> = equations.iter().map(Equation::is_fit).collect();
    let fit: Vec<usize> = (0..equations.len()).filter(|&at| good[at]).collect();
    // Halves are examined from a work list: its length is at most the logarithm of the batch.
    let mut work = vec![(0, fit.len())];
    while let Some((from, to)) = work.pop() {
        match &fit[from..to] {
            [] => {}
            &[one] => good[one] = equations[one].holds_alone(suite),
            many if all_hold(suite, many.iter().map(|&at| &equations[at]), secret) => {}
            _ => {
                let middle = usize::midpoint(from, to);
                work.push((from, middle));
                work.push((middle, to));
            }
        }
    }
    good
}

/// Whether fit equations hold together, each under its own coefficient: the first under one, which saves its two products. Equations
/// that do not hold would have to make up for one another, and whether they do hangs on the coefficients of the others.
fn all_hold<'a>(
    suite: &[u8],
    equations: impl Iterator<Item = &'a Equation<'a>> + Clone,
    secret: &[u8; 32],
) -> bool {
    let mut transcript = blake3::Hasher::new_keyed(secret);
    for one in equations.clone() {
        transcript.update(&one.key.compress()).update(&one.signature.serialize());
        transcript.update(&(one.message.len() as u64).to_le_bytes()).update(one.message);
    }
    let mut coefficients = transcript.finalize_xof();
    let mut pairing = Pairing::new(true, suite);
    let taken = equations.into_iter().enumerate().all(|(at, one)| {
        if at == 0 {
            let (key, signature) = one.points();
            let taken = pairing.aggregate(key, false, signature, false, one.message, &[]);
            return taken == BLST_ERROR::BLST_SUCCESS;
        }
        let mut word = [0; 8];
        coefficients.fill(&mut word);
        if word == [0; 8] {
            // A coefficient of zero would take its equation out of the check.
            word[0] = 1;
        }
        let ((key, signature), bits) = (one.points(), COEFFICIENT_BITS);
        pairing.mul_n_aggregate(key, false, signature, false, &word, bits, one.message, &[])
            == BLST_ERROR::BLST_SUCCESS
    });
    pairing.commit();
    taken && pairing.finalverify(None)
}

/// The affine form of a sum; infinity is the point of zeros.
pub(super) fn affine(sum: &AggregatePublicKey) -> PublicKey {
    sum.to_public_key()
}

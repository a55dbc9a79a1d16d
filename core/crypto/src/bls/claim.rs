//! Statements that many signed together.

use super::points::{BlsPublicKey, BlsSignature, KeySum};
use super::scheme::{SIGNING, Said};
use crate::{Keys, Scope, Statement, Verified};

/// A statement that somebody says all keys of a sum signed. The machine adds the keys up from its directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlsClaim<S> {
    /// What was said.
    pub statement: S,
    /// In which cluster and epoch.
    pub scope: Scope,
    /// The sum of the keys that must have signed.
    pub keys: KeySum,
    /// The sum of their signatures.
    pub signature: BlsSignature,
}

impl<S: Statement> BlsClaim<S> {
    /// Checks that the signature is in G2, that neither it nor the sum of keys is infinity, and one pairing equation: 1.1 ms
    /// for any number of signers.
    ///
    /// # Errors
    /// Gives the claim back when it does not hold.
    pub fn verify(self, keys: &Keys) -> Result<Verified<Self>, Self> {
        let message = self.statement.signed_bytes(&self.scope);
        let said = Said { keys: &self.keys, signature: &self.signature, message: &message };
        if keys.bls().which_hold(SIGNING, &[said]) == [true] { Ok(Verified::mint(self)) } else { Err(self) }
    }
}

/// What a second look at a refused claim gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reconsidered<S> {
    /// The verdict that counts: that of the reference path.
    pub verdict: Result<Verified<BlsClaim<S>>, BlsClaim<S>>,
    /// Whether the claim's sum of keys was the reference path's. If not, the fast adder is not to be trusted here again.
    pub adders_agree: bool,
}

impl<S: Statement> BlsClaim<S> {
    /// Looks again at a claim that was refused, so that no refusal rests on the fast adder: adds the keys of `signers` up one
    /// by one, and checks again where that gives another sum.
    pub fn reconsider(
        mut self,
        signers: impl IntoIterator<Item = BlsPublicKey>,
        keys: &Keys,
    ) -> Reconsidered<S> {
        let reference = keys.bls().sum_keys_one_by_one(signers);
        let adders_agree = reference == self.keys;
        let verdict = if adders_agree {
            Err(self)
        } else {
            self.keys = reference;
            self.verify(keys)
        };
        Reconsidered { verdict, adders_agree }
    }
}

/// Checks many claims by one multi-pairing, bisected on failure; each comes back verified or refused, in order, with the
/// verdict that [`BlsClaim::verify`] would have given.
pub fn verify_all<S: Statement>(
    claims: Vec<BlsClaim<S>>,
    keys: &Keys,
) -> Vec<Result<Verified<BlsClaim<S>>, BlsClaim<S>>> {
    let messages: Vec<Vec<u8>> = claims.iter().map(|c| c.statement.signed_bytes(&c.scope)).collect();
    let said: Vec<Said<'_>> = claims
        .iter()
        .zip(&messages)
        .map(|(c, message)| Said { keys: &c.keys, signature: &c.signature, message })
        .collect();
    let good = keys.bls().which_hold(SIGNING, &said);
    claims
        .into_iter()
        .zip(good)
        .map(|(claim, good)| if good { Ok(Verified::mint(claim)) } else { Err(claim) })
        .collect()
}

impl Keys {
    /// The own key for multi-signatures; nothing when these keys have none.
    #[must_use]
    pub fn bls_public(&self) -> Option<BlsPublicKey> {
        self.bls().public()
    }

    /// Signs `statement` to be added to the signatures of others; nothing without a secret for it. 0.36 ms.
    #[must_use]
    pub fn sign_bls<S: Statement>(&self, scope: &Scope, statement: &S) -> Option<BlsSignature> {
        self.bls().sign(SIGNING, &statement.signed_bytes(scope))
    }
}

//! Claims, and the only values one may act on: verified ones.

use core::ops::Deref;

use synod_quorum::NodeId;

use crate::keys::Signed;
use crate::{Keys, PublicKey, Scope, Signature, Statement};

/// A statement somebody says `signer` made. The machine resolves `key` from its roster while screening.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim<S> {
    /// What was said.
    pub statement: S,
    /// In which cluster and epoch.
    pub scope: Scope,
    /// Who is said to have said it.
    pub signer: NodeId,
    /// The key that must have signed.
    pub key: PublicKey,
    /// The signature to check.
    pub signature: Signature,
}

/// A value whose proof was checked. Without a public constructor, holding one is the permission to act.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified<T>(T);

impl<T> Verified<T> {
    pub(crate) const fn mint(value: T) -> Self {
        Self(value)
    }

    /// The value, no longer marked as verified.
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T> Deref for Verified<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<S: Statement> Claim<S> {
    /// Checks the signature.
    ///
    /// # Errors
    /// Gives the claim back when the signature is not the key's.
    pub fn verify(self, keys: &Keys) -> Result<Verified<Self>, Self> {
        let bytes = self.statement.signed_bytes(&self.scope);
        if keys.check(&Signed { key: self.key, message: &bytes, signature: self.signature }) {
            Ok(Verified::mint(self))
        } else {
            Err(self)
        }
    }
}

/// Checks many claims as one batch and bisects on failure; each comes back verified or refused, in order.
/// Costs one batch when all are good and about `2 log2(len)` batches per forged claim.
pub fn verify_all<S: Statement>(
    claims: Vec<Claim<S>>,
    keys: &Keys,
) -> Vec<Result<Verified<Claim<S>>, Claim<S>>> {
    let messages: Vec<Vec<u8>> = claims.iter().map(|c| c.statement.signed_bytes(&c.scope)).collect();
    let signed: Vec<Signed<'_>> = claims
        .iter()
        .zip(&messages)
        .map(|(c, message)| Signed { key: c.key, message, signature: c.signature })
        .collect();
    let good = keys.check_each(&signed);
    claims
        .into_iter()
        .zip(good)
        .map(|(claim, good)| if good { Ok(Verified::mint(claim)) } else { Err(claim) })
        .collect()
}

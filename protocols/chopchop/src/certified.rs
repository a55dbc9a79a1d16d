//! Certificates of f + 1 servers, checked; the one place where an aggregate becomes a [`Verified`] certificate.

use synod_crypto::bls::BlsCertificate;
use synod_crypto::{Keys, Refusal, Statement, Verified};

use crate::certificate::{Aggregate, Signers};
use crate::config::Cluster;
use crate::statement::BlsSignatureBytes;
use synod_machine::planted;

/// Checks that at least f + 1 servers of `cluster` signed `statement`. One pairing equation, 1.1 ms.
///
/// # Errors
/// The [`Refusal`] that was found first.
pub fn certified<S: Statement>(
    statement: S,
    aggregate: &Aggregate,
    cluster: &Cluster,
    keys: &Keys,
) -> Result<Verified<BlsCertificate<S>>, Refusal> {
    if !aggregate.signers.fits(cluster.roster().size()) {
        return Err(Refusal::TooWeak);
    }
    let quorums = *cluster.quorums();
    let signers = aggregate.signers.set();
    let certificate = BlsCertificate { statement, signers, aggregate: aggregate.signature.0 };
    certificate.verify(cluster.scope(), cluster.bls(), |set| planted!(C22) || quorums.has_correct(set), keys)
}

/// The aggregate of a certificate that was put together here; `None` when a signer is not of the cluster.
pub(crate) fn aggregate_of<S>(certificate: &BlsCertificate<S>, cluster: &Cluster) -> Option<Aggregate> {
    let signers = Signers::new(certificate.signers, cluster.roster().size())?;
    Some(Aggregate { signers, signature: BlsSignatureBytes(certificate.aggregate) })
}

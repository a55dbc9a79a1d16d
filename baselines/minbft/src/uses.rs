//! A trusted counter that is counted, and that takes as long as one in an enclave.

use std::sync::Arc;
use std::time::{Duration, Instant};

use usig::{ReplicaId, Usig, UsigError};

use crate::counts::Counts;

/// A USIG whose uses, to sign and to check, are counted and each keep the processor busy for a time first. Telling and
/// learning keys costs nothing more: it happens before the first request.
pub struct Uses<U> {
    inner: U,
    each: Duration,
    counts: Arc<Counts>,
}

impl<U> Uses<U> {
    /// `inner`, whose uses take `each` longer.
    pub const fn new(inner: U, each: Duration, counts: Arc<Counts>) -> Self {
        Self { inner, each, counts }
    }

    /// Busy, as whoever waits for an enclave on the same core is.
    fn enter(&self) {
        if self.each.is_zero() {
            return;
        }
        let from = Instant::now();
        while from.elapsed() < self.each {
            std::hint::spin_loop();
        }
    }
}

impl<U: Usig> Usig for Uses<U> {
    type Signature = U::Signature;
    type Attestation = U::Attestation;
    type SignHalf = U::SignHalf;
    type VerifyHalf = U::VerifyHalf;

    fn sign(&mut self, message: impl AsRef<[u8]>) -> Result<Self::Signature, UsigError> {
        self.enter();
        self.counts.signed();
        self.inner.sign(message)
    }

    fn attest(&mut self) -> Result<Self::Attestation, UsigError> {
        self.inner.attest()
    }

    fn verify(
        &self,
        remote_usig_id: ReplicaId,
        message: impl AsRef<[u8]>,
        signature: &Self::Signature,
    ) -> Result<(), UsigError> {
        self.enter();
        self.counts.checked();
        self.inner.verify(remote_usig_id, message, signature)
    }

    fn add_remote_party(&mut self, remote_usig_id: ReplicaId, attestation: Self::Attestation) -> bool {
        self.inner.add_remote_party(remote_usig_id, attestation)
    }

    /// The halves are those of what it wraps: `minbft` does not split.
    fn split(self) -> (Self::SignHalf, Self::VerifyHalf) {
        self.inner.split()
    }
}

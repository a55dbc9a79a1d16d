//! Certificates that may be acted on, and the bounded memory of those verified before.

use core::ops::Deref;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use synod_crypto::{Hash, Verified};
use synod_machine::planted;

use crate::{Qc, Tc};

/// Verified certificates remembered; beyond it the oldest is forgotten and would be verified again.
pub(crate) const CACHE_MAX: usize = 4_096;

/// A certificate whose proof was checked here, before a crash by this replica, or by a certificate above it.
///
/// Handlers act on this type only. Its constructors are the whole list of reasons to believe one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Proven<T>(Arc<T>);

impl<T> Proven<T> {
    /// Checked by a job.
    pub(crate) fn checked(verified: Verified<Arc<T>>) -> Self {
        Self(verified.into_inner())
    }

    /// From this replica's own log, where only verified certificates are written.
    pub(crate) const fn logged(certificate: Arc<T>) -> Self {
        Self(certificate)
    }

    /// Inside a header that a verified certificate reaches by digest: a quorum checked it before voting.
    pub(crate) const fn covered(certificate: Arc<T>) -> Self {
        Self(certificate)
    }

    /// The certificate, shared.
    pub(crate) fn share(&self) -> Arc<T> {
        Arc::clone(&self.0)
    }
}

impl<T> Deref for Proven<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

/// Names of verified certificates, and the genesis certificate, which needs no proof.
#[derive(Clone, Debug)]
pub(crate) struct Certificates {
    genesis: Hash,
    known: BTreeSet<Hash>,
    oldest: VecDeque<Hash>,
}

impl Certificates {
    /// Knows only the certificate of `genesis`.
    pub(crate) const fn new(genesis: Hash) -> Self {
        Self { genesis, known: BTreeSet::new(), oldest: VecDeque::new() }
    }

    /// Remembers a verified certificate.
    pub(crate) fn remember(&mut self, name: Hash) {
        if self.known.insert(name) {
            self.oldest.push_back(name);
        }
        if self.oldest.len() > CACHE_MAX
            && let Some(old) = self.oldest.pop_front()
        {
            self.known.remove(&old);
        }
    }

    /// The QC, if it was verified before.
    pub(crate) fn qc(&self, qc: &Arc<Qc>) -> Option<Proven<Qc>> {
        let known = qc.is_genesis(self.genesis) || planted!(H12) || self.known.contains(&qc.name());
        known.then(|| Proven(Arc::clone(qc)))
    }

    /// The TC, if it was verified before.
    pub(crate) fn tc(&self, tc: &Arc<Tc>) -> Option<Proven<Tc>> {
        self.known.contains(&tc.name()).then(|| Proven(Arc::clone(tc)))
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> u64 {
        80 * self.oldest.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::{CACHE_MAX, Certificates};
    use crate::{Kind, Qc};
    use std::sync::Arc;
    use synod_crypto::Hash;
    use synod_quorum::Epoch;

    #[test]
    fn the_genesis_certificate_is_known_and_no_other_of_view_0() {
        let certificates = Certificates::new(Hash([1; 32]));
        let of = |digest| Arc::new(Qc::empty(Epoch(0), Kind::Generic, digest));
        assert!(certificates.qc(&of(Hash([1; 32]))).is_some());
        assert!(certificates.qc(&of(Hash([2; 32]))).is_none());
    }

    #[test]
    fn the_oldest_certificate_is_forgotten_beyond_the_cap() {
        let mut certificates = Certificates::new(Hash::ZERO);
        for n in 0..=CACHE_MAX {
            certificates.remember(Hash::of(&n.to_le_bytes()));
        }
        assert!(!certificates.known.contains(&Hash::of(&0_usize.to_le_bytes())));
        assert_eq!(certificates.known.len(), CACHE_MAX);
    }
}

//! U-S12 and U-S15: correct replicas sign the same of each thing, and what is shown as certified was signed by f + 1 of them.

use std::collections::{BTreeMap, BTreeSet};

use synod_crypto::Hash;

use super::{About, one_correct};
use crate::oracle::{Verdict, breach};

/// See the module.
#[derive(Clone, Debug)]
pub struct Shares {
    replicas: u32,
    /// What the first correct replica signed.
    first: BTreeMap<About, (u32, Hash)>,
    /// Who was seen to sign it.
    signed: BTreeSet<(About, Hash, u32)>,
    /// Who lies.
    faulty: BTreeSet<u32>,
    certified: BTreeSet<About>,
}

impl About {
    /// The property that two values of it break.
    const fn checker(self) -> &'static str {
        match self {
            Self::Proposal { .. } => "U-S1",
            Self::Checkpoint { .. } | Self::Snapshot { .. } => "U-S12",
            Self::Summary { .. } | Self::Left { .. } => "U-S15",
        }
    }

    /// Whether a share of this signer need not be seen, for it counts it itself.
    fn is_own(self, signer: u32, replicas: u32) -> bool {
        match self {
            Self::Summary { about, .. } => about == signer,
            Self::Left { view, .. } => view % u64::from(replicas) == u64::from(signer),
            Self::Proposal { .. } | Self::Checkpoint { .. } | Self::Snapshot { .. } => false,
        }
    }
}

impl Shares {
    /// Watches so many replicas.
    #[must_use]
    pub const fn new(replicas: u32) -> Self {
        Self {
            replicas,
            first: BTreeMap::new(),
            signed: BTreeSet::new(),
            faulty: BTreeSet::new(),
            certified: BTreeSet::new(),
        }
    }

    /// A replica lies from now on.
    pub fn fault(&mut self, node: u32) {
        self.faulty.insert(node);
    }

    /// Things that were shown as certified.
    #[must_use]
    pub fn certified(&self) -> u64 {
        self.certified.len() as u64
    }

    /// A correct replica signs something.
    ///
    /// # Errors
    /// The property that two values break.
    pub fn sign(&mut self, node: u32, about: About, value: Hash) -> Verdict {
        self.signed.insert((about, value, node));
        let (other, first) = *self.first.entry(about).or_insert((node, value));
        if first == value {
            return Ok(());
        }
        breach(about.checker(), format!("replicas {other} and {node} sign two values of {about:?}"))
    }

    /// A correct replica shows that something is certified.
    ///
    /// # Errors
    /// U-S12 if it is not.
    pub fn show(&mut self, node: u32, about: About, value: Hash, signers: &[u32]) -> Verdict {
        self.certified.insert(about);
        let distinct: BTreeSet<u32> = signers.iter().copied().filter(|id| *id < self.replicas).collect();
        if distinct.len() != signers.len() || distinct.len() < one_correct(self.replicas) {
            breach("U-S12", format!("replica {node} shows {about:?} as signed by {signers:?}"))?;
        }
        let unseen = |id: &&u32| {
            let is_heard = self.signed.contains(&(about, value, **id));
            !self.faulty.contains(*id) && !about.is_own(**id, self.replicas) && !is_heard
        };
        match distinct.iter().find(unseen) {
            Some(id) => {
                breach("U-S12", format!("replica {node} shows {about:?} as signed by {id}, which did not"))
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checker(verdict: &Verdict) -> &'static str {
        verdict.as_ref().err().map_or("", |breach| breach.checker)
    }

    #[test]
    fn what_is_shown_was_signed_by_enough_who_did() {
        let (about, value) = (About::Checkpoint { epoch: 0, low: 16 }, Hash([1; 32]));
        let mut shares = Shares::new(3);
        assert_eq!((shares.sign(0, about, value), shares.sign(1, about, value)), (Ok(()), Ok(())));
        assert_eq!(shares.show(2, about, value, &[0, 1]), Ok(()));
        for signers in [&[0][..], &[0, 0], &[0, 2], &[0, 7]] {
            assert_eq!(checker(&shares.show(2, about, value, signers)), "U-S12", "{signers:?}");
        }
        shares.fault(2);
        assert_eq!(shares.show(1, about, value, &[0, 2]), Ok(()), "a liar may have told one alone");
        assert_eq!(checker(&shares.sign(1, about, Hash([2; 32]))), "U-S12");
    }

    #[test]
    fn states_of_one_stream_are_equal_and_own_shares_are_not_said() {
        let about = About::Summary { epoch: 0, about: 1, k: 8 };
        let mut shares = Shares::new(3);
        assert_eq!(shares.sign(0, about, Hash([1; 32])), Ok(()));
        assert_eq!(shares.show(1, about, Hash([1; 32]), &[0, 1]), Ok(()));
        assert_eq!(checker(&shares.sign(2, about, Hash([2; 32]))), "U-S15");
    }
}

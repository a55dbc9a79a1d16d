//! Packs for experiments only: two-chain variants of the literature, and the paper as printed.

use synod_crypto::Hash;

use super::{Ancestry, Ballot, Pack, Ruleset, chain3, two_chain};
use crate::record::{Mark, Safety};
use crate::{Kind, Qc};

/// Two chains with a lock. Without the certificate of the view before, a leader waits for slow replicas or does not.
#[derive(Clone, Copy, Debug)]
pub struct LockedTwo<const WAITS: bool>;

/// Two chains with a lock; a leader without the certificate of the view before waits for slow replicas.
pub type Hs2 = LockedTwo<true>;

/// Two chains with a lock and no wait: a hidden lock stalls it. A control that must fail.
pub type Naive2 = LockedTwo<false>;

/// Three chains with the paper's pacemaker: votes and complaints to the next leader, a constant timeout, no join
/// and no retransmission.
#[derive(Clone, Copy, Debug)]
pub struct Paper;

impl<const WAITS: bool> Ruleset for LockedTwo<WAITS> {
    const NAME: &'static str = if WAITS { "hs2" } else { "naive2" };
    const PACK: Pack = if WAITS { Pack::Hs2 } else { Pack::Naive2 };

    fn phases() -> &'static [Kind] {
        &[Kind::Generic]
    }

    fn may_vote(ballot: &Ballot<'_>) -> bool {
        ballot.header.justify.view >= ballot.safety.lock.view
    }

    fn lock(safety: &Safety, qc: &Qc, _: &dyn Ancestry) -> Option<Mark> {
        (qc.view > safety.lock.view).then_some(Mark { view: qc.view, digest: qc.digest })
    }

    fn commit(qc: &Qc, tree: &dyn Ancestry) -> Option<Hash> {
        two_chain(qc, tree)
    }
}

impl Ruleset for Paper {
    const NAME: &'static str = "paper";
    const PACK: Pack = Pack::Paper;

    fn phases() -> &'static [Kind] {
        &[Kind::Generic]
    }

    fn may_vote(ballot: &Ballot<'_>) -> bool {
        chain3::safe_node(ballot)
    }

    fn lock(safety: &Safety, qc: &Qc, tree: &dyn Ancestry) -> Option<Mark> {
        chain3::lock(safety, qc, tree)
    }

    fn commit(qc: &Qc, tree: &dyn Ancestry) -> Option<Hash> {
        chain3::commit(qc, tree)
    }
}

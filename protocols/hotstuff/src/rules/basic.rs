//! Three phases per view (paper 2.2.3): prepare, pre-commit, commit.

use synod_crypto::Hash;
use synod_machine::planted;

use super::{Ancestry, Ballot, Pack, Ruleset};
use crate::record::{Mark, Safety};
use crate::{Kind, Qc};

/// The basic pack.
#[derive(Clone, Copy, Debug)]
pub struct Basic;

impl Ruleset for Basic {
    const NAME: &'static str = "basic";
    const PACK: Pack = Pack::Basic;

    fn phases() -> &'static [Kind] {
        &[Kind::Prepare, Kind::Precommit, Kind::Commit]
    }

    /// BR2, the safe-node predicate: extends the lock, or its justify is above the lock.
    fn may_vote(ballot: &Ballot<'_>) -> bool {
        let (justify, lock) = (ballot.header.justify.view, ballot.safety.lock.view);
        ballot.extends_lock || justify > lock || (planted!(H4) && justify >= lock)
    }

    /// BR4: a pre-commit certificate locks its block.
    fn lock(safety: &Safety, qc: &Qc, _: &dyn Ancestry) -> Option<Mark> {
        let rises = qc.kind == Kind::Precommit && qc.view > safety.lock.view;
        rises.then_some(Mark { view: qc.view, digest: qc.digest })
    }

    /// BR5: a commit certificate commits its block.
    fn commit(qc: &Qc, _: &dyn Ancestry) -> Option<Hash> {
        (qc.kind == Kind::Commit || planted!(H7)).then_some(qc.digest)
    }
}

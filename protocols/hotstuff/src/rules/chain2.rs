//! Two chained blocks, safe because a proposal is bound to what complainers knew (specification 4.6).

use synod_crypto::Hash;
use synod_machine::planted;

use super::{Ancestry, Ballot, Pack, Ruleset, two_chain};
use crate::record::{Mark, Safety};
use crate::{Kind, Qc};

/// The two-chain pack.
#[derive(Clone, Copy, Debug)]
pub struct Chain2;

/// The justify is of the view before, or the TC of the view before lists no higher certificate than it.
pub(super) fn bound(ballot: &Ballot<'_>) -> bool {
    let header = ballot.header;
    let direct = header.justify.view.precedes(header.view);
    let covered = header.tc.as_ref().is_some_and(|tc| {
        tc.view.precedes(header.view) && (planted!(O3) || header.justify.view >= tc.highest())
    });
    direct || covered
}

impl Ruleset for Chain2 {
    const NAME: &'static str = "chain2";
    const PACK: Pack = Pack::Chain2;

    fn phases() -> &'static [Kind] {
        &[Kind::Generic]
    }

    fn may_vote(ballot: &Ballot<'_>) -> bool {
        bound(ballot)
    }

    /// No lock: the complaint and the TC take its place.
    fn lock(_: &Safety, _: &Qc, _: &dyn Ancestry) -> Option<Mark> {
        None
    }

    fn commit(qc: &Qc, tree: &dyn Ancestry) -> Option<Hash> {
        two_chain(qc, tree)
    }
}

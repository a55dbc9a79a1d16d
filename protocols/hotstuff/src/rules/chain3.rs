//! Three chained blocks (paper 3.2.1, Alg. 1).

use synod_crypto::Hash;
use synod_machine::planted;

use super::{Ancestry, Ballot, Pack, Ruleset};
use crate::record::{Mark, Safety};
use crate::{Kind, Qc};

/// The chained pack of the paper.
#[derive(Clone, Copy, Debug)]
pub struct Chain3;

/// Alg. 1 line 24: extends the locked block, or its justify is above the lock.
pub(super) fn safe_node(ballot: &Ballot<'_>) -> bool {
    let (justify, lock) = (ballot.header.justify.view, ballot.safety.lock.view);
    let taller = planted!(H20) && ballot.header.height > ballot.safety.lock.view.0;
    ballot.extends_lock || justify > lock || taller || (planted!(H4) && justify >= lock)
}

/// Alg. 1 lines 8-13, line 10 read as b = b'.justify.node: on a certificate of b'' the lock rises to the block
/// that b'' justifies.
pub(super) fn lock(safety: &Safety, qc: &Qc, tree: &dyn Ancestry) -> Option<Mark> {
    let justify = &tree.header(&qc.digest)?.justify;
    let rises = justify.view > safety.lock.view && !planted!(H3);
    rises.then_some(Mark { view: justify.view, digest: justify.digest })
}

/// Alg. 1 lines 14-16: three blocks, each parent of the next, of consecutive views, the last certified.
pub(super) fn commit(qc: &Qc, tree: &dyn Ancestry) -> Option<Hash> {
    let last = tree.header(&qc.digest)?;
    let middle = tree.header(&last.parent)?;
    if planted!(H19) && middle.parent != qc.digest {
        return None;
    }
    let consecutive = middle.view.precedes(last.view) && middle.justify.view.precedes(middle.view);
    (consecutive || planted!(H5)).then_some(middle.parent)
}

impl Ruleset for Chain3 {
    const NAME: &'static str = "chain3";
    const PACK: Pack = Pack::Chain3;

    fn phases() -> &'static [Kind] {
        &[Kind::Generic]
    }

    fn may_vote(ballot: &Ballot<'_>) -> bool {
        safe_node(ballot)
    }

    fn lock(safety: &Safety, qc: &Qc, tree: &dyn Ancestry) -> Option<Mark> {
        lock(safety, qc, tree)
    }

    fn commit(qc: &Qc, tree: &dyn Ancestry) -> Option<Hash> {
        commit(qc, tree)
    }
}

//! Two chained blocks, or order votes of quorum power: the default pack.

use synod_crypto::Hash;

use super::{Ancestry, Ballot, Pack, Ruleset, chain2, two_chain};
use crate::record::{Mark, Safety};
use crate::{Kind, Qc};

/// The two-chain pack with order votes.
#[derive(Clone, Copy, Debug)]
pub struct Chain2Order;

impl Ruleset for Chain2Order {
    const NAME: &'static str = "chain2+order";
    const PACK: Pack = Pack::Chain2Order;

    fn phases() -> &'static [Kind] {
        &[Kind::Generic, Kind::Order]
    }

    fn may_vote(ballot: &Ballot<'_>) -> bool {
        chain2::bound(ballot)
    }

    fn lock(_: &Safety, _: &Qc, _: &dyn Ancestry) -> Option<Mark> {
        None
    }

    /// By its child; orders commit too and are counted by the replica.
    fn commit(qc: &Qc, tree: &dyn Ancestry) -> Option<Hash> {
        two_chain(qc, tree)
    }
}

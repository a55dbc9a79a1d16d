//! X8: what a member that tells the truth signs names its network, shard and view, so that nobody takes it for a statement of another.

use synod_astro::{Credit, Credited, CutSign, CutSigned, Looked, Receipt, Settled, Witnessed};
use synod_broadcast::Lot;
use synod_broadcast::signed::{Acked, Context, Except, Said};
use synod_crypto::{Claim, Hash, Keys, Scope, Signature, Statement};
use synod_quorum::NodeId;

use crate::oracle::{Verdict, breach};
use crate::systems::astro::plan::{EPOCH, People};
use crate::systems::hotstuff::cluster;

/// Where all statements of a run belong, with the keys of the members.
pub(super) struct Domain {
    context: Context,
    people: People,
    /// A key that others' signatures are checked with.
    checker: Keys,
}

impl Domain {
    pub(super) fn new(context: Context, people: &People) -> Self {
        let people = people.clone();
        Self { context, checker: people.keys(People::issuer(0)), people }
    }

    fn holds<S: Statement>(&self, (node, what): (u32, &str), statement: S, signature: Signature) -> Verdict {
        let scope = Scope { cluster: cluster(), epoch: EPOCH };
        let (signer, key) = (NodeId(node), self.people.member(node));
        if (Claim { statement, scope, signer, key, signature }).verify(&self.checker).is_ok() {
            return Ok(());
        }
        breach("X8", format!("what member {node} signs is no {what} of this shard and view"))
    }

    pub(super) fn acked(&self, node: u32, (lot, digest): (Lot, Hash), said: &Said) -> Verdict {
        let (except, authorized) = (said.except.digest(), said.authorized);
        let statement = Acked { context: self.context, lot, digest, except, authorized };
        self.holds((node, "endorsement"), statement, said.signature)
    }

    /// Whoever broadcasts a batch endorses all of it.
    pub(super) fn prepared(&self, node: u32, of: (Lot, Hash), signature: Signature) -> Verdict {
        let member = u8::try_from(node).unwrap_or(u8::MAX);
        self.acked(node, of, &Said { member, except: Except::default(), authorized: true, signature })
    }

    pub(super) fn receipted(&self, node: u32, receipt: &Receipt) -> Verdict {
        let (lot, digest, open) = (receipt.lot, receipt.digest, receipt.open.digest());
        let statement = Settled { context: self.context, lot, digest, open };
        self.holds((node, "receipt"), statement, receipt.signature)
    }

    pub(super) fn vouched(&self, node: u32, credit: &Credit) -> Verdict {
        let open = credit.vouch.open.digest();
        let statement = Credited { context: self.context, root: credit.root, open };
        self.holds((node, "word on payments"), statement, credit.vouch.signature)
    }

    pub(super) fn cut(&self, node: u32, sign: &CutSign) -> Verdict {
        let CutSign { number, proposer, root, signature, .. } = *sign;
        let statement = CutSigned { context: self.context, number, proposer, root };
        self.holds((node, "signature on a cut"), statement, signature)
    }

    pub(super) fn looked(&self, node: u32, word: &Witnessed) -> Verdict {
        let Witnessed { lot, digest, keys, is_good, signature, .. } = *word;
        let statement = Looked { context: self.context, lot, digest, keys, is_good };
        self.holds((node, "word on signatures"), statement, signature)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use synod_broadcast::Lot;
    use synod_broadcast::signed::{Acked, Context, Except, Said};
    use synod_crypto::{Hash, Scope};
    use synod_quorum::NodeId;

    use super::{Domain, EPOCH, cluster};
    use crate::systems::astro::draw::scenario;
    use crate::systems::astro::plan::Plan;
    use crate::token::RunOptions;

    #[test]
    fn what_is_signed_for_another_shard_or_view_is_told() {
        let scenario = scenario("astro/ii-f", 1, &RunOptions::default()).expect("a system");
        let plan = Plan::new(&scenario).expect("a plan");
        let (lot, digest, except) = (Lot { source: 1, sequence: 3 }, Hash::of(b"batch"), Except::default());
        let keys = synod_sim::Keyring::new(scenario.crypto, scenario.seed).keys(2);
        let context = plan.view.context;
        let said = |context: Context, epoch| {
            let statement = Acked { context, lot, digest, except: except.digest(), authorized: true };
            let scope = Scope { cluster: cluster(), epoch };
            let signature = keys.sign(scope, NodeId(2), statement).signature;
            Said { member: 2, except: except.clone(), authorized: true, signature }
        };
        let domain = Domain::new(Arc::clone(&plan.view).context, &plan.people);
        let told = |said: &Said| domain.acked(2, (lot, digest), said).map_err(|breach| breach.checker);
        assert_eq!(told(&said(context, EPOCH)), Ok(()));
        assert_eq!(told(&said(Context { shard: 7, ..context }, EPOCH)), Err("X8"));
        assert_eq!(told(&said(Context { view: Hash::ZERO, ..context }, EPOCH)), Err("X8"));
        assert_eq!(told(&said(context, synod_quorum::Epoch(1))), Err("X8"));
        assert_eq!(domain.acked(1, (lot, digest), &said(context, EPOCH)).map_err(|b| b.checker), Err("X8"));
    }
}

//! Cards as somebody can make them who keeps to no rule: of keys of its own, of one key twice, with keys of others and
//! possessions of none (T11, T12).

use std::rc::Rc;

use synod_chopchop::card::Card;
use synod_chopchop::config::Cluster;
use synod_chopchop::statement::{BlsKeyBytes, BlsSignatureBytes, Possession, SignUp};
use synod_crypto::Keys;
use synod_quorum::NodeId;
use synod_sim::Act;

/// Makes cards.
pub(super) struct Forger {
    /// Keys that are no node's.
    spares: Rc<[Keys]>,
}

impl Forger {
    pub(super) const fn new(spares: Rc<[Keys]>) -> Self {
        Self { spares }
    }

    /// A card that is signed by a key of its own. Its other key is its own too, or that of a server, or of the card
    /// `seen`; the possession is right only for an own one.
    pub(super) fn card(&self, cluster: &Cluster, seen: Option<&Card>, act: &mut Act<'_>) -> Option<Card> {
        // Of its colluders some are corrupted later only, and honest until then.
        let all = act.keys;
        let hands: Vec<&Keys> = self.spares.iter().chain(all.get(&act.node)).collect();
        let (one, other) = (*act.draws.pick(&hands)?, *act.draws.pick(&hands)?);
        let server = NodeId(u32::try_from(act.draws.below(u64::from(cluster.roster().size()))).ok()?);
        let foreign = match act.draws.below(8) {
            0 | 1 => cluster.bls().key(server).map(|key| BlsKeyBytes(key.to_bytes())),
            2 => seen.map(|card| *card.bls()),
            _ => None,
        };
        let own = other.bls_public().map(|key| BlsKeyBytes(key.to_bytes()));
        let (bls, ed, scope) = (foreign.or(own)?, one.public(), cluster.card_scope());
        let pop = other.possess(&scope, &Possession { bls, ed }).map(BlsSignatureBytes)?;
        let signature = one.sign(scope, NodeId::GUESTS, SignUp { bls, ed, pop }).signature;
        Card::new(bls, ed, pop, signature).ok()
    }
}

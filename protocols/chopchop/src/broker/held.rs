//! What an earlier life of this broker had pinned at servers (4.5): it is ordered, since it takes credit until it is or expires.
//!
//! Servers say what they hold. What f + 1 of them say alike, and this broker knows nothing of, is asked to be witnessed again; f + 1
//! shards are an item like any other. Nobody here waits for its delivery: the clients in it come again, and are told that
//! their messages were delivered.
//!
//! *Bounds.* A list of each server, and [`SALVAGED_MAX`] batches whose shards are gathered. Servers repeat what they still hold,
//! so there are no timers.

use std::collections::BTreeMap;

use synod_crypto::{Claim, Hash, Signature};
use synod_quorum::{NodeId, NodeSet};

use super::job::Task;
use super::{Broker, Step};
use crate::certificate::Signers;
use crate::item::Item;
use crate::message::{HELD_MAX, HeldBatch, ServerMessage, Shard, StoreMessage};
use crate::statement::{Kind, Witness};
use crate::trace::Rule;
use crate::vocabulary::Message;

/// Batches whose shards are gathered at a time.
const SALVAGED_MAX: usize = 64;

/// A batch of an earlier life.
#[derive(Clone, Debug)]
struct Salvaged {
    held: HeldBatch,
    holders: NodeSet,
    shards: BTreeMap<NodeId, Signature>,
    checking: bool,
    item: Option<Item>,
}

impl Salvaged {
    fn witness(&self, kind: Kind) -> Witness {
        let HeldBatch { digest, expiry, count, body_len } = self.held;
        Witness { kind, digest, expiry, count, body_len }
    }
}

/// What of earlier lives is known.
#[derive(Clone, Debug, Default)]
pub(super) struct Earlier {
    said: BTreeMap<NodeId, Vec<HeldBatch>>,
    of: BTreeMap<Hash, Salvaged>,
}

impl Earlier {
    /// Bytes held at most, by this many servers.
    pub(super) const fn bytes_max(servers: u32) -> u64 {
        servers as u64 * (HELD_MAX as u64 * 56 + SALVAGED_MAX as u64 * 256)
    }

    /// Who says that it holds the same.
    fn holders(&self, batch: &HeldBatch) -> NodeSet {
        self.said.iter().filter(|(_, list)| list.contains(batch)).map(|(id, _)| *id).collect()
    }
}

impl Broker {
    /// A server says what of this broker's it has pinned and not seen ordered.
    pub(super) fn on_held(&mut self, from: NodeId, list: Vec<HeldBatch>, turn: &mut Step<'_>) {
        let reached = self.reached_height();
        let strange = |held: &HeldBatch| !self.by_digest.contains_key(&held.digest) && held.expiry > reached;
        let list: Vec<HeldBatch> = list.into_iter().filter(strange).collect();
        let quorums = *self.config.cluster.quorums();
        self.earlier.said.insert(from, list.clone());
        let mut earlier = core::mem::take(&mut self.earlier);
        // What nobody holds any more was ordered, or went.
        let said = &earlier.said;
        let holds = |digest: &Hash| said.values().flatten().any(|held| held.digest == *digest);
        earlier.of.retain(|digest, _| holds(digest));
        for held in list {
            let holders = earlier.holders(&held);
            if !quorums.has_correct(holders) {
                continue;
            }
            let (digest, has_room) = (held.digest, earlier.of.len() < SALVAGED_MAX);
            match earlier.of.get_mut(&digest).filter(|known| known.held == held) {
                Some(known) => {
                    known.holders = holders;
                    match known.item.clone() {
                        // One may be silent, so all of them are asked.
                        Some(item) => {
                            Self::ask_servers(self.servers(), ServerMessage::Order(item), turn);
                        }
                        None => turn.send(holders, Message::Store(StoreMessage::Ask(digest))),
                    }
                }
                None if has_room => {
                    let (shards, checking, item) = (BTreeMap::new(), false, None);
                    earlier.of.insert(digest, Salvaged { held, holders, shards, checking, item });
                    turn.send(holders, Message::Store(StoreMessage::Ask(digest)));
                }
                None => {}
            }
        }
        self.earlier = earlier;
    }

    /// A shard of a batch that is none of this life's.
    pub(super) fn on_earlier_shard(&mut self, from: NodeId, shard: &Shard, turn: &mut Step<'_>) {
        let cluster = &self.config.cluster;
        let needed = cluster.quorums().one_correct() as usize;
        let of =
            |known: &&mut Salvaged| known.holders.contains(from) && known.item.is_none() && !known.checking;
        let Some(known) = self.earlier.of.get_mut(&shard.digest).filter(of) else { return };
        known.shards.insert(from, shard.signature);
        if known.shards.len() < needed {
            return;
        }
        known.checking = true;
        let claims = |kind: Kind| -> Vec<Claim<Witness>> {
            let claim = |(signer, signature): (&NodeId, &Signature)| {
                let key = cluster.roster().member(*signer)?.key;
                let statement = known.witness(kind).signed();
                Some(Claim { statement, scope: cluster.scope(), signer: *signer, key, signature: *signature })
            };
            known.shards.iter().filter_map(claim).collect()
        };
        // HELD does not tell what a batch holds.
        let claims = [claims(Kind::Messages), claims(Kind::SignUp)];
        let digest = shard.digest;
        self.compute(turn, Task::Earlier(digest, Box::new(claims)));
    }

    /// The shards of a batch of an earlier life were checked, as those of messages and as those of cards.
    pub(super) fn earlier_checked(
        &mut self,
        digest: Hash,
        checked: [Vec<(NodeId, Option<Signature>)>; 2],
        turn: &mut Step<'_>,
    ) {
        let needed = self.config.cluster.quorums().one_correct() as usize;
        let members = self.config.cluster.roster().size();
        let Some(known) = self.earlier.of.get_mut(&digest) else { return };
        known.checking = false;
        for (kind, shards) in [Kind::Messages, Kind::SignUp].into_iter().zip(checked) {
            let good: Vec<(NodeId, Signature)> =
                shards.into_iter().filter_map(|(id, shard)| Some((id, shard?))).take(needed).collect();
            if good.len() < needed {
                continue;
            }
            let set: NodeSet = good.iter().map(|(id, _)| *id).collect();
            let signatures = good.into_iter().map(|(_, shard)| shard).collect();
            let item = Signers::new(set, members)
                .and_then(|signers| Item::new(known.witness(kind), signers, signatures));
            known.item.clone_from(&item);
            known.shards.clear();
            if let Some(item) = item {
                turn.applied(Rule::Step12);
                Self::ask_servers(set, ServerMessage::Order(item), turn);
            }
            return;
        }
        // A liar is among them; those that did not say so yet come with the next asking.
        if known.shards.len() >= members as usize {
            known.shards.clear();
        }
    }
}

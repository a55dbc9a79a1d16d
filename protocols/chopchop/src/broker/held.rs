//! What an earlier life of this broker had pinned at servers (4.5): it is ordered, since it takes credit until it is or expires.
//!
//! Servers say what they hold. What f + 1 of them say alike, and this broker knows nothing of, is asked to be witnessed again; f + 1
//! shards are an item like any other. Nobody here waits for its delivery: the clients in it come again, and are told that
//! their messages were delivered.
//!
//! *Bounds.* A list of each server, and [`SALVAGED_MAX`] batches whose shards are gathered: each has its place as long as f + 1
//! servers say that they hold it, so that liars keep none taken. Servers repeat what they still hold, so there are no timers; a
//! list that says what the last one said costs its sorting and a look at each entry.

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
pub(super) const SALVAGED_MAX: usize = 64;

/// A batch of an earlier life.
#[derive(Clone, Debug)]
struct Salvaged {
    held: Name,
    shards: BTreeMap<NodeId, Signature>,
    checking: bool,
    item: Option<Item>,
}

/// What servers say of a batch: digest, expiry, entries, bytes of the body. It is the same batch if all of it is.
type Name = (Hash, u64, u32, u32);

impl Salvaged {
    const fn witness(&self, kind: Kind) -> Witness {
        let (digest, expiry, count, body_len) = self.held;
        Witness { kind, digest, expiry, count, body_len }
    }
}

/// What of earlier lives is known.
#[derive(Clone, Debug, Default)]
pub(super) struct Earlier {
    /// What each server said last, in order.
    said: BTreeMap<NodeId, Vec<Name>>,
    /// Who says so.
    holders: BTreeMap<Name, NodeSet>,
    of: BTreeMap<Hash, Salvaged>,
}

impl Earlier {
    /// Bytes held at most, by this many servers.
    pub(super) const fn bytes_max(servers: u32) -> u64 {
        servers as u64 * (HELD_MAX as u64 * (56 + 112) + SALVAGED_MAX as u64 * 256)
    }

    /// What a server says takes the place of what it said before.
    fn says(&mut self, from: NodeId, mut list: Vec<Name>) {
        list.sort_unstable();
        list.dedup();
        let old = self.said.remove(&from).unwrap_or_default();
        for gone in old.iter().filter(|name| list.binary_search(name).is_err()) {
            if let Some(holders) = self.holders.get_mut(gone) {
                holders.remove(from);
                if holders.is_empty() {
                    self.holders.remove(gone);
                }
            }
        }
        for new in list.iter().filter(|name| old.binary_search(name).is_err()) {
            self.holders.entry(*new).or_default().insert(from);
        }
        self.said.insert(from, list);
    }

    /// Who says that it holds this.
    fn holders(&self, name: &Name) -> NodeSet {
        self.holders.get(name).copied().unwrap_or_default()
    }
}

impl Broker {
    /// A server says what of this broker's it has pinned and not seen ordered.
    pub(super) fn on_held(&mut self, from: NodeId, list: Vec<HeldBatch>, turn: &mut Step<'_>) {
        let reached = self.reached_height();
        let strange = |held: &HeldBatch| !self.by_digest.contains_key(&held.digest) && held.expiry > reached;
        let name = |held: HeldBatch| (held.digest, held.expiry, held.count, held.body_len);
        let list: Vec<Name> = list.into_iter().filter(strange).map(name).collect();
        let quorums = *self.config.cluster.quorums();
        let mut earlier = core::mem::take(&mut self.earlier);
        earlier.says(from, list);
        // What not even one correct server holds any more was ordered, or went.
        let Earlier { said, holders, of } = &mut earlier;
        let held_by = |name: &Name| holders.get(name).copied().unwrap_or_default();
        of.retain(|_, known| quorums.has_correct(held_by(&known.held)));
        for held in said.get(&from).into_iter().flatten() {
            let (digest, holders) = (held.0, held_by(held));
            if !quorums.has_correct(holders) {
                continue;
            }
            let has_room = of.len() < SALVAGED_MAX;
            match of.get(&digest).filter(|known| known.held == *held) {
                Some(known) => match known.item.clone() {
                    // One may be silent, so all of them are asked.
                    Some(item) => {
                        Self::ask_servers(self.servers(), ServerMessage::Order(item), turn);
                    }
                    None => turn.send(holders, Message::Store(StoreMessage::Ask(digest))),
                },
                None if has_room => {
                    let (shards, checking, item) = (BTreeMap::new(), false, None);
                    of.insert(digest, Salvaged { held: *held, shards, checking, item });
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
        let is_held = self.earlier.of.get(&shard.digest).map(|known| self.earlier.holders(&known.held));
        let open = |known: &&mut Salvaged| known.item.is_none() && !known.checking;
        let Some(known) = self.earlier.of.get_mut(&shard.digest).filter(open) else { return };
        if !is_held.is_some_and(|holders| holders.contains(from)) {
            return;
        }
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

#[cfg(test)]
mod tests {
    use super::{Earlier, Name};
    use crate::by_hand::SERVERS;
    use synod_crypto::Hash;
    use synod_quorum::{NodeId, NodeSet};
    use synod_wire::Drawn;

    fn name(number: u64) -> Name {
        (Hash::of(&number.to_le_bytes()), 900, 1, 8)
    }

    #[test]
    fn who_holds_what_is_what_the_last_lists_say() {
        let (mut earlier, mut from) = (Earlier::default(), Drawn::new(5));
        let mut last: Vec<Vec<Name>> = vec![Vec::new(); SERVERS as usize];
        for _ in 0..300 {
            let server = u32::try_from(from.below(u64::from(SERVERS))).expect("small");
            let list: Vec<Name> = (0..from.below(20)).map(|_| name(from.below(30))).collect();
            last[server as usize].clone_from(&list);
            earlier.says(NodeId(server), list);
            for number in 0..30 {
                let says = |server: &u32| last[*server as usize].contains(&name(number));
                let wanted: NodeSet = (0..SERVERS).filter(says).map(NodeId).collect();
                assert_eq!(earlier.holders(&name(number)), wanted);
            }
        }
        (0..SERVERS).for_each(|server| earlier.says(NodeId(server), Vec::new()));
        assert!(earlier.holders.is_empty(), "nothing is kept of what nobody says");
    }
}

//! Proofs that are asked for: by a member before it endorses a batch that imports an entry, and by a member of the shard that an
//! entry left and that does not know it.

use std::collections::BTreeMap;
use std::sync::Arc;

use synod_crypto::Hash;
use synod_ledger::EntryId;
use synod_machine::{Span, Turn};
use synod_quorum::NodeId;

use super::super::{Carrier, Replica, say};
use crate::bundle::Place;
use crate::words::{Timer, Word};

/// Proofs that are asked for at a time of what one member of another shard named.
const NAMED_MAX: u32 = 512;
/// The same of what all of them named.
const ASKING_MAX: usize = 4_096;
/// The same of what batches import: each lane waits for one.
const BESIDE_MAX: usize = 256;

/// A proof that is asked for.
#[derive(Clone, Copy, Debug)]
struct Asked {
    digest: Hash,
    /// Who named the entry, and is asked first.
    who: NodeId,
    wait: Span,
    times: u32,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Asking {
    asked: BTreeMap<EntryId, Asked>,
    /// How many of them each node named.
    named: BTreeMap<NodeId, u32>,
}

impl Asking {
    fn put(&mut self, id: EntryId, asked: Asked) {
        let named = self.named.entry(asked.who).or_default();
        *named = named.saturating_add(1);
        self.asked.insert(id, asked);
    }

    fn remove(&mut self, id: EntryId) -> bool {
        let Some(asked) = self.asked.remove(&id) else { return false };
        if let Some(named) = self.named.get_mut(&asked.who) {
            *named = named.saturating_sub(1);
            if *named == 0 {
                self.named.remove(&asked.who);
            }
        }
        true
    }

    /// Whether a member of another shard may have one more asked for.
    fn has_room(&self, who: NodeId) -> bool {
        self.asked.len() < ASKING_MAX && self.named.get(&who).is_none_or(|named| *named < NAMED_MAX)
    }

    pub(in super::super) fn bytes(&self) -> u64 {
        (self.asked.len() * 2 * size_of::<(EntryId, Asked)>()
            + self.named.len() * 2 * size_of::<(NodeId, u32)>()) as u64
    }

    pub(in super::super) const fn bytes_max() -> u64 {
        ((ASKING_MAX + BESIDE_MAX) * 2 * (size_of::<(EntryId, Asked)>() + size_of::<(NodeId, u32)>())) as u64
    }
}

impl<B: Carrier> Replica<B> {
    pub(super) fn is_asked(&self, id: EntryId) -> bool {
        self.asking.asked.contains_key(&id)
    }

    /// Asks for what a batch of a lane imports: its proof may be on its way, so a moment later. What others named takes it no place.
    pub(super) fn ask_beside(&mut self, place: Place, lane: u8, turn: &mut Turn<'_, Self>) {
        if self.asking.asked.len() < ASKING_MAX + BESIDE_MAX {
            self.ask(place, NodeId(u32::from(lane)), turn);
        }
    }

    /// Asks for what another shard imported: its certificate may be on its way, so a moment later.
    pub(super) fn ask_abroad(&mut self, place: Place, who: NodeId, turn: &mut Turn<'_, Self>) {
        if self.asking.has_room(who) {
            self.ask(place, who, turn);
        }
    }

    fn ask(&mut self, place: Place, who: NodeId, turn: &mut Turn<'_, Self>) {
        let wait = self.config.parameters.pull;
        if !self.is_asked(place.id) {
            self.asking.put(place.id, Asked { digest: place.digest, who, wait, times: 0 });
            turn.arm(Timer::Proof(place.id), wait);
        }
    }

    pub(super) fn forget_asked(&mut self, id: EntryId, turn: &mut Turn<'_, Self>) {
        if self.asking.remove(id) {
            turn.disarm(Timer::Proof(id));
        }
    }

    /// Whether everybody was asked once for what a member of another shard named. Whoever did credit it says so again; what nobody
    /// credited is asked for no more.
    fn was_asked_everywhere(&self, id: EntryId) -> bool {
        let Some(asked) = self.asking.asked.get(&id) else { return true };
        let abroad = self.config.shards.member(asked.who);
        let members =
            abroad.and_then(|(shard, _)| self.config.shards.get(shard)).map(|shard| shard.nodes.len());
        members.is_some_and(|members| u64::from(asked.times) > members as u64)
    }

    pub(in super::super) fn on_proof_due(&mut self, id: EntryId, turn: &mut Turn<'_, Self>) {
        let is_known = if id.spender.shard == self.book().shard() {
            self.is_settled(id) || self.ledger.slot(id).is_some_and(|slot| slot.is_certified)
        } else {
            !self.importer.is_needed(id)
        };
        if is_known || self.was_asked_everywhere(id) {
            self.asking.remove(id);
            return;
        }
        let (me, longest) = (self.config.me, self.config.parameters.pull_max);
        let Some(asked) = self.asking.asked.get_mut(&id) else { return };
        let (who, times) = (asked.who, u64::from(asked.times));
        asked.times = asked.times.wrapping_add(1);
        let (digest, wait) = (asked.digest, asked.wait);
        asked.wait = wait.times(2).min(longest);
        turn.arm(Timer::Proof(id), wait);
        // Whoever named it, then everybody in turn.
        let peer = match (times, self.config.shards.member(who)) {
            (0, _) => Some(who),
            (_, Some((shard, _))) => self.config.shards.get(shard).and_then(|shard| shard.nth(times)),
            (_, None) => {
                let others = self.config.view.roster.all().without(me);
                let nth = times.checked_rem(u64::from(others.count())).unwrap_or_default();
                others.iter().nth(usize::try_from(nth).unwrap_or_default())
            }
        };
        if let Some(peer) = peer {
            say(turn, peer, Word::WantProof(Place { id, digest }));
        }
    }

    pub(in super::super) fn on_want_proof(&self, from: NodeId, place: Place, turn: &mut Turn<'_, Self>) {
        if let Some(bundle) = self.proof_of(place) {
            say(turn, from, Word::Bundle(Arc::clone(bundle)));
        }
    }
}

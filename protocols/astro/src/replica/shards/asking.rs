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

/// Proofs that are asked for at a time.
const ASKING_MAX: usize = 4_096;

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
pub(in super::super) struct Asking(BTreeMap<EntryId, Asked>);

impl Asking {
    pub(in super::super) fn bytes(&self) -> u64 {
        (self.0.len() * 2 * size_of::<(EntryId, Asked)>()) as u64
    }

    pub(in super::super) const fn bytes_max() -> u64 {
        (ASKING_MAX * 2 * size_of::<(EntryId, Asked)>()) as u64
    }
}

impl<B: Carrier> Replica<B> {
    pub(super) fn is_asked(&self, id: EntryId) -> bool {
        self.asking.0.contains_key(&id)
    }

    /// Asks for what a batch of a lane imports: its proof may be on its way, so a moment later.
    pub(super) fn ask_beside(&mut self, place: Place, lane: u8, turn: &mut Turn<'_, Self>) {
        self.ask(place, NodeId(u32::from(lane)), turn);
    }

    /// Asks for what another shard imported: its certificate may be on its way, so a moment later.
    pub(super) fn ask_abroad(&mut self, place: Place, who: NodeId, turn: &mut Turn<'_, Self>) {
        self.ask(place, who, turn);
    }

    fn ask(&mut self, place: Place, who: NodeId, turn: &mut Turn<'_, Self>) {
        let wait = self.config.parameters.pull;
        if !self.asking.0.contains_key(&place.id) && self.asking.0.len() < ASKING_MAX {
            self.asking.0.insert(place.id, Asked { digest: place.digest, who, wait, times: 0 });
            turn.arm(Timer::Proof(place.id), wait);
        }
    }

    pub(super) fn forget_asked(&mut self, id: EntryId, turn: &mut Turn<'_, Self>) {
        if self.asking.0.remove(&id).is_some() {
            turn.disarm(Timer::Proof(id));
        }
    }

    pub(in super::super) fn on_proof_due(&mut self, id: EntryId, turn: &mut Turn<'_, Self>) {
        let is_known = if id.spender.shard == self.book().shard() {
            self.is_settled(id) || self.ledger.slot(id).is_some_and(|slot| slot.is_certified)
        } else {
            self.book().is_used(id) || !self.importer.is_needed(id)
        };
        if is_known {
            self.asking.0.remove(&id);
            return;
        }
        let (me, longest) = (self.config.me, self.config.parameters.pull_max);
        let Some(asked) = self.asking.0.get_mut(&id) else { return };
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

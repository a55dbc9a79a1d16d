//! After the search: who signs, who straggles, and the layout of the batch (4.4, 4.5).

use synod_crypto::Hash;
use synod_quorum::{NodeId, NodeSet};

use super::job::{Distilled, Task, ToSeal};
use super::open::{Batch, Content, Phase, Sealing};
use super::{Broker, Step};
use crate::batch::Plan;
use crate::columns::Straggler;
use crate::content::{AnyBatch, AnyHeader};
use crate::fault::Fault;
use crate::trace::{Note, NoteName, Rule};

/// Times that a batch is sealed at most.
const SEALINGS_MAX: usize = 4;

impl Broker {
    pub(super) fn searched(&mut self, number: u64, found: &Distilled, turn: &mut Step<'_>) {
        let Some(batch) = self.batches.get_mut(&number).filter(|batch| batch.phase == Phase::Searching)
        else {
            return;
        };
        let Some(messages) = batch.messages_mut() else { return };
        let bad = u64::try_from(found.bad_first.len()).unwrap_or(u64::MAX);
        let values = [u64::from(found.checks), bad, u64::from(found.unresolved)];
        turn.note(Note { name: NoteName::Searched, values, digest: messages.commit });
        let mut struck: Vec<NodeId> = Vec::new();
        for index in &found.bad_first {
            struck.extend(messages.slots.get(*index as usize).and_then(|slot| slot.sent[0]));
        }
        for index in &found.bad_other {
            struck.extend(messages.slots.get(*index as usize).and_then(|slot| slot.sent[1]));
        }
        let mut straggle = Vec::new();
        for (index, slot) in (0_u32..).zip(&mut messages.slots) {
            let left_out = found.left_out.binary_search(&index).is_ok();
            slot.signs = slot.sent[0].is_some() && !left_out && found.aggregate.is_some();
            if slot.signs {
                self.suspects.remove(&slot.admitted.id);
            } else {
                straggle.push(slot.admitted.id);
            }
            slot.sent = [None; 2];
        }
        messages.aggregate = found.aggregate;
        for link in struck {
            self.links.strike(link, turn.now());
            turn.blame(link, Fault::BadShare);
        }
        for id in straggle {
            self.straggled(id, turn);
        }
        turn.applied(Rule::Step7);
        self.seal(number, turn);
    }

    /// Lays the batch out, with an expiry a quarter of the horizon ahead.
    pub(super) fn seal(&mut self, number: u64, turn: &mut Step<'_>) {
        let cluster = &self.config.cluster;
        let expiry = self.reached_height().saturating_add(cluster.rules().horizon / 4);
        let Some(batch) = self.batches.get_mut(&number) else { return };
        // What was ordered once is not ordered again, so another sealing is another batch.
        let before = batch.sealing.as_ref().map_or(0, |sealing| sealing.witness.expiry);
        let expiry = expiry.max(before.saturating_add(1));
        batch.phase = Phase::Sealing;
        batch.sealing = None;
        let what = match &batch.content {
            Content::Cards(cards) => ToSeal::Cards {
                broker: self.config.number,
                expiry,
                cards: cards.cards.iter().map(|(card, _)| card.clone()).collect(),
            },
            Content::Messages(messages) => {
                let last = messages.slots.last().map_or(0, |slot| slot.admitted.id);
                let straggler = |(index, slot): (u32, &super::open::Slot)| {
                    let (k, t) = (slot.admitted.k0, slot.admitted.t);
                    (!slot.signs).then_some(Straggler { index, k, t })
                };
                let stragglers: Vec<Straggler> =
                    (0_u32..).zip(&messages.slots).filter_map(straggler).collect();
                if !stragglers.is_empty() {
                    turn.applied(Rule::Fallback);
                }
                let count = u64::from(messages.shape.count);
                self.sealed += count;
                self.signed += count - stragglers.len() as u64;
                let plan = Plan {
                    broker: self.config.number,
                    msg_size: messages.shape.msg_size,
                    epoch: cluster.epoch(),
                    k: messages.k,
                    expiry,
                    // The least that its ids need, so that no server waits for ids that are not in it.
                    directory: last + 1,
                };
                let entries = messages.slots.iter().map(|slot| slot.admitted.entry()).collect();
                ToSeal::Messages { plan, entries, stragglers, aggregate: messages.aggregate }
            }
        };
        self.compute(turn, Task::Seal(number, what));
    }

    pub(super) fn sealed(&mut self, number: u64, sealed: Option<(Box<AnyBatch>, Hash)>, turn: &mut Step<'_>) {
        let Some(batch) = self.batches.get_mut(&number).filter(|batch| batch.phase == Phase::Sealing) else {
            return;
        };
        let Some((sealed, digest)) = sealed else {
            unreachable!("entries rise, fit their class, and every one signs or straggles")
        };
        let witness = sealed.header.witness(digest);
        if let AnyHeader::Messages(header) = &sealed.header {
            let values = [header.count, header.stragglers, witness.body_len].map(u64::from);
            turn.note(Note { name: NoteName::Sealed, values, digest });
        }
        let mut order: Vec<NodeId> = self.config.cluster.roster().all().iter().collect();
        let turns = turn.rng().below(order.len() as u64);
        order.rotate_left(usize::try_from(turns).unwrap_or(0));
        batch.digests.push(digest);
        self.by_digest.insert(digest, number);
        batch.sealing = Some(Box::new(Sealing {
            batch: *sealed,
            digest,
            witness,
            order,
            uploaded: NodeSet::EMPTY,
            declined: NodeSet::EMPTY,
            again: NodeSet::EMPTY,
            asked: NodeSet::EMPTY,
            refused: NodeSet::EMPTY,
            unchecked: std::collections::BTreeMap::new(),
            shards: std::collections::BTreeMap::new(),
            checking: false,
            item: None,
            since: turn.now(),
        }));
        batch.phase = Phase::Witnessing;
        self.upload(number, turn);
    }

    /// Seals a batch anew that expired. After four sealings its clients are elsewhere.
    pub(super) fn seal_again(&mut self, number: u64, turn: &mut Step<'_>) {
        if self.may_seal_again(number) {
            self.seal(number, turn);
        } else {
            self.abandon(number, turn);
        }
    }

    /// Whether a batch was not sealed as often as it may be.
    pub(super) fn may_seal_again(&self, number: u64) -> bool {
        self.batches.get(&number).is_some_and(|batch| batch.digests.len() < SEALINGS_MAX)
    }

    /// Gives a batch up: its clients come again, here or at another broker.
    pub(super) fn abandon(&mut self, number: u64, turn: &mut Step<'_>) {
        if let Some(batch) = self.batches.remove(&number) {
            self.unname(number, &batch);
            let ids: Vec<u32> = batch
                .messages()
                .map(|messages| messages.slots.iter().map(|slot| slot.admitted.id).collect())
                .unwrap_or_default();
            self.release(&ids);
            self.watch_window(turn);
        }
    }

    /// Takes a batch out of every index.
    pub(super) fn unname(&mut self, number: u64, batch: &Batch) {
        self.tell_no_more(batch);
        for digest in &batch.digests {
            self.by_digest.remove(digest);
        }
        self.desk.batches.remove(&number);
        if let Some(messages) = batch.messages() {
            self.by_commit.remove(&super::distil::half(&messages.commit));
            for slot in &messages.slots {
                self.standings.leave(slot.admitted.id, number);
            }
        }
    }
}

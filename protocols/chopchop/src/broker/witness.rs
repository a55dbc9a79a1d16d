//! Having a batch witnessed: f + 1 servers say that they hold it and found it sound (4.5, steps 8 and 11).

use synod_crypto::{Claim, Hash, Signature};
use synod_machine::{Span, planted};
use synod_quorum::{NodeId, NodeSet};

use super::job::Task;
use super::open::{Batch, Content, Phase, Sealing};
use super::{Broker, Step, Timer};
use crate::batch::Refusal;
use crate::certificate::Signers;
use crate::content::AnyBatch;
use crate::fault::Fault;
use crate::item::Item;
use crate::message::{Credit, Refused, Shard, StoreMessage, Upload};
use crate::store::work_of;
use crate::trace::{Note, NoteName, Rule};
use crate::vocabulary::Message;

/// Shortest wait for shards.
const WITNESS_MIN: Span = Span::millis(50);

/// The batch on its way to a store.
fn upload_of(batch: &AnyBatch, ask: bool) -> Option<Upload> {
    let messages = batch.clone().into_messages().map(|sealed| Upload::messages(ask, sealed));
    messages.or_else(|| batch.clone().into_sign_up().map(|sealed| Upload::sign_up(ask, sealed)))
}

impl Broker {
    /// Step 8: the batch goes to all servers; f + 1 and a margin are asked for a shard at once.
    pub(super) fn upload(&mut self, number: u64, turn: &mut Step<'_>) {
        let first = self.config.cluster.quorums().one_correct() + self.config.parameters.margin;
        let Some(sealing) = self.batches.get_mut(&number).and_then(|batch| batch.sealing.as_mut()) else {
            return;
        };
        sealing.asked = sealing.order.iter().copied().take(first as usize).collect();
        let all: Vec<NodeId> = sealing.order.clone();
        turn.applied(Rule::Step8);
        for server in all {
            self.upload_to(number, server, turn);
        }
        let wait = self.witness_wait();
        turn.arm(Timer::Witness(number, 1), wait);
    }

    /// Sends the batch to one server, as far as its credit reaches.
    fn upload_to(&mut self, number: u64, server: NodeId, turn: &mut Step<'_>) {
        let Some(sealing) = self.batches.get_mut(&number).and_then(|batch| batch.sealing.as_mut()) else {
            return;
        };
        let hint = self.hints.entry(server).or_default();
        let ask = sealing.asked.contains(server);
        let bytes = u64::from(sealing.witness.body_len);
        let work = if ask { work_of(&sealing.batch.header) } else { 0 };
        let last = hint.height.saturating_add(self.config.cluster.rules().horizon);
        if let Some(left) = hint.bytes {
            // What it would refuse waits for the next word of where it stands.
            if left < bytes || hint.work < work || last < sealing.witness.expiry {
                return;
            }
            (hint.bytes, hint.work) = (Some(left - bytes), hint.work - work);
        }
        if let Some(upload) = upload_of(&sealing.batch, ask) {
            sealing.uploaded.insert(server);
            turn.send(server, Message::Store(StoreMessage::Batch(upload)));
        }
    }

    /// A server is back: it gets what waits for witnesses.
    pub(super) fn upload_again(&mut self, server: NodeId, turn: &mut Step<'_>) {
        let waits = self.batches.iter().filter(|(_, batch)| batch.phase == Phase::Witnessing);
        let waits: Vec<u64> = waits.map(|(number, _)| *number).collect();
        for number in waits {
            self.upload_to(number, server, turn);
        }
    }

    fn witness_wait(&self) -> Span {
        self.witness_times.quantile(95).map_or(WITNESS_MIN, |span| span.times(2)).max(WITNESS_MIN)
    }

    /// More are asked: 2f + 1, then all, who get the batch again where no answer came.
    pub(super) fn extend(&mut self, number: u64, stage: u32, turn: &mut Step<'_>) {
        let wait = self.witness_wait();
        let reached = self.reached_height();
        let Some(batch) = self.batches.get_mut(&number).filter(|batch| batch.phase == Phase::Witnessing)
        else {
            return;
        };
        let Some(sealing) = &mut batch.sealing else { return };
        if reached >= sealing.witness.expiry || self.config.cluster.quorums().has_correct(sealing.refused) {
            self.seal_again(number, turn);
            return;
        }
        turn.applied(Rule::WitnessExtend);
        let quorums = self.config.cluster.quorums();
        let count = if stage == 1 { 2 * quorums.faulty() + 1 } else { quorums.members() };
        let asked: NodeSet = sealing.order.iter().copied().take(count as usize).collect();
        let answered: NodeSet = sealing.shards.keys().copied().collect();
        let digest = sealing.digest;
        let silent = asked.minus(answered).minus(sealing.refused);
        let fresh = silent.minus(sealing.asked).and(sealing.uploaded);
        sealing.asked = sealing.asked.or(asked);
        (sealing.declined, sealing.again) = (NodeSet::EMPTY, NodeSet::EMPTY);
        // Counted from the last asking, so that a silent server does not make the wait for others longer and longer.
        sealing.since = turn.now();
        for server in silent.iter() {
            if stage == 1 && fresh.contains(server) {
                turn.send(server, Message::Store(StoreMessage::Ask(digest)));
            } else if stage > 1 {
                self.upload_to(number, server, turn);
            }
        }
        turn.arm(Timer::Witness(number, stage.saturating_add(1)), wait.times(1 << stage.min(6)));
    }

    /// A server says what it takes: it gets what it has not. What it put off it gets once more, until servers are asked
    /// again: refusing and inviting in turn costs it nothing.
    pub(super) fn on_credit(&mut self, from: NodeId, credit: &Credit, turn: &mut Step<'_>) {
        let hint = self.hints.entry(from).or_default();
        hint.height = credit.height;
        hint.directory = credit.directory;
        (hint.bytes, hint.work) = (Some(credit.bytes), credit.work);
        let waits = self.batches.iter().filter(|(_, batch)| {
            let missing = |sealing: &Sealing| !sealing.uploaded.or(sealing.again).contains(from);
            batch.phase == Phase::Witnessing && batch.sealing.as_deref().is_some_and(missing)
        });
        let waits: Vec<u64> = waits.map(|(number, _)| *number).collect();
        for number in waits {
            self.upload_to(number, from, turn);
            let sealing = self.batches.get_mut(&number).and_then(|batch| batch.sealing.as_mut());
            if let Some(sealing) =
                sealing.filter(|sealing| sealing.uploaded.and(sealing.declined).contains(from))
            {
                sealing.again.insert(from);
            }
        }
        if self.cards_wait() {
            self.follow_directory(turn);
        }
    }

    pub(super) fn on_refuse(&mut self, from: NodeId, refused: &Refused, turn: &mut Step<'_>) {
        let Some(number) = self.by_digest.get(&refused.digest).copied() else { return };
        let quorums = *self.config.cluster.quorums();
        let Some(batch) = self.batches.get_mut(&number).filter(|batch| batch.phase == Phase::Witnessing)
        else {
            return;
        };
        let Some(sealing) = batch.sealing.as_mut().filter(|sealing| sealing.digest == refused.digest) else {
            return;
        };
        turn.note(Note {
            name: NoteName::Refused,
            values: [u64::from(refused.why.code()), 0, 0],
            digest: refused.digest,
        });
        match refused.why {
            // They take it later: a server that finds it too far is behind one that a correct one reached.
            Refusal::Directory | Refusal::Credit | Refusal::TooFar => {
                sealing.uploaded.remove(from);
                sealing.declined.insert(from);
            }
            Refusal::Expired => {
                // It is sealed anew when the wait for shards is over, with what servers say of their height by then.
                sealing.refused.insert(from);
                if quorums.has_correct(sealing.refused) {
                    self.ask_standing(turn);
                }
            }
            Refusal::Malformed
            | Refusal::Ids
            | Refusal::Straggler
            | Refusal::Root
            | Refusal::Aggregate
            | Refusal::Epoch
            | Refusal::Card => {
                sealing.refused.insert(from);
                if quorums.has_correct(sealing.refused) {
                    self.abandon(number, turn);
                }
            }
        }
    }

    pub(super) fn on_shard(&mut self, from: NodeId, shard: Shard, turn: &mut Step<'_>) {
        let Some(number) = self.by_digest.get(&shard.digest).copied() else {
            return self.on_earlier_shard(from, &shard, turn);
        };
        let Some(batch) = self.batches.get_mut(&number).filter(|batch| batch.phase == Phase::Witnessing)
        else {
            return;
        };
        // Shards count by what they sign: those of another sealing are of another statement.
        let of = |sealing: &&mut Box<Sealing>| sealing.digest == shard.digest || planted!(C21);
        let Some(sealing) = batch.sealing.as_mut().filter(of) else { return };
        if !sealing.shards.contains_key(&from) {
            sealing.unchecked.insert(from, shard.signature);
            self.check_shards(number, turn);
        }
    }

    /// As soon as f + 1 could be good, they are checked together.
    fn check_shards(&mut self, number: u64, turn: &mut Step<'_>) {
        let cluster = &self.config.cluster;
        let needed = cluster.quorums().one_correct() as usize;
        let Some(sealing) = self.batches.get_mut(&number).and_then(|batch| batch.sealing.as_mut()) else {
            return;
        };
        if sealing.checking || sealing.shards.len() + sealing.unchecked.len() < needed {
            return;
        }
        let claims: Vec<Claim<_>> = core::mem::take(&mut sealing.unchecked)
            .into_iter()
            .filter_map(|(signer, signature)| {
                let key = cluster.roster().member(signer)?.key;
                let statement = sealing.witness.signed();
                Some(Claim { statement, scope: cluster.scope(), signer, key, signature })
            })
            .collect();
        let digest = sealing.digest;
        sealing.checking = !claims.is_empty();
        if !claims.is_empty() {
            self.compute(turn, Task::Shards(number, digest, claims));
        }
    }

    pub(super) fn shards_checked(
        &mut self,
        number: u64,
        digest: Hash,
        shards: Vec<(NodeId, Option<Signature>)>,
        turn: &mut Step<'_>,
    ) {
        let members = self.config.cluster.roster().size();
        let needed = self.config.cluster.quorums().one_correct() as usize;
        let Some(batch) = self.batches.get_mut(&number) else { return };
        let Some(sealing) = batch.sealing.as_mut().filter(|sealing| sealing.digest == digest) else { return };
        sealing.checking = false;
        for (server, good) in shards {
            match good {
                Some(signature) => {
                    sealing.shards.insert(server, signature);
                }
                None => turn.blame(server, Fault::ForgedShard),
            }
        }
        if sealing.shards.len() < needed {
            self.check_shards(number, turn);
            return;
        }
        if batch.phase != Phase::Witnessing {
            return;
        }
        turn.applied(Rule::EqualShards);
        turn.applied(Rule::Step11);
        let chosen: Vec<(NodeId, Signature)> =
            sealing.shards.iter().map(|(id, shard)| (*id, *shard)).take(needed).collect();
        let set: NodeSet = chosen.iter().map(|(id, _)| *id).collect();
        let signatures = chosen.into_iter().map(|(_, shard)| shard).collect();
        let item = Signers::new(set, members)
            .and_then(|signers| Item::new(sealing.witness.clone(), signers, signatures));
        let took = turn.now().since(sealing.since);
        sealing.item = item;
        batch.phase = Phase::Ordering;
        self.witness_times.add(took);
        turn.disarm(Timer::Witness(number, 1));
        self.order(number, 0, turn);
    }
}

impl Batch {
    /// The bytes of a delivered batch's body are no longer needed: clients ask for their own entry alone.
    pub(super) fn lighten(&mut self) {
        self.sealing = None;
        self.verdicts.clear();
        if let Content::Messages(messages) = &mut self.content {
            messages.unread.clear();
        }
    }
}

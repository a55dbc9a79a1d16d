//! Having a witnessed batch ordered, and its delivery certified (4.5, steps 12 and 17).

use synod_crypto::Hash;
use synod_machine::Span;
use synod_quorum::{NodeId, NodeSet};

use super::job::{Combined, Task};
use super::open::{Batch, Content, Phase, Proof};
use super::{Broker, Step, Timer};
use crate::certified::aggregate_of;
use crate::dedup::Exceptions;
use crate::fault::Fault;
use crate::message::{ExceptionProof, ServerMessage, Verdict};
use crate::statement::{Delivered, Kind};
use crate::trace::Rule;

/// Shortest wait for a delivery.
const ORDER_MIN: Span = Span::millis(500);

/// Rounds without an answer after which a batch is sealed anew.
const SILENT_STAGES: u32 = 4;

impl Broker {
    fn order_wait(&self) -> Span {
        self.order_times.quantile(95).map_or(ORDER_MIN, |span| span.times(4)).max(ORDER_MIN)
    }

    /// Step 12: one server, then f + 1, then all, until it is delivered or expires.
    pub(super) fn order(&mut self, number: u64, stage: u32, turn: &mut Step<'_>) {
        let quorums = self.config.cluster.quorums();
        let count = match stage {
            0 => 1,
            1 => quorums.one_correct(),
            _ => quorums.members(),
        };
        let wait = self.order_wait().times(1 << stage.min(4));
        let Some(sealing) = self.batches.get_mut(&number).and_then(|batch| batch.sealing.as_mut()) else {
            return;
        };
        let Some(item) = sealing.item.clone() else { return };
        // Counted from the last asking, so that a silent server does not make the wait for others longer and longer.
        sealing.since = turn.now();
        let (digest, order) = (sealing.digest, sealing.order.clone());
        turn.applied(Rule::Step12);
        let to: NodeSet = order.into_iter().take(count as usize).collect();
        Self::ask_servers(to, ServerMessage::Order(item), turn);
        if stage > 0 {
            Self::ask_servers(to, ServerMessage::Certify(digest), turn);
        }
        turn.arm(Timer::Order(number, stage.saturating_add(1)), wait);
    }

    pub(super) fn order_again(&mut self, number: u64, stage: u32, turn: &mut Step<'_>) {
        let reached = self.reached_height();
        let Some(batch) = self.batches.get(&number).filter(|batch| batch.phase == Phase::Ordering) else {
            return;
        };
        let expired = batch.sealing.as_ref().is_some_and(|sealing| reached >= sealing.witness.expiry);
        // Every server has ordered it and none says so: it was delivered before all of them restarted, also if this broker
        // made the same batch in an earlier life. Another sealing of it is ordered, and finds its messages delivered.
        let is_silent = stage.is_multiple_of(SILENT_STAGES) && self.may_seal_again(number);
        if expired {
            self.seal_again(number, turn);
        } else if is_silent {
            self.seal(number, turn);
        } else {
            self.order(number, stage, turn);
        }
    }

    pub(super) fn on_delivered(&mut self, from: NodeId, verdict: Verdict, turn: &mut Step<'_>) {
        let said = &verdict.statement;
        if let Some(hint) = self.hints.get_mut(&from) {
            hint.height = hint.height.max(said.height);
        }
        let Some(number) = self.by_digest.get(&said.digest).copied() else { return };
        let domains = self.config.cluster.domains();
        let Some(batch) = self.batches.get_mut(&number).filter(|batch| batch.phase < Phase::Delivered) else {
            return;
        };
        let (kind, commit) = match &batch.content {
            Content::Messages(messages) => (Kind::Messages, messages.commit),
            Content::Cards(_) => (Kind::SignUp, Hash::ZERO),
        };
        let exceptions = verdict.exceptions.exceptions(batch.count());
        let listed = exceptions.filter(|exceptions| match kind {
            Kind::Messages => {
                exceptions.root(domains) == said.exceptions_root && exceptions.exc_count() == said.exc_count
            }
            Kind::SignUp => exceptions.list().is_empty(),
        });
        let Some(listed) = listed.filter(|_| said.kind == kind && said.root_commit == commit) else {
            turn.blame(from, Fault::FalseExceptions.with(&verdict));
            return;
        };
        if !batch.liars.contains(from) {
            // One that was sealed anew may be delivered under each of its digests, and servers speak of them in any order.
            let digest = verdict.statement.digest;
            batch.verdicts.entry((from, digest)).or_insert((verdict, listed));
            self.combine_verdicts(number, turn);
        }
    }

    /// Step 17: f + 1 equal statements are put together, and checked once.
    fn combine_verdicts(&mut self, number: u64, turn: &mut Step<'_>) {
        let quorums = *self.config.cluster.quorums();
        let Some(batch) = self.batches.get_mut(&number).filter(|batch| !batch.combining) else { return };
        for (verdict, exceptions) in batch.verdicts.values() {
            let equal = batch.verdicts.iter().filter(|(_, (other, _))| other.statement == verdict.statement);
            let votes: Vec<(NodeId, _)> = equal.map(|((id, _), (other, _))| (*id, other.signature)).collect();
            if quorums.has_correct(votes.iter().map(|(id, _)| *id).collect()) {
                let task = Task::Verdicts(number, verdict.statement.clone(), exceptions.clone(), votes);
                batch.combining = true;
                self.compute(turn, task);
                return;
            }
        }
    }

    pub(super) fn certified(
        &mut self,
        number: u64,
        exceptions: Exceptions,
        leaves: Vec<ExceptionProof>,
        combined: Combined<Delivered>,
        turn: &mut Step<'_>,
    ) {
        let Some(batch) = self.batches.get_mut(&number).filter(|batch| batch.phase < Phase::Delivered) else {
            return;
        };
        batch.combining = false;
        let certificate = match combined {
            Ok(certificate) => certificate,
            Err(liars) => {
                for liar in liars.iter() {
                    batch.verdicts.retain(|(id, _), _| *id != liar);
                    batch.liars.insert(liar);
                    turn.blame(liar, Fault::ForgedVerdict);
                }
                if !liars.is_empty() {
                    self.combine_verdicts(number, turn);
                }
                return;
            }
        };
        let Some(aggregate) = aggregate_of(&certificate, &self.config.cluster) else { return };
        for ((server, _), (verdict, _)) in &batch.verdicts {
            // A batch that was sealed anew may be delivered under each of its digests.
            let said = &verdict.statement;
            if said.digest == certificate.statement.digest && *said != certificate.statement {
                turn.blame(*server, Fault::UnequalVerdict.with(verdict));
            }
        }
        turn.applied(Rule::Step17);
        let statement = certificate.statement.clone();
        let took = batch.sealing.as_ref().map(|sealing| turn.now().since(sealing.since));
        if batch.phase == Phase::Ordering {
            took.into_iter().for_each(|took| self.order_times.add(took));
        }
        let height = self.height.max(statement.height);
        self.height = height;
        batch.phase = Phase::Delivered;
        batch.proof = Some(Box::new(Proof { statement, aggregate, exceptions, leaves, rounds: 0 }));
        batch.lighten();
        self.ask_delivered_height(height, turn);
        self.delivered(number, turn);
    }

    /// The batch is certified: what it held up may go on.
    fn delivered(&mut self, number: u64, turn: &mut Step<'_>) {
        let Some(batch) = self.batches.get(&number) else { return };
        let bytes = batch.bytes();
        if let Some(proof) = &batch.proof {
            self.by_height.insert(proof.statement.height, number);
        }
        self.charge_replays(number, turn);
        self.kept.insert(number);
        self.kept_bytes += bytes;
        turn.arm(Timer::Keep(number), self.config.parameters.keep);
        let ids: Vec<u32> = self
            .batches
            .get(&number)
            .and_then(Batch::messages)
            .map(|messages| messages.slots.iter().map(|slot| slot.admitted.id).collect())
            .unwrap_or_default();
        self.release(&ids);
        if ids.is_empty() {
            self.cards_delivered(turn);
        } else {
            self.respond(number, turn);
        }
        while self.kept_bytes > self.config.parameters.keep_bytes {
            let Some(oldest) = self.kept.first().copied() else { break };
            self.forget(oldest, turn);
        }
        self.watch_window(turn);
    }

    /// Entries that came back as delivered before or stale cost the link that brought them, and not the client.
    fn charge_replays(&mut self, number: u64, turn: &Step<'_>) {
        let now = turn.now();
        let Some(batch) = self.batches.get(&number) else { return };
        let (Some(messages), Some(proof)) = (batch.messages(), &batch.proof) else { return };
        let mut charged = Vec::new();
        for (index, _) in proof.exceptions.list() {
            let slot = messages.slots.get(*index as usize).filter(|slot| !slot.signs);
            charged.extend(slot.map(|slot| (slot.admitted.id, slot.admitted.carriers)));
        }
        for (id, carriers) in charged {
            self.buckets.remove(&id);
            self.suspects.remove(&id);
            // The link that came first brought it.
            if let Some(link) = carriers.iter().last() {
                self.links.charge(link, now);
            }
        }
    }
}

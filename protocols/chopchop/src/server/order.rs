//! Items on their way into the order, and what comes out of it (paper steps 12 and 13).

use synod_crypto::{Hash, Hasher};
use synod_machine::broadcast::{AtomicBroadcast, Delivered, Entry, Submit, Ticket};
use synod_machine::planted;
use synod_machine::{Span, Turn};
use synod_quorum::NodeId;
use synod_wire::{Limits, Wire};

use super::{
    Accepted, BACKLOG_MAX, BROKERS_MAX, KNOWN_MAX, Pending, Queued, Server, ServerOutput, ServerTask, Split,
    Witnessed,
};
use crate::fault::Fault;
use crate::item::Item;
use crate::store::StoreInput;
use crate::trace::{Note, NoteName, Rule};

/// How long an item may be on its way before the ordering layer is given it again.
const AGAIN_AFTER: Span = Span::secs(4);

/// Remembers a broker once, up to a bound.
pub(super) fn remember(brokers: &mut Vec<NodeId>, broker: NodeId) {
    if !brokers.contains(&broker) && brokers.len() < BROKERS_MAX {
        brokers.push(broker);
    }
}

/// What draws chance for an entry: position, agreed time and payload.
fn draw(entry: &Entry) -> Hash {
    let mut hasher = Hasher::new("synod chopchop draw");
    hasher.add(&entry.position.0.to_le_bytes()).add(&entry.time.0.to_le_bytes()).add(&entry.payload);
    hasher.finish()
}

impl<A: AtomicBroadcast> Server<A> {
    /// A broker wants an item ordered. One that is there already is answered by its delivery.
    pub(super) fn on_order(&mut self, from: NodeId, item: Item, turn: &mut Turn<'_, Self>) {
        let digest = *item.digest();
        if let Some(accepted) = self.backlog.iter_mut().find(|accepted| accepted.statement.digest == digest) {
            return remember(&mut accepted.brokers, from);
        }
        if self.recent.of(&digest).is_some() {
            return self.on_certify(from, &digest, turn);
        }
        if let Some(pending) = self.pending.get_mut(&digest) {
            return remember(&mut pending.brokers, from);
        }
        if !self.settings.cluster.is_witness(item.signers()) {
            return turn.blame(from, Fault::BadSigners);
        }
        let intake = self.settings.cluster.intake(self.height());
        let full = !self.has_place(from) || self.backlog.len() >= BACKLOG_MAX;
        if full || self.loading.is_some() || intake.expiry(item.statement().expiry).is_err() {
            // Too late or too early, or no room: the broker asks again, or seals anew.
            return;
        }
        self.checking.add(from);
        let name = Hash::of(&item.encode());
        self.job(ServerTask::Item(Some(from), name, item), turn);
    }

    /// An item was checked.
    pub(super) fn on_checked(
        &mut self,
        from: Option<NodeId>,
        name: Hash,
        item: &Item,
        verdict: Option<Witnessed>,
        turn: &mut Turn<'_, Self>,
    ) {
        if verdict.is_some() && !self.known.contains(&name) {
            self.known.push_back(name);
            if self.known.len() > KNOWN_MAX {
                self.known.pop_front();
            }
        }
        let Some(broker) = from else {
            let waiting = self.queue.iter_mut().filter(|queued| queued.name == name);
            waiting.for_each(|queued| queued.verdict = Some(verdict.is_some()));
            return self.accept(turn);
        };
        self.checking.remove(broker);
        match verdict {
            None => turn.blame(broker, Fault::BadShard),
            Some(Witnessed { .. }) => self.submit(broker, item, turn),
        }
    }

    fn submit(&mut self, broker: NodeId, item: &Item, turn: &mut Turn<'_, Self>) {
        let digest = *item.digest();
        if let Some(pending) = self.pending.get_mut(&digest) {
            return remember(&mut pending.brokers, broker);
        }
        if self.recent.of(&digest).is_some() || self.order.get().room() == 0 {
            return;
        }
        turn.applied(Rule::Step12);
        self.next_ticket += 1;
        let ticket = Ticket(self.next_ticket);
        self.tickets.insert(ticket, digest);
        let (item, since, brokers) = (item.clone(), turn.now(), vec![broker]);
        self.submits.push_back(Submit::Payload { ticket, payload: item.encode() });
        self.pending.insert(digest, Pending { ticket, item, since, brokers });
    }

    /// Gives the ordering layer again what has been on its way for long: brokers that repeat an item wait for it here, so
    /// one that got lost would never be ordered. One that is still held is not taken twice. What cannot be accepted any
    /// more is let go.
    pub(super) fn submit_again(&mut self, turn: &Turn<'_, Self>) {
        let (now, intake) = (turn.now(), self.settings.cluster.intake(self.height()));
        let (mut over, mut again) = (Vec::new(), Vec::new());
        for (digest, pending) in &mut self.pending {
            let Pending { ticket, item, since, .. } = pending;
            if intake.expiry(item.statement().expiry).is_err() || self.recent.of(digest).is_some() {
                over.push(*digest);
            } else if now.since(*since) >= AGAIN_AFTER {
                *since = now;
                again.push(Submit::Payload { ticket: *ticket, payload: item.encode() });
            }
        }
        for digest in over {
            self.settle(&digest);
        }
        if self.loading.is_none() {
            self.submits.extend(again);
        }
    }

    /// Forgets an item that was on its way; who sent it.
    pub(super) fn settle(&mut self, digest: &Hash) -> Vec<NodeId> {
        let Some(Pending { ticket, brokers, .. }) = self.pending.remove(digest) else { return Vec::new() };
        self.tickets.remove(&ticket);
        brokers
    }

    /// The ordering layer said something.
    pub(super) fn on_delivered(&mut self, delivered: Delivered, turn: &mut Turn<'_, Self>) {
        match delivered {
            Delivered::Entry(entry) => {
                self.on_entry(&entry, turn);
                self.accept(turn);
            }
            Delivered::Stable(checkpoint) => self.on_stable(checkpoint.position, turn),
            Delivered::Jump(checkpoint) => self.on_jump(checkpoint.position, checkpoint.root, turn),
            Delivered::Refused { ticket, .. } => {
                if let Some(digest) = self.tickets.get(&ticket).copied() {
                    self.settle(&digest);
                }
            }
            Delivered::Proof { .. } | Delivered::Barrier(_) => {}
        }
    }

    /// An entry joins the queue; its shards are checked unless they are known to hold.
    fn on_entry(&mut self, entry: &Entry, turn: &mut Turn<'_, Self>) {
        let name = Hash::of(&entry.payload);
        let item = match entry.payload.is_empty() {
            true => None,
            false => Item::decode(entry.payload.clone(), &Limits::default()).ok(),
        };
        // With more or fewer shards than f + 1 it is none, and nothing of it is kept.
        let item = item.filter(|item| self.settings.cluster.is_witness(item.signers()));
        let verdict = match &item {
            None => Some(false),
            Some(_) if self.known.contains(&name) => Some(true),
            Some(item) => {
                self.job(ServerTask::Item(None, name, item.clone()), turn);
                None
            }
        };
        let (position, time) = (entry.position, entry.time);
        self.queue.push_back(Queued { position, time, draw: draw(entry), name, item, verdict });
    }

    /// Decides entries in order, as far as their shards are checked.
    pub(super) fn accept(&mut self, turn: &mut Turn<'_, Self>) {
        if self.loading.is_some() {
            return;
        }
        while let Some(Some(holds)) = self.queue.front().map(|queued| queued.verdict) {
            if self.backlog.len() >= BACKLOG_MAX {
                // The ordering layer waits, for nothing more is reported applied.
                break;
            }
            let Some(queued) = self.queue.pop_front() else { return };
            let position = queued.position;
            if holds {
                self.accept_one(queued, turn);
            }
            self.behind(position);
        }
        self.want(turn);
        self.advance(turn);
    }

    /// One entry with f + 1 shards: accepted unless it expired, expires too late, or is accepted already.
    fn accept_one(&mut self, queued: Queued, turn: &mut Turn<'_, Self>) {
        let Some(item) = queued.item else { return };
        let (digest, statement) = (*item.digest(), item.statement().clone());
        let brokers = self.settle(&digest);
        let intake = self.settings.cluster.intake(self.height());
        let expired = intake.expiry(statement.expiry).is_err() && !planted!(C16);
        if expired || self.recent.of(&digest).is_some() {
            return;
        }
        let height = self.recent.accept(digest);
        turn.applied(Rule::Step13);
        turn.note(Note::of(NoteName::Accepted, [height, u64::from(statement.count), 0], digest));
        let signers = item.signers().set();
        let ordered = StoreInput::Ordered { statement: statement.clone(), signers, height };
        turn.output(ServerOutput::Store(ordered));
        let Queued { position, time, draw, .. } = queued;
        let (needed, batch) = (false, None);
        let split = Split::Not;
        self.backlog.push_back(Accepted {
            height,
            position,
            time,
            draw,
            statement,
            brokers,
            needed,
            batch,
            split,
        });
    }
}

//! What is kept and what goes: order, collection, retention, expiry, recovery (section 4.9).

use synod_crypto::Hash;
use synod_machine::Turn;
use synod_quorum::NodeSet;

use super::record::{Ordered, Pinned, StoreRecord};
use super::{Held, OVERHEAD, Progress, Stage, Store};
use crate::statement::Witness;
use crate::trace::{Note, NoteName, Rule};

impl Store {
    /// The server accepted an item: from here on its batch is kept until it is collected.
    pub(super) fn on_ordered(
        &mut self,
        statement: Witness,
        signers: NodeSet,
        height: u64,
        turn: &mut Turn<'_, Self>,
    ) {
        let digest = statement.digest;
        if self.held.contains_key(&digest) {
            self.settle(digest, height);
            self.pin(&digest, turn);
        } else {
            self.start_pull(statement, signers, height, turn);
        }
    }

    /// A held batch has a height.
    pub(super) fn settle(&mut self, digest: Hash, height: u64) {
        let Some(held) = self.held.get_mut(&digest).filter(|held| held.height.is_none()) else { return };
        held.height = Some(height);
        self.expiries.remove(&(held.header.expiry(), digest));
        self.retained += u64::from(held.header.body_len()) + OVERHEAD;
        self.ordered.insert(height, digest);
    }

    /// After a restart: what was ordered before the crash, as far as the server remembers.
    pub(super) fn on_recent(&mut self, last: u64, digests: &[Hash]) {
        let first = last.saturating_sub(digests.len() as u64);
        for (height, digest) in (first + 1..).zip(digests) {
            self.settle(*digest, height);
        }
    }

    /// The server moved on.
    pub(super) fn on_progress(&mut self, progress: Progress, turn: &mut Turn<'_, Self>) {
        let moved = progress.height != self.progress.height
            || progress.directory.len() != self.progress.directory.len();
        let delivered = self.progress.delivered..progress.delivered;
        self.progress = progress;
        // What a state from others took the place of was never given to the server.
        let passed: Vec<Hash> = self
            .ordered
            .range(delivered.start + 1..=delivered.end.max(delivered.start + 1))
            .map(|(_, d)| *d)
            .collect();
        if delivered.end > delivered.start {
            passed.iter().for_each(|digest| self.uncharge(digest));
            self.pulling.retain(delivered.end);
        }
        if self.silent == Some(u64::MAX) && self.progress.stable > 0 {
            let until = self.progress.height.saturating_add(self.config.cluster.rules().horizon);
            self.silent = Some(until);
            self.persist(StoreRecord::Silent(until), turn);
        }
        while let Some((expiry, digest)) = self.expiries.first().copied() {
            if expiry > self.progress.height {
                break;
            }
            self.drop_held(&digest, turn);
        }
        while let Some((height, digest)) =
            self.ordered.first_key_value().map(|(height, digest)| (*height, *digest))
        {
            let capped =
                self.retained > self.config.parameters.retain_bytes && height <= self.progress.stable;
            if height > self.progress.collected && !capped {
                break;
            }
            turn.applied(Rule::CollectAll);
            turn.note(Note::of(NoteName::Released, [height, 0, 0], digest));
            self.drop_held(&digest, turn);
        }
        self.read_keys(turn);
        self.retry(turn);
        self.settle_gone(turn);
        if moved {
            self.note_pinned(turn);
            for broker in self.accounts.brokers().collect::<Vec<_>>() {
                self.send_credit(broker, turn);
            }
        }
    }

    /// Forgets a batch, and releases what is on disk of it.
    pub(super) fn drop_held(&mut self, digest: &Hash, turn: &mut Turn<'_, Self>) {
        let Some(held) = self.forget(digest) else { return };
        if held.durable {
            self.persist(StoreRecord::Released(*digest), turn);
            if self.unname(held.name) {
                turn.erase(held.name);
            }
        }
    }

    /// Takes a batch out of every table.
    fn forget(&mut self, digest: &Hash) -> Option<Held> {
        let held = self.held.remove(digest)?;
        for place in &held.turns {
            self.waiting.remove(place);
        }
        self.expiries.remove(&(held.header.expiry(), *digest));
        self.in_memory -= held.body.as_ref().map_or(0, |body| body.len() as u64);
        if let Some(broker) = held.charged {
            self.accounts.refund(broker, digest, u64::from(held.header.body_len()));
        }
        if let Some(height) = held.height {
            self.ordered.remove(&height);
            self.retained = self.retained.saturating_sub(u64::from(held.header.body_len()) + OVERHEAD);
        }
        Some(held)
    }

    /// One batch less has this body; whether it was the last.
    fn unname(&mut self, name: Hash) -> bool {
        match self.names.get_mut(&name) {
            Some(count) if *count > 1 => {
                *count -= 1;
                false
            }
            Some(_) | None => self.names.remove(&name).is_some(),
        }
    }

    /// Takes one record of the log back in.
    pub(super) fn replay(&mut self, record: StoreRecord) {
        match record {
            StoreRecord::Pinned(Pinned { digest, name, header, broker, sound }) => {
                if self.held.contains_key(&digest) {
                    return;
                }
                let charged = self.config.broker(broker);
                self.accounts.charge(charged, digest, u64::from(header.body_len()));
                self.expiries.insert((header.expiry(), digest));
                *self.names.entry(name).or_insert(0) += 1;
                self.arrivals += 1;
                let held = Held {
                    header,
                    name,
                    body: None,
                    durable: true,
                    stage: if sound { Stage::Sound } else { Stage::Idle },
                    shard: None,
                    signing: false,
                    height: None,
                    charged: Some(charged),
                    uploaders: Vec::new(),
                    askers: Vec::new(),
                    turns: Vec::new(),
                    arrival: self.arrivals,
                    asked: synod_machine::Time::ZERO,
                };
                self.held.insert(digest, held);
            }
            StoreRecord::Released(digest) => {
                if let Some(held) = self.forget(&digest) {
                    self.unname(held.name);
                }
            }
            StoreRecord::Silent(until) => self.silent = Some(until),
            StoreRecord::Ordered(Ordered { digest, height }) => {
                self.settle(digest, height);
                self.uncharge(&digest);
            }
        }
    }

    /// The server has the batch: it is on disk alone, and no quota is charged for it.
    pub(super) fn uncharge(&mut self, digest: &Hash) {
        let Some(held) = self.held.get_mut(digest) else { return };
        if let Some(broker) = held.charged.take() {
            self.accounts.refund(broker, digest, u64::from(held.header.body_len()));
        }
        if held.durable {
            self.in_memory -= held.body.take().map_or(0, |body| body.len() as u64);
        }
    }
}

//! Batches that arrive: checks I, quotas, credit (paper step 9).

use synod_crypto::Hash;
use synod_machine::Turn;
use synod_machine::planted;
use synod_quorum::NodeId;
use synod_wire::List;

use super::config::OTHERS;
use super::job::{Task, Why};
use super::quota::work_of;
use super::{BROKERS_MAX, Held, Stage, Store};
use crate::batch::Refusal;
use crate::content::AnyBatch;
use crate::fault::Fault;
use crate::message::{Credit, HELD_MAX, HeldBatch, Refused, StoreMessage, Upload};
use crate::rations::Share;
use crate::trace::{Note, NoteName, Rule};

/// How often brokers may ask what is theirs here, each second.
pub(super) const ASKS: Share = Share { named: 8, other: 8, others: 256 };

impl Store {
    /// A batch arrives. It is digested by a job, since even a refusal names it.
    pub(super) fn on_batch(&mut self, from: NodeId, upload: &Upload, turn: &mut Turn<'_, Self>) {
        let Some(batch) = AnyBatch::of_upload(upload) else { return };
        if !self.has_place(from) || self.accounts.open(from, turn.now()).is_none() {
            // Nothing is remembered: the broker sends it again when no answer comes.
            return;
        }
        let payer = self.payer(from);
        let (count, bytes) = self.digesting.entry(payer).or_default();
        (*count, *bytes) = (*count + 1, *bytes + batch.body.len() as u64);
        self.job(from, Task::Digest(Why::Uploaded(upload.asks()), batch), turn);
    }

    /// Whose share of the places a broker uses: those that are not of the genesis have one together.
    pub(super) fn payer(&self, broker: NodeId) -> NodeId {
        if self.config.place(broker) == u32::MAX { OTHERS } else { broker }
    }

    /// Whether a body of this broker may be digested now: each has a place of its own and up to half of all, those that are
    /// not of the genesis together up to a quarter.
    fn has_place(&self, broker: NodeId) -> bool {
        let payer = self.payer(broker);
        let used = self.digesting.get(&payer).map_or(0, |(count, _)| *count);
        self.has_share(payer, used)
    }

    /// Whether a payer that uses so many places of a kind gets one more.
    pub(super) fn has_share(&self, payer: NodeId, used: u32) -> bool {
        let most = self.config.parameters.jobs_max;
        let share = if payer == OTHERS { most / 4 } else { most / 2 };
        used == 0 || (self.jobs < most && used < share)
    }

    /// A body is digested: its place is free.
    fn digested(&mut self, broker: NodeId, bytes: u64) {
        let payer = self.payer(broker);
        let Some(used) = self.digesting.get_mut(&payer) else { return };
        (used.0, used.1) = (used.0.saturating_sub(1), used.1.saturating_sub(bytes));
        if used.0 == 0 {
            self.digesting.remove(&payer);
        }
    }

    /// A batch that arrived has its digest.
    pub(super) fn on_uploaded(
        &mut self,
        (from, ask): (NodeId, bool),
        batch: AnyBatch,
        (name, digest): (Hash, Hash),
        turn: &mut Turn<'_, Self>,
    ) {
        self.digested(from, batch.body.len() as u64);
        if let Some(held) = self.held.get_mut(&digest) {
            if !held.uploaders.contains(&from) && held.uploaders.len() < BROKERS_MAX {
                held.uploaders.push(from);
            }
        } else if let Err(fault) = batch.header.intake(&self.config.cluster.intake(self.progress.height)) {
            return self.refuse(from, digest, fault.refusal(), turn);
        } else if self.pulling.wants(&digest) {
            self.adopt(batch, (name, digest), Some(from), turn);
        } else if !self.make_room(from, u64::from(batch.header.body_len()), turn) {
            return self.refuse(from, digest, Refusal::Credit, turn);
        } else {
            self.hold(from, batch, (name, digest), turn);
        }
        if ask {
            self.on_ask(from, digest, turn);
        }
        self.send_credit(from, turn);
    }

    fn hold(
        &mut self,
        from: NodeId,
        batch: AnyBatch,
        (name, digest): (Hash, Hash),
        turn: &mut Turn<'_, Self>,
    ) {
        let AnyBatch { header, body } = batch;
        self.accounts.charge(from, digest, u64::from(header.body_len()));
        self.expiries.insert((header.expiry(), digest));
        self.in_memory += body.len() as u64;
        self.arrivals += 1;
        let held = Held {
            header,
            name,
            body: Some(body),
            durable: false,
            stage: Stage::Idle,
            shard: None,
            signing: false,
            height: None,
            charged: Some(from),
            uploaders: vec![from],
            askers: Vec::new(),
            turns: Vec::new(),
            arrival: self.arrivals,
            asked: turn.now(),
        };
        self.held.insert(digest, held);
        turn.applied(Rule::Step9);
    }

    /// The batches that are charged to a broker.
    fn own(&self, broker: NodeId) -> impl Iterator<Item = (Hash, &Held)> {
        self.accounts.charged(broker).filter_map(|digest| Some((*digest, self.held.get(digest)?)))
    }

    /// Evicts unpinned batches of the broker, oldest first, until `bytes` more fit its quota.
    fn make_room(&mut self, broker: NodeId, bytes: u64, turn: &mut Turn<'_, Self>) -> bool {
        loop {
            match self.accounts.open(broker, turn.now()) {
                None => return false,
                Some(account) if account.fits(bytes) || planted!(C23) => return true,
                Some(_) => {}
            }
            let own = self.own(broker).filter(|(_, held)| held.may_go(broker));
            let Some(digest) = own.min_by_key(|(_, held)| held.arrival).map(|(digest, _)| digest) else {
                return false;
            };
            self.drop_held(&digest, turn);
        }
    }

    /// Tells a broker that a batch is not taken or not witnessed, and blames it if a correct one could not send it.
    pub(super) fn refuse(&mut self, broker: NodeId, digest: Hash, why: Refusal, turn: &mut Turn<'_, Self>) {
        if let Some(fault) = Fault::of_refusal(why) {
            turn.blame(broker, fault);
        }
        turn.note(Note::of(NoteName::Refused, [u64::from(why.code()), 0, 0], digest));
        turn.send(broker, StoreMessage::Refuse(Refused { digest, why }).into());
        self.send_credit(broker, turn);
    }

    /// Says what a broker may still send, and where the servers stand: whoever follows them needs to hear it too.
    pub(super) fn send_credit(&mut self, broker: NodeId, turn: &mut Turn<'_, Self>) {
        let (height, directory, now) = (self.progress.height, self.directory(), turn.now());
        let (mut bytes, work) = self.accounts.left(broker, now);
        // Bytes are of no use to it while its batches are as many as they may be, and all of them stay.
        if self.accounts.is_full(broker) && !self.own(broker).any(|(_, held)| held.may_go(broker)) {
            bytes = 0;
        }
        turn.send(broker, StoreMessage::Credit(Credit { bytes, work, height, directory }).into());
    }

    /// Takes the work of a check from the account of the first asker that has as much, and says which; [`OTHERS`] where
    /// nobody has to. Whoever uploaded the batch first may be another one, who has it from a faulty server.
    pub(super) fn spend(&mut self, digest: &Hash, turn: &Turn<'_, Self>) -> Option<NodeId> {
        let held = self.held.get(digest)?;
        let (cost, now) = (work_of(&held.header), turn.now());
        if held.charged.is_none() {
            return Some(OTHERS);
        }
        let accounts = &mut self.accounts;
        let pays = |asker: &&NodeId| accounts.open(**asker, now).is_some_and(|it| it.spend(cost, now));
        held.askers.iter().find(pays).copied()
    }

    /// A broker that restarted asks what it has pinned here. Nothing but its own is looked at, and that not as often as it likes.
    pub(super) fn on_held_ask(&mut self, from: NodeId, turn: &mut Turn<'_, Self>) {
        let named = self.config.place(from) != u32::MAX;
        if !self.asked.take((from, named), 1, &ASKS, turn.now()) {
            return;
        }
        let own = self.own(from).filter(|(_, held)| held.stage == Stage::Sound && held.height.is_none());
        let list = own.take(HELD_MAX).map(|(digest, held)| HeldBatch {
            digest,
            expiry: held.header.expiry(),
            count: held.header.count(),
            body_len: held.header.body_len(),
        });
        if let Ok(list) = List::try_from(list.collect::<Vec<_>>()) {
            turn.send(from, StoreMessage::Held(list).into());
        }
        self.send_credit(from, turn);
    }
}

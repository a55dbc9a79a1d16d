//! Witnessing: the check of a batch, its record, its shard (paper step 10).

use core::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

use synod_crypto::bls::StoredKey;
use synod_crypto::{Claim, Hash, Verified};
use synod_machine::Turn;
use synod_machine::planted;
use synod_quorum::NodeId;

use super::cohort::Cohort;
use super::config::OTHERS;
use super::job::{CheckBatch, Sound, Task};
use super::quota::fine_of;
use super::record::{Pinned, StoreRecord};
use super::{BROKERS_MAX, Held, Stage, Store, StoreTimer};
use crate::batch::{Refusal, Sealed};
use crate::content::AnyHeader;
use crate::message::{Shard, StoreMessage};
use crate::signup::SealedSignUp;
use crate::statement::{Kind, Witness};
use crate::trace::{Note, NoteName, Rule};

/// A batch that is being checked.
#[derive(Clone, Debug)]
pub(super) struct Checking {
    /// Whose share of the places it uses.
    payer: NodeId,
    /// Who paid for it, and pays this much more if it does not hold.
    paid: NodeId,
    fine: u64,
}

impl Store {
    /// A broker asks for a shard. One that does not hold promises any more says nothing.
    pub(super) fn on_ask(&mut self, from: NodeId, digest: Hash, turn: &mut Turn<'_, Self>) {
        if self.silent.is_some_and(|until| self.progress.height < until) {
            return;
        }
        let Some(held) = self.held.get_mut(&digest) else { return };
        if !held.askers.contains(&from) && held.askers.len() < BROKERS_MAX {
            held.askers.push(from);
        }
        match held.stage {
            Stage::Idle => {
                held.asked = turn.now();
                held.stage = Stage::Waiting;
                if held.header.directory() > self.directory() {
                    let patience = self.config.parameters.directory_wait;
                    let wait = if planted!(C28) { synod_machine::Span::ZERO } else { patience };
                    turn.arm(StoreTimer::DirectoryWait(digest), wait);
                }
                self.take_place(digest, from);
                self.retry(turn);
            }
            Stage::Waiting => {
                self.take_place(digest, from);
                self.retry(turn);
            }
            Stage::Checking => {}
            Stage::Sound => self.sign(digest, turn),
        }
    }

    /// A batch waits among those of whoever asks for it: nobody can make another one's wait among his own.
    fn take_place(&mut self, digest: Hash, asker: NodeId) {
        let payer = self.payer(asker);
        let Some(held) = self.held.get_mut(&digest) else { return };
        if held.turns.len() < BROKERS_MAX && !held.turns.iter().any(|(of, _)| *of == payer) {
            self.arrivals += 1;
            held.turns.push((payer, self.arrivals));
            self.waiting.insert((payer, self.arrivals), digest);
        }
    }

    fn leave_places(&mut self, digest: &Hash) {
        let turns = self.held.get_mut(digest).map(|held| core::mem::take(&mut held.turns));
        for place in turns.into_iter().flatten() {
            self.waiting.remove(&place);
        }
    }

    /// Starts the checks that had to wait and can be made now.
    pub(super) fn retry(&mut self, turn: &mut Turn<'_, Self>) {
        while let Some((payer, digest)) = self.next_check() {
            self.served = payer;
            self.leave_places(&digest);
            turn.disarm(StoreTimer::DirectoryWait(digest));
            self.check(digest, payer, turn);
        }
    }

    /// Whose turn it is, and for which batch: payers in a circle, of each the batch that was asked for first. Checks of full
    /// batches take long, so that a payer has a share of the places alone, whatever it sends (deviation D17).
    fn next_check(&self) -> Option<(NodeId, Hash)> {
        let mut payer = self.served;
        for _ in 0..=self.config.brokers.len() {
            let behind = self.waiting.range((Excluded((payer, u64::MAX)), Unbounded)).next();
            payer = behind.or_else(|| self.waiting.first_key_value())?.0.0;
            let used = self.checking.values().filter(|checking| checking.payer == payer).count();
            if !self.has_share(payer, u32::try_from(used).unwrap_or(u32::MAX)) {
                continue;
            }
            let directory = self.directory();
            let ready =
                |digest: &Hash| self.held.get(digest).is_none_or(|held| held.header.directory() <= directory);
            let mut own = self.waiting.range((payer, 0)..=(payer, u64::MAX)).map(|(_, digest)| *digest);
            if let Some(digest) = own.find(ready) {
                return Some((payer, digest));
            }
        }
        None
    }

    fn check(&mut self, digest: Hash, payer: NodeId, turn: &mut Turn<'_, Self>) {
        let Some(paid) = self.spend(&digest, turn) else {
            return self.refuse_held(digest, Refusal::Credit, turn);
        };
        let (view, keys) = (self.progress.directory.clone(), self.keys.clone());
        let broker = self.held.get(&digest).and_then(|held| held.charged).unwrap_or(OTHERS);
        let cohorts = self.cohorts.begin(broker, self.config.parameters.cohort_bytes);
        let Some(held) = self.held.get_mut(&digest) else { return };
        let Some(body) = held.body.clone() else { return };
        held.stage = Stage::Checking;
        let checking = Checking { payer, paid, fine: fine_of(&held.header) };
        self.checking.insert(digest, checking);
        let from = held.charged.unwrap_or(OTHERS);
        let task = match held.header.clone() {
            AnyHeader::Messages(header) => Task::Batch(Box::new(CheckBatch {
                digest,
                batch: Sealed { header, body },
                view,
                keys,
                cohorts,
            })),
            AnyHeader::SignUp(header) => Task::Cards(digest, SealedSignUp { header, body }),
        };
        self.job(from, task, turn);
    }

    /// The directory stayed too short.
    pub(super) fn on_directory_wait(&mut self, digest: Hash, turn: &mut Turn<'_, Self>) {
        let directory = self.directory();
        let short = self.held.get(&digest).is_some_and(|held| held.header.directory() > directory);
        if short && self.held.get(&digest).is_some_and(|held| !held.turns.is_empty()) {
            self.leave_places(&digest);
            self.refuse_held(digest, Refusal::Directory, turn);
        }
    }

    /// Refuses to those who asked. What breaks a rule is dropped; what a correct broker may ask for later stays.
    fn refuse_held(&mut self, digest: Hash, why: Refusal, turn: &mut Turn<'_, Self>) {
        let Some(held) = self.held.get_mut(&digest) else { return };
        held.stage = Stage::Idle;
        let lasting = !matches!(why, Refusal::Credit | Refusal::Directory);
        let mut told = core::mem::take(&mut held.askers);
        if lasting {
            told.extend(
                held.uploaders.iter().filter(|broker| !told.contains(broker)).copied().collect::<Vec<_>>(),
            );
            if held.height.is_none() && !held.durable {
                self.drop_held(&digest, turn);
            }
        }
        for broker in told {
            self.refuse(broker, digest, why, turn);
        }
    }

    /// A batch was checked.
    pub(super) fn on_checked(
        &mut self,
        digest: Hash,
        verdict: Result<Sound, Refusal>,
        (mismatch, cohort): (bool, Option<Arc<Cohort>>),
        turn: &mut Turn<'_, Self>,
    ) {
        if let (Some(checking), Err(why)) = (self.checking.remove(&digest), &verdict)
            && *why != Refusal::Directory
        {
            self.accounts.fine(checking.paid, checking.fine, turn.now());
        }
        let bytes_max = self.config.parameters.cohort_bytes;
        let broker = self.held.get(&digest).and_then(|held| held.charged);
        if let Some(cohort) = &cohort {
            let values = [u64::from(cohort.is_near()), cohort.ids().len() as u64, 0];
            turn.note(Note::of(NoteName::KeysAdded, values, digest));
        }
        if let (Some(cohort), Some(broker)) = (cohort, broker) {
            self.cohorts.remember(broker, cohort, bytes_max);
        }
        let Some(held) = self.held.get_mut(&digest) else { return };
        if mismatch {
            turn.note(Note::of(NoteName::AdderMismatch, [u64::from(held.header.count()), 0, 0], digest));
        }
        match verdict {
            Ok(Sound { .. }) => {
                held.stage = Stage::Sound;
                let kind = held.header.kind();
                if !planted!(C8) {
                    self.pin(&digest, turn);
                }
                turn.applied(Rule::Step10);
                turn.applied(if kind == Kind::Messages { Rule::SortedIds } else { Rule::Directory });
                self.sign(digest, turn);
            }
            Err(why) => self.refuse_held(digest, why, turn),
        }
    }

    /// Puts body and record into the lane, once.
    pub(super) fn pin(&mut self, digest: &Hash, turn: &mut Turn<'_, Self>) {
        let Some(held) = self.held.get_mut(digest) else { return };
        let Some(body) = held.body.clone().filter(|_| !held.durable) else { return };
        held.durable = true;
        let name = held.name;
        *self.names.entry(name).or_insert(0) += 1;
        // Also when another batch has the same body, for what is on disk of that may be lost.
        turn.store(name, body);
        let Some(held) = self.held.get(digest) else { return };
        let record = StoreRecord::Pinned(self.pinned(*digest, held));
        self.persist(record, turn);
        self.note_pinned(turn);
    }

    /// Tells how much is witnessed and neither ordered nor expired, when that changed.
    pub(super) fn note_pinned(&mut self, turn: &mut Turn<'_, Self>) {
        let is_pinned = |held: &&Held| held.durable && held.height.is_none();
        let pinned = self.held.values().filter(is_pinned).map(|held| u64::from(held.header.body_len())).sum();
        if core::mem::replace(&mut self.told_pinned, pinned) != pinned {
            turn.note(Note::of(NoteName::Pinned, [pinned, 0, 0], Hash::ZERO));
        }
    }

    pub(super) fn pinned(&self, digest: Hash, held: &Held) -> Pinned {
        let broker = held.charged.map_or(u32::MAX, |broker| self.config.place(broker));
        let sound = held.stage == Stage::Sound;
        Pinned { digest, name: held.name, header: held.header.clone(), broker, sound }
    }

    fn sign(&mut self, digest: Hash, turn: &mut Turn<'_, Self>) {
        let Some(held) = self.held.get_mut(&digest) else { return };
        match held.shard {
            Some(_) => self.answer(digest, turn),
            None if held.signing => {}
            None => {
                held.signing = true;
                let own = self.config.own;
                let witness = held.header.witness(digest);
                self.job(own, Task::Shard(own, witness), turn);
            }
        }
    }

    /// The own shard is signed. It was computed behind the record, so sending it is held by it.
    pub(super) fn on_shard(&mut self, claim: &Verified<Claim<Witness>>, turn: &mut Turn<'_, Self>) {
        let digest = claim.statement.digest;
        // A batch that went and came again meanwhile is not on disk.
        let Some(held) = self.held.get_mut(&digest).filter(|held| held.signing) else { return };
        held.signing = false;
        held.shard = Some(claim.signature);
        let waited = turn.now().since(held.asked).0;
        let values = [u64::from(held.header.count()), u64::from(held.header.body_len()), waited];
        turn.note(Note::of(NoteName::Witnessed, values, digest));
        self.answer(digest, turn);
        self.pin(&digest, turn);
    }

    fn answer(&mut self, digest: Hash, turn: &mut Turn<'_, Self>) {
        let Some(held) = self.held.get_mut(&digest) else { return };
        let Some(signature) = held.shard else { return };
        for broker in core::mem::take(&mut held.askers) {
            turn.send(broker, StoreMessage::Shard(Shard { digest, signature }).into());
            self.send_credit(broker, turn);
        }
    }

    /// Keys of the directory were read.
    pub(super) fn on_keys(&mut self, from: u32, keys: Vec<Option<StoredKey>>, turn: &mut Turn<'_, Self>) {
        self.reading = false;
        if from == self.keys.len() {
            self.keys.append(&keys);
        }
        self.read_keys(turn);
    }

    /// Reads the keys that the directory has and the book has not.
    pub(super) fn read_keys(&mut self, turn: &mut Turn<'_, Self>) {
        if !self.reading && self.keys.len() < self.progress.directory.len() {
            self.reading = true;
            let (view, from, own) = (self.progress.directory.clone(), self.keys.len(), self.config.own);
            self.job(own, Task::Keys(view, from), turn);
        }
    }
}

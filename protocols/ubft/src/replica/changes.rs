//! What ends an epoch, on its way to a slot (specification, 4.15): a replica that lives anew asks for it, and of memory nodes that came
//! back empty replicas say what they saw. Such requests have no session; of one thing the newest is kept.

use std::collections::BTreeMap;

use synod_crypto::{Claim, Signature, Verified};
use synod_machine::{Span, Time, Turn};
use synod_quorum::NodeId;
use synod_wire::{Bytes, Limits, List, Wire as _};

use super::state::Replica;
use super::vocabulary::{ChangeFor, Job};
use super::words::Ask;
use crate::batch::{Batch, Request, Slot, View};
use crate::config::NUMBER_END;
use crate::epoch::Change;
use crate::fault::Fault;
use crate::message::{CHANGES, Message};
use crate::statement::Statement;
use crate::trace::Rule;

/// A replica that no epoch lists says so again after so long.
const REJOIN_EVERY: Span = Span::secs(1);

/// A change that was checked, and waits to be ordered.
#[derive(Clone, Debug)]
pub(super) struct Changing {
    pub(super) change: Change,
    pub(super) since: Time,
    /// The view in which it was proposed.
    pub(super) said: Option<View>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Changes {
    pub(super) waiting: BTreeMap<(bool, u8), Changing>,
    /// The newest boot that each replica says it saw of a memory node.
    boots: BTreeMap<(u8, NodeId), (u64, Signature)>,
    /// The newest that was seen here.
    seen: BTreeMap<u8, u64>,
    /// That this replica lives anew, and when it said so last.
    rejoin: Option<Change>,
    said: Option<Time>,
}

impl Changes {
    pub(super) fn bytes(&self) -> u64 {
        let waiting: usize = self.waiting.values().map(|one| one.change.size_hint() + 64).sum();
        (waiting + self.boots.len() * 96 + self.seen.len() * 16) as u64
    }

    /// Since when something waits.
    pub(super) fn oldest(&self) -> Option<Time> {
        self.waiting.values().map(|one| one.since).min()
    }
}

/// Reads what ends an epoch.
fn read(op: &Bytes) -> Option<Change> {
    let frame_max = u32::try_from(op.len()).ok()?;
    Change::decode(op.clone(), &Limits { frame_max }).ok()
}

impl Replica {
    /// No epoch lists this life: it is to be ordered that the next one does.
    pub(super) fn ask_to_rejoin(&self, turn: &mut Turn<'_, Self>) {
        if let Some(signer) = self.config.me.member() {
            let statement = Statement::Rejoin { signer, incarnation: self.incarnation() };
            turn.compute(Job::Sign { scope: self.genesis.scope(), statement });
        }
    }

    /// An own statement about lives or boots is signed.
    pub(super) fn on_change_signed(&mut self, claim: &Verified<Claim<Statement>>, turn: &mut Turn<'_, Self>) {
        let signature = claim.signature;
        match claim.statement {
            Statement::Rejoin { signer, incarnation } => {
                self.changes.rejoin = Some(Change::Rejoin { node: signer, incarnation, signature });
                self.say_rejoin(turn);
            }
            Statement::Readmit { memory, boot, .. } => {
                turn.send(self.others(), Message::SawBoot { memory, boot, signature: Box::new(signature) });
                self.on_boot_share(self.config.me, (memory, boot), signature, turn);
            }
            _ => {}
        }
    }

    fn say_rejoin(&mut self, turn: &mut Turn<'_, Self>) {
        if let Some(change) = self.changes.rejoin.clone().filter(|_| !self.is_listed()) {
            self.changes.said = Some(turn.now());
            turn.applied(Rule::Rejoin);
            turn.send(self.others(), Message::Change(Box::new(change)));
        }
    }

    /// Whatever is not ordered yet is said again.
    pub(super) fn say_changes_again(&mut self, turn: &mut Turn<'_, Self>) {
        let now = turn.now();
        if self.changes.said.is_some_and(|said| now.since(said) >= REJOIN_EVERY) {
            self.say_rejoin(turn);
        }
        let me = self.config.me;
        let own = self.changes.boots.iter().filter(|((_, id), _)| *id == me);
        for ((memory, _), (boot, signature)) in own {
            let change = Change::Readmit { memory: *memory, boot: *boot, signed: List::default() };
            if !self.epochs.is_void(&change) {
                turn.send(
                    self.others(),
                    Message::SawBoot { memory: *memory, boot: *boot, signature: Box::new(*signature) },
                );
            }
        }
    }

    /// Something is to be changed: it is checked, unless it does nothing.
    pub(super) fn on_change(&mut self, from: NodeId, change: Change, turn: &mut Turn<'_, Self>) {
        if !self.others().contains(from) {
            return;
        }
        if change.number() >= NUMBER_END {
            turn.blame(from, Fault::Malformed);
            return;
        }
        if self.epochs.is_void(&change) {
            // It may be listed already, and not know it.
            self.say_standing(from, turn);
            return;
        }
        let last = self.changes.waiting.get(&change.about()).map_or(0, |last| last.change.number());
        // One that asks again and again takes no slots for it.
        let is_early = self.epochs.is_early(&change, turn.wall().0);
        if change.number() > last && !is_early && self.may_check(from) {
            let genesis = std::sync::Arc::clone(&self.genesis);
            turn.compute(Job::Change { what: ChangeFor::Peer(from), change, genesis });
        }
    }

    /// A change is checked.
    pub(super) fn on_checked_change(
        &mut self,
        what: ChangeFor,
        change: Change,
        is_good: bool,
        turn: &mut Turn<'_, Self>,
    ) {
        if let ChangeFor::Peer(from) = what {
            self.end_check(from);
        }
        match what {
            ChangeFor::Peer(from) if !is_good => turn.blame(from, Fault::BadSignature),
            ChangeFor::Peer(_) => self.keep_change(change, turn),
            ChangeFor::Batch(slot, at) => {
                if let Some(judging) = self.judging.get_mut(&slot).filter(|_| is_good) {
                    judging.vouch(at);
                    self.judge_again(turn);
                }
            }
        }
    }

    fn keep_change(&mut self, change: Change, turn: &mut Turn<'_, Self>) {
        let last = self.changes.waiting.get(&change.about()).map_or(0, |last| last.change.number());
        if change.number() <= last || self.epochs.is_void(&change) {
            return;
        }
        self.forward(&change, turn);
        let changing = Changing { change, since: turn.now(), said: None };
        self.changes.waiting.insert(changing.change.about(), changing);
        self.judge_again(turn);
    }

    /// Its asker may not reach the leader.
    fn forward(&self, change: &Change, turn: &mut Turn<'_, Self>) {
        let leader = self.consensus().map(super::Consensus::leader);
        if let Some(leader) = leader.filter(|leader| *leader != self.config.me) {
            turn.send(leader, Message::Change(Box::new(change.clone())));
        }
    }

    /// In a new view everything is said to its leader.
    pub(super) fn forward_again(&mut self, turn: &mut Turn<'_, Self>) {
        self.changes.waiting.values_mut().for_each(|changing| changing.said = None);
        let waiting: Vec<Change> =
            self.changes.waiting.values().map(|changing| changing.change.clone()).collect();
        waiting.iter().for_each(|change| self.forward(change, turn));
    }

    /// A memory node came back empty: this replica says so, once for each boot.
    pub(super) fn on_reborn(&mut self, memory: u8, boot: u64, turn: &mut Turn<'_, Self>) {
        let change = Change::Readmit { memory, boot, signed: List::default() };
        let last = self.changes.seen.get(&memory).copied().unwrap_or(0);
        if boot <= last || boot >= NUMBER_END || self.epochs.is_void(&change) {
            return;
        }
        self.changes.seen.insert(memory, boot);
        if let Some(signer) = self.config.me.member().filter(|_| self.is_listed()) {
            turn.applied(Rule::Reborn);
            let statement = Statement::Readmit { signer, memory, boot };
            turn.compute(Job::Sign { scope: self.genesis.scope(), statement });
        }
    }

    /// Somebody says that it saw a boot.
    pub(super) fn on_saw_boot(
        &mut self,
        from: NodeId,
        (memory, boot): (u8, u64),
        signature: Signature,
        turn: &mut Turn<'_, Self>,
    ) {
        let Some(signer) = from.member().filter(|_| self.others().contains(from)) else { return };
        if boot >= NUMBER_END {
            turn.blame(from, Fault::Malformed);
            return;
        }
        let change = Change::Readmit { memory, boot, signed: List::default() };
        let last = self.changes.boots.get(&(memory, from)).map_or(0, |(last, _)| *last);
        let claim = self.genesis.claim(Statement::Readmit { signer, memory, boot }, signature);
        let is_useful = boot > last && !self.epochs.is_void(&change);
        if let Some(claim) = claim.filter(|_| is_useful && self.may_check(from)) {
            turn.compute(Job::Share(claim));
        }
    }

    /// A checked share of a boot: f + 1 equal ones are a change.
    pub(super) fn on_boot_share(
        &mut self,
        signer: NodeId,
        (memory, boot): (u8, u64),
        signature: Signature,
        turn: &mut Turn<'_, Self>,
    ) {
        self.changes.boots.insert((memory, signer), (boot, signature));
        let of_memory = self.changes.boots.range((memory, NodeId(0))..=(memory, NodeId(u32::MAX)));
        let equal = of_memory.filter(|(_, (other, _))| *other == boot);
        let need = usize::try_from(self.quorums.one_correct()).unwrap_or(usize::MAX);
        let signed: Vec<(u8, Signature)> = equal
            .take(need)
            .filter_map(|((_, id), (_, signature))| Some((id.member()?, *signature)))
            .collect();
        if signed.len() == need
            && let Ok(signed) = List::try_from(signed)
        {
            self.keep_change(Change::Readmit { memory, boot, signed }, turn);
        }
    }

    /// Whether a change was checked here, or is certain to do nothing.
    fn is_known(&self, change: &Change) -> bool {
        let waiting = self.changes.waiting.get(&change.about());
        self.epochs.is_void(change) || waiting.is_some_and(|waiting| waiting.change == *change)
    }

    /// The same of one in a batch.
    pub(super) fn is_change_known(&self, op: &Bytes) -> bool {
        read(op).is_some_and(|change| self.is_known(&change))
    }

    /// Whether this replica vouches for a change in a batch: it was checked here, or is certain to do nothing. Otherwise it is checked.
    pub(super) fn is_change_good(
        &self,
        (slot, at): (Slot, usize),
        op: &Bytes,
        was_asked: bool,
        turn: &mut Turn<'_, Self>,
    ) -> bool {
        let Some(change) = read(op) else { return false };
        if self.is_known(&change) {
            return true;
        }
        if !was_asked {
            let genesis = std::sync::Arc::clone(&self.genesis);
            turn.compute(Job::Change { what: ChangeFor::Batch(slot, at), change, genesis });
        }
        false
    }

    /// Consensus of the epoch that ends learns where: its leader fills the slots up to there.
    pub(super) fn say_end(&mut self, turn: &mut Turn<'_, Self>) {
        let is_of_epoch = self.epochs.configuration.epoch == self.epoch;
        if let Some(end) = self.epochs.end().filter(|_| is_of_epoch) {
            self.ask(Ask::Ending(end), turn);
        }
    }

    /// Executes what a batch changes; one correct replica at least checked it.
    pub(super) fn change(&mut self, slot: Slot, batch: &Batch, turn: &mut Turn<'_, Self>) {
        let half = self.config.half_window();
        let ops = batch.requests.iter().filter(|request| request.session == CHANGES);
        for change in ops.filter_map(|request: &Request| read(super::admit::inline(request)?)) {
            let is_done = self.epochs.apply(&change, slot, self.time.0, half);
            self.exec_chain.add(&[u8::from(is_done)]);
            let waiting = self.changes.waiting.get(&change.about());
            if waiting.is_some_and(|waiting| waiting.change.number() <= change.number()) {
                self.changes.waiting.remove(&change.about());
            }
            if is_done {
                turn.applied(Rule::Ending);
                self.say_end(turn);
            }
        }
    }
}

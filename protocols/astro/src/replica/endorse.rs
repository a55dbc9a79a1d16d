//! From a batch that its representative broadcasts to this replica's endorsement (acknowledge rule, specification 4.4).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use synod_crypto::PublicKey;
use synod_ledger::{AccountId, Code, Opening, Owner, Units};
use synod_machine::broadcast::{Except, Lot};
use synod_machine::{Turn, planted};
use synod_quorum::NodeId;
use synod_wire::{Blob, Bytes, List};

use super::lane::Batch;
use super::{Carrier, Replica, compute, keep};
use crate::batch::{Auth, Opened};
use crate::fault::Fault;
use crate::job::{Purpose, Work};
use crate::ledger::{Authority, Left};
use crate::together::Signer;
use crate::trace::Rule;
use crate::words::Promise;

impl<B: Carrier> Replica<B> {
    /// A batch with its representative's signature. One that was judged before is answered as before, and no other in its slot.
    pub(super) fn on_proposed(&mut self, lot: Lot, payload: Bytes, turn: &mut Turn<'_, Self>) {
        let is_whole = self.config.parameters.profile.is_whole();
        let known = self.lane_mut(lot.source).batches.get(&lot.sequence);
        let said = known.and_then(|batch| Some((batch, batch.endorsed.as_ref()?)));
        // Where a broadcast calls payloads by names of its own, another one for the slot has one as well.
        let is_other = |batch: &Batch| batch.opened.as_ref().is_some_and(|opened| !opened.is(&payload));
        if is_whole && said.is_some_and(|(batch, _)| is_other(batch)) {
            return;
        }
        let said = said.map(|(batch, except)| (batch.digest, except.items().to_vec()));
        match said {
            Some((digest, except)) => self.judge_slot(lot, digest, except, turn),
            None => {
                let read =
                    self.broadcast.get().read(lot.into()).and_then(|read| read.0.downcast::<Opened>().ok());
                match read.filter(|read| read.is(&payload)) {
                    Some(opened) => self.on_read(lot, opened, turn),
                    None => {
                        let profile = self.config.parameters.profile;
                        compute(turn, Work::Read { lot, payload, profile, purpose: Purpose::Judge });
                    }
                }
            }
        }
    }

    pub(super) fn on_read(&mut self, lot: Lot, opened: Arc<Opened>, turn: &mut Turn<'_, Self>) {
        let shard = self.config.view.context.shard;
        let header = &opened.batch.header;
        if (header.shard, header.lot) != (shard, lot) {
            return turn.blame(NodeId(u32::from(lot.source)), Fault::WrongSlot);
        }
        self.name_before(&opened, turn);
        let lane = self.lane_mut(lot.source);
        if lot.sequence > lane.judged {
            lane.waiting.insert(lot.sequence, opened);
            self.is_sought = false;
            self.go_on(lot.source, turn);
        }
    }

    /// Judges a lane's batches in their order, as far as they are here.
    pub(super) fn go_on(&mut self, lane: u8, turn: &mut Turn<'_, Self>) {
        while let Some(opened) = self.next_to_judge(lane, turn) {
            let keys = self.owners(&opened, |_| true);
            if keys.iter().all(Option::is_none) && opened.backings.is_empty() {
                let none = vec![None; keys.len()];
                self.judge(&opened, none, BTreeSet::new(), turn);
                continue;
            }
            self.check_owners(opened, keys, turn);
        }
    }

    /// The next batch of a lane that wants judging. Those that others certified before it was its turn are passed over: they
    /// need no endorsement any more.
    fn next_to_judge(&mut self, source: u8, turn: &mut Turn<'_, Self>) -> Option<Arc<Opened>> {
        let is_behind = self.is_behind;
        let lane = self.lane_mut(source);
        if lane.checking.is_some() {
            return None;
        }
        while let Some(next) = lane.judged.checked_add(1) {
            let certified = lane.batches.get(&next).filter(|batch| batch.certified.is_some());
            let Some((digest, opened)) = certified.map(|batch| (batch.digest, batch.opened.clone())) else {
                break;
            };
            if let Some(opened) = opened {
                lane.grant(&opened.batch.openings);
            }
            lane.waiting.remove(&next);
            (lane.judged, lane.head) = (next, digest);
        }
        if is_behind {
            return None;
        }
        let next = lane.judged.checked_add(1)?;
        if lane.held.is_some_and(|(held, _)| held == next) {
            return None;
        }
        let opened = lane.waiting.remove(&next)?;
        if opened.batch.header.prev != lane.head {
            turn.blame(NodeId(u32::from(source)), Fault::BrokenChain);
            return None;
        }
        match self.may_import(&opened, turn) {
            Ok(true) => Some(opened),
            Ok(false) => {
                self.lane_mut(source).waiting.insert(next, opened);
                None
            }
            Err(()) => {
                turn.blame(NodeId(u32::from(source)), Fault::BadImport);
                None
            }
        }
    }

    /// The keys that the owner of each line has, where it takes one and its account is wanted.
    pub(super) fn owners(
        &self,
        opened: &Opened,
        is_wanted: impl Fn(AccountId) -> bool,
    ) -> Vec<Option<Signer>> {
        let mut renamed: BTreeMap<AccountId, Owner> = BTreeMap::new();
        let lines = opened.batch.lines.iter().map(|line| {
            let spender = line.entry.id.spender;
            let is_signed = line.auth != Auth::Institution;
            if !(is_signed || matches!(line.entry.kind, synod_ledger::Kind::Rekey(_))) || !is_wanted(spender)
            {
                return None;
            }
            let owner = renamed.get(&spender).copied().or_else(|| self.ledger.owner(line.entry.id));
            if let synod_ledger::Kind::Rekey(owner) = line.entry.kind {
                renamed.insert(spender, owner);
            }
            owner.filter(|_| is_signed).and_then(|owner| self.signer(spender, owner))
        });
        lines.collect()
    }

    pub(super) fn on_checked(
        &mut self,
        opened: &Arc<Opened>,
        keys: Vec<Option<PublicKey>>,
        forged: BTreeSet<u32>,
        turn: &mut Turn<'_, Self>,
    ) {
        let lot = opened.lot();
        let lane = self.lane_mut(lot.source);
        if lane.checking == Some(lot.sequence) {
            lane.checking = None;
        }
        match lane.batches.get_mut(&lot.sequence) {
            // Checked again, after a restart or for some of its accounts.
            Some(batch) if batch.digest == opened.digest => {
                batch.keys.resize(keys.len(), None);
                for (known, key) in batch.keys.iter_mut().zip(keys) {
                    *known = key.or(*known);
                }
                batch.forged = Some(forged);
                self.judge_again(lot, turn);
            }
            // Certified meanwhile, with what others endorsed.
            Some(_) => {}
            None if lane.judged.checked_add(1) == Some(lot.sequence) => {
                self.judge(opened, keys, forged, turn);
            }
            None => {}
        }
        self.go_on(lot.source, turn);
    }

    /// Endorses the next batch of a lane, but for entries that break a rule; nothing of it if accounts are opened wrongly.
    fn judge(
        &mut self,
        opened: &Arc<Opened>,
        keys: Vec<Option<PublicKey>>,
        forged: BTreeSet<u32>,
        turn: &mut Turn<'_, Self>,
    ) {
        let (lot, digest) = (opened.lot(), opened.digest);
        if !self.may_open(lot.source, opened) {
            return turn.blame(NodeId(u32::from(lot.source)), Fault::BadOpening);
        }
        if self.is_crowded(opened) {
            return self.hold(opened, true, turn);
        }
        let mut batch =
            Batch { opened: Some(Arc::clone(opened)), keys, forged: Some(forged), ..Batch::new(digest) };
        let before = self.before(opened);
        let except = self.accept(opened, None, &mut batch, turn);
        if self.config.parameters.profile.is_whole() && !except.items().is_empty() {
            self.take_back(opened, before);
            return self.hold(opened, false, turn);
        }
        let payload = Blob::try_from(opened.payload()).expect("it came in a payload");
        let lane = self.lane_mut(lot.source);
        lane.grant(&opened.batch.openings);
        (lane.judged, lane.head) = (lot.sequence, digest);
        batch.endorsed = Some(except.clone());
        lane.batches.insert(lot.sequence, batch);
        let items = except.items().to_vec();
        turn.applied(if items.is_empty() { Rule::Fund } else { Rule::Exclude });
        self.record_admitted(opened, &except, turn);
        keep(turn, Promise::Endorsed { lot, except, batch: Some(payload) });
        self.judge_slot(lot, digest, items, turn);
    }

    /// Whether accounts may have such an owner.
    pub(super) fn has_owner(&self, opening: &Opening) -> bool {
        self.config.parameters.owners_sign || matches!(opening.terms.owner, Owner::Custodial(_))
    }

    fn may_open(&self, source: u8, opened: &Opened) -> bool {
        let cap = self.config.caps.get(&u32::from(source)).copied().unwrap_or(Units(0));
        let shard = self.config.view.context.shard;
        let bounds = (cap, self.config.parameters.accounts_max);
        opened.batch.openings.iter().all(|opening| self.has_owner(opening))
            && self
                .lanes
                .get(&source)
                .is_some_and(|lane| lane.may_open((shard, source), &opened.batch.openings, bounds))
    }

    /// Accepts what may be endorsed of a batch, or of those entries that were left out before; gives what is left out, and has
    /// the batch judged again when that may change. Behind an entry that is left out, its log's later ones are too. Entries that
    /// contradict others are shown once.
    fn accept(
        &mut self,
        opened: &Opened,
        before: Option<&Except>,
        batch: &mut Batch,
        turn: &mut Turn<'_, Self>,
    ) -> Except {
        let lot = opened.lot();
        let (mut out, mut behind, mut wait) = (Vec::new(), BTreeSet::new(), Vec::new());
        let count = opened.batch.lines.len();
        for (place, (at, line, digest)) in (0..count).zip(opened.lines()) {
            let key = batch.keys.get(place).copied().flatten();
            self.ledger.near(&opened.batch.lines, place);
            let spender = line.entry.id.spender;
            let was_left_out = before.is_none_or(|before| before.items().binary_search(&at).is_ok());
            if !was_left_out {
                continue;
            }
            if behind.contains(&spender) {
                out.push(at);
                continue;
            }
            let accepted = if batch.is_refused(opened, at) {
                Err(Code::Unauthorized)
            } else {
                self.ledger.accept(line, digest, Authority { lane: lot.source, key })
            };
            let Err(code) = accepted else {
                self.ledger.back(line.entry.id, digest, opened.backings.get(&at));
                continue;
            };
            out.push(at);
            behind.insert(spender);
            wait.extend(self.ledger.cause(&line.entry, code).map(|cause| (spender, at, cause)));
            if code == Code::SequenceConflict && batch.conflicting.insert(at) {
                self.show(line, key, turn);
            }
        }
        let all = opened.lines().map(|(at, ..)| at);
        let out = if planted!(A24) && !out.is_empty() { all.collect() } else { out };
        self.ledger.wait(lot, wait);
        Except::new(out).expect("indexes rise")
    }

    /// What this node's own desk admitted and has not broadcast is promised from here on, if an entry rests on it
    /// that is endorsed, or that others endorsed.
    pub(super) fn record_admitted(&mut self, opened: &Opened, except: &Except, turn: &mut Turn<'_, Self>) {
        let spenders = opened.lines().map(|(at, line, _)| (at, line.entry.id.spender));
        // Customers of an institution are mostly in its own batches.
        let (mut registrar, mut has_any) = (None, false);
        let endorsed: BTreeSet<AccountId> = spenders
            .filter(|(at, spender)| {
                if registrar.replace(spender.registrar) != Some(spender.registrar) {
                    has_any = self.desk.has_unrecorded(*spender);
                }
                has_any && except.items().binary_search(at).is_err()
            })
            .map(|(_, spender)| spender)
            .collect();
        self.record_admitted_of(&endorsed, turn);
    }

    /// The same of some logs: an entry that settles beneath a certified one has to be there for it after a restart too.
    pub(super) fn record_admitted_of(&mut self, spenders: &BTreeSet<AccountId>, turn: &mut Turn<'_, Self>) {
        if spenders.is_empty() {
            return;
        }
        for id in self.desk.unrecorded(spenders) {
            let Some(slot) = self.ledger.slot(id) else { continue };
            let (line, debit, is_certified) = (slot.line.clone(), slot.debit, slot.is_certified);
            if let Some(with) = self.ledger.backing(id, slot.digest) {
                let with = List::try_from(with.to_vec()).expect("so many go with one entry");
                keep(turn, Promise::Backed { digest: slot.digest, with });
            }
            keep(turn, Promise::Open { line, debit, is_certified, lots: List::default() });
        }
    }

    /// Judges batches again of which one of these entries may be endorsed now. The others wait on, without a look at their batch.
    pub(super) fn judge_left(&mut self, again: Vec<Left>, turn: &mut Turn<'_, Self>) {
        let (mut lots, mut lanes) = (BTreeSet::new(), BTreeSet::new());
        for left in again {
            if self.release(left.lot) {
                lanes.insert(left.lot.source);
                continue;
            }
            let batch = self.lane_mut(left.lot.source).batches.get(&left.lot.sequence);
            let (Some(at), Some(batch)) = (usize::try_from(left.at).ok(), batch) else { continue };
            let Some(opened) = batch.opened.clone() else { continue };
            let (Some(line), Some(digest)) = (opened.batch.lines.get(at), opened.digests.get(at)) else {
                continue;
            };
            let by = Authority { lane: left.lot.source, key: batch.keys.get(at).copied().flatten() };
            match self.ledger.may_accept(line, *digest, by) {
                Ok(_) => drop(lots.insert(left.lot)),
                Err(Code::Unauthorized) if line.auth != Auth::Institution => {
                    self.check_again(&opened, left.spender, turn);
                }
                Err(code) => {
                    if let Some(cause) = self.ledger.cause(&line.entry, code) {
                        self.ledger.wait_again(left, cause);
                    }
                }
            }
        }
        for lot in lots {
            self.judge_again(lot, turn);
        }
        for lane in lanes {
            self.go_on(lane, turn);
        }
    }

    /// Has an owner's signatures checked again: it was not known when the batch came, or was another.
    fn check_again(&self, opened: &Arc<Opened>, spender: AccountId, turn: &mut Turn<'_, Self>) {
        // What is signed together is good for all who signed it, or for nobody.
        let is_shared = opened.batch.beside.together.is_some();
        let keys = self.owners(opened, |account| is_shared || account == spender);
        if keys.iter().any(Option::is_some) {
            let (opened, view, points) =
                (Arc::clone(opened), Arc::clone(&self.config.view), self.points.clone());
            let recalled = self.recall(&opened);
            compute(turn, Work::Check { opened, view, keys, points, recalled });
        }
    }

    /// Judges what was left out of a batch again, unless all of it is certified: a list only shrinks.
    pub(super) fn judge_again(&mut self, lot: Lot, turn: &mut Turn<'_, Self>) {
        let batch = self.lane_mut(lot.source).batches.get_mut(&lot.sequence);
        let Some(batch) = batch.filter(|batch| !batch.is_whole()) else { return };
        let (Some(before), Some(opened)) = (batch.endorsed.clone(), batch.opened.clone()) else { return };
        if before.items().is_empty() {
            return;
        }
        let digest = batch.digest;
        let mut taken = std::mem::replace(batch, Batch::new(digest));
        let except = self.accept(&opened, Some(&before), &mut taken, turn);
        taken.endorsed = Some(except.clone());
        self.lane_mut(lot.source).batches.insert(lot.sequence, taken);
        if except == before {
            return;
        }
        turn.applied(Rule::Again);
        self.record_admitted(&opened, &except, turn);
        let items = except.items().to_vec();
        keep(turn, Promise::Endorsed { lot, except, batch: None });
        self.judge_slot(lot, digest, items, turn);
    }
}

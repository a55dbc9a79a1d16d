//! The checker of a run: shows every moment to every oracle, and keeps the books of all members by hand.

use std::collections::{BTreeMap, BTreeSet};

use synod_astro::{Level, Line, Message, Output, Promise, Record, Refusal, Word};
use synod_broadcast::signed::{self, Certificate};
use synod_crypto::Hash;
use synod_ledger::{AccountId, Entry, EntryId};
use synod_machine::Time;
use synod_quorum::NodeId;
use synod_sim::{Checker, Deed, Moment, Seen, Violation};
use synod_wire::{Blob, Bytes};

use super::book::Shared;
use super::cuts::Cutting;
use super::plan::{People, Recovered};
use super::sight;
use crate::oracle::astro::{Acks, Keeping, Promised, Reckoning, StateSeen, Texts, quorum};
use crate::oracle::{Breach, Verdict, breach, weak};

/// What still holds when more members are faulty than allowed: what each honest member promises by itself.
const KEPT: [&str; 1] = ["X3"];

/// All oracles of one run.
pub struct Watch {
    members: u32,
    texts: Texts,
    acks: Acks,
    keeping: Keeping,
    recovered: Recovered,
    /// Certificates that reached members, as they travel.
    reached: BTreeSet<(u32, Hash)>,
    /// Entries by what customers call them.
    named: BTreeMap<(AccountId, u128), Vec<(EntryId, Hash)>>,
    over_budget: bool,
    cuts: Cutting,
    book: Shared,
}

impl Watch {
    /// Watches the members of a view, whose accounts these are at the beginning.
    #[must_use]
    pub fn new(people: &People, recovered: Recovered, book: Shared, over_budget: bool) -> Self {
        let mut first = Reckoning::default();
        {
            let mut book = book.borrow_mut();
            for opening in people.genesis() {
                first.open(&opening);
                book.facts.open(opening);
            }
            (0..people.members).filter_map(|member| people.liar(member)).for_each(|id| book.facts.lie(id));
            book.reckonings = (0..people.members).map(|member| (member, first.clone())).collect();
        }
        Self {
            members: people.members,
            texts: Texts::default(),
            acks: Acks::new(people.members),
            keeping: Keeping::default(),
            recovered,
            reached: BTreeSet::new(),
            named: BTreeMap::new(),
            over_budget,
            cuts: Cutting::default(),
            book,
        }
    }

    fn learn_line(&mut self, line: &Line) -> Hash {
        let (entry, digest) = (&line.entry, sight::digest(&line.entry));
        if self.texts.get(&digest).is_none() {
            self.texts.entry(digest, entry);
            let named = self.named.entry((entry.id.spender, entry.transfer)).or_default();
            named.push((entry.id, digest));
        }
        digest
    }

    /// A payload that somebody showed; its digest, if it is a batch.
    fn learn<const MAX: usize>(&mut self, payload: &Blob<MAX>) -> Option<Hash> {
        let batch = sight::batch(payload.bytes())?;
        if !self.texts.has(&batch.digest) {
            for line in &batch.batch.lines {
                self.learn_line(line);
            }
            self.texts.show(batch.digest, sight::seen(&batch));
        }
        Some(batch.digest)
    }

    fn opened(&mut self, node: u32, honest: bool, records: &[Bytes]) -> Verdict {
        let records: Vec<_> = records.iter().filter_map(sight::record).collect();
        records.iter().for_each(|record| self.recall(node, record));
        self.keeping.open(node, records.iter().filter_map(|record| sight::promised(node, record)));
        self.acks.open(node, &self.keeping.endorsed(node));
        let state = self.recovered.borrow().get(&node).cloned();
        match state.filter(|_| honest) {
            Some(state) => self.meet(node, &state, true),
            None => Ok(()),
        }
    }

    /// What a record of a member shows: batches, and entries that it has in their places.
    fn recall(&mut self, node: u32, record: &sight::Kept) {
        let Record::Own(promise) = record else { return };
        match promise {
            Promise::Endorsed { batch: Some(payload), .. }
            | Promise::Certified { batch: Some(payload), .. }
            | Promise::Batch { batch: Some(payload), .. } => drop(self.learn(payload)),
            Promise::Descended(line) | Promise::Settled(line) | Promise::Open { line, .. } => {
                let digest = self.learn_line(line);
                self.acks.hold(node, digest);
            }
            _ => {}
        }
    }

    /// Compares a member's book with its reckoning, and takes over what it has beyond if the member starts from it.
    fn meet(&mut self, node: u32, state: &StateSeen, starts: bool) -> Verdict {
        let known = self.book.borrow().reckonings.get(&node).cloned();
        let Some(mut reckoning) = known else { return Ok(()) };
        let unknown: Vec<AccountId> =
            state.accounts.keys().filter(|id| reckoning.purse(**id).is_none()).copied().collect();
        for id in unknown {
            let opening = self.opening(id)?;
            reckoning.open(&opening);
        }
        let untold = reckoning.meet(&self.texts, state)?;
        if !starts {
            return Ok(());
        }
        for (entry, digest) in &untold {
            self.agree(node, entry, *digest)?;
        }
        let mut notes = self.book.borrow_mut();
        let all: Vec<AccountId> = reckoning.purses().map(|(id, _)| id).collect();
        for id in all {
            notes.opened.entry(id).or_default().insert(node);
        }
        notes.reckonings.insert(node, reckoning);
        Ok(())
    }

    /// How an account was opened: by a batch that can be certified.
    fn opening(&mut self, id: AccountId) -> Result<synod_ledger::Opening, Breach> {
        if let Some(opening) = self.book.borrow().facts.opening(id) {
            return Ok(opening.clone());
        }
        let found = self.texts.batches().find_map(|(digest, batch)| {
            let opening = batch.openings.iter().find(|opening| opening.id == id)?;
            let lane = u32::from(batch.slot.0) == id.registrar;
            (lane && self.acks.certifiable(batch, digest, None)).then(|| opening.clone())
        });
        let what = || format!("account {id} opens by no batch that can be certified");
        let opening = found.ok_or_else(|| Breach { checker: "A-S2", what: what() })?;
        let mut book = self.book.borrow_mut();
        book.facts.may_open(id)?;
        book.facts.open(opening.clone());
        Ok(opening)
    }

    /// A-S1, and A-S2: what settles is the same everywhere, certified, and somebody's who may.
    fn agree(&mut self, node: u32, entry: &Entry, digest: Hash) -> Verdict {
        if sight::digest(entry) != digest {
            return breach("A-S2", format!("{:?} settles under another digest", entry.id));
        }
        if !self.acks.is_certified(entry.id, &digest) {
            return breach("A-S2", format!("{:?} settles at member {node} and is not certified", entry.id));
        }
        let mut book = self.book.borrow_mut();
        match book.agreed.insert(entry.id, digest) {
            Some(known) if known != digest => {
                let what = format!("two entries settle at {:?}, the second at member {node}", entry.id);
                return breach("A-S1", what);
            }
            Some(_) => {}
            None => book.add("settled", 1),
        }
        book.facts.settled(&self.texts, entry, digest)?;
        if let Some(order) = u64::try_from(entry.transfer).ok().and_then(|ticket| book.get_mut(ticket))
            && order.spender == entry.id.spender
        {
            order.settled = true;
        }
        Ok(())
    }

    fn record(&mut self, (node, honest): (u32, bool), lsn: u64, bytes: &Bytes) -> Verdict {
        let Some(record) = sight::record(bytes) else { return Ok(()) };
        self.recall(node, &record);
        let Some(promised) = sight::promised(node, &record) else { return Ok(()) };
        self.keeping.write(node, lsn, promised.clone());
        let Promised::Endorsed(slot, digest, except) = promised else { return Ok(()) };
        let batch = digest.or_else(|| self.keeping.batch(node, slot));
        let Some(batch) = batch.filter(|_| honest) else { return Ok(()) };
        let book = self.book.borrow();
        self.acks.endorse(&self.texts, (node, lsn), (slot, batch), &except, book.reckonings.get(&node))
    }

    fn said(&mut self, node: u32, honest: bool, body: &Bytes) -> Verdict {
        let message = match sight::opened(body) {
            Some(Message::Broadcast(message)) => message,
            Some(Message::Own(Word::Here(line))) => {
                self.learn_line(&line);
                return Ok(());
            }
            Some(Message::Own(Word::CutSign(sign))) if honest && u32::from(sign.member) == node => {
                let truth = self.acks.honest(u32::from(sign.proposer)) && !self.over_budget;
                return if truth { self.cuts.sign(node, &sign) } else { Ok(()) };
            }
            Some(Message::Own(Word::Receipt(receipt))) if honest => {
                return self.receipted(node, receipt.digest, receipt.open.items());
            }
            _ => return Ok(()),
        };
        match message {
            signed::Message::Prepare { lot, payload, .. } => {
                let digest = self.learn(&payload);
                let Some(digest) = digest.filter(|_| u32::from(lot.source) == node) else { return Ok(()) };
                self.texts.broadcast(&digest);
                if honest { self.acked(node, (lot, digest), &[]) } else { Ok(()) }
            }
            signed::Message::Pulled { payload, .. } => {
                self.learn(&payload);
                Ok(())
            }
            signed::Message::Ack(ack) if honest && u32::from(ack.said.member) == node => {
                self.acked(node, (ack.lot, ack.digest), ack.said.except.items())
            }
            signed::Message::Commit(certificate) if honest => {
                self.certified(node, &certificate)?;
                if self.reached.contains(&(node, Hash::of(body))) {
                    return Ok(());
                }
                let lists = certificate.said.iter().map(|said| said.except.items());
                self.acks.gather(&self.texts, (node, certificate.digest), lists)
            }
            _ => Ok(()),
        }
    }

    fn acked(&mut self, node: u32, (lot, digest): (synod_broadcast::Lot, Hash), except: &[u32]) -> Verdict {
        let slot = sight::slot(lot);
        self.keeping.said((node, slot), digest, except)?;
        self.funded(node, digest, except)?;
        self.reasoned((node, slot), digest, except)?;
        self.acks.say(&self.texts, (node, slot), (digest, except))
    }

    /// A-S6 and A-S7 of endorsements: behind what settled at a member, all it endorses of a log is paid for by what settled there.
    fn funded(&self, node: u32, digest: Hash, except: &[u32]) -> Verdict {
        let book = self.book.borrow();
        let (Some(batch), Some(reckoning)) = (self.texts.batch(&digest), book.reckonings.get(&node)) else {
            return Ok(());
        };
        for (at, (id, line)) in (0_u32..).zip(&batch.lines) {
            let Some(purse) = reckoning.purse(id.spender) else { continue };
            // A certificate says that members who tell the truth have the money.
            if except.contains(&at) || id.n <= purse.sequence || self.acks.is_certified(*id, line) {
                continue;
            }
            let told =
                |breach: Breach| Breach { what: format!("by member {node}: {}", breach.what), ..breach };
            purse.pays(&self.texts, *id, *line).map_err(told)?;
        }
        Ok(())
    }

    /// A-L4: of a batch of an institution that never lied, a member leaves no entry out that nothing speaks against.
    fn reasoned(&self, (node, slot): (u32, (u8, u64)), digest: Hash, except: &[u32]) -> Verdict {
        let book = self.book.borrow();
        let (Some(batch), Some(reckoning)) = (self.texts.batch(&digest), book.reckonings.get(&node)) else {
            return Ok(());
        };
        let mut before = BTreeSet::new();
        for (at, (id, line)) in (0_u32..).zip(&batch.lines) {
            let is_first = before.insert(id.spender) && book.facts.is_customer(id.spender, slot.0);
            let is_left = except.contains(&at) && self.acks.leaves_out(node, slot, at);
            let is_open = is_first && is_left && !self.acks.is_any_certified(*id);
            if is_open && self.texts.get(line).is_some_and(|entry| reckoning.welcomes(entry)) {
                return breach("A-L4", format!("member {node} leaves {id:?} out of {slot:?} for no reason"));
            }
        }
        Ok(())
    }

    /// A certificate that an honest member sends has a quorum of members, and those of them that never lied signed it.
    fn certified(&self, node: u32, certificate: &Certificate) -> Verdict {
        let mut members: Vec<u8> = certificate.said.iter().map(|said| said.member).collect();
        members.sort_unstable();
        members.dedup();
        let count = u32::try_from(members.len()).unwrap_or(u32::MAX);
        if count < quorum(self.members) || members.iter().any(|member| u32::from(*member) >= self.members) {
            let what = format!("member {node} sends a certificate of {count} for {:?}", certificate.lot);
            return breach("A-S2", what);
        }
        let slot = sight::slot(certificate.lot);
        let liar = |said: &&signed::Said| self.acks.honest(u32::from(said.member));
        for said in certificate.said.iter().filter(liar) {
            if !self.acks.has_said(u32::from(said.member), slot, &certificate.digest) {
                let what = format!("member {} never signed what is certified in {slot:?}", said.member);
                return breach("A-S2", what);
            }
        }
        Ok(())
    }

    /// X3 of receipts: all that is receipted has settled for good.
    fn receipted(&self, node: u32, digest: Hash, open: &[u32]) -> Verdict {
        let book = self.book.borrow();
        let (Some(batch), Some(reckoning)) = (self.texts.batch(&digest), book.reckonings.get(&node)) else {
            return Ok(());
        };
        for (at, (id, line)) in (0_u32..).zip(&batch.lines) {
            let settled = reckoning.purse(id.spender).is_some_and(|purse| purse.sequence >= id.n);
            if !open.contains(&at) && !(settled && book.agreed.get(id) == Some(line)) {
                return breach("X3", format!("member {node} receipts {id:?}, which has not settled there"));
            }
        }
        Ok(())
    }

    fn told(&mut self, node: u32, output: &Output) -> Verdict {
        match output {
            Output::Settled { position, entry, digest } => {
                let mut book = self.book.borrow_mut();
                let known = book.reckonings.get_mut(&node);
                let is_news = known.map_or(Ok(true), |known| known.is_news(*position, entry.id, *digest))?;
                drop(book);
                if !is_news {
                    return Ok(());
                }
                self.texts.entry(*digest, entry);
                self.agree(node, entry, *digest)?;
                let mut book = self.book.borrow_mut();
                book.reckonings.get_mut(&node).map_or(Ok(()), |reckoning| reckoning.settle(entry, *digest))
            }
            Output::Accepted { entry, digest, .. } => {
                self.accepted(node, entry)?;
                let line = Line { entry: entry.clone(), auth: synod_astro::Auth::Institution };
                self.learn_line(&line);
                self.acks.hold(node, *digest);
                Ok(())
            }
            Output::Opened(id) => {
                let opening = self.opening(*id)?;
                let mut book = self.book.borrow_mut();
                if let Some(reckoning) = book.reckonings.get_mut(&node) {
                    if reckoning.purse(*id).is_some() {
                        return breach("A-S2", format!("{id} opens twice at member {node}"));
                    }
                    reckoning.open(&opening);
                }
                book.opened.entry(*id).or_default().insert(node);
                Ok(())
            }
            Output::Progress { id, level, .. } => self.progress(*id, *level),
            Output::Conflict { id, .. } => self.blamed(id.spender),
            Output::Refused { why: Refusal::Exists(id), .. } => self.exists(*id),
            Output::CutCertified { record, .. } => {
                let is_first = self.cuts.certify(record)?;
                self.book.borrow_mut().add("cuts", u64::from(is_first));
                Ok(())
            }
            Output::Proof { proof, .. } => {
                proof.as_ref().map_or(Ok(()), |proof| self.cuts.prove(node, proof))
            }
            Output::Rejected { entry, .. } => {
                breach("A-S2", format!("{:?} is rejected at member {node}, in profile II-F", entry.id))
            }
            Output::TwoBatches { .. }
            | Output::CaughtUp { .. }
            | Output::TwoRoots { .. }
            | Output::FalseWitness { .. }
            | Output::Contradiction { .. } => self.shown(node, output),
            Output::Refused { .. }
            | Output::Queued { .. }
            | Output::Numbered { .. }
            | Output::Looked { .. }
            | Output::Checked { .. }
            | Output::Log { .. }
            | Output::Certified { .. }
            | Output::Receipted(_) => Ok(()),
        }
    }

    /// What somebody is shown to have done, or went without.
    fn shown(&self, node: u32, output: &Output) -> Verdict {
        match output {
            Output::TwoBatches { lane, .. } if self.acks.honest(lane.0) => {
                breach("X6", format!("member {} is shown with two batches", lane.0))
            }
            Output::TwoBatches { .. } => {
                self.book.borrow_mut().add("two_batches", 1);
                Ok(())
            }
            // Runs are too short to let members fall so far behind that nobody keeps what they lack.
            Output::CaughtUp { number, .. } => {
                breach("A-L2", format!("member {node} goes on from cut {number}"))
            }
            Output::TwoRoots { member, .. } if self.acks.honest(member.0) => {
                breach("X6", format!("member {} is shown with two states behind a cut", member.0))
            }
            Output::TwoRoots { .. } => {
                self.book.borrow_mut().add("two_roots", 1);
                Ok(())
            }
            Output::FalseWitness { member, .. } if self.acks.honest(member.0) => {
                breach("X6", format!("member {} is shown with a false word on signatures", member.0))
            }
            Output::FalseWitness { .. } => {
                self.book.borrow_mut().add("false_witnesses", 1);
                Ok(())
            }
            // It takes more liars than there may be.
            Output::Contradiction { id, .. } if !self.over_budget => {
                breach("A-S1", format!("certificates contradict each other at {id:?}"))
            }
            Output::Contradiction { .. } => {
                self.book.borrow_mut().add("contradictions", 1);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// A-S10: an order that has its place, and has not settled, gets no other.
    fn accepted(&self, node: u32, entry: &Entry) -> Verdict {
        let book = self.book.borrow();
        let Some(purse) = book.reckonings.get(&node).and_then(|of| of.purse(entry.id.spender)) else {
            return Ok(());
        };
        let lane = u8::try_from(node).unwrap_or(u8::MAX);
        let named = self.named.get(&(entry.id.spender, entry.transfer)).into_iter().flatten();
        let mut open = named.filter(|(id, digest)| {
            id.n > purse.sequence && *id != entry.id && self.texts.carries(lane, digest)
        });
        match open.next() {
            Some((id, _)) => breach("A-S10", format!("an order that has {id:?} gets {:?} as well", entry.id)),
            None => Ok(()),
        }
    }

    /// What a representative says of an entry is so at members that never lied.
    fn progress(&self, id: EntryId, level: Level) -> Verdict {
        let book = self.book.borrow();
        let settled = |node: u32| {
            let purse = book.reckonings.get(&node).and_then(|of| of.purse(id.spender));
            self.acks.honest(node) && purse.is_some_and(|purse| purse.sequence >= id.n)
        };
        let count = (0..self.members).filter(|node| settled(*node)).count();
        let liars = (0..self.members).filter(|node| !self.acks.honest(*node)).count();
        let wanted = match level {
            Level::Accepted => return Ok(()),
            Level::Certified if self.acks.is_any_certified(id) => return Ok(()),
            Level::Certified => 1,
            Level::Settled => weak(self.members) as usize,
            Level::Stable => quorum(self.members) as usize,
        };
        if level == Level::Certified || count + liars < wanted {
            return breach("A-S2", format!("{id:?} is told to be {level:?}, settled at {count} members"));
        }
        Ok(())
    }

    /// X6 of owners: who never signed two entries for one place is not shown to have.
    fn blamed(&self, account: AccountId) -> Verdict {
        let mut book = self.book.borrow_mut();
        if book.facts.is_sound(account) {
            return breach("X6", format!("{account} is shown with two entries for one place"));
        }
        book.add("conflicts", 1);
        Ok(())
    }

    fn exists(&self, id: EntryId) -> Verdict {
        if self.named.values().flatten().any(|(known, _)| *known == id) {
            return Ok(());
        }
        breach("A-S10", format!("an order is said to have {id:?}, which nobody has"))
    }

    fn moment(&mut self, moment: &Moment<'_>) -> Verdict {
        let (node, honest) = (moment.node.0, moment.honest);
        if !honest {
            self.book.borrow_mut().facts.fault(node);
            self.acks.fault(&self.texts, node)?;
        }
        match moment.seen {
            Seen::Opened { records, .. } => {
                self.book.borrow_mut().lives.insert(node, moment.incarnation);
                self.opened(node, honest, records)?;
            }
            Seen::Durable(lsn) => {
                self.keeping.durable(node, *lsn);
                self.acks.durable(node, *lsn);
            }
            Seen::Frame(frame) if honest && sight::is_certificate(&frame.body) => {
                self.reached.insert((node, Hash::of(&frame.body)));
            }
            _ => {}
        }
        for deed in moment.deeds {
            match deed {
                Deed::Append { lsn, record, .. } => self.record((node, honest), *lsn, record)?,
                Deed::Send { body, .. } => self.said(node, honest, body)?,
                Deed::Output(output) if honest => {
                    if let Some(output) = output.downcast_ref::<Output>() {
                        self.told(node, output)?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Compares the book in a snapshot of a member that runs with its reckoning.
    ///
    /// # Errors
    /// What [`Reckoning::meet`] finds.
    pub fn compare(&mut self, node: NodeId, snapshot: &[Bytes]) -> Result<(), Violation> {
        let state = sight::state(sight::book(snapshot));
        self.judged(|watch| watch.meet(node.0, &state, false))
    }

    fn judged(&mut self, look: impl FnOnce(&mut Self) -> Verdict) -> Result<(), Violation> {
        let waived = |breach: &Breach, over: bool| over && !KEPT.contains(&breach.checker);
        match look(self) {
            Err(breach) if !waived(&breach, self.over_budget) => {
                Err(Violation::new(breach.checker, breach.what))
            }
            _ => Ok(()),
        }
    }

    /// Entries that can be certified so far.
    #[must_use]
    pub fn certificates(&self) -> u64 {
        self.acks.certified()
    }
}

/// The checker as the world and the phases of a run hold it.
pub(crate) struct Watching(pub(crate) std::rc::Rc<std::cell::RefCell<Watch>>);

impl Checker for Watching {
    fn see(&mut self, moment: &Moment<'_>) -> Result<(), Violation> {
        self.0.borrow_mut().judged(|watch| watch.moment(moment))
    }

    fn heal(&mut self, _: &[NodeId], now: Time) {
        self.0.borrow().book.borrow_mut().healed = Some(now);
    }
}

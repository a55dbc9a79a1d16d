//! The checker of a run: shows every moment to every oracle, and keeps the books of all members by hand.

mod saying;
mod signing;
mod telling;

use std::collections::{BTreeMap, BTreeSet};

use synod_astro::{Line, Output, Profile, Promise};
use synod_broadcast::bracha;
use synod_broadcast::signed::Context;
use synod_crypto::Hash;
use synod_ledger::{AccountId, Entry, EntryId};
use synod_machine::Time;
use synod_quorum::NodeId;
use synod_sim::{Checker, Deed, Moment, Seen, Violation};
use synod_wire::{Blob, Bytes};

use self::signing::Domain;
use super::book::Shared;
use super::cuts::Cutting;
use super::plan::{People, Recovered};
use super::sight::{self, Heard, Kept};
use crate::oracle::astro::{Acks, Facts, Keeping, Promised, Reckoning, Slot, StateSeen, Texts, Vote, Votes};
use crate::oracle::{Breach, Verdict, breach};

/// What still holds when more members are faulty than allowed: what each honest member promises by itself.
const KEPT: [&str; 1] = ["X3"];

/// Entries of a batch.
type Lines = Vec<(EntryId, Hash)>;

/// All oracles of one run.
pub struct Watch {
    members: u32,
    profile: Profile,
    texts: Texts,
    acks: Acks,
    votes: Votes,
    /// Batches by the digest of their payload.
    payloads: BTreeMap<Hash, Hash>,
    /// The batch of a slot that the last record of a member which holds one has: what later records leave out.
    written: BTreeMap<(u32, Slot), Hash>,
    keeping: Keeping,
    recovered: Recovered,
    /// What members endorsed in records that are not durable yet: member, record, batch, exceptions.
    endorsing: Vec<(u32, u64, Hash, Vec<u32>)>,
    /// What members have the certificates of in records that are not durable yet: member, record, entries.
    delivering: Vec<(u32, u64, Lines)>,
    /// Certificates that reached members, as they travel.
    reached: BTreeSet<(u32, Hash)>,
    /// Entries by what customers call them.
    named: BTreeMap<(AccountId, u128), Vec<(EntryId, Hash)>>,
    over_budget: bool,
    cuts: Cutting,
    domain: Domain,
    /// With which of its beneficiary's entries each payment is shown by the member that represents it.
    showing: BTreeMap<(u32, AccountId, EntryId), EntryId>,
    book: Shared,
}

impl Watch {
    /// Watches the members of a view, whose accounts these are at the beginning.
    #[must_use]
    pub fn new(
        people: &People,
        context: Context,
        (recovered, book): (Recovered, Shared),
        over_budget: bool,
    ) -> Self {
        let mut first = match people.profile {
            Profile::II => Reckoning::claiming(),
            Profile::I | Profile::Funded => Reckoning::default(),
        };
        {
            let mut book = book.borrow_mut();
            if people.registers() {
                book.facts = Facts::registering();
            }
            for opening in people.genesis() {
                first.open(&opening);
                book.facts.open(opening);
            }
            (0..people.members).filter_map(|member| people.liar(member)).for_each(|id| book.facts.lie(id));
            book.reckonings = (0..people.members).map(|member| (member, first.clone())).collect();
        }
        Self {
            members: people.members,
            profile: people.profile,
            texts: Texts::default(),
            acks: match people.profile {
                Profile::Funded => Acks::new(people.members),
                Profile::I | Profile::II => Acks::one_by_one(people.members),
            },
            votes: Votes::new(people.members),
            payloads: BTreeMap::new(),
            written: BTreeMap::new(),
            endorsing: Vec::new(),
            delivering: Vec::new(),
            keeping: Keeping::default(),
            recovered,
            reached: BTreeSet::new(),
            named: BTreeMap::new(),
            over_budget,
            cuts: Cutting::default(),
            domain: Domain::new(context, people),
            showing: BTreeMap::new(),
            book,
        }
    }

    fn learn_line(&mut self, line: &Line) -> Hash {
        let digest = sight::digest(&line.entry);
        self.learn_entry(digest, &line.entry);
        digest
    }

    fn learn_entry(&mut self, digest: Hash, entry: &Entry) {
        if self.texts.get(&digest).is_none() {
            self.texts.entry(digest, entry);
            let named = self.named.entry((entry.id.spender, entry.transfer)).or_default();
            named.push((entry.id, digest));
        }
    }

    /// A payload that somebody showed; its digest, if it is a batch.
    fn learn<const MAX: usize>(&mut self, payload: &Blob<MAX>) -> Option<Hash> {
        let name = Hash::of(payload.bytes());
        if let Some(known) = self.payloads.get(&name) {
            return Some(*known);
        }
        let batch = sight::batch(payload.bytes())?;
        self.payloads.insert(name, batch.digest);
        if !self.texts.has(&batch.digest) {
            for (_, line, digest) in batch.lines() {
                self.learn_entry(digest, &line.entry);
            }
            self.texts.show(batch.digest, sight::seen(&batch));
        }
        Some(batch.digest)
    }

    fn opened(&mut self, node: u32, honest: bool, records: &[Bytes]) -> Verdict {
        let records = records.iter().filter_map(|record| sight::record(self.profile, record));
        let records: Vec<Kept> = records.collect();
        records.iter().for_each(|record| self.recall(node, record));
        self.written.retain(|(of, _), _| *of != node);
        self.endorsing.retain(|(of, ..)| *of != node);
        self.delivering.retain(|(of, ..)| *of != node);
        let promised = |record| {
            self.write(node, record);
            if let Kept::Own(Promise::Certified { lot, open, .. }) = record {
                let lines = self.certified_of(node, *lot, open.items());
                self.book.borrow_mut().delivered.entry(node).or_default().extend(lines);
            }
            self.promised(node, record)
        };
        let promised: Vec<Promised> = records.iter().filter_map(promised).collect();
        self.keeping.open(node, promised.into_iter());
        self.acks.open(node, &self.keeping.endorsed(node));
        let state = self.recovered.borrow().get(&node).cloned();
        match state.filter(|_| honest) {
            Some(state) => self.meet(node, &state, true),
            None => Ok(()),
        }
    }

    /// What a record of a member shows: batches, and entries that it has in their places.
    fn recall(&mut self, node: u32, record: &Kept) {
        let Kept::Own(promise) = record else { return };
        match promise {
            Promise::Backed { digest, .. } => self.acks.hold(node, *digest),
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

    /// Which batch a slot has in the log of a member from this record on.
    fn write(&mut self, node: u32, record: &Kept) {
        let (lot, digest) = match record {
            Kept::Own(
                Promise::Endorsed { lot, batch: Some(payload), .. }
                | Promise::Certified { lot, batch: Some(payload), .. },
            ) => (lot, self.learn(payload)),
            Kept::Own(Promise::Batch { lot, digest, .. }) => (lot, Some(*digest)),
            _ => return,
        };
        if let Some(digest) = digest {
            self.written.insert((node, sight::slot(*lot)), digest);
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
        if self.profile != Profile::II && sight::digest(entry) != digest {
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
        book.facts.settled(&self.texts, entry, (digest, sight::digest(entry)))?;
        if let Some(order) = u64::try_from(entry.transfer).ok().and_then(|ticket| book.get_mut(ticket))
            && order.spender == entry.id.spender
        {
            order.settled = true;
        }
        Ok(())
    }

    /// What a record promises, of a batch under its own name.
    fn promised(&self, node: u32, record: &Kept) -> Option<Promised> {
        let promised = sight::promised(node, record)?;
        Some(match (record, promised) {
            (Kept::Votes(_), Promised::Accepted(slot, digest, except)) => {
                Promised::Accepted(slot, self.payloads.get(&digest).copied()?, except)
            }
            (_, Promised::Endorsed(slot, None, except)) => {
                Promised::Endorsed(slot, self.written.get(&(node, slot)).copied(), except)
            }
            (_, promised) => promised,
        })
    }

    /// The entries of a batch that its certificate is of.
    fn certified_of(&self, node: u32, lot: synod_broadcast::Lot, open: &[u32]) -> Lines {
        let digest = self.written.get(&(node, sight::slot(lot)));
        let Some(batch) = digest.and_then(|digest| self.texts.batch(digest)) else { return Vec::new() };
        let lines = (0_u32..).zip(&batch.lines).filter(|(at, _)| !open.contains(at));
        lines.map(|(_, line)| *line).collect()
    }

    /// A member has the certificate of a batch.
    fn delivered(&mut self, (node, lsn): (u32, u64), lot: synod_broadcast::Lot, open: &[u32]) -> Verdict {
        if self.profile == Profile::I {
            self.votes.deliver(node, sight::slot(lot))?;
        }
        let lines = self.certified_of(node, lot, open);
        // What is delivered is there, whoever endorsed it, before its user is told that it settled.
        lines.iter().for_each(|(_, digest)| self.acks.hold(node, *digest));
        self.delivering.push((node, lsn, lines));
        Ok(())
    }

    fn record(&mut self, (node, honest): (u32, bool), lsn: u64, bytes: &Bytes) -> Verdict {
        let Some(record) = sight::record(self.profile, bytes) else { return Ok(()) };
        self.recall(node, &record);
        self.write(node, &record);
        if let Kept::Votes(bracha::Record::Echoed(vote)) = &record {
            self.votes.hear(node, node, (Vote::Echo, sight::slot(vote.lot), vote.digest));
        }
        if let Kept::Votes(bracha::Record::Readied(vote)) = &record {
            self.votes.hear(node, node, (Vote::Ready, sight::slot(vote.lot), vote.digest));
        }
        if honest && let Kept::Own(Promise::Certified { lot, open, .. }) = &record {
            self.delivered((node, lsn), *lot, open.items())?;
        }
        let Some(promised) = self.promised(node, &record) else { return Ok(()) };
        self.keeping.write(node, lsn, promised.clone());
        let Promised::Endorsed(slot, batch, except) = promised else { return Ok(()) };
        let Some(batch) = batch.filter(|_| honest) else { return Ok(()) };
        self.endorsing.push((node, lsn, batch, except.clone()));
        let book = self.book.borrow();
        self.acks.endorse(&self.texts, (node, lsn), (slot, batch), &except, book.reckonings.get(&node))
    }

    /// A frame reaches a member.
    fn reaches(&mut self, (node, from): (u32, u32), body: &Bytes) {
        match sight::heard(self.profile, body) {
            Some(Heard::Signed(synod_broadcast::signed::Message::Commit(_))) => {
                self.reached.insert((node, Hash::of(body)));
            }
            Some(Heard::Votes(bracha::Message::Echo(vote))) => {
                self.votes.hear(node, from, (Vote::Echo, sight::slot(vote.lot), vote.digest));
            }
            Some(Heard::Votes(bracha::Message::Ready(vote))) => {
                self.votes.hear(node, from, (Vote::Ready, sight::slot(vote.lot), vote.digest));
            }
            _ => {}
        }
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
            Seen::Frame(frame) if honest => self.reaches((node, frame.from.0), &frame.body),
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
        match moment.seen {
            Seen::Durable(lsn) => {
                let is_due = |(of, at, _): &mut (u32, u64, Vec<_>)| *of == node && *at <= *lsn;
                let due: Vec<_> = self.delivering.extract_if(.., is_due).collect();
                let mut book = self.book.borrow_mut();
                let delivered = book.delivered.entry(node).or_default();
                due.into_iter().for_each(|(.., lines)| delivered.extend(lines));
                drop(book);
                self.endorsed(node, *lsn)
            }
            _ => Ok(()),
        }
    }

    /// What a member endorsed may leave it now: what it told of the same records was heard.
    fn endorsed(&mut self, node: u32, until: u64) -> Verdict {
        let is_due = |(of, lsn, ..): &mut (u32, u64, Hash, Vec<u32>)| *of == node && *lsn <= until;
        let due: Vec<_> = self.endorsing.extract_if(.., is_due).collect();
        due.iter().try_for_each(|(_, _, batch, except)| self.backed(node, *batch, except))
    }

    /// Compares the book in a snapshot of a member that runs with its reckoning.
    ///
    /// # Errors
    /// What [`Reckoning::meet`] finds.
    pub fn compare(&mut self, node: NodeId, snapshot: &[Bytes]) -> Result<(), Violation> {
        let state = sight::whole_state(self.profile, snapshot);
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

    /// What a member has the certificate of, that comes next in its log and has not settled, though nothing keeps it: A-L1, and
    /// A-L5 where what is not paid for is rejected.
    #[must_use]
    pub fn stuck(&self, node: u32) -> Option<(&'static str, String)> {
        let book = self.book.borrow();
        let (reckoning, delivered) = (book.reckonings.get(&node)?, book.delivered.get(&node)?);
        let is_due = |id: &EntryId, digest: &Hash| {
            let purse = reckoning.purse(id.spender)?;
            let entry = self.texts.get(digest).filter(|_| id.n == purse.sequence + 1)?;
            let ready = match self.profile {
                Profile::II => reckoning.check_place(entry).is_ok(),
                Profile::I | Profile::Funded => reckoning.check(entry).is_ok(),
            };
            ready.then_some(())
        };
        let mut all = delivered.iter().filter(|(id, digest)| is_due(id, digest).is_some());
        let checker = if self.profile == Profile::II { "A-L5" } else { "A-L1" };
        all.next().map(|(id, _)| (checker, format!("{id:?} is certified at member {node} and waits")))
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

//! The representative: orders of this node's customers become entries, entries become batches (specification, section 4.2).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use synod_crypto::{Hash, PublicKey};
use synod_ledger::{AccountId, Code, Entry, EntryId, Flags, Kind, Opening, Owner, Units};
use synod_machine::broadcast::{Except, Lot, Offer, Read};
use synod_machine::{Event, Machine, Turn, planted};
use synod_wire::{Blob, Bytes, Wire};

use super::again::Offers;
use super::lane::Batch;
use super::names::Names;
use super::receipts::Own;
use super::{Carrier, Replica, compute, keep};
use crate::batch::{Content, Line, OPENINGS_MAX, Opened};
use crate::config::Parameters;
use crate::dependency::With;
use crate::job::Work;
use crate::ledger::Authority;
use crate::trace::Rule;
use crate::words::{Draft, Output, Promise, Refusal, Timer};

/// When a user over a bound is to try again, in ms.
pub(super) const RETRY_MS: u32 = 50;
/// Batches of new orders that wait at most.
const WAITING_BATCHES: u32 = 4;
/// Bytes that what an entry is backed with takes in a batch beside the dependencies.
const BACKING_BYTES: usize = 16;
/// Owners' signatures on orders that are checked at once.
const CHECKED_MAX: usize = 1_024;
/// Entries of a batch, at least, and half of one as well, behind which the next one is not sent at once.
const BUSY: usize = 128;
/// How many entries before it is needed a name is asked for.
pub(super) const AHEAD: usize = 8;
/// Batches under way while which an entry waits for others.
const FLIGHTS: u64 = 2;

/// An entry that waits to be broadcast.
#[derive(Clone, Debug)]
struct Waiting {
    line: Line,
    /// Its digest without what it is backed with.
    digest: Hash,
    bytes: usize,
}

/// What waits to be broadcast, and what became of what was.
#[derive(Clone, Debug, Default)]
pub(super) struct Desk {
    /// Oldest first, each with its plain digest and the bytes that it takes.
    lines: VecDeque<Waiting>,
    bytes: usize,
    /// What owners signed and nobody has checked, oldest first, with its ticket and the owner's key.
    unchecked: VecDeque<(u64, Line, PublicKey)>,
    /// How many of those that came before it are being checked.
    checking: usize,
    openings: Vec<Opening>,
    is_building: bool,
    is_armed: bool,
    /// Whether the last batch was of many: the next one waits for others then, as long as [`Parameters::batch_wait`] lets it.
    is_busy: bool,
    /// Entries that the user does not keep yet, by their payers' names for them, and which of them no record holds.
    names: Names,
    /// Admitted entries that waited for money when they came, and have not settled (profile I).
    queued: BTreeSet<EntryId>,
    pub(super) own: BTreeMap<u64, Own>,
    pub(super) offers: Offers,
}

impl Desk {
    /// That of a registrar of a shard.
    pub(super) fn of(shard: u16, registrar: u32) -> Self {
        Self { names: Names::of(shard, registrar), ..Self::default() }
    }

    /// Orders that are taken now: four batches wait at most.
    pub(super) fn room(&self, parameters: &Parameters) -> u32 {
        parameters.batch_max.saturating_mul(WAITING_BATCHES).saturating_sub(self.count())
    }

    /// Whether an entry may be offered again now: new orders leave a batch to those.
    pub(super) fn has_room_again(&self, parameters: &Parameters) -> bool {
        self.count() < parameters.batch_max.saturating_mul(WAITING_BATCHES.saturating_add(1))
    }

    fn count(&self) -> u32 {
        let unchecked = self.unchecked.len() + self.checking;
        u32::try_from(self.lines.len() + self.openings.len() + unchecked).unwrap_or(u32::MAX)
    }

    /// What is to be checked next, once what was is.
    fn next_unchecked(&mut self) -> Option<Vec<(u64, Line, PublicKey)>> {
        if self.checking > 0 || self.unchecked.is_empty() {
            return None;
        }
        self.checking = self.unchecked.len().min(CHECKED_MAX);
        Some(self.unchecked.drain(..self.checking).collect())
    }

    /// Whether owners' signatures are being checked.
    pub(super) const fn is_checking(&self) -> bool {
        self.checking > 0
    }

    /// The place of whatever its payer calls as this entry: a name of one payer is none of another's.
    pub(super) fn known(&self, entry: &Entry) -> Option<EntryId> {
        self.names.known(entry.id.spender, entry.transfer)
    }

    /// Keeps the payer's name of an entry until the user does, or another entry settles in its place.
    pub(super) fn name(&mut self, entry: &Entry) {
        self.names.put(entry.id, entry.transfer, false);
    }

    /// Has the names of an account brought nearer, which are looked at soon.
    pub(super) fn near(&self, account: AccountId) {
        self.names.near(account);
    }

    /// A place is taken for good. The name of what was admitted there stays taken until the user keeps the entry, and is free if
    /// another entry has the place.
    pub(super) fn settled(&mut self, entry: &Entry) {
        self.offers.remove(entry.id);
        self.queued.remove(&entry.id);
        match self.names.name(entry.id) {
            Some(name) if name == entry.transfer => self.names.record(entry.id),
            Some(_) => self.names.remove(entry.id),
            None => {}
        }
    }

    /// The user keeps what settled in a place, and knows its name.
    pub(super) fn free(&mut self, id: EntryId) {
        self.names.remove(id);
    }

    /// How many entries wait for money.
    pub(super) fn queued_count(&self) -> u32 {
        u32::try_from(self.queued.len()).unwrap_or(u32::MAX)
    }

    /// These wait for money.
    pub(super) fn queue(&mut self, ids: impl IntoIterator<Item = EntryId>) {
        self.queued.extend(ids);
    }

    /// Whether a batch is being put together.
    pub(super) const fn is_building(&self) -> bool {
        self.is_building
    }

    fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.openings.is_empty()
    }

    fn push(&mut self, waiting: Waiting) {
        self.bytes += waiting.bytes;
        self.lines.push_back(waiting);
    }

    /// Whether admitted entries of accounts of this one's registrar are in no record.
    pub(super) fn has_unrecorded(&self, of: AccountId) -> bool {
        self.names.has_fresh(of)
    }

    /// Takes out the admitted entries of these logs that no record holds yet.
    pub(super) fn unrecorded(&mut self, of: &BTreeSet<AccountId>) -> Vec<EntryId> {
        self.names.take_fresh(of)
    }

    /// As much as one batch holds, oldest first; what is offered again may have come behind later entries of its log, so they are
    /// put in order. `bytes` are taken by something else.
    fn take(&mut self, parameters: &Parameters, mut bytes: usize) -> Content {
        let most = usize::try_from(parameters.batch_bytes).unwrap_or(usize::MAX);
        let lines_max = usize::try_from(parameters.batch_max).unwrap_or(usize::MAX);
        let opened = self.openings.iter().take(OPENINGS_MAX).take_while(|opening| {
            bytes += opening.encode().len();
            bytes <= most
        });
        let opened = opened.count();
        let lines = self.lines.iter().take(lines_max).take_while(|waiting| {
            bytes += waiting.bytes;
            bytes <= most
        });
        let lines = lines.count();
        self.is_busy = lines >= BUSY.max(lines_max / 2);
        let gone: usize = self.lines.iter().take(lines).map(|waiting| waiting.bytes).sum();
        let mut taken: Vec<Waiting> = self.lines.drain(..lines).collect();
        taken.sort_by_cached_key(|waiting| waiting.line.entry.id);
        self.bytes = self.bytes.saturating_sub(gone);
        let openings = self.openings.drain(..opened).collect();
        let (lines, digests) = taken.into_iter().map(|Waiting { line, digest, .. }| (line, digest)).unzip();
        Content { openings, lines, digests, ..Content::default() }
    }

    pub(super) fn bytes(&self) -> u64 {
        let lines = self.lines.len() * 2 * size_of::<Waiting>() + self.openings.len() * size_of::<Opening>();
        let unchecked = (self.unchecked.len() + self.checking) * 2 * size_of::<(u64, Line, PublicKey)>();
        let queued = 2 * 2 * self.queued.len() * size_of::<EntryId>();
        let own = self.own.values().map(Own::bytes).sum::<u64>();
        (lines + unchecked + queued) as u64 + self.names.bytes() + self.offers.bytes() + own
    }
}

/// Bytes that [`Desk::queue`] can take.
pub(super) fn queue_bytes_max(parameters: &Parameters) -> u64 {
    2 * u64::from(parameters.unfunded_max) * size_of::<EntryId>() as u64
}

/// Whether somebody pays himself without saying that it is meant.
pub(super) fn is_self_payment(entry: &Entry) -> bool {
    !matches!(entry.kind, Kind::Resolve { .. })
        && !entry.flags.has(Flags::ALLOW_SELF)
        && entry.names().any(|account| account == entry.id.spender)
}

impl<B: Carrier> Replica<B> {
    /// An order of a customer of this institution: it gets the next place of its log (Listing 2).
    pub(super) fn on_order(&mut self, ticket: u64, draft: Draft, turn: &mut Turn<'_, Self>) {
        if let Some(entry) = self.entry(ticket, draft, turn) {
            let measured = self.digests.measured(&entry);
            self.on_entry(ticket, entry, measured, turn);
        }
    }

    /// An entry that its owner signed. Its signature is checked with those of all that came while others' were.
    pub(super) fn on_signed_order(&mut self, ticket: u64, line: Line, turn: &mut Turn<'_, Self>) {
        match self.ledger.owner(line.entry.id) {
            Some(Owner::SelfSigned(_) | Owner::Distilled { .. }) if self.room() == 0 => {
                refuse(ticket, Refusal::Busy(RETRY_MS), turn);
            }
            Some(Owner::SelfSigned(key) | Owner::Distilled { single: key, .. }) => {
                self.desk.unchecked.push_back((ticket, line, key));
                self.check_orders(turn);
            }
            Some(Owner::Custodial(_)) => refuse(ticket, Refusal::Ledger(Code::Unauthorized), turn),
            None => refuse(ticket, Refusal::Ledger(self.ledger.unknown(line.entry.id.spender)), turn),
        }
    }

    fn check_orders(&mut self, turn: &mut Turn<'_, Self>) {
        if let Some(orders) = self.desk.next_unchecked() {
            compute(turn, Work::Admit { view: Arc::clone(&self.config.view), orders });
        }
    }

    pub(super) fn on_admitted(
        &mut self,
        orders: Vec<(u64, Line, Option<PublicKey>)>,
        turn: &mut Turn<'_, Self>,
    ) {
        self.desk.checking = 0;
        for (ticket, line, key) in orders {
            match key {
                Some(_) => {
                    let measured = self.digests.measured(&line.entry);
                    self.admit((ticket, key), line, measured, turn);
                }
                None => refuse(ticket, Refusal::Ledger(Code::Unauthorized), turn),
            }
        }
        self.check_orders(turn);
        self.consider_tree(turn);
    }

    /// Takes an entry, if this replica may endorse it. Its plain digest is this, and its encoding so long.
    pub(super) fn admit(
        &mut self,
        (ticket, key): (u64, Option<PublicKey>),
        line: Line,
        (plain, length): (Hash, usize),
        turn: &mut Turn<'_, Self>,
    ) {
        if let Some(known) = self.desk.known(&line.entry) {
            return refuse(ticket, Refusal::Exists(known), turn);
        }
        if self.feed.is_full() || self.room() == 0 || self.is_behind {
            return refuse(ticket, Refusal::Busy(RETRY_MS), turn);
        }
        if is_self_payment(&line.entry) {
            return refuse(ticket, Refusal::Ledger(Code::SelfPayment), turn);
        }
        // What is signed keeps its place, whatever came in since.
        if key.is_none() && self.leaves_money(&line.entry) {
            return refuse(ticket, Refusal::Ledger(Code::CloseNotEmpty), turn);
        }
        let (digest, with) = self.back(&line, plain);
        let id = line.entry.id;
        let is_settled = self.book().account(id.spender).is_some_and(|account| id.n <= account.sequence());
        let authority = Authority { lane: self.me(), key };
        if !is_settled && self.has_no_queue(&line.entry) {
            return refuse(ticket, Refusal::Busy(RETRY_MS), turn);
        }
        let profile = self.config.parameters.profile;
        if profile.credits() && !is_settled && !self.can_pay(&line.entry, with.as_ref()) {
            return refuse(ticket, Refusal::Ledger(Code::InsufficientFunds), turn);
        }
        let is_funded = !profile.is_whole() || self.ledger.is_funded(&line.entry);
        match self.ledger.accept(&line, digest, authority) {
            Ok(()) if is_settled => refuse(ticket, Refusal::Exists(id), turn),
            Ok(()) => {
                turn.applied(Rule::Admit);
                turn.output(Output::Accepted { ticket, entry: Arc::clone(&line.entry), digest });
                if !is_funded {
                    turn.applied(Rule::Queue);
                    turn.output(Output::Queued { ticket });
                    self.desk.queue([id]);
                }
                self.desk.names.put(id, line.entry.transfer, true);
                self.commit_backing(id, digest, with.as_ref());
                if !self.distils(&line, digest) {
                    self.put_in_queue(line, (plain, length));
                    self.consider_flush(turn);
                }
            }
            Err(Code::SequenceGap) if key.is_none() => refuse(ticket, Refusal::Busy(RETRY_MS), turn),
            Err(code) => {
                if code == Code::SequenceConflict {
                    self.show(&line, key, turn);
                }
                refuse(ticket, Refusal::Ledger(code), turn);
            }
        }
    }

    /// Puts an open entry into the queue, whose plain digest is this and whose encoding is so long.
    pub(super) fn put_in_queue(&mut self, line: Line, (digest, length): (Hash, usize)) {
        let with = self.with_of(&line);
        let backing = with.as_ref().map_or(0, |with| with.length());
        let bytes = length + line.auth.length() + backing + BACKING_BYTES * usize::from(with.is_some());
        self.desk.push(Waiting { line, digest, bytes });
    }

    /// What an open entry is backed with.
    fn with_of(&self, line: &Line) -> Option<With> {
        if !self.config.parameters.profile.credits() {
            return None;
        }
        let slot = self.ledger.slot(line.entry.id).filter(|_| !planted!(A19))?;
        self.ledger.backing(line.entry.id, slot.digest).cloned()
    }

    /// Opens an account of this node's own registrar.
    pub(super) fn on_open(&mut self, ticket: u64, mut opening: Opening, turn: &mut Turn<'_, Self>) {
        let (me, shard) = (self.me(), self.config.view.context.shard);
        let cap = self.config.caps.get(&u32::from(me)).copied().unwrap_or(Units(0));
        let accounts_max = self.config.parameters.accounts_max;
        if self.room() == 0 || self.is_behind {
            return refuse(ticket, Refusal::Busy(RETRY_MS), turn);
        }
        if !self.has_owner(&opening) {
            return refuse(ticket, Refusal::Ledger(Code::Unsupported), turn);
        }
        let lane = self.lane_mut(me);
        let next = lane.locals.saturating_add(1);
        if opening.id.local == 0 {
            opening.id.local = next;
        }
        let why = match opening.id {
            id if id.shard != shard => Some(Code::WrongShard),
            id if id.registrar != u32::from(me) => Some(Code::Unauthorized),
            id if id.local < next => Some(Code::SequenceConflict),
            id if id.local > next => Some(Code::SequenceGap),
            id if id.local > accounts_max => Some(Code::Busy),
            _ if !lane.may_open((shard, me), std::slice::from_ref(&opening), (cap, accounts_max)) => {
                Some(Code::LimitNotCosigned)
            }
            _ => None,
        };
        if let Some(code) = why {
            return refuse(ticket, Refusal::Ledger(code), turn);
        }
        lane.grant(std::slice::from_ref(&opening));
        turn.output(Output::Numbered { ticket, account: opening.id });
        self.desk.openings.push(opening);
        self.consider_flush(turn);
    }

    /// Sends what waits: at once while few batches are under way or a batch is full, and else after a while. Behind a batch of many
    /// the next one waits as well, so that under load a signature is for as many as there can be.
    pub(super) fn consider_flush(&mut self, turn: &mut Turn<'_, Self>) {
        if self.distillery.is_ready() {
            self.flush(turn);
        }
        if self.desk.is_empty() && !self.has_imports() {
            return;
        }
        let parameters = &self.config.parameters;
        let flights = self.lanes.get(&self.me()).map_or(0, |lane| lane.judged.saturating_sub(lane.frontier));
        let is_full = u32::try_from(self.desk.lines.len())
            .map_or(true, |lines| lines >= parameters.batch_max)
            || u32::try_from(self.desk.bytes).map_or(true, |bytes| bytes >= parameters.batch_bytes);
        if is_full || flights < FLIGHTS && !self.desk.is_busy {
            self.flush(turn);
        } else if !self.desk.is_armed {
            self.desk.is_armed = true;
            turn.arm(Timer::Flush, parameters.batch_wait);
        }
    }

    pub(super) fn on_flush_due(&mut self, turn: &mut Turn<'_, Self>) {
        self.desk.is_armed = false;
        self.flush(turn);
    }

    fn flush(&mut self, turn: &mut Turn<'_, Self>) {
        let must_wait = self.is_installing() || self.is_behind || self.desk.is_building;
        if must_wait || self.broadcast.get().room() == 0 {
            return;
        }
        if let Some(content) = self.take_distilled(turn) {
            return self.build(content, turn);
        }
        let (imports, bytes) = self.take_imports();
        if self.desk.is_empty() && imports.is_empty() {
            return;
        }
        let content = self.desk.take(&self.config.parameters, bytes);
        self.build(Content { imports, ..content }, turn);
    }

    fn build(&mut self, content: Content, turn: &mut Turn<'_, Self>) {
        let (source, shard) = (self.me(), self.config.view.context.shard);
        let lane = self.lane_mut(source);
        let (lot, prev) = (Lot { source, sequence: lane.judged.saturating_add(1) }, lane.head);
        self.desk.is_building = true;
        let has_credits = self.config.parameters.profile.credits();
        let withs = has_credits.then(|| content.lines.iter().map(|line| self.with_of(line)).collect());
        compute(turn, Work::Build { shard, lot, prev, content, withs });
    }

    /// A batch is put together. What a certificate of another entry displaced meanwhile stays out.
    pub(super) fn on_built(&mut self, opened: &Arc<Opened>, payload: Bytes, turn: &mut Turn<'_, Self>) {
        self.desk.is_building = false;
        // As they were admitted: what owners signed together of all of them is good for none of a part.
        let slot = |(_, line, digest): (u32, &Line, Hash)| {
            self.ledger.slot(line.entry.id).filter(|slot| slot.digest == digest).map(|slot| slot.line.clone())
        };
        let held: Vec<Line> = opened.lines().filter_map(slot).collect();
        if held.len() < opened.batch.lines.len() {
            let gone = |(_, line, digest): &(u32, &Line, Hash)| !self.holds(line, *digest);
            let gone: Vec<EntryId> = opened.lines().filter(gone).map(|(_, line, _)| line.entry.id).collect();
            gone.into_iter().for_each(|id| self.desk.offers.carry(id, None));
            let (openings, imports) = (opened.batch.openings.to_vec(), opened.batch.beside.imports.to_vec());
            if held.is_empty() && openings.is_empty() && imports.is_empty() {
                return self.consider_flush(turn);
            }
            return self.build(Content { openings, lines: held, imports, ..Content::default() }, turn);
        }
        let (lot, digest) = (opened.lot(), opened.digest);
        let blob = Blob::try_from(payload.clone()).expect("a batch is cut to the configured size");
        let lane = self.lane_mut(lot.source);
        (lane.judged, lane.head) = (lot.sequence, digest);
        let endorsed = Some(Except::default());
        lane.batches
            .insert(lot.sequence, Batch { endorsed, opened: Some(Arc::clone(opened)), ..Batch::new(digest) });
        self.desk.own.insert(lot.sequence, Own::new(Arc::clone(opened)));
        for (at, line) in opened.batch.lines.iter().enumerate() {
            let ahead = opened.batch.lines.get(at.saturating_add(AHEAD));
            ahead.into_iter().for_each(|line| self.desk.near(line.entry.id.spender));
            self.desk.names.record(line.entry.id);
            self.desk.offers.carry(line.entry.id, Some(lot.sequence));
        }
        keep(turn, Promise::Endorsed { lot, except: Except::default(), batch: Some(blob) });
        self.carry_imports(opened, turn);
        let (sequence, read) = (lot.sequence, Read(Arc::clone(opened) as _));
        self.tell(Event::Input(Offer::BroadcastRead { sequence, payload, digest, read }), turn);
        self.consider_flush(turn);
    }

    /// Whether an entry that was accepted is still: one that settled meanwhile by another's batch needs no batch any more.
    pub(super) fn holds(&self, line: &Line, digest: Hash) -> bool {
        self.ledger.slot(line.entry.id).is_some_and(|slot| slot.digest == digest)
    }
}

pub(super) fn refuse<B: Carrier>(ticket: u64, why: Refusal, turn: &mut Turn<'_, Replica<B>>) {
    turn.output(Output::Refused { ticket, why });
}

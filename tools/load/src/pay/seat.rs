//! One replica with its customers, on a thread of its own.

use super::audit::{Books, number};
use super::bank::{Bank, Place};
use super::channel::Carries;
use super::hosting::{Carried, Hosting, Word};
use super::orders::{Drawn, Orders, crosses};
use super::owners::AHEAD;
use super::reference::available;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};
use synod_astro::{Draft, Input, Invitation, Level, Line, Output, Refusal, Replica, SignedTogether};
use synod_crypto::{Keys, Scope};
use synod_ledger::{Code, Entry, EntryId};
use synod_machine::{Job as _, Machine, Span, To, Unrecoverable};
use synod_quorum::{Epoch, NodeId};

type Job<B> = <Replica<B> as Machine>::Job;

/// A frame and its sender's number; with the receiver's own number it says that its journal told something.
pub(super) type Frame = (usize, Carried);

/// Orders given between two looks at what came, unless a batch has more.
const ORDERS: u32 = 512;
/// Orders that are given together.
const TOGETHER: usize = 256;
/// Frames taken between two looks at the orders.
const FRAMES: usize = 32;
/// Settled entries between two words that they are kept.
const KEPT_EVERY: u64 = 8_192;
/// How long nothing is looked at where nothing happens.
const IDLE: Duration = Duration::from_millis(1);

/// What the replicas are to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Phase {
    /// Customers get their money.
    Fund,
    /// Customers pay.
    Pay,
    /// What is on its way settles.
    Drain,
    /// The end.
    Stop,
}

const FUND: u8 = Phase::Fund as u8;
const PAY: u8 = Phase::Pay as u8;

/// What one replica shows while it runs.
#[derive(Debug, Default)]
pub(super) struct Shown {
    /// The phase it is in.
    pub(super) phase: AtomicU8,
    /// Whether its customers signed what they sign before the clock runs.
    pub(super) ready: AtomicBool,
    /// Orders of its own customers that have their place.
    pub(super) accepted: AtomicU64,
    /// Orders refused because too much was on its way.
    pub(super) busy: AtomicU64,
    /// Payments of its own customers that have settled here.
    pub(super) own: AtomicU64,
    /// All that has settled here.
    pub(super) all: AtomicU64,
    /// Entries of its own customers whose place no other can have.
    pub(super) certified: AtomicU64,
    /// Entries of its own customers that f + 1 replicas settled.
    pub(super) settled: AtomicU64,
    /// Those that a quorum settled.
    pub(super) stable: AtomicU64,
    /// Bytes of the frames sent.
    pub(super) bytes: AtomicU64,
    /// Signatures made.
    pub(super) signed: AtomicU64,
    /// Signatures checked, one by one or many at once.
    pub(super) checked: AtomicU64,
    /// Signatures of many owners together that were checked, or put together and then checked.
    pub(super) sums: AtomicU64,
    /// Transactions of its own customers that were begun.
    pub(super) transactions: AtomicU64,
    /// Those that pay somebody in another shard.
    pub(super) crossing: AtomicU64,
    /// Orders refused because there was too little money.
    pub(super) poor: AtomicU64,
    /// Entries whose arrival in other shards nobody confirmed; told once the clock has stopped, as the next two are.
    pub(super) away: AtomicU64,
    /// Units that left for other shards.
    pub(super) left: AtomicU64,
    /// Units that came from them.
    pub(super) came: AtomicU64,
}

impl Shown {
    /// Where entries of its own customers are counted that reached a level.
    const fn counter(&self, level: Level) -> Option<&AtomicU64> {
        match level {
            Level::Accepted => None,
            Level::Certified => Some(&self.certified),
            Level::Settled => Some(&self.settled),
            Level::Stable => Some(&self.stable),
        }
    }
}

/// Where orders of customers come from.
enum Customers {
    /// Their institution draws them.
    Custodial(Orders),
    /// They sign them.
    Signing(Signing),
}

/// What customers signed.
struct Signing {
    sheets: Receiver<Vec<Line>>,
    /// The one that is read.
    sheet: std::vec::IntoIter<Line>,
    /// Given and not answered, by ticket.
    asked: BTreeMap<u64, Line>,
    /// Found no place: they go first, and those before them in their logs before them.
    again: BTreeMap<EntryId, Line>,
}

impl Signing {
    fn next(&mut self, shown: &Shown) -> Option<Line> {
        self.again.pop_first().map(|(_, line)| line).or_else(|| {
            let line = self.sheet.next().or_else(|| {
                self.sheet = self.sheets.try_recv().ok()?.into_iter();
                self.sheet.next()
            })?;
            let is_crossing = crosses(line.entry.id.spender.shard, &line.entry.kind);
            shown.transactions.fetch_add(1, Ordering::Release);
            shown.crossing.fetch_add(u64::from(is_crossing), Ordering::Release);
            Some(line)
        })
    }
}

/// What is left of a replica.
#[derive(Debug, Default)]
pub(super) struct Left {
    pub(super) books: Books,
    /// Orders refused for another reason, peers blamed, evidence shown: none in a sound run.
    pub(super) faults: u64,
}

/// A replica, its customers, its links.
pub(super) struct Seat<'a, B: Carries> {
    bank: &'a Bank,
    at: Place,
    number: usize,
    host: Hosting<B>,
    keys: Keys,
    /// How this member calls all of them, by number.
    names: Vec<NodeId>,
    links: Vec<Sender<Frame>>,
    inbox: Receiver<Frame>,
    shown: &'a Shown,
    funding: VecDeque<Draft>,
    /// Funding orders without an answer, by ticket.
    funding_asked: BTreeMap<u64, Draft>,
    customers: Customers,
    transfer: u128,
    ticket: u64,
    /// Orders that were given and not refused.
    given: u64,
    /// Orders of which the machine has not told whether it takes them: behind a journal that comes later.
    asked: u64,
    answered: u64,
    position: u64,
    kept: u64,
    fired: Instant,
    /// Empty between looks at what the machine says: its memory is used again.
    outputs: Vec<Output>,
    left: Left,
}

impl<'a, B: Carries> Seat<'a, B> {
    pub(super) fn new(
        bank: &'a Bank,
        at: Place,
        (links, inbox): (Vec<Sender<Frame>>, Receiver<Frame>),
        (shown, lines): (&'a Shown, Option<Receiver<Vec<Line>>>),
    ) -> Result<Self, Unrecoverable> {
        let customers = match lines {
            Some(sheets) => Customers::Signing(Signing {
                sheets,
                sheet: Vec::new().into_iter(),
                asked: BTreeMap::new(),
                again: BTreeMap::new(),
            }),
            None => Customers::Custodial(Orders::of(bank, at)),
        };
        let number = bank.number(at);
        let bell = links.get(number).ok_or_else(|| Unrecoverable("a member without a link".to_owned()))?;
        Ok(Self {
            bank,
            at,
            number,
            host: Hosting::open(bank, at, bell.clone())?,
            keys: Bank::keys(at),
            names: bank.places().map(|of| bank.node(at.shard, of)).collect(),
            links,
            inbox,
            shown,
            funding: bank.funding(at).into(),
            funding_asked: BTreeMap::new(),
            customers,
            transfer: 1 << 64,
            ticket: 0,
            given: 0,
            asked: 0,
            answered: 0,
            position: 0,
            kept: 0,
            fired: Instant::now(),
            outputs: Vec::new(),
            left: Left::default(),
        })
    }

    /// Runs until it is told to stop.
    pub(super) fn run(mut self, phase: &AtomicU8) -> Left {
        loop {
            let now = phase.load(Ordering::Acquire);
            if now == Phase::Stop as u8 {
                break;
            }
            let given = self.give(now);
            self.hear(!given);
            if self.fired.elapsed() >= IDLE {
                self.fired = Instant::now();
                self.host.fire();
            }
            self.settle();
            if now == Phase::Drain as u8 {
                self.show_borders();
            }
            if now != Phase::Drain as u8 || self.asked == 0 {
                self.shown.phase.store(now, Ordering::Release);
            }
        }
        self.left()
    }

    /// The same once, at a time that is told.
    pub(super) fn look(&mut self, phase: Phase, at: Span) {
        self.host.tell_time(at);
        self.give(phase as u8);
        self.hear(false);
        self.host.fire();
        self.settle();
    }

    /// What is left of it at the end.
    pub(super) fn left(mut self) -> Left {
        self.left.faults += self.host.blamed();
        let machine = self.host.machine();
        self.left.books = Books::of(machine.book(), machine.unspent());
        let Self { host, mut left, .. } = self;
        left.faults += u64::from(!host.close());
        left
    }

    /// Tells what is between shards.
    fn show_borders(&self) {
        if self.bank.plan.shards == 1 {
            return;
        }
        let machine = self.host.machine();
        let sum = |totals: &mut dyn Iterator<Item = &synod_ledger::Total>| {
            u64::try_from(totals.map(|total| number(*total)).sum::<u128>()).unwrap_or(u64::MAX)
        };
        let left = sum(&mut machine.book().exported().map(|(_, total)| total));
        let came = sum(&mut machine.book().imported().map(|(_, total)| total));
        let away = u64::try_from(machine.unconfirmed()).unwrap_or(u64::MAX);
        for (shown, told) in [(&self.shown.left, left), (&self.shown.came, came), (&self.shown.away, away)] {
            shown.store(told, Ordering::Release);
        }
    }

    /// Orders while there is room; whether there were any.
    fn give(&mut self, phase: u8) -> bool {
        let open = self.given.saturating_sub(self.answered);
        let places = u64::from(self.bank.plan.inflight).saturating_sub(open);
        let places = u64::from(self.host.room().min(self.bank.plan.batch.max(ORDERS))).min(places);
        let (mut some, mut orders) = (false, Vec::new());
        for _ in 0..places {
            let Some(input) = self.order(phase, self.ticket + 1) else { break };
            self.given += 1;
            self.asked += 1;
            self.ticket += 1;
            some = true;
            match input {
                Input::Order { ticket, draft } => orders.push((ticket, draft)),
                other => self.host.input(other),
            }
            if orders.len() == TOGETHER {
                self.host.input(Input::Orders(std::mem::take(&mut orders)));
            }
        }
        if !orders.is_empty() {
            self.host.input(Input::Orders(orders));
        }
        some
    }

    /// The next order of a phase, if there is one.
    fn order(&mut self, phase: u8, ticket: u64) -> Option<Input> {
        match (phase, &mut self.customers) {
            (FUND, _) => {
                let draft = self.funding.pop_front()?;
                self.funding_asked.insert(ticket, draft.clone());
                Some(Input::Order { ticket, draft })
            }
            (PAY, Customers::Custodial(orders)) => {
                let mut drawn = Drawn::default();
                let book = self.host.machine().book();
                let has = |id| available(book, id);
                let draft = orders.next((self.bank, self.at), self.transfer + 1, &mut drawn, has);
                self.shown.transactions.fetch_add(drawn.transactions, Ordering::Release);
                self.shown.crossing.fetch_add(drawn.crossing, Ordering::Release);
                self.transfer += 1;
                Some(Input::Order { ticket, draft: draft? })
            }
            (PAY, Customers::Signing(signing)) => {
                // As many as are signed ahead: what is behind a refused entry in its log is refused as well, and waits with it.
                let line = if signing.again.len() < AHEAD {
                    signing.next(self.shown)?
                } else {
                    signing.again.pop_first()?.1
                };
                signing.asked.insert(ticket, line.clone());
                Some(Input::Signed { ticket, line })
            }
            _ => None,
        }
    }

    /// An order of a customer who signs was refused; whether it is given again.
    fn put_back(&mut self, ticket: u64, why: Refusal) -> bool {
        let Customers::Signing(signing) = &mut self.customers else { return false };
        let Some(line) = signing.asked.remove(&ticket) else { return false };
        let is_again = matches!(why, Refusal::Busy(_) | Refusal::Ledger(Code::SequenceGap | Code::Busy));
        if is_again {
            signing.again.insert(line.entry.id, line);
        }
        is_again
    }

    /// Takes frames that came; waits a moment for one where there is nothing else to do.
    fn hear(&mut self, may_wait: bool) {
        let first = if may_wait { self.inbox.recv_timeout(IDLE).ok() } else { None };
        for (from, frame) in first.into_iter().chain(self.inbox.try_iter()).take(FRAMES) {
            if from == self.number {
                continue;
            }
            let is_read = self.names.get(from).is_some_and(|from| self.host.hear(*from, frame));
            self.left.faults += u64::from(!is_read);
        }
    }

    /// Steps the machine and does its jobs until there is nothing to do.
    fn settle(&mut self) {
        loop {
            let (mut jobs, mut outputs) = (Vec::<Job<B>>::new(), std::mem::take(&mut self.outputs));
            let (links, me, shown) = (&self.links, self.number, self.shown);
            let (bank, shard) = (self.bank, self.at.shard);
            self.host.run(|said| match said {
                Word::Send(to, frame) => {
                    let send = |node| {
                        shown.bytes.fetch_add(frame.body.len() as u64, Ordering::Relaxed);
                        let link = links.get(bank.number_of(shard, node));
                        link.into_iter().for_each(|link| drop(link.send((me, frame.clone()))));
                    };
                    match to {
                        // Members of other shards are guests, which no set of members holds.
                        To::Node(node) => send(node),
                        To::Set(set) => set.iter().for_each(send),
                    }
                }
                Word::Output(output) => outputs.push(output),
                Word::Job(job) => jobs.push(job),
            });
            outputs.drain(..).for_each(|output| self.on_output(output));
            self.outputs = outputs;
            if self.position >= self.kept + KEPT_EVERY {
                self.kept = self.position;
                self.host.input(Input::Kept(self.kept));
            } else if jobs.is_empty() {
                return;
            }
            for job in jobs {
                let cost = job.cost();
                self.shown.signed.fetch_add(u64::from(cost.sign), Ordering::Relaxed);
                let checked = u64::from(cost.verify) + u64::from(cost.batch_verify);
                self.shown.checked.fetch_add(checked, Ordering::Relaxed);
                self.shown.sums.fetch_add(u64::from(cost.pairing > 0), Ordering::Relaxed);
                self.host.done(job.run(&self.keys));
            }
        }
    }

    /// All customers who are asked sign: that is the load's, as their other signatures are, and costs an addition each.
    fn sign_together(&mut self, invited: &[Invitation]) {
        let (Some(first), Some(view)) = (invited.first(), self.bank.view(self.at.shard)) else { return };
        let scope = Scope { cluster: view.cluster, epoch: Epoch(0) };
        let shares = Bank::family().under(&scope, &SignedTogether { root: first.root });
        let who: Vec<u32> =
            invited.iter().map(|one| self.bank.relative(self.at, one.leaf.spender.local)).collect();
        for (one, share) in invited.iter().zip(shares.of(&who)) {
            let (number, owner, share) = (one.number, one.leaf.spender, share.to_share());
            self.host.input(Input::Share { number, owner, share });
        }
    }

    fn on_output(&mut self, output: Output) {
        let count_all = |counter: &AtomicU64, all: usize| {
            counter.fetch_add(all as u64, Ordering::Release);
        };
        let count = |counter: &AtomicU64| count_all(counter, 1);
        match output {
            Output::Accepted { ticket, .. } => {
                self.asked = self.asked.saturating_sub(1);
                self.funding_asked.remove(&ticket);
                if let Customers::Signing(signing) = &mut self.customers {
                    signing.asked.remove(&ticket);
                }
                count(&self.shown.accepted);
            }
            Output::Refused { ticket, why } => {
                self.given -= 1;
                self.asked = self.asked.saturating_sub(1);
                // A payment that finds no place is another customer's turn; money that was not handed out is missed for good.
                self.funding.extend(self.funding_asked.remove(&ticket));
                let is_put_back = self.put_back(ticket, why);
                match why {
                    _ if is_put_back => count(&self.shown.busy),
                    Refusal::Busy(_) => count(&self.shown.busy),
                    // Who has paid it meanwhile, or never had it; in profile II, of whom members have yet to say that it was paid.
                    Refusal::Ledger(Code::InsufficientFunds) if self.bank.may_be_poor() => {
                        count(&self.shown.poor);
                    }
                    Refusal::Ledger(_) | Refusal::Exists(_) => self.left.faults += 1,
                }
            }
            Output::Settled { first, entries } => {
                let is_own = |entry: &Entry| entry.id.spender.registrar == u32::from(self.at.id);
                let own = entries.iter().filter(|(entry, _)| is_own(entry)).count();
                self.position = first + entries.len() as u64 - 1;
                self.answered += own as u64;
                count_all(&self.shown.own, own);
                count_all(&self.shown.all, entries.len());
            }
            Output::Imported { first, entries } => self.position = first + entries.len() as u64 - 1,
            Output::Invited(invited) => self.sign_together(&invited),
            Output::Progress { level, entries } => {
                self.shown.counter(level).into_iter().for_each(|counter| count_all(counter, entries.len()));
            }
            // Its representative saw that it is funded.
            Output::Rejected { position, .. } => {
                self.position = position;
                self.left.faults += 1;
            }
            Output::Queued { .. }
            | Output::Numbered { .. }
            | Output::Looked { .. }
            | Output::Checked { .. }
            | Output::Log { .. }
            | Output::Bundles { .. }
            | Output::Lanes { .. }
            | Output::Certified { .. }
            | Output::Receipted(_)
            | Output::CutCertified { .. }
            | Output::Proof { .. }
            | Output::Opened(_) => {}
            // What settled in between is not counted: the figures would lie.
            Output::TwoBatches { .. }
            | Output::CaughtUp { .. }
            | Output::TwoRoots { .. }
            | Output::FalseWitness { .. }
            | Output::Contradiction { .. }
            | Output::Conflict { .. } => {
                self.left.faults += 1;
            }
        }
    }
}

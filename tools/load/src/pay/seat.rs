//! One replica with its customers, on a thread of its own.

use super::bank::{Bank, Draw, payment};
use super::owners::AHEAD;
use crate::host::{Host, Said};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};
use synod_astro::{Batches, Draft, Input, Level, Line, Output, Refusal};
use synod_broadcast::{SignedBroadcast, signed};
use synod_crypto::Keys;
use synod_ledger::{Account, AccountId, Code, EntryId};
use synod_machine::{Event, Job as _, Machine as _, To, Unrecoverable};
use synod_quorum::{NodeId, NodeSet};
use synod_wire::{Bytes, Limits, Wire as _};

type Replica = synod_astro::Replica<SignedBroadcast<Batches>>;
type Message = synod_astro::Message<signed::Message>;
type Job = <Replica as synod_machine::Machine>::Job;

/// A frame and its sender.
pub(super) type Frame = (NodeId, Bytes);

/// Orders given between two looks at what came.
const ORDERS: u32 = 512;
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
}

/// Where orders of customers come from.
enum Customers {
    /// Their institution draws them.
    Custodial(Draw),
    /// They sign them.
    Signing(Signing),
}

/// What customers signed.
struct Signing {
    lines: Receiver<Line>,
    /// Given and not answered, by ticket.
    asked: BTreeMap<u64, Line>,
    /// Found no place: they go first, and those before them in their logs before them.
    again: BTreeMap<EntryId, Line>,
}

impl Signing {
    fn next(&mut self) -> Option<Line> {
        self.again.pop_first().map(|(_, line)| line).or_else(|| self.lines.try_recv().ok())
    }
}

/// What is left of a replica.
#[derive(Debug, Default)]
pub(super) struct Left {
    pub(super) accounts: Vec<(AccountId, Account)>,
    /// Orders refused for another reason, peers blamed, evidence shown: none in a sound run.
    pub(super) faults: u64,
}

/// A replica, its customers, its links.
pub(super) struct Seat<'a> {
    bank: &'a Bank,
    id: u8,
    host: Host<Replica>,
    keys: Keys,
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
    answered: u64,
    position: u64,
    kept: u64,
    fired: Instant,
    /// Empty between looks at what the machine says: its memory is used again.
    outputs: Vec<Output>,
    left: Left,
}

impl<'a> Seat<'a> {
    pub(super) fn new(
        bank: &'a Bank,
        id: u8,
        (links, inbox): (Vec<Sender<Frame>>, Receiver<Frame>),
        (shown, lines): (&'a Shown, Option<Receiver<Line>>),
    ) -> Result<Self, Unrecoverable> {
        let customers = match lines {
            Some(lines) => {
                Customers::Signing(Signing { lines, asked: BTreeMap::new(), again: BTreeMap::new() })
            }
            None => Customers::Custodial(Draw::new(u64::from(id))),
        };
        Ok(Self {
            bank,
            id,
            host: Host::open(NodeId(u32::from(id)), bank.setup(id), true)?,
            keys: Bank::keys(id),
            links,
            inbox,
            shown,
            funding: bank.funding(id).into(),
            funding_asked: BTreeMap::new(),
            customers,
            transfer: 1 << 64,
            ticket: 0,
            given: 0,
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
            self.shown.phase.store(now, Ordering::Release);
        }
        self.left.faults += self.host.blamed;
        let book = self.host.machine().book();
        self.left.accounts = book.accounts().map(|(id, account)| (id, account.clone())).collect();
        self.left
    }

    /// Orders while there is room; whether there were any.
    fn give(&mut self, phase: u8) -> bool {
        let open = self.given.saturating_sub(self.answered);
        let places = u64::from(self.bank.plan.inflight).saturating_sub(open);
        let places = u64::from(self.host.machine().room().min(ORDERS)).min(places);
        let mut some = false;
        for _ in 0..places {
            let Some(input) = self.order(phase, self.ticket + 1) else { break };
            self.given += 1;
            self.ticket += 1;
            some = true;
            self.host.push(Event::Input(input));
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
            (PAY, Customers::Custodial(draw)) => {
                self.transfer += 1;
                Some(Input::Order { ticket, draft: payment(self.bank, self.id, draw, self.transfer) })
            }
            (PAY, Customers::Signing(signing)) => {
                // As many as are signed ahead: what is behind a refused entry in its log is refused as well, and waits with it.
                let line =
                    if signing.again.len() < AHEAD { signing.next()? } else { signing.again.pop_first()?.1 };
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
            match Message::decode(frame, &Limits::default()) {
                Ok(message) => self.host.push(Event::Message { from, message }),
                Err(_) => self.left.faults += 1,
            }
        }
    }

    /// Steps the machine and does its jobs until there is nothing to do.
    fn settle(&mut self) {
        loop {
            let (mut jobs, mut outputs) = (Vec::<Job>::new(), std::mem::take(&mut self.outputs));
            let (links, me, shown) = (&self.links, NodeId(u32::from(self.id)), self.shown);
            self.host.run(|said| match said {
                Said::Send(to, message) => {
                    let frame = message.encode();
                    let to = match to {
                        To::Node(node) => NodeSet::only(node),
                        To::Set(set) => set,
                    };
                    for node in to.iter() {
                        shown.bytes.fetch_add(frame.len() as u64, Ordering::Relaxed);
                        let link = links.get(usize::try_from(node.0).unwrap_or(usize::MAX));
                        link.into_iter().for_each(|link| drop(link.send((me, frame.clone()))));
                    }
                }
                Said::Output(output) => outputs.push(output),
                Said::Job(job) => jobs.push(job),
            });
            outputs.drain(..).for_each(|output| self.on_output(output));
            self.outputs = outputs;
            if self.position >= self.kept + KEPT_EVERY {
                self.kept = self.position;
                self.host.push(Event::Input(Input::Kept(self.kept)));
            } else if jobs.is_empty() {
                return;
            }
            for job in jobs {
                let cost = job.cost();
                self.shown.signed.fetch_add(u64::from(cost.sign), Ordering::Relaxed);
                let checked = u64::from(cost.verify) + u64::from(cost.batch_verify);
                self.shown.checked.fetch_add(checked, Ordering::Relaxed);
                self.host.push(Event::Done(job.run(&self.keys)));
            }
        }
    }

    fn on_output(&mut self, output: Output) {
        let count = |counter: &AtomicU64| {
            counter.fetch_add(1, Ordering::Release);
        };
        match output {
            Output::Accepted { ticket, .. } => {
                self.funding_asked.remove(&ticket);
                if let Customers::Signing(signing) = &mut self.customers {
                    signing.asked.remove(&ticket);
                }
                count(&self.shown.accepted);
            }
            Output::Refused { ticket, why } => {
                self.given -= 1;
                // A payment that finds no place is another customer's turn; money that was not handed out is missed for good.
                self.funding.extend(self.funding_asked.remove(&ticket));
                let is_put_back = self.put_back(ticket, why);
                match why {
                    _ if is_put_back => count(&self.shown.busy),
                    Refusal::Busy(_) => count(&self.shown.busy),
                    Refusal::Ledger(_) | Refusal::Exists(_) => self.left.faults += 1,
                }
            }
            Output::Settled { position, entry, .. } => {
                self.position = position;
                if entry.id.spender.registrar == u32::from(self.id) {
                    self.answered += 1;
                    count(&self.shown.own);
                }
                count(&self.shown.all);
            }
            Output::Progress { level: Level::Certified, .. } => count(&self.shown.certified),
            Output::Progress { level: Level::Settled, .. } => count(&self.shown.settled),
            Output::Progress { level: Level::Stable, .. } => count(&self.shown.stable),
            Output::Progress { .. }
            | Output::Queued { .. }
            | Output::Rejected { .. }
            | Output::Numbered { .. }
            | Output::Looked { .. }
            | Output::Checked { .. }
            | Output::Log { .. }
            | Output::Invited(_)
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

//! The wallet of an account whose owner signs (Listing 1; specification, section 4.1).
//!
//! *What it gives.* It signs one entry for each place of its log, whatever replicas say or do not say, whenever it crashes: a second
//! one would let f replicas and a slow network lock the account. Before it signs, f + 1 replicas say that they would endorse the
//! entry, so that a correct one does, and what that one can fund every correct one can fund later. What is signed is kept first, and
//! then given to the representative, and to the other replicas in turn, until it has settled. A deadline of the caller ends the
//! caller's wait and nothing else.
//!
//! *Whom it believes.* No single replica. An entry is [`Level::Settled`](crate::Level) once f + 1 replicas state the log's end at it or
//! behind it, by the digest of an entry that this wallet signed, and `Stable` once a quorum does.
//!
//! *Without its file* it reads the log of a quorum that states the same end, and takes over open entries that this quorum shows with the
//! owner's signature. An entry that was on its way then can contradict the next one, so somebody has to accept that risk.
//!
//! *Bounds.* [`OPEN_MAX`] open entries, [`ORDERS_MAX`] orders that wait, and per replica the log that it stated last.

mod entries;
mod job;
mod logs;
mod orders;
mod recover;
mod words;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use synod_crypto::{Hash, PublicKey};
use synod_ledger::{AccountId, Entry, EntryId, Kind};
use synod_machine::broadcast::View;
use synod_machine::{Bounded, Event, Machine, Span, Turn};
use synod_quorum::{NodeId, NodeSet, Quorums};

use crate::batch::Line;
use crate::together::Invitation;
use crate::words::{Draft, Level};
pub use job::{Done, Job};
use logs::Place;
use orders::{Asked, Order};
pub use words::{Answer, Input, Log, OPEN_MAX, Output, Record, Refusal, Stop, Timer, Word};

/// Most orders that wait for their turn.
pub const ORDERS_MAX: usize = 64;

/// What a wallet needs to know.
#[derive(Clone, Debug)]
pub struct Config {
    /// The members, their number, the cluster.
    pub view: Arc<View>,
    /// Whose log.
    pub account: AccountId,
    /// The key that the owner signs with from now on.
    pub key: PublicKey,
    /// The member to whom entries go first, while no record says another.
    pub representative: u8,
    /// Whether the account is taken over where there is no record of it.
    pub accepts_lock_risk: bool,
    /// When something is said again; doubles up to `resend_max`.
    pub resend: Span,
    /// See there.
    pub resend_max: Span,
}

/// An entry that was signed.
#[derive(Clone, Debug)]
struct Signed {
    line: Line,
    digest: Hash,
    /// Who waits for it, and for what.
    caller: Option<(u64, Level)>,
    level: Level,
    /// Why a replica did not take it.
    why: Option<u16>,
    /// Whether whoever was given it last said that it took it.
    is_taken: bool,
}

impl Signed {
    const fn new(line: Line, digest: Hash, caller: Option<(u64, Level)>) -> Self {
        Self { line, digest, caller, level: Level::Accepted, why: None, is_taken: false }
    }
}

/// What it may do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// How far the log is has not been read.
    Reading,
    Ready,
    Stopped(Stop),
}

/// See the module.
#[derive(Debug)]
pub struct Wallet {
    config: Config,
    quorums: Quorums,
    stage: Stage,
    /// Whether there is a record.
    has_file: bool,
    representative: u8,
    /// Everything up to here is stable, or was settled when the account was taken over.
    base: Place,
    /// What was signed above it: each place has one.
    open: BTreeMap<u64, Signed>,
    orders: VecDeque<Order>,
    /// The order whose entry is checked or signed.
    asked: Option<Asked>,
    /// How far the log is by the word of each replica.
    stated: BTreeMap<NodeId, Place>,
    /// The logs that replicas showed to a wallet without its file; signatures are checked.
    shown: BTreeMap<NodeId, Log>,
    /// Whether the logs of a quorum had a gap, so that all were asked again.
    has_doubted: bool,
    /// Replicas whose last word is being checked.
    checking: NodeSet,
    /// To whom entries go: so many members behind the representative.
    turn: u32,
    wait: Span,
}

impl Wallet {
    /// What was signed and is not stable, in the order of the log.
    pub fn open_entries(&self) -> impl Iterator<Item = &Line> {
        self.open.values().map(|signed| &signed.line)
    }

    /// The entry that an order would become now.
    #[must_use]
    pub fn entry(&self, draft: Draft) -> Entry {
        let (last, Draft { spender, kind, transfer, ledger, code, user_data, flags }) = (self.last(), draft);
        let id = EntryId { spender, n: last.n.saturating_add(1) };
        Entry { id, prev: last.head, kind, transfer, ledger, code, user_data, flags }
    }

    /// The member numbers of all replicas.
    fn all(&self) -> NodeSet {
        self.config.view.roster.all()
    }

    /// The last place that has an entry of this wallet, and its digest.
    fn last(&self) -> Place {
        self.open.last_key_value().map_or(self.base, |(n, signed)| Place { n: *n, head: signed.digest })
    }

    /// The digest of this wallet's entry at a place, if that is known still.
    fn digest_at(&self, n: u64) -> Option<Hash> {
        if n == self.base.n { Some(self.base.head) } else { self.open.get(&n).map(|signed| signed.digest) }
    }

    /// Whether the last entry names another key.
    fn is_rekeyed(&self) -> bool {
        let named = self.open.values().rev().find_map(|signed| match signed.line.entry.kind {
            Kind::Rekey(owner) => Some(owner),
            _ => None,
        });
        named.is_some_and(|owner| owner != synod_ledger::Owner::SelfSigned(self.config.key))
    }

    fn stop(&mut self, why: Stop, turn: &mut Turn<'_, Self>) {
        if matches!(self.stage, Stage::Stopped(_)) {
            return;
        }
        self.stage = Stage::Stopped(why);
        turn.output(Output::Stopped(why));
        self.refuse_all(Refusal::Stopped(why), turn);
    }

    fn on_message(&mut self, from: NodeId, word: Word, turn: &mut Turn<'_, Self>) {
        if !self.all().contains(from) {
            return turn.blame(from, crate::Fault::Stranger);
        }
        match word {
            Word::Checked { digest, answer } => self.on_answer(from, digest, answer, turn),
            Word::Submitted { digest, answer } => self.on_submitted(from, digest, answer, turn),
            Word::Here(log) => self.on_log(from, *log, turn),
            Word::Distil(invited) => self.on_invited(from, &invited, turn),
            // What wallets say.
            Word::Check { .. } | Word::Submit(_) | Word::Read(_) | Word::Share { .. } => {
                turn.blame(from, crate::Fault::Stranger);
            }
        }
    }

    /// Whoever was given an entry asks for a signature with others: over a tree in which this wallet's leaf is what it signed alone, so that it
    /// authorizes nothing that it had not.
    fn on_invited(&mut self, from: NodeId, invited: &Invitation, turn: &mut Turn<'_, Self>) {
        let is_mine = invited.leaf.spender == self.config.account
            && self.open.values().any(|signed| signed.digest == invited.leaf.entry);
        if !is_mine || !invited.holds() {
            return turn.blame(from, crate::Fault::BadTree);
        }
        let view = Arc::clone(&self.config.view);
        turn.compute(Job::Share { view, to: from, number: invited.number, root: invited.root });
    }

    fn on_shared(&self, to: NodeId, number: u64, share: Option<[u8; 192]>, turn: &mut Turn<'_, Self>) {
        if let Some(share) = share {
            turn.send(to, Word::Share { number, account: self.config.account, share });
        }
    }
}

impl Machine for Wallet {
    type Input = Input;
    type Message = Word;
    type Timer = Timer;
    type Record = Record;
    type Job = Job;
    type Output = Output;

    fn step(&mut self, event: Event<Self>, turn: &mut Turn<'_, Self>) {
        match event {
            Event::Start => self.on_start(turn),
            Event::Input(Input::Pay { ticket, draft, until, within }) => {
                self.on_pay(ticket, draft, (until, within), turn);
            }
            Event::Message { from, message } => self.on_message(from, message, turn),
            Event::Timer(Timer::Check) => self.ask(turn),
            Event::Timer(Timer::Resend) => self.on_resend(turn),
            Event::Timer(Timer::Read) => self.read(turn),
            Event::Timer(Timer::Deadline(ticket)) => self.on_deadline(ticket, turn),
            Event::Done(Done::Signed(line)) => self.on_signed(line, turn),
            Event::Done(Done::Shown { from, log }) => self.on_shown(from, log, turn),
            Event::Done(Done::Shared { to, number, share }) => self.on_shared(to, number, share, turn),
            // It stores nothing, and a link is no answer.
            Event::Loaded { .. } | Event::Link { .. } => {}
        }
    }

    fn room(&self) -> u32 {
        u32::try_from(ORDERS_MAX.saturating_sub(self.orders.len())).unwrap_or(u32::MAX)
    }

    fn invariants(&self) {
        let mut before = self.base;
        for (n, signed) in &self.open {
            assert!(signed.line.entry.id.n == *n, "an entry is at its place");
            assert!(before.n.checked_add(1) == Some(*n), "open entries have no gap");
            assert!(signed.line.entry.prev == before.head, "open entries are a chain");
            before = Place { n: *n, head: signed.digest };
        }
        assert!(self.open.len() <= OPEN_MAX, "as many open entries as a log shows");
        assert!(self.orders.len() <= ORDERS_MAX, "orders that wait are bounded");
    }
}

impl Bounded for Wallet {
    fn bytes(&self) -> u64 {
        let lines: usize = self.shown.values().map(|log| log.open.len()).sum();
        let lines = (self.open.len() + lines + self.orders.len() + 1) * LINE_BYTES;
        let small = (self.stated.len() + self.shown.len()) * SMALL_BYTES;
        (lines + small + size_of::<Self>()) as u64
    }

    fn bytes_max(&self) -> u64 {
        let members = usize::try_from(self.quorums.members()).unwrap_or(usize::MAX);
        let lines = (OPEN_MAX * (members + 1) + ORDERS_MAX + 1) * LINE_BYTES;
        (lines + 2 * members * SMALL_BYTES + size_of::<Self>()) as u64
    }
}

/// Bytes that an entry of 64 legs takes in memory, with what is kept beside it.
const LINE_BYTES: usize = 8 << 10;
/// Bytes of what is kept per replica beside entries.
const SMALL_BYTES: usize = 256;

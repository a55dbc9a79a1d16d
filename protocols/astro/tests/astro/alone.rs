//! One replica driven by hand: every message comes from the test, and every effect is looked at.

use std::collections::BTreeMap;

use synod_astro::{Batches, Input, Job, Line, Opened, Output, Parameters, Promise, Setup, Work};
use synod_broadcast::{SignedBroadcast, signed};
use synod_crypto::Hash;
use synod_ledger::{AccountId, Owner};
use synod_machine::{Condition, Effect, Event, Job as _, Log, Recover as _, Span, Time, testing};
use synod_quorum::NodeId;
use synod_wire::Bytes;

use crate::bank::{Message, Replica, config, cutting, distilled, distilling, keys, owner, view, witnessing};
use crate::forge::{ALL, commit, prepare, said};

pub(crate) type Record = synod_astro::Record<signed::Record>;
pub(crate) type Timer = synod_astro::Timer<signed::Timer>;

/// Member 0 of four, and what it did.
pub(crate) struct Alone {
    pub(crate) parameters: Parameters,
    pub(crate) replica: Replica,
    pub(crate) now: Time,
    /// Its log.
    pub(crate) kept: Vec<Record>,
    pub(crate) sent: Vec<Message>,
    pub(crate) told: Vec<Output>,
    pub(crate) blamed: Vec<&'static str>,
    /// What it had done beside its handlers, but for the broadcast.
    pub(crate) works: Vec<Work>,
    /// Its timers, and after how long they were to fire when they were armed.
    pub(crate) armed: BTreeMap<Timer, Span>,
    blobs: BTreeMap<Hash, Bytes>,
    /// Whether its batches are put together.
    pub(crate) builds: bool,
}

impl Alone {
    /// A member that starts for the first time.
    pub(crate) fn new() -> Self {
        Self::with(config(4, NodeId(0)).config.parameters, Vec::new(), BTreeMap::new())
    }

    /// The same where cuts are proposed.
    pub(crate) fn cutting() -> Self {
        Self::with(cutting(4, NodeId(0), Span::secs(1)).config.parameters, Vec::new(), BTreeMap::new())
    }

    /// The same where witnesses check owners' signatures.
    pub(crate) fn witnessing(margin: u8) -> Self {
        let parameters = witnessing(4, NodeId(0), margin).config.parameters;
        Self::with(parameters, Vec::new(), BTreeMap::new())
    }

    /// The same where institutions vouch for all.
    pub(crate) fn custodians() -> Self {
        let parameters = Parameters { owners_sign: false, ..config(4, NodeId(0)).config.parameters };
        Self::with(parameters, Vec::new(), BTreeMap::new())
    }

    /// The same with other bounds.
    pub(crate) fn bounded(change: impl FnOnce(&mut Parameters)) -> Self {
        let mut parameters = config(4, NodeId(0)).config.parameters;
        change(&mut parameters);
        Self::with(parameters, Vec::new(), BTreeMap::new())
    }

    /// The same member from a snapshot that somebody changed.
    pub(crate) fn edited(&self, change: impl FnMut(&mut Record)) -> Self {
        let mut records = self.snapshot();
        records.iter_mut().for_each(change);
        Self::with(self.parameters, records, self.blobs.clone())
    }

    /// The same where owners are asked to sign together.
    pub(crate) fn distilling() -> Self {
        Self::with(distilling(4, NodeId(0)).config.parameters, Vec::new(), BTreeMap::new())
    }

    pub(crate) fn with(parameters: Parameters, records: Vec<Record>, blobs: BTreeMap<Hash, Bytes>) -> Self {
        let is_plain = parameters.distil == Span::ZERO;
        let mut setup = if is_plain { config(4, NodeId(0)) } else { distilling(4, NodeId(0)) };
        setup.config.parameters = parameters;
        setup.channel = Box::new(signed::Setup::under(NodeId(0), view(4), parameters.bounds()));
        Self::from(setup, records, blobs)
    }

    /// The same where two owners have one key for what they sign with others.
    pub(crate) fn twins(one: AccountId, other: AccountId) -> Self {
        let mut setup = distilling(4, NodeId(0));
        for opening in setup.config.genesis.iter_mut().filter(|opening| opening.id == other) {
            let (Owner::Distilled { multi, .. }, single) = (distilled(one), owner(other).public()) else {
                unreachable!("it signs with others")
            };
            opening.terms.owner = Owner::Distilled { single, multi };
        }
        Self::from(setup, Vec::new(), BTreeMap::new())
    }

    fn from(
        setup: Setup<SignedBroadcast<Batches>>,
        records: Vec<Record>,
        blobs: BTreeMap<Hash, Bytes>,
    ) -> Self {
        let (parameters, kept) = (setup.config.parameters, records.clone());
        let mut records = records.into_iter();
        let log = Log { condition: Condition::Clean, records: &mut records };
        let replica = Replica::recover(setup, log).expect("its own records are in order");
        let mut alone = Self {
            parameters,
            replica,
            now: Time::ZERO,
            kept,
            sent: Vec::new(),
            told: Vec::new(),
            blamed: Vec::new(),
            works: Vec::new(),
            armed: BTreeMap::new(),
            blobs,
            builds: true,
        };
        alone.run(Event::Start);
        alone
    }

    /// The same member after a crash, from its log.
    pub(crate) fn restarted(&self) -> Self {
        Self::with(self.parameters, self.kept.clone(), self.blobs.clone())
    }

    /// The same member after a crash, from a snapshot.
    pub(crate) fn compacted(&self) -> Self {
        Self::with(self.parameters, self.snapshot(), self.blobs.clone())
    }

    pub(crate) fn snapshot(&self) -> Vec<Record> {
        let mut records = Vec::new();
        self.replica.snapshot(&mut |record| records.push(record));
        records
    }

    /// The replica's own part of a snapshot.
    pub(crate) fn promises(&self) -> impl Iterator<Item = Promise> {
        self.snapshot().into_iter().filter_map(own)
    }

    /// What happens, and all that follows from it but for timers and messages.
    pub(crate) fn run(&mut self, event: Event<Replica>) {
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            for effect in testing::effects(&mut self.replica, event, self.now) {
                match effect {
                    Effect::Compute(job) => {
                        if let Job::Own(work) = &job {
                            self.works.push((**work).clone());
                            if matches!(**work, Work::Build { .. }) && !self.builds {
                                continue;
                            }
                        }
                        events.push(Event::Done(job.run(&keys(0))));
                    }
                    Effect::Arm { timer, after } => drop(self.armed.insert(timer, after)),
                    Effect::Disarm(timer) => drop(self.armed.remove(&timer)),
                    Effect::Persist(record) => self.kept.push(record),
                    Effect::Send { message, .. } => self.sent.push(message),
                    Effect::Output(output) => self.told.push(output),
                    Effect::Blame { fault, .. } => self.blamed.push(fault.name),
                    Effect::Store { name, bytes } => drop(self.blobs.insert(name, bytes)),
                    Effect::Load(name) => {
                        events.push(Event::Loaded { name, bytes: self.blobs.get(&name).cloned() });
                    }
                    _ => {}
                }
            }
        }
    }

    pub(crate) fn hear(&mut self, from: u32, message: Message) {
        self.run(Event::Message { from: NodeId(from), message });
    }

    pub(crate) fn ask(&mut self, input: Input) {
        self.run(Event::Input(input));
    }

    /// A batch is certified: these members leave these of its entries out.
    pub(crate) fn certify(&mut self, opened: &Opened, lists: [(u32, &[u32]); 3]) {
        let said = lists.map(|(by, except)| said(by, opened.lot(), opened.digest, except));
        self.hear(3, commit(opened, said.to_vec()));
    }

    /// A batch of another lane comes with the certificate of all of it.
    pub(crate) fn certify_whole(&mut self, opened: &Opened) {
        self.hear(u32::from(opened.lot().source), prepare(opened));
        self.certify(opened, ALL);
    }

    /// Its timer of receipts fires, so many milliseconds later.
    pub(crate) fn wait(&mut self, ms: u64) {
        self.now = Time(self.now.0 + ms * 1_000_000);
        self.run(Event::Timer(Timer::Receipts));
    }

    /// The last batch of its own that was put together.
    pub(crate) fn mine(&self) -> Opened {
        self.all_mine().pop_last().expect("it broadcast a batch").1
    }

    /// All batches of its own that it sent, by number.
    pub(crate) fn all_mine(&self) -> BTreeMap<u64, Opened> {
        let sent = self.sent.iter().filter_map(|message| match message {
            Message::Broadcast(signed::Message::Prepare { lot, payload, .. }) if lot.source == 0 => {
                Opened::read(payload.bytes())
            }
            _ => None,
        });
        sent.map(|opened| (opened.lot().sequence, opened)).collect()
    }

    /// How often an entry was put into a batch.
    pub(crate) fn carried(&self, line: &Line) -> usize {
        let built = self.works.iter().filter(|work| match work {
            Work::Build { content, .. } => content.lines.iter().any(|one| one.entry == line.entry),
            _ => false,
        });
        built.count()
    }

    /// The lists that this member endorsed a slot with, in order.
    pub(crate) fn lists(&self, opened: &Opened) -> Vec<Vec<u32>> {
        let all = self.kept.iter().cloned().filter_map(own).filter_map(|promise| match promise {
            Promise::Endorsed { lot, except, .. } if lot == opened.lot() => Some(except.items().to_vec()),
            _ => None,
        });
        all.collect()
    }
}

fn own(record: Record) -> Option<Promise> {
    match record {
        Record::Own(promise) => Some(promise),
        Record::Broadcast(_) => None,
    }
}

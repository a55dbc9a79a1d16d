//! One machine with its journal, timers and jobs. Order is durability: what it says rests on what it wrote before.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use synod_crypto::{Hash, Keys};
use synod_machine::testing::effects;
use synod_machine::{Bounded, Condition, DoneOf, Effect, Event, Job, Log, Note, Recover, Time, To};
use synod_wire::Bytes;

/// One thing written, in program order.
#[derive(Clone, Debug)]
pub(crate) enum Written<R> {
    /// A record.
    Record(R),
    /// A blob.
    Blob(Hash, Bytes),
    /// A blob is released.
    Erase(Hash),
}

/// What a machine said.
pub(crate) enum Said<M: Recover> {
    /// To peers.
    Send(To, M::Message),
    /// To its node.
    Output(M::Output),
}

/// A machine at a node.
pub(crate) struct Host<M: Recover> {
    pub(crate) machine: Option<M>,
    pub(crate) journal: Vec<Written<M::Record>>,
    /// How much of the journal something said rests on.
    pub(crate) synced: usize,
    pub(crate) timers: BTreeMap<M::Timer, Time>,
    pub(crate) jobs: VecDeque<M::Job>,
    pub(crate) local: VecDeque<Event<M>>,
    /// Jobs wait while this is set.
    pub(crate) holding: bool,
    pub(crate) blamed: Vec<(u32, &'static str)>,
    pub(crate) rules: BTreeSet<&'static str>,
    pub(crate) notes: Vec<Note>,
    /// Events it took.
    pub(crate) steps: u64,
}

impl<M> Host<M>
where
    M: Recover + Bounded,
    M::Record: Clone,
{
    pub(crate) fn new() -> Self {
        Self {
            machine: None,
            journal: Vec::new(),
            synced: 0,
            timers: BTreeMap::new(),
            jobs: VecDeque::new(),
            local: VecDeque::new(),
            holding: false,
            blamed: Vec::new(),
            rules: BTreeSet::new(),
            notes: Vec::new(),
            steps: 0,
        }
    }

    /// Opens the machine over its journal; its first event waits.
    pub(crate) fn open(&mut self, config: M::Config, condition: Condition) {
        let records: Vec<M::Record> = self
            .journal
            .iter()
            .filter_map(|written| match written {
                Written::Record(record) => Some(record.clone()),
                Written::Blob(..) | Written::Erase(_) => None,
            })
            .collect();
        let log = Log { condition, records: &mut records.into_iter() };
        let machine = M::recover(config, log).unwrap_or_else(|why| unreachable!("{why}"));
        machine.invariants();
        self.machine = Some(machine);
        self.local.push_back(Event::Start);
    }

    /// Kills the machine; at least what was synced stays of its journal.
    pub(crate) fn crash(&mut self, kept: usize) {
        self.machine = None;
        self.timers.clear();
        self.jobs.clear();
        self.local.clear();
        self.journal.truncate(kept.max(self.synced));
        self.synced = self.journal.len();
    }

    fn blob(&self, name: &Hash) -> Option<Bytes> {
        self.journal.iter().fold(None, |found, written| match written {
            Written::Blob(known, bytes) if known == name => Some(bytes.clone()),
            Written::Erase(known) if known == name => None,
            Written::Blob(..) | Written::Erase(_) | Written::Record(_) => found,
        })
    }

    /// Whether the blob is on disk.
    pub(crate) fn holds(&self, name: &Hash) -> bool {
        self.blob(name).is_some()
    }

    /// Loses a blob behind the machine's back.
    pub(crate) fn rot(&mut self, name: &Hash) {
        self.journal.retain(|written| !matches!(written, Written::Blob(known, _) if known == name));
        self.synced = self.synced.min(self.journal.len());
    }

    fn next(&mut self, keys: &Keys) -> Option<Event<M>> {
        if let Some(event) = self.local.pop_front() {
            return Some(event);
        }
        if self.holding || self.jobs.is_empty() {
            return None;
        }
        // All at once, as a pool does.
        let jobs: Vec<M::Job> = self.jobs.drain(..).collect();
        let done: Vec<DoneOf<M>> = M::Job::run_all(jobs, keys);
        self.local.extend(done.into_iter().map(Event::Done));
        self.local.pop_front()
    }

    /// Steps the machine once; `None` when it has nothing to do.
    pub(crate) fn step(&mut self, now: Time, keys: &Keys) -> Option<Vec<Said<M>>> {
        self.machine.as_ref()?;
        let event = self.next(keys)?;
        let machine = self.machine.as_mut()?;
        self.steps += 1;
        let done = effects(machine, event, now);
        let (bytes, most) = (machine.bytes(), machine.bytes_max());
        assert!(bytes <= most, "memory stays below its formula: {bytes} of {most}");
        let mut said = Vec::new();
        for effect in done {
            match effect {
                Effect::Send { to, message } => {
                    self.synced = self.journal.len();
                    said.push(Said::Send(to, message));
                }
                Effect::Output(output) => {
                    self.synced = self.journal.len();
                    said.push(Said::Output(output));
                }
                Effect::Arm { timer, after } => {
                    self.timers.insert(timer, now + after);
                }
                Effect::Disarm(timer) => drop(self.timers.remove(&timer)),
                Effect::Persist(record) => self.journal.push(Written::Record(record)),
                Effect::Store { name, bytes } => self.journal.push(Written::Blob(name, bytes)),
                Effect::Erase(name) => self.journal.push(Written::Erase(name)),
                Effect::Load(name) => {
                    let bytes = self.blob(&name);
                    self.local.push_back(Event::Loaded { name, bytes });
                }
                Effect::Compute(job) => self.jobs.push_back(job),
                Effect::Blame { peer, fault } => self.blamed.push((peer.0, fault.name)),
                Effect::Applied(rule) => drop(self.rules.insert(rule.name)),
                Effect::Note(note) => self.notes.push(note),
                Effect::Compact => {}
            }
        }
        Some(said)
    }

    /// Fires the timers that are due.
    pub(crate) fn fire(&mut self, now: Time) {
        let due: Vec<M::Timer> = self.timers.iter().filter(|(_, at)| **at <= now).map(|(t, _)| *t).collect();
        for timer in due {
            self.timers.remove(&timer);
            self.local.push_back(Event::Timer(timer));
        }
    }
}

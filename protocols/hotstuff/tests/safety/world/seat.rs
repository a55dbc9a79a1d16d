//! One member: a replica with its journal, timers and jobs, or a puppet that has keys and no will of its own.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use synod_crypto::{Hash, Keys};
use synod_hotstuff::{Config, Job, Note, Record, Replica, Seen, Timer};
use synod_machine::broadcast::{Delivered, Entry};
use synod_machine::{Condition, Event, Log, Note as Noted, Recover, Time};
use synod_wire::Bytes;

/// One thing written, in program order.
#[derive(Clone, Debug)]
pub(crate) enum Written {
    /// A record.
    Record(Record),
    /// A blob.
    Blob(Hash, Bytes),
    /// A blob is released.
    Erase(Hash),
}

/// What a member did since the counts were last reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Messages sent, one for each receiver.
    pub(crate) messages: u64,
    /// Their encoded bytes.
    pub(crate) bytes: u64,
    /// Statements signed.
    pub(crate) signatures: u64,
    /// Signatures checked, alone or in a batch.
    pub(crate) verifications: u64,
    /// Times that something said had to wait for what was written before.
    pub(crate) syncs: u64,
}

/// One member of the world.
pub(crate) struct Seat {
    /// Its number.
    pub(crate) id: u32,
    /// Its keys.
    pub(crate) keys: Keys,
    /// The replica; none for a puppet or while it is down.
    pub(crate) replica: Option<Replica>,
    /// What it wrote.
    pub(crate) journal: Vec<Written>,
    /// How much of the journal something said rests on: a crash keeps at least this.
    pub(crate) synced: usize,
    /// Armed timers.
    pub(crate) timers: BTreeMap<Timer, Time>,
    /// Jobs not yet run.
    pub(crate) jobs: VecDeque<Job>,
    /// Events of its own: job answers, loads, what the user says.
    pub(crate) local: VecDeque<Event<Replica>>,
    /// Entries delivered in this life.
    pub(crate) entries: Vec<Entry>,
    /// Everything else put out.
    pub(crate) outputs: Vec<Delivered>,
    /// Whom it blamed, and for what.
    pub(crate) blamed: Vec<(u32, &'static str)>,
    /// Rules it applied.
    pub(crate) rules: BTreeSet<&'static str>,
    /// What operators were told.
    pub(crate) notes: Vec<Noted>,
    /// What it cost.
    pub(crate) counts: Counts,
    /// Whether its user reports what it applied.
    pub(crate) applies: bool,
}

impl Seat {
    /// A member without a replica.
    pub(crate) fn puppet(id: u32, keys: Keys) -> Self {
        Self {
            id,
            keys,
            replica: None,
            journal: Vec::new(),
            synced: 0,
            timers: BTreeMap::new(),
            jobs: VecDeque::new(),
            local: VecDeque::new(),
            entries: Vec::new(),
            outputs: Vec::new(),
            blamed: Vec::new(),
            rules: BTreeSet::new(),
            notes: Vec::new(),
            counts: Counts::default(),
            applies: true,
        }
    }

    /// Opens a replica over the journal.
    pub(crate) fn open(&mut self, config: Config, condition: Condition) {
        let records: Vec<Record> = self
            .journal
            .iter()
            .filter_map(|written| match written {
                Written::Record(record) => Some(record.clone()),
                Written::Blob(..) | Written::Erase(_) => None,
            })
            .collect();
        let log = Log { condition, records: &mut records.into_iter() };
        let replica = Replica::recover(config, log).expect("a replica reads what it wrote");
        self.replica = Some(replica);
        self.local.push_back(Event::Start);
    }

    /// Ends this life; `kept` entries of the journal survive.
    pub(crate) fn crash(&mut self, kept: usize) {
        self.replica = None;
        self.journal.truncate(kept);
        self.synced = self.synced.min(kept);
        self.timers.clear();
        self.jobs.clear();
        self.local.clear();
        self.entries.clear();
        self.outputs.clear();
    }

    /// The bytes of a blob, if it is written and not released.
    pub(crate) fn blob(&self, name: &Hash) -> Option<Bytes> {
        let mut found = None;
        for written in &self.journal {
            match written {
                Written::Blob(of, bytes) if of == name => found = Some(bytes.clone()),
                Written::Erase(of) if of == name => found = None,
                Written::Blob(..) | Written::Erase(_) | Written::Record(_) => {}
            }
        }
        found
    }

    /// What operators see of the replica.
    pub(crate) fn seen(&self) -> Seen {
        self.replica.as_ref().expect("the member runs").seen()
    }

    /// Payloads delivered in this life, as text.
    pub(crate) fn texts(&self) -> Vec<String> {
        self.entries
            .iter()
            .filter(|entry| !entry.payload.is_empty())
            .map(|entry| String::from_utf8_lossy(&entry.payload).into_owned())
            .collect()
    }

    /// Whether it blamed `peer` for `fault`.
    pub(crate) fn blames(&self, peer: u32, fault: synod_hotstuff::Fault) -> bool {
        self.blamed.contains(&(peer, fault.name()))
    }

    /// Whether operators were told `name`.
    pub(crate) fn noted(&self, name: synod_hotstuff::NoteName) -> bool {
        let told = Noted::from(Note { name, values: [0; 3], digest: Hash::ZERO }).name;
        self.notes.iter().any(|note| note.name == told)
    }

    /// The safety record that a crash here would leave.
    pub(crate) fn promises(&self) -> Option<synod_hotstuff::Safety> {
        self.journal.iter().rev().find_map(|written| match written {
            Written::Record(Record::Safety(safety)) => Some(safety.clone()),
            Written::Record(_) | Written::Blob(..) | Written::Erase(_) => None,
        })
    }
}

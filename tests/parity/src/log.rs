//! What a rig has seen of one node.

use std::collections::BTreeSet;

use synod_machine::Note;
use synod_quorum::NodeId;

/// One thing that a machine did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<T> {
    /// How often its node had been started, from 1.
    pub life: u32,
    /// The machine's number.
    pub machine: u8,
    /// What it did.
    pub what: T,
}

/// Everything one node did, each kind in the order in which it happened.
#[derive(Clone, Debug)]
pub struct Log<T> {
    /// Outputs that left the node.
    pub told: Vec<Entry<T>>,
    /// Notes.
    pub noted: Vec<Entry<Note>>,
    /// Whom its machines or the runtime blamed, and the code of the fault.
    pub blamed: Vec<Entry<(NodeId, u16)>>,
    /// Peers it has a link to now.
    pub up: BTreeSet<NodeId>,
    /// How often it was started.
    pub lives: u32,
    /// How often it ended because its journal failed.
    pub ended: u32,
}

impl<T> Default for Log<T> {
    fn default() -> Self {
        Self {
            told: Vec::new(),
            noted: Vec::new(),
            blamed: Vec::new(),
            up: BTreeSet::new(),
            lives: 0,
            ended: 0,
        }
    }
}

impl<T> Log<T> {
    /// The outputs of one machine in all lives.
    pub fn of(&self, machine: u8) -> impl Iterator<Item = &T> {
        self.told.iter().filter(move |entry| entry.machine == machine).map(|entry| &entry.what)
    }

    /// The outputs of one machine in one life.
    pub fn life(&self, life: u32, machine: u8) -> impl Iterator<Item = &T> {
        let mine = move |entry: &&Entry<T>| entry.life == life && entry.machine == machine;
        self.told.iter().filter(mine).map(|entry| &entry.what)
    }

    /// The first two numbers of every note of this name in all lives.
    pub fn notes(&self, name: &str) -> impl Iterator<Item = (u64, u64)> {
        let named = move |entry: &&Entry<Note>| entry.what.name == name;
        self.noted.iter().filter(named).map(|entry| (entry.what.values[0], entry.what.values[1]))
    }
}

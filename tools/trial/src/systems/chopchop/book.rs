//! What a run knows of itself: who asked for what, and what became of it. Workload, checker and phases share it.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use synod_machine::Time;

/// One broadcast that a user asked for.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The client's node.
    pub node: u32,
    /// Its life at that time.
    pub life: u32,
    /// When.
    pub at: Time,
    /// The payload.
    pub payload: [u8; 8],
    /// Whether its delivery is due.
    pub open: bool,
    /// When the client said that it is delivered.
    pub told: Option<Time>,
}

/// The shared notes of a run.
#[derive(Clone, Debug, Default)]
pub struct Book {
    /// Broadcasts; the token of the first is 1.
    pub asked: Vec<Asked>,
    /// Lives of clients.
    pub lives: BTreeMap<u32, u32>,
    /// When each client was done with something last.
    pub done: BTreeMap<u32, Time>,
    /// Clients that entered the directory in the run.
    pub enrolled: BTreeMap<u32, u32>,
    /// Newcomers whose entry is due, with the time they asked.
    pub entering: BTreeMap<u32, Time>,
    /// Counts for coverage.
    pub counts: BTreeMap<&'static str, u64>,
    /// The most batches an honest server delivered.
    pub highest: u64,
    /// Per server what it delivered in this life.
    pub heights: BTreeMap<u32, u64>,
    /// Servers that were told that a body they need is gone everywhere: they wait until the ordering layer jumps, which
    /// it does with further traffic.
    pub gone: BTreeSet<u32>,
}

/// The notes, as all sides hold them.
pub type Shared = Rc<RefCell<Book>>;

impl Book {
    /// Registers a broadcast; its token.
    pub fn ask(&mut self, node: u32, at: Time, payload: [u8; 8]) -> u64 {
        let life = self.lives.get(&node).copied().unwrap_or(0);
        self.asked.push(Asked { node, life, at, payload, open: true, told: None });
        self.asked.len() as u64
    }

    /// The broadcast of a token.
    #[must_use]
    pub fn get(&self, token: u64) -> Option<&Asked> {
        self.asked.get(usize::try_from(token.checked_sub(1)?).ok()?)
    }

    fn get_mut(&mut self, token: u64) -> Option<&mut Asked> {
        self.asked.get_mut(usize::try_from(token.checked_sub(1)?).ok()?)
    }

    /// It is delivered, or never will be owed.
    pub fn close(&mut self, token: u64, now: Time, told: bool) {
        let Some(asked) = self.get_mut(token) else { return };
        asked.open = false;
        if told {
            asked.told.get_or_insert(now);
        }
        let node = asked.node;
        self.done.insert(node, now);
    }

    /// A client begins a life: what waited in the one before is forgotten with it.
    pub fn born(&mut self, node: u32, life: u32) {
        self.lives.insert(node, life);
        for asked in self.asked.iter_mut().filter(|asked| asked.node == node && asked.life < life) {
            asked.open = false;
        }
    }

    /// Adds to a count.
    pub fn add(&mut self, name: &'static str, by: u64) {
        *self.counts.entry(name).or_insert(0) += by;
    }
}

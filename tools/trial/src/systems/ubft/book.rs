//! What a run knows of itself: who asked for what, and what became of it. Workload, checker and phases share it.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use synod_machine::Time;
use synod_wire::Bytes;

use crate::oracle::ubft::Detectors;

/// One request that a user made.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The client's node.
    pub node: u32,
    /// Its life at that time.
    pub life: u32,
    /// When.
    pub at: Time,
    /// The operation; none of a read.
    pub op: Option<Bytes>,
    /// How many operations had results when it was made.
    pub known: u64,
    /// Whether its outcome is due.
    pub open: bool,
}

/// The shared notes of a run.
#[derive(Clone, Debug, Default)]
pub struct Book {
    /// Requests; the ticket of the first is 1.
    pub asked: Vec<Asked>,
    /// Lives of clients.
    pub lives: BTreeMap<u32, u32>,
    /// Clients whose sessions are open in their present lives.
    pub sessions: BTreeMap<u32, u64>,
    /// When each client was done with something last.
    pub done: BTreeMap<u32, Time>,
    /// The largest count that a client was told.
    pub known: u64,
    /// Replicas that an epoch lists in their present lives.
    pub ready: BTreeSet<u32>,
    /// Nodes that were started more than once.
    pub reborn: BTreeSet<u32>,
    /// Operations that an honest replica executed, the most.
    pub highest: u64,
    /// Per replica how many operations its state has.
    pub executed: BTreeMap<u32, u64>,
    /// The highest slot that an honest replica executed.
    pub slot: u64,
    /// Decisions of honest replicas, on the fast path and on the slow one.
    pub decided: (u64, u64),
    /// Replicas that found somebody misbehaving.
    pub detectors: Detectors,
    /// Counts for coverage.
    pub counts: BTreeMap<&'static str, u64>,
}

/// The notes, as all sides hold them.
pub type Shared = Rc<RefCell<Book>>;

impl Book {
    /// Registers a request; its ticket.
    pub fn ask(&mut self, node: u32, at: Time, op: impl FnOnce(u64) -> Option<Bytes>) -> u64 {
        let life = self.lives.get(&node).copied().unwrap_or(0);
        let ticket = self.asked.len() as u64 + 1;
        self.asked.push(Asked { node, life, at, op: op(ticket), known: self.known, open: true });
        ticket
    }

    /// The request of a ticket.
    #[must_use]
    pub fn get(&self, ticket: u64) -> Option<&Asked> {
        self.asked.get(usize::try_from(ticket.checked_sub(1)?).ok()?)
    }

    /// It has its outcome, or none is owed.
    pub fn close(&mut self, ticket: u64, now: Time) {
        let at = ticket.checked_sub(1).and_then(|at| usize::try_from(at).ok());
        let Some(asked) = at.and_then(|at| self.asked.get_mut(at)) else { return };
        asked.open = false;
        self.done.insert(asked.node, now);
    }

    /// A client begins a life: what waited in the one before is forgotten with it.
    pub fn born(&mut self, node: u32, life: u32) {
        self.lives.insert(node, life);
        self.sessions.remove(&node);
        for asked in self.asked.iter_mut().filter(|asked| asked.node == node && asked.life < life) {
            asked.open = false;
        }
    }

    /// The oldest request of a client that waits.
    #[must_use]
    pub fn oldest(&self, node: u32) -> Option<&Asked> {
        self.asked.iter().find(|asked| asked.open && asked.node == node)
    }

    /// Adds to a count.
    pub fn add(&mut self, name: &'static str, by: u64) {
        *self.counts.entry(name).or_insert(0) += by;
    }
}

//! Machines inside machines.
//!
//! Four shapes are enough. *Under*: the parent owns a [`Nested`] child, unwraps its events, lifts its effects,
//! consumes its outputs. *Many*: a bounded [`Family`] by key. *Beside*: two hosted machines joined by a connector.
//! *Roles*: different machines speaking one vocabulary.

use core::fmt::{self, Debug};
use std::collections::BTreeMap;

use synod_crypto::Hash;
use synod_quorum::NodeId;
use synod_wire::Bytes;

use crate::{Event, Fault, Machine, Note, Rule, Sink, Span, To, Turn};

/// How a child's vocabulary is said in its parent's.
pub trait Lift<C: Machine, P: Machine> {
    /// Wraps a message.
    fn message(&self, message: C::Message) -> P::Message;
    /// Wraps a timer.
    fn timer(&self, timer: C::Timer) -> P::Timer;
    /// Wraps a record.
    fn record(&self, record: C::Record) -> P::Record;
    /// Wraps a job.
    fn job(&self, job: C::Job) -> P::Job;
}

/// The outputs a child gave in one step, oldest first.
pub type Drain<'a, T> = std::vec::Drain<'a, T>;

/// A child machine inside its parent; shares the parent's lane, clock and random stream.
#[derive(Clone, Debug)]
pub struct Nested<C: Machine> {
    machine: C,
    outputs: Vec<C::Output>,
}

impl<C: Machine> Nested<C> {
    /// Wraps `machine`.
    pub const fn new(machine: C) -> Self {
        Self { machine, outputs: Vec::new() }
    }

    /// Steps the child: effects are lifted into the parent's turn in order, outputs come back to the caller.
    pub fn step<P: Machine>(
        &mut self,
        event: Event<C>,
        lift: &impl Lift<C, P>,
        turn: &mut Turn<'_, P>,
    ) -> Drain<'_, C::Output> {
        let (now, wall) = (turn.now(), turn.wall());
        let (rng, sink) = turn.parts();
        let mut lifted = Lifted { lift, sink, outputs: &mut self.outputs };
        self.machine.step(event, &mut Turn::new(now, wall, rng, &mut lifted));
        self.outputs.drain(..)
    }

    /// The child, to look at.
    pub const fn get(&self) -> &C {
        &self.machine
    }

    /// The child, to change without a turn; for commands that have no effects.
    pub const fn get_mut(&mut self) -> &mut C {
        &mut self.machine
    }

    /// The child, by value.
    pub fn into_inner(self) -> C {
        self.machine
    }
}

struct Lifted<'a, C: Machine, P: Machine, L> {
    lift: &'a L,
    sink: &'a mut dyn Sink<P>,
    outputs: &'a mut Vec<C::Output>,
}

impl<C: Machine, P: Machine, L: Lift<C, P>> Sink<C> for Lifted<'_, C, P, L> {
    fn send(&mut self, to: To, message: C::Message) {
        self.sink.send(to, self.lift.message(message));
    }
    fn arm(&mut self, timer: C::Timer, after: Span) {
        self.sink.arm(self.lift.timer(timer), after);
    }
    fn disarm(&mut self, timer: C::Timer) {
        self.sink.disarm(self.lift.timer(timer));
    }
    fn persist(&mut self, record: C::Record) {
        self.sink.persist(self.lift.record(record));
    }
    fn compact(&mut self) {
        self.sink.compact();
    }
    fn store(&mut self, name: Hash, bytes: Bytes) {
        self.sink.store(name, bytes);
    }
    fn load(&mut self, name: Hash) {
        self.sink.load(name);
    }
    fn erase(&mut self, name: Hash) {
        self.sink.erase(name);
    }
    fn compute(&mut self, job: C::Job) {
        self.sink.compute(self.lift.job(job));
    }
    fn output(&mut self, output: C::Output) {
        self.outputs.push(output);
    }
    fn blame(&mut self, peer: NodeId, fault: Fault) {
        self.sink.blame(peer, fault);
    }
    fn applied(&mut self, rule: Rule) {
        self.sink.applied(rule);
    }
    fn note(&mut self, note: Note) {
        self.sink.note(note);
    }
}

/// At most `max` children by key, iterated in key order.
pub struct Family<K, C: Machine> {
    members: BTreeMap<K, Nested<C>>,
    max: usize,
}

impl<K: Clone, C: Machine + Clone> Clone for Family<K, C>
where
    C::Output: Clone,
{
    fn clone(&self) -> Self {
        Self { members: self.members.clone(), max: self.max }
    }
}

impl<K: Debug, C: Machine + Debug> Debug for Family<K, C>
where
    C::Output: Debug,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(&self.members).finish()
    }
}

impl<K: Ord + Copy, C: Machine> Family<K, C> {
    /// An empty family of at most `max` children.
    #[must_use]
    pub const fn new(max: usize) -> Self {
        Self { members: BTreeMap::new(), max }
    }

    /// The child of `key`, to look at.
    pub fn get(&self, key: K) -> Option<&C> {
        self.members.get(&key).map(Nested::get)
    }

    /// The child of `key`.
    pub fn get_mut(&mut self, key: K) -> Option<&mut Nested<C>> {
        self.members.get_mut(&key)
    }

    /// The child of `key`, made if it is missing; `None` when the family is full.
    pub fn member(&mut self, key: K, make: impl FnOnce() -> C) -> Option<&mut Nested<C>> {
        if !self.members.contains_key(&key) && self.members.len() >= self.max {
            return None;
        }
        Some(self.members.entry(key).or_insert_with(|| Nested::new(make())))
    }

    /// Takes the child of `key` out.
    pub fn retire(&mut self, key: K) -> Option<C> {
        self.members.remove(&key).map(Nested::into_inner)
    }

    /// The keys in order.
    pub fn keys(&self) -> impl Iterator<Item = K> {
        self.members.keys().copied()
    }

    /// The children in key order, to look at.
    pub fn iter(&self) -> impl Iterator<Item = (K, &C)> {
        self.members.iter().map(|(key, nested)| (*key, nested.get()))
    }

    /// Number of children.
    #[must_use]
    pub fn count(&self) -> usize {
        self.members.len()
    }
}

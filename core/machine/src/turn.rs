//! The turn: what a machine may ask and say while it handles one event.

use synod_crypto::Hash;
use synod_quorum::NodeId;
use synod_wire::Bytes;

use crate::{Fault, Machine, Note, Rng, Rule, Sink, Span, Time, To, Wall};

/// One turn of a machine: its clock, its random stream, and the sink of its effects.
pub struct Turn<'a, M: Machine> {
    now: Time,
    wall: Wall,
    rng: &'a mut Rng,
    sink: &'a mut dyn Sink<M>,
}

impl<'a, M: Machine> Turn<'a, M> {
    /// Opens a turn; runtimes, parents and tests do this.
    pub fn new(now: Time, wall: Wall, rng: &'a mut Rng, sink: &'a mut dyn Sink<M>) -> Self {
        Self { now, wall, rng, sink }
    }

    /// Monotonic time.
    #[must_use]
    pub const fn now(&self) -> Time {
        self.now
    }

    /// Wall-clock time, which may jump: only to propose timestamps.
    #[must_use]
    pub const fn wall(&self) -> Wall {
        self.wall
    }

    /// The machine's random stream; never for secrets.
    pub fn rng(&mut self) -> &mut Rng {
        self.rng
    }

    pub(crate) fn parts(&mut self) -> (&mut Rng, &mut dyn Sink<M>) {
        (self.rng, self.sink)
    }

    /// Sends best effort. Any link can lose; machines retransmit by timer. Held until every record and blob
    /// issued before it is durable.
    pub fn send(&mut self, to: impl Into<To>, message: M::Message) {
        self.sink.send(to.into(), message);
    }

    /// Fires once at or after now + `after`; moves an armed timer.
    pub fn arm(&mut self, timer: M::Timer, after: Span) {
        self.sink.arm(timer, after);
    }

    /// Takes an armed timer back; harmless otherwise.
    pub fn disarm(&mut self, timer: M::Timer) {
        self.sink.disarm(timer);
    }

    /// Appends a promise to the machine's lane of the journal.
    pub fn persist(&mut self, record: M::Record) {
        self.sink.persist(record);
    }

    /// Hints that much of the lane is obsolete; the host then asks for a snapshot.
    pub fn compact(&mut self) {
        self.sink.compact();
    }

    /// Adds a content-addressed blob to the lane, ordered with `persist`.
    pub fn store(&mut self, name: Hash, bytes: Bytes) {
        self.sink.store(name, bytes);
    }

    /// Asks for a blob; answered by `Loaded`.
    pub fn load(&mut self, name: Hash) {
        self.sink.load(name);
    }

    /// Releases a blob.
    pub fn erase(&mut self, name: Hash) {
        self.sink.erase(name);
    }

    /// Sends a job; the answer comes as `Done`.
    pub fn compute(&mut self, job: M::Job) {
        self.sink.compute(job);
    }

    /// Tells the local user: connector, parent or client front end. Held like a send.
    pub fn output(&mut self, output: M::Output) {
        self.sink.output(output);
    }

    /// The peer broke a protocol rule.
    pub fn blame(&mut self, peer: NodeId, fault: impl Into<Fault>) {
        self.sink.blame(peer, fault.into());
    }

    /// A numbered rule of the protocol was applied.
    pub fn applied(&mut self, rule: impl Into<Rule>) {
        self.sink.applied(rule.into());
    }

    /// Something an operator may want to see; no effect on the protocol.
    pub fn note(&mut self, note: impl Into<Note>) {
        self.sink.note(note.into());
    }
}

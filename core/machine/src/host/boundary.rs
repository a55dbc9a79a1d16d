//! What a runtime offers a hosted machine, and what a hosted machine offers a runtime.

use core::any::Any;
use core::fmt::Debug;

use synod_crypto::{Hash, Keys};
use synod_quorum::NodeId;
use synod_wire::Bytes;

use crate::register::{RegisterOp, RegisterReply};
use crate::{Cost, Fault, Keep, Link, Note, Queue, QueueSpec, Rule, Time, To, Wall};

/// A place in the journal; rises with every record, blob or erasure. Lanes may share one numbering.
pub type Lsn = u64;

/// The name of the fault for a frame that does not decode: SYN-4001. The third closes the link.
pub const UNDECODABLE: u16 = 4_001;

/// The SYN code of a peer above its quota: whoever says it, the runtime or a machine, the connection is cut.
pub const QUOTA_EXCEEDED: u16 = 4_006;

/// When an event is handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    /// Monotonic time.
    pub now: Time,
    /// Wall-clock time.
    pub wall: Wall,
}

/// A frame body as it came from a peer.
#[derive(Clone, Debug)]
pub struct Frame {
    /// Who sent it, as the transport authenticated it.
    pub from: NodeId,
    /// The queue it came in.
    pub queue: Queue,
    /// The version byte and the message.
    pub body: Bytes,
}

/// A job on its way to the pool.
pub struct ErasedJob {
    /// The machine's job.
    pub job: Box<dyn Any + Send>,
    /// Whose data it checks.
    pub peer: Option<NodeId>,
    /// What it costs.
    pub cost: Cost,
}

/// A job's answer on its way back.
pub struct ErasedDone(pub Box<dyn Any + Send>);

/// Runs jobs of one machine as one batch; answers in order.
pub type Runner = fn(Vec<ErasedJob>, &Keys) -> Vec<ErasedDone>;

/// What a runtime does for a hosted machine. All calls return at once; nothing is re-entrant.
pub trait Platform {
    /// Sends a frame body, best effort. The set never contains the sender.
    fn send(&mut self, to: To, queue: Queue, body: Bytes);
    /// Whether frames are copied at once wherever they go, so that [`Platform::send_slice`] needs no body of its own.
    fn copies(&self) -> bool {
        false
    }
    /// Sends a frame body that is copied before the call returns.
    fn send_slice(&mut self, to: To, queue: Queue, body: &[u8]) {
        self.send(to, queue, Bytes::copy_from_slice(body));
    }
    /// Sends an operation to a memory node, or executes it in place on mapped memory.
    fn register(&mut self, to: NodeId, queue: Queue, op: &RegisterOp);
    /// Appends a record to the machine's lane; durable when [`Hosted::durable`] says so.
    fn append(&mut self, keep: Keep, record: Bytes) -> Lsn;
    /// Appends a blob.
    fn store(&mut self, name: Hash, bytes: Bytes) -> Lsn;
    /// Appends the release of a blob.
    fn erase(&mut self, name: Hash);
    /// Reads a blob; [`Hosted::loaded`] answers.
    fn load(&mut self, name: Hash);
    /// Notes that the lane may be compacted from [`Hosted::snapshot`] once the current call returned.
    fn compact(&mut self);
    /// Queues a job; [`Hosted::done`] answers.
    fn submit(&mut self, job: ErasedJob);
    /// Hands an output to the connector.
    fn output(&mut self, output: Box<dyn Any + Send>);
    /// Records a peer's fault.
    fn blame(&mut self, peer: NodeId, fault: Fault);
    /// Counts a rule.
    fn applied(&mut self, rule: Rule);
    /// Publishes a note.
    fn note(&mut self, note: Note);
    /// A timer was armed for `at`, or disarmed (`None`); for traces and checkers only.
    fn timer(&mut self, _name: &dyn Debug, _at: Option<Time>) {}
}

/// A hosted machine, erased.
pub trait Hosted: Send {
    /// Delivers the first event.
    fn start(&mut self, at: At, platform: &mut dyn Platform);
    /// Delivers an input of the machine's input type.
    ///
    /// # Panics
    /// When the value has another type: the plan's connectors are wrong, which is a bug.
    fn input(&mut self, input: Box<dyn Any + Send>, at: At, platform: &mut dyn Platform);
    /// Delivers a frame body from an authenticated peer.
    fn frame(&mut self, frame: Frame, at: At, platform: &mut dyn Platform);
    /// Delivers a memory node's answer.
    fn registered(&mut self, from: NodeId, reply: RegisterReply, at: At, platform: &mut dyn Platform);
    /// Fires every timer due at `at.now`, in (time, name) order.
    fn tick(&mut self, at: At, platform: &mut dyn Platform);
    /// Delivers a job's answer.
    fn done(&mut self, done: ErasedDone, at: At, platform: &mut dyn Platform);
    /// Delivers a blob.
    fn loaded(&mut self, name: Hash, bytes: Option<Bytes>, at: At, platform: &mut dyn Platform);
    /// Delivers a change of a connection.
    fn link(&mut self, peer: NodeId, link: Link, at: At, platform: &mut dyn Platform);
    /// Everything up to `lsn` of this lane is durable: releases what waited for it.
    fn durable(&mut self, lsn: Lsn, platform: &mut dyn Platform);

    /// When the next timer is due.
    fn deadline(&self) -> Option<Time>;
    /// Whether it takes frames and inputs now; false while too much waits for durability or jobs.
    fn ready(&self) -> bool;
    /// Inputs it takes now.
    fn room(&self) -> u32;
    /// Its outgoing queues.
    fn queues(&self) -> &[QueueSpec];
    /// How its jobs are run.
    fn runner(&self) -> Runner;
    /// Records equivalent to its whole log.
    fn snapshot(&self) -> Vec<(Keep, Bytes)>;
    /// Bytes it holds, including what waits for durability.
    fn bytes(&self) -> u64;
    /// The formula's value.
    fn bytes_max(&self) -> u64;
}

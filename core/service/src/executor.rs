//! The executor: sessions, execution, replies, reads and snapshots beside an ordering machine (hotstuff 4.8-4.15).
//!
//! *Composition.* A hosted machine with its own lane, so that a slow application never delays a view timer. A connector
//! takes [`ExecutorOutput::Submit`] to the ordering machine's input and that machine's `Delivered` to
//! [`ExecutorInput::Delivered`]; it holds deliveries while `room()` is 0, which it never is while a state is installed.
//! After recovery [`Executor::resume_position`] is the `resume` of the ordering machine.
//!
//! *What is durable when.* A `Delivered` entry left the ordering machine only after its certificate and body were
//! durable there, and execution is a function of the order; so replies need no record of the executor's own: after a
//! crash the entry is delivered again behind `resume` and gives the same reply. The executor's lane holds snapshots
//! only: blobs, then a record, then `Applied` with the root, in this order, so that the gate holds a root until the
//! snapshot behind it is durable. A lost blob is fetched by its root. A damaged lane costs time, never a promise: its
//! snapshots are given up and the certified state of the others takes their place, which is also what cures a member whose
//! own state went wrong. A member without others keeps what it has.
//!
//! *Bounds.* [`ExecutorLimits::bytes_max`].

mod admit;
mod backlog;
mod checkpoint;
mod config;
mod execute;
mod fault;
mod job;
mod pool;
mod reads;
mod refusals;
mod replies;
mod snapshot;
mod status;
mod transfer;

use synod_crypto::Hash;
use synod_machine::broadcast::{Checkpoint, Delivered, Position, Submit};
use synod_machine::{
    Bounded, Condition, Event, Link, Log, Machine, QueueSpec, Recover, Turn, Unrecoverable, Wall,
};
use synod_quorum::NodeId;
use synod_wire::Bytes;

pub use config::{ClientAuth, ExecutorConfig, ExecutorLimits};
pub use fault::ServiceFault;
pub use job::{ExecutorDone, ExecutorJob, ItemCheck, Signed};
pub use snapshot::{ExecutorRecord, SNAPSHOT_CHUNKS_MAX, SnapshotRecord, StateSummary};
pub use status::ExecutorStatus;

use crate::app::{App, Replies};
use crate::message::ClientMessage;
use crate::sessions::{Fate, Sessions};
use backlog::Backlog;
pub(crate) use checkpoint::{Serving, send_part};
use config::Settings;
use pool::Pool;
use reads::Reads;
pub(crate) use reads::answer;
use refusals::Refusals;
use replies::Replier;
use snapshot::Snapshots;
use transfer::Transfer;

/// What an executor is asked by its own node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExecutorInput {
    /// What the ordering machine delivers.
    Delivered(Delivered),
    /// Asks the ordering machine for a transferable proof of an entry.
    Prove(Position),
    /// Asks for [`ExecutorOutput::Status`].
    Status,
}

/// What an executor tells its own node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExecutorOutput {
    /// For the ordering machine.
    Submit(Submit),
    /// A checkpoint is certified and older snapshots are released.
    Stable(Checkpoint),
    /// The answer to `Prove`.
    Proof {
        /// Of this entry.
        position: Position,
        /// The proof, if there can be one.
        proof: Option<Bytes>,
    },
    /// The answer to `Status`.
    Status(ExecutorStatus),
}

/// Names of the executor's timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExecutorTimer {
    /// The turn in which reads arrived is over.
    Reads,
    /// Parts of a snapshot are late.
    Fetch,
}

/// Executes the agreed order on an application, each command once.
pub struct Executor<P> {
    app: P,
    settings: Settings,
    sessions: Sessions,
    executed: Position,
    time: Wall,
    /// Who proposed the last block, as far as this node knows.
    leader: Option<u8>,
    pool: Pool,
    backlog: Backlog,
    replier: Replier,
    reads: Reads,
    refusals: Refusals,
    snapshots: Snapshots,
    /// Snapshots of a damaged lane and their blobs, until another takes their place.
    given_up: Vec<(Position, Vec<Hash>)>,
    serving: Serving,
    transfer: Option<Transfer>,
    /// Commands executed since the start of the process, and items skipped as invalid.
    commands: u64,
    skipped: u64,
    fates: Vec<Fate>,
    scratch: Replies,
}

impl<P: App> Executor<P> {
    /// The last position that is durable here, 0 at first: where the ordering machine resumes delivery.
    #[must_use]
    pub fn resume_position(&self) -> Position {
        self.snapshots.newest().map_or(Position(0), snapshot::Snapshot::position)
    }

    /// The application, to look at.
    pub const fn app(&self) -> &P {
        &self.app
    }

    /// The session table, to look at.
    pub const fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// The last position executed.
    pub const fn executed(&self) -> Position {
        self.executed
    }
}

impl<P: App + 'static> Executor<P> {
    fn on_delivered(&mut self, delivered: Delivered, turn: &mut Turn<'_, Self>) {
        match delivered {
            Delivered::Entry(entry) => self.on_entry(entry, turn),
            Delivered::Stable(checkpoint) => self.on_stable(checkpoint, turn),
            Delivered::Jump(checkpoint) => self.on_jump(&checkpoint, turn),
            Delivered::Proof { position, proof } => turn.output(ExecutorOutput::Proof { position, proof }),
            Delivered::Barrier(ticket) => {
                self.backlog.push_barrier(ticket);
                self.run(turn);
            }
            Delivered::Refused { ticket, why } => self.on_refused(ticket, why, turn),
        }
    }

    fn on_message(&mut self, from: NodeId, message: ClientMessage, turn: &mut Turn<'_, Self>) {
        match message {
            ClientMessage::Item(payload) => self.on_item(from, payload.into_bytes(), turn),
            ClientMessage::Attach(attach) => self.on_attach(from, attach, turn),
            ClientMessage::Query(query) => self.on_query(from, query, turn),
            ClientMessage::FetchState(fetch) => self.on_fetch(from, fetch, turn),
            ClientMessage::StateChunk(chunk) => self.on_chunk(from, chunk, turn),
            ClientMessage::Replies(_) | ClientMessage::Answer(_) => turn.blame(from, ServiceFault::OutOfRole),
        }
    }

    fn on_done(&mut self, done: ExecutorDone, turn: &mut Turn<'_, Self>) {
        match done {
            ExecutorDone::Admitted { from, payload, signed } => self.on_admitted(from, payload, signed, turn),
            ExecutorDone::Block(checked) => self.on_checked(checked, turn),
            ExecutorDone::Attached { from, attach, signed } => self.on_attached(from, &attach, signed, turn),
        }
    }
}

impl<P: App + 'static> Machine for Executor<P> {
    type Input = ExecutorInput;
    type Message = ClientMessage;
    type Timer = ExecutorTimer;
    type Record = ExecutorRecord;
    type Job = ExecutorJob;
    type Output = ExecutorOutput;

    fn step(&mut self, event: Event<Self>, turn: &mut Turn<'_, Self>) {
        match event {
            Event::Start => self.restore_own(turn),
            Event::Input(ExecutorInput::Delivered(delivered)) => self.on_delivered(delivered, turn),
            Event::Input(ExecutorInput::Prove(position)) => {
                turn.output(ExecutorOutput::Submit(Submit::Prove(position)));
            }
            Event::Input(ExecutorInput::Status) => turn.output(ExecutorOutput::Status(self.status())),
            Event::Message { from, message } => self.on_message(from, message, turn),
            Event::Timer(ExecutorTimer::Reads) => self.on_reads(turn),
            Event::Timer(ExecutorTimer::Fetch) => self.on_patience(turn),
            Event::Done(done) => self.on_done(done, turn),
            Event::Loaded { name, bytes } => {
                self.serve(name, bytes.as_ref(), turn);
                self.on_own_chunk(name, bytes.as_ref(), turn);
            }
            Event::Link { peer, link: Link::Down } => {
                self.replier.forget(peer);
                self.pool.forget(peer);
                self.refusals.forget(peer);
            }
            Event::Link { link: Link::Up, .. } => {}
        }
    }

    fn room(&self) -> u32 {
        // While a state is installed nothing is executed, and the jump that may be the only way out comes behind entries.
        let open = self.transfer.is_some() || self.backlog.bytes() < self.settings.limits.lag_bytes;
        if open { u32::MAX } else { 0 }
    }

    fn invariants(&self) {
        self.app.invariants();
        self.sessions.invariants();
        assert!(self.executed <= self.backlog.delivered(), "nothing is executed before it is delivered");
        assert!(self.pool.payload_bytes() <= self.settings.limits.pool_bytes, "the pool keeps its budget");
    }
}

impl<P: App + 'static> Bounded for Executor<P> {
    fn bytes(&self) -> u64 {
        let held = self.app.bytes() + self.sessions.bytes() + self.pool.bytes() + self.backlog.bytes();
        let out = self.replier.bytes() + self.reads.bytes() + self.snapshots.bytes();
        held + out + self.refusals.bytes() + self.transfer.as_ref().map_or(0, Transfer::bytes)
    }

    fn bytes_max(&self) -> u64 {
        self.settings.limits.bytes_max()
    }
}

impl<P: App + 'static> Recover for Executor<P> {
    type Config = ExecutorConfig<P>;

    fn queues(_: &ExecutorConfig<P>) -> Vec<QueueSpec> {
        QueueSpec::standard()
    }

    fn recover(config: ExecutorConfig<P>, log: Log<'_, ExecutorRecord>) -> Result<Self, Unrecoverable> {
        let (app, settings) = config.split();
        let mut snapshots = Snapshots::replay(log.records);
        // What became of a damaged lane's state nobody knows; where there are others, theirs is certified.
        let alone = settings.roster.others(settings.own).is_empty();
        let given_up = match log.condition {
            Condition::Damaged if !alone => snapshots.give_up(),
            _ => Vec::new(),
        };
        let resume = snapshots.newest().map_or(Position(0), snapshot::Snapshot::position);
        let limits = settings.limits;
        Ok(Self {
            app,
            sessions: Sessions::new(limits.sessions),
            executed: resume,
            time: Wall(0),
            leader: None,
            pool: Pool::new(),
            backlog: Backlog::new(resume),
            replier: Replier::new(limits.ring_bytes),
            reads: Reads::default(),
            refusals: Refusals::default(),
            transfer: snapshots.newest().map(|newest| Transfer::own(newest.record.clone())),
            snapshots,
            given_up,
            serving: Serving::default(),
            commands: 0,
            skipped: 0,
            fates: Vec::new(),
            scratch: Replies::default(),
            settings,
        })
    }

    fn snapshot(&self, put: &mut dyn FnMut(ExecutorRecord)) {
        for snapshot in self.snapshots.iter() {
            put(ExecutorRecord::Taken(snapshot.record.clone()));
        }
    }
}

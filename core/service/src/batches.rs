//! The executor beside a Chop Chop server: batches in height order, checkpoints, states from others (chopchop 3.1, 4.9).
//!
//! *Composition.* A hosted machine with its own lane. A connector makes a [`Batch`] of each batch that the server delivers
//! and hands it to [`BatchInput::Apply`]; it holds them while `room()` is 0. Checkpoints and jumps of the server come in the
//! same order, and [`BatchOutput::Applied`] goes back to it. Guests read by `Query`; members serve one another chunks by the
//! vocabulary of the other executor, [`ClientMessage`].
//!
//! *What is durable when.* Only checkpoints: blobs, then a record, then the root, which the gate holds until they are
//! durable. The server's mark follows the root, so after a crash this lane holds the checkpoint of the server's mark or a
//! later one. The server hands in again what lies behind its mark; what this node has is skipped, and a checkpoint that is
//! asked again is answered from its record. Codes of operations are memory: after a restart those behind the checkpoint are
//! known again, older ones are not.
//!
//! *Another state.* On [`BatchInput::Jump`] the state of that root takes the place of what is here, from own blobs if the
//! lane has it, else from other members, each chunk proved under the root.
//!
//! *Bounds.* [`Bounded`]: the cells three times (state, one that is taken over or copied chunks, its blobs on their way),
//! waiting batches, one batch with its mail, codes, reads, names of eight checkpoints. Batches that are not taken wait in
//! the node, and while a state is taken over all are taken: they are bounded by the server, which gives no more than
//! [`BatchLimits::given_bytes`] before [`BatchOutput::Executed`] says that some of them are executed.
//!
//! *Deviations* from the written design, each with its reason and test:
//!
//! | Here | Instead of | Why, test |
//! |---|---|---|
//! | 5 bytes of codes and ids per operation, in the same 128 MiB | 1 byte per operation | a client is found by its id, and ids in the body would keep the body (`codes_are_found_by_id_and_height_and_the_oldest_go`) |
//! | reads name a height | reads behind a barrier | a client has the certificate of the height of its message; the server gives no barrier (`a_read_waits_for_its_height`) |
//! | a server hears of batches that it awaits | it hears of roots alone | what it gives waits here with its body, and roots come 1,024 batches apart (`whoever_awaits_a_batch_hears_of_it_once_it_is_executed_also_where_a_checkpoint_covers_it`) |

mod checkpoint;
mod config;
mod install;
mod job;
mod kept;
mod reads;
mod results;
mod work;

use std::collections::VecDeque;

use synod_crypto::Hash;
use synod_machine::broadcast::Position;
use synod_machine::{Bounded, Event, Link, Log, Machine, QueueSpec, Recover, Turn, Unrecoverable};
use synod_quorum::NodeId;

pub use config::{BatchConfig, BatchLimits};
pub use job::{BatchDone, BatchJob};
pub use kept::{BatchCheckpoint, BatchRecord};
pub use reads::{ASK_MAX, BatchQuestion, BatchStanding};

use crate::executor::{ServiceFault, Serving};
use crate::lanes::{Batch, LaneApp, State};
use crate::message::ClientMessage;
use checkpoint::Naming;
use config::Settings;
use install::Install;
use kept::Checkpoints;
use reads::Reads;
use results::Results;
use work::{Todo, Work};

/// What a batch executor is told by its own node.
#[derive(Clone, Debug)]
pub enum BatchInput {
    /// A batch of the server, in height order.
    Apply {
        /// The batch.
        batch: Box<Batch>,
        /// Whether [`BatchOutput::Executed`] is to follow once it is executed.
        awaited: bool,
    },
    /// Every batch up to this height lies behind: make the state there durable and answer its root.
    Checkpoint {
        /// The position.
        position: Position,
        /// The height.
        height: u64,
        /// Position of the newest certified checkpoint that is known: what lies below it is asked for by nobody.
        stable: Position,
    },
    /// Take the state of this root, from others if it is not here, and answer as to a checkpoint.
    Jump {
        /// The position.
        position: Position,
        /// The height.
        height: u64,
        /// The root.
        root: Hash,
    },
    /// Asks for [`BatchOutput::Status`].
    Status,
}

/// What a batch executor tells its own node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BatchOutput {
    /// For the server: the state at this position is durable, and has this root.
    Applied {
        /// The position.
        position: Position,
        /// The root.
        root: Hash,
    },
    /// For the server: a batch that it awaits, and all before it, are executed here.
    Executed {
        /// Its height.
        height: u64,
    },
    /// For the server: nobody has the state that is wanted here. Another one is needed, above it; said again while that is so.
    Stuck,
    /// The answer to `Status`.
    Status(BatchStatus),
}

/// A look at a batch executor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchStatus {
    /// Height, and the newest durable checkpoint.
    pub standing: BatchStanding,
    /// Batches and checkpoints that wait.
    pub waiting: u64,
    /// Position of the state that is being taken over, if one is.
    pub installing: Option<Position>,
    /// Operations executed since the process started.
    pub operations: u64,
}

/// Names of the timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BatchTimer {
    /// Chunks of a state are late.
    Fetch,
}

/// Executes batches on an application in lanes.
pub struct BatchExecutor<P: LaneApp> {
    settings: Settings,
    state: State<P>,
    /// Which state jobs are about: a jump makes their answers useless.
    generation: u64,
    /// Executed, sign-ups included.
    height: u64,
    position: Position,
    queue: VecDeque<Todo>,
    queue_bytes: u64,
    work: Option<Work<P>>,
    naming: Option<Naming>,
    /// Name and leaf of each chunk at the last checkpoint.
    names: Vec<(Hash, Hash)>,
    kept: Checkpoints,
    orphans: Vec<Hash>,
    serving: Serving,
    install: Option<Install<P>>,
    results: Results,
    reads: Reads,
    operations: u64,
}

impl<P: LaneApp> BatchExecutor<P> {
    /// The state, to look at; without its cells while jobs have them.
    #[must_use]
    pub const fn state(&self) -> &State<P> {
        &self.state
    }

    /// The height executed.
    #[must_use]
    pub const fn height(&self) -> u64 {
        self.height
    }

    /// The code of the operation of `id` at `height`; `None` when it is not known any more or was none.
    #[must_use]
    pub fn code(&self, id: u32, height: u64) -> Option<u8> {
        self.results.code(id, height)
    }

    /// A look at this executor.
    #[must_use]
    pub fn status(&self) -> BatchStatus {
        BatchStatus {
            standing: self.standing(),
            waiting: self.queue.len() as u64,
            installing: self.install.as_ref().map(|install| install.position),
            operations: self.operations,
        }
    }

    fn on_input(&mut self, input: BatchInput, turn: &mut Turn<'_, Self>) {
        let todo = match input {
            BatchInput::Apply { batch, awaited } => {
                let height = batch.height;
                self.wait(Todo::Batch(batch));
                if awaited {
                    self.wait(Todo::Say { height });
                }
                return self.advance(turn);
            }
            BatchInput::Checkpoint { position, height, stable } => {
                self.kept.certify(stable);
                Todo::Checkpoint { position, height }
            }
            BatchInput::Jump { position, height, root } => return self.on_jump(position, height, root, turn),
            BatchInput::Status => return turn.output(BatchOutput::Status(self.status())),
        };
        self.wait(todo);
        self.advance(turn);
    }

    fn wait(&mut self, todo: Todo) {
        self.queue_bytes += todo.bytes();
        self.queue.push_back(todo);
    }

    fn on_message(&mut self, from: NodeId, message: ClientMessage, turn: &mut Turn<'_, Self>) {
        match message {
            ClientMessage::Query(query) => self.on_query(from, query, turn),
            ClientMessage::FetchState(fetch) => self.on_fetch(from, fetch, turn),
            ClientMessage::StateChunk(chunk) => self.on_chunk(from, chunk, turn),
            ClientMessage::Item(_)
            | ClientMessage::Attach(_)
            | ClientMessage::Replies(_)
            | ClientMessage::Answer(_) => turn.blame(from, ServiceFault::OutOfRole),
        }
    }
}

impl<P: LaneApp> Machine for BatchExecutor<P> {
    type Input = BatchInput;
    type Message = ClientMessage;
    type Timer = BatchTimer;
    type Record = BatchRecord;
    type Job = BatchJob<P>;
    type Output = BatchOutput;

    fn step(&mut self, event: Event<Self>, turn: &mut Turn<'_, Self>) {
        match event {
            Event::Start => self.on_start(turn),
            Event::Input(input) => self.on_input(input, turn),
            Event::Message { from, message } => self.on_message(from, message, turn),
            Event::Timer(BatchTimer::Fetch) => self.on_patience(turn),
            Event::Done(done) => self.on_done(done, turn),
            Event::Loaded { name, bytes } => {
                self.serve(name, bytes.as_ref(), turn);
                self.on_own_chunk(name, bytes.as_ref(), turn);
            }
            Event::Link { peer, link: Link::Down } => self.reads.forget(peer),
            Event::Link { link: Link::Up, .. } => {}
        }
    }

    fn room(&self) -> u32 {
        // While a state is taken over nothing is executed, and the jump that may be the only way out comes behind batches.
        let open = self.install.is_some() || self.queue_bytes < self.settings.limits.lag_bytes;
        if open { u32::MAX } else { 0 }
    }

    fn invariants(&self) {
        self.state.invariants();
        let waiting: u64 = self.queue.iter().map(Todo::bytes).sum();
        assert_eq!(waiting, self.queue_bytes, "what waits is counted");
        assert!(self.results.bytes() <= self.settings.limits.results_bytes, "codes keep their budget");
        let heights = self.queue.iter().filter_map(|todo| match todo {
            Todo::Batch(batch) => Some(batch.height),
            Todo::Checkpoint { .. } | Todo::Say { .. } => None,
        });
        assert!(heights.is_sorted(), "batches come in height order");
        let busy = self.work.is_some() || self.install.is_some();
        assert!(busy || self.state.is_home(), "shards are out only while jobs have them");
    }
}

impl<P: LaneApp> Bounded for BatchExecutor<P> {
    fn bytes(&self) -> u64 {
        let naming = self.naming.map_or(0, |naming| naming.bytes) + 64 * self.names.len() as u64;
        self.state.chunk_bytes()
            + self.queue_bytes
            + self.work.as_ref().map_or(0, Work::bytes)
            + self.install.as_ref().map_or(0, Install::bytes)
            + naming
            + self.kept.bytes()
            + self.results.bytes()
            + self.reads.bytes()
    }

    fn bytes_max(&self) -> u64 {
        let limits = &self.settings.limits;
        let cells = self.state.chunk_bytes().max(self.install.as_ref().map_or(0, Install::bytes));
        let chunks = cells / 32_768 + 4_096;
        // The first batch beyond the limit, which had no say in it, and the one at work with its mail: as long as a batch may be.
        let batches =
            limits.lag_bytes.max(limits.given_bytes) + (2 + work::MAIL) * limits.batch_bytes + 4_096;
        let reads = u64::from(limits.reads) * 2 * (ASK_MAX as u64 + 256);
        let names = kept::KEPT_MAX as u64 * kept::NAMED_BYTES + 448;
        3 * cells + batches + limits.results_bytes + reads + names * chunks
    }
}

impl<P: LaneApp> Recover for BatchExecutor<P> {
    type Config = BatchConfig<P>;

    fn queues(_: &BatchConfig<P>) -> Vec<QueueSpec> {
        QueueSpec::standard()
    }

    fn recover(config: BatchConfig<P>, log: Log<'_, BatchRecord>) -> Result<Self, Unrecoverable> {
        let BatchConfig { state, own, roster, limits } = config;
        assert!(roster.member(own).is_some(), "an executor runs at a member");
        let (kept, orphans) = Checkpoints::replay(log.records);
        let install = kept.newest().map(|newest| Install::own(newest.record.clone(), false));
        Ok(Self {
            settings: Settings { own, roster, limits },
            state,
            generation: 0,
            height: 0,
            position: Position(0),
            queue: VecDeque::new(),
            queue_bytes: 0,
            work: None,
            naming: None,
            names: Vec::new(),
            kept,
            orphans,
            serving: Serving::default(),
            install,
            results: Results::default(),
            reads: Reads::default(),
            operations: 0,
        })
    }

    fn snapshot(&self, put: &mut dyn FnMut(BatchRecord)) {
        let stable = self.kept.stable();
        self.kept.iter().for_each(|kept| put(BatchRecord::Taken { checkpoint: kept.clone(), stable }));
    }
}

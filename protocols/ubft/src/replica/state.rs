//! What a replica holds beside consensus, and how events reach its parts.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use synod_crypto::{Claim, Hash, Keys, PublicKey, Verified};
use synod_machine::{
    Bounded, Condition, Cost, Event, Family, Job as Work, Lift, Log, Machine, Never, Note, QueueSpec, Record,
    Recover, Time, Turn, Unrecoverable, Wall,
};
use synod_quorum::{Epoch, NodeId};
use synod_wire::{Bytes, wire};

use super::admit::{Judging, Pending};
use super::consensus::Consensus;
use super::job::{Finished, Task};
use super::transfer::Transfer;
use super::words::{Alarm, Ask, Told, Word};
use crate::batch::{Batch, Slot, View};
use crate::certificate::Checkpoint;
use crate::config::Config;
use crate::message::{self, ClientStatement, Message};
use crate::sessions::{SESSION_WINDOW_MAX, SessionLimits, Sessions};
use crate::stream::Low;

/// What a replica starts from.
#[derive(Clone, Debug)]
pub struct ReplicaConfig {
    /// The first epoch.
    pub config: Config,
    /// Sessions.
    pub sessions: SessionLimits,
    /// Bytes of batches that are kept for whoever is behind.
    pub archive_bytes_max: u64,
    /// Whether slots are promised first; a lab's switch.
    pub fast_path: bool,
}

wire! {
    /// How often a replica was started: a promise made in an earlier life is forgotten, and none may be made over it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Incarnation(pub u64);
}

impl Record for Incarnation {}

/// A request that is to be executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requested {
    /// Whose.
    pub session: u64,
    /// Its number within the session.
    pub id: u64,
    /// What is asked.
    pub op: Bytes,
}

/// What is asked of a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// The requests of a slot were executed, with these results, in order.
    Executed {
        /// The slot.
        slot: Slot,
        /// The results.
        replies: Vec<Bytes>,
    },
    /// The answer to [`Output::Query`].
    Answered {
        /// Who asked.
        guest: NodeId,
        /// Its number for it.
        id: u64,
        /// The answer.
        value: Option<Bytes>,
    },
}

/// What a replica tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Requests of a slot are to be executed; one slot at a time.
    Execute {
        /// The slot.
        slot: Slot,
        /// Agreed time, never decreasing.
        time: Wall,
        /// Of the batch: the only source of tie-breaks.
        draw: Hash,
        /// The requests, in order.
        requests: Vec<Requested>,
    },
    /// A client asks for what is executed already.
    Query {
        /// Who.
        guest: NodeId,
        /// Its number for it.
        id: u64,
        /// The question.
        question: Bytes,
    },
    /// Results here differ from those that f + 1 replicas certified: this replica stops answering.
    Diverged {
        /// The checkpoint.
        low: Slot,
    },
    /// Whether this replica takes part. One that was started again does not, for it may have promised what it forgot.
    Ready(bool),
    /// What is missing here is in nobody's archive any more.
    Stranded {
        /// The first slot that is missing.
        from: Slot,
    },
    /// Two batches were decided for one slot: more replicas lie than may.
    Broken(Slot),
}

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// Of consensus.
    Consensus(Epoch, Alarm),
    /// Requests that not all heard.
    Echo,
    /// The log of a peer.
    Transfer,
}

/// What a signature of a client is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientFor {
    /// A request, from this link.
    Request(NodeId),
    /// Request number so many of a batch that is to be judged.
    Batch(Slot, usize),
    /// A session on this link.
    Attach(NodeId),
    /// A registration from this link.
    Register(NodeId),
}

/// Work of a replica.
#[derive(Clone, Debug)]
pub enum Job {
    /// Of consensus.
    Consensus(Epoch, Task),
    /// Checks what a client signed.
    Client {
        /// What for.
        what: ClientFor,
        /// The operation, of a request.
        op: Bytes,
        /// What is said to be signed.
        claim: Claim<ClientStatement>,
    },
}

/// What came of it.
#[derive(Clone, Debug)]
pub enum Done {
    /// Of consensus.
    Consensus(Epoch, Finished),
    /// What a client signed.
    Client {
        /// What for.
        what: ClientFor,
        /// The operation, of a request.
        op: Bytes,
        /// Good, or not its signer's.
        claim: Result<Verified<Claim<ClientStatement>>, Claim<ClientStatement>>,
    },
}

impl Work for Job {
    type Done = Done;

    fn run(self, keys: &Keys) -> Done {
        match self {
            Self::Consensus(epoch, task) => Done::Consensus(epoch, task.run(keys)),
            Self::Client { what, op, claim } => Done::Client { what, op, claim: claim.verify(keys) },
        }
    }

    fn cost(&self) -> Cost {
        match self {
            Self::Consensus(_, task) => task.cost(),
            Self::Client { .. } => Cost { verify: 1, ..Cost::default() },
        }
    }

    fn peer(&self) -> Option<NodeId> {
        match self {
            Self::Consensus(_, task) => task.peer(),
            Self::Client { what: ClientFor::Request(from) | ClientFor::Attach(from), .. }
            | Self::Client { what: ClientFor::Register(from), .. } => Some(*from),
            Self::Client { what: ClientFor::Batch(..), .. } => None,
        }
    }
}

/// Consensus of an epoch, said by a replica.
struct In(Epoch);

impl Lift<Consensus, Replica> for In {
    fn message(&self, word: Word) -> Message {
        Message::Word { epoch: self.0, word }
    }
    fn timer(&self, alarm: Alarm) -> Timer {
        Timer::Consensus(self.0, alarm)
    }
    fn record(&self, record: Never) -> Incarnation {
        match record {}
    }
    fn job(&self, task: Task) -> Job {
        Job::Consensus(self.0, task)
    }
}

/// See [`super`].
pub struct Replica {
    pub(super) settings: ReplicaConfig,
    pub(super) config: Arc<Config>,
    incarnation: u64,
    epochs: Family<Epoch, Consensus>,
    pub(super) epoch: Epoch,
    told: VecDeque<Told>,
    pub(super) sessions: Sessions,
    /// Links on which sessions are, with the newest statement about it.
    pub(super) attached: BTreeMap<u64, (NodeId, u64)>,
    pub(super) pending: BTreeMap<(u64, u64), Pending>,
    /// What may be proposed, oldest first.
    pub(super) ready: VecDeque<(u64, u64)>,
    pub(super) registering: BTreeMap<(PublicKey, u64), super::admit::Registering>,
    pub(super) judging: BTreeMap<Slot, Judging>,
    pub(super) decided: VecDeque<(Slot, Hash, Batch)>,
    pub(super) executing: Option<Slot>,
    /// Everything below is executed.
    pub(super) executed: Slot,
    pub(super) time: Wall,
    pub(super) log_chain: Hash,
    pub(super) exec_chain: Hash,
    pub(super) checkpoints: BTreeMap<Slot, Checkpoint>,
    pub(super) archive: BTreeMap<Slot, Batch>,
    pub(super) archive_bytes: u64,
    pub(super) has_diverged: bool,
    pub(super) transfer: Option<Transfer>,
    pub(super) is_echo_armed: bool,
    pressing: Option<Time>,
}

impl Replica {
    /// How often it was started, this time included.
    #[must_use]
    pub const fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// Everything below this slot is executed.
    #[must_use]
    pub const fn executed(&self) -> Slot {
        self.executed
    }

    /// Consensus of the present epoch; none where this replica is in none.
    #[must_use]
    pub fn consensus(&self) -> Option<&Consensus> {
        self.epochs.iter().find(|(epoch, _)| *epoch == self.epoch).map(|(_, consensus)| consensus)
    }

    /// The digests of all that was decided, and of all results.
    #[must_use]
    pub const fn chains(&self) -> (Hash, Hash) {
        (self.log_chain, self.exec_chain)
    }

    /// The sessions.
    #[must_use]
    pub const fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// Requests that wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.pending.len()
    }

    pub(super) fn is_leader(&self) -> bool {
        self.consensus().is_some_and(|consensus| consensus.leader() == self.config.me)
    }

    pub(super) fn ask(&mut self, ask: Ask, turn: &mut Turn<'_, Self>) {
        self.consent(Event::Input(ask), turn);
    }

    /// Steps consensus; what it tells waits until its event is done.
    fn consent(&mut self, event: Event<Consensus>, turn: &mut Turn<'_, Self>) {
        let epoch = self.epoch;
        if let Some(consensus) = self.epochs.get_mut(epoch) {
            self.told.extend(consensus.step(event, &In(epoch), turn));
        }
    }

    fn on_told(&mut self, told: Told, turn: &mut Turn<'_, Self>) {
        match told {
            Told::Judge { view, slot, digest, batch } => self.judge(slot, (view, digest), batch, turn),
            Told::Decided { slot, digest, batch, .. } => {
                self.judging.remove(&slot);
                self.decided.push_back((slot, digest, batch));
                self.execute(turn);
            }
            Told::Certified(certificate) => self.on_certified(&certificate.subject, turn),
            Told::Behind { to, .. } => self.fall_behind(to, turn),
            Told::View(view) => {
                self.note_view(view, turn);
                self.echo_again(turn);
            }
            // Replies carry what consensus says of itself.
            Told::Slow(_) => {}
            Told::Retired => turn.output(Output::Ready(false)),
            Told::Broken(slot) => turn.output(Output::Broken(slot)),
        }
    }

    /// For whoever watches: the view, and its leader.
    fn note_view(&self, view: View, turn: &mut Turn<'_, Self>) {
        let leader = u64::from(self.config.leader(view).0);
        turn.note(Note { name: "view_entered", values: [view.0, 0, leader, 0], digest: Hash::ZERO });
    }

    /// Whatever consensus told is done, and what may be proposed is.
    fn settle(&mut self, turn: &mut Turn<'_, Self>) {
        loop {
            while let Some(told) = self.told.pop_front() {
                self.on_told(told, turn);
            }
            self.propose(turn);
            let pressing = self.oldest_signed();
            if pressing != self.pressing {
                self.pressing = pressing;
                self.ask(Ask::Pressing(pressing), turn);
            }
            if self.told.is_empty() {
                return;
            }
        }
    }

    fn on_message(&mut self, from: NodeId, message: Message, turn: &mut Turn<'_, Self>) {
        match message {
            Message::Word { epoch, word } if epoch == self.epoch => {
                self.consent(Event::Message { from, message: word }, turn);
            }
            // Of an epoch that this replica is not in.
            Message::Word { .. } => {}
            Message::Echo { session, id, op } => self.on_echo(from, (session, id), op, turn),
            Message::Forward { session, id, op, signature } => {
                self.on_request(from, (session, id), op.into_bytes(), Some(signature), turn);
            }
            Message::FetchLog { from: slot } => self.on_fetch_log(from, slot, turn),
            Message::Log { from: slot, batches } => self.on_log(from, slot, batches.into_vec(), turn),
            Message::Register { registration, signature } => {
                self.on_register(from, registration, signature, turn);
            }
            Message::Attach { session, sequence, signature } => {
                self.on_attach(from, (session, sequence), signature, turn);
            }
            Message::Ask { session, id, op, signature } => {
                self.on_request(from, (session, id), op.into_bytes(), signature, turn);
            }
            Message::Read { id, question } => {
                let question = question.into_bytes();
                if !self.has_diverged {
                    turn.output(Output::Query { guest: from, id, question });
                }
            }
            // Said to clients.
            Message::Registered { .. }
            | Message::Reply { .. }
            | Message::NeedSigned { .. }
            | Message::Answer { .. } => {}
        }
    }
}

impl Machine for Replica {
    type Input = Input;
    type Message = Message;
    type Timer = Timer;
    type Record = Incarnation;
    type Job = Job;
    type Output = Output;

    fn step(&mut self, event: Event<Self>, turn: &mut Turn<'_, Self>) {
        match event {
            Event::Start => {
                turn.persist(Incarnation(self.incarnation));
                turn.output(Output::Ready(self.consensus().is_some()));
                self.note_view(self.config.first_view, turn);
                self.consent(Event::Start, turn);
                if !self.settings.fast_path {
                    self.ask(Ask::SlowOnly, turn);
                }
            }
            Event::Input(Input::Executed { slot, replies }) => self.on_replies(slot, &replies, turn),
            Event::Input(Input::Answered { guest, id, value }) => {
                let value = value.and_then(|value| value.try_into().ok());
                turn.send(guest, Message::Answer { id, value });
            }
            Event::Message { from, message } => self.on_message(from, message, turn),
            Event::Timer(Timer::Consensus(epoch, alarm)) if epoch == self.epoch => {
                self.consent(Event::Timer(alarm), turn);
            }
            Event::Timer(Timer::Echo) => self.on_unheard(turn),
            Event::Timer(Timer::Transfer) => self.on_transfer(turn),
            Event::Done(Done::Consensus(epoch, finished)) if epoch == self.epoch => {
                self.consent(Event::Done(finished), turn);
            }
            Event::Done(Done::Client { what, op, claim }) => self.on_client(what, op, claim, turn),
            Event::Timer(_) | Event::Done(_) | Event::Loaded { .. } | Event::Link { .. } => {}
        }
        self.settle(turn);
    }

    fn invariants(&self) {
        if let Some(consensus) = self.consensus() {
            consensus.invariants();
        }
        assert!(self.told.is_empty(), "what consensus told is done");
        assert!(self.archive_bytes <= self.settings.archive_bytes_max, "the archive has its bytes");
        assert!(self.executing.is_none_or(|slot| slot == self.executed), "one slot at a time, in order");
    }
}

impl Bounded for Replica {
    fn bytes(&self) -> u64 {
        let consensus = self.consensus().map_or(0, Bounded::bytes);
        let pending: u64 = self.pending.values().map(Pending::bytes).sum();
        let judging: u64 = self.judging.values().map(Judging::bytes).sum();
        let decided: usize = self.decided.iter().map(|(_, _, batch)| super::admit::batch_bytes(batch)).sum();
        let transfer = self.transfer.as_ref().map_or(0, Transfer::bytes);
        consensus + pending + judging + decided as u64 + transfer + self.sessions.bytes() + self.archive_bytes
    }

    fn bytes_max(&self) -> u64 {
        let SessionLimits { sessions_max, session_window, .. } = self.settings.sessions;
        let n = self.config.roster.size();
        let parameters = &self.config.parameters;
        let waiting = u64::from(sessions_max + n) * u64::from(session_window);
        let pending = waiting * (u64::from(parameters.request_inline_max) + 512 + u64::from(n) * 64);
        let batch = self.config.body_max() as u64 + 1_024;
        let batches = 4 * u64::from(parameters.window) * batch;
        let sessions = Sessions::bytes_max(&self.settings.sessions, n);
        let consensus = self.consensus().map_or(0, Bounded::bytes_max);
        // What is transferred is at most an archive, and waits to be executed.
        consensus + pending + batches + sessions + 3 * self.settings.archive_bytes_max
    }
}

impl Recover for Replica {
    type Config = ReplicaConfig;

    fn queues(config: &ReplicaConfig) -> Vec<QueueSpec> {
        message::queues(&config.config, config.sessions.sessions_max, config.sessions.session_window)
    }

    fn recover(settings: ReplicaConfig, log: Log<'_, Incarnation>) -> Result<Self, Unrecoverable> {
        settings.config.quorums().map_err(|why| Unrecoverable(format!("the configuration: {why:?}")))?;
        let window = settings.sessions.session_window;
        if window == 0 || window > SESSION_WINDOW_MAX {
            return Err(Unrecoverable(format!(
                "a session window is 1 to {SESSION_WINDOW_MAX}, not {window}"
            )));
        }
        let last = log.records.map(|incarnation| incarnation.0).max().unwrap_or(0);
        let incarnation = last.checked_add(1).ok_or_else(|| Unrecoverable("started too often".to_owned()))?;
        let config = Arc::new(settings.config.clone());
        let mut epochs = Family::new(2);
        // The first epoch lists first incarnations; whoever lost its journal may be another.
        let is_listed = incarnation == 1 && log.condition != Condition::Damaged;
        if is_listed {
            let start = Low { low: Slot(0), digest: Hash::ZERO, end: None };
            let consensus = Consensus::new(Arc::clone(&config), start)
                .map_err(|why| Unrecoverable(format!("the configuration: {why:?}")))?;
            epochs.member(config.epoch, || consensus);
        }
        let keys = config.roster.all().iter().filter_map(|id| Some((id, config.roster.member(id)?.key)));
        Ok(Self {
            sessions: Sessions::new(settings.sessions, keys.collect::<Vec<_>>().into_iter()),
            epoch: config.epoch,
            settings,
            config,
            incarnation,
            epochs,
            told: VecDeque::new(),
            attached: BTreeMap::new(),
            pending: BTreeMap::new(),
            ready: VecDeque::new(),
            registering: BTreeMap::new(),
            judging: BTreeMap::new(),
            decided: VecDeque::new(),
            executing: None,
            executed: Slot(0),
            time: Wall(0),
            log_chain: Hash::ZERO,
            exec_chain: Hash::ZERO,
            checkpoints: BTreeMap::new(),
            archive: BTreeMap::new(),
            archive_bytes: 0,
            has_diverged: false,
            transfer: None,
            is_echo_armed: false,
            pressing: None,
        })
    }

    fn snapshot(&self, put: &mut dyn FnMut(Incarnation)) {
        put(Incarnation(self.incarnation));
    }
}

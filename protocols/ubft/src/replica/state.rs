//! What a replica holds beside consensus, and how events reach its parts.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use synod_crypto::{Claim, Hash, PublicKey, Verified};
use synod_machine::{
    Bounded, Condition, Event, Family, Lift, Link, Log, Machine, Never, Note, QueueSpec, Recover, Time, Turn,
    Unrecoverable, Wall, planted,
};
use synod_quorum::{Epoch, NodeId, Quorums};

use super::archive::Archive;
use super::changes::Changes;
use super::consensus::Consensus;
use super::execute::{exec_chain, log_chain};
use super::install::Install;
use super::job::Task;
use super::judge::Judging;
use super::membership::Membership;
use super::pending::Pending;
use super::snapshots::{SNAPSHOTS_MAX, Snapshots};
use super::transfer::Transfer;
use super::vocabulary::{Done, Incarnation, Input, Job, Output, ReplicaConfig, Timer};
use super::words::{Alarm, Ask, Told, Word};
use crate::batch::{Batch, Slot, View};
use crate::body::CheckpointBy;
use crate::certificate::{Checkpoint, Snapshotted};
use crate::chain::Chain;
use crate::config::{Config, NUMBER_END};
use crate::epoch::{Configuration, Epochs};
use crate::fault::Fault;
use crate::message::{self, Message};
use crate::sessions::{SESSION_WINDOW_MAX, SessionLimits, Sessions};
use crate::snapshot::CHUNKS_MAX;
use crate::statement::Statement;
use crate::stream::Low;

/// A signature that was checked, or is the own.
type Signed = Verified<Claim<Statement>>;

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
    /// The same: what the first epoch has, under whose keys everything is signed.
    pub(super) genesis: Arc<Config>,
    pub(super) quorums: Quorums,
    incarnation: u64,
    /// Promises of an earlier life may be missing, and even how many lives there were.
    is_damaged: bool,
    /// Consensus of the newest epoch, and of the one before.
    pub(super) family: Family<Epoch, Consensus>,
    /// The newest epoch that is certified.
    pub(super) epoch: Epoch,
    pub(super) membership: Membership,
    pub(super) changes: Changes,
    /// What follows from the order about epochs.
    pub(super) epochs: Epochs,
    /// The newest certified checkpoint.
    pub(super) newest: Option<CheckpointBy>,
    told: VecDeque<Told>,
    pub(super) sessions: Sessions,
    /// Links on which sessions are, with the newest statement about it.
    pub(super) attached: BTreeMap<u64, (NodeId, u64)>,
    pub(super) pending: BTreeMap<(u64, u64), Pending>,
    /// Unless this is false, there may be something that a client signed among what waits.
    pub(super) may_be_signed: bool,
    /// What may be proposed, oldest first.
    pub(super) ready: VecDeque<(u64, u64)>,
    pub(super) registering: BTreeMap<(PublicKey, u64), super::admit::Registering>,
    pub(super) judging: BTreeMap<Slot, Judging>,
    pub(super) decided: VecDeque<(Slot, Hash, Arc<Batch>)>,
    pub(super) executing: Option<Slot>,
    /// Sessions and ids of what is executed, one for each result that the user gives.
    pub(super) asked: Vec<(u64, u64)>,
    /// Everything below is executed.
    pub(super) executed: Slot,
    pub(super) time: Wall,
    pub(super) log_chain: Chain,
    pub(super) exec_chain: Chain,
    pub(super) checkpoints: BTreeMap<Slot, Checkpoint>,
    pub(super) archive: Archive,
    /// It differed from what was certified, and took another state.
    pub(super) was_repaired: bool,
    /// It differed again: nothing is answered any more.
    pub(super) has_diverged: bool,
    pub(super) transfer: Option<Transfer>,
    /// Peers that did not answer in time, one after the other, since something was fetched.
    pub(super) late: u32,
    pub(super) install: Option<Install>,
    /// The user takes the state behind this slot.
    pub(super) installing: Option<Slot>,
    pub(super) snapshots: Snapshots,
    pub(super) is_echo_armed: bool,
    pub(super) pressing: Option<Time>,
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
        self.family.get(self.epoch)
    }

    /// The newest epoch that is certified, whether this replica takes part in it or not.
    #[must_use]
    pub const fn configuration(&self) -> &Configuration {
        &self.membership.configuration
    }

    /// The slot of the newest certified snapshot; 0 where there is none.
    #[must_use]
    pub fn snapshotted(&self) -> Slot {
        self.snapshots.low()
    }

    /// The digests of all that was decided, and of all results.
    #[must_use]
    pub fn chains(&self) -> (Hash, Hash) {
        (self.log_chain.head(), self.exec_chain.head())
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

    pub(super) fn consent(&mut self, event: Event<Consensus>, turn: &mut Turn<'_, Self>) {
        self.consent_in(self.epoch, event, turn);
    }

    /// Steps consensus; what it tells waits until its event is done.
    pub(super) fn consent_in(&mut self, epoch: Epoch, event: Event<Consensus>, turn: &mut Turn<'_, Self>) {
        if let Some(consensus) = self.family.get_mut(epoch) {
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
            Told::Certified(certificate) => self.on_newest(*certificate, turn),
            Told::Behind { .. } => self.catch_up(turn),
            Told::View(view) => {
                self.note_view(view, turn);
                self.echo_again(turn);
            }
            // Replies carry what consensus says of itself.
            Told::Slow(_) => {}
            // A correct replica has its end certified.
            Told::Retired => self.ask_standing(self.others(), turn),
            Told::Reborn { memory, boot } => self.on_reborn(memory, boot, turn),
            Told::Broken(slot) => turn.output(Output::Broken(slot)),
        }
    }

    /// For whoever watches: the view, and its leader.
    pub(super) fn note_view(&self, view: View, turn: &mut Turn<'_, Self>) {
        let leader = u64::from(self.config.leader(view).0);
        turn.note(Note { name: "view_entered", values: [view.0, 0, leader, 0], digest: Hash::ZERO });
    }

    /// Whatever consensus told is done, and what may be proposed is.
    fn settle(&mut self, turn: &mut Turn<'_, Self>) {
        loop {
            while let Some(told) = self.told.pop_front() {
                self.on_told(told, turn);
            }
            self.turn_over(turn);
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

    fn on_own_signature(&mut self, claim: &Signed, turn: &mut Turn<'_, Self>) {
        match claim.statement {
            Statement::Snapshot { .. } => self.on_snapshot_signed(claim, turn),
            _ => self.on_change_signed(claim, turn),
        }
    }

    /// A peer's signature of a snapshot, or of a memory node's boot.
    fn on_share(&mut self, claim: Result<Signed, Claim<Statement>>, turn: &mut Turn<'_, Self>) {
        let claim = match claim {
            Ok(claim) => claim,
            Err(claim) => {
                self.end_check(claim.signer);
                return turn.blame(claim.signer, Fault::BadShare);
            }
        };
        self.end_check(claim.signer);
        let (signer, signature) = (claim.signer, claim.signature);
        match claim.statement {
            Statement::Snapshot { low, root, .. } => {
                let snapshot = Snapshotted { epoch: claim.scope.epoch, low, root };
                self.on_snapshot_share(signer, snapshot, signature, turn);
            }
            Statement::Readmit { memory, boot, .. } => {
                self.on_boot_share(signer, (memory, boot), signature, turn);
            }
            _ => {}
        }
    }

    fn on_message(&mut self, from: NodeId, message: Message, turn: &mut Turn<'_, Self>) {
        match message {
            Message::Word { epoch, word } => self.on_word(from, (epoch, word), turn),
            Message::Echo { session, id, op } => self.on_echo(from, (session, id), op, turn),
            Message::Forward { session, id, op, signature } => {
                self.on_request(from, (session, id), op.into_bytes(), Some(*signature), turn);
            }
            Message::FetchLog { from: slot } => self.on_fetch_log(from, slot, turn),
            Message::Log { from: slot, batches } => self.on_log(from, slot, batches.into_vec(), turn),
            Message::Register { registration, signature } => {
                self.on_register(from, registration, *signature, turn);
            }
            Message::Attach { session, sequence, signature } => {
                self.on_attach(from, (session, sequence), *signature, turn);
            }
            Message::Ask { session, id, op, signature } => {
                self.on_request(
                    from,
                    (session, id),
                    op.into_bytes(),
                    signature.map(|signature| *signature),
                    turn,
                );
            }
            Message::Read { id, question } => {
                let question = question.into_bytes();
                if !self.has_diverged && self.installing.is_none() {
                    turn.output(Output::Query { guest: from, id, question });
                }
            }
            Message::Hello { incarnation, epoch } => self.on_hello(from, (incarnation, epoch), turn),
            Message::Change(change) => self.on_change(from, *change, turn),
            Message::FetchStanding => self.say_standing(from, turn),
            Message::Standing(standing) => self.on_standing(from, *standing, turn),
            Message::CertifySnapshot { snapshot, signature } => {
                self.on_certify_snapshot(from, snapshot, *signature, turn);
            }
            Message::SawBoot { memory, boot, signature } => {
                self.on_saw_boot(from, (memory, boot), *signature, turn);
            }
            Message::FetchChunk { low, part } => self.on_fetch_chunk(from, (low, part), turn),
            Message::Chunk { low, part, bytes, path } => {
                self.on_chunk(from, (low, part), bytes.into_bytes(), &path, turn);
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
                if self.is_damaged {
                    // How many lives there were may be forgotten: the clock is ahead of any count.
                    self.incarnation = self.incarnation.max(turn.wall().0.min(NUMBER_END - 1));
                }
                turn.persist(Incarnation(self.incarnation));
                self.begin(turn);
            }
            Event::Input(Input::Executed { slot, replies }) => self.on_replies(slot, &replies, turn),
            Event::Input(Input::Taken { low, leaves }) => self.on_taken(low, leaves, turn),
            Event::Input(Input::Chunk { peer, low, index, bytes }) => {
                self.on_own_chunk(peer, (low, index), bytes, turn);
            }
            Event::Input(Input::Installed { low }) => self.on_installed(low, turn),
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
            Event::Timer(Timer::Again) => self.on_again(turn),
            Event::Done(Done::Consensus(epoch, finished)) if epoch == self.epoch => {
                self.consent(Event::Done(finished), turn);
            }
            Event::Done(Done::Client { what, op, claim }) => self.on_client(what, op, claim, turn),
            Event::Done(Done::Signed(claim)) => self.on_own_signature(&claim, turn),
            Event::Done(Done::Share(claim)) => self.on_share(claim, turn),
            Event::Done(Done::Change { what, change, is_good }) => {
                self.on_checked_change(what, change, is_good, turn);
            }
            Event::Done(Done::Standing { from, standing }) => self.on_proven(from, standing, turn),
            // A link that broke may have lost what was said last, of which its receiver never heard: nobody else would ask for it.
            Event::Link { peer, link: Link::Up } if self.others().contains(peer) => {
                self.ask(Ask::Greet(peer), turn);
            }
            Event::Timer(_) | Event::Done(_) | Event::Loaded { .. } | Event::Link { .. } => {}
        }
        self.settle(turn);
    }

    fn invariants(&self) {
        if let Some(consensus) = self.consensus() {
            consensus.invariants();
        }
        assert!(self.told.is_empty(), "what consensus told is done");
        assert!(self.archive.bytes() <= self.archive_most(), "the archive has its bytes");
        let is_in = self.consensus().is_some();
        assert!(!is_in || self.is_listed(), "U-S13: nothing is said in an epoch that lists another life");
        assert!(self.executing.is_none_or(|slot| slot == self.executed), "one slot at a time, in order");
    }
}

impl Bounded for Replica {
    fn bytes(&self) -> u64 {
        let consensus: u64 = self.family.iter().map(|(_, one)| one.bytes()).sum();
        let pending: u64 = self.pending.values().map(Pending::bytes).sum();
        let judging: u64 = self.judging.values().map(Judging::bytes).sum();
        let decided: usize = self.decided.iter().map(|(_, _, batch)| super::admit::batch_bytes(batch)).sum();
        let transfer = self.transfer.as_ref().map_or(0, Transfer::bytes);
        let install = self.install.as_ref().map_or(0, Install::bytes) + self.snapshots.bytes();
        let rest = self.changes.bytes() + install;
        consensus
            + pending
            + judging
            + decided as u64
            + transfer
            + self.sessions.bytes()
            + self.archive.bytes()
            + rest
    }

    fn bytes_max(&self) -> u64 {
        let SessionLimits { sessions_max, session_window, .. } = self.settings.sessions;
        let n = self.config.roster.size();
        let parameters = &self.config.parameters;
        // As much again may be heard ahead of its window.
        let waiting = 2 * u64::from(sessions_max + n) * u64::from(session_window);
        // One operation that is said and one that is signed.
        let pending = waiting * (2 * u64::from(parameters.request_inline_max) + 512 + u64::from(n) * 64);
        let batch = self.config.body_max() as u64 + 1_024;
        let batches = 4 * u64::from(parameters.window) * batch;
        let sessions = Sessions::bytes_max(&self.settings.sessions, n);
        let consensus: u64 = self.family.iter().map(|(_, one)| one.bytes_max()).sum();
        // A snapshot has all sessions, and a leaf of each chunk of the application; one that is fetched has them as well.
        let kept = SNAPSHOTS_MAX as u64 * (2 * sessions + u64::from(CHUNKS_MAX) * 96 + 1_024);
        let shares = u64::from(n) * (SNAPSHOTS_MAX as u64 + 32) * 1_024;
        let fetched = Install::bytes_max() + 2 * sessions + shares + (64 << 10);
        // What is transferred is at most an archive, and waits to be executed.
        consensus + pending + batches + sessions + kept + fetched + 3 * self.archive_most()
    }
}

impl Recover for Replica {
    type Config = ReplicaConfig;

    fn queues(config: &ReplicaConfig) -> Vec<QueueSpec> {
        message::queues(&config.config, config.sessions.sessions_max, config.sessions.session_window)
    }

    fn recover(settings: ReplicaConfig, log: Log<'_, Incarnation>) -> Result<Self, Unrecoverable> {
        let quorums =
            settings.config.quorums().map_err(|why| Unrecoverable(format!("the configuration: {why:?}")))?;
        let window = settings.sessions.session_window;
        if window == 0 || window > SESSION_WINDOW_MAX {
            return Err(Unrecoverable(format!(
                "a session window is 1 to {SESSION_WINDOW_MAX}, not {window}"
            )));
        }
        let last = log.records.map(|incarnation| incarnation.0).max().unwrap_or(0);
        let is_damaged = log.condition == Condition::Damaged;
        // The first epoch lists first lives; whoever lost its journal may be in another.
        let next = if is_damaged { last.max(1) } else { last }.saturating_add(1);
        if next >= NUMBER_END {
            return Err(Unrecoverable("started too often".to_owned()));
        }
        let incarnation = next;
        let config = Arc::new(settings.config.clone());
        let mut family = Family::new(2);
        if incarnation == 1 || planted!(V7) {
            let start = Low { low: Slot(0), digest: Hash::ZERO, end: None };
            let consensus = Consensus::new(Arc::clone(&config), start)
                .map_err(|why| Unrecoverable(format!("the configuration: {why:?}")))?;
            family.member(config.epoch, || consensus);
        }
        let keys = config.roster.all().iter().filter_map(|id| Some((id, config.roster.member(id)?.key)));
        Ok(Self {
            sessions: Sessions::new(settings.sessions, keys.collect::<Vec<_>>().into_iter()),
            epoch: config.epoch,
            membership: Membership::new(Configuration::genesis(&config)),
            changes: Changes::default(),
            epochs: Epochs::genesis(&config),
            newest: None,
            settings,
            genesis: Arc::clone(&config),
            config,
            quorums,
            incarnation,
            is_damaged,
            family,
            told: VecDeque::new(),
            attached: BTreeMap::new(),
            pending: BTreeMap::new(),
            may_be_signed: false,
            ready: VecDeque::new(),
            registering: BTreeMap::new(),
            judging: BTreeMap::new(),
            decided: VecDeque::new(),
            executing: None,
            asked: Vec::new(),
            executed: Slot(0),
            time: Wall(0),
            log_chain: log_chain(Hash::ZERO),
            exec_chain: exec_chain(Hash::ZERO),
            checkpoints: BTreeMap::new(),
            archive: Archive::default(),
            was_repaired: false,
            has_diverged: false,
            transfer: None,
            late: 0,
            install: None,
            installing: None,
            snapshots: Snapshots::default(),
            is_echo_armed: false,
            pressing: None,
        })
    }

    fn snapshot(&self, put: &mut dyn FnMut(Incarnation)) {
        put(Incarnation(self.incarnation));
    }
}

//! An ideal atomic broadcast: a sequencer that never lies, at a node of its own, and members that follow it.
//!
//! *What it gives.* [`Ideal`] keeps every promise of the contract that Chop Chop relies on: positions without holes and
//! with equal content, certified checkpoints, `Jump` for whoever is behind what is retained or does not go on below a certified
//! state, resuming at a position. It does not promise more: an item may be ordered twice, empty entries stand between, a member may
//! order anything.
//!
//! *Who may fail.* The sequencer crashes and comes back with its journal; links of it break like others. What members say
//! of their own state counts only where all but f of them say the same.
//!
//! *Bounds.* A member holds `ahead` entries beyond what is applied; the sequencer `retain` below the certified one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use synod_chopchop::vocabulary::{Message as Outer, queues};
use synod_crypto::Hash;
use synod_machine::broadcast::{Checkpoint, Delivered, Entry, Origin, Position, Submit, Ticket};
use synod_machine::{
    Bounded, Event, Log, Machine, Message, Never, Queue, QueueSpec, Record, Recover, Span, Turn,
    Unrecoverable, Wall,
};
use synod_quorum::{NodeId, NodeSet};
use synod_wire::{Blob, Bytes, wire};

/// How often a member asks for what it has not heard.
const POLL: Span = Span::millis(250);
/// Entries of one answer.
const ANSWER: usize = 64;
/// One in so many repetitions is ordered again.
const AGAIN: u64 = 50;
/// Entries that are kept after they were applied.
const SPARE: u64 = 64;
/// Times of asking after which a user that applied nothing is taken for one that cannot go on.
const STANDSTILL: u32 = 20;

wire! {
    /// One numbered payload.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Numbered {
        /// Its place.
        pub position: Position,
        /// What it is; empty ones are the layer's own.
        pub payload: Blob<65_536>,
    }

    /// A state that all but f members have.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Rooted {
        /// The position.
        pub position: Position,
        /// Its root.
        pub root: Hash,
    }

    /// What members and the sequencer say.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Say {
        /// To the sequencer: number this.
        0 = Number(Blob<65_536>),
        /// To members: it is numbered.
        1 = Numbered(Numbered),
        /// To the sequencer: say again what stands from this position on.
        2 = From(Position),
        /// To the sequencer: the own state.
        3 = Root(Rooted),
        /// To members: a certified state.
        4 = Stable(Rooted),
        /// To a member: what was asked for is not kept any more.
        5 = Gone(Rooted),
        /// To the sequencer: the user does not go on behind this position.
        6 = Stuck(Position),
    }
}

impl Message for Say {
    fn queue(&self) -> Queue {
        Queue::CONTROL
    }
}

impl Record for Numbered {}

/// Where a member stands in its cluster.
#[derive(Clone, Copy, Debug)]
pub struct IdealConfig {
    /// Who numbers.
    pub sequencer: NodeId,
    /// Where to go on.
    pub resume: Position,
    /// Entries delivered beyond what is applied.
    pub ahead: u64,
}

/// A member of the ideal broadcast.
pub struct Ideal {
    config: IdealConfig,
    log: BTreeMap<u64, Numbered>,
    delivered: u64,
    applied: u64,
    pending: BTreeMap<Ticket, Bytes>,
    stable: Option<Rooted>,
    said: u64,
    jumping: Option<u64>,
    /// What was applied when it was looked at last, and how many times the user had not gone on.
    still: (u64, u32),
}

impl Ideal {
    /// The last position that is taken in: what lies behind it waits for the user.
    fn last_wanted(&self) -> u64 {
        self.applied.max(self.delivered) + self.config.ahead
    }

    /// Whether the user has not applied what it was given, for long: it may lack what others dropped.
    const fn is_at_standstill(&self) -> bool {
        self.still.1 >= STANDSTILL
    }

    fn count_standstill(&mut self) {
        // A state that it was told to take may be one that nobody has any more.
        let waits = self.applied < self.delivered || self.jumping.is_some();
        let same = waits && self.still.0 == self.applied;
        self.still = (self.applied, if same { self.still.1.saturating_add(1) } else { 0 });
    }

    fn deliver(&mut self, turn: &mut Turn<'_, Self>) {
        while self.jumping.is_none() && self.delivered < self.applied + self.config.ahead {
            let Some(numbered) = self.log.get(&(self.delivered + 1)) else { return };
            self.delivered += 1;
            let payload = numbered.payload.bytes().clone();
            let local = self.pending.iter().find(|(_, own)| **own == payload).map(|(ticket, _)| *ticket);
            if let Some(ticket) = local {
                self.pending.remove(&ticket);
            }
            turn.output(Delivered::Entry(Entry {
                position: numbered.position,
                time: Wall(numbered.position.0 * 10),
                last: true,
                origin: local.map_or(Origin::Member(self.config.sequencer), Origin::Local),
                payload,
                proof: None,
            }));
        }
    }

    fn take(&mut self, numbered: Numbered, turn: &mut Turn<'_, Self>) {
        let position = numbered.position.0;
        let wanted = self.delivered + 1..=self.last_wanted();
        if wanted.contains(&position) && !self.log.contains_key(&position) && self.jumping.is_none() {
            turn.persist(numbered.clone());
            self.log.insert(position, numbered);
            self.deliver(turn);
        }
    }

    /// Asks for the first entry that is not here; for a certified state where the user does not go on.
    fn ask(&self, turn: &mut Turn<'_, Self>) {
        let mut first = self.delivered + 1;
        while self.log.contains_key(&first) {
            first += 1;
        }
        if first <= self.last_wanted() {
            turn.send(self.config.sequencer, Say::From(Position(first)));
        }
        if self.is_at_standstill() {
            turn.send(self.config.sequencer, Say::Stuck(Position(self.applied)));
        }
    }

    fn poll(&mut self, turn: &mut Turn<'_, Self>) {
        self.count_standstill();
        self.ask(turn);
        for payload in self.pending.values() {
            self.number(payload, turn);
        }
        turn.arm((), POLL);
    }

    fn number(&self, payload: &Bytes, turn: &mut Turn<'_, Self>) {
        if let Ok(payload) = Blob::try_from(payload.clone()) {
            turn.send(self.config.sequencer, Say::Number(payload));
        }
    }

    fn on_applied(&mut self, position: Position, root: Option<Hash>, turn: &mut Turn<'_, Self>) {
        // Told to jump to where it is already, the user says again where it is.
        let rises = position.0 > self.applied || (position.0 == self.applied && self.jumping.is_some());
        assert!(rises, "applied positions rise: {} after {}", position.0, self.applied);
        if self.jumping.take_if(|jumping| *jumping == position.0).is_some() {
            self.delivered = position.0;
            self.log.retain(|at, _| *at > position.0);
            self.ask(turn);
        }
        // It got beyond the state before it was told to take it.
        self.jumping.take_if(|jumping| *jumping < position.0);
        assert!(position.0 <= self.delivered, "what was not delivered is not applied");
        self.applied = position.0;
        if let Some(root) = root {
            turn.send(self.config.sequencer, Say::Root(Rooted { position, root }));
            let kept = position.0.saturating_sub(SPARE);
            self.log.retain(|at, _| *at > kept);
        }
        self.tell_stable(turn);
        self.deliver(turn);
    }

    fn tell_stable(&mut self, turn: &mut Turn<'_, Self>) {
        let due = |stable: &Rooted| stable.position.0 > self.said;
        if let Some(Rooted { position, root }) = self.stable.filter(due) {
            self.said = position.0;
            turn.output(Delivered::Stable(Checkpoint { position, root, certificate: Blob::default() }));
        }
    }

    fn on_gone(&mut self, Rooted { position, root }: Rooted, turn: &mut Turn<'_, Self>) {
        let further = self.jumping.is_none_or(|jumping| jumping < position.0);
        let reached = if self.is_at_standstill() { self.applied } else { self.delivered.max(self.applied) };
        if position.0 > reached && further {
            self.jumping = Some(position.0);
            self.still = (self.applied, 0);
            turn.output(Delivered::Jump(Checkpoint { position, root, certificate: Blob::default() }));
        }
    }

    fn on_message(&mut self, from: NodeId, say: Say, turn: &mut Turn<'_, Self>) {
        if from != self.config.sequencer {
            return;
        }
        match say {
            Say::Numbered(numbered) => self.take(numbered, turn),
            Say::Gone(rooted) => self.on_gone(rooted, turn),
            Say::Stable(rooted) => {
                if self.stable.is_none_or(|known| known.position < rooted.position) {
                    self.stable = Some(rooted);
                }
                self.tell_stable(turn);
            }
            Say::Number(_) | Say::From(_) | Say::Root(_) | Say::Stuck(_) => {}
        }
    }
}

impl Machine for Ideal {
    type Input = Submit;
    type Message = Say;
    type Timer = ();
    type Record = Numbered;
    type Job = Never;
    type Output = Delivered;

    fn step(&mut self, event: Event<Self>, turn: &mut Turn<'_, Self>) {
        match event {
            Event::Start => {
                self.deliver(turn);
                self.poll(turn);
            }
            Event::Timer(()) => self.poll(turn),
            Event::Input(Submit::Payload { ticket, payload }) => {
                self.number(&payload, turn);
                self.pending.insert(ticket, payload);
            }
            Event::Input(Submit::Applied { position, root }) => self.on_applied(position, root, turn),
            Event::Message { from, message } => self.on_message(from, message, turn),
            Event::Input(Submit::Stuck) => {
                self.still = (self.applied, STANDSTILL);
                turn.send(self.config.sequencer, Say::Stuck(Position(self.applied)));
            }
            Event::Input(Submit::Prove(_) | Submit::Barrier(_))
            | Event::Done(_)
            | Event::Loaded { .. }
            | Event::Link { .. } => {}
        }
    }
}

impl Bounded for Ideal {
    fn bytes(&self) -> u64 {
        0
    }
    fn bytes_max(&self) -> u64 {
        0
    }
}

impl Recover for Ideal {
    type Config = IdealConfig;

    fn queues(_: &IdealConfig) -> Vec<QueueSpec> {
        QueueSpec::standard()
    }

    fn recover(config: IdealConfig, log: Log<'_, Numbered>) -> Result<Self, Unrecoverable> {
        let resume = config.resume.0;
        let behind = log.records.filter(|numbered| numbered.position.0 > resume);
        let log: BTreeMap<u64, Numbered> = behind.map(|numbered| (numbered.position.0, numbered)).collect();
        Ok(Self {
            config,
            log,
            delivered: resume,
            applied: resume,
            pending: BTreeMap::new(),
            stable: None,
            said: 0,
            jumping: None,
            still: (0, 0),
        })
    }

    fn snapshot(&self, put: &mut dyn FnMut(Numbered)) {
        self.log.values().cloned().for_each(put);
    }
}

/// The newest certified state. It outlives the sequencer, as certificates do that members hold.
#[derive(Clone, Debug, Default)]
pub struct Certified(Arc<Mutex<Option<Rooted>>>);

impl Certified {
    fn get(&self) -> Option<Rooted> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, rooted: Option<Rooted>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = rooted;
    }
}

/// What the sequencer is told.
#[derive(Clone, Debug)]
pub struct SequencerConfig {
    /// See there.
    pub certified: Certified,
    /// Number of members.
    pub members: u32,
    /// How many of them must say the same of their state.
    pub agree: u32,
    /// Entries kept below the certified state.
    pub retain: u64,
    /// In how many of a thousand cases an empty entry follows.
    pub empty: u64,
}

/// Numbers what members send it; never lies.
pub struct Sequencer {
    config: SequencerConfig,
    log: BTreeMap<u64, Numbered>,
    next: u64,
    roots: BTreeMap<u64, BTreeMap<NodeId, Hash>>,
}

impl Sequencer {
    fn say(to: impl Into<synod_machine::To>, say: Say, turn: &mut Turn<'_, Self>) {
        turn.send(to, Outer::Ordering(say));
    }

    fn number(&mut self, payload: Blob<65_536>, turn: &mut Turn<'_, Self>) {
        let numbered = Numbered { position: Position(self.next), payload };
        self.next += 1;
        turn.persist(numbered.clone());
        self.log.insert(numbered.position.0, numbered.clone());
        Self::say(NodeSet::first(self.config.members), Say::Numbered(numbered), turn);
    }

    fn knows(&self, payload: &Blob<65_536>) -> bool {
        self.log.values().rev().take(ANSWER).any(|numbered| numbered.payload == *payload)
    }

    fn answer(&self, to: NodeId, from: Position, turn: &mut Turn<'_, Self>) {
        let first = self.log.first_key_value().map_or(self.next, |(first, _)| *first);
        if let Some(stable) = self.config.certified.get() {
            let say = if from.0 < first { Say::Gone(stable) } else { Say::Stable(stable) };
            Self::say(to, say, turn);
        }
        for numbered in self.log.range(from.0..).take(ANSWER).map(|(_, numbered)| numbered.clone()) {
            Self::say(to, Say::Numbered(numbered), turn);
        }
    }

    fn on_root(&mut self, from: NodeId, rooted: Rooted, turn: &mut Turn<'_, Self>) {
        let Rooted { position, root } = rooted;
        if position.0 >= self.next
            || self.config.certified.get().is_some_and(|stable| stable.position >= position)
        {
            return;
        }
        let roots = self.roots.entry(position.0).or_default();
        roots.insert(from, root);
        let agree = roots.values().filter(|other| **other == root).count();
        if u32::try_from(agree).unwrap_or(0) < self.config.agree {
            return;
        }
        self.config.certified.set(Some(rooted));
        self.roots.retain(|at, _| *at > position.0);
        let kept = position.0.saturating_sub(self.config.retain);
        self.log.retain(|at, _| *at > kept);
        Self::say(NodeSet::first(self.config.members), Say::Stable(rooted), turn);
    }
}

impl Machine for Sequencer {
    type Input = Never;
    type Message = Outer<Say>;
    type Timer = ();
    type Record = Numbered;
    type Job = Never;
    type Output = Never;

    fn step(&mut self, event: Event<Self>, turn: &mut Turn<'_, Self>) {
        let Event::Message { from, message: Outer::Ordering(say) } = event else { return };
        match say {
            // A member says it until it comes back; now and then it is ordered twice.
            Say::Number(payload) if self.knows(&payload) && !turn.rng().draw().is_multiple_of(AGAIN) => {}
            Say::Number(payload) => {
                self.number(payload, turn);
                if turn.rng().draw() % 1_000 < self.config.empty {
                    self.number(Blob::default(), turn);
                }
            }
            Say::From(position) => self.answer(from, position, turn),
            Say::Stuck(position) => {
                if let Some(stable) = self.config.certified.get().filter(|stable| stable.position > position)
                {
                    Self::say(from, Say::Gone(stable), turn);
                }
            }
            Say::Root(rooted) => self.on_root(from, rooted, turn),
            Say::Numbered(_) | Say::Stable(_) | Say::Gone(_) => {}
        }
    }
}

impl Bounded for Sequencer {
    fn bytes(&self) -> u64 {
        0
    }
    fn bytes_max(&self) -> u64 {
        0
    }
}

impl Recover for Sequencer {
    type Config = SequencerConfig;

    fn queues(_: &SequencerConfig) -> Vec<QueueSpec> {
        queues(QueueSpec::standard())
    }

    fn recover(config: SequencerConfig, log: Log<'_, Numbered>) -> Result<Self, Unrecoverable> {
        let log: BTreeMap<u64, Numbered> = log.records.map(|n| (n.position.0, n)).collect();
        let next = log.last_key_value().map_or(1, |(last, _)| last + 1);
        if log.is_empty() {
            config.certified.set(None);
        }
        Ok(Self { config, log, next, roots: BTreeMap::new() })
    }

    fn snapshot(&self, put: &mut dyn FnMut(Numbered)) {
        self.log.values().cloned().for_each(put);
    }
}

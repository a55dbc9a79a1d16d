//! An ideal ordering layer: member 0 numbers what it is given, and everybody writes it down before delivering it.

use std::collections::BTreeMap;

use synod_crypto::Hash;
use synod_machine::broadcast::{Checkpoint, Delivered, Entry, Origin, Position, Submit};
use synod_machine::{
    Bounded, Event, Log, Machine, Message, Never, Queue, QueueSpec, Record, Recover, Span, Turn,
    Unrecoverable, Wall,
};
use synod_quorum::{NodeId, NodeSet};
use synod_wire::{Blob, wire};

wire! {
    /// One numbered payload.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Numbered {
        /// Its place.
        pub position: Position,
        /// What it is.
        pub payload: Blob<65_536>,
    }

    /// What members say.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Say {
        /// Number this.
        0 = Number(Blob<65_536>),
        /// It is numbered.
        1 = Numbered(Numbered),
        /// Say again what stands from this position on.
        2 = From(Position),
        /// What was asked for is not kept any more.
        4 = Gone {
            /// The newest certified position.
            position: Position,
            /// Its root.
            root: Hash,
        },
        /// The user cannot go on; nothing comes of it here but that it is heard.
        5 = Stuck,
        /// The state at this position.
        3 = Root {
            /// Which position.
            position: Position,
            /// Its root.
            root: Hash,
        },
    }
}

impl Message for Say {
    fn queue(&self) -> Queue {
        Queue::CONTROL
    }
}

impl Record for Numbered {}

/// Who, among how many, and from where on.
#[derive(Clone, Debug)]
pub(crate) struct IdealConfig {
    pub(crate) own: NodeId,
    pub(crate) members: u32,
    pub(crate) resume: Position,
    /// Positions kept below the certified one.
    pub(crate) retain: u64,
}

/// The ideal ordering layer.
pub(crate) struct Ideal {
    config: IdealConfig,
    log: BTreeMap<u64, Numbered>,
    next: u64,
    delivered: u64,
    roots: BTreeMap<u64, BTreeMap<NodeId, Hash>>,
    applied: u64,
    stable: (u64, Hash),
    jumping: Option<u64>,
    /// What was applied when it was looked at last, and for how many times the user did not go on.
    still: (u64, u32),
}

/// Times after which a user that does not go on is taken for one that cannot.
const STANDSTILL: u32 = 4;

impl Ideal {
    /// A user that cannot go on needs a certified state, also one that the order has passed here: what is delivered
    /// behind it comes again.
    fn look(&mut self, turn: &mut Turn<'_, Self>) {
        let same = self.applied < self.delivered && self.still.0 == self.applied;
        self.still = (self.applied, if same { self.still.1 + 1 } else { 0 });
        if self.still.1 >= STANDSTILL {
            turn.send(NodeId(0), Say::From(Position(self.applied + 1)));
        }
    }

    fn deliver(&mut self, turn: &mut Turn<'_, Self>) {
        while let Some(numbered) = self.log.get(&(self.delivered + 1)).filter(|_| self.jumping.is_none()) {
            self.delivered += 1;
            turn.output(Delivered::Entry(Entry {
                position: numbered.position,
                time: Wall(numbered.position.0 * 10),
                last: true,
                origin: Origin::Member(NodeId(0)),
                payload: numbered.payload.bytes().clone(),
                proof: None,
            }));
        }
    }

    fn take(&mut self, numbered: Numbered, turn: &mut Turn<'_, Self>) {
        let position = numbered.position.0;
        if position > self.delivered && !self.log.contains_key(&position) {
            turn.persist(numbered.clone());
            self.log.insert(position, numbered);
            self.next = self.next.max(position + 1);
            self.deliver(turn);
        }
    }

    fn number(&mut self, payload: Blob<65_536>, turn: &mut Turn<'_, Self>) {
        let numbered = Numbered { position: Position(self.next), payload };
        self.take(numbered.clone(), turn);
        let others = NodeSet::first(self.config.members).without(self.config.own);
        turn.send(others, Say::Numbered(numbered));
    }

    fn on_root(&mut self, from: NodeId, position: Position, root: Hash, turn: &mut Turn<'_, Self>) {
        let roots = self.roots.entry(position.0).or_default();
        roots.insert(from, root);
        let values: Vec<Hash> = roots.values().copied().collect();
        assert!(values.windows(2).all(|pair| pair[0] == pair[1]), "states at {} differ", position.0);
        if values.len() >= 3 && self.applied >= position.0 && self.stable.0 < position.0 {
            self.stable = (position.0, root);
            let certificate = Blob::default();
            turn.output(Delivered::Stable(Checkpoint { position, root, certificate }));
        }
    }
}

impl Machine for Ideal {
    type Input = Submit;
    type Message = Say;
    type Timer = u8;
    type Record = Numbered;
    type Job = Never;
    type Output = Delivered;

    fn step(&mut self, event: Event<Self>, turn: &mut Turn<'_, Self>) {
        match event {
            Event::Start | Event::Timer(_) => {
                self.deliver(turn);
                if self.config.own != NodeId(0) {
                    turn.send(NodeId(0), Say::From(Position(self.next)));
                    self.look(turn);
                }
                turn.arm(0, Span::millis(500));
            }
            Event::Input(Submit::Payload { payload, .. }) => {
                let payload = Blob::try_from(payload).expect("an item is small");
                match self.config.own {
                    NodeId(0) => self.number(payload, turn),
                    _ => turn.send(NodeId(0), Say::Number(payload)),
                }
            }
            Event::Input(Submit::Applied { position, root }) => {
                assert!(position.0 > self.applied, "applied positions rise: {position:?} {}", self.applied);
                if self.jumping.take_if(|jumping| *jumping == position.0).is_some() {
                    self.delivered = position.0;
                    self.next = self.next.max(position.0 + 1);
                    turn.send(NodeId(0), Say::From(Position(position.0 + 1)));
                    self.deliver(turn);
                }
                assert!(position.0 <= self.delivered);
                self.applied = position.0;
                if let Some(root) = root {
                    turn.send(NodeSet::first(self.config.members), Say::Root { position, root });
                }
            }
            Event::Input(Submit::Stuck) => turn.send(NodeId(0), Say::Stuck),
            Event::Message { message: Say::Number(payload), .. } => self.number(payload, turn),
            Event::Message { message: Say::Numbered(numbered), .. } => self.take(numbered, turn),
            Event::Message { from, message: Say::From(position) }
                if position.0 + self.config.retain < self.stable.0 =>
            {
                let (position, root) = (Position(self.stable.0), self.stable.1);
                turn.send(from, Say::Gone { position, root });
            }
            Event::Message { message: Say::Gone { position, root }, .. } => {
                if position.0 > self.applied && self.jumping.is_none_or(|jumping| jumping < position.0) {
                    self.jumping = Some(position.0);
                    let certificate = Blob::default();
                    turn.output(Delivered::Jump(Checkpoint { position, root, certificate }));
                }
            }
            Event::Message { from, message: Say::From(position) } => {
                let again: Vec<Numbered> = self.log.range(position.0..).map(|(_, n)| n.clone()).collect();
                for numbered in again {
                    turn.send(from, Say::Numbered(numbered));
                }
            }
            Event::Message { from, message: Say::Root { position, root } } => {
                self.on_root(from, position, root, turn);
            }
            Event::Message { message: Say::Stuck, .. }
            | Event::Input(_)
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
        let log: BTreeMap<u64, Numbered> = log.records.map(|n| (n.position.0, n)).collect();
        let next = log.last_key_value().map_or(1, |(last, _)| last + 1);
        let (delivered, applied) = (config.resume.0, config.resume.0);
        Ok(Self {
            config,
            log,
            next,
            delivered,
            roots: BTreeMap::new(),
            applied,
            stable: (0, Hash::ZERO),
            jumping: None,
            still: (0, 0),
        })
    }
    fn snapshot(&self, put: &mut dyn FnMut(Numbered)) {
        self.log.values().cloned().for_each(put);
    }
}

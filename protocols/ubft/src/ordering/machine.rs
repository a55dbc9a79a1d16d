//! How events reach an [`Ordering`], and how it begins.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use synod_machine::broadcast::{Delivered, Refusal, Submit};
use synod_machine::{Bounded, Event, Log, Machine, Nested, QueueSpec, Recover, Turn, Unrecoverable};
use synod_quorum::NodeId;

use super::asking::Asking;
use super::delivery::Delivery;
use super::states::States;
use super::vocabulary::{self, Done, Job, Message, Timer};
use super::{Ordering, OrderingConfig, Rooted};
use crate::fault::Fault;
use crate::message::ClientStatement;
use crate::replica::{Incarnation, Replica};
use crate::statement::Statement;

impl Ordering {
    fn on_message(&mut self, from: NodeId, message: Message, turn: &mut Turn<'_, Self>) {
        match message {
            Message::Replica(crate::Message::NeedSigned { session, id })
                if session == self.asking.session() && self.others().contains(from) =>
            {
                self.sign(id, turn);
            }
            // Clients have no session here: whoever is no replica and no memory node is not heard.
            Message::Replica(_) if !self.is_known(from) => {}
            Message::Replica(message) => self.drive(Event::Message { from, message }, turn),
            Message::Attest { rooted, signature } => self.on_attest(from, rooted, signature, turn),
            Message::FetchRooted(least) => {
                if self.others().contains(from) {
                    self.show(from, least, turn);
                }
            }
            Message::Rooted(certificate) => self.on_rooted(from, certificate, turn),
        }
    }

    fn is_known(&self, from: NodeId) -> bool {
        let is_memory = self.genesis.memory.iter().any(|memory| memory.node == from);
        is_memory || self.genesis.roster.member(from).is_some()
    }

    fn on_done(&mut self, done: Done, turn: &mut Turn<'_, Self>) {
        match done {
            Done::Replica(done) => self.drive(Event::Done(done), turn),
            Done::Asked(claim) => {
                if let ClientStatement::Asked { id, op, .. } = claim.statement
                    && self.asking.sign(id, op, claim.signature)
                {
                    self.say(id, turn);
                }
            }
            Done::Attested(claim) => {
                if let Statement::Applied { position, root, .. } = claim.statement {
                    self.on_own_state(Rooted { position, root }, claim.signature, turn);
                }
            }
            Done::Share(Err(claim)) => {
                self.states.checked(claim.signer);
                turn.blame(claim.signer, Fault::BadShare);
            }
            Done::Share(Ok(claim)) => {
                self.states.checked(claim.signer);
                if let Statement::Applied { position, root, .. } = claim.statement {
                    let rooted = Rooted { position, root };
                    if let Some(certificate) = self.states.sign(claim.signer, rooted, claim.signature) {
                        self.on_certified(certificate, turn);
                    }
                }
            }
            Done::Rooted { from, certificate } => {
                self.states.checked(from);
                match certificate {
                    Some(certificate) => self.on_certified(certificate, turn),
                    None => turn.blame(from, Fault::BadCertificate),
                }
            }
        }
    }

    /// One that stopped takes nothing.
    fn refuse(event: &Event<Self>, turn: &mut Turn<'_, Self>) {
        match event {
            Event::Input(Submit::Payload { ticket, .. } | Submit::Barrier(ticket)) => {
                turn.output(Delivered::Refused { ticket: *ticket, why: Refusal::NotReady });
            }
            Event::Input(Submit::Prove(position)) => {
                turn.output(Delivered::Proof { position: *position, proof: None });
            }
            _ => {}
        }
    }
}

impl Machine for Ordering {
    type Input = Submit;
    type Message = Message;
    type Timer = Timer;
    type Record = Incarnation;
    type Job = Job;
    type Output = Delivered;

    fn step(&mut self, event: Event<Self>, turn: &mut Turn<'_, Self>) {
        if self.is_halted {
            return Self::refuse(&event, turn);
        }
        match event {
            Event::Start => {
                turn.arm(Timer::Again, self.genesis.parameters.suspect);
                self.drive(Event::Start, turn);
                self.fetch(turn);
            }
            Event::Input(submit) => self.on_submit(submit, turn),
            Event::Message { from, message } => self.on_message(from, message, turn),
            Event::Timer(Timer::Replica(timer)) => self.drive(Event::Timer(timer), turn),
            Event::Timer(Timer::Ask) => self.on_ask(turn),
            Event::Timer(Timer::Again) => self.on_again(turn),
            Event::Done(done) => self.on_done(done, turn),
            Event::Loaded { name, bytes } => self.drive(Event::Loaded { name, bytes }, turn),
            Event::Link { peer, link } => self.drive(Event::Link { peer, link }, turn),
        }
        self.settle(turn);
    }

    fn invariants(&self) {
        self.replica.get().invariants();
        self.asking.invariants();
        self.delivery.invariants();
        assert!(self.is_halted || self.told.is_empty(), "what the replica told is done");
    }
}

impl Bounded for Ordering {
    fn bytes(&self) -> u64 {
        let small = (self.kept.len() + self.barriers.len()) as u64 * 96;
        self.replica.get().bytes() + self.asking.bytes() + self.delivery.bytes() + self.states.bytes() + small
    }

    fn bytes_max(&self) -> u64 {
        self.replica.get().bytes_max() + self.bytes_max
    }
}

impl Recover for Ordering {
    type Config = OrderingConfig;

    fn queues(config: &OrderingConfig) -> Vec<QueueSpec> {
        vocabulary::queues(config)
    }

    fn recover(config: OrderingConfig, log: Log<'_, Incarnation>) -> Result<Self, Unrecoverable> {
        config.check()?;
        let genesis = Arc::new(config.replica.config.clone());
        let quorums =
            genesis.quorums().map_err(|why| Unrecoverable(format!("the configuration: {why:?}")))?;
        let me = genesis.me;
        Ok(Self {
            checkpoint_every: config.checkpoint_every,
            told: VecDeque::new(),
            asking: Asking::new(&config),
            delivery: Delivery::new(me, config.ahead_max, config.resume),
            states: States::new(me, quorums.one_correct()),
            kept: BTreeMap::new(),
            barriers: VecDeque::new(),
            is_stuck: false,
            bytes_max: config.own_bytes_max(),
            is_asking: false,
            is_halted: false,
            genesis,
            replica: Nested::new(Replica::recover(config.replica, log)?),
        })
    }

    fn snapshot(&self, put: &mut dyn FnMut(Incarnation)) {
        self.replica.get().snapshot(put);
    }
}

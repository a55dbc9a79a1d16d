//! A member of one of several shards in a world that numbers all members.

use std::cell::RefCell;
use std::rc::Rc;

use synod_astro::{Input, Output, Setup};
use synod_broadcast::SignedBroadcast;
use synod_machine::{Bounded, Effect, Event, Log, Machine, QueueSpec, Recover, To, Turn, Unrecoverable};
use synod_quorum::NodeId;

use crate::bank::{Message, Replica};
use crate::{Record, alone};
use synod_astro::Batches;

/// Whether a message arrives: from whom, to whom.
pub(super) type Passes = Rc<RefCell<Box<dyn FnMut(u32, u32, &Message) -> bool>>>;

/// Where a member is.
#[derive(Clone)]
pub(super) struct Place {
    /// Which shard.
    pub(super) shard: u32,
    /// Which member of it.
    pub(super) member: u32,
    /// Members of a shard.
    pub(super) members: u32,
    pub(super) passes: Passes,
}

pub(super) struct Placed {
    pub(super) replica: Replica,
    place: Place,
}

/// How members of a shard call the member of another.
pub(super) fn abroad(shard: u32, member: u32) -> NodeId {
    NodeId(1_000 + shard * 100 + member)
}

impl Place {
    /// A node's number in the world.
    fn global(&self, node: NodeId) -> u32 {
        match node.0.checked_sub(1_000) {
            None => self.shard * self.members + node.0,
            Some(abroad) => abroad / 100 * self.members + abroad % 100,
        }
    }

    /// The node of a number in the world.
    fn local(&self, NodeId(global): NodeId) -> NodeId {
        let (shard, member) = (global / self.members, global % self.members);
        if shard == self.shard { NodeId(member) } else { abroad(shard, member) }
    }
}

type Timer = alone::Timer;
type Job = <Replica as Machine>::Job;

impl Machine for Placed {
    type Input = Input;
    type Message = Message;
    type Timer = Timer;
    type Record = Record;
    type Job = Job;
    type Output = Output;

    fn step(&mut self, event: Event<Self>, turn: &mut Turn<'_, Self>) {
        let event: Event<Replica> = match event {
            Event::Start => Event::Start,
            Event::Input(input) => Event::Input(input),
            Event::Message { from, message } => Event::Message { from: self.place.local(from), message },
            Event::Timer(timer) => Event::Timer(timer),
            Event::Done(done) => Event::Done(done),
            Event::Loaded { name, bytes } => Event::Loaded { name, bytes },
            Event::Link { peer, link } => Event::Link { peer: self.place.local(peer), link },
        };
        let (now, wall, mut effects) = (turn.now(), turn.wall(), Vec::new());
        self.replica.step(event, &mut Turn::new(now, wall, turn.rng(), &mut effects));
        for effect in effects {
            self.take(effect, turn);
        }
    }

    fn room(&self) -> u32 {
        self.replica.room()
    }

    fn invariants(&self) {
        self.replica.invariants();
    }
}

impl Placed {
    fn take(&self, effect: Effect<Replica>, turn: &mut Turn<'_, Self>) {
        match effect {
            Effect::Send { to, message } => {
                let nodes: Vec<NodeId> = match to {
                    To::Node(node) => vec![node],
                    To::Set(set) => set.iter().collect(),
                };
                let me = self.place.shard * self.place.members + self.place.member;
                for node in nodes {
                    let to = self.place.global(node);
                    let passes = &mut *self.place.passes.borrow_mut();
                    if passes(me, to, &message) {
                        turn.send(NodeId(to), message.clone());
                    }
                }
            }
            Effect::Arm { timer, after } => turn.arm(timer, after),
            Effect::Disarm(timer) => turn.disarm(timer),
            Effect::Persist(record) => turn.persist(record),
            Effect::Compact => turn.compact(),
            Effect::Store { name, bytes } => turn.store(name, bytes),
            Effect::Load(name) => turn.load(name),
            Effect::Erase(name) => turn.erase(name),
            Effect::Compute(job) => turn.compute(job),
            Effect::Output(output) => turn.output(output),
            Effect::Blame { peer, fault } => turn.blame(NodeId(self.place.global(peer)), fault),
            Effect::Applied(rule) => turn.applied(rule),
            Effect::Note(note) => turn.note(note),
        }
    }
}

impl Bounded for Placed {
    fn bytes(&self) -> u64 {
        self.replica.bytes()
    }

    fn bytes_max(&self) -> u64 {
        self.replica.bytes_max()
    }
}

impl Recover for Placed {
    type Config = (Place, Setup<SignedBroadcast<Batches>>);

    fn queues((_, setup): &Self::Config) -> Vec<QueueSpec> {
        Replica::queues(setup)
    }

    fn recover((place, setup): Self::Config, log: Log<'_, Record>) -> Result<Self, Unrecoverable> {
        Ok(Self { replica: Replica::recover(setup, log)?, place })
    }

    fn snapshot(&self, put: &mut dyn FnMut(Record)) {
        self.replica.snapshot(put);
    }
}

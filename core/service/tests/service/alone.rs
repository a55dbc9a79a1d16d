//! One executor alone, whose jobs run at once: what its tests say to it and read from it.

use synod_crypto::Scope;
use synod_machine::broadcast::{Delivered, Entry, Origin, Position, Submit};
use synod_machine::{Effect, Event, To, Wall, testing};
use synod_quorum::{Epoch, NodeId};
use synod_service::{
    Answered, ClientFrame, ClientMessage, Executor, ExecutorInput, ExecutorOutput, Item, Opening, Refused,
    Reply, Results, UNSIGNED,
};
use synod_wire::{Blob, Bytes, Limits, List, Wire};

use crate::board::Board;
use crate::world::{CLUSTER, Setup, World, keys};

pub(crate) const GUEST: NodeId = NodeId(128);
pub(crate) const OTHER: NodeId = NodeId(129);

pub(crate) fn scope() -> Scope {
    Scope { cluster: CLUSTER, epoch: Epoch(0) }
}

pub(crate) fn signed(item: Item, by: u8) -> Bytes {
    let said = item.said(&item.payload());
    let signature = keys(by).sign(scope(), GUEST, said).signature;
    item.signed(signature).payload()
}

pub(crate) fn opening() -> Bytes {
    signed(Item::Open(Opening { key: keys(100).public(), nonce: 1, signature: UNSIGNED }), 100)
}

pub(crate) fn frame(first: u64, full: u8, commands: &[&str]) -> Item {
    let commands =
        commands.iter().map(|one| Blob::try_from(Bytes::copy_from_slice(one.as_bytes())).expect("short"));
    let commands = List::try_from(commands.collect::<Vec<_>>()).expect("bounded");
    Item::Frame(ClientFrame { session: 1, first, acked: 1, full, commands, signature: UNSIGNED })
}

pub(crate) fn item(payload: &Bytes) -> ClientMessage {
    ClientMessage::Item(Blob::try_from(payload.clone()).expect("bounded"))
}

/// One executor, its jobs run at once; effects without jobs come back in order.
pub(crate) struct Alone {
    pub(crate) executor: Executor<Board>,
    pub(crate) position: u64,
}

pub(crate) type Effects = Vec<Effect<Executor<Board>>>;

impl Alone {
    pub(crate) fn new(setup: Setup) -> Self {
        let mut world = World::new(setup);
        Self { executor: world.nodes.remove(0).machine.expect("running"), position: 0 }
    }

    /// With session 1 open, its replies going to `GUEST`.
    pub(crate) fn open(setup: Setup) -> Self {
        let mut alone = Self::new(setup);
        alone.say(GUEST, item(&opening()));
        alone.entry(&opening());
        alone
    }

    pub(crate) fn step(&mut self, event: Event<Executor<Board>>) -> Effects {
        let mut out = Vec::new();
        let mut todo = vec![event];
        while let Some(event) = todo.pop() {
            for effect in testing::effects(&mut self.executor, event, synod_machine::Time(5)) {
                match effect {
                    Effect::Compute(job) => todo.push(Event::Done(synod_machine::Job::run(job, &keys(200)))),
                    other => out.push(other),
                }
            }
        }
        out
    }

    pub(crate) fn say(&mut self, from: NodeId, message: ClientMessage) -> Effects {
        self.step(Event::Message { from, message })
    }

    pub(crate) fn entry(&mut self, payload: &Bytes) -> Effects {
        self.entry_of(payload, true)
    }

    pub(crate) fn entry_of(&mut self, payload: &Bytes, last: bool) -> Effects {
        self.position += 1;
        let entry = Entry {
            position: Position(self.position),
            time: Wall(1_000),
            last,
            origin: Origin::Member(NodeId(2)),
            payload: payload.clone(),
            proof: None,
        };
        self.step(Event::Input(ExecutorInput::Delivered(Delivered::Entry(entry))))
    }
}

pub(crate) fn replies(effects: &Effects) -> Vec<(NodeId, Reply)> {
    let batches = effects.iter().filter_map(|effect| match effect {
        Effect::Send { to: To::Node(to), message: ClientMessage::Replies(batch) } => Some((*to, batch)),
        _ => None,
    });
    batches.flat_map(|(to, batch)| batch.replies.iter().map(move |reply| (to, reply.clone()))).collect()
}

pub(crate) fn submits(effects: &Effects) -> Vec<Submit> {
    let outputs = effects.iter().filter_map(|effect| match effect {
        Effect::Output(ExecutorOutput::Submit(submit)) => Some(submit.clone()),
        _ => None,
    });
    outputs.collect()
}

pub(crate) fn faults(effects: &Effects) -> Vec<(NodeId, &'static str)> {
    let blames = effects.iter().filter_map(|effect| match effect {
        Effect::Blame { peer, fault } => Some((*peer, fault.name)),
        _ => None,
    });
    blames.collect()
}

pub(crate) fn refused(effects: &Effects) -> Option<Refused> {
    match &replies(effects)[..] {
        [(_, Reply::Refused { why, .. })] => Some(*why),
        _ => None,
    }
}

pub(crate) fn results(effects: &Effects) -> Results {
    match &replies(effects)[..] {
        [(_, Reply::Executed { answer: Answered::Body(body), .. })] => {
            Results::decode(body.bytes().clone(), &Limits::default()).expect("own results")
        }
        other => unreachable!("no body: {other:?}"),
    }
}

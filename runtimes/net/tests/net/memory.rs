//! Register operations travel to a memory node's machine and their answers come back as ordinary messages.

use std::any::Any;
use std::sync::Mutex;
use std::sync::mpsc::channel;

use synod_machine::host::{Host, HostConfig, Hosted, LaneLog};
use synod_machine::register::{Held, Place, Region, RegisterOp, RegisterReply, Said as Answer};
use synod_machine::{
    Bounded, Condition, Event, Link, Log, Machine, Message, Never, Queue, QueueSpec, Recover, Turn,
    Unrecoverable,
};
use synod_net::{Deliveries, Hosting, Node};
use synod_quorum::{Epoch, NodeId};
use synod_wire::{Malformed, Reader, Why, Wire, Writer};

use crate::rig::{GUARD, config, listener};

const PLACE: Place = Place { region: Region { epoch: Epoch(0), owner: 0 }, index: 4 };
const HELD: Held = Held { stamp: 1, value: [7; 96] };
const QUEUES: [QueueSpec; 1] = [QueueSpec::CONTROL];

/// What the replica says: only register operations.
struct Ask(RegisterOp);
/// What the replica hears.
enum Said {
    Ask(Ask),
    Reply(RegisterReply),
}

impl Wire for Said {
    fn write(&self, _: &mut Writer) {
        unreachable!("operations travel in the register vocabulary")
    }
    fn read(input: &mut Reader) -> Result<Self, Malformed> {
        Err(input.refuse(Why::UnknownTag(0)))
    }
}

impl Message for Said {
    /// None that a memory node has.
    fn queue(&self) -> Queue {
        Queue(2)
    }
    fn register(&self) -> Option<&RegisterOp> {
        match self {
            Self::Ask(Ask(op)) => Some(op),
            Self::Reply(_) => None,
        }
    }
    fn registered(reply: RegisterReply) -> Option<Self> {
        Some(Self::Reply(reply))
    }
}

/// Writes a register of node 1 when it comes up, then reads it.
struct Replica;

impl Machine for Replica {
    type Input = ();
    type Message = Said;
    type Timer = u64;
    type Record = Never;
    type Job = Never;
    type Output = RegisterReply;

    fn step(&mut self, event: Event<Self>, turn: &mut Turn<'_, Self>) {
        match event {
            Event::Link { peer, link: Link::Up } => {
                turn.send(peer, Said::Ask(Ask(RegisterOp::Write { tag: 1, place: PLACE, held: HELD })));
                turn.send(peer, Said::Ask(Ask(RegisterOp::Read { tag: 2, place: PLACE })));
            }
            Event::Message { message: Said::Reply(reply), from: NodeId(1) } => turn.output(reply),
            _ => {}
        }
    }
}

/// What the memory node hears and says.
enum Served {
    Op(RegisterOp),
    Reply(RegisterReply),
}

impl Wire for Served {
    fn write(&self, out: &mut Writer) {
        match self {
            Self::Reply(reply) => reply.write(out),
            Self::Op(_) => unreachable!("a memory node asks nothing"),
        }
    }
    fn read(input: &mut Reader) -> Result<Self, Malformed> {
        RegisterOp::read(input).map(Self::Op)
    }
}

impl Message for Served {
    fn queue(&self) -> Queue {
        Queue::CONTROL
    }
}

/// One register.
#[derive(Default)]
struct Memory {
    held: Option<Held>,
}

impl Machine for Memory {
    type Input = ();
    type Message = Served;
    type Timer = u64;
    type Record = Never;
    type Job = Never;
    type Output = RegisterReply;

    fn step(&mut self, event: Event<Self>, turn: &mut Turn<'_, Self>) {
        let Event::Message { from, message: Served::Op(op) } = event else { return };
        let said = match op {
            RegisterOp::Write { held, .. } => {
                self.held = Some(held);
                Answer::Written
            }
            RegisterOp::Read { .. } => Answer::Value(self.held),
        };
        let reply = RegisterReply { tag: op.tag(), place: op.place(), boot: 1, said };
        turn.send(from, Served::Reply(reply));
    }
}

macro_rules! without_state {
    ($machine:ty, $make:expr, $queues:expr) => {
        impl Bounded for $machine {
            fn bytes(&self) -> u64 {
                0
            }
            fn bytes_max(&self) -> u64 {
                0
            }
        }
        impl Recover for $machine {
            type Config = ();
            fn queues((): &()) -> Vec<QueueSpec> {
                vec![QueueSpec::CONTROL; $queues]
            }
            fn recover((): (), _: Log<'_, Never>) -> Result<Self, Unrecoverable> {
                Ok($make)
            }
            fn snapshot(&self, _: &mut dyn FnMut(Never)) {}
        }
    };
}

without_state!(Replica, Replica, 3);
without_state!(Memory, Memory::default(), QUEUES.len());

fn hosting(own: u32, machine: u8) -> (HostConfig, LaneLog) {
    let host = HostConfig { own: NodeId(own), machine, seed: 1, jobs_max: 1, checked: true };
    (host, LaneLog { condition: Condition::Fresh, records: Vec::new() })
}

#[test]
fn a_replica_writes_and_reads_a_memory_nodes_register() {
    let (tell, told) = channel();
    let tell = Mutex::new(tell);
    let at = listener();
    let address = at.address().expect("bound");

    let (host, log) = hosting(1, 6);
    let memory: Box<dyn Hosted> = Box::new(Host::<Memory>::open(host, (), log).expect("nothing to recover"));
    let plan = [0, 6];
    let memory = Node::builder(config(1, 2)).plan(&plan).listen(at).machine(Hosting::new(6, memory)).start();
    let memory = memory.expect("a sound plan");

    let (host, log) = hosting(0, 0);
    let replica: Box<dyn Hosted> =
        Box::new(Host::<Replica>::open(host, (), log).expect("nothing to recover"));
    let replica = Node::builder(config(0, 2))
        .plan(&plan)
        .address(NodeId(1), address)
        .connector(move |_: u8, output: Box<dyn Any + Send>, _: &mut Deliveries<'_>| {
            let reply = output.downcast::<RegisterReply>().expect("a replica tells replies");
            let _ = tell.lock().expect("no panics").send(*reply);
        })
        .machine(Hosting::new(0, replica).memory(6, QUEUES.to_vec()))
        .start()
        .expect("a sound plan");
    let next = || told.recv_timeout(GUARD).expect("the memory node answers");
    let reply = |tag, said| RegisterReply { tag, place: PLACE, boot: 1, said };
    assert_eq!(next(), reply(1, Answer::Written));
    assert_eq!(next(), reply(2, Answer::Value(Some(HELD))));
    drop((memory, replica));
}

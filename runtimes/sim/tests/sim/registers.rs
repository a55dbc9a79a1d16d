//! Operations on registers: they reach the nodes that hold them as frames do, and the answers come back.

use synod_machine::host::{Host, HostConfig, Hosted, LaneLog};
use synod_machine::register::{Held, Place, Region, RegisterOp, RegisterReply, Said};
use synod_machine::{
    Bounded, Event, Log, Machine, Message, Never, Queue, QueueSpec, Recover, Span, Time, Turn, Unrecoverable,
};
use synod_quorum::{Epoch, NodeId};
use synod_sim::{Loss, Memory, Options, Seat, Setup, Told, World};
use synod_wire::{Malformed, Reader, Why, Wire, Writer};

const USER: u8 = 0;
const MEMORY: u8 = 6;
const PLACE: Place = Place { region: Region { epoch: Epoch(0), owner: 0 }, index: 4 };
const HELD: Held = Held { stamp: 1, value: [7; 96] };

/// What whoever uses registers says, and hears.
enum Words {
    Op(RegisterOp),
    Reply(RegisterReply),
}

impl Wire for Words {
    fn write(&self, _: &mut Writer) {
        unreachable!("operations travel in the register vocabulary")
    }
    fn read(input: &mut Reader) -> Result<Self, Malformed> {
        Err(input.refuse(Why::UnknownTag(0)))
    }
}

impl Message for Words {
    fn queue(&self) -> Queue {
        Queue::CONTROL
    }
    fn register(&self) -> Option<&RegisterOp> {
        match self {
            Self::Op(op) => Some(op),
            Self::Reply(_) => None,
        }
    }
    fn registered(reply: RegisterReply) -> Option<Self> {
        Some(Self::Reply(reply))
    }
}

/// Asks what it is told to ask, of node 1.
struct User;

impl Machine for User {
    type Input = RegisterOp;
    type Message = Words;
    type Timer = u8;
    type Record = Never;
    type Job = Never;
    type Output = (NodeId, RegisterReply);

    fn step(&mut self, event: Event<Self>, turn: &mut Turn<'_, Self>) {
        match event {
            Event::Input(op) => turn.send(NodeId(1), Words::Op(op)),
            Event::Message { from, message: Words::Reply(reply) } => turn.output((from, reply)),
            _ => {}
        }
    }
}

/// What a memory node hears, and says.
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

/// One register, which is forgotten with its process.
#[derive(Default)]
struct Register(Option<Held>);

impl Machine for Register {
    type Input = Never;
    type Message = Served;
    type Timer = u8;
    type Record = Never;
    type Job = Never;
    type Output = Never;

    fn step(&mut self, event: Event<Self>, turn: &mut Turn<'_, Self>) {
        let Event::Message { from, message: Served::Op(op) } = event else { return };
        let said = match op {
            RegisterOp::Write { held, .. } => {
                self.0 = Some(held);
                Said::Written
            }
            RegisterOp::Read { .. } => Said::Value(self.0),
        };
        turn.send(from, Served::Reply(RegisterReply { tag: op.tag(), place: op.place(), boot: 1, said }));
    }
}

macro_rules! stateless {
    ($machine:ty, $make:expr) => {
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
                vec![QueueSpec::CONTROL]
            }
            fn recover((): (), _: Log<'_, Never>) -> Result<Self, Unrecoverable> {
                Ok($make)
            }
            fn snapshot(&self, _: &mut dyn FnMut(Never)) {}
        }
    };
}

stateless!(User, User);
stateless!(Register, Register::default());

fn machine(own: NodeId, machine: u8, log: LaneLog) -> Result<Box<dyn Hosted>, Unrecoverable> {
    let config = HostConfig { own, machine, seed: 7, jobs_max: 1, checked: true };
    Ok(match machine {
        MEMORY => Box::new(Host::<Register>::open(config, (), log)?),
        _ => Box::new(Host::<User>::open(config, (), log)?),
    })
}

fn world(memory: Option<Memory>) -> World {
    let seats = vec![Seat::new(NodeId(0), &[USER]), Seat::new(NodeId(1), &[MEMORY])];
    World::new(Setup {
        memory,
        options: Options { seed: 7, ..Options::default() },
        ..Setup::new(seats, |node, number, log, _| machine(node, number, log))
    })
}

const WRITE: RegisterOp = RegisterOp::Write { tag: 1, place: PLACE, held: HELD };
const READ: RegisterOp = RegisterOp::Read { tag: 2, place: PLACE };

fn said(told: &[Told]) -> Vec<(NodeId, Said)> {
    let reply = |told: &Told| told.output.downcast_ref::<(NodeId, RegisterReply)>().copied();
    told.iter().filter_map(reply).map(|(from, reply)| (from, reply.said)).collect()
}

#[test]
fn operations_go_to_the_memory_nodes_machine_and_answers_come_back_to_who_uses_registers() {
    let mut world = world(Some(Memory { user: USER, machine: MEMORY }));
    let mut told: Vec<Told> = Vec::new();
    for (after, op) in [(10, READ), (20, WRITE), (30, READ)] {
        world.input(NodeId(0), USER, Span::millis(after), Box::new(op));
    }
    world.run(Time(Span::millis(40).0), &mut told).expect("nothing is broken");
    let here = NodeId(1);
    let expected = [(here, Said::Value(None)), (here, Said::Written), (here, Said::Value(Some(HELD)))];
    assert_eq!(said(&told), expected);
    assert!(told[0].time > Time(Span::millis(10).0), "an answer takes its time");
}

#[test]
fn a_memory_node_that_stops_answers_nothing_and_comes_back_empty() {
    let mut world = world(Some(Memory { user: USER, machine: MEMORY }));
    let mut told: Vec<Told> = Vec::new();
    world.input(NodeId(0), USER, Span::millis(10), Box::new(WRITE));
    world.run(Time(Span::millis(20).0), &mut told).expect("nothing is broken");
    world.crash(NodeId(1), Loss::Nothing, Some(Span::secs(5)));
    world.input(NodeId(0), USER, Span::secs(1), Box::new(READ));
    world.run(Time(Span::secs(4).0), &mut told).expect("nothing is broken");
    assert_eq!(said(&told).len(), 1, "it is down");
    world.input(NodeId(0), USER, Span::secs(6), Box::new(READ));
    world.run(Time(Span::secs(12).0), &mut told).expect("nothing is broken");
    assert_eq!(said(&told).last(), Some(&(NodeId(1), Said::Value(None))));
}

#[test]
fn where_nobody_holds_registers_an_operation_is_a_violation() {
    let mut world = world(None);
    world.input(NodeId(0), USER, Span::millis(10), Box::new(READ));
    let violation = world.run(Time(Span::millis(20).0), &mut Vec::<Told>::new());
    assert_eq!(violation.expect_err("nobody could answer").checker, "registers");
}

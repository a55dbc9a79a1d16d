//! A machine that sends balls to a peer and gives back those that come.

use std::sync::{Arc, Mutex};

use synod_machine::host::{Host, HostConfig, Hosted, LaneLog};
use synod_machine::{
    Bounded, Condition, Event, Full, Link, Log, Machine, Message, Never, Queue, QueueSpec, Recover, Turn,
    Unrecoverable,
};
use synod_quorum::NodeId;
use synod_shm::{Builder, Deliveries, Handle, Hosting, Ropes, Station};
use synod_wire::{Blob, wire};

wire! {
    /// What is played.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub(crate) enum Ball {
        /// To be given back.
        0 = There {
            /// Which.
            number: u64,
            /// The queue.
            queue: u8,
            /// Ballast.
            body: Blob<65_536>,
        },
        /// Given back.
        1 = Back {
            /// Which.
            number: u64,
        },
    }
}

impl Message for Ball {
    fn queue(&self) -> Queue {
        match self {
            Self::There { queue, .. } => Queue(*queue),
            Self::Back { .. } => Queue(0),
        }
    }
}

/// What a player is told.
pub(crate) enum Play {
    /// So many, one at a time.
    Rally { peer: NodeId, balls: u64 },
    /// These at once, with so much ballast, which nobody gives back.
    Volley { peer: NodeId, balls: std::ops::Range<u64>, queue: u8, bytes: usize },
}

/// What it tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// A ball came back.
    Back(u64),
    /// A ball of a volley came.
    Came(u64),
    /// A link.
    Linked(NodeId, Link),
}

pub(crate) struct Player {
    left: u64,
    peer: NodeId,
}

/// A volley's numbers begin here.
pub(crate) const VOLLEY: u64 = 1 << 32;

impl Player {
    fn serve(&mut self, number: u64, turn: &mut Turn<'_, Self>) {
        turn.send(self.peer, Ball::There { number, queue: 0, body: Blob::default() });
    }
}

impl Machine for Player {
    type Input = Play;
    type Message = Ball;
    type Timer = u8;
    type Record = Never;
    type Job = Never;
    type Output = Told;

    fn step(&mut self, event: Event<Self>, turn: &mut Turn<'_, Self>) {
        match event {
            Event::Input(Play::Rally { peer, balls }) => {
                (self.peer, self.left) = (peer, balls);
                self.serve(1, turn);
            }
            Event::Input(Play::Volley { peer, balls, queue, bytes }) => {
                for number in balls {
                    let body = Blob::try_from(synod_wire::Bytes::from(vec![7; bytes])).expect("short");
                    turn.send(peer, Ball::There { number: VOLLEY + number, queue, body });
                }
            }
            Event::Message { message: Ball::There { number, .. }, .. } if number >= VOLLEY => {
                turn.output(Told::Came(number - VOLLEY));
            }
            Event::Message { from, message: Ball::There { number, .. } } => {
                turn.send(from, Ball::Back { number })
            }
            Event::Message { message: Ball::Back { number }, .. } => {
                turn.output(Told::Back(number));
                if number < self.left {
                    self.serve(number + 1, turn);
                }
            }
            Event::Link { peer, link } => turn.output(Told::Linked(peer, link)),
            _ => {}
        }
    }
}

impl Bounded for Player {
    fn bytes(&self) -> u64 {
        0
    }
    fn bytes_max(&self) -> u64 {
        0
    }
}

/// Rings of twenty-four, a pipe that drops and one that breaks.
pub(crate) const QUEUES: [QueueSpec; 3] = [
    QueueSpec { depth: 24, frame_max: 104, full: Full::EvictOldest },
    QueueSpec { depth: 4, frame_max: 70_000, full: Full::DropNewest },
    QueueSpec { depth: 8, frame_max: 70_000, full: Full::Reset },
];

impl Recover for Player {
    type Config = ();
    fn queues((): &()) -> Vec<QueueSpec> {
        QUEUES.to_vec()
    }
    fn recover((): (), _: Log<'_, Never>) -> Result<Self, Unrecoverable> {
        Ok(Self { left: 0, peer: NodeId(0) })
    }
    fn snapshot(&self, _: &mut dyn FnMut(Never)) {}
}

pub(crate) type Heard = Arc<Mutex<Vec<Told>>>;

pub(crate) fn hosted(own: u32) -> Box<dyn Hosted> {
    let host = HostConfig { own: NodeId(own), machine: 0, seed: 1, jobs_max: 1, checked: false };
    let log = LaneLog { condition: Condition::Fresh, records: Vec::new() };
    Box::new(Host::<Player>::open(host, (), log).expect("nothing to recover"))
}

/// A player and what it tells.
pub(crate) fn player(own: u32, bell: &Ropes) -> (Station, Handle, Heard) {
    let heard = Heard::default();
    let told = Arc::clone(&heard);
    let connector = move |_: u8, output: Box<dyn core::any::Any + Send>, _: &mut Deliveries<'_>| {
        if let Ok(output) = output.downcast::<Told>() {
            told.lock().expect("no panic").push(*output);
        }
    };
    let builder = Builder::new(NodeId(own)).machine(Hosting::new(0, hosted(own))).connector(connector);
    let (station, handle) = builder.build(bell).expect("a sound plan");
    (station, handle, heard)
}

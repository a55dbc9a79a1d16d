//! Frames per second between two nodes of one process, each reactor on a core of its own.
//!
//! `cargo bench -p synod-net --bench frames` prints, per transport and body size, the frames one reactor handles in a
//! second; each is one frame received, one machine step and one frame sent. Budget: 300,000 with 100-byte bodies.

use std::time::{Duration, Instant};

use synod_crypto::{Hash, Seed};
use synod_machine::host::{Host, HostConfig, Hosted, LaneLog};
use synod_machine::{
    Bounded, Condition, Event, Link, Log, Machine, Message, Never, Queue, QueueSpec, Recover, Turn,
    Unrecoverable,
};
use synod_net::{Config, Hosting, Limits, Listener, Node, Role, Transport};
use synod_quorum::{Epoch, Member, NodeId, Roster};
use synod_wire::{Blob, Bytes, wire};

wire! {
    /// One frame's message.
    #[derive(Clone)]
    pub struct Ball(pub Blob<{ 1 << 20 }>);
}

impl Message for Ball {
    fn queue(&self) -> Queue {
        Queue::CONTROL
    }
}

/// Serves balls when a link comes up, if it is the server, and plays every ball back.
struct Player {
    serves: u32,
    body: Bytes,
}

impl Machine for Player {
    type Input = ();
    type Message = Ball;
    type Timer = u64;
    type Record = Never;
    type Job = Never;
    type Output = ();

    fn step(&mut self, event: Event<Self>, turn: &mut Turn<'_, Self>) {
        match event {
            Event::Link { peer, link: Link::Up } => {
                for _ in 0..self.serves {
                    turn.send(peer, Ball(Blob::try_from(self.body.clone()).unwrap_or_default()));
                }
            }
            Event::Message { from, message } => turn.send(from, message),
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

impl Recover for Player {
    type Config = (u32, usize);
    fn queues(_: &Self::Config) -> Vec<QueueSpec> {
        QueueSpec::standard()
    }
    fn recover((serves, size): Self::Config, _: Log<'_, Never>) -> Result<Self, Unrecoverable> {
        Ok(Self { serves, body: Bytes::from(vec![7; size]) })
    }
    fn snapshot(&self, _: &mut dyn FnMut(Never)) {}
}

fn seed(n: u8) -> Seed {
    Seed::new([n; 32])
}

fn player(
    own: u8,
    transport: Transport,
    ball: (u32, usize),
    listener: Listener,
    peer: synod_net::Address,
) -> Node {
    let members = (0..2).map(|n| Member { key: seed(n).public(), power: 1 }).collect();
    let config = Config {
        own: NodeId::from(own),
        role: Role::Member,
        seed: seed(own),
        cluster_name: "bench".to_owned(),
        cluster: Hash::of(b"bench"),
        roster: Roster::new(Epoch(1), members).expect("distinct keys"),
        transport,
        limits: Limits::default(),
    };
    let hosting = HostConfig { own: NodeId::from(own), machine: 0, seed: 1, jobs_max: 1, checked: false };
    let log = LaneLog { condition: Condition::Fresh, records: Vec::new() };
    let hosted: Box<dyn Hosted> =
        Box::new(Host::<Player>::open(hosting, ball, log).expect("nothing to recover"));
    Node::builder(config)
        .listen(listener)
        .machine(Hosting::new(0, hosted))
        .address(NodeId::from(1 - own), peer)
        .start()
        .expect("a sound plan")
}

fn main() {
    const WINDOW: u32 = 2_048;
    let span = Duration::from_secs(3);
    for transport in [Transport::Tls, Transport::InsecurePlain] {
        for size in [100, 1_000, 10_000] {
            let listen = || Listener::tcp("127.0.0.1:0").expect("a free port");
            let (a, b) = (listen(), listen());
            let (at_a, at_b) = (a.address().expect("bound"), b.address().expect("bound"));
            let one = player(0, transport, (WINDOW, size), a, at_b);
            let two = player(1, transport, (0, size), b, at_a);
            let row = || one.handle().counters().peer(NodeId(1));
            while row().received_frames[0].get() < u64::from(WINDOW) {
                std::thread::yield_now();
            }
            let (begun, frames, writes) =
                (Instant::now(), row().received_frames[0].get(), row().writes.get());
            std::thread::sleep(span);
            let took = begun.elapsed().as_millis().max(1);
            let frames = u128::from(row().received_frames[0].get() - frames);
            let writes = u128::from(row().writes.get() - writes).max(1);
            println!(
                "{transport:?} body {size} B: {} frames/s per reactor, {} MB/s each way, {} frames per write",
                frames * 1_000 / took,
                frames * size as u128 / took / 1_000,
                frames / writes
            );
            drop((one, two));
        }
    }
}

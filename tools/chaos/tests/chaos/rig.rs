//! Nodes that host a machine which answers every word, linked over loopback.

use std::any::Any;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use synod_crypto::{Hash, Seed};
use synod_machine::host::{Host, HostConfig, LaneLog};
use synod_machine::{
    Bounded, Condition, Event, Link, Log, Machine, Message, Never, Queue, QueueSpec, Recover, Turn,
    Unrecoverable,
};
use synod_net::{Address, Config, Deliveries, Hosting, Limits, Listener, Node, Refusal, Role, Transport};
use synod_quorum::{Epoch, Member, NodeId, Roster};
use synod_wire::wire;

/// A guard against hanging, never waited for.
const GUARD: Duration = Duration::from_secs(30);
/// Members of the roster.
const MEMBERS: u32 = 3;

wire! {
    /// What machines say.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub(crate) struct Word(pub u64);
}

impl Message for Word {
    fn queue(&self) -> Queue {
        Queue::CONTROL
    }
}

/// Tells of links and words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Link(NodeId, Link),
    Heard(NodeId, u64),
}

struct Teller;

impl Machine for Teller {
    type Input = Vec<(NodeId, u64)>;
    type Message = Word;
    type Timer = u64;
    type Record = Never;
    type Job = Never;
    type Output = Told;

    fn step(&mut self, event: Event<Self>, turn: &mut Turn<'_, Self>) {
        match event {
            Event::Input(words) => words.into_iter().for_each(|(to, n)| turn.send(to, Word(n))),
            Event::Message { from, message: Word(n) } => turn.output(Told::Heard(from, n)),
            Event::Link { peer, link } => turn.output(Told::Link(peer, link)),
            Event::Start | Event::Timer(_) | Event::Loaded { .. } | Event::Done(_) => {}
        }
    }
}

impl Bounded for Teller {
    fn bytes(&self) -> u64 {
        0
    }
    fn bytes_max(&self) -> u64 {
        0
    }
}

impl Recover for Teller {
    type Config = ();
    fn queues((): &()) -> Vec<QueueSpec> {
        QueueSpec::standard()
    }
    fn recover((): (), _: Log<'_, Never>) -> Result<Self, Unrecoverable> {
        Ok(Self)
    }
    fn snapshot(&self, _: &mut dyn FnMut(Never)) {}
}

/// The secret of member `n` of cluster `cluster`.
pub(crate) fn secret(n: u32) -> Seed {
    let mut bytes = [0x42; 32];
    bytes[..4].copy_from_slice(&n.to_le_bytes());
    Seed::new(bytes)
}

fn roster() -> Roster {
    let members = (0..MEMBERS).map(|n| Member { key: secret(n).public(), power: 1 }).collect();
    Roster::new(Epoch(1), members).expect("distinct keys")
}

/// A running member and what its machine tells.
pub(crate) struct Rig {
    pub(crate) node: Node,
    told: Receiver<Told>,
    pub(crate) peers: SocketAddr,
    pub(crate) guests: SocketAddr,
}

impl Rig {
    /// Member `own` of the cluster of this name.
    pub(crate) fn start(own: u32, cluster: &str) -> Self {
        let (tell, told) = channel();
        let tell = Mutex::new(tell);
        let connector = move |_: u8, output: Box<dyn Any + Send>, _: &mut Deliveries<'_>| {
            let told = *output.downcast::<Told>().expect("the machine tells");
            // A test that is over no longer listens.
            let _ = tell.lock().expect("no thread panics with the lock").send(told);
        };
        let host = HostConfig { own: NodeId(own), machine: 0, seed: 7, jobs_max: 16, checked: true };
        let log = LaneLog { condition: Condition::Fresh, records: Vec::new() };
        let machine = Box::new(Host::<Teller>::open(host, (), log).expect("it recovers from nothing"));
        let (peers, guests) = (listener(), listener());
        let (peers_at, guests_at) = (bound(&peers), bound(&guests));
        let config = Config {
            own: NodeId(own),
            role: Role::Member,
            seed: secret(own),
            cluster_name: cluster.to_owned(),
            cluster: Hash::of(cluster.as_bytes()),
            roster: roster(),
            transport: Transport::Tls,
            limits: Limits::default(),
        };
        let builder = Node::builder(config).connector(connector).machine(Hosting::new(0, machine));
        let node = builder.listen(peers).listen_guests(guests, &[0]).start().expect("a sound plan");
        Self { node, told, peers: peers_at, guests: guests_at }
    }

    /// Dials member `peer` there from now on.
    pub(crate) fn dial(&self, peer: u32, at: SocketAddr) {
        self.node.handle().set_address(NodeId(peer), Some(Address::from(at)));
    }

    /// Waits for what the machine tells, letting other things pass.
    pub(crate) fn wait_for(&self, wanted: &Told) {
        while &self.told.recv_timeout(GUARD).expect("it is told in time") != wanted {}
    }

    /// Whether nothing but this was told until now.
    pub(crate) fn only(&self, allowed: impl Fn(&Told) -> bool) -> bool {
        self.told.try_iter().all(|told| allowed(&told))
    }

    /// Says a word to a member.
    pub(crate) fn say(&self, to: u32, n: u64) {
        let input = vec![(NodeId(to), n)];
        self.node.handle().input(0, input).map_err(|_| ()).expect("the machine has room");
    }
}

impl synod_chaos::identity::Counters for Rig {
    fn refusals(&self) -> io::Result<BTreeMap<u16, u64>> {
        let counters = self.node.handle().counters();
        Ok(Refusal::ALL.iter().map(|refusal| (refusal.code(), counters.refused(*refusal))).collect())
    }
}

fn listener() -> Listener {
    Listener::tcp("127.0.0.1:0").expect("loopback has a free port")
}

fn bound(listener: &Listener) -> SocketAddr {
    match listener.address().expect("bound") {
        Address::Tcp(text) => text.parse().expect("an address and a port"),
        Address::Unix(_) => unreachable!("rigs listen on TCP"),
    }
}

/// An address of this machine on which nothing listens.
pub(crate) fn free() -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("bound")
}

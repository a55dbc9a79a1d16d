//! Nodes that host probes, and small clusters of them over loopback.

use std::any::Any;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use synod_crypto::{Hash, Seed};
use synod_machine::{Fault, Full, Link, QueueSpec};
use synod_net::{
    Address, Config, Connector, Deliveries, Failure, Handle, Hosting, Lane, Limits, Listener, Node,
    NodeBuilder, Observer, Role, Transport,
};
use synod_quorum::{Epoch, Member, NodeId, Roster};

pub(crate) use crate::probe::{Act, Script, Told, probe};

/// A guard against hanging, never waited for.
pub(crate) const GUARD: Duration = Duration::from_secs(30);

/// What an observer saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Blamed(NodeId, u16),
    Link(NodeId, Link),
    Failed(Failure),
}

/// Passes what it sees to a channel.
pub(crate) struct Watcher(Mutex<Sender<Seen>>);

impl Watcher {
    pub(crate) fn new() -> (Arc<Self>, Receiver<Seen>) {
        let (sender, receiver) = channel();
        (Arc::new(Self(Mutex::new(sender))), receiver)
    }

    fn tell(&self, seen: Seen) {
        // A test that is over no longer listens.
        let _ = self.0.lock().expect("no thread panics with the lock").send(seen);
    }
}

impl Observer for Watcher {
    fn blame(&self, _: u8, peer: NodeId, fault: &Fault) {
        self.tell(Seen::Blamed(peer, fault.code));
    }
    fn link(&self, peer: NodeId, link: Link) {
        self.tell(Seen::Link(peer, link));
    }
    fn failed(&self, failure: &Failure) {
        self.tell(Seen::Failed(failure.clone()));
    }
}

pub(crate) fn secret(n: u32) -> Seed {
    let mut bytes = [0x51; 32];
    bytes[..4].copy_from_slice(&n.to_le_bytes());
    Seed::new(bytes)
}

pub(crate) fn roster(epoch: u32, members: u32) -> Roster {
    let members = (0..members).map(|n| Member { key: secret(n).public(), power: 1 }).collect();
    Roster::new(Epoch(epoch), members).expect("distinct keys")
}

pub(crate) fn config(own: u32, members: u32) -> Config {
    Config {
        own: NodeId(own),
        role: if own < 128 { Role::Member } else { Role::Guest },
        seed: secret(own),
        cluster_name: "test".to_owned(),
        cluster: Hash::of(b"test cluster"),
        roster: roster(1, members),
        transport: Transport::Tls,
        limits: Limits::default(),
    }
}

/// A running node and what it tells.
pub(crate) struct Rig {
    pub(crate) own: NodeId,
    pub(crate) node: Node,
    pub(crate) told: Receiver<(u8, Told)>,
    pub(crate) seen: Receiver<Seen>,
    pub(crate) peers_at: Option<Address>,
    pub(crate) guests_at: Option<Address>,
}

/// How a rig is built.
pub(crate) struct Plan {
    pub(crate) config: Config,
    pub(crate) machines: Vec<(u8, Script, usize, Option<Lane>)>,
    pub(crate) threads: u32,
    pub(crate) listens: bool,
    pub(crate) fatal: Option<Sender<u16>>,
    /// Stops the reactor at its first link until the other end is dropped.
    pub(crate) held: Option<Receiver<()>>,
}

impl Plan {
    pub(crate) fn new(config: Config) -> Self {
        let listens = config.role == Role::Member;
        Self {
            config,
            machines: vec![(0, Script::default(), 0, None)],
            threads: 0,
            listens,
            fatal: None,
            held: None,
        }
    }

    pub(crate) fn script(mut self, script: Script) -> Self {
        self.machines[0].1 = script;
        self
    }

    pub(crate) fn lane(mut self, lane: Lane) -> Self {
        self.machines[0].3 = Some(lane);
        self
    }

    pub(crate) fn start(self) -> Rig {
        self.start_with(|builder| builder)
    }

    fn connector(&mut self, tell: Sender<(u8, Told)>) -> impl Connector + 'static {
        let (tell, held) = (Mutex::new(tell), Mutex::new(self.held.take()));
        move |machine: u8, output: Box<dyn Any + Send>, deliveries: &mut Deliveries<'_>| {
            let output = *output.downcast::<Told>().expect("probes tell");
            if let Told::Link(_, Link::Up) = output
                && let Some(held) = held.lock().expect("no thread panics with the lock").take()
            {
                let _ = held.recv();
            }
            if let Told::Passed(n) = output {
                return deliveries.input(1, vec![Act::Say(n)]);
            }
            let _ = tell.lock().expect("no thread panics with the lock").send((machine, output));
        }
    }

    pub(crate) fn start_with(mut self, also: impl FnOnce(NodeBuilder) -> NodeBuilder) -> Rig {
        let own = self.config.own;
        let (tell, told) = channel();
        let (observer, seen) = Watcher::new();
        let connector = self.connector(tell);
        let mut builder =
            Node::builder(self.config).connector(connector).observer(observer).pool(self.threads);
        for (number, script, reactor, lane) in self.machines {
            let hosting = Hosting::new(number, probe(own, number, script)).reactor(reactor);
            builder = builder.machine(match lane {
                Some(lane) => hosting.lane(lane),
                None => hosting,
            });
        }
        if let Some(fatal) = self.fatal {
            let fatal = Mutex::new(fatal);
            builder = builder.fatal(Arc::new(move |error| {
                let _ = fatal.lock().expect("no thread panics with the lock").send(error.code());
            }));
        }
        let (mut peers_at, mut guests_at) = (None, None);
        if self.listens {
            let (peers, guests) = (listener(), listener());
            peers_at = Some(peers.address().expect("bound"));
            guests_at = Some(guests.address().expect("bound"));
            builder = builder.listen(peers).listen_guests(guests, &[0]);
        }
        let node = also(builder).start().expect("the plan is sound");
        Rig { own, node, told, seen, peers_at, guests_at }
    }
}

pub(crate) fn listener() -> Listener {
    Listener::tcp("127.0.0.1:0").expect("loopback has a free port")
}

impl Rig {
    pub(crate) fn handle(&self) -> &Handle {
        self.node.handle()
    }

    pub(crate) fn act(&self, acts: Vec<Act>) {
        self.act_at(0, acts);
    }

    pub(crate) fn act_at(&self, machine: u8, acts: Vec<Act>) {
        self.handle().input(machine, acts).map_err(|_| ()).expect("the probe has room");
    }

    /// The next thing a machine of this node tells.
    pub(crate) fn next(&self) -> Told {
        self.told.recv_timeout(GUARD).expect("a probe tells in time").1
    }

    /// Waits for one thing, letting others pass.
    pub(crate) fn wait_for(&self, wanted: &Told) {
        while &self.next() != wanted {}
    }

    /// Waits for a link to come up or go down, letting other things pass.
    pub(crate) fn wait_link(&self, peer: u32, link: Link) {
        self.wait_for(&Told::Link(NodeId(peer), link));
    }

    /// The tags of the next `count` words heard.
    pub(crate) fn hear(&self, count: usize) -> Vec<u64> {
        let mut tags = Vec::new();
        while tags.len() < count {
            if let Told::Heard { tag, .. } = self.next() {
                tags.push(tag);
            }
        }
        tags
    }

    /// The first failure seen with a code.
    pub(crate) fn failure(&self) -> Failure {
        loop {
            if let Seen::Failed(failure) = self.seen.recv_timeout(GUARD).expect("a failure is seen in time") {
                return failure;
            }
        }
    }

    /// Whether nothing was told until now.
    pub(crate) fn quiet(&self) -> bool {
        matches!(self.told.recv_timeout(Duration::ZERO), Err(RecvTimeoutError::Timeout))
    }

    /// The id of the next guest that comes in.
    pub(crate) fn next_guest(&self) -> NodeId {
        loop {
            match self.next() {
                Told::Link(guest, Link::Up) if !guest.is_member() => return guest,
                _ => {}
            }
        }
    }

    pub(crate) fn dial(&self, other: &Self) {
        let address = if self.own.is_member() { &other.peers_at } else { &other.guests_at };
        self.handle().set_address(other.own, address.clone());
    }
}

/// A node whose reactor stands still from its first link on, until it is released.
pub(crate) struct Stalled {
    pub(crate) rig: Rig,
    hold: Option<Sender<()>>,
}

impl Stalled {
    pub(crate) fn member(own: u32, members: u32, dialled: &Rig, specs: &[QueueSpec]) -> Self {
        let script = Script { queues: specs.to_vec(), ..Script::default() };
        Self::start(Plan::new(config(own, members)).script(script), dialled)
    }

    pub(crate) fn guest(own: u32, members: u32, dialled: &Rig) -> Self {
        Self::start(Plan::new(config(own, members)), dialled)
    }

    fn start(mut plan: Plan, dialled: &Rig) -> Self {
        let (hold, held) = channel();
        plan.held = Some(held);
        let rig = plan.start();
        rig.dial(dialled);
        Self { rig, hold: Some(hold) }
    }

    /// Lets it go on.
    pub(crate) fn release(&mut self) {
        self.hold = None;
    }
}

impl Drop for Stalled {
    fn drop(&mut self) {
        self.release();
    }
}

/// Members `0..count`, all linked.
pub(crate) fn cluster(count: u32, plan: impl Fn(u32) -> Plan) -> Vec<Rig> {
    let rigs: Vec<Rig> = (0..count).map(|own| plan(own).start()).collect();
    for a in &rigs {
        for b in rigs.iter().filter(|b| b.own != a.own) {
            a.dial(b);
        }
    }
    for a in &rigs {
        let mut missing: Vec<NodeId> = rigs.iter().map(|b| b.own).filter(|own| *own != a.own).collect();
        while !missing.is_empty() {
            if let Told::Link(peer, Link::Up) = a.next() {
                missing.retain(|id| *id != peer);
            }
        }
    }
    rigs
}

/// A queue of this depth and rule with frames up to a MiB.
pub(crate) const fn queue(depth: u32, full: Full) -> QueueSpec {
    QueueSpec { depth, frame_max: 2 << 20, full }
}

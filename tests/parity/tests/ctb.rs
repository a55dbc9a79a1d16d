//! Consistent Tail Broadcast on the shared-memory runtime: three replicas speak over rings, their registers are those of
//! three memory nodes, written and read in place. Runtimes know no protocol, so this stands here.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use synod_crypto::{Hash, Keys, Seed};
use synod_machine::host::{Host, HostConfig, LaneLog};
use synod_machine::{
    Bounded, Condition, Event, Full, Lift, Log, Machine, Nested, Never, QueueSpec, Recover, Span, Turn,
    Unrecoverable,
};
use synod_quorum::{Epoch, Member, NodeId, Roster};
use synod_shm::{
    Builder, Crypto, Deliveries, Door, Doorbell, Hosting, Memory as At, Monotonic, Poller, Regions,
    RegionsConfig, RegistersConfig, Rest, Ropes, Station, Tenant, introduce, poller,
};
use synod_ubft::batch::View;
use synod_ubft::ctb::{Input, Message, Output, Timer};
use synod_ubft::{Config, CtBroadcast, Done, Job, Memory, Parameters};
use synod_wire::Bytes;

const REPLICAS: u32 = 3;
const BROADCASTER: u32 = 0;
const MEMORY: u32 = 3;
const GUARD: Duration = Duration::from_secs(20);

/// One broadcaster's messages at one replica, hosted alone.
struct Caster(Nested<CtBroadcast>);

struct AsIs;

impl Lift<CtBroadcast, Caster> for AsIs {
    fn message(&self, message: Message) -> Message {
        message
    }
    fn timer(&self, timer: Timer) -> Timer {
        timer
    }
    fn record(&self, record: Never) -> Never {
        record
    }
    fn job(&self, job: Job) -> Job {
        job
    }
}

impl Machine for Caster {
    type Input = Input;
    type Message = Message;
    type Timer = Timer;
    type Record = Never;
    type Job = Job;
    type Output = Output;

    fn step(&mut self, event: Event<Self>, turn: &mut Turn<'_, Self>) {
        let event: Event<CtBroadcast> = match event {
            Event::Start => Event::Start,
            Event::Input(input) => Event::Input(input),
            Event::Message { from, message } => Event::Message { from, message },
            Event::Timer(timer) => Event::Timer(timer),
            Event::Done(done) => Event::Done::<CtBroadcast>({
                let done: Done = done;
                done
            }),
            Event::Loaded { name, bytes } => Event::Loaded { name, bytes },
            Event::Link { peer, link } => Event::Link { peer, link },
        };
        let told: Vec<Output> = self.0.step(event, &AsIs, turn).collect();
        told.into_iter().for_each(|output| turn.output(output));
    }

    fn invariants(&self) {
        self.0.get().invariants();
    }
}

impl Bounded for Caster {
    fn bytes(&self) -> u64 {
        self.0.get().bytes()
    }
    fn bytes_max(&self) -> u64 {
        self.0.get().bytes_max()
    }
}

impl Recover for Caster {
    type Config = Arc<Config>;

    /// The columns of the specification, section 3.4: depth beyond the tail, frames as long as what they carry.
    fn queues(config: &Arc<Config>) -> Vec<QueueSpec> {
        let tail = config.parameters.tail;
        let body = u32::try_from(config.body_max()).expect("a body of at most 64 KiB") + 64;
        let ring = |depth, frame_max| QueueSpec { depth, frame_max, full: Full::EvictOldest };
        vec![ring(tail + 8, body), ring(tail + 8, 1_216), ring(tail + 8, 576), ring(64, 64), ring(64, 192)]
    }

    fn recover(config: Arc<Config>, _: Log<'_, Never>) -> Result<Self, Unrecoverable> {
        let one = CtBroadcast::new(config, NodeId(BROADCASTER));
        one.map(|one| Self(Nested::new(one))).map_err(|why| Unrecoverable(format!("{why:?}")))
    }

    fn snapshot(&self, _: &mut dyn FnMut(Never)) {}
}

fn keys(id: u32) -> Keys {
    let byte = u8::try_from(id).expect("few");
    Keys::ed25519(&Seed::new([byte + 1; 32]), [9; 32])
}

fn config(me: u32) -> Arc<Config> {
    let member = |id| Member { key: keys(id).public(), power: 1 };
    let memory = |at| Memory { node: NodeId(NodeId::GUESTS.0 + at), boot: 4 };
    Arc::new(Config {
        cluster: Hash([3; 32]),
        epoch: Epoch(0),
        me: NodeId(me),
        first_view: View(0),
        roster: Arc::new(Roster::new(Epoch(0), (0..REPLICAS).map(member).collect()).expect("a roster")),
        memory: (0..MEMORY).map(memory).collect(),
        parameters: Parameters { tail: 16, ..Parameters::default() },
    })
}

type Told = Arc<Mutex<Vec<(u64, Bytes)>>>;

fn replica(me: u32, bell: &Ropes) -> (Station, Told) {
    let host = HostConfig { own: NodeId(me), machine: 0, seed: 1, jobs_max: 64, checked: true };
    let log = LaneLog { condition: Condition::Fresh, records: Vec::new() };
    let hosted = Host::<Caster>::open(host, config(me), log).expect("sound");
    let told = Told::default();
    let heard = Arc::clone(&told);
    let connector = move |_: u8, output: Box<dyn core::any::Any + Send>, _: &mut Deliveries<'_>| match output
        .downcast::<Output>()
        .map(|output| *output)
    {
        Ok(Output::Delivered { k, body }) => heard.lock().expect("no panic").push((k, body)),
        Ok(other) => unreachable!("a correct broadcaster: {other:?}"),
        Err(_) => unreachable!("a broadcast tells its outputs"),
    };
    let builder = Builder::new(NodeId(me)).machine(Hosting::new(0, Box::new(hosted)));
    let builder = builder.crypto(Crypto::inline(keys(me))).connector(connector);
    (builder.build(bell).expect("a sound plan").0, told)
}

/// Memory nodes with their doors in a folder of their own.
struct Nodes {
    all: Vec<Regions>,
    folder: PathBuf,
}

impl Nodes {
    fn start(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("synod-ctb-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let uids = vec![synod_shm::hand::own_user(); REPLICAS as usize];
        let start = |at: u32| {
            let uids = uids.clone();
            let config = RegionsConfig { uids, faulty: 1, registers: 32, tail: 16, boot: 4 };
            let door = Door::bind(&folder.join(at.to_string())).expect("a door");
            Regions::start(config, door).expect("a thread")
        };
        Self { all: (0..MEMORY).map(start).collect(), folder: folder.clone() }
    }

    /// The registers of one node, as a replica reaches them.
    fn registers(&self, at: u32, me: u32) -> At {
        let me = u8::try_from(me).expect("few");
        let uid = synod_shm::hand::own_user();
        let tenant = Tenant::connect(&self.folder.join(at.to_string()), uid, me, (32, 16)).expect("let in");
        let cooldown = Span::millis(1);
        let config = RegistersConfig { me, members: 3, registers: 32, tail: 16, cooldown, boot: 0 };
        At::Joined(Box::new(tenant.registers(config, Epoch(0)).expect("all regions")))
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        // The folder is this test's own; if it stays it harms nobody.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

struct Rig {
    poller: Poller<Station, Monotonic>,
    told: Vec<Told>,
    nodes: Nodes,
}

/// Three replicas at one poller, of which these are linked with each other.
fn rig(name: &str, linked: &[usize]) -> Rig {
    let bell = Doorbell::new().expect("a bell");
    let nodes = Nodes::start(name);
    let (mut stations, told): (Vec<Station>, Vec<Told>) =
        (0..REPLICAS).map(|me| replica(me, bell.ropes())).unzip();
    for (me, station) in (0..).zip(&mut stations) {
        for at in 0..MEMORY {
            assert!(station.memory(0, NodeId(NodeId::GUESTS.0 + at), nodes.registers(at, me)));
        }
    }
    for a in linked {
        for b in linked.iter().filter(|b| *b > a) {
            let (left, right) = stations.split_at_mut(*b);
            introduce(&mut left[*a], &mut right[0], None).expect("alike");
        }
    }
    Rig { poller: poller(stations, Rest::Yield, bell), told, nodes }
}

impl Rig {
    fn until(&mut self, what: &str, done: impl Fn(&[usize]) -> bool) {
        let begun = Instant::now();
        let count = |told: &Told| told.lock().expect("no panic").len();
        while !done(&self.told.iter().map(count).collect::<Vec<_>>()) {
            assert!(begun.elapsed() < GUARD, "{what}");
            self.poller.pass().expect("it polls");
        }
    }

    fn links(&mut self, links: usize) {
        let begun = Instant::now();
        while self.poller.items().iter().map(|station| station.up().count()).sum::<usize>() < 2 * links {
            assert!(begun.elapsed() < GUARD, "links");
            self.poller.pass().expect("it polls");
        }
    }

    fn broadcast(&mut self, input: Input) {
        assert!(self.poller.items()[BROADCASTER as usize].input(0, input));
    }
}

fn body(k: u64) -> Bytes {
    Bytes::from(vec![u8::try_from(k % 251).expect("a byte"); 32])
}

#[test]
fn a_thousand_messages_are_delivered_everywhere_without_a_memory_node() {
    let mut rig = rig("fast", &[0, 1, 2]);
    rig.links(3);
    for at in 0..MEMORY {
        for station in rig.poller.items() {
            assert!(station.memory(0, NodeId(NodeId::GUESTS.0 + at), At::Gone));
        }
    }
    for k in 1..=1_000 {
        rig.broadcast(Input::Broadcast { body: body(k), signed: false });
        let all = usize::try_from(k).expect("few");
        rig.until("delivered everywhere", |counts| counts.iter().all(|count| *count == all));
        rig.broadcast(Input::Summarized(k));
    }
    let expected: Vec<(u64, Bytes)> = (1..=1_000).map(|k| (k, body(k))).collect();
    for told in &rig.told {
        assert_eq!(*told.lock().expect("no panic"), expected);
    }
}

#[test]
fn with_a_receiver_away_and_a_memory_node_stopped_registers_in_place_deliver() {
    let mut rig = rig("slow", &[0, 1]);
    rig.links(1);
    for k in 1..=40 {
        if k == 20 {
            // Its process has ended; so has its memory for whoever had mapped it.
            drop(rig.nodes.all.remove(0));
            for station in rig.poller.items() {
                assert!(station.memory(0, NodeId(NodeId::GUESTS.0), At::Gone));
            }
        }
        rig.broadcast(Input::Broadcast { body: body(k), signed: true });
        let all = usize::try_from(k).expect("few");
        rig.until("delivered by its signature", |counts| counts[0] == all && counts[1] == all);
        rig.broadcast(Input::Summarized(k));
    }
    let expected: Vec<(u64, Bytes)> = (1..=40).map(|k| (k, body(k))).collect();
    assert_eq!(*rig.told[1].lock().expect("no panic"), expected);
    assert_eq!(rig.told[2].lock().expect("no panic").len(), 0, "nobody told it anything");
}

#[test]
fn with_two_memory_nodes_stopped_nothing_is_delivered_slowly() {
    let mut rig = rig("stopped", &[0, 1]);
    rig.links(1);
    for at in [0, 2] {
        for station in rig.poller.items() {
            assert!(station.memory(0, NodeId(NodeId::GUESTS.0 + at), At::Gone));
        }
    }
    rig.broadcast(Input::Broadcast { body: body(1), signed: true });
    for _ in 0..500 {
        rig.poller.pass().expect("it polls");
    }
    let counts: Vec<usize> = rig.told.iter().map(|told| told.lock().expect("no panic").len()).collect();
    assert_eq!(counts, [1, 0, 0], "the broadcaster alone delivers to itself");
}

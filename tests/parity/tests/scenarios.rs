//! Fault-free, closed-loop scenarios: the same commands, one at a time, give every node the same outputs on every
//! runtime.
//!
//! Four members host the executor of a key-value store and a replica, one guest a client. Keys are real Ed25519 keys
//! and the same everywhere. What depends on time, views and leaders is masked: an entry's agreed time, its block, its
//! origin, and the member that a frame names for full results, which the frame's signature covers.

use std::sync::Arc;

use synod_crypto::Hash;
use synod_hotstuff::{Config, Identity, Pack, Parameters, Replica};
use synod_kv::{Kv, Verb, operation};
use synod_machine::Span;
use synod_machine::broadcast::{Delivered, Entry, Position};
use synod_machine::host::{Host, HostConfig, Hosted};
use synod_parity::{Log, NetRig, Opening, Passed, Plan, Rig, Seat, ShmRig, SimRig, Went};
use synod_quorum::{Epoch, Member, NodeId, Roster, Weights};
use synod_service::matching::Trust;
use synod_service::{
    Client, ClientAuth, ClientConfig, ClientInput, ClientOutput, Command, Executor, ExecutorConfig,
    ExecutorInput, ExecutorLimits, ExecutorOutput, Item, Outcome, ReadMode,
};
use synod_sim::{Crypto, Keyring};
use synod_wire::Bytes;

const MEMBERS: u32 = 4;
const GUEST: usize = 4;
const REPLICA: u8 = 0;
const EXECUTOR: u8 = 1;
const SEED: u64 = 7;
/// Longer than any run: nobody asks twice because a machine is slow.
const PATIENCE: Span = Span::secs(25);

/// What a node told, masked.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Told {
    /// A client's opening was ordered.
    Opened { position: u64, nonce: u64 },
    /// A client's frame was ordered.
    Ordered { position: u64, session: u64, first: u64, acked: u64, commands: Vec<Bytes> },
    /// Another payload was ordered, or the layer's own.
    Other { position: u64, payload: Bytes },
    /// The client's session is open.
    Ready { session: u64 },
    /// A command was executed at this position.
    Executed { tag: u64, value: Bytes, position: u64 },
    /// Anything else became of a command or read.
    Failed { tag: u64, outcome: String },
}

fn entry(entry: &Entry) -> Told {
    let position = entry.position.0;
    match Item::parse(&entry.payload) {
        Ok(Item::Open(opening)) => Told::Opened { position, nonce: opening.nonce },
        Ok(Item::Frame(frame)) => Told::Ordered {
            position,
            session: frame.session,
            first: frame.first,
            acked: frame.acked,
            commands: frame.commands.iter().map(|command| Bytes::copy_from_slice(command)).collect(),
        },
        Err(_) => Told::Other { position, payload: entry.payload.clone() },
    }
}

fn outcome(output: ClientOutput) -> Went<Told> {
    match output {
        ClientOutput::Ready { session } => Went::Told(Told::Ready { session }),
        ClientOutput::Outcome { tag, outcome: Outcome::Accepted { value, position, .. }, id } => {
            // What position a read saw is a matter of time.
            let position = if id.sequence == 0 { 0 } else { position.0 };
            Went::Told(Told::Executed { tag, value, position })
        }
        ClientOutput::Outcome { tag, outcome, .. } => {
            Went::Told(Told::Failed { tag, outcome: format!("{outcome:?}") })
        }
        ClientOutput::Closed => Went::Dropped,
    }
}

/// Where outputs go: what the replica delivers to the executor and into the log, what the executor submits to the
/// replica, what the client tells into the log.
fn route(node: NodeId, machine: u8, output: Box<dyn core::any::Any + Send>) -> Went<Told> {
    if !node.is_member() {
        return output.downcast::<ClientOutput>().map_or(Went::Dropped, |output| outcome(*output));
    }
    if machine == REPLICA {
        let delivered = *output.downcast::<Delivered>().expect("a replica delivers");
        let told = if let Delivered::Entry(delivered) = &delivered { Some(entry(delivered)) } else { None };
        let passed = Passed::new(EXECUTOR, ExecutorInput::Delivered(delivered));
        return match told {
            Some(told) => Went::Both(told, passed),
            None => Went::Passed(passed),
        };
    }
    match output.downcast::<ExecutorOutput>().map(|output| *output) {
        Ok(ExecutorOutput::Submit(submit)) => Went::Passed(Passed::new(REPLICA, submit)),
        _ => Went::Dropped,
    }
}

fn roster() -> Roster {
    let keyring = Keyring::new(Crypto::Real, SEED);
    let member = |id| Member { key: keyring.public(u64::from(id)), power: 1 };
    Roster::new(Epoch(0), (0..MEMBERS).map(member).collect()).expect("distinct keys")
}

fn cluster() -> Hash {
    Hash::of(b"parity scenarios")
}

fn replica(pack: Pack, own: NodeId) -> Config {
    let identity = Identity { own, cluster: cluster(), roster: roster() };
    let parameters = Parameters { timeout_base: Span::millis(500), ..Parameters::of(pack, MEMBERS) };
    Config::new(identity, parameters, Position(0)).expect("the defaults of a pack are sound")
}

fn executor(own: NodeId) -> ExecutorConfig<Kv> {
    let limits = ExecutorLimits { app_bytes: 2 << 30, ..ExecutorLimits::default() };
    let app = Kv::new(synod_kv::Config::default());
    ExecutorConfig { app, own, roster: roster(), cluster: cluster(), auth: ClientAuth::Signed, limits }
}

fn client(own: NodeId) -> ClientConfig {
    let key = Keyring::new(Crypto::Real, SEED).public(u64::from(own.0));
    let trust = Trust::Members(Weights::equal(MEMBERS));
    ClientConfig { escalate_min: PATIENCE, ..ClientConfig::new(trust, cluster(), key, 3) }
}

fn open(pack: Pack, opening: Opening) -> Box<dyn Hosted> {
    let Opening { own, machine, log, seed, .. } = opening;
    let host = HostConfig { own, machine, seed, jobs_max: 4_096, checked: true };
    let opened: Result<Box<dyn Hosted>, _> = if !own.is_member() {
        Host::<Client>::open(host, client(own), log).map(|client| Box::new(client) as Box<dyn Hosted>)
    } else if machine == REPLICA {
        Host::<Replica>::open(host, replica(pack, own), log)
            .map(|replica| Box::new(replica) as Box<dyn Hosted>)
    } else {
        Host::<Executor<Kv>>::open(host, executor(own), log)
            .map(|executor| Box::new(executor) as Box<dyn Hosted>)
    };
    opened.expect("a fresh log is recovered from")
}

fn plan(pack: Pack) -> Plan<Told> {
    let member = |id| Seat { id: NodeId(id), machines: vec![EXECUTOR, REPLICA] };
    let guest = Seat { id: NodeId::GUESTS, machines: vec![EXECUTOR] };
    Plan {
        seats: (0..MEMBERS).map(member).chain([guest]).collect(),
        seed: SEED,
        pool: 1,
        open: Arc::new(move |opening| open(pack, opening)),
        route: Arc::new(route),
    }
}

/// One command of the store from its words.
fn words(text: &str) -> Bytes {
    let mut words = text.split(' ');
    let verb = words.next().and_then(|name| Verb::find(name.as_bytes())).expect("a verb of the store");
    let arguments: Vec<&[u8]> = words.map(str::as_bytes).collect();
    let mut out = Vec::new();
    operation::write_command(verb, arguments.into_iter(), &mut out);
    out.into()
}

/// One step of the user, which waits for its outcome before the next.
enum Step {
    /// A command for the order.
    Order(&'static str),
    /// A read that a quorum answers.
    Read(&'static str),
}
use Step::{Order, Read};

/// Every kind of value, replies that are errors, and reads between writes. Nothing that expires or is drawn: those
/// depend on the agreed time.
const STEPS: [Step; 34] = [
    Order("SET greeting hello"),
    Order("APPEND greeting ,world"),
    Read("GET greeting"),
    Order("STRLEN greeting"),
    Order("INCR counter"),
    Order("INCRBY counter 41"),
    Read("GET counter"),
    Order("INCR greeting"),
    Order("DECRBY counter 9223372036854775807"),
    Order("DECRBY counter 9223372036854775807"),
    Order("LPUSH greeting x"),
    Order("RPUSH list a b c d"),
    Order("LPUSH list z"),
    Read("LRANGE list 0 -1"),
    Order("RPOP list"),
    Order("LPOP list 2"),
    Order("SADD set red green blue red"),
    Order("SREM set green"),
    Read("SMEMBERS set"),
    Order("HSET hash one 1 two 2"),
    Order("HINCRBY hash two 40"),
    Read("HGETALL hash"),
    Order("HINCRBY hash one x"),
    Order("ZADD board 3 carol 1 alice 2 bob"),
    Order("ZADD board nan dave"),
    Read("ZRANGE board 0 -1 WITHSCORES"),
    Order("ZPOPMIN board"),
    Order("GETSET greeting bye"),
    Order("GETDEL greeting"),
    Read("GET greeting"),
    Order("MSET a 1 b 2 c 3"),
    Order("DEL a b missing"),
    Order("MGET a b c counter"),
    Read("DBSIZE"),
];

/// Runs the steps, waits until every member delivered all of it, and gives what each node told.
fn run<R: Rig<Told>>(pack: Pack) -> Vec<Vec<Told>> {
    let mut rig = R::start(plan(pack));
    let about = |told: &Told, number: u64| match told {
        Told::Executed { tag, .. } | Told::Failed { tag, .. } => *tag == number,
        _ => false,
    };
    for (tag, step) in (0_u64..).zip(&STEPS) {
        let (Order(text) | Read(text)) = step;
        let body = words(text);
        let deadline = PATIENCE;
        let input = match step {
            Order(_) => ClientInput::Submit { commands: vec![Command { tag, body }], deadline },
            Read(_) => {
                let (mode, fallback) = (ReadMode::Quorum, None);
                ClientInput::Query { tag, question: body, mode, fallback, deadline }
            }
        };
        rig.input(GUEST, EXECUTOR, input);
        rig.until(text, |logs| logs[GUEST].of(EXECUTOR).any(|told| about(told, tag)));
    }
    let orders = STEPS.iter().filter(|step| matches!(step, Order(_))).count();
    let frames =
        |log: &Log<Told>| log.of(REPLICA).filter(|told| matches!(told, Told::Ordered { .. })).count();
    rig.until("every member delivered everything", |logs| {
        logs[..GUEST].iter().all(|log| frames(log) >= orders)
    });
    let told = |place| rig.log(place).told.into_iter().map(|entry| entry.what).collect();
    let all = (0..=GUEST).map(told).collect();
    rig.stop();
    all
}

fn the_same_on_all(pack: Pack) {
    let sim = run::<SimRig<Told>>(pack);
    let net = run::<NetRig<Told>>(pack);
    let shm = run::<ShmRig<Told>>(pack);
    for (other, runtime) in [(&net, "net"), (&shm, "shm")] {
        for (place, (sim, other)) in sim.iter().zip(other).enumerate() {
            assert_eq!(sim, other, "node {place} on {runtime} under {}", pack.name());
        }
    }
    let first = &sim[0];
    assert!(sim[..GUEST].iter().all(|told| told == first), "one order at all members");
    let guest = &sim[GUEST];
    let executed = guest.iter().filter(|told| matches!(told, Told::Executed { .. })).count();
    assert_eq!(executed, STEPS.len(), "every step has a result: {guest:?}");
    let last = Told::Executed { tag: 33, value: Bytes::from_static(b":6\r\n"), position: 0 };
    assert!(guest.contains(&last), "the reads see the writes: {guest:?}");
}

#[test]
fn basic_gives_the_same_outputs_on_every_runtime() {
    the_same_on_all(Pack::Basic);
}

#[test]
fn chain3_gives_the_same_outputs_on_every_runtime() {
    the_same_on_all(Pack::Chain3);
}

#[test]
fn chain2_gives_the_same_outputs_on_every_runtime() {
    the_same_on_all(Pack::Chain2);
}

#[test]
fn chain2_order_gives_the_same_outputs_on_every_runtime() {
    the_same_on_all(Pack::Chain2Order);
}

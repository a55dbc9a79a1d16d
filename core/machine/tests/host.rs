//! The promises of the host: order is durability, timers, loop-back, limits, recovery.

use std::any::Any;

use synod_crypto::{Hash, Keys, Seed};
use synod_machine::host::{
    At, ErasedJob, Frame, HELD_MAX, Host, HostConfig, Hosted, LaneLog, Lsn, Platform, UNDECODABLE,
};
use synod_machine::register::{Place, Region, RegisterOp, RegisterReply, Said};
use synod_machine::{
    Bounded, Condition, Event, Fault, Job, Keep, Link, Log, Machine, Message, Note, Queue, QueueSpec, Record,
    Recover, Rule, Span, Time, To, Turn, Unrecoverable, Wall,
};
use synod_quorum::{Epoch, NodeId, NodeSet};
use synod_wire::{Blob, Bytes, Wire, wire};

wire! {
    /// What the test machine says.
    #[derive(Clone, Debug, PartialEq)]
    pub enum Say {
        /// A number, in the control queue.
        0 = Number(u64),
        /// Bulk, in the bulk queue.
        1 = Bulk(Blob<64>),
        /// A write of disaggregated memory.
        2 = Memory(RegisterOp),
        /// A memory node's answer.
        3 = Answer(RegisterReply),
    }

    /// What it promises.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Promise(pub u64);
}

impl Message for Say {
    fn queue(&self) -> Queue {
        match self {
            Self::Bulk(_) => Queue::BULK,
            Self::Number(_) | Self::Memory(_) | Self::Answer(_) => Queue::CONTROL,
        }
    }
    fn register(&self) -> Option<&RegisterOp> {
        match self {
            Self::Memory(op) => Some(op),
            _ => None,
        }
    }
    fn registered(reply: RegisterReply) -> Option<Self> {
        Some(Self::Answer(reply))
    }
}

impl Record for Promise {
    fn keep(&self) -> Keep {
        if self.0.is_multiple_of(2) { Keep::LogAndSlot } else { Keep::Log }
    }
}

struct Double(u64);
impl Job for Double {
    type Done = u64;
    fn run(self, _: &Keys) -> u64 {
        self.0 * 2
    }
}

/// What an input asks the test machine to do, in order.
enum Do {
    Send(To, Say),
    Persist(u64),
    Store(&'static [u8]),
    Output(u64),
    Arm(u8, u64),
    Disarm(u8),
    Compute(u64),
}

#[derive(Default)]
struct Puppet {
    promised: Vec<u64>,
    heard: Vec<(u32, Say)>,
    fired: Vec<(u8, u64)>,
    others: Vec<String>,
    big: bool,
}

impl Machine for Puppet {
    type Input = Vec<Do>;
    type Message = Say;
    type Timer = u8;
    type Record = Promise;
    type Job = Double;
    type Output = u64;

    fn step(&mut self, event: Event<Self>, turn: &mut Turn<'_, Self>) {
        match event {
            Event::Start => self.others.push("start".to_owned()),
            Event::Input(todo) => todo.into_iter().for_each(|what| perform(what, turn)),
            Event::Message { from, message } => self.heard.push((from.0, message)),
            Event::Timer(timer) => {
                self.fired.push((timer, turn.now().0));
                if timer == 9 {
                    turn.arm(9, Span::ZERO);
                }
            }
            Event::Done(done) => turn.output(done),
            Event::Loaded { name, bytes } => self.others.push(format!("{name:?} {bytes:?}")),
            Event::Link { peer, link } => self.others.push(format!("{peer} {link:?}")),
        }
    }
}

fn perform(what: Do, turn: &mut Turn<'_, Puppet>) {
    match what {
        Do::Send(to, say) => turn.send(to, say),
        Do::Persist(n) => turn.persist(Promise(n)),
        Do::Store(bytes) => turn.store(Hash::of(bytes), Bytes::from_static(bytes)),
        Do::Output(n) => turn.output(n),
        Do::Arm(timer, after) => turn.arm(timer, Span(after)),
        Do::Disarm(timer) => turn.disarm(timer),
        Do::Compute(n) => turn.compute(Double(n)),
    }
}

impl Bounded for Puppet {
    fn bytes(&self) -> u64 {
        if self.big { 2 } else { 1 }
    }
    fn bytes_max(&self) -> u64 {
        1
    }
}

impl Recover for Puppet {
    type Config = bool;
    fn queues(_: &bool) -> Vec<QueueSpec> {
        QueueSpec::standard()
    }
    fn recover(big: bool, log: Log<'_, Promise>) -> Result<Self, Unrecoverable> {
        if log.condition == Condition::Damaged {
            return Err(Unrecoverable("damaged".to_owned()));
        }
        Ok(Self { promised: log.records.map(|p| p.0).collect(), big, ..Self::default() })
    }
    fn snapshot(&self, put: &mut dyn FnMut(Promise)) {
        self.promised.iter().for_each(|&n| put(Promise(n)));
    }
}

#[derive(Default)]
struct Seen {
    lines: Vec<String>,
    lsn: Lsn,
    jobs: Vec<ErasedJob>,
    blamed: Vec<u16>,
}

impl Platform for Seen {
    fn send(&mut self, to: To, queue: Queue, body: Bytes) {
        self.lines.push(format!("send {to:?} {} {}", queue.0, body.len()));
    }
    fn register(&mut self, to: NodeId, _: Queue, op: &RegisterOp) {
        self.lines.push(format!("register {to} {op:?}"));
    }
    fn append(&mut self, keep: Keep, record: Bytes) -> Lsn {
        self.lsn += 1;
        self.lines.push(format!("append {keep:?} {}", record[1]));
        self.lsn
    }
    fn store(&mut self, _: Hash, bytes: Bytes) -> Lsn {
        self.lsn += 1;
        self.lines.push(format!("store {}", bytes.len()));
        self.lsn
    }
    fn erase(&mut self, _: Hash) {}
    fn load(&mut self, _: Hash) {}
    fn compact(&mut self) {}
    fn submit(&mut self, job: ErasedJob) {
        self.jobs.push(job);
    }
    fn output(&mut self, output: Box<dyn Any + Send>) {
        let output = output.downcast::<u64>().expect("the machine's output type");
        self.lines.push(format!("output {output}"));
    }
    fn blame(&mut self, _: NodeId, fault: Fault) {
        self.blamed.push(fault.code);
    }
    fn applied(&mut self, _: Rule) {}
    fn note(&mut self, _: Note) {}
}

const AT: At = At { now: Time(1_000), wall: Wall(0) };

fn config() -> HostConfig {
    HostConfig { own: NodeId(1), machine: 0, seed: 1, jobs_max: 4, checked: true }
}

fn host() -> Host<Puppet> {
    let log = LaneLog { condition: Condition::Fresh, records: Vec::new() };
    Host::open(config(), false, log).expect("a fresh log recovers")
}

fn input(host: &mut Host<Puppet>, seen: &mut Seen, todo: Vec<Do>) {
    host.input(Box::new(todo), AT, seen);
}

fn peer(n: u32) -> To {
    To::Node(NodeId(n))
}

#[test]
fn nothing_leaves_before_what_was_persisted_before_it() {
    let (mut host, mut seen) = (host(), Seen::default());
    input(
        &mut host,
        &mut seen,
        vec![
            Do::Send(peer(0), Say::Number(1)),
            Do::Persist(7),
            Do::Send(peer(0), Say::Number(2)),
            Do::Output(3),
            Do::Store(b"body"),
            Do::Output(4),
        ],
    );
    input(&mut host, &mut seen, vec![Do::Output(5)]);
    assert_eq!(seen.lines, ["send Node(NodeId(0)) 0 3", "append Log 7", "store 4"]);
    host.durable(1, &mut seen);
    assert_eq!(seen.lines[3..], ["send Node(NodeId(0)) 0 3", "output 3"]);
    host.durable(2, &mut seen);
    assert_eq!(seen.lines[5..], ["output 4", "output 5"]);
    input(&mut host, &mut seen, vec![Do::Output(6)]);
    assert_eq!(seen.lines[7..], ["output 6"]);
}

#[test]
fn a_later_effect_never_overtakes_a_held_one() {
    let (mut host, mut seen) = (host(), Seen::default());
    input(&mut host, &mut seen, vec![Do::Persist(1), Do::Output(1), Do::Persist(3), Do::Output(2)]);
    host.durable(1, &mut seen);
    input(&mut host, &mut seen, vec![Do::Output(3)]);
    host.durable(2, &mut seen);
    let outputs: Vec<&String> = seen.lines.iter().filter(|l| l.starts_with("output")).collect();
    assert_eq!(outputs, ["output 1", "output 2", "output 3"]);
}

#[test]
fn an_operation_on_a_register_waits_for_what_was_persisted_before_it() {
    let (mut host, mut seen) = (host(), Seen::default());
    let region = Region { epoch: synod_quorum::Epoch(0), owner: 1 };
    let op = |tag| Say::Memory(RegisterOp::Read { tag, place: Place { region, index: 0 } });
    let todo = vec![Do::Send(peer(9), op(1)), Do::Persist(1), Do::Send(peer(9), op(2)), Do::Output(3)];
    input(&mut host, &mut seen, todo);
    let registers = |seen: &Seen| seen.lines.iter().filter(|line| line.starts_with("register")).count();
    assert_eq!(registers(&seen), 1, "the first alone: {:?}", seen.lines);
    let held = host.bytes();
    host.durable(1, &mut seen);
    assert_eq!((registers(&seen), seen.lines.last().map(String::as_str)), (2, Some("output 3")));
    assert!(host.bytes() < held, "what was held is counted");
}

/// A platform that copies frames at once.
#[derive(Default)]
struct Copying {
    seen: Seen,
    slices: Vec<Vec<u8>>,
}

impl Platform for Copying {
    fn send(&mut self, to: To, queue: Queue, body: Bytes) {
        self.seen.send(to, queue, body);
    }
    fn copies(&self) -> bool {
        true
    }
    fn send_slice(&mut self, _: To, _: Queue, body: &[u8]) {
        self.slices.push(body.to_vec());
    }
    fn register(&mut self, to: NodeId, queue: Queue, op: &RegisterOp) {
        self.seen.register(to, queue, op);
    }
    fn append(&mut self, keep: Keep, record: Bytes) -> Lsn {
        self.seen.append(keep, record)
    }
    fn store(&mut self, name: Hash, bytes: Bytes) -> Lsn {
        self.seen.store(name, bytes)
    }
    fn erase(&mut self, _: Hash) {}
    fn load(&mut self, _: Hash) {}
    fn compact(&mut self) {}
    fn submit(&mut self, job: ErasedJob) {
        self.seen.submit(job);
    }
    fn output(&mut self, output: Box<dyn Any + Send>) {
        self.seen.output(output);
    }
    fn blame(&mut self, peer: NodeId, fault: Fault) {
        self.seen.blame(peer, fault);
    }
    fn applied(&mut self, _: Rule) {}
    fn note(&mut self, _: Note) {}
}

#[test]
fn a_platform_that_copies_gets_the_same_bytes_and_bodies_of_what_was_held() {
    let (mut host, mut platform) = (host(), Copying::default());
    let todo = vec![
        Do::Send(peer(0), Say::Number(300)),
        Do::Send(peer(0), Say::Number(1)),
        Do::Persist(7),
        Do::Send(peer(0), Say::Number(2)),
    ];
    host.input(Box::new(todo), AT, &mut platform);
    let body = |say: Say| [&[1], &say.encode()[..]].concat();
    assert_eq!(platform.slices, [body(Say::Number(300)), body(Say::Number(1))]);
    assert_eq!(platform.seen.lines, ["append Log 7"]);
    host.durable(1, &mut platform);
    assert_eq!(platform.seen.lines[1..], ["send Node(NodeId(0)) 0 3"]);
    host.input(Box::new(vec![Do::Send(peer(0), Say::Number(4))]), AT, &mut platform);
    assert_eq!(platform.slices.last(), Some(&body(Say::Number(4))));
}

#[test]
fn jobs_and_timers_are_not_held() {
    let (mut host, mut seen) = (host(), Seen::default());
    input(&mut host, &mut seen, vec![Do::Persist(1), Do::Compute(21), Do::Arm(3, 5)]);
    assert_eq!(seen.jobs.len(), 1);
    assert_eq!(host.deadline(), Some(Time(1_005)));
    let keys = Keys::ed25519(&Seed::new([1; 32]), [0; 32]);
    let done = host.runner()(std::mem::take(&mut seen.jobs), &keys).remove(0);
    host.done(done, AT, &mut seen);
    host.durable(1, &mut seen);
    assert_eq!(seen.lines, ["append Log 1", "output 42"]);
}

#[test]
fn a_set_with_the_sender_loops_back_as_a_later_event_and_is_encoded_once() {
    let (mut host, mut seen) = (host(), Seen::default());
    let all = To::Set(NodeSet::first(3));
    input(&mut host, &mut seen, vec![Do::Persist(1), Do::Send(all, Say::Number(5)), Do::Output(1)]);
    assert_eq!(host.machine().heard, [(1, Say::Number(5))], "a loop-back is not held");
    host.durable(1, &mut seen);
    assert_eq!(seen.lines, ["append Log 1", "send Set({0, 2}) 0 3", "output 1"]);
    input(&mut host, &mut seen, vec![Do::Send(To::Set(NodeSet::EMPTY), Say::Number(6))]);
    assert_eq!(host.machine().heard.len(), 1);
}

#[test]
fn timers_fire_once_in_time_then_name_order_and_move_when_armed_again() {
    let (mut host, mut seen) = (host(), Seen::default());
    let todo = vec![
        Do::Arm(5, 10),
        Do::Arm(4, 10),
        Do::Arm(6, 3),
        Do::Arm(7, 4),
        Do::Arm(6, 20),
        Do::Disarm(7),
        Do::Disarm(8),
    ];
    input(&mut host, &mut seen, todo);
    assert_eq!(host.deadline(), Some(Time(1_010)));
    let late = At { now: Time(9_000), wall: Wall(0) };
    host.tick(At { now: Time(1_009), ..late }, &mut seen);
    assert!(host.machine().fired.is_empty());
    host.tick(late, &mut seen);
    assert_eq!(host.machine().fired, [(4, 9_000), (5, 9_000), (6, 9_000)]);
    host.tick(late, &mut seen);
    assert_eq!(host.machine().fired.len(), 3);
}

#[test]
fn a_timer_that_arms_itself_for_now_does_not_starve_the_node() {
    let (mut host, mut seen) = (host(), Seen::default());
    input(&mut host, &mut seen, vec![Do::Arm(9, 0)]);
    host.tick(AT, &mut seen);
    assert_eq!(host.machine().fired.len(), 1);
    assert_eq!(host.deadline(), Some(AT.now));
}

#[test]
fn a_frame_that_does_not_decode_is_blamed_and_touches_nothing() {
    let (mut host, mut seen) = (host(), Seen::default());
    let good = Say::Number(9).encode();
    let frame = |version: u8, queue: Queue, tail: &[u8]| {
        let mut body = vec![version];
        body.extend_from_slice(&good);
        body.extend_from_slice(tail);
        Frame { from: NodeId(0), queue, body: Bytes::from(body) }
    };
    let bad = [
        frame(2, Queue::CONTROL, b""),
        frame(1, Queue::CONTROL, b"x"),
        frame(1, Queue::BULK, b""),
        frame(1, Queue(7), b""),
        Frame { from: NodeId(0), queue: Queue::CONTROL, body: Bytes::new() },
        Frame { from: NodeId(0), queue: Queue::CONTROL, body: Bytes::from(vec![1; 70_000]) },
    ];
    let count = bad.len();
    bad.into_iter().for_each(|f| host.frame(f, AT, &mut seen));
    assert_eq!(seen.blamed, vec![UNDECODABLE; count]);
    assert!(host.machine().heard.is_empty());
    host.frame(frame(1, Queue::CONTROL, b""), AT, &mut seen);
    assert_eq!(host.machine().heard, [(0, Say::Number(9))]);
}

#[test]
fn too_much_held_pauses_the_machine_until_the_disk_catches_up() {
    let (mut host, mut seen) = (host(), Seen::default());
    input(&mut host, &mut seen, vec![Do::Persist(1)]);
    for n in 0..HELD_MAX as u64 {
        input(&mut host, &mut seen, vec![Do::Output(n)]);
    }
    assert!(host.ready(), "at the cap it still runs");
    input(&mut host, &mut seen, vec![Do::Output(0)]);
    assert!(!host.ready());
    assert_eq!(host.room(), 0);
    host.durable(1, &mut seen);
    assert!(host.ready());
}

#[test]
fn too_many_jobs_pause_the_machine() {
    let (mut host, mut seen) = (host(), Seen::default());
    input(&mut host, &mut seen, (0..4).map(Do::Compute).collect());
    assert!(!host.ready());
    let keys = Keys::ed25519(&Seed::new([1; 32]), [0; 32]);
    for done in host.runner()(std::mem::take(&mut seen.jobs), &keys) {
        host.done(done, AT, &mut seen);
    }
    assert!(host.ready());
    assert_eq!(seen.lines, ["output 0", "output 2", "output 4", "output 6"]);
}

#[test]
fn a_register_operation_goes_to_the_memory_node_and_its_answer_comes_back() {
    let (mut host, mut seen) = (host(), Seen::default());
    let place = Place { region: Region { epoch: Epoch(0), owner: 2 }, index: 5 };
    let read = RegisterOp::Read { tag: 1, place };
    assert_eq!((read.tag(), read.place()), (1, place));
    input(&mut host, &mut seen, vec![Do::Send(peer(200), Say::Memory(read))]);
    assert_eq!(seen.lines.len(), 1);
    assert!(seen.lines[0].starts_with("register guest200 Read"));
    let reply = RegisterReply { tag: 1, place, boot: 1, said: Said::Refused };
    host.registered(NodeId(200), reply, AT, &mut seen);
    assert_eq!(host.machine().heard, [(200, Say::Answer(reply))]);
}

#[test]
fn a_machine_comes_back_from_its_records_and_from_its_snapshot() {
    let (mut first, mut seen) = (host(), Seen::default());
    first.start(AT, &mut seen);
    assert_eq!(first.machine().others, ["start"]);
    let records = [3, 8].map(|n| {
        let mut bytes = vec![1];
        bytes.extend_from_slice(&Promise(n).encode());
        Bytes::from(bytes)
    });
    let log = LaneLog { condition: Condition::Clean, records: records.to_vec() };
    let again: Host<Puppet> = Host::open(config(), false, log).expect("recovers");
    assert_eq!(again.machine().promised, [3, 8]);
    let snapshot = again.snapshot();
    assert_eq!(snapshot.iter().map(|(keep, _)| *keep).collect::<Vec<_>>(), [Keep::Log, Keep::LogAndSlot]);
    assert_eq!(snapshot.into_iter().map(|(_, bytes)| bytes).collect::<Vec<_>>(), records);
}

#[test]
fn an_unknown_record_or_version_refuses_to_start() {
    let open = |records: Vec<Bytes>, condition| {
        Host::<Puppet>::open(config(), false, LaneLog { condition, records }).err()
    };
    assert!(open(vec![Bytes::from_static(&[2, 1])], Condition::Clean).is_some());
    assert!(open(vec![Bytes::new()], Condition::Clean).is_some());
    assert!(open(vec![Bytes::from_static(&[1, 1, 1])], Condition::Clean).is_some());
    assert_eq!(open(vec![], Condition::Damaged), Some(Unrecoverable("damaged".to_owned())));
    assert_eq!(open(vec![Bytes::from_static(&[1, 1])], Condition::Clean), None);
}

#[test]
#[should_panic(expected = "above the formula")]
fn memory_above_the_formula_stops_a_checked_run() {
    let log = LaneLog { condition: Condition::Fresh, records: Vec::new() };
    let mut host = Host::<Puppet>::open(config(), true, log).expect("recovers");
    host.link(NodeId(0), Link::Down, AT, &mut Seen::default());
}

#[test]
fn hints_and_blobs_reach_the_machine() {
    let (mut host, mut seen) = (host(), Seen::default());
    host.link(NodeId(0), Link::Up, AT, &mut seen);
    host.loaded(Hash::ZERO, None, AT, &mut seen);
    assert_eq!(host.machine().others, ["n0 Up", "00000000 None"]);
}

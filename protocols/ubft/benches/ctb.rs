//! What Consistent Tail Broadcast costs where three replicas share a thread and speak over rings in its memory: the figure `ctb.fast` of the
//! specification, section 8.2, without the poller. `cargo bench -p synod-ubft --bench ctb`
//!
//! One message at a time: from the input at the broadcaster until both receivers have delivered.

#![expect(clippy::disallowed_types, clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::sync::Arc;
use std::time::Instant;

use synod_crypto::{Hash, Keys, Seed};
use synod_machine::{
    Event, Fault, Machine as _, Message as _, Never, Note, Rng, Rule, Sink, Span, Time, To, Turn, Wall,
};
use synod_quorum::{Epoch, Member, NodeId, Roster};
use synod_tail::Atomics;
use synod_tail::ring::{Header, Polled, Reader, Ring, RingSpec, Writer};
use synod_ubft::batch::View;
use synod_ubft::ctb::{Input, Message, Output, Timer};
use synod_ubft::{Config, CtBroadcast, Job, Memory, Parameters};
use synod_wire::{Bytes, Limits, Wire as _};

const ROUNDS: usize = 200_000;
const N: usize = 3;

type Line = (Writer<Arc<Atomics>>, Reader<Arc<Atomics>>);

/// Rings from one replica to each, and what it was told.
struct Out {
    lines: Vec<Option<Writer<Arc<Atomics>>>>,
    delivered: u64,
    applied: u64,
}

impl Out {
    fn put(&mut self, to: NodeId, queue: u8, frame: &[u8]) {
        let line = self.lines.get_mut(to.0 as usize).and_then(Option::as_mut).expect("a ring");
        line.send(Header { queue, epoch: 0 }, frame).expect("it fits");
    }
}

impl Sink<CtBroadcast> for Out {
    fn send(&mut self, to: To, message: Message) {
        let (queue, frame) = (message.queue().0, message.encode());
        match to {
            To::Node(node) => self.put(node, queue, &frame),
            To::Set(set) => set.iter().for_each(|node| self.put(node, queue, &frame)),
        }
    }
    fn arm(&mut self, _: Timer, _: Span) {}
    fn disarm(&mut self, _: Timer) {}
    fn persist(&mut self, record: Never) {
        match record {}
    }
    fn compact(&mut self) {}
    fn store(&mut self, _: Hash, _: Bytes) {}
    fn load(&mut self, _: Hash) {}
    fn erase(&mut self, _: Hash) {}
    fn compute(&mut self, job: Job) {
        unreachable!("the fast path computes nothing: {job:?}")
    }
    fn output(&mut self, output: Output) {
        self.delivered += u64::from(matches!(output, Output::Delivered { .. }));
    }
    fn blame(&mut self, peer: NodeId, fault: Fault) {
        unreachable!("{peer} is blamed for {}", fault.name)
    }
    fn applied(&mut self, _: Rule) {
        self.applied += 1;
    }
    fn note(&mut self, _: Note) {}
}

struct Replica {
    machine: CtBroadcast,
    out: Out,
    inboxes: Vec<(NodeId, Reader<Arc<Atomics>>)>,
    buffer: Vec<u8>,
    rng: Rng,
}

impl Replica {
    fn step(&mut self, event: Event<CtBroadcast>) {
        self.machine.step(event, &mut Turn::new(Time::ZERO, Wall(0), &mut self.rng, &mut self.out));
    }

    fn poll(&mut self) {
        for at in 0..self.inboxes.len() {
            let (from, reader) = &mut self.inboxes[at];
            let from = *from;
            if let Polled::Message(arrived) = reader.poll(&mut self.buffer) {
                let frame = Bytes::copy_from_slice(arrived.payload(&self.buffer));
                let message = Message::decode(frame, &Limits::default()).expect("a message");
                self.step(Event::Message { from, message });
            }
        }
    }
}

fn config(me: u32) -> Config {
    let key = |id: u8| Keys::ed25519(&Seed::new([id + 1; 32]), [9; 32]).public();
    let member = |id| Member { key: key(id), power: 1 };
    Config {
        cluster: Hash([3; 32]),
        epoch: Epoch(0),
        me: NodeId(me),
        first_view: View(0),
        roster: Arc::new(Roster::new(Epoch(0), (0..3).map(member).collect()).expect("a roster")),
        memory: (0..3).map(|at| Memory { node: NodeId(NodeId::GUESTS.0 + at), boot: 1 }).collect(),
        parameters: Parameters::default(),
    }
}

fn line() -> Line {
    let ring = Ring::new(RingSpec { depth: 264, slot_bytes: 9 << 10 }).expect("a ring");
    let words = Arc::new(Atomics::zeroed(ring.words()));
    (Writer::new(ring, Arc::clone(&words)), Reader::new(ring, words))
}

fn replicas() -> Vec<Replica> {
    let mut replicas: Vec<Replica> = (0..3)
        .map(|me| Replica {
            machine: CtBroadcast::new(Arc::new(config(me)), NodeId(0)).expect("sound"),
            out: Out { lines: vec![None, None, None], delivered: 0, applied: 0 },
            inboxes: Vec::new(),
            buffer: vec![0; 9 << 10],
            rng: Rng::new(1, NodeId(me), 0),
        })
        .collect();
    for from in 0..N {
        for to in (0..N).filter(|to| *to != from) {
            let (writer, reader) = line();
            replicas[from].out.lines[to] = Some(writer);
            replicas[to].inboxes.push((NodeId(u32::try_from(from).expect("few")), reader));
        }
    }
    replicas
}

fn main() {
    for bytes in [32, 512, 2_048, 8_192] {
        let mut replicas = replicas();
        let body = Bytes::from(vec![7; bytes]);
        let mut spans = Vec::with_capacity(ROUNDS);
        for round in 1..=ROUNDS as u64 {
            let begin = Instant::now();
            replicas[0].step(Event::Input(Input::Broadcast { body: body.clone(), signed: false }));
            while replicas[1].out.delivered < round || replicas[2].out.delivered < round {
                replicas[1].poll();
                replicas[2].poll();
            }
            spans.push(begin.elapsed());
            replicas[0].step(Event::Input(Input::Summarized(round)));
        }
        spans.sort_unstable();
        let at = |share: usize| spans[(spans.len() * share / 1_000).min(spans.len() - 1)].as_nanos();
        println!("ctb.fast {bytes} B: p50 {} ns, p90 {} ns, p99 {} ns", at(500), at(900), at(990));
    }
}

//! `sink_ns_per_step`: the overhead of effects through a three-layer stack. Budget 40 ns.

#![expect(clippy::disallowed_types, clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::hint::black_box;
use std::time::Instant;

use synod_machine::{
    Event, Fault, Lift, Machine, Nested, Never, Note, Rng, Rule, Sink, Span, Time, To, Turn, Wall,
};
use synod_quorum::NodeId;
use synod_wire::Bytes;

const STEPS: u32 = 5_000_000;

struct Leaf(u64);

impl Machine for Leaf {
    type Input = u64;
    type Message = Never;
    type Timer = u64;
    type Record = Never;
    type Job = Never;
    type Output = u64;
    fn step(&mut self, event: Event<Self>, turn: &mut Turn<'_, Self>) {
        if let Event::Input(n) = event {
            self.0 += n;
            turn.arm(n, Span(1));
            turn.output(self.0);
        }
    }
}

struct Under<C: Machine>(Nested<C>);
struct Same;

impl<C, P> Lift<C, P> for Same
where
    C: Machine<Message = Never, Timer = u64, Record = Never, Job = Never>,
    P: Machine<Message = Never, Timer = u64, Record = Never, Job = Never>,
{
    fn message(&self, message: Never) -> Never {
        message
    }
    fn timer(&self, timer: u64) -> u64 {
        timer
    }
    fn record(&self, record: Never) -> Never {
        record
    }
    fn job(&self, job: Never) -> Never {
        job
    }
}

impl<C> Machine for Under<C>
where
    C: Machine<Input = u64, Message = Never, Timer = u64, Record = Never, Job = Never, Output = u64>,
{
    type Input = u64;
    type Message = Never;
    type Timer = u64;
    type Record = Never;
    type Job = Never;
    type Output = u64;
    fn step(&mut self, event: Event<Self>, turn: &mut Turn<'_, Self>) {
        if let Event::Input(n) = event {
            let last = self.0.step(Event::Input(n), &Same, turn).next_back();
            last.into_iter().for_each(|n| turn.output(n));
        }
    }
}

struct Count(u64);

impl<M: Machine<Timer = u64, Output = u64>> Sink<M> for Count {
    fn send(&mut self, _: To, _: M::Message) {}
    fn arm(&mut self, timer: u64, _: Span) {
        self.0 = self.0.wrapping_add(timer);
    }
    fn disarm(&mut self, _: u64) {}
    fn persist(&mut self, _: M::Record) {}
    fn compact(&mut self) {}
    fn store(&mut self, _: synod_crypto::Hash, _: Bytes) {}
    fn load(&mut self, _: synod_crypto::Hash) {}
    fn erase(&mut self, _: synod_crypto::Hash) {}
    fn compute(&mut self, _: M::Job) {}
    fn output(&mut self, output: u64) {
        self.0 = self.0.wrapping_add(output);
    }
    fn blame(&mut self, _: NodeId, _: Fault) {}
    fn applied(&mut self, _: Rule) {}
    fn note(&mut self, _: Note) {}
}

fn main() {
    let mut stack = Under(Nested::new(Under(Nested::new(Leaf(0)))));
    let mut rng = Rng::new(1, NodeId(0), 0);
    let mut sink = Count(0);
    let mut rounds: Vec<u128> = (0..7)
        .map(|_| {
            let start = Instant::now();
            for n in 0..u64::from(STEPS) {
                stack.step(Event::Input(black_box(n)), &mut Turn::new(Time(n), Wall(0), &mut rng, &mut sink));
            }
            start.elapsed().as_nanos() / u128::from(STEPS)
        })
        .collect();
    rounds.sort_unstable();
    black_box(sink.0);
    println!("{{\"sink_ns_per_step\": {}}}", rounds[rounds.len() / 2]);
}

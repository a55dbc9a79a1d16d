//! How long payments pause, in message delays: everybody hears everything one delay after it was said, and works in no time.

use std::collections::BTreeMap;

use synod_astro::member::{Input, Output};
use synod_astro::views::Change;
use synod_crypto::Hash;
use synod_machine::testing::effects;
use synod_machine::{Condition, Effect, Event, Job as _, Log, Machine as _, Recover as _, Span, Time, To};
use synod_quorum::NodeId;
use synod_wire::Bytes;

use crate::crew::{Machine, config, endorsed, founding, join, keys, leave, order};

type Said = <Machine as synod_machine::Machine>::Message;
type Timer = <Machine as synod_machine::Machine>::Timer;

/// One message delay, in which no timer of the payments is long.
const DELAY: Span = Span::millis(20);

struct Seat {
    machine: Machine,
    blobs: BTreeMap<Hash, Bytes>,
    timers: BTreeMap<Timer, Time>,
    stopped: Option<u64>,
    resumed: Option<u64>,
    /// Rounds in which something settled.
    settled: Vec<u64>,
}

struct Lockstep {
    seats: Vec<Seat>,
    flying: Vec<(NodeId, NodeId, Said)>,
    round: u64,
}

impl Lockstep {
    fn new(nodes: u32) -> Self {
        let seat = |id| {
            let log = Log { condition: Condition::Clean, records: &mut std::iter::empty() };
            let machine = Machine::recover(config(NodeId(id), 512), log).expect("a sound configuration");
            let (blobs, timers) = (BTreeMap::new(), BTreeMap::new());
            Seat { machine, blobs, timers, stopped: None, resumed: None, settled: Vec::new() }
        };
        let mut all = Self { seats: (0..nodes).map(seat).collect(), flying: Vec::new(), round: 0 };
        (0..nodes).for_each(|id| all.step(NodeId(id), Event::Start));
        all
    }

    fn now(&self) -> Time {
        Time(self.round * DELAY.0)
    }

    fn step(&mut self, id: NodeId, event: Event<Machine>) {
        let (now, round) = (self.now(), self.round);
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            let seat = &mut self.seats[id.0 as usize];
            for effect in effects(&mut seat.machine, event, now) {
                match effect {
                    Effect::Send { to: To::Node(to), message } => self.flying.push((id, to, message)),
                    Effect::Send { to: To::Set(set), message } => {
                        self.flying.extend(set.iter().map(|to| (id, to, message.clone())));
                    }
                    Effect::Arm { timer, after } => drop(seat.timers.insert(timer, Time(now.0 + after.0))),
                    Effect::Disarm(timer) => drop(seat.timers.remove(&timer)),
                    Effect::Store { name, bytes } => drop(seat.blobs.insert(name, bytes)),
                    Effect::Erase(name) => drop(seat.blobs.remove(&name)),
                    Effect::Load(name) => {
                        events.push(Event::Loaded { name, bytes: seat.blobs.get(&name).cloned() });
                    }
                    Effect::Compute(job) => events.push(Event::Done(job.run(&keys(id.0)))),
                    Effect::Output(Output::Stopped(_)) => seat.stopped = Some(round),
                    Effect::Output(Output::Resumed(_)) => seat.resumed = Some(round),
                    Effect::Output(Output::Pay(synod_astro::Output::Settled { .. })) => {
                        seat.settled.push(round);
                    }
                    Effect::Blame { peer, fault } => unreachable!("{id} blames {peer}: {}", fault.name),
                    _ => {}
                }
            }
        }
    }

    /// One delay: what was said is heard, and what is due fires.
    fn go_on(&mut self) {
        self.round += 1;
        let now = self.now();
        for (from, to, message) in std::mem::take(&mut self.flying) {
            self.step(to, Event::Message { from, message });
        }
        for at in 0..self.seats.len() {
            let seat = &mut self.seats[at];
            let due: Vec<Timer> =
                seat.timers.iter().filter(|(_, when)| **when <= now).map(|(timer, _)| *timer).collect();
            for timer in due {
                self.seats[at].timers.remove(&timer);
                self.step(NodeId(u32::try_from(at).expect("few")), Event::Timer(timer));
            }
        }
    }

    fn change(&mut self, by: u8, change: Change) {
        let endorsement = endorsed(&founding(), change);
        self.step(NodeId(u32::from(by)), Event::Input(Input::Change(endorsement)));
    }

    /// Payments through each of these, one in every delay, until all of them resumed again; then some more. Gives the delays from the first
    /// stop to the last resumption, and the longest time in which nothing settled at one of them.
    fn pause(&mut self, by: &[u8], members: &[usize], name: &mut u128) -> (u64, u64) {
        self.seats.iter_mut().for_each(|seat| (seat.stopped, seat.resumed) = (None, None));
        let begin = self.round;
        for _ in 0..60 {
            for registrar in by {
                *name += 1;
                let input = Input::Pay(order(*registrar, *name));
                self.step(NodeId(u32::from(*registrar)), Event::Input(input));
            }
            self.go_on();
        }
        let all = || members.iter().map(|at| &self.seats[*at]);
        let stopped = all().filter_map(|seat| seat.stopped).min().expect("somebody stopped");
        let resumed = all().map(|seat| seat.resumed.expect("it runs")).max().expect("members");
        let gap = |seat: &Seat| {
            let within: Vec<u64> = seat.settled.iter().copied().filter(|round| *round > begin + 4).collect();
            within.windows(2).map(|two| two[1] - two[0]).max().unwrap_or(u64::MAX)
        };
        let founders = all().filter(|seat| seat.stopped.is_some());
        (resumed - stopped, founders.map(gap).max().expect("members"))
    }
}

/// Acceptance: no pause is longer than the bound that docs/papers/astro.md states.
#[test]
fn nothing_settles_for_few_message_delays_when_a_view_changes() {
    let mut all = Lockstep::new(5);
    let mut name = 0;
    (0..20).for_each(|_| all.go_on());
    all.change(4, join(4));
    let (joined, quiet) = all.pause(&[0, 1, 2, 3], &[0, 1, 2, 3, 4], &mut name);
    assert!(joined <= 3 && quiet <= 8, "a join: {joined} delays stopped, {quiet} in which nothing settled");
    all.change(1, leave(1));
    let (left, quiet) = all.pause(&[0, 2, 3], &[0, 2, 3, 4], &mut name);
    assert!(left <= 3 && quiet <= 8, "a leave: {left} delays stopped, {quiet} in which nothing settled");
    println!("join {joined}, leave {left}, quiet {quiet}");
    assert!(all.seats[0].machine.room() > 0);
}

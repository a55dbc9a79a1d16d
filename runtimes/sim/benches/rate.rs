//! Prints events per second and seeds per second of the simulator on one core.
//!
//! `cargo bench -p synod-sim`

use std::time::Instant;

use synod_machine::host::{Host, HostConfig};
use synod_machine::{
    Bounded, Event, Log, Machine, Message, Queue, QueueSpec, Record, Recover, Span, Time, Turn, Unrecoverable,
};
use synod_quorum::{NodeId, NodeSet};
use synod_sim::{FAMILIES, Mode, Options, Scenario, Seat, Setup, Swarm, Violation, World};
use synod_wire::{Blob, wire};

wire! {
    /// A round's message, of the size of a vote.
    #[derive(Clone, Debug, PartialEq)]
    struct Beat {
        round: u64,
        payload: Blob<128>,
    }
}

impl Message for Beat {
    fn queue(&self) -> Queue {
        Queue::CONTROL
    }
}

impl Record for Beat {}

/// Broadcasts once per millisecond; keeps one beat in ten.
struct Heart {
    round: u64,
    heard: u64,
}

const PERIOD: Span = Span::millis(1);

impl Machine for Heart {
    type Input = u64;
    type Message = Beat;
    type Timer = u8;
    type Record = Beat;
    type Job = synod_machine::Never;
    type Output = u64;

    fn step(&mut self, event: Event<Self>, turn: &mut Turn<'_, Self>) {
        match event {
            Event::Start => turn.arm(0, PERIOD),
            Event::Timer(_) => {
                self.round += 1;
                let payload = Blob::try_from(synod_wire::Bytes::from_static(&[7; 100])).unwrap_or_default();
                let beat = Beat { round: self.round, payload };
                if self.round.is_multiple_of(10) {
                    turn.persist(beat.clone());
                }
                turn.send(NodeSet::first(4), beat);
                turn.arm(0, PERIOD);
            }
            Event::Message { message, .. } => {
                self.heard += message.round;
                if self.round.is_multiple_of(100) {
                    turn.compact();
                    turn.output(self.heard);
                }
            }
            _ => {}
        }
    }
}

impl Bounded for Heart {
    fn bytes(&self) -> u64 {
        16
    }
    fn bytes_max(&self) -> u64 {
        16
    }
}

impl Recover for Heart {
    type Config = ();
    fn queues((): &()) -> Vec<QueueSpec> {
        QueueSpec::standard()
    }
    fn recover((): (), log: Log<'_, Beat>) -> Result<Self, Unrecoverable> {
        Ok(Self { round: log.records.map(|beat| beat.round).max().unwrap_or(0), heard: 0 })
    }
    fn snapshot(&self, put: &mut dyn FnMut(Beat)) {
        put(Beat { round: self.round, payload: Blob::default() });
    }
}

fn run(scenario: &Scenario) -> Result<World, Violation> {
    let seats = (0..4).map(|id| Seat::new(NodeId(id), &[0])).collect();
    let options = Options { seed: scenario.seed, ..scenario.world_options("rate") };
    let seed = scenario.seed;
    let mut world = World::new(Setup {
        options,
        ..Setup::new(seats, move |own, machine, log, _| {
            let config = HostConfig { own, machine, seed, jobs_max: 64, checked: true };
            Ok(Box::new(Host::<Heart>::open(config, (), log)?))
        })
    });
    world.load(&scenario.incidents);
    world.run(Time(scenario.horizon.0), &mut ())?;
    world.finish()?;
    Ok(world)
}

fn measure(name: &str, scenarios: &[Scenario]) -> Result<(), Violation> {
    let start = Instant::now();
    let mut events = 0;
    for scenario in scenarios {
        events += run(scenario)?.stats().events;
    }
    let micros = start.elapsed().as_micros().max(1);
    let per_second = u128::from(events) * 1_000_000 / micros;
    let seeds = scenarios.len() as u128 * 1_000_000 / micros;
    println!("{name}: {events} events, {per_second} events/s, {seeds} seeds/s");
    Ok(())
}

fn main() -> Result<(), Violation> {
    let quiet = Scenario { horizon: Span::secs(60), ..Scenario::quiet("rate", 1) };
    measure("quiet", core::slice::from_ref(&quiet))?;
    let swarm = Swarm {
        system: "rate".to_owned(),
        nodes: 4,
        guests: 0,
        requests: 0,
        faulty_max: 1,
        horizon: Span::secs(2),
        mode: Mode::Connection,
        families: FAMILIES.to_vec(),
        incidents_max: 20,
    };
    let drawn: Vec<Scenario> = (0..200).map(|seed| swarm.scenario(seed)).collect();
    measure("swarm", &drawn)
}

//! The deterministic simulator: virtual time, network, disks, faults, audit.
//!
//! *What it gives.* A [`World`] hosts any machines behind `Box<dyn Hosted>`, with frames, records and blobs as bytes,
//! in one thread and virtual time. A run is a function of the code, the seed and the [`Setup`]; its [`Digest`] covers
//! every event and every effect. It names no protocol: protocol-aware crates add [`Checker`]s, [`Levers`] and
//! [`Strategy`]s.
//!
//! *Order is durability* comes from the machines' hosts; the world decides when syncs end, what a crash keeps, and
//! lets a crash fall at any boundary between two effects: a send to k nodes has k + 1 of them.
//!
//! *Draws* come from one stream per (seed, component, entity), so a fault, a node or a link that is taken away leaves
//! every other draw where it was. [`Swarm`] draws a [`Scenario`] from a seed, [`shrink`] makes a failing one small.
//!
//! *Phases.* Until [`World::heal`] anything within the scenario goes wrong. Afterwards the core is whole and nothing
//! new goes wrong; [`World::demand`] asks for progress within a bound.
//!
//! *Registers.* Memory nodes are seats like others, and operations on registers frames like others: see [`Memory`].
//!
//! *Ids.* Members are 0 to 127 and guests lie above; a scenario's node numbers are *places*, positions in the list of
//! seats. [`Names`] translates where linked clusters each count their members from 0.
//!
//! *Bounds.* 200,000 events per second and core with tracing off (`cargo bench -p synod-sim`).
//! Memory: the journals of all nodes, what the queues hold (each at most its depth), and the last 200 events.
//!
//! ```
//! use synod_machine::host::{Host, HostConfig};
//! use synod_machine::{Bounded, Event, Log, Machine, Never, QueueSpec, Recover, Span, Time, Turn, Unrecoverable};
//! use synod_quorum::NodeId;
//! use synod_sim::{Options, Seat, Setup, Told, World};
//!
//! struct Alarm;
//! impl Machine for Alarm {
//!     type Input = Span;
//!     type Message = Never;
//!     type Timer = u8;
//!     type Record = Never;
//!     type Job = Never;
//!     type Output = Time;
//!     fn step(&mut self, event: Event<Self>, turn: &mut Turn<'_, Self>) {
//!         match event {
//!             Event::Input(after) => turn.arm(0, after),
//!             Event::Timer(_) => {
//!                 let now = turn.now();
//!                 turn.output(now);
//!             }
//!             _ => {}
//!         }
//!     }
//! }
//! impl Bounded for Alarm {
//!     fn bytes(&self) -> u64 { 0 }
//!     fn bytes_max(&self) -> u64 { 0 }
//! }
//! impl Recover for Alarm {
//!     type Config = ();
//!     fn queues((): &()) -> Vec<QueueSpec> { QueueSpec::standard() }
//!     fn recover((): (), _: Log<'_, Never>) -> Result<Self, Unrecoverable> { Ok(Self) }
//!     fn snapshot(&self, _: &mut dyn FnMut(Never)) {}
//! }
//!
//! // Two nodes, each with machine number 0.
//! let seats = vec![Seat::new(NodeId(0), &[0]), Seat::new(NodeId(1), &[0])];
//! let seed = 7;
//! let mut world = World::new(Setup {
//!     options: Options { seed, ..Options::default() },
//!     ..Setup::new(seats, move |own, machine, log, _incarnation| {
//!         let config = HostConfig { own, machine, seed, jobs_max: 64, checked: true };
//!         Ok(Box::new(Host::<Alarm>::open(config, (), log)?))
//!     })
//! });
//! world.input(NodeId(1), 0, Span::millis(10), Box::new(Span::millis(5)));
//! let mut told: Vec<Told> = Vec::new(); // any `Harness` will do
//! world.run(Time(Span::secs(1).0), &mut told)?;
//! world.finish()?;
//! assert_eq!((told.len(), told[0].node), (1, NodeId(1)));
//! assert!(told[0].time >= Time(Span::millis(15).0));
//! # Ok::<(), synod_sim::Violation>(())
//! ```

mod audit;
mod block;
mod checker;
mod clock;
mod deed;
mod draw;
mod faulty;
mod happening;
mod harness;
mod journal;
mod network;
mod panics;
mod prices;
mod repeat;
mod scenario;
mod schedule;
mod shrink;
mod stats;
mod storage;
mod toy;
mod trace;
mod world;

pub use audit::{Audit, Digest};
pub use block::BlockJournal;
pub use checker::{Checker, Moment, Violation};
pub use deed::{Capture, Deed, Seen};
pub use draw::{Draws, PPM, Stream};
pub use faulty::{
    Act, Again, BOARD_MAX, Board, Burst, Delay, Flood, Kept, Lever, LeverKind, Levers, Mutate, Mutator,
    Opened, Pull, Replay, Silent, Strategy, WorstCrash, generic,
};
pub use harness::{Desk, Harness, Refused, Told};
pub use journal::RecordJournal;
pub use network::{Latency, Mode, SHAPES, Shape, WeatherKind};
pub use prices::Prices;
pub use repeat::twice;
pub use scenario::{FAMILIES, Family, Incident, Scenario, Swarm, Unreadable};
pub use shrink::{Limits, Shrunk, Subject, shrink};
pub use stats::{Effective, NetStats, Stats};
pub use storage::{Harm, Loss, Lost, Storage, WriteFailed, Written};
pub use toy::{Crypto, Keyring};
pub use trace::{
    Aside, AsideKind, Effect, EffectKind, LAST, Line, Mark, Past, Plain, Row, STEPS_MAX, Said, Step,
    StepKind, Story, Trace, Words, columns, page,
};
pub use world::{
    Connector, Disks, Factory, Kinds, Links, Memory, Names, Options, Passage, Redraw, Route, Routed, Script,
    Seat, Setup, Status, Strategies, Twins, World,
};

//! The machine contract: events, turns, effects, nesting, recovery and the durability gate.
//!
//! A *machine* is one role of one protocol at one node. It is a value: no socket, clock, thread or file. The
//! runtime hands it one [`Event`] at a time together with a [`Turn`]; during the turn it says what should happen;
//! when `step` returns nothing is half done. It cannot fail: a bad peer is blamed, a bad local request is refused
//! by an output, a bug panics.
//!
//! *Order is durability.* A send or output issued after a `persist` or `store` leaves the node only once that
//! record is durable. [`host::Host`] implements this once for all runtimes; no handler passes tokens, so none can
//! forget one.
//!
//! *Bounds.* A step costs at most 40 ns of contract overhead for a three-layer stack
//! (`cargo bench -p synod-machine --bench sink`); at most 4,096 effects or 16 MiB wait for durability, then the
//! machine pauses.
//!
//! ```
//! use synod_machine::{Effect, Event, Machine, Never, Rng, Span, Time, Turn, Wall, testing};
//! struct Echo;
//! impl Machine for Echo {
//!     type Input = u64;
//!     type Message = Never;
//!     type Timer = u64;
//!     type Record = Never;
//!     type Job = Never;
//!     type Output = u64;
//!     fn step(&mut self, event: Event<Self>, turn: &mut Turn<'_, Self>) {
//!         match event {
//!             Event::Input(n) => turn.arm(n, Span::millis(5)),
//!             Event::Timer(n) => turn.output(n),
//!             _ => {}
//!         }
//!     }
//! }
//! let effects = testing::effects(&mut Echo, Event::Timer(7), Time::ZERO);
//! assert!(matches!(effects[..], [Effect::Output(7)]));
//! ```

mod begun;
pub mod broadcast;
mod effect;
mod event;
mod fault;
pub mod host;
mod items;
mod job;
mod machine;
mod nested;
mod never;
mod proof;
mod queue;
mod recover;
pub mod register;
mod rng;
pub mod testing;
mod time;
mod turn;
pub mod vocabulary;

pub use effect::{Effect, Sink, To};
pub use event::{DoneOf, Event, Link};
pub use fault::{Fault, Note, Rule, evidence};
pub use job::{Cost, Job};
pub use machine::{Bounded, Machine};
pub use nested::{Drain, Family, Lift, Nested};
pub use never::Never;
pub use queue::{Full, Message, Queue, QueueSpec};
pub use recover::{Condition, Keep, Log, Record, Recover, Unrecoverable};
pub use rng::Rng;
/// Planted bugs; they are defined in the lowest crate that has one.
pub use synod_crypto::planted;
pub use time::{Span, Time, Wall};
pub use turn::Turn;

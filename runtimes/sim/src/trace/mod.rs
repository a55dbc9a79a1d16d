//! What happened, as data and for people.
//!
//! *Data.* [`Trace`] keeps the last [`LAST`] calls of machines always, and on request every call as a [`Step`]: time,
//! node, incarnation, what caused it, what happened, what the machine did, how far its journal is durable. [`Words`]
//! names frames, records, outputs and timers in the words of the system; without it they have sizes only.
//!
//! *Past.* [`Past`] is what an observation rests on: a call rests on the call that caused it and on what its machine
//! had seen before. A [`Row`] is one thing that reached a node from outside, with all that followed inside the node.
//!
//! *Views.* [`Step::json`] is one object per call, [`columns`] one line per row and one column per node, [`page`] a
//! space-time diagram in one HTML file.
//!
//! *Bounds.* At most [`STEPS_MAX`] steps are kept, the oldest go.

mod columns;
mod line;
mod page;
mod past;
mod ring;
mod step;
mod words;

pub use columns::columns;
pub use line::Line;
pub use page::{Story, page};
pub use past::{Past, Row};
pub use ring::{LAST, STEPS_MAX, Trace};
pub use step::{Aside, AsideKind, Effect, EffectKind, Step, StepKind};
pub use words::{Mark, Plain, Said, Words};

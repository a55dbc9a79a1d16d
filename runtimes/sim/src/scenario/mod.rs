//! Scenarios: everything a run is made of besides code, as a value that can be drawn, written, read and shrunk.

mod family;
mod swarm;
mod text;
mod value;

pub use family::{FAMILIES, Family};
pub use swarm::Swarm;
pub use text::Unreadable;
pub use value::{Incident, Scenario};

pub(crate) use family::Incidents;

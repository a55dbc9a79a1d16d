//! Servers as processes under a load broker: `--part e2e`, `linerate`, `partial`, `apps` and `faults`.
//!
//! Four servers order by HotStuff; a broker of generated batches runs in this process and speaks with them over TLS on loopback,
//! as a broker of their genesis. Messages are generated and results say so. No figure is printed unless each message was
//! delivered once on every server: by what f + 1 servers signed, by what each server counted, by the money of a sample of
//! accounts, and by equal roots of states.

mod alone;
mod apps;
mod asleep;
mod audit;
mod e2e;
mod faults;
mod linerate;
mod memory;
mod partial;
mod plan;
mod report;
mod rig;
mod run;
mod threads;
mod told;
mod wire;

pub(crate) use plan::{App, LoadPart, LoadPlan};
pub(crate) use run::run;

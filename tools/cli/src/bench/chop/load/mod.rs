//! Servers as processes under a load broker: `--part e2e`, `linerate`, `partial`, `apps` and `faults`.
//!
//! Four servers order by HotStuff; a broker of generated batches runs in this process and speaks with them over TLS on loopback,
//! as a broker of their genesis. Messages are generated and results say so. No figure is printed unless each message was
//! delivered once on every server: by what f + 1 servers signed, by what each server counted, by the money of a sample of
//! accounts, and by equal roots of states.

mod apps;
mod ask;
mod audit;
mod e2e;
mod faults;
mod linerate;
mod memory;
mod partial;
mod plan;
mod report;
mod rig;
mod threads;
mod wire;

pub(crate) use plan::{App, LoadPart, LoadPlan};

use crate::exit::Done;
use crate::session::Session;
use synod_config::Exit;

/// Runs `plan` and prints its result; without figures and with exit code 8 if the audit fails.
///
/// # Errors
/// What could not be started; SYN-6009 if the audit fails.
pub(crate) fn run(session: &Session, plan: &LoadPlan) -> Done {
    let report = match plan.part {
        LoadPart::E2e => e2e::measure(session, plan)?,
        LoadPart::Linerate => linerate::measure(session, plan)?,
        LoadPart::Partial => partial::measure(session, plan)?,
        LoadPart::Apps => apps::measure(session, plan)?,
        LoadPart::Faults => faults::measure(session, plan)?,
    };
    if let Some(file) = &plan.out {
        std::fs::write(file, report.to_json()).map_err(|e| crate::cluster::unwritable(file, &e))?;
    }
    session.output.print(&report)?;
    Ok(Exit::Success)
}

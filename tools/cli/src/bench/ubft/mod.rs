//! `bench ubft`: how long one client waits for a result, of three replicas at one poller and of one server alone in the same placement.
//!
//! *Placement `cooperative`.* The replicas, or the one server, stand at one poller on a core, the client at another; registers are in this
//! process, in memory that is mapped as between processes. There is no isolation and there are no sockets: what is left is the protocol.
//!
//! *Audit.* Every result is compared with what the application answers; a run with one wrong or unknown result shows no figures.

mod alone;
mod caller;
mod report;
mod rig;

use crate::exit::{Done, bug};
use crate::session::Session;
use std::path::PathBuf;
use synod_config::{Exit, SynError, code};

/// What is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum App {
    /// Reverses its input: the paper's toy.
    Flip,
    /// SET of a value of the size.
    Kv,
}

impl App {
    const fn word(self) -> &'static str {
        match self {
            Self::Flip => "flip",
            Self::Kv => "kv",
        }
    }
}

/// Who answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum System {
    /// Three replicas of uBFT.
    Synod,
    /// One server.
    Unreplicated,
}

impl System {
    const fn word(self) -> &'static str {
        match self {
            Self::Synod => "synod",
            Self::Unreplicated => "unreplicated",
        }
    }
}

/// What is measured.
#[derive(Clone, Debug)]
pub(crate) struct UbftBench {
    /// The applications, one after the other.
    pub(crate) apps: Vec<App>,
    /// The systems, one after the other; a ratio needs both.
    pub(crate) systems: Vec<System>,
    /// Bytes of a request.
    pub(crate) size: u32,
    /// Requests whose times are taken.
    pub(crate) samples: u32,
    /// Requests before them.
    pub(crate) warmup: u32,
    /// Messages of a replica that the others remember.
    pub(crate) tail: u32,
    /// Slots that are worked on.
    pub(crate) window: u32,
    /// Without the fast path every slot is signed.
    pub(crate) fast_path: bool,
    /// Where the result is written as well.
    pub(crate) out: Option<PathBuf>,
}

/// One row of the result.
struct Row {
    system: System,
    app: App,
    taken: caller::Taken,
    /// Slots that a replica decided by signatures.
    signed_slots: u64,
}

/// Measures and prints.
///
/// # Errors
/// SYN-6009 for a wrong or unknown result; the codes of the system's refusals.
pub(crate) fn run(session: &Session, plan: &UbftBench) -> Done {
    let mut rows = Vec::new();
    for app in &plan.apps {
        for system in &plan.systems {
            session.tell(&format!("{} of {}", app.word(), system.word()));
            let (taken, signed_slots) = rig::measure(plan, *system, *app)?;
            if taken.wrong > 0 || taken.unknown > 0 {
                let why = format!("{} results were wrong and {} unknown", taken.wrong, taken.unknown);
                return Err(SynError::with_message(code::AUDIT_FAILED, &why));
            }
            rows.push(Row { system: *system, app: *app, taken, signed_slots });
        }
    }
    let report = report::report(plan, &rows);
    if let Some(file) = &plan.out {
        std::fs::write(file, report.to_json()).map_err(|error| crate::cluster::unwritable(file, &error))?;
    }
    session.output.print(&report)?;
    Ok(Exit::Success)
}

/// What the shared-memory runtime says.
fn refused(error: &synod_shm::Error) -> SynError {
    bug("shared memory", error)
}

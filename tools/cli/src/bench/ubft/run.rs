//! A run: each system with each application, one after the other.

use super::plan::{App, Placement, System, UbftBench};
use super::rig::Measured;
use super::{isolated, report, rig};
use crate::exit::{Done, bug};
use crate::session::Session;
use synod_config::{Exit, SynError, code};

/// One row of the result.
pub(super) struct Row {
    pub(super) system: System,
    pub(super) app: App,
    pub(super) measured: Measured,
}

/// Measures and prints.
///
/// # Errors
/// SYN-6009 for a wrong or unknown result; the codes of the system's refusals.
pub(crate) fn run(session: &Session, plan: &UbftBench) -> Done {
    if let Some(part) = &plan.part {
        return isolated::part(plan, part);
    }
    let mut rows = Vec::new();
    for app in &plan.apps {
        for system in &plan.systems {
            session.tell(&format!("{} of {}", app.word(), system.word()));
            let measured = match plan.placement {
                Placement::Cooperative => rig::measure(plan, *system, *app)?,
                Placement::Isolated => isolated::measure(plan, *system, *app)?,
            };
            let taken = &measured.taken;
            if taken.wrong > 0 || taken.unknown > 0 {
                let why = format!("{} results were wrong and {} unknown", taken.wrong, taken.unknown);
                return Err(SynError::with_message(code::AUDIT_FAILED, &why));
            }
            rows.push(Row { system: *system, app: *app, measured });
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
pub(super) fn refused(error: &synod_shm::Error) -> SynError {
    bug("shared memory", error)
}

//! From a plan to a printed result.

use super::plan::{LoadPart, LoadPlan};
use super::{apps, e2e, faults, linerate, partial};
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

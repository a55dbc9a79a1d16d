//! A run: each system with each application, one after the other; and the runs that the gates need.

use super::cooperative::{self, Breakdown};
use super::gates;
use super::plan::{App, Placement, System, UbftBench};
use super::report::Report as Shown;
use super::rig::Measured;
use super::{baseline, isolated, report};
use crate::exit::{Done, bug};
use crate::session::Session;
use synod_config::{Exit, SynError, code};

use super::caller::Taken;

/// One row of the result.
pub(super) struct Row {
    pub(super) plan: UbftBench,
    pub(super) system: System,
    pub(super) app: App,
    pub(super) measured: Measured,
}

/// Measures and prints.
///
/// # Errors
/// SYN-6009 for a wrong or unknown result; SYN-7002 for a gate that the suite missed; the codes of the system's refusals.
pub(crate) fn run(session: &Session, plan: &UbftBench) -> Done {
    if let Some(part) = &plan.part {
        return isolated::part(plan, part);
    }
    let plans = if plan.is_suite { gates::suite(plan) } else { vec![plan.clone()] };
    let (mut rows, mut beside) = (Vec::new(), Vec::new());
    for plan in &plans {
        measure(session, plan, &mut rows)?;
        if let Some(baseline) = &plan.baseline {
            beside.extend(baseline::rows(session, plan, baseline)?);
        }
    }
    let breakdown = plans.first().map_or(Ok(None), |plan| broken_down(session, plan))?;
    let Shown { report, gates } = report::report(&rows, &beside, breakdown.as_ref());
    if let Some(file) = &plan.out {
        std::fs::write(file, report.to_json()).map_err(|error| crate::cluster::unwritable(file, &error))?;
    }
    session.output.print(&report)?;
    let missed: Vec<&str> = gates.iter().filter(|gate| gate.is_missed()).map(|gate| gate.id).collect();
    if plan.is_suite && !missed.is_empty() {
        let problem = format!("{} gates are missed", missed.len());
        let values = [("check", "bench ubft --suite gate"), ("problem", problem.as_str())];
        return Err(SynError::of(code::EXPECTATION_FAILED, &values).because(missed.join(", ")));
    }
    Ok(Exit::Success)
}

/// Every system with every application of a plan.
fn measure(session: &Session, plan: &UbftBench, rows: &mut Vec<Row>) -> Result<(), SynError> {
    for app in &plan.apps {
        for system in &plan.systems {
            session.tell(&format!("{} of {}, {}", app.word(), system.word(), plan.placement.word()));
            let measured = match plan.placement {
                Placement::Cooperative => cooperative::measure(plan, *system, *app)?,
                Placement::Isolated => isolated::measure(plan, *system, *app)?,
            };
            audit(&measured.taken)?;
            rows.push(Row { plan: plan.clone(), system: *system, app: *app, measured });
        }
    }
    Ok(())
}

/// The phases of a request, where they can be told: one request in flight, at one poller, on the fast path.
fn broken_down(session: &Session, plan: &UbftBench) -> Result<Option<Breakdown>, SynError> {
    let is_fit = plan.placement == Placement::Cooperative && plan.fast_path && plan.is_alone();
    let app = plan.apps.first().filter(|_| is_fit && plan.systems.contains(&System::Synod));
    let Some(app) = app else { return Ok(None) };
    session.tell(&format!("phases of {}", app.word()));
    let (breakdown, taken) = cooperative::breakdown(plan, *app)?;
    audit(&taken)?;
    Ok(Some(breakdown))
}

/// No figure comes from a run with a wrong or unknown result.
fn audit(taken: &Taken) -> Result<(), SynError> {
    if taken.wrong == 0 && taken.unknown == 0 {
        return Ok(());
    }
    let why = format!("{} results were wrong and {} unknown", taken.wrong, taken.unknown);
    Err(SynError::with_message(code::AUDIT_FAILED, &why))
}

/// What the shared-memory runtime says.
pub(super) fn refused(error: &synod_shm::Error) -> SynError {
    bug("shared memory", error)
}

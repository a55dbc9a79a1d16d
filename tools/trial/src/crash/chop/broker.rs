//! Crashes of brokers. They promise nothing, sign nothing and keep nothing, so there is nothing to tempt: at a boundary the broker
//! falls, the world goes on, and every oracle watches. What clients asked for must be delivered once, whoever orders it: the other
//! broker, or this one, which finds at the stores what its earlier life left there.

use std::panic::{AssertUnwindSafe, catch_unwind};

use synod_machine::{Span, Time};
use synod_quorum::NodeId;
use synod_sim::{Loss, Violation};

use super::super::enumerate::{Manner, point};
use super::super::report::{FAILURES_MAX, Failure, SystemReport};
use super::talk::Talk;
use crate::systems::chopchop::run::settle;
use crate::systems::chopchop::world::{Trial, build};

/// Boundaries of each broker that are taken at most, spread over its conversation.
const POINTS: u64 = 200;
/// Between two looks at how far the broker is.
const LOOK: Span = Span::millis(20);
/// How long it is down.
const DOWN: Span = Span::millis(150);

/// Boundaries that the broker has reached at each look.
fn reached(talk: &Talk, own: NodeId) -> Result<Vec<u64>, String> {
    let mut trial = build(&talk.scenario, "", false)?;
    let mut reached = vec![0];
    for look in 1..=talk.scenario.horizon.0 / LOOK.0 {
        trial.world.run(Time(look * LOOK.0), &mut trial.workload).map_err(|violation| violation.what)?;
        reached.push(trial.world.boundaries(own));
    }
    Ok(reached)
}

/// All crashes of one broker.
pub(super) fn node(talk: &Talk, id: u32, manner: Manner) -> Result<SystemReport, String> {
    let mut report = SystemReport { system: talk.scenario.system.clone(), ..SystemReport::default() };
    let own = NodeId(id);
    let reached = reached(talk, own)?;
    let all = reached.last().copied().unwrap_or(0);
    let step = all.div_ceil(POINTS).max(1) * u64::from(manner.stride);
    for boundary in (0..all).step_by(usize::try_from(step).unwrap_or(usize::MAX)) {
        let place = u32::try_from(boundary).unwrap_or(u32::MAX);
        if manner.only.is_some_and(|(wanted, _)| wanted != place) {
            continue;
        }
        report.points += 1;
        report.outcomes += 1;
        let (checker, what) = match catch_unwind(AssertUnwindSafe(|| fall(talk, own, boundary, &reached))) {
            Ok(Ok(())) => continue,
            Ok(Err(violation)) => {
                report.gate_violations += 1;
                (violation.checker, violation.what)
            }
            Err(_) => {
                report.panics += 1;
                ("X1".to_owned(), "somebody panicked after the crash".to_owned())
            }
        };
        if report.failures.len() < FAILURES_MAX {
            let token = point(&talk.scenario.system, (id, place, 0), false).to_string();
            report.failures.push(Failure { token, checker, what });
        }
    }
    Ok(report)
}

/// The conversation, in which the broker falls at a boundary and comes back.
fn fall(talk: &Talk, own: NodeId, boundary: u64, reached: &[u64]) -> Result<(), Violation> {
    let scenario = &talk.scenario;
    let mut trial: Trial = build(scenario, "", false).map_err(|why| Violation::new("scenario", why))?;
    let look = reached.partition_point(|before| *before <= boundary).saturating_sub(1);
    let before = reached.get(look).copied().unwrap_or(0);
    trial.world.run(Time(look as u64 * LOOK.0), &mut trial.workload)?;
    trial.world.crash_at(own, boundary - before, Loss::Nothing, Some(DOWN));
    trial.world.run(Time(scenario.horizon.0), &mut trial.workload)?;
    settle(&mut trial, scenario)?;
    trial.world.finish()
}

//! All crashes of one member, and of all members of a system.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use synod_quorum::NodeId;

use super::super::enumerate::{Manner, point};
use super::super::point::Point;
use super::super::report::{FAILURES_MAX, Failure, SystemReport};
use super::fall::{MEMBERS, fall, reached, scenario};

/// Outcomes of one boundary at most: as many writes as one sync covers, and more.
const OUTCOMES_MAX: u32 = 64;

/// All members of a system, spread over `jobs` threads.
pub(in super::super) fn one(system: &str, manner: Manner, jobs: usize) -> Result<SystemReport, String> {
    let all = SystemReport { system: system.to_owned(), ..SystemReport::default() };
    let (next, sums) = (AtomicU32::new(0), Mutex::new(Ok(all)));
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                loop {
                    let id = next.fetch_add(1, Ordering::Relaxed);
                    if id >= MEMBERS {
                        return;
                    }
                    let part = node(system, id, manner);
                    if let Ok(mut sums) = sums.lock() {
                        match (&mut *sums, part) {
                            (Ok(sums), Ok(part)) => sums.add(part),
                            (Ok(_), Err(why)) => *sums = Err(why),
                            (Err(_), _) => {}
                        }
                    }
                }
            });
        }
    });
    sums.into_inner().map_err(|_| "a thread panicked".to_owned())?
}

/// Repeats one crash.
pub(in super::super) fn again(wanted: &Point, manner: Manner) -> Result<SystemReport, String> {
    if wanted.member >= MEMBERS {
        return Err(format!("there is no member {}", wanted.member));
    }
    node(&wanted.system, wanted.member, manner)
}

/// All crashes of one member.
pub(super) fn node(system: &str, id: u32, manner: Manner) -> Result<SystemReport, String> {
    let (scenario, own) = (scenario(system, id, manner.blocks), NodeId(id));
    let reached = reached(&scenario, own)?;
    let all = reached.last().copied().unwrap_or(0);
    let mut report = SystemReport { system: system.to_owned(), ..SystemReport::default() };
    // Members take turns where not all boundaries are taken.
    for boundary in (u64::from(id % manner.stride)..all).step_by(manner.stride as usize) {
        let place = u32::try_from(boundary).unwrap_or(u32::MAX);
        if manner.only.is_some_and(|(wanted, _)| wanted != place) {
            continue;
        }
        report.points += 1;
        for outcome in 0..OUTCOMES_MAX {
            if manner.only.is_some_and(|(_, wanted)| wanted != outcome) {
                continue;
            }
            let at = (boundary, outcome);
            let fallen = catch_unwind(AssertUnwindSafe(|| fall(&scenario, own, at, &reached, manner.edit)));
            let (broken, lost) = match fallen {
                Ok(Ok(None)) => break,
                Ok(Ok(Some(fallen))) => {
                    report.statements += fallen.certified + fallen.tempted;
                    let broken = fallen.broken.map(|violation| (violation.checker, violation.what));
                    (broken, fallen.lost)
                }
                Ok(Err(why)) => return Err(why),
                Err(_) => {
                    report.panics += 1;
                    (Some(("X1".to_owned(), "somebody panicked after the crash".to_owned())), true)
                }
            };
            report.outcomes += 1;
            if let Some((checker, what)) = broken {
                match &*checker {
                    "X1" => {}
                    "X4" => report.conflicts += 1,
                    _ => report.gate_violations += 1,
                }
                if report.failures.len() < FAILURES_MAX {
                    let token = point(system, (id, place, outcome), manner.blocks).to_string();
                    report.failures.push(Failure { token, checker, what });
                }
            }
            if !lost && !manner.blocks {
                break;
            }
        }
    }
    Ok(report)
}

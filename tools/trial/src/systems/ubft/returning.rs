//! Behind healing: the fast path comes back (U-L2), and whoever found somebody misbehaving goes on (U-L3).

use synod_machine::Span;
use synod_quorum::NodeId;
use synod_sim::{Draws, Scenario, Violation};

use super::plan::REPLICA;
use super::world::Trial;
use crate::oracle::ubft::Returning;
use crate::params::number;

/// Between two operations of a client.
const GAP: Span = Span::millis(20);
/// In so many runs of a million that may be fast again that is waited for.
const OFTEN: u32 = 500_000;

/// The replicas of a core.
fn replicas(trial: &Trial, core: &[NodeId]) -> Vec<u32> {
    core.iter().filter(|id| trial.roles.is_replica(**id)).map(|id| id.0).collect()
}

/// U-L3 or U-L1, of replicas of a core that are behind when time is up.
pub(super) fn late(trial: &Trial, core: &[NodeId], what: String) -> Violation {
    let book = trial.book.borrow();
    let executed = |id: &u32| book.executed.get(id).copied().unwrap_or(0);
    let behind: Vec<u32> =
        replicas(trial, core).into_iter().filter(|id| executed(id) < book.highest).collect();
    match book.detectors.judge(&behind) {
        Ok(()) => Violation::new("U-L1", what),
        Err(breach) => Violation::new(breach.checker, breach.what),
    }
}

/// Counts replicas of a core that found somebody misbehaving, and went on.
pub(super) fn found(trial: &Trial, core: &[NodeId]) {
    let found = trial.book.borrow().detectors.among(&replicas(trial, core)).len() as u64;
    trial.book.borrow_mut().add("detectors_went_on", found);
}

/// Whether a core can be fast: everybody is there, and T_fast is longer than the rounds of a slot.
fn may_be_fast(trial: &Trial, scenario: &Scenario, core: &[NodeId]) -> bool {
    let round = scenario.latency.largest().0 + 8 * scenario.jitter.0;
    let fast = Span::micros(number(scenario, "fast_us", 2_000)).0;
    let is_whole = replicas(trial, core).len() == trial.roles.replicas as usize;
    is_whole && number(scenario, "slow_only", 0) == 0 && fast >= 6 * round
}

/// U-L2: with everybody there slots are decided on the fast path again, once so many were decided at all.
pub(super) fn returns(
    trial: &mut Trial,
    scenario: &Scenario,
    (core, clients): (&[NodeId], &[NodeId]),
    bound: Span,
) -> Result<(), Violation> {
    let Some(client) = clients.first().copied() else { return Ok(()) };
    let mut stream = Draws::new(scenario.seed).stream("returns", 0);
    if !may_be_fast(trial, scenario, core) || !stream.chance(OFTEN) {
        return Ok(());
    }
    let (first, mut decided) = {
        let book = trial.book.borrow();
        (book.slot + 1, book.decided)
    };
    let mut back = Returning::new(number(scenario, "window", 32), first);
    let deadline = trial.world.now() + Span(2 * bound.0);
    while !back.is_over(trial.book.borrow().slot) {
        let now = trial.world.now();
        if now >= deadline {
            let slot = trial.book.borrow().slot;
            return Err(Violation::new("U-L1", format!("slots {first} to {slot} are all that is decided")));
        }
        let input = trial.workload.more(client, now);
        trial.world.input(client, REPLICA, Span::ZERO, Box::new(input));
        trial.world.run(now + GAP, &mut trial.workload)?;
        let book = trial.book.borrow();
        back.decide(book.slot, (book.decided.0 - decided.0, book.decided.1 - decided.1));
        decided = book.decided;
    }
    back.judge().map_err(|breach| Violation::new(breach.checker, breach.what))?;
    trial.book.borrow_mut().add("returned_fast", 1);
    Ok(())
}

//! Playing a script: its rounds, then ten more decisions.

use synod_machine::Span;
use synod_quorum::NodeId;
use synod_sim::{Scenario, Violation};

use super::masks;
use crate::book::GUESTS;
use crate::run::{ask, commit_bound};
use crate::systems::hotstuff::Trial;

/// Decisions that are due once the network is whole.
const DECISIONS: u64 = 10;
/// Between two looks.
const LOOK: Span = Span::millis(5);

/// Plays the script of a scenario, heals the network and demands decisions. Whether the last round was reached goes to
/// the book.
pub(crate) fn play(trial: &mut Trial, scenario: &Scenario) -> Result<(), Violation> {
    let end = masks(scenario).map_or(0, |masks| masks.end());
    let deadline = trial.world.now() + scenario.horizon;
    let is_over = |trial: &Trial| trial.book.borrow().view > end;
    while !is_over(trial) && trial.world.now() < deadline {
        // Views pass only while somebody waits for something.
        if trial.book.borrow().open() == 0 {
            ask(trial, scenario);
        }
        let until = trial.world.now() + LOOK;
        trial.world.run(until, &mut trial.workload)?;
    }
    let complete = is_over(trial);
    trial.book.borrow_mut().complete = complete;
    let members = (0..scenario.nodes).map(NodeId).filter(|id| trial.world.honest(*id));
    let core: Vec<NodeId> = members.chain([NodeId(GUESTS)]).collect();
    trial.world.heal(&core);
    ask(trial, scenario);
    let before = trial.book.borrow().highest.0;
    let bound = Span(3 * commit_bound(scenario).0 + Span::secs(60).0);
    let deadline = trial.world.now() + bound;
    let decided = |trial: &Trial| trial.book.borrow().highest.0 >= before + DECISIONS;
    let mut highest = before;
    while !decided(trial) && trial.world.now() < deadline {
        // Commands that are asked for together share a frame, and a decision: the next is asked for behind one.
        let seen = trial.book.borrow().highest.0;
        if seen > highest || trial.book.borrow().open() == 0 {
            highest = seen;
            ask(trial, scenario);
        }
        let until = trial.world.now() + LOOK;
        trial.world.run(until, &mut trial.workload)?;
    }
    if decided(trial) {
        return Ok(());
    }
    let made = trial.book.borrow().highest.0 - before;
    let what = format!("{made} of {DECISIONS} decisions within {} ms after healing", bound.0 / 1_000_000);
    Err(Violation::new("H-L1", what))
}

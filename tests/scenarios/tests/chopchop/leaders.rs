//! T39: whoever orders crashes or contradicts itself under load.

use synod_machine::Span;
use synod_scenarios::suffering;
use synod_sim::{Family, Scenario};
use synod_trial::systems::chopchop::SYSTEMS;

use crate::{calm, settles, stage};

/// Longest time without a height under load.
const RECOVERY: Span = Span::secs(5);

/// Somebody broadcasts every few milliseconds for three seconds.
fn busy(system: &str) -> Scenario {
    let mut scenario = calm(system, 4, 6);
    scenario.requests = 400;
    scenario
}

/// The longest time without a height while there is load; behind it everything is delivered, and no height was left out, as the
/// oracles say.
fn longest_pause(scenario: &Scenario) -> Span {
    let mut stage = stage(scenario, |_, _, _| true);
    stage.run(Span::millis(900));
    let pause = stage.run(Span::secs(2));
    stage.run(Span::secs(2));
    settles(stage);
    pause
}

#[test]
fn t39_deliveries_go_on_within_five_seconds_when_whoever_orders_crashes() {
    for system in SYSTEMS {
        let scenario = busy(system);
        let usual = longest_pause(&scenario);
        // One of the servers leads at that time; under the ideal order it is the last node.
        let victims = if system == SYSTEMS[0] { vec![4 + scenario.guests] } else { vec![0, 1, 2, 3] };
        let mut longest = usual;
        for victim in victims {
            let span = (Span::secs(1), Span::millis(1_500));
            let pause = longest_pause(&suffering(scenario.clone(), Family::NodeCrash, &[victim], span, 1));
            assert!(pause < RECOVERY, "{system}, {victim}: {} ms", pause.as_millis());
            longest = longest.max(pause);
        }
        assert!(longest > usual, "{system}: nobody who orders was hit");
    }
}

#[test]
fn t39_a_leader_that_equivocates_leaves_no_height_out_and_stops_nobody() {
    for liar in 0..4 {
        let scenario = busy(SYSTEMS[1]);
        let forever = (Span::ZERO, Span::ZERO);
        let pause = longest_pause(&suffering(scenario, Family::ByzEquivocate, &[liar], forever, 3));
        assert!(pause < RECOVERY, "{liar}: {} ms", pause.as_millis());
    }
}

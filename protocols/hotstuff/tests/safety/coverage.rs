//! Every rule of the specification is applied somewhere in this suite.

use std::collections::BTreeSet;

use synod_hotstuff::{Pack, Rule};

use crate::world::applied;
use crate::{attest, behind, deviations, golden, promises, proofs, rejoin, signers};

/// Section 7.6: the runs below, all of them tests of this suite, together reach every rule there is.
#[test]
fn every_rule_is_reached() {
    assert!(applied().is_empty(), "this thread has run nothing yet");
    for pack in [Pack::Basic, Pack::Chain3, Pack::Chain2, Pack::Chain2Order] {
        golden::one_command(pack, 2);
    }
    golden::view_change();
    golden::restart();
    promises::what_is_given_up_never_falls();
    proofs::a_commit_by_a_forged_order_is_proved_and_taught_to_a_member_that_missed_it();
    signers::one_member_that_attests_many_times_makes_no_checkpoint_stable();
    attest::lost_attestations_are_said_again_until_everybody_has_the_certificate();
    rejoin::an_amnesiac_neither_votes_nor_orders_in_a_view_it_may_have_given_up();
    deviations::all();
    behind::a_complaint_about_what_is_over_is_answered_with_the_certificate();
    behind::a_barrier_waits_for_what_the_certificate_held_may_have_committed();
    behind::who_is_behind_everything_starts_at_a_certified_state();
    let reached = applied();
    let known: BTreeSet<&str> = Rule::ALL.iter().map(|rule| rule.name()).collect();
    let missing: Vec<_> = known.difference(&reached).collect();
    assert!(missing.is_empty(), "no run reaches {missing:?}");
    assert!(reached.is_subset(&known), "every applied rule has a name of its own");
}

//! TL1, first row: three-chain commits with votes to the next leader alone and one-view leaders never commit when one of
//! four members is dead: the votes of every third view, and then the complaints about it, go to the dead one. The control
//! of deviation D19.

use synod_scenarios::{outcome, passes, quiet, with};
use synod_trial::report::Outcome;

#[test]
fn the_rules_as_printed_commit_when_all_are_alive() {
    let report = passes(&quiet("hotstuff/paper", 4));
    assert!(report.delivered > 0);
}

#[test]
fn the_rules_as_printed_never_commit_with_one_of_four_dead() {
    let report = outcome(&with(quiet("hotstuff/paper", 4), &[("dead", 0b1000)]));
    assert_eq!((report.verdict, report.checker.as_str()), (Outcome::Stall, "H-L1"), "{}", report.what);
    assert_eq!(report.delivered, 0);
    assert!(report.views > 1 && report.blocks > 0, "something was proposed");
}

//! Crashes of anybody at any step, while members come and go.

use crate::crew::{Town, join, leave};

#[test]
fn whoever_crashes_at_whichever_step_comes_back_and_nothing_is_lost_or_settles_twice() {
    let mut rules = std::collections::BTreeSet::new();
    for seed in 0..16 {
        let mut town = Town::new(5, seed);
        town.loss = town.drawn.below(60);
        town.trade(10);
        town.change(4, join(4));
        for _ in 0..6 {
            town.crash();
            town.order();
        }
        // Whoever crashed before the change was confirmed asks again.
        town.change(4, join(4));
        assert!(town.until_runs(&[join(4)], &[0, 1, 2, 3, 4]), "seed {seed}");
        town.trade(8);
        town.open.retain(|open| *open != 1);
        town.change(1, leave(1));
        for _ in 0..6 {
            town.crash();
            town.order();
        }
        town.change(1, leave(1));
        let all = [0, 2, 3, 4];
        assert!(town.until_runs(&[join(4), leave(1)], &all), "seed {seed}");
        assert!(town.until_settled(&all), "seed {seed}");
        town.assert_equal(&all);
        rules.extend(town.correct().flat_map(|(_, seat)| seat.rules.iter().copied()));
    }
    for rule in ["A.stop", "A.merge", "A.resume", "caught_up", "carry"] {
        assert!(rules.contains(rule), "{rule} was never applied");
    }
}

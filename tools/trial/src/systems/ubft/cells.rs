//! Which lies can be told with which kinds of message: what of them runs must have reached.

use super::names;

/// What replicas say in almost every run.
const EVERY: &[&str] = &["lock", "locked", "will_certify", "will_commit", "certify", "reply", "echo"];

/// The kinds that each strategy can lie with. B6 changes bytes, and what still decodes are messages of fixed form.
pub(crate) const TABLE: [(&str, &[&str]); 9] = [
    ("byz.B1", EVERY),
    ("byz.B2", EVERY),
    ("byz.B3", EVERY),
    ("byz.B6", &["lock", "locked", "will_certify", "certify", "reply"]),
    ("byz.B10", EVERY),
    ("byz.B4", &["lock", "signed"]),
    ("byz.B7", &["locked", "will_commit", "certify", "certify_summary", "reply", "echo"]),
    ("byz.B9", &["lock", "checkpoint"]),
    ("byz.B15", &["lock"]),
];

/// What is said in almost every run of broadcasts alone.
const BROADCAST: &[&str] = &["lock", "signed", "locked", "nack"];

/// The kinds that each strategy can lie with in broadcasts alone. B14 lies to memory nodes, whose frames are of no kind.
pub(crate) const ALONE: [(&str, &[&str]); 8] = [
    ("byz.B1", &["lock", "signed", "locked"]),
    ("byz.B2", BROADCAST),
    ("byz.B3", BROADCAST),
    ("byz.B6", &["lock", "locked"]),
    ("byz.B10", BROADCAST),
    ("byz.B4", &["lock", "signed"]),
    ("byz.B7", &["locked"]),
    ("byz.B9", &["signed", "locked"]),
];

/// Strategy and kind of every cell of a system.
pub(crate) fn of(system: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let known = match system {
        names::SMR => &TABLE[..],
        names::CTB => &ALONE[..],
        _ => &[],
    };
    known.iter().flat_map(|(strategy, kinds)| kinds.iter().map(move |kind| (*strategy, *kind)))
}

#[cfg(test)]
mod tests {
    use synod_sim::Family;

    use super::{ALONE, TABLE};

    #[test]
    fn the_table_names_strategies_that_exist() {
        for (strategy, kinds) in TABLE.into_iter().chain(ALONE) {
            assert!(Family::named(strategy).is_some_and(Family::is_byzantine), "{strategy}");
            assert!(!kinds.is_empty());
        }
    }
}

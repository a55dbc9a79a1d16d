//! Which lies can be told with which kinds of message: what of them runs must have reached.

use super::names;

/// What everybody says in every run.
const EVERY: &[&str] =
    &["prepare", "ack", "commit", "ask", "frontier", "receipt", "ask_receipts", "rows", "ask_rows"];

/// The kinds that each strategy can lie with. B6 changes bytes, and what still decodes are messages of fixed form. B5 and B14 are
/// of other systems.
pub(crate) const TABLE: [(&str, &[&str]); 12] = [
    ("byz.B1", EVERY),
    ("byz.B2", EVERY),
    ("byz.B3", EVERY),
    ("byz.B4", &["prepare"]),
    ("byz.B6", &["prepare", "ack", "commit", "frontier", "receipt"]),
    ("byz.B7", &["ack", "receipt", "frontier"]),
    ("byz.B8", &["prepare", "ack", "commit", "receipt"]),
    ("byz.B9", &["commit"]),
    ("byz.B10", EVERY),
    ("byz.B11", &["prepare", "commit"]),
    ("byz.B12", &["prepare", "ack"]),
    ("byz.B15", &["prepare"]),
];

/// Strategy and kind of every cell of a system.
pub(crate) fn of(system: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let known = if names::is(system) { &TABLE[..] } else { &[] };
    known.iter().flat_map(|(strategy, kinds)| kinds.iter().map(move |kind| (*strategy, *kind)))
}

#[cfg(test)]
mod tests {
    use synod_sim::Family;

    use super::TABLE;

    #[test]
    fn the_table_names_strategies_that_exist() {
        for (strategy, kinds) in TABLE {
            assert!(Family::named(strategy).is_some_and(Family::is_byzantine), "{strategy}");
            assert!(!kinds.is_empty());
        }
    }
}

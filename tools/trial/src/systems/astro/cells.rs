//! Which lies can be told with which kinds of message: what of them runs must have reached.

use synod_astro::Profile;

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

/// What everybody says in every run over Bracha's broadcast.
const VOTES: &[&str] = &["prepare", "echo", "ready", "frontier", "receipt"];

/// The same over Bracha's broadcast.
pub(crate) const BRACHA: [(&str, &[&str]); 12] = [
    ("byz.B1", VOTES),
    ("byz.B2", VOTES),
    ("byz.B3", VOTES),
    ("byz.B4", &["prepare"]),
    ("byz.B6", VOTES),
    ("byz.B7", &["echo", "ready", "frontier"]),
    ("byz.B8", VOTES),
    ("byz.B9", &["echo", "ready"]),
    ("byz.B10", VOTES),
    ("byz.B11", &["prepare", "echo", "ready"]),
    ("byz.B12", &["prepare"]),
    ("byz.B15", &["prepare"]),
];

/// What is said between shards in every run.
const BORDERS: &[&str] = &["prepare", "ack", "commit", "bundle", "imported", "heard"];

/// The kinds that strategies which know no words can lie with between shards.
pub(crate) const SHARDS: [(&str, &[&str]); 6] = [
    ("byz.B1", BORDERS),
    ("byz.B2", BORDERS),
    ("byz.B3", BORDERS),
    ("byz.B6", BORDERS),
    ("byz.B8", &["prepare", "ack", "commit", "receipt"]),
    ("byz.B10", BORDERS),
];

/// Strategy and kind of every cell of a system.
pub(crate) fn of(system: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let known = match names::profile(system) {
        _ if !names::is(system) || system == names::VIEWS => &[],
        _ if system == names::SHARDS => &SHARDS[..],
        Profile::I => &BRACHA[..],
        Profile::II | Profile::Funded => &TABLE[..],
    };
    known.iter().flat_map(|(strategy, kinds)| kinds.iter().map(move |kind| (*strategy, *kind)))
}

#[cfg(test)]
mod tests {
    use synod_sim::Family;

    use super::{BRACHA, SHARDS, TABLE};

    #[test]
    fn the_table_names_strategies_that_exist() {
        for (strategy, kinds) in TABLE.into_iter().chain(BRACHA).chain(SHARDS) {
            assert!(Family::named(strategy).is_some_and(Family::is_byzantine), "{strategy}");
            assert!(!kinds.is_empty());
        }
    }
}

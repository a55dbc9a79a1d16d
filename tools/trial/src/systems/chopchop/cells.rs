//! Which lies can be told with which kinds of message: what of them runs must have reached.

use super::names::SYSTEMS;

/// The kinds that each strategy can lie with, of servers, brokers and clients. B6 has no levers here: it changes bytes, and
/// what still decodes are messages of fixed form. B14 needs registers.
pub(crate) const TABLE: [(&str, &[&str]); 9] = [
    ("byz.B1", EVERY),
    ("byz.B2", EVERY),
    ("byz.B3", EVERY),
    ("byz.B6", &["submit", "multi_sig", "ack", "inclusion", "shard", "credit", "height", "state", "mark"]),
    ("byz.B8", &["shard", "credit", "delivered", "height", "mark"]),
    (
        "byz.B9",
        &["inclusion", "delivery", "batch", "order", "shard", "piece", "delivered", "height", "state"],
    ),
    ("byz.B10", &["submit", "inclusion", "batch", "shard", "credit", "order", "delivered", "height", "mark"]),
    (
        "byz.B15",
        &[
            "submit",
            "multi_sig",
            "inclusion",
            "delivery",
            "batch",
            "order",
            "shard",
            "piece",
            "delivered",
            "height",
            "state",
            "cards",
            "mark",
        ],
    ),
    ("byz.B16", &["shard", "piece", "gone", "delivered", "height", "state", "cards", "mark"]),
];

/// What everybody says in every run.
const EVERY: &[&str] = &[
    "submit",
    "inclusion",
    "multi_sig",
    "delivery",
    "batch",
    "shard",
    "credit",
    "order",
    "delivered",
    "height_ask",
    "height",
    "dir_pull",
    "cards",
    "mark",
];

/// The kinds that liars of HotStuff lie with inside a server, which is over HotStuff.
pub(crate) const WITHIN: [(&str, &[&str]); 6] = [
    ("byz.B4", &["propose", "vote", "order"]),
    ("byz.B6", &["propose", "vote", "order", "complain"]),
    ("byz.B7", &["complain"]),
    ("byz.B11", &["propose", "vote", "order"]),
    ("byz.B12", &["propose", "vote", "order", "complain"]),
    ("byz.B16", &["blocks"]),
];

/// Strategy and kind of every cell of a system.
pub(crate) fn of(system: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let within = if system == SYSTEMS[1] { &WITHIN[..] } else { &[] };
    let known = if SYSTEMS.contains(&system) { &TABLE[..] } else { &[] };
    let each = known.iter().chain(within);
    each.flat_map(|(strategy, kinds)| kinds.iter().map(move |kind| (*strategy, *kind)))
}

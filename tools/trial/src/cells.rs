//! Coverage of lies: strategy x message kind x system.
//!
//! A cell counts once an honest node took a frame of that kind, which a member under that strategy made up, changed or
//! kept from others, from an authenticated link, decoded it and worked on it. [`TABLE`] says which cells mean anything:
//! where the strategy acts on the kind and what the receiver does with it depends on the lie.

use std::collections::BTreeSet;

use serde::Serialize;
use synod_hotstuff::{Message, Pack};
use synod_machine::Message as _;
use synod_service::ClientMessage;
use synod_wire::Bytes;

use crate::params::pack_of;
use crate::run::SYSTEMS;
use crate::sight::REPLICA;
use crate::systems::{astro, chopchop, ubft};

/// What replicas say, in the order of its tags.
const REPLICAS: [&str; 13] = [
    "propose", "body", "vote", "order", "phase", "new_view", "complain", "advance", "status", "fetch",
    "blocks", "forward", "attest",
];

/// What executors and clients say, in the order of its tags.
const CLIENTS: [&str; 7] = ["item", "attach", "replies", "query", "answer", "fetch_state", "state_chunk"];

/// The kinds that each strategy can lie with. `order` is of chain2+order only, `phase` of basic only. B14 needs registers.
pub const TABLE: [(&str, &[&str]); 15] = [
    (
        "byz.B1",
        &["propose", "body", "vote", "order", "phase", "new_view", "complain", "status", "attest", "replies"],
    ),
    (
        "byz.B2",
        &["propose", "body", "vote", "order", "phase", "new_view", "complain", "status", "attest", "replies"],
    ),
    (
        "byz.B3",
        &[
            "propose", "body", "vote", "order", "phase", "new_view", "complain", "status", "fetch",
            "forward", "attest",
        ],
    ),
    ("byz.B4", &["propose", "vote", "order", "replies"]),
    (
        "byz.B5",
        &[
            "propose", "body", "vote", "order", "phase", "new_view", "complain", "advance", "status",
            "attest", "replies",
        ],
    ),
    (
        "byz.B6",
        &["propose", "body", "vote", "order", "phase", "new_view", "complain", "advance", "status", "attest"],
    ),
    ("byz.B7", &["complain", "replies"]),
    ("byz.B8", &["propose", "vote", "order", "phase", "new_view", "complain", "status", "attest"]),
    ("byz.B9", &["phase", "new_view", "advance"]),
    (
        "byz.B10",
        &["propose", "body", "vote", "order", "phase", "new_view", "complain", "status", "fetch", "forward"],
    ),
    ("byz.B11", &["propose", "vote", "order", "phase", "advance"]),
    ("byz.B12", &["propose", "vote", "order", "phase", "complain", "replies"]),
    ("byz.B13", &["propose", "body", "vote", "order", "phase", "new_view", "complain", "status", "attest"]),
    ("byz.B15", &["propose", "vote", "order", "replies"]),
    ("byz.B16", &["status", "blocks", "state_chunk", "replies"]),
];

/// Cells reached, of how many.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Cells {
    /// Cells reached.
    pub reached: u64,
    /// Cells there are.
    pub of: u64,
    /// Cells never reached.
    pub missed: Vec<String>,
}

/// The kind of message in a frame for this machine of a member or client.
#[must_use]
pub fn kind(machine: u8, body: &Bytes) -> Option<&'static str> {
    let (version, names) = if machine == REPLICA {
        (Message::VERSION, &REPLICAS[..])
    } else {
        (ClientMessage::VERSION, &CLIENTS[..])
    };
    match body.as_ref() {
        [first, tag, ..] if *first == version => names.get(usize::from(*tag)).copied(),
        _ => None,
    }
}

/// Whether members of a pack say this at all.
fn is_said(pack: Pack, kind: &str) -> bool {
    match kind {
        "order" => pack == Pack::Chain2Order,
        "phase" => pack == Pack::Basic,
        _ => true,
    }
}

/// A cell by its name.
fn name(system: &str, strategy: &str, kind: &str) -> String {
    format!("{system} {strategy} {kind}")
}

/// The cells of a system.
#[must_use]
pub fn cells(system: &str) -> BTreeSet<String> {
    if astro::is(system) {
        return astro::cells::of(system).map(|(strategy, kind)| name(system, strategy, kind)).collect();
    }
    if chopchop::is(system) {
        return chopchop::cells::of(system).map(|(strategy, kind)| name(system, strategy, kind)).collect();
    }
    if ubft::is(system) {
        return ubft::cells::of(system).map(|(strategy, kind)| name(system, strategy, kind)).collect();
    }
    let Some(pack) = pack_of(system).filter(|_| SYSTEMS.contains(&system)) else { return BTreeSet::new() };
    let kinds = TABLE.iter().flat_map(|(strategy, kinds)| kinds.iter().map(move |kind| (strategy, kind)));
    kinds
        .filter(|(_, kind)| is_said(pack, kind))
        .map(|(strategy, kind)| name(system, strategy, kind))
        .collect()
}

/// Those of the cells that a run of `system` reached.
#[must_use]
pub fn reached<'a>(
    system: &str,
    seen: impl IntoIterator<Item = &'a (&'static str, &'static str)>,
) -> Vec<String> {
    let all = cells(system);
    let names = seen.into_iter().map(|(strategy, kind)| name(system, strategy, kind));
    names.filter(|name| all.contains(name)).collect()
}

/// The sum over runs of these systems.
#[must_use]
pub fn summed(systems: &[String], reached: &BTreeSet<String>) -> Cells {
    let all: BTreeSet<String> = systems.iter().flat_map(|system| cells(system)).collect();
    let missed: Vec<String> = all.difference(reached).cloned().collect();
    Cells { reached: (all.len() - missed.len()) as u64, of: all.len() as u64, missed }
}

#[cfg(test)]
mod tests {
    use synod_crypto::{Hash, Signature};
    use synod_hotstuff::{Kind, View};
    use synod_sim::Family;

    use super::*;
    use crate::strategy::sealed;

    #[test]
    fn kinds_are_told_by_their_tags() {
        let (view, digest, signature) = (View(1), Hash::ZERO, Signature([0; 64]));
        let vote = Message::Vote { kind: Kind::Generic, view, digest, signature };
        assert_eq!(kind(REPLICA, &sealed(&vote)), Some("vote"));
        assert_eq!(kind(REPLICA, &sealed(&Message::Order { view, digest, signature })), Some("order"));
        assert_eq!(kind(REPLICA, &sealed(&Message::Forward(synod_wire::List::default()))), Some("forward"));
        assert_eq!(kind(REPLICA, &Bytes::from_static(&[9, 2])), None, "of no version");
        assert_eq!(kind(REPLICA, &Bytes::new()), None);
    }

    #[test]
    fn the_table_names_strategies_and_kinds_that_exist() {
        for (strategy, kinds) in TABLE {
            assert!(Family::named(strategy).is_some_and(Family::is_byzantine), "{strategy}");
            let known = |kind: &&str| REPLICAS.contains(kind) || CLIENTS.contains(kind);
            assert!(kinds.iter().all(known), "{strategy}");
        }
    }

    #[test]
    fn systems_have_the_cells_of_their_packs_and_sums_say_what_is_missing() {
        let (basic, order) = (cells("hotstuff/basic"), cells("hotstuff/chain2+order"));
        assert!(basic.contains("hotstuff/basic byz.B6 phase") && !order.iter().any(|c| c.ends_with("phase")));
        assert!(order.contains("hotstuff/chain2+order byz.B6 order"));
        assert_eq!(cells("journal").len(), 0);
        let (ideal, over) = (cells("chopchop/ideal"), cells("chopchop/hotstuff"));
        assert!(
            ideal.contains("chopchop/ideal byz.B15 batch") && !ideal.iter().any(|c| c.ends_with("propose"))
        );
        assert!(over.contains("chopchop/hotstuff byz.B4 propose") && over.len() > ideal.len());
        let seen = [("byz.B6", "vote"), ("byz.B6", "query"), ("client.dup", "vote")];
        let reached: BTreeSet<String> = reached("hotstuff/basic", &seen).into_iter().collect();
        assert_eq!(reached.len(), 1, "only what the table names counts");
        let sum = summed(&["hotstuff/basic".to_owned()], &reached);
        assert_eq!((sum.reached, sum.of), (1, basic.len() as u64));
        assert_eq!(sum.missed.len() + 1, basic.len());
    }
}

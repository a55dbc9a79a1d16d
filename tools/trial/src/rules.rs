//! Which rules of the protocol the packs of a soak can apply, and which of them its runs applied.

use synod_hotstuff::{Pack, Rule};

use crate::params::pack_of;
use crate::report::Coverage;

/// Whether members of a pack ever apply a rule.
///
/// Locks rise under `basic` and `chain3` only: the chains of two need none. Order votes, and what follows when a commit
/// by them cannot be proved yet, are of `chain2+order`. The basic pack proposes by new-views.
#[must_use]
pub const fn is_of(pack: Pack, rule: Rule) -> bool {
    match rule {
        Rule::RaiseLock => matches!(pack, Pack::Basic | Pack::Chain3 | Pack::Paper),
        Rule::Order | Rule::CommitByOrders => matches!(pack, Pack::Chain2Order),
        Rule::BasicPropose | Rule::BasicPrecommit | Rule::BasicCommit | Rule::BasicDecide => pack.is_basic(),
        Rule::Propose => !pack.is_basic(),
        _ => true,
    }
}

/// How much of what the packs of `systems` can apply is among `applied`, the names of rules.
#[must_use]
pub fn coverage(systems: &[String], applied: &[&str]) -> Coverage {
    let packs: Vec<Pack> = systems.iter().filter_map(|system| pack_of(system)).collect();
    let can = |rule: &&Rule| packs.iter().any(|pack| is_of(*pack, **rule));
    let all: Vec<&str> = Rule::ALL.iter().filter(can).map(|rule| rule.name()).collect();
    let missed: Vec<String> =
        all.iter().filter(|name| !applied.contains(name)).map(|name| (*name).to_owned()).collect();
    let of = all.len() as u64;
    Coverage { hit: of - missed.len() as u64, of, missed }
}

#[cfg(test)]
mod tests {
    use super::coverage;

    fn of(systems: &[&str]) -> u64 {
        let systems: Vec<String> = systems.iter().map(|s| (*s).to_owned()).collect();
        coverage(&systems, &[]).of
    }

    #[test]
    fn a_pack_is_not_blamed_for_rules_of_others() {
        let missed = coverage(&["hotstuff/chain2".to_owned()], &[]).missed;
        assert!(!missed.iter().any(|rule| rule.starts_with("BR") || rule.starts_with("R5")), "{missed:?}");
        assert!(missed.contains(&"R1_propose".to_owned()));
        assert!(of(&["hotstuff/basic", "hotstuff/chain2+order"]) > of(&["hotstuff/basic"]));
        assert_eq!(of(&["journal"]), 0);
    }

    #[test]
    fn what_was_applied_is_not_missed() {
        let some = coverage(&["hotstuff/chain3".to_owned()], &["R1_propose", "R4_raise_lock", "BR1_propose"]);
        assert_eq!((some.hit, some.missed.len() as u64), (2, some.of - 2));
    }
}

//! X4: no honest member signs two statements that share a conflict key, whatever it forgot in between.
//!
//! Keys: a vote's view and phase; an order vote's view; a proposal's view; and no vote or order of a view is signed after
//! a complaint about that view or a later one. A statement counts from the moment one recipient can have it.

use std::collections::BTreeMap;

use synod_crypto::Hash;

use super::sighting::{MarkSeen, Phase, Seen, Sighting};

/// What two statements must not share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Vote(u64, Phase),
    Proposal(u64),
}

/// Two statements of one member that contradict each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Who signed both.
    pub node: u32,
    /// The key they share, and the two statements.
    pub what: String,
}

/// Every statement of honest members that was on the wire.
#[derive(Clone, Default)]
pub struct Signatures {
    said: BTreeMap<(u32, Key), Hash>,
    complained: BTreeMap<u32, u64>,
}

impl Signatures {
    /// Takes one sighting; the conflict with what was said before, if there is one.
    pub fn see(&mut self, sighting: &Sighting) -> Option<Conflict> {
        if !sighting.honest {
            return None;
        }
        let node = sighting.node;
        match sighting.seen {
            Seen::Voted(mark, phase) => self.voted(node, mark, phase),
            Seen::Proposed(mark) => self.once(node, Key::Proposal(mark.view), mark),
            Seen::Complained { view, .. } => {
                let given_up = self.complained.entry(node).or_default();
                *given_up = view.max(*given_up);
                None
            }
            _ => None,
        }
    }

    /// How many statements are known.
    #[must_use]
    pub fn count(&self) -> usize {
        self.said.len()
    }

    fn voted(&mut self, node: u32, mark: MarkSeen, phase: Phase) -> Option<Conflict> {
        let key = Key::Vote(mark.view, phase);
        let known = self.said.get(&(node, key)) == Some(&mark.digest);
        let given_up = self.complained.get(&node).copied().unwrap_or(0);
        // What was said before the complaint may be said again.
        if mark.view <= given_up && !known {
            let view = mark.view;
            let what = format!("n{node} signed {phase:?} of view {view} after a complaint about {given_up}");
            return Some(Conflict { node, what });
        }
        self.once(node, key, mark)
    }

    fn once(&mut self, node: u32, key: Key, mark: MarkSeen) -> Option<Conflict> {
        let first = *self.said.entry((node, key)).or_insert(mark.digest);
        (first != mark.digest).then(|| {
            let what = format!("n{node} signed {first} and {} under {key:?}", mark.digest);
            Conflict { node, what }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by(node: u32, seen: Seen) -> Sighting {
        Sighting { at: 0, node, honest: true, incarnation: 1, seen }
    }

    fn mark(view: u64, name: u8) -> MarkSeen {
        MarkSeen { view, digest: Hash([name; 32]) }
    }

    /// The first conflict among these, if there is one.
    fn first(all: &[Sighting]) -> Option<Conflict> {
        let mut oracle = Signatures::default();
        all.iter().find_map(|sighting| oracle.see(sighting))
    }

    #[test]
    fn two_blocks_under_one_key_are_a_conflict() {
        for seen in [
            |name| Seen::Voted(mark(3, name), Phase::Generic),
            |name| Seen::Voted(mark(3, name), Phase::Order),
            |name| Seen::Voted(mark(3, name), Phase::Precommit),
            |name| Seen::Proposed(mark(3, name)),
        ] {
            assert!(first(&[by(1, seen(1)), by(1, seen(2))]).is_some());
            assert_eq!(first(&[by(1, seen(1)), by(1, seen(1)), by(2, seen(2))]), None);
        }
    }

    #[test]
    fn other_views_phases_and_members_do_not_conflict() {
        let vote = |node, view, phase, name| by(node, Seen::Voted(mark(view, name), phase));
        let all = [
            vote(1, 3, Phase::Prepare, 1),
            vote(1, 3, Phase::Commit, 2),
            vote(1, 4, Phase::Prepare, 3),
            vote(2, 3, Phase::Prepare, 4),
            by(1, Seen::Proposed(mark(3, 5))),
        ];
        assert_eq!(first(&all), None);
    }

    #[test]
    fn a_vote_below_an_own_complaint_is_a_conflict_unless_it_is_said_again() {
        let vote = |view, name| by(1, Seen::Voted(mark(view, name), Phase::Generic));
        let complaint = |view| by(1, Seen::Complained { view, high: 0 });
        assert!(first(&[complaint(5), vote(5, 1)]).is_some_and(|c| c.node == 1));
        assert!(first(&[complaint(5), by(1, Seen::Voted(mark(4, 1), Phase::Order))]).is_some());
        assert_eq!(first(&[vote(5, 1), complaint(5), vote(5, 1), vote(6, 2)]), None);
    }

    #[test]
    fn what_liars_sign_is_not_judged() {
        let lie = |name| Sighting { honest: false, ..by(1, Seen::Proposed(mark(3, name))) };
        assert_eq!(first(&[lie(1), lie(2)]), None);
    }
}

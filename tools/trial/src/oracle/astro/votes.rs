//! Bracha's broadcast, from the votes that reached members: whoever is ready heard a quorum of echoes or f + 1 who are ready, and
//! whoever delivers heard 2f + 1. A-S2 and X4 of votes.

use std::collections::{BTreeMap, BTreeSet};

use synod_crypto::Hash;

use super::{Slot, quorum};
use crate::oracle::{Verdict, breach, weak};

/// Which of the two votes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Vote {
    /// ECHO.
    Echo,
    /// READY.
    Ready,
}

/// Votes as members heard them in all their lives.
#[derive(Clone, Debug)]
pub struct Votes {
    members: u32,
    heard: BTreeMap<(u32, Slot, Vote), BTreeMap<Hash, BTreeSet<u32>>>,
    /// What each member voted for.
    voted: BTreeMap<(u32, Slot, Vote), Hash>,
}

impl Votes {
    /// Of so many members.
    #[must_use]
    pub const fn new(members: u32) -> Self {
        Self { members, heard: BTreeMap::new(), voted: BTreeMap::new() }
    }

    /// A vote reaches a member.
    pub fn hear(&mut self, node: u32, from: u32, (vote, slot, digest): (Vote, Slot, Hash)) {
        let all = self.heard.entry((node, slot, vote)).or_default();
        all.entry(digest).or_default().insert(from);
    }

    fn count(&self, node: u32, (vote, slot, digest): (Vote, Slot, Hash)) -> u32 {
        let all = self.heard.get(&(node, slot, vote)).and_then(|all| all.get(&digest));
        all.map_or(0, |all| u32::try_from(all.len()).unwrap_or(u32::MAX))
    }

    /// A member that never lied votes.
    ///
    /// # Errors
    /// X4: it voted for something else; A-S2: it is ready, and heard too few.
    pub fn say(&mut self, node: u32, (vote, slot, digest): (Vote, Slot, Hash)) -> Verdict {
        let first = *self.voted.entry((node, slot, vote)).or_insert(digest);
        if first != digest {
            return breach("X4", format!("member {node} votes twice in slot {slot:?}: {vote:?}"));
        }
        let (echoes, ready) =
            (self.count(node, (Vote::Echo, slot, digest)), self.count(node, (Vote::Ready, slot, digest)));
        if vote == Vote::Ready && echoes < quorum(self.members) && ready < weak(self.members) {
            let what = format!("member {node} is ready in slot {slot:?} by {echoes} echoes, {ready} ready");
            return breach("A-S2", what);
        }
        Ok(())
    }

    /// A member that never lied delivers.
    ///
    /// # Errors
    /// A-S2: it heard of too few who are ready.
    pub fn deliver(&self, node: u32, slot: Slot) -> Verdict {
        let all = self.heard.get(&(node, slot, Vote::Ready)).into_iter().flat_map(BTreeMap::values);
        let most = all.map(BTreeSet::len).max().unwrap_or(0);
        let faulty = weak(self.members) - 1;
        match u32::try_from(most).is_ok_and(|most| most > 2 * faulty) {
            true => Ok(()),
            false => breach("A-S2", format!("member {node} delivers {slot:?} by {most} who are ready")),
        }
    }
}

#[cfg(test)]
mod tests {
    use synod_crypto::Hash;

    use super::{Vote, Votes};
    use crate::oracle::Verdict;

    const SLOT: (u8, u64) = (0, 1);
    const ONE: Hash = Hash([1; 32]);
    const OTHER: Hash = Hash([2; 32]);

    fn fired(verdict: Verdict) -> &'static str {
        verdict.map_or_else(|breach| breach.checker, |()| "")
    }

    #[test]
    fn who_is_ready_by_too_few_or_votes_twice_or_delivers_early_is_told() {
        let mut votes = Votes::new(4);
        let ready = (Vote::Ready, SLOT, ONE);
        votes.hear(1, 3, ready);
        assert_eq!(fired(votes.clone().say(1, ready)), "A-S2", "one who is ready may lie");
        votes.hear(1, 3, ready);
        assert_eq!(fired(votes.clone().say(1, ready)), "A-S2", "and says so twice");
        let mut amplified = votes.clone();
        amplified.hear(1, 2, ready);
        assert_eq!(fired(amplified.say(1, ready)), "");
        for from in [0, 1] {
            votes.hear(1, from, (Vote::Echo, SLOT, ONE));
        }
        assert_eq!(fired(votes.clone().say(1, ready)), "A-S2", "two echoes are no quorum");
        votes.hear(1, 2, (Vote::Echo, SLOT, ONE));
        assert_eq!(fired(votes.say(1, ready)), "");
        assert_eq!(fired(votes.say(1, (Vote::Ready, SLOT, OTHER))), "X4");
        votes.hear(1, 1, ready);
        assert_eq!(fired(votes.deliver(1, SLOT)), "A-S2", "two who are ready");
        votes.hear(1, 0, (Vote::Ready, SLOT, OTHER));
        assert_eq!(fired(votes.deliver(1, SLOT)), "A-S2", "the third is ready for another");
        votes.hear(1, 2, ready);
        assert_eq!(fired(votes.deliver(1, SLOT)), "");
    }
}

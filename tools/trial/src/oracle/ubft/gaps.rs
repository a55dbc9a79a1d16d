//! U-S10: a correct replica goes past a message of a stream only when it could deliver it, or where f + 1 replicas signed the state behind it.
//!
//! It says how far it is by its shares of summaries. A message can be delivered when it came signed, or when all other receivers
//! locked something under its number; of what they say no more is looked at, so this takes less for a delivery than the protocol does.

use std::collections::{BTreeMap, BTreeSet};

use synod_crypto::Hash;

use super::{About, one_correct};
use crate::oracle::{Verdict, breach};

/// A stream, as one life of a replica hears it: node and life, epoch, whose.
type Lane = ((u32, u32), u32, u32);

/// What one life heard of one stream.
#[derive(Clone, Debug, Default)]
struct Heard {
    /// Messages that came signed.
    signed: BTreeSet<u64>,
    /// Who locked something under a number.
    locked: BTreeMap<u64, BTreeSet<u32>>,
    /// The last message that a summary has.
    covered: u64,
    /// How far it was judged.
    judged: u64,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Gaps {
    replicas: u32,
    lanes: BTreeMap<Lane, Heard>,
    /// Shares of correct replicas.
    shares: BTreeSet<(About, Hash, u32)>,
    liars: BTreeSet<u32>,
    judged: u64,
    covered: u64,
}

impl Gaps {
    /// Watches so many replicas.
    #[must_use]
    pub const fn new(replicas: u32) -> Self {
        Self {
            replicas,
            lanes: BTreeMap::new(),
            shares: BTreeSet::new(),
            liars: BTreeSet::new(),
            judged: 0,
            covered: 0,
        }
    }

    /// Messages that were gone past, and those of them that a summary took the place of.
    #[must_use]
    pub const fn counts(&self) -> (u64, u64) {
        (self.judged, self.covered)
    }

    /// A replica lied: what it hears and signs counts no more.
    pub fn fault(&mut self, node: u32) {
        self.liars.insert(node);
    }

    /// A message of a stream came signed.
    pub fn hear_signed(&mut self, lane: Lane, k: u64) {
        self.lanes.entry(lane).or_default().signed.insert(k);
    }

    /// Another receiver says that it locked a message.
    pub fn hear_locked(&mut self, lane: Lane, from: u32, k: u64) {
        let ((node, _), _, about) = lane;
        if from != node && from != about {
            self.lanes.entry(lane).or_default().locked.entry(k).or_default().insert(from);
        }
    }

    /// A summary came. It counts if f + 1 signed it, those that tell the truth among them.
    pub fn hear_summary(&mut self, lane: Lane, (k, state): (u64, Hash), signers: &[u32]) {
        let (_, epoch, about) = lane;
        let of = About::Summary { epoch, about, k };
        let distinct: BTreeSet<u32> = signers.iter().copied().filter(|id| *id < self.replicas).collect();
        let is_signed =
            |id: &u32| *id == about || self.liars.contains(id) || self.shares.contains(&(of, state, *id));
        if distinct.len() >= one_correct(self.replicas) && distinct.iter().all(is_signed) {
            let heard = self.lanes.entry(lane).or_default();
            heard.covered = heard.covered.max(k);
        }
    }

    /// A correct replica signs the state of a stream behind one of its messages.
    ///
    /// # Errors
    /// U-S10 if it went past a message that it could not deliver.
    pub fn sign(&mut self, life: (u32, u32), about: About, state: Hash) -> Verdict {
        let About::Summary { epoch, about: of, k } = about else { return Ok(()) };
        self.shares.insert((about, state, life.0));
        if of == life.0 || self.liars.contains(&life.0) {
            return Ok(());
        }
        let others = self.replicas.saturating_sub(2) as usize;
        let heard = self.lanes.entry((life, epoch, of)).or_default();
        for at in heard.judged + 1..=k {
            self.judged += 1;
            let is_locked = heard.locked.get(&at).is_some_and(|by| by.len() >= others);
            if heard.signed.contains(&at) || is_locked {
                continue;
            }
            if at > heard.covered {
                let what = format!("replica {} is at {k} of {of} and could not deliver {at}", life.0);
                return breach("U-S10", what);
            }
            self.covered += 1;
        }
        heard.judged = heard.judged.max(k);
        let judged = heard.judged;
        heard.signed = heard.signed.split_off(&(judged + 1));
        heard.locked = heard.locked.split_off(&(judged + 1));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LANE: Lane = ((1, 1), 0, 2);
    const STATE: Hash = Hash([7; 32]);

    fn share(k: u64) -> About {
        About::Summary { epoch: 0, about: 2, k }
    }

    /// Three of four messages came: signed, locked by the third replica, not at all, signed.
    fn gap() -> Gaps {
        let mut gaps = Gaps::new(3);
        gaps.hear_signed(LANE, 1);
        gaps.hear_locked(LANE, 0, 2);
        gaps.hear_signed(LANE, 4);
        gaps
    }

    fn checker(verdict: &Verdict) -> &'static str {
        verdict.as_ref().err().map_or("", |breach| breach.checker)
    }

    #[test]
    fn what_was_delivered_is_gone_past_and_what_was_not_is_seen() {
        let mut gaps = gap();
        assert_eq!(checker(&gaps.clone().sign((1, 1), share(4), STATE)), "U-S10");
        gaps.hear_locked(LANE, 1, 3);
        gaps.hear_locked(LANE, 2, 3);
        assert_eq!(checker(&gaps.clone().sign((1, 1), share(4), STATE)), "U-S10", "nobody else locked it");
        gaps.hear_locked(LANE, 0, 3);
        assert_eq!((gaps.sign((1, 1), share(4), STATE), gaps.counts()), (Ok(()), (4, 0)));
        assert_eq!(gaps.sign((1, 1), share(4), STATE), Ok(()), "said again");
        assert_eq!(checker(&gaps.sign((1, 2), share(4), STATE)), "U-S10", "another life heard nothing");
    }

    #[test]
    fn a_summary_takes_the_place_of_what_was_missed_when_enough_signed_it() {
        let mut gaps = gap();
        for signers in [&[2][..], &[2, 2], &[2, 0], &[2, 9]] {
            gaps.hear_summary(LANE, (4, STATE), signers);
            assert_eq!(checker(&gaps.clone().sign((1, 1), share(4), STATE)), "U-S10", "{signers:?}");
        }
        let mut lying = gaps.clone();
        lying.fault(0);
        lying.hear_summary(LANE, (4, STATE), &[0, 2]);
        assert_eq!(lying.sign((1, 1), share(4), STATE), Ok(()), "a liar may have told one alone");
        gaps.hear_locked(((0, 1), 0, 2), 1, 1);
        for k in 2..=4 {
            gaps.hear_signed(((0, 1), 0, 2), k);
        }
        assert_eq!(gaps.sign((0, 1), share(4), STATE), Ok(()));
        gaps.hear_summary(LANE, (4, STATE), &[0, 2]);
        assert_eq!((gaps.sign((1, 1), share(4), STATE), gaps.counts()), (Ok(()), (8, 1)));
    }
}

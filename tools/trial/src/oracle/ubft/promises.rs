//! U-S1, U-S8, U-S9, U-S11, U-S13: what a correct replica promised of a slot it keeps before it leaves the view; it speaks of one message
//! of a number and one proposal of a slot in a view; it accepts nothing beside what was decided, nothing outside the window or beyond the
//! end of the epoch; and it promises nothing in an epoch of before its life.

use std::collections::{BTreeMap, BTreeSet};

use synod_crypto::Hash;

use super::{About, Heard, Spoken, Streamed};
use crate::oracle::{Verdict, breach};

/// What one life of a replica promised in one epoch.
#[derive(Clone, Debug, Default)]
struct Kept {
    certify: BTreeSet<(u64, u64)>,
    commit: BTreeSet<(u64, u64)>,
    signed: BTreeSet<(u64, u64)>,
    shown: BTreeSet<(u64, u64)>,
    last_k: u64,
    sealed: u64,
    /// The first slot that no checkpoint of its stream has.
    low: u64,
    /// What is proposed in messages that came, by broadcaster, number and digest.
    proposed: BTreeMap<(u32, u64, Hash), (u64, u64)>,
    /// What was promised with a lock and waits for the other receiver to lock it too.
    early: BTreeMap<(u32, u64), (Hash, u64, u64)>,
}

/// A replica, in one of its lives.
type Life = (u32, u32);

/// See the module.
#[derive(Clone, Debug)]
pub struct Promises {
    window: u64,
    kept: BTreeMap<(Life, u32), Kept>,
    /// The first proposal that a correct replica spoke of, by epoch, view and slot, by eight bytes.
    proposals: BTreeMap<(u32, u64, u64), u64>,
    /// The message that each life locked: epoch, broadcaster, number.
    locked: BTreeMap<(Life, u32, u32, u64), Hash>,
    /// The highest epoch that anybody spoke in.
    epoch: u32,
    /// The same when each life began behind another one that had spoken: one that ended before its number was durable is none.
    born: BTreeMap<Life, u32>,
    /// Replicas that promised something.
    bound: BTreeSet<u32>,
    /// The first slot behind a checkpoint that a correct replica signed, the largest.
    low: u64,
    /// Where epochs end.
    ends: BTreeMap<u32, u64>,
    /// Of executed slots: the digest's first eight bytes, and the highest view in which a correct replica spoke of it before.
    decided: BTreeMap<u64, (u64, u32, u64)>,
}

impl Promises {
    /// Watches replicas with windows of so many slots.
    #[must_use]
    pub const fn new(window: u64) -> Self {
        Self {
            window,
            kept: BTreeMap::new(),
            proposals: BTreeMap::new(),
            locked: BTreeMap::new(),
            epoch: 0,
            born: BTreeMap::new(),
            bound: BTreeSet::new(),
            low: 0,
            ends: BTreeMap::new(),
            decided: BTreeMap::new(),
        }
    }

    /// A replica begins a life.
    pub fn open(&mut self, life: Life) {
        if self.bound.contains(&life.0) {
            self.born.insert(life, self.epoch);
        }
    }

    /// A correct replica executed a batch in a slot, the first one to do so.
    pub fn executed(&mut self, slot: u64, digest: Hash) {
        let tag = digest.short();
        let spoken = self.proposals.iter().filter(|((_, _, of), said)| *of == slot && **said == tag);
        if let Some((epoch, view)) = spoken.map(|((epoch, view, _), _)| (*epoch, *view)).max() {
            self.decided.insert(slot, (tag, epoch, view));
        }
    }

    /// A correct replica says something.
    ///
    /// # Errors
    /// Whichever of the properties it breaks.
    pub fn say(&mut self, life: Life, spoken: &Spoken) -> Verdict {
        if let Some(epoch) = spoken.promised_in() {
            self.epoch = self.epoch.max(epoch);
            self.bound.insert(life.0);
            if self.born.get(&life).is_some_and(|born| epoch <= *born) {
                let what =
                    format!("life {} of replica {} promises something in epoch {epoch}", life.1, life.0);
                breach("U-S13", what)?;
            }
        }
        match spoken {
            Spoken::WillCertify(epoch, view, slot, tag) => {
                self.propose(life, (*epoch, *view, *slot), *tag)?;
                self.promise(life, (*epoch, *view, *slot))?.certify.insert((*view, *slot));
            }
            Spoken::WillCommit(epoch, view, slot, tag) => {
                self.propose(life, (*epoch, *view, *slot), *tag)?;
                self.promise(life, (*epoch, *view, *slot))?.commit.insert((*view, *slot));
            }
            Spoken::Share(About::Proposal { epoch, view, slot }, digest) => {
                self.propose(life, (*epoch, *view, *slot), digest.short())?;
                self.kept.entry((life, *epoch)).or_default().signed.insert((*view, *slot));
            }
            Spoken::Share(About::Checkpoint { low, .. }, _) => self.low = self.low.max(*low),
            Spoken::Streamed(epoch, k, word) => self.stream(life, (*epoch, *k), word)?,
            Spoken::Locked(epoch, broadcaster, k, digest) => {
                self.lock(life, (*epoch, *broadcaster, *k), *digest)?;
            }
            Spoken::Promised(epoch, broadcaster, k, digest) => {
                self.promise_early(life, (*epoch, *broadcaster, *k), *digest)?;
            }
            Spoken::Signed(epoch, k, digest) => self.lock(life, (*epoch, life.0, *k), *digest)?,
            Spoken::Share(..) | Spoken::Certificate(..) | Spoken::Registered(_) => {}
        }
        Ok(())
    }

    /// A replica hears something. What it promised with what it locked binds when the other receiver locked the same: of three replicas
    /// that delivers it.
    pub fn hear(&mut self, life: Life, heard: &Heard) {
        match *heard {
            Heard::Proposed(epoch, broadcaster, k, digest, place) => {
                let kept = self.kept.entry((life, epoch)).or_default();
                kept.proposed.insert((broadcaster, k, digest), place);
            }
            Heard::Locked(epoch, broadcaster, k, digest) => {
                let Some(kept) = self.kept.get_mut(&(life, epoch)) else { return };
                let early = kept.early.get(&(broadcaster, k)).filter(|(locked, ..)| *locked == digest);
                if let Some((_, view, slot)) = early.copied()
                    && slot >= kept.low
                    && view >= kept.sealed
                {
                    kept.certify.insert((view, slot));
                }
            }
        }
    }

    /// A promise that goes with a lock: it is made once, of what came, and in no view that was left.
    fn promise_early(
        &mut self,
        life: Life,
        (epoch, broadcaster, k): (u32, u32, u64),
        digest: Hash,
    ) -> Verdict {
        let kept = self.kept.entry((life, epoch)).or_default();
        if kept.early.get(&(broadcaster, k)).is_some_and(|(locked, ..)| *locked == digest) {
            return Ok(());
        }
        let Some((view, slot)) = kept.proposed.get(&(broadcaster, k, digest)).copied() else {
            return breach("U-S8", format!("replica {} promises what nobody proposed to it", life.0));
        };
        self.promise(life, (epoch, view, slot))?.early.insert((broadcaster, k), (digest, view, slot));
        Ok(())
    }

    /// U-S1: one life speaks of one message of a number.
    fn lock(&mut self, life: Life, (epoch, broadcaster, k): (u32, u32, u64), digest: Hash) -> Verdict {
        let first = *self.locked.entry((life, epoch, broadcaster, k)).or_insert(digest);
        if first == digest {
            return Ok(());
        }
        breach("U-S1", format!("replica {} locks two messages {k} of {broadcaster} in epoch {epoch}", life.0))
    }

    /// U-S1: correct replicas speak of one proposal of a slot in a view. U-S9: of none but what was decided, once it is. U-S11.
    fn propose(&mut self, life: Life, (epoch, view, slot): (u32, u64, u64), tag: u64) -> Verdict {
        let (first, node) = (*self.proposals.entry((epoch, view, slot)).or_insert(tag), life.0);
        if first != tag {
            breach(
                "U-S1",
                format!("replica {node} speaks of another proposal of slot {slot} in view {view}"),
            )?;
        }
        if let Some((decided, of, until)) = self.decided.get(&slot)
            && (epoch, view) > (*of, *until)
            && *decided != tag
        {
            breach("U-S9", format!("replica {node} accepts another batch of slot {slot} in view {view}"))?;
        }
        if slot >= self.low + self.window {
            breach(
                "U-S11",
                format!(
                    "replica {node} accepts slot {slot} before anybody executed up to {}",
                    slot - self.window
                ),
            )?;
        }
        match self.ends.get(&epoch) {
            Some(end) if slot >= *end => breach(
                "U-S11",
                format!("replica {node} accepts slot {slot} of epoch {epoch}, which ends at {end}"),
            ),
            _ => Ok(()),
        }
    }

    /// U-S8: nothing is promised in a view that was left.
    fn promise(
        &mut self,
        life: Life,
        (epoch, view, slot): (u32, u64, u64),
    ) -> Result<&mut Kept, crate::oracle::Breach> {
        let kept = self.kept.entry((life, epoch)).or_default();
        if view < kept.sealed {
            let what = format!(
                "replica {} promises slot {slot} in view {view}, and left for {}",
                life.0, kept.sealed
            );
            breach("U-S8", what)?;
        }
        Ok(kept)
    }

    /// U-S8: a view is left when everything that was promised is kept.
    fn stream(&mut self, life: Life, (epoch, k): (u32, u64), word: &Streamed) -> Verdict {
        let kept = self.kept.entry((life, epoch)).or_default();
        if k <= kept.last_k {
            return Ok(());
        }
        kept.last_k = k;
        match word {
            Streamed::Prepare(view, slot, digest) => {
                kept.certify.insert((*view, *slot));
                self.propose(life, (epoch, *view, *slot), digest.short())?;
            }
            Streamed::Commit(view, slot) => drop(kept.shown.insert((*view, *slot))),
            Streamed::Checkpoint(low, end) => {
                kept.certify.retain(|(_, slot)| slot >= low);
                kept.commit.retain(|(_, slot)| slot >= low);
                kept.low = *low;
                if let Some(end) = end {
                    self.ends.insert(epoch, *end);
                }
            }
            Streamed::SealView(view) => {
                let older = |(of, _): &&(u64, u64)| of < view;
                let open = |promised: &BTreeSet<(u64, u64)>, done: &BTreeSet<(u64, u64)>| {
                    promised.difference(done).filter(older).copied().collect::<Vec<_>>()
                };
                let (unsigned, hidden) = (open(&kept.certify, &kept.signed), open(&kept.commit, &kept.shown));
                kept.sealed = *view;
                if !unsigned.is_empty() || !hidden.is_empty() {
                    let what = format!(
                        "replica {} seals view {view}: not signed {unsigned:?}, not shown {hidden:?}",
                        life.0
                    );
                    breach("U-S8", what)?;
                }
            }
            Streamed::NewView(_) | Streamed::Ref => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Life = (1, 1);

    fn checker(verdict: &Verdict) -> &'static str {
        verdict.as_ref().err().map_or("", |breach| breach.checker)
    }

    fn share(view: u64, slot: u64, digest: Hash) -> Spoken {
        Spoken::Share(About::Proposal { epoch: 0, view, slot }, digest)
    }

    #[test]
    fn a_view_is_left_when_promises_are_kept_or_checkpointed() {
        let digest = Hash([3; 32]);
        let mut promises = Promises::new(32);
        let will = Spoken::WillCertify(0, 0, 4, digest.short());
        assert_eq!(promises.say(ONE, &will), Ok(()));
        let seal = Spoken::Streamed(0, 2, Streamed::SealView(1));
        assert_eq!(checker(&promises.clone().say(ONE, &seal)), "U-S8");
        let mut checkpointed = promises.clone();
        assert_eq!(checkpointed.say(ONE, &Spoken::Streamed(0, 1, Streamed::Checkpoint(5, None))), Ok(()));
        assert_eq!(checkpointed.say(ONE, &seal), Ok(()));
        assert_eq!(promises.say(ONE, &share(0, 4, digest)), Ok(()));
        assert_eq!(promises.say(ONE, &seal), Ok(()));
        assert_eq!(checker(&promises.say(ONE, &will)), "U-S8", "the view was left");
    }

    #[test]
    fn what_is_promised_with_a_lock_binds_once_the_other_receiver_locked_the_same() {
        let (body, batch) = (Hash([5; 32]), Hash([3; 32]));
        let mut promises = Promises::new(32);
        let early = Spoken::Promised(0, 0, 7, body);
        assert_eq!(checker(&promises.clone().say(ONE, &early)), "U-S8", "nobody proposed it");
        promises.hear(ONE, &Heard::Proposed(0, 0, 7, body, (0, 4)));
        assert_eq!(promises.say(ONE, &early), Ok(()));
        let seal = Spoken::Streamed(0, 2, Streamed::SealView(1));
        assert_eq!(promises.clone().say(ONE, &seal), Ok(()), "it is not delivered");
        let mut other = promises.clone();
        other.hear(ONE, &Heard::Locked(0, 0, 7, batch));
        assert_eq!(other.say(ONE, &seal), Ok(()), "the other locked something else");
        promises.hear(ONE, &Heard::Locked(0, 0, 7, body));
        assert_eq!(checker(&promises.clone().say(ONE, &seal)), "U-S8");
        assert_eq!(promises.say(ONE, &share(0, 4, batch)), Ok(()));
        assert_eq!(promises.say(ONE, &seal), Ok(()));
        assert_eq!(promises.say(ONE, &early), Ok(()), "it says again what it locked");
    }

    #[test]
    fn another_proposal_another_batch_and_another_message_are_seen() {
        let (digest, other) = (Hash([3; 32]), Hash([4; 32]));
        let mut promises = Promises::new(32);
        assert_eq!(promises.say(ONE, &share(0, 4, digest)), Ok(()));
        assert_eq!(checker(&promises.clone().say((2, 1), &share(0, 4, other))), "U-S1");
        promises.executed(4, digest);
        assert_eq!(promises.say((2, 1), &share(1, 4, digest)), Ok(()));
        assert_eq!(checker(&promises.clone().say((2, 1), &share(2, 4, other))), "U-S9");
        assert_eq!(promises.say(ONE, &Spoken::Locked(0, 2, 1, digest)), Ok(()));
        assert_eq!(checker(&promises.say(ONE, &Spoken::Locked(0, 2, 1, other))), "U-S1");
    }

    #[test]
    fn the_window_the_end_of_an_epoch_and_former_lives_bind() {
        let digest = Hash([3; 32]);
        let mut promises = Promises::new(32);
        assert_eq!(promises.say(ONE, &share(0, 31, digest)), Ok(()));
        assert_eq!(checker(&promises.clone().say(ONE, &share(0, 32, digest))), "U-S11");
        let end = Spoken::Streamed(0, 1, Streamed::Checkpoint(16, Some(32)));
        let low = Spoken::Share(About::Checkpoint { epoch: 0, low: 16 }, digest);
        assert_eq!((promises.say(ONE, &low), promises.say(ONE, &end)), (Ok(()), Ok(())));
        assert_eq!(checker(&promises.clone().say(ONE, &share(0, 32, digest))), "U-S11");
        promises.open((1, 2));
        assert_eq!(checker(&promises.clone().say((1, 2), &Spoken::Locked(0, 2, 1, digest))), "U-S13");
        assert_eq!(promises.say((1, 2), &Spoken::Locked(1, 2, 1, digest)), Ok(()));
        // One whose first life ended before it said anything forgot nothing.
        promises.open((4, 2));
        assert_eq!(promises.say((4, 2), &Spoken::Locked(0, 2, 2, digest)), Ok(()));
    }
}

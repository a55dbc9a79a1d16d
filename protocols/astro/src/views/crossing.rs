//! What a member may sign and settle of what was open when views changed (specification 4.11, "Old-view certificates").
//!
//! A member that stopped signs and settles nothing. In the new view it settles under certificates of that view alone, and signs
//! what the merge rule allows; an older certificate decides where two digests were shown, and has the signatures collected again in
//! the new view. Members merge different states, so that something was shown to one of them proves nothing: members that left could
//! have signed it since. Whoever settled it, or may accept it, signs again, and only a quorum of the new view settles it.
//!
//! *Of use* for lots of lanes and for places of logs alike: `K` names one. What is not named here was shown by nobody.
//!
//! *Bounds.* A verdict per lot or place that some state of the quorum showed.

use std::collections::BTreeMap;

use synod_crypto::Hash;
use synod_machine::planted;

use super::state::{Shown, Verdict};
use super::view::ViewId;

/// Where a member stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// It signs and settles in this view.
    In(ViewId),
    /// It stopped in this view, and has not entered another.
    Stopped(ViewId),
}

/// What to do with a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// It settles.
    Settle,
    /// Signatures are to be collected in the current view.
    Collect,
    /// Nothing: of a view that is not this one's or before it, or while this member stands still.
    Ignore,
}

/// What crosses from older views into the current one.
#[derive(Clone, Debug)]
pub struct Crossing<K> {
    standing: Standing,
    verdicts: BTreeMap<K, Verdict>,
}

impl<K: Ord + Copy> Crossing<K> {
    /// A member of the first view, which nothing crosses into.
    #[must_use]
    pub const fn first(view: ViewId) -> Self {
        Self { standing: Standing::In(view), verdicts: BTreeMap::new() }
    }

    /// Step 6: nothing is signed and nothing settles from now on.
    pub const fn stop(&mut self) {
        let (Standing::In(view) | Standing::Stopped(view)) = self.standing;
        self.standing = Standing::Stopped(view);
    }

    /// Step 7: the states of a quorum are merged; nothing is signed before [`Self::resume`].
    pub fn enter(&mut self, view: ViewId, verdicts: BTreeMap<K, Verdict>) {
        self.standing = Standing::Stopped(view);
        self.verdicts = verdicts;
    }

    /// Step 7: nothing was left over.
    pub const fn resume(&mut self) {
        let (Standing::In(view) | Standing::Stopped(view)) = self.standing;
        self.standing = Standing::In(view);
    }

    /// Whether this member may sign that this has the place, beside what it accepted in this view: it settled this before, or is
    /// free to accept it.
    #[must_use]
    pub fn may_sign(&self, key: &K, digest: &Hash, settled: Option<&Hash>) -> bool {
        let is_in = matches!(self.standing, Standing::In(_));
        let is_allowed = match settled {
            Some(settled) => settled == digest,
            None => self.verdicts.get(key).is_none_or(|verdict| verdict.allows(digest)),
        };
        is_in && is_allowed
    }

    /// What a certificate of a view, which was checked, is good for. One of an older view decides where two digests were shown.
    pub fn certified(&mut self, key: K, of: ViewId, shown: Shown) -> Use {
        let view = match self.standing {
            Standing::In(view) => view,
            Standing::Stopped(view) if planted!(A15) => view,
            Standing::Stopped(_) => return Use::Ignore,
        };
        if of == view {
            return Use::Settle;
        }
        if of.number >= view.number {
            return Use::Ignore;
        }
        if planted!(A29) {
            return Use::Settle;
        }
        if let Some(verdict) = self.verdicts.get_mut(&key)
            && matches!(verdict, Verdict::Neither(_))
        {
            *verdict = Verdict::Certified(shown);
        }
        Use::Collect
    }

    /// A lot or place is settled under a certificate of the current view: nothing of it is open any more.
    pub fn settle(&mut self, key: &K) {
        self.verdicts.remove(key);
    }

    /// What is shown of what crossed and has not settled, by a member that stops again.
    pub fn shown(&self) -> impl Iterator<Item = (K, Vec<Shown>)> {
        self.verdicts.iter().map(|(key, verdict)| (*key, verdict.shown()))
    }

    /// What is to be asked for in the current view: all that was shown and has not settled.
    pub fn open(&self) -> impl Iterator<Item = &K> {
        self.verdicts.keys()
    }

    /// Bytes held, for memory accounting.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let held = |verdict: &Verdict| match verdict {
            Verdict::Certified(shown) => shown.certificate.as_ref().map_or(0, |proof| proof.len() as u64),
            Verdict::May(_) | Verdict::Neither(_) | Verdict::Broken(_) => 0,
        };
        let each = (size_of::<K>() + size_of::<Verdict>()) as u64;
        self.verdicts.values().map(|verdict| each + held(verdict)).sum()
    }
}

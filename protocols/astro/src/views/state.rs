//! What a member keeps when it stops in a view, and what becomes of the words of a quorum of members (specification 4.11).
//!
//! *Merge rule*, per lot of a lane and per place of a log. A certificate wins. Else one digest was shown: it alone may be accepted in
//! the new view. Else two were: neither may be without a certificate. A lot at or below one that is certified in its lane is what
//! the chain under that certificate names. Every certificate that was formed in the old view has a correct signer in
//! every quorum of states, so whatever it certifies is shown; what members accept in the new view never contradicts it.
//!
//! *Again.* A member that merged and stops before it resumed shows all that it was shown, also of the last slots up to the tips, so nothing is
//! lost over several views.
//!
//! *Bounds.* [`STATE_MAX`](super::STATE_MAX) bytes in all; at most two digests per lot and place, of one member and of all.

use std::collections::BTreeMap;

use synod_crypto::Hash;
use synod_ledger::EntryId;
use synod_machine::broadcast::Lot;
use synod_wire::{Blob, Bytes, Limits, List, Wire, wire};

use super::words::STATE_MAX;

/// Longest certificate in a state, in bytes.
pub const PROOF_MAX: usize = 64 << 10;
/// Most lots, and most places, of a state: two digests of each slot that 128 lanes work on, and one of as many below.
pub const SHOWN_MAX: usize = 49_152;

wire! {
    /// What a member accepted, and perhaps knows to be certified.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Shown {
        /// Of the batch, or of the entry; zero where something is known to be certified, and not what.
        pub digest: Hash,
        /// What certifies it, if the member has that: of use to those who know what proves what.
        pub certificate: Option<Blob<PROOF_MAX>>,
    }

    /// A lane up to which all batches are certified at a member.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Tip {
        /// The last of them.
        pub lot: Lot,
        /// It.
        pub shown: Shown,
    }

    /// A batch above the tip of its lane, or a few below.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ShownLot {
        /// Which.
        pub lot: Lot,
        /// It.
        pub shown: Shown,
    }

    /// An entry that its owner signed, and that no batch up to the tip of its lane certifies. What institutions vouch for stands in
    /// batches of their own lanes alone.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ShownEntry {
        /// Its place.
        pub id: EntryId,
        /// It.
        pub shown: Shown,
    }

    /// What a member keeps.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Kept {
        /// One per lane, in order.
        pub tips: List<Tip, 128>,
        /// One per lane in which it has not reached what was certified before its view began, in order: the highest that it was shown.
        pub behind: List<Tip, 128>,
        /// In order; two for a lot at most.
        pub lots: List<ShownLot, SHOWN_MAX>,
        /// In order; two for a place at most.
        pub entries: List<ShownEntry, SHOWN_MAX>,
    }
}

impl Kept {
    /// What these bytes hold, if they are a state: in order, and of no lot and place more than two.
    #[must_use]
    pub fn of(state: &Bytes) -> Option<Self> {
        let limits = Limits { frame_max: u32::try_from(STATE_MAX).unwrap_or(u32::MAX) };
        let kept = Self::decode(state.clone(), &limits).ok()?;
        let is_of_lanes =
            |tips: &List<Tip, 128>| tips.is_sorted_by(|one, next| one.lot.source < next.lot.source);
        let tips = is_of_lanes(&kept.tips) && is_of_lanes(&kept.behind);
        let are_tips = kept.certified().all(|tip| tip.shown.certificate.is_some());
        let lots =
            kept.lots.is_sorted_by(|one, next| (one.lot, one.shown.digest) < (next.lot, next.shown.digest));
        let entries =
            kept.entries.is_sorted_by(|one, next| (one.id, one.shown.digest) < (next.id, next.shown.digest));
        let two_lots = kept.lots.windows(3).all(|three| three[0].lot != three[2].lot);
        let two_entries = kept.entries.windows(3).all(|three| three[0].id != three[2].id);
        (tips && are_tips && lots && entries && two_lots && two_entries).then_some(kept)
    }

    /// All that it shows certificates of.
    pub(crate) fn certified(&self) -> impl Iterator<Item = &Tip> {
        self.tips.iter().chain(self.behind.iter())
    }
}

/// What becomes of a lot, or of a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// This is certified.
    Certified(Shown),
    /// This alone was shown: it alone may be accepted.
    May(Hash),
    /// These were shown: neither may be accepted without a certificate.
    Neither([Hash; 2]),
    /// Both are certified: more members lie than may. Neither counts.
    Broken([Hash; 2]),
}

impl Verdict {
    fn of(shown: Shown) -> Self {
        if shown.certificate.is_some() { Self::Certified(shown) } else { Self::May(shown.digest) }
    }

    /// With what one more member showed.
    fn with(self, shown: Shown) -> Self {
        match self {
            Self::Certified(one) if shown.certificate.is_some() && one.digest != shown.digest => {
                Self::Broken([one.digest, shown.digest])
            }
            Self::Certified(_) | Self::Broken(_) => self,
            Self::May(_) | Self::Neither(_) if shown.certificate.is_some() => Self::Certified(shown),
            Self::May(one) if one != shown.digest => Self::Neither([one, shown.digest]),
            Self::May(_) | Self::Neither(_) => self,
        }
    }

    /// Whether a member of the new view may accept this without a certificate of the new view.
    #[must_use]
    pub fn allows(&self, digest: &Hash) -> bool {
        match self {
            Self::Certified(shown) => shown.digest == *digest,
            Self::May(only) => only == digest,
            Self::Neither(_) | Self::Broken(_) => false,
        }
    }

    /// All that was shown: what a member shows that has to stop again before it resumed.
    #[must_use]
    pub fn shown(&self) -> Vec<Shown> {
        let bare = |digest: &Hash| Shown { digest: *digest, certificate: None };
        match self {
            Self::Certified(shown) => vec![shown.clone()],
            Self::May(only) => vec![bare(only)],
            Self::Neither(two) | Self::Broken(two) => {
                let mut two = two.map(|digest| bare(&digest)).to_vec();
                two.sort_by_key(|shown| shown.digest);
                two
            }
        }
    }
}

/// What comes of the states of a quorum.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// By lane: the highest tip. Lots at or below it are what its chain names.
    pub tips: BTreeMap<u8, Tip>,
    /// Lots above the tip of their lane.
    pub lots: BTreeMap<Lot, Verdict>,
    /// Places.
    pub entries: BTreeMap<EntryId, Verdict>,
}

/// Adds what one more member showed.
pub(super) fn add<K: Ord>(all: &mut BTreeMap<K, Verdict>, key: K, shown: Shown) {
    let verdict = match all.remove(&key) {
        Some(verdict) => verdict.with(shown),
        None => Verdict::of(shown),
    };
    all.insert(key, verdict);
}

/// Merges what members kept; their certificates were checked. The order of states changes nothing but which two of more
/// digests a [`Verdict::Neither`] names, and which of equal certificates stays.
#[must_use]
pub fn merge_states(states: impl IntoIterator<Item = Kept>) -> Merged {
    let mut merged = Merged::default();
    for kept in states {
        for tip in kept.tips {
            let lane = tip.lot.source;
            let is_higher = |known: &Tip| known.lot.sequence < tip.lot.sequence;
            if merged.tips.get(&lane).is_none_or(is_higher) {
                merged.tips.insert(lane, tip);
            }
        }
        for one in kept.lots {
            add(&mut merged.lots, one.lot, one.shown);
        }
        for one in kept.entries {
            add(&mut merged.entries, one.id, one.shown);
        }
    }
    let tips = &merged.tips;
    let is_above = |lot: &Lot| tips.get(&lot.source).is_none_or(|tip| lot.sequence > tip.lot.sequence);
    merged.lots.retain(|lot, _| is_above(lot));
    merged
}

#[cfg(test)]
mod tests;

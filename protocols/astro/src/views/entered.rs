//! How a member entered a view: what states of a quorum told it, once they are merged.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use synod_crypto::Hash;
use synod_ledger::EntryId;
use synod_machine::broadcast::{Begun, Lot, View as BroadcastView};
use synod_quorum::{NodeId, NodeSet};
use synod_wire::{List, wire};

use super::roll::{Founding, Roll};
use super::state::{Kept, SHOWN_MAX, Shown, Verdict, merge_states};
use super::view::{CHANGES_MAX, Change, View};

/// Most slots, and most places, that states of a quorum tell of.
const PINNED_MAX: usize = 128 * SHOWN_MAX;

/// Slots below a tip of a member that leaves which are open again, at most: as many as are worked on, twice.
const GONE_MAX: u64 = 128;

wire! {
    /// What was shown in a place, or in a slot.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Pin {
        /// One: it alone may be accepted. Two: neither may without a certificate.
        pub digests: List<Hash, 2>,
    }

    /// Of a slot of a lane.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct PinnedLot {
        /// Which.
        pub lot: Lot,
        /// See there.
        pub pin: Pin,
    }

    /// Of a place of a log.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct PinnedEntry {
        /// Which.
        pub id: EntryId,
        /// See there.
        pub pin: Pin,
    }

    /// What a member goes on from in a view.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Entered {
        /// The views up to this one, the first one and itself included.
        pub views: List<View, { CHANGES_MAX + 1 }>,
        /// By lane: all up to here is certified.
        pub tips: List<Lot, 128>,
        /// Above.
        pub lots: List<PinnedLot, PINNED_MAX>,
        /// Of places.
        pub entries: List<PinnedEntry, PINNED_MAX>,
    }
}

/// Slots between the tip of a member that stays and a higher one that a member which leaves showed are open again: whoever has their
/// certificates may be gone. Of the last of them the payload is known, and what nobody else shows of the others an older certificate decides.
fn lower(state: &mut Kept, here: &BTreeMap<u8, u64>, gone: &mut BTreeMap<Lot, Option<Hash>>) {
    let mut tips = std::mem::take(&mut state.tips).into_vec();
    tips.retain(|tip| {
        let Lot { source, sequence } = tip.lot;
        let stays = here.get(&source).copied().unwrap_or_default();
        let is_known = sequence <= stays;
        if !is_known {
            let first = stays.max(sequence.saturating_sub(GONE_MAX)).saturating_add(1);
            for between in first..sequence {
                gone.entry(Lot { source, sequence: between }).or_insert(None);
            }
            gone.insert(tip.lot, Some(tip.shown.digest));
        }
        is_known
    });
    state.tips = tips.try_into().unwrap_or_default();
}

impl Pin {
    fn of(verdict: &Verdict) -> Self {
        let mut digests: Vec<Hash> = verdict.shown().into_iter().map(|shown| shown.digest).collect();
        digests.retain(|digest| *digest != Hash::ZERO);
        Self { digests: digests.try_into().unwrap_or_default() }
    }

    /// One digest alone.
    pub(crate) fn only(digest: Hash) -> Self {
        Self { digests: vec![digest].try_into().unwrap_or_default() }
    }

    /// Whether this may be accepted without a certificate.
    #[must_use]
    pub fn allows(&self, digest: &Hash) -> bool {
        matches!(&self.digests[..], [only] if only == digest)
    }

    /// What is shown of it by whoever stops again.
    pub(crate) fn shown(&self) -> impl Iterator<Item = Shown> {
        self.digests.iter().map(|digest| Shown { digest: *digest, certificate: None })
    }
}

impl Entered {
    /// What states of a quorum, each with its member, come to for a member of the last of these views.
    #[must_use]
    pub fn merged(rolls: &[Arc<Roll>], states: Vec<(u8, Kept)>) -> Self {
        let stays = |member: u8| rolls.last().is_some_and(|to| to.members().contains(NodeId::from(member)));
        let mut here: BTreeMap<u8, u64> = BTreeMap::new();
        for tip in states.iter().filter(|(member, _)| stays(*member)).flat_map(|(_, kept)| kept.tips.iter()) {
            let known = here.entry(tip.lot.source).or_default();
            *known = tip.lot.sequence.max(*known);
        }
        let (mut gone, mut kept) = (BTreeMap::new(), Vec::new());
        for (member, mut state) in states {
            if !stays(member) {
                lower(&mut state, &here, &mut gone);
            }
            kept.push(state);
        }
        let mut merged = merge_states(kept);
        for (lot, digest) in gone {
            match digest {
                // Its certificate was shown.
                Some(digest) => drop(merged.lots.insert(lot, Verdict::May(digest))),
                None => drop(merged.lots.entry(lot).or_insert(Verdict::Neither([Hash::ZERO; 2]))),
            }
        }
        let views: Vec<View> = rolls.iter().map(|roll| roll.view().clone()).collect();
        let tips: Vec<Lot> = merged.tips.values().map(|tip| tip.lot).collect();
        let lots: Vec<PinnedLot> =
            merged.lots.iter().map(|(lot, verdict)| PinnedLot { lot: *lot, pin: Pin::of(verdict) }).collect();
        let entries: Vec<PinnedEntry> = merged
            .entries
            .iter()
            .map(|(id, verdict)| PinnedEntry { id: *id, pin: Pin::of(verdict) })
            .collect();
        Self {
            views: views.try_into().unwrap_or_default(),
            tips: tips.try_into().unwrap_or_default(),
            lots: lots.try_into().unwrap_or_default(),
            entries: entries.try_into().unwrap_or_default(),
        }
    }

    /// Its number: as many changes as it has.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.views.last().map_or(0, View::number)
    }

    /// The view, and what of older ones is good in it; `None` where it is none.
    #[must_use]
    pub fn begun(&self, founding: &Founding) -> Option<(Arc<BroadcastView>, Begun)> {
        let rolls: Option<Vec<Arc<Roll>>> = self.views.iter().map(|view| Roll::of(founding, view)).collect();
        let rolls = rolls?;
        let (to, before) = rolls.split_last()?;
        let begun = Begun {
            older: before.iter().map(|roll| roll.broadcasts()).collect(),
            sources: rolls.iter().fold(NodeSet::EMPTY, |all, roll| all.or(roll.members())),
            tips: self.tips.iter().map(|tip| (tip.source, tip.sequence)).collect(),
            slots: self.slots(),
        };
        Some((to.broadcasts(), begun))
    }

    fn slots(&self) -> BTreeMap<Lot, Option<Hash>> {
        let only = |pin: &Pin| match &pin.digests[..] {
            [only] => Some(*only),
            _ => None,
        };
        self.lots.iter().map(|one| (one.lot, only(&one.pin))).collect()
    }

    /// Whose lanes there are: those of members, and of all who ever were.
    pub(crate) fn sources(&self, members: NodeSet) -> NodeSet {
        let joined = |change: &Change| match change {
            Change::Join { member, .. } | Change::Leave { member } => NodeId::from(*member),
        };
        let all = self.views.iter().flat_map(|view| view.changes().map(joined));
        members.or(all.collect())
    }

    /// What is told of places.
    #[must_use]
    pub fn pins(&self) -> BTreeMap<EntryId, Pin> {
        self.entries.iter().map(|one| (one.id, one.pin.clone())).collect()
    }

    /// Puts what this member has itself: of slots that are certified here, nothing else is.
    pub(crate) fn keep_own(&mut self, own: BTreeMap<Lot, Hash>) {
        let named: BTreeSet<Lot> = own.keys().copied().collect();
        let mut lots: Vec<PinnedLot> =
            self.lots.iter().filter(|one| !named.contains(&one.lot)).cloned().collect();
        lots.extend(own.into_iter().map(|(lot, digest)| PinnedLot { lot, pin: Pin::only(digest) }));
        lots.sort_by_key(|one| one.lot);
        self.lots = lots.try_into().unwrap_or_default();
    }

    /// Bytes held, for memory accounting.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let views: usize = self.views.iter().map(|view| 64 + 40 * view.changes().count()).sum();
        let pins =
            self.lots.len() * 2 * size_of::<PinnedLot>() + self.entries.len() * size_of::<PinnedEntry>();
        (size_of::<Self>() + views + pins) as u64
    }
}

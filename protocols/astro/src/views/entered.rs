//! How a member entered a view: what states of a quorum told it, once they are merged.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use synod_crypto::Hash;
use synod_ledger::EntryId;
use synod_machine::broadcast::{Begun, Lot, View as BroadcastView};
use synod_quorum::{NodeId, NodeSet};
use synod_wire::{List, wire};

use super::roll::{Founding, Roll};
use super::state::{self, Kept, SHOWN_MAX, Shown, Tip, Verdict, merge_states};
use super::view::{CHANGES_MAX, Change, View};

/// Most slots, and most places, that states of a quorum tell of.
const PINNED_MAX: usize = 128 * SHOWN_MAX;

/// Slots of a lane below its tip that a state tells of, and that are open again where nobody who stays has reached it: as many as are
/// worked on, twice.
pub(crate) const BELOW_MAX: u64 = 128;
const _: () = assert!(LOWER_MAX as u64 == 128 * BELOW_MAX);

/// Most slots up to the tips that are passed on.
const LOWER_MAX: usize = 128 * 128;

/// Something is certified here, and not known.
pub(crate) const UNKNOWN: Shown = Shown { digest: Hash::ZERO, certificate: None };

wire! {
    /// What was shown in a place, or in a slot.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
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
        /// By lane: the highest slot of which a certificate was shown. Above the tip where nobody who stays has all before it.
        pub shown: List<Tip, 128>,
        /// Above.
        pub lots: List<PinnedLot, PINNED_MAX>,
        /// Up to the tips, [`BELOW_MAX`] of each lane at most. Certificates of older views alone settle these. They are passed on, for the next
        /// view may lower a tip that nobody who stays has reached.
        pub below: List<PinnedLot, LOWER_MAX>,
        /// Of places.
        pub entries: List<PinnedEntry, PINNED_MAX>,
    }
}

/// Tips that perhaps no correct member who stays has reached, of the lanes of one state: members that leave have them, or liars, or members were
/// told of them and lack what is before them. Whoever has their certificates may be gone or keep them back, so the slots up to each are open again.
#[derive(Default)]
struct Lowered {
    /// Whose certificates were shown.
    certified: BTreeMap<Lot, Hash>,
    /// What is certified before them, and whoever showed so does not know.
    unknown: BTreeSet<Lot>,
    /// By lane: so far at least all is certified, since more slots than one looks at are open.
    floors: BTreeMap<u8, u64>,
}

impl Lowered {
    /// Takes such tips out of a state.
    fn lower(&mut self, state: &mut Kept, here: &BTreeMap<u8, u64>) {
        let staying = |source: u8| here.get(&source).copied().unwrap_or_default();
        let is_reached = |tip: &Tip| tip.lot.sequence <= staying(tip.lot.source);
        let own = std::mem::take(&mut state.tips).into_vec();
        let (kept, mut open): (Vec<Tip>, Vec<Tip>) = own.into_iter().partition(is_reached);
        open.extend(std::mem::take(&mut state.behind).into_vec().into_iter().filter(|tip| !is_reached(tip)));
        state.tips = kept.try_into().unwrap_or_default();
        let shown: BTreeSet<Lot> = state.lots.iter().map(|one| one.lot).collect();
        for Tip { lot, shown: Shown { digest, .. } } in open {
            let Lot { source, sequence } = lot;
            let first = staying(source).max(sequence.saturating_sub(BELOW_MAX)).saturating_add(1);
            let between = (first..sequence).map(|sequence| Lot { source, sequence });
            self.unknown.extend(between.filter(|lot| !shown.contains(lot)));
            let floor = self.floors.entry(source).or_default();
            *floor = first.saturating_sub(1).max(*floor);
            self.certified.insert(lot, digest);
        }
    }

    /// What members of the new view may accept of them.
    fn pin(&self, lots: &mut BTreeMap<Lot, Verdict>) {
        self.unknown.iter().for_each(|lot| state::add(lots, *lot, UNKNOWN));
        for (lot, digest) in &self.certified {
            lots.insert(*lot, Verdict::May(*digest));
        }
    }
}

/// What a state tells of the slots up to the tips of a view.
struct Below {
    /// All that it shows certificates of.
    certified: Vec<Tip>,
}

impl Below {
    fn of(state: &Kept) -> Self {
        Self { certified: state.certified().cloned().collect() }
    }

    /// Adds it. What a state does not show and shows the next ones' certificate of is certified, and not known.
    fn tell(&self, state: &Kept, tips: &BTreeMap<u8, u64>, lots: &mut BTreeMap<Lot, Verdict>) {
        let told = |source: u8| below(tips.get(&source).copied().unwrap_or_default());
        let is_told = |lot: &Lot| told(lot.source).contains(&lot.sequence);
        let shown = state.lots.iter().filter(|one| is_told(&one.lot));
        let named: BTreeSet<Lot> = shown.clone().map(|one| one.lot).collect();
        shown.for_each(|one| state::add(lots, one.lot, one.shown.clone()));
        for Tip { lot, shown } in &self.certified {
            let source = lot.source;
            let before = told(source).take_while(|sequence| *sequence < lot.sequence);
            let unknown = before.map(|sequence| Lot { source, sequence }).filter(|lot| !named.contains(lot));
            unknown.for_each(|lot| state::add(lots, lot, UNKNOWN));
            if is_told(lot) {
                state::add(lots, *lot, shown.clone());
            }
        }
    }
}

/// The slots up to a tip that are told of.
fn below(tip: u64) -> std::ops::RangeInclusive<u64> {
    tip.saturating_sub(BELOW_MAX).saturating_add(1)..=tip
}

impl Pin {
    fn of(verdict: &Verdict) -> Self {
        let mut digests: Vec<Hash> = verdict.shown().into_iter().map(|shown| shown.digest).collect();
        // Beside what is not known, nothing that is shown need be it.
        if digests.contains(&Hash::ZERO) {
            digests.clear();
        }
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
        let unknown = self.digests.is_empty().then_some(UNKNOWN);
        let known = self.digests.iter().map(|digest| Shown { digest: *digest, certificate: None });
        known.chain(unknown)
    }
}

impl PinnedLot {
    /// What a certificate settles and two were shown of is not known.
    fn alone(mut self) -> Self {
        if self.pin.digests.len() > 1 {
            self.pin = Pin::default();
        }
        self
    }
}

/// By lane: what a correct member of the new view has all certificates up to, for one more shows that than may lie.
fn reached(to: Option<&Roll>, states: &[(u8, Kept)]) -> BTreeMap<u8, u64> {
    let Some(to) = to else { return BTreeMap::new() };
    let staying = states.iter().filter(|(member, _)| to.members().contains(NodeId::from(*member)));
    let mut all: BTreeMap<u8, Vec<u64>> = BTreeMap::new();
    for tip in staying.flat_map(|(_, kept)| kept.tips.iter()) {
        all.entry(tip.lot.source).or_default().push(tip.lot.sequence);
    }
    let nth = usize::try_from(to.quorums().faulty()).unwrap_or(usize::MAX);
    let reached = all.into_iter().filter_map(|(lane, mut tips)| {
        tips.sort_unstable_by(|one, other| other.cmp(one));
        Some((lane, *tips.get(nth)?))
    });
    reached.collect()
}

/// Keeps the highest tip of each lane.
fn highest(shown: &mut BTreeMap<u8, Tip>, tip: &Tip) {
    let is_known = |known: &Tip| known.lot.sequence >= tip.lot.sequence;
    if !shown.get(&tip.lot.source).is_some_and(is_known) {
        shown.insert(tip.lot.source, tip.clone());
    }
}

impl Entered {
    /// What states of a quorum, each with its member, come to for a member of the last of these views.
    #[must_use]
    pub fn merged(rolls: &[Arc<Roll>], states: Vec<(u8, Kept)>) -> Self {
        let here = reached(rolls.last().map(|roll| &**roll), &states);
        let (mut lowered, mut kept, mut shown) = (Lowered::default(), Vec::new(), BTreeMap::new());
        for (_, mut state) in states {
            state.certified().for_each(|tip| highest(&mut shown, tip));
            let below = Below::of(&state);
            lowered.lower(&mut state, &here);
            kept.push((below, state));
        }
        let mut tips = std::mem::take(&mut lowered.floors);
        for tip in kept.iter().flat_map(|(_, state)| state.tips.iter().map(|tip| tip.lot)) {
            let known = tips.entry(tip.source).or_default();
            *known = tip.sequence.max(*known);
        }
        tips.retain(|_, sequence| *sequence > 0);
        let mut told = BTreeMap::new();
        kept.iter().for_each(|(below, state)| below.tell(state, &tips, &mut told));
        let mut merged = merge_states(kept.into_iter().map(|(_, state)| state));
        lowered.pin(&mut merged.lots);
        merged.lots.retain(|lot, _| tips.get(&lot.source).is_none_or(|tip| lot.sequence > *tip));
        let views: Vec<View> = rolls.iter().map(|roll| roll.view().clone()).collect();
        let tips: Vec<Lot> = tips.into_iter().map(|(source, sequence)| Lot { source, sequence }).collect();
        let shown: Vec<Tip> = shown.into_values().collect();
        let pinned = |(lot, verdict): (&Lot, &Verdict)| PinnedLot { lot: *lot, pin: Pin::of(verdict) };
        let lots: Vec<PinnedLot> = merged.lots.iter().map(pinned).collect();
        let below = told.iter().map(pinned).map(PinnedLot::alone).collect::<Vec<_>>();
        let entries: Vec<PinnedEntry> = merged
            .entries
            .iter()
            .map(|(id, verdict)| PinnedEntry { id: *id, pin: Pin::of(verdict) })
            .collect();
        Self {
            views: views.try_into().unwrap_or_default(),
            tips: tips.try_into().unwrap_or_default(),
            shown: shown.try_into().unwrap_or_default(),
            lots: lots.try_into().unwrap_or_default(),
            below: below.try_into().unwrap_or_default(),
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

    /// Whether a certificate was shown of this slot or of one behind it, and of all payloads this one alone.
    pub(crate) fn names(&self, lot: Lot, digest: &Hash) -> bool {
        let is_behind = |tip: &Tip| tip.lot.source == lot.source && tip.lot.sequence >= lot.sequence;
        self.shown.iter().any(is_behind) && self.pin(lot).is_some_and(|pin| pin.allows(digest))
    }

    /// Whether a slot is open to nothing but a certificate.
    pub(crate) fn is_unknown(&self, lot: Lot) -> bool {
        self.pin(lot).is_some_and(|pin| pin.digests.len() != 1)
    }

    fn pin(&self, lot: Lot) -> Option<&Pin> {
        let at = self.lots.binary_search_by_key(&lot, |one| one.lot).ok()?;
        self.lots.get(at).map(|one| &one.pin)
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
        let slots = (self.lots.len() + self.below.len()) * 2 * size_of::<PinnedLot>();
        let pins = slots + self.entries.len() * size_of::<PinnedEntry>();
        let proof = |tip: &Tip| tip.shown.certificate.as_ref().map_or(0, |proof| proof.len());
        let shown: usize = self.shown.iter().map(|tip| size_of::<Tip>() + proof(tip)).sum();
        (size_of::<Self>() + views + pins + shown) as u64
    }
}

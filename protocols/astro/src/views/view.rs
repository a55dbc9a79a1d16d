//! Views as sets of changes, and lists of views that are ordered by inclusion.

use std::collections::BTreeSet;

use synod_crypto::Hash;
use synod_quorum::PublicKey;
use synod_wire::{Draw, Drawn, Malformed, Reader, Why, Wire, Writer, wire};

/// Most changes of a view: each of 128 numbers joins once and leaves once.
pub const CHANGES_MAX: usize = 256;

wire! {
    /// One step of the membership.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Change {
        /// A member takes a number that nobody had.
        0 = Join {
            /// The number, for good.
            member: u8,
            /// Signs its statements.
            key: PublicKey,
        },
        /// A member goes; its number never returns.
        1 = Leave {
            /// Whose.
            member: u8,
        },
    }

    /// A view by its names: the number is the epoch of its statements.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct ViewId {
        /// How many changes it has.
        pub number: u32,
        /// Of the changes.
        pub digest: Hash,
    }
}

/// A view: all changes since the genesis, whose view has none.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct View(BTreeSet<Change>);

impl View {
    /// The view of these changes; `None` for more than there can be.
    #[must_use]
    pub fn of(changes: impl IntoIterator<Item = Change>) -> Option<Self> {
        let changes: BTreeSet<Change> = changes.into_iter().take(CHANGES_MAX + 1).collect();
        (changes.len() <= CHANGES_MAX).then_some(Self(changes))
    }

    /// Its changes, in order.
    pub fn changes(&self) -> impl Iterator<Item = &Change> {
        self.0.iter()
    }

    /// Whether a change is made in it.
    #[must_use]
    pub fn contains(&self, change: &Change) -> bool {
        self.0.contains(change)
    }

    /// How many changes it has: its number.
    #[must_use]
    pub fn number(&self) -> u32 {
        u32::try_from(self.0.len()).unwrap_or(u32::MAX)
    }

    /// Its names.
    #[must_use]
    pub fn id(&self) -> ViewId {
        ViewId { number: self.number(), digest: Hash::of_value("synod astro view", self) }
    }

    /// Whether everything here is there as well.
    #[must_use]
    pub fn within(&self, other: &Self) -> bool {
        self.0.is_subset(&other.0)
    }

    /// Whether it is above another: more of the same.
    #[must_use]
    pub fn is_above(&self, other: &Self) -> bool {
        self.0.len() > other.0.len() && other.within(self)
    }

    /// Both together; `None` for more changes than there can be.
    #[must_use]
    pub fn and(&self, other: &Self) -> Option<Self> {
        Self::of(self.0.union(&other.0).copied())
    }
}

impl Wire for View {
    fn write(&self, out: &mut Writer) {
        write_changes(&self.0, out);
    }

    fn read(input: &mut Reader) -> Result<Self, Malformed> {
        read_changes(input).map(Self)
    }

    fn size_hint(&self) -> usize {
        5 + 34 * self.0.len()
    }
}

impl Draw for View {
    fn draw(from: &mut Drawn) -> Self {
        Self((0..from.length(4)).map(|_| Change::draw(from)).collect())
    }
}

fn write_changes(changes: &BTreeSet<Change>, out: &mut Writer) {
    out.count(changes.len());
    for change in changes {
        change.write(out);
    }
}

fn read_changes(input: &mut Reader) -> Result<BTreeSet<Change>, Malformed> {
    let refusal = input.refuse(Why::NotCanonical);
    let mut changes = BTreeSet::new();
    for _ in 0..input.count(CHANGES_MAX)? {
        let change = Change::read(input)?;
        if changes.last().is_some_and(|last| *last >= change) {
            return Err(refusal);
        }
        changes.insert(change);
    }
    Ok(changes)
}

/// Views above a base, each with more changes than the one before: what is added each time.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sequence(Vec<BTreeSet<Change>>);

impl Sequence {
    /// The sequence of these views, which rise, above a base; `None` if one is not above the one before.
    #[must_use]
    pub fn above(base: &View, views: &[View]) -> Option<Self> {
        let below = std::iter::once(base).chain(views);
        let steps = below.zip(views).map(|(below, view)| {
            view.is_above(below).then(|| view.0.difference(&below.0).copied().collect())
        });
        steps.collect::<Option<Vec<_>>>().map(Self)
    }

    /// Its views above a base; `None` where it adds what the base has, or more than there can be.
    #[must_use]
    pub fn views(&self, base: &View) -> Option<Vec<View>> {
        let mut view = base.clone();
        let mut views = Vec::with_capacity(self.0.len());
        for step in &self.0 {
            if step.iter().any(|change| view.contains(change)) {
                return None;
            }
            view = View::of(view.0.union(step).copied())?;
            views.push(view.clone());
        }
        Some(views)
    }

    /// What comes behind the least view, above that one.
    #[must_use]
    pub fn rest(&self) -> Self {
        Self(self.0.iter().skip(1).cloned().collect())
    }

    /// Whether it has no view.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many views it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// All that it adds.
    pub fn changes(&self) -> impl Iterator<Item = &Change> {
        self.0.iter().flatten()
    }

    /// What stands for it in statements.
    #[must_use]
    pub fn digest(&self) -> Hash {
        Hash::of_value("synod astro views", self)
    }

    /// Bytes held, for memory accounting.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let changes: usize = self.0.iter().map(|step| 64 + step.len() * size_of::<Change>()).sum();
        changes as u64
    }
}

impl Wire for Sequence {
    fn write(&self, out: &mut Writer) {
        out.count(self.0.len());
        for step in &self.0 {
            write_changes(step, out);
        }
    }

    /// At most [`CHANGES_MAX`] changes in all, no step without one, none twice.
    fn read(input: &mut Reader) -> Result<Self, Malformed> {
        let refusal = input.refuse(Why::NotCanonical);
        let (mut steps, mut all) = (Vec::new(), BTreeSet::new());
        for _ in 0..input.count(CHANGES_MAX)? {
            let step = read_changes(input)?;
            let before = all.len();
            all.extend(step.iter().copied());
            if step.is_empty() || all.len() != before.saturating_add(step.len()) || all.len() > CHANGES_MAX {
                return Err(refusal);
            }
            steps.push(step);
        }
        Ok(Self(steps))
    }

    fn size_hint(&self) -> usize {
        5 + self.0.iter().map(|step| 5 + 34 * step.len()).sum::<usize>()
    }
}

impl Draw for Sequence {
    fn draw(from: &mut Drawn) -> Self {
        let (mut all, mut steps) = (BTreeSet::new(), Vec::new());
        for _ in 0..from.length(3) {
            let step: BTreeSet<Change> = View::draw(from).0.difference(&all).copied().collect();
            all.extend(step.iter().copied());
            if !step.is_empty() {
                steps.push(step);
            }
        }
        Self(steps)
    }
}

/// Two lists of views, each rising, as one; `None` if they are not ordered by inclusion.
#[must_use]
pub fn merged(one: &[View], other: &[View]) -> Option<Vec<View>> {
    let mut all: Vec<View> = one.iter().chain(other).cloned().collect();
    all.sort_by_key(View::number);
    all.dedup();
    all.is_sorted_by(|lower, upper| upper.is_above(lower)).then_some(all)
}

#[cfg(test)]
mod tests {
    use synod_wire::Limits;

    use super::*;

    fn leave(members: &[u8]) -> View {
        View::of(members.iter().map(|member| Change::Leave { member: *member })).expect("few")
    }

    #[test]
    fn lists_are_one_where_inclusion_orders_them_and_none_where_not() {
        let [five, six, both] = [&[5][..], &[6], &[5, 6]].map(|members| [leave(members)]);
        let ordered = [five.clone(), both.clone()].concat();
        assert_eq!(merged(&five, &both), Some(ordered));
        assert_eq!(merged(&both, &both), Some(both.to_vec()));
        assert_eq!(merged(&five, &six), None);
        let ([five], [both]) = (five, both);
        assert!(both.is_above(&five) && !five.is_above(&five) && five.within(&five));
    }

    #[test]
    fn a_sequence_gives_back_its_views_and_the_rest_stands_above_the_least() {
        let base = leave(&[1]);
        let views = [leave(&[1, 5]), leave(&[1, 5, 6, 7])];
        let sequence = Sequence::above(&base, &views).expect("they rise");
        assert_eq!(sequence.views(&base), Some(views.to_vec()));
        assert_eq!(sequence.rest().views(&views[0]), Some(vec![views[1].clone()]));
        assert_eq!(sequence.views(&leave(&[6])), None, "it adds what that base has");
        assert_eq!(Sequence::above(&views[0], &views), None, "the first is not above its base");
        let again = Sequence::decode(sequence.encode(), &Limits::default());
        assert_eq!(again, Ok(sequence));
    }

    #[test]
    fn no_sequence_has_an_empty_step_or_a_change_twice() {
        let twice = Sequence(vec![leave(&[5]).0, leave(&[5, 6]).0]);
        assert!(Sequence::decode(twice.encode(), &Limits::default()).is_err());
        let empty = Sequence(vec![BTreeSet::new()]);
        assert!(Sequence::decode(empty.encode(), &Limits::default()).is_err());
        let unordered = synod_wire::Bytes::from_static(&[1, 2, 1, 6, 1, 5]);
        assert!(Sequence::decode(unordered, &Limits::default()).is_err());
    }

    #[test]
    fn no_view_has_more_changes_than_numbers_can_make() {
        let all = (0..=255).map(|member| Change::Leave { member });
        let full = View::of(all.clone()).expect("256 are all there can be");
        assert_eq!(View::of(all.chain([Change::Join { member: 0, key: PublicKey([1; 32]) }])), None);
        assert_eq!(View::decode(full.encode(), &Limits::default()), Ok(full));
    }
}

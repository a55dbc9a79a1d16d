//! What members go on from in a view: states of a quorum, some of members that lack what was certified before.

use std::collections::BTreeMap;
use std::sync::Arc;

use synod_astro::views::{Entered, Kept, Roll, Shown, ShownLot, Tip, View};
use synod_crypto::Hash;
use synod_machine::broadcast::Lot;
use synod_wire::{Bytes, Wire};

use crate::crew::{founding, join, leave};

const LANE: u8 = 1;

const fn lot(sequence: u64) -> Lot {
    Lot { source: LANE, sequence }
}

fn shown(digest: u8, is_certified: bool) -> Shown {
    let certificate = is_certified.then(|| Bytes::from_static(b"proof").try_into().expect("short"));
    Shown { digest: Hash([digest; 32]), certificate }
}

fn tips(all: &[(u64, u8)]) -> Vec<Tip> {
    all.iter().map(|(sequence, digest)| Tip { lot: lot(*sequence), shown: shown(*digest, true) }).collect()
}

/// A state: its tip, the one that it was told of and has not reached, and what it has in slots.
fn kept(tip: &[(u64, u8)], behind: &[(u64, u8)], lots: &[(u64, u8)]) -> Kept {
    let one = |(sequence, digest): &(u64, u8)| ShownLot { lot: lot(*sequence), shown: shown(*digest, false) };
    let lots: Vec<ShownLot> = lots.iter().map(one).collect();
    let kept = Kept {
        tips: tips(tip).try_into().expect("one"),
        behind: tips(behind).try_into().expect("one"),
        lots: lots.try_into().expect("few"),
        ..Kept::default()
    };
    Kept::of(&kept.encode()).expect("a state")
}

/// Members 0 to 3, then 4 joins, then 0 leaves.
fn rolls(count: usize) -> Vec<Arc<Roll>> {
    let founding = founding(4);
    let all = [vec![], vec![join(4)], vec![join(4), leave(0)]];
    let views = all.into_iter().take(count).map(|changes| View::of(changes).expect("a view"));
    views.map(|view| Roll::of(&founding, &view).expect("a view of these founders")).collect()
}

/// What may be endorsed of the lane: `None` where an older certificate decides.
fn open(entered: &Entered) -> BTreeMap<u64, Option<u8>> {
    let (_, begun) = entered.begun(&founding(4)).expect("a view");
    begun.slots.iter().map(|(lot, digest)| (lot.sequence, digest.map(|digest| digest.0[0]))).collect()
}

/// What is passed on of slots up to the tip: zero where something is certified and not known.
fn below(entered: &Entered) -> Vec<(u64, u8)> {
    let one = |digests: &[Hash]| digests.first().map_or(0, |digest| digest.0[0]);
    entered.below.iter().map(|pinned| (pinned.lot.sequence, one(&pinned.pin.digests))).collect()
}

fn tip(entered: &Entered) -> u64 {
    entered.tips.iter().find(|tip| tip.source == LANE).map_or(0, |tip| tip.sequence)
}

/// Found by a drawn run (`astro/views:2dc83d`): a quorum of members entered a view far behind and stopped in it at once. What was certified
/// before stood in no state of theirs, and other payloads could have taken the same slots.
#[test]
fn what_was_certified_two_views_ago_stays_so_though_a_quorum_has_not_seen_it_yet() {
    let there = kept(&[(7, 7)], &[], &[(6, 6), (7, 7)]);
    let first = [(1, there.clone()), (2, there), (3, kept(&[(4, 4)], &[], &[])), (4, Kept::default())];
    let entered = Entered::merged(&rolls(2), first.to_vec());
    assert_eq!(
        (tip(&entered), open(&entered)),
        (7, BTreeMap::new()),
        "a correct member who stays has it all"
    );
    let passed: Vec<(u64, u8)> =
        entered.shown.iter().map(|tip| (tip.lot.sequence, tip.shown.digest.0[0])).collect();
    assert_eq!(passed, [(7, 7)], "and whoever stops again passes it on");
    let told: Vec<(u64, u8)> = below(&entered).into_iter().filter(|(sequence, _)| *sequence > 5).collect();
    assert_eq!(told, [(6, 6), (7, 7)], "with what was shown before it");
    // None of these is there yet, and one of them may lie.
    let second = [(2, 5), (3, 5), (4, 0)]
        .map(|(member, tip)| (member, kept(&[(tip, 4)][..usize::from(tip > 0)], &passed, &told)));
    let entered = Entered::merged(&rolls(3), second.to_vec());
    assert_eq!(tip(&entered), 5);
    assert_eq!(open(&entered), BTreeMap::from([(6, Some(6)), (7, Some(7))]));
    // And once more.
    let third =
        [(2, 5), (3, 5), (4, 5)].map(|(member, tip)| (member, kept(&[(tip, 5)], &passed, &[(6, 6), (7, 7)])));
    assert_eq!(
        open(&Entered::merged(&rolls(3), third.to_vec())),
        BTreeMap::from([(6, Some(6)), (7, Some(7))])
    );
}

/// Found by a drawn run (`astro/views:363d7fd2`): the one member with the certificate of a slot stays in one view, so the slot is below the tip
/// of that view, and leaves in the next. A member that joined between and reached nothing said that it knows nothing of the slot, and
/// it was open to nothing for ever.
#[test]
fn a_member_that_joined_and_reached_nothing_passes_on_what_was_shown_below_the_tip() {
    let there = kept(&[(2, 2)], &[], &[(1, 1), (2, 2)]);
    let first = [(0, there.clone()), (1, there), (2, kept(&[], &[], &[(1, 1)]))];
    let entered = Entered::merged(&rolls(2), first.to_vec());
    assert_eq!((tip(&entered), below(&entered)), (2, vec![(1, 1), (2, 2)]));
    let joined = kept(&[], &[(2, 2)], &below(&entered));
    let second =
        [(0, kept(&[(2, 2)], &[], &[(1, 1), (2, 2)])), (1, kept(&[], &[(2, 2)], &[(1, 1)])), (4, joined)];
    let entered = Entered::merged(&rolls(3), second.to_vec());
    assert_eq!((tip(&entered), open(&entered)), (0, BTreeMap::from([(1, Some(1)), (2, Some(2))])));
}

/// A certificate settles these: without it, and with two to choose from, nothing is told.
#[test]
fn of_two_payloads_shown_below_a_tip_neither_is_passed_on_and_beside_a_certificate_only_its_own() {
    let certified = kept(&[(7, 7)], &[], &[(6, 6), (7, 7)]);
    let other = kept(&[], &[], &[(5, 5), (6, 9), (7, 9)]);
    let also = (3, kept(&[(7, 7)], &[], &[(6, 6), (7, 7)]));
    let states = vec![(1, certified.clone()), (2, other.clone()), also.clone()];
    let entered = Entered::merged(&rolls(2), states);
    let told = BTreeMap::from_iter(below(&entered));
    assert_eq!((told[&6], told[&7]), (0, 7));
    assert_eq!(told[&5], 0, "whoever has the certificate after it does not show it: it need not be this");
    let behind = kept(&[(5, 5)], &[(7, 7)], &[(5, 5), (6, 0)]);
    let entered = Entered::merged(&rolls(2), vec![(0, behind), (1, certified), (2, other), also]);
    let told = BTreeMap::from_iter(below(&entered));
    assert_eq!((told[&5], told[&6], told[&7]), (5, 0, 7));
}

/// As many as a state shows.
#[test]
fn of_a_long_lane_the_last_slots_below_its_tip_are_passed_on() {
    let lots: Vec<(u64, u8)> = (1..=300).map(|sequence| (sequence, 3)).collect();
    let state = kept(&[(300, 3)], &[], &lots);
    let entered = Entered::merged(&rolls(2), vec![(1, state.clone()), (2, state)]);
    assert_eq!((tip(&entered), open(&entered)), (300, BTreeMap::new()));
    assert_eq!(below(&entered), (173..=300).map(|sequence| (sequence, 3)).collect::<Vec<_>>());
}

/// Found by drawn runs (`astro/views:363d83dd` and `363d84ae`): a liar shows a certificate that only it has, and gives it to nobody. Members who merged its
/// state endorsed nothing until they had it.
#[test]
fn a_slot_that_only_a_liar_shows_a_certificate_of_is_open_to_its_payload() {
    let liar = kept(&[(5, 5)], &[], &[(5, 5)]);
    let other = kept(&[(4, 4)], &[], &[(5, 5)]);
    let states = vec![(1, liar), (2, other.clone()), (3, other)];
    let entered = Entered::merged(&rolls(2), states);
    assert_eq!((tip(&entered), open(&entered)), (4, BTreeMap::from([(5, Some(5))])));
}

/// Its certificate may be gone with whoever leaves, but not what it names: the slots below are what that member shows there.
#[test]
fn slots_below_a_tip_that_only_a_leaving_member_reached_keep_the_payloads_that_it_shows() {
    let leaving = kept(&[(7, 7)], &[], &[(5, 5), (6, 6), (7, 7)]);
    let staying = kept(&[(4, 4)], &[], &[]);
    let entered =
        Entered::merged(&rolls(3), vec![(0, leaving.clone()), (1, staying.clone()), (2, staying.clone())]);
    assert_eq!(tip(&entered), 4);
    assert_eq!(open(&entered), BTreeMap::from([(5, Some(5)), (6, Some(6)), (7, Some(7))]));
    // A source that signed twice: whoever has the certificate says which it was.
    let other = kept(&[(4, 4)], &[], &[(6, 9)]);
    let entered = Entered::merged(&rolls(3), vec![(0, leaving), (1, other.clone()), (2, staying)]);
    assert_eq!(open(&entered), BTreeMap::from([(5, Some(5)), (6, None), (7, Some(7))]));
    // It does not know what it had there: nor does what another shows count.
    let forgetful = kept(&[(7, 7)], &[], &[(7, 7)]);
    let entered = Entered::merged(&rolls(3), vec![(0, forgetful), (1, other.clone()), (2, other)]);
    assert_eq!(open(&entered), BTreeMap::from([(5, None), (6, None), (7, Some(7))]));
}

/// So many slots are not listed: what nobody who stays has is waited for below, and pinned slot by slot above.
#[test]
fn a_lane_that_is_far_behind_for_all_who_stay_is_open_for_no_other_payload() {
    let leaving = kept(&[(500, 7)], &[], &[(500, 7)]);
    let entered =
        Entered::merged(&rolls(3), vec![(0, leaving), (1, kept(&[(4, 4)], &[], &[])), (2, Kept::default())]);
    let open = open(&entered);
    assert_eq!(tip(&entered), 372);
    assert_eq!(open.keys().copied().collect::<Vec<_>>(), (373..=500).collect::<Vec<_>>());
    assert!((373..500).all(|sequence| open[&sequence].is_none()) && open[&500] == Some(7));
}

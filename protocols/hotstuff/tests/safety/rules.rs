//! The packs' predicates against tables written down from the specification, exhaustive over views 0 to 6 (TS3).

use std::collections::BTreeMap;

use synod_crypto::Hash;
use synod_hotstuff::rules::{Ancestry, Ballot, is_higher};
use synod_hotstuff::{Header, Kind, Mark, Pack, Qc, Safety, Tc, View};
use synod_machine::Wall;
use synod_quorum::Epoch;
use synod_wire::List;

/// Every view of the tables.
const VIEWS: core::ops::RangeInclusive<u64> = 0..=6;

struct Known(BTreeMap<Hash, Header>);

impl Ancestry for Known {
    fn header(&self, digest: &Hash) -> Option<&Header> {
        self.0.get(digest)
    }
}

fn safety(lock: u64) -> Safety {
    let mut safety = Safety::fresh(Epoch(0), Hash::ZERO, Kind::Generic);
    safety.lock = Mark { view: View(lock), digest: Hash([9; 32]) };
    safety
}

fn qc(kind: Kind, view: u64, digest: Hash) -> Qc {
    Qc { view: View(view), ..Qc::empty(Epoch(0), kind, digest) }
}

fn header(view: u64, height: u64, justify: Qc) -> Header {
    let genesis = Header::genesis(Epoch(0), Kind::Generic);
    Header { view: View(view), height, parent: justify.digest, justify, time: Wall(view), ..genesis }
}

fn tc(view: u64, highest: u64) -> Tc {
    let complaint = synod_hotstuff::Complaint {
        member: 0,
        high: View(highest),
        signature: synod_crypto::Signature([0; 64]),
    };
    Tc {
        epoch: Epoch(0),
        view: View(view),
        complaints: List::try_from(vec![complaint]).expect("one complaint"),
        high: qc(Kind::Generic, highest, Hash::ZERO),
    }
}

/// What the specification's table says about a vote.
fn table_says(
    pack: Pack,
    (lock, justify, view): (u64, u64, u64),
    extends: bool,
    tc: Option<(u64, u64)>,
) -> bool {
    match pack {
        Pack::Basic | Pack::Chain3 | Pack::Paper => extends || justify > lock,
        Pack::Chain2 | Pack::Chain2Order => {
            justify + 1 == view || tc.is_some_and(|(of, highest)| of + 1 == view && justify >= highest)
        }
        Pack::Hs2 | Pack::Naive2 => justify >= lock,
    }
}

/// TS3: `may_vote` of every pack.
#[test]
fn each_pack_votes_exactly_where_its_table_says() {
    for pack in Pack::ALL {
        let rules = pack.rules();
        let (mut yes, mut no) = (0, 0);
        let evidence: Vec<Option<(u64, u64)>> = core::iter::once(None)
            .chain(VIEWS.flat_map(|of| VIEWS.map(move |high| Some((of, high)))))
            .collect();
        for lock in VIEWS {
            let safety = safety(lock);
            for (justify, view) in VIEWS.flat_map(|j| VIEWS.map(move |v| (j, v))) {
                for (extends_lock, given) in
                    [false, true].into_iter().flat_map(|e| evidence.iter().map(move |t| (e, *t)))
                {
                    let mut proposed = header(view, 1, qc(Kind::Generic, justify, Hash::ZERO));
                    proposed.tc = given.map(|(of, high)| tc(of, high));
                    let ballot = Ballot { safety: &safety, header: &proposed, extends_lock };
                    let expected = table_says(pack, (lock, justify, view), extends_lock, given);
                    let case = (pack, lock, justify, view, extends_lock, given);
                    assert_eq!((rules.may_vote)(&ballot), expected, "{case:?}");
                    if expected { yes += 1 } else { no += 1 }
                }
            }
        }
        assert!(yes > 1_000 && no > 1_000, "{pack:?}: {yes} votes and {no} refusals were compared");
    }
}

/// TS3: `lock` of every pack.
#[test]
fn each_pack_locks_exactly_where_its_table_says() {
    for pack in Pack::ALL {
        for (lock, justify, view) in
            VIEWS.flat_map(|l| VIEWS.flat_map(move |j| VIEWS.map(move |v| (l, j, v))))
        {
            let below = Hash([7; 32]);
            let block = header(view, 3, qc(Kind::Generic, justify, below));
            let digest = block.digest();
            let tree = Known(BTreeMap::from([(digest, block)]));
            for kind in [Kind::Prepare, Kind::Precommit, Kind::Commit, Kind::Generic] {
                let rises = match pack {
                    Pack::Basic => (kind == Kind::Precommit && view > lock).then_some((view, digest)),
                    Pack::Chain3 | Pack::Paper => (justify > lock).then_some((justify, below)),
                    Pack::Chain2 | Pack::Chain2Order => None,
                    Pack::Hs2 | Pack::Naive2 => (view > lock).then_some((view, digest)),
                };
                let found = (pack.rules().lock)(&safety(lock), &qc(kind, view, digest), &tree);
                let expected = rises.map(|(view, digest)| Mark { view: View(view), digest });
                assert_eq!(found, expected, "{pack:?} lock {lock} justify {justify} view {view} {kind:?}");
            }
        }
    }
}

/// Three blocks, each on the one before, of these views; the digests oldest first.
fn chain_of(views: [u64; 3]) -> (Known, [Hash; 3]) {
    let [first, second, third] = views;
    let b = header(first, 1, qc(Kind::Generic, 0, Hash::ZERO));
    let b1 = header(second, 2, qc(Kind::Generic, first, b.digest()));
    let b2 = header(third, 3, qc(Kind::Generic, second, b1.digest()));
    let digests = [b.digest(), b1.digest(), b2.digest()];
    (Known([b, b1, b2].into_iter().map(|h| (h.digest(), h)).collect()), digests)
}

/// TS3, D1: the third block of a three-chain is the justified block of the second, not of the first again.
#[test]
fn three_chain_commits_the_grandparent_of_consecutive_views_and_nothing_else() {
    let mut committed = 0;
    for pack in [Pack::Chain3, Pack::Paper] {
        for views in VIEWS.flat_map(|a| (a + 1..=7).flat_map(move |b| (b + 1..=8).map(move |c| [a, b, c]))) {
            let (tree, [b, _, b2]) = chain_of(views);
            let [first, second, third] = views;
            let consecutive = first + 1 == second && second + 1 == third;
            let found = (pack.rules().commit)(&qc(Kind::Generic, third, b2), &tree);
            assert_eq!(found, consecutive.then_some(b), "{pack:?} {views:?}");
            committed += u32::from(consecutive);
        }
    }
    assert_eq!(committed, 2 * 7, "each start of a chain committed once in each pack");
}

/// TS3: the two-chain packs commit the parent of a certified child of the next view.
#[test]
fn two_chain_commits_the_parent_of_the_view_before_and_nothing_else() {
    for pack in [Pack::Chain2, Pack::Chain2Order, Pack::Hs2, Pack::Naive2] {
        for views in VIEWS.flat_map(|a| (a + 1..=7).flat_map(move |b| (b + 1..=8).map(move |c| [a, b, c]))) {
            let (tree, [_, b1, b2]) = chain_of(views);
            let [_, second, third] = views;
            let found = (pack.rules().commit)(&qc(Kind::Generic, third, b2), &tree);
            assert_eq!(found, (second + 1 == third).then_some(b1), "{pack:?} {views:?}");
        }
    }
}

/// TS3: only a commit certificate commits in the basic pack, whatever lies around the block.
#[test]
fn basic_commits_by_the_certificate_of_the_third_phase_alone() {
    let (tree, [_, _, b2]) = chain_of([1, 2, 3]);
    for kind in [Kind::Prepare, Kind::Precommit, Kind::Commit, Kind::Generic, Kind::Order] {
        let found = (Pack::Basic.rules().commit)(&qc(kind, 3, b2), &tree);
        assert_eq!(found, (kind == Kind::Commit).then_some(b2), "{kind:?}");
    }
}

/// TS3: what is not here commits nothing and locks nothing in the chained packs.
#[test]
fn a_certificate_of_an_unknown_block_commits_and_locks_nothing_in_a_chained_pack() {
    let nothing = Known(BTreeMap::new());
    let (mut tree, [b, _, b2]) = chain_of([1, 2, 3]);
    for pack in [Pack::Chain3, Pack::Chain2, Pack::Chain2Order, Pack::Hs2, Pack::Naive2, Pack::Paper] {
        assert_eq!((pack.rules().commit)(&qc(Kind::Generic, 3, b2), &nothing), None, "{pack:?}");
    }
    assert_eq!((Pack::Chain3.rules().lock)(&safety(0), &qc(Kind::Generic, 3, b2), &nothing), None);
    tree.0.remove(&b);
    let by_justify = (Pack::Chain3.rules().commit)(&qc(Kind::Generic, 3, b2), &tree);
    assert_eq!(by_justify, Some(b), "the views of certificates tell, not the oldest block itself");
}

/// D3, D2: certificates are compared by view alone; of equal views the one held stays.
#[test]
fn the_higher_certificate_is_the_one_of_the_later_view() {
    for (new, old) in VIEWS.flat_map(|n| VIEWS.map(move |o| (n, o))) {
        let of = |view| qc(Kind::Generic, view, Hash([1; 32]));
        assert_eq!(is_higher(&of(new), &of(old)), new > old, "{new} against {old}");
    }
}

/// TS3: what a leader needs after a TC is a certificate of the highest listed view.
#[test]
fn a_leader_after_a_tc_needs_a_certificate_as_high_as_its_highest() {
    for pack in Pack::ALL {
        for highest in VIEWS {
            assert_eq!((pack.rules().next_view_needs)(&tc(6, highest)).justify, View(highest), "{pack:?}");
        }
    }
}

/// TS3: the kinds of votes in a view.
#[test]
fn each_pack_has_its_phases_and_no_other() {
    for pack in Pack::ALL {
        let expected: &[Kind] = match pack {
            Pack::Basic => &[Kind::Prepare, Kind::Precommit, Kind::Commit],
            Pack::Chain2Order => &[Kind::Generic, Kind::Order],
            Pack::Chain3 | Pack::Chain2 | Pack::Hs2 | Pack::Naive2 | Pack::Paper => &[Kind::Generic],
        };
        assert_eq!((pack.rules().phases)(), expected, "{pack:?}");
    }
}

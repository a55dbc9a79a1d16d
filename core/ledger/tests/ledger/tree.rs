//! The Merkle-sum tree.

use synod_crypto::Hash;
use synod_ledger::{AccountId, Node, Opened, RANGE_LEAVES, SumPath, SumRange, SumTree, Sums, Total};

use crate::shop::{ANNA, BERT, CARL, hold, pay, put, with};

/// The accounts of a small book as their owners see them.
fn accounts() -> Vec<Opened> {
    let mut book = with(100);
    put(&mut book, ANNA, pay(BERT, 30)).expect("funded");
    put(&mut book, ANNA, hold(CARL, 10, BERT)).expect("funded");
    let all: Vec<AccountId> = book.accounts().map(|(id, _)| id).collect();
    let opened = all.iter().map(|id| {
        let pending = book.account(*id).expect("open").debits_pending();
        Opened::of(&book.standing(*id).expect("open"), pending, [id.local.to_le_bytes()[0]; 16])
    });
    opened.collect()
}

#[test]
fn the_root_shows_what_is_owed_and_what_was_issued() {
    let tree = SumTree::new(&accounts()).expect("small");
    let sums = tree.root().sums;
    assert_eq!(
        (sums.liabilities, sums.issued, sums.pending),
        (Total::of(100), Total::of(100), Total::of(10))
    );
    assert!(sums.balances(Total::ZERO, Total::ZERO));
    assert!(!sums.balances(Total::of(1), Total::ZERO));
    assert_eq!(tree.count(), 5);
}

#[test]
fn every_account_of_every_size_of_tree_is_shown_at_its_place_alone() {
    let all = accounts();
    for count in 0..=all.len() {
        let some = &all[..count];
        let tree = SumTree::new(some).expect("small");
        for (at, opened) in (0_u32..).zip(some) {
            let path = tree.path(at).expect("within");
            assert!(path.shows(&opened.leaf(), opened.sums(), &tree.root(), tree.count()));
            let elsewhere = SumPath { index: path.index ^ 1, ..path.clone() };
            assert!(!elsewhere.shows(&opened.leaf(), opened.sums(), &tree.root(), tree.count()));
            assert!(!path.shows(&opened.leaf(), opened.sums(), &tree.root(), 8 * tree.count()));
        }
        assert_eq!(tree.path(tree.count()), None);
    }
}

/// An account with one field changed, for each field.
fn changed(opened: &Opened) -> Vec<Opened> {
    let one = Total::of(1);
    let more = |total: Total| total.checked_add(one).expect("small");
    let keep = || opened.clone();
    vec![
        Opened { account: AccountId { local: 77, ..opened.account }, ..keep() },
        Opened { salt: [0xee; 16], ..keep() },
        Opened { sequence: opened.sequence + 1, ..keep() },
        Opened { head: Hash::ZERO, ..keep() },
        Opened { owner: synod_ledger::Owner::Custodial(9), ..keep() },
        Opened { limit: more(opened.limit), ..keep() },
        Opened { flags: synod_ledger::Flags(3), ..keep() },
        Opened { credits: more(opened.credits), ..keep() },
        Opened { debits: more(opened.debits), ..keep() },
        Opened { pending: more(opened.pending), ..keep() },
        Opened { rest: Hash::ZERO, ..keep() },
    ]
}

#[test]
fn no_field_of_an_account_can_be_changed_under_a_root() {
    let all = accounts();
    let tree = SumTree::new(&all).expect("small");
    for (at, opened) in (0_u32..).zip(&all) {
        let path = tree.path(at).expect("within");
        for other in changed(opened) {
            assert!(!path.shows(&other.leaf(), other.sums(), &tree.root(), tree.count()), "{other:?}");
            assert!(!path.shows(&other.leaf(), opened.sums(), &tree.root(), tree.count()), "{other:?}");
        }
    }
}

#[test]
fn sums_of_one_side_cannot_be_traded_against_the_other() {
    let all = accounts();
    let tree = SumTree::new(&all).expect("small");
    let path = tree.path(1).expect("within");
    let siblings = path.siblings.clone().into_vec();
    // One more unit on the left, one less on the right: the total is the same.
    let mine = Sums { credits: all[1].credits.checked_add(Total::of(1)).expect("small"), ..all[1].sums() };
    let theirs = siblings[0].sums.credits.checked_sub(Total::of(0)).expect("small");
    let traded = Node {
        sums: Sums { credits: theirs.saturating_sub(Total::of(1)), ..siblings[0].sums },
        ..siblings[0]
    };
    let mut forged = siblings.clone();
    forged[0] = traded;
    let forged = SumPath { index: 1, siblings: forged.try_into().expect("short") };
    assert!(!forged.shows(&all[1].leaf(), mine, &tree.root(), tree.count()));
    // Nor can a sum wrap on the way up.
    let mut wrapped = siblings;
    wrapped[0].sums.credits = Total::MAX;
    let wrapped = SumPath { index: 1, siblings: wrapped.try_into().expect("short") };
    assert!(!wrapped.shows(&all[1].leaf(), all[1].sums(), &tree.root(), tree.count()));
}

#[test]
fn a_path_of_another_length_shows_nothing() {
    let all = accounts();
    let tree = SumTree::new(&all).expect("small");
    let path = tree.path(0).expect("within");
    let mut siblings = path.siblings.clone().into_vec();
    siblings.push(siblings[0]);
    let longer = SumPath { index: 0, siblings: siblings.clone().try_into().expect("short") };
    siblings.truncate(2);
    let shorter = SumPath { index: 0, siblings: siblings.try_into().expect("short") };
    for forged in [longer, shorter] {
        assert!(!forged.shows(&all[0].leaf(), all[0].sums(), &tree.root(), tree.count()));
    }
}

#[test]
fn sums_beyond_192_bits_have_no_tree() {
    let mut all = accounts();
    all[0].credits = Total::MAX;
    assert!(SumTree::new(&all).is_none());
}

/// Accounts of a larger book, numbered from 1.
fn many(count: u64) -> Vec<Opened> {
    let one = accounts().swap_remove(1);
    let account = |local| AccountId { local, ..one.account };
    (1..=count).map(|local| Opened { account: account(local), sequence: local, ..one.clone() }).collect()
}

#[test]
fn every_range_of_every_size_of_tree_is_shown_at_its_place_alone() {
    let whole = RANGE_LEAVES as u64;
    for count in [1, 2, 5, whole - 1, whole, whole + 1, 3 * whole, 4 * whole + 9] {
        let all = many(count);
        let tree = SumTree::new(&all).expect("small");
        let (root, count) = (tree.root(), tree.count());
        assert_eq!(tree.nodes().count(), all.len());
        let ranges = SumRange::of(count);
        for (index, some) in (0..ranges).zip(all.chunks(RANGE_LEAVES)) {
            let nodes: Vec<Node> = some.iter().map(|one| one.leaf().node(one.sums())).collect();
            let range = tree.range(index).expect("within");
            assert!(range.shows(nodes.clone(), &root, count), "{index} of {count}");
            let elsewhere = SumRange { index: index ^ 1, ..range.clone() };
            assert!(!elsewhere.shows(nodes.clone(), &root, count));
            assert!(!range.shows(nodes.clone(), &root, 4 * count + 1));
            assert!(!range.shows(nodes[1..].to_vec(), &root, count));
            let mut changed = nodes;
            changed[some.len() / 2].sums.credits = Total::of(77);
            assert!(!range.shows(changed, &root, count));
        }
        assert_eq!(tree.range(ranges), None);
        assert_eq!(SumRange::leaves(ranges, count), 0);
    }
}

/// Whoever builds a tree could show each of two owners a total that leaves the other's money out.
#[test]
fn no_root_leaves_out_what_another_is_owed() {
    let two = &accounts()[1..3];
    let nodes: Vec<Node> = two.iter().map(|one| one.leaf().node(one.sums())).collect();
    let roots = [0_u32, 1].map(|index| {
        let other = &nodes[1 - index as usize];
        let hidden = Node { sums: Sums { liabilities: Total::ZERO, ..other.sums }, ..*other };
        let path = SumPath { index, siblings: vec![hidden].try_into().expect("one") };
        let mine = &two[index as usize];
        path.root(&mine.leaf(), Sums { liabilities: Total::of(9), ..mine.sums() }).expect("small")
    });
    assert_ne!(roots[0].hash, roots[1].hash);
}

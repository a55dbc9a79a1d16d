//! Trees: every entry is proved, and nothing else is.

use proptest::prelude::*;
use synod_crypto::Hash;

use super::{
    ABSENT, EntryProof, EntryTree, Growing, PART, Proven, Tree, TreeShape, climb, entry_root, path_len, root,
    root_commit, root_of_eights,
};
use crate::Domains;
use crate::columns::Entry;

fn domains() -> Domains {
    Domains::of(&Hash::of(b"cluster"))
}

type Owned = (u32, Vec<u8>, bool);

fn entries(count: u32, size: u16) -> Vec<Owned> {
    let length = |i: u32| if size == 0 { 1 + i as usize % 7 } else { usize::from(size) };
    (0..count).map(|i| (3 * i, vec![u8::try_from(i % 251).expect("small"); length(i)], i % 3 == 0)).collect()
}

fn borrowed(owned: &[Owned]) -> impl Iterator<Item = Entry<'_>> {
    owned.iter().map(|(id, message, parity)| Entry { id: *id, message, parity: *parity })
}

fn at(owned: &[Owned], index: u32) -> Option<Entry<'_>> {
    borrowed(owned).nth(index as usize)
}

/// The tree of the specification, by recursion over whole leaves.
fn oracle(domains: &Domains, shape: &TreeShape, owned: &[Owned]) -> Hash {
    fn fold(domains: &Domains, level: Vec<Hash>) -> Hash {
        match level.as_slice() {
            [one] => *one,
            _ => {
                let above = level.chunks(2).map(|pair| match pair {
                    [left, right] => domains.node.hash(&[left.0, right.0].concat()),
                    odd => odd[0],
                });
                fold(domains, above.collect())
            }
        }
    }
    let arity = match shape.msg_size {
        0 => 1,
        size if size <= 11 => 4,
        size if size <= 27 => 2,
        _ => 1,
    };
    let mut all = owned.to_vec();
    while !all.len().is_multiple_of(arity) {
        all.push((ABSENT, vec![0; usize::from(shape.msg_size)], false));
    }
    let leaf = |chunk: &[Owned]| {
        let bytes: Vec<u8> = chunk
            .iter()
            .flat_map(|(id, message, parity)| [&id.to_le_bytes()[..], message, &[u8::from(*parity)]].concat())
            .collect();
        domains.leaf.hash(&bytes)
    };
    fold(domains, all.chunks(arity).map(leaf).collect())
}

#[test]
fn every_entry_of_trees_of_1_to_70_is_proved_and_no_other() {
    let domains = domains();
    for size in [8, 11, 12, 27, 28, 0] {
        for count in 1..=70 {
            let owned = entries(count, size);
            let shape = TreeShape { count, msg_size: size };
            let tree = EntryTree::grow(&domains, shape, borrowed(&owned));
            assert_eq!(tree.root(), oracle(&domains, &shape, &owned), "{count} of {size} bytes");
            assert_eq!(tree.root(), entry_root(&domains, &shape, borrowed(&owned)));
            for index in 0..count {
                let proof = tree.prove(index, |i| at(&owned, i)).expect("it is there");
                assert_eq!(Some(proof.path.len()), shape.path_len(index).map(|n| n as usize));
                let entry = at(&owned, index).expect("it is there");
                assert_eq!(proof.root(&domains, &shape, &entry), Some(tree.root()));
                let other = Entry { parity: !entry.parity, ..entry };
                assert_ne!(proof.root(&domains, &shape, &other), Some(tree.root()));
            }
            assert!(tree.prove(count, |i| at(&owned, i)).is_none());
        }
    }
}

/// The root out of columns.
fn of_columns(domains: &Domains, owned: &[Owned]) -> Hash {
    let ids: Vec<u32> = owned.iter().map(|(id, ..)| *id).collect();
    let messages: Vec<u8> = owned.iter().flat_map(|(_, message, _)| message.clone()).collect();
    let mut parity = vec![0; owned.len().div_ceil(8)];
    let odd = (0_u64..).zip(owned).filter(|(_, (.., parity))| *parity);
    odd.for_each(|(index, _)| crate::bits::set(&mut parity, index));
    root_of_eights(domains, &ids, &messages, &parity)
}

#[test]
fn the_root_out_of_columns_is_that_of_the_entries() {
    let (domains, part) = (domains(), 4 * u32::try_from(PART).expect("small"));
    let edges = [part - 1, part, part + 1, part + 5, 2 * part - 3, 2 * part, 3 * part + 17 * 4 + 2];
    for count in (1..=70).chain(edges) {
        let mut owned = entries(count, 8);
        owned.iter_mut().for_each(|(id, message, _)| message[3] = id.to_le_bytes()[1]);
        let shape = TreeShape { count, msg_size: 8 };
        let wanted = entry_root(&domains, &shape, borrowed(&owned));
        assert_eq!(of_columns(&domains, &owned), wanted, "{count} entries");
        let last = owned.last_mut().expect("not empty");
        last.2 = !last.2;
        assert_ne!(of_columns(&domains, &owned), wanted, "{count} entries, another parity");
    }
}

#[test]
fn a_root_that_grows_part_by_part_is_that_of_all_leaves() {
    let node = domains().node;
    for count in [1, 2, 15, 16, 17, PART - 1, PART, PART + 1, 2 * PART, 3 * PART + 100, 5 * PART + 1] {
        let leaves: Vec<u8> = (0..count).flat_map(|at| Hash::of(&at.to_le_bytes()).0).collect();
        let mut growing = Growing::new(&node);
        for part in leaves.chunks(32 * PART) {
            growing.take(|out| out.extend_from_slice(part));
        }
        assert_eq!(growing.root(), root(&node, leaves), "{count} leaves");
    }
}

#[test]
fn a_proof_of_another_shape_proves_nothing() {
    let domains = domains();
    let owned = entries(21, 8);
    let shape = TreeShape { count: 21, msg_size: 8 };
    let tree = EntryTree::grow(&domains, shape, borrowed(&owned));
    let entry = at(&owned, 20).expect("it is there");
    let proof = tree.prove(20, |i| at(&owned, i)).expect("it is there");
    let refused = |proof: &EntryProof, shape: &TreeShape, entry: &Entry<'_>| {
        assert_ne!(proof.root(&domains, shape, entry), Some(tree.root()), "{proof:?}");
    };
    assert_eq!(proof.neighbours.len(), 39);
    refused(&EntryProof { index: 21, ..proof.clone() }, &shape, &entry);
    refused(&EntryProof { index: 16, ..proof.clone() }, &shape, &entry);
    refused(&EntryProof { path: proof.path[1..].to_vec(), ..proof.clone() }, &shape, &entry);
    refused(&EntryProof { path: [&proof.path[..], &[Hash::ZERO]].concat(), ..proof.clone() }, &shape, &entry);
    refused(&EntryProof { neighbours: proof.neighbours.slice(1..), ..proof.clone() }, &shape, &entry);
    // The same leaf under a count that makes the absent entries present, and with the wrong size.
    assert_eq!(proof.root(&domains, &TreeShape { count: 20, ..shape }, &entry), None);
    refused(&proof, &TreeShape { count: 40, ..shape }, &entry);
    refused(&proof, &TreeShape { msg_size: 9, ..shape }, &entry);
    refused(&proof, &shape, &Entry { message: &[0; 9], ..entry });
    // What fills a leaf is absent, whatever root it would give.
    let filled = EntryProof { neighbours: vec![1; 39].into(), ..proof };
    assert_eq!(filled.root(&domains, &shape, &entry), None);
}

#[test]
fn inclusion_binds_k_count_and_index() {
    let domains = domains();
    let shape = TreeShape { count: 9, msg_size: 8 };
    let commit = |k, shape: TreeShape, root: &Hash| root_commit(&domains, k, &shape, root);
    let root = Hash::of(b"root");
    let all = [
        commit(7, shape, &root),
        commit(8, shape, &root),
        commit(7, TreeShape { count: 10, ..shape }, &root),
        commit(7, TreeShape { msg_size: 9, ..shape }, &root),
        commit(7, shape, &Hash::of(b"other")),
    ];
    let distinct: std::collections::BTreeSet<Hash> = all.into_iter().collect();
    assert_eq!(distinct.len(), all.len());
}

#[test]
fn a_full_batch_of_8_bytes_has_a_proof_of_487_bytes() {
    let shape = TreeShape { count: 65_536, msg_size: 8 };
    let path = shape.path_len(65_535).expect("the last entry") as usize;
    assert_eq!(shape.neighbour_bytes() + 32 * path, 487);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn paths_of_plain_trees_lead_to_the_root(count in 1_u32..200, index in any::<u32>(), other in any::<u32>()) {
        let node = domains().node;
        let leaves: Vec<u8> = (0..count).flat_map(|i| Hash::of(&i.to_le_bytes()).0).collect();
        let tree = Tree::grow(&node, leaves.clone());
        prop_assert_eq!(tree.root(), root(&node, leaves));
        let (index, other) = (index % count, other % (count + 3));
        let path = tree.path(index).expect("below the count");
        prop_assert_eq!(Some(path.len()), path_len(index, count).map(|n| n as usize));
        let leaf = Hash::of(&index.to_le_bytes());
        prop_assert_eq!(climb(&node, leaf, index, count, &path), Some(tree.root()));
        if other != index {
            prop_assert_ne!(climb(&node, leaf, other, count, &path), Some(tree.root()));
        }
    }
}

/// A tree and all its proofs.
fn proved(count: u32, size: u16) -> (TreeShape, Vec<Owned>, Hash, Vec<EntryProof>) {
    let (domains, owned, shape) = (domains(), entries(count, size), TreeShape { count, msg_size: size });
    let tree = EntryTree::grow(&domains, shape, borrowed(&owned));
    let proof = |index| tree.prove(index, |i| at(&owned, i)).expect("it is there");
    let proofs = (0..count).map(proof).collect();
    (shape, owned, tree.root(), proofs)
}

#[test]
fn paths_of_one_tree_cost_each_digest_once_in_any_order() {
    let domains = domains();
    for size in [8, 12, 28, 0] {
        for count in (1..=40).chain([257, 1_000]) {
            let (shape, owned, root, proofs) = proved(count, size);
            for step in [1, count - 1, 7, 23].into_iter().filter(|step| gcd(*step, count) == 1) {
                let mut proven = Proven::new(shape, root);
                for index in (0..count).map(|i| i * step % count) {
                    let (entry, proof) = (at(&owned, index).expect("there"), &proofs[index as usize]);
                    assert!(proven.proves(&domains, proof, &entry), "{index} of {count}");
                }
                // A leaf for each entry, and each node above the leaves but those that moved up.
                assert!(proven.hashed() < u64::from(count + shape.leaves()), "{count} of {size} bytes");
                assert!(proven.bytes() <= Proven::bytes_max(&shape));
                let before = proven.hashed();
                for (index, proof) in (0..count).zip(&proofs) {
                    assert!(proven.proves(&domains, proof, &at(&owned, index).expect("there")));
                }
                assert_eq!(
                    proven.hashed(),
                    before + u64::from(count),
                    "a second time only leaves are hashed"
                );
            }
        }
    }
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[test]
fn a_forged_sibling_is_refused_at_each_level_whatever_is_known() {
    let domains = domains();
    for count in [1_u32, 5, 70, 333] {
        let (shape, owned, root, proofs) = proved(count, 8);
        for known in [0, 1, count / 2, count] {
            let mut proven = Proven::new(shape, root);
            for (index, proof) in (0..known).zip(&proofs) {
                assert!(proven.proves(&domains, proof, &at(&owned, index).expect("there")));
            }
            for index in [0, count / 3, count - 1] {
                let (entry, proof) = (at(&owned, index).expect("there"), &proofs[index as usize]);
                let mut refused = |proof: &EntryProof, entry: &Entry<'_>| {
                    assert_ne!(proof.root(&domains, &shape, entry), Some(root), "it is none");
                    assert!(!proven.proves(&domains, proof, entry), "{proof:?}");
                };
                for level in 0..proof.path.len() {
                    let mut forged = proof.clone();
                    forged.path[level].0[31] ^= 1;
                    refused(&forged, &entry);
                    forged.path.remove(level);
                    refused(&forged, &entry);
                }
                refused(proof, &Entry { parity: !entry.parity, ..entry });
                refused(proof, &Entry { message: &[9; 8], ..entry });
                refused(&EntryProof { path: [&proof.path[..], &[root]].concat(), ..proof.clone() }, &entry);
                refused(&EntryProof { index: index ^ 4, ..proof.clone() }, &entry);
                refused(&EntryProof { index: count, ..proof.clone() }, &entry);
                assert!(proven.proves(&domains, proof, &entry), "what is forged teaches nothing");
            }
        }
    }
}

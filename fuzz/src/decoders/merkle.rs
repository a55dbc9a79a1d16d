//! Merkle proofs: nothing but the true leaf at the true index with the true path is proved.

use synod_crypto::Hash;
use synod_crypto::merkle::{Tree, leaf, proves};
use synod_wire::Drawn;

use crate::check::accept;
use crate::{Kind, Tape, Target};

/// The targets of this module.
pub(crate) const TARGETS: &[Target] = &[Target::new("merkle-path", Kind::Slow, path, claims)];

/// Changes what is claimed of one leaf of a tree: its index, the number of leaves, the leaf, the path. The input is
/// the size of the tree, a leaf, then changes.
///
/// # Panics
/// When a claim is proved that is not the true one, or the true one is not.
pub fn path(bytes: &[u8]) {
    let mut tape = Tape::new(bytes);
    let size = 1 + u32::try_from(tape.below(40)).unwrap_or(0);
    let leaves: Vec<Hash> = (0..size).map(|index| leaf(&index.to_le_bytes())).collect();
    let tree = Tree::new(leaves.clone());
    let (root, at) = (tree.root(), tape.below(leaves.len()));
    let index = u32::try_from(at).unwrap_or(0);
    let (mut count, mut claimed, mut hash) = (size, index, leaves[at]);
    let mut siblings = tree.path(index).unwrap_or_default();
    while !tape.is_over() {
        match tape.byte() % 8 {
            0 => count = count.wrapping_add(u32::from(tape.byte())),
            1 => claimed = claimed.wrapping_add(u32::from(tape.byte())),
            2 => claimed ^= 1 << (tape.byte() % 32),
            3 => hash = leaves[tape.below(leaves.len())],
            4 => siblings.truncate(tape.below(siblings.len() + 1)),
            5 => siblings.push(leaves[tape.below(leaves.len())]),
            6 => {
                let at = tape.below(siblings.len());
                if let Some(sibling) = siblings.get_mut(at) {
                    std::mem::swap(sibling, &mut hash);
                }
            }
            _ => {
                let at = tape.below(siblings.len());
                if let Some(sibling) = siblings.get_mut(at) {
                    sibling.0[tape.below(32)] ^= 1 << (tape.byte() % 8);
                }
            }
        }
    }
    let proved = proves(&root, count, claimed, hash, &siblings);
    let there = usize::try_from(claimed).ok().and_then(|at| leaves.get(at));
    let is_true = count == size && there == Some(&hash) && tree.path(claimed) == Some(siblings);
    if proved {
        accept();
    }
    assert_eq!(proved, is_true, "a proof is malleable: {count} leaves, index {claimed}");
}

fn claims(from: &mut Drawn) -> Vec<u8> {
    (0..2 + from.below(6)).map(|_| from.next().to_le_bytes()[0]).collect()
}

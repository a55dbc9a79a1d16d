//! The entry tree, written again from its description.

use synod_crypto::{Hash, HashKey};

use super::EntrySeen;

/// The root over entries with messages of `size` bytes.
pub(super) fn root(cluster: &Hash, size: u16, entries: &[EntrySeen]) -> Hash {
    let leaf = HashKey::derive("synod chopchop v1 leaf", &cluster.0);
    let node = HashKey::derive("synod chopchop v1 node", &cluster.0);
    let together = match size {
        1..=11 => 4,
        12..=27 => 2,
        _ => 1,
    };
    let mut level = Vec::new();
    for group in entries.chunks(together) {
        let mut bytes = Vec::new();
        for entry in group {
            bytes.extend(entry.id.to_le_bytes());
            bytes.extend(&entry.message);
            bytes.push(u8::from(entry.parity));
        }
        for _ in group.len()..together {
            bytes.extend(u32::MAX.to_le_bytes());
            bytes.resize(bytes.len() + usize::from(size) + 1, 0);
        }
        level.push(leaf.hash(&bytes));
    }
    while level.len() > 1 {
        let pair = |pair: &[Hash]| match pair {
            [left, right] => node.hash(&[left.0, right.0].concat()),
            rest => rest.first().copied().unwrap_or(Hash::ZERO),
        };
        level = level.chunks(2).map(pair).collect();
    }
    level.first().copied().unwrap_or(Hash::ZERO)
}

//! The ids that a sign-up batch assigned, and the tree over them.

use synod_crypto::Hash;

use crate::Domains;
use crate::card::Card;
use crate::tree::{Tree, climb, root};

/// What stands for a card that has no id.
pub const NO_ID: u32 = u32::MAX;
/// Bytes of a leaf: the hash of a card and its id.
const LEAF: usize = 36;

/// The outcome of a sign-up batch, card by card. Servers sign its root in DELIVERED.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assigned {
    ids: Vec<u32>,
    leaves: Vec<u8>,
    not_appended: u32,
}

fn leaf(card: &Card, id: u32) -> [u8; LEAF] {
    let mut leaf = [0; LEAF];
    let (name, place) = leaf.split_at_mut(32);
    name.copy_from_slice(&Hash::of(&card.to_bytes()).0);
    place.copy_from_slice(&id.to_le_bytes());
    leaf
}

impl Assigned {
    pub(super) fn new(cards: &[Card], admitted: &[(Option<u32>, bool)]) -> Self {
        let ids: Vec<u32> = admitted.iter().map(|(id, _)| id.unwrap_or(NO_ID)).collect();
        let leaves = cards.iter().zip(&ids).flat_map(|(card, id)| leaf(card, *id)).collect();
        let old = admitted.iter().filter(|(_, new)| !new).count();
        Self { ids, leaves, not_appended: u32::try_from(old).unwrap_or(u32::MAX) }
    }

    /// The id of each card, in listed order; [`NO_ID`] for none.
    #[must_use]
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// Cards that were not appended: `exc_count` of DELIVERED.
    #[must_use]
    pub const fn exc_count(&self) -> u32 {
        self.not_appended
    }

    fn hashed(&self, domains: &Domains) -> Vec<u8> {
        let mut out = Vec::new();
        domains.ids_leaf.hash_many(&self.leaves, LEAF, &mut out);
        out
    }

    /// The root over the leaves, `exceptions_root` of DELIVERED.
    #[must_use]
    pub fn root(&self, domains: &Domains) -> Hash {
        root(&domains.ids_node, self.hashed(domains))
    }

    /// The path of card `index`; `None` beyond the last.
    #[must_use]
    pub fn prove(&self, domains: &Domains, index: u32) -> Option<Vec<Hash>> {
        Tree::grow(&domains.ids_node, self.hashed(domains)).path(index)
    }

    /// Whether `path` proves under `root` that `card`, at `index` of `count`, has `id`.
    #[must_use]
    pub fn proves(
        domains: &Domains,
        root: &Hash,
        (index, count): (u32, u32),
        (card, id): (&Card, u32),
        path: &[Hash],
    ) -> bool {
        let top = domains.ids_leaf.hash(&leaf(card, id));
        climb(&domains.ids_node, top, index, count, path) == Some(*root)
    }
}

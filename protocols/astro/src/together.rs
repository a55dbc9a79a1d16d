//! Owners who sign together (distilled ownership; specification, section 4.5).
//!
//! *What it gives.* One signature for all entries of a batch whose owners answered, which costs each replica an addition per owner and one
//! check per batch, where each owner's own signature costs a check.
//!
//! *How.* The owner signs its entry alone and hands it in. The representative puts entries that wait into a tree with one leaf per spender,
//! [`Leaf`], strictly rising by spender, and shows each owner the root and its path ([`Invitation`]). An owner who finds its own newest entry in its
//! leaf signs the root: that entry names all before it. What came when the wait is over is added up; whoever did not answer is a
//! straggler, whose own signature stays in the batch. The wait only moves entries between two valid forms.
//!
//! *Why it is safe.* A replica builds the tree again from the batch, so a root that was signed is worth nothing beside another leaf than those
//! that the batch shows: a signature authorizes nothing that its signer did not see. Keys add up to something only where all of their owners
//! have the secrets, so accounts of the genesis alone may sign together: possession is proven where a genesis is made.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use synod_crypto::bls::{BlsClaim, BlsSignature, KeySum, Share, StoredKey, search};
use synod_crypto::{Hash, Keys, PublicKey, Statement, merkle};
use synod_ledger::AccountId;
use synod_machine::broadcast::View;
use synod_wire::{List, wire};

use crate::batch::{Auth, EntryProof, Line, Opened};
use crate::job::owner_scope;

/// Most checks of a sum when shares are bad: what is not known to be good then is a straggler.
const CHECKS_MAX: u32 = 256;

/// A signature of many.
pub type Shared = [u8; 96];

wire! {
    /// What owners sign together. It is good in every view.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct SignedTogether {
        /// Of the tree.
        pub root: Hash,
    }

    /// One spender in the tree.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Leaf {
        /// Whose log.
        pub spender: AccountId,
        /// The last of its entries that are signed together.
        pub entry: Hash,
    }

    /// What an owner is asked to sign.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Invitation {
        /// The representative's number of the tree, returned with the signature.
        pub number: u64,
        /// See there.
        pub root: Hash,
        /// The owner's leaf.
        pub leaf: Leaf,
        /// Where it is in the tree.
        pub proof: EntryProof,
    }

    /// Under which keys an owner's entries are good.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Signer {
        /// For what it signs alone.
        pub single: PublicKey,
        /// For what it signs with others, if it may.
        pub multi: Option<[u8; 48]>,
    }
}

impl Statement for SignedTogether {
    const PROTOCOL: u8 = 3;
    const VERSION: u8 = 1;

    fn kind(&self) -> u16 {
        49
    }
}

impl Leaf {
    fn hash(&self) -> Hash {
        Hash::of_value("synod astro leaf", self)
    }
}

impl Invitation {
    /// Whether the leaf is in the tree.
    #[must_use]
    pub fn holds(&self) -> bool {
        let EntryProof { index, count, path } = &self.proof;
        merkle::proves(&self.root, *count, *index, merkle::leaf(&self.leaf.hash().0), path)
    }
}

/// Keys of accounts of the genesis as points, by registrar and number; what is not read yet is absent.
pub(crate) type Points = BTreeMap<u32, Arc<Vec<StoredKey>>>;

/// The key of an account, if it was read.
fn point(points: &Points, id: AccountId) -> Option<StoredKey> {
    let known = points.get(&id.registrar)?.get(usize::try_from(id.local.checked_sub(1)?).ok()?)?;
    (*known != StoredKey::ABSENT).then_some(*known)
}

/// The leaves of entries, by spender: each the last of its log.
pub(crate) fn leaves<'a>(entries: impl Iterator<Item = (&'a Line, Hash)>) -> BTreeMap<AccountId, Hash> {
    entries.map(|(line, digest)| (line.entry.id.spender, digest)).collect()
}

fn tree(leaves: &BTreeMap<AccountId, Hash>) -> merkle::Tree {
    let hashes = leaves.iter().map(|(spender, entry)| Leaf { spender: *spender, entry: *entry }.hash());
    let hashes: Vec<Hash> = hashes.collect();
    merkle::Tree::new(merkle::leaves(&hashes))
}

/// What each owner of these leaves is asked.
pub(crate) fn invite(number: u64, leaves: &BTreeMap<AccountId, Hash>) -> Vec<Invitation> {
    let tree = tree(leaves);
    let (root, count) = (tree.root(), tree.count());
    let invited = |(index, (spender, entry)): (u32, (&AccountId, &Hash))| {
        let path = List::try_from(tree.path(index)?).ok()?;
        let leaf = Leaf { spender: *spender, entry: *entry };
        Some(Invitation { number, root, leaf, proof: EntryProof { index, count, path } })
    };
    (0_u32..).zip(leaves).filter_map(invited).collect()
}

/// Adds up the shares that owners gave of a root. A share that is not its owner's is left out: the owners of the others, and the sum of
/// what they gave, if anything is good.
pub(crate) fn add_up(
    (view, root): (&View, Hash),
    shares: &BTreeMap<AccountId, ([u8; 48], [u8; 192])>,
    points: &Points,
    keys: &Keys,
) -> (Vec<AccountId>, Option<Shared>) {
    let bls = keys.bls();
    let read = |(id, (key, share)): (&AccountId, &([u8; 48], [u8; 192]))| {
        let signature = bls.share(share).ok()?;
        let key = point(points, *id).or_else(|| bls.vouched_key(key).ok().map(|key| (&key).into()))?;
        Some((*id, Share { key, signature }))
    };
    let (ids, shares): (Vec<AccountId>, Vec<Share>) = shares.iter().filter_map(read).unzip();
    let found = search(SignedTogether { root }, owner_scope(view), &shares, CHECKS_MAX, keys);
    let Some(good) = found.good else { return (Vec::new(), None) };
    let is_good = |at: &u32| !found.bad.contains(at) && !found.unresolved.contains(at);
    let good_ids = (0_u32..).zip(ids).filter(|(at, _)| is_good(at)).map(|(_, id)| id).collect();
    (good_ids, Some(good.signature.to_bytes()))
}

/// Which entries of a batch are good by what their owners signed together.
pub(crate) fn check(
    opened: &Opened,
    view: &View,
    signers: &[Option<Signer>],
    points: &Points,
    keys: &Keys,
) -> Vec<u32> {
    let is_in = |line: &Line| matches!(line.auth, Auth::Together | Auth::Straggler(_));
    let lines = || opened.lines().zip(signers).filter(|((_, line, _), _)| is_in(line));
    let with = |((at, line, digest), signer): &((u32, &Line, Hash), &Option<Signer>)| {
        (line.auth == Auth::Together).then_some((*at, line.entry.id.spender, *digest, **signer))
    };
    let mine: Vec<(u32, AccountId, Hash, Option<Signer>)> = lines().filter_map(|each| with(&each)).collect();
    let Some(signature) = opened.batch.beside.together.filter(|_| !mine.is_empty()) else {
        return Vec::new();
    };
    let multi = |(_, id, _, signer): &(u32, AccountId, Hash, Option<Signer>)| {
        Some((*id, signer.as_ref().and_then(|signer| signer.multi)?))
    };
    let owners: Option<BTreeMap<AccountId, [u8; 48]>> = mine.iter().map(multi).collect();
    let Some(owners) = owners else { return Vec::new() };
    // One signature would be counted for two accounts, of which its owner saw one.
    let keys_of: BTreeSet<&[u8; 48]> = owners.values().collect();
    if keys_of.len() < owners.len() {
        return Vec::new();
    }
    let leaves = leaves(lines().map(|((_, line, digest), _)| (line, digest)));
    let root = tree(&leaves).root();
    let Ok(signature) = keys.bls().signature(&signature) else { return Vec::new() };
    if !is_signed((view, root), &owners, signature, points, keys) {
        return Vec::new();
    }
    on_chain(lines().map(|((at, line, digest), _)| (at, line, digest)))
}

/// Whether these owners signed a root together.
fn is_signed(
    (view, root): (&View, Hash),
    owners: &BTreeMap<AccountId, [u8; 48]>,
    signature: BlsSignature,
    points: &Points,
    keys: &Keys,
) -> bool {
    let bls = keys.bls();
    let read = |(id, key): (&AccountId, &[u8; 48])| {
        point(points, *id).or_else(|| bls.vouched_key(key).ok().map(|key| (&key).into()))
    };
    let Some(stored) = owners.iter().map(read).collect::<Option<Vec<StoredKey>>>() else { return false };
    let ids: Vec<u32> = (0..u32::try_from(stored.len()).unwrap_or(u32::MAX)).collect();
    let sum: Option<KeySum> = keys.key_adder().sum(stored.as_slice(), &ids);
    let Some(sum) = sum else { return false };
    let claim =
        BlsClaim { statement: SignedTogether { root }, scope: owner_scope(view), keys: sum, signature };
    match claim.verify(keys) {
        Ok(_) => true,
        Err(claim) => {
            let again = claim.reconsider(stored.iter().map(StoredKey::key), keys);
            if !again.adders_agree {
                keys.distrust_vectors();
            }
            again.verdict.is_ok()
        }
    }
}

/// Entries signed together from which their chain leads to their spender's leaf: the last of its log, which names them.
fn on_chain<'a>(lines: impl Iterator<Item = (u32, &'a Line, Hash)>) -> Vec<u32> {
    let lines: Vec<(u32, &Line, Hash)> = lines.collect();
    let mut named: BTreeMap<AccountId, Hash> = BTreeMap::new();
    let mut good = Vec::new();
    for (at, line, digest) in lines.into_iter().rev() {
        let spender = line.entry.id.spender;
        if named.get(&spender).is_some_and(|prev| *prev != digest) {
            // What is before it is named by nobody.
            named.insert(spender, Hash::default());
            continue;
        }
        named.insert(spender, line.entry.prev);
        if line.auth == Auth::Together {
            good.push(at);
        }
    }
    good.reverse();
    good
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn account(local: u64) -> AccountId {
        AccountId { shard: 0, registrar: 0, local }
    }

    #[test]
    fn an_owner_is_shown_its_own_leaf_and_no_other_fits_the_path() {
        let leaves: BTreeMap<AccountId, Hash> =
            (1..=37).map(|local| (account(local), Hash::of(&local.to_be_bytes()))).collect();
        let asked = invite(7, &leaves);
        assert_eq!(asked.len(), 37);
        for (one, (spender, entry)) in asked.iter().zip(&leaves) {
            assert_eq!((one.number, one.leaf), (7, Leaf { spender: *spender, entry: *entry }));
            assert!(one.holds());
            let other = Leaf { entry: Hash::of(b"another"), ..one.leaf };
            assert!(!Invitation { leaf: other, ..one.clone() }.holds());
            let other = Leaf { spender: account(99), ..one.leaf };
            assert!(!Invitation { leaf: other, ..one.clone() }.holds());
        }
    }
}

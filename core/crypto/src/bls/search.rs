//! Finding the bad shares among many: a tree of sums, whose failing nodes are halved.
//!
//! All shares of one message are added up in leaves of [`LEAF`], leaves in pairs. The root is checked; a node that fails
//! is split, and one of its halves needs a check: where the left half holds, the right one fails. Larger nodes go first, so
//! that a budget spent on many bad shares still saves the large good parts. Chop Chop, sections 5.1 and 6.

use std::collections::VecDeque;

use super::BlsClaim;
use super::points::{BlsSignature, KeySum, SignatureSum};
use super::scheme::{Bls, SIGNING, Said};
use super::stored::{KeySource, StoredKey};
use crate::{Keys, Scope, Statement, Verified};

/// Shares in one leaf of the tree.
pub const LEAF: usize = 64;

/// One signer's part: a key and a signature that should be its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Who should have signed.
    pub key: StoredKey,
    /// The signature, on the curve.
    pub signature: BlsSignature,
}

impl KeySource for [Share] {
    fn stored(&self, id: u32) -> Option<&StoredKey> {
        self.get(usize::try_from(id).ok()?).map(|share| &share.key)
    }
}

/// What a search found. Every share is good, bad or unresolved.
#[derive(Clone, Debug)]
pub struct Found<S> {
    /// The good shares together; nothing when none is known to be good.
    pub good: Option<Verified<BlsClaim<S>>>,
    /// Indices of shares that are not their keys' signatures, ascending.
    pub bad: Vec<u32>,
    /// Indices of shares that the budget did not reach, ascending.
    pub unresolved: Vec<u32>,
    /// Equations that were checked.
    pub checks: u32,
}

/// Searches shares of one statement with at most `checks_max` checks of a sum. Costs one check when all are good and about
/// 1.5 log2(shares) for each bad one. Shares of likely liars cost least side by side, at the end.
///
/// Good shares that add up to infinity (keys of one owner that cancel) prove nothing to others: they are unresolved.
///
/// # Panics
/// When there are 2^32 shares or more; a batch holds fewer by far.
pub fn search<S: Statement>(
    statement: S,
    scope: Scope,
    shares: &[Share],
    checks_max: u32,
    keys: &Keys,
) -> Found<S> {
    let message = statement.signed_bytes(&scope);
    let mut walk = Walk::new(keys.bls(), &message, shares, checks_max);
    walk.run(keys);
    let Walk { good, mut bad, mut unresolved, checks, .. } = walk;
    let proves = !good.keys.is_infinity() && !good.signatures.is_infinity();
    let (keys, signature) = (good.keys, good.signatures.to_signature());
    if !proves {
        unresolved = (0..shares.len()).filter(|at| !bad.contains(at)).collect();
    }
    bad.sort_unstable();
    unresolved.sort_unstable();
    Found {
        good: proves.then(|| Verified::mint(BlsClaim { statement, scope, keys, signature })),
        bad: indices(bad),
        unresolved: indices(unresolved),
        checks,
    }
}

fn indices(of: Vec<usize>) -> Vec<u32> {
    of.into_iter().map(|at| u32::try_from(at).expect("fewer than 2^32 shares")).collect()
}

/// The sums of some shares.
#[derive(Clone, Copy)]
struct Sums {
    keys: KeySum,
    signatures: SignatureSum,
}

impl Sums {
    fn of(bls: &Bls<'_>, shares: &[Share]) -> Self {
        Self {
            keys: bls.sum_keys(shares.iter().map(|share| share.key.key())),
            signatures: bls.sum_signatures(shares.iter().map(|share| share.signature)),
        }
    }

    fn plus(mut self, other: &Self) -> Self {
        self.keys.add(&other.keys);
        self.signatures.add(&other.signatures);
        self
    }

    fn minus(mut self, other: &Self) -> Self {
        self.keys.subtract(&other.keys);
        self.signatures.subtract(&other.signatures);
        self
    }
}

/// Shares `from..to`, which are known not to hold together.
struct Failing {
    from: usize,
    to: usize,
    sums: Sums,
}

struct Walk<'a> {
    bls: Bls<'a>,
    message: &'a [u8],
    shares: &'a [Share],
    /// `levels[k][i]` sums the shares from `i * LEAF * 2^k` on, `LEAF * 2^k` of them: full subtrees only.
    levels: Vec<Vec<Sums>>,
    checks: u32,
    checks_max: u32,
    good: Sums,
    bad: Vec<usize>,
    unresolved: Vec<usize>,
}

impl<'a> Walk<'a> {
    fn new(bls: Bls<'a>, message: &'a [u8], shares: &'a [Share], checks_max: u32) -> Self {
        let good = Sums::of(&bls, &[]);
        let (bad, unresolved) = (Vec::new(), Vec::new());
        Self { bls, message, shares, levels: Vec::new(), checks: 0, checks_max, good, bad, unresolved }
    }

    /// All shares together, their keys added in vectors where there are many; no share is called bad because of that sum.
    fn root(&mut self, keys: &Keys) -> (Sums, Option<bool>) {
        let ids: Vec<u32> = (0..).take(self.shares.len()).collect();
        let (mut adder, bls) = (keys.key_adder(), &self.bls);
        let signatures = bls.sum_signatures(self.shares.iter().map(|share| share.signature));
        let Some(fast) = adder.sum(self.shares, &ids) else { unreachable!("each share has a key") };
        let mut sums = Sums { keys: fast, signatures };
        let verdict = self.check(&sums);
        if verdict != Some(false) || !adder.is_vector() {
            return (sums, verdict);
        }
        sums.keys = self.bls.sum_keys(self.shares.iter().map(|share| share.key.key()));
        if sums.keys == fast {
            return (sums, verdict);
        }
        keys.distrust_vectors();
        let verdict = self.check(&sums);
        (sums, verdict)
    }

    fn run(&mut self, keys: &Keys) {
        if self.shares.is_empty() {
            return;
        }
        let (all, verdict) = self.root(keys);
        let root = Failing { from: 0, to: self.shares.len(), sums: all };
        let mut failing = VecDeque::new();
        match verdict {
            None => self.unresolved.extend(root.from..root.to),
            Some(true) => self.good = root.sums,
            Some(false) => {
                self.build();
                failing.push_back(root);
            }
        }
        while let Some(node) = failing.pop_front() {
            if node.to - node.from == 1 {
                self.bad.push(node.from);
            } else {
                self.halve(&node, &mut failing);
            }
        }
    }

    /// Splits a failing node; its failing halves are queued.
    fn halve(&mut self, node: &Failing, failing: &mut VecDeque<Failing>) {
        let (middle, left) = self.left_of(node);
        let left = Failing { from: node.from, to: middle, sums: left };
        let right = Failing { from: middle, to: node.to, sums: node.sums.minus(&left.sums) };
        match self.check(&left.sums) {
            None => self.unresolved.extend(node.from..node.to),
            Some(true) => {
                self.good = self.good.plus(&left.sums);
                failing.push_back(right);
            }
            Some(false) => {
                failing.push_back(left);
                match self.check(&right.sums) {
                    None => self.unresolved.extend(right.from..right.to),
                    Some(true) => self.good = self.good.plus(&right.sums),
                    Some(false) => failing.push_back(right),
                }
            }
        }
    }

    /// Where a node of more than one share is split, and the sums of its left half: the largest full subtree that is not all
    /// of it, or half of a leaf.
    fn left_of(&self, node: &Failing) -> (usize, Sums) {
        let size = node.to - node.from;
        if size <= LEAF {
            let middle = node.from + size.div_ceil(2);
            return (middle, Sums::of(&self.bls, &self.shares[node.from..middle]));
        }
        let level = (size - 1).ilog2() - LEAF.ilog2();
        let width = LEAF << level;
        let index = node.from / width;
        assert!(node.from.is_multiple_of(width), "a node begins where its largest subtree begins");
        let known = self.levels.get(level as usize).and_then(|level| level.get(index));
        (node.from + width, *known.expect("every full subtree was summed"))
    }

    /// Whether these sums satisfy the equation; nothing when the budget is spent. Infinity on both sides satisfies it, so that
    /// halves of a failing node are told apart.
    fn check(&mut self, sums: &Sums) -> Option<bool> {
        if self.checks == self.checks_max {
            return None;
        }
        self.checks += 1;
        let signature = sums.signatures.to_signature();
        let said = Said { keys: &sums.keys, signature: &signature, message: self.message };
        match (sums.keys.is_infinity(), sums.signatures.is_infinity()) {
            (true, true) => Some(true),
            (false, false) => Some(self.bls.which_hold(SIGNING, &[said]) == [true]),
            _ => Some(false),
        }
    }

    /// Sums the full leaves, then pairs of full subtrees.
    fn build(&mut self) {
        let mut level: Vec<Sums> =
            self.shares.chunks_exact(LEAF).map(|leaf| Sums::of(&self.bls, leaf)).collect();
        while !level.is_empty() {
            let next = level.as_chunks::<2>().0.iter().map(|[left, right]| left.plus(right)).collect();
            self.levels.push(core::mem::replace(&mut level, next));
        }
    }
}

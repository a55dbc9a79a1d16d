//! Members' words on payments that were found good: one that stands in many dependencies is checked once.
//!
//! A word is known by all that is signed and by who signed it, under the keys of the view in which it is kept. Its signature is the one that was
//! found good: another one on the same is checked as any other. A replica belongs to one view, so its words do as well.

use std::collections::{BTreeMap, BTreeSet};

use synod_crypto::{Claim, Hash, Keys, Signature, verify_all};
use synod_machine::broadcast::View;

use crate::batch::Opened;
use crate::dependency::{Credited, Vouch, are_distinct, claim};

/// Words that are kept at most.
const WORDS_MAX: usize = 1 << 14;

/// What a member said, but for the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Spoken {
    root: Hash,
    open: Hash,
    member: u8,
}

impl Spoken {
    fn of(root: Hash, vouch: &Vouch) -> Self {
        Self { root, open: vouch.open.digest(), member: vouch.member }
    }
}

/// A word with a signature on it that is good.
pub type Good = (Spoken, Signature);

/// Words of a batch that were found good before, and how many others there are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recalled {
    good: BTreeMap<Spoken, Signature>,
    /// Signatures that are to be checked.
    pub fresh: u32,
}

/// Words that were found good, the newest of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Words {
    recent: BTreeMap<Spoken, Signature>,
    before: BTreeMap<Spoken, Signature>,
}

impl Words {
    /// Keeps good words; the older half of all gives way where there are too many.
    pub(crate) fn keep(&mut self, good: Vec<Good>) {
        for (spoken, signature) in good {
            if self.recent.len() >= WORDS_MAX / 2 {
                self.before = std::mem::take(&mut self.recent);
            }
            self.recent.insert(spoken, signature);
        }
    }

    fn knows(&self, spoken: &Spoken, signature: Signature) -> bool {
        [&self.recent, &self.before].iter().any(|kept| kept.get(spoken) == Some(&signature))
    }

    /// What is known of the words of a batch.
    pub(crate) fn recall(&self, opened: &Opened) -> Recalled {
        let (mut recalled, mut last) = (Recalled::default(), BTreeMap::new());
        for (spoken, vouch) in spoken(opened) {
            if self.knows(&spoken, vouch.signature) {
                recalled.good.insert(spoken, vouch.signature);
            } else if last.insert(spoken, vouch.signature) != Some(vouch.signature) {
                recalled.fresh = recalled.fresh.saturating_add(1);
            }
        }
        recalled
    }

    /// Bytes held, for memory accounting.
    pub(crate) fn bytes(&self) -> u64 {
        ((self.recent.len() + self.before.len()) * 2 * size_of::<Good>()) as u64
    }
}

/// All words that entries of a batch are backed with.
fn spoken(opened: &Opened) -> impl Iterator<Item = (Spoken, &Vouch)> {
    let all = opened.backings.values().flat_map(|with| with.iter());
    all.flat_map(|one| one.said.iter().map(|vouch| (Spoken::of(one.root, vouch), vouch)))
}

/// Signatures that are checked: one that stands on its word again, with no other between, once.
#[derive(Default)]
struct Checks {
    claims: Vec<Claim<Credited>>,
    spoken: Vec<Spoken>,
    /// The last on each word.
    last: BTreeMap<Spoken, usize>,
}

impl Checks {
    /// The number of the check of a word.
    fn add(&mut self, spoken: Spoken, claim: Claim<Credited>) -> usize {
        let known = self.last.get(&spoken).copied();
        let is_same = |at: &usize| self.claims.get(*at).is_some_and(|of| of.signature == claim.signature);
        if let Some(at) = known.filter(is_same) {
            return at;
        }
        let at = self.claims.len();
        self.last.insert(spoken, at);
        self.claims.push(claim);
        self.spoken.push(spoken);
        at
    }
}

/// Entries that are backed with something that does not pay their spenders, or twice with the same payment (4.6, rule 4), and words
/// that were found good.
pub(crate) fn forged(
    opened: &Opened,
    view: &View,
    recalled: &Recalled,
    keys: &Keys,
) -> (BTreeSet<u32>, Vec<Good>) {
    let (mut forged, mut checks, mut wanted) = (BTreeSet::new(), Checks::default(), Vec::new());
    for (index, with) in &opened.backings {
        let line = usize::try_from(*index).ok().and_then(|index| opened.batch.lines.get(index));
        let Some(spender) = line.map(|line| line.entry.id.spender) else { continue };
        if !are_distinct(with) || !with.each().all(|(one, digest)| one.pays(view, (spender, digest))) {
            forged.insert(*index);
            continue;
        }
        for (one, vouch) in with.iter().flat_map(|one| one.said.iter().map(move |vouch| (one, vouch))) {
            let spoken = Spoken::of(one.root, vouch);
            if recalled.good.get(&spoken) == Some(&vouch.signature) {
                continue;
            }
            match claim(view, one.root, vouch) {
                Some(claim) => wanted.push((*index, checks.add(spoken, claim))),
                None => drop(forged.insert(*index)),
            }
        }
    }
    let Checks { claims, spoken, .. } = checks;
    let signatures: Vec<Signature> = claims.iter().map(|claim| claim.signature).collect();
    let checked: Vec<bool> = verify_all(claims, keys).iter().map(Result::is_ok).collect();
    forged
        .extend(wanted.into_iter().filter(|(_, at)| checked.get(*at) != Some(&true)).map(|(index, _)| index));
    let good = spoken.into_iter().zip(signatures).zip(checked).filter(|(_, is_good)| *is_good);
    (forged, good.map(|(good, _)| good).collect())
}

#[cfg(test)]
mod tests;

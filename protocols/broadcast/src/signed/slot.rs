//! One slot of the signed broadcast: its payload, what this node endorsed, what it collected, what is proven.

use std::collections::{BTreeMap, BTreeSet};

use synod_crypto::{Hash, Signature};
use synod_machine::Span;
use synod_quorum::NodeSet;

use super::CERTIFICATES_MAX;
use super::crossing::Quora;
use super::job::Payload;
use super::words::{Certificate, Except, Said};
use crate::patience::Waiting;

/// What this node endorsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Accepted {
    pub(super) digest: Hash,
    pub(super) except: Except,
    pub(super) authorized: bool,
}

/// ACKs of one payload at whoever collects them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Collected {
    pub(super) good: BTreeMap<u8, Said>,
    pub(super) waiting: BTreeMap<u8, Said>,
    pub(super) is_checking: bool,
    /// Members who signed nothing, or a list that they may not: nothing more of them is looked at.
    pub(super) forged: NodeSet,
}

impl Collected {
    /// Whether an ACK says more than what is known of its member: the first one, or a shorter list.
    pub(super) fn is_news(&self, said: &Said) -> bool {
        let known = self.waiting.get(&said.member).or_else(|| self.good.get(&said.member));
        known.is_none_or(|known| {
            said.except.within(&known.except)
                && (said.except != known.except || said.authorized && !known.authorized)
        })
    }

    /// Whether an ACK that was not checked leaves something out.
    pub(super) fn has_lists(&self) -> bool {
        self.waiting.values().any(|said| !said.except.items().is_empty())
    }

    fn bytes(&self) -> u64 {
        let both = self.good.values().chain(self.waiting.values());
        both.map(|said| (size_of::<Said>() + size_of_val(said.except.items())) as u64).sum()
    }
}

/// A slot that somebody spoke of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Slot {
    /// The first payload that its source signed, with the signature.
    pub(super) taken: Option<(Hash, Signature)>,
    /// A payload in memory.
    pub(super) payload: Option<Payload>,
    /// A payload on the disk: its digest, and the name of its blob.
    pub(super) stored: Option<(Hash, Hash)>,
    pub(super) accepted: Option<Accepted>,
    /// The payload that members of older views endorsed, while its source has not signed it in this one.
    pub(super) carried: Option<Hash>,
    /// The ACK of what was accepted, once it is signed.
    pub(super) said: Option<Said>,
    /// Members who asked for the ACK before it was signed.
    pub(super) askers: NodeSet,
    pub(super) collected: Option<Collected>,
    /// Each certified an item that those before it did not.
    pub(super) certificates: Vec<Certificate>,
    /// Items that none of them certifies.
    pub(super) open: Except,
    /// How many of them the user was told.
    pub(super) told: usize,
    /// Whether the user was told that another payload is certified as well.
    pub(super) is_disputed: bool,
    /// The wait before ACKs are collected again.
    pub(super) resend: Option<Waiting>,
    /// The wait before the next peer is asked for the payload, and how many were.
    pub(super) pull: Option<(Span, u32)>,
}

impl Slot {
    /// The digest that is certified.
    pub(super) fn certified(&self) -> Option<Hash> {
        self.certificates.first().map(|certificate| certificate.digest)
    }

    /// The payload that the user or a list of exceptions waits for: a certified one, or the one that is worked on.
    pub(super) fn wants(&self) -> Option<Hash> {
        match self.certified() {
            Some(digest) => (self.told < self.certificates.len() || self.has_lists()).then_some(digest),
            None => self.accepted.as_ref().map(|accepted| accepted.digest).or(self.carried),
        }
    }

    /// Whether lists of exceptions wait to be held against its payload. Where all of it is certified, or another payload is, they
    /// say nothing.
    pub(super) fn has_lists(&self) -> bool {
        let taken = self.taken.map(|(digest, _)| digest);
        let is_whole = !self.certificates.is_empty() && self.open.items().is_empty();
        let is_its = self.certified().is_none_or(|certified| Some(certified) == taken);
        !is_whole && is_its && self.collected.as_ref().is_some_and(Collected::has_lists)
    }

    /// Whether it is certified and the user was told all of it.
    pub(super) fn is_told(&self) -> bool {
        !self.certificates.is_empty() && self.told == self.certificates.len()
    }

    /// The payload of a digest, if it is in memory.
    pub(super) fn payload(&self, digest: Hash) -> Option<&Payload> {
        self.payload.as_ref().filter(|payload| payload.digest == digest)
    }

    /// The name of the blob of a digest, if it is on the disk.
    pub(super) fn blob(&self, digest: Hash) -> Option<Hash> {
        self.stored.filter(|(of, _)| *of == digest).map(|(_, name)| name)
    }

    /// Whether it is certified and its payload is on the disk.
    fn is_here(&self) -> bool {
        self.certified().is_some_and(|digest| self.blob(digest).is_some())
    }

    /// What would be open if a certificate with this list came in; `None` if it certifies nothing new.
    pub(super) fn with(&self, open: &Except) -> Option<Except> {
        if self.certificates.is_empty() {
            return Some(open.clone());
        }
        let theirs: BTreeSet<u32> = open.items().iter().copied().collect();
        let both = self.open.items().iter().copied().filter(|item| theirs.contains(item)).collect();
        let both = Except::new(both).unwrap_or_default();
        (both != self.open).then_some(both)
    }

    /// Lets go of the oldest certificates all of whose items others certify, as long as there are more than are kept; false where
    /// there is none, which comes of a liar who signs another list for each. Of the others even those stay that say nothing more: a
    /// slot with several is told again after a restart, for the user may have taken care of the first alone.
    pub(super) fn shed(&mut self, quora: &Quora) -> bool {
        if self.certificates.len() <= CERTIFICATES_MAX {
            return true;
        }
        let lists: Vec<Except> = self.certificates.iter().map(|one| quora.open(one)).collect();
        let others =
            |at: usize| lists.iter().enumerate().filter(move |(other, _)| *other != at).map(|(_, list)| list);
        let Some(covered) = (0..lists.len()).find(|at| is_covered(&lists[*at], others(*at))) else {
            return false;
        };
        self.certificates.remove(covered);
        self.told -= usize::from(covered < self.told);
        true
    }

    /// Certificates that together certify what all of them do: one where one says as much.
    pub(super) fn said_of(&self, quora: &Quora) -> &[Certificate] {
        let whole = self.certificates.iter().position(|one| quora.open(one) == self.open);
        whole.map_or(&self.certificates, |at| &self.certificates[at..=at])
    }

    pub(super) fn bytes(&self) -> u64 {
        let payload = self.payload.as_ref().map_or(0, |payload| payload.bytes.len() as u64);
        let certificates: u64 = self.certificates.iter().map(Certificate::bytes).sum();
        let lists = [Some(&self.open), self.accepted.as_ref().map(|accepted| &accepted.except)];
        let lists: usize = lists.into_iter().flatten().map(|list| size_of_val(list.items())).sum();
        let collected = self.collected.as_ref().map_or(0, Collected::bytes);
        (size_of::<Self>() + lists) as u64 + payload + certificates + collected
    }

    /// Asserts that promises, proofs and what the user was told agree.
    pub(super) fn assert_sound(&self) {
        assert!(self.told <= self.certificates.len(), "the user was told of certificates that are not here");
        assert!(
            self.certificates.iter().all(|one| Some(one.digest) == self.certified()),
            "two digests are certified"
        );
        if let (Some(said), Some(accepted)) = (&self.said, &self.accepted) {
            assert!(accepted.except.within(&said.except), "an ACK endorses more than was accepted");
        }
    }
}

/// Whether what all others leave open is in a list as well: whatever its certificate certifies, another one does.
fn is_covered<'a>(list: &Except, others: impl Iterator<Item = &'a Except>) -> bool {
    let common = others.map(|other| other.items().iter().copied().collect::<BTreeSet<u32>>());
    let common = common.reduce(|one, other| one.intersection(&other).copied().collect());
    common.is_some_and(|common| common.iter().all(|item| list.items().binary_search(item).is_ok()))
}

/// The slots of one source.
#[derive(Clone, Debug)]
pub(super) struct Lane {
    /// All slots up to this one are certified, and the user was told.
    pub(super) certified: u64,
    pub(super) slots: BTreeMap<u64, Slot>,
    window: u64,
    retain: u64,
}

impl Lane {
    pub(super) const fn new(certified: u64, window: u64, retain: u64) -> Self {
        Self { certified, slots: BTreeMap::new(), window, retain }
    }

    /// Whether a slot is kept or worked on.
    pub(super) const fn holds(&self, sequence: u64) -> bool {
        self.keeps(sequence) && sequence <= self.certified.saturating_add(self.window)
    }

    /// Whether a slot is worked on that nothing certifies.
    pub(super) fn lacks(&self, sequence: u64) -> bool {
        let lacks = |slot: &Slot| slot.certificates.is_empty();
        sequence > self.certified && self.holds(sequence) && self.slots.get(&sequence).is_none_or(lacks)
    }

    /// A slot that is kept or worked on, made if nobody spoke of it before.
    pub(super) fn slot(&mut self, sequence: u64) -> Option<&mut Slot> {
        let is_new = sequence > 0 && self.holds(sequence);
        if is_new { Some(self.slots.entry(sequence).or_default()) } else { self.slots.get_mut(&sequence) }
    }

    /// A slot of an earlier life, which may have gone further than its user settled: what it had let go of, [`Self::forget`] finds.
    pub(super) fn again(&mut self, sequence: u64) -> Option<&mut Slot> {
        self.keeps(sequence).then(|| self.slots.entry(sequence).or_default())
    }

    /// Gives the slots that the earlier life had let go of, whose payloads are off the disk. It told its user of nothing but
    /// certified slots whose payload is stored, in their order, so it came to the first that is not one at most.
    pub(super) fn forget(&mut self) -> Vec<(u64, Slot)> {
        let mut reached = self.certified;
        while let Some(next) = reached.checked_add(1)
            && self.slots.get(&next).is_some_and(Slot::is_here)
        {
            reached = next;
        }
        let oldest = reached.saturating_sub(self.retain).saturating_sub(self.window);
        let kept = self.slots.split_off(&oldest.saturating_add(1));
        std::mem::replace(&mut self.slots, kept).into_iter().collect()
    }

    /// Whether a slot is not too old to be kept.
    pub(super) const fn keeps(&self, sequence: u64) -> bool {
        sequence > self.oldest()
    }

    const fn oldest(&self) -> u64 {
        self.certified.saturating_sub(self.retain).saturating_sub(self.window)
    }

    /// Moves on over slots that the user was told of; gives what is kept no longer.
    pub(super) fn advance(&mut self) -> Vec<(u64, Slot)> {
        while let Some(next) = self.certified.checked_add(1)
            && self.slots.get(&next).is_some_and(|slot| slot.told > 0)
        {
            self.certified = next;
        }
        let kept = self.slots.split_off(&self.oldest().saturating_add(1));
        std::mem::replace(&mut self.slots, kept).into_iter().collect()
    }
}

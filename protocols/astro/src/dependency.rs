//! Dependencies of profile II (Listings 7 to 10): f + 1 members' word that a payment has settled lets its beneficiary spend it.
//!
//! A member signs one root over the payments of a batch that concern accounts of one registrar, and which of them are open there
//! (E27). Distinct members' words on one root, none of which leaves a payment open, prove that payment (E24).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use synod_crypto::{Claim, Hash, Hasher, Signature, Statement};
use synod_ledger::{AccountId, Digests, Entry, EntryId, Kind, Leg, Total};
use synod_machine::broadcast::{Context, Except, ITEMS_MAX, Lot, View};
use synod_machine::planted;
use synod_quorum::{Model, NodeId, Quorums};
use synod_wire::{List, Malformed, Reader, Why, Wire, wire};

use crate::batch::{Batch, EntryProof, digest_of, measured, shows};

/// Most dependencies of one entry; what more there is goes with later ones.
pub const DEPENDENCIES_MAX: usize = 64;
/// Of the hash over what an entry is backed with.
const DOMAIN: &str = "synod astro dependencies";
/// Most members of a view.
const MEMBERS_MAX: usize = 128;

wire! {
    /// What a replica signs of payments that settled there: all under the root but the open ones.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Credited {
        /// The shard and view of the signer.
        pub context: Context,
        /// Over the digests of the payments.
        pub root: Hash,
        /// See [`Except::digest`].
        pub open: Hash,
    }

    /// One member's word on a root.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Vouch {
        /// Whose.
        pub member: u8,
        /// Payments that have not settled there, or were rejected, or are collected.
        pub open: Except,
        /// Over [`Credited`].
        pub signature: Signature,
    }

    /// Which payments a root is over.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Sub {
        /// Those of a batch that pay accounts of a registrar, in the order of the batch.
        0 = Batch {
            /// Which batch.
            lot: Lot,
            /// Whose accounts.
            registrar: u32,
        },
        /// This one.
        1 = Entry(EntryId),
    }

    /// A member's word for the representative of those who were paid (Listing 9, line 57).
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Credit {
        /// Of which payments.
        pub of: Sub,
        /// Over their digests.
        pub root: Hash,
        /// The word.
        pub vouch: Vouch,
    }

    /// A payment that can be spent (Listing 10).
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Dependency {
        /// The payment.
        pub entry: Arc<Entry>,
        /// What stands for its own dependencies; zero if it has none.
        pub with: Hash,
        /// That it is under the root.
        pub proof: EntryProof,
        /// What the members signed.
        pub root: Hash,
        /// Their words.
        pub said: List<Vouch, MEMBERS_MAX>,
    }

    /// What an entry of a batch is backed with.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Backing {
        /// Which entry.
        pub at: u32,
        /// The payments that it spends.
        pub with: List<Dependency, DEPENDENCIES_MAX>,
    }

    /// A batch of profile II as it is broadcast: its entries' digests cover what they are backed with.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct BackedBatch {
        /// By entry, in their order; entries without dependencies are left out.
        pub backings: List<Backing, ITEMS_MAX>,
        /// The batch.
        pub batch: Batch,
    }
}

/// What an entry is backed with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Withs {
    all: Vec<Dependency>,
    /// The digest of each payment, with what stands for its own dependencies.
    digests: Vec<Hash>,
    root: Hash,
    length: usize,
}

/// The same, shared by all who keep it.
pub type With = Arc<Withs>;

impl Withs {
    /// In their order.
    #[must_use]
    pub fn new(all: Vec<Dependency>) -> Self {
        let (root, length) = if all.is_empty() { (Hash::ZERO, 0) } else { measured(DOMAIN, &all) };
        let digests = all.iter().map(|one| backed(digest_of(&one.entry), one.with)).collect();
        Self { all, digests, root, length }
    }

    /// Each with the digest of its payment.
    pub(crate) fn each(&self) -> impl Iterator<Item = (&Dependency, Hash)> {
        self.all.iter().zip(self.digests.iter().copied())
    }

    /// What stands for it; zero if there is nothing.
    pub(crate) const fn root(&self) -> Hash {
        self.root
    }

    /// Bytes of its encoding.
    pub(crate) const fn length(&self) -> usize {
        self.length
    }
}

impl core::ops::Deref for Withs {
    type Target = [Dependency];

    fn deref(&self) -> &[Dependency] {
        &self.all
    }
}

impl Statement for Credited {
    const PROTOCOL: u8 = 3;
    const VERSION: u8 = 1;

    fn kind(&self) -> u16 {
        32
    }
}

/// The digest of an entry with what stands for its dependencies: that of the entry where it has none.
pub(crate) fn backed(plain: Hash, with: Hash) -> Hash {
    if with == Hash::ZERO { plain } else { Hash::of_value("synod astro backed entry", &(plain, with)) }
}

/// What an entry pays.
pub(crate) fn legs(entry: &Entry) -> &[Leg] {
    match &entry.kind {
        Kind::Pay(leg) => std::slice::from_ref(leg),
        Kind::Close(leg) if leg.amount.0 > 0 => std::slice::from_ref(leg),
        Kind::MultiPay(legs) => legs,
        _ => &[],
    }
}

/// Whom an entry pays, each once.
pub(crate) fn payees(entry: &Entry) -> impl Iterator<Item = AccountId> {
    let legs = legs(entry);
    let is_first = |at: usize, to| legs.iter().take(at).all(|before| before.to != to);
    legs.iter().enumerate().filter(move |(at, leg)| is_first(*at, leg.to)).map(|(_, leg)| leg.to)
}

/// What an entry pays an account.
pub(crate) fn paid_to(entry: &Entry, to: AccountId) -> Total {
    let own = legs(entry).iter().filter(|leg| leg.to == to);
    own.fold(Total::ZERO, |sum, leg| sum.checked_add(Total::of(leg.amount.0)).unwrap_or(Total::MAX))
}

/// Where something stands in an encoding.
type Span = core::ops::Range<usize>;

/// What entries are backed with, as it was read: what it is called is made of the bytes that it was read from, for it has one encoding.
#[derive(Default)]
pub(crate) struct ReadBackings {
    /// By entry, with where each dependency stands.
    all: Vec<(u32, Vec<(Dependency, Span)>)>,
    /// Where the payment of each dependency stands.
    payments: Vec<Span>,
}

impl ReadBackings {
    /// As [`BackedBatch`] begins. The entries rise, and none is backed with nothing.
    pub(crate) fn read(input: &mut Reader) -> Result<Self, Malformed> {
        let mut read = Self::default();
        for _ in 0..input.count(ITEMS_MAX)? {
            let (refusal, at) = (input.refuse(Why::NotCanonical), u32::read(input)?);
            let (count, mut with) = (input.count(DEPENDENCIES_MAX)?, Vec::new());
            if count == 0 || read.all.last().is_some_and(|(last, _)| *last >= at) {
                return Err(refusal);
            }
            for _ in 0..count {
                let start = input.at();
                let (dependency, payment) = Dependency::read_with_payment(input)?;
                read.payments.push(payment);
                with.push((dependency, start..input.at()));
            }
            read.all.push((at, with));
        }
        Ok(read)
    }

    /// The highest entry that is backed.
    pub(crate) fn last(&self) -> Option<u32> {
        self.all.last().map(|(at, _)| *at)
    }

    /// By entry, of the bytes that it was read from.
    pub(crate) fn finish(self, payload: &[u8]) -> BTreeMap<u32, With> {
        let of = |span: &Span| payload.get(span.clone()).unwrap_or_default();
        let payments: Vec<&[u8]> = self.payments.iter().map(of).collect();
        let mut plain = Digests::default().encoded(&payments).into_iter();
        let withs = self.all.into_iter().map(|(at, with)| {
            let (mut hasher, mut length) = (Hasher::new(DOMAIN), 0);
            for (_, span) in &with {
                hasher.add(of(span));
                length += span.len();
            }
            let all: Vec<Dependency> = with.into_iter().map(|(one, _)| one).collect();
            let digests =
                all.iter().zip(plain.by_ref()).map(|(one, plain)| backed(plain, one.with)).collect();
            (at, With::new(Withs { all, digests, root: hasher.finish(), length }))
        });
        withs.collect()
    }
}

impl Dependency {
    /// As it is read, with where its payment stands.
    fn read_with_payment(input: &mut Reader) -> Result<(Self, Span), Malformed> {
        let start = input.at();
        let entry = Wire::read(input)?;
        let payment = start..input.at();
        let (with, proof, root) = (Wire::read(input)?, Wire::read(input)?, Wire::read(input)?);
        Ok((Self { entry, with, proof, root, said: Wire::read(input)? }, payment))
    }

    /// Bytes held, for memory accounting.
    pub(crate) fn bytes(&self) -> u64 {
        let open: usize = self.said.iter().map(|vouch| size_of_val(vouch.open.items())).sum();
        let lists = self.said.len() * size_of::<Vouch>() + self.proof.path.len() * size_of::<Hash>() + open;
        (size_of::<Self>() + size_of::<Entry>() + size_of_val(legs(&self.entry)) + lists + size_of::<Hash>())
            as u64
    }

    /// Whether an account may spend it where its words are good (4.6, rule 4): it may not where it is another's payment, one of another
    /// shard, of fewer than f + 1 distinct members, or where one of them leaves it open. `digest` is that of the payment.
    pub(crate) fn pays(&self, view: &View, (spender, digest): (AccountId, Hash)) -> bool {
        let id = self.entry.id;
        let is_paid = paid_to(&self.entry, spender) > Total::ZERO;
        let is_here = id.spender.shard == view.context.shard && spender.shard == view.context.shard;
        let is_open = |vouch: &Vouch| vouch.open.items().binary_search(&self.proof.index).is_ok();
        let members: BTreeSet<u8> = self.said.iter().map(|vouch| vouch.member).collect();
        let Ok(quorums) = Quorums::new(Model::Byzantine, view.roster.all().count()) else { return false };
        let is_enough = members.len() == self.said.len()
            && u32::try_from(members.len()).is_ok_and(|count| count >= quorums.one_correct());
        let is_right = is_paid && is_here && is_enough && !self.said.iter().any(is_open);
        is_right && shows(&self.proof, digest, &self.root) || planted!(A21)
    }
}

/// A member's word, to be checked.
pub(crate) fn claim(view: &View, root: Hash, vouch: &Vouch) -> Option<Claim<Credited>> {
    let statement = Credited { context: view.context, root, open: vouch.open.digest() };
    view.claim(NodeId(u32::from(vouch.member)), statement, vouch.signature)
}

/// Whether no payment stands twice among the dependencies of an entry.
pub(crate) fn are_distinct(with: &[Dependency]) -> bool {
    let all: BTreeSet<EntryId> = with.iter().map(|one| one.entry.id).collect();
    all.len() == with.len()
}

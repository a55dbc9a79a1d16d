//! Entries of exclusive logs (paper, section III: xlogs).

use synod_crypto::{Hash, HashKey, PublicKey};
use synod_wire::{Bytes, List, Wire, Writer, wire};

use crate::{AccountId, Total, Units};

/// Most legs of one [`Kind::MultiPay`].
pub const LEGS_MAX: usize = 64;
/// Most holds that one [`Kind::Resolve`] names.
pub const HOLDS_MAX: usize = 64;

wire! {
    /// Who may append to a log.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Owner {
        /// The institution whose representative is this member: its batches alone carry the account.
        0 = Custodial(u8),
        /// Whoever signs entries with this Ed25519 key.
        1 = SelfSigned(PublicKey),
        /// The same, or a share of a multi-signature.
        2 = Distilled {
            /// For entries that straggle.
            single: PublicKey,
            /// For entries that are signed together: a key of BLS12-381 in G1, whose possession was proven at the opening.
            multi: [u8; 48],
        },
    }

    /// What a caller attaches: the ledger stores it and reads nothing in it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub struct UserData {
        /// 128 bits.
        pub wide: Units,
        /// 64 bits.
        pub middle: u64,
        /// 32 bits.
        pub narrow: u32,
    }

    /// An entry of a log by its place: of whose log, and the how-manieth.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct EntryId {
        /// Whose log.
        pub spender: AccountId,
        /// 1, 2, 3, ...
        pub n: u64,
    }

    /// One payment among several of an entry.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Leg {
        /// The beneficiary.
        pub to: AccountId,
        /// How much.
        pub amount: Units,
    }

    /// How holds end.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Verdict {
        /// Pays so much of each, in the order in which they are named, and frees the rest.
        0 = Post(List<Units, HOLDS_MAX>),
        /// Frees all.
        1 = Void,
    }

    /// What an entry does.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Kind {
        /// Pays one beneficiary.
        0 = Pay(Leg),
        /// Pays several, all or none.
        1 = MultiPay(List<Leg, LEGS_MAX>),
        /// Sets money aside until somebody decides over it. The entry names the hold.
        2 = Hold {
            /// Whom it would pay.
            to: AccountId,
            /// The most that it would pay.
            amount: Units,
            /// Whose log decides.
            resolver: AccountId,
            /// When the resolver is to void it, in ms of Unix time. Data: the ledger reads no clock.
            expires_at: u64,
        },
        /// Decides over holds that name the spender as their resolver.
        3 = Resolve {
            /// Which.
            holds: List<EntryId, HOLDS_MAX>,
            /// How they end.
            verdict: Verdict,
        },
        /// Closes the account, or empties a closed one once more.
        4 = Close(Leg),
        /// From the next entry on, another owner.
        5 = Rekey(Owner),
        /// From the next entry on, another representative: a member's number.
        6 = Move(u8),
        /// Another limit, which the registrar signs as well.
        7 = SetLimit(Units),
    }

    /// An entry of an exclusive log, without its authorization.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Entry {
        /// Its place.
        pub id: EntryId,
        /// The digest of entry n - 1, or [`genesis`] for the first.
        pub prev: Hash,
        /// What it does.
        pub kind: Kind,
        /// The caller's name for it, idempotent for ever.
        pub transfer: u128,
        /// The ledger of all accounts it touches.
        pub ledger: u32,
        /// The caller's reason.
        pub code: u16,
        /// See there.
        pub user_data: UserData,
        /// See there.
        pub flags: Flags,
    }

    /// Switches of an entry.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub struct Flags(pub u16);
}

impl Entry {
    /// What it takes from its spender, whose limit is `limit`, whether that can pay or not. Sums beyond 2^192 stay there.
    #[must_use]
    pub fn cost(&self, limit: Units) -> Total {
        let sum = |legs: &[Leg]| {
            legs.iter()
                .fold(Total::ZERO, |sum, leg| sum.checked_add(Total::of(leg.amount.0)).unwrap_or(Total::MAX))
        };
        match &self.kind {
            Kind::Pay(leg) | Kind::Close(leg) => Total::of(leg.amount.0),
            Kind::MultiPay(legs) => sum(legs),
            Kind::Hold { amount, .. } => Total::of(amount.0),
            Kind::SetLimit(lower) => Total::of(limit.0).saturating_sub(Total::of(lower.0)),
            Kind::Resolve { .. } | Kind::Rekey(_) | Kind::Move(_) => Total::ZERO,
        }
    }

    /// What it pays out itself, without what it decides over.
    #[must_use]
    pub fn legs(&self) -> &[Leg] {
        match &self.kind {
            Kind::Close(leg) if leg.amount.0 == 0 => &[],
            Kind::Pay(leg) | Kind::Close(leg) => std::slice::from_ref(leg),
            Kind::MultiPay(legs) => legs,
            Kind::Hold { .. } | Kind::Resolve { .. } | Kind::Rekey(_) | Kind::Move(_) | Kind::SetLimit(_) => {
                &[]
            }
        }
    }

    /// Those of its legs that are of accounts of a shard.
    pub fn legs_into(&self, shard: u16) -> impl Iterator<Item = &Leg> {
        self.legs().iter().filter(move |leg| leg.to.shard == shard)
    }

    /// Accounts that it names beside the spender: what happens to one of them may let a waiting entry settle.
    pub fn names(&self) -> impl Iterator<Item = AccountId> {
        let (legs, to, holds): (&[Leg], Option<AccountId>, &[EntryId]) = match &self.kind {
            Kind::Pay(leg) | Kind::Close(leg) => (std::slice::from_ref(leg), None, &[]),
            Kind::MultiPay(legs) => (legs, None, &[]),
            Kind::Hold { to, .. } => (&[], Some(*to), &[]),
            Kind::Resolve { holds, .. } => (&[], None, holds),
            Kind::Rekey(_) | Kind::Move(_) | Kind::SetLimit(_) => (&[], None, &[]),
        };
        legs.iter().map(|leg| leg.to).chain(to).chain(holds.iter().map(|id| id.spender))
    }
}

impl Flags {
    /// A payment to the spender itself is meant: it changes no balance.
    pub const ALLOW_SELF: Self = Self(1);

    /// Whether all of `wanted` are set.
    #[must_use]
    pub const fn has(self, wanted: Self) -> bool {
        self.0 & wanted.0 == wanted.0
    }
}

/// Bytes that the encoding of a payment has at most; others may have more.
const ENTRY_BYTES: usize = 192;

/// Hashes entries: BLAKE3 under the key of the kind of object.
#[derive(Clone)]
pub struct Digests(HashKey);

impl Default for Digests {
    fn default() -> Self {
        Self(HashKey::derive("synod ledger entry", &[]))
    }
}

impl Digests {
    /// The digest of an entry, which the next one of its log names.
    #[must_use]
    pub fn entry(&self, entry: &Entry) -> Hash {
        self.measured(entry).0
    }

    /// The same, and how many bytes the encoding of the entry has.
    #[must_use]
    pub fn measured(&self, entry: &Entry) -> (Hash, usize) {
        let mut encoded = Writer::with_capacity(ENTRY_BYTES);
        entry.write(&mut encoded);
        (self.0.hash(encoded.as_slice()), encoded.len())
    }

    /// Of many entries what [`Self::measured`] gives of each, for less time.
    #[must_use]
    pub fn measured_each(&self, entries: &[Entry]) -> Vec<(Hash, usize)> {
        let mut encoded = Writer::with_capacity(entries.len() * ENTRY_BYTES);
        let spans = entries.iter().map(|entry| {
            let start = encoded.len();
            entry.write(&mut encoded);
            start..encoded.len()
        });
        let spans: Vec<core::ops::Range<usize>> = spans.collect();
        let each: Vec<&[u8]> =
            spans.iter().map(|span| encoded.as_slice().get(span.clone()).unwrap_or_default()).collect();
        self.encoded(&each).into_iter().zip(spans).map(|(digest, span)| (digest, span.len())).collect()
    }

    /// The digests of many entries, as [`Self::entry`] gives each, for less time.
    #[must_use]
    pub fn entries<'a>(&self, entries: impl Iterator<Item = &'a Entry>) -> Vec<Hash> {
        let encoded: Vec<Bytes> = entries.map(Entry::encode).collect();
        let encoded: Vec<&[u8]> = encoded.iter().map(|one| &one[..]).collect();
        self.encoded(&encoded)
    }

    /// The digests of many entries that are encoded here, as [`Self::entry`] gives each, for less time. An entry has one encoding,
    /// so the bytes that one was read from stand for it.
    #[must_use]
    pub fn encoded(&self, entries: &[&[u8]]) -> Vec<Hash> {
        self.0.hash_each(entries)
    }
}

/// What the first entry of a log names as its predecessor.
#[must_use]
pub fn genesis(account: AccountId) -> Hash {
    Hash::of_value("synod ledger log", &account)
}

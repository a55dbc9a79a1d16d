//! Accounts: what payments touch, and what they seldom need.

use synod_crypto::{Hash, PublicKey};
use synod_wire::wire;

use crate::entry::genesis;
use crate::{AccountId, Amount, Owner, Total, Units, UserData};

wire! {
    /// How an account is opened, by its registrar.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Opening {
        /// Its name; `local` is one more than that of the registrar's last.
        pub id: AccountId,
        /// The ledger it belongs to, for good.
        pub ledger: u32,
        /// What may change later.
        pub terms: Terms,
        /// The most that `terms.limit` can be raised to.
        pub limit_max: Units,
        /// The representative that carries its entries: a member's number.
        pub representative: u8,
    }

    /// What few accounts have of their own: accounts opened alike share it in memory.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Terms {
        /// Who may append.
        pub owner: Owner,
        /// Who may name another owner when that one is gone.
        pub recovery: Option<PublicKey>,
        /// How far below 0 the balance may go: money exists as the negative balances of issuers alone.
        pub limit: Units,
        /// The registrar's reason.
        pub code: u16,
        /// See there.
        pub user_data: UserData,
    }
}

/// An account as payments see it: two lines of the processor's cache.
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(align(64))]
pub struct Account {
    /// Settled entries; the last one's n.
    pub(crate) sn: u64,
    /// The digest of the last settled entry.
    pub(crate) head: Hash,
    pub(crate) credits: Total,
    pub(crate) debits: Total,
    pub(crate) pending: Total,
    pub(crate) ledger: u32,
    /// Where its terms are.
    pub(crate) terms: u32,
    /// Open holds that it pays.
    pub(crate) holds: u16,
    pub(crate) representative: u8,
    pub(crate) marks: u8,
}

const _: () = assert!(size_of::<Account>() == 128);

/// Marks of an account.
pub(crate) const CLOSED: u8 = 1;
pub(crate) const FROZEN: u8 = 2;

impl Account {
    pub(crate) fn opened(opening: &Opening, terms: u32) -> Self {
        Self {
            sn: 0,
            head: genesis(opening.id),
            credits: Total::ZERO,
            debits: Total::ZERO,
            pending: Total::ZERO,
            ledger: opening.ledger,
            terms,
            holds: 0,
            representative: opening.representative,
            marks: 0,
        }
    }

    /// The n of its last settled entry; 0 before the first.
    #[inline]
    #[must_use]
    pub const fn sequence(&self) -> u64 {
        self.sn
    }

    /// The digest that its next entry names.
    #[inline]
    #[must_use]
    pub const fn head(&self) -> Hash {
        self.head
    }

    /// All that was ever paid to it.
    #[must_use]
    pub const fn credits_posted(&self) -> Total {
        self.credits
    }

    /// All that it ever paid.
    #[must_use]
    pub const fn debits_posted(&self) -> Total {
        self.debits
    }

    /// What its open holds set aside.
    #[must_use]
    pub const fn debits_pending(&self) -> Total {
        self.pending
    }

    /// Its ledger.
    #[inline]
    #[must_use]
    pub const fn ledger(&self) -> u32 {
        self.ledger
    }

    /// The member that carries its entries.
    #[inline]
    #[must_use]
    pub const fn representative(&self) -> u8 {
        self.representative
    }

    /// Open holds that it pays.
    #[must_use]
    pub const fn holds(&self) -> u16 {
        self.holds
    }

    /// Whether it takes no entries but those that decide over holds or empty it.
    #[inline]
    #[must_use]
    pub const fn is_closed(&self) -> bool {
        self.marks & CLOSED != 0
    }

    /// Whether operators want no new entries endorsed. Certified ones settle.
    #[inline]
    #[must_use]
    pub const fn is_frozen(&self) -> bool {
        self.marks & FROZEN != 0
    }

    /// What it can spend under `limit`: credits and limit, less debits and what is set aside.
    #[inline]
    #[must_use]
    pub fn available(&self, limit: Units) -> Total {
        let has = self.credits.checked_add(Total::of(limit.0));
        let spent = self.debits.checked_add(self.pending);
        match (has, spent) {
            (Some(has), Some(spent)) => has.saturating_sub(spent),
            // Sums above 2^192 are refused where they would arise; nothing can be spent from one.
            _ => Total::ZERO,
        }
    }

    /// Its balance: what it is owed, and what it owes. One of the two is nothing.
    #[must_use]
    pub fn balance(&self) -> (Total, Total) {
        (self.credits.saturating_sub(self.debits), self.debits.saturating_sub(self.credits))
    }
}

impl Opening {
    /// Whether limits are in order: the limit at most `limit_max`, and that below 2^96.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.terms.limit <= self.limit_max && self.limit_max.0 <= Amount::MAX.units() && self.id.local > 0
    }
}

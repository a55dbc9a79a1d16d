//! Balances and the rule of payments.

use synod_crypto::Hash;
use synod_crypto::merkle::{Tree, leaf};

/// Accounts of a chunk of the state: 64 KiB.
const CHUNK: usize = 8_192;
/// Accounts may open with less than this, so that 2^32 of them hold less than 2^63.
pub(crate) const GRANT_END: u64 = 1 << 31;
/// The supply is below this.
const SUPPLY_END: u64 = 1 << 63;

/// What became of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Code {
    /// Paid.
    Paid,
    /// Bits that must be zero are not.
    Malformed,
    /// The sender or the recipient has no account.
    NoAccount,
    /// The amount is zero.
    NoAmount,
    /// The sender has less.
    Short,
}

impl Code {
    /// The byte that results keep.
    #[must_use]
    pub const fn byte(self) -> u8 {
        match self {
            Self::Paid => 0,
            Self::Malformed => 1,
            Self::NoAccount => 2,
            Self::NoAmount => 3,
            Self::Short => 4,
        }
    }
}

/// The operation that pays `amount` to `recipient`; `None` when the recipient needs more than 28 bits.
#[must_use]
pub const fn operation(recipient: u32, amount: u32) -> Option<u64> {
    if recipient >> 28 == 0 { Some(recipient as u64 | (amount as u64) << 32) } else { None }
}

/// The accounts of all clients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Payments {
    balances: Vec<u64>,
    supply: u64,
    grant: u64,
}

impl Payments {
    /// `length` accounts which open with `grant`, as later ones will; `None` when 2^32 of them would hold 2^63.
    #[must_use]
    pub fn granting(grant: u64, length: u32) -> Option<Self> {
        let mut payments = (grant < GRANT_END).then_some(Self { grant, ..Self::default() })?;
        payments.grow(length);
        Some(payments)
    }

    /// Accounts with these balances; `None` when their sum is not below 2^63.
    #[must_use]
    pub fn new(balances: Vec<u64>) -> Option<Self> {
        let supply = balances.iter().try_fold(0_u64, |sum, balance| sum.checked_add(*balance))?;
        (supply < SUPPLY_END).then_some(Self { balances, supply, grant: 0 })
    }

    /// Opens accounts up to `length`, the length of the directory: empty ones, or with what is granted.
    pub fn grow(&mut self, length: u32) {
        let fresh = (length as usize).saturating_sub(self.balances.len());
        self.supply += self.grant * fresh as u64;
        self.balances.resize(self.balances.len() + fresh, self.grant);
    }

    /// The balance of `id`; `None` without an account.
    #[must_use]
    pub fn balance(&self, id: u32) -> Option<u64> {
        self.balances.get(id as usize).copied()
    }

    /// Executes one batch of operations, each with its sender; a code for each, in order.
    pub fn execute(&mut self, batch: impl IntoIterator<Item = (u32, u64)>) -> Vec<Code> {
        let mut credits = Vec::new();
        let codes = batch.into_iter().map(|(sender, operation)| self.debit(sender, operation, &mut credits));
        let codes = codes.collect();
        for (recipient, amount) in credits {
            if let Some(balance) = self.balances.get_mut(recipient) {
                *balance += amount;
            }
        }
        codes
    }

    fn debit(&mut self, sender: u32, operation: u64, credits: &mut Vec<(usize, u64)>) -> Code {
        let (recipient, amount) = (operation & 0xffff_ffff, operation >> 32);
        if recipient >> 28 != 0 {
            return Code::Malformed;
        }
        let recipient = usize::try_from(recipient).ok().filter(|at| *at < self.balances.len());
        let (Some(recipient), Some(balance)) = (recipient, self.balances.get_mut(sender as usize)) else {
            return Code::NoAccount;
        };
        if amount == 0 {
            return Code::NoAmount;
        }
        if *balance < amount {
            return Code::Short;
        }
        *balance -= amount;
        credits.push((recipient, amount));
        Code::Paid
    }

    /// Digest of the whole state: the Merkle root over the number of accounts and chunks of 64 KiB.
    #[must_use]
    pub fn root(&self) -> Hash {
        let header = leaf(&(self.balances.len() as u64).to_le_bytes());
        let chunk = |balances: &[u64]| {
            let bytes: Vec<u8> = balances.iter().flat_map(|balance| balance.to_le_bytes()).collect();
            leaf(&bytes)
        };
        Tree::new(core::iter::once(header).chain(self.balances.chunks(CHUNK).map(chunk)).collect()).root()
    }

    /// Bytes the state holds.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        8 * self.balances.len() as u64
    }

    /// Asserts that no money was made or lost.
    ///
    /// # Panics
    /// When the balances do not add up to the supply.
    pub fn invariants(&self) {
        assert!(self.supply < SUPPLY_END);
        assert_eq!(self.balances.iter().sum::<u64>(), self.supply, "money is neither made nor lost");
    }
}

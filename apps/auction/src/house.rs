//! Tokens, money, and the rules of bidding and taking.

use synod_crypto::Hash;
use synod_crypto::merkle::{Tree, leaf};
use synod_service::At;

/// Bytes of a chunk of the state, at most 64 KiB.
const CHUNK: usize = 2_048;
/// The supply is below this.
const SUPPLY_END: u64 = 1 << 63;

/// What became of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Code {
    /// The bid is the best one.
    Bid,
    /// The token was sold.
    Taken,
    /// A take with an amount.
    Malformed,
    /// The client has no account.
    NoAccount,
    /// There is no such token.
    NoToken,
    /// The owner bids for its own token.
    Owner,
    /// The best bid is not lower.
    Low,
    /// The client has less.
    Short,
    /// A take by somebody else than the owner.
    NotOwner,
    /// A take without a bid.
    NoBid,
}

impl Code {
    /// The byte that results keep.
    #[must_use]
    pub const fn byte(self) -> u8 {
        self as u8
    }
}

/// The operation that bids `amount` for `token`; `None` when the token needs more than 31 bits.
#[must_use]
pub const fn bid(token: u32, amount: u32) -> Option<u64> {
    if token >> 31 == 0 { Some((token as u64) << 1 | (amount as u64) << 32) } else { None }
}

/// The operation that takes the best bid for `token`; `None` when the token needs more than 31 bits.
#[must_use]
pub const fn take(token: u32) -> Option<u64> {
    if token >> 31 == 0 { Some((token as u64) << 1 | 1) } else { None }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Account {
    available: u64,
    locked: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Token {
    owner: u32,
    best: Option<(u32, u64)>,
}

/// The money of all clients and the tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct House {
    accounts: Vec<Account>,
    tokens: Vec<Token>,
    supply: u64,
}

/// Money that counts from the next batch.
type Later = Vec<(u32, u64)>;

impl House {
    /// A house of clients with this money and tokens with these owners; `None` when the money is not below 2^63 or an
    /// owner has no account.
    #[must_use]
    pub fn new(money: &[u64], owners: &[u32]) -> Option<Self> {
        let supply = money.iter().try_fold(0_u64, |sum, available| sum.checked_add(*available))?;
        let known = owners.iter().all(|owner| (*owner as usize) < money.len());
        let accounts = money.iter().map(|available| Account { available: *available, locked: 0 }).collect();
        let tokens = owners.iter().map(|owner| Token { owner: *owner, best: None }).collect();
        (supply < SUPPLY_END && known).then_some(Self { accounts, tokens, supply })
    }

    /// Opens empty accounts up to `length`, the length of the directory.
    pub fn grow(&mut self, length: u32) {
        if self.accounts.len() < length as usize {
            self.accounts.resize(length as usize, Account::default());
        }
    }

    /// What `id` has available and locked; `None` without an account.
    #[must_use]
    pub fn money(&self, id: u32) -> Option<(u64, u64)> {
        self.accounts.get(id as usize).map(|account| (account.available, account.locked))
    }

    /// The owner of `token`, and its best bid with the bidder; `None` when there is no such token.
    #[must_use]
    pub fn token(&self, token: u32) -> Option<(u32, Option<(u32, u64)>)> {
        self.tokens.get(token as usize).map(|token| (token.owner, token.best))
    }

    /// Executes one batch of operations, each with its sender, of whom each stands there once; a code for each, in
    /// order.
    pub fn execute(&mut self, at: &At, batch: impl IntoIterator<Item = (u32, u64)>) -> Vec<Code> {
        let batch: Vec<(u32, u64)> = batch.into_iter().collect();
        let mut order: Vec<(u64, usize)> =
            batch.iter().enumerate().map(|(index, (sender, _))| (at.rank(*sender), index)).collect();
        order.sort_unstable();
        let mut codes = vec![Code::Malformed; batch.len()];
        let mut later = Later::new();
        for (_, index) in order {
            if let (Some((sender, operation)), Some(code)) = (batch.get(index), codes.get_mut(index)) {
                *code = self.one(*sender, *operation, &mut later);
            }
        }
        for (id, amount) in later {
            if let Some(account) = self.accounts.get_mut(id as usize) {
                account.available += amount;
            }
        }
        codes
    }

    fn one(&mut self, sender: u32, operation: u64, later: &mut Later) -> Code {
        let (takes, amount) = (operation & 1 == 1, operation >> 32);
        if takes && amount != 0 {
            return Code::Malformed;
        }
        if sender as usize >= self.accounts.len() {
            return Code::NoAccount;
        }
        let token = usize::try_from((operation >> 1) & 0x7fff_ffff).ok();
        let Some(token) = token.and_then(|token| self.tokens.get_mut(token)) else { return Code::NoToken };
        if takes {
            take_best(&mut self.accounts, token, sender, later)
        } else {
            place(&mut self.accounts, token, (sender, amount), later)
        }
    }

    /// Digest of the whole state: the Merkle root over chunks of accounts, then of tokens.
    #[must_use]
    pub fn root(&self) -> Hash {
        let accounts = self.accounts.chunks(CHUNK).map(|chunk| {
            let each = chunk
                .iter()
                .flat_map(|account| [account.available.to_le_bytes(), account.locked.to_le_bytes()]);
            leaf(&each.flatten().collect::<Vec<u8>>())
        });
        let tokens = self.tokens.chunks(CHUNK).map(|chunk| {
            let each = chunk.iter().flat_map(|token| {
                let (bidder, amount) = token.best.unwrap_or((u32::MAX, 0));
                [u64::from(token.owner), u64::from(bidder), amount].map(u64::to_le_bytes)
            });
            leaf(&each.flatten().collect::<Vec<u8>>())
        });
        let parts = [Tree::new(accounts.collect()).root(), Tree::new(tokens.collect()).root()];
        Tree::new(parts.iter().map(|part| leaf(&part.0)).collect()).root()
    }

    /// Bytes the state holds.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        16 * self.accounts.len() as u64 + 24 * self.tokens.len() as u64
    }

    /// Asserts that no money was made or lost, that locked money is that of best bids, and that owners have accounts.
    ///
    /// # Panics
    /// When one of it does not hold.
    pub fn invariants(&self) {
        let total: u64 = self.accounts.iter().map(|account| account.available + account.locked).sum();
        assert_eq!(total, self.supply, "money is neither made nor lost");
        let mut locked = vec![0; self.accounts.len()];
        for token in &self.tokens {
            assert!((token.owner as usize) < self.accounts.len(), "every token has an owner");
            if let Some((bidder, amount)) = token.best {
                assert_ne!(bidder, token.owner, "nobody bids for its own token");
                locked[bidder as usize] += amount;
            }
        }
        assert!(self.accounts.iter().zip(locked).all(|(account, sum)| account.locked == sum));
    }
}

fn account(accounts: &mut [Account], id: u32) -> &mut Account {
    accounts.get_mut(id as usize).expect("owners and bidders have accounts, and none is closed")
}

fn place(
    accounts: &mut [Account],
    token: &mut Token,
    (sender, amount): (u32, u64),
    later: &mut Later,
) -> Code {
    if token.owner == sender {
        return Code::Owner;
    }
    if amount <= token.best.map_or(0, |(_, best)| best) {
        return Code::Low;
    }
    let own = account(accounts, sender);
    if own.available < amount {
        return Code::Short;
    }
    own.available -= amount;
    own.locked += amount;
    if let Some((former, released)) = token.best.replace((sender, amount)) {
        account(accounts, former).locked -= released;
        later.push((former, released));
    }
    Code::Bid
}

fn take_best(accounts: &mut [Account], token: &mut Token, sender: u32, later: &mut Later) -> Code {
    if token.owner != sender {
        return Code::NotOwner;
    }
    let Some((bidder, amount)) = token.best.take() else { return Code::NoBid };
    account(accounts, bidder).locked -= amount;
    later.push((sender, amount));
    token.owner = bidder;
    Code::Taken
}

//! Tokens, money, and the rules of bidding and taking.

use synod_crypto::Hash;
use synod_crypto::merkle::{Tree, leaf};
use synod_service::At;

/// Accounts of a chunk of the state: 64 KiB.
const ACCOUNTS: usize = 4_096;
/// Tokens of a chunk of the state: 48 KiB.
const TOKENS: usize = 2_048;
/// Clients may open with less than this, so that 2^32 of them have less than 2^63.
pub(crate) const GRANT_END: u64 = 1 << 31;
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

/// The money of one client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) available: u64,
    pub(crate) locked: u64,
}

impl Account {
    pub(crate) fn to_bytes(self) -> impl Iterator<Item = u8> {
        [self.available, self.locked].into_iter().flat_map(u64::to_le_bytes)
    }
}

/// One token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) owner: u32,
    pub(crate) best: Option<(u32, u64)>,
}

impl Token {
    pub(crate) fn to_bytes(self) -> impl Iterator<Item = u8> {
        let (bidder, amount) = self.best.unwrap_or((u32::MAX, 0));
        [u64::from(self.owner), u64::from(bidder), amount].into_iter().flat_map(u64::to_le_bytes)
    }
}

/// The money of all clients and the tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct House {
    accounts: Vec<Account>,
    tokens: Vec<Token>,
    supply: u64,
    grant: u64,
    /// Clients below this open with the token of their own number.
    endowed: u32,
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
        (supply < SUPPLY_END && known).then_some(Self { accounts, tokens, supply, grant: 0, endowed: 0 })
    }

    /// A house of `length` clients which open with `grant`, as later ones will, the first `endowed` with the token of their
    /// own number; `None` when 2^32 of them would have 2^63.
    #[must_use]
    pub fn granting(grant: u64, endowed: u32, length: u32) -> Option<Self> {
        let nothing = Self { accounts: Vec::new(), tokens: Vec::new(), supply: 0, grant, endowed };
        let mut house = (grant < GRANT_END).then_some(nothing)?;
        house.grow(length);
        Some(house)
    }

    /// Opens accounts up to `length`, the length of the directory: empty ones, or with what is granted.
    pub fn grow(&mut self, length: u32) {
        let fresh = (length as usize).saturating_sub(self.accounts.len());
        self.supply += self.grant * fresh as u64;
        let opened = Account { available: self.grant, locked: 0 };
        self.accounts.resize(self.accounts.len() + fresh, opened);
        let known = u32::try_from(self.tokens.len()).unwrap_or(u32::MAX);
        self.tokens.extend((known..length.min(self.endowed)).map(|owner| Token { owner, best: None }));
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

    /// Digest of the whole state: the Merkle root over the numbers of accounts and tokens, chunks of accounts, and chunks
    /// of tokens.
    #[must_use]
    pub fn root(&self) -> Hash {
        let lens = [self.accounts.len() as u64, self.tokens.len() as u64];
        let header = leaf(&lens.into_iter().flat_map(u64::to_le_bytes).collect::<Vec<u8>>());
        let accounts = self
            .accounts
            .chunks(ACCOUNTS)
            .map(|chunk| leaf(&chunk.iter().copied().flat_map(Account::to_bytes).collect::<Vec<u8>>()));
        let tokens = self
            .tokens
            .chunks(TOKENS)
            .map(|chunk| leaf(&chunk.iter().copied().flat_map(Token::to_bytes).collect::<Vec<u8>>()));
        Tree::new(core::iter::once(header).chain(accounts).chain(tokens).collect()).root()
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

//! Auctions over lanes: ask by client, judge by token, settle by client (chopchop 4.10).
//!
//! Exact, because a client has one operation per batch: what it had available at the start of the batch is what a judge
//! that sees one token only has to know of it.

use core::ops::Range;

use synod_service::lanes::{Cell, Cells, Entry, Home, LaneApp, LaneTurn, NEAR, Shard, Space, State};
use synod_wire::Bytes;

use crate::contest::{Contested, in_order};
use crate::house::{Account, Code, GRANT_END, Token};

/// The space of accounts.
const ACCOUNTS: usize = 0;
/// The space of tokens.
const TOKENS: usize = 1;

impl Cell for Account {
    const BYTES: usize = 16;

    fn put(&self, out: &mut Vec<u8>) {
        out.extend(self.to_bytes());
    }

    fn get(bytes: &[u8]) -> Option<Self> {
        let (words, rest) = bytes.as_chunks::<8>();
        let [available, locked] = words else { return None };
        let (available, locked) = (u64::from_le_bytes(*available), u64::from_le_bytes(*locked));
        rest.is_empty().then_some(Self { available, locked })
    }
}

impl Cell for Token {
    const BYTES: usize = 24;

    fn put(&self, out: &mut Vec<u8>) {
        out.extend(self.to_bytes());
    }

    fn get(bytes: &[u8]) -> Option<Self> {
        let (words, rest) = bytes.as_chunks::<8>();
        let [owner, bidder, amount] = words else { return None };
        let [owner, bidder, amount] = [owner, bidder, amount].map(|word| u64::from_le_bytes(*word));
        let (owner, bidder) = (u32::try_from(owner).ok()?, u32::try_from(bidder).ok()?);
        let best = match (bidder, amount) {
            (u32::MAX, 0) => None,
            (u32::MAX, _) => return None,
            (bidder, amount) => Some((bidder, amount)),
        };
        rest.is_empty().then_some(Self { owner, best })
    }
}

/// What one lane holds of a house.
#[derive(Clone, Debug, Default)]
pub struct Rooms {
    accounts: Cells<Account>,
    tokens: Cells<Token>,
}

impl Shard for Rooms {
    fn space(&self, number: usize) -> &dyn Space {
        if number == ACCOUNTS { &self.accounts } else { &self.tokens }
    }

    fn space_mut(&mut self, number: usize) -> &mut dyn Space {
        if number == ACCOUNTS { &mut self.accounts } else { &mut self.tokens }
    }
}

/// An operation on a token, and what its sender has available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    pub(crate) index: u32,
    sender: u32,
    operation: u64,
    available: u64,
}

#[cfg(test)]
impl Ask {
    /// An operation of this entry, for tests of its order.
    pub(crate) const fn of(index: u32) -> Self {
        Self { index, sender: 0, operation: 0, available: 0 }
    }
}

/// What lanes of an auction post.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Letter {
    /// To a token.
    Ask(Ask),
    /// To the lane of an entry: what became of it.
    Code {
        /// The entry.
        index: u32,
        /// The code.
        code: u8,
    },
    /// To a client: this much is locked.
    Lock {
        /// The client.
        client: u32,
        /// The money.
        amount: u64,
    },
    /// To a client: this much of the locked money is free.
    Release {
        /// The client.
        client: u32,
        /// The money.
        amount: u64,
    },
    /// To a client: this much of the locked money was spent.
    Spend {
        /// The client.
        client: u32,
        /// The money.
        amount: u64,
    },
    /// To a client: this much was earned.
    Earn {
        /// The client.
        client: u32,
        /// The money.
        amount: u64,
    },
}

impl Letter {
    const fn ask(&self) -> Option<Ask> {
        match self {
            Self::Ask(ask) => Some(*ask),
            _ => None,
        }
    }

    /// The client whose money changes.
    const fn client(&self) -> Option<u32> {
        match self {
            Self::Ask(_) | Self::Code { .. } => None,
            Self::Lock { client, .. }
            | Self::Release { client, .. }
            | Self::Spend { client, .. }
            | Self::Earn { client, .. } => Some(*client),
        }
    }
}

/// The rules of auctions, for lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuctionLanes {
    grant: u64,
    tokens: u32,
}

impl AuctionLanes {
    /// Auctions in which every client opens with `grant`, and the first `tokens` with the token of their own number;
    /// `None` at a grant of 2^31 and above, or with more than 2^31 tokens.
    #[must_use]
    pub const fn new(grant: u64, tokens: u32) -> Option<Self> {
        if grant < GRANT_END && tokens <= 1 << 31 { Some(Self { grant, tokens }) } else { None }
    }

    fn ask(turn: &mut LaneTurn<'_, Self>) {
        // Senders rise, by strides that no processor foresees.
        let (mut entries, mut piece) = (turn.entries(), Vec::with_capacity(NEAR));
        turn.shard.accounts.near(entries.ahead());
        while entries.piece(&mut piece) {
            turn.shard.accounts.near(entries.ahead());
            piece.iter().for_each(|entry| Self::ask_one(turn, entry));
        }
    }

    fn ask_one(turn: &mut LaneTurn<'_, Self>, entry: &Entry) {
        let tokens = turn.layout().space(TOKENS);
        let accounts = &turn.shard.accounts;
        let account = accounts.get(accounts.place(u64::from(entry.id))).copied();
        let token = token_of(entry.operation);
        let code = match account {
            _ if entry.operation & 1 == 1 && entry.operation >> 32 != 0 => Code::Malformed,
            None => Code::NoAccount,
            Some(_) if token >= tokens.len => Code::NoToken,
            Some(account) => {
                let (index, sender, operation) = (entry.index, entry.id, entry.operation);
                let ask = Ask { index, sender, operation, available: account.available };
                return turn.post(tokens.lane(token), Letter::Ask(ask));
            }
        };
        turn.answer(entry.index, code.byte());
    }

    /// Operations on one token in the order of their ranks; tokens know nothing of one another, so only operations that
    /// share a token are sorted, however many they are.
    fn judge(turn: &mut LaneTurn<'_, Self>) {
        let tokens = &turn.shard.tokens;
        let mut seen = vec![Seen::Never; tokens.all().len()];
        for ask in turn.mail().flat_map(|(piece, _)| piece).filter_map(Letter::ask) {
            if let Some(seen) = seen.get_mut(tokens.place(token_of(ask.operation))) {
                *seen = if *seen == Seen::Never { Seen::Once } else { Seen::Often };
            }
        }
        let mut contested = Vec::new();
        for (piece, next) in turn.mail() {
            let tokens = &turn.shard.tokens;
            tokens.near(next.iter().filter_map(Letter::ask).map(|ask| token_of(ask.operation)));
            for ask in piece.iter().filter_map(Letter::ask) {
                let token = token_of(ask.operation);
                let place = turn.shard.tokens.place(token);
                if seen.get(place) == Some(&Seen::Often) {
                    contested.push(Contested { place, rank: turn.at().rank(ask.sender), ask });
                } else {
                    Self::judge_one(turn, &ask);
                }
            }
        }
        in_order(&contested, seen.len()).iter().for_each(|one| Self::judge_one(turn, &one.ask));
    }

    fn judge_one(turn: &mut LaneTurn<'_, Self>, ask: &Ask) {
        let Ask { index, sender, operation, available } = *ask;
        let accounts = turn.layout().space(ACCOUNTS);
        let place = turn.shard.tokens.place(token_of(operation));
        let Some(mut token) = turn.shard.tokens.get(place).copied() else { return };
        let (code, later) = judge(&mut token, (sender, available), operation);
        let mut send = |client: u32, letter| turn.post(accounts.lane(u64::from(client)), letter);
        send(sender, Letter::Code { index, code: code.byte() });
        match later {
            Later::Nothing => return,
            Later::Locked { amount, former } => {
                send(sender, Letter::Lock { client: sender, amount });
                if let Some((client, amount)) = former {
                    send(client, Letter::Release { client, amount });
                }
            }
            Later::Sold { bidder, amount } => {
                send(bidder, Letter::Spend { client: bidder, amount });
                send(sender, Letter::Earn { client: sender, amount });
            }
        }
        if let Some(kept) = turn.shard.tokens.get_mut(place) {
            *kept = token;
        }
    }

    fn settle(turn: &mut LaneTurn<'_, Self>) {
        for (piece, next) in turn.mail() {
            turn.shard.accounts.near(next.iter().filter_map(Letter::client).map(u64::from));
            piece.iter().for_each(|letter| Self::settle_one(turn, letter));
        }
    }

    fn settle_one(turn: &mut LaneTurn<'_, Self>, letter: &Letter) {
        let (client, available, locked, amount) = match *letter {
            Letter::Ask(_) => return,
            Letter::Code { index, code } => return turn.answer(index, code),
            Letter::Lock { client, amount } => (client, Change::Less, Change::More, amount),
            Letter::Release { client, amount } => (client, Change::More, Change::Less, amount),
            Letter::Spend { client, amount } => (client, Change::Same, Change::Less, amount),
            Letter::Earn { client, amount } => (client, Change::More, Change::Same, amount),
        };
        let place = turn.shard.accounts.place(u64::from(client));
        if let Some(account) = turn.shard.accounts.get_mut(place) {
            available.make(&mut account.available, amount);
            locked.make(&mut account.locked, amount);
        }
    }
}

/// How often a token is asked for in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    Never,
    Once,
    Often,
}

const fn token_of(operation: u64) -> u64 {
    operation >> 1 & 0x7fff_ffff
}

/// What follows from an operation on a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Later {
    /// Nothing: it was refused.
    Nothing,
    /// The sender's bid is the best one; the former one is released.
    Locked { amount: u64, former: Option<(u32, u64)> },
    /// The bidder paid the sender.
    Sold { bidder: u32, amount: u64 },
}

/// One operation on one token, by a sender that has `available` at the start of the batch.
fn judge(token: &mut Token, (sender, available): (u32, u64), operation: u64) -> (Code, Later) {
    let owns = token.owner == sender;
    if operation & 1 == 1 {
        return match token.best {
            _ if !owns => (Code::NotOwner, Later::Nothing),
            None => (Code::NoBid, Later::Nothing),
            Some((bidder, amount)) => {
                *token = Token { owner: bidder, best: None };
                (Code::Taken, Later::Sold { bidder, amount })
            }
        };
    }
    let amount = operation >> 32;
    let best = token.best.map_or(0, |(_, best)| best);
    let refused = if owns {
        Code::Owner
    } else if amount <= best {
        Code::Low
    } else if available < amount {
        Code::Short
    } else {
        let former = token.best.replace((sender, amount));
        return (Code::Bid, Later::Locked { amount, former });
    };
    (refused, Later::Nothing)
}

/// What becomes of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    More,
    Less,
    Same,
}

impl Change {
    const fn make(self, number: &mut u64, amount: u64) {
        match self {
            Self::More => *number += amount,
            Self::Less => *number -= amount,
            Self::Same => {}
        }
    }
}

impl LaneApp for AuctionLanes {
    const STEPS: usize = 3;
    const CELLS: &'static [usize] = &[Account::BYTES, Token::BYTES];
    const HOME: Home = Home::Sender;
    type Shard = Rooms;
    type Mail = Letter;

    fn lens(&self, directory: u32) -> Vec<u64> {
        vec![u64::from(directory), u64::from(directory.min(self.tokens))]
    }

    fn open(&self, shard: &mut Rooms, space: usize, keys: Range<u64>) {
        for key in keys {
            let owner = u32::try_from(key).unwrap_or(u32::MAX);
            if space == TOKENS {
                let place = shard.tokens.place(key);
                if let Some(token) = shard.tokens.get_mut(place) {
                    *token = Token { owner, best: None };
                }
            } else {
                let place = shard.accounts.place(key);
                if let Some(account) = shard.accounts.get_mut(place) {
                    *account = Account { available: self.grant, locked: 0 };
                }
            }
        }
    }

    fn step(&self, step: usize, turn: &mut LaneTurn<'_, Self>) {
        match step {
            0 => Self::ask(turn),
            1 => Self::judge(turn),
            _ => Self::settle(turn),
        }
    }

    /// Byte 0 and a client's number of four bytes: what it has available and locked, eight bytes each. Byte 1 and a
    /// token's number: its owner, its best bidder (2^32 - 1 without a bid) and the bid, eight bytes each. Empty when there
    /// is no such client or token.
    fn query(&self, state: &State<Self>, question: &[u8]) -> Option<Bytes> {
        let (kind, number) = question.split_first()?;
        let number = u64::from(u32::from_le_bytes(number.try_into().ok()?));
        let found: Vec<u8> = match kind {
            0 => account(state, number).map_or_else(Vec::new, |account| account.to_bytes().collect()),
            1 => token(state, number).map_or_else(Vec::new, |token| token.to_bytes().collect()),
            _ => return None,
        };
        Some(found.into())
    }

    fn invariants(&self, state: &State<Self>) {
        let accounts = state.shards().iter().flat_map(|rooms| rooms.accounts.all());
        let total: u64 = accounts.clone().map(|account| account.available + account.locked).sum();
        let len = state.layout().space(ACCOUNTS).len;
        assert_eq!(total, self.grant * len, "money is neither made nor lost");
        let mut locked = vec![0; usize::try_from(len).unwrap_or(usize::MAX)];
        for token in state.shards().iter().flat_map(|rooms| rooms.tokens.all()) {
            assert!(u64::from(token.owner) < len, "every token has an owner");
            if let Some((bidder, amount)) = token.best {
                assert_ne!(bidder, token.owner, "nobody bids for its own token");
                locked[bidder as usize] += amount;
            }
        }
        assert!(accounts.zip(locked).all(|(account, sum)| account.locked == sum), "bids are locked");
    }
}

fn account(state: &State<AuctionLanes>, id: u64) -> Option<Account> {
    let accounts = &state.shard(ACCOUNTS, id)?.accounts;
    accounts.get(accounts.place(id)).copied()
}

fn token(state: &State<AuctionLanes>, number: u64) -> Option<Token> {
    let tokens = &state.shard(TOKENS, number)?.tokens;
    tokens.get(tokens.place(number)).copied()
}

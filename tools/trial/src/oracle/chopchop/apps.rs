//! What applications make of what is delivered (X9): sequential models of payments and of auctions, one batch after the other,
//! and the roots that their states have.

use std::collections::BTreeMap;

use synod_crypto::{Hash, merkle};

/// A batch as an application is given it.
#[derive(Clone, Debug)]
pub struct Given {
    /// Its height.
    pub height: u64,
    /// Number of clients by then.
    pub directory: u32,
    /// The draw that decides ties.
    pub draw: Hash,
    /// Client and operation of what was delivered, clients rising.
    pub operations: Vec<(u32, u64)>,
}

/// The rules of an application.
#[derive(Clone, Debug)]
enum Ledger {
    /// What every account opens with, and the balances.
    Payments(u64, Vec<u64>),
    /// An auction.
    Auction(House),
}

/// Money and tokens.
#[derive(Clone, Debug, Default)]
struct House {
    grant: u64,
    tokens_max: usize,
    /// Free and locked money of each client.
    money: Vec<[u64; 2]>,
    /// Owner and best bid of each token.
    tokens: Vec<(u32, Option<(u32, u64)>)>,
}

/// The model of a run and the roots by height.
#[derive(Clone, Debug)]
pub struct Ledgers {
    ledger: Ledger,
    roots: BTreeMap<u64, Hash>,
}

impl Ledgers {
    /// Payments of accounts that open with `grant`, of which there are `clients` at first.
    #[must_use]
    pub fn payments(grant: u64, clients: u32) -> Self {
        Self::of(Ledger::Payments(grant, Vec::new()), clients)
    }

    /// An auction of at most `tokens` tokens among clients that open with `grant`.
    #[must_use]
    pub fn auction(grant: u64, tokens: u32, clients: u32) -> Self {
        let house = House { grant, tokens_max: tokens as usize, ..House::default() };
        Self::of(Ledger::Auction(house), clients)
    }

    fn of(mut ledger: Ledger, clients: u32) -> Self {
        ledger.grow(clients);
        let roots = [(1, ledger.root())].into();
        Self { ledger, roots }
    }

    /// A batch is given to an application; later ones are given the same, as C-S1 says.
    pub fn give(&mut self, given: &Given) {
        let known = self.roots.last_key_value().map_or(0, |(height, _)| *height);
        if given.height > known {
            self.ledger.grow(given.directory);
            self.ledger.execute(given);
            self.roots.insert(given.height, self.ledger.root());
        }
    }

    /// The root behind a height.
    #[must_use]
    pub fn root(&self, height: u64) -> Hash {
        self.roots.range(..=height).next_back().map_or(Hash::ZERO, |(_, root)| *root)
    }
}

impl Ledger {
    fn grow(&mut self, directory: u32) {
        let clients = directory as usize;
        match self {
            Self::Payments(grant, balances) => balances.resize(clients.max(balances.len()), *grant),
            Self::Auction(house) => {
                house.money.resize(clients.max(house.money.len()), [house.grant, 0]);
                for token in house.tokens.len()..clients.min(house.tokens_max) {
                    house.tokens.push((u32::try_from(token).unwrap_or(u32::MAX), None));
                }
            }
        }
    }

    fn execute(&mut self, given: &Given) {
        match self {
            Self::Payments(_, balances) => pay(balances, &given.operations),
            Self::Auction(house) => house.execute(given),
        }
    }

    /// The number of cells of each space, then the cells: as long as they fit in one chunk each.
    fn root(&self) -> Hash {
        let mut chunks: Vec<Vec<u64>> = vec![Vec::new()];
        let spaces = match self {
            Self::Payments(_, balances) => vec![(balances.len(), balances.clone())],
            Self::Auction(house) => {
                let money = house.money.iter().flatten().copied().collect();
                let token = |(owner, best): &(u32, Option<(u32, u64)>)| {
                    let (bidder, amount) = best.unwrap_or((u32::MAX, 0));
                    [u64::from(*owner), u64::from(bidder), amount]
                };
                let tokens = house.tokens.iter().flat_map(token).collect();
                vec![(house.money.len(), money), (house.tokens.len(), tokens)]
            }
        };
        for (count, words) in spaces {
            chunks.iter_mut().take(1).for_each(|header| header.push(count as u64));
            if count > 0 {
                chunks.push(words);
            }
        }
        let bytes = |words: &Vec<u64>| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
        merkle::Tree::new(chunks.iter().map(|words| merkle::leaf(&bytes(words))).collect()).root()
    }
}

/// Everybody pays out of what it had before the batch, which is all it has one payment per batch from.
fn pay(balances: &mut [u64], operations: &[(u32, u64)]) {
    let mut credits = Vec::new();
    for (payer, operation) in operations {
        let (to, amount) = ((operation & 0xffff_ffff) as usize, operation >> 32);
        let Some(balance) = balances.get(*payer as usize).copied() else { continue };
        if to >> 28 == 0 && to < balances.len() && amount > 0 && amount <= balance {
            balances[*payer as usize] = balance - amount;
            credits.push((to, amount));
        }
    }
    credits.into_iter().for_each(|(to, amount)| balances[to] += amount);
}

/// Where a client stands among those of its batch that want the same.
fn place(draw: &Hash, client: u32) -> u64 {
    let mut mixed =
        draw.0.iter().take(8).rev().fold(0, |x, byte| x << 8 | u64::from(*byte)) ^ u64::from(client);
    for (shift, factor) in [(30, 0xbf58_476d_1ce4_e5b9_u64), (27, 0x94d0_49bb_1331_11eb)] {
        mixed = (mixed ^ mixed >> shift).wrapping_mul(factor);
    }
    mixed ^ mixed >> 31
}

impl House {
    fn execute(&mut self, given: &Given) {
        let mut all = given.operations.clone();
        all.sort_by_key(|(client, _)| place(&given.draw, *client));
        // Free and locked money change when the batch is over.
        let before = self.money.clone();
        for (client, operation) in all {
            let (token, amount) = ((operation >> 1 & 0x7fff_ffff) as usize, operation >> 32);
            let takes = operation & 1 == 1;
            let (Some([free, _]), Some((owner, best))) =
                (before.get(client as usize), self.tokens.get_mut(token))
            else {
                continue;
            };
            match *best {
                Some((bidder, paid)) if takes && amount == 0 && *owner == client => {
                    (*owner, *best) = (bidder, None);
                    self.money[bidder as usize][1] -= paid;
                    self.money[client as usize][0] += paid;
                }
                _ if takes => {}
                former => {
                    let highest = former.map_or(0, |(_, amount)| amount);
                    if *owner == client || amount <= highest || amount > *free {
                        continue;
                    }
                    *best = Some((client, amount));
                    if let Some((bidder, amount)) = former {
                        self.money[bidder as usize][0] += amount;
                        self.money[bidder as usize][1] -= amount;
                    }
                    self.money[client as usize][0] -= amount;
                    self.money[client as usize][1] += amount;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use synod_crypto::Hash;

    use super::{Given, Ledger, Ledgers};

    fn give(ledgers: &mut Ledgers, height: u64, operations: &[(u32, u64)]) {
        let (draw, operations) = (Hash([9; 32]), operations.to_vec());
        ledgers.give(&Given { height, directory: 3, draw, operations });
    }

    #[test]
    fn credits_pay_for_nothing_in_their_own_batch() {
        let mut ledgers = Ledgers::payments(10, 3);
        let first = ledgers.root(1);
        // 0 gives all to 1, which would pay 15; a fourth account is none's, and nobody pays nothing.
        give(&mut ledgers, 2, &[(0, 1 | 10 << 32), (1, 2 | 15 << 32), (2, 3 | 1 << 32)]);
        let Ledger::Payments(_, balances) = &ledgers.ledger else { panic!("payments") };
        assert_eq!(balances, &[0, 20, 10]);
        give(&mut ledgers, 3, &[(1, 2 | 15 << 32), (2, 1 << 28), (0, 0)]);
        let Ledger::Payments(_, balances) = &ledgers.ledger else { panic!("payments") };
        assert_eq!(balances, &[0, 5, 25]);
        assert!(ledgers.root(1) == first && ledgers.root(2) != first && ledgers.root(9) == ledgers.root(3));
    }

    #[test]
    fn bids_lock_money_and_takes_move_it_and_the_token() {
        let mut ledgers = Ledgers::auction(10, 2, 3);
        give(&mut ledgers, 2, &[(1, 4 << 32)]);
        // 2 outbids it, and the owner takes the better bid in a later batch; what was released is free by then.
        give(&mut ledgers, 3, &[(2, 7 << 32), (0, 8 << 32)]);
        give(&mut ledgers, 4, &[(0, 1), (1, 1 | 1 << 32), (2, 11 << 32)]);
        let Ledger::Auction(house) = &ledgers.ledger else { panic!("an auction") };
        assert_eq!(house.money, [[17, 0], [10, 0], [3, 0]]);
        assert_eq!(house.tokens, [(2, None), (1, None)]);
    }
}

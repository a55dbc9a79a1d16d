//! Smallbank (Astro, section VI-C): what clients with a savings and a checking account each do, drawn from a seed.
//!
//! Pure: the n-th transaction of a seed is the same everywhere, and nothing here knows of replicas. Each client has both of its
//! accounts in one shard, that of its number modulo the shards. A client's partner is any other client, or of another shard with the
//! chance that gives the share of transactions between shards which was asked for.

use crate::workload::mix;

/// Chances of a hundred: amalgamate, balance, deposit, send, transact, write.
const WEIGHTS: [u64; 6] = [15, 15, 15, 25, 15, 15];
/// Of a hundred transactions those that name a partner: amalgamate and send.
const PARTNERED: u64 = 40;
/// Payments are of 1 to so many units.
const UNITS_MAX: u64 = 100;
/// What a check costs beside its sum.
const PENALTY: u64 = 1;

/// Parts of ten thousand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share(pub u32);

/// Which of a client's accounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purse {
    /// What it saves.
    Savings,
    /// What it pays from.
    Checking,
}

/// Whose account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Holder {
    /// A client's.
    Client {
        /// Its number.
        client: u64,
        /// Which.
        purse: Purse,
    },
    /// The till of a shard.
    Till(u16),
}

/// How much is paid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sum {
    /// So many units.
    Of(u64),
    /// All that is there.
    All,
}

/// One entry: a payment to one or to several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payment {
    /// Who pays.
    pub from: Holder,
    /// To whom, how much.
    pub legs: Vec<(Holder, Sum)>,
}

/// What a client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// All savings and then all of the checking account go to a partner: two entries, which are not atomic.
    Amalgamate,
    /// Looks at its accounts.
    Balance,
    /// The till pays into its checking account.
    DepositChecking,
    /// Pays a partner.
    SendPayment,
    /// The till pays into its savings, or they pay the till.
    TransactSavings,
    /// Pays the till by check, and a penalty.
    WriteCheck,
}

/// A transaction: the entries that it takes in their order, none where it only looks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// What it is.
    pub kind: Kind,
    /// Who does it.
    pub client: u64,
    /// Its entries.
    pub payments: Vec<Payment>,
}

/// What a workload cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoSmallbank {
    /// Every shard has two clients at least.
    TooFewClients,
    /// Amalgamate and send are 40 of 100, and of one shard none crosses.
    ShareTooLarge,
}

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Smallbank {
    seed: u64,
    clients: u64,
    shards: u16,
    /// How many of ten thousand partners are of another shard; as it comes if nothing was asked for.
    abroad: Option<u64>,
}

/// Draws in a row.
struct Draws {
    lane: u64,
    next: u64,
}

impl Draws {
    fn below(&mut self, count: u64) -> u64 {
        self.next = self.next.wrapping_add(1);
        mix(self.lane, self.next).checked_rem(count).unwrap_or_default()
    }
}

impl Smallbank {
    /// A workload of so many clients in so many shards; `cross` fixes the share of all transactions that cross a border.
    ///
    /// # Errors
    /// See [`NoSmallbank`].
    pub fn new(seed: u64, clients: u64, shards: u16, cross: Option<Share>) -> Result<Self, NoSmallbank> {
        if shards == 0 || clients / u64::from(shards) < 2 {
            return Err(NoSmallbank::TooFewClients);
        }
        let abroad = cross.map(|Share(parts)| u64::from(parts) * 100 / PARTNERED);
        let most = if shards == 1 { 0 } else { 10_000 };
        if abroad.is_some_and(|abroad| abroad > most) {
            return Err(NoSmallbank::ShareTooLarge);
        }
        Ok(Self { seed, clients, shards, abroad })
    }

    /// The shard of an account.
    #[must_use]
    pub fn shard(&self, holder: Holder) -> u16 {
        match holder {
            Holder::Client { client, .. } => {
                u16::try_from(client % u64::from(self.shards)).expect("below the number of shards")
            }
            Holder::Till(shard) => shard,
        }
    }

    /// Whether a payment pays an account of another shard than the payer's.
    #[must_use]
    pub fn crosses(&self, payment: &Payment) -> bool {
        payment.legs.iter().any(|(to, _)| self.shard(*to) != self.shard(payment.from))
    }

    /// Who does the n-th transaction.
    #[must_use]
    pub fn client(&self, n: u64) -> u64 {
        Draws { lane: mix(self.seed, n), next: 0 }.below(self.clients)
    }

    /// The n-th transaction.
    #[must_use]
    pub fn transaction(&self, n: u64) -> Transaction {
        let mut draws = Draws { lane: mix(self.seed, n), next: 0 };
        let (client, kind) = (draws.below(self.clients), kind(draws.below(100)));
        let own = |purse| Holder::Client { client, purse };
        let till = Holder::Till(self.shard(own(Purse::Checking)));
        let units = 1 + draws.below(UNITS_MAX);
        let pay = |from, to, sum| Payment { from, legs: vec![(to, sum)] };
        let payments = match kind {
            Kind::Amalgamate => {
                let to = Holder::Client { client: self.partner(client, &mut draws), purse: Purse::Checking };
                [Purse::Savings, Purse::Checking].map(|purse| pay(own(purse), to, Sum::All)).to_vec()
            }
            Kind::Balance => Vec::new(),
            Kind::DepositChecking => vec![pay(till, own(Purse::Checking), Sum::Of(units))],
            Kind::SendPayment => {
                let to = Holder::Client { client: self.partner(client, &mut draws), purse: Purse::Checking };
                vec![pay(own(Purse::Checking), to, Sum::Of(units))]
            }
            Kind::TransactSavings if draws.below(2) == 0 => {
                vec![pay(till, own(Purse::Savings), Sum::Of(units))]
            }
            Kind::TransactSavings => vec![pay(own(Purse::Savings), till, Sum::Of(units))],
            Kind::WriteCheck => {
                let legs = vec![(till, Sum::Of(units)), (till, Sum::Of(PENALTY))];
                vec![Payment { from: own(Purse::Checking), legs }]
            }
        };
        Transaction { kind, client, payments }
    }

    /// Somebody else.
    fn partner(&self, client: u64, draws: &mut Draws) -> u64 {
        let Some(abroad) = self.abroad else {
            let ahead = 1 + draws.below(self.clients - 1);
            return (client + ahead) % self.clients;
        };
        let shards = u64::from(self.shards);
        let own = client % shards;
        let is_abroad = draws.below(10_000) < abroad;
        let shard = if is_abroad { (own + 1 + draws.below(shards - 1)) % shards } else { own };
        // Clients of a shard are those of its number, and every so many further.
        let count = (self.clients - shard).div_ceil(shards);
        let place = draws.below(count);
        let partner = place * shards + shard;
        if partner == client { (place + 1) % count * shards + shard } else { partner }
    }

    /// How many of ten thousand of the first so many transactions cross a border.
    #[must_use]
    pub fn cross_shard_share(&self, transactions: u64) -> Share {
        let crosses = |n: &u64| self.transaction(*n).payments.iter().any(|payment| self.crosses(payment));
        let crossing = (0..transactions).filter(crosses).count() as u64;
        let parts = (crossing * 10_000).checked_div(transactions).unwrap_or_default();
        Share(u32::try_from(parts).unwrap_or(u32::MAX))
    }
}

fn kind(mut drawn: u64) -> Kind {
    let kinds = [
        Kind::Amalgamate,
        Kind::Balance,
        Kind::DepositChecking,
        Kind::SendPayment,
        Kind::TransactSavings,
        Kind::WriteCheck,
    ];
    for (kind, weight) in kinds.into_iter().zip(WEIGHTS) {
        if drawn < weight {
            return kind;
        }
        drawn -= weight;
    }
    Kind::WriteCheck
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    const MANY: u64 = 40_000;

    fn bank(shards: u16, cross: Option<Share>) -> Smallbank {
        Smallbank::new(3, 1_003, shards, cross).expect("enough clients")
    }

    #[test]
    fn kinds_come_in_the_shares_of_the_paper() {
        let mut counts: BTreeMap<Kind, u64> = BTreeMap::new();
        (0..MANY).for_each(|n| *counts.entry(bank(4, None).transaction(n).kind).or_default() += 1);
        let percent: Vec<u64> = counts.values().map(|count| (count * 100 + MANY / 2) / MANY).collect();
        assert_eq!(percent, [15, 15, 15, 25, 15, 15]);
    }

    #[test]
    fn entries_are_those_of_their_kind_and_nobody_pays_himself() {
        let bank = bank(4, None);
        let mut clients = BTreeSet::new();
        for n in 0..MANY {
            let Transaction { kind, client, payments } = bank.transaction(n);
            assert_eq!(bank.client(n), client);
            clients.insert(client);
            let (entries, legs) = match kind {
                Kind::Amalgamate => (2, 1),
                Kind::Balance => (0, 0),
                Kind::WriteCheck => (1, 2),
                Kind::DepositChecking | Kind::SendPayment | Kind::TransactSavings => (1, 1),
            };
            assert_eq!(payments.len(), entries);
            for payment in &payments {
                assert_eq!(payment.legs.len(), legs);
                let whose = |holder| match holder {
                    Holder::Client { client, .. } => Some(client),
                    Holder::Till(_) => None,
                };
                assert!(payment.legs.iter().all(|(to, _)| whose(*to) != whose(payment.from)));
                let partner = payment.legs.iter().find_map(|(to, _)| whose(*to)).filter(|to| *to != client);
                assert_eq!(partner.is_some(), matches!(kind, Kind::Amalgamate | Kind::SendPayment));
                let till = matches!(payment.from, Holder::Till(_))
                    || payment.legs.iter().any(|(to, _)| whose(*to).is_none());
                assert!(!till || !bank.crosses(payment), "tills are at home");
            }
            if let [savings, checking] = payments.as_slice() {
                let purses = [Purse::Savings, Purse::Checking].map(|purse| Holder::Client { client, purse });
                assert_eq!([savings.from, checking.from], purses);
                assert_eq!(savings.legs, checking.legs, "both go to one account");
            }
        }
        assert_eq!(clients.len(), 1_003, "all of them act");
    }

    #[test]
    fn the_share_between_shards_is_what_was_asked_for_or_comes_by_chance() {
        let asked = [0, 400, 1_250, 2_500, 4_000];
        for share in asked {
            let got = bank(4, Some(Share(share))).cross_shard_share(MANY).0;
            assert!(got.abs_diff(share) < 100, "{share} was asked for, {got} came");
        }
        // Three of four partners are elsewhere, of 40 in 100.
        assert!(bank(4, None).cross_shard_share(MANY).0.abs_diff(3_000) < 100);
        assert_eq!(bank(1, None).cross_shard_share(MANY), Share(0));
    }

    #[test]
    fn a_seed_says_everything_and_another_says_something_else() {
        let all = |seed| {
            let bank = Smallbank::new(seed, 50, 2, Some(Share(1_250))).expect("enough clients");
            (0..200).map(|n| bank.transaction(n)).collect::<Vec<_>>()
        };
        assert_eq!(all(1), all(1));
        assert_ne!(all(1), all(2));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let new = |clients, shards, share: Option<u32>| {
            Smallbank::new(1, clients, shards, share.map(Share)).map(|_| ())
        };
        assert_eq!(new(7, 4, None), Err(NoSmallbank::TooFewClients));
        assert_eq!(new(8, 4, None), Ok(()));
        assert_eq!(new(8, 0, None), Err(NoSmallbank::TooFewClients));
        assert_eq!(new(8, 4, Some(4_000)), Ok(()));
        assert_eq!(new(8, 4, Some(4_001)), Err(NoSmallbank::ShareTooLarge));
        assert_eq!(new(8, 1, Some(1)), Err(NoSmallbank::ShareTooLarge));
    }
}

//! What each broker may still send: bytes, batches and verification work (deviation D17).

use std::collections::{BTreeMap, BTreeSet};

use synod_crypto::Hash;
use synod_machine::Time;
use synod_quorum::NodeId;

use super::config::{OTHERS, Quota, StoreConfig, StoreParameters};
use crate::content::AnyHeader;

/// One broker's account.
#[derive(Clone, Debug)]
pub(super) struct Account {
    quota: Quota,
    pub(super) bytes: u64,
    pub(super) batches: u32,
    /// Digests of these.
    charged: BTreeSet<Hash>,
    work: u64,
    /// Work that checks of what does not hold have cost beyond what there was: it is earned before anything else is.
    debt: u64,
    at: Time,
    genesis: bool,
}

impl Account {
    const fn new(quota: Quota, genesis: bool, at: Time) -> Self {
        let charged = BTreeSet::new();
        Self { quota, bytes: 0, batches: 0, charged, work: quota.burst, debt: 0, at, genesis }
    }

    /// Work that is left.
    pub(super) fn work(&mut self, now: Time) -> u64 {
        let since = now.since(self.at).0;
        let earned = u128::from(since) * u128::from(self.quota.work) / 1_000_000_000;
        if let (Ok(earned), 1..) = (u64::try_from(earned), earned) {
            let paid = earned.min(self.debt);
            self.debt -= paid;
            self.work = self.work.saturating_add(earned - paid).min(self.quota.burst);
            self.at = now;
        }
        self.work
    }

    /// Takes `cost` work; false when there is not as much, and while anything is owed, even if it costs nothing.
    pub(super) fn spend(&mut self, cost: u64, now: Time) -> bool {
        let enough = self.work(now) >= cost && self.debt == 0;
        if enough {
            self.work -= cost;
        }
        enough
    }

    /// Takes `cost` work, into debt where there is not as much.
    fn fine(&mut self, cost: u64, now: Time) {
        let left = self.work(now);
        self.work = left.saturating_sub(cost);
        self.debt = self.debt.saturating_add(cost.saturating_sub(left));
    }

    /// Bytes that are left.
    pub(super) const fn left(&self) -> u64 {
        self.quota.bytes.saturating_sub(self.bytes)
    }

    pub(super) fn fits(&self, bytes: u64) -> bool {
        bytes <= self.left() && !self.is_full()
    }

    /// Whether as many batches are here as may be.
    const fn is_full(&self) -> bool {
        self.batches >= self.quota.batches
    }
}

/// What it costs to verify a batch.
pub(crate) fn work_of(header: &AnyHeader) -> u64 {
    match header {
        AnyHeader::Messages(header) => {
            // Nobody signs for a void, so it lets a batch be large for nothing.
            let alone = u64::from(header.stragglers) + u64::from(header.voids);
            alone + if header.count < 4_096 { 100 } else { 0 }
        }
        AnyHeader::SignUp(header) => 60 * u64::from(header.count),
    }
}

/// What it costs beyond [`work_of`] to find that a batch does not hold: it spoils the check of those beside it, each signature
/// is looked at again, and the keys of its signers are added up once more, one by one.
pub(super) fn fine_of(header: &AnyHeader) -> u64 {
    let keys = match header {
        AnyHeader::Messages(header) => u64::from(header.signers()) / 8,
        AnyHeader::SignUp(_) => 0,
    };
    100 + work_of(header) + keys
}

/// The accounts of all brokers.
#[derive(Clone, Debug)]
pub(super) struct Accounts {
    of: BTreeMap<NodeId, Account>,
    genesis: Vec<NodeId>,
    parameters: StoreParameters,
}

impl Accounts {
    pub(super) fn new(config: &StoreConfig) -> Self {
        let (genesis, parameters) = (config.brokers.clone(), config.parameters);
        let mut of: BTreeMap<NodeId, Account> =
            genesis.iter().map(|id| (*id, Account::new(parameters.genesis, true, Time::ZERO))).collect();
        of.insert(OTHERS, Account::new(parameters.other, true, Time::ZERO));
        Self { of, genesis, parameters }
    }

    /// Places of others that are taken by what outlived restarts, beyond the one quota that its nameless owners have together.
    fn outlived(&self) -> u64 {
        let Quota { bytes, batches, .. } = self.parameters.other;
        let Some(account) = self.of.get(&OTHERS) else { return 0 };
        let by_bytes = account.bytes.saturating_sub(bytes).div_ceil(bytes.max(1));
        let by_batches = account.batches.saturating_sub(batches).div_ceil(batches.max(1));
        by_bytes.max(u64::from(by_batches))
    }

    /// The account of a broker; none for one that is not of the genesis while all places are taken.
    pub(super) fn open(&mut self, broker: NodeId, now: Time) -> Option<&mut Account> {
        if !self.of.contains_key(&broker) {
            let others = self.of.values().filter(|account| !account.genesis).count() as u64;
            let mut account = Account::new(self.parameters.other, false, now);
            if others + self.outlived() >= u64::from(self.parameters.others_max) {
                let idle = self.of.iter().find(|(_, account)| !account.genesis && account.batches == 0);
                let idle = *idle?.0;
                // The credit is the place's: a new name is to be had for nothing.
                if let Some(old) = self.of.remove(&idle) {
                    (account.work, account.debt, account.at) = (old.work, old.debt, old.at);
                }
            }
            self.of.insert(broker, account);
        }
        self.of.get_mut(&broker)
    }

    /// Bytes and work that are left to a broker; to one that never uploaded, what a place would give it.
    pub(super) fn left(&mut self, broker: NodeId, now: Time) -> (u64, u64) {
        let other = self.parameters.other;
        let of = self.of.get_mut(&broker);
        of.map_or((other.bytes, other.burst), |account| (account.left(), account.work(now)))
    }

    /// Whether a broker has as many batches here as it may.
    pub(super) fn is_full(&self, broker: NodeId) -> bool {
        self.of.get(&broker).is_some_and(Account::is_full)
    }

    /// A batch for which this broker asked does not hold.
    pub(super) fn fine(&mut self, broker: NodeId, cost: u64, now: Time) {
        if let Some(account) = self.of.get_mut(&broker) {
            account.fine(cost, now);
        }
    }

    /// What is charged to a broker: not more than its quota has batches.
    pub(super) fn charged(&self, broker: NodeId) -> impl Iterator<Item = &Hash> {
        self.of.get(&broker).into_iter().flat_map(|account| &account.charged)
    }

    /// Charges a batch, whatever the quota says.
    pub(super) fn charge(&mut self, broker: NodeId, digest: Hash, bytes: u64) {
        if let Some(account) = self.of.get_mut(&broker) {
            account.charged.insert(digest);
            account.bytes += bytes;
            account.batches += 1;
        }
    }

    /// Takes a charge back.
    pub(super) fn refund(&mut self, broker: NodeId, digest: &Hash, bytes: u64) {
        if let Some(account) = self.of.get_mut(&broker) {
            account.charged.remove(digest);
            account.bytes = account.bytes.saturating_sub(bytes);
            account.batches = account.batches.saturating_sub(1);
        }
    }

    /// Brokers that have spoken or are of the genesis.
    pub(super) fn brokers(&self) -> impl Iterator<Item = NodeId> {
        self.of.keys().copied().filter(|id| *id != OTHERS)
    }

    /// Bytes charged to all.
    pub(super) fn bytes(&self) -> u64 {
        self.of.values().map(|account| account.bytes).sum()
    }

    /// Most bytes, and most batches, that all can be charged: what outlived restarts without a name included, which takes places
    /// of others, also if there are half as many as before.
    pub(super) fn most(&self) -> (u64, u64) {
        let StoreParameters { genesis, other, others_max, .. } = &self.parameters;
        let (named, rest) = (self.genesis.len() as u64, 2 * u64::from(*others_max) + 1);
        let batches = named * u64::from(genesis.batches) + rest * u64::from(other.batches);
        (named * genesis.bytes + rest * other.bytes, batches)
    }
}

#[cfg(test)]
mod tests {
    use super::Accounts;
    use crate::by_hand::cluster;
    use crate::store::config::{Quota, StoreConfig, StoreParameters};
    use synod_machine::{Span, Time};
    use synod_quorum::NodeId;

    #[test]
    fn what_is_owed_is_earned_before_anything_is_taken() {
        let config = StoreConfig::new(cluster(), NodeId(0), Vec::new(), StoreParameters::default());
        let mut accounts = Accounts::new(&config.expect("sound"));
        let (now, broker) = (Time(Span::secs(1).0), NodeId(200));
        let Quota { work, burst, .. } = Quota::OTHER;
        assert!(accounts.open(broker, now).is_some_and(|account| account.spend(0, now)));
        accounts.fine(broker, burst + 2 * work, now);
        let mut spend = |cost: u64, after: u64| {
            let now = now + Span::secs(after);
            accounts.open(broker, now).is_some_and(|account| account.spend(cost, now))
        };
        assert!(!spend(0, 0) && !spend(0, 1), "not even what costs nothing");
        assert!(spend(0, 2) && !spend(1, 2) && spend(work, 3));
    }

    #[test]
    fn a_broker_that_takes_a_new_name_has_no_new_credit() {
        let parameters = StoreParameters { others_max: 2, ..StoreParameters::default() };
        let brokers = vec![NodeId(100)];
        let config = StoreConfig::new(cluster(), NodeId(0), brokers, parameters).expect("sound");
        let mut accounts = Accounts::new(&config);
        let now = Time(Span::secs(1).0);
        let mut spend = |broker: u32, cost: u64, now: Time| {
            accounts.open(NodeId(broker), now).is_some_and(|account| account.spend(cost, now))
        };
        let all = Quota::OTHER.burst;
        assert!(spend(200, all, now) && spend(201, all, now));
        for name in 202..300 {
            assert!(!spend(name, 1, now), "the places are used up, whoever has them: {name}");
        }
        assert!(spend(100, all, now), "a broker of the genesis has its own");
        assert!(spend(300, Quota::OTHER.work, now + Span::secs(1)));
        assert!(!spend(301, 2 * Quota::OTHER.work + 1, now + Span::secs(1)));
    }
}

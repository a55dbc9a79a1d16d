//! What a store is told.

use synod_machine::Span;
use synod_quorum::NodeId;

use crate::config::{Cluster, Invalid};
use crate::keybook::KeyBook;

/// What one broker may have at a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Bytes of bodies that are not given to the server yet.
    pub bytes: u64,
    /// Number of such batches.
    pub batches: u32,
    /// Work that comes back each second: a straggler or void costs 1, a batch below 4,096 messages 100, a card 60.
    /// A batch that does not hold costs as much again, 100 and one for every 8 signers, if need be into debt.
    pub work: u64,
    /// Most work that is saved up.
    pub burst: u64,
}

impl Quota {
    /// Of brokers named in the genesis.
    pub const GENESIS: Self = Self { bytes: 256 << 20, batches: 4_096, work: 25_000, burst: 262_144 };
    /// Of others.
    pub const OTHER: Self = Self { bytes: 16 << 20, batches: 256, work: 1_000, burst: 10_486 };
}

/// What a store's operator chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreParameters {
    /// Quota of each broker of the genesis.
    pub genesis: Quota,
    /// Quota of each other broker.
    pub other: Quota,
    /// How many other brokers are served at a time.
    pub others_max: u32,
    /// Delivered bodies kept on disk for servers that lag, in bytes.
    pub retain_bytes: u64,
    /// Batches whose bodies are digested or checked at a time.
    pub jobs_max: u32,
    /// How long a batch waits for the directory it needs.
    pub directory_wait: Span,
    /// How long the first sources of a pull have.
    pub pull_patience: Span,
    /// Bytes of sums of keys that are kept for the next batches of their brokers; 0 keeps none.
    pub cohort_bytes: u64,
}

impl Default for StoreParameters {
    fn default() -> Self {
        Self {
            genesis: Quota::GENESIS,
            other: Quota::OTHER,
            others_max: 64,
            retain_bytes: 2 << 30,
            jobs_max: 16,
            directory_wait: Span::secs(2),
            pull_patience: Span::millis(250),
            cohort_bytes: 64 << 20,
        }
    }
}

/// Validated configuration of one store.
#[derive(Clone, Debug)]
pub struct StoreConfig {
    pub(super) cluster: Cluster,
    pub(super) own: NodeId,
    pub(super) brokers: Vec<NodeId>,
    pub(super) parameters: StoreParameters,
    /// Keys that are read already.
    pub(super) known: KeyBook,
}

impl StoreConfig {
    /// Checks the parameters. `brokers` are those of the genesis, by the ids they have at this node.
    ///
    /// # Errors
    /// [`Invalid`] states the rule that is broken.
    pub fn new(
        cluster: Cluster,
        own: NodeId,
        brokers: Vec<NodeId>,
        parameters: StoreParameters,
    ) -> Result<Self, Invalid> {
        let body = u64::from(cluster.rules().body_bytes_max);
        let p = &parameters;
        let quotas = [p.genesis, p.other];
        let rules = [
            (cluster.roster().member(own).is_some(), "this node is a server of the cluster"),
            (brokers.iter().all(|broker| *broker != OTHERS), "brokers have ids of their own"),
            (quotas.iter().all(|quota| quota.bytes >= body.min(16 << 20)), "a quota holds one body"),
            (
                quotas.iter().all(|quota| (1..=65_536).contains(&quota.batches)),
                "a quota is of 1 to 65536 batches",
            ),
            (quotas.iter().all(|quota| quota.burst >= 100), "a burst of work is enough for one batch"),
            (p.others_max <= 1_024, "others_max is at most 1024"),
            ((1..=256).contains(&p.jobs_max), "jobs_max is 1 to 256"),
            (p.pull_patience >= Span::millis(10), "pull_patience is at least 10 ms"),
        ];
        match rules.into_iter().find(|(holds, _)| !holds) {
            Some((_, rule)) => Err(Invalid(rule)),
            None => Ok(Self { cluster, own, brokers, parameters, known: KeyBook::default() }),
        }
    }

    /// The same, knowing the keys of the first clients: a store reads no key that is here. For load generators, whose keys
    /// nobody has to check.
    #[must_use]
    pub fn knowing(mut self, known: KeyBook) -> Self {
        self.known = known;
        self
    }

    /// The place of a broker in the genesis.
    pub(super) fn place(&self, broker: NodeId) -> u32 {
        let at = self.brokers.iter().position(|known| *known == broker);
        at.and_then(|at| u32::try_from(at).ok()).unwrap_or(u32::MAX)
    }

    /// The broker at a place.
    pub(super) fn broker(&self, place: u32) -> NodeId {
        usize::try_from(place).ok().and_then(|at| self.brokers.get(at)).copied().unwrap_or(OTHERS)
    }
}

/// Stands for brokers whose batches outlived a restart, but not their names.
pub(super) const OTHERS: NodeId = NodeId(u32::MAX);

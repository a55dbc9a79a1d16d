//! What a broker is told.

use synod_machine::Span;

use crate::card::CARD_BYTES;
use crate::config::{Class, Cluster, Invalid};
use crate::directory::Directory;

/// Entries of a batch of a broker that is not in the genesis: all may straggle.
const ENTRIES_OF_OTHERS: usize = 8_192;
/// Cards of a batch of such a broker.
const CARDS_OF_OTHERS: usize = 128;

/// Whether signatures of submissions are checked on arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verify {
    /// Each, in batches, before it enters the pool.
    Eager,
    /// Only those of stragglers, when a batch is sealed. Not built: [`Config::new`] refuses it.
    Lazy,
}

/// What a broker may choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Shortest window in which submissions gather.
    pub window_min: Span,
    /// Longest window.
    pub window_max: Span,
    /// Batches closed and not yet certified, before a window stays open to its end.
    pub pipeline_max: u32,
    /// Batches below this many entries are not offered for multi-signing.
    pub distil_min: u32,
    /// Longest wait for multi-signatures.
    pub distil_max: Span,
    /// Servers asked for a shard beyond f + 1 at once.
    pub margin: u32,
    /// Checks of sums that a search for bad shares may cost.
    pub search_max: u32,
    /// How long delivered batches are kept for those who ask again.
    pub keep: Span,
    /// How many bytes of them.
    pub keep_bytes: u64,
    /// Links with a record of wrongdoing that are remembered.
    pub links_max: u32,
    /// Clients whose Ed25519 keys are kept as points, 216 bytes each.
    pub read_keys_max: u32,
    /// Whether submissions are checked on arrival.
    pub verify: Verify,
}

impl Parameters {
    /// The defaults for a cluster of `servers`.
    #[must_use]
    pub const fn of(servers: u32) -> Self {
        Self {
            window_min: Span::millis(10),
            window_max: Span::secs(1),
            pipeline_max: 4,
            distil_min: 128,
            distil_max: Span::secs(1),
            margin: servers / 16,
            search_max: 512,
            keep: Span::secs(60),
            keep_bytes: 256 << 20,
            links_max: 1 << 20,
            read_keys_max: 1 << 20,
            verify: Verify::Eager,
        }
    }
}

/// Validated configuration of one broker.
#[derive(Clone, Debug)]
pub struct Config {
    pub(super) cluster: Cluster,
    /// Its number in genesis, or `u32::MAX`.
    pub(super) number: u32,
    pub(super) class: Class,
    pub(super) directory: Directory,
    pub(super) parameters: Parameters,
}

impl Config {
    /// A broker of `cluster` for messages of `class`, that knows `directory`.
    ///
    /// # Errors
    /// [`Invalid`] states the rule that is broken.
    pub fn new(
        cluster: Cluster,
        number: u32,
        class: Class,
        directory: Directory,
        parameters: Parameters,
    ) -> Result<Self, Invalid> {
        let Parameters { window_min, window_max, distil_max, .. } = parameters;
        let rules = [
            (parameters.verify == Verify::Eager, "verify is eager: lazy brokers are not built"),
            (class != Class::Fixed(0) && class != Class::Variable(0), "messages have at least a byte"),
            (window_min >= Span::millis(1) && window_min <= window_max, "window_min is 1 ms to window_max"),
            ((1..=16).contains(&parameters.pipeline_max), "pipeline_max is 1 to 16"),
            (distil_max >= Span::millis(20), "multi-signatures are awaited for at least 20 ms"),
            (parameters.distil_min >= 1, "distil_min is at least 1"),
            ((1..=65_536).contains(&parameters.search_max), "search_max is 1 to 65536"),
            ((1..=1 << 22).contains(&parameters.links_max), "links_max is 1 to 4194304"),
            (parameters.read_keys_max <= 1 << 24, "read_keys_max is 0 to 16777216"),
        ];
        match rules.into_iter().find(|(holds, _)| !holds) {
            Some((_, rule)) => Err(Invalid(rule)),
            None => Ok(Self { cluster, number, class, directory, parameters }),
        }
    }

    /// Most entries of a batch: stores witness no batch whose stragglers cost more work than a broker ever has credit for.
    pub(super) fn entries_max(&self) -> usize {
        let most = self.cluster.rules().batch_max as usize;
        if self.number == u32::MAX { most.min(ENTRIES_OF_OTHERS) } else { most }
    }

    /// Most cards of a batch, for the same reason.
    pub(super) fn cards_max(&self) -> usize {
        let rules = self.cluster.rules();
        let fits = (rules.body_bytes_max as usize / CARD_BYTES).min(rules.batch_max as usize).max(1);
        if self.number == u32::MAX { fits.min(CARDS_OF_OTHERS) } else { fits }
    }

    /// Submissions that a broker holds beside its batches.
    pub(super) fn pool_max(&self) -> usize {
        4 * self.cluster.rules().batch_max as usize
    }

    /// Bytes of the longest message.
    pub(super) const fn message_max(&self) -> u64 {
        match self.class {
            Class::Fixed(size) | Class::Variable(size) => size as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Config, Parameters};
    use crate::by_hand::{SERVERS, cluster};
    use crate::config::Class;
    use crate::directory::Directory;
    use crate::store::Quota;

    /// Work of a card, as stores count it.
    const CARD: u64 = 60;

    #[test]
    fn a_full_batch_of_stragglers_or_cards_is_within_the_credit_of_its_broker() {
        for (number, quota) in [(0, Quota::GENESIS), (u32::MAX, Quota::OTHER)] {
            let (class, parameters) = (Class::Fixed(8), Parameters::of(SERVERS));
            let config = Config::new(cluster(), number, class, Directory::default(), parameters);
            let config = config.expect("sound");
            assert!(config.entries_max() as u64 <= quota.burst, "{number}");
            // Never more cards than wait at once.
            assert!(config.cards_max().min(1_024) as u64 * CARD <= quota.burst, "{number}");
        }
    }
}

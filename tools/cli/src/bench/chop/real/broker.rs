//! What brokers say of their batches, on their metrics ports.

use crate::bench::processes::Processes;
use crate::layout::NODE_FILE;
use std::time::Duration;
use synod_config::Effective;

/// How long a broker may take to tell.
const PATIENCE: Duration = Duration::from_secs(2);

/// Entries of sealed batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sealed {
    /// Batches.
    pub(super) batches: u64,
    /// All entries.
    pub(super) entries: u64,
    /// Those under a signature of their own.
    pub(super) stragglers: u64,
    /// Bytes of the batches.
    pub(super) bytes: u64,
}

impl Sealed {
    /// What came after.
    pub(super) const fn since(self, before: Self) -> Self {
        Self {
            batches: self.batches.saturating_sub(before.batches),
            entries: self.entries.saturating_sub(before.entries),
            stragglers: self.stragglers.saturating_sub(before.stragglers),
            bytes: self.bytes.saturating_sub(before.bytes),
        }
    }

    /// Entries under the multi-signature, of a thousand.
    pub(super) const fn distilled(self) -> Option<u64> {
        match self.entries {
            0 => None,
            entries => Some(entries.saturating_sub(self.stragglers) * 1_000 / entries),
        }
    }

    fn read(page: &str) -> Self {
        Self {
            batches: value(page, "synod_broker_batch_ops_count"),
            entries: value(page, "synod_broker_batch_ops_sum"),
            stragglers: value(page, "synod_broker_stragglers_total"),
            bytes: value(page, "synod_broker_batch_bytes_total"),
        }
    }
}

/// The value of a series without labels; 0 when the page has none.
fn value(page: &str, name: &str) -> u64 {
    let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let whole = line.and_then(|value| value.split('.').next()?.trim().parse().ok());
    whole.unwrap_or(0)
}

/// What all brokers that live say, added up.
pub(super) fn look(cluster: &Processes, servers: u16, brokers: u16) -> Sealed {
    let mut all = Sealed::default();
    for index in usize::from(servers)..usize::from(servers + brokers) {
        let file = cluster.directory().join(cluster.name(index)).join(NODE_FILE);
        let config = Effective::read(&file, [], []).and_then(|effective| effective.config());
        let metrics = config.ok().and_then(|config| config.listen.metrics);
        let page = metrics.and_then(|metrics| crate::http::get(&metrics, "/metrics", PATIENCE).ok());
        let Some(page) = page else { continue };
        let one = Sealed::read(&page.body);
        all.batches += one.batches;
        all.entries += one.entries;
        all.stragglers += one.stragglers;
        all.bytes += one.bytes;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::{Sealed, value};

    #[test]
    fn series_are_read_by_their_whole_name() {
        let page = "# HELP x\nsynod_broker_batch_ops_count 3\nsynod_broker_batch_ops_sum 300.0\n\
                    synod_broker_stragglers_total 6\nsynod_broker_batch_bytes_total 12\n";
        let sealed = Sealed::read(page);
        assert_eq!(sealed, Sealed { batches: 3, entries: 300, stragglers: 6, bytes: 12 });
        assert_eq!(sealed.distilled(), Some(980));
        assert_eq!(sealed.since(sealed).distilled(), None);
        assert_eq!(value(page, "synod_broker_batch"), 0);
    }
}

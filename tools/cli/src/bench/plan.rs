//! What a benchmark does.

use std::path::PathBuf;
use std::time::Duration;
use synod_config::Rules;

/// Which benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// Commands of a size, one key per lane.
    Order,
    /// Reads and writes over a range of keys.
    Kv {
        /// Number of keys.
        keys: u64,
        /// Share of reads, of a thousand.
        reads: u16,
    },
}

impl Target {
    /// The object of the result that holds the benchmark's own keys.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Order => "order",
            Self::Kv { .. } => "kv",
        }
    }
}

/// One run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) target: Target,
    pub(crate) nodes: u16,
    pub(crate) clients: u16,
    pub(crate) inflight: u32,
    pub(crate) pipeline: u32,
    pub(crate) size: u32,
    pub(crate) rate: Option<u32>,
    pub(crate) span: Duration,
    pub(crate) warmup: Duration,
    pub(crate) rules: Rules,
    pub(crate) channel: bool,
    pub(crate) sync: &'static str,
    pub(crate) dead: u16,
    pub(crate) out: Option<PathBuf>,
}

impl Plan {
    /// Operations that one client keeps in flight.
    pub(crate) fn window(&self) -> usize {
        let each = self.inflight.div_ceil(u32::from(self.clients)).max(1);
        usize::try_from(each).unwrap_or(usize::MAX)
    }

    /// Operations per call: never more than a window.
    pub(crate) fn batch(&self) -> usize {
        usize::try_from(self.pipeline).unwrap_or(usize::MAX).min(self.window())
    }

    /// `fsync`, `nosync` or `volatile`, as results label it.
    pub(crate) fn durability(&self) -> &'static str {
        match self.sync {
            "none-UNSAFE" => "nosync",
            "volatile-UNSAFE" => "volatile",
            _ => "fsync",
        }
    }
}

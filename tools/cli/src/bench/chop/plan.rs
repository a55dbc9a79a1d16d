//! What a benchmark of Chop Chop does.

use std::path::PathBuf;
use std::time::Duration;
use synod_load::chop::{BatchPlan, IdDraw};

/// Stragglers for each second of a server's run, where nobody says how many batches are made: more than its row wants.
const STRAGGLERS_PER_S: u64 = 400_000;
/// What batches that are sent once have in memory, about.
const SERIES_BYTES: u64 = 1 << 30;
/// Windows that such batches fill at least: the first ones warm up, and behind the last ones the clock stops.
pub(crate) const WINDOWS_MIN: usize = 4;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Part {
    /// What a witness authenticates per second and core (the paper's Figure 3).
    Auth,
    /// What one server costs per message, beside a load broker.
    Server,
    /// What the broker of the next part costs.
    Broker,
    /// Clients that sign, a broker, servers.
    Real,
    /// Servers, ordering, a load broker.
    E2e,
    /// Bytes on the wire (Figure 9).
    Linerate,
    /// Batches that are distilled in part (Figure 8a).
    Partial,
    /// Applications (Figure 11b).
    Apps,
    /// Killed leaders, servers, brokers (Figure 11a).
    Faults,
    /// All of them, short.
    All,
}

impl Part {
    /// Its name on a command line.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Auth => "auth",
            Self::Server => "server",
            Self::Broker => "broker",
            Self::Real => "real",
            Self::E2e => "e2e",
            Self::Linerate => "linerate",
            Self::Partial => "partial",
            Self::Apps => "apps",
            Self::Faults => "faults",
            Self::All => "all",
        }
    }
}

/// What a server is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ServerPart {
    /// Of how many batches it witnesses how many.
    pub(crate) share: (u32, u32),
    /// Batches on their way.
    pub(crate) window: usize,
}

/// One run.
#[derive(Clone, Debug)]
pub(crate) struct ChopPlan {
    pub(crate) ids: IdDraw,
    /// Entries under the multi-signature, of a thousand.
    pub(crate) distilled: u16,
    /// Messages per batch.
    pub(crate) batch: u32,
    /// Bytes of a message.
    pub(crate) size: u16,
    /// Clients with keys of their own.
    pub(crate) clients: u32,
    /// Ids of the directory.
    pub(crate) id_space: u32,
    /// Batches made beforehand.
    pub(crate) pool: usize,
    pub(crate) span: Duration,
    pub(crate) warmup: Duration,
    pub(crate) repeat: u32,
    /// What is measured is a server, and how.
    pub(crate) server: Option<ServerPart>,
    /// Whether other ways to do the same are measured too.
    pub(crate) ablations: bool,
    /// Whether the process starts itself anew with huge pages.
    pub(crate) huge: bool,
    /// The options that were given, for a child that does the same otherwise.
    pub(crate) given: Vec<String>,
    /// Whether the audit takes a genuine batch for a forged one, or is told of a batch that never was.
    pub(crate) planted: bool,
    pub(crate) out: Option<PathBuf>,
}

impl ChopPlan {
    /// The batches of the run.
    pub(crate) fn batches(&self) -> BatchPlan {
        BatchPlan { ids: self.ids, count: self.batch, msg_size: self.size, distilled: self.distilled }
    }

    /// The same without any multi-signature.
    pub(crate) fn undistilled(&self) -> BatchPlan {
        BatchPlan { distilled: 0, ..self.batches() }
    }

    /// Batches that a server is sent once each, `window` at a time: enough for the time, unless that takes too much memory.
    pub(crate) fn series(&self, window: usize) -> usize {
        let (plan, time) = (self.batches(), self.warmup + self.span);
        let apart = u64::from(plan.stragglers());
        let wanted = u128::from(STRAGGLERS_PER_S) * time.as_millis() / 1_000 / u128::from(apart.max(1));
        // Columns of ids and numbers take a few bytes beside messages and signatures.
        let bytes = u64::from(plan.count) * (u64::from(plan.msg_size) + 4) + 72 * apart;
        let fit = SERIES_BYTES / bytes.max(1);
        usize::try_from(wanted.min(u128::from(fit))).unwrap_or(usize::MAX).max(WINDOWS_MIN * window)
    }

    /// How long another way is measured.
    pub(crate) fn aside(&self) -> Duration {
        (self.span / 5).max(Duration::from_millis(100))
    }
}

//! What a benchmark does.

use std::path::PathBuf;
use std::time::Duration;
use synod_config::Rules;
use synod_host::Mode;
use synod_load::{Draw, Form};

/// Load before the peak of a cluster is measured, and the time it is measured for.
pub(crate) const CALIBRATION: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(3));

/// How clients of the store come to the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Sessions of their own with all members.
    Binary,
    /// Redis connections to a proxy, which believes no member.
    Proxy,
    /// Redis connections to the gateways of the members.
    Node,
}

impl Access {
    /// Whether clients speak the Redis protocol.
    pub(crate) fn is_resp(self) -> bool {
        self != Self::Binary
    }
}

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

/// When operations are due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// Each when one before it was answered.
    Closed,
    /// So many per second.
    Rate(u32),
    /// So many thousandths of the rate that a closed loop reached before.
    Peak(u32),
}

/// One run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) target: Target,
    pub(crate) access: Access,
    pub(crate) nodes: u16,
    pub(crate) clients: u16,
    pub(crate) inflight: u32,
    pub(crate) pipeline: u32,
    pub(crate) size: u32,
    pub(crate) pace: Pace,
    pub(crate) span: Duration,
    pub(crate) warmup: Duration,
    pub(crate) rules: Rules,
    pub(crate) channel: bool,
    pub(crate) sync: &'static str,
    pub(crate) dead: u16,
    pub(crate) send_all: bool,
    pub(crate) read: Mode,
    /// When the leader is killed, counted from the begin of the measured time.
    pub(crate) kill_leader_at: Option<Duration>,
    /// Whether baselines are measured first.
    pub(crate) baseline: bool,
    /// Whether the audit is told of a write that never was.
    pub(crate) planted: bool,
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

    /// `signed` or `channel`, as results label it.
    pub(crate) fn auth(&self) -> &'static str {
        if self.channel { "channel" } else { "signed" }
    }

    /// How clients come to the cluster, as results label it.
    pub(crate) fn access(&self) -> &'static str {
        match self.access {
            Access::Binary => "binary",
            Access::Proxy => "resp via proxy",
            Access::Node => "resp via node",
        }
    }

    /// Processes of the run, this one with them.
    pub(crate) fn processes(&self) -> u16 {
        self.nodes - self.dead + 1 + u16::from(self.access == Access::Proxy)
    }

    /// What clients ask.
    pub(crate) fn draw(&self) -> Draw {
        let size = usize::try_from(self.size).unwrap_or(usize::MAX);
        let lanes = u64::from(self.clients);
        let form = if self.access.is_resp() { Form::Resp } else { Form::Binary };
        let (keys, reads, value_bytes) = match self.target {
            Target::Order => (lanes, 0, size.saturating_sub(synod_load::KEY_BYTES)),
            Target::Kv { keys, reads } => (keys.max(lanes), reads, size),
        };
        Draw { lanes, keys, value_bytes, reads, read: self.read, form }
    }

    /// The same load against the same application that nobody replicates and no disk holds: one member.
    pub(crate) fn alone(&self) -> Self {
        let target = match self.target {
            Target::Kv { keys, reads } => Target::Kv { keys: keys.min(10_000), reads },
            Target::Order => Target::Order,
        };
        Self {
            target,
            nodes: 1,
            dead: 0,
            sync: "volatile-UNSAFE",
            pace: Pace::Closed,
            warmup: Duration::from_millis(300),
            span: Duration::from_secs(1),
            kill_leader_at: None,
            baseline: false,
            planted: false,
            out: None,
            ..self.clone()
        }
    }
}

//! What a run does to its cluster.

use super::Hurt;
use std::time::Duration;

/// How the one faulty member behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lie {
    /// It says nothing to anybody.
    Silent,
    /// It tells clients wrong results.
    Replies,
    /// It signs two proposals for each view it leads and votes for both.
    Equivocate,
}

impl Lie {
    /// The word of the command line and of reports.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Silent => "silent",
            Self::Replies => "replies",
            Self::Equivocate => "equivocate",
        }
    }

    /// The line for the member's admin socket.
    pub(crate) fn line(self) -> &'static str {
        match self {
            Self::Silent => "silence on",
            Self::Replies => "lie on",
            Self::Equivocate => "equivocate on",
        }
    }
}

/// One run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) nodes: u16,
    /// Leaders killed at least.
    pub(crate) kills: u32,
    /// Mean time between a member's return and the next kill; exponentially distributed.
    pub(crate) kill_mean: Duration,
    /// How long a follower is stopped, if one is.
    pub(crate) stop: Option<Duration>,
    /// Whether all members are killed and started at once.
    pub(crate) restart_all: bool,
    /// Disks that fill up, one after the other.
    pub(crate) disk_full: u32,
    /// Disks that fail, one after the other.
    pub(crate) eio: u32,
    /// Links that are hurt, one after the other.
    pub(crate) links: u32,
    /// In which ways, in turn.
    pub(crate) hurts: Vec<Hurt>,
    /// Whether faults of all kinds come in a drawn order until the span is over.
    pub(crate) mix: bool,
    /// Whether that order has disks that fail.
    pub(crate) mixed_disks: bool,
    /// Whether this is a soak, which keeps a file of its own.
    pub(crate) soak: bool,
    /// What every write and sync of one member's disk takes longer.
    pub(crate) slow: Option<Duration>,
    /// What the one faulty member does; nobody is killed then.
    pub(crate) lie: Option<Lie>,
    /// How long leaders are killed, or the faulty member is faulty, at least.
    pub(crate) span: Duration,
    pub(crate) seed: u64,
}

impl Plan {
    /// The file of the score: runs of different faults keep files of their own.
    pub(crate) fn file(&self) -> String {
        match self.lie {
            Some(lie) => format!("chaos-run-hotstuff-{}", lie.as_str()),
            None if self.soak => "chaos-run-hotstuff-soak".to_owned(),
            None if self.needs_disks() && !self.mix => "chaos-run-hotstuff-disks".to_owned(),
            None => "chaos-run-hotstuff".to_owned(),
        }
    }

    /// Whether the run needs disks that can fail.
    pub(crate) fn needs_disks(&self) -> bool {
        self.disk_full + self.eio > 0 || self.slow.is_some() || self.mixed_disks
    }

    /// Whether members dial one another through proxies.
    pub(crate) fn needs_links(&self) -> bool {
        self.links > 0 || self.mix
    }
}

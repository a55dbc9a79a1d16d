//! Health: facts in, judged lines out.

use std::time::Duration;

use synod_config::{Code, code};

/// Longest time for one turn of the host loop.
const TURN_MAX: Duration = Duration::from_secs(2);
/// Blocks that a ready node may be behind.
const LAG_BLOCKS_MAX: u64 = 100;
/// Time that a ready node may be behind.
const LAG_TIME_MAX: Duration = Duration::from_secs(2);

/// What a node still does before it serves clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replay {
    /// It reads its journal.
    Journal,
    /// It takes over a state, its own snapshot or a certified one.
    State,
    /// It executes again what was executed before it stopped.
    Blocks {
        /// Height reached.
        done: u64,
        /// Height to reach.
        all: u64,
    },
    /// It lost its promises and listens until it may vote again.
    Promises,
}

impl Replay {
    fn reason(self) -> String {
        match self {
            Self::Journal => "the journal is being read".to_owned(),
            Self::State => "a state is being taken over".to_owned(),
            Self::Blocks { done, all } => format!("{done} of {all} blocks are executed"),
            Self::Promises => "its promises are lost, it listens until it may vote again".to_owned(),
        }
    }
}

/// Who of the members is connected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quorum {
    /// Members connected, this node included.
    pub have: u32,
    /// Members needed.
    pub need: u32,
    /// Names of the others.
    pub missing: Vec<String>,
}

/// How far execution is behind the highest block known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lag {
    /// In blocks.
    pub blocks: u64,
    /// In agreed time.
    pub time: Duration,
}

/// Space where the journal lies, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Disk {
    /// Free.
    pub free: u64,
    /// Below this no request is taken.
    pub reserve: u64,
}

/// What a host states about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Time since the host loop last turned.
    pub turned_ago: Duration,
    /// Why the journal failed, if it did.
    pub journal_failed: Option<String>,
    /// What is still to be done before clients are served.
    pub replay: Option<Replay>,
    /// Connections.
    pub quorum: Quorum,
    /// Lag.
    pub lag: Lag,
    /// Space.
    pub disk: Disk,
    /// Whether an operator drains the node.
    pub draining: bool,
    /// The contradiction at which the node stopped, if it did.
    pub alarm: Option<Code>,
}

/// One judged line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// Its name, as `?exclude=` takes it.
    pub name: &'static str,
    /// What is wrong; `None` when nothing is.
    pub problem: Option<(Code, String)>,
}

impl Check {
    fn new(name: &'static str, problem: Option<(Code, String)>) -> Self {
        Self { name, problem }
    }

    /// `[+]name` or `[-]name CODE reason`.
    #[must_use]
    pub fn line(&self) -> String {
        match &self.problem {
            None => format!("[+]{}", self.name),
            Some((code, reason)) => format!("[-]{} {code} {}", self.name, reason.escape_debug()),
        }
    }
}

impl Health {
    /// What must hold for the process to be left running.
    #[must_use]
    pub fn live(&self) -> Vec<Check> {
        let stalled = (self.turned_ago > TURN_MAX).then(|| {
            let reason = format!("the host loop last turned {} ms ago", self.turned_ago.as_millis());
            (code::BUG, reason)
        });
        let failed = self.journal_failed.clone().map(|why| (code::JOURNAL_WRITE_FAILED, why));
        vec![Check::new("host", stalled), Check::new("journal", failed)]
    }

    /// What must hold for requests to be sent here.
    #[must_use]
    pub fn ready(&self) -> Vec<Check> {
        let replaying = self.replay.map(|replay| (code::REPLAYING, replay.reason()));
        let Quorum { have, need, missing } = &self.quorum;
        let alone = (have < need).then(|| {
            (
                code::NO_QUORUM,
                format!("{have} of {need} members are connected, missing {}", missing.join(", ")),
            )
        });
        let far = self.lag.blocks > LAG_BLOCKS_MAX && self.lag.time > LAG_TIME_MAX;
        let behind = far.then(|| {
            let Lag { blocks, time } = self.lag;
            (code::REPLAYING, format!("{blocks} blocks and {} ms behind", time.as_millis()))
        });
        let Disk { free, reserve } = self.disk;
        let full = (free < reserve)
            .then(|| (code::DISK_RESERVE, format!("{free} bytes are free, below the reserve of {reserve}")));
        let draining = self.draining.then(|| (code::DRAINING, "the node is about to stop".to_owned()));
        let stopped = self.alarm.map(|code| (code, "the node votes for nothing any more".to_owned()));
        vec![
            Check::new("replay", replaying),
            Check::new("quorum", alone),
            Check::new("lag", behind),
            Check::new("disk", full),
            Check::new("draining", draining),
            Check::new("alarm", stopped),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn healthy() -> Health {
        Health { quorum: Quorum { have: 3, need: 3, missing: Vec::new() }, ..Health::default() }
    }

    fn failing(checks: &[Check]) -> Vec<String> {
        checks.iter().filter(|check| check.problem.is_some()).map(Check::line).collect()
    }

    #[test]
    fn a_healthy_node_passes_every_check() {
        assert_eq!(failing(&healthy().live()), [""; 0]);
        assert_eq!(failing(&healthy().ready()), [""; 0]);
        let lines: Vec<_> = healthy().ready().iter().map(Check::line).collect();
        assert_eq!(lines, ["[+]replay", "[+]quorum", "[+]lag", "[+]disk", "[+]draining", "[+]alarm"]);
    }

    #[test]
    fn a_node_is_not_ready_while_it_replays() {
        for (replay, reason) in [
            (Replay::Journal, "the journal is being read"),
            (Replay::State, "a state is being taken over"),
            (Replay::Blocks { done: 3, all: 9 }, "3 of 9 blocks are executed"),
            (Replay::Promises, "its promises are lost, it listens until it may vote again"),
        ] {
            let replaying = Health { replay: Some(replay), ..healthy() };
            assert_eq!(failing(&replaying.ready()), [format!("[-]replay SYN-3403 {reason}")]);
            assert_eq!(failing(&replaying.live()), [""; 0]);
        }
    }

    #[test]
    fn each_fact_fails_its_own_check() {
        let quorum = Quorum { have: 2, need: 3, missing: vec!["n1".to_owned(), "n3".to_owned()] };
        let alone = Health { quorum, ..healthy() };
        let wanted = ["[-]quorum SYN-3401 2 of 3 members are connected, missing n1, n3"];
        assert_eq!(failing(&alone.ready()), wanted);
        let full = Health { disk: Disk { free: 9, reserve: 10 }, ..healthy() };
        assert_eq!(failing(&full.ready()), ["[-]disk SYN-1201 9 bytes are free, below the reserve of 10"]);
        let draining = Health { draining: true, ..healthy() };
        assert_eq!(failing(&draining.ready()), ["[-]draining SYN-3405 the node is about to stop"]);
        let stopped = Health { alarm: Some(code::STATE_DIVERGENCE), ..healthy() };
        assert_eq!(failing(&stopped.ready()), ["[-]alarm SYN-6006 the node votes for nothing any more"]);
        assert_eq!(failing(&stopped.live()), [""; 0], "a restart cures nothing");
        let failed = Health { journal_failed: Some("no\nspace".to_owned()), ..healthy() };
        assert_eq!(failing(&failed.live()), ["[-]journal SYN-5004 no\\nspace"]);
    }

    #[test]
    fn bounds_hold_at_the_edge_and_break_behind_it() {
        let turned = |ms| Health { turned_ago: Duration::from_millis(ms), ..healthy() };
        assert_eq!(failing(&turned(2_000).live()).len(), 0);
        assert_eq!(failing(&turned(2_001).live()).len(), 1);
        let lag = |blocks, ms| {
            let lag = Lag { blocks, time: Duration::from_millis(ms) };
            failing(&Health { lag, ..healthy() }.ready()).len()
        };
        assert_eq!([lag(100, 9_000), lag(9_000, 2_000), lag(101, 2_001)], [0, 0, 1]);
        let disk = |free| failing(&Health { disk: Disk { free, reserve: 10 }, ..healthy() }.ready()).len();
        assert_eq!([disk(10), disk(9)], [0, 1]);
    }
}

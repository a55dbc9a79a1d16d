//! Checkers: what must hold at every moment of every run.
//!
//! The world itself checks X1 (no panic), X2 (`bytes() <= bytes_max()` after every step), X6 (no honest node is
//! blamed by an honest one; a fault named `suspected_...` proves nothing and is exempt, as is one of [`Options::excused`](crate::Options)), X7 (`from` is the link's
//! identity) and J-S3 (after a failed write or sync of its journal an honest node sends nothing). X5 is [`twice`](crate::twice). Protocol-aware crates add the rest as [`Checker`]s.

use core::fmt;

use synod_machine::Time;
use synod_quorum::NodeId;

use crate::audit::Digest;
use crate::deed::{Deed, Seen};

/// One call of one machine: what happened to it and what it did, in program order.
///
/// Effects are those that took place: edited by the node's strategy, if it has one, and cut where it crashed.
#[derive(Clone, Copy)]
pub struct Moment<'a> {
    /// Number of the event, from 1.
    pub event: u64,
    /// Number of the event that caused it; 0 for none.
    pub cause: u64,
    /// Virtual time, the same for all nodes.
    pub time: Time,
    /// The node, by its id in the world.
    pub node: NodeId,
    /// 0, or 1 for the second of two twins.
    pub twin: u8,
    /// How often the node was started, from 1.
    pub incarnation: u32,
    /// Whether the node follows its protocol on an intact disk.
    pub honest: bool,
    /// The machine's number.
    pub machine: u8,
    /// What happened.
    pub seen: &'a Seen,
    /// What it did.
    pub deeds: &'a [Deed],
    /// Whether the node crashed at the end of `deeds`.
    pub crashed: bool,
}

/// What must hold throughout a run. Oracle code shares no predicate with the code it checks.
pub trait Checker {
    /// Looks at one call of one machine.
    ///
    /// # Errors
    /// The violation it found.
    fn see(&mut self, moment: &Moment<'_>) -> Result<(), Violation>;

    /// The safety phase is over: `core` is whole from now on and nothing new goes wrong.
    fn heal(&mut self, _core: &[NodeId], _now: Time) {}

    /// The run is over.
    ///
    /// # Errors
    /// The violation it found.
    fn finish(&mut self, _now: Time) -> Result<(), Violation> {
        Ok(())
    }
}

/// A property that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The checker: X1, H-S3, ...
    pub checker: String,
    /// What was seen.
    pub what: String,
    /// When, in virtual time; filled in by the world.
    pub time: Time,
    /// Where; filled in by the world when a moment showed it.
    pub node: Option<NodeId>,
    /// Number of the event that showed it; filled in by the world.
    pub event: u64,
    /// Numbers of the events it rests on, the one that showed it last: for a contradiction the two observations. The world
    /// adds the last one.
    pub evidence: Vec<u64>,
}

impl Violation {
    /// A violation of `checker`; the world adds time, node and event.
    #[must_use]
    pub fn new(checker: &str, what: impl Into<String>) -> Self {
        let checker = checker.to_owned();
        Self { checker, what: what.into(), time: Time::ZERO, node: None, event: 0, evidence: Vec::new() }
    }

    /// As it is, with earlier events that it rests on.
    #[must_use]
    pub fn resting_on(self, evidence: impl IntoIterator<Item = u64>) -> Self {
        Self { evidence: evidence.into_iter().collect(), ..self }
    }

    /// The digests of two equal runs differ: X5.
    ///
    /// # Errors
    /// When they differ.
    pub fn unless_equal(first: Digest, second: Digest) -> Result<(), Self> {
        if first == second {
            return Ok(());
        }
        Err(Self::new("X5", format!("two runs of one scenario have digests {first} and {second}")))
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {} in event {}", self.checker, self.time, self.event)?;
        if let Some(node) = self.node {
            write!(f, " at node {}", node.0)?;
        }
        write!(f, ": {}", self.what)
    }
}

impl core::error::Error for Violation {}

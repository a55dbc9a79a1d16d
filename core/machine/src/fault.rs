//! Faults, rules and notes, erased so that adapters pass them through. Each protocol has enums that convert into
//! them.

use synod_crypto::Hash;
use synod_wire::{Bytes, Wire};

/// Most bytes of evidence that a fault carries.
const EVIDENCE_MAX: usize = 4_096;

/// What proves a fault: the encoding of a value, cut at 4 KiB.
#[must_use]
pub fn evidence(of: &impl Wire) -> Bytes {
    let bytes = of.encode();
    bytes.slice(..bytes.len().min(EVIDENCE_MAX))
}

/// A rule that a peer broke, with evidence. Evidence is the two signed objects or the one frame that prove it;
/// a fault without evidence is named `suspected_...` and never punishes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The SYN code, 40xx to 46xx.
    pub code: u16,
    /// The variant's name in snake case; a metric label.
    pub name: &'static str,
    /// What proves it.
    pub evidence: Bytes,
}

/// A numbered line of an algorithm, or a written rule, that was applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rule {
    /// The protocol.
    pub protocol: &'static str,
    /// The rule's name, as in the line map of the protocol's documentation.
    pub name: &'static str,
}

/// Something operators see: metrics, logs, the trace. Never read by a checker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Note {
    /// What happened, in snake case; a metric name or log event.
    pub name: &'static str,
    /// Up to four numbers whose meaning the name fixes.
    pub values: [u64; 4],
    /// A digest, or zero.
    pub digest: Hash,
}

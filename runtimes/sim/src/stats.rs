//! Counts of a run: events, faults, rules, and the three respects in which a seed is effective.

use std::collections::{BTreeMap, BTreeSet};

use synod_machine::Rule;

use crate::scenario::Family;

/// What the network did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetStats {
    /// Frames handed to a link.
    pub sent: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Frames that arrived.
    pub delivered: u64,
    /// Frames that were lost: by a reset, a crash, a full queue, a block or a lossy link.
    pub lost: u64,
    /// Datagrams that arrived a second time.
    pub duplicated: u64,
    /// Connections that broke while both ends were alive.
    pub resets: u64,
    /// Queues that overflowed under the reset rule.
    pub overflows: u64,
    /// Frames for a node the sender has no link to.
    pub unlinked: u64,
}

/// What one run did.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// Calls of machines.
    pub events: u64,
    /// Crashes, of which most are followed by a restart.
    pub crashes: u64,
    /// Starts of nodes, the first ones included.
    pub starts: u64,
    /// Nodes that refused their log or halted by their own judgement.
    pub halts: u64,
    /// Restarts that had lost at least one write that was not yet durable: effective in the second respect.
    pub lost_suffixes: u64,
    /// Last records that were torn.
    pub torn: u64,
    /// Frames of Byzantine nodes that a strategy touched: made up, changed, or kept from some of their recipients.
    pub tampered: u64,
    /// Those of them an honest node decoded and did not blame as undecodable: effective in the third respect.
    pub swallowed: u64,
    /// The swallowed ones by strategy and kind of message, where the system names kinds.
    pub cells: BTreeMap<(&'static str, &'static str), u64>,
    /// Blames by honest nodes.
    pub blames: u64,
    /// Inputs refused because the machine had no room.
    pub refused: u64,
    /// Incidents that began.
    pub incidents: u64,
    /// Families of the incidents that began.
    pub families: BTreeSet<Family>,
    /// Rules applied, with how often.
    pub rules: BTreeMap<Rule, u64>,
    /// The largest share of its memory formula any machine reached, in per mille.
    pub bytes_permille_max: u64,
    /// What the network did.
    pub net: NetStats,
}

/// The three respects in which a seed can be effective.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effective {
    /// A view, path or retransmitter change: one of the rules the harness names was applied.
    pub view_change: bool,
    /// A restart lost an un-synced suffix.
    pub lost_suffix: bool,
    /// A touched frame passed authentication at an honest node.
    pub byzantine: bool,
}

impl Stats {
    /// The three respects, given the names of the rules that mark a change of view, path or retransmitter.
    #[must_use]
    pub fn effective(&self, changes: &[&str]) -> Effective {
        Effective {
            view_change: self.rules.keys().any(|rule| changes.contains(&rule.name)),
            lost_suffix: self.lost_suffixes > 0,
            byzantine: self.swallowed > 0,
        }
    }
}

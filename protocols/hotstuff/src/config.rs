//! What a replica is told: who it is, which pack, and every parameter with its relations checked.

use core::fmt;

use synod_crypto::Hash;
use synod_machine::Span;
use synod_machine::broadcast::Position;
use synod_quorum::{NodeId, Roster};

use crate::block::{BODY_MAX, ITEM_OVERHEAD, ITEMS_MAX};
use crate::rules::Pack;
use crate::view::Terms;

/// Which replica of which cluster.
#[derive(Clone, Debug)]
pub struct Identity {
    /// This member.
    pub own: NodeId,
    /// Digest of the genesis; part of every signed statement.
    pub cluster: Hash,
    /// The members.
    pub roster: Roster,
}

/// Whom votes are sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Votes {
    /// All members: any of them forms the certificate.
    Broadcast,
    /// The leader of the next view.
    Leader,
}

/// Whom complaints are sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Complaints {
    /// All members.
    Broadcast,
    /// The leader of the next term first, all from the second expiry.
    LeaderFirst,
    /// The leader of the next term only, once: the paper's rule, lab only.
    LeaderOnly,
}

/// How items are kept from being proposed twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filter {
    /// Items of uncommitted ancestors are not eligible.
    Branch,
    /// Items of any proposal seen are not eligible again: the paper's Algorithm 3, lab only.
    Seen,
    /// Only committed items are filtered; lab only.
    Committed,
}

/// Everything that may be chosen. Defaults depend on pack and size: [`Parameters::of`].
#[derive(Clone, Debug)]
pub struct Parameters {
    /// The rule pack.
    pub rules: Pack,
    /// Views per term, 1 to 1,024.
    pub term_views: u64,
    /// Whom votes go to.
    pub votes: Votes,
    /// Whom complaints go to.
    pub complaints: Complaints,
    /// Whether leaders that give up terms are benched.
    pub reputation: bool,
    /// First view timeout, at least 10 ms.
    pub timeout_base: Span,
    /// Longest view timeout.
    pub timeout_max: Span,
    /// Longest body in bytes.
    pub block_bytes: u32,
    /// Most items of a block; 0 is unlimited, lab only.
    pub block_items: u32,
    /// Items at which a leader does not linger, at most `block_items`.
    pub batch_max: u32,
    /// Longest linger, at most 50 ms.
    pub batch_wait: Span,
    /// How items are kept from being proposed twice.
    pub filter: Filter,
    /// Bytes of pending items.
    pub mempool_bytes: u64,
    /// Number of pending items.
    pub pool_items: u32,
    /// Bytes of pending items of one session.
    pub session_bytes: u64,
    /// Number of pending items of one session.
    pub session_items: u32,
    /// How far ahead of the current view votes and orders are kept.
    pub view_window: u64,
    /// Positions between checkpoints.
    pub checkpoint_every: u64,
    /// Blocks kept below the stable checkpoint.
    pub retain_blocks: u64,
    /// Blocks delivered and not yet applied at which delivery and proposing pause.
    pub executor_lag_max: u64,
}

/// A parameter outside its range, by name and rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Invalid(pub &'static str);

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl core::error::Error for Invalid {}

/// Validated configuration of one replica.
#[derive(Clone, Debug)]
pub struct Config {
    identity: Identity,
    parameters: Parameters,
    resume: Position,
}

impl Parameters {
    /// The defaults of `rules` for `n` members.
    #[must_use]
    pub const fn of(rules: Pack, n: u32) -> Self {
        let paper = matches!(rules, Pack::Paper);
        let broadcast = n <= 32 && !paper;
        Self {
            rules,
            term_views: if rules.has_terms() { 32 } else { 1 },
            votes: if broadcast { Votes::Broadcast } else { Votes::Leader },
            complaints: match (paper, broadcast) {
                (true, _) => Complaints::LeaderOnly,
                (false, true) => Complaints::Broadcast,
                (false, false) => Complaints::LeaderFirst,
            },
            reputation: rules.has_terms() && n >= 4,
            timeout_base: Span::millis(if paper { 500 } else { 100 }),
            timeout_max: Span::secs(10),
            block_bytes: 1 << 20,
            block_items: 16_384,
            batch_max: 16_384,
            batch_wait: Span::millis(1),
            filter: if paper { Filter::Seen } else { Filter::Branch },
            mempool_bytes: 64 << 20,
            pool_items: 262_144,
            session_bytes: 4 << 20,
            session_items: 1_024,
            view_window: 64,
            checkpoint_every: 65_536,
            retain_blocks: 4_096,
            executor_lag_max: 64,
        }
    }
}

impl Config {
    /// Checks every range and relation. `resume` is the last position the user holds durably: delivery restarts
    /// behind it.
    ///
    /// # Errors
    /// [`Invalid`] states the rule that is broken.
    pub fn new(identity: Identity, parameters: Parameters, resume: Position) -> Result<Self, Invalid> {
        let p = &parameters;
        let rules = [
            (identity.roster.member(identity.own).is_some(), "this node is a member of the roster"),
            (matches!(p.term_views, 1..=1_024), "term_views is 1 to 1024"),
            (
                p.rules.has_terms() || p.term_views == 1 || p.rules.is_chain3(),
                "this pack has terms of one view",
            ),
            (
                !p.rules.is_basic() || p.votes == Votes::Leader || p.term_views == 1,
                "basic has terms of one view",
            ),
            (
                !(p.rules == Pack::Chain3 && p.votes == Votes::Leader) || p.term_views >= 4,
                "chain3 with votes to the leader needs term_views of 4 or more",
            ),
            (!p.reputation || p.rules.has_terms(), "reputation is off for basic, chain3 and the lab packs"),
            (p.timeout_base >= Span::millis(10), "timeout_base is at least 10 ms"),
            (p.timeout_max >= p.timeout_base, "timeout_max is at least timeout_base"),
            (
                p.block_bytes >= 1_024 && usize::try_from(p.block_bytes).is_ok_and(|b| b <= BODY_MAX),
                "block_bytes is 1 KiB to half of the largest frame",
            ),
            (usize::try_from(p.block_items).is_ok_and(|i| i <= ITEMS_MAX), "block_items is at most 65536"),
            (p.block_items == 0 || p.batch_max <= p.block_items, "batch_max is at most block_items"),
            (p.batch_max >= 1, "batch_max is at least 1"),
            (p.batch_wait <= Span::millis(50), "batch_wait is at most 50 ms"),
            (p.filter == Filter::Branch || p.rules.is_lab(), "filters other than branch are for the lab"),
            (p.block_items > 0 || p.rules.is_lab(), "an unlimited number of items is for the lab"),
            (p.mempool_bytes >= u64::from(p.block_bytes), "mempool_bytes holds at least one block"),
            (p.pool_items >= 1 && p.session_items >= 1, "the pool holds at least one item"),
            (matches!(p.view_window, 4..=1_024), "view_window is 4 to 1024"),
            (p.checkpoint_every >= 1, "checkpoint_every is at least 1"),
            (matches!(p.retain_blocks, 1..=65_536), "retain_blocks is 1 to 65536"),
            (matches!(p.executor_lag_max, 1..=4_096), "executor_lag_max is 1 to 4096"),
        ];
        match rules.into_iter().find(|(holds, _)| !holds) {
            Some((_, rule)) => Err(Invalid(rule)),
            None => Ok(Self { identity, parameters, resume }),
        }
    }

    /// This member.
    #[must_use]
    pub const fn own(&self) -> NodeId {
        self.identity.own
    }

    /// Cluster and roster.
    #[must_use]
    pub const fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The members.
    #[must_use]
    pub const fn roster(&self) -> &Roster {
        &self.identity.roster
    }

    /// The parameters, as checked.
    #[must_use]
    pub const fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// The last position the user holds durably.
    #[must_use]
    pub const fn resume(&self) -> Position {
        self.resume
    }

    /// How views form terms.
    #[must_use]
    pub const fn terms(&self) -> Terms {
        Terms::new(self.parameters.term_views)
    }

    /// Most items of a block.
    #[must_use]
    pub fn items_max(&self) -> usize {
        match usize::try_from(self.parameters.block_items) {
            Ok(0) | Err(_) => ITEMS_MAX,
            Ok(items) => items,
        }
    }

    /// Longest payload that fits a block.
    #[must_use]
    pub fn payload_max(&self) -> usize {
        usize::try_from(self.parameters.block_bytes).unwrap_or(BODY_MAX).saturating_sub(ITEM_OVERHEAD + 8)
    }
}

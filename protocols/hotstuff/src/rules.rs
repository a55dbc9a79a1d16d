//! The rule packs: pure predicates, no state and no turn. Packs differ here and nowhere else.
//!
//! A pack says when a replica may vote, how the lock rises, and what a certificate commits. The rest of the replica
//! reads a few facts from the pack's table ([`Pack`] and [`Rules`]).

mod basic;
mod chain2;
mod chain3;
mod lab;
mod order;

use synod_crypto::Hash;

use crate::record::{Mark, Safety};
use crate::{Header, Kind, Qc, Tc};

pub use basic::Basic;
pub use chain2::Chain2;
pub use chain3::Chain3;
pub use lab::{Hs2, Naive2, Paper};
pub use order::Chain2Order;

/// The packs by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pack {
    /// Three phases per view (paper 2.2.3).
    Basic,
    /// Three chained blocks (paper 3.2.1).
    Chain3,
    /// Two chained blocks, proposals bound to complaints.
    Chain2,
    /// Two chained blocks or order votes: the default.
    Chain2Order,
    /// Lab: two chained blocks, leaders wait.
    Hs2,
    /// Lab: two chained blocks, nobody waits; stalls on a hidden lock.
    Naive2,
    /// Lab: the paper as printed, its defects corrected where nothing would commit.
    Paper,
}

impl Pack {
    /// Every pack, production first.
    pub const ALL: [Self; 7] =
        [Self::Basic, Self::Chain3, Self::Chain2, Self::Chain2Order, Self::Hs2, Self::Naive2, Self::Paper];

    /// The pack of a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|pack| pack.name() == name)
    }

    /// The name in genesis files and systems.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Basic => Basic::NAME,
            Self::Chain3 => Chain3::NAME,
            Self::Chain2 => Chain2::NAME,
            Self::Chain2Order => Chain2Order::NAME,
            Self::Hs2 => Hs2::NAME,
            Self::Naive2 => Naive2::NAME,
            Self::Paper => Paper::NAME,
        }
    }

    /// The pack of a name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|pack| pack.name() == name)
    }

    /// The pack's predicates.
    #[must_use]
    pub const fn rules(self) -> Rules {
        match self {
            Self::Basic => Rules::of::<Basic>(),
            Self::Chain3 => Rules::of::<Chain3>(),
            Self::Chain2 => Rules::of::<Chain2>(),
            Self::Chain2Order => Rules::of::<Chain2Order>(),
            Self::Hs2 => Rules::of::<Hs2>(),
            Self::Naive2 => Rules::of::<Naive2>(),
            Self::Paper => Rules::of::<Paper>(),
        }
    }

    /// Whether a leader keeps a term of several views by default, and reputation counts.
    #[must_use]
    pub const fn has_terms(self) -> bool {
        matches!(self, Self::Chain2 | Self::Chain2Order)
    }

    /// Whether certified blocks are committed by order votes.
    #[must_use]
    pub const fn has_orders(self) -> bool {
        matches!(self, Self::Chain2Order)
    }

    /// Whether a view has three phases.
    #[must_use]
    pub const fn is_basic(self) -> bool {
        matches!(self, Self::Basic)
    }

    /// Whether three chained blocks commit.
    #[must_use]
    pub const fn is_chain3(self) -> bool {
        matches!(self, Self::Chain3 | Self::Paper)
    }

    /// Whether it is for experiments only.
    #[must_use]
    pub const fn is_lab(self) -> bool {
        matches!(self, Self::Hs2 | Self::Naive2 | Self::Paper)
    }

    /// Whether complaints repeat, are joined and are answered, and the timeout adapts: all but the paper as printed.
    #[must_use]
    pub const fn is_insistent(self) -> bool {
        !matches!(self, Self::Paper)
    }

    /// Kind of the votes for a proposal, and of the certificates that headers carry.
    #[must_use]
    pub const fn kind(self) -> Kind {
        if self.is_basic() { Kind::Prepare } else { Kind::Generic }
    }
}

/// Looks up headers by digest.
pub trait Ancestry {
    /// The header of `digest`, if it is here.
    fn header(&self, digest: &Hash) -> Option<&Header>;
}

/// What a vote depends on.
#[derive(Clone, Copy, Debug)]
pub struct Ballot<'a> {
    /// The replica's promises.
    pub safety: &'a Safety,
    /// The proposal.
    pub header: &'a Header,
    /// Whether the proposal's branch contains the locked block.
    pub extends_lock: bool,
}

/// What a leader needs to propose after a TC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// The lowest view its justify may have.
    pub justify: crate::View,
}

/// The predicates of a pack.
pub trait Ruleset: Send + 'static {
    /// The name in genesis files and systems.
    const NAME: &'static str;
    /// The pack.
    const PACK: Pack;

    /// The kinds of votes in a view, in order.
    fn phases() -> &'static [Kind];
    /// Whether the pack's rule allows a vote for the proposal; the checks common to all packs come on top.
    fn may_vote(ballot: &Ballot<'_>) -> bool;
    /// Where the lock stands after this certificate, if it rises.
    fn lock(safety: &Safety, qc: &Qc, tree: &dyn Ancestry) -> Option<Mark>;
    /// The block that this certificate commits.
    fn commit(qc: &Qc, tree: &dyn Ancestry) -> Option<Hash>;
    /// What a leader must hold to propose on this TC.
    fn next_view_needs(tc: &Tc) -> Need {
        Need { justify: tc.high.view }
    }
}

/// The predicates of a pack chosen at run time.
#[derive(Clone, Copy)]
pub struct Rules {
    /// The pack.
    pub pack: Pack,
    /// See [`Ruleset::phases`].
    pub phases: fn() -> &'static [Kind],
    /// See [`Ruleset::may_vote`].
    pub may_vote: fn(&Ballot<'_>) -> bool,
    /// See [`Ruleset::lock`].
    pub lock: fn(&Safety, &Qc, &dyn Ancestry) -> Option<Mark>,
    /// See [`Ruleset::commit`].
    pub commit: fn(&Qc, &dyn Ancestry) -> Option<Hash>,
    /// See [`Ruleset::next_view_needs`].
    pub next_view_needs: fn(&Tc) -> Need,
}

impl Rules {
    /// The predicates of `R`.
    #[must_use]
    pub const fn of<R: Ruleset>() -> Self {
        Self {
            pack: R::PACK,
            phases: R::phases,
            may_vote: R::may_vote,
            lock: R::lock,
            commit: R::commit,
            next_view_needs: R::next_view_needs,
        }
    }
}

impl core::fmt::Debug for Rules {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Rules({})", self.pack.name())
    }
}

/// Whether `newer` replaces `old` as the highest certificate: by view, never by height (deviations D2, D3).
#[must_use]
pub fn is_higher(newer: &Qc, old: &Qc) -> bool {
    newer.view > old.view
}

/// The parent and child of consecutive views that `qc` certifies the child of, commit the parent.
fn two_chain(qc: &Qc, tree: &dyn Ancestry) -> Option<Hash> {
    let child = tree.header(&qc.digest)?;
    child.justify.view.precedes(child.view).then_some(child.parent)
}

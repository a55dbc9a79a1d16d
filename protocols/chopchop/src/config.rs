//! What every role is told: the cluster, and the parameters that all its members share.
//!
//! What a role alone chooses stands with the role.

use core::fmt;
use std::sync::Arc;

use synod_crypto::bls::BlsMembers;
use synod_crypto::{Hash, Scope};
use synod_machine::planted;
use synod_quorum::{Epoch, NodeId, Quorums, Roster};

use crate::Domains;
use crate::batch::Intake;
use crate::certificate::Signers;
use crate::message::COUNT_MAX;

/// A parameter outside its range, by name and rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Invalid(pub &'static str);

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl core::error::Error for Invalid {}

/// Lengths of messages that a pool of brokers takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Exactly this many bytes, 1 to 65,535.
    Fixed(u16),
    /// 1 to this many bytes.
    Variable(u16),
}

impl Class {
    /// `msg_size` of a batch's header.
    #[must_use]
    pub const fn msg_size(self) -> u16 {
        match self {
            Self::Fixed(size) => size,
            Self::Variable(_) => 0,
        }
    }

    /// Whether a message of `length` bytes belongs to the class.
    #[must_use]
    pub const fn takes(self, length: usize) -> bool {
        match self {
            Self::Fixed(size) => length == size as usize,
            Self::Variable(most) => length >= 1 && length <= most as usize,
        }
    }
}

/// Parameters that are part of the genesis, so that all servers decide alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Most entries of a batch, 1 to 1,048,576.
    pub batch_max: u32,
    /// Most bytes of a body; header and body fit a bulk frame of 16 MiB.
    pub body_bytes_max: u32,
    /// How far above the delivered height an expiry may lie (W).
    pub horizon: u64,
    /// Positions between checkpoints.
    pub checkpoint_every: u64,
}

/// Longest body that fits a bulk frame beside its header and the tags.
pub const BODY_BYTES_MAX: u32 = (16 << 20) - 4_096;

impl Default for Rules {
    fn default() -> Self {
        Self { batch_max: 65_536, body_bytes_max: BODY_BYTES_MAX, horizon: 65_536, checkpoint_every: 1_024 }
    }
}

impl Rules {
    fn check(&self) -> Result<(), Invalid> {
        let rules = [
            ((1..=COUNT_MAX).contains(&self.batch_max), "batch_max is 1 to 1048576"),
            (
                (240..=BODY_BYTES_MAX).contains(&self.body_bytes_max),
                "body_bytes_max is 240 to what a bulk frame of 16 MiB holds beside a header",
            ),
            ((4..=1 << 24).contains(&self.horizon), "horizon is 4 to 16777216"),
            ((1..=1 << 24).contains(&self.checkpoint_every), "checkpoint_every is 1 to 16777216"),
        ];
        rules.into_iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, rule)| Err(Invalid(rule)))
    }
}

/// The cluster as every role knows it: who the servers are, by both kinds of keys. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Cluster(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    digest: Hash,
    roster: Roster,
    bls: BlsMembers,
    quorums: Quorums,
    rules: Rules,
    domains: Domains,
}

impl Cluster {
    /// The cluster of this genesis. `bls` holds a key for each member of `roster`, registered with possession by whoever
    /// read the genesis.
    ///
    /// # Errors
    /// [`Invalid`] states the rule that is broken.
    pub fn new(
        digest: Hash,
        roster: Roster,
        bls: BlsMembers,
        quorums: Quorums,
        rules: Rules,
    ) -> Result<Self, Invalid> {
        rules.check()?;
        if quorums.members() != roster.size() {
            return Err(Invalid("quorums are of as many members as the roster"));
        }
        let beyond = bls.key(NodeId(roster.size())).is_some();
        if beyond || !roster.all().iter().all(|id| bls.key(id).is_some()) {
            return Err(Invalid("every server has a key for multi-signatures"));
        }
        let domains = Domains::of(&digest);
        Ok(Self(Arc::new(Inner { digest, roster, bls, quorums, rules, domains })))
    }

    /// Digest of the genesis.
    #[must_use]
    pub fn digest(&self) -> Hash {
        self.0.digest
    }

    /// The epoch.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.0.roster.epoch()
    }

    /// Where statements of servers, and of clients about batches, are made.
    #[must_use]
    pub fn scope(&self) -> Scope {
        Scope { cluster: self.0.digest, epoch: self.epoch() }
    }

    /// Where cards are made: keys outlive epochs.
    #[must_use]
    pub fn card_scope(&self) -> Scope {
        Scope { cluster: self.0.digest, epoch: Epoch(0) }
    }

    /// The servers.
    #[must_use]
    pub fn roster(&self) -> &Roster {
        &self.0.roster
    }

    /// The servers' keys for multi-signatures.
    #[must_use]
    pub fn bls(&self) -> &BlsMembers {
        &self.0.bls
    }

    /// Thresholds.
    #[must_use]
    pub fn quorums(&self) -> &Quorums {
        &self.0.quorums
    }

    /// Parameters of the genesis.
    #[must_use]
    pub fn rules(&self) -> &Rules {
        &self.0.rules
    }

    /// The keys of hashes.
    #[must_use]
    pub fn domains(&self) -> &Domains {
        &self.0.domains
    }

    /// Whether these are f + 1 servers, no more: what witnesses and certificates need.
    #[must_use]
    pub fn is_witness(&self, signers: &Signers) -> bool {
        signers.fits(self.0.roster.size())
            && signers.set().count() + u32::from(planted!(C9)) == self.0.quorums.one_correct()
    }

    /// What headers are held against at this height.
    #[must_use]
    pub fn intake(&self, height: u64) -> Intake {
        let Rules { batch_max, body_bytes_max, horizon, .. } = self.0.rules;
        Intake { epoch: self.epoch(), height, horizon, batch_max, body_bytes_max }
    }
}

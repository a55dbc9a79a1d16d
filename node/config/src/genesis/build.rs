//! The genesis as a checked value.

use super::member::{Member, Operator, check_members, invalid};
use super::parameters::{Parameters, Scheme};
use crate::choice::choices;
use crate::errors::SynError;
use crate::node::broken;
use crate::table::bad_value;
use synod_crypto::{Hash, Scope};
use synod_quorum::{Epoch, NodeId, Roster};

choices! {
    /// The ordering protocol of a cluster.
    Protocol {
        /// HotStuff and its rule packs.
        Hotstuff = "hotstuff",
    }
}

/// `[cluster]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// Its name.
    pub name: String,
    /// How it orders.
    pub protocol: Protocol,
    /// What it executes.
    pub app: String,
    /// Whether faults may be injected.
    pub drill: bool,
}

/// A genesis whose members, keys and parameters were checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Genesis {
    cluster: Cluster,
    parameters: Parameters,
    members: Vec<Member>,
    operators: Vec<Operator>,
    roster: Roster,
}

impl Genesis {
    /// Checks and keeps the parts.
    ///
    /// # Errors
    /// SYN-1105 names the member or key that is wrong, SYN-1106 the two parameters that do not fit together.
    pub fn build(
        cluster: Cluster,
        parameters: Parameters,
        members: Vec<Member>,
        operators: Vec<Operator>,
    ) -> Result<Self, SynError> {
        Self::checked("genesis.toml", (cluster, parameters), members, operators)
    }

    pub(super) fn checked(
        file: &str,
        (cluster, parameters): (Cluster, Parameters),
        members: Vec<Member>,
        operators: Vec<Operator>,
    ) -> Result<Self, SynError> {
        check_members(file, &members, &operators)?;
        parameters.check(cluster.drill)?;
        check_scheme(file, parameters.scheme, &members)?;
        let seats =
            members.iter().map(|member| synod_quorum::Member { key: member.ed25519, power: member.stake });
        let roster = Roster::new(Epoch(0), seats.collect())
            .map_err(|error| invalid(file, "the members make no roster").because(error))?;
        Ok(Self { cluster, parameters, members, operators, roster })
    }

    /// `[cluster]`.
    #[must_use]
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// `[protocol]`, defaults resolved.
    #[must_use]
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// The members, in the order that gives them their ids.
    #[must_use]
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// The operators.
    #[must_use]
    pub fn operators(&self) -> &[Operator] {
        &self.operators
    }

    /// The member of this name and its id.
    #[must_use]
    pub fn member(&self, name: &str) -> Option<(NodeId, &Member)> {
        (0_u32..).map(NodeId).zip(&self.members).find(|(_, member)| member.name == name)
    }

    /// Keys and power of epoch 0.
    #[must_use]
    pub fn roster(&self) -> &Roster {
        &self.roster
    }

    /// Power that may be faulty, (P - 1) / 3 of the total power P; with equal stake 1 the usual f.
    #[must_use]
    pub fn f(&self) -> u64 {
        self.roster.weights().faulty()
    }

    /// The cluster id: BLAKE3 of the canonical encoding.
    #[must_use]
    pub fn id(&self) -> Hash {
        Hash::of(&self.encode())
    }

    /// What every statement of epoch 0 is signed for.
    #[must_use]
    pub fn scope(&self) -> Scope {
        Scope { cluster: self.id(), epoch: self.roster.epoch() }
    }
}

/// Aggregate signatures are not built: their keys' proofs of possession could not be checked, and a key without
/// that proof can forge for others.
fn check_scheme(file: &str, scheme: Scheme, members: &[Member]) -> Result<(), SynError> {
    if scheme == Scheme::Ed25519 {
        return Ok(());
    }
    match members.iter().find(|member| member.bls.is_none()) {
        Some(member) => {
            let found = format!("{} states no BLS key; set the scheme to ed25519", member.name);
            Err(broken("protocol.scheme", "member.bls", &found))
        }
        None => Err(bad_value(
            file,
            "protocol.scheme",
            "bls, which this program does not verify; set it to ed25519",
        )),
    }
}

//! The genesis as a checked value.

use super::chop::{Broker, Chop};
use super::member::{Member, Operator, check_members, invalid};
use super::parameters::{Bodies, Filter, Parameters, Rules, Scheme};
use super::pay::Pay;
use super::ubft::{MemoryMember, Ubft};
use crate::choice::choices;
use crate::errors::SynError;
use crate::node::broken;
use crate::table::bad_value;
use std::ops::Range;
use synod_crypto::bls::BlsMembers;
use synod_crypto::{Hash, Scope};
use synod_quorum::{Epoch, NodeId, Roster};

choices! {
    /// The ordering protocol of a cluster.
    Protocol {
        /// HotStuff and its rule packs.
        Hotstuff = "hotstuff",
        /// Chop Chop, over HotStuff or uBFT.
        Chopchop = "chopchop",
        /// Astro: payments by broadcast, without an order.
        Astro = "astro",
        /// uBFT: 2f + 1 members and memory nodes that only crash.
        Ubft = "ubft",
    }
}

impl Protocol {
    /// The applications that clusters of this protocol execute; the first is the default.
    #[must_use]
    pub fn apps(self) -> &'static [&'static str] {
        match self {
            Self::Hotstuff => &["kv", "book"],
            Self::Chopchop => &super::chop::APPS,
            Self::Astro => &["ledger"],
            Self::Ubft => &["kv", "flip", "redis", "memcached"],
        }
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
    chop: Option<(Chop, BlsMembers)>,
    pay: Option<Pay>,
    ubft: Option<Ubft>,
}

/// What a protocol has beside members and operators.
pub(super) enum Special {
    /// HotStuff has its parameters alone.
    Hotstuff(Parameters),
    /// Chop Chop has those of the protocol that orders for it.
    Chopchop(Parameters, Chop),
    /// The same over uBFT, with the positions between two checkpoints.
    ChopchopOverUbft(u32, Ubft, Chop),
    /// Astro has no order.
    Astro(Pay),
    /// uBFT orders by itself.
    Ubft(Ubft),
}

impl Special {
    const fn protocol(&self) -> Protocol {
        match self {
            Self::Hotstuff(_) => Protocol::Hotstuff,
            Self::Chopchop(..) | Self::ChopchopOverUbft(..) => Protocol::Chopchop,
            Self::Astro(_) => Protocol::Astro,
            Self::Ubft(_) => Protocol::Ubft,
        }
    }
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
        Self::checked("genesis.toml", (cluster, Special::Hotstuff(parameters)), members, operators)
    }

    /// The same for a cluster of protocol chopchop.
    ///
    /// # Errors
    /// Those of [`Genesis::build`]; SYN-1106 for a member without a key for multi-signatures.
    pub fn build_chop(
        cluster: Cluster,
        (parameters, chop): (Parameters, Chop),
        members: Vec<Member>,
        operators: Vec<Operator>,
    ) -> Result<Self, SynError> {
        Self::checked("genesis.toml", (cluster, Special::Chopchop(parameters, chop)), members, operators)
    }

    /// The same for a cluster of protocol chopchop that is ordered by uBFT, whose requests of a batch are not stated, with these positions
    /// between two checkpoints.
    ///
    /// # Errors
    /// Those of [`Genesis::build_chop`] and [`Genesis::build_ubft`].
    pub fn build_chop_over_ubft(
        cluster: Cluster,
        (checkpoint_every, ubft, chop): (u32, Ubft, Chop),
        members: Vec<Member>,
        operators: Vec<Operator>,
    ) -> Result<Self, SynError> {
        let special = Special::ChopchopOverUbft(checkpoint_every, ubft.under(), chop);
        Self::checked("genesis.toml", (cluster, special), members, operators)
    }

    /// The same for a cluster of protocol astro.
    ///
    /// # Errors
    /// Those of [`Genesis::build`]; SYN-1106 for registrars that are no members.
    pub fn build_pay(
        cluster: Cluster,
        pay: Pay,
        members: Vec<Member>,
        operators: Vec<Operator>,
    ) -> Result<Self, SynError> {
        Self::checked("genesis.toml", (cluster, Special::Astro(pay)), members, operators)
    }

    /// The same for a cluster of protocol ubft.
    ///
    /// # Errors
    /// Those of [`Genesis::build`]; SYN-1106 for members or memory nodes of an even number.
    pub fn build_ubft(
        cluster: Cluster,
        ubft: Ubft,
        members: Vec<Member>,
        operators: Vec<Operator>,
    ) -> Result<Self, SynError> {
        Self::checked("genesis.toml", (cluster, Special::Ubft(ubft)), members, operators)
    }

    pub(super) fn checked(
        file: &str,
        (cluster, special): (Cluster, Special),
        members: Vec<Member>,
        operators: Vec<Operator>,
    ) -> Result<Self, SynError> {
        check_members(file, &members, &operators)?;
        if special.protocol() != cluster.protocol {
            return Err(invalid(file, "the protocol and its parameters are not of one kind"));
        }
        // Of a protocol that is not built on hotstuff: nothing is ordered by them, and no file states them.
        let unused = || Parameters::defaults(Rules::Chain2Order, 4);
        let (parameters, chop, pay, ubft) = match special {
            Special::Hotstuff(parameters) => (parameters, None, None, None),
            Special::Chopchop(parameters, chop) => (parameters, Some(chop), None, None),
            Special::ChopchopOverUbft(checkpoint_every, ubft, chop) => {
                ubft.check(file, &members)?;
                chop.check_over(file, &ubft, checkpoint_every)?;
                (Parameters { checkpoint_every, ..unused() }, Some(chop), None, Some(ubft))
            }
            Special::Astro(pay) => {
                pay.check(&cluster, &members, &operators)?;
                (unused(), None, Some(pay), None)
            }
            Special::Ubft(ubft) => {
                ubft.check(file, &members)?;
                (unused(), None, None, Some(ubft))
            }
        };
        parameters.check(cluster.drill)?;
        check_scheme(file, parameters.scheme, &members)?;
        check_built(file, &parameters)?;
        let seats =
            members.iter().map(|member| synod_quorum::Member { key: member.ed25519, power: member.stake });
        let roster = Roster::new(Epoch(0), seats.collect())
            .map_err(|error| invalid(file, "the members make no roster").because(error))?;
        if !cluster.protocol.apps().contains(&cluster.app.as_str()) {
            let found = format!("{} executes {}", cluster.protocol, cluster.protocol.apps().join(", "));
            return Err(broken("cluster.app", "cluster.protocol", &found));
        }
        let chop = match chop {
            Some(chop) => {
                let bls = chop.check(file, &members)?;
                Some((chop, bls))
            }
            None => None,
        };
        Ok(Self { cluster, parameters, members, operators, roster, chop, pay, ubft })
    }

    /// `[cluster]`.
    #[must_use]
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// `[protocol]` of hotstuff and chopchop, defaults resolved; a genesis of astro or ubft has none of it, one of chopchop over ubft
    /// `checkpoint_every` alone.
    #[must_use]
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// The members, in the order that gives them their ids.
    #[must_use]
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// What protocol chopchop adds, in a genesis of it.
    #[must_use]
    pub fn chop(&self) -> Option<&Chop> {
        self.chop.as_ref().map(|(chop, _)| chop)
    }

    /// What protocol astro says, in a genesis of it.
    #[must_use]
    pub const fn pay(&self) -> Option<&Pay> {
        self.pay.as_ref()
    }

    /// What orders by uBFT: in a genesis of protocol ubft, and of chopchop over it.
    #[must_use]
    pub const fn ubft(&self) -> Option<&Ubft> {
        self.ubft.as_ref()
    }

    /// The memory node of this name, and its id towards replicas: behind those of the members.
    #[must_use]
    pub fn memory_node(&self, name: &str) -> Option<(NodeId, &MemoryMember)> {
        let first = u32::try_from(self.members.len()).unwrap_or(u32::MAX);
        (first..).map(NodeId).zip(&self.ubft.as_ref()?.memory).find(|(_, node)| node.name == name)
    }

    /// Everybody who is linked with members under a key that the genesis states: the members, and memory nodes behind them.
    #[must_use]
    pub fn linked(&self) -> Roster {
        let memory = self.ubft.as_ref().map(|ubft| ubft.memory.as_slice()).unwrap_or_default();
        let nodes = memory.iter().map(|node| synod_quorum::Member { key: node.ed25519, power: 1 });
        let all = self.roster.members().iter().copied().chain(nodes).collect();
        Roster::new(self.roster.epoch(), all).expect("their keys were found to be distinct")
    }

    /// The members' keys for multi-signatures, in a genesis of protocol chopchop. Their possessions were checked.
    #[must_use]
    pub fn bls(&self) -> Option<&BlsMembers> {
        self.chop.as_ref().map(|(_, bls)| bls)
    }

    /// The broker of this name and its number.
    #[must_use]
    pub fn broker(&self, name: &str) -> Option<(u32, &Broker)> {
        (0_u32..).zip(&self.chop()?.brokers).find(|(_, broker)| broker.name == name)
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

    /// Power that may be faulty, (P - 1) / 3 of the total power P; with equal stake 1 the usual f. Where there are several shards, that of
    /// each; of members that uBFT orders (n - 1) / 2.
    #[must_use]
    pub fn f(&self) -> u64 {
        if self.ubft.is_some() {
            return u64::try_from(self.members.len()).unwrap_or(u64::MAX).saturating_sub(1) / 2;
        }
        match self.groups().as_slice() {
            [group, _, ..] => group.len().saturating_sub(1) as u64 / 3,
            _ => self.roster.weights().faulty(),
        }
    }

    /// The numbers of those members among whom a quorum counts: all, or those of each shard, in the order of the shards.
    #[must_use]
    pub fn groups(&self) -> Vec<Range<u32>> {
        let everybody = 0..self.roster.size();
        self.pay.as_ref().map_or_else(|| vec![everybody], |pay| pay.groups(self.members.len()).collect())
    }

    /// The number of the shard of a member, and those of its members; 0 and all where there is one.
    #[must_use]
    pub fn group(&self, member: NodeId) -> (u16, Range<u32>) {
        let mut groups = (0_u16..).zip(self.groups());
        groups.find(|(_, group)| group.contains(&member.0)).unwrap_or((0, 0..self.roster.size()))
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

/// Values that have a name and no code behind it.
fn check_built(file: &str, parameters: &Parameters) -> Result<(), SynError> {
    let missing = |value: &str, instead: &str| {
        format!("{value}, which this program does not have; set it to {instead}")
    };
    if parameters.bodies != Bodies::Digest {
        let problem = missing(parameters.bodies.as_str(), Bodies::Digest.as_str());
        return Err(bad_value(file, "protocol.bodies", &problem));
    }
    if parameters.filter == Filter::Off {
        let problem = missing(Filter::Off.as_str(), Filter::Committed.as_str());
        return Err(bad_value(file, "protocol.filter", &problem));
    }
    Ok(())
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

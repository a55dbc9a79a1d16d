//! The machines of a run: shards, accounts, keys, and what members start from.

use std::collections::BTreeMap;
use std::sync::Arc;

use synod_astro::{Batches, Config, Neighbour, Profile, Replica, Setup, Shards};
use synod_broadcast::SignedBroadcast;
use synod_broadcast::signed::{self, Certificate, Context, View};
use synod_crypto::Hash;
use synod_ledger::{AccountId, Opening, Owner, Terms, Units, UserData};
use synod_machine::Unrecoverable;
use synod_machine::host::{Host, HostConfig, Hosted, LaneLog, Place, Placed};
use synod_quorum::{Member, NodeId, Roster};
use synod_sim::{Keyring, Scenario};

use crate::params::number;
use crate::systems::astro::plan::{EPOCH, EURO, LIMIT, parameters};
use crate::systems::hotstuff::cluster;

/// How many shards there are, and members of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Shards.
    pub shards: u32,
    /// Members of each.
    pub members: u32,
}

impl Sizes {
    /// Those of a scenario.
    #[must_use]
    pub fn of(scenario: &Scenario) -> Self {
        let shards = u32::try_from(number(scenario, "shards", 2)).unwrap_or(2).max(1);
        Self { shards, members: scenario.nodes / shards }
    }

    /// The node of a member.
    #[must_use]
    pub const fn node(self, shard: u32, member: u32) -> NodeId {
        NodeId(shard * self.members + member)
    }

    /// The shard of a node.
    #[must_use]
    pub fn shard(self, node: u32) -> u16 {
        u16::try_from(node / self.members).unwrap_or(u16::MAX)
    }

    /// All nodes of a shard.
    pub fn nodes(self, shard: u32) -> impl Iterator<Item = NodeId> {
        (0..self.members).map(move |member| self.node(shard, member))
    }
}

/// An account.
#[must_use]
pub fn account(shard: u32, registrar: u32, local: u64) -> AccountId {
    AccountId { shard: u16::try_from(shard).unwrap_or(u16::MAX), registrar, local }
}

/// The first account of an institution issues money; the others are customers'.
pub const LOCALS: u64 = 3;

/// What machines are built from.
pub struct Plan {
    scenario: Scenario,
    /// See there.
    pub sizes: Sizes,
    views: Vec<Arc<View>>,
}

impl Plan {
    /// The plan of a scenario.
    ///
    /// # Errors
    /// The scenario is none of this system.
    pub fn new(scenario: &Scenario) -> Result<Self, String> {
        let sizes = Sizes::of(scenario);
        let is_whole = sizes.shards * sizes.members == scenario.nodes;
        if !is_whole || !(2..=4).contains(&sizes.shards) || !(2..=12).contains(&sizes.members) {
            return Err("a scenario of shards has 2 to 4 of 2 to 12 members each".to_owned());
        }
        let keyring = Keyring::new(scenario.crypto, scenario.seed);
        let view = |shard: u32| {
            let member = |id: NodeId| Member { key: keyring.public(u64::from(id.0)), power: 1 };
            let roster = Roster::new(EPOCH, sizes.nodes(shard).map(member).collect());
            let roster = Arc::new(roster.map_err(|e| e.to_string())?);
            let name = Hash::of(format!("synod trial view {shard}").as_bytes());
            let context = Context { shard: u16::try_from(shard).unwrap_or(u16::MAX), view: name };
            Ok(Arc::new(View { cluster: cluster(), roster, context }))
        };
        let views = (0..sizes.shards).map(view).collect::<Result<_, String>>()?;
        match parameters(scenario, Profile::Funded).fault() {
            Some(fault) => Err(fault.to_owned()),
            None => Ok(Self { scenario: scenario.clone(), sizes, views }),
        }
    }

    fn genesis(&self, shard: u32) -> Vec<Opening> {
        let opening = |registrar: u32, local: u64| {
            let representative = u8::try_from(registrar).unwrap_or(u8::MAX);
            let owner = Owner::Custodial(representative);
            let limit = Units(if local == 1 { LIMIT } else { 0 });
            let terms = Terms { owner, recovery: None, limit, code: 1, user_data: UserData::default() };
            let id = account(shard, registrar, local);
            Opening { id, ledger: EURO, terms, limit_max: limit, representative }
        };
        let of = |registrar: u32| (1..=LOCALS).map(move |local| opening(registrar, local));
        (0..self.sizes.members).flat_map(of).collect()
    }

    fn setup(&self, shard: u32, me: NodeId) -> Option<Setup<SignedBroadcast<Batches>>> {
        let others = (0..self.sizes.shards).filter(|other| *other != shard).filter_map(|other| {
            let nodes = self.sizes.nodes(other).map(Place::abroad).collect();
            let view = self.views.get(usize::try_from(other).ok()?)?;
            Some((view.context.shard, Neighbour { view: Arc::clone(view), nodes }))
        });
        let view = Arc::clone(self.views.get(usize::try_from(shard).ok()?)?);
        let config = Config {
            me,
            view: Arc::clone(&view),
            genesis: self.genesis(shard),
            caps: (0..self.sizes.members).map(|registrar| (registrar, Units(2 * LIMIT))).collect(),
            shards: Shards::new::<Certificate>(others.collect::<BTreeMap<_, _>>()),
            parameters: parameters(&self.scenario, Profile::Funded),
        };
        let channel = signed::Setup::under(me, view, config.parameters.bounds());
        Some(Setup { config, channel: Box::new(channel) })
    }

    /// Builds a member's machine from its lane.
    pub(crate) fn machine(
        &self,
        node: NodeId,
        machine: u8,
        log: LaneLog,
        life: u32,
    ) -> Result<Box<dyn Hosted>, Unrecoverable> {
        let shard = u32::from(self.sizes.shard(node.0));
        let place = Place { first: self.sizes.node(shard, 0).0, members: self.sizes.members };
        let seed = self.scenario.seed ^ u64::from(life) << 48 ^ u64::from(node.0) << 32;
        let me = place.local(node);
        let config = HostConfig { own: me, machine, seed, jobs_max: 4_096, checked: true };
        let setup = self.setup(shard, me).ok_or_else(|| Unrecoverable("no such shard".into()))?;
        let host = Host::<Replica<SignedBroadcast<Batches>>>::open(config, setup, log)?;
        Ok(Box::new(Placed::new(Box::new(host), place)))
    }
}

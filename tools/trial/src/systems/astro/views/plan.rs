//! The machines of a run: members of the first view and nodes that are to join, operators who endorse changes, accounts.

use std::sync::Arc;

use synod_astro::member::{self, Member, Network};
use synod_astro::views::{Change, Endorsement, Founding, Operator, View};
use synod_astro::{Batches, Parameters, Profile};
use synod_broadcast::{SignedBroadcast, signed};
use synod_ledger::{AccountId, Opening, Owner, Terms, Units, UserData};
use synod_machine::host::{Host, HostConfig, Hosted, LaneLog};
use synod_machine::{Span, Unrecoverable};
use synod_quorum::NodeId;
use synod_sim::{Draws, Keyring, Scenario};

use crate::params::number;
use crate::systems::astro::plan::{EURO, LIMIT, account, parameters};
use crate::systems::hotstuff::cluster;

/// What a node hosts.
type Machine = Member<SignedBroadcast<Batches>, signed::Certificate>;

/// The first account of an institution issues money; the others are customers'.
pub const LOCALS: u64 = 3;
/// Names of operators' keys, which are no nodes'.
const OPERATORS: u64 = 1 << 40;

/// Who changes the view, and when.
#[derive(Clone)]
pub struct Crew {
    /// Members of the first view.
    pub founders: u32,
    /// All nodes.
    pub nodes: u32,
    keyring: Keyring,
    founding: Arc<Founding>,
    changes: Vec<(Span, Change)>,
}

impl Crew {
    /// Those of a scenario: every node that is no founder joins, and some founders leave.
    ///
    /// # Errors
    /// The scenario is none of this system.
    pub fn of(scenario: &Scenario) -> Result<Self, String> {
        let founders = u32::try_from(number(scenario, "founders", 4)).unwrap_or(4);
        if !(4..=scenario.nodes).contains(&founders) || scenario.nodes > 12 {
            return Err("a scenario of views has 4 founders at least, and 12 nodes at most".to_owned());
        }
        let keyring = Keyring::new(scenario.crypto, scenario.seed);
        let key = |id: u32| keyring.public(u64::from(id));
        let small = |id: u32| u8::try_from(id).unwrap_or(u8::MAX);
        let members = (0..founders).map(|id| (small(id), key(id))).collect();
        let operators = (0..4).map(|at| keyring.public(OPERATORS + at)).collect();
        let founding = Arc::new(Founding { cluster: cluster(), shard: 0, members, operators });
        let mut draws = Draws::new(scenario.seed).stream("changes", 0);
        // Joins one after the other, or at once: those that meet propose different views.
        let at_once = draws.chance(500_000);
        let half = (scenario.horizon.0 / 2).max(1);
        let first = Span(draws.below(half));
        let mut changes = Vec::new();
        for id in founders..scenario.nodes {
            let at = if at_once { Span(first.0 + draws.below(30_000_000)) } else { Span(draws.below(half)) };
            changes.push((at, Change::Join { member: small(id), key: key(id) }));
        }
        let leaving = number(scenario, "leaving", 0);
        for id in (0..founders).filter(|id| leaving >> id & 1 == 1) {
            let after = if at_once { first.0 + draws.below(60_000_000) } else { draws.below(2 * half) };
            changes.push((Span(after), Change::Leave { member: small(id) }));
        }
        Ok(Self { founders, nodes: scenario.nodes, keyring, founding, changes })
    }

    /// Changes, and when each is asked for.
    #[must_use]
    pub fn changes(&self) -> &[(Span, Change)] {
        &self.changes
    }

    /// The view with all changes.
    #[must_use]
    pub fn last(&self) -> View {
        View::of(self.changes.iter().map(|(_, change)| *change)).unwrap_or_default()
    }

    /// Whether a node is a member once all changes are made.
    #[must_use]
    pub fn stays(&self, node: u32) -> bool {
        let leaves =
            |change: &Change| matches!(change, Change::Leave { member } if u32::from(*member) == node);
        !self.changes.iter().any(|(_, change)| leaves(change))
    }

    /// A change as operators endorse it.
    #[must_use]
    pub fn endorsed(&self, change: Change) -> Endorsement {
        let sign = |operator: u8| {
            let (scope, sworn) = self.founding.endorsed(change);
            let keys = self.keyring.keys(OPERATORS + u64::from(operator));
            let signature = keys.sign(scope, NodeId(u32::from(operator)), sworn).signature;
            Operator { operator, signature }
        };
        let signed = [0, 1, 2].map(sign).to_vec();
        Endorsement { change, signed: signed.try_into().unwrap_or_default() }
    }

    /// Accounts that there are from the beginning.
    pub fn accounts(&self) -> impl Iterator<Item = AccountId> + use<> {
        (0..self.founders).flat_map(|registrar| (1..=LOCALS).map(move |local| account(registrar, local)))
    }
}

/// What machines are built from.
pub struct Plan {
    scenario: Scenario,
    crew: Crew,
}

impl Plan {
    /// The plan of a scenario.
    ///
    /// # Errors
    /// The scenario is none of this system.
    pub fn new(scenario: &Scenario) -> Result<Self, String> {
        let plan = Self { scenario: scenario.clone(), crew: Crew::of(scenario)? };
        match plan.config(NodeId(0)).fault().or_else(|| plan.parameters().fault()) {
            Some(fault) => Err(fault.to_owned()),
            None => Ok(plan),
        }
    }

    /// Who changes the view.
    #[must_use]
    pub const fn crew(&self) -> &Crew {
        &self.crew
    }

    fn parameters(&self) -> Parameters {
        let drawn = parameters(&self.scenario, Profile::Funded);
        // Whoever joins takes all slots that there were.
        Parameters { owners_sign: false, retain: 2_048, checkpoint_every: Span::ZERO, ..drawn }
    }

    fn config(&self, me: NodeId) -> member::Config<SignedBroadcast<Batches>> {
        let network: Arc<Network<SignedBroadcast<Batches>>> =
            Arc::new(|me, view, begun, bounds| Box::new(signed::Setup::begun(me, view, begun, bounds)));
        let opening = |id: AccountId| {
            let representative = u8::try_from(id.registrar).unwrap_or(u8::MAX);
            let owner = Owner::Custodial(representative);
            let limit = Units(if id.local == 1 { LIMIT } else { 0 });
            let terms = Terms { owner, recovery: None, limit, code: 1, user_data: UserData::default() };
            Opening { id, ledger: EURO, terms, limit_max: limit, representative }
        };
        member::Config {
            me,
            founding: Arc::clone(&self.crew.founding),
            genesis: self.crew.accounts().map(opening).collect(),
            caps: (0..self.crew.nodes).map(|registrar| (registrar, Units(2 * LIMIT))).collect(),
            parameters: self.parameters(),
            trusts_owners: false,
            network,
        }
    }

    /// Builds a node's machine from its lane.
    pub(crate) fn machine(
        &self,
        node: NodeId,
        machine: u8,
        log: LaneLog,
        life: u32,
    ) -> Result<Box<dyn Hosted>, Unrecoverable> {
        let seed = self.scenario.seed ^ u64::from(life) << 48 ^ u64::from(node.0) << 32;
        let config = HostConfig { own: node, machine, seed, jobs_max: 4_096, checked: true };
        Ok(Box::new(Host::<Machine>::open(config, self.config(node), log)?))
    }
}

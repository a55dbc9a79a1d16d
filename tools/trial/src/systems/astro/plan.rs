//! The machines of a run: accounts, keys, and what members start from.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use synod_astro::{
    BackedBatches, Batches, Carrier, Channel, Config, Parameters, Profile, Replica, Setup, Verify,
};
use synod_broadcast::signed::{self, Context, View};
use synod_broadcast::{Bracha, SignedBroadcast, bracha};
use synod_crypto::{Hash, Keys, PublicKey};
use synod_ledger::{AccountId, Opening, Owner, Part, Terms, Units, UserData};
use synod_machine::broadcast::Items;
use synod_machine::host::{Host, HostConfig, Hosted, LaneLog};
use synod_machine::{Span, Unrecoverable};
use synod_quorum::{Epoch, Member, NodeId, Roster};
use synod_sim::{Keyring, Scenario};

use super::{names, sight};
use crate::oracle::astro::StateSeen;
use crate::params::number;
use crate::systems::hotstuff::cluster;

/// Machine number of replicas.
pub const REPLICA: u8 = 0;
/// The ledger of all accounts.
pub const EURO: u32 = 978;
/// What an issuer may owe.
pub const LIMIT: u128 = 1_000_000;
/// The view's number.
pub const EPOCH: Epoch = Epoch(0);

/// Books that members recovered, by node.
pub type Recovered = Rc<RefCell<BTreeMap<u32, StateSeen>>>;

/// Who has accounts from the beginning: of each institution an issuer, customers, and owners who sign for themselves.
#[derive(Clone)]
pub struct People {
    /// Institutions, one per member.
    pub members: u32,
    customers: u64,
    owners: u64,
    /// Institutions whose last owner lies, one bit each.
    lying: u64,
    /// Institutions whose first owner has a wallet, one bit each.
    purses: u64,
    /// What they pay each other by.
    pub profile: Profile,
    keyring: Keyring,
}

/// An account.
#[must_use]
pub const fn account(registrar: u32, local: u64) -> AccountId {
    AccountId { shard: 0, registrar, local }
}

impl People {
    /// Those of a scenario.
    #[must_use]
    pub fn of(scenario: &Scenario) -> Self {
        Self {
            members: scenario.nodes,
            customers: number(scenario, "customers", 2).clamp(1, 16),
            owners: number(scenario, "owners", 2).clamp(1, 16),
            lying: number(scenario, "lying", 0),
            purses: number(scenario, "purses", 0),
            profile: names::profile(&scenario.system),
            keyring: Keyring::new(scenario.crypto, scenario.seed),
        }
    }

    /// Whether nobody but its representative carries what an owner signs.
    #[must_use]
    pub const fn registers(&self) -> bool {
        matches!(self.profile, Profile::I | Profile::II)
    }

    /// The issuer of an institution.
    #[must_use]
    pub const fn issuer(registrar: u32) -> AccountId {
        account(registrar, 1)
    }

    /// Accounts of an institution that sign for themselves from the beginning.
    pub fn owners(&self, registrar: u32) -> impl Iterator<Item = AccountId> + use<> {
        let first = 2 + self.customers;
        (first..first + self.owners).map(move |local| account(registrar, local))
    }

    /// The owner of an institution that lies, if one does.
    #[must_use]
    pub fn liar(&self, registrar: u32) -> Option<AccountId> {
        (self.lying >> registrar & 1 == 1).then(|| self.owners(registrar).last()).flatten()
    }

    /// The owner of an institution that has a wallet, if one does: never one who lies.
    #[must_use]
    pub fn purse(&self, registrar: u32) -> Option<AccountId> {
        let first = (self.purses >> registrar & 1 == 1).then(|| self.owners(registrar).next()).flatten();
        first.filter(|first| self.liar(registrar) != Some(*first))
    }

    /// The keys of an owner.
    #[must_use]
    pub fn keys(&self, id: AccountId) -> Keys {
        self.keyring.keys(1 << 48 | u64::from(id.registrar) << 32 | id.local)
    }

    /// The key of a member.
    #[must_use]
    pub fn member(&self, member: u32) -> PublicKey {
        self.keyring.public(u64::from(member))
    }

    /// How an account is opened.
    #[must_use]
    pub fn opening(&self, id: AccountId, signs: bool) -> Opening {
        let representative = u8::try_from(id.registrar).unwrap_or(u8::MAX);
        let owner = match signs {
            true => Owner::SelfSigned(self.keys(id).public()),
            false => Owner::Custodial(representative),
        };
        let limit = Units(if id.local == 1 { LIMIT } else { 0 });
        let terms = Terms { owner, recovery: None, limit, code: 1, user_data: UserData::default() };
        Opening { id, ledger: EURO, terms, limit_max: limit, representative }
    }

    /// Accounts there are from the beginning.
    #[must_use]
    pub fn genesis(&self) -> Vec<Opening> {
        let of = |registrar: u32| {
            let all = 1..2 + self.customers + self.owners;
            all.map(move |local| self.opening(account(registrar, local), local >= 2 + self.customers))
        };
        (0..self.members).flat_map(of).collect()
    }

    /// Accounts that each institution has from the beginning.
    #[must_use]
    pub const fn locals(&self) -> u64 {
        1 + self.customers + self.owners
    }
}

/// What machines are built from.
pub struct Plan {
    scenario: Scenario,
    /// Who has accounts.
    pub people: People,
    /// The members.
    pub view: Arc<View>,
    /// Books that members recovered.
    pub recovered: Recovered,
}

impl Plan {
    /// The plan of a scenario.
    ///
    /// # Errors
    /// The scenario is none of this system.
    pub fn new(scenario: &Scenario) -> Result<Self, String> {
        if !(2..=12).contains(&scenario.nodes) {
            return Err("an Astro scenario has 2 to 12 members".to_owned());
        }
        let keyring = Keyring::new(scenario.crypto, scenario.seed);
        let member = |id: u32| Member { key: keyring.public(u64::from(id)), power: 1 };
        let roster = Roster::new(EPOCH, (0..scenario.nodes).map(member).collect());
        let roster = Arc::new(roster.map_err(|e| e.to_string())?);
        let context = Context { shard: 0, view: Hash::of(b"synod trial view") };
        let view = Arc::new(View { cluster: cluster(), roster, context });
        let people = People::of(scenario);
        let plan = Self { scenario: scenario.clone(), people, view, recovered: Recovered::default() };
        match plan.parameters().fault() {
            Some(fault) => Err(fault.to_owned()),
            None => Ok(plan),
        }
    }

    fn parameters(&self) -> Parameters {
        parameters(&self.scenario, self.people.profile)
    }

    fn config(&self, me: NodeId) -> Config {
        Config {
            me,
            view: Arc::clone(&self.view),
            genesis: self.people.genesis(),
            caps: (0..self.people.members).map(|registrar| (registrar, Units(2 * LIMIT))).collect(),
            shards: synod_astro::Shards::default(),
            parameters: self.parameters(),
        }
    }

    fn over_signed<I: Items>(&self, me: NodeId) -> Channel<SignedBroadcast<I>> {
        Box::new(signed::Setup::under(me, Arc::clone(&self.view), self.parameters().bounds()))
    }

    fn over_bracha(&self, me: NodeId) -> Channel<Bracha> {
        let (members, bounds) = (self.view.roster.all(), self.parameters().bounds());
        let own = synod_broadcast::Config { me, members, bounds };
        Box::new(move |delivered| bracha::Setup { config: own.clone(), delivered })
    }

    /// Builds a member's machine from its lane.
    pub(crate) fn machine(
        &self,
        node: NodeId,
        machine: u8,
        log: LaneLog,
        life: u32,
    ) -> Result<Box<dyn Hosted>, Unrecoverable> {
        let seed = self.scenario.seed ^ u64::from(life) << 48;
        let config = HostConfig { own: node, machine, seed, jobs_max: 4_096, checked: true };
        match self.people.profile {
            Profile::I => self.hosted::<Bracha>(config, self.over_bracha(node), log),
            Profile::II => self.hosted::<SignedBroadcast<BackedBatches>>(
                config,
                self.over_signed::<BackedBatches>(node),
                log,
            ),
            Profile::Funded => {
                self.hosted::<SignedBroadcast<Batches>>(config, self.over_signed::<Batches>(node), log)
            }
        }
    }

    fn hosted<B>(
        &self,
        config: HostConfig,
        channel: Channel<B>,
        log: LaneLog,
    ) -> Result<Box<dyn Hosted>, Unrecoverable>
    where
        B: Carrier + Send + 'static,
        B::Message: Send,
        B::Timer: Send,
    {
        let node = config.own;
        let setup = Setup { config: self.config(node), channel };
        let host = Host::<Replica<B>>::open(config, setup, log)?;
        let mut parts: Vec<Part> = Vec::new();
        host.machine().book().parts(&mut |part| parts.push(part));
        self.recovered.borrow_mut().insert(node.0, sight::state(parts));
        Ok(Box::new(host))
    }
}

/// The parameters of a scenario.
pub(super) fn parameters(scenario: &Scenario, profile: Profile) -> Parameters {
    let of = |key: &str, default: u64| number(scenario, key, default);
    let small = |key: &str, default: u64| u32::try_from(of(key, default)).unwrap_or(1);
    let (pull, resend) = (Span::millis(of("pull_ms", 100)), Span::millis(of("resend_ms", 500)));
    Parameters {
        profile,
        unfunded_max: small("unfunded_max", 64),
        batch_max: small("batch_max", 8),
        batch_bytes: small("batch_bytes", 8 << 10),
        batch_wait: Span::millis(of("batch_wait_ms", 5)),
        window: of("window", 16),
        accounts_max: of("accounts_max", 1 << 12),
        lane_window: of("lane_window", 8),
        retain: of("retain", 512),
        frontier_every: Span::millis(of("frontier_ms", 50)),
        pull,
        pull_max: Span::millis(of("pull_max_ms", 1_000)).max(pull),
        resend,
        resend_max: Span::millis(of("resend_max_ms", 2_000)).max(resend),
        checkpoint_every: Span::millis(of("checkpoint_ms", 0)),
        skips: true,
        shows_all: of("shows_all", 0) == 1,
        owners_sign: true,
        // One more than the witnesses beyond those that are needed; 0 where everybody checks.
        verify: match u8::try_from(of("witness", 0)).ok().and_then(|witness| witness.checked_sub(1)) {
            Some(margin) => Verify::Witness { margin },
            None => Verify::All,
        },
        distil: Span::millis(of("distil_ms", 0)),
    }
}

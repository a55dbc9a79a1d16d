//! What a node of the payment system hosts, from its genesis.

use std::collections::BTreeMap;
use std::sync::Arc;

use synod_astro::member;
use synod_astro::{Batches, Config, Parameters, Replica};
use synod_broadcast::{SignedBroadcast, signed};
use synod_config::{Genesis, Pay, SynError};
use synod_crypto::Hash;
use synod_ledger::{Opening, Terms, Units, UserData};
use synod_machine::Span;
use synod_machine::broadcast::{Context, View};
use synod_machine::host::{Host, LaneLog};
use synod_net::Handle;
use synod_quorum::{NodeId, Roster};

use super::{AccountId, Claim, Owner, SHARD, Teller, views};
use crate::error::invalid;
use crate::plan::{Connect, Part, Plan, REPLICA, damaged, host};
use crate::server::Setup;

/// The replica as it is hosted.
type Hosted = Replica<SignedBroadcast<Batches>>;

/// The account that issues the money of the member of this number.
#[must_use]
pub const fn issuer(registrar: u32) -> AccountId {
    AccountId { shard: SHARD, registrar, local: 1 }
}

/// Recovers the replica, and the teller that speaks with it.
pub(crate) fn recover(setup: &Setup, lanes: Vec<LaneLog>) -> Result<Plan, SynError> {
    let Ok::<[LaneLog; 1], _>([log]) = lanes.try_into() else {
        return Err(invalid("the journal has another number of lanes than the plan"));
    };
    if setup.genesis.pay().is_some_and(Pay::has_views) {
        let (hosted, teller) = views::recover(setup, log)?;
        return Ok(plan(hosted, views::connect(&teller), teller));
    }
    let config = config(&setup.genesis, setup.own)?;
    let view = Arc::clone(&config.view);
    let channel = signed::Setup::under(setup.own, Arc::clone(&view), config.parameters.bounds());
    let replica = synod_astro::Setup { config, channel: Box::new(channel) };
    let replica = Host::<Hosted>::open(host(setup, REPLICA), replica, log).map_err(damaged)?;
    let log = replica.machine();
    let claim = Claim { cluster: view.cluster, member: setup.own.0, kept: log.kept(), last: log.last() };
    let teller = Teller::open(&setup.data, &claim, view)?;
    if setup.genesis.pay().is_some_and(Pay::has_cuts) {
        teller.keep_cuts(&setup.data, &claim)?;
    }
    Ok(plan(Box::new(replica), connect(&teller), teller))
}

/// The plan of one machine and its teller.
fn plan(hosted: Box<dyn synod_machine::host::Hosted>, connector: Connect, teller: Arc<Teller>) -> Plan {
    Plan {
        parts: vec![Part { number: REPLICA, hosted, reactor: 0, routes: Vec::new() }],
        connector,
        guests: Vec::new(),
        named: Vec::new(),
        keys: None,
        readmitted: Vec::new(),
        signer: None,
        teller: Some(teller),
        linked: None,
        standing: None,
    }
}

/// What the replica of member `own` needs to know.
fn config(genesis: &Genesis, own: NodeId) -> Result<Config, SynError> {
    Ok(Config {
        me: own,
        view: Arc::new(view(genesis)?),
        genesis: openings(genesis)?,
        caps: caps(genesis)?,
        shards: synod_astro::Shards::default(),
        parameters: parameters(genesis)?,
    })
}

/// The bounds of payments as a genesis says them.
///
/// # Errors
/// SYN-1001 for a genesis of another protocol.
pub(super) fn parameters(genesis: &Genesis) -> Result<Parameters, SynError> {
    let pay = genesis.pay().ok_or_else(|| invalid("the genesis is not of protocol astro"))?;
    Ok(Parameters {
        batch_max: pay.batch_max,
        batch_bytes: pay.batch_bytes,
        window: u64::from(pay.window),
        lane_window: u64::from(pay.lane_window),
        retain: u64::from(pay.retain_batches),
        // A node's log is audited by itself.
        shows_all: true,
        checkpoint_every: Span(u64::try_from(pay.cut_every.as_nanos()).unwrap_or(u64::MAX)),
        // Its index has to know each entry: who forgets the name of a payment pays it twice.
        skips: false,
        ..Parameters::default()
    })
}

/// The accounts that the genesis opens.
///
/// # Errors
/// SYN-1001 for a genesis of another protocol.
pub(super) fn openings(genesis: &Genesis) -> Result<Vec<Opening>, SynError> {
    let pay = genesis.pay().ok_or_else(|| invalid("the genesis is not of protocol astro"))?;
    Ok(registrars(genesis, pay)?.iter().map(|(number, ledger, cap)| first(*number, *ledger, *cap)).collect())
}

/// How much the accounts of each registrar may owe in all.
///
/// # Errors
/// As [`openings`].
pub(super) fn caps(genesis: &Genesis) -> Result<BTreeMap<u32, Units>, SynError> {
    let pay = genesis.pay().ok_or_else(|| invalid("the genesis is not of protocol astro"))?;
    Ok(registrars(genesis, pay)?.iter().map(|(number, _, cap)| (u32::from(*number), *cap)).collect())
}

/// The members that sign for payments; where members come and go, the first ones.
///
/// # Errors
/// SYN-1001 for founders that make no view.
pub(super) fn view(genesis: &Genesis) -> Result<View, SynError> {
    if genesis.pay().is_some_and(Pay::has_views) {
        let first = views::first(&views::founding(genesis)?)?;
        return Ok(Arc::unwrap_or_clone(first.broadcasts()));
    }
    Ok(view_of(genesis.id(), genesis.roster().clone()))
}

/// The only view of a cluster of this id: what its members sign is signed under this name.
#[must_use]
pub fn view_of(cluster: Hash, roster: Roster) -> View {
    let context = Context { shard: SHARD, view: Hash::of_value("synod astro view", &cluster) };
    View { cluster, roster: Arc::new(roster), context }
}

/// Number, ledger and cap of each registrar, in the order of their numbers.
fn registrars(genesis: &Genesis, pay: &Pay) -> Result<Vec<(u8, u32, Units)>, SynError> {
    let number = |registrar| {
        let number = Pay::number(registrar, genesis.members())?;
        Some((u8::try_from(number).ok()?, registrar.ledger, Units(u128::from(registrar.cap))))
    };
    let all: Option<Vec<_>> = pay.registrars.iter().map(number).collect();
    let mut all = all.ok_or_else(|| invalid("a registrar of the genesis is no member"))?;
    all.sort_unstable_by_key(|(number, ..)| *number);
    Ok(all)
}

/// The account that issues a registrar's money.
fn first(number: u8, ledger: u32, cap: Units) -> Opening {
    let owner = Owner::Custodial(number);
    let terms = Terms { owner, recovery: None, limit: cap, code: 0, user_data: UserData::default() };
    Opening { id: issuer(u32::from(number)), ledger, terms, limit_max: cap, representative: number }
}

/// Has a teller speak with the running machine.
pub(crate) fn begin(teller: &Teller, handle: &Handle) {
    let inputs = handle.clone();
    if !teller.has_views() {
        return teller.begin(Box::new(move |input| inputs.input(REPLICA, input).is_ok()));
    }
    let changes = handle.clone();
    teller
        .begin_changes(Box::new(move |change| changes.input(REPLICA, member::Input::Change(change)).is_ok()));
    teller.begin(Box::new(move |input| inputs.input(REPLICA, member::Input::Pay(input)).is_ok()));
}

/// Where outputs go: all to the teller.
fn connect(teller: &Arc<Teller>) -> Connect {
    let teller = Arc::clone(teller);
    Box::new(move |_, output, _| {
        if let Ok(output) = output.downcast::<synod_astro::Output>() {
            teller.hear(*output);
        }
    })
}

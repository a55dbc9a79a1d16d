//! What a node of the payment system hosts, from its genesis.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use synod_astro::member;
use synod_astro::{Batches, Config, Neighbour, Parameters, Replica, Shards};
use synod_broadcast::signed::Certificate;
use synod_broadcast::{SignedBroadcast, signed};
use synod_config::{Genesis, Pay, SynError};
use synod_crypto::Hash;
use synod_ledger::{Opening, Terms, Units, UserData};
use synod_machine::Span;
use synod_machine::broadcast::{Context, View};
use synod_machine::host::{Host, HostConfig, LaneLog, Place, Placed};
use synod_net::Handle;
use synod_quorum::{Member, NodeId, Roster};

use super::seat::{group, place};
use super::{AccountId, Claim, Owner, Seat, Teller, views};
use crate::error::invalid;
use crate::plan::{Connect, Part, Plan, REPLICA, damaged, host};
use crate::server::Setup;

/// The replica as it is hosted.
type Hosted = Replica<SignedBroadcast<Batches>>;

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
    let channel = signed::Setup::under(config.me, Arc::clone(&view), config.parameters.bounds());
    let hosting = HostConfig { own: config.me, ..host(setup, REPLICA) };
    let replica = synod_astro::Setup { config, channel: Box::new(channel) };
    let replica = Host::<Hosted>::open(hosting, replica, log).map_err(damaged)?;
    let log = replica.machine();
    let seat = Seat::of(&setup.genesis, setup.own);
    let (kept, last) = (log.kept(), log.last());
    let claim = Claim { cluster: view.cluster, member: setup.own.0, seat, kept, last };
    let teller = Teller::open(&setup.data, &claim, view)?;
    if setup.genesis.pay().is_some_and(Pay::has_cuts) {
        teller.keep_cuts(&setup.data, &claim)?;
    }
    let replica: Box<dyn synod_machine::host::Hosted> = match place(&setup.genesis, setup.own) {
        Some(place) => Box::new(Placed::new(Box::new(replica), place)),
        None => Box::new(replica),
    };
    Ok(plan(replica, connect(&teller), teller))
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
    let Seat { shard, number } = Seat::of(genesis, own);
    Ok(Config {
        me: NodeId(number),
        view: Arc::new(view(genesis, shard)?),
        genesis: openings(genesis, shard)?,
        caps: caps(genesis, shard)?,
        shards: neighbours(genesis, shard)?,
        parameters: parameters(genesis)?,
    })
}

/// The shards beside this one, as its members reach them.
fn neighbours(genesis: &Genesis, own: u16) -> Result<Shards, SynError> {
    let others = (0_u16..).zip(genesis.groups()).filter(|(shard, _)| *shard != own);
    let neighbour = |(shard, group): (u16, Range<u32>)| {
        let nodes = group.map(|member| Place::abroad(NodeId(member))).collect();
        Ok((shard, Neighbour { view: Arc::new(view(genesis, shard)?), nodes }))
    };
    let others: BTreeMap<u16, Neighbour> = others.map(neighbour).collect::<Result<_, SynError>>()?;
    Ok(if others.is_empty() { Shards::default() } else { Shards::new::<Certificate>(others) })
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

/// The accounts that the genesis opens in a shard.
///
/// # Errors
/// SYN-1001 for a genesis of another protocol.
pub(super) fn openings(genesis: &Genesis, shard: u16) -> Result<Vec<Opening>, SynError> {
    let registrars = registrars(genesis, shard)?;
    let first = |(number, ledger, cap): &(u8, u32, Units)| {
        first(Seat { shard, number: u32::from(*number) }.issuer(), *number, (*ledger, *cap))
    };
    Ok(registrars.iter().map(first).collect())
}

/// How much the accounts of each registrar of a shard may owe in all.
///
/// # Errors
/// As [`openings`].
pub(super) fn caps(genesis: &Genesis, shard: u16) -> Result<BTreeMap<u32, Units>, SynError> {
    Ok(registrars(genesis, shard)?.iter().map(|(number, _, cap)| (u32::from(*number), *cap)).collect())
}

/// The members of a shard that sign for its payments; where members come and go, the first ones.
///
/// # Errors
/// SYN-1001 for founders that make no view, and for a shard that there is not.
pub fn view(genesis: &Genesis, shard: u16) -> Result<View, SynError> {
    let group = group(genesis, shard)?;
    if genesis.pay().is_some_and(Pay::has_views) {
        let first = views::first(&views::founding(genesis)?)?;
        return Ok(Arc::unwrap_or_clone(first.broadcasts()));
    }
    if group.len() == genesis.members().len() {
        return Ok(view_of(genesis.id(), genesis.roster().clone()));
    }
    let members = (0_u32..).zip(genesis.members()).filter(|(number, _)| group.contains(number));
    let members = members.map(|(_, member)| Member { key: member.ed25519, power: member.stake });
    let roster = Roster::new(genesis.roster().epoch(), members.collect())
        .map_err(|error| invalid("the members of a shard make no roster").because(error))?;
    let cluster = genesis.id();
    let name = Hash::of_value("synod astro view of a shard", &(cluster, shard));
    Ok(View { cluster, roster: Arc::new(roster), context: Context { shard, view: name } })
}

/// The only view of a cluster of this id that has one shard: what its members sign is signed under this name.
#[must_use]
pub fn view_of(cluster: Hash, roster: Roster) -> View {
    let context = Context { shard: 0, view: Hash::of_value("synod astro view", &cluster) };
    View { cluster, roster: Arc::new(roster), context }
}

/// Number, ledger and cap of each registrar of a shard, in the order of their numbers.
fn registrars(genesis: &Genesis, shard: u16) -> Result<Vec<(u8, u32, Units)>, SynError> {
    let pay = genesis.pay().ok_or_else(|| invalid("the genesis is not of protocol astro"))?;
    let mut all = Vec::new();
    for registrar in &pay.registrars {
        let member = Pay::number(registrar, genesis.members());
        let member = member.ok_or_else(|| invalid("a registrar of the genesis is no member"))?;
        let seat = Seat::of(genesis, NodeId(member));
        if seat.shard == shard {
            let number = u8::try_from(seat.number).map_err(|_| invalid("a shard has 128 members at most"))?;
            all.push((number, registrar.ledger, Units(u128::from(registrar.cap))));
        }
    }
    all.sort_unstable_by_key(|(number, ..)| *number);
    Ok(all)
}

/// The account that issues a registrar's money.
fn first(id: AccountId, number: u8, (ledger, cap): (u32, Units)) -> Opening {
    let owner = Owner::Custodial(number);
    let terms = Terms { owner, recovery: None, limit: cap, code: 0, user_data: UserData::default() };
    Opening { id, ledger, terms, limit_max: cap, representative: number }
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

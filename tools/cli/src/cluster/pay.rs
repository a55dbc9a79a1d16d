//! The files of a new payment system.

use super::{Purpose, Seat, found_as};
use crate::layout::{GENESIS_FILE, OPERATOR_FILE};
use std::path::Path;
use std::time::Duration;
use synod_config::{Cluster, Genesis, Member, NodeKey, Operator, Pay, Protocol, Service, SynError};

/// Committed batches of each representative that are kept where members join: who joins reads all of them.
const RETAIN_BATCHES: u32 = 4_096;

/// Who of the members begins, and who changes that.
#[derive(Clone, Debug, Default)]
pub(crate) struct Membership {
    /// How many members, the last ones, stand in reserve; `None` where all are there for good.
    pub(crate) reserve: Option<u16>,
    /// How many shards there are; `None` for one.
    pub(crate) shards: Option<u16>,
    /// How often cuts are made; `None` for what fits.
    pub(crate) cut_every: Option<Duration>,
    /// Whose quorum lets members join and leave.
    pub(crate) operators: Vec<Operator>,
}

/// Leaves at a seat what nodes of a payment system serve: no binary clients and no RESP.
pub(super) fn payers(seat: &mut Seat) {
    seat.listen.retain(|(service, _)| !matches!(service, Service::Client | Service::Resp));
}

/// Builds a whole payment system at `out`: `genesis.toml` and a directory per node. Each member issues money of ledger 1. Where members
/// come and go and no operator is named there is one, whose key stands beside the genesis.
///
/// # Errors
/// SYN-1109 if something stands at `out`; SYN-1105 and SYN-1106 for what makes no cluster.
pub(crate) fn found_pay(
    (name, purpose): (&str, Purpose),
    seats: &[Seat],
    membership: &Membership,
    out: &Path,
) -> Result<Genesis, SynError> {
    let mut seats = seats.to_vec();
    seats.iter_mut().for_each(payers);
    let needs_operator = membership.reserve.is_some() && membership.operators.is_empty();
    let key = needs_operator.then(NodeKey::generate).transpose()?;
    let mut membership = membership.clone();
    let made = key.iter().map(|key| Operator { name: "operator".to_owned(), ed25519: key.public() });
    membership.operators.extend(made);
    found_as(&seats, out, &|members| pay_genesis(name, purpose, members, &membership), &|folder| {
        key.as_ref().map_or(Ok(()), |key| key.write_new(&folder.join(OPERATOR_FILE)))
    })
}

/// The genesis of a payment system of these members.
///
/// # Errors
/// SYN-1105 for members that make no cluster; SYN-1106 for more in reserve than there are, or nobody who lets them join, and for shards
/// of unequal size or with what shards do not have.
pub(crate) fn pay_genesis(
    name: &str,
    purpose: Purpose,
    members: Vec<Member>,
    membership: &Membership,
) -> Result<Genesis, SynError> {
    let (app, drill) = ("ledger".to_owned(), purpose == Purpose::Drill);
    let cluster = Cluster { name: name.to_owned(), protocol: Protocol::Astro, app, drill };
    let mut pay = Pay::of(&members);
    if let Some(reserve) = membership.reserve {
        let founders = members.len().saturating_sub(usize::from(reserve)).max(1);
        pay.founders = u32::try_from(founders).unwrap_or(u32::MAX);
        pay.retain_batches = RETAIN_BATCHES;
    }
    pay.shards = membership.shards.map_or(1, u32::from);
    let makes_none = membership.reserve.is_some() || pay.has_shards();
    let usual = if makes_none { Duration::ZERO } else { Pay::CUT_EVERY };
    pay.cut_every = membership.cut_every.unwrap_or(usual);
    let genesis = Genesis::build_pay(cluster, pay, members, membership.operators.clone())?;
    // What is written must be readable: names come from the command line, and only the reader checks their form.
    Genesis::parse(GENESIS_FILE, &genesis.to_toml())
}

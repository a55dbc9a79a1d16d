//! The files of a new payment system.

use super::{Purpose, Seat, found_as};
use crate::layout::GENESIS_FILE;
use std::path::Path;
use synod_config::{Cluster, Genesis, Member, Pay, Protocol, Service, SynError};

/// Leaves at a seat what nodes of a payment system serve: no binary clients and no RESP.
pub(super) fn payers(seat: &mut Seat) {
    seat.listen.retain(|(service, _)| !matches!(service, Service::Client | Service::Resp));
}

/// Builds a whole payment system at `out`: `genesis.toml` and a directory per node. Each member issues money of ledger 1.
///
/// # Errors
/// SYN-1109 if something stands at `out`; SYN-1105 and SYN-1106 for what makes no cluster.
pub(crate) fn found_pay(
    (name, purpose): (&str, Purpose),
    seats: &[Seat],
    out: &Path,
) -> Result<Genesis, SynError> {
    let mut seats = seats.to_vec();
    seats.iter_mut().for_each(payers);
    found_as(&seats, out, &|members| pay_genesis(name, purpose, members))
}

/// The genesis of a payment system of these members.
///
/// # Errors
/// SYN-1105 for members that make no cluster.
pub(crate) fn pay_genesis(name: &str, purpose: Purpose, members: Vec<Member>) -> Result<Genesis, SynError> {
    let (app, drill) = ("ledger".to_owned(), purpose == Purpose::Drill);
    let cluster = Cluster { name: name.to_owned(), protocol: Protocol::Astro, app, drill };
    let genesis = Genesis::build_pay(cluster, Pay::of(&members), members, Vec::new())?;
    // What is written must be readable: names come from the command line, and only the reader checks their form.
    Genesis::parse(GENESIS_FILE, &genesis.to_toml())
}

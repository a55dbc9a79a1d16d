//! The files of a new cluster that runs an order book.

use super::{Purpose, Seat, found_as, genesis_of};
use std::path::Path;
use synod_config::{Genesis, Member, Service, SynError};

/// Its name in a genesis.
pub(crate) const BOOK: &str = "book";

/// Leaves at a seat what nodes of an order book serve: no RESP and no HTTP, which speak of keys.
pub(super) fn traders(seat: &mut Seat) {
    seat.listen.retain(|(service, _)| !matches!(service, Service::Http | Service::Resp));
}

/// Builds a whole cluster at `out` that runs an order book.
///
/// # Errors
/// SYN-1109 if something stands at `out`; SYN-1105 for members that make no cluster.
pub(crate) fn found_book(
    name: &str,
    purpose: Purpose,
    seats: &[Seat],
    out: &Path,
) -> Result<Genesis, SynError> {
    let mut seats = seats.to_vec();
    seats.iter_mut().for_each(traders);
    found_as(&seats, out, &|members| book_genesis(name, purpose, members), &|_| Ok(()))
}

/// The genesis of such a cluster of these members.
///
/// # Errors
/// SYN-1105 for members that make no cluster.
pub(crate) fn book_genesis(name: &str, purpose: Purpose, members: Vec<Member>) -> Result<Genesis, SynError> {
    genesis_of((name, BOOK), purpose, members, &|_| {})
}

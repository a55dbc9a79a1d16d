//! Ports on this machine: free ones, and who holds a taken one.
//!
//! Free ports are taken in blocks of ten, one block per node, below the ports that the system gives to outgoing
//! connections: a connection never takes one while its node is being started again. The last port of a block is no
//! service's; whoever listens on it owns the block, so that two processes that look for free ports at the same time
//! never choose the same.

use crate::cluster::Seat;
use crate::verbs::init::local_seats;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::net::TcpListener;
use synod_config::{Address, PORTS_PER_NODE, SynError, code};

/// Lowest port that is drawn.
const LOWEST: u16 = 10_000;
/// Lowest port of outgoing connections, where the system does not say.
const OUTGOING: u16 = 32_768;
/// Places that are tried before the machine counts as full.
const TRIES: u16 = 400;

/// Seats whose blocks of ports this process owns until the value goes.
pub(crate) struct Claim {
    /// Where the nodes are to listen, one seat per block.
    pub(crate) seats: Vec<Seat>,
    _guards: Vec<TcpListener>,
}

impl Claim {
    /// Claims the blocks of `count` nodes at a place that is drawn.
    ///
    /// # Errors
    /// SYN-2004 if no place is free.
    pub(crate) fn free(count: u16) -> Result<Self, SynError> {
        let size = count.saturating_mul(PORTS_PER_NODE);
        let highest = lowest_outgoing().saturating_sub(size).max(LOWEST.saturating_add(size));
        let places = (highest - LOWEST) / PORTS_PER_NODE + 1;
        let mut drawn = RandomState::new().build_hasher();
        for _ in 0..TRIES {
            drawn.write_u8(0);
            let place = u16::try_from(drawn.finish() % u64::from(places)).unwrap_or(0);
            if let Ok(claim) = Self::at(count, LOWEST + place * PORTS_PER_NODE) {
                return Ok(claim);
            }
        }
        Err(none_left(LOWEST))
    }

    /// Claims the blocks of `count` nodes from `base` on, or from the next place behind it that is free.
    ///
    /// # Errors
    /// SYN-2004 if no place is free.
    pub(crate) fn from(count: u16, base: u16) -> Result<Self, SynError> {
        let places = (0..TRIES).filter_map(|place| base.checked_add(place.checked_mul(PORTS_PER_NODE)?));
        let mut claims = places.map(|base| Self::at(count, base));
        claims.find_map(Result::ok).ok_or_else(|| none_left(base))
    }

    fn at(count: u16, base: u16) -> Result<Self, SynError> {
        let seats = local_seats(count, base)?;
        let mut guards = Vec::new();
        for index in 0..count {
            let guard = base + index * PORTS_PER_NODE + (PORTS_PER_NODE - 1);
            guards.push(TcpListener::bind(("127.0.0.1", guard)).map_err(|error| taken(guard, &error))?);
        }
        let addresses: Vec<Address> =
            seats.iter().flat_map(|seat| seat.listen.iter().map(|(_, address)| address.clone())).collect();
        refuse_taken(&addresses)?;
        Ok(Self { seats, _guards: guards })
    }
}

fn lowest_outgoing() -> u16 {
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    range.split_whitespace().next().and_then(|port| port.parse().ok()).unwrap_or(OUTGOING)
}

fn taken(port: u16, error: &std::io::Error) -> SynError {
    let owner = owner(port).unwrap_or_else(|| "a process of another user".to_owned());
    let values = [("address", &*Address::loopback(port).to_string()), ("owner", &*owner)];
    SynError::of(code::PORT_TAKEN, &values).because(error)
}

fn none_left(base: u16) -> SynError {
    let address = Address::loopback(base).to_string();
    SynError::of(code::PORT_TAKEN, &[("address", &address), ("owner", "everybody")])
        .because("no block of ports is free from there on")
}

/// Refuses addresses of this machine that something listens on already.
///
/// # Errors
/// SYN-2004 with the owner.
pub(crate) fn refuse_taken(addresses: &[Address]) -> Result<(), SynError> {
    for address in addresses {
        if let Err(error) = TcpListener::bind((address.host(), address.port())) {
            return Err(taken(address.port(), &error));
        }
    }
    Ok(())
}

/// The process that listens on a TCP port, as far as this user may see it.
fn owner(port: u16) -> Option<String> {
    let mut sockets = Vec::new();
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        let table = std::fs::read_to_string(table).unwrap_or_default();
        let inodes = table.lines().filter_map(|line| listener(line, port));
        sockets.extend(inodes.map(|inode| format!("socket:[{inode}]")));
    }
    let processes = std::fs::read_dir("/proc").ok()?.flatten();
    let mut numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    numbers.find_map(|pid| {
        let mut open = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten();
        let holds = open.any(|entry| {
            let target = std::fs::read_link(entry.path()).unwrap_or_default();
            sockets.iter().any(|socket| target.as_os_str() == socket.as_str())
        });
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        holds.then(|| format!("process {pid} ({})", name.trim()))
    })
}

/// The inode of a line of the socket table that listens on `port`.
fn listener(line: &str, port: u16) -> Option<&str> {
    let mut fields = line.split_whitespace().skip(1);
    let (_, local) = fields.next()?.rsplit_once(':')?;
    let state = fields.nth(1)?;
    let inode = fields.nth(5)?;
    (u16::from_str_radix(local, 16) == Ok(port) && state == "0A").then_some(inode)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use synod_config::Service;

    fn ports(claim: &Claim) -> BTreeSet<u16> {
        let listen = claim.seats.iter().flat_map(|seat| &seat.listen);
        listen.map(|(_, address)| address.port()).collect()
    }

    #[test]
    fn claims_that_live_at_the_same_time_share_no_port_and_each_port_can_be_bound() {
        let claims: Vec<Claim> = (0..8).map(|_| Claim::free(7).expect("a place is free")).collect();
        let all: BTreeSet<u16> = claims.iter().flat_map(ports).collect();
        assert_eq!(all.len(), 8 * 35, "five services of seven nodes each");
        assert!(all.iter().all(|port| *port >= LOWEST && *port < lowest_outgoing().max(OUTGOING)));
        for port in all {
            drop(TcpListener::bind(("127.0.0.1", port)).expect("a claim leaves its services free"));
        }
        assert_eq!(claims[0].seats[6].name, "n6");
    }

    #[test]
    fn threads_that_claim_at_once_get_different_blocks() {
        let claims: Vec<Claim> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..16).map(|_| scope.spawn(|| Claim::free(4))).collect();
            threads.into_iter().map(|thread| thread.join().expect("it ends").expect("a place")).collect()
        });
        let all: BTreeSet<u16> = claims.iter().flat_map(ports).collect();
        assert_eq!(all.len(), 16 * 20);
    }

    #[test]
    fn a_place_that_is_taken_is_left_for_the_next_and_free_again_at_the_end() {
        let first = Claim::free(2).expect("a place is free");
        let base = first.seats[0].address(Service::Peer).expect("it has one").port();
        assert_eq!(Claim::at(2, base).map(|_| ()).map_err(|error| error.code()), Err(code::PORT_TAKEN));
        let second = Claim::from(2, base).expect("there is a next place");
        let next = second.seats[0].address(Service::Peer).expect("it has one").port();
        assert!(next >= base + 20 && (next - base).is_multiple_of(10), "{next} after {base}");
        drop((first, second));
        // Somebody else may be quicker now and then, but not every time.
        let again = (0..20).any(|_| {
            let claim = Claim::free(2).expect("a place is free");
            let base = claim.seats[0].address(Service::Peer).expect("it has one").port();
            drop(claim);
            Claim::at(2, base).is_ok()
        });
        assert!(again);
    }

    #[test]
    fn a_taken_port_is_named_with_its_owner() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let port = listener.local_addr().expect("it has an address").port();
        let error = refuse_taken(&[Address::loopback(port)]).expect_err("it is taken");
        assert_eq!(error.code(), code::PORT_TAKEN);
        let own = format!("process {} (", std::process::id());
        assert!(error.message().contains(&own), "{}", error.message());
        assert_eq!(refuse_taken(&[]), Ok(()));
    }
}

//! Ports on this machine: free ones, and who holds a taken one.

use crate::cluster::Seat;
use std::net::TcpListener;
use synod_config::{Address, Service, SynError, code};

const SERVICES: [Service; 5] =
    [Service::Peer, Service::Client, Service::Http, Service::Resp, Service::Metrics];

/// Seats of `count` nodes on ports that the system chose. All ports are held at once while they are drawn, so
/// they differ; they are free when this returns, and somebody may take one before the node does.
///
/// # Errors
/// SYN-2004 if the system has no port left.
pub(crate) fn free_seats(count: u16) -> Result<Vec<Seat>, SynError> {
    let mut held = Vec::new();
    let mut seats = Vec::new();
    for index in 0..count {
        let mut listen = Vec::new();
        for service in SERVICES {
            let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| none_left(&error))?;
            let port = listener.local_addr().map_err(|error| none_left(&error))?.port();
            listen.push((service, Address::loopback(port)));
            held.push(listener);
        }
        seats.push(Seat { name: format!("n{index}"), listen });
    }
    Ok(seats)
}

fn none_left(error: &std::io::Error) -> SynError {
    SynError::of(code::PORT_TAKEN, &[("address", "127.0.0.1:0"), ("owner", "everybody")]).because(error)
}

/// Refuses addresses of this machine that something listens on already.
///
/// # Errors
/// SYN-2004 with the owner.
pub(crate) fn refuse_taken(addresses: &[Address]) -> Result<(), SynError> {
    for address in addresses {
        if let Err(error) = TcpListener::bind((address.host(), address.port())) {
            let owner = owner(address.port()).unwrap_or_else(|| "a process of another user".to_owned());
            let values = [("address", &*address.to_string()), ("owner", &*owner)];
            return Err(SynError::of(code::PORT_TAKEN, &values).because(error));
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

    #[test]
    fn free_seats_have_distinct_ports_for_each_service() {
        let seats = free_seats(7).expect("ports are free");
        let ports: BTreeSet<u16> =
            seats.iter().flat_map(|seat| seat.listen.iter().map(|(_, address)| address.port())).collect();
        assert_eq!(ports.len(), 35);
        assert!(!ports.contains(&0));
        assert_eq!(seats[6].name, "n6");
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

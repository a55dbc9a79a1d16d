//! The files of a new cluster of uBFT: replicas, and memory nodes behind them.

use super::{Purpose, Seat, Staged, fill, fill_with, make_directory};
use crate::layout::GENESIS_FILE;
use std::path::Path;
use synod_config::{Address, Cluster, Genesis, MemoryMember, NodeKey, Protocol, Service, SynError, Ubft};

/// The application that is a Redis server, in a genesis.
pub(crate) const REDIS: &str = "redis";
/// The application that is a Memcached server, in a genesis.
pub(crate) const MEMCACHED: &str = "memcached";

/// Leaves at a replica's seat what it serves: HTTP speaks of keys of our own, RESP of those or of a Redis server's.
///
/// # Errors
/// SYN-1103 if a port would end above 65535.
pub(super) fn served(seat: &mut Seat, app: &str) -> Result<(), SynError> {
    let off: &[Service] = match app {
        "kv" => &[],
        REDIS => &[Service::Http],
        _ => &[Service::Http, Service::Resp],
    };
    seat.listen.retain(|(service, _)| !off.contains(service));
    if app == MEMCACHED {
        let peer = seat.address(Service::Peer).expect("a seat has a peer address");
        let port = super::port_of(&seat.name, peer, Service::Memcached)?;
        seat.listen.push((Service::Memcached, Address::loopback(port)));
    }
    Ok(())
}

impl Seat {
    /// A memory node whose block of ports begins at `first`.
    ///
    /// # Errors
    /// SYN-1103 if a port would end above 65535.
    pub(crate) fn memory_at(name: &str, first: &Address) -> Result<Self, SynError> {
        let listen = [Service::Memory, Service::Metrics].map(|service| {
            let port = super::port_of(name, first, service)?;
            let is_reached = service == Service::Memory;
            let address = if is_reached { super::beside(first, port) } else { Address::loopback(port) };
            Ok((service, address))
        });
        Ok(Self { name: name.to_owned(), listen: listen.into_iter().collect::<Result<_, SynError>>()? })
    }
}

/// The seats of replicas and of the memory nodes behind them, of as many blocks of ports.
///
/// # Errors
/// SYN-1103 if a port would end above 65535.
pub(crate) fn ubft_seats(blocks: &[Address], replicas: u16) -> Result<(Vec<Seat>, Vec<Seat>), SynError> {
    let (replicas, memory) = blocks.split_at(usize::from(replicas).min(blocks.len()));
    let seat = |(index, first): (usize, &Address)| Seat::at(&format!("n{index}"), first);
    let replicas = replicas.iter().enumerate().map(seat).collect::<Result<_, _>>()?;
    Ok((replicas, memory_seats(memory)?))
}

/// The seats of memory nodes, of as many blocks of ports.
///
/// # Errors
/// SYN-1103 if a port would end above 65535.
pub(super) fn memory_seats(blocks: &[Address]) -> Result<Vec<Seat>, SynError> {
    let node = |(index, first): (usize, &Address)| Seat::memory_at(&format!("m{index}"), first);
    blocks.iter().enumerate().map(node).collect()
}

/// Memory nodes as a genesis states them.
pub(super) fn memory_members(seats: &[Seat], keys: &[NodeKey]) -> Vec<MemoryMember> {
    let node = |(seat, key): (&Seat, &NodeKey)| MemoryMember {
        name: seat.name.clone(),
        memory: seat.address(Service::Memory).expect("a memory node's seat has one").clone(),
        ed25519: key.public(),
    };
    seats.iter().zip(keys).map(node).collect()
}

/// Makes the directories of memory nodes.
///
/// # Errors
/// Those of writing.
pub(super) fn furnish_memory(
    place: &Path,
    genesis: &Genesis,
    seats: &[Seat],
    keys: &[NodeKey],
) -> Result<(), SynError> {
    for (seat, key) in seats.iter().zip(keys) {
        let folder = place.join(&seat.name);
        make_directory(&folder)?;
        fill_with(&folder, seat, genesis, key, |config| config.check_memory(genesis, &key.public()))?;
    }
    Ok(())
}

/// Builds a whole cluster at `out`: `genesis.toml`, a directory per replica and one per memory node.
///
/// # Errors
/// SYN-1109 if something stands at `out`; SYN-1105 and SYN-1106 for what makes no cluster.
pub(crate) fn found_ubft(
    (name, app, purpose): (&str, &str, Purpose),
    (seats, memory): (&[Seat], &[Seat]),
    out: &Path,
) -> Result<Genesis, SynError> {
    let staged = Staged::new(out)?;
    let mut seats = seats.to_vec();
    for seat in &mut seats {
        served(seat, app)?;
    }
    let generate = |seats: &[Seat]| seats.iter().map(|_| NodeKey::generate()).collect::<Result<Vec<_>, _>>();
    let (keys, memory_keys) = (generate(&seats)?, generate(memory)?);
    let members = seats.iter().zip(&keys).map(|(seat, key)| seat.member(key)).collect();
    let ubft = Ubft { memory: memory_members(memory, &memory_keys), ..Ubft::default() };
    let drill = purpose == Purpose::Drill;
    let cluster = Cluster { name: name.to_owned(), protocol: Protocol::Ubft, app: app.to_owned(), drill };
    let genesis = Genesis::build_ubft(cluster, ubft, members, Vec::new())?;
    // What is written must be readable: names come from the command line, and only the reader checks their form.
    let genesis = Genesis::parse(GENESIS_FILE, &genesis.to_toml())?;
    genesis.write_new(&staged.path.join(GENESIS_FILE))?;
    for (seat, key) in seats.iter().zip(&keys) {
        let folder = staged.path.join(&seat.name);
        make_directory(&folder)?;
        fill(&folder, seat, &genesis, key)?;
    }
    furnish_memory(&staged.path, &genesis, memory, &memory_keys)?;
    staged.publish()?;
    Ok(genesis)
}

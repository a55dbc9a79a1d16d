//! The files of a new cluster of Chop Chop: servers, brokers, the clients known from the start.

use super::ubft::{furnish_memory, memory_members, memory_seats};
use super::{Purpose, Seat, Staged, fill, key_files, make_directory, node_config, unwritable, write_new};
use crate::layout::{GENESIS_FILE, NODE_FILE};
use std::path::Path;
use synod_config::{
    Address, Broker, Chop, Cluster, DIRECTORY_FILE, Genesis, Member, MemoryMember, NodeKey, Parameters,
    Protocol, Rules, Service, SynError, Ubft, code,
};
use synod_crypto::Hash;

/// What makes a cluster one of Chop Chop.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChopPlan<'a> {
    /// What it executes: payments, auction or pixels.
    pub(crate) app: &'a str,
    /// Its parameters; brokers and directory are filled in.
    pub(crate) chop: Chop,
    /// Brokers to be.
    pub(crate) brokers: &'a [Seat],
    /// Memory nodes to be: with some uBFT orders, with none HotStuff.
    pub(crate) memory: &'a [Seat],
    /// Keys of the clients known from the start: 80 bytes each.
    pub(crate) directory: Option<&'a [u8]>,
}

/// The seats of a cluster of Chop Chop.
pub(crate) struct ChopSeats {
    /// Of servers.
    pub(crate) servers: Vec<Seat>,
    /// Of brokers.
    pub(crate) brokers: Vec<Seat>,
    /// Of memory nodes, if uBFT orders.
    pub(crate) memory: Vec<Seat>,
}

/// The seats of so many servers, of so many brokers behind them and of memory nodes behind those, of as many blocks of ports.
///
/// # Errors
/// SYN-1103 if a port would end above 65535.
pub(crate) fn chop_seats(blocks: &[Address], (servers, brokers): (u16, u16)) -> Result<ChopSeats, SynError> {
    let (servers, others) = blocks.split_at(usize::from(servers).min(blocks.len()));
    let (brokers, memory) = others.split_at(usize::from(brokers).min(others.len()));
    let seat = |(index, first): (usize, &Address)| Seat::server_at(&format!("n{index}"), first);
    let broker = |(index, first): (usize, &Address)| Seat::broker_at(&format!("b{index}"), first);
    Ok(ChopSeats {
        servers: servers.iter().enumerate().map(seat).collect::<Result<_, _>>()?,
        brokers: brokers.iter().enumerate().map(broker).collect::<Result<_, _>>()?,
        memory: memory_seats(memory)?,
    })
}

impl Seat {
    /// A server of Chop Chop whose peer port is at `peer`: no gateways stand in front of it.
    ///
    /// # Errors
    /// SYN-1103 if a port would end above 65535.
    pub(crate) fn server_at(name: &str, peer: &Address) -> Result<Self, SynError> {
        let mut seat = Self::at(name, peer)?;
        seat.listen.retain(|(service, _)| !matches!(service, Service::Http | Service::Resp));
        Ok(seat)
    }

    /// A broker whose block of ports begins at `first`.
    ///
    /// # Errors
    /// SYN-1103 if a port would end above 65535.
    pub(crate) fn broker_at(name: &str, first: &Address) -> Result<Self, SynError> {
        let listen = [Service::Datagram, Service::Metrics].map(|service| {
            let port = super::port_of(name, first, service)?;
            let address = if service == Service::Datagram {
                super::beside(first, port)
            } else {
                Address::loopback(port)
            };
            Ok((service, address))
        });
        Ok(Self { name: name.to_owned(), listen: listen.into_iter().collect::<Result<_, SynError>>()? })
    }
}

/// Builds a whole cluster at `out`: `genesis.toml`, the directory of clients, a directory per server and broker.
///
/// # Errors
/// SYN-1109 if something stands at `out`; SYN-1105 and SYN-1106 for what makes no cluster.
pub(crate) fn found_chop(
    (name, purpose): (&str, Purpose),
    seats: &[Seat],
    plan: &ChopPlan<'_>,
    out: &Path,
    adjust: &dyn Fn(&mut Parameters),
) -> Result<Genesis, SynError> {
    let staged = Staged::new(out)?;
    let generate = |seats: &[Seat]| seats.iter().map(|_| NodeKey::generate()).collect::<Result<Vec<_>, _>>();
    let (keys, broker_keys, memory_keys) =
        (generate(seats)?, generate(plan.brokers)?, generate(plan.memory)?);
    let members =
        seats.iter().zip(&keys).map(|(seat, key)| member(seat, key)).collect::<Result<Vec<_>, _>>()?;
    let broker = |(seat, key): (&Seat, &NodeKey)| Broker {
        name: seat.name.clone(),
        datagram: seat.address(Service::Datagram).expect("a broker's seat has one").clone(),
        ed25519: key.public(),
    };
    let chop = Chop {
        brokers: plan.brokers.iter().zip(&broker_keys).map(broker).collect(),
        directory: plan.directory.map(Hash::of),
        ..plan.chop.clone()
    };
    let memory = memory_members(plan.memory, &memory_keys);
    let genesis = genesis((name, purpose), (plan.app, chop, members), memory, adjust)?;
    genesis.write_new(&staged.path.join(GENESIS_FILE))?;
    let clients = staged.path.join(DIRECTORY_FILE);
    if let Some(directory) = plan.directory {
        std::fs::write(&clients, directory).map_err(|error| unwritable(&clients, &error))?;
    }
    let furnish = |seat: &Seat, key: &NodeKey, is_server: bool| {
        let folder = staged.path.join(&seat.name);
        make_directory(&folder)?;
        if plan.directory.is_some() {
            let place = folder.join(DIRECTORY_FILE);
            std::fs::hard_link(&clients, &place).map_err(|error| unwritable(&place, &error))?;
        }
        if is_server { fill(&folder, seat, &genesis, key) } else { fill_broker(&folder, seat, &genesis, key) }
    };
    seats.iter().zip(&keys).try_for_each(|(seat, key)| furnish(seat, key, true))?;
    plan.brokers.iter().zip(&broker_keys).try_for_each(|(seat, key)| furnish(seat, key, false))?;
    furnish_memory(&staged.path, &genesis, plan.memory, &memory_keys)?;
    staged.publish()?;
    Ok(genesis)
}

/// The genesis of a cluster whose members and brokers introduced themselves by cards.
///
/// # Errors
/// SYN-1105 and SYN-1106 for what makes no cluster.
pub(crate) fn chop_genesis(
    name: &str,
    purpose: Purpose,
    app: &str,
    (members, brokers): (Vec<Member>, Vec<Broker>),
) -> Result<Genesis, SynError> {
    let chop = Chop { brokers, ..Chop::default() };
    genesis((name, purpose), (app, chop, members), Vec::new(), &|_| {})
}

/// The genesis of a cluster that is ordered by HotStuff, or by uBFT where there are memory nodes.
fn genesis(
    (name, purpose): (&str, Purpose),
    (app, chop, members): (&str, Chop, Vec<Member>),
    memory: Vec<MemoryMember>,
    adjust: &dyn Fn(&mut Parameters),
) -> Result<Genesis, SynError> {
    let mut parameters = Parameters::defaults(Rules::Chain2Order, members.len());
    parameters.checkpoint_every = Chop::CHECKPOINT_EVERY;
    adjust(&mut parameters);
    let (app, drill) = (app.to_owned(), purpose == Purpose::Drill);
    let cluster = Cluster { name: name.to_owned(), protocol: Protocol::Chopchop, app, drill };
    let genesis = if memory.is_empty() {
        Genesis::build_chop(cluster, (parameters, chop), members, Vec::new())?
    } else {
        let ubft = Ubft { memory, ..Ubft::default() };
        let parts = (parameters.checkpoint_every, ubft, chop);
        Genesis::build_chop_over_ubft(cluster, parts, members, Vec::new())?
    };
    // What is written must be readable: names come from the command line, and only the reader checks their form.
    Genesis::parse(GENESIS_FILE, &genesis.to_toml())
}

/// Builds the directory of the one server or broker whose key is `key`, and returns where it listens. `file` is where the
/// genesis was read; the clients that it names by digest stand beside it.
///
/// # Errors
/// SYN-1107 if nobody has the key; SYN-1109 if something stands at `out`; SYN-1105 for other clients than those named.
pub(crate) fn join_chop(genesis: &Genesis, file: &Path, key: &NodeKey, out: &Path) -> Result<Seat, SynError> {
    let own = key.public();
    let server = genesis.members().iter().find(|member| member.ed25519 == own);
    let brokers = genesis.chop().map(|chop| chop.brokers.as_slice()).unwrap_or_default();
    let seat = match (server, brokers.iter().find(|broker| broker.ed25519 == own)) {
        (Some(member), _) => {
            let mut seat = Seat::server_at(&member.name, &member.peer)?;
            for (service, address) in &mut seat.listen {
                if let (Service::Client, Some(stated)) = (*service, &member.client) {
                    *address = stated.clone();
                }
            }
            seat
        }
        (None, Some(broker)) => broker_seat(broker)?,
        (None, None) => {
            let public = synod_config::hex(&own.0);
            return Err(SynError::of(
                code::KEY_NOT_IN_GENESIS,
                &[("key", &public), ("name", "that would join")],
            ));
        }
    };
    let staged = Staged::new(out)?;
    if let Some(chop) = genesis.chop().filter(|chop| chop.directory.is_some()) {
        let clients = chop.directory_bytes(file)?;
        let place = staged.path.join(DIRECTORY_FILE);
        std::fs::write(&place, clients).map_err(|error| unwritable(&place, &error))?;
    }
    if server.is_some() {
        fill(&staged.path, &seat, genesis, key)?;
    } else {
        fill_broker(&staged.path, &seat, genesis, key)?;
    }
    staged.publish()?;
    Ok(seat)
}

/// Where a broker of the genesis listens: its metrics stand before its datagrams in their block of ports.
fn broker_seat(broker: &Broker) -> Result<Seat, SynError> {
    let first = broker.datagram.port().checked_sub(Service::Datagram.offset());
    let metrics = first.and_then(|first| first.checked_add(Service::Metrics.offset()));
    let metrics = metrics.ok_or_else(|| {
        let problem = "a datagram port below its block";
        SynError::of(code::BAD_VALUE, &[("file", GENESIS_FILE), ("key", &broker.name), ("problem", problem)])
    })?;
    let listen =
        vec![(Service::Datagram, broker.datagram.clone()), (Service::Metrics, Address::loopback(metrics))];
    Ok(Seat { name: broker.name.clone(), listen })
}

fn member(seat: &Seat, key: &NodeKey) -> Result<Member, SynError> {
    let (bls, pop) = key.bls_card()?;
    Ok(Member { bls: Some(bls), pop: Some(pop), ..seat.member(key) })
}

/// Puts the files of a broker into its empty directory: it keeps no journal.
fn fill_broker(directory: &Path, seat: &Seat, genesis: &Genesis, key: &NodeKey) -> Result<(), SynError> {
    let config = node_config(seat)?;
    config.config()?.check_broker(genesis, &key.public())?;
    write_new(&directory.join(NODE_FILE), &config.to_toml())?;
    genesis.write_new(&directory.join(GENESIS_FILE))?;
    key_files(directory, key)
}

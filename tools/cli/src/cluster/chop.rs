//! The files of a new cluster of Chop Chop: servers, brokers, the clients known from the start.

use super::{Purpose, Seat, Staged, fill, key_files, make_directory, node_config, unwritable, write_new};
use crate::layout::{GENESIS_FILE, NODE_FILE};
use std::path::Path;
use synod_config::{
    Address, Broker, Chop, Cluster, DIRECTORY_FILE, Genesis, Member, NodeKey, Parameters, Protocol, Rules,
    Service, SynError,
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
    /// Keys of the clients known from the start: 80 bytes each.
    pub(crate) directory: Option<&'a [u8]>,
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
    let (keys, broker_keys) = (generate(seats)?, generate(plan.brokers)?);
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
    let mut parameters = Parameters::defaults(Rules::Chain2Order, members.len());
    parameters.checkpoint_every = Chop::CHECKPOINT_EVERY;
    adjust(&mut parameters);
    let (app, drill) = (plan.app.to_owned(), purpose == Purpose::Drill);
    let cluster = Cluster { name: name.to_owned(), protocol: Protocol::Chopchop, app, drill };
    let genesis = Genesis::build_chop(cluster, (parameters, chop), members, Vec::new())?;
    // What is written must be readable: names come from the command line, and only the reader checks their form.
    let genesis = Genesis::parse(GENESIS_FILE, &genesis.to_toml())?;
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
    staged.publish()?;
    Ok(genesis)
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

//! Building the files of a new cluster: a genesis, and per node a directory with configuration, key and an empty
//! journal.
//!
//! Everything is built beside its destination and moved there in one step. A destination that exists and is not
//! an empty directory is refused with SYN-1109, so nothing is ever overwritten, and an interrupted call leaves
//! nothing that looks finished.

mod book;
mod chop;
mod pay;
mod ubft;

pub(crate) use book::{BOOK, book_genesis, found_book};
pub(crate) use chop::{ChopPlan, ChopSeats, chop_genesis, chop_seats, found_chop, join_chop};
pub(crate) use pay::{Membership, found_pay, pay_genesis};
pub(crate) use ubft::{MEMCACHED, REDIS, found_ubft, ubft_seats};

use crate::layout::{self, DATA_DIRECTORY, DATA_FORMAT, GENESIS_FILE, KEY_FILE, NODE_FILE, VERSION_FILE};
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use synod_config::{
    Address, Cluster, Effective, Genesis, Member, NodeConfig, NodeKey, Parameters, Protocol, Rules, Service,
    SynError, code,
};
use synod_journal::{Journal, OsDisk, SyncMode};
use synod_quorum::NodeId;

/// A member to be, and where its node listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seat {
    /// Name of the member, of its node and of its directory.
    pub(crate) name: String,
    /// Address per service that is on; the peer address comes first.
    pub(crate) listen: Vec<(Service, Address)>,
}

impl Seat {
    /// A node whose peer port is at `peer`, with the other services behind it: clients beside it, the gateway
    /// and the metrics on loopback, since they need credentials elsewhere.
    ///
    /// # Errors
    /// SYN-1103 if a port would end above 65535.
    pub(crate) fn at(name: &str, peer: &Address) -> Result<Self, SynError> {
        let mut listen = vec![(Service::Peer, peer.clone())];
        for service in [Service::Client, Service::Http, Service::Resp, Service::Metrics] {
            let port = port_of(name, peer, service)?;
            let address = match service {
                Service::Client => beside(peer, port),
                _ => Address::loopback(port),
            };
            listen.push((service, address));
        }
        Ok(Self { name: name.to_owned(), listen })
    }

    /// Where a service listens.
    pub(crate) fn address(&self, service: Service) -> Option<&Address> {
        self.listen.iter().find(|(known, _)| *known == service).map(|(_, address)| address)
    }

    fn member(&self, key: &NodeKey) -> Member {
        let peer = self.address(Service::Peer).expect("a seat has a peer address").clone();
        let local = |service| self.address(service).filter(|_| peer.is_loopback()).cloned();
        let (http, resp) = (local(Service::Http), local(Service::Resp));
        let client = self.address(Service::Client).cloned();
        Member { client, http, resp, ..Member::new(&self.name, peer, key.public()) }
    }
}

/// The port of a service of the node whose first port is at `first`.
fn port_of(name: &str, first: &Address, service: Service) -> Result<u16, SynError> {
    first.port().checked_add(service.offset()).ok_or_else(|| {
        let values = [("file", "command line"), ("key", name), ("problem", "given ports above 65535")];
        SynError::of(code::BAD_VALUE, &values)
    })
}

/// The same host, another port.
fn beside(address: &Address, port: u16) -> Address {
    let text = address.to_string();
    let host = text.rsplit_once(':').map_or("", |(host, _)| host);
    Address::parse(&format!("{host}:{port}")).expect("the host of an address and a port make an address")
}

/// Whether faults may be injected into the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A cluster somebody relies on.
    Service,
    /// A cluster on one machine to learn and to break things with.
    Drill,
}

/// The genesis of a HotStuff cluster of these members.
///
/// # Errors
/// SYN-1105 for members that make no cluster.
pub(crate) fn genesis(name: &str, purpose: Purpose, members: Vec<Member>) -> Result<Genesis, SynError> {
    genesis_of((name, "kv"), purpose, members, &|_| {})
}

fn genesis_of(
    (name, app): (&str, &str),
    purpose: Purpose,
    members: Vec<Member>,
    adjust: &dyn Fn(&mut Parameters),
) -> Result<Genesis, SynError> {
    let mut parameters = Parameters::defaults(Rules::Chain2Order, members.len());
    adjust(&mut parameters);
    let drill = purpose == Purpose::Drill;
    let cluster = Cluster { name: name.to_owned(), protocol: Protocol::Hotstuff, app: app.to_owned(), drill };
    let genesis = Genesis::build(cluster, parameters, members, Vec::new())?;
    // What is written must be readable: names come from the command line, and only the reader checks their form.
    Genesis::parse(GENESIS_FILE, &genesis.to_toml())
}

/// Builds a whole cluster at `out`: `genesis.toml` and a directory per node.
///
/// # Errors
/// SYN-1109 if something stands at `out`; the errors of [`genesis`] and of writing.
pub(crate) fn found(name: &str, purpose: Purpose, seats: &[Seat], out: &Path) -> Result<Genesis, SynError> {
    found_with(name, purpose, seats, out, &|_| {})
}

/// As [`found`], with other protocol parameters than the defaults.
///
/// # Errors
/// As [`found`].
pub(crate) fn found_with(
    name: &str,
    purpose: Purpose,
    seats: &[Seat],
    out: &Path,
    adjust: &dyn Fn(&mut Parameters),
) -> Result<Genesis, SynError> {
    found_as(seats, out, &|members| genesis_of((name, "kv"), purpose, members, adjust), &|_| Ok(()))
}

/// Builds a whole cluster at `out` whose genesis `genesis` makes of the members, with new keys; `beside` puts more files there.
fn found_as(
    seats: &[Seat],
    out: &Path,
    genesis: &dyn Fn(Vec<Member>) -> Result<Genesis, SynError>,
    beside: &dyn Fn(&Path) -> Result<(), SynError>,
) -> Result<Genesis, SynError> {
    let staged = Staged::new(out)?;
    let keys = seats.iter().map(|_| NodeKey::generate()).collect::<Result<Vec<_>, _>>()?;
    let genesis = genesis(seats.iter().zip(&keys).map(|(seat, key)| seat.member(key)).collect())?;
    genesis.write_new(&staged.path.join(GENESIS_FILE))?;
    beside(&staged.path)?;
    for (seat, key) in seats.iter().zip(&keys) {
        furnish(&staged.path.join(&seat.name), seat, &genesis, key)?;
    }
    staged.publish()?;
    Ok(genesis)
}

/// Writes `genesis.toml` alone into `out`, for members whose keys are elsewhere.
///
/// # Errors
/// As [`found`].
pub(crate) fn announce(genesis: &Genesis, out: &Path) -> Result<(), SynError> {
    let staged = Staged::new(out)?;
    genesis.write_new(&staged.path.join(GENESIS_FILE))?;
    staged.publish()
}

/// Builds the directory of the one node whose key is `key`, and returns where it listens.
///
/// # Errors
/// SYN-1107 if no member has the key; SYN-1109 if something stands at `out`.
pub(crate) fn join(genesis: &Genesis, key: &NodeKey, out: &Path) -> Result<Seat, SynError> {
    let Some(member) = genesis.members().iter().find(|member| member.ed25519 == key.public()) else {
        let public = synod_config::hex(&key.public().0);
        return Err(SynError::of(code::KEY_NOT_IN_GENESIS, &[("key", &public), ("name", "that would join")]));
    };
    let mut seat = Seat::at(&member.name, &member.peer)?;
    for (service, address) in &mut seat.listen {
        let stated = match service {
            Service::Client => member.client.as_ref(),
            Service::Http => member.http.as_ref().filter(|address| address.is_loopback()),
            Service::Resp => member.resp.as_ref().filter(|address| address.is_loopback()),
            _ => None,
        };
        if let Some(stated) = stated {
            *address = stated.clone();
        }
    }
    if genesis.pay().is_some() {
        pay::payers(&mut seat);
    }
    if genesis.cluster().app == BOOK {
        book::traders(&mut seat);
    }
    if genesis.ubft().is_some() {
        ubft::served(&mut seat, &genesis.cluster().app)?;
    }
    let staged = Staged::new(out)?;
    fill(&staged.path, &seat, genesis, key)?;
    staged.publish()?;
    Ok(seat)
}

fn furnish(directory: &Path, seat: &Seat, genesis: &Genesis, key: &NodeKey) -> Result<(), SynError> {
    make_directory(directory)?;
    fill(directory, seat, genesis, key)
}

/// Puts the files of a node into its empty directory.
fn fill(directory: &Path, seat: &Seat, genesis: &Genesis, key: &NodeKey) -> Result<(), SynError> {
    fill_with(directory, seat, genesis, key, |config| config.check(genesis, &key.public()))
}

/// The same for a node whose id `check` finds.
fn fill_with(
    directory: &Path,
    seat: &Seat,
    genesis: &Genesis,
    key: &NodeKey,
    check: impl FnOnce(&NodeConfig) -> Result<NodeId, SynError>,
) -> Result<(), SynError> {
    let config = node_config(seat)?;
    let id = check(&config.config()?)?;
    write_new(&directory.join(NODE_FILE), &config.to_toml())?;
    genesis.write_new(&directory.join(GENESIS_FILE))?;
    key_files(directory, key)?;

    let data = directory.join(DATA_DIRECTORY);
    make_directory(&data)?;
    write_new(&data.join(VERSION_FILE), &format!("{DATA_FORMAT}\n"))?;
    let journal = synod_host::journal_config(genesis, id, SyncMode::Group);
    let wal = layout::journal(&data);
    let disk = OsDisk::open(&wal).map_err(|error| unwritable(&wal, &error))?;
    Journal::create(Box::new(disk), &journal).map_err(|error| from_journal(&error, &wal))
}

/// Puts the key of a node where its configuration says.
fn key_files(directory: &Path, key: &NodeKey) -> Result<(), SynError> {
    let key_file = directory.join(KEY_FILE);
    make_directory(key_file.parent().expect("the key file stands in a directory"))?;
    key.write_new(&key_file)
}

/// What a seat does not name is off.
fn node_config(seat: &Seat) -> Result<Effective, SynError> {
    let off = [Service::Client, Service::Http, Service::Resp, Service::Metrics].into_iter();
    let off = off.filter(|service| seat.address(*service).is_none()).map(|service| (service, String::new()));
    let on = seat.listen.iter().map(|(service, address)| (*service, address.to_string()));
    let listen = off.chain(on).map(|(service, address)| (key_of(service).to_owned(), address));
    let name = ("node.name".to_owned(), seat.name.clone());
    Effective::load(None, [], [name].into_iter().chain(listen))
}

fn key_of(service: Service) -> &'static str {
    match service {
        Service::Peer => "listen.peer",
        Service::Client => "listen.client",
        Service::Http => "listen.http",
        Service::Grpc => "listen.grpc",
        Service::Resp => "listen.resp",
        Service::Metrics => "listen.metrics",
        Service::Memory => "listen.memory",
        Service::Link => "listen.link",
        Service::Datagram => "listen.datagram",
        Service::Memcached => "listen.memcached",
    }
}

/// The error of a journal as the catalogue shows it.
pub(crate) fn from_journal(error: &synod_journal::Error, directory: &Path) -> SynError {
    let shown = directory.display().to_string();
    let text = error.to_string();
    let values = [
        ("path", shown.as_str()),
        ("directory", &shown),
        ("file", &shown),
        ("segment", &shown),
        ("problem", &text),
        ("theirs", "another cluster, member or plan"),
        ("mine", "this node"),
    ];
    SynError::of(synod_config::Code::new(error.code()), &values).because(error)
}

/// A directory that is being built beside its destination.
struct Staged {
    path: PathBuf,
    out: PathBuf,
}

impl Staged {
    fn new(out: &Path) -> Result<Self, SynError> {
        if !is_free(out) {
            return Err(taken(out));
        }
        let name = out.file_name().ok_or_else(|| taken(out))?.to_string_lossy();
        let path = out.with_file_name(format!(".{name}.new-{}", std::process::id()));
        if let Some(parent) = out.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            fs::create_dir_all(parent).map_err(|error| unwritable(parent, &error))?;
        }
        make_directory(&path)?;
        Ok(Self { path, out: out.to_owned() })
    }

    /// Moves the directory to its destination. The kernel replaces nothing but an empty directory.
    fn publish(self) -> Result<(), SynError> {
        let moved = fs::rename(&self.path, &self.out).and_then(|()| sync_parent(&self.out));
        moved.map_err(|error| match error.kind() {
            ErrorKind::DirectoryNotEmpty | ErrorKind::NotADirectory | ErrorKind::AlreadyExists => {
                taken(&self.out)
            }
            _ => unwritable(&self.out, &error),
        })
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        // After a move nothing is left here; after an error the leftovers are ours alone.
        drop(fs::remove_dir_all(&self.path));
    }
}

fn is_free(path: &Path) -> bool {
    match path.symlink_metadata() {
        Err(error) => error.kind() == ErrorKind::NotFound,
        Ok(found) => found.is_dir() && fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none()),
    }
}

fn sync_parent(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(parent)?.sync_all()
}

fn make_directory(path: &Path) -> Result<(), SynError> {
    fs::DirBuilder::new().mode(0o700).create(path).map_err(|error| unwritable(path, &error))
}

fn write_new(path: &Path, text: &str) -> Result<(), SynError> {
    let opened = File::options().write(true).create_new(true).mode(0o644).open(path);
    let written = opened.and_then(|mut file| {
        io::Write::write_all(&mut file, text.as_bytes())?;
        file.sync_all()
    });
    written.map_err(|error| unwritable(path, &error))
}

/// A directory or file that the system does not let us read or write.
pub(crate) fn unwritable(path: &Path, error: &io::Error) -> SynError {
    SynError::of(code::CONFIG_UNREADABLE, &[("file", &path.display().to_string())]).because(error)
}

fn taken(path: &Path) -> SynError {
    SynError::of(code::ALREADY_INITIALISED, &[("path", &path.display().to_string())])
}

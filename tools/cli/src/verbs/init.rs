//! `synod init`: the files of a new cluster.

use crate::cluster::{self, ChopPlan, Membership, Purpose, Seat, ubft_seats};
use crate::exit::Done;
use crate::layout::GENESIS_FILE;
use crate::output::Report;
use crate::session::{Session, usage};
use clap::{Args, ValueEnum};
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;
use synod_config::{
    Address, BASE_PORT, Block, Card, Exit, Genesis, MEMBERS_MAX, Member, NodeKey, Operator, Protocol,
    Service, Subject, SynError,
};
use synod_config::{hex, unhex};
use synod_crypto::PublicKey;

/// Makes genesis.toml and a directory per node: configuration, key, empty journal. Never overwrites.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod init --name shop --nodes 4 --out fresh")]
#[command(group = clap::ArgGroup::new("members").required(true))]
pub(crate) struct Arguments {
    /// Name of the cluster.
    #[arg(long, required_unless_present = "join")]
    name: Option<String>,
    #[command(flatten)]
    kind: KindOptions,
    /// A member and where the others reach it; repeat it. Its other ports follow the first.
    #[arg(long, value_name = "NAME=HOST:PORT", value_parser = member, group = "members")]
    member: Vec<(String, Address)>,
    /// This many members on this machine, named n0, n1, ...
    #[arg(long, value_name = "N", group = "members", value_parser = clap::value_parser!(u16).range(1..=128))]
    nodes: Option<u16>,
    /// Cards of members, and of brokers with --kind chopchop, whose keys stay elsewhere; only genesis.toml is made.
    #[arg(long, value_name = "FILE", num_args = 1.., group = "members")]
    cards: Vec<PathBuf>,
    /// Makes the directory of one node or broker of the cluster that this genesis describes.
    #[arg(long, value_name = "FILE", group = "members", requires = "key", conflicts_with = "name")]
    join: Option<PathBuf>,
    /// The key of that node.
    #[arg(long, value_name = "FILE", requires = "join")]
    key: Option<PathBuf>,
    /// First port of --nodes; node i takes ten ports from here + 10 i on.
    #[arg(long, value_name = "PORT", default_value_t = BASE_PORT, value_parser = clap::value_parser!(u16).range(1..))]
    base_port: u16,
    /// The directory to make; it must not exist, or be empty.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

/// What kind of cluster it is.
#[derive(Clone, Debug, Args)]
pub(crate) struct KindOptions {
    /// How the cluster orders.
    #[arg(long, value_enum, visible_alias = "protocol", value_name = "KIND")]
    pub(crate) kind: Option<Kind>,
    /// What the cluster executes: book with hotstuff, flip, redis and memcached with ubft, the others with chopchop. If nothing is said,
    /// kv with hotstuff and ubft, and payments with chopchop.
    #[arg(long, value_enum)]
    pub(crate) app: Option<App>,
    /// Number of brokers of a cluster of chopchop, named b0, b1, ...; 1 if nothing is said.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(0..=64))]
    pub(crate) brokers: Option<u16>,
    /// Number of memory nodes of a cluster of ubft, named m0, m1, ...; 3 if nothing is said. Of 2f + 1 of them f may crash.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=31))]
    pub(crate) memory_nodes: Option<u16>,
    /// How many of the members, the last ones, stand in reserve, with --kind astro: members come and go then, by `synod member`.
    /// Without it all are there for good.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(0..=127))]
    pub(crate) reserve: Option<u16>,
    /// How often the members sign the state behind a cut, with --kind astro, which proofs and statements are made of: 30s if nothing is
    /// said; 0: never. Not where members come and go.
    #[arg(long, value_name = "SPAN", value_parser = span)]
    pub(crate) cut_every: Option<Duration>,
    /// How many shards the accounts are kept in, with --kind astro; 1 if nothing is said. --nodes says how many members each has, and what
    /// else names members names those of shard 0 first. Without cuts, and not where members come and go.
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u16).range(1..=128))]
    pub(crate) shards: Option<u16>,
    /// Somebody whose signature such a change needs, by the public key; repeat it, more than two thirds of them have to sign. Without
    /// it there is one, whose new key stands beside the genesis.
    #[arg(long, value_name = "NAME=HEX", value_parser = operator, requires = "reserve")]
    pub(crate) operator: Vec<Operator>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// HotStuff: n = 3f + 1 members, f of them may do anything.
    Hotstuff,
    /// Chop Chop over HotStuff: clients speak to brokers, who distil batches.
    Chopchop,
    /// Astro: payments by broadcast, without an order; each member is an institution that issues money.
    Astro,
    /// uBFT: n = 2f + 1 members, f of them may do anything, and memory nodes that only crash.
    Ubft,
}

/// An application that is not the only one of its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum App {
    /// Accounts and transfers.
    Payments,
    /// Tokens and bids.
    Auction,
    /// A board that clients paint.
    Pixels,
    /// An order book.
    Book,
    /// A request answered with its bytes reversed.
    Flip,
    /// Redis as it is: each replica runs a redis-server of its own.
    Redis,
    /// Memcached as it is: each replica runs a memcached of its own.
    Memcached,
}

impl KindOptions {
    /// What the cluster's genesis will name.
    pub(crate) const fn protocol(&self) -> Protocol {
        match self.kind {
            None | Some(Kind::Hotstuff) => Protocol::Hotstuff,
            Some(Kind::Chopchop) => Protocol::Chopchop,
            Some(Kind::Astro) => Protocol::Astro,
            Some(Kind::Ubft) => Protocol::Ubft,
        }
    }

    /// Whether it is Chop Chop.
    ///
    /// # Errors
    /// SYN-1001 for options of Chop Chop without it.
    pub(crate) fn is_chop(&self) -> Result<bool, SynError> {
        let is_chop = self.kind == Some(Kind::Chopchop);
        if self.is_book() && self.protocol() != Protocol::Hotstuff {
            let why = "an operation of chopchop is eight bytes and its reply one: no order fits";
            return Err(usage("--app book needs --kind hotstuff").because(why));
        }
        if self.is_of_ubft() && !self.is_ubft() {
            return Err(usage("--app flip, redis and memcached need --kind ubft"));
        }
        let is_of_chop = self.app.is_some() && !self.is_book() && !self.is_of_ubft();
        if !is_chop && (self.brokers.is_some() || is_of_chop) {
            return Err(usage("--brokers, and --app payments, auction and pixels, need --kind chopchop"));
        }
        Ok(is_chop)
    }

    /// Refuses a reserve that is none, or nobody but a reserve.
    ///
    /// # Errors
    /// SYN-1001 for it.
    pub(crate) fn fits(&self, members: usize) -> Result<(), SynError> {
        if self.memory_nodes.is_some() && !self.is_ubft() {
            return Err(usage("--memory-nodes needs --kind ubft"));
        }
        if self.is_ubft() && (members < 3 || members.is_multiple_of(2)) {
            let why = "2f + 1 members tolerate f faulty ones";
            return Err(usage(&format!("{members} members; ubft has 3, 5, 7, ...")).because(why));
        }
        if self.is_ubft() && self.memory_nodes().is_multiple_of(2) {
            let why = "2f + 1 memory nodes tolerate f crashed ones";
            return Err(
                usage(&format!("{} memory nodes; ubft has 1, 3, 5, ...", self.memory_nodes())).because(why)
            );
        }
        if self.cut_every.is_some() && self.kind != Some(Kind::Astro) {
            return Err(usage("--cut-every needs --kind astro"));
        }
        if self.shards.is_some() && self.kind != Some(Kind::Astro) {
            return Err(usage("--shards needs --kind astro"));
        }
        let Some(reserve) = self.reserve.map(usize::from) else { return Ok(()) };
        if self.kind != Some(Kind::Astro) {
            return Err(usage("--reserve and --operator need --kind astro"));
        }
        if reserve >= members {
            return Err(usage(&format!("{reserve} of {members} members in reserve leave nobody who begins")));
        }
        Ok(())
    }

    /// Who of the members begins, and who changes that.
    pub(crate) fn membership(&self) -> Membership {
        let (reserve, shards, cut_every) = (self.reserve, self.shards, self.cut_every);
        Membership { reserve, shards, cut_every, operators: self.operator.clone() }
    }

    /// How many members there are in all, of so many in each shard.
    ///
    /// # Errors
    /// SYN-1001 for more than a cluster has, and for shards of another kind of cluster.
    pub(crate) fn members(&self, nodes: u16) -> Result<u16, SynError> {
        self.fits(usize::from(nodes))?;
        let shards = self.shards.unwrap_or(1);
        let all = nodes.checked_mul(shards).filter(|all| usize::from(*all) <= MEMBERS_MAX);
        all.ok_or_else(|| {
            usage(&format!("{shards} shards of {nodes} nodes are more than {MEMBERS_MAX} members"))
        })
    }

    /// How many brokers.
    pub(crate) fn brokers(&self) -> u16 {
        if self.kind == Some(Kind::Chopchop) { self.brokers.unwrap_or(1) } else { 0 }
    }

    /// Whether it is uBFT.
    pub(crate) fn is_ubft(&self) -> bool {
        self.kind == Some(Kind::Ubft)
    }

    /// How many memory nodes.
    pub(crate) fn memory_nodes(&self) -> u16 {
        if self.is_ubft() { self.memory_nodes.unwrap_or(3) } else { 0 }
    }

    /// How many members, if nothing is said.
    pub(crate) fn members_default(&self) -> u16 {
        if self.is_ubft() { 3 } else { 4 }
    }

    /// Whether it runs an order book.
    pub(crate) fn is_book(&self) -> bool {
        self.app == Some(App::Book)
    }

    /// Whether its application runs over uBFT alone.
    fn is_of_ubft(&self) -> bool {
        matches!(self.app, Some(App::Flip | App::Redis | App::Memcached))
    }

    /// The application by its name.
    pub(crate) fn app(&self) -> &'static str {
        match self.app {
            Some(App::Book) => cluster::BOOK,
            Some(App::Flip) => "flip",
            Some(App::Redis) => cluster::REDIS,
            Some(App::Memcached) => cluster::MEMCACHED,
            None if self.is_ubft() => "kv",
            None | Some(App::Payments) => "payments",
            Some(App::Auction) => "auction",
            Some(App::Pixels) => "pixels",
        }
    }
}

/// The seats of `servers` servers of Chop Chop and of `brokers` brokers behind them, of as many blocks of ports.
///
/// # Errors
/// SYN-1103 if a port would end above 65535.
pub(crate) fn chop_seats(blocks: &[Address], servers: u16) -> Result<(Vec<Seat>, Vec<Seat>), SynError> {
    let (servers, brokers) = blocks.split_at(usize::from(servers).min(blocks.len()));
    let seat = |(index, first): (usize, &Address)| Seat::server_at(&format!("n{index}"), first);
    let broker = |(index, first): (usize, &Address)| Seat::broker_at(&format!("b{index}"), first);
    let servers = servers.iter().enumerate().map(seat).collect::<Result<_, _>>()?;
    Ok((servers, brokers.iter().enumerate().map(broker).collect::<Result<_, _>>()?))
}

/// The first ports of `count` blocks on this machine.
///
/// # Errors
/// SYN-1103 if they end above 65535.
pub(crate) fn local_blocks(count: u16, base: u16) -> Result<Vec<Address>, SynError> {
    (0..count).map(|index| Ok(Block::of(base, index)?.address(Service::Peer))).collect()
}

/// The block of ports behind that of a member, on its host.
fn next_block(peer: &Address) -> Result<Address, SynError> {
    let host = peer.to_string();
    let host = host.rsplit_once(':').map_or("", |(host, _)| host);
    let first = peer.port().checked_add(synod_config::PORTS_PER_NODE);
    let first = first.and_then(|port| Address::parse(&format!("{host}:{port}")));
    first.ok_or_else(|| usage("ports would end above 65535"))
}

fn member(text: &str) -> Result<(String, Address), String> {
    let pair = text.split_once('=').and_then(|(name, place)| Some((name.to_owned(), Address::parse(place)?)));
    pair.ok_or_else(|| "not of the form NAME=HOST:PORT".to_owned())
}

fn span(text: &str) -> Result<Duration, String> {
    synod_config::parse_duration(text).ok_or_else(|| "not a duration like 30s".to_owned())
}

fn operator(text: &str) -> Result<Operator, String> {
    let (name, key) = text.split_once('=').ok_or_else(|| "not of the form NAME=HEX".to_owned())?;
    let key = unhex(key).and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
    let key = key.ok_or_else(|| "the key is not 64 hex digits".to_owned())?;
    Ok(Operator { name: name.to_owned(), ed25519: PublicKey(key) })
}

/// The seats of `count` nodes on this machine.
///
/// # Errors
/// SYN-1103 if their ports end above 65535.
pub(crate) fn local_seats(count: u16, base: u16) -> Result<Vec<Seat>, SynError> {
    let seat = |index| Seat::at(&format!("n{index}"), &Block::of(base, index)?.address(Service::Peer));
    (0..count).map(seat).collect()
}

impl Arguments {
    pub(crate) fn run(self, session: &Session) -> Done {
        let is_chop = self.kind.is_chop()?;
        let is_said =
            self.kind.kind.is_some() || self.kind.reserve.is_some() || self.kind.cut_every.is_some();
        if self.join.is_some() && (is_chop || is_said || self.kind.shards.is_some()) {
            return Err(usage(
                "the genesis says of which kind the cluster is: leave --kind, --reserve, --shards and --cut-every out",
            ));
        }
        if !self.cards.is_empty() && self.kind.brokers.is_some() {
            return Err(usage("brokers come by their cards here: leave --brokers out"));
        }
        let report = match (&self.join, self.cards.is_empty()) {
            (Some(genesis), _) => self.join(genesis)?,
            (None, false) => self.announce()?,
            (None, true) => self.found()?,
        };
        session.output.print(&report)?;
        Ok(Exit::Success)
    }

    fn name(&self) -> &str {
        self.name.as_deref().expect("the command line requires a name unless it joins")
    }

    fn found(&self) -> Result<Report, SynError> {
        if self.kind.is_chop()? {
            return self.found_chop();
        }
        if self.kind.is_ubft() {
            return self.found_ubft();
        }
        let seats: Vec<Seat> = match self.nodes {
            Some(count) => local_seats(self.kind.members(count)?, self.base_port)?,
            None => self.member.iter().map(|(name, peer)| Seat::at(name, peer)).collect::<Result<_, _>>()?,
        };
        self.kind.fits(seats.len())?;
        if self.kind.protocol() == Protocol::Astro {
            let membership = self.kind.membership();
            let genesis =
                cluster::found_pay((self.name(), Purpose::Service), &seats, &membership, &self.out)?;
            return Ok(self.described(&genesis));
        }
        let genesis = if self.kind.is_book() {
            cluster::found_book(self.name(), Purpose::Service, &seats, &self.out)?
        } else {
            cluster::found(self.name(), Purpose::Service, &seats, &self.out)?
        };
        Ok(self.described(&genesis))
    }

    fn found_ubft(&self) -> Result<Report, SynError> {
        let memory = self.kind.memory_nodes();
        let (seats, memory) = match self.nodes {
            Some(count) => {
                self.kind.fits(usize::from(count))?;
                ubft_seats(&local_blocks(count.saturating_add(memory), self.base_port)?, count)?
            }
            None => {
                self.kind.fits(self.member.len())?;
                let seats = self.member.iter().map(|(name, peer)| Seat::at(name, peer));
                // Memory nodes stand beside the first members, in the next block of ports.
                let beside = |(index, (_, peer)): (u16, &(String, Address))| {
                    Seat::memory_at(&format!("m{index}"), &next_block(peer)?)
                };
                let hosts = self.member.iter().take(memory.into());
                if hosts.len() < usize::from(memory) {
                    return Err(usage("there are more memory nodes than members beside which they stand"));
                }
                let memory = (0_u16..).zip(hosts).map(beside).collect::<Result<Vec<_>, _>>()?;
                (seats.collect::<Result<Vec<_>, _>>()?, memory)
            }
        };
        let genesis = cluster::found_ubft(
            (self.name(), self.kind.app(), Purpose::Service),
            (&seats, &memory),
            &self.out,
        )?;
        Ok(self.described(&genesis))
    }

    fn found_chop(&self) -> Result<Report, SynError> {
        self.kind.fits(usize::MAX)?;
        let brokers = self.kind.brokers();
        let (seats, brokers) = match self.nodes {
            Some(count) => chop_seats(&local_blocks(count.saturating_add(brokers), self.base_port)?, count)?,
            None => {
                let seats = self.member.iter().map(|(name, peer)| Seat::server_at(name, peer));
                let seats = seats.collect::<Result<Vec<_>, _>>()?;
                // Brokers stand beside the first members, in the next block of ports.
                let beside = |(index, (_, peer)): (u16, &(String, Address))| {
                    Seat::broker_at(&format!("b{index}"), &next_block(peer)?)
                };
                let brokers = (0_u16..).zip(&self.member).take(brokers.into()).map(beside);
                (seats, brokers.collect::<Result<Vec<_>, _>>()?)
            }
        };
        let plan = ChopPlan { app: self.kind.app(), brokers: &brokers, ..ChopPlan::default() };
        let name = (self.name(), Purpose::Service);
        let genesis = cluster::found_chop(name, &seats, &plan, &self.out, &|_| {})?;
        Ok(self.described(&genesis))
    }

    fn announce(&self) -> Result<Report, SynError> {
        if self.cards.len() > MEMBERS_MAX {
            return Err(usage(&format!(
                "{} cards; a cluster has at most {MEMBERS_MAX} members",
                self.cards.len()
            )));
        }
        self.kind.fits(self.cards.len())?;
        if self.kind.is_ubft() {
            let why = "no card speaks for a memory node yet; make the files with --member or --nodes";
            return Err(usage("--cards makes no cluster of ubft").because(why));
        }
        let (mut members, mut brokers) = (Vec::new(), Vec::new());
        for file in &self.cards {
            match Card::read(file)?.subject().clone() {
                Subject::Member(member) => members.push(*member),
                Subject::Broker(broker) => brokers.push(broker),
            }
        }
        let genesis = if self.kind.is_chop()? {
            cluster::chop_genesis(self.name(), Purpose::Service, self.kind.app(), (members, brokers))?
        } else if brokers.is_empty() {
            // Nobody checks whether members of another protocol possess these keys, so their genesis does not state them.
            let plain = |member| Member { bls: None, pop: None, ..member };
            let members = members.into_iter().map(plain).collect();
            if self.kind.protocol() == Protocol::Astro {
                cluster::pay_genesis(self.name(), Purpose::Service, members, &self.kind.membership())?
            } else if self.kind.is_book() {
                cluster::book_genesis(self.name(), Purpose::Service, members)?
            } else {
                cluster::genesis(self.name(), Purpose::Service, members)?
            }
        } else {
            return Err(usage("a broker's card needs --kind chopchop"));
        };
        cluster::announce(&genesis, &self.out)?;
        Ok(self.described(&genesis))
    }

    fn join(&self, file: &std::path::Path) -> Result<Report, SynError> {
        let genesis = Genesis::read(file)?;
        let key =
            NodeKey::read(self.key.as_deref().expect("the command line requires a key with a genesis"))?;
        let seat = if genesis.chop().is_some() {
            cluster::join_chop(&genesis, file, &key, &self.out)?
        } else {
            cluster::join(&genesis, &key, &self.out)?
        };
        Ok(Report::new("synod-join/1")
            .field("cluster", genesis.cluster().name.clone())
            .field("id", genesis.id().to_string())
            .field("node", seat.name)
            .field("directory", self.out.display().to_string()))
    }

    fn described(&self, genesis: &Genesis) -> Report {
        let rows = genesis.members().iter().map(|member| {
            let directory = self.out.join(&member.name);
            let here = self.cards.is_empty().then(|| directory.display().to_string());
            vec![
                Value::from(member.name.clone()),
                Value::from(member.peer.to_string()),
                Value::from(hex(&member.ed25519.0)),
                Value::from(here),
            ]
        });
        let brokers = genesis.chop().map(|chop| chop.brokers.as_slice()).unwrap_or_default();
        let brokers = brokers.iter().map(|broker| {
            vec![
                Value::from(broker.name.clone()),
                Value::from(broker.datagram.to_string()),
                Value::from(hex(&broker.ed25519.0)),
                Value::from(self.cards.is_empty().then(|| self.out.join(&broker.name).display().to_string())),
            ]
        });
        let brokers: Vec<Vec<Value>> = brokers.collect();
        let report = Report::new("synod-init/1")
            .field("cluster", genesis.cluster().name.clone())
            .field("id", genesis.id().to_string())
            .field("members", genesis.members().len())
            .field("f", genesis.f())
            .field("genesis", self.out.join(GENESIS_FILE).display().to_string())
            .list("nodes", &["name", "peer", "key", "directory"], rows.collect());
        let memory: Vec<Vec<Value>> = genesis
            .ubft()
            .into_iter()
            .flat_map(|ubft| &ubft.memory)
            .map(|node| {
                vec![
                    Value::from(node.name.clone()),
                    Value::from(node.memory.to_string()),
                    Value::from(hex(&node.ed25519.0)),
                    Value::from(self.out.join(&node.name).display().to_string()),
                ]
            })
            .collect();
        if !memory.is_empty() {
            return report.list("memory_nodes", &["name", "memory", "key", "directory"], memory);
        }
        if brokers.is_empty() {
            return report;
        }
        report.list("brokers", &["name", "datagram", "key", "directory"], brokers)
    }
}

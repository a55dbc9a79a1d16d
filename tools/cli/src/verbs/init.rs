//! `synod init`: the files of a new cluster.

mod kind;

pub(crate) use kind::{KindOptions, Ordering};

use crate::cluster::{self, ChopPlan, ChopSeats, Purpose, Seat, chop_seats, ubft_seats};
use crate::exit::Done;
use crate::layout::GENESIS_FILE;
use crate::output::Report;
use crate::session::{Session, usage};
use clap::Args;
use serde_json::Value;
use std::path::PathBuf;
use synod_config::{
    Address, BASE_PORT, Block, Card, Exit, Genesis, MEMBERS_MAX, Member, NodeKey, Protocol, Service, Subject,
    SynError, hex,
};

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
        let (brokers, memory) = (self.kind.brokers(), self.kind.memory_nodes());
        self.kind.fits(self.nodes.map_or(self.member.len(), usize::from))?;
        let seats = match self.nodes {
            Some(count) => {
                let all = count.saturating_add(brokers).saturating_add(memory);
                chop_seats(&local_blocks(all, self.base_port)?, (count, brokers))?
            }
            None => self.beside(brokers, memory)?,
        };
        let plan = ChopPlan {
            app: self.kind.app(),
            brokers: &seats.brokers,
            memory: &seats.memory,
            ..ChopPlan::default()
        };
        let name = (self.name(), Purpose::Service);
        let genesis = cluster::found_chop(name, &seats.servers, &plan, &self.out, &|_| {})?;
        Ok(self.described(&genesis))
    }

    /// The seats where members are named: brokers stand beside the first of them, in the next block of ports, and memory nodes in the
    /// one behind that.
    fn beside(&self, brokers: u16, memory: u16) -> Result<ChopSeats, SynError> {
        if self.member.len() < usize::from(memory) {
            return Err(usage("there are more memory nodes than members beside which they stand"));
        }
        let servers = self.member.iter().map(|(name, peer)| Seat::server_at(name, peer));
        let broker = |(index, (_, peer)): (u16, &(String, Address))| {
            Seat::broker_at(&format!("b{index}"), &next_block(peer)?)
        };
        let node = |(index, (_, peer)): (u16, &(String, Address))| {
            Seat::memory_at(&format!("m{index}"), &next_block(&next_block(peer)?)?)
        };
        let hosts = || (0_u16..).zip(&self.member);
        Ok(ChopSeats {
            servers: servers.collect::<Result<_, _>>()?,
            brokers: hosts().take(brokers.into()).map(broker).collect::<Result<_, _>>()?,
            memory: hosts().take(memory.into()).map(node).collect::<Result<_, _>>()?,
        })
    }

    fn announce(&self) -> Result<Report, SynError> {
        if self.cards.len() > MEMBERS_MAX {
            return Err(usage(&format!(
                "{} cards; a cluster has at most {MEMBERS_MAX} members",
                self.cards.len()
            )));
        }
        self.kind.fits(self.cards.len())?;
        if self.kind.has_memory() {
            let why = "no card speaks for a memory node yet; make the files with --member or --nodes";
            return Err(usage("--cards makes no cluster of ubft, nor over it").because(why));
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
        if !memory.is_empty() && brokers.is_empty() {
            return report.list("memory_nodes", &["name", "memory", "key", "directory"], memory);
        }
        if brokers.is_empty() {
            return report;
        }
        report.list("brokers", &["name", "datagram", "key", "directory"], brokers)
    }
}

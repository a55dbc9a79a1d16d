//! `synod init`: the files of a new cluster.

use crate::cluster::{self, Purpose, Seat};
use crate::exit::Done;
use crate::hex::hex;
use crate::layout::GENESIS_FILE;
use crate::output::Report;
use crate::session::{Session, usage};
use clap::{Args, ValueEnum};
use serde_json::Value;
use std::path::PathBuf;
use synod_config::{Address, BASE_PORT, Block, Card, Exit, Genesis, MEMBERS_MAX, NodeKey, Service, SynError};

/// Makes genesis.toml and a directory per node: configuration, key, empty journal. Never overwrites.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod init --name shop --nodes 4 --out fresh")]
#[command(group = clap::ArgGroup::new("members").required(true))]
pub(crate) struct Arguments {
    /// Name of the cluster.
    #[arg(long, required_unless_present = "join")]
    name: Option<String>,
    /// How the cluster orders.
    #[arg(long, value_enum, default_value = "hotstuff")]
    kind: Kind,
    /// A member and where the others reach it; repeat it. Its other ports follow the first.
    #[arg(long, value_name = "NAME=HOST:PORT", value_parser = member, group = "members")]
    member: Vec<(String, Address)>,
    /// This many members on this machine, named n0, n1, ...
    #[arg(long, value_name = "N", group = "members", value_parser = clap::value_parser!(u16).range(1..=128))]
    nodes: Option<u16>,
    /// Cards of members whose keys stay elsewhere; only genesis.toml is made.
    #[arg(long, value_name = "FILE", num_args = 1.., group = "members")]
    cards: Vec<PathBuf>,
    /// Makes the directory of one node of the cluster that this genesis describes.
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

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    /// HotStuff: n = 3f + 1 members, f of them may do anything.
    Hotstuff,
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
        let Kind::Hotstuff = self.kind;
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
        let seats = match self.nodes {
            Some(count) => local_seats(count, self.base_port)?,
            None => self.member.iter().map(|(name, peer)| Seat::at(name, peer)).collect::<Result<_, _>>()?,
        };
        let genesis = cluster::found(self.name(), Purpose::Service, &seats, &self.out)?;
        Ok(self.described(&genesis))
    }

    fn announce(&self) -> Result<Report, SynError> {
        if self.cards.len() > MEMBERS_MAX {
            return Err(usage(&format!(
                "{} cards; a cluster has at most {MEMBERS_MAX} members",
                self.cards.len()
            )));
        }
        let cards = self.cards.iter().map(|file| Card::read(file)).collect::<Result<Vec<_>, _>>()?;
        let members = cards.iter().map(|card| card.member().clone()).collect();
        let genesis = cluster::genesis(self.name(), Purpose::Service, members)?;
        cluster::announce(&genesis, &self.out)?;
        Ok(self.described(&genesis))
    }

    fn join(&self, genesis: &std::path::Path) -> Result<Report, SynError> {
        let genesis = Genesis::read(genesis)?;
        let key =
            NodeKey::read(self.key.as_deref().expect("the command line requires a key with a genesis"))?;
        let seat = cluster::join(&genesis, &key, &self.out)?;
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
        Report::new("synod-init/1")
            .field("cluster", genesis.cluster().name.clone())
            .field("id", genesis.id().to_string())
            .field("members", genesis.members().len())
            .field("f", genesis.f())
            .field("genesis", self.out.join(GENESIS_FILE).display().to_string())
            .list("nodes", &["name", "peer", "key", "directory"], rows.collect())
    }
}

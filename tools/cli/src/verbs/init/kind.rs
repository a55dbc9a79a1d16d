//! What kind of cluster `synod init` and `synod up` make.

use crate::cluster::{self, Membership};
use crate::session::usage;
use clap::{Args, ValueEnum};
use std::time::Duration;
use synod_config::{ChopOrdering, MEMBERS_MAX, Operator, Protocol, SynError, unhex};
use synod_crypto::PublicKey;

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
    /// What orders the batches of a cluster of chopchop; hotstuff if nothing is said. With ubft 2f + 1 servers tolerate f faulty ones, with
    /// memory nodes that only crash.
    #[arg(long, value_enum, value_name = "ORDERING")]
    pub(crate) ordering: Option<Ordering>,
    /// Number of memory nodes of a cluster of ubft, or of chopchop over it, named m0, m1, ...; 3 if nothing is said. Of 2f + 1 of them f may
    /// crash.
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
    /// Chop Chop over HotStuff, or uBFT: clients speak to brokers, who distil batches.
    #[value(alias = "chop")]
    Chopchop,
    /// Astro: payments by broadcast, without an order; each member is an institution that issues money.
    Astro,
    /// uBFT: n = 2f + 1 members, f of them may do anything, and memory nodes that only crash.
    Ubft,
}

/// What orders under Chop Chop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Ordering {
    /// HotStuff: n = 3f + 1 servers.
    Hotstuff,
    /// uBFT: n = 2f + 1 servers, and memory nodes that only crash.
    Ubft,
}

impl Ordering {
    /// Its name in a genesis.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Hotstuff => ChopOrdering::Hotstuff.as_str(),
            Self::Ubft => ChopOrdering::Ubft.as_str(),
        }
    }
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
        if !is_chop && self.ordering.is_some() {
            return Err(usage("--ordering needs --kind chopchop"));
        }
        Ok(is_chop)
    }

    /// Refuses a reserve that is none, or nobody but a reserve.
    ///
    /// # Errors
    /// SYN-1001 for it.
    pub(crate) fn fits(&self, members: usize) -> Result<(), SynError> {
        if self.memory_nodes.is_some() && !self.has_memory() {
            return Err(usage("--memory-nodes needs --kind ubft, or --ordering ubft"));
        }
        if self.has_memory() && (members < 3 || members.is_multiple_of(2)) {
            let why = "2f + 1 members tolerate f faulty ones";
            return Err(usage(&format!("{members} members; ubft has 3, 5, 7, ...")).because(why));
        }
        if self.has_memory() && self.memory_nodes().is_multiple_of(2) {
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

    /// Whether uBFT orders, by itself or under Chop Chop.
    pub(crate) fn has_memory(&self) -> bool {
        self.is_ubft() || (self.kind == Some(Kind::Chopchop) && self.ordering == Some(Ordering::Ubft))
    }

    /// How many memory nodes.
    pub(crate) fn memory_nodes(&self) -> u16 {
        if self.has_memory() { self.memory_nodes.unwrap_or(3) } else { 0 }
    }

    /// How many members, if nothing is said.
    pub(crate) fn members_default(&self) -> u16 {
        if self.has_memory() { 3 } else { 4 }
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

fn span(text: &str) -> Result<Duration, String> {
    synod_config::parse_duration(text).ok_or_else(|| "not a duration like 30s".to_owned())
}

fn operator(text: &str) -> Result<Operator, String> {
    let (name, key) = text.split_once('=').ok_or_else(|| "not of the form NAME=HEX".to_owned())?;
    let key = unhex(key).and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
    let key = key.ok_or_else(|| "the key is not 64 hex digits".to_owned())?;
    Ok(Operator { name: name.to_owned(), ed25519: PublicKey(key) })
}

//! What a genesis of protocol chopchop says beyond its ordering layer: batches, messages, brokers, clients.
//!
//! Bounds: 64 brokers; the directory file is read by whoever needs it, and named here by its digest.

use std::path::{Path, PathBuf};

use super::MEMBERS_MAX;
use super::member::{Member, invalid};
use super::ubft::{MemoryMember, Ubft};
use crate::address::Address;
use crate::choice::choices;
use crate::errors::{SynError, code};
use crate::node::broken;
use crate::table::Section;
use synod_crypto::bls::{BlsMembers, Registration};
use synod_crypto::{Hash, PublicKey};
use synod_wire::Writer;

/// Most brokers of a genesis.
pub const BROKERS_MAX: usize = 64;
/// Largest directory file: 2^28 bytes hold 3.3 million clients.
const DIRECTORY_BYTES_MAX: u64 = 1 << 28;
/// The directory's file, beside the genesis.
pub const DIRECTORY_FILE: &str = "directory.bin";

choices! {
    /// Lengths of messages that brokers take.
    MessageClass {
        /// Exactly `message_size` bytes.
        Fixed = "fixed",
        /// One to `message_size` bytes.
        Variable = "variable",
    }
}

choices! {
    /// What orders the batches.
    ChopOrdering {
        /// HotStuff: 3f + 1 servers.
        Hotstuff = "hotstuff",
        /// uBFT: 2f + 1 servers, and memory nodes that only crash.
        Ubft = "ubft",
    }
}

choices! {
    /// What a cluster is for.
    ClusterKind {
        /// Somebody relies on it.
        Service = "service",
        /// Its clients' keys are made up by a load generator, which knows all of their secrets.
        Bench = "bench",
    }
}

/// A broker that servers grant the quota of a known one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broker {
    /// Unique name.
    pub name: String,
    /// Where clients reach it by datagrams.
    pub datagram: Address,
    /// Its identity towards servers and clients.
    pub ed25519: PublicKey,
}

/// What protocol chopchop adds to a genesis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chop {
    /// Most entries of a batch, 1 to 1,048,576.
    pub batch_max: u32,
    /// Most bytes of a body.
    pub body_bytes_max: u32,
    /// Whether messages have one length.
    pub class: MessageClass,
    /// That length, or the longest one.
    pub message_size: u16,
    /// How far above the delivered height a batch may expire.
    pub expiry_horizon: u32,
    /// What each account holds when it is opened.
    pub grant: u32,
    /// Tokens of an auction: client i owns token i at the start.
    pub tokens: u32,
    /// What the cluster is for.
    pub kind: ClusterKind,
    /// Digest of the directory file, if clients are known from the start.
    pub directory: Option<Hash>,
    /// The brokers, in the order that gives them their numbers.
    pub brokers: Vec<Broker>,
}

/// Longest body that fits a bulk frame of 16 MiB beside its header.
const BODY_BYTES_MAX: u32 = (16 << 20) - 4_096;
/// Applications of protocol chopchop.
pub(super) const APPS: [&str; 3] = ["payments", "auction", "pixels"];

impl Default for Chop {
    fn default() -> Self {
        Self {
            batch_max: 65_536,
            body_bytes_max: BODY_BYTES_MAX,
            class: MessageClass::Fixed,
            message_size: 8,
            expiry_horizon: 65_536,
            grant: 1_000_000,
            tokens: 65_536,
            kind: ClusterKind::Service,
            directory: None,
            brokers: Vec::new(),
        }
    }
}

/// Keys of `[protocol]` that only this protocol has.
const OWN: [&str; 8] = [
    "ordering",
    "batch_max",
    "body_bytes_max",
    "message_class",
    "message_size",
    "expiry_horizon",
    "grant",
    "tokens",
];
/// Most positions between two checkpoints over uBFT, whose replicas keep the batches of twice as many in memory.
const CHECKPOINT_EVERY_MAX: u32 = 8_192;

impl Chop {
    /// Default of `protocol.checkpoint_every` under this protocol.
    pub const CHECKPOINT_EVERY: u32 = 1_024;

    /// Refuses what only servers over HotStuff have, for a genesis whose servers are ordered by uBFT.
    pub(super) fn refuse_hotstuff(
        protocol: &Section<'_>,
        registrars: &[Section<'_>],
    ) -> Result<(), SynError> {
        let known = |leaf: &&str| OWN.contains(leaf) || Ubft::is_under(leaf) || *leaf == "checkpoint_every";
        let stated = protocol.given().find(|leaf| !known(leaf)).map(|leaf| format!("protocol.{leaf}"));
        let stated = stated.or_else(|| (!registrars.is_empty()).then(|| "registrar.member".to_owned()));
        stated.map_or(Ok(()), |key| {
            Err(broken(&key, "protocol.ordering", "chopchop over ubft does not have it"))
        })
    }

    /// Checks what servers over uBFT have beside that: names and keys of memory nodes are nobody else's, and a checkpoint is near enough.
    pub(super) fn check_over(&self, file: &str, ubft: &Ubft, checkpoint_every: u32) -> Result<(), SynError> {
        if checkpoint_every > CHECKPOINT_EVERY_MAX {
            let found = format!(
                "{checkpoint_every}; ubft keeps the batches of twice as many positions in memory, and takes \
                 {CHECKPOINT_EVERY_MAX} at most"
            );
            return Err(broken("protocol.checkpoint_every", "protocol.ordering", &found));
        }
        for broker in &self.brokers {
            let like = |node: &&MemoryMember| node.name == broker.name || node.ed25519 == broker.ed25519;
            if let Some(node) = ubft.memory.iter().find(like) {
                let found =
                    format!("broker {} and memory node {} share the name or the key", broker.name, node.name);
                return Err(invalid(file, &found));
            }
        }
        Ok(())
    }

    /// Refuses what only this protocol has, for a genesis of another one.
    pub(super) fn refuse(
        cluster: &Section<'_>,
        protocol: &Section<'_>,
        brokers: &[Section<'_>],
    ) -> Result<(), SynError> {
        let stated = protocol.given().find(|leaf| OWN.contains(leaf)).map(|leaf| format!("protocol.{leaf}"));
        let stated = stated
            .or_else(|| {
                cluster.given().find(|leaf| *leaf == "directory").map(|_| "cluster.directory".to_owned())
            })
            .or_else(|| (!brokers.is_empty()).then(|| "broker.name".to_owned()));
        let kind = cluster.choice::<ClusterKind>("kind")?.filter(|kind| *kind != ClusterKind::Service);
        let stated = stated.or_else(|| kind.map(|_| "cluster.kind".to_owned()));
        stated.map_or(Ok(()), |key| Err(broken(&key, "cluster.protocol", "only chopchop has it")))
    }

    /// Reads what the sections say; what is not given is the default.
    pub(super) fn read(
        cluster: &Section<'_>,
        protocol: &Section<'_>,
        brokers: &mut [Section<'_>],
    ) -> Result<Self, SynError> {
        let default = Self::default();
        let number =
            |leaf: &str, default: u32| Ok::<_, SynError>(protocol.number_u32(leaf)?.unwrap_or(default));
        let size = number("message_size", u32::from(default.message_size))?;
        let broker = |section: &mut Section<'_>| {
            let addresses = section.section("addresses", "broker.addresses")?;
            let datagram = addresses.text("datagram")?.and_then(|text| Address::parse(&text));
            Ok::<_, SynError>(Broker {
                name: section.required("name")?,
                datagram: datagram.ok_or_else(|| addresses.refusal("datagram", "missing"))?,
                ed25519: PublicKey(super::read::required_hex(section, "ed25519")?),
            })
        };
        Ok(Self {
            batch_max: number("batch_max", default.batch_max)?,
            body_bytes_max: number("body_bytes_max", default.body_bytes_max)?,
            class: protocol.choice("message_class")?.unwrap_or(default.class),
            message_size: u16::try_from(size).map_err(|_| protocol.refusal("message_size", "above 65535"))?,
            expiry_horizon: number("expiry_horizon", default.expiry_horizon)?,
            grant: number("grant", default.grant)?,
            tokens: number("tokens", default.tokens)?,
            kind: cluster.choice("kind")?.unwrap_or(default.kind),
            directory: super::read::optional_hex(cluster, "directory")?.map(Hash),
            brokers: brokers.iter_mut().map(broker).collect::<Result<_, _>>()?,
        })
    }

    /// Checks relations, and that each member has a key for multi-signatures whose secret it holds.
    pub(super) fn check(&self, file: &str, members: &[Member]) -> Result<BlsMembers, SynError> {
        // Columns of one entry, a straggler's included, are short beside its message.
        if self.body_bytes_max < 1_024 + u32::from(self.message_size) {
            let found = format!("a body of {} holds no such message", self.body_bytes_max);
            return Err(broken("protocol.body_bytes_max", "protocol.message_size", &found));
        }
        for member in members {
            if member.stake != 1 {
                let found = format!("{} has stake {}; chopchop counts members", member.name, member.stake);
                return Err(broken("member.stake", "cluster.protocol", &found));
            }
            if member.client.is_none() {
                let found = format!("{} states no client address, where brokers connect", member.name);
                return Err(broken("member.addresses.client", "cluster.protocol", &found));
            }
        }
        self.check_brokers(file, members)?;
        registered(file, members)
    }

    fn check_brokers(&self, file: &str, members: &[Member]) -> Result<(), SynError> {
        let mut names: Vec<&str> = members.iter().map(|member| member.name.as_str()).collect();
        let mut keys: Vec<PublicKey> = members.iter().map(|member| member.ed25519).collect();
        for broker in &self.brokers {
            let name = broker.name.as_str();
            if names.contains(&name) {
                return Err(invalid(file, &format!("two members or brokers share the name {name}")));
            }
            synod_crypto::check_key(&broker.ed25519).map_err(|bad| {
                invalid(file, &format!("the ed25519 key of {name} is refused")).because(bad)
            })?;
            if keys.contains(&broker.ed25519) {
                return Err(invalid(file, &format!("{name} and another share the key")));
            }
            if broker.datagram.port() == 0 {
                return Err(invalid(file, &format!("the datagram address of {name} has port 0")));
            }
            names.push(name);
            keys.push(broker.ed25519);
        }
        Ok(())
    }

    /// Writes every value in the order of the fields.
    pub(super) fn encode(&self, out: &mut Writer) {
        out.varint(u64::from(self.batch_max));
        out.varint(u64::from(self.body_bytes_max));
        out.byte(match self.class {
            MessageClass::Fixed => 1,
            MessageClass::Variable => 2,
        });
        out.varint(u64::from(self.message_size));
        out.varint(u64::from(self.expiry_horizon));
        out.varint(u64::from(self.grant));
        out.varint(u64::from(self.tokens));
        out.byte(match self.kind {
            ClusterKind::Service => 1,
            ClusterKind::Bench => 2,
        });
        out.byte(u8::from(self.directory.is_some()));
        out.bytes(self.directory.as_ref().map(|hash| &hash.0[..]).unwrap_or_default());
        out.count(self.brokers.len());
        for broker in &self.brokers {
            for text in [&broker.name, &broker.datagram.to_string()] {
                out.count(text.len());
                out.bytes(text.as_bytes());
            }
            out.bytes(&broker.ed25519.0);
        }
    }

    /// The bytes of the directory's file, which stands beside the genesis; empty when the genesis names none.
    ///
    /// # Errors
    /// SYN-1101 if it cannot be read or is longer than 256 MiB, SYN-1105 if it is not the one that is named.
    pub fn directory_bytes(&self, genesis: &Path) -> Result<Vec<u8>, SynError> {
        let Some(named) = self.directory else { return Ok(Vec::new()) };
        let path: PathBuf = genesis.with_file_name(DIRECTORY_FILE);
        let shown = path.display().to_string();
        let unreadable =
            |why: String| SynError::of(code::CONFIG_UNREADABLE, &[("file", &shown)]).because(why);
        let length = std::fs::metadata(&path).map_err(|error| unreadable(error.to_string()))?.len();
        if length > DIRECTORY_BYTES_MAX {
            return Err(unreadable(format!("it is longer than {DIRECTORY_BYTES_MAX} bytes")));
        }
        let bytes = std::fs::read(&path).map_err(|error| unreadable(error.to_string()))?;
        if Hash::of(&bytes) != named {
            return Err(invalid(&shown, "it is not the directory that the genesis names"));
        }
        Ok(bytes)
    }
}

/// The members' keys for multi-signatures, each with its possession checked. A signature over nobody's words proves it,
/// for the keys are part of what names the cluster.
fn registered(file: &str, members: &[Member]) -> Result<BlsMembers, SynError> {
    let mut registrations = Vec::with_capacity(MEMBERS_MAX);
    for member in members {
        match (member.bls, member.pop) {
            (Some(key), Some(pop)) => registrations.push(Registration::of_key(key, pop)),
            _ => {
                let found = format!("{} states no bls and pop, which chopchop needs", member.name);
                return Err(broken("member.bls", "cluster.protocol", &found));
            }
        }
    }
    let checker = crate::keys::checker()?;
    let mut keys = Vec::with_capacity(members.len());
    for (member, verdict) in members.iter().zip(checker.bls().register(&registrations)) {
        keys.push(verdict.map_err(|bad| {
            invalid(file, &format!("the bls key of {} is refused", member.name)).because(bad)
        })?);
    }
    BlsMembers::new(keys).ok_or_else(|| invalid(file, "two members share a bls key"))
}

//! What a genesis of protocol ubft says: tail, window, waits, and the memory nodes, which may only crash.
//!
//! Bounds: 3 to 63 members, an odd number; 1 to 31 memory nodes, an odd number.

use std::time::Duration;

use super::member::{Member, invalid};
use crate::address::Address;
use crate::errors::SynError;
use crate::node::broken;
use crate::table::Section;
use crate::units::format_duration;
use synod_crypto::PublicKey;
use synod_wire::Writer;

/// Most memory nodes of a genesis.
pub const MEMORY_NODES_MAX: usize = 31;
/// Most replicas: two bits of a stream's state are for each.
const REPLICAS_MAX: usize = 63;
/// Most slots that are worked on at once.
const WINDOW_MAX: u32 = 4_096;
/// Most requests of a batch.
const BATCH_MAX: u32 = 64;

/// A process that holds registers for the replicas, and does nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryMember {
    /// Unique name.
    pub name: String,
    /// Where replicas reach it.
    pub memory: Address,
    /// Its identity towards replicas.
    pub ed25519: PublicKey,
}

/// What protocol ubft adds to a genesis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ubft {
    /// Messages of a broadcaster that its peers remember.
    pub tail: u32,
    /// Slots that are worked on at once.
    pub window: u32,
    /// Requests of a batch.
    pub batch_max: u32,
    /// How long a slot may take before it is signed.
    pub fast_wait: Duration,
    /// How long a leader may take before it is suspected.
    pub suspect_wait: Duration,
    /// Followers promise to certify a proposal with what they lock of it; of three members alone.
    pub merge_promises: bool,
    /// The memory nodes, in the order that gives them their ids behind those of the members.
    pub memory: Vec<MemoryMember>,
}

/// Requests of a batch under Chop Chop, whose genesis says `batch_max` of its own batches.
const BATCH_UNDER: u32 = 16;
/// Keys of `[protocol]` that this protocol has.
const OWN: [&str; 6] = ["tail", "window", "batch_max", "fast_wait", "suspect_wait", "merge_promises"];
/// Those of them that no other protocol has.
const ONLY: [&str; 4] = ["tail", "fast_wait", "suspect_wait", "merge_promises"];
/// Members of a cluster in which promises may go with what is locked.
const MERGE_MEMBERS: usize = 3;

impl Default for Ubft {
    /// Five times the waits of the paper's hardware, for processes share cores and links have TLS.
    fn default() -> Self {
        Self {
            tail: 256,
            window: 512,
            batch_max: 16,
            fast_wait: Duration::from_millis(10),
            suspect_wait: Duration::from_millis(250),
            merge_promises: false,
            memory: Vec::new(),
        }
    }
}

impl Ubft {
    /// Refuses what only this protocol has, for a genesis of another one.
    pub(super) fn refuse(protocol: &Section<'_>, memory: &[Section<'_>]) -> Result<(), SynError> {
        let stated = protocol.given().find(|leaf| ONLY.contains(leaf)).map(|leaf| format!("protocol.{leaf}"));
        let stated = stated.or_else(|| (!memory.is_empty()).then(|| "memory.name".to_owned()));
        stated.map_or(Ok(()), |key| Err(broken(&key, "cluster.protocol", "only ubft has it")))
    }

    /// Whether a genesis of Chop Chop over uBFT may have this key of `[protocol]` for its sake.
    pub(super) fn is_under(leaf: &str) -> bool {
        leaf == "window" || ONLY.contains(&leaf)
    }

    /// The same under Chop Chop.
    pub(super) fn under(self) -> Self {
        Self { batch_max: BATCH_UNDER, ..self }
    }

    /// Refuses what this protocol does not have.
    pub(super) fn refuse_others(
        cluster: &Section<'_>,
        protocol: &Section<'_>,
        brokers: &[Section<'_>],
        registrars: &[Section<'_>],
    ) -> Result<(), SynError> {
        let stated = protocol.given().find(|leaf| !OWN.contains(leaf)).map(|leaf| format!("protocol.{leaf}"));
        let of_chop = cluster.given().find(|leaf| ["directory", "kind"].contains(leaf));
        let stated = stated.or_else(|| of_chop.map(|leaf| format!("cluster.{leaf}")));
        let stated = stated.or_else(|| (!brokers.is_empty()).then(|| "broker.name".to_owned()));
        let stated = stated.or_else(|| (!registrars.is_empty()).then(|| "registrar.member".to_owned()));
        stated.map_or(Ok(()), |key| Err(broken(&key, "cluster.protocol", "ubft does not have it")))
    }

    /// Reads what the sections say; what is not given is the default.
    pub(super) fn read(protocol: &Section<'_>, memory: &mut [Section<'_>]) -> Result<Self, SynError> {
        let default = Self::default();
        let number =
            |leaf: &str, default: u32| Ok::<_, SynError>(protocol.number_u32(leaf)?.unwrap_or(default));
        let span = |leaf: &str, default: Duration| Ok::<_, SynError>(protocol.span(leaf)?.unwrap_or(default));
        let node = |section: &mut Section<'_>| {
            let addresses = section.section("addresses", "memory.addresses")?;
            let memory = addresses.text("memory")?.and_then(|text| Address::parse(&text));
            Ok::<_, SynError>(MemoryMember {
                name: section.required("name")?,
                memory: memory.ok_or_else(|| addresses.refusal("memory", "missing"))?,
                ed25519: PublicKey(super::read::required_hex(section, "ed25519")?),
            })
        };
        Ok(Self {
            tail: number("tail", default.tail)?,
            window: number("window", default.window)?,
            batch_max: number("batch_max", default.batch_max)?,
            fast_wait: span("fast_wait", default.fast_wait)?,
            suspect_wait: span("suspect_wait", default.suspect_wait)?,
            merge_promises: protocol.flag("merge_promises")?.unwrap_or(default.merge_promises),
            memory: memory.iter_mut().map(node).collect::<Result<_, _>>()?,
        })
    }

    /// Checks relations, and that names, keys and ports are sound and distinct.
    pub(super) fn check(&self, file: &str, members: &[Member]) -> Result<(), SynError> {
        let refused = |first: &str, second: &str, found: String| Err(broken(first, second, &found));
        let (replicas, nodes) = (members.len(), self.memory.len());
        if !(3..=REPLICAS_MAX).contains(&replicas) || replicas.is_multiple_of(2) {
            let found =
                format!("{replicas} members; ubft has 2f + 1, an odd number from 3 to {REPLICAS_MAX}");
            return refused("member.name", "cluster.protocol", found);
        }
        if self.merge_promises && replicas != MERGE_MEMBERS {
            let found =
                format!("{replicas} members; promises go with what is locked among {MERGE_MEMBERS} alone");
            return refused("protocol.merge_promises", "member.name", found);
        }
        if nodes > MEMORY_NODES_MAX || nodes.is_multiple_of(2) {
            let found =
                format!("{nodes} memory nodes; ubft has an odd number of them, {MEMORY_NODES_MAX} at most");
            return refused("memory.name", "cluster.protocol", found);
        }
        if let Some(member) = members.iter().find(|member| member.stake != 1) {
            let found = format!("{} has stake {}; ubft counts members", member.name, member.stake);
            return refused("member.stake", "cluster.protocol", found);
        }
        for (key, value, least, most) in
            [("protocol.tail", self.tail, 16, u32::MAX), ("protocol.window", self.window, 32, WINDOW_MAX)]
        {
            if !value.is_power_of_two() || value < least || value > most {
                let found = format!("{value}; ubft takes a power of two from {least} on");
                return refused(key, "cluster.protocol", found);
            }
        }
        if self.batch_max > BATCH_MAX {
            let found = format!("{} requests; batches of ubft have {BATCH_MAX} at most", self.batch_max);
            return refused("protocol.batch_max", "cluster.protocol", found);
        }
        if self.fast_wait.saturating_mul(5) > self.suspect_wait {
            let (fast, suspect) = (format_duration(self.fast_wait), format_duration(self.suspect_wait));
            return refused(
                "protocol.fast_wait",
                "protocol.suspect_wait",
                format!("{fast} is above a fifth of {suspect}"),
            );
        }
        self.check_memory(file, members)
    }

    fn check_memory(&self, file: &str, members: &[Member]) -> Result<(), SynError> {
        let mut names: Vec<&str> = members.iter().map(|member| member.name.as_str()).collect();
        let mut keys: Vec<PublicKey> = members.iter().map(|member| member.ed25519).collect();
        let mut places: Vec<String> = members.iter().map(|member| member.peer.to_string()).collect();
        for node in &self.memory {
            let name = node.name.as_str();
            if names.contains(&name) {
                return Err(invalid(file, &format!("two members or memory nodes share the name {name}")));
            }
            synod_crypto::check_key(&node.ed25519).map_err(|bad| {
                invalid(file, &format!("the ed25519 key of {name} is refused")).because(bad)
            })?;
            if keys.contains(&node.ed25519) {
                return Err(invalid(file, &format!("{name} and another share the key")));
            }
            let place = node.memory.to_string();
            if node.memory.port() == 0 || places.contains(&place) {
                let found = format!("the memory address of {name} has port 0 or is another's");
                return Err(invalid(file, &found));
            }
            names.push(name);
            keys.push(node.ed25519);
            places.push(place);
        }
        Ok(())
    }

    /// Writes every value in the order of the fields.
    pub(super) fn encode(&self, out: &mut Writer) {
        // A genesis without it has the id that it had before there was such a key.
        out.byte(if self.merge_promises { 2 } else { 1 });
        for number in [self.tail, self.window, self.batch_max] {
            out.varint(u64::from(number));
        }
        for span in [self.fast_wait, self.suspect_wait] {
            out.varint(u64::try_from(span.as_nanos()).expect("seconds at most, by the table"));
        }
        out.count(self.memory.len());
        for node in &self.memory {
            for text in [&node.name, &node.memory.to_string()] {
                out.count(text.len());
                out.bytes(text.as_bytes());
            }
            out.bytes(&node.ed25519.0);
        }
    }
}

//! Reading `genesis.toml`.

use super::MEMBERS_MAX;
use super::build::{Cluster, Genesis, Protocol, Special};
use super::chop::{BROKERS_MAX, Chop, ChopOrdering};
use super::keys::GENESIS_KEYS;
use super::member::{Member, Operator, invalid};
use super::parameters::Parameters;
use super::pay::Pay;
use super::ubft::{MEMORY_NODES_MAX, Ubft};
use crate::address::Address;
use crate::errors::SynError;
use crate::files;
use crate::keys::from_hex;
use crate::node::broken;
use crate::table::Section;
use std::path::Path;
use synod_crypto::PublicKey;

/// Largest `genesis.toml` in bytes.
pub(super) const FILE_BYTES_MAX: usize = 1 << 20;
/// The format this release reads and writes.
pub(super) const FORMAT: i64 = 1;
/// Most operators.
const OPERATORS_MAX: usize = 16;

impl Genesis {
    /// Reads and checks the text of a genesis; `file` names it in messages.
    ///
    /// # Errors
    /// SYN-1101 (no TOML, or above 1 MiB), SYN-1102 (unknown key), SYN-1103 (bad value), SYN-1105 (members),
    /// SYN-1106 (relation), SYN-1110 (newer format).
    pub fn parse(file: &str, text: &str) -> Result<Self, SynError> {
        let mut top = Section::top_of_format(file, text, GENESIS_KEYS, (FORMAT, FILE_BYTES_MAX))?;
        let section = top.section("cluster", "cluster")?;
        let protocol =
            section.choice::<Protocol>("protocol")?.ok_or_else(|| section.refusal("protocol", "missing"))?;
        let cluster = Cluster {
            name: section.required("name")?,
            protocol,
            app: section.text("app")?.unwrap_or_else(|| protocol.apps()[0].to_owned()),
            drill: section.flag("drill")?.unwrap_or(false),
        };
        let (stated_f, _epoch_zero) = (section.number("f")?, section.number("epoch")?);
        let mut members = Vec::new();
        for mut section in top.list("member", MEMBERS_MAX)? {
            members.push(member(file, &mut section)?);
        }
        let mut operators = Vec::new();
        for section in top.list("operator", OPERATORS_MAX)? {
            let ed25519 = PublicKey(
                hex(file, &section, "ed25519")?.ok_or_else(|| section.refusal("ed25519", "missing"))?,
            );
            operators.push(Operator { name: section.required("name")?, ed25519 });
        }
        let mut brokers = top.list("broker", BROKERS_MAX)?;
        let rules = top.section("protocol", "protocol")?;
        let mut parameters = Parameters::read(&rules, members.len())?;
        // The values are read, and so held against their ranges, before a key is found to be of another protocol.
        let chop = Chop::read(&section, &rules, &mut brokers)?;
        let ordering = rules.choice("ordering")?;
        let registrars = top.list("registrar", MEMBERS_MAX)?;
        let pay = Pay::read(&rules, &registrars)?;
        let mut memory = top.list("memory", MEMORY_NODES_MAX)?;
        let ubft = Ubft::read(&rules, &mut memory)?;
        let special = match protocol {
            Protocol::Hotstuff => {
                Chop::refuse(&section, &rules, &brokers)?;
                Pay::refuse(&rules, &registrars)?;
                Ubft::refuse(&rules, &memory)?;
                Special::Hotstuff(parameters)
            }
            Protocol::Chopchop if ordering == Some(ChopOrdering::Ubft) => {
                Chop::refuse_hotstuff(&rules, &registrars)?;
                let every = rules.number_u32("checkpoint_every")?.unwrap_or(Chop::CHECKPOINT_EVERY);
                Special::ChopchopOverUbft(every, ubft.under(), chop)
            }
            Protocol::Chopchop => {
                Pay::refuse(&rules, &registrars)?;
                Ubft::refuse(&rules, &memory)?;
                parameters.checkpoint_every =
                    rules.number_u32("checkpoint_every")?.unwrap_or(Chop::CHECKPOINT_EVERY);
                Special::Chopchop(parameters, chop)
            }
            Protocol::Astro => {
                Pay::refuse_others(&section, &rules, &brokers)?;
                Ubft::refuse(&rules, &memory)?;
                Special::Astro(pay)
            }
            Protocol::Ubft => {
                Ubft::refuse_others(&section, &rules, &brokers, &registrars)?;
                Special::Ubft(ubft)
            }
        };
        let genesis = Self::checked(file, (cluster, special), members, operators)?;
        match stated_f.filter(|stated| *stated != genesis.f()) {
            None => Ok(genesis),
            Some(stated) => {
                let found = format!("f is {stated}, the members' stake gives {}", genesis.f());
                Err(broken("cluster.f", "member.stake", &found))
            }
        }
    }

    /// Reads and checks the file at `path`, at most 1 MiB.
    ///
    /// # Errors
    /// Those of [`Self::parse`].
    pub fn read(path: &Path) -> Result<Self, SynError> {
        Self::parse(&files::shown(path), &files::read_text(path, FILE_BYTES_MAX)?)
    }
}

fn member(file: &str, section: &mut Section<'_>) -> Result<Member, SynError> {
    let addresses = section.section("addresses", "member.addresses")?;
    let address =
        |leaf: &str| Ok::<_, SynError>(addresses.text(leaf)?.and_then(|text| Address::parse(&text)));
    Ok(Member {
        name: section.required("name")?,
        peer: address("peer")?.ok_or_else(|| addresses.refusal("peer", "missing"))?,
        client: address("client")?,
        http: address("http")?,
        resp: address("resp")?,
        ed25519: PublicKey(
            hex(file, section, "ed25519")?.ok_or_else(|| section.refusal("ed25519", "missing"))?,
        ),
        x25519: hex(file, section, "x25519")?,
        bls: hex(file, section, "bls")?,
        pop: hex(file, section, "pop")?,
        stake: section.number("stake")?.unwrap_or(1),
    })
}

/// The bytes of `leaf`, which must be given.
pub(super) fn required_hex<const N: usize>(section: &Section<'_>, leaf: &str) -> Result<[u8; N], SynError> {
    optional_hex(section, leaf)?.ok_or_else(|| section.refusal(leaf, "missing"))
}

/// The bytes of `leaf`, if given.
pub(super) fn optional_hex<const N: usize>(
    section: &Section<'_>,
    leaf: &str,
) -> Result<Option<[u8; N]>, SynError> {
    let read =
        |text: String| from_hex(&text).ok_or_else(|| section.refusal(leaf, &format!("not {N} bytes of hex")));
    section.text(leaf)?.map(read).transpose()
}

fn hex<const N: usize>(file: &str, section: &Section<'_>, leaf: &str) -> Result<Option<[u8; N]>, SynError> {
    let Some(text) = section.text(leaf)? else { return Ok(None) };
    let bytes = from_hex(&text).ok_or_else(|| invalid(file, &format!("{leaf} is not {N} bytes of hex")))?;
    Ok(Some(bytes))
}

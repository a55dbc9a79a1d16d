//! Public cards: what a member hands to whoever builds the genesis, signed by its own key.
//!
//! A card is TOML: `format`, `name`, `addresses`, `ed25519`, `proof`. The proof is a signature over the digest of
//! everything else, so that a card cannot be altered on its way and nobody can register a key without holding
//! its secret.

use super::{NodeKey, from_hex, to_hex};
use crate::address::Address;
use crate::errors::{SynError, code};
use crate::files;
use crate::genesis::Member;
use crate::table::{Key, Kind, Section};
use rustix::fs::Mode;
use std::path::Path;
use synod_crypto::{Claim, Hash, Hasher, Keys, PublicKey, Scope, Seed, Signature, Statement, check_key};
use synod_quorum::{Epoch, NodeId};
use synod_wire::wire;

/// Largest card in bytes.
const FILE_BYTES_MAX: usize = 16 << 10;

const CARD_KEYS: &[Key] = &[
    Key::new("format", Kind::Count(1, 1), "", "Format of the file."),
    Key::new("name", Kind::Name(63), "", "Name of the member."),
    Key::new("addresses.peer", Kind::Address, "", "Where the other members connect."),
    Key::new("addresses.client", Kind::AddressOrOff, "", "Where binary clients connect."),
    Key::new("addresses.http", Kind::AddressOrOff, "", "Where HTTP clients connect."),
    Key::new("addresses.resp", Kind::AddressOrOff, "", "Where RESP clients connect."),
    Key::new("ed25519", Kind::Hex(32), "", "Public key."),
    Key::new("proof", Kind::Hex(64), "", "Signature of the key over the rest."),
];

wire! {
    /// What the proof of a card signs.
    #[derive(Clone, Debug, PartialEq, Eq)]
    struct Introduced {
        /// Digest of name, addresses and key.
        content: Hash,
    }
}

impl Statement for Introduced {
    const PROTOCOL: u8 = 0;
    const VERSION: u8 = 1;

    fn kind(&self) -> u16 {
        1
    }
}

/// A card whose proof is good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Card {
    member: Member,
    proof: Signature,
}

impl Card {
    /// Makes the card of a member whose key is `key`. The member's stake is no part of a card: it is the
    /// cluster's to give.
    ///
    /// # Errors
    /// SYN-1105 if the member states another key, SYN-9001 if the system gives no randomness.
    pub fn sign(member: Member, key: &NodeKey) -> Result<Self, SynError> {
        if member.ed25519 != key.public() {
            return Err(refused("the card", "it states another key than the one that signs"));
        }
        let statement = Introduced { content: content(&member) };
        let proof = key.to_keys()?.sign(scope(), NodeId(0), statement).into_inner().signature;
        Ok(Self { member, proof })
    }

    /// The member the card introduces, with stake 1.
    #[must_use]
    pub fn member(&self) -> &Member {
        &self.member
    }

    /// The text of the file.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let stated = self.member.addresses().into_iter().filter_map(|(key, address)| Some((key, address?)));
        let addresses: Vec<String> = stated.map(|(key, address)| format!("{key} = \"{address}\"")).collect();
        format!(
            "format = 1\nname = \"{}\"\naddresses = {{ {} }}\ned25519 = \"{}\"\nproof = \"{}\"\n",
            self.member.name,
            addresses.join(", "),
            to_hex(&self.member.ed25519.0),
            to_hex(&self.proof.0),
        )
    }

    /// Reads a card and checks its key and its proof; `file` names it in messages.
    ///
    /// # Errors
    /// SYN-1101 to SYN-1103 for its form, SYN-1105 for a refused key or a wrong proof.
    pub fn parse(file: &str, text: &str) -> Result<Self, SynError> {
        let mut top = Section::top_of_format(file, text, CARD_KEYS, (1, FILE_BYTES_MAX))?;
        let addresses = top.section("addresses", "addresses")?;
        let address =
            |leaf: &str| Ok::<_, SynError>(addresses.text(leaf)?.and_then(|text| Address::parse(&text)));
        let wrong = |leaf: &str| top.refusal(leaf, "not hex");
        let key = PublicKey(from_hex(&top.required("ed25519")?).ok_or_else(|| wrong("ed25519"))?);
        let proof = Signature(from_hex(&top.required("proof")?).ok_or_else(|| wrong("proof"))?);
        let peer = address("peer")?.ok_or_else(|| addresses.refusal("peer", "missing"))?;
        let mut member = Member::new(&top.required("name")?, peer, key);
        (member.client, member.http, member.resp) = (address("client")?, address("http")?, address("resp")?);
        check_key(&key).map_err(|bad| refused(file, "its ed25519 key is refused").because(bad))?;
        let statement = Introduced { content: content(&member) };
        let claim = Claim { statement, scope: scope(), signer: NodeId(0), key, signature: proof };
        // Checking one signature uses no secret; these keys sign nothing and stand for nobody.
        let checker = Keys::ed25519(&Seed::new([0; 32]), [0; 32]);
        match claim.verify(&checker) {
            Ok(_) => Ok(Self { member, proof }),
            Err(_) => Err(refused(file, "its proof is not a signature of its key over its content")),
        }
    }

    /// Reads and checks the card at `path`, at most 16 KiB.
    ///
    /// # Errors
    /// Those of [`Self::parse`].
    pub fn read(path: &Path) -> Result<Self, SynError> {
        Self::parse(&files::shown(path), &files::read_text(path, FILE_BYTES_MAX)?)
    }

    /// Writes the card; nothing is overwritten.
    ///
    /// # Errors
    /// SYN-1109 if something stands at the path, SYN-1101 if the system refuses.
    pub fn write_new(&self, path: &Path) -> Result<(), SynError> {
        let readable = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH;
        files::write_new(path, self.to_toml().as_bytes(), readable)
    }
}

fn refused(file: &str, problem: &str) -> SynError {
    SynError::of(code::GENESIS_INVALID, &[("file", file), ("problem", problem)])
}

/// Cards exist before their cluster does.
fn scope() -> Scope {
    Scope { cluster: Hash::ZERO, epoch: Epoch(0) }
}

fn content(member: &Member) -> Hash {
    let mut hasher = Hasher::new("synod card 1");
    hasher.add(member.name.as_bytes());
    for (_, address) in member.addresses() {
        hasher.add(address.map(Address::to_string).unwrap_or_default().as_bytes());
    }
    hasher.add(&member.ed25519.0);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::Introduced;

    synod_wire::conformance!(Introduced);
}

//! Public cards: what a member hands to whoever builds the genesis, signed by its own key.
//!
//! A card is TOML: `format`, `name`, `addresses`, `ed25519`, for multi-signatures `bls` and `pop`, then `proof`. The proof
//! is a signature over the digest of everything else, so that a card cannot be altered on its way and nobody can register
//! a key without holding its secret; `pop` shows the same of the key for multi-signatures, which no Ed25519 signature does.
//! A broker's card states the address `datagram` where a member's states `peer`.

use super::{NodeKey, from_hex};
use crate::address::Address;
use crate::errors::{SynError, code};
use crate::files;
use crate::genesis::{Broker, Member};
use crate::hex;
use crate::table::{Key, Kind, Section};
use rustix::fs::Mode;
use std::path::Path;
use synod_crypto::bls::Registration;
use synod_crypto::{Claim, Hash, Hasher, Keys, PublicKey, Scope, Seed, Signature, Statement, check_key};
use synod_quorum::{Epoch, NodeId};
use synod_wire::wire;

/// Largest card in bytes.
const FILE_BYTES_MAX: usize = 16 << 10;

const CARD_KEYS: &[Key] = &[
    Key::new("format", Kind::Count(1, 1), "", "Format of the file."),
    Key::new("name", Kind::Name(63), "", "Name of the member."),
    Key::new("addresses.peer", Kind::AddressOrOff, "", "Where the other members connect; a broker has none."),
    Key::new("addresses.client", Kind::AddressOrOff, "", "Where binary clients connect."),
    Key::new("addresses.http", Kind::AddressOrOff, "", "Where HTTP clients connect."),
    Key::new("addresses.resp", Kind::AddressOrOff, "", "Where RESP clients connect."),
    Key::new("addresses.datagram", Kind::AddressOrOff, "", "Where clients reach a broker."),
    Key::new("ed25519", Kind::Hex(32), "", "Public key."),
    Key::new("bls", Kind::Hex(48), "", "Public key for multi-signatures."),
    Key::new("pop", Kind::Hex(96), "", "Proof that the holder has the secret of bls."),
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

/// Whom a card introduces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A member, with stake 1: stakes are the cluster's to give.
    Member(Box<Member>),
    /// A broker of Chop Chop.
    Broker(Broker),
}

/// A card whose proof is good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Card {
    subject: Subject,
    proof: Signature,
}

impl Subject {
    fn key(&self) -> &PublicKey {
        match self {
            Self::Member(member) => &member.ed25519,
            Self::Broker(broker) => &broker.ed25519,
        }
    }

    fn name(&self) -> &str {
        match self {
            Self::Member(member) => &member.name,
            Self::Broker(broker) => &broker.name,
        }
    }

    fn addresses(&self) -> Vec<(&'static str, &Address)> {
        match self {
            Self::Member(member) => {
                let stated = member.addresses().into_iter();
                stated.filter_map(|(key, address)| Some((key, address?))).collect()
            }
            Self::Broker(broker) => vec![("datagram", &broker.datagram)],
        }
    }

    /// The key for multi-signatures and the proof of its possession.
    fn bls(&self) -> Option<(&[u8; 48], &[u8; 96])> {
        match self {
            Self::Member(member) => member.bls.as_ref().zip(member.pop.as_ref()),
            Self::Broker(_) => None,
        }
    }

    fn content(&self) -> Hash {
        let Self::Member(member) = self else {
            let mut hasher = Hasher::new("synod broker card 1");
            hasher.add(self.name().as_bytes());
            for (_, address) in self.addresses() {
                hasher.add(address.to_string().as_bytes());
            }
            hasher.add(&self.key().0);
            return hasher.finish();
        };
        let mut hasher = Hasher::new("synod card 1");
        hasher.add(member.name.as_bytes());
        for (_, address) in member.addresses() {
            hasher.add(address.map(Address::to_string).unwrap_or_default().as_bytes());
        }
        hasher.add(&member.ed25519.0);
        if let Some((bls, pop)) = self.bls() {
            hasher.add(bls);
            hasher.add(pop);
        }
        hasher.finish()
    }
}

impl Card {
    /// Makes the card of a member whose key is `key`. The member's stake is no part of a card: it is the
    /// cluster's to give.
    ///
    /// # Errors
    /// SYN-1105 if the member states another key, SYN-9001 if the system gives no randomness.
    pub fn sign(member: Member, key: &NodeKey) -> Result<Self, SynError> {
        Self::of(Subject::Member(Box::new(member)), key)
    }

    /// Makes the card of a broker whose key is `key`.
    ///
    /// # Errors
    /// Those of [`Self::sign`].
    pub fn sign_broker(broker: Broker, key: &NodeKey) -> Result<Self, SynError> {
        Self::of(Subject::Broker(broker), key)
    }

    fn of(subject: Subject, key: &NodeKey) -> Result<Self, SynError> {
        if *subject.key() != key.public() {
            return Err(refused("the card", "it states another key than the one that signs"));
        }
        let statement = Introduced { content: subject.content() };
        let proof = key.to_keys()?.sign(scope(), NodeId(0), statement).into_inner().signature;
        Ok(Self { subject, proof })
    }

    /// Whom the card introduces.
    #[must_use]
    pub const fn subject(&self) -> &Subject {
        &self.subject
    }

    /// The text of the file.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let stated = self.subject.addresses().into_iter();
        let addresses: Vec<String> = stated.map(|(key, address)| format!("{key} = \"{address}\"")).collect();
        let bls = self.subject.bls().map_or_else(String::new, |(bls, pop)| {
            format!("bls = \"{}\"\npop = \"{}\"\n", hex(bls), hex(pop))
        });
        format!(
            "format = 1\nname = \"{}\"\naddresses = {{ {} }}\ned25519 = \"{}\"\n{bls}proof = \"{}\"\n",
            self.subject.name(),
            addresses.join(", "),
            hex(&self.subject.key().0),
            hex(&self.proof.0),
        )
    }

    /// Reads a card and checks its key and its proof; `file` names it in messages.
    ///
    /// # Errors
    /// SYN-1101 to SYN-1103 for its form, SYN-1105 for a refused key or a wrong proof.
    pub fn parse(file: &str, text: &str) -> Result<Self, SynError> {
        let mut top = Section::top_of_format(file, text, CARD_KEYS, (1, FILE_BYTES_MAX))?;
        let wrong = |leaf: &str| top.refusal(leaf, "not hex");
        let key = PublicKey(from_hex(&top.required("ed25519")?).ok_or_else(|| wrong("ed25519"))?);
        let proof = Signature(from_hex(&top.required("proof")?).ok_or_else(|| wrong("proof"))?);
        let subject = subject(&mut top, key)?;
        check_key(&key).map_err(|bad| refused(file, "its ed25519 key is refused").because(bad))?;
        check_possession(file, &subject)?;
        let statement = Introduced { content: subject.content() };
        let claim = Claim { statement, scope: scope(), signer: NodeId(0), key, signature: proof };
        // Checking one signature uses no secret; these keys sign nothing and stand for nobody.
        let checker = Keys::ed25519(&Seed::new([0; 32]), [0; 32]);
        match claim.verify(&checker) {
            Ok(_) => Ok(Self { subject, proof }),
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

/// Who stands in a card: where a broker's address stands, a broker.
fn subject(top: &mut Section<'_>, key: PublicKey) -> Result<Subject, SynError> {
    let addresses = top.section("addresses", "addresses")?;
    let address =
        |leaf: &str| Ok::<_, SynError>(addresses.text(leaf)?.and_then(|text| Address::parse(&text)));
    let name = top.required("name")?;
    let (peer, datagram) = (address("peer")?, address("datagram")?);
    let (client, http, resp) = (address("client")?, address("http")?, address("resp")?);
    let (bls, pop) = (top.text("bls")?, top.text("pop")?);
    let (peer, datagram) = match (peer, datagram) {
        (Some(peer), None) => (Some(peer), None),
        (None, Some(datagram)) if client.is_none() && http.is_none() && resp.is_none() && bls.is_none() => {
            (None, Some(datagram))
        }
        (None, None) => return Err(addresses.refusal("peer", "missing")),
        _ => return Err(addresses.refusal("datagram", "stated beside what only a member has")),
    };
    if let Some(datagram) = datagram {
        return Ok(Subject::Broker(Broker { name, datagram, ed25519: key }));
    }
    let peer = peer.ok_or_else(|| addresses.refusal("peer", "missing"))?;
    let mut member = Member { client, http, resp, ..Member::new(&name, peer, key) };
    if bls.is_some() != pop.is_some() {
        return Err(top.refusal("bls", "stated without pop, or pop without it"));
    }
    if let (Some(bls), Some(pop)) = (bls, pop) {
        member.bls = Some(from_hex(&bls).ok_or_else(|| top.refusal("bls", "not hex"))?);
        member.pop = Some(from_hex(&pop).ok_or_else(|| top.refusal("pop", "not hex"))?);
    }
    Ok(Subject::Member(Box::new(member)))
}

/// That who made the card has the secret of its key for multi-signatures.
fn check_possession(file: &str, subject: &Subject) -> Result<(), SynError> {
    let Some((bls, pop)) = subject.bls() else { return Ok(()) };
    let checker = super::checker()?;
    let verdicts = checker.bls().register(&[Registration::of_key(*bls, *pop)]);
    for verdict in verdicts {
        verdict.map_err(|bad| refused(file, "its bls key is refused").because(bad))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::Introduced;

    synod_wire::conformance!(Introduced);
}

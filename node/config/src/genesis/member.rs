//! Members and operators.

use crate::address::Address;
use crate::errors::{SynError, code};
use std::collections::BTreeMap;
use synod_crypto::{PublicKey, check_key};

/// One member of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Unique name; labels of metrics and logs.
    pub name: String,
    /// Where the other members connect.
    pub peer: Address,
    /// Where binary clients connect, if stated.
    pub client: Option<Address>,
    /// Where HTTP clients connect, if stated.
    pub http: Option<Address>,
    /// Where RESP clients connect, if stated.
    pub resp: Option<Address>,
    /// Transport identity and signatures.
    pub ed25519: PublicKey,
    /// Key of pairwise tags, if stated.
    pub x25519: Option<[u8; 32]>,
    /// Key of aggregate signatures, if stated.
    pub bls: Option<[u8; 48]>,
    /// Proof of possession of the BLS secret, if stated.
    pub pop: Option<[u8; 96]>,
    /// Voting power, above 0.
    pub stake: u64,
}

impl Member {
    /// A member of stake 1 with an Ed25519 key and a peer address.
    #[must_use]
    pub fn new(name: &str, peer: Address, ed25519: PublicKey) -> Self {
        Self {
            name: name.to_owned(),
            peer,
            client: None,
            http: None,
            resp: None,
            ed25519,
            x25519: None,
            bls: None,
            pop: None,
            stake: 1,
        }
    }

    /// Every address with its name in the file.
    pub(crate) fn addresses(&self) -> [(&'static str, Option<&Address>); 4] {
        [
            ("peer", Some(&self.peer)),
            ("client", self.client.as_ref()),
            ("http", self.http.as_ref()),
            ("resp", self.resp.as_ref()),
        ]
    }
}

/// Somebody whose signature a membership change needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operator {
    /// Unique name.
    pub name: String,
    /// The key that signs.
    pub ed25519: PublicKey,
}

/// The refusal of the members of `file`.
pub(super) fn invalid(file: &str, problem: &str) -> SynError {
    SynError::of(code::GENESIS_INVALID, &[("file", file), ("problem", problem)])
}

/// Values that must be unique, and who holds them.
struct Unique<'a> {
    file: &'a str,
    holders: BTreeMap<String, &'a str>,
}

impl<'a> Unique<'a> {
    fn claim(&mut self, what: &str, value: String, holder: &'a str) -> Result<(), SynError> {
        match self.holders.insert(format!("{what} {value}"), holder) {
            None => Ok(()),
            Some(other) => Err(invalid(self.file, &format!("{other} and {holder} share the {what} {value}"))),
        }
    }
}

/// Checks that names, addresses and keys are distinct, keys sound, ports stated.
pub(super) fn check_members(file: &str, members: &[Member], operators: &[Operator]) -> Result<(), SynError> {
    if members.is_empty() || members.len() > super::MEMBERS_MAX {
        return Err(invalid(file, &format!("{} members; a cluster has 1 to 128", members.len())));
    }
    let mut unique = Unique { file, holders: BTreeMap::new() };
    for member in members {
        unique.claim("name", member.name.clone(), &member.name)?;
        check_public(file, &member.name, &member.ed25519)?;
        unique.claim("key", crate::hex(&member.ed25519.0), &member.name)?;
        for (kind, key) in [
            ("x25519", member.x25519.as_ref().map(<[u8; 32]>::as_slice)),
            ("bls", member.bls.as_ref().map(<[u8; 48]>::as_slice)),
        ] {
            if let Some(key) = key {
                unique.claim(kind, crate::hex(key), &member.name)?;
            }
        }
        if member.bls.is_some() != member.pop.is_some() {
            return Err(invalid(
                file,
                &format!("{} states one of bls and pop without the other", member.name),
            ));
        }
        for (service, address) in member.addresses() {
            let Some(address) = address else { continue };
            if address.port() == 0 {
                return Err(invalid(file, &format!("the {service} address of {} has port 0", member.name)));
            }
            unique.claim("address", address.to_string(), &member.name)?;
        }
    }
    for operator in operators {
        unique.claim("operator name", operator.name.clone(), &operator.name)?;
        check_public(file, &operator.name, &operator.ed25519)?;
        unique.claim("key", crate::hex(&operator.ed25519.0), &operator.name)?;
    }
    Ok(())
}

fn check_public(file: &str, holder: &str, key: &PublicKey) -> Result<(), SynError> {
    check_key(key)
        .map_err(|bad| invalid(file, &format!("the ed25519 key of {holder} is refused")).because(bad))
}

//! C-S10: equal directories, keys of their owners.

use std::collections::{BTreeMap, BTreeSet};

use super::Facts;
use crate::oracle::{Breach, breach};

/// The keys of a client: both, side by side.
pub(super) type Keys = Vec<u8>;

/// The directory, as far as any honest server has it.
#[derive(Clone, Debug, Default)]
pub struct Directories {
    members: Vec<Keys>,
    /// Who has the secret of a key.
    owners: BTreeMap<Vec<u8>, u32>,
    singles: BTreeSet<Vec<u8>>,
}

/// Bytes of the first key.
const FIRST: usize = 48;

impl Directories {
    /// With these owners of pairs of keys: nobody else has any.
    #[must_use]
    pub fn new(pairs: &[(Keys, u32)]) -> Self {
        let mut owners = BTreeMap::new();
        for (keys, owner) in pairs {
            let (first, second) = keys.split_at(FIRST.min(keys.len()));
            owners.insert(first.to_vec(), *owner);
            owners.insert(second.to_vec(), *owner);
        }
        Self { owners, ..Self::default() }
    }

    /// How many members are known.
    #[must_use]
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// An honest server has this member at an id. The node that owns the keys, when it is a new one.
    ///
    /// # Errors
    /// C-S10.
    pub fn member(&mut self, facts: &Facts, id: u32, keys: &[u8]) -> Result<Option<u32>, Breach> {
        let at = usize::try_from(id).unwrap_or(usize::MAX);
        if let Some(known) = self.members.get(at) {
            if known != keys {
                breach("C-S10", format!("two servers have different keys for client {id}"))?;
            }
            return Ok(None);
        }
        if at != self.members.len() {
            breach("C-S10", format!("client {id} follows client {}", self.members.len()))?;
        }
        let (first, second) = keys.split_at(FIRST.min(keys.len()));
        let owners = (self.owners.get(first).copied(), self.owners.get(second).copied());
        let (Some(one), Some(other)) = owners else {
            return breach("C-S10", format!("nobody has a key of client {id}")).map(|()| None);
        };
        // Those who do not keep to the protocol may share what they have.
        if one != other && (facts.honest(one) || facts.honest(other)) {
            breach("C-S10", format!("client {id} has keys of nodes {one} and {other}"))?;
        }
        for key in [first, second] {
            if !self.singles.insert(key.to_vec()) {
                breach("C-S10", format!("a key of client {id} is in the directory twice"))?;
            }
        }
        self.members.push(keys.to_vec());
        Ok(Some(one))
    }
}

//! Which shard a member is in and which number it has there.

use std::ops::Range;

use synod_config::{Genesis, SynError};
use synod_ledger::AccountId;
use synod_machine::host::Place;
use synod_quorum::NodeId;

use crate::error::invalid;

/// A member by its shard and its number there, which the names of its institution's accounts have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seat {
    /// The shard.
    pub shard: u16,
    /// The number in it: that of its lane.
    pub number: u32,
}

impl Seat {
    /// The seat of a member of a genesis.
    #[must_use]
    pub fn of(genesis: &Genesis, member: NodeId) -> Self {
        let (shard, group) = genesis.group(member);
        Self { shard, number: member.0.saturating_sub(group.start) }
    }

    /// The institution of an account.
    #[must_use]
    pub const fn over(account: AccountId) -> Self {
        Self { shard: account.shard, number: account.registrar }
    }

    /// The number of the member in a genesis; `None` where it has none.
    #[must_use]
    pub fn member(self, genesis: &Genesis) -> Option<NodeId> {
        let group = genesis.groups().into_iter().nth(usize::from(self.shard))?;
        let member = group.start.checked_add(self.number)?;
        group.contains(&member).then_some(NodeId(member))
    }

    /// Whether an account is one of its institution.
    #[must_use]
    pub const fn owns(self, account: AccountId) -> bool {
        account.shard == self.shard && account.registrar == self.number
    }

    /// The account that issues its money.
    #[must_use]
    pub const fn issuer(self) -> AccountId {
        AccountId { shard: self.shard, registrar: self.number, local: 1 }
    }

    /// The bits of its accounts' names that are its own: the first 48.
    pub(super) const fn bits(self) -> u64 {
        (self.shard as u64) << 32 | self.number as u64
    }
}

/// The numbers of the members of a shard.
///
/// # Errors
/// SYN-1001 where the genesis has no such shard.
pub(super) fn group(genesis: &Genesis, shard: u16) -> Result<Range<u32>, SynError> {
    let group = genesis.groups().into_iter().nth(usize::from(shard));
    group.ok_or_else(|| invalid(&format!("the genesis has no shard {shard}")))
}

/// Where the shard of a member stands among all members, if there are others.
pub(super) fn place(genesis: &Genesis, member: NodeId) -> Option<Place> {
    let (_, group) = genesis.group(member);
    let is_alone = group.len() == genesis.members().len();
    (!is_alone).then_some(Place { first: group.start, members: group.end.saturating_sub(group.start) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_of_one_number_in_two_shards_are_of_two_institutions() {
        let (one, other) = (Seat { shard: 0, number: 2 }, Seat { shard: 1, number: 2 });
        assert!(one.owns(one.issuer()) && !one.owns(other.issuer()) && !other.owns(one.issuer()));
        assert_eq!((Seat::over(other.issuer()), other.issuer().to_string()), (other, "1-2-1".to_owned()));
        assert_ne!(one.bits(), other.bits());
        let number = AccountId { shard: 1, registrar: 2, local: 77 }.number();
        assert_eq!(u64::try_from(number >> 80), Ok(other.bits()));
    }
}

//! Who takes part: ids, keys, and the roster of an epoch.

use core::fmt;
use std::collections::BTreeMap;

use synod_wire::wire;

use crate::{MEMBERS_MAX, NodeSet, Weights};

/// A node as its process names it: own members are `0..128`, other values name members of linked clusters and
/// guests and are local to the process. Node ids never travel; statements name members by (epoch, u8).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct NodeId(pub u32);

impl NodeId {
    /// The first id that is no member: guests and linked clusters.
    pub const GUESTS: Self = Self(MEMBERS_MAX);

    /// Whether this id can name an own member.
    #[must_use]
    pub const fn is_member(self) -> bool {
        self.0 < MEMBERS_MAX
    }

    /// The member index as statements name it, or `None` for a guest.
    #[must_use]
    pub fn member(self) -> Option<u8> {
        u8::try_from(self.0).ok().filter(|&m| u32::from(m) < MEMBERS_MAX)
    }
}

impl From<u8> for NodeId {
    fn from(member: u8) -> Self {
        Self(u32::from(member))
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_member() { write!(f, "n{}", self.0) } else { write!(f, "guest{}", self.0) }
    }
}

wire! {
    /// A configuration of members; certificates hold within one.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
    pub struct Epoch(pub u32);

    /// The bytes of an Ed25519 verification key. A name; whether it is a sound key is checked at registration.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct PublicKey(pub [u8; 32]);
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in self.0.iter().take(4) {
            write!(f, "{byte:02x}")?;
        }
        f.write_str("..")
    }
}

/// One member of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Signs this member's statements and is its transport identity.
    pub key: PublicKey,
    /// Voting power, above 0.
    pub power: u64,
}

/// The members of one epoch, in member order, with their power. A number whose member left is a hole: nobody has it again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roster {
    epoch: Epoch,
    members: Vec<Member>,
    all: NodeSet,
    weights: Weights,
}

/// Why a list of members is no roster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RosterError {
    /// No member, or more than [`MEMBERS_MAX`].
    Size(usize),
    /// Two members share a key.
    SharedKey(u8, u8),
    /// A member has no power, or the sum reaches 2^63.
    Power,
}

impl fmt::Display for RosterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Size(n) => write!(f, "{n} members; a cluster has 1 to {MEMBERS_MAX}"),
            Self::SharedKey(a, b) => write!(f, "members {a} and {b} share a key"),
            Self::Power => f.write_str("each member needs power above 0 and all together below 2^63"),
        }
    }
}

impl core::error::Error for RosterError {}

/// The first two members of one key.
fn shared_key<'a>(members: impl Iterator<Item = (u8, &'a Member)> + Clone) -> Option<RosterError> {
    let mut rest = members;
    while let Some((number, member)) = rest.next() {
        if let Some((other, _)) = rest.clone().find(|(_, other)| other.key == member.key) {
            return Some(RosterError::SharedKey(number, other));
        }
    }
    None
}

impl Roster {
    /// Checks and keeps the members of `epoch`.
    ///
    /// # Errors
    /// [`RosterError`] names the member or sum that is wrong.
    pub fn new(epoch: Epoch, members: Vec<Member>) -> Result<Self, RosterError> {
        if let Some(shared) = shared_key((0_u8..).zip(&members)) {
            return Err(shared);
        }
        let size = members.len();
        let weights = Weights::new(members.iter().map(|m| m.power).collect()).ok_or(RosterError::Power);
        match u32::try_from(size) {
            Ok(count @ 1..=MEMBERS_MAX) => {
                Ok(Self { epoch, members, all: NodeSet::first(count), weights: weights? })
            }
            _ => Err(RosterError::Size(size)),
        }
    }

    /// The same of members by their numbers, not all of which need a member.
    ///
    /// # Errors
    /// See there; a number that no member can have counts as one too many.
    pub fn with_holes(epoch: Epoch, members: &BTreeMap<u8, Member>) -> Result<Self, RosterError> {
        if let Some(shared) = shared_key(members.iter().map(|(number, member)| (*number, member))) {
            return Err(shared);
        }
        let all: NodeSet = members.keys().map(|number| NodeId::from(*number)).collect();
        let is_full = usize::try_from(all.count()) != Ok(members.len());
        let Some(last) = members.keys().last().filter(|_| !is_full) else {
            return Err(RosterError::Size(members.len()));
        };
        let power = |number: u8| members.get(&number).map_or(0, |member| member.power);
        let weights = Weights::with_holes((0..=*last).map(power).collect());
        let has_power = members.values().all(|member| member.power > 0);
        let weights = weights.filter(|_| has_power).ok_or(RosterError::Power)?;
        Ok(Self { epoch, members: members.values().copied().collect(), all, weights })
    }

    /// The epoch these members act in.
    #[must_use]
    pub const fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Number of members.
    #[must_use]
    pub const fn size(&self) -> u32 {
        self.weights.size()
    }

    /// The member `id`, if there is one.
    #[must_use]
    pub fn member(&self, id: NodeId) -> Option<&Member> {
        if !self.all.contains(id) {
            return None;
        }
        let below = self.all.and(NodeSet::first(id.0)).count();
        self.members.get(usize::try_from(below).ok()?)
    }

    /// The member that holds `key`.
    #[must_use]
    pub fn holder(&self, key: &PublicKey) -> Option<NodeId> {
        self.all.iter().zip(&self.members).find(|(_, m)| m.key == *key).map(|(id, _)| id)
    }

    /// All member ids.
    #[must_use]
    pub const fn all(&self) -> NodeSet {
        self.all
    }

    /// Every member but `id`.
    #[must_use]
    pub const fn others(&self, id: NodeId) -> NodeSet {
        self.all().without(id)
    }

    /// Power and thresholds.
    #[must_use]
    pub const fn weights(&self) -> &Weights {
        &self.weights
    }

    /// The members in order.
    #[must_use]
    pub fn members(&self) -> &[Member] {
        &self.members
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(numbers: &[u8]) -> BTreeMap<u8, Member> {
        numbers
            .iter()
            .map(|number| (*number, Member { key: PublicKey([number + 1; 32]), power: 1 }))
            .collect()
    }

    #[test]
    fn a_number_whose_member_left_is_nobody_s_and_thresholds_count_who_is_there() {
        let roster = Roster::with_holes(Epoch(2), &members(&[0, 2, 3, 5])).expect("four members");
        assert_eq!(roster.all(), [0, 2, 3, 5].map(NodeId).into_iter().collect());
        assert_eq!((roster.size(), roster.weights().intersecting()), (4, 3));
        for number in 0..8 {
            let key = roster.member(NodeId(number)).map(|member| member.key);
            let is_there = [0, 2, 3, 5].contains(&number);
            assert_eq!(key, is_there.then(|| PublicKey([u8::try_from(number).expect("few") + 1; 32])));
            assert_eq!(roster.weights().power(NodeId(number)), u64::from(is_there));
        }
        assert_eq!(roster.holder(&PublicKey([6; 32])), Some(NodeId(5)));
        assert_eq!(roster.holder(&PublicKey([2; 32])), None);
    }

    #[test]
    fn members_without_holes_make_one_roster_either_way() {
        let dense = Roster::new(Epoch(1), members(&[0, 1, 2]).into_values().collect());
        assert_eq!(Roster::with_holes(Epoch(1), &members(&[0, 1, 2])), dense);
    }

    #[test]
    fn nobody_a_shared_key_and_no_power_make_no_roster() {
        assert_eq!(Roster::with_holes(Epoch(1), &members(&[])), Err(RosterError::Size(0)));
        assert_eq!(Roster::with_holes(Epoch(1), &members(&[1, 128])), Err(RosterError::Size(2)));
        let mut shared = members(&[1, 4]);
        shared.insert(6, Member { key: PublicKey([2; 32]), power: 1 });
        assert_eq!(Roster::with_holes(Epoch(1), &shared), Err(RosterError::SharedKey(1, 6)));
        let mut idle = members(&[1, 4]);
        idle.insert(6, Member { key: PublicKey([9; 32]), power: 0 });
        assert_eq!(Roster::with_holes(Epoch(1), &idle), Err(RosterError::Power));
    }
}

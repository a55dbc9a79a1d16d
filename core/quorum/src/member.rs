//! Who takes part: ids, keys, and the roster of an epoch.

use core::fmt;

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

/// The members of one epoch, in member order, with their power.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roster {
    epoch: Epoch,
    members: Vec<Member>,
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

impl Roster {
    /// Checks and keeps the members of `epoch`.
    ///
    /// # Errors
    /// [`RosterError`] names the member or sum that is wrong.
    pub fn new(epoch: Epoch, members: Vec<Member>) -> Result<Self, RosterError> {
        for (at, member) in (0_u8..).zip(&members) {
            if let Some((other, _)) = (0_u8..at).zip(&members).find(|(_, m)| m.key == member.key) {
                return Err(RosterError::SharedKey(other, at));
            }
        }
        let size = members.len();
        let weights = Weights::new(members.iter().map(|m| m.power).collect()).ok_or(RosterError::Power);
        match u32::try_from(size) {
            Ok(1..=MEMBERS_MAX) => Ok(Self { epoch, members, weights: weights? }),
            _ => Err(RosterError::Size(size)),
        }
    }

    /// The epoch these members act in.
    #[must_use]
    pub const fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Number of members.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.weights.size()
    }

    /// The member `id`, if there is one.
    #[must_use]
    pub fn member(&self, id: NodeId) -> Option<&Member> {
        self.members.get(usize::try_from(id.0).ok()?)
    }

    /// The member that holds `key`.
    #[must_use]
    pub fn holder(&self, key: &PublicKey) -> Option<NodeId> {
        (0_u32..).map(NodeId).zip(&self.members).find(|(_, m)| m.key == *key).map(|(id, _)| id)
    }

    /// All member ids.
    #[must_use]
    pub fn all(&self) -> NodeSet {
        NodeSet::first(self.size())
    }

    /// Every member but `id`.
    #[must_use]
    pub fn others(&self, id: NodeId) -> NodeSet {
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

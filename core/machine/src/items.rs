//! What payloads of broadcasts have in common: slots as they travel, items and exceptions, and the view whose members sign.

use core::any::Any;
use std::sync::Arc;

use synod_crypto::{Claim, Hash, Scope, Signature};
use synod_quorum::{NodeId, Roster};
use synod_wire::{Bytes, Draw, Drawn, List, Malformed, Reader, Why, Wire, Writer, wire};

use crate::broadcast::Slot;

/// Most items of a payload: what a list of exceptions can name.
pub const ITEMS_MAX: usize = 16_384;
/// The index that says: whether the items are authorized was not looked at.
pub const UNCHECKED: u32 = u32::MAX;
/// Longest payload: what a frame of a proposal carries beside a few numbers.
pub const PAYLOAD_MAX: u32 = (4 << 20) - 64;

/// Indexes of items that a member does not endorse, strictly rising.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Except(List<u32, ITEMS_MAX>);

impl Except {
    /// Keeps indexes; `None` unless they rise and are at most [`ITEMS_MAX`].
    #[must_use]
    pub fn new(items: Vec<u32>) -> Option<Self> {
        let rises = items.is_sorted_by(|one, next| one < next);
        List::try_from(items).ok().filter(|_| rises).map(Self)
    }

    /// The indexes.
    #[must_use]
    pub fn items(&self) -> &[u32] {
        &self.0
    }

    /// Whether every index here is there as well.
    #[must_use]
    pub fn within(&self, other: &Self) -> bool {
        self.items().iter().all(|item| other.items().binary_search(item).is_ok())
    }

    /// What stands for the list in a statement.
    #[must_use]
    pub fn digest(&self) -> Hash {
        if self.items().is_empty() { Hash::ZERO } else { Hash::of_value("synod broadcast exceptions", self) }
    }
}

impl Wire for Except {
    fn write(&self, out: &mut Writer) {
        self.0.write(out);
    }

    fn read(input: &mut Reader) -> Result<Self, Malformed> {
        let refusal = input.refuse(Why::NotCanonical);
        let items: List<u32, ITEMS_MAX> = List::read(input)?;
        Self::new(items.into_vec()).ok_or(refusal)
    }

    fn size_hint(&self) -> usize {
        self.0.size_hint()
    }
}

impl Draw for Except {
    fn draw(from: &mut Drawn) -> Self {
        let items: List<u32, 24> = List::draw(from);
        let mut items = items.into_vec();
        items.sort_unstable();
        items.dedup();
        Self::new(items).unwrap_or_default()
    }
}

wire! {
    /// Where broadcasts are good, beside cluster and epoch: one shard, one view of its members.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Context {
        /// The shard.
        pub shard: u16,
        /// Digest of the view, whose number is the epoch.
        pub view: Hash,
    }

    /// A slot as members write it: node ids do not travel.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub struct Lot {
        /// Whose.
        pub source: u8,
        /// 1, 2, 3, ...
        pub sequence: u64,
    }
}

impl From<Lot> for Slot {
    fn from(lot: Lot) -> Self {
        Self { source: NodeId(u32::from(lot.source)), sequence: lot.sequence }
    }
}

impl TryFrom<Slot> for Lot {
    type Error = core::num::TryFromIntError;

    /// Refuses whoever is no member.
    fn try_from(slot: Slot) -> Result<Self, Self::Error> {
        Ok(Self { source: u8::try_from(slot.source.0)?, sequence: slot.sequence })
    }
}

/// Who may sign what: a view of a shard of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// Digest of the genesis.
    pub cluster: Hash,
    /// The members, and the number of the view.
    pub roster: Arc<Roster>,
    /// The shard, and the digest of the view.
    pub context: Context,
}

impl View {
    /// Where statements of this view are good.
    #[must_use]
    pub fn scope(&self) -> Scope {
        Scope { cluster: self.cluster, epoch: self.roster.epoch() }
    }

    /// A statement that a member is said to have signed; `None` for whoever is none.
    #[must_use]
    pub fn claim<S>(&self, signer: NodeId, statement: S, signature: Signature) -> Option<Claim<S>> {
        let key = self.roster.member(signer)?.key;
        Some(Claim { statement, scope: self.scope(), signer, key, signature })
    }
}

/// What a user's [`Items`] read of a payload; of use to that user alone, who knows its type.
#[derive(Clone)]
pub struct Read(pub Arc<dyn Any + Send + Sync>);

/// One thing that was read is the same as itself alone.
impl PartialEq for Read {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Read {}

impl core::fmt::Debug for Read {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Read")
    }
}

/// What only the user of payloads knows of them.
pub trait Items: Clone {
    /// What stands for a payload in statements: it commits to all of it, so that parts can be proved under it. `None` for what
    /// is no payload.
    fn digest(payload: &Bytes) -> Option<Hash>;
    /// The same, with what was read of it on the way, for the user who would read it again ([`crate::broadcast::ReliableBroadcast::read`]).
    fn read(payload: &Bytes) -> Option<(Hash, Option<Read>)> {
        Self::digest(payload).map(|digest| (digest, None))
    }
    /// Whether a member may except these items of a payload.
    fn may_except(payload: &Bytes, items: &[u32]) -> bool;
}

/// Payloads whose items stand alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Independent;

impl Items for Independent {
    fn digest(payload: &Bytes) -> Option<Hash> {
        Some(Hash::of(payload))
    }

    fn may_except(_: &Bytes, _: &[u32]) -> bool {
        true
    }
}

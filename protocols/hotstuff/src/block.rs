//! Blocks: a signed header, and a body that the header binds by root, size and count.

use synod_crypto::{Hash, merkle};
use synod_machine::{Wall, planted};
use synod_quorum::{Epoch, NodeId};
use synod_wire::{Blob, Bytes, Limits, List, Wire, wire};

use crate::{Kind, Qc, Tc, View};

/// Longest encoded body, in bytes: half of the largest proposal frame.
pub(crate) const BODY_MAX: usize = 2 << 20;
/// Most items of a block, whatever the configuration says.
pub(crate) const ITEMS_MAX: usize = 65_536;
/// Bytes that an item costs beyond its payload: its id and its length.
pub(crate) const ITEM_OVERHEAD: usize = 36;
/// Bytes of zero that the id of an empty item begins with.
const EMPTY_ZEROS: usize = 16;

wire! {
    /// What a header remembers about one member as a leader.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Standing {
        /// The member.
        pub member: u8,
        /// Terms it gave up since its last block or bench; at two it is benched.
        pub strikes: u8,
        /// How often it was benched.
        pub benchings: u8,
        /// The first term it may lead again.
        pub until: u64,
    }

    /// What is agreed about a block: everything but its items.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Header {
        /// The epoch.
        pub epoch: Epoch,
        /// The view it was proposed in.
        pub view: View,
        /// The parent's height plus one.
        pub height: u64,
        /// Digest of the block that `justify` certifies.
        pub parent: Hash,
        /// Certificate of the parent.
        pub justify: Qc,
        /// Why `justify` is not of the view before, if it is not.
        pub tc: Option<Tc>,
        /// Merkle root over the item ids.
        pub root: Hash,
        /// Length of the encoded body in bytes.
        pub bytes: u32,
        /// Number of items.
        pub count: u32,
        /// Who proposed it.
        pub proposer: u8,
        /// Agreed time.
        pub time: Wall,
        /// Reputation of members with a record, in member order.
        pub list: List<Standing, 128>,
    }

    /// One submitted payload, or an empty item of this layer.
    ///
    /// The id is the digest of the payload. That of an empty item begins with sixteen bytes of zero, as no digest does
    /// that anybody can find a payload for. So an id says what is under it, and a root, which is made of ids, has one
    /// body.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Item {
        /// Digest of the payload, or the name of an empty item.
        pub id: Hash,
        /// What was submitted.
        pub payload: Blob<BODY_MAX>,
    }
}

impl Header {
    /// The block every chain begins with.
    #[must_use]
    pub fn genesis(epoch: Epoch, kind: Kind) -> Self {
        let justify = Qc::empty(epoch, kind, Hash::ZERO);
        Self {
            epoch,
            view: View::GENESIS,
            height: 0,
            parent: Hash::ZERO,
            justify,
            tc: None,
            root: Body::empty().root,
            bytes: 0,
            count: 0,
            proposer: 0,
            time: Wall(0),
            list: List::default(),
        }
    }

    /// The digest by which certificates and children name this block.
    #[must_use]
    pub fn digest(&self) -> Hash {
        Hash::of_value("synod hotstuff header", self)
    }

    /// Who proposed it.
    #[must_use]
    pub fn proposer(&self) -> NodeId {
        NodeId::from(self.proposer)
    }

    /// Whether it carries no item.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes held, for memory accounting.
    #[must_use]
    pub fn memory(&self) -> u64 {
        256 + self.justify.memory() + self.tc.as_ref().map_or(0, Tc::memory) + 16 * self.list.len() as u64
    }
}

impl Item {
    /// An item around a payload that is not empty.
    ///
    /// `None` when the payload is empty or longer than any body.
    #[must_use]
    pub fn new(payload: Bytes) -> Option<Self> {
        let id = Hash::of(&payload);
        let payload = Blob::try_from(payload).ok().filter(|p| !p.is_empty())?;
        Some(Self { id, payload })
    }

    /// The `counter`-th empty item of `member`: its id holds both, behind the zeros.
    #[must_use]
    pub fn empty(member: NodeId, counter: u64) -> Self {
        let named = u128::from(member.0) << 64 | u128::from(counter);
        let mut id = Hash::ZERO;
        for (at, byte) in id.0.iter_mut().skip(EMPTY_ZEROS).zip(named.to_be_bytes()) {
            *at = byte;
        }
        Self { id, payload: Blob::default() }
    }

    /// Whether `id` is that of an empty item.
    #[must_use]
    pub fn names_empty(id: &Hash) -> bool {
        id.0.iter().take(EMPTY_ZEROS).all(|byte| *byte == 0)
    }

    /// Whether the id belongs to the payload.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        match self.payload.is_empty() {
            true => Self::names_empty(&self.id) || planted!(H31),
            false => self.id == Hash::of(&self.payload),
        }
    }

    /// The same item with memory of its own. A payload is a part of the frame it came in and keeps all of it: a pool
    /// of small items cut from large frames would hold far more than it counts.
    #[must_use]
    pub fn detached(self) -> Self {
        let own = Bytes::copy_from_slice(&self.payload);
        match Blob::try_from(own) {
            Ok(payload) => Self { id: self.id, payload },
            Err(_) => unreachable!("a copy is as long as what it copies"),
        }
    }

    /// Bytes the item costs in a body, at most.
    #[must_use]
    pub fn cost(&self) -> usize {
        self.payload.len() + ITEM_OVERHEAD
    }
}

/// Why a body is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadBody {
    /// The bytes are no list of items.
    Undecodable,
    /// An id is not the digest of its payload.
    Id,
    /// An id stands twice.
    Repeated,
    /// The items do not have the root they were sent under.
    Root,
}

/// The items of a block, checked, with the bytes they came in.
#[derive(Clone, Debug)]
pub struct Body {
    /// Merkle root over the item ids.
    pub root: Hash,
    /// Digest of `bytes`: the name of the blob.
    pub name: Hash,
    /// The canonical encoding, shared with the frame it came in.
    pub bytes: Bytes,
    /// The items; payloads share `bytes`.
    pub items: Vec<Item>,
    /// The item ids in rising order.
    ids: Vec<Hash>,
}

impl Body {
    /// The body without items.
    #[must_use]
    pub fn empty() -> Self {
        Self::seal(Vec::new(), Bytes::new())
    }

    /// Encodes `items` once and computes root and name.
    #[must_use]
    pub fn pack(items: Vec<Item>) -> Self {
        match List::<Item, ITEMS_MAX>::try_from(items) {
            Ok(list) => {
                let bytes = list.encode();
                Self::seal(list.into_vec(), bytes)
            }
            Err(_) => unreachable!("the batcher respects the item cap"),
        }
    }

    /// Decodes and checks a body that was sent under `root`.
    ///
    /// # Errors
    /// `BadBody` names the rule it breaks.
    pub fn open(root: Hash, bytes: Bytes) -> Result<Self, BadBody> {
        let limits = Limits { frame_max: 4 << 20 };
        let list =
            List::<Item, ITEMS_MAX>::decode(bytes.clone(), &limits).map_err(|_| BadBody::Undecodable)?;
        if !list.iter().all(Item::is_sound) {
            return Err(BadBody::Id);
        }
        let body = Self::seal(list.into_vec(), bytes);
        let repeated = body.ids.windows(2).any(|pair| pair.first() == pair.last());
        match (repeated, body.root == root) {
            (true, _) => Err(BadBody::Repeated),
            (_, false) => Err(BadBody::Root),
            (false, true) => Ok(body),
        }
    }

    fn seal(items: Vec<Item>, bytes: Bytes) -> Self {
        let root = merkle::Tree::new(items.iter().map(|item| merkle::leaf(&item.id.0)).collect()).root();
        let mut ids: Vec<Hash> = items.iter().map(|item| item.id).collect();
        ids.sort_unstable();
        Self { root, name: Hash::of(&bytes), bytes, items, ids }
    }

    /// Whether it holds an item of this id.
    #[must_use]
    pub fn contains(&self, id: &Hash) -> bool {
        self.ids.binary_search(id).is_ok()
    }

    /// Whether no item stands in both.
    #[must_use]
    pub fn is_disjoint(&self, other: &Self) -> bool {
        let (small, large) = if self.ids.len() <= other.ids.len() { (self, other) } else { (other, self) };
        !small.ids.iter().any(|id| large.contains(id))
    }

    /// Whether `header` binds this body.
    #[must_use]
    pub fn fits(&self, header: &Header) -> bool {
        let (bytes, count) =
            if self.items.is_empty() { (0, 0) } else { (self.bytes.len(), self.items.len()) };
        self.root == header.root
            && u32::try_from(bytes) == Ok(header.bytes)
            && u32::try_from(count) == Ok(header.count)
    }

    /// The siblings that prove item `index` under the root.
    #[must_use]
    pub fn path(&self, index: u32) -> Option<Vec<Hash>> {
        merkle::Tree::new(self.items.iter().map(|item| merkle::leaf(&item.id.0)).collect()).path(index)
    }

    /// Bytes held, for memory accounting.
    #[must_use]
    pub fn memory(&self) -> u64 {
        self.bytes.len() as u64 + 128 * self.items.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::{BadBody, Body, Item};
    use synod_crypto::Hash;
    use synod_quorum::NodeId;
    use synod_wire::{Blob, Bytes};

    fn items(names: &[&'static str]) -> Vec<Item> {
        names.iter().map(|n| Item::new(Bytes::from_static(n.as_bytes())).expect("not empty")).collect()
    }

    #[test]
    fn what_a_body_holds_is_counted_with_what_its_items_take() {
        let (one, three) = (Body::pack(items(&["a"])), Body::pack(items(&["a", "b", "c"])));
        let least = |body: &Body| (body.bytes.len() + body.items.len() * size_of::<Item>()) as u64;
        assert!(
            one.memory() >= least(&one) && three.memory() >= least(&three),
            "a bound that is too low bounds nothing"
        );
        assert!(three.memory() <= 8 * least(&three), "nor does one that is far too high");
    }

    #[test]
    fn a_body_comes_back_from_its_bytes_and_root() {
        let body = Body::pack(items(&["a", "b", "c"]));
        let again = Body::open(body.root, body.bytes.clone()).expect("it is its own body");
        assert_eq!((again.items.len(), again.name), (3, body.name));
        assert!(again.contains(&Hash::of(b"b")) && !again.contains(&Hash::of(b"d")));
    }

    #[test]
    fn another_root_a_wrong_id_and_a_repeated_item_are_refused() {
        let body = Body::pack(items(&["a", "b"]));
        assert_eq!(Body::open(Hash::ZERO, body.bytes).map(|b| b.root), Err(BadBody::Root));
        let forged =
            Item { id: Hash::of(b"x"), payload: Blob::try_from(Bytes::from_static(b"y")).expect("short") };
        let body = Body::pack(vec![forged]);
        assert_eq!(Body::open(body.root, body.bytes).map(|b| b.root), Err(BadBody::Id));
        let body = Body::pack(items(&["a", "a"]));
        assert_eq!(Body::open(body.root, body.bytes).map(|b| b.root), Err(BadBody::Repeated));
        assert_eq!(
            Body::open(Hash::ZERO, Bytes::from_static(&[7])).map(|b| b.root),
            Err(BadBody::Undecodable)
        );
    }

    #[test]
    fn bodies_that_share_an_item_are_not_disjoint() {
        let (left, right) = (Body::pack(items(&["a", "b"])), Body::pack(items(&["b", "c", "d"])));
        assert!(!left.is_disjoint(&right) && left.is_disjoint(&Body::pack(items(&["e"]))));
    }

    #[test]
    fn empty_items_have_names_of_their_own() {
        let (a, b) = (Item::empty(NodeId(1), 0), Item::empty(NodeId(1), 1));
        assert!(a.id != b.id && a.is_sound() && Item::new(Bytes::new()).is_none());
        assert!(Item::empty(NodeId(1), u64::MAX).id != Item::empty(NodeId(2), u64::MAX).id);
    }

    #[test]
    fn a_root_has_one_body_for_no_item_under_a_payloads_name_is_empty() {
        let [one, two] = [Bytes::from_static(b"pay Ann"), Bytes::from_static(b"pay Bob")]
            .map(|payload| Item::new(payload).expect("not empty"));
        let blank = |item: &Item| Item { payload: Blob::default(), ..item.clone() };
        // The same ids, as many bytes, as many items: a header cannot tell these from each other.
        let bodies = [vec![one.clone(), blank(&two)], vec![blank(&one), two.clone()]].map(Body::pack);
        assert_eq!((bodies[0].root, bodies[0].bytes.len()), (bodies[1].root, bodies[1].bytes.len()));
        for body in bodies {
            assert_eq!(Body::open(body.root, body.bytes).map(|b| b.root), Err(BadBody::Id));
        }
        let whole = Body::pack(vec![one, two, Item::empty(NodeId(3), 7)]);
        assert!(Body::open(whole.root, whole.bytes).is_ok());
    }

    #[test]
    fn a_payload_under_the_name_of_an_empty_item_is_refused() {
        let payload = Blob::try_from(Bytes::from_static(b"y")).expect("short");
        let body = Body::pack(vec![Item { payload, ..Item::empty(NodeId(1), 0) }]);
        assert_eq!(Body::open(body.root, body.bytes).map(|b| b.root), Err(BadBody::Id));
    }
}

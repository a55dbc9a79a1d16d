//! A batch from its closing until it is forgotten.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use synod_crypto::bls::BlsSignature;
use synod_crypto::{Hash, Signature};
use synod_machine::{Span, Time};
use synod_quorum::{NodeId, NodeSet};
use synod_wire::Bytes;

use super::flow::{Telling, Told};

use crate::batch::OwnedEntry;
use crate::card::Card;
use crate::certificate::Aggregate;
use crate::columns::Entry;
use crate::content::AnyBatch;
use crate::dedup::Exceptions;
use crate::item::Item;
use crate::message::{ExceptionProof, Verdict};
use crate::statement::{BlsShareBytes, Delivered, Witness};
use crate::tree::{EntryTree, Tree, TreeShape};

/// The last two links that carried a submission, the newest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Carriers([Option<NodeId>; 2]);

impl Carriers {
    pub(super) const fn of(link: NodeId) -> Self {
        Self([Some(link), None])
    }

    pub(super) fn add(&mut self, link: NodeId) {
        if !self.has(link) {
            self.0 = [Some(link), self.0[0]];
        }
    }

    pub(super) fn has(&self, link: NodeId) -> bool {
        self.0[0] == Some(link) || self.0[1] == Some(link)
    }

    /// Those that `others` has not.
    pub(super) fn without(self, others: Self) -> Self {
        Self(self.0.map(|link| link.filter(|link| !others.has(*link))))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = NodeId> + use<> {
        self.0.into_iter().flatten()
    }
}

/// A submission whose signature was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Admitted {
    pub(super) id: u32,
    pub(super) k0: u64,
    pub(super) message: Bytes,
    pub(super) parity: bool,
    pub(super) t: Signature,
    pub(super) carriers: Carriers,
}

impl Admitted {
    /// Whether `other` is a retransmission of it.
    pub(super) fn is_same(&self, k0: u64, message: &[u8], parity: bool) -> bool {
        self.k0 == k0 && self.parity == parity && self.message[..] == *message
    }

    pub(super) fn as_entry(&self) -> Entry<'_> {
        Entry { id: self.id, message: &self.message, parity: self.parity }
    }

    pub(super) fn entry(&self) -> OwnedEntry {
        OwnedEntry { id: self.id, message: self.message.clone(), parity: self.parity }
    }
}

/// One entry of a batch.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    pub(super) admitted: Admitted,
    /// Links whose share was taken, whatever it is worth.
    pub(super) heard: Carriers,
    /// The link whose share on the curve came first, and another whose share came too.
    pub(super) sent: [Option<NodeId>; 2],
    /// Whether its share is in the aggregate.
    pub(super) signs: bool,
    /// Links on which the delivery was acknowledged.
    pub(super) acknowledged: Carriers,
    /// When it was shown its place.
    pub(super) shown: Told,
    /// When it was sent its delivery.
    pub(super) delivered: Told,
}

impl Slot {
    /// The place of a submission in a batch that nobody saw yet.
    pub(super) fn new(admitted: Admitted) -> Self {
        Self {
            admitted,
            heard: Carriers::default(),
            sent: [None; 2],
            signs: false,
            acknowledged: Carriers::default(),
            shown: Told::default(),
            delivered: Told::default(),
        }
    }

    /// Whether every link that carried the submission has the delivery.
    pub(super) fn is_answered(&self) -> bool {
        self.admitted.carriers.iter().all(|link| self.acknowledged.has(link))
    }

    /// Whether every link that carried the submission sent a share. One is not enough: a liar that relayed it could be first.
    pub(super) fn is_complete(&self) -> bool {
        self.admitted.carriers.iter().all(|link| self.heard.has(link))
    }
}

/// The shares of one entry, which nobody needs any more once they were searched.
#[derive(Clone, Debug, Default)]
pub(super) struct Shares {
    /// The first on the curve.
    pub(super) first: Option<BlsSignature>,
    /// That of another link.
    pub(super) other: Option<Box<BlsSignature>>,
}

/// Which links carry which slots, with some that they carried before.
#[derive(Clone, Debug)]
pub(super) struct Carried {
    /// Those of the beginning, in order.
    first: Vec<(NodeId, u32)>,
    /// Those that came since.
    since: BTreeSet<(NodeId, u32)>,
}

impl Carried {
    fn of(slots: &[Slot]) -> Self {
        let each = |(index, slot): (u32, &Slot)| slot.admitted.carriers.iter().map(move |link| (link, index));
        let mut first: Vec<(NodeId, u32)> = (0_u32..).zip(slots).flat_map(each).collect();
        first.sort_unstable();
        Self { first, since: BTreeSet::new() }
    }

    fn insert(&mut self, carries: (NodeId, u32)) {
        if self.first.binary_search(&carries).is_err() {
            self.since.insert(carries);
        }
    }

    fn remove(&mut self, carried: (NodeId, u32)) {
        self.since.remove(&carried);
    }

    fn by(&self, link: NodeId) -> impl Iterator<Item = u32> {
        let from = self.first.partition_point(|(other, _)| *other < link);
        let first = self.first.iter().skip(from).take_while(move |(other, _)| *other == link);
        first.chain(self.since.range((link, 0)..=(link, u32::MAX))).map(|(_, index)| *index)
    }
}

/// What a batch of messages has beyond its seal.
#[derive(Clone, Debug)]
pub(super) struct Messages {
    pub(super) k: u64,
    pub(super) shape: TreeShape,
    /// Bytes of all messages.
    pub(super) payload: u64,
    /// By rising id.
    pub(super) slots: Vec<Slot>,
    /// The shares of each slot, from the first that was read until all are searched.
    pub(super) shares: Vec<Shares>,
    /// Which links carry which slots, from the first acknowledgement on: most clients answer with their next message.
    pub(super) carried: Option<Carried>,
    /// Whether it is offered for multi-signing.
    pub(super) offered: bool,
    pub(super) tree: Option<Arc<EntryTree>>,
    pub(super) commit: Hash,
    /// Shares that wait for a job to read them.
    pub(super) unread: Vec<(u32, NodeId, Box<BlsShareBytes>)>,
    /// Jobs that read shares.
    pub(super) reading: u32,
    /// Slots that a link could still send a share for.
    pub(super) silent: u32,
    /// Slots in [`Messages::silent`] when it was last looked whether to wait on.
    pub(super) silent_before: u32,
    /// The longest that one of the first 99 of 100 took to answer, and how many answered too late.
    pub(super) slowest: Span,
    pub(super) late: u32,
    /// Whether no more shares are awaited.
    pub(super) over: bool,
    /// How far clients were shown their places.
    pub(super) places: Telling,
    /// How far they were sent their deliveries.
    pub(super) deliveries: Telling,
    /// The aggregate of those that sign.
    pub(super) aggregate: Option<crate::statement::BlsSignatureBytes>,
}

impl Messages {
    pub(super) fn index_of(&self, id: u32) -> Option<u32> {
        let at = self.slots.binary_search_by_key(&id, |slot| slot.admitted.id).ok()?;
        u32::try_from(at).ok()
    }

    /// One answered in time, after so long.
    pub(super) fn answered(&mut self, took: Span) {
        if u64::from(self.silent) * 100 >= u64::from(self.shape.count) {
            self.slowest = self.slowest.max(took);
        }
    }

    /// One answered too late; whether these are more than the one of 100 that is not waited for.
    pub(super) fn answered_late(&mut self) -> bool {
        self.late = self.late.saturating_add(1);
        u64::from(self.late) * 100 >= u64::from(self.shape.count)
    }

    /// Nobody is shown a place any more; how many answers were waited for.
    pub(super) fn end_places(&mut self) -> u32 {
        for slot in &mut self.slots {
            (slot.shown.waits, slot.shown.again) = (false, false);
        }
        self.places.next = self.shape.count;
        self.places.again.clear();
        core::mem::take(&mut self.places.waiting)
    }

    pub(super) fn slot_mut(&mut self, index: u32) -> Option<&mut Slot> {
        self.slots.get_mut(index as usize)
    }

    /// A client speaks through this link now.
    pub(super) fn carry(&mut self, index: u32, link: NodeId) {
        let Some(slot) = self.slots.get_mut(index as usize) else { return };
        if slot.admitted.carriers.has(link) {
            return;
        }
        let old = slot.admitted.carriers;
        self.silent += u32::from(slot.is_complete());
        slot.admitted.carriers.add(link);
        let gone = old.without(slot.admitted.carriers);
        if let Some(carried) = &mut self.carried {
            gone.iter().for_each(|gone| carried.remove((gone, index)));
            carried.insert((link, index));
        }
    }

    /// The slots that a link carries, by rising index.
    pub(super) fn carried_by(&mut self, link: NodeId) -> Vec<u32> {
        let slots = &self.slots;
        let carried = self.carried.get_or_insert_with(|| Carried::of(slots));
        let carries =
            |index: &u32| slots.get(*index as usize).is_some_and(|slot| slot.admitted.carriers.has(link));
        let mut all: Vec<u32> = carried.by(link).filter(carries).collect();
        all.sort_unstable();
        all
    }
}

/// What a batch of cards has beyond its seal.
#[derive(Clone, Debug)]
pub(super) struct Cards {
    pub(super) cards: Vec<(Card, NodeId)>,
    /// Their ids and the tree over them, once the directory here knows them.
    pub(super) assigned: Option<(Vec<u32>, Tree)>,
}

/// What is in a batch.
#[derive(Clone, Debug)]
pub(super) enum Content {
    Messages(Messages),
    Cards(Cards),
}

/// A batch as servers know it.
#[derive(Clone, Debug)]
pub(super) struct Sealing {
    pub(super) batch: AnyBatch,
    pub(super) digest: Hash,
    pub(super) witness: Witness,
    /// The servers, in the order in which they are asked.
    pub(super) order: Vec<NodeId>,
    pub(super) uploaded: NodeSet,
    /// Who put it off since servers were asked last, and who of them has it again since.
    pub(super) declined: NodeSet,
    pub(super) again: NodeSet,
    pub(super) asked: NodeSet,
    pub(super) refused: NodeSet,
    /// Shards that wait for their check.
    pub(super) unchecked: BTreeMap<NodeId, Signature>,
    pub(super) shards: BTreeMap<NodeId, Signature>,
    pub(super) checking: bool,
    pub(super) item: Option<Item>,
    pub(super) since: Time,
}

/// That a batch was delivered.
#[derive(Clone, Debug)]
pub(super) struct Proof {
    pub(super) statement: Delivered,
    pub(super) aggregate: Aggregate,
    pub(super) exceptions: Exceptions,
    /// The leaves of the exceptions tree, with their paths; none without exceptions.
    pub(super) leaves: Vec<ExceptionProof>,
    /// Times that it was sent to all that did not acknowledge it.
    pub(super) rounds: u32,
}

/// Where a batch stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// A job builds its tree.
    Building,
    /// Its clients sign.
    Distilling,
    /// A job looks for bad shares.
    Searching,
    /// A job lays it out.
    Sealing,
    /// Servers witness it.
    Witnessing,
    /// Servers order it.
    Ordering,
    /// It is certified.
    Delivered,
}

/// A batch.
#[derive(Clone, Debug)]
pub(super) struct Batch {
    pub(super) phase: Phase,
    pub(super) content: Content,
    pub(super) sealing: Option<Box<Sealing>>,
    /// Digests under which servers may know it: it is sealed anew when it expires.
    pub(super) digests: Vec<Hash>,
    /// Of each server the first about each sealing.
    pub(super) verdicts: BTreeMap<(NodeId, Hash), (Verdict, Exceptions)>,
    /// Servers whose verdict did not verify.
    pub(super) liars: NodeSet,
    pub(super) combining: bool,
    pub(super) proof: Option<Box<Proof>>,
}

impl Batch {
    pub(super) fn new(phase: Phase, content: Content) -> Self {
        Self {
            phase,
            content,
            sealing: None,
            digests: Vec::new(),
            verdicts: BTreeMap::new(),
            liars: NodeSet::EMPTY,
            combining: false,
            proof: None,
        }
    }

    pub(super) const fn messages(&self) -> Option<&Messages> {
        match &self.content {
            Content::Messages(messages) => Some(messages),
            Content::Cards(_) => None,
        }
    }

    pub(super) const fn messages_mut(&mut self) -> Option<&mut Messages> {
        match &mut self.content {
            Content::Messages(messages) => Some(messages),
            Content::Cards(_) => None,
        }
    }

    pub(super) fn count(&self) -> u32 {
        match &self.content {
            Content::Messages(messages) => messages.shape.count,
            Content::Cards(cards) => u32::try_from(cards.cards.len()).unwrap_or(u32::MAX),
        }
    }

    /// Bytes held.
    pub(super) fn bytes(&self) -> u64 {
        let content = match &self.content {
            Content::Messages(messages) => u64::from(messages.shape.count) * SLOT_BYTES + messages.payload,
            Content::Cards(cards) => cards.cards.len() as u64 * 384,
        };
        content + self.sealing.as_ref().map_or(0, |sealing| sealing.batch.body.len() as u64)
    }
}

/// An entry: submission, share, its place among links, when its client was told what, two digests of the tree.
pub(super) const SLOT_BYTES: u64 = 640;

#[cfg(test)]
mod tests {
    use super::{Admitted, Carried, Carriers, Slot};
    use synod_crypto::Signature;
    use synod_quorum::NodeId;
    use synod_wire::Bytes;

    #[test]
    fn links_carry_what_they_came_with_and_what_came_since() {
        let slot = |id: u32| {
            let message = Bytes::from_static(b"m");
            let carriers = Carriers::of(NodeId(900 + id % 3));
            Slot::new(Admitted { id, k0: 0, message, parity: false, t: Signature([0; 64]), carriers })
        };
        let slots: Vec<Slot> = (0..9).map(slot).collect();
        let mut carried = Carried::of(&slots);
        let by = |carried: &Carried, link: u32| carried.by(NodeId(link)).collect::<Vec<u32>>();
        assert_eq!([by(&carried, 900), by(&carried, 902)], [[0, 3, 6], [2, 5, 8]]);
        assert!(by(&carried, 899).is_empty() && by(&carried, 903).is_empty());
        carried.insert((NodeId(901), 4));
        carried.insert((NodeId(901), 0));
        carried.insert((NodeId(950), 8));
        assert_eq!([by(&carried, 901), by(&carried, 950)], [vec![1, 4, 7, 0], vec![8]]);
        carried.remove((NodeId(901), 0));
        assert_eq!(by(&carried, 901), [1, 4, 7]);
    }

    #[test]
    fn of_two_pairs_of_links_those_without_the_others_stay() {
        let mut pair = Carriers::of(NodeId(7));
        assert_eq!(pair.without(Carriers::default()).iter().collect::<Vec<_>>(), [NodeId(7)]);
        pair.add(NodeId(8));
        assert_eq!(pair.iter().collect::<Vec<_>>(), [NodeId(8), NodeId(7)]);
        assert_eq!(pair.without(Carriers::of(NodeId(8))).iter().collect::<Vec<_>>(), [NodeId(7)]);
        assert_eq!(pair.without(pair).iter().count(), 0);
    }
}

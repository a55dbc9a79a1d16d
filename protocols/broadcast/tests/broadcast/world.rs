//! Members of a broadcast with their users, who endorse what they are told to.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, DerefMut};

use synod_crypto::{Hash, Keys, Seed};
use synod_machine::broadcast::{Broadcast, Offer, Refusal, ReliableBroadcast, Slot};
use synod_machine::testing::{Users, World as Members};
use synod_machine::{Bounded, Machine, Recover};
use synod_quorum::NodeId;
use synod_wire::Bytes;

pub(crate) use synod_machine::testing::pick;

/// A broadcast that can take a seat.
pub(crate) trait Seated: ReliableBroadcast + Recover + Bounded + Machine<Message: Clone> {
    /// Whether a source's slots are delivered in order, once each.
    const ORDERED: bool;
    /// What a member starts from whose user took care of each source's slots up to a number.
    fn setup(n: u32, me: u32, settled: BTreeMap<u8, u64>) -> Self::Config;
    /// The last slot of its own that has a payload.
    fn mine(&self) -> u64;
    /// What stands for a payload.
    fn digest(payload: &[u8]) -> Hash {
        Hash::of(payload)
    }
}

/// What one member's user was told.
#[derive(Default)]
pub(crate) struct Told {
    pub(crate) delivered: BTreeMap<(NodeId, u64), Bytes>,
    pub(crate) proofs: BTreeMap<(NodeId, u64), BTreeSet<Bytes>>,
    pub(crate) conflicts: Vec<Bytes>,
    pub(crate) refused: Vec<Refusal>,
}

/// The secret of a member.
pub(crate) fn seed(id: u32) -> Seed {
    Seed::new([u8::try_from(id).expect("few") + 1; 32])
}

/// The keys of a member.
pub(crate) fn keys(id: u32) -> Keys {
    Keys::ed25519(&seed(id), [9; 32])
}

/// What a user excepts of a payload, by how often users looked again.
pub(crate) type Judge = fn(NodeId, &[u8], u64) -> Vec<u32>;

/// The users of all members.
pub(crate) struct Judges<M> {
    n: u32,
    pub(crate) told: Vec<Told>,
    /// See there.
    pub(crate) judge: Judge,
    looked: u64,
    /// Slots of each source that the user was told and had not settled when it crashed.
    pub(crate) lag: u64,
    machine: std::marker::PhantomData<M>,
}

impl<M: Seated> Users for Judges<M> {
    type Machine = M;

    fn config(&self, id: NodeId) -> M::Config {
        let mut settled: BTreeMap<u8, u64> = BTreeMap::new();
        for (source, sequence) in self.told[id.0 as usize].delivered.keys() {
            let far = settled.entry(u8::try_from(source.0).expect("few")).or_default();
            *far += u64::from(*sequence == *far + 1);
        }
        settled.values_mut().for_each(|far| *far = far.saturating_sub(self.lag));
        M::setup(self.n, id.0, settled)
    }

    fn keys(&self, id: NodeId) -> Keys {
        keys(id.0)
    }

    fn told(&mut self, id: NodeId, output: Broadcast) -> Vec<Offer> {
        let told = &mut self.told[id.0 as usize];
        match output {
            Broadcast::Proposed { slot, payload } => {
                let except = (self.judge)(id, &payload, self.looked);
                return vec![Offer::Judge { slot, digest: M::digest(&payload), except }];
            }
            Broadcast::Delivered { slot, payload, proof, .. } => {
                let key = (slot.source, slot.sequence);
                let before = told.delivered.insert(key, payload.clone());
                let is_new = before.is_none();
                assert!(is_new || before == Some(payload), "a slot has one payload");
                let of_source = told.delivered.range((slot.source, 0)..=key).count() as u64;
                assert!(
                    !M::ORDERED || (is_new || self.lag > 0) && of_source == slot.sequence,
                    "slots are delivered in order, once each"
                );
                told.proofs.entry(key).or_default().extend(proof);
            }
            Broadcast::Conflict { evidence, .. } => told.conflicts.push(evidence),
            Broadcast::Refused { why } => told.refused.push(why),
        }
        Vec::new()
    }
}

/// Members under a drawn schedule.
pub(crate) struct World<M: Seated>(Members<Judges<M>>);

impl<M: Seated> Deref for World<M> {
    type Target = Members<Judges<M>>;
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<M: Seated> DerefMut for World<M> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl<M: Seated> World<M> {
    /// So many payloads are delivered; then three of four members start again whose users had recorded so many less than they were told, and
    /// one more payload is.
    pub(crate) fn behind(seed: u64, (count, lag): (u64, u64)) -> Self {
        let mut world = Self::new(4, seed);
        for at in 0..count {
            while world.room(NodeId(0)) == 0 {
                assert!(world.happen());
            }
            world.broadcast(0, &format!("payload {at}"));
        }
        let count = usize::try_from(count).expect("few");
        assert!(world.settle(count));
        world.users.lag = lag;
        [0, 1, 2].into_iter().for_each(|id| world.restart(NodeId(id), id == 2));
        world.go_on(500);
        world.broadcast(0, "after it");
        assert!(world.settle(count + 1), "seed {seed}, {lag} behind");
        world
    }

    pub(crate) fn new(n: u32, seed: u64) -> Self {
        let told = (0..n).map(|_| Told::default()).collect();
        let judge: Judge = |_, _, _| Vec::new();
        Self(Members::new(
            n,
            seed,
            Judges { n, told, judge, looked: 0, lag: 0, machine: std::marker::PhantomData },
        ))
    }

    /// What users of correct members were told.
    pub(crate) fn told(&self) -> impl Iterator<Item = &Told> {
        self.correct().map(|(id, _)| &self.users.told[id.0 as usize])
    }

    pub(crate) fn broadcast(&mut self, by: u32, payload: &str) {
        let payload = Bytes::copy_from_slice(payload.as_bytes());
        let sequence = self.seats[by as usize].machine.mine() + 1;
        self.ask(NodeId(by), Offer::Broadcast { sequence, payload });
    }

    /// Runs until every correct member delivered the same slots, at least `count` of them; false after too long.
    pub(crate) fn settle(&mut self, count: usize) -> bool {
        self.0.until(|world| {
            let mut logs = world.correct().map(|(id, _)| &world.users.told[id.0 as usize].delivered);
            let Some(first) = logs.next() else { return true };
            first.len() >= count && logs.all(|log| log == first)
        })
    }

    /// Whether no slot has two payloads at correct members.
    pub(crate) fn agrees(&self) -> bool {
        let mut all: BTreeMap<(NodeId, u64), &Bytes> = BTreeMap::new();
        let mut told = self.told().flat_map(|told| &told.delivered);
        told.all(|(slot, payload)| *all.entry(*slot).or_insert(payload) == payload)
    }

    /// Every user looks again at the first slot of a source.
    pub(crate) fn look_again(&mut self, source: u32, payload: &[u8]) {
        self.users.looked += 1;
        let slot = Slot { source: NodeId(source), sequence: 1 };
        for id in (0_u32..).map(NodeId).take(self.seats.len()) {
            let except = (self.users.judge)(id, payload, self.users.looked);
            self.ask(id, Offer::Judge { slot, digest: M::digest(payload), except });
        }
    }
}

/// One member alone broadcasts 200 payloads: how often it compacts its log, and how many records that leaves.
pub(crate) fn compactions<M: Seated>() -> (u32, usize) {
    let mut world = World::<M>::new(1, 3);
    for at in 0..200 {
        while world.room(NodeId(0)) == 0 {
            assert!(world.happen());
        }
        world.broadcast(0, &format!("payload {at}"));
    }
    assert!(world.settle(200));
    (world.seats[0].compacted, world.seats[0].log_len())
}

/// A slot that has a payload keeps it, whatever is offered for it again, and one behind a gap gets none.
pub(crate) fn offers_are_numbered<M: Seated>() {
    let mut world = World::<M>::new(4, 3);
    let offer = |world: &mut World<M>, sequence, payload: &'static [u8]| {
        world.ask(NodeId(0), Offer::Broadcast { sequence, payload: Bytes::from_static(payload) });
    };
    offer(&mut world, 1, b"first");
    offer(&mut world, 1, b"another");
    offer(&mut world, 3, b"behind a gap");
    assert_eq!(world.users.told[0].refused, [Refusal::NotReady]);
    assert!(world.settle(1));
    // Everything again, as after a crash of the user.
    world.restart(NodeId(0), true);
    offer(&mut world, 1, b"another");
    offer(&mut world, 2, b"second");
    assert!(world.settle(2));
    let payloads = |told: &Told| told.delivered.values().cloned().collect::<Vec<_>>();
    assert!(world.told().all(|told| payloads(told) == ["first", "second"]));
    assert_eq!(world.users.told[0].refused.len(), 1);
}

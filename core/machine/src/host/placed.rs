//! A member of one of several groups whose transport numbers all members of all groups: inside it, its own group's are members and all
//! others guests.

use core::any::Any;
use core::fmt::Debug;

use synod_crypto::Hash;
use synod_quorum::{NodeId, NodeSet};
use synod_wire::Bytes;

use super::{At, ErasedDone, ErasedJob, Frame, Hosted, Lsn, Platform, Runner};
use crate::register::{RegisterOp, RegisterReply};
use crate::{Fault, Keep, Link, Note, Queue, QueueSpec, Rule, Time, To};

/// Where a group stands among all members, which are numbered group by group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The number of its first member.
    pub first: u32,
    /// How many members it has.
    pub members: u32,
}

impl Place {
    /// How members of a group call a node of another, by its number among all.
    #[must_use]
    pub const fn abroad(node: NodeId) -> NodeId {
        NodeId(NodeId::GUESTS.0.saturating_add(node.0))
    }

    /// A node's number among all, by what members of the group call it.
    #[must_use]
    pub const fn global(self, node: NodeId) -> NodeId {
        match node.0.checked_sub(NodeId::GUESTS.0) {
            None => NodeId(self.first.saturating_add(node.0)),
            Some(abroad) => NodeId(abroad),
        }
    }

    /// What members of the group call a node, by its number among all.
    #[must_use]
    pub const fn local(self, node: NodeId) -> NodeId {
        match node.0.checked_sub(self.first) {
            Some(member) if member < self.members => NodeId(member),
            _ => Self::abroad(node),
        }
    }

    fn globally(self, to: To) -> To {
        match to {
            To::Node(node) => To::Node(self.global(node)),
            To::Set(set) => To::Set(set.iter().map(|node| self.global(node)).collect::<NodeSet>()),
        }
    }
}

/// The machine of a member of a group, whose peers are called as the transport calls them.
pub struct Placed {
    inner: Box<dyn Hosted>,
    place: Place,
}

struct Outside<'a> {
    platform: &'a mut dyn Platform,
    place: Place,
}

impl Platform for Outside<'_> {
    fn send(&mut self, to: To, queue: Queue, body: Bytes) {
        self.platform.send(self.place.globally(to), queue, body);
    }

    fn copies(&self) -> bool {
        self.platform.copies()
    }

    fn send_slice(&mut self, to: To, queue: Queue, body: &[u8]) {
        self.platform.send_slice(self.place.globally(to), queue, body);
    }

    fn register(&mut self, to: NodeId, queue: Queue, op: &RegisterOp) {
        self.platform.register(self.place.global(to), queue, op);
    }

    fn append(&mut self, keep: Keep, record: Bytes) -> Lsn {
        self.platform.append(keep, record)
    }

    fn store(&mut self, name: Hash, bytes: Bytes) -> Lsn {
        self.platform.store(name, bytes)
    }

    fn erase(&mut self, name: Hash) {
        self.platform.erase(name);
    }

    fn load(&mut self, name: Hash) {
        self.platform.load(name);
    }

    fn compact(&mut self) {
        self.platform.compact();
    }

    fn submit(&mut self, job: ErasedJob) {
        let peer = job.peer.map(|peer| self.place.global(peer));
        self.platform.submit(ErasedJob { peer, ..job });
    }

    fn output(&mut self, output: Box<dyn Any + Send>) {
        self.platform.output(output);
    }

    fn blame(&mut self, peer: NodeId, fault: Fault) {
        self.platform.blame(self.place.global(peer), fault);
    }

    fn applied(&mut self, rule: Rule) {
        self.platform.applied(rule);
    }

    fn note(&mut self, note: Note) {
        self.platform.note(note);
    }

    fn timer(&mut self, name: &dyn Debug, at: Option<Time>) {
        self.platform.timer(name, at);
    }
}

impl Placed {
    /// Places a machine that knows the members of its own group as 0, 1, 2, ... and all others by [`Place::abroad`].
    #[must_use]
    pub fn new(inner: Box<dyn Hosted>, place: Place) -> Self {
        Self { inner, place }
    }

    fn with<'a>(&'a mut self, platform: &'a mut dyn Platform) -> (&'a mut dyn Hosted, Outside<'a>) {
        (&mut *self.inner, Outside { platform, place: self.place })
    }
}

impl Hosted for Placed {
    fn start(&mut self, at: At, platform: &mut dyn Platform) {
        let (inner, mut outside) = self.with(platform);
        inner.start(at, &mut outside);
    }

    fn input(&mut self, input: Box<dyn Any + Send>, at: At, platform: &mut dyn Platform) {
        let (inner, mut outside) = self.with(platform);
        inner.input(input, at, &mut outside);
    }

    fn frame(&mut self, frame: Frame, at: At, platform: &mut dyn Platform) {
        let from = self.place.local(frame.from);
        let (inner, mut outside) = self.with(platform);
        inner.frame(Frame { from, ..frame }, at, &mut outside);
    }

    fn registered(&mut self, from: NodeId, reply: RegisterReply, at: At, platform: &mut dyn Platform) {
        let from = self.place.local(from);
        let (inner, mut outside) = self.with(platform);
        inner.registered(from, reply, at, &mut outside);
    }

    fn tick(&mut self, at: At, platform: &mut dyn Platform) {
        let (inner, mut outside) = self.with(platform);
        inner.tick(at, &mut outside);
    }

    fn done(&mut self, done: ErasedDone, at: At, platform: &mut dyn Platform) {
        let (inner, mut outside) = self.with(platform);
        inner.done(done, at, &mut outside);
    }

    fn loaded(&mut self, name: Hash, bytes: Option<Bytes>, at: At, platform: &mut dyn Platform) {
        let (inner, mut outside) = self.with(platform);
        inner.loaded(name, bytes, at, &mut outside);
    }

    fn link(&mut self, peer: NodeId, link: Link, at: At, platform: &mut dyn Platform) {
        let peer = self.place.local(peer);
        let (inner, mut outside) = self.with(platform);
        inner.link(peer, link, at, &mut outside);
    }

    fn durable(&mut self, lsn: Lsn, platform: &mut dyn Platform) {
        let (inner, mut outside) = self.with(platform);
        inner.durable(lsn, &mut outside);
    }

    fn deadline(&self) -> Option<Time> {
        self.inner.deadline()
    }

    fn ready(&self) -> bool {
        self.inner.ready()
    }

    fn room(&self) -> u32 {
        self.inner.room()
    }

    fn queues(&self) -> &[QueueSpec] {
        self.inner.queues()
    }

    fn runner(&self) -> Runner {
        self.inner.runner()
    }

    fn snapshot(&self) -> Vec<(Keep, Bytes)> {
        self.inner.snapshot()
    }

    fn bytes(&self) -> u64 {
        self.inner.bytes()
    }

    fn bytes_max(&self) -> u64 {
        self.inner.bytes_max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_has_one_name_inside_a_group_and_one_outside() {
        let place = Place { first: 4, members: 4 };
        let inside: Vec<u32> = [0, 3, 4, 7, 8, 127].map(|node| place.local(NodeId(node)).0).into();
        assert_eq!(inside, [128, 131, 0, 3, 136, 255]);
        for node in (0..300).map(NodeId) {
            assert_eq!(place.global(place.local(node)), node);
            assert_eq!(place.local(node).is_member(), (4..8).contains(&node.0));
        }
        let all = To::Set(NodeSet::first(4).without(NodeId(1)));
        let To::Set(outside) = place.globally(all) else { unreachable!("a set stays one") };
        assert_eq!(outside.iter().map(|node| node.0).collect::<Vec<_>>(), [4, 6, 7]);
        assert_eq!(place.globally(To::Node(Place::abroad(NodeId(2)))), To::Node(NodeId(2)));
    }
}

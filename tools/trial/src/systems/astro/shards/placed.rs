//! A member of one of several shards in a world that numbers all members: inside it, its own shard's are members and all others guests.

use core::any::Any;
use core::fmt::Debug;

use synod_crypto::Hash;
use synod_machine::host::{At, ErasedDone, ErasedJob, Frame, Hosted, Lsn, Platform, Runner};
use synod_machine::register::{RegisterOp, RegisterReply};
use synod_machine::{Fault, Keep, Link, Note, Queue, QueueSpec, Rule, Time, To};
use synod_quorum::NodeId;
use synod_wire::Bytes;

/// Where a member is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// Which shard.
    pub(super) shard: u32,
    /// Members of each.
    pub(super) members: u32,
}

/// How members of a shard call the member of another.
pub(super) fn abroad(shard: u32, member: u32) -> NodeId {
    NodeId(NodeId::GUESTS.0 + shard * 16 + member)
}

impl Place {
    /// A node's number in the world.
    pub(super) fn global(self, node: NodeId) -> NodeId {
        match node.0.checked_sub(NodeId::GUESTS.0) {
            None => NodeId(self.shard * self.members + node.0),
            Some(guest) => NodeId(guest / 16 * self.members + guest % 16),
        }
    }

    /// The node of a number in the world.
    pub(super) fn local(self, node: NodeId) -> NodeId {
        let (shard, member) = (node.0 / self.members, node.0 % self.members);
        if shard == self.shard { NodeId(member) } else { abroad(shard, member) }
    }
}

/// The machine of a member, whose peers are called as the world calls them.
pub(super) struct Placed {
    pub(super) inner: Box<dyn Hosted>,
    pub(super) place: Place,
}

struct Outside<'a> {
    platform: &'a mut dyn Platform,
    place: Place,
}

impl Platform for Outside<'_> {
    fn send(&mut self, to: To, queue: Queue, body: Bytes) {
        let nodes: Vec<NodeId> = match to {
            To::Node(node) => vec![node],
            To::Set(set) => set.iter().collect(),
        };
        for node in nodes {
            self.platform.send(To::Node(self.place.global(node)), queue, body.clone());
        }
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

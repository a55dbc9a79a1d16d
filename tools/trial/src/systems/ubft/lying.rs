//! The simulator's lying replicas, and lying clients, outside the simulator: a hosted machine whose frames and register operations a liar edits before any
//! runtime sees them.
//!
//! *What it gives.* [`Lying`] holds the real replica or client and lies as the incidents of a simulated run do, with its own key, over
//! whatever transport hosts it. *Bounds.* Those of the machine and of the liars; nothing is held back.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use synod_crypto::{Hash, Keys};
use synod_machine::host::{At, ErasedDone, ErasedJob, Frame, Hosted, Lsn, Platform, Runner};
use synod_machine::register::{RegisterOp, RegisterReply};
use synod_machine::{Fault, Keep, Link, Note, Queue, QueueSpec, Rule, Span, Time, To};
use synod_quorum::NodeId;
use synod_sim::{Act, Board, Deed, Draws, Family, Incident, Seen, Strategy, Stream};
use synod_ubft::Config;
use synod_wire::Bytes;

pub use super::strategy::Asks;
use super::strategy::{Asker, Liar};

/// A lie by its name in the table of adversaries, and its shape.
fn incident((name, amount): (&str, i64)) -> Option<Incident> {
    let family = match name {
        "B4" => Family::ByzEquivocate,
        "B7" => Family::ByzAcks,
        "B9" => Family::ByzForge,
        "B14" => Family::ByzRegisters,
        "B15" => Family::ByzBatches,
        "B16" => Family::ByzSync,
        _ => return None,
    };
    Some(Incident { id: 0, family, at: Span::ZERO, lasts: Span::ZERO, nodes: Vec::new(), amount })
}

/// How many calls of the machine each of the lies changed.
pub type Told = Arc<Vec<AtomicU64>>;

/// A replica or a client that lies. See the module.
pub struct Lying {
    inner: Box<dyn Hosted>,
    liars: Vec<Box<dyn Strategy + Send>>,
    told: Told,
    node: NodeId,
    machine: u8,
    peers: Vec<NodeId>,
    keys: BTreeMap<NodeId, Keys>,
    draws: Stream,
    board: Board,
    now: Time,
}

impl Lying {
    /// The replica `inner` of `config` with these lies, each a name of the table of adversaries with its shape, and its key. `None`
    /// where a name is none of a lie that this tells.
    #[must_use]
    pub fn new(
        (machine, inner): (u8, Box<dyn Hosted>),
        config: &Config,
        keys: Keys,
        (lies, seed): (&[(&str, i64)], u64),
    ) -> Option<(Self, Told)> {
        let liar = |lie: &(&str, i64)| -> Option<Box<dyn Strategy + Send>> {
            Some(Box::new(Liar::new(config.clone(), &incident(*lie)?)))
        };
        let liars = lies.iter().map(liar).collect::<Option<Vec<_>>>()?;
        let peers = (0..config.roster.size()).map(NodeId).filter(|id| *id != config.me).collect();
        Some(Self::telling((machine, inner), liars, (config.me, peers, keys), seed))
    }

    /// The client `inner` of a cluster with these lies, and its key.
    #[must_use]
    pub fn client(
        (machine, inner): (u8, Box<dyn Hosted>),
        config: &Config,
        keys: Keys,
        (asks, seed): (&[Asks], u64),
    ) -> (Self, Told) {
        let key = keys.public();
        let liar =
            |asks: &Asks| -> Box<dyn Strategy + Send> { Box::new(Asker::new(config.clone(), key, *asks)) };
        let peers = (0..config.roster.size()).map(NodeId).collect();
        Self::telling((machine, inner), asks.iter().map(liar).collect(), (NodeId::GUESTS, peers, keys), seed)
    }

    fn telling(
        (machine, inner): (u8, Box<dyn Hosted>),
        liars: Vec<Box<dyn Strategy + Send>>,
        (node, peers, keys): (NodeId, Vec<NodeId>, Keys),
        seed: u64,
    ) -> (Self, Told) {
        let told: Told = Arc::new(liars.iter().map(|_| AtomicU64::new(0)).collect());
        let lying = Self {
            inner,
            liars,
            told: told.clone(),
            node,
            machine,
            peers,
            keys: BTreeMap::from([(node, keys)]),
            draws: Draws::new(seed).stream("lying", u64::from(node.0)),
            board: Board::default(),
            now: Time(0),
        };
        (lying, told)
    }

    /// Lets the machine act, and says what the liars make of it.
    fn with(
        &mut self,
        at: Option<At>,
        platform: &mut dyn Platform,
        call: impl FnOnce(&mut dyn Hosted, &mut dyn Platform),
    ) {
        self.now = at.map_or(self.now, |at| at.now);
        let mut deeds = Vec::new();
        call(&mut *self.inner, &mut Caught { platform, deeds: &mut deeds });
        for (liar, told) in self.liars.iter_mut().zip(self.told.iter()) {
            let mut act = Act {
                now: self.now,
                node: self.node,
                machine: self.machine,
                seen: &Seen::Start,
                deeds: &mut deeds,
                peers: &self.peers,
                // Liars of uBFT hold nothing back, and end nobody.
                later: &mut Vec::new(),
                crash_after: &mut None,
                draws: &mut self.draws,
                board: &mut self.board,
                keys: &self.keys,
            };
            if liar.act(&mut act) {
                told.fetch_add(1, Ordering::Relaxed);
            }
        }
        for deed in deeds {
            match deed {
                Deed::Send { to, queue, body } => platform.send(to, queue, body),
                Deed::Register { to, queue, op } => platform.register(to, queue, &op),
                // Everything else went out when it was said.
                _ => {}
            }
        }
    }
}

/// Catches what leaves for others; the rest goes its way.
struct Caught<'a> {
    platform: &'a mut dyn Platform,
    deeds: &'a mut Vec<Deed>,
}

impl Platform for Caught<'_> {
    fn send(&mut self, to: To, queue: Queue, body: Bytes) {
        self.deeds.push(Deed::Send { to, queue, body });
    }
    fn register(&mut self, to: NodeId, queue: Queue, op: &RegisterOp) {
        self.deeds.push(Deed::Register { to, queue, op: *op });
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
        self.platform.submit(job);
    }
    fn output(&mut self, output: Box<dyn Any + Send>) {
        self.platform.output(output);
    }
    fn blame(&mut self, peer: NodeId, fault: Fault) {
        self.platform.blame(peer, fault);
    }
    fn applied(&mut self, rule: Rule) {
        self.platform.applied(rule);
    }
    fn note(&mut self, note: Note) {
        self.platform.note(note);
    }
}

impl Hosted for Lying {
    fn start(&mut self, at: At, platform: &mut dyn Platform) {
        self.with(Some(at), platform, |inner, platform| inner.start(at, platform));
    }
    fn input(&mut self, input: Box<dyn Any + Send>, at: At, platform: &mut dyn Platform) {
        self.with(Some(at), platform, |inner, platform| inner.input(input, at, platform));
    }
    fn frame(&mut self, frame: Frame, at: At, platform: &mut dyn Platform) {
        self.with(Some(at), platform, |inner, platform| inner.frame(frame, at, platform));
    }
    fn registered(&mut self, from: NodeId, reply: RegisterReply, at: At, platform: &mut dyn Platform) {
        self.with(Some(at), platform, |inner, platform| inner.registered(from, reply, at, platform));
    }
    fn tick(&mut self, at: At, platform: &mut dyn Platform) {
        self.with(Some(at), platform, |inner, platform| inner.tick(at, platform));
    }
    fn done(&mut self, done: ErasedDone, at: At, platform: &mut dyn Platform) {
        self.with(Some(at), platform, |inner, platform| inner.done(done, at, platform));
    }
    fn loaded(&mut self, name: Hash, bytes: Option<Bytes>, at: At, platform: &mut dyn Platform) {
        self.with(Some(at), platform, |inner, platform| inner.loaded(name, bytes, at, platform));
    }
    fn link(&mut self, peer: NodeId, link: Link, at: At, platform: &mut dyn Platform) {
        self.with(Some(at), platform, |inner, platform| inner.link(peer, link, at, platform));
    }
    fn durable(&mut self, lsn: Lsn, platform: &mut dyn Platform) {
        self.with(None, platform, |inner, platform| inner.durable(lsn, platform));
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

//! Faults that a drill asks for: a node that lies to clients, signs two proposals for one view, says nothing, speaks
//! late, or is cut off from some members.
//!
//! A wrapper around a hosted machine edits what it sends and hears. It exists only where the genesis says
//! `drill = true`; the machine inside stays honest, so turning a fault off heals the node.

mod double;
mod held;

use std::any::Any;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use synod_crypto::Hash;
use synod_machine::host::{At, ErasedDone, ErasedJob, Frame, Hosted, Lsn, Platform, Runner};
use synod_machine::register::{RegisterOp, RegisterReply};
use synod_machine::{Fault, Keep, Link, Note, Queue, QueueSpec, Rule, Time, To};
use synod_quorum::{NodeId, NodeSet};
use synod_service::{Answered, ClientMessage, CommandResult, Reply, Results};
use synod_wire::{Blob, Limits, List, Wire, Writer};

use double::Double;
pub(crate) use double::Signer;
use held::Held;

/// The faults of one node, changed from any thread.
#[derive(Default)]
pub struct Drill {
    lie: AtomicBool,
    equivocate: AtomicBool,
    silent: AtomicBool,
    cut: Mutex<NodeSet>,
    /// Frames of a thousand that are dropped.
    drop: AtomicU64,
    /// How much later than it should every frame leaves, in microseconds.
    delay: AtomicU64,
    dice: AtomicU64,
}

impl Drill {
    /// Makes the node answer clients wrongly, or honestly again.
    pub fn lie(&self, on: bool) {
        self.lie.store(on, Ordering::Relaxed);
    }

    /// Makes the node sign two proposals for each view it leads, one for each half of its peers, and vote for both;
    /// or sign one again.
    pub fn equivocate(&self, on: bool) {
        self.equivocate.store(on, Ordering::Relaxed);
    }

    /// Makes the node say nothing to anybody, or speak again.
    pub fn silence(&self, on: bool) {
        self.silent.store(on, Ordering::Relaxed);
    }

    /// Cuts the node off from these members, in both directions; the empty set heals.
    pub fn cut(&self, members: NodeSet) {
        *self.cut.lock().unwrap_or_else(PoisonError::into_inner) = members;
    }

    /// Drops this share of a thousand of the frames it sends.
    pub fn drop_share(&self, of_thousand: u16) {
        self.drop.store(u64::from(of_thousand.min(1_000)), Ordering::Relaxed);
    }

    /// Sends every frame so much later; zero heals.
    pub fn delay(&self, by: Duration) {
        self.delay.store(u64::try_from(by.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn away(&self) -> NodeSet {
        *self.cut.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unlucky(&self) -> bool {
        let share = self.drop.load(Ordering::Relaxed);
        if share == 0 {
            return false;
        }
        let drawn = self.dice.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        (drawn ^ (drawn >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) % 1_000 < share
    }

    /// Whom a frame still goes to.
    fn reached(&self, to: To) -> Option<To> {
        if self.silent.load(Ordering::Relaxed) || self.unlucky() {
            return None;
        }
        let away = self.away();
        match to {
            To::Node(id) => (!away.contains(id)).then_some(to),
            To::Set(set) => {
                let left = set.minus(away);
                (!left.is_empty()).then_some(To::Set(left))
            }
        }
    }
}

/// A hosted machine under a drill.
pub(crate) struct Drilled {
    inner: Box<dyn Hosted>,
    drill: Arc<Drill>,
    held: Held,
    double: Option<Double>,
}

impl Drilled {
    /// Wraps a machine; `signer` makes a replica able to equivocate.
    pub(crate) fn wrap(
        inner: Box<dyn Hosted>,
        drill: &Arc<Drill>,
        signer: Option<Signer>,
    ) -> Box<dyn Hosted> {
        let (held, double) = (Held::default(), signer.map(Double::new));
        Box::new(Self { inner, drill: drill.clone(), held, double })
    }
}

/// The lie: every result is another one, and digests are of the lie.
fn twisted(body: &Bytes) -> Option<Bytes> {
    let limits = Limits { frame_max: 4 << 20 };
    let message = ClientMessage::decode(body.slice(1..), &limits).ok()?;
    let told = match message {
        ClientMessage::Replies(mut batch) => {
            let replies: Vec<Reply> = batch.replies.into_iter().map(twist_reply).collect();
            batch.replies = List::try_from(replies).ok()?;
            ClientMessage::Replies(batch)
        }
        ClientMessage::Answer(mut answer) => {
            answer.value = match answer.value {
                Answered::Body(_) => Answered::Body(Blob::try_from(Bytes::from_static(b"+LIE\r\n")).ok()?),
                Answered::Digest(hash) => Answered::Digest(Hash::of(&hash.0)),
                gone @ Answered::Gone(_) => gone,
            };
            ClientMessage::Answer(answer)
        }
        _ => return None,
    };
    let mut out = Writer::with_capacity(1 + told.size_hint());
    out.byte(<ClientMessage as synod_machine::Message>::VERSION);
    told.write(&mut out);
    Some(out.freeze())
}

fn twist_reply(reply: Reply) -> Reply {
    match reply {
        Reply::Executed { session, first, answer } => {
            let answer = match answer {
                Answered::Body(body) => match twist_results(body.bytes()) {
                    Some(lie) => Answered::Body(lie),
                    None => Answered::Body(body),
                },
                Answered::Digest(hash) => Answered::Digest(Hash::of(&hash.0)),
                gone @ Answered::Gone(_) => gone,
            };
            Reply::Executed { session, first, answer }
        }
        other => other,
    }
}

fn twist_results(body: &Bytes) -> Option<Blob<{ synod_service::BODY_MAX }>> {
    let mut results = Results::decode(body.clone(), &Limits { frame_max: 4 << 20 }).ok()?;
    let lies = results.results.into_iter().map(|result| match result {
        CommandResult::Value(_) => match Blob::try_from(Bytes::from_static(b"+LIE\r\n")) {
            Ok(lie) => CommandResult::Value(lie),
            Err(_) => CommandResult::Oversize,
        },
        other => other,
    });
    results.results = List::try_from(lies.collect::<Vec<_>>()).ok()?;
    Blob::try_from(results.encode()).ok()
}

struct Edited<'a> {
    platform: &'a mut dyn Platform,
    drill: &'a Drill,
    held: &'a mut Held,
    double: Option<&'a mut Double>,
}

impl Platform for Edited<'_> {
    fn send(&mut self, to: To, queue: Queue, body: Bytes) {
        let Some(to) = self.drill.reached(to) else { return };
        let to_guest = matches!(to, To::Node(id) if !id.is_member());
        let body = if to_guest && self.drill.lie.load(Ordering::Relaxed) {
            twisted(&body).unwrap_or(body)
        } else {
            body
        };
        let delay = Duration::from_micros(self.drill.delay.load(Ordering::Relaxed));
        let twice = self.drill.equivocate.load(Ordering::Relaxed);
        let double = self.double.as_mut().filter(|_| twice);
        let said = double.and_then(|double| double.said(to, &body)).unwrap_or_else(|| vec![(to, body)]);
        for (to, body) in said {
            self.held.send(delay, (to, queue, body), self.platform);
        }
    }
    fn register(&mut self, to: NodeId, queue: Queue, op: &RegisterOp) {
        self.platform.register(to, queue, op);
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

impl Drilled {
    fn at(
        &mut self,
        at: At,
        platform: &mut dyn Platform,
        act: impl FnOnce(&mut dyn Hosted, &mut dyn Platform),
    ) {
        self.held.see(at);
        self.held.release(at.now, platform);
        self.with(platform, act);
    }

    fn with(&mut self, platform: &mut dyn Platform, act: impl FnOnce(&mut dyn Hosted, &mut dyn Platform)) {
        let (drill, held, double) = (&*self.drill, &mut self.held, self.double.as_mut());
        let mut edited = Edited { platform, drill, held, double };
        act(&mut *self.inner, &mut edited);
    }
}

impl Hosted for Drilled {
    fn start(&mut self, at: At, platform: &mut dyn Platform) {
        self.at(at, platform, |inner, platform| inner.start(at, platform));
    }
    fn input(&mut self, input: Box<dyn Any + Send>, at: At, platform: &mut dyn Platform) {
        self.at(at, platform, |inner, platform| inner.input(input, at, platform));
    }
    fn frame(&mut self, frame: Frame, at: At, platform: &mut dyn Platform) {
        if !self.drill.away().contains(frame.from) {
            self.at(at, platform, |inner, platform| inner.frame(frame, at, platform));
        }
    }
    fn registered(&mut self, from: NodeId, reply: RegisterReply, at: At, platform: &mut dyn Platform) {
        self.at(at, platform, |inner, platform| inner.registered(from, reply, at, platform));
    }
    fn tick(&mut self, at: At, platform: &mut dyn Platform) {
        self.at(at, platform, |inner, platform| {
            if inner.deadline().is_some_and(|due| due <= at.now) {
                inner.tick(at, platform);
            }
        });
    }
    fn done(&mut self, done: ErasedDone, at: At, platform: &mut dyn Platform) {
        self.at(at, platform, |inner, platform| inner.done(done, at, platform));
    }
    fn loaded(&mut self, name: Hash, bytes: Option<Bytes>, at: At, platform: &mut dyn Platform) {
        self.at(at, platform, |inner, platform| inner.loaded(name, bytes, at, platform));
    }
    fn link(&mut self, peer: NodeId, link: Link, at: At, platform: &mut dyn Platform) {
        self.at(at, platform, |inner, platform| inner.link(peer, link, at, platform));
    }
    fn durable(&mut self, lsn: Lsn, platform: &mut dyn Platform) {
        self.with(platform, |inner, platform| inner.durable(lsn, platform));
    }
    fn deadline(&self) -> Option<Time> {
        self.inner.deadline().into_iter().chain(self.held.deadline()).min()
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
        self.inner.bytes() + self.held.bytes()
    }
    fn bytes_max(&self) -> u64 {
        self.inner.bytes_max() + Held::bytes_max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use synod_machine::broadcast::Position;
    use synod_service::ReplyBatch;

    fn frame(message: &ClientMessage) -> Bytes {
        let mut out = Writer::default();
        out.byte(1);
        message.write(&mut out);
        out.freeze()
    }

    fn reply(answer: Answered) -> ClientMessage {
        let replies = vec![Reply::Executed { session: 3, first: 9, answer }];
        let replies = List::try_from(replies).expect("one fits");
        ClientMessage::Replies(ReplyBatch { leader: None, replies })
    }

    #[test]
    fn a_lie_decodes_and_differs_in_value_and_digest() {
        let value = CommandResult::Value(Blob::try_from(Bytes::from_static(b"+OK\r\n")).expect("short"));
        let results = List::try_from(vec![value]).expect("one fits");
        let body = Results { session: 3, first: 9, position: Position(4), results }.encode();
        for answer in [Answered::Body(Blob::try_from(body).expect("short")), Answered::Digest(Hash::ZERO)] {
            let honest = frame(&reply(answer));
            let lie = twisted(&honest).expect("replies can be twisted");
            assert_ne!(lie, honest);
            assert!(ClientMessage::decode(lie.slice(1..), &Limits::default()).is_ok());
        }
    }

    #[test]
    fn a_cut_or_silent_node_reaches_nobody_it_should_not() {
        let drill = Drill::default();
        let all = To::Set(NodeSet::first(4));
        assert_eq!(drill.reached(all), Some(all));
        drill.cut(NodeSet::only(NodeId(2)));
        assert_eq!(drill.reached(all), Some(To::Set(NodeSet::first(4).without(NodeId(2)))));
        assert_eq!(drill.reached(To::Node(NodeId(2))), None);
        assert_eq!(drill.reached(To::Node(NodeId(200))), Some(To::Node(NodeId(200))));
        drill.silence(true);
        assert_eq!(drill.reached(To::Node(NodeId(200))), None);
    }

    /// Notes when frames leave.
    #[derive(Default)]
    struct Sent(Vec<Bytes>);

    impl Platform for Sent {
        fn send(&mut self, _: To, _: Queue, body: Bytes) {
            self.0.push(body);
        }
        fn register(&mut self, _: NodeId, _: Queue, _: &RegisterOp) {}
        fn append(&mut self, _: Keep, _: Bytes) -> Lsn {
            unreachable!("nothing is promised here")
        }
        fn store(&mut self, _: Hash, _: Bytes) -> Lsn {
            unreachable!("nothing is promised here")
        }
        fn erase(&mut self, _: Hash) {}
        fn load(&mut self, _: Hash) {}
        fn compact(&mut self) {}
        fn submit(&mut self, _: ErasedJob) {}
        fn output(&mut self, _: Box<dyn Any + Send>) {}
        fn blame(&mut self, _: NodeId, _: Fault) {}
        fn applied(&mut self, _: Rule) {}
        fn note(&mut self, _: Note) {}
    }

    #[test]
    fn a_late_node_keeps_the_order_of_what_it_says() {
        let (mut held, mut sent) = (Held::default(), Sent::default());
        let at = |ms: u64| At { now: Time(ms * 1_000_000), wall: synod_machine::Wall(0) };
        let frame = |byte: u8| (To::Node(NodeId(1)), Queue::CONTROL, Bytes::from(vec![byte]));
        held.see(at(0));
        held.send(Duration::ZERO, frame(0), &mut sent);
        assert_eq!(sent.0.len(), 1, "without a delay it leaves at once");
        held.send(Duration::from_secs(1_000), frame(1), &mut sent);
        held.send(Duration::ZERO, frame(2), &mut sent);
        let due = held.deadline().expect("something is held");
        assert!(due >= at(1_000_000).now && due < at(1_100_000).now, "{due:?}");
        assert_eq!((sent.0.len(), held.bytes()), (1, 2), "healed, but not before what was said before");
        held.release(Time(due.0 - 1), &mut sent);
        assert_eq!(sent.0.len(), 1);
        held.release(due, &mut sent);
        assert_eq!(sent.0.iter().map(|body| body[0]).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!((held.deadline(), held.bytes()), (None, 0));
    }

    #[test]
    fn a_share_of_frames_is_dropped() {
        let drill = Drill::default();
        drill.drop_share(300);
        let lost = (0..10_000).filter(|_| drill.reached(To::Node(NodeId(1))).is_none()).count();
        assert!((2_000..4_000).contains(&lost), "{lost}");
        drill.drop_share(0);
        assert!(drill.reached(To::Node(NodeId(1))).is_some());
    }
}

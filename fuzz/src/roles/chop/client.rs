//! A client: one broker that tells the truth when it says something, one that says anything.

use std::collections::{BTreeMap, BTreeSet};

use synod_chopchop::certificate::HeightCertificate;
use synod_chopchop::client::{Client, Config, Input, Output, Parameters};
use synod_chopchop::columns::Entry;
use synod_chopchop::config::Class;
use synod_chopchop::message::{ClientMessage, Delivery, Inclusion, Nack, StateAnswer, Submit};
use synod_chopchop::statement::{Delivered, Height, Kind, State};
use synod_chopchop::tree::{EntryTree, TreeShape, root_commit};
use synod_chopchop::vocabulary::Message;
use synod_crypto::Hash;
use synod_machine::host::{Host, HostConfig, LaneLog};
use synod_machine::{Never, Span};
use synod_quorum::{NodeId, NodeSet};
use synod_wire::{Bytes, Draw, Drawn, Limits, Wire};

use super::super::seat::Seat;
use super::cast::{BROKERS, Cast, framed, two};
use crate::check::accept;
use crate::tape::Tape;

const LIAR: NodeId = BROKERS[1];
/// The client.
const ID: u32 = 3;
/// Batches that stand open.
const OPEN_MAX: usize = 16;

fn open(log: LaneLog) -> Host<Client> {
    let cast = Cast::new();
    let brokers = BROKERS.to_vec();
    let config = Config::new(cast.cluster.clone(), Class::Fixed(8), brokers, Some(ID), Parameters::default());
    let place = HostConfig { own: NodeId(1_003), machine: 0, seed: 1, jobs_max: 64, checked: true };
    match config.map(|config| Host::open(place, config, log)) {
        Ok(Ok(host)) => host,
        Ok(Err(why)) => unreachable!("a client reads its own records: {}", why.0),
        Err(rule) => unreachable!("the parameters are sound: {rule}"),
    }
}

/// Drives a client.
///
/// # Panics
/// When an invariant breaks, memory is above its formula, a number is signed that no certificate proves, two contents are signed
/// under one number, a message is called delivered that was not or twice, or the honest broker is blamed.
pub fn run(bytes: &[u8]) {
    let mut tape = Tape::new(bytes);
    let cast = Cast::new();
    let mut world = World {
        seat: Seat::open(cast.client(ID), open),
        cast,
        height: 1,
        pending: None,
        offered: Vec::new(),
        opened: BTreeSet::new(),
        signed: BTreeMap::new(),
        state: (0, 0),
        delivered: Vec::new(),
        told: Told::default(),
        nonce: None,
        tokens: 0,
        done: 0,
    };
    world.take();
    while !tape.is_over() {
        world.step(&mut tape);
    }
    if world.done > 0 {
        accept();
    }
}

/// A batch with the client's message.
#[derive(Clone)]
struct Offer {
    submit: Submit,
    shown: Inclusion,
    commit: Hash,
}

/// What the client was given, and what of it, it said, was delivered.
#[derive(Default)]
struct Told {
    payloads: BTreeMap<u64, Bytes>,
    /// The start of the client in which a name was told last.
    told: BTreeMap<u64, u32>,
    start: u32,
}

impl Told {
    /// The client says that what has these names was delivered, while these messages were.
    fn hear(&mut self, tokens: &[u64], delivered: &[Bytes]) {
        for token in tokens {
            let Some(payload) = self.payloads.get(token) else { unreachable!("nobody broadcast {token}") };
            let before = self.told.insert(*token, self.start);
            assert!(before.is_none_or(|start| start < self.start), "{token} is told twice without a restart");
            let same = |token: &&u64| self.payloads.get(*token) == Some(payload);
            let (told, true_ones) =
                (self.told.keys().filter(same), delivered.iter().filter(|m| *m == payload));
            assert!(told.count() <= true_ones.count(), "{token} is called delivered, and was not");
        }
    }
}

struct World {
    cast: Cast,
    seat: Seat<Host<Client>>,
    /// Batches delivered; every certificate in this world is of at most as many.
    height: u64,
    /// What the client submitted last.
    pending: Option<Submit>,
    offered: Vec<Offer>,
    /// Batches that were shown open: a job may sign one when newer ones have displaced it above.
    opened: BTreeSet<Hash>,
    /// What it signed under a number: message and parity.
    signed: BTreeMap<u64, (Bytes, bool)>,
    /// Where servers have it: lowest free number, tag.
    state: (u64, u64),
    delivered: Vec<Bytes>,
    told: Told,
    nonce: Option<u64>,
    tokens: u64,
    done: u64,
}

impl World {
    fn step(&mut self, tape: &mut Tape<'_>) {
        match tape.below(16) {
            0 | 1 => {
                self.tokens += 1;
                let payload = Bytes::copy_from_slice(&u64::from(tape.byte() % 4).to_le_bytes());
                self.told.payloads.insert(self.tokens, payload.clone());
                self.seat.input(Box::new(Input::Broadcast { token: self.tokens, payload }));
            }
            2 => self.seat.input(Box::new(Input::Resync)),
            3..=5 => self.seat.work(1 + tape.below(4)),
            6 => self.seat.sync(),
            7 => self.seat.wait(Span::millis(1 + u64::from(tape.byte()) * 20)),
            8 | 9 => self.offer(tape),
            10 | 11 => self.deliver(tape),
            12 => self.standing(),
            13 => self.height += u64::from(tape.byte() % 4),
            14 => self.lie(tape),
            _ => self.restart(tape),
        }
        self.take();
    }

    fn hear(&mut self, from: NodeId, message: ClientMessage) {
        let (queue, body) = framed(&Message::Client(message));
        self.seat.frame(from, queue, Bytes::from(body));
    }

    fn proof(&self, height: u64, by: NodeSet) -> Option<HeightCertificate> {
        let statement = Height { height };
        let aggregate = self.cast.aggregate(by, &statement)?;
        Some(HeightCertificate { statement, aggregate })
    }

    /// A broker puts the message into a batch under some number.
    fn offer(&mut self, tape: &mut Tape<'_>) {
        let Some(submit) = self.pending.clone() else { return };
        let (liar, k) = (tape.below(3) == 0, submit.k0 + u64::from(tape.byte() % 4));
        let other = [9; 8];
        let entry = |index: u32| {
            let message: &[u8] = if index == 1 { submit.message.bytes() } else { &other };
            let (id, parity) = if index == 1 { (submit.id, submit.parity) } else { (2 + 2 * index, false) };
            Entry { id, message, parity }
        };
        let (domains, shape) = (self.cast.cluster.domains(), TreeShape { count: 3, msg_size: 8 });
        let tree = EntryTree::grow(domains, shape, (0..3).map(entry));
        let Some(proof) = tree.prove(1, |index| (index < 3).then(|| entry(index))) else { return };
        let (root, closed) = (tree.root(), tape.below(4) == 0);
        // Of one server only when a liar has nothing better.
        let by = if k < self.height { two(tape) } else { NodeSet::only(NodeId(1)) };
        if !liar && k >= self.height {
            return;
        }
        let height = self.proof(k + 1, by);
        let shown = Inclusion { root, k, shape, proof, height, closed };
        let commit = root_commit(domains, k, &shape, &root);
        if !closed {
            self.opened.insert(commit);
        }
        self.offered.push(Offer { submit, shown: shown.clone(), commit });
        if self.offered.len() > OPEN_MAX {
            self.offered.remove(0);
        }
        self.hear(if liar { LIAR } else { BROKERS[0] }, ClientMessage::Inclusion(shown));
    }

    /// A batch is ordered: deduplicated as servers do, and told.
    fn deliver(&mut self, tape: &mut Tape<'_>) {
        let at = tape.below(self.offered.len());
        let Some(Offer { submit, shown, commit }) = self.offered.get(at).cloned() else { return };
        let (message, k) = (submit.message.bytes().clone(), shown.k);
        // Only the own number, or one that the client signed, is possible.
        let content = (message.clone(), submit.parity);
        let k = if self.signed.get(&k) == Some(&content) { k } else { submit.k0 };
        let tag = synod_chopchop::dedup::tag(&message, submit.parity);
        let (next_k, last) = self.state;
        let fresh = !(next_k > 0 && last == tag) && k >= next_k;
        self.height += 1;
        if !fresh {
            return;
        }
        self.state = (k + 1, tag);
        self.delivered.push(message);
        let digest = commit;
        let statement = Delivered {
            height: self.height,
            kind: Kind::Messages,
            digest,
            root_commit: commit,
            exceptions_root: Hash::ZERO,
            exc_count: 0,
        };
        let Some(aggregate) = self.cast.aggregate(two(tape), &statement) else { return };
        let Some(half) = commit.0.first_chunk().copied() else { return };
        let (exceptions_root, height) = (Hash::ZERO, self.height);
        let delivery = Delivery {
            root_commit: half,
            height,
            digest,
            exceptions_root,
            exc_count: 0,
            aggregate,
            exception: None,
        };
        self.hear(BROKERS[tape.below(2)], ClientMessage::Delivery(Box::new(delivery)));
    }

    /// f + 1 servers say where the client stands.
    fn standing(&mut self) {
        let Some(nonce) = self.nonce else { return };
        let (next_k, tag) = self.state;
        let by = NodeSet::first(2);
        let aggregate = self.cast.aggregate(by, &State { nonce, id: ID, next_k, tag });
        let (Some(aggregate), Some(height)) = (aggregate, self.proof(self.height, by)) else { return };
        self.hear(BROKERS[0], ClientMessage::State(Box::new(StateAnswer { next_k, tag, aggregate, height })));
    }

    fn lie(&mut self, tape: &mut Tape<'_>) {
        let seed = u64::from(tape.word());
        match tape.below(4) {
            0 => {
                let (queue, _) = framed(&Message::Client(ClientMessage::Challenge { nonce: [0; 16] }));
                self.seat.frame(LIAR, queue, Bytes::copy_from_slice(tape.short()));
            }
            1 => {
                let whys = [Nack::Busy, Nack::NeedCertificate, Nack::Class, Nack::NotInDirectory];
                let why = whys[tape.below(4)];
                self.hear(LIAR, ClientMessage::Nack { why, retry_ms: u32::from(tape.byte()) });
            }
            _ => self.hear(LIAR, Draw::draw(&mut Drawn::new(seed))),
        }
    }

    fn restart(&mut self, tape: &mut Tape<'_>) {
        if tape.below(4) > 0 {
            return;
        }
        self.told.start += 1;
        let fresh = Seat::open(self.cast.client(ID), open);
        self.seat = core::mem::replace(&mut self.seat, fresh).restart(open);
    }

    fn take(&mut self) {
        for (_, _, body) in core::mem::take(&mut self.seat.desk.sent) {
            let Ok(Message::Client(message)) = Message::<Never>::decode(body.slice(1..), &Limits::default())
            else {
                unreachable!("a client speaks with brokers alone")
            };
            match message {
                ClientMessage::Submit(submit) => self.pending = Some(submit),
                ClientMessage::MultiSig { root_commit, .. } => self.signs(root_commit),
                ClientMessage::Query { nonce, .. } => self.nonce = Some(nonce),
                _ => {}
            }
        }
        for (peer, fault) in self.seat.desk.blamed.drain(..) {
            let accused = !fault.name.starts_with("suspected");
            assert!(peer == LIAR || !accused, "the honest broker is blamed for {}", fault.name);
        }
        for output in core::mem::take(&mut self.seat.desk.outputs) {
            let Ok(output) = output.downcast::<Output>() else { unreachable!("a client puts out its own") };
            if let Output::Delivered { tokens, .. } = *output {
                self.done += 1;
                self.told.hear(&tokens, &self.delivered);
            }
        }
    }

    /// It signed a root: of a number that is proved, and one content per number.
    fn signs(&mut self, half: [u8; 16]) {
        let of = |offer: &&Offer| offer.commit.0.first_chunk() == Some(&half);
        let Some(offer) = self.offered.iter().find(of) else { return };
        let k = offer.shown.k;
        assert!(k < self.height, "k {k} is signed, and {} batches are delivered", self.height);
        let open = self.opened.contains(&offer.commit);
        assert!(offer.submit.k0 <= k && open, "what was not to be signed");
        let content = (offer.submit.message.bytes().clone(), offer.submit.parity);
        let known = self.signed.entry(k).or_insert_with(|| content.clone());
        assert!(*known == content, "two contents under the number {k}");
    }
}

#[cfg(test)]
mod tests {
    use super::Told;
    use synod_wire::Bytes;

    /// Two names of one payload and one of another, of which the first was delivered once.
    fn told() -> (Told, [Bytes; 1]) {
        let [one, two] = [[1], [2]].map(|byte| Bytes::copy_from_slice(&byte));
        let mut told = Told::default();
        told.payloads.extend([(1, one.clone()), (2, one.clone()), (3, two)]);
        told.hear(&[1], core::slice::from_ref(&one));
        (told, [one])
    }

    #[test]
    fn a_delivery_is_told_again_behind_a_restart() {
        let (mut told, delivered) = told();
        told.start += 1;
        told.hear(&[1], &delivered);
        told.hear(&[2], &[delivered.clone(), delivered].concat());
    }

    #[test]
    #[should_panic(expected = "called delivered, and was not")]
    fn one_true_delivery_covers_no_other_message() {
        let (mut told, delivered) = told();
        told.hear(&[3], &delivered);
    }

    #[test]
    #[should_panic(expected = "called delivered, and was not")]
    fn one_true_delivery_covers_an_equal_message_once() {
        let (mut told, delivered) = told();
        told.hear(&[2], &delivered);
    }

    #[test]
    #[should_panic(expected = "told twice")]
    fn nothing_is_told_twice_without_a_restart() {
        let (mut told, delivered) = told();
        told.hear(&[1], &delivered);
    }
}

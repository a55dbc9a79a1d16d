//! Four replicas over links that take 10 ms, and what they do, written down line by line.

use std::collections::{BTreeMap, VecDeque};

use synod_astro::{Input, Opened, Output, Promise, Word};
use synod_broadcast::Lot;
use synod_broadcast::signed;
use synod_crypto::Hash;
use synod_ledger::{Entry, Kind, Leg, Units};
use synod_machine::broadcast::Except;
use synod_machine::{Condition, Effect, Event, Job as _, Log, Recover as _, Span, Time, To, testing};
use synod_quorum::NodeId;
use synod_wire::Bytes;

use crate::alone::{Record, Timer};
use crate::bank::{Message, Replica, config, keys};

/// One way.
const DELAY: Span = Span::millis(10);
/// Signers of a certificate.
const QUORUM: u32 = 3;

/// Whether a message arrives: when it leaves, from whom and to whom.
pub(crate) type Passes = fn(Time, u32, u32, &Message) -> bool;

struct Seat {
    replica: Replica,
    timers: BTreeMap<Timer, Time>,
    blobs: BTreeMap<Hash, Bytes>,
}

/// The replicas and what is between them.
pub(crate) struct Conversation {
    seats: Vec<Seat>,
    flight: VecDeque<(Time, u32, u32, Message)>,
    now: Time,
    passes: Passes,
    /// What happened.
    pub(crate) lines: Vec<String>,
}

impl Conversation {
    /// Four that start for the first time, at 1000 ms.
    pub(crate) fn new(passes: Passes) -> Self {
        let seat = |id: u32| {
            let log = Log { condition: Condition::Fresh, records: &mut std::iter::empty() };
            let replica = Replica::recover(config(4, NodeId(id)), log).expect("a sound configuration");
            Seat { replica, timers: BTreeMap::new(), blobs: BTreeMap::new() }
        };
        let (seats, now) = ((0..4).map(seat).collect(), Time(Span::secs(1).0));
        let mut all = Self { seats, flight: VecDeque::new(), now, passes, lines: Vec::new() };
        (0..4).for_each(|id| all.step(id, Event::Start));
        all
    }

    /// A member's user asks something.
    pub(crate) fn ask(&mut self, id: u32, what: &str, input: Input) {
        self.write(format!("r{id} is asked: {what}"));
        self.step(id, Event::Input(input));
    }

    /// Everything happens that is due until then.
    pub(crate) fn until(&mut self, ms: u64) {
        let end = Time(Span::millis(ms).0);
        loop {
            let timers = self.seats.iter().zip(0_u32..);
            let timers =
                timers.flat_map(|(seat, id)| seat.timers.iter().map(move |(timer, at)| (*at, id, *timer)));
            let (timer, arrives) = (timers.min(), self.flight.front().map(|(at, ..)| *at));
            match (arrives, timer) {
                (Some(at), _) if at <= end && timer.is_none_or(|(due, ..)| at <= due) => {
                    let Some((at, from, to, message)) = self.flight.pop_front() else { return };
                    self.now = at;
                    self.step(to, Event::Message { from: NodeId(from), message });
                }
                (_, Some((due, id, timer))) if due <= end => {
                    self.now = due;
                    self.seat(id).timers.remove(&timer);
                    self.step(id, Event::Timer(timer));
                }
                _ => break,
            }
        }
        self.now = end;
    }

    fn seat(&mut self, id: u32) -> &mut Seat {
        self.seats.get_mut(id as usize).expect("one of four")
    }

    fn write(&mut self, line: String) {
        self.lines.push(format!("{:5}  {line}", self.now.0 / Span::millis(1).0));
    }

    /// An event, and all that a member does at once: what it computes is done, and what it reads is there.
    fn step(&mut self, id: u32, event: Event<Replica>) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let now = self.now;
            for effect in testing::effects(&mut self.seat(id).replica, event, now) {
                self.take(id, effect, &mut events);
            }
        }
    }

    fn take(&mut self, id: u32, effect: Effect<Replica>, events: &mut VecDeque<Event<Replica>>) {
        let now = self.now;
        match effect {
            Effect::Compute(job) => events.push_back(Event::Done(job.run(&keys(id)))),
            Effect::Load(name) => {
                let bytes = self.seat(id).blobs.get(&name).cloned();
                events.push_back(Event::Loaded { name, bytes });
            }
            Effect::Store { name, bytes } => drop(self.seat(id).blobs.insert(name, bytes)),
            Effect::Erase(name) => drop(self.seat(id).blobs.remove(&name)),
            Effect::Arm { timer, after } => drop(self.seat(id).timers.insert(timer, now + after)),
            Effect::Disarm(timer) => drop(self.seat(id).timers.remove(&timer)),
            Effect::Send { to, message } => self.send(id, to, &message),
            Effect::Persist(record) => {
                if let Some(text) = kept(&record) {
                    self.write(format!("r{id} writes {text}"));
                }
            }
            Effect::Output(output) => self.write(format!("r{id} {}", told(&output))),
            Effect::Blame { peer, fault } => unreachable!("r{id} blames r{}: {}", peer.0, fault.name),
            Effect::Applied(_) | Effect::Compact | Effect::Note(_) => {}
        }
    }

    fn send(&mut self, id: u32, to: To, message: &Message) {
        let to: Vec<u32> = match to {
            To::Node(node) => vec![node.0],
            To::Set(set) => set.iter().map(|node| node.0).collect(),
        };
        let passes = self.passes;
        let (arrive, lost): (Vec<u32>, Vec<u32>) =
            to.into_iter().partition(|to| passes(self.now, id, *to, message));
        for (to, end) in [(&arrive, ""), (&lost, ", which is lost")] {
            if !to.is_empty() {
                let names: Vec<String> = to.iter().map(|to| format!("r{to}")).collect();
                self.write(format!("r{id} -> {}  {}{end}", names.join(","), said(message)));
            }
        }
        for to in arrive {
            self.flight.push_back((self.now + DELAY, id, to, message.clone()));
        }
    }
}

fn batch(lot: Lot) -> String {
    format!("batch {} of r{}", lot.sequence, lot.source)
}

/// An entry in words.
fn entry(entry: &Entry) -> String {
    let id = entry.id;
    let what = match &entry.kind {
        Kind::Pay(Leg { to, amount: Units(amount) }) => format!("pays {to} {amount}"),
        other => format!("{other:?}"),
    };
    format!("{}#{} {what}", id.spender, id.n)
}

fn entries(payload: &Bytes) -> String {
    let opened = Opened::read(payload).expect("replicas broadcast batches");
    let lines: Vec<String> = opened.batch.lines.iter().map(|line| entry(&line.entry)).collect();
    lines.join("; ")
}

/// All of it, or all but some.
fn all(except: &Except) -> String {
    match except.items() {
        [] => "all".to_owned(),
        items => format!("all but {items:?}"),
    }
}

fn signers(certificate: &signed::Certificate) -> String {
    let all: Vec<String> = certificate.said.iter().map(|said| format!("r{}", said.member)).collect();
    all.join(",")
}

fn lots(lots: &[Lot]) -> String {
    let all: Vec<String> = lots.iter().map(|lot| format!("r{}:{}", lot.source, lot.sequence)).collect();
    all.join(" ")
}

/// A message in words.
fn said(message: &Message) -> String {
    use signed::Message as Broadcast;
    match message {
        Message::Broadcast(Broadcast::Prepare { lot, payload, .. }) => {
            format!("PREPARE {}: {}", batch(*lot), entries(payload.bytes()))
        }
        Message::Broadcast(Broadcast::Ack(ack)) => {
            format!("ACK {}, {}", batch(ack.lot), all(&ack.said.except))
        }
        Message::Broadcast(Broadcast::Commit(certificate)) => {
            let open = certificate.open(QUORUM);
            format!("COMMIT {} by {}, {}", batch(certificate.lot), signers(certificate), all(&open))
        }
        Message::Broadcast(Broadcast::Ask(lot)) => format!("ASK {}", batch(*lot)),
        Message::Broadcast(Broadcast::Pull { lot, .. }) => format!("PULL {}", batch(*lot)),
        Message::Broadcast(Broadcast::Pulled { lot, .. }) => format!("PULLED {}", batch(*lot)),
        Message::Broadcast(Broadcast::Frontier { certified, rows, .. }) => {
            format!("FRONTIER {}, {rows} rows", lots(certified))
        }
        Message::Broadcast(Broadcast::AskRows(from)) => format!("ASK_ROWS from {from}"),
        Message::Broadcast(Broadcast::Rows { rows, .. }) => {
            let all: Vec<String> =
                rows.iter().map(|row| format!("{} {:?}", batch(row.lot), row.open.items())).collect();
            format!("ROWS {}", all.join("; "))
        }
        Message::Own(Word::Receipt(receipt)) => {
            format!("RECEIPT {}, {}", batch(receipt.lot), all(&receipt.open))
        }
        Message::Own(Word::AskReceipts(asked)) => format!("ASK_RECEIPTS {}", lots(asked)),
        Message::Own(Word::Want { id, .. }) => format!("WANT {}#{}", id.spender, id.n),
        Message::Own(Word::Here(line)) => format!("HERE {}", entry(&line.entry)),
        Message::Own(word) => unreachable!("there is one shard, and nothing is cut: {word:?}"),
    }
}

/// A record in words; where payloads are stored is left out.
fn kept(record: &Record) -> Option<String> {
    let text = match record {
        Record::Broadcast(signed::Record::Mine { sequence, .. }) => format!("mine, batch {sequence}"),
        Record::Broadcast(signed::Record::Accepted { lot, except, .. }) => {
            format!("accepted, {}, {}", batch(*lot), all(except))
        }
        Record::Broadcast(signed::Record::Committed(certificate)) => {
            format!("committed, {}, {}", batch(certificate.lot), all(&certificate.open(QUORUM)))
        }
        Record::Broadcast(signed::Record::Held { .. }) => return None,
        Record::Own(Promise::Endorsed { lot, except, .. }) => {
            format!("endorsed, {}, {}", batch(*lot), all(except))
        }
        Record::Own(Promise::Certified { lot, open, .. }) => {
            format!("certified, {}, {}", batch(*lot), all(open))
        }
        Record::Own(other) => format!("{other:?}"),
    };
    Some(text)
}

/// What a replica tells its user, in words.
fn told(output: &Output) -> String {
    match output {
        Output::Accepted { entry: accepted, .. } => format!("accepts {}", entry(accepted)),
        Output::Refused { why, .. } => format!("refuses: {why:?}"),
        Output::Progress { level, entries } => {
            let all: Vec<String> = entries.iter().map(|(id, _)| format!("{}#{}", id.spender, id.n)).collect();
            format!("tells {} is {level:?}", all.join(", "))
        }
        Output::Settled { first, entries } => {
            let all: Vec<String> = entries.iter().map(|(settled, _)| entry(settled)).collect();
            format!("settles as number {first}: {}", all.join(", "))
        }
        Output::Certified { opened, proofs } => {
            format!("shows {} to be certified, proofs: {}", batch(opened.lot()), proofs.len())
        }
        Output::Receipted(receipt) => {
            format!("shows the word of r{} that {} has settled", receipt.member, batch(receipt.lot))
        }
        other => format!("{other:?}"),
    }
}

/// Whether a message is a certificate.
pub(crate) fn is_commit(message: &Message) -> bool {
    matches!(message, Message::Broadcast(signed::Message::Commit(_)))
}

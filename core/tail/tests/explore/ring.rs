//! The ring: nothing torn, twice or out of order, and the newest messages arrive.

use std::hash::{Hash, Hasher};

use synod_tail::ring::{Header, Polled, Reader, Ring, RingSpec, Writer};
use synod_tail::{Atomics, Words};

use crate::explorer::{Explored, Explorer, Plant, Script, Side, World};
use crate::memory::{Memory, Order};

#[derive(Clone, Copy, Hash)]
struct Nothing;

impl World for Nothing {}

/// Slots of 64 bytes of which messages fill two words.
const PAYLOAD: usize = 16;
const SLOT_WORDS: u32 = 8;

fn ring(depth: u32) -> Ring {
    Ring::new(RingSpec { depth, slot_bytes: 64 }).expect("a ring")
}

fn payload(sequence: u64) -> [u8; PAYLOAD] {
    let mut bytes = [0; PAYLOAD];
    bytes[0] = u8::try_from(sequence).expect("few messages");
    bytes[PAYLOAD - 1] = bytes[0];
    bytes
}

#[derive(Clone)]
struct Sender {
    writer: Writer<&'static Script>,
    messages: u64,
}

impl Hash for Sender {
    fn hash<H: Hasher>(&self, into: &mut H) {
        self.writer.sent().hash(into);
    }
}

impl Side<Nothing> for Sender {
    fn ready(&self, _: &Nothing) -> bool {
        self.writer.sent() < self.messages
    }
    fn begin(&mut self, _: &mut Nothing) {}
    fn phase(&mut self) {
        let sequence = self.writer.sent() + 1;
        let header = Header { queue: 3, epoch: u32::try_from(sequence).expect("few messages") };
        assert_eq!(self.writer.send(header, &payload(sequence)), Ok(sequence));
    }
    fn end(&mut self, _: &mut Nothing) -> Result<(), String> {
        Ok(())
    }
}

#[derive(Clone)]
struct Receiver {
    reader: Reader<&'static Script>,
    last: u64,
    polled: Polled,
    bytes: [u8; 48],
}

impl Hash for Receiver {
    fn hash<H: Hasher>(&self, into: &mut H) {
        (self.reader.wanted(), self.last).hash(into);
    }
}

/// What a receiver that had message `last` may be given.
fn judge(polled: Polled, last: u64, bytes: &[u8]) -> Result<u64, String> {
    match polled {
        Polled::Message(arrived) => {
            let s = arrived.sequence;
            if s <= last {
                return Err(format!("message {s} behind message {last}"));
            }
            if arrived.payload(bytes) != payload(s) || u64::from(arrived.header.epoch) != s {
                return Err(format!("message {s} is torn: {arrived:?}"));
            }
            Ok(s)
        }
        Polled::Malformed => Err("malformed, by a correct writer".to_owned()),
        Polled::Empty | Polled::Lapped { .. } => Ok(last),
    }
}

impl Side<Nothing> for Receiver {
    fn ready(&self, _: &Nothing) -> bool {
        true
    }
    fn begin(&mut self, _: &mut Nothing) {}
    fn phase(&mut self) {
        self.polled = self.reader.poll(&mut self.bytes);
    }
    fn end(&mut self, _: &mut Nothing) -> Result<(), String> {
        self.last = judge(self.polled, self.last, &self.bytes)?;
        self.polled = Polled::Empty;
        Ok(())
    }
}

/// A reader in this state over memory that no longer changes gets all that still stands in the ring.
fn at_rest(sender: &Sender, receiver: &Receiver, memory: &Memory, ring: Ring) -> Result<(), String> {
    let words = Atomics::zeroed(ring.words());
    (0..ring.words()).for_each(|at| words.store(at, memory.newest(at as usize)));
    let mut reader = Reader::new(ring, &words);
    let (mut bytes, mut last, mut got) = ([0; 48], 0, Vec::new());
    loop {
        let polled = reader.poll(&mut bytes);
        last = judge(polled, last, &bytes)?;
        match polled {
            Polled::Message(_) => got.push(last),
            Polled::Lapped { .. } => {}
            Polled::Empty | Polled::Malformed => break,
        }
    }
    let sent = sender.writer.sent();
    let oldest = (sent + 1).saturating_sub(u64::from(ring.depth())).max(1);
    if !got.iter().copied().eq(oldest..=sent) {
        return Err(format!("of {sent} messages {got:?} stand in the ring"));
    }
    // What the reader passed over is no longer there; so it will get all of them that it did not have.
    let passed = receiver.reader.wanted().saturating_sub(1);
    if passed > receiver.last && passed >= oldest && sender.writer.sent() == sender.messages {
        return Err(format!("message {passed} was passed over and stands in the ring"));
    }
    Ok(())
}

fn explore(order: Order, (depth, messages): (u32, u64), plants: (Plant, Plant)) -> Explored {
    let ring = ring(depth);
    let dull = |at: u32| at % SLOT_WORDS > 3;
    let scripts = (Script::leak(dull, plants.0), Script::leak(dull, plants.1));
    let sender = Sender { writer: Writer::new(ring, scripts.0), messages };
    let reader = Reader::new(ring, scripts.1);
    let receiver = Receiver { reader, last: 0, polled: Polled::Empty, bytes: [0; 48] };
    let explorer = Explorer { order, cells: ring.words() as usize, scripts };
    let explored = explorer
        .run((sender, receiver, Nothing), |sender, receiver, memory| at_rest(sender, receiver, memory, ring));
    println!("ring {order:?} depth {depth}, {messages} messages, {plants:?}: {explored:?}");
    explored
}

const SOUND: (Plant, Plant) = (Plant::Nothing, Plant::Nothing);

#[test]
fn in_sequential_order_no_message_is_torn_twice_or_late() {
    for (measures, states) in [((2, 3), 546), ((2, 6), 25_613), ((3, 7), 158_531)] {
        let explored = explore(Order::Sequential, measures, SOUND);
        assert_eq!(explored.broken, None);
        assert!(explored.states >= states && explored.steps > explored.states, "{explored:?}");
    }
}

#[test]
fn in_weak_order_no_message_is_torn_twice_or_late() {
    for (measures, states) in [((2, 3), 692), ((2, 6), 52_936), ((3, 6), 67_033)] {
        let explored = explore(Order::Weak, measures, SOUND);
        assert_eq!(explored.broken, None);
        assert!(explored.states >= states && explored.steps > explored.states, "{explored:?}");
    }
}

/// The control: a reader that does not look at the sequence again delivers half of two messages.
#[test]
fn without_the_second_look_a_torn_message_is_found() {
    for order in [Order::Sequential, Order::Weak] {
        let explored = explore(order, (2, 3), (Plant::Nothing, Plant::NoSecondLook));
        assert!(explored.broken.is_some_and(|broken| broken.contains("torn")), "{order:?}");
    }
}

/// The control: a writer that does not clear the sequence first is read half way.
#[test]
fn without_the_clearing_a_torn_message_is_found() {
    for order in [Order::Sequential, Order::Weak] {
        let explored = explore(order, (2, 3), (Plant::NoClearing, Plant::Nothing));
        assert!(explored.broken.is_some_and(|broken| broken.contains("torn")), "{order:?}");
    }
}

/// Each fence is needed in weak order, and none of them in sequential order.
#[test]
fn without_any_one_fence_a_torn_message_is_found() {
    for fence in [1, 2] {
        for plants in [(Plant::NoFence(fence), Plant::Nothing), (Plant::Nothing, Plant::NoFence(fence))] {
            let explored = explore(Order::Weak, (2, 3), plants);
            assert!(explored.broken.is_some_and(|broken| broken.contains("torn")), "{plants:?}");
            assert_eq!(explore(Order::Sequential, (2, 3), plants).broken, None, "{plants:?}");
        }
    }
}

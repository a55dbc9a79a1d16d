//! What a client makes of its links, and of answers.

use synod_crypto::{Keys, Seed};
use synod_machine::testing::effects;
use synod_machine::{Condition, Effect, Event, Job as _, Link, Log, Recover as _, Span, Time, To};
use synod_quorum::NodeId;
use synod_ubft::Client;
use synod_ubft::client::{ClientConfig, Input, Output, Retry};
use synod_ubft::message::Message;
use synod_wire::Bytes;

use crate::world::config;

const SESSION: u64 = 200;

struct Seat {
    client: Client,
    keys: Keys,
    now: Time,
    told: Vec<Output>,
}

impl Seat {
    /// A client with a session of which two of three replicas told it.
    fn open() -> Self {
        let seed = Seed::new([7; 32]);
        let settings = ClientConfig {
            config: config(NodeId(0), 3),
            key: seed.public(),
            nonce: 5,
            session_window: 4,
            retry: Span::millis(10),
            deadline: Span::secs(60),
        };
        let log = Log { condition: Condition::Clean, records: &mut std::iter::empty() };
        let client = Client::recover(settings, log).expect("sound");
        let mut seat =
            Self { client, keys: Keys::ed25519(&seed, [8; 32]), now: Time::ZERO, told: Vec::new() };
        seat.step(Event::Start);
        for id in [0, 1] {
            seat.hear(id, Message::Registered { nonce: 5, session: Some(SESSION) });
        }
        assert_eq!(seat.told, [Output::Ready(SESSION)]);
        seat
    }

    /// What it says to whom, its signatures made.
    fn step(&mut self, event: Event<Client>) -> Vec<(u32, Message)> {
        let (mut events, mut said) = (vec![event], Vec::new());
        while let Some(event) = events.pop() {
            for effect in effects(&mut self.client, event, self.now) {
                match effect {
                    Effect::Send { to: To::Node(to), message } => said.push((to.0, message)),
                    Effect::Compute(job) => events.push(Event::Done(job.run(&self.keys))),
                    Effect::Output(output) => self.told.push(output),
                    Effect::Arm { .. } => {}
                    other => unreachable!("{other:?}"),
                }
            }
        }
        said
    }

    fn hear(&mut self, from: u32, message: Message) -> Vec<(u32, Message)> {
        self.step(Event::Message { from: NodeId(from), message })
    }

    fn link(&mut self, peer: u32, link: Link) -> Vec<(u32, Message)> {
        self.step(Event::Link { peer: NodeId(peer), link })
    }

    fn read(&mut self, ticket: u64) -> Vec<(u32, Message)> {
        self.step(Event::Input(Input::Read { ticket, question: Bytes::from_static(b"count") }))
    }

    fn answer(&mut self, from: u32, id: u64, value: &'static str) {
        let value = Some(Bytes::from_static(value.as_bytes()).try_into().expect("short"));
        self.hear(from, Message::Answer { id, value });
    }
}

/// The number of a read that all three are asked.
fn number(said: &[(u32, Message)]) -> u64 {
    let ids: Vec<u64> = said
        .iter()
        .filter_map(|(_, message)| match message {
            Message::Read { id, .. } => Some(*id),
            _ => None,
        })
        .collect();
    assert_eq!((ids.len(), said.len()), (3, 3), "{said:?}");
    ids[0]
}

fn is_ordered(said: &[(u32, Message)]) -> bool {
    said.len() == 3 && said.iter().all(|(_, message)| matches!(message, Message::Ask { .. }))
}

#[test]
fn a_late_answer_of_an_earlier_read_is_none_of_a_later_one() {
    let mut seat = Seat::open();
    let first = number(&seat.read(1));
    seat.answer(0, first, "old");
    seat.now = seat.now + Span::secs(1);
    assert!(is_ordered(&seat.step(Event::Timer(Retry))), "it was not answered by all in time");
    let second = number(&seat.read(2));
    for from in [1, 2] {
        seat.answer(from, first, "old");
    }
    seat.answer(0, second, "old");
    assert_eq!(seat.told.len(), 1, "two answers are of an earlier read: {:?}", seat.told);
    for from in [1, 2] {
        seat.answer(from, second, "old");
    }
    let done = Output::Done { ticket: 2, result: Bytes::from_static(b"old") };
    assert_eq!(seat.told.last(), Some(&done));
}

#[test]
fn a_link_that_is_made_again_is_told_of_the_session_under_a_larger_number() {
    let mut seat = Seat::open();
    let mut last = 0;
    for _ in 0..3 {
        assert_eq!(seat.link(1, Link::Down), []);
        let said = seat.link(1, Link::Up);
        let [(1, Message::Attach { session: SESSION, sequence, .. })] = said.as_slice() else {
            unreachable!("{said:?}")
        };
        assert!(*sequence > last, "a replica takes a larger number than the last alone");
        last = *sequence;
    }
    let call = seat.step(Event::Input(Input::Call { ticket: 1, op: Bytes::from_static(b"x") }));
    assert!(is_ordered(&call));
    seat.link(1, Link::Down);
    let said = seat.link(1, Link::Up);
    assert!(said.iter().any(|(to, message)| *to == 1 && matches!(message, Message::Ask { id: 1, .. })));
    assert_eq!(seat.link(9, Link::Up), [], "nobody that it knows");
}

#[test]
fn a_read_is_ordered_at_once_while_one_of_all_cannot_answer() {
    let mut seat = Seat::open();
    seat.link(2, Link::Down);
    assert!(is_ordered(&seat.read(1)));
    seat.link(2, Link::Up);
    number(&seat.read(2));
}

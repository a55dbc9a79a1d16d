//! Questions about clients: servers answer ten of them a second, so no more are asked.

use super::hostile::{from, lone};
use super::*;
use crate::broker::{Broker, Timer};
use crate::by_hand::{Hand, sent};
use crate::config::Rules;
use crate::message::StateAsk;
use synod_machine::{Effect, Event, Time, To};

/// What servers were asked about, and when.
#[derive(Default)]
struct Asked {
    of: Vec<(Time, u32)>,
    /// When the broker wants to go on.
    next: Option<Time>,
}

impl Asked {
    fn note(&mut self, now: Time, effects: Vec<Effect<Broker>>) {
        for effect in &effects {
            if let Effect::Arm { timer: Timer::Ask, after } = effect {
                self.next = Some(now + *after);
            }
        }
        for (_, message) in sent(effects) {
            if let Message::Server(ServerMessage::StateAsk(StateAsk { id, .. })) = message {
                self.of.push((now, id));
            }
        }
    }

    fn ids(&self) -> Vec<u32> {
        self.of.iter().map(|(_, id)| *id).collect()
    }

    /// Lets the broker ask until it is done.
    fn run(&mut self, hand: &mut Hand<Broker>) {
        while let Some(next) = self.next.take() {
            hand.now = next;
            let effects = hand.step(Event::Timer(Timer::Ask));
            self.note(next, effects);
        }
    }
}

/// Question number `nonce` of a link about a client.
fn asks(of: u32, (nonce, id): (u64, u32)) -> Event<Broker> {
    from(link(of), ClientMessage::Query { nonce, id })
}

/// Links that are told to come again later.
fn busy(effects: &[Effect<Broker>]) -> Vec<NodeId> {
    let told = effects.iter().filter_map(|effect| match effect {
        Effect::Send { to: To::Node(to), message } => Some((*to, message)),
        _ => None,
    });
    let busy = told.filter(|(_, message)| {
        matches!(message, Message::Client(ClientMessage::Nack { why: Nack::Busy, .. }))
    });
    busy.map(|(to, _)| to).collect()
}

fn query(id: u32) -> Event<Broker> {
    from(link(id), ClientMessage::Query { nonce: 7, id })
}

#[test]
fn a_crowd_that_asks_at_once_is_asked_about_one_after_the_other_and_nobody_in_vain() {
    let (mut hand, mut asked) = (lone(40, Rules::default()), Asked::default());
    for id in 0..40 {
        let effects = hand.step(query(id));
        asked.note(hand.now, effects);
    }
    assert_eq!(asked.ids(), [0], "the first is asked about at once");
    asked.run(&mut hand);
    assert_eq!(asked.ids(), (0..40).collect::<Vec<_>>(), "in order, each once");
    let second =
        |from: Time| asked.of.iter().filter(|(at, _)| *at >= from && at.since(from) < Span::secs(1)).count();
    assert!(asked.of.iter().all(|(at, _)| second(*at) <= 10), "{:?}", asked.of);
}

#[test]
fn a_client_that_repeats_itself_keeps_one_turn_and_is_asked_about_again_later() {
    let (mut hand, mut asked) = (lone(3, Rules::default()), Asked::default());
    for id in [0, 1, 1, 1, 2] {
        let effects = hand.step(query(id));
        asked.note(hand.now, effects);
    }
    asked.run(&mut hand);
    assert_eq!(asked.ids(), [0, 1, 2]);
    let effects = hand.step(query(1));
    asked.note(hand.now, effects);
    assert_eq!(asked.ids(), [0, 1, 2, 1], "its answers may have been lost");
}

#[test]
fn a_link_that_asks_once_waits_behind_one_question_of_every_link_that_asks_for_many() {
    let (mut hand, mut asked) = (lone(3, Rules::default()), Asked::default());
    for (of, nonce) in (0..16).flat_map(|of| (0..64).map(move |nonce| (of, nonce))) {
        let effects = hand.step(asks(of, (u64::from(of) << 32 | nonce, 1)));
        assert_eq!(busy(&effects), [], "there is a place for each");
        asked.note(hand.now, effects);
    }
    assert_eq!(busy(&hand.step(asks(3, (9 << 40, 1)))), [link(3)], "a link has its share and no more");
    // All places are taken: one of those who have most gives way, and is told so.
    let effects = hand.step(asks(20, (7, 2)));
    let gave_way = busy(&effects);
    assert!(gave_way.len() == 1 && gave_way != [link(20)], "{gave_way:?}");
    asked.note(hand.now, effects);
    asked.run(&mut hand);
    let at = asked.ids().iter().position(|id| *id == 2).expect("it is asked");
    assert!(at <= 17, "the first at once and one of each link, then this one: {at}");
    assert_eq!(asked.of.len(), 1_024, "and nobody else in vain");
}

#[test]
fn no_question_of_a_link_that_asks_little_gives_way() {
    let mut hand = lone(3, Rules::default());
    // A question that was asked has its place until it is answered, so one link waits with one fewer.
    for (of, nonce) in (0..512).flat_map(|of| [(of, 1), (of, 2)]) {
        assert_eq!(busy(&hand.step(asks(of, (u64::from(of) << 32 | nonce, 1)))), []);
    }
    for of in 600..700 {
        let told = busy(&hand.step(asks(of, (7 << 32 | u64::from(of), of % 3))));
        assert!(told.len() == 1 && told != [link(of)], "two others wait for one of theirs: {told:?}");
        let again = (8 << 32 | u64::from(of), 1);
        assert_eq!(busy(&hand.step(asks(of, again))), [link(of)], "as many as the others have");
    }
}

#[test]
fn a_question_that_comes_by_another_link_waits_there_alone() {
    let (mut hand, mut asked) = (lone(3, Rules::default()), Asked::default());
    for (of, key) in [(0, (1, 0)), (1, (2, 1)), (1, (3, 2)), (2, (3, 2)), (1, (3, 2)), (2, (3, 2))] {
        let effects = hand.step(asks(of, key));
        asked.note(hand.now, effects);
    }
    asked.run(&mut hand);
    assert_eq!(asked.ids(), [0, 1, 2]);
}

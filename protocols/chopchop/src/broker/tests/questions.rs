//! Questions about clients: servers answer ten of them a second, so no more are asked.

use super::hostile::{from, lone};
use super::*;
use crate::broker::{Broker, Timer};
use crate::by_hand::{Hand, sent};
use crate::config::Rules;
use crate::message::StateAsk;
use synod_machine::{Effect, Event, Time};

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

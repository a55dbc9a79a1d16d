//! The signed broadcast: members that are behind learn what others have.

use std::collections::{BTreeMap, BTreeSet};

use synod_broadcast::signed::{Except, Message, Row, Timer};
use synod_broadcast::{Lot, Rule};
use synod_machine::{Effect, Event, Time, testing};
use synod_quorum::NodeId;
use synod_wire::{Blob, Bytes};

use crate::signed::{Signed, ack, certificate, config, prepare, proven, view};
use crate::world::{World, keys};

#[test]
fn a_member_that_missed_everything_catches_up() {
    let mut world = World::<Signed>::new(4, 1);
    world.liar = Some(NodeId(3));
    for at in 0..6 {
        while world.room(NodeId(0)) == 0 {
            assert!(world.happen());
        }
        world.broadcast(0, &format!("payload {at}"));
    }
    assert!(world.settle(6));
    world.go_on(2_000);
    world.liar = None;
    world.restart(NodeId(3), true);
    assert!(world.settle(6));
    assert!([Rule::CatchUp, Rule::Pull].iter().all(|rule| world.seats[3].rules.contains(rule.name())));
}

/// What a member says that has nothing but slots above gaps.
pub(crate) fn frontier(beyond: &[Lot], life: u64, rows: u64) -> Message {
    let beyond = beyond.to_vec().try_into().expect("few");
    Message::Frontier { certified: Vec::new().try_into().expect("none"), beyond, life, rows }
}

/// What a machine sends upon a message of member 2.
pub(crate) fn answers(machine: &mut Signed, message: Message) -> Vec<Message> {
    let mut events = vec![Event::Message { from: NodeId(2), message }];
    let mut sent = Vec::new();
    while let Some(event) = events.pop() {
        for effect in testing::effects(machine, event, Time::ZERO) {
            match effect {
                Effect::Compute(job) => events.push(Event::Done(synod_machine::Job::run(job, &keys(0)))),
                Effect::Send { message, .. } => sent.push(message),
                _ => {}
            }
        }
    }
    sent
}

#[test]
fn a_slot_that_one_correct_member_delivered_above_a_gap_is_delivered_by_all() {
    let mut world = World::<Signed>::new(4, 8);
    world.liar = Some(NodeId(3));
    let lot = Lot { source: 3, sequence: 2 };
    let said = [1, 2, 3].map(|by| ack(by, lot, "text", &[]).said);
    world.say(NodeId(3), NodeId(1), prepare(3, 2, "text"));
    world.say(NodeId(3), NodeId(1), Message::Commit(certificate(lot, "text", said.to_vec())));
    assert!(world.settle(1), "its source left slot 1 empty for ever, and told one member of slot 2");
    proven(&world, 4);
}

#[test]
fn all_slots_above_gaps_are_told_of_in_turn() {
    let mut config = config(4, 0);
    (config.bounds.window, config.bounds.retain) = (200, 200);
    let mut machine = Signed::new(config, view(4), &BTreeMap::new()).expect("sound");
    testing::effects(&mut machine, Event::Start, Time::ZERO);
    let lots = [1, 2].map(|source| (2..=200).map(move |sequence| Lot { source, sequence }));
    let lots: BTreeSet<Lot> = lots.into_iter().flatten().collect();
    for lot in lots.iter().copied() {
        let said = [1, 2, 3].map(|by| ack(by, lot, "text", &[]).said);
        answers(&mut machine, Message::Commit(certificate(lot, "text", said.to_vec())));
    }
    let mut told = || {
        let effects = testing::effects(&mut machine, Event::Timer(Timer::Frontier), Time::ZERO);
        let told = effects.into_iter().find_map(|effect| match effect {
            Effect::Send { message: Message::Frontier { beyond, .. }, .. } => Some(beyond),
            _ => None,
        });
        told.expect("says how far it is").iter().copied().collect::<BTreeSet<Lot>>()
    };
    let (first, second) = (told(), told());
    assert_eq!(first.len(), 256);
    assert!(first.union(&second).eq(&lots));
}

#[test]
fn what_rows_tell_of_is_asked_for_again_until_it_comes_and_not_for_ever() {
    let mut machine = Signed::new(config(4, 0), view(4), &BTreeMap::new()).expect("sound");
    let lot = Lot { source: 1, sequence: 1 };
    let partly = [1, 2, 3].map(|by| ack(by, lot, "text", if by == 2 { &[5] } else { &[] }).said);
    let whole = [0, 1, 3].map(|by| ack(by, lot, "text", &[]).said);
    answers(&mut machine, Message::Commit(certificate(lot, "text", partly.to_vec())));
    let asks = |machine: &mut Signed| {
        let asked = answers(machine, frontier(&[], 7, 1));
        if !asked.contains(&Message::AskRows(0)) {
            return None;
        }
        let rows = vec![Row { lot, open: Except::default() }].try_into().expect("one");
        Some(answers(machine, Message::Rows { life: 7, from: 0, rows }).contains(&Message::Ask(lot)))
    };
    let mut gives_up = machine.clone();
    assert_eq!([asks(&mut machine), asks(&mut machine)], [Some(true); 2], "the first may be lost");
    answers(&mut machine, Message::Commit(certificate(lot, "text", whole.to_vec())));
    assert_eq!([asks(&mut machine), asks(&mut machine)], [Some(false), None], "it came");
    let times = std::iter::from_fn(|| asks(&mut gives_up)).take(100).count();
    assert!((5..20).contains(&times), "nobody has it any more: {times}");
}

#[test]
fn rows_of_a_member_that_started_again_are_read_again() {
    let mut machine = Signed::new(config(4, 0), view(4), &BTreeMap::new()).expect("sound");
    let mut asked = |life, rows| {
        let message = frontier(&[], life, rows);
        let event = Event::Message { from: NodeId(2), message };
        let effects = testing::effects(&mut machine, event, Time::ZERO);
        let asked = effects.into_iter().find_map(|effect| match effect {
            Effect::Send { message: Message::AskRows(from), .. } => Some(from),
            _ => None,
        });
        // Of slots that are not worked on yet, so that nothing is asked for.
        let row = |at| Row { lot: Lot { source: 1, sequence: 100 + at }, open: Except::default() };
        let rows: Vec<Row> = (asked.unwrap_or(rows)..rows).map(row).collect();
        for of in [life - 1, life] {
            let rows = rows.clone().try_into().expect("few");
            let message = Message::Rows { life: of, from: asked.unwrap_or_default(), rows };
            testing::effects(&mut machine, Event::Message { from: NodeId(2), message }, Time::ZERO);
        }
        asked
    };
    assert_eq!([asked(7, 5), asked(7, 5), asked(7, 9)], [Some(0), None, Some(5)]);
    assert_eq!([asked(8, 9), asked(8, 9)], [Some(0), None], "numbered anew");
}

#[test]
fn the_frontier_waits_for_payloads() {
    let mut machine = Signed::new(config(4, 0), view(4), &BTreeMap::new()).expect("sound");
    let mut jobs = Vec::new();
    let mut hears = |machine: &mut Signed, message: Message| {
        let mut events = vec![Event::Message { from: NodeId(2), message }];
        while let Some(event) = events.pop() {
            for effect in testing::effects(machine, event, Time::ZERO) {
                if let Effect::Compute(job) = effect {
                    jobs.push(());
                    events.push(Event::Done(synod_machine::Job::run(job, &keys(0))));
                }
            }
        }
    };
    let lot = |sequence| Lot { source: 2, sequence };
    for sequence in 1..=8 {
        let said = [1, 2, 3].map(|by| ack(by, lot(sequence), "text", &[]).said);
        hears(&mut machine, Message::Commit(certificate(lot(sequence), "text", said.to_vec())));
    }
    assert_eq!(machine.certified(NodeId(2)), 0, "certified, and not here");
    for sequence in [2, 1] {
        let payload = Blob::try_from(Bytes::from_static(b"text")).expect("short");
        hears(&mut machine, Message::Pulled { lot: lot(sequence), payload });
    }
    assert_eq!(machine.certified(NodeId(2)), 2);
}

//! The signed broadcast: what a liar can make of certificates and rows.

use std::collections::{BTreeMap, BTreeSet};

use synod_broadcast::Lot;
use synod_broadcast::signed::{Certificate, Except, Message, Row, Setup};
use synod_machine::broadcast::{Begun, ReliableBroadcast};
use synod_machine::{Condition, Effect, Event, Link, Log, Recover, Time, testing};
use synod_quorum::NodeId;
use synod_wire::{Limits, Wire};

use crate::frontiers::{answers, frontier};
use crate::signed::{Signed, ack, certificate, config, view};

const LOT: Lot = Lot { source: 1, sequence: 1 };

/// A certificate of all items but those that one liar leaves out.
fn but(lot: Lot, out: &[u32]) -> Certificate {
    let said = [1, 2, 3].map(|by| ack(by, lot, "text", if by == 3 { out } else { &[] }).said);
    certificate(lot, "text", said.to_vec())
}

fn machine(window: u64) -> Signed {
    let mut config = config(4, 0);
    (config.bounds.window, config.bounds.retain) = (window, window);
    Signed::new(config, view(4), &BTreeMap::new()).expect("sound")
}

fn open(machine: &Signed) -> Vec<BTreeSet<u32>> {
    let proofs = machine.proofs(LOT.into()).into_iter();
    let read = proofs.map(|proof| Certificate::decode(proof, &Limits::default()).expect("a certificate"));
    read.map(|one| one.open(3).items().iter().copied().collect()).collect()
}

/// A liar signs another list for each certificate: as many of them as are kept, each of one item.
#[test]
fn a_certificate_of_everything_is_taken_however_many_of_single_items_came_before() {
    let mut machine = machine(8);
    for item in 0..70_u32 {
        let out: Vec<u32> = (0..100).filter(|other| *other != item).collect();
        answers(&mut machine, Message::Commit(but(LOT, &out)));
    }
    let lists = open(&machine);
    assert_eq!(lists.len(), 64, "no more are kept");
    assert!(lists.iter().all(|list| list.len() == 99));
    answers(&mut machine, Message::Commit(but(LOT, &[])));
    let lists = open(&machine);
    assert_eq!(
        (lists.len(), lists.last()),
        (64, Some(&BTreeSet::new())),
        "one of those whose items it certifies went"
    );
}

/// The user was told of a certificate and took care of it, then a fuller one came, and the member stopped.
#[test]
fn a_fuller_certificate_is_told_again_after_a_restart_though_the_first_was_taken_care_of() {
    let mut machine = machine(8);
    for list in [&[1, 2][..], &[]] {
        answers(&mut machine, Message::Commit(but(LOT, list)));
    }
    assert_eq!(open(&machine).len(), 2, "the first one stays, though it says nothing more");
    let mut records = Vec::new();
    machine.snapshot(&mut |record| records.push(record));
    let setup = Setup {
        config: config(4, 0),
        view: view(4),
        begun: Begun::default(),
        settled: BTreeMap::from([(1, 1)]),
    };
    let log = Log { condition: Condition::Clean, records: &mut records.into_iter() };
    let mut again = Signed::recover(setup, log).expect("its own records");
    let effects = testing::effects(&mut again, Event::Start, Time::ZERO);
    let is_pull = |effect: &Effect<Signed>| {
        matches!(effect, Effect::Send { message: Message::Pull { lot: LOT, .. }, .. })
    };
    assert!(effects.iter().any(is_pull), "its payload is wanted, to be told with it");
}

#[test]
fn whoever_asks_is_sent_one_certificate_where_one_says_as_much() {
    let mut machine = machine(8);
    let mut sent = Vec::new();
    for list in [&[1, 2][..], &[2, 3], &[]] {
        answers(&mut machine, Message::Commit(but(LOT, list)));
        let all = answers(&mut machine, Message::Ask(LOT)).into_iter();
        sent.push(all.filter(|message| matches!(message, Message::Commit(_))).count());
    }
    assert_eq!(sent, [1, 2, 1]);
}

/// What is sent upon rows of a member that leaves an item of each of these slots open.
fn commits(machine: &mut Signed, from: u64, lots: impl Iterator<Item = Lot>) -> Vec<Lot> {
    let row = |lot| Row { lot, open: Except::new(vec![5]).expect("rising") };
    let rows = lots.map(row).collect::<Vec<_>>().try_into().expect("few");
    let sent = answers(machine, Message::Rows { life: 7, from, rows });
    let lots = sent.iter().filter_map(|message| match message {
        Message::Commit(certificate) => Some(certificate.lot),
        _ => None,
    });
    lots.collect()
}

#[test]
fn rows_are_answered_when_they_were_asked_for_each_slot_once_and_a_queueful_at_a_time() {
    let mut machine = machine(200);
    let lots: Vec<Lot> = (1..=100).map(|sequence| Lot { source: 1, sequence }).collect();
    for lot in lots.iter().copied() {
        answers(&mut machine, Message::Commit(but(lot, &[])));
    }
    let unasked = commits(&mut machine, u64::MAX, std::iter::repeat_n(LOT, 256));
    assert_eq!(unasked, [], "nobody asked");
    assert!(answers(&mut machine, frontier(&[], 7, 100)).contains(&Message::AskRows(0)));
    let first = commits(&mut machine, 0, lots.iter().copied());
    assert_eq!(first, lots[..64]);
    assert_eq!(commits(&mut machine, 0, lots.iter().copied()), [], "once per question");
    assert!(answers(&mut machine, frontier(&[], 7, 100)).contains(&Message::AskRows(64)), "the others next");
    assert_eq!(commits(&mut machine, 64, lots[64..].iter().copied()), lots[64..]);
    assert!(answers(&mut machine, frontier(&[], 7, 356)).contains(&Message::AskRows(100)));
    assert_eq!(commits(&mut machine, 100, std::iter::repeat_n(LOT, 256)), [LOT], "however often it is named");
}

#[test]
fn rows_are_read_again_over_a_new_connection() {
    let mut machine = machine(8);
    answers(&mut machine, Message::Commit(but(LOT, &[])));
    for again in [false, true] {
        if again {
            assert_eq!(answers(&mut machine, frontier(&[], 7, 1)), [], "all of them were read");
            let event = Event::Link { peer: NodeId(2), link: Link::Down };
            testing::effects(&mut machine, event, Time::ZERO);
        }
        assert!(answers(&mut machine, frontier(&[], 7, 1)).contains(&Message::AskRows(0)));
        assert_eq!(commits(&mut machine, 0, [LOT].into_iter()), [LOT], "what was on its way may be lost");
    }
}

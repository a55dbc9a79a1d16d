//! Items 2 and 3: order is durability, and one sync serves many.

use synod_machine::Span;
use synod_parity::{Act, Disk, Log, Rig, Said, probes};
use synod_quorum::NodeId;

use crate::{act, heard, noted, said, to};

pub(crate) fn item_2<R: Rig<Said>>() {
    sends_and_outputs_are_held_and_nothing_else_is::<R>();
    a_crash_keeps_a_prefix_and_no_word_without_its_record::<R>();
    for failure in [Disk::FailsWrite, Disk::FailsSync] {
        a_failure_of_the_disk_ends_the_node::<R>(failure);
    }
}

fn sends_and_outputs_are_held_and_nothing_else_is<R: Rig<Said>>() {
    let mut rig = R::start(probes(2, &[0]));
    rig.disk(0, Disk::Holds);
    let first = vec![
        Act::Say(1),
        Act::Send(to(1), 0, 10),
        Act::Persist(1),
        Act::Say(2),
        Act::Send(to(1), 0, 11),
        Act::Compute(5),
        Act::Arm(6, Span::ZERO),
        Act::Suspect(NodeId(1)),
        Act::Send(to(0), 0, 12),
        Act::Persist(2),
        Act::Say(3),
        Act::Send(to(1), 0, 13),
    ];
    act(&mut rig, 0, first);
    // The machine goes on meanwhile, and what it says then waits behind the records too.
    act(&mut rig, 0, vec![Act::Say(4), Act::Send(to(1), 0, 14), Act::Note(7)]);
    rig.until("what is not held happens", |logs| {
        let log = &logs[0];
        let free = [("done", 5), ("fired", 6), ("heard", 12), ("noted", 7)];
        free.iter().all(|(name, n)| noted(log, name, *n))
            && log.blamed.len() == 1
            && said(log) == [1]
            && heard(&logs[1], 0, 0) == [10]
    });
    let held = |log: &Log<Said>| {
        let waits = [Said::Done(5), Said::Fired { name: 6, early: false }];
        log.of(0).filter(|said| waits.contains(said)).count()
    };
    assert_eq!(held(&rig.log(0)), 0, "the outputs of later turns are held");
    rig.disk(0, Disk::Works);
    rig.until("what was held leaves", |logs| {
        said(&logs[0]) == [1, 2, 3, 4]
            && heard(&logs[1], 0, 0) == [10, 11, 13, 14]
            && heard(&logs[0], 0, 0) == [12]
            && held(&logs[0]) == 2
    });
    rig.stop();
}

fn a_crash_keeps_a_prefix_and_no_word_without_its_record<R: Rig<Said>>() {
    const ROUNDS: u64 = 20;
    const ROUND: u64 = 25;
    let mut rig = R::start(probes(2, &[0]));
    for round in 0..ROUNDS {
        if round + 1 == ROUNDS {
            rig.until("some words have come", |logs| {
                heard(&logs[1], 0, 0).len() >= 100 && said(&logs[0]).len() >= 100
            });
        }
        for n in round * ROUND..(round + 1) * ROUND {
            act(&mut rig, 0, vec![Act::Persist(n), Act::Send(to(1), 0, n), Act::Say(n)]);
        }
        act(&mut rig, 0, vec![Act::Note(round)]);
        // The notes are not held, so the disk lags behind the machine.
        rig.until("the machine took a round", |logs| noted(&logs[0], "noted", round));
    }
    rig.crash(0);
    rig.restart(0);
    rig.until("it starts again and greets", |logs| logs[0].life(2, 0).count() > 0 && logs[0].up.len() == 1);
    let log = rig.log(0);
    let Some(Said::Started(records)) = log.life(2, 0).next() else { unreachable!("{log:?}") };
    assert_eq!(*records, (0..records.len() as u64).collect::<Vec<_>>(), "a prefix of what was kept");
    for told in [heard(&rig.log(1), 0, 0), said(&log)] {
        assert_eq!(told, (0..told.len() as u64).collect::<Vec<_>>());
        assert!(told.len() <= records.len(), "{} told of {} recovered", told.len(), records.len());
    }
    rig.stop();
}

fn a_failure_of_the_disk_ends_the_node<R: Rig<Said>>(failure: Disk) {
    let mut rig = R::start(probes(2, &[0]));
    act(&mut rig, 0, vec![Act::Persist(1), Act::Say(1)]);
    rig.until("the first record is durable", |logs| said(&logs[0]) == [1]);
    rig.disk(0, failure);
    act(&mut rig, 0, vec![Act::Persist(2), Act::Say(2), Act::Send(to(1), 0, 2)]);
    rig.until("the node ends", |logs| logs[0].ended == 1);
    rig.restart(0);
    rig.until("it comes back", |logs| logs[0].life(2, 0).count() > 0 && logs[0].up.len() == 1);
    act(&mut rig, 0, vec![Act::Persist(3), Act::Say(3), Act::Send(to(1), 0, 3)]);
    rig.until("and works", |logs| said(&logs[0]).contains(&3) && heard(&logs[1], 0, 0).contains(&3));
    let log = rig.log(0);
    assert_eq!(said(&log), [1, 3], "what waited for the failed write never left");
    assert_eq!(heard(&rig.log(1), 0, 0), [3]);
    let Some(Said::Started(records)) = log.life(2, 0).next() else { unreachable!("{log:?}") };
    assert!(records.starts_with(&[1]), "what was durable before is still there: {records:?}");
    assert_eq!(log.ended, 1, "it ended once");
    rig.stop();
}

pub(crate) fn item_3<R: Rig<Said>>() {
    const TURNS: u64 = 300;
    let mut rig = R::start(probes(1, &[0, 1]));
    rig.disk(0, Disk::Holds);
    let before = rig.syncs(0);
    for n in 0..TURNS {
        let machine = u8::try_from(n % 2).expect("0 or 1");
        rig.input(0, machine, vec![Act::Persist(n), Act::Say(n), Act::Note(n)]);
    }
    rig.until("every turn is taken", |logs| logs[0].notes("noted").count() as u64 == TURNS);
    assert_eq!(said(&rig.log(0)), [0; 0], "nothing is durable yet");
    rig.disk(0, Disk::Works);
    let all = |log: &Log<Said>| {
        log.told.iter().filter(|entry| matches!(entry.what, Said::Said(_))).count() as u64 == TURNS
    };
    rig.until("everything is durable", |logs| all(&logs[0]));
    let syncs = rig.syncs(0) - before;
    assert!((1..=10).contains(&syncs), "{syncs} syncs for {TURNS} turns of two machines");
    rig.stop();
}

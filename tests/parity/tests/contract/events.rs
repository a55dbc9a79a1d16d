//! Items 5, 6, 7, 9 and 10: timers, jobs, own words, draws, the first event.

use std::collections::BTreeSet;

use synod_machine::{Rng, Span};
use synod_parity::{Act, Log, Rig, Said, probes};
use synod_quorum::{NodeId, NodeSet};

use crate::{act, heard, noted, said, to};

pub(crate) fn item_5<R: Rig<Said>>() {
    let mut rig = R::start(probes(1, &[0]));
    let fired = |log: &Log<Said>| {
        let name = |said: &Said| match *said {
            Said::Fired { name, early } => Some((name, early)),
            _ => None,
        };
        log.of(0).filter_map(name).collect::<Vec<_>>()
    };
    let armed = vec![
        Act::Arm(30, Span::millis(30)),
        Act::Arm(9, Span::millis(10)),
        Act::Arm(8, Span::millis(10)),
        Act::Arm(50, Span::millis(2)),
        Act::Disarm(50),
        Act::Arm(20, Span::millis(2)),
        Act::Arm(20, Span::millis(20)),
    ];
    act(&mut rig, 0, armed);
    rig.until("the last timer fires", |logs| fired(&logs[0]).len() >= 4);
    let on_time = [8, 9, 20, 30].map(|name| (name, false));
    assert_eq!(fired(&rig.log(0)), on_time, "a moved timer fires at its new time, a disarmed one never");
    // All of them are late when the processor goes on.
    let mut late: Vec<Act> = [(3, 40), (7, 20), (1, 60), (5, 20), (9, 40), (2, 20)]
        .map(|(name, after)| Act::Arm(name, Span::millis(after)))
        .to_vec();
    late.push(Act::Pause(Span::millis(150)));
    act(&mut rig, 0, late);
    rig.until("the late ones fire", |logs| fired(&logs[0]).len() >= 10);
    act(&mut rig, 0, vec![Act::Arm(99, Span::millis(10))]);
    rig.until("a last one fires", |logs| fired(&logs[0]).contains(&(99, false)));
    let late = [2, 5, 7, 3, 9, 1, 99].map(|name| (name, false));
    assert_eq!(fired(&rig.log(0))[4..], late, "in the order of time and name, each once");
    rig.stop();
}

pub(crate) fn item_6<R: Rig<Said>>() {
    const JOBS: u64 = 500;
    let mut rig = R::start(probes(1, &[0]));
    let done = |log: &Log<Said>, life| {
        let number = |said: &Said| if let Said::Done(n) = said { Some(*n) } else { None };
        log.life(life, 0).filter_map(number).collect::<Vec<_>>()
    };
    act(&mut rig, 0, (0..JOBS).map(Act::Compute).collect());
    rig.until("every job is answered", |logs| done(&logs[0], 1).len() as u64 >= JOBS);
    rig.hold_jobs(0);
    act(&mut rig, 0, (JOBS..JOBS + 8).map(Act::Compute).chain([Act::Note(1)]).collect());
    rig.until("the held ones are given", |logs| noted(&logs[0], "noted", 1));
    rig.crash(0);
    let mut answered = done(&rig.log(0), 1);
    answered.retain(|number| *number < JOBS);
    assert_eq!(answered.len() as u64, JOBS, "each once");
    assert_eq!(answered.into_iter().collect::<BTreeSet<_>>(), (0..JOBS).collect());
    rig.restart(0);
    rig.until("it starts again", |logs| logs[0].life(2, 0).count() > 0);
    act(&mut rig, 0, vec![Act::Compute(JOBS + 8), Act::Arm(1, Span::millis(300))]);
    rig.until("a new job is answered and time goes by", |logs| {
        done(&logs[0], 2).contains(&(JOBS + 8)) && noted(&logs[0], "fired", 1)
    });
    assert_eq!(done(&rig.log(0), 2), [JOBS + 8], "the crash lost the others");
    rig.stop();
}

pub(crate) fn item_7<R: Rig<Said>>() {
    let mut rig = R::start(probes(2, &[0]));
    let both = NodeSet::first(2);
    act(
        &mut rig,
        0,
        vec![
            Act::Send(both, 0, 4),
            Act::Note(1),
            Act::Send(both, 1, 5),
            Act::Send(to(0), 0, 6),
            Act::Note(2),
        ],
    );
    let words = |log: &Log<Said>| heard(log, 0, 0).len() + heard(log, 0, 1).len();
    rig.until("both hear", |logs| words(&logs[0]) == 3 && words(&logs[1]) == 2);
    let log = rig.log(0);
    let mine = |entry: &&synod_parity::Entry<synod_machine::Note>| match entry.what.name {
        "noted" => true,
        "heard" => entry.what.values[1] == 0,
        _ => false,
    };
    let order: Vec<_> =
        log.noted.iter().filter(mine).map(|entry| (entry.what.name, entry.what.values[0])).collect();
    let expected = [("noted", 1), ("noted", 2), ("heard", 4), ("heard", 5), ("heard", 6)];
    assert_eq!(order, expected, "the turn ends before its own words come back, in their order");
    assert_eq!((heard(&rig.log(1), 0, 0), heard(&rig.log(1), 0, 1)), (vec![4], vec![5]));
    rig.stop();
}

pub(crate) fn item_9<R: Rig<Said>>() {
    let plan = probes(2, &[0, 1]);
    let seed = plan.seed;
    let mut rig = R::start(plan);
    let drew = |log: &Log<Said>, life, machine| {
        let number = |said: &Said| if let Said::Drew(n) = said { Some(*n) } else { None };
        log.life(life, machine).filter_map(number).collect::<Vec<_>>()
    };
    let mut streams = BTreeSet::new();
    for life in [1, 2] {
        for place in [0, 1] {
            for machine in [0, 1] {
                rig.input(place, machine, vec![Act::Draw; 3]);
            }
        }
        rig.until("everybody drew", |logs| {
            [0, 1].iter().all(|place| [0, 1].iter().all(|m| drew(&logs[*place], life, *m).len() == 3))
        });
        for (place, own) in [(0, NodeId(0)), (1, NodeId(1))] {
            for machine in [0, 1] {
                let mut stream = Rng::new(seed, own, machine);
                let expected: Vec<u64> = (0..3).map(|_| stream.draw()).collect();
                assert_eq!(drew(&rig.log(place), life, machine), expected, "{own} {machine} in life {life}");
                streams.insert(expected);
            }
            if life == 1 {
                rig.crash(place);
                rig.restart(place);
            }
        }
        rig.until("both are there", |logs| logs.iter().all(|log| log.lives == 2 && log.up.len() == 1));
    }
    assert_eq!(streams.len(), 4, "the streams of different machines differ");
    rig.stop();
}

pub(crate) fn item_10<R: Rig<Said>>() {
    const RECORDS: u64 = 50;
    let mut rig = R::start(probes(2, &[0, 1]));
    for machine in [0, 1] {
        rig.input(0, machine, (0..RECORDS).map(Act::Persist).chain([Act::Say(1)]).collect::<Vec<_>>());
    }
    rig.until("the records are durable", |logs| {
        said(&logs[0]) == [1] && logs[0].of(1).any(|said| *said == Said::Said(1))
    });
    rig.crash(0);
    rig.restart(0);
    // An input at once, and a peer that greets as soon as the link is up.
    for machine in [0, 1] {
        rig.input(0, machine, vec![Act::Say(2)]);
    }
    let greeted = |log: &Log<Said>, machine| {
        log.life(2, machine).any(|said| matches!(said, Said::Heard { tag: u64::MAX, .. }))
    };
    rig.until("everything else happens too", |logs| {
        [0, 1].iter().all(|machine| {
            greeted(&logs[0], *machine) && logs[0].life(2, *machine).any(|said| *said == Said::Said(2))
        })
    });
    let log = rig.log(0);
    for (life, count) in [(1, 0), (2, RECORDS)] {
        for machine in [0, 1] {
            let expected = Said::Started((0..count).collect());
            assert_eq!(log.life(life, machine).next(), Some(&expected), "the first of life {life}");
            let starts = log.life(life, machine).filter(|said| matches!(said, Said::Started(_))).count();
            assert_eq!(starts, 1, "once in life {life}");
            let first = log.noted.iter().find(|entry| entry.life == life && entry.machine == machine);
            assert_eq!(first.map(|entry| entry.what.name), Some("started"), "recovering says nothing");
        }
    }
    rig.stop();
}

//! Items 1, 4 and 8: order, identity, frames that do not decode.

use synod_machine::host::UNDECODABLE;
use synod_parity::{Act, Flaw, Log, Rig, Said, probes};
use synod_quorum::NodeId;

use crate::{act, heard, said, to};

/// The changes of the link to a peer that machine 0 heard of.
fn changes(log: &Log<Said>, of: u32) -> Vec<bool> {
    let change = |said: &Said| match *said {
        Said::Linked(peer, up) if peer == of => Some(up),
        _ => None,
    };
    log.of(0).filter_map(change).collect()
}

pub(crate) fn item_1<R: Rig<Said>>() {
    in_order_of_each_peer_and_queue::<R>();
    a_suffix_is_lost_then_down_and_up::<R>();
}

/// The probes assert that they are never entered twice; two peers and the local user drive one at once.
fn in_order_of_each_peer_and_queue<R: Rig<Said>>() {
    const COUNT: u64 = 200;
    let mut rig = R::start(probes(3, &[0]));
    for tag in 0..COUNT {
        for peer in [1, 2] {
            act(&mut rig, peer, vec![Act::Send(to(0), 0, tag), Act::Send(to(0), 1, tag)]);
        }
        act(&mut rig, 0, vec![Act::Say(tag)]);
    }
    // More than the short queue holds: it may drop, and no other queue notices.
    let flood = (0..100).map(|tag| Act::Heavy(to(0), 2, tag, 60_000));
    act(&mut rig, 1, flood.chain([Act::Send(to(0), 0, COUNT)]).collect());
    act(&mut rig, 2, vec![Act::Send(to(0), 0, COUNT)]);
    rig.until("every word of the long queues arrives", |logs| {
        let long = |peer| heard(&logs[0], peer, 0).len() + heard(&logs[0], peer, 1).len();
        let all = usize::try_from(2 * COUNT + 1).expect("few");
        long(1) == all && long(2) == all && !heard(&logs[0], 1, 2).is_empty()
    });
    let log = rig.log(0);
    for peer in [1, 2] {
        assert_eq!(heard(&log, peer, 0), (0..=COUNT).collect::<Vec<_>>(), "queue 0 of {peer}");
        assert_eq!(heard(&log, peer, 1), (0..COUNT).collect::<Vec<_>>(), "queue 1 of {peer}");
        assert_eq!(changes(&log, peer), [true], "the link stays up");
    }
    assert_eq!(said(&log), (0..COUNT).collect::<Vec<_>>(), "inputs keep their order too");
    let short = heard(&log, 1, 2);
    assert!(short.windows(2).all(|two| two[0] < two[1]), "{short:?}");
    rig.stop();
}

fn a_suffix_is_lost_then_down_and_up<R: Rig<Said>>() {
    const FIRST: u64 = 1_000;
    const SECOND: u64 = 50;
    let mut rig = R::start(probes(2, &[0]));
    for tag in (0..FIRST).step_by(10) {
        let heavy = (tag..tag + 10).flat_map(|tag| [0, 1].map(|queue| Act::Heavy(to(0), queue, tag, 4_000)));
        act(&mut rig, 1, heavy.collect());
    }
    act(&mut rig, 1, vec![Act::Note(1)]);
    rig.until("all is sent and some has come", |logs| {
        crate::noted(&logs[1], "noted", 1) && !heard(&logs[0], 1, 0).is_empty()
    });
    rig.break_link(0, 1);
    rig.until("both ends see the link go and come", |logs| {
        changes(&logs[0], 1).starts_with(&[true, false, true])
            && changes(&logs[1], 0).starts_with(&[true, false, true])
    });
    let later = (FIRST..FIRST + SECOND).flat_map(|tag| [0, 1].map(|queue| Act::Send(to(0), queue, tag)));
    act(&mut rig, 1, later.collect());
    let last = FIRST + SECOND - 1;
    rig.until("what is sent on the new link arrives", |logs| {
        [0, 1].iter().all(|queue| heard(&logs[0], 1, *queue).contains(&last))
    });
    let log = rig.log(0);
    let mut down = false;
    for queue in [0, 1] {
        let tags = heard(&log, 1, queue);
        let kept = tags.iter().take_while(|tag| **tag < FIRST).count() as u64;
        let expected: Vec<u64> = (0..kept).chain(FIRST..FIRST + SECOND).collect();
        assert_eq!(tags, expected, "queue {queue} loses the end of what was sent and nothing else");
    }
    for said in log.of(0) {
        match *said {
            Said::Linked(1, false) => down = true,
            Said::Heard { tag, .. } if down => assert!(tag >= FIRST, "word {tag} after the link went down"),
            _ => {}
        }
    }
    assert!(down);
    rig.stop();
}

pub(crate) fn item_4<R: Rig<Said>>() {
    let mut rig = R::start(probes(3, &[0]));
    act(&mut rig, 2, vec![Act::Pretend(to(0), 1, 20)]);
    act(&mut rig, 1, vec![Act::Pretend(to(0), 0, 10)]);
    act(&mut rig, 1, vec![Act::Pretend(to(2), 1, 12)]);
    rig.until("every word arrives", |logs| {
        let count = |place: usize| (0..3).map(|peer| heard(&logs[place], peer, 0).len()).sum::<usize>();
        count(0) == 2 && count(2) == 1
    });
    let log = rig.log(0);
    assert_eq!(heard(&log, 2, 0), [20], "whatever the word says of itself");
    assert_eq!(heard(&log, 1, 0), [10]);
    assert_eq!(heard(&rig.log(2), 1, 0), [12]);
    rig.stop();
}

pub(crate) fn item_8<R: Rig<Said>>() {
    let mut rig = R::start(probes(2, &[0]));
    rig.corrupt(1);
    let blamed = |log: &Log<Said>| log.blamed.iter().map(|entry| entry.what).collect::<Vec<_>>();
    for (count, flaw) in [Flaw::Trailing, Flaw::Misqueued].into_iter().enumerate() {
        act(&mut rig, 1, vec![Act::Spoil(NodeId(0), flaw), Act::Send(to(0), 0, 1)]);
        rig.until("a frame is blamed and the next one heard", |logs| {
            blamed(&logs[0]).len() == count + 1 && heard(&logs[0], 1, 0).len() == count + 1
        });
    }
    assert_eq!(changes(&rig.log(0), 1), [true], "two frames are forgiven");
    act(&mut rig, 1, vec![Act::Spoil(NodeId(0), Flaw::Cut)]);
    rig.until("the third closes the link, which comes up again", |logs| {
        changes(&logs[0], 1).starts_with(&[true, false, true])
            && changes(&logs[1], 0).starts_with(&[true, false, true])
    });
    let log = rig.log(0);
    assert_eq!(blamed(&log), [(NodeId(1), UNDECODABLE); 3]);
    assert_eq!(heard(&log, 1, 0), [1, 1], "the machine saw none of them");
    act(&mut rig, 1, vec![Act::Spoil(NodeId(0), Flaw::Cut), Act::Send(to(0), 0, 2)]);
    rig.until("the new link counts anew", |logs| heard(&logs[0], 1, 0) == [1, 1, 2]);
    assert_eq!(blamed(&rig.log(0)).len(), 4);
    rig.stop();
}

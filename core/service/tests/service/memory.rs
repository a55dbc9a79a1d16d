//! What a memory node promises: owners alone write, stamps rise, two epochs are served, and no old one is empty.

use synod_machine::register::{Held, Place, Region, RegisterOp, Said};
use synod_machine::testing::effects;
use synod_machine::{Bounded, Condition, Effect, Event, Log, Recover, Span, Time};
use synod_quorum::{Epoch, NodeId};
use synod_service::memory::{Boot, MemoryConfig, MemoryNode, MemoryWord, STAMP_END};

const CONFIG: MemoryConfig = MemoryConfig { members: 3, faulty: 1, registers: 8, quota: 100 };

fn node(records: &[Boot]) -> MemoryNode {
    let mut records = records.iter().copied();
    let log = Log { condition: Condition::Clean, records: &mut records };
    MemoryNode::recover(CONFIG, log).expect("a sound configuration")
}

fn place(epoch: u32, owner: u8, index: u32) -> Place {
    Place { region: Region { epoch: Epoch(epoch), owner }, index }
}

fn held(stamp: u64, byte: u8) -> Held {
    Held { stamp, value: [byte; 96] }
}

/// What the node says to an operation of a member, and whether it blames it.
fn ask_at(node: &mut MemoryNode, from: u32, op: RegisterOp, now: Time) -> (Option<Said>, bool) {
    let (mut said, mut is_blamed) = (None, false);
    for effect in effects(node, Event::Message { from: NodeId(from), message: MemoryWord::Op(op) }, now) {
        match effect {
            Effect::Send { message: MemoryWord::Reply(reply), .. } => {
                assert_eq!((reply.tag, reply.place, reply.boot), (op.tag(), op.place(), node.boot()));
                said = Some(reply.said);
            }
            Effect::Blame { peer, .. } => {
                assert_eq!(peer, NodeId(from));
                is_blamed = true;
            }
            other => unreachable!("a memory node does nothing else: {other:?}"),
        }
    }
    assert!(node.bytes() <= node.bytes_max());
    (said, is_blamed)
}

fn ask(node: &mut MemoryNode, from: u32, op: RegisterOp) -> Option<Said> {
    ask_at(node, from, op, Time::ZERO).0
}

fn write(node: &mut MemoryNode, from: u32, place: Place, held: Held) -> Option<Said> {
    ask(node, from, RegisterOp::Write { tag: 7, place, held })
}

fn read(node: &mut MemoryNode, from: u32, place: Place) -> Option<Said> {
    ask(node, from, RegisterOp::Read { tag: 9, place })
}

#[test]
fn what_its_owner_wrote_is_read_by_all_and_nothing_before() {
    let mut node = node(&[]);
    assert_eq!(read(&mut node, 2, place(0, 1, 3)), Some(Said::Value(None)));
    assert_eq!(node.register_bytes(), 0, "reading makes no region");
    assert_eq!(write(&mut node, 1, place(0, 1, 3), held(5, 1)), Some(Said::Written));
    for reader in 0..3 {
        assert_eq!(read(&mut node, reader, place(0, 1, 3)), Some(Said::Value(Some(held(5, 1)))));
    }
    assert_eq!(read(&mut node, 2, place(0, 1, 4)), Some(Said::Value(None)));
    assert_eq!(read(&mut node, 2, place(0, 2, 3)), Some(Said::Value(None)));
}

#[test]
fn nobody_else_writes_and_whoever_tries_is_blamed() {
    let mut node = node(&[]);
    let op = RegisterOp::Write { tag: 1, place: place(0, 1, 3), held: held(5, 1) };
    assert_eq!(ask_at(&mut node, 2, op, Time::ZERO), (Some(Said::Refused), true));
    assert_eq!(ask(&mut node, 3, op), None, "no member");
    assert_eq!(ask(&mut node, NodeId::GUESTS.0, op), None, "no member");
    assert_eq!(read(&mut node, 1, place(0, 1, 3)), Some(Said::Value(None)));
}

#[test]
fn stamps_of_a_register_rise_and_a_write_said_again_is_answered_again() {
    let mut node = node(&[]);
    let at = place(0, 0, 0);
    assert_eq!(write(&mut node, 0, at, held(5, 1)), Some(Said::Written));
    assert_eq!(write(&mut node, 0, at, held(5, 1)), Some(Said::Written));
    assert_eq!(write(&mut node, 0, at, held(5, 2)), Some(Said::Refused));
    assert_eq!(write(&mut node, 0, at, held(4, 2)), Some(Said::Refused));
    assert_eq!(read(&mut node, 1, at), Some(Said::Value(Some(held(5, 1)))));
    assert_eq!(write(&mut node, 0, at, held(13, 3)), Some(Said::Written));
    for stamp in [0, STAMP_END, u64::MAX] {
        assert_eq!(write(&mut node, 0, place(0, 0, 1), held(stamp, 1)), Some(Said::Refused));
    }
    assert_eq!(read(&mut node, 1, at), Some(Said::Value(Some(held(13, 3)))));
}

#[test]
fn registers_that_are_none_are_refused() {
    let mut node = node(&[]);
    assert_eq!(read(&mut node, 0, place(0, 0, 8)), Some(Said::Refused));
    assert_eq!(read(&mut node, 0, place(0, 3, 0)), Some(Said::Refused));
    assert_eq!(write(&mut node, 0, place(0, 0, u32::MAX), held(1, 1)), Some(Said::Refused));
}

#[test]
fn an_epoch_is_retired_by_two_members_and_is_never_empty_afterwards() {
    let mut node = node(&[]);
    write(&mut node, 0, place(0, 0, 0), held(5, 1));
    // One member, who may lie, moves nothing and gets no answer from far away.
    assert_eq!(read(&mut node, 2, place(7, 2, 0)), None);
    assert_eq!(read(&mut node, 1, place(0, 0, 0)), Some(Said::Value(Some(held(5, 1)))));
    assert_eq!(node.oldest(), Epoch(0));
    // Its own region of the next epoch still answers.
    assert_eq!(write(&mut node, 2, place(1, 2, 0), held(1, 1)), Some(Said::Written));
    // The second is correct, or the first is.
    assert_eq!(read(&mut node, 1, place(1, 0, 0)), Some(Said::Value(None)));
    assert_eq!(node.oldest(), Epoch(1));
    let retired = Some(Said::Retired { oldest: Epoch(1) });
    assert_eq!(read(&mut node, 0, place(0, 0, 0)), retired);
    assert_eq!(write(&mut node, 0, place(0, 0, 0), held(9, 1)), retired);
    assert_eq!(read(&mut node, 0, place(1, 2, 0)), Some(Said::Value(Some(held(1, 1)))));
}

#[test]
fn memory_is_bounded_by_two_epochs_of_all_members() {
    let mut node = node(&[]);
    for epoch in 0..6 {
        for member in 0..3_u8 {
            for index in 0..8 {
                write(&mut node, u32::from(member), place(epoch, member, index), held(1, 1));
            }
        }
    }
    assert_eq!(node.oldest(), Epoch(5));
    assert!(node.register_bytes() > 0 && node.bytes() <= node.bytes_max());
}

#[test]
fn whoever_asks_too_often_waits_and_nobody_else_does() {
    let mut node = node(&[]);
    let op = RegisterOp::Read { tag: 1, place: place(0, 0, 0) };
    let answered = (0..150).filter(|_| ask(&mut node, 2, op).is_some()).count();
    assert_eq!(answered, 100);
    assert!(ask(&mut node, 1, op).is_some());
    let later = Time::ZERO + Span::millis(1);
    assert!(ask_at(&mut node, 2, op, later).0.is_some());
}

#[test]
fn a_node_that_comes_back_is_empty_and_says_so_before_anything_else() {
    let mut first = node(&[]);
    let started = effects(&mut first, Event::Start, Time::ZERO);
    assert!(matches!(started.as_slice(), [Effect::Persist(Boot(1))]), "{started:?}");
    write(&mut first, 0, place(0, 0, 0), held(5, 1));
    let mut kept = Vec::new();
    first.snapshot(&mut |boot| kept.push(boot));
    let mut second = node(&kept);
    assert_eq!((first.boot(), second.boot()), (1, 2));
    let started = effects(&mut second, Event::Start, Time::ZERO);
    assert!(matches!(started.as_slice(), [Effect::Persist(Boot(2))]), "{started:?}");
    assert_eq!(read(&mut second, 0, place(0, 0, 0)), Some(Said::Value(None)));
}

#[test]
fn configurations_that_serve_nobody_are_refused() {
    for config in [
        MemoryConfig { registers: 0, ..CONFIG },
        MemoryConfig { registers: (1 << 20) + 1, ..CONFIG },
        MemoryConfig { quota: 0, ..CONFIG },
        MemoryConfig { members: 2, ..CONFIG },
    ] {
        assert!(config.quorums().is_err(), "{config:?}");
        let log = Log { condition: Condition::Fresh, records: &mut std::iter::empty() };
        assert!(MemoryNode::recover(config, log).is_err());
    }
}

//! Registers over three memory nodes.

use std::sync::Arc;

use synod_machine::register::{Held, Place, Region, RegisterOp, RegisterReply, Said};
use synod_machine::testing::effects;
use synod_machine::{Effect, Event, Time, To};
use synod_quorum::{Epoch, NodeId};
use synod_ubft::Registers;
use synod_ubft::registers::{Input, MemoryWords, OUTSTANDING_MAX, Output, Repeat};

use crate::world::{config, memory_id};

fn held(stamp: u64, byte: u8) -> Held {
    Held { stamp, value: [byte; 96] }
}

fn place(owner: u8, index: u32) -> Place {
    Place { region: Region { epoch: Epoch(0), owner }, index }
}

#[derive(Default)]
struct Seen {
    ops: Vec<(NodeId, RegisterOp)>,
    told: Vec<Output>,
    blamed: Vec<NodeId>,
    armed: usize,
}

fn step(registers: &mut Registers, event: Event<Registers>) -> Seen {
    step_at(registers, event, Time::ZERO)
}

fn step_at(registers: &mut Registers, event: Event<Registers>, now: Time) -> Seen {
    let mut seen = Seen::default();
    for effect in effects(registers, event, now) {
        match effect {
            Effect::Send { to: To::Node(node), message: MemoryWords::Op(op) } => seen.ops.push((node, op)),
            Effect::Output(output) => seen.told.push(output),
            Effect::Blame { peer, .. } => seen.blamed.push(peer),
            Effect::Arm { .. } => seen.armed += 1,
            Effect::Applied(_) => {}
            other => unreachable!("{other:?}"),
        }
    }
    seen
}

fn registers() -> Registers {
    Registers::new(Arc::new(config(NodeId(1), 3)))
}

fn answer(registers: &mut Registers, at: usize, op: RegisterOp, said: Said) -> Seen {
    answer_of(registers, at, 1, op, said)
}

fn answer_of(registers: &mut Registers, at: usize, boot: u64, op: RegisterOp, said: Said) -> Seen {
    let reply = RegisterReply { tag: op.tag(), place: op.place(), boot, said };
    step(registers, Event::Message { from: memory_id(at), message: MemoryWords::Reply(reply) })
}

#[test]
fn a_write_is_complete_at_two_of_three_nodes_and_is_told_once() {
    let mut registers = registers();
    let seen = step(&mut registers, Event::Input(Input::Write { index: 3, held: held(5, 1) }));
    assert_eq!(seen.ops.iter().map(|(node, _)| *node).collect::<Vec<_>>(), [0, 1, 2].map(memory_id));
    let op = seen.ops[0].1;
    assert_eq!(op.place(), place(1, 3));
    assert!(answer(&mut registers, 0, op, Said::Written).told.is_empty());
    assert!(answer(&mut registers, 0, op, Said::Written).told.is_empty(), "a node counts once");
    let told = answer(&mut registers, 2, op, Said::Written).told;
    assert_eq!(told, [Output::Written { index: 3, stamp: 5 }]);
    assert!(answer(&mut registers, 1, op, Said::Written).told.is_empty());
    assert_eq!(registers.pending(), 0);
}

#[test]
fn a_read_gives_the_largest_stamp_and_all_values_of_it() {
    let value = |held: Option<Held>| Said::Value(held);
    let cases: [(Option<Held>, Option<Held>, Vec<Held>); 4] = [
        (None, None, vec![]),
        (None, Some(held(4, 1)), vec![held(4, 1)]),
        (Some(held(9, 2)), Some(held(4, 1)), vec![held(9, 2)]),
        (Some(held(4, 2)), Some(held(4, 1)), vec![held(4, 2), held(4, 1)]),
    ];
    for (first, second, wanted) in cases {
        let mut registers = registers();
        let seen = step(&mut registers, Event::Input(Input::Read(place(2, 3))));
        let op = seen.ops[0].1;
        assert!(answer(&mut registers, 1, op, value(first)).told.is_empty());
        let told = answer(&mut registers, 0, op, value(second)).told;
        assert_eq!(told, [Output::Values { place: place(2, 3), held: wanted }]);
    }
}

#[test]
fn answers_to_an_older_read_and_of_nodes_that_forgot_do_not_count() {
    let mut registers = registers();
    let old = step(&mut registers, Event::Input(Input::Read(place(2, 3)))).ops[0].1;
    let new = step(&mut registers, Event::Input(Input::Read(place(2, 3)))).ops[0].1;
    assert_ne!(old.tag(), new.tag());
    for at in 0..3 {
        assert!(answer(&mut registers, at, old, Said::Value(None)).told.is_empty());
        let reborn = Output::Reborn { memory: u8::try_from(at).expect("few"), boot: 2 };
        assert_eq!(answer_of(&mut registers, at, 2, new, Said::Value(None)).told, [reborn]);
    }
    let stranger = RegisterReply { tag: new.tag(), place: new.place(), boot: 1, said: Said::Value(None) };
    let seen =
        step(&mut registers, Event::Message { from: NodeId(2), message: MemoryWords::Reply(stranger) });
    assert!(seen.told.is_empty());
    answer(&mut registers, 0, new, Said::Value(None));
    assert_eq!(answer(&mut registers, 1, new, Said::Value(None)).told.len(), 1);
}

#[test]
fn nothing_is_complete_by_refusals_and_an_epoch_that_is_over_is_told_and_not_taken_for_empty() {
    let mut registers = registers();
    let op = step(&mut registers, Event::Input(Input::Read(place(2, 3)))).ops[0].1;
    for at in 0..3 {
        let retired = answer(&mut registers, at, op, Said::Retired { oldest: Epoch(1) });
        assert_eq!(retired.told, [Output::Retired { oldest: Epoch(1) }]);
        assert!(answer(&mut registers, at, op, Said::Refused).told.is_empty());
        assert!(answer(&mut registers, at, op, Said::Written).told.is_empty());
    }
    assert_eq!(registers.pending(), 1);
}

#[test]
fn an_owner_that_broke_the_rules_is_blamed_and_its_register_is_read_as_nothing() {
    let mut registers = registers();
    let op = step(&mut registers, Event::Input(Input::Read(place(2, 3)))).ops[0].1;
    assert_eq!(answer(&mut registers, 0, op, Said::Abused).blamed, [NodeId(2)]);
    let told = answer(&mut registers, 1, op, Said::Abused).told;
    assert_eq!(told, [Output::Values { place: place(2, 3), held: vec![] }]);
}

#[test]
fn what_is_not_answered_is_said_again_and_no_more_than_fit_are_on_their_way() {
    let mut registers = registers();
    let mut sent = 0;
    for index in 0..32 {
        let seen = step(&mut registers, Event::Input(Input::Write { index, held: held(1, 1) }));
        sent += seen.ops.len();
    }
    assert_eq!(sent, 3 * OUTSTANDING_MAX);
    assert_eq!(registers.pending(), 32);
    let fast = config(NodeId(1), 3).parameters.fast;
    let again = step_at(&mut registers, Event::Timer(Repeat), Time::ZERO + fast);
    assert_eq!((again.ops.len(), again.armed), (3 * OUTSTANDING_MAX, 1));
    // The next wait is twice as long.
    let early = step_at(&mut registers, Event::Timer(Repeat), Time::ZERO + fast.times(2));
    assert_eq!((early.ops.len(), early.armed), (0, 1));
    let late = step_at(&mut registers, Event::Timer(Repeat), Time::ZERO + fast.times(3));
    assert_eq!(late.ops.len(), 3 * OUTSTANDING_MAX);
    // All come through in the end, one node being silent.
    let mut open: Vec<(NodeId, RegisterOp)> = again.ops;
    let mut told = 0;
    while let Some((node, op)) = open.pop() {
        let at = (0..2).find(|at| memory_id(*at) == node);
        let Some(at) = at else { continue };
        let seen = answer(&mut registers, at, op, Said::Written);
        told += seen.told.len();
        open.extend(seen.ops);
    }
    assert_eq!((told, registers.pending()), (32, 0));
    let silent = step(&mut registers, Event::Timer(Repeat));
    assert_eq!((silent.ops.len(), silent.armed), (0, 0));
}

#[test]
fn a_newer_write_of_a_register_takes_the_place_of_an_older_one() {
    let mut registers = registers();
    let old = step(&mut registers, Event::Input(Input::Write { index: 3, held: held(5, 1) })).ops[0].1;
    let new = step(&mut registers, Event::Input(Input::Write { index: 3, held: held(21, 1) })).ops[0].1;
    assert_eq!(registers.pending(), 1);
    for at in 0..3 {
        assert!(answer(&mut registers, at, old, Said::Written).told.is_empty());
    }
    answer(&mut registers, 0, new, Said::Written);
    let told = answer(&mut registers, 1, new, Said::Written).told;
    assert_eq!(told, [Output::Written { index: 3, stamp: 21 }]);
    step(&mut registers, Event::Input(Input::Read(place(2, 3))));
    step(&mut registers, Event::Input(Input::Forget(place(2, 3))));
    assert_eq!(registers.pending(), 0);
}

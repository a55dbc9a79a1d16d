//! Orderings that fall behind all archives, and replicas that lie to them.

use synod_crypto::{Hash, Scope, Signature};
use synod_machine::broadcast::{Position, Refusal, Submit, Ticket};
use synod_machine::{Condition, Span};
use synod_quorum::{Epoch, NodeId};
use synod_ubft::Statement;
use synod_ubft::batch::Slot;
use synod_ubft::certificate::Certificate;
use synod_ubft::message::{ClientStatement, Message, Registration};
use synod_ubft::ordering::{Message as Said, OrderingConfig, Rooted};
use synod_wire::Bytes;

use crate::choir::{Choir, EVERY};
use crate::net::seeds;
use crate::world::{CLUSTER, keys, signature_by};

const SOON: Span = Span::millis(50);
const LONG: Span = Span::secs(20);

/// Archives as small as they may be.
fn small(settings: &mut OrderingConfig) {
    let parameters = &mut settings.replica.config.parameters;
    (parameters.batch_max, parameters.snapshot_slots) = (2, 112);
    settings.replica.archive_bytes_max = 108 << 10;
}

const fn plain(_: &mut OrderingConfig) {}

/// Orders so many long payloads, submitted at one replica.
fn fill(choir: &mut Choir, id: u32, count: u64, what: u8) {
    for at in 0..count {
        let mut payload = vec![what; 400];
        payload.extend(at.to_le_bytes());
        let ticket = choir.submit(id, &payload);
        if at % 16 == 15 || at + 1 == count {
            choir.ordered(id, &[ticket], LONG);
        }
    }
}

fn jumped(choir: &mut Choir, id: u32) {
    choir.until(LONG, |choir| !choir.users[&NodeId(id)].jumps.is_empty());
}

#[test]
fn one_behind_all_archives_takes_a_certified_state_and_goes_on_at_the_next_position() {
    for seed in seeds(4) {
        let mut choir = Choir::new(3, seed, small);
        fill(&mut choir, 0, 10, 1);
        // What it was given and cannot say, and a barrier, come back when it is there again.
        let had = choir.user(2).position;
        choir.net.cut_off(NodeId(2), 3);
        choir.liars.insert(NodeId(2));
        let (late, barrier) = (choir.submit(2, b"late"), choir.barrier(2));
        fill(&mut choir, 0, 400, 2);
        assert!(choir.of(0).replica().snapshotted() > Slot(0), "{}", choir.describe());
        choir.net.heal();
        jumped(&mut choir, 2);
        assert!(choir.count("A2.60_install") > 0 && choir.user(2).jumps[0].position.0 > had);
        choir.liars.clear();
        choir.ordered(2, &[late], LONG);
        choir.until(LONG, |choir| choir.users[&NodeId(2)].barriers.contains_key(&barrier));
        assert_eq!((choir.times(b"late"), choir.times(b"")), (1, 1));
        let tickets: Vec<u64> = (0..20).map(|at| choir.submit(2, &[7, at])).collect();
        choir.ordered(2, &tickets, LONG);
        assert_eq!(choir.user(2).jumps.len(), 1, "{}", choir.describe());
        assert!(choir.net.blamed.is_empty(), "{:?}", choir.net.blamed);
        // It is worth as much as any other.
        choir.stop(0);
        fill(&mut choir, 1, 20, 3);
    }
}

#[test]
fn one_that_was_restarted_behind_all_archives_takes_a_state_and_one_whose_user_has_it_takes_none() {
    for seed in seeds(4) {
        for is_long in [true, false] {
            let mut choir = Choir::new(3, seed, small);
            fill(&mut choir, 0, if is_long { 20 } else { 400 }, 1);
            choir.stop(2);
            fill(&mut choir, 0, if is_long { 400 } else { 3 }, 2);
            choir.start(2, Condition::Clean);
            choir.until(LONG, |choir| choir.of(2).replica().own_floor().is_some());
            choir.liars.clear();
            let ticket = choir.submit(2, b"back");
            choir.ordered(2, &[ticket], LONG);
            assert!(choir.count("A2.60_install") > 0, "the log is gone: {}", choir.describe());
            assert_eq!(choir.user(2).jumps.is_empty(), !is_long, "{}", choir.describe());
        }
    }
}

#[test]
fn one_whose_user_has_no_use_for_a_state_is_told_of_a_newer_one_when_it_is_stuck() {
    let mut choir = Choir::new(3, 2, small);
    fill(&mut choir, 0, 10, 1);
    choir.net.cut_off(NodeId(2), 3);
    choir.liars.insert(NodeId(2));
    fill(&mut choir, 0, 400, 2);
    choir.user(2).is_stateless = true;
    choir.net.heal();
    // It learns with the next slot that it is behind.
    fill(&mut choir, 0, 1, 2);
    jumped(&mut choir, 2);
    let first = choir.user(2).jumps[0].position;
    // Nobody has that state any more: it waits for one above it.
    choir.input(2, Submit::Stuck);
    choir.pass(Span::secs(1));
    assert_eq!(choir.user(2).jumps.len(), 1, "nothing newer is certified");
    choir.user(2).is_stateless = false;
    fill(&mut choir, 0, 2 * EVERY, 3);
    choir.until(LONG, |choir| choir.users[&NodeId(2)].jumps.len() == 2);
    assert!(choir.user(2).jumps[1].position > first);
    choir.liars.clear();
    let ticket = choir.submit(2, b"again");
    choir.ordered(2, &[ticket], LONG);
}

#[test]
fn a_user_that_is_stuck_with_what_it_was_given_takes_a_state_above_all_of_it() {
    for seed in seeds(4) {
        let mut choir = Choir::new(3, seed, plain);
        choir.user(2).is_idle = true;
        fill(&mut choir, 0, 10, 1);
        let given = choir.user(2).position;
        choir.input(2, Submit::Stuck);
        choir.pass(Span::millis(300));
        assert!(choir.user(2).jumps.is_empty(), "nothing above it is certified");
        choir.user(2).is_idle = false;
        choir.liars.insert(NodeId(2));
        fill(&mut choir, 0, 2 * EVERY, 2);
        jumped(&mut choir, 2);
        assert!(choir.user(2).jumps[0].position.0 > given);
        choir.liars.clear();
        let ticket = choir.submit(2, b"again");
        choir.ordered(2, &[ticket], LONG);
    }
}

#[test]
fn a_snapshot_is_signed_once_a_state_above_it_is_certified_and_until_then_archives_wait() {
    let mut choir = Choir::new(3, 3, small);
    (0..3).for_each(|id| choir.user(id).is_idle = true);
    choir.liars.extend((0..3).map(NodeId));
    // As much as users may have without a report is executed, and no more.
    let tickets: Vec<u64> = (0..100).map(|at| choir.submit(0, &[at; 300])).collect();
    choir.pass(Span::secs(1));
    assert!((0..3).all(|id| choir.users[&NodeId(id)].position == 64), "{}", choir.describe());
    (0..3).for_each(|id| choir.wake(id));
    choir.liars.clear();
    choir.ordered(0, &tickets, LONG);
    // Two say nothing of their states: snapshots are taken, and nobody signs one.
    let lie = |_: NodeId, said: &Said| (!matches!(said, Said::Attest { .. })).then(|| said.clone());
    (0..3).for_each(|id| drop(choir.net.lies.insert(NodeId(id), Box::new(lie))));
    for round in 0..30 {
        for at in 0..16 {
            choir.submit(0, &[round, at].repeat(200));
        }
        choir.pass(Span::millis(40));
    }
    choir.pass(Span::secs(2));
    let before = choir.of(0).replica().snapshotted();
    assert!(choir.count("snapshot") > 0 && choir.count("archive_full") > 0, "{}", choir.describe());
    let executed = choir.of(0).replica().executed();
    choir.pass(Span::secs(1));
    assert_eq!(choir.of(0).replica().executed(), executed, "archives are full");
    choir.net.lies.clear();
    choir.until(LONG, |choir| (0..3).all(|id| choir.of(id).replica().snapshotted() > before));
    let ticket = choir.submit(1, b"on");
    choir.ordered(1, &[ticket], LONG);
}

#[test]
fn slots_in_which_nothing_is_executed_are_empty_entries_at_all() {
    let mut choir = Choir::new(3, 4, plain);
    let ticket = choir.submit(0, b"one");
    choir.ordered(0, &[ticket], LONG);
    choir.stop(2);
    choir.start(2, Condition::Clean);
    // The epoch ends behind slots that are filled with nothing.
    choir.until(LONG, |choir| choir.of(2).replica().own_floor().is_some());
    choir.liars.clear();
    choir.until(LONG, |choir| choir.users.values().all(|user| user.position >= 32));
    let slots = choir.of(0).replica().executed().0;
    assert_eq!(choir.of(0).position().0, slots, "one of them has a request, and as many positions");
    assert!(choir.times(b"") as u64 + 1 >= slots);
    assert!(choir.order.iter().all(|(at, row)| *at == 1 || (row.payload.is_empty() && row.last)));
    choir.until(LONG, |choir| choir.users.values().all(|user| !user.stable.is_empty()));
}

fn ask(session: u64, id: u64, op: &[u8]) -> Said {
    let op = Bytes::copy_from_slice(op).try_into().expect("a blob");
    Said::Replica(Message::Ask { session, id, op, signature: None })
}

#[test]
fn a_liar_asks_in_no_session_but_its_own_nothing_too_long_and_nothing_twice() {
    for seed in seeds(6) {
        let mut choir = Choir::new(3, seed, plain);
        let ticket = choir.submit(0, b"before");
        choir.ordered(0, &[ticket], LONG);
        let waiting = choir.of(1).replica().waiting();
        for to in [0, 1] {
            // In sessions of others, beyond all windows, of no session; signed by nobody who may.
            for id in 0..40 {
                choir.say(2, to, ask(0, 100 + id, b"foreign"));
                choir.say(2, to, ask(1, 1 + id, b"foreign"));
                choir.say(2, to, ask(2, 1_000 + id, b"beyond"));
                choir.say(2, to, ask(77, id, b"of nobody"));
            }
            let op = Bytes::from_static(b"forged").try_into().expect("short");
            let forged =
                Message::Ask { session: 1, id: 1, op, signature: Some(Box::new(Signature([3; 64]))) };
            choir.say(2, to, Said::Replica(forged));
            choir.say(2, to, ask(2, 1, &[0; 600]));
            choir.say(2, to, ask(2, 1 << 62, b"no number"));
        }
        choir.pass(SOON);
        assert_eq!(choir.of(1).replica().waiting(), waiting, "nothing of it is kept");
        let blamed = |what: &str| {
            choir.net.blamed.iter().filter(|(_, of, name)| (*of, *name) == (NodeId(2), what)).count()
        };
        assert_eq!((blamed("malformed"), blamed("bad_signature")), (4, 2), "{:?}", choir.net.blamed);
        assert_eq!(choir.net.blamed.len(), 6);
        // One id of its own for two operations: one of them at most, and equal at all.
        choir.say(2, 0, ask(2, 1, b"this"));
        choir.say(2, 1, ask(2, 1, b"that"));
        choir.say(2, 2, ask(2, 1, b"that"));
        let said: Vec<u64> = (0..6).map(|at| choir.submit(at % 2, &at.to_le_bytes())).collect();
        for (at, ticket) in (0_u32..).zip(said) {
            choir.ordered(at % 2, &[ticket], LONG);
        }
        assert!(choir.times(b"this") + choir.times(b"that") <= 1);
        for payload in [&b"foreign"[..], b"beyond", b"of nobody", b"forged"] {
            assert_eq!(choir.times(payload), 0);
        }
    }
}

#[test]
fn what_a_liar_says_of_states_certifies_nothing_and_is_blamed() {
    for seed in seeds(4) {
        let mut choir = Choir::new(3, seed, plain);
        (0..3).for_each(|id| choir.user(id).is_idle = true);
        fill(&mut choir, 0, EVERY, 1);
        let position = Position(EVERY);
        let attest =
            |position, root, signature| Said::Attest { rooted: Rooted { position, root }, signature };
        let signed =
            |position, root| signature_by(NodeId(2), Statement::Applied { signer: 2, position, root });
        let (wrong, right) = (Hash([5; 32]), choir.root_at(EVERY));
        // Numbers that are none, a signature of another, a root that is its own, and of that two.
        choir.say(2, 0, attest(Position(0), wrong, signed(Position(0), wrong)));
        choir.say(2, 0, attest(Position(EVERY + 1), wrong, signed(Position(EVERY + 1), wrong)));
        choir.say(2, 0, attest(Position(1 << 62), wrong, signed(Position(1 << 62), wrong)));
        choir.say(2, 0, attest(position, wrong, Signature([7; 64])));
        choir.pass(SOON);
        choir.say(2, 0, attest(position, wrong, signed(position, wrong)));
        choir.say(2, 0, attest(position, right, signed(position, right)));
        // Many positions that nobody reached.
        for far in 100..200 {
            let far = Position(far * EVERY);
            choir.say(2, 0, attest(far, wrong, signed(far, wrong)));
        }
        // Certificates of itself alone, of itself twice, and of signatures for something else.
        let subject = Rooted { position, root: wrong };
        let own = (2, signed(position, wrong));
        let other =
            (1, signature_by(NodeId(1), Statement::Snapshot { signer: 1, low: Slot(EVERY), root: wrong }));
        for list in [vec![own], vec![own, own], vec![other, own]] {
            let signed = list.try_into().expect("few");
            choir.say(2, 0, Said::Rooted(Certificate { subject, signed }));
        }
        choir.pass(SOON);
        let of = |what: &str| {
            choir.net.blamed.iter().filter(|(by, of, name)| (by.0, of.0, *name) == (0, 2, what)).count()
        };
        assert_eq!(
            (of("malformed"), of("bad_share"), of("bad_certificate")),
            (3, 1, 3),
            "{:?}",
            choir.net.blamed
        );
        assert_eq!(choir.net.blamed.len(), 7);
        assert_eq!(choir.count("ordering_rooted"), 0, "one replica certifies nothing");
        // The state that two correct users have is certified for all that.
        (0..3).for_each(|id| choir.wake(id));
        choir.until(LONG, |choir| choir.users.values().all(|user| !user.stable.is_empty()));
        assert!((0..3).all(|id| !choir.of(id).is_halted()));
    }
}

#[test]
fn strangers_get_no_signature_and_no_state() {
    let mut choir = Choir::new(3, 6, plain);
    fill(&mut choir, 0, 2 * EVERY, 1);
    choir
        .until(LONG, |choir| choir.of(1).position().0 >= EVERY && !choir.users[&NodeId(1)].stable.is_empty());
    choir.pass(SOON);
    let key = keys(NodeId(1));
    let (jobs, stranger) = (choir.net.jobs, NodeId::GUESTS.0 + 70);
    choir.net.guests.clear();
    choir.submit(1, b"waits");
    for id in 0..5 {
        choir.say(stranger, 1, Said::Replica(Message::NeedSigned { session: 1, id }));
        choir.say(stranger, 1, Said::FetchRooted(Position(1)));
        let registration = Registration { key: key.public(), nonce: id };
        let signed = key.sign(
            Scope { cluster: CLUSTER, epoch: Epoch(0) },
            NodeId::GUESTS,
            ClientStatement::Register { nonce: id },
        );
        let register = Message::Register { registration, signature: Box::new(signed.signature) };
        choir.say(stranger, 1, Said::Replica(register));
        let question = Bytes::new().try_into().expect("short");
        choir.say(stranger, 1, Said::Replica(Message::Read { id, question }));
        let rooted = Rooted { position: Position(100 * EVERY), root: Hash([1; 32]) };
        choir.say(stranger, 1, Said::Attest { rooted, signature: Signature([1; 64]) });
        choir.say(
            stranger,
            1,
            Said::Rooted(Certificate { subject: rooted, signed: Vec::new().try_into().expect("none") }),
        );
    }
    // Nothing but these goes on before a wait is over.
    for _ in 0..40 {
        choir.net.turn();
        choir.watch();
    }
    assert!(choir.net.guests.iter().all(|(_, to, _)| to.0 != stranger), "nothing is said to it");
    assert!(choir.net.jobs <= jobs + 1, "{} and {jobs}", choir.net.jobs);
    let refused = choir.user(1).refused.clone();
    assert_eq!(refused, Vec::<(u64, Refusal)>::new());
    // What its user never had is not applied.
    choir.input(1, Submit::Applied { position: Position(1 << 40), root: Some(Hash::ZERO) });
    choir.input(1, Submit::Payload { ticket: Ticket(9_999), payload: Bytes::new() });
    choir.ordered(1, &[9_999], LONG);
}

//! Liars in Consistent Tail Broadcast: a broadcaster that tells different things, receivers that invent, registers that are misused.

use synod_crypto::Hash;
use synod_machine::Span;
use synod_machine::register::{Held, Place, Region, RegisterOp};
use synod_quorum::{Epoch, NodeId};
use synod_ubft::Statement;
use synod_ubft::ctb::{Message, Told, register_of};
use synod_wire::Bytes;

use crate::world::{P, TAIL, World, lock, signature_by, signature_of, signed};

const LONG: Span = Span::secs(2);
const Q1: NodeId = NodeId(1);
const Q2: NodeId = NodeId(2);

fn locked(k: u64, body: &[u8]) -> Message {
    let told = Told::Raw(Bytes::copy_from_slice(body).try_into().expect("short"));
    Message::Locked { broadcaster: 0, k, told, promise: false }
}

/// What a liar writes into its own register for message `k`.
fn entry(owner: NodeId, stamp: u64, digest: Hash, signature: synod_crypto::Signature) -> RegisterOp {
    let index = register_of(owner, P, usize::try_from(stamp % u64::from(TAIL)).expect("small"), TAIL)
        .expect("a receiver");
    let mut value = [0; 96];
    value[..32].copy_from_slice(&digest.0);
    value[32..].copy_from_slice(&signature.0);
    let region = Region { epoch: Epoch(0), owner: owner.member().expect("a member") };
    RegisterOp::Write { tag: 1, place: Place { region, index }, held: Held { stamp, value } }
}

#[test]
fn t1_two_locks_of_one_number_are_never_delivered_fast() {
    for seed in 0..50 {
        let mut world = World::new(3, &[0], seed);
        world.say(P, 1, lock(1, b"m"));
        world.say(P, 2, lock(1, b"m'"));
        world.say(P, 2, lock(1, b"m"));
        world.pass(LONG);
        assert!(world.delivered.is_empty(), "seed {seed}");
        assert!(world.rules.contains("nack"));
    }
}

#[test]
fn t2_a_receiver_that_locked_one_message_delivers_no_other() {
    for seed in 0..100 {
        let mut world = World::new(3, &[0], seed);
        world.say(P, 1, lock(1, b"m"));
        world.settle();
        world.say(P, 1, signed(1, b"m'"));
        world.say(P, 2, signed(1, b"m'"));
        world.pass(LONG);
        assert_eq!(world.has(1, 1), None, "seed {seed}");
        assert!(matches!(world.has(2, 1), None | Some(b"m'")));
    }
}

#[test]
fn t3_of_two_signed_messages_one_at_most_is_delivered_and_the_proof_is_good() {
    let (mut stopped, mut delivered) = (0, 0);
    for seed in 0..300 {
        let mut world = World::new(3, &[0], seed);
        let (one, other) = if seed % 2 == 0 { (1, 2) } else { (2, 1) };
        world.say(P, one, signed(1, b"m"));
        world.say(P, other, signed(1, b"m'"));
        if seed % 3 == 0 {
            world.say(P, other, signed(1, b"m"));
        }
        world.pass(LONG);
        stopped += world.proofs.len();
        delivered += world.delivered.len();
        // The proof is in the world's own check.
        assert!(
            world.blamed.iter().all(|(_, who, what)| (*who, *what) == (P, "equivocation")),
            "{:?}",
            world.blamed
        );
    }
    assert!(stopped > 50 && delivered > 50, "{stopped} proofs, {delivered} deliveries");
}

#[test]
fn t3_with_five_replicas_and_a_receiver_that_helps_the_liar() {
    let mut delivered = 0;
    for seed in 0..150 {
        let mut world = World::new(5, &[0, 4], seed);
        for (to, body) in [(1, b"m1"), (2, b"m2"), (3, b"m1")] {
            world.say(P, to, lock(1, body));
            world.say(NodeId(4), to, locked(1, body));
        }
        for (to, body) in [(1, b"m1"), (2, b"m2"), (3, b"m1")] {
            world.say(P, to, signed(1, body));
        }
        world.pass(LONG);
        delivered += world.delivered.len();
    }
    assert!(delivered > 0, "one of the two may be delivered");
}

#[test]
fn a_stopped_broadcast_delivers_nothing_more() {
    let mut world = World::new(3, &[0], 4);
    world.say(P, 1, signed(1, b"m"));
    world.settle();
    world.say(P, 1, signed(1, b"m'"));
    world.settle();
    assert!(world.replicas[1].as_ref().expect("there").is_stopped());
    for id in [1, 2] {
        world.say(P, id, lock(2, b"next"));
    }
    world.pass(LONG);
    assert_eq!(world.has(1, 2), None);
}

#[test]
fn t8_what_its_broadcaster_did_not_sign_for_this_number_accuses_nobody() {
    let other = Hash::of(b"old");
    let forged = [
        // The broadcaster's own signature, of another number of the same place.
        entry(Q2, 17, other, signature_of(1, other)),
        // A signature of the liar.
        entry(Q2, 17, other, signature_by(Q2, Statement::Broadcast { signer: 2, k: 17, digest: other })),
        entry(Q2, 17, other, synod_crypto::Signature([1; 64])),
        // Later numbers that nobody signed.
        entry(Q2, 33, other, signature_of(17, other)),
    ];
    for (seed, op) in (0..).zip(forged) {
        let mut world = World::new(3, &[0, 2], seed);
        world.operate(Q2, op);
        world.settle();
        world.say(P, 1, signed(17, b"m"));
        world.pass(LONG);
        assert_eq!(world.has(1, 17), Some(&b"m"[..]));
        assert_eq!(world.blamed, [(Q1, Q2, "register_abuse")]);
    }
}

#[test]
fn an_older_entry_and_one_of_another_place_are_nothing() {
    let old = Hash::of(b"old");
    let mut world = World::new(3, &[0, 2], 3);
    world.operate(Q2, entry(Q2, 1, old, signature_of(1, old)));
    world.settle();
    world.say(P, 1, signed(17, b"m"));
    world.pass(LONG);
    assert_eq!(world.has(1, 17), Some(&b"m"[..]));
    // A stamp that does not belong there, at the place of 18.
    let RegisterOp::Write { tag, place, .. } = entry(Q2, 18, old, signature_of(18, old)) else {
        unreachable!()
    };
    let RegisterOp::Write { held, .. } = entry(Q2, 19, old, signature_of(19, old)) else { unreachable!() };
    world.operate(Q2, RegisterOp::Write { tag, place, held });
    world.settle();
    world.say(P, 1, signed(18, b"n"));
    world.pass(LONG);
    assert_eq!(world.has(1, 18), Some(&b"n"[..]));
    assert!(world.blamed.is_empty());
}

#[test]
fn a_later_message_of_the_place_takes_an_older_one_out_of_the_tail() {
    let later = Hash::of(b"later");
    let mut world = World::new(3, &[0, 2], 3);
    world.operate(Q2, entry(Q2, 17, later, signature_of(17, later)));
    world.settle();
    world.say(P, 1, signed(1, b"m"));
    world.pass(LONG);
    assert_eq!(world.has(1, 1), None);
    assert!(world.rules.contains("A1.35_out_of_tail") && world.blamed.is_empty());
    world.say(P, 1, signed(17, b"later"));
    world.pass(LONG);
    assert_eq!(world.has(1, 17), Some(&b"later"[..]));
}

#[test]
fn a_liar_that_speaks_of_far_messages_keeps_nobody_from_asking_for_near_ones() {
    let mut world = World::new(3, &[2], 5);
    world.say(Q2, 1, locked(1 + 16 * 1_000_000, b"far"));
    world.settle();
    world.broadcast(b"near", false);
    world.pass(LONG);
    assert_eq!(world.has(1, 1), Some(&b"near"[..]));
    assert!(world.rules.contains("nack") && world.blamed.is_empty());
}

#[test]
fn a_receiver_that_passes_on_what_nobody_signed_is_blamed_and_holds_nobody_up() {
    let mut world = World::new(3, &[2], 5);
    let fake = |k, body: &[u8]| Message::Signed {
        broadcaster: 0,
        k,
        digest: Hash::of(body),
        signature: Box::new(synod_crypto::Signature([7; 64])),
        body: Some(Bytes::copy_from_slice(body).try_into().expect("short")),
    };
    world.say(Q2, 1, fake(1, b"fake"));
    world.say(Q2, 1, fake(17, b"far"));
    world.settle();
    world.broadcast(b"true", false);
    world.pass(LONG);
    assert_eq!(world.has(1, 1), Some(&b"true"[..]));
    assert_eq!(world.blamed, [(Q1, Q2, "bad_signature"), (Q1, Q2, "bad_signature")]);
}

#[test]
fn words_that_nobody_may_say_are_blamed_and_change_nothing() {
    let mut world = World::new(3, &[0, 2], 5);
    let bad = [
        (P, lock(0, b"zero")),
        (P, lock(1 << 62, b"far")),
        (P, signed(u64::MAX, b"far")),
        (Q2, Message::Nack { k: 0 }),
        (Q2, lock(1, b"not its own")),
        (P, Message::Nack { k: 1 }),
        (P, locked(1, b"a broadcaster locks nothing")),
        (P, Message::Lock { k: 1, body: Bytes::from(vec![0; (8 << 10) + 65]).try_into().expect("short") }),
    ];
    let count = bad.len();
    for (from, message) in bad {
        world.say(from, 1, message);
    }
    world.pass(LONG);
    assert_eq!(world.blamed.len(), count, "{:?}", world.blamed);
    assert!(world.delivered.is_empty() && world.sent.is_empty());
}

#[test]
fn words_of_guests_are_nobodys() {
    let mut world = World::new(3, &[0], 5);
    let guest = NodeId(NodeId::GUESTS.0 + 1);
    for message in [lock(1, b"m"), signed(1, b"m"), locked(1, b"m"), Message::Nack { k: 1 }] {
        world.say(guest, 1, message);
    }
    world.settle();
    assert!(world.delivered.is_empty());
    assert!(world.blamed.iter().all(|(_, who, what)| (*who, *what) == (guest, "no_receiver")));
}

//! Replicas whose streams say what they may not: everybody halts them at the same place, and goes on without them.

use synod_crypto::{Hash, Signature};
use synod_machine::Span;
use synod_quorum::{Epoch, NodeId};
use synod_ubft::batch::{Auth, Batch, Op, Request, Slot, View};
use synod_ubft::certificate::{Certificate, Certified, Checkpoint, Subject};
use synod_ubft::message::Message;
use synod_ubft::replica::{ReplicaConfig, Word};
use synod_ubft::{Body, Statement, ctb};
use synod_wire::{Bytes, Wire as _};

use crate::group::Group;
use crate::town::Town;
use crate::world::signature_by;

const LONG: Span = Span::secs(30);

/// A liar's message of its stream as it is said to all, signed.
pub(crate) fn forged(liar: u32, k: u64, body: &Body) -> [Word; 2] {
    let (body, broadcaster) = (body.encode(), u8::try_from(liar).expect("few"));
    let digest = Hash::of(&body);
    let signature = signature_by(NodeId(liar), Statement::Broadcast { signer: broadcaster, k, digest });
    let whole = |bytes: &Bytes| bytes.clone().try_into().expect("short");
    let lock = ctb::Message::Lock { k, body: whole(&body) };
    let short = Some(body.try_into().expect("short"));
    let signed = ctb::Message::Signed { broadcaster, k, digest, signature: Box::new(signature), body: short };
    [lock, signed].map(|word| Word::Ctb { broadcaster, word })
}

fn forge(group: &mut Group, liar: u32, k: u64, body: &Body) {
    for to in (0..group.n).filter(|to| *to != liar) {
        for word in forged(liar, k, body) {
            group.net.say(NodeId(liar), NodeId(to), word);
        }
    }
}

fn prepare(view: u64, slot: u64, time_ms: u64) -> Body {
    proposal(view, slot, time_ms, Vec::new())
}

pub(crate) fn proposal(view: u64, slot: u64, time_ms: u64, requests: Vec<Request>) -> Body {
    let batch = Batch { origin: View(view), time_ms, requests: requests.try_into().expect("few") };
    Body::Prepare { view: View(view), slot: Slot(slot), batch }
}

/// Signed by these replicas.
fn signed<T: Subject>(subject: T, signers: &[u8]) -> Certificate<T> {
    let sign = |signer: &u8| (*signer, signature_by(NodeId(u32::from(*signer)), subject.statement(*signer)));
    let signed: Vec<(u8, Signature)> = signers.iter().map(sign).collect();
    Certificate { subject, signed: signed.try_into().expect("few") }
}

/// A liar says these; the others halt its stream, and order without it.
fn halted(liar: u32, bodies: &[Body]) {
    let mut group = Group::new(3, 11);
    group.net.stop(NodeId(liar));
    group.liars.insert(NodeId(liar));
    for (k, body) in (1..).zip(bodies) {
        forge(&mut group, liar, k, body);
    }
    group.pass(Span::millis(50));
    let others: Vec<u32> = (0..3).filter(|id| *id != liar).collect();
    let places: Vec<u64> =
        others.iter().map(|id| group.of(*id).stream(NodeId(liar)).expect("a stream").next_k()).collect();
    for id in &others {
        assert!(
            group.of(*id).is_halted(NodeId(liar)),
            "{bodies:?}: {} {:?}",
            group.describe(),
            group.net.rules
        );
    }
    assert!(
        places.iter().all(|place| *place == bodies.len() as u64),
        "the same place everywhere: {places:?}"
    );
    group.order(5, LONG);
    assert!(group.net.blamed.iter().all(|(_, who, _)| *who == NodeId(liar)));
}

#[test]
fn t5_a_slot_under_two_numbers_and_two_commits_of_a_slot_halt_the_stream() {
    halted(0, &[prepare(0, 0, 1), prepare(0, 0, 2)]);
    let certified = |digest| Certified { view: View(0), slot: Slot(0), digest: Hash([digest; 32]) };
    halted(2, &[Body::Commit(signed(certified(1), &[0, 2])), Body::Commit(signed(certified(2), &[0, 2]))]);
}

#[test]
fn t22_t23_a_view_that_is_shown_by_too_few_twice_or_by_whoever_does_not_lead_halts_the_stream() {
    let show = |view: u64| Body::NewView { view: View(view), left: Default::default() };
    halted(1, &[Body::SealView(View(1)), show(1)]);
    halted(2, &[Body::SealView(View(1)), show(1)]);
    halted(1, &[show(0)]);
    halted(1, &[Body::SealView(View(0))]);
}

#[test]
fn t24_a_slot_that_is_left_out_or_beyond_the_window_halts_the_stream() {
    halted(0, &[prepare(0, 1, 1)]);
    halted(0, &[prepare(0, 0, 1), prepare(0, 2, 1)]);
    halted(1, &[prepare(1, 0, 1)]);
    halted(2, &[prepare(0, 0, 1)]);
}

#[test]
fn t25_checkpoints_of_too_few_of_one_twice_or_of_another_epoch_halt_the_stream() {
    let checkpoint = |epoch: u32| Checkpoint {
        epoch: Epoch(epoch),
        low: Slot(16),
        log_chain: Hash::ZERO,
        exec_chain: Hash::ZERO,
        config: Hash::ZERO,
        end: None,
    };
    halted(0, &[Body::Checkpoint(signed(checkpoint(0), &[0]))]);
    halted(0, &[Body::Checkpoint(signed(checkpoint(0), &[0, 0]))]);
    halted(0, &[Body::Checkpoint(signed(checkpoint(1), &[0, 1]))]);
    let mut forged = signed(checkpoint(0), &[0, 1]);
    let rows: Vec<(u8, Signature)> = forged.signed.iter().map(|(id, _)| (*id, Signature([7; 64]))).collect();
    forged.signed = rows.try_into().expect("few");
    halted(0, &[Body::Checkpoint(forged)]);
}

type Tweak = fn(&mut ReplicaConfig);

/// Replicas that vouch for a proposal of this time, six seconds by their clock, where a leader is waited for so long.
fn endorsed(waited: Tweak, time: u64, requests: Vec<Request>) -> u64 {
    let mut town = Town::new(3, 0, 4, waited);
    town.pass(Span::secs(5));
    town.net.stop(NodeId(0));
    town.liars.insert(NodeId(0));
    for word in forged(0, 1, &proposal(0, 0, time, requests)) {
        for to in 1..3 {
            town.say(NodeId(0), to, Message::Word { epoch: Epoch(0), word: word.clone() });
        }
    }
    let before = town.count("E29_endorse");
    town.pass(Span::millis(40));
    town.count("E29_endorse") - before
}

/// Of a number that no request has, so it does nothing and everybody vouches for it.
fn nothing() -> Vec<Request> {
    let op = Op::Inline(Bytes::from_static(b"op").try_into().expect("short"));
    vec![Request { session: 1, id: 0, op, auth: Auth::Heard }]
}

/// Found by `ubft/smr:5b8fd5`: where a message takes longer than clocks may differ, what fills a slot came too late for ever.
#[test]
fn a_slot_that_is_filled_late_is_filled_and_requests_of_long_ago_and_what_is_to_come_are_not_vouched_for() {
    let first: Tweak = |_| {};
    assert_eq!(endorsed(first, 1, vec![]), 2, "long ago, and nothing");
    assert_eq!((endorsed(first, 6_000, vec![]), endorsed(first, 6_000, nothing())), (2, 2), "now");
    assert_eq!(endorsed(first, 1, nothing()), 0, "a request of long ago");
    let to_come = (endorsed(first, 9_000, vec![]), endorsed(first, 9_000, nothing()));
    assert_eq!(to_come, (0, 0), "what is to come");
}

/// Found by `ubft/smr:2de544af`: what correct leaders proposed over links slower than clocks may differ was vouched for by nobody, in view
/// after view.
#[test]
fn a_leader_that_is_waited_for_longer_may_propose_what_comes_later() {
    let first: Tweak = |settings| settings.config.parameters.suspect = Span::millis(50);
    let long: Tweak = |settings| settings.config.parameters.suspect = Span::secs(2);
    assert_eq!((endorsed(first, 4_800, nothing()), endorsed(long, 4_800, nothing())), (0, 2));
    assert_eq!(endorsed(long, 3_000, nothing()), 0, "later than it is waited for");
    assert_eq!(endorsed(long, 9_000, nothing()), 0, "what is to come is no later");
}

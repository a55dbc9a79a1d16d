//! The signed broadcast: what it promises under loss, lies and crashes.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use synod_broadcast::signed::{
    Ack, Acked, Certificate, Context, Except, Items, Message, Said, Setup, Timer, TwoPayloads, UNCHECKED,
    View,
};
use synod_broadcast::{Config, Lot, Rule, SignedBroadcast};
use synod_crypto::{Hash, Scope, Signature, verify_evidence};
use synod_machine::broadcast::{Begun, Bounds, Broadcast, Offer};
use synod_machine::{Effect, Event, Time, testing};
use synod_quorum::{Epoch, Member, NodeId, NodeSet, Roster};
use synod_wire::{Blob, Bytes, Drawn, Limits, Wire};

use crate::world::{Seated, World, keys, pick, seed};

pub(crate) type Signed = SignedBroadcast<Texts>;

/// Payloads that have a name of their own, as those of a ledger have, and an item 13 that nobody may leave out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Texts;

thread_local! {
    /// How often a list was held against a payload.
    static LOOKED: Cell<u32> = const { Cell::new(0) };
}

impl Items for Texts {
    fn digest(payload: &Bytes) -> Option<Hash> {
        (payload != "no payload").then(|| digest(payload))
    }

    fn may_except(_: &Bytes, items: &[u32]) -> bool {
        LOOKED.set(LOOKED.get() + 1);
        !items.contains(&13)
    }
}

fn digest(payload: &[u8]) -> Hash {
    Hash::of(&[b"text ", payload].concat())
}

const CONTEXT: Context = Context { shard: 3, view: Hash([5; 32]) };
const CLUSTER: Hash = Hash([4; 32]);
const EPOCH: Epoch = Epoch(7);

pub(crate) fn config(n: u32, me: u32) -> Config {
    let bounds = Bounds { window: 8, retain: 32, payload_max: 1_000, ..Bounds::default() };
    Config { me: NodeId(me), members: NodeSet::first(n), bounds }
}

pub(crate) fn view(n: u32) -> Arc<View> {
    let members = (0..n).map(|id| Member { key: seed(id).public(), power: 1 });
    let roster = Roster::new(EPOCH, members.collect()).expect("distinct members");
    Arc::new(View { cluster: CLUSTER, roster: Arc::new(roster), context: CONTEXT })
}

impl Seated for Signed {
    const ORDERED: bool = false;
    fn setup(n: u32, me: u32, settled: BTreeMap<u8, u64>) -> Setup {
        Setup { config: config(n, me), view: view(n), begun: Begun::default(), settled }
    }

    fn mine(&self) -> u64 {
        self.mine()
    }

    fn digest(payload: &[u8]) -> Hash {
        digest(payload)
    }
}

/// A statement as a member signs it.
fn signed(by: u32, lot: Lot, payload: &str, except: &Except) -> Signature {
    let acked = Acked {
        context: CONTEXT,
        lot,
        digest: digest(payload.as_bytes()),
        except: except.digest(),
        authorized: true,
    };
    keys(by).sign(Scope { cluster: CLUSTER, epoch: EPOCH }, NodeId(by), acked).signature
}

pub(crate) fn prepare(by: u32, sequence: u64, payload: &str) -> Message {
    let lot = Lot { source: u8::try_from(by).expect("few"), sequence };
    let signature = signed(by, lot, payload, &Except::default());
    Message::Prepare {
        lot,
        payload: Blob::try_from(Bytes::copy_from_slice(payload.as_bytes())).expect("short"),
        signature,
    }
}

pub(crate) fn ack(by: u32, lot: Lot, payload: &str, except: &[u32]) -> Ack {
    let except = Except::new(except.to_vec()).expect("rising");
    let signature = signed(by, lot, payload, &except);
    let member = u8::try_from(by).expect("few");
    Ack {
        lot,
        digest: digest(payload.as_bytes()),
        said: Said { member, except, authorized: true, signature },
    }
}

pub(crate) fn certificate(lot: Lot, payload: &str, said: Vec<Said>) -> Certificate {
    let said = said.try_into().expect("few");
    Certificate { context: CONTEXT, epoch: EPOCH, lot, digest: digest(payload.as_bytes()), said }
}

/// Every proof that a correct member's user was given proves its payload to a stranger.
pub(crate) fn proven(world: &World<Signed>, n: u32) {
    for seat in world.told() {
        for (slot, proofs) in &seat.proofs {
            assert!(!proofs.is_empty(), "a delivery without a proof");
            for proof in proofs {
                let certificate =
                    Certificate::decode(proof.clone(), &Limits::default()).expect("a certificate");
                assert_eq!((u32::from(certificate.lot.source), certificate.lot.sequence), (slot.0.0, slot.1));
                assert_eq!(certificate.digest, digest(&seat.delivered[slot]));
                assert!(verify_evidence(certificate, &keys(0), CLUSTER, &view(n).roster).is_ok());
            }
        }
    }
}

/// Items that no certificate of a slot certifies, by hand: whoever has fewer than `q` signers that endorse it.
fn open(proofs: &BTreeSet<Bytes>, items: u32, q: usize) -> BTreeSet<u32> {
    let certificates =
        proofs.iter().map(|proof| Certificate::decode(proof.clone(), &Limits::default()).expect("one"));
    let certificates: Vec<Certificate> = certificates.collect();
    let endorsed = |item: u32| {
        certificates
            .iter()
            .any(|one| one.said.iter().filter(|said| !said.except.items().contains(&item)).count() >= q)
    };
    (0..items).filter(|item| !endorsed(*item)).collect()
}

#[test]
fn everything_that_correct_members_broadcast_is_delivered_everywhere_with_a_proof() {
    for (seed, n) in (0..30).zip([1, 4, 5, 6, 7, 10].into_iter().cycle()) {
        let mut world = World::<Signed>::new(n, seed);
        world.loss = if seed % 2 == 0 { 0 } else { 200 };
        for at in 0..12 {
            while world.room(NodeId(at % n)) == 0 {
                assert!(world.happen());
            }
            world.broadcast(at % n, &format!("payload {at}"));
            world.go_on(seed);
        }
        assert!(world.settle(12), "seed {seed} with {n} members");
        assert!(world.correct().all(|(_, seat)| seat.blamed.is_empty()), "nobody lied");
        proven(&world, n);
    }
}

#[test]
fn a_source_that_signs_two_payloads_gets_at_most_one_delivered_and_is_shown() {
    let mut outcomes = BTreeSet::new();
    for seed in 0..200 {
        let mut world = World::<Signed>::new(4, seed);
        let mut drawn = Drawn::new(seed ^ 0xbad);
        world.liar = Some(NodeId(3));
        let lot = Lot { source: 3, sequence: 1 };
        for to in 0..3 {
            for _ in 0..=drawn.below(2) {
                let payload = ["one", "two"][pick(&mut drawn, 2)];
                world.say(NodeId(3), NodeId(to), prepare(3, 1, payload));
                world.say(NodeId(3), NodeId(to), Message::Ack(ack(3, lot, payload, &[])));
            }
        }
        world.broadcast(0, "honest");
        world.go_on(3_000);
        assert!(world.agrees(), "seed {seed}");
        proven(&world, 4);
        let logs: BTreeSet<_> =
            world.told().map(|seat| seat.delivered.get(&(NodeId(3), 1)).cloned()).collect();
        assert_eq!(logs.len(), 1, "totality, seed {seed}");
        outcomes.extend(logs);
        assert!(
            world.told().all(|told| told.delivered.contains_key(&(NodeId(0), 1))),
            "a liar delays nobody else"
        );
        let shown = world.told().flat_map(|told| &told.conflicts);
        for evidence in shown {
            let shown = TwoPayloads::decode(evidence.clone(), &Limits::default()).expect("evidence");
            let TwoPayloads::Signed { one, first, other, second } = shown else { panic!("{shown:?}") };
            assert!(one.lot == lot && other.lot == lot && one.digest != other.digest);
            for (acked, signature) in [(one, first), (other, second)] {
                let payload = ["one", "two"].into_iter().find(|text| digest(text.as_bytes()) == acked.digest);
                assert_eq!(signature, signed(3, lot, payload.expect("one of both"), &Except::default()));
            }
        }
    }
    assert_eq!(outcomes.len(), 3, "none, one and the other all came about: {outcomes:?}");
}

/// The source sends one payload to two members and another to the third, who hears of the certificate as everybody does.
#[test]
fn a_member_that_took_another_payload_has_the_certified_one_brought() {
    let lot = Lot { source: 3, sequence: 1 };
    let said = [0, 1, 3].map(|by| ack(by, lot, "one", &[]).said);
    for seed in 0..20 {
        let mut world = World::<Signed>::new(4, seed);
        world.liar = Some(NodeId(3));
        for (to, payload) in [(0, "one"), (1, "one"), (2, "two")] {
            world.say(NodeId(3), NodeId(to), prepare(3, 1, payload));
        }
        world.go_on(30);
        for to in 0..3 {
            world.say(NodeId(3), NodeId(to), Message::Commit(certificate(lot, "one", said.to_vec())));
        }
        world.broadcast(0, "honest");
        assert!(world.settle(2), "seed {seed}");
        assert!(world.told().all(|told| told.delivered[&(NodeId(3), 1)] == "one"));
        proven(&world, 4);
    }
}

#[test]
fn a_source_that_stops_before_commit_holds_nothing_up() {
    for seed in 0..20 {
        let mut world = World::<Signed>::new(4, seed);
        world.liar = Some(NodeId(3));
        world.say(NodeId(3), NodeId(0), prepare(3, 1, "left behind"));
        assert!(world.settle(1), "seed {seed}");
        proven(&world, 4);
        assert!(world.correct().any(|(_, seat)| seat.rules.contains(Rule::Rescue.name())));
    }
}

#[test]
fn one_bad_item_is_left_out_and_certified_once_its_reason_is_gone() {
    for seed in 0..20 {
        let mut world = World::<Signed>::new(4, seed);
        // Two members except item 7 at first, and one of them item 9.
        world.users.judge = |id, _, looked| match (id.0, looked) {
            (1, 0) => vec![7],
            (2, 0) => vec![7, 9],
            _ => Vec::new(),
        };
        world.broadcast(0, "two hundred items");
        assert!(world.settle(1));
        world.go_on(2_000);
        let at = (NodeId(0), 1);
        for seat in world.told() {
            assert_eq!(
                open(&seat.proofs[&at], 200, 3),
                BTreeSet::from([7]),
                "all others are certified, seed {seed}"
            );
        }
        world.look_again(0, b"two hundred items");
        world.go_on(4_000);
        for seat in world.told() {
            assert!(open(&seat.proofs[&at], 200, 3).is_empty(), "seed {seed}");
        }
        proven(&world, 4);
    }
}

#[test]
fn different_certificates_of_one_payload_come_together() {
    // Two quorums endorse different items; each certificate reaches one member only.
    for seed in 0..20 {
        let mut world = World::<Signed>::new(4, seed);
        world.liar = Some(NodeId(3));
        let lot = Lot { source: 3, sequence: 1 };
        let said = |by, except: &[u32]| ack(by, lot, "items", except).said;
        let without = |item: u32| {
            let lists = [said(0, &[1, 2]), said(1, &[]), said(2, &[]), said(3, &[item])];
            certificate(lot, "items", lists.to_vec())
        };
        for to in 0..3 {
            world.say(NodeId(3), NodeId(to), prepare(3, 1, "items"));
        }
        world.users.judge = |id, _, _| if id.0 == 0 { vec![1, 2] } else { Vec::new() };
        world.say(NodeId(3), NodeId(1), Message::Commit(without(1)));
        world.say(NodeId(3), NodeId(2), Message::Commit(without(2)));
        world.go_on(6_000);
        for seat in world.told() {
            assert!(open(&seat.proofs[&(NodeId(3), 1)], 5, 3).is_empty(), "seed {seed}");
        }
        assert!(world.correct().all(|(_, seat)| seat.rules.contains(Rule::L6Deliver.name())));
        proven(&world, 4);
    }
}

#[test]
fn an_ack_that_was_not_checked_for_authorization_says_so() {
    let mut world = World::<Signed>::new(4, 3);
    world.users.judge =
        |id, _, looked| if id.0 == 1 && looked == 0 { vec![4, UNCHECKED] } else { Vec::new() };
    world.broadcast(0, "items");
    assert!(world.settle(1));
    world.go_on(500);
    let flags = |world: &World<Signed>| {
        let proofs = world.users.told[0].proofs[&(NodeId(0), 1)].clone();
        let all =
            proofs.iter().map(|proof| Certificate::decode(proof.clone(), &Limits::default()).expect("one"));
        all.flat_map(|one| one.said.into_vec())
            .filter(|said| said.member == 1)
            .map(|said| said.authorized)
            .collect::<Vec<_>>()
    };
    assert!(flags(&world).iter().all(|flag| !flag));
}

#[test]
fn what_is_no_payload_and_what_may_not_be_excepted_is_blamed() {
    let mut world = World::<Signed>::new(4, 9);
    world.liar = Some(NodeId(3));
    world.broadcast(0, "items");
    let lot = Lot { source: 0, sequence: 1 };
    world.say(NodeId(3), NodeId(0), Message::Ack(ack(3, lot, "items", &[12, 13])));
    world.say(NodeId(3), NodeId(1), prepare(3, 1, "no payload"));
    world.say(NodeId(3), NodeId(2), Message::Ack(ack(1, lot, "items", &[])));
    assert!(world.settle(1));
    world.go_on(500);
    let blamed = |at: usize| world.seats[at].blamed.clone();
    assert_eq!(blamed(1), [(NodeId(3), "wrong_payload")]);
    assert_eq!(blamed(2), [(NodeId(3), "not_its_slot")]);
    assert!(blamed(0).iter().all(|blame| *blame == (NodeId(3), "bad_exceptions")));
}

/// A payload can be long, and a list is held against all of it.
#[test]
fn a_list_in_an_ack_is_held_against_the_payload_beside_the_handlers() {
    let mut machine = Signed::new(config(4, 0), view(4), &BTreeMap::new()).expect("sound");
    let lot = Lot { source: 0, sequence: 1 };
    let hears = |by, items: &[u32]| {
        let message = Message::Ack(ack(by, lot, "items", items));
        Event::Message { from: NodeId(by), message }
    };
    let offer = Offer::Broadcast { sequence: 1, payload: Bytes::from_static(b"items") };
    let (mut events, mut blamed) = (vec![hears(2, &[]), hears(3, &[12, 13]), hears(1, &[4])], Vec::new());
    events.push(Event::Input(offer));
    while let Some(event) = events.pop() {
        let before = LOOKED.get();
        let effects = testing::effects(&mut machine, event, Time::ZERO);
        assert_eq!(LOOKED.get(), before, "in a handler");
        for effect in effects {
            match effect {
                Effect::Compute(job) => events.push(Event::Done(synod_machine::Job::run(job, &keys(0)))),
                Effect::Blame { peer, fault } => blamed.push((peer, fault.name)),
                _ => {}
            }
        }
    }
    assert_eq!(LOOKED.get(), 2, "both lists");
    assert_eq!(blamed, [(NodeId(3), "bad_exceptions")]);
}

/// Lists that came once the user had been told of the payload were held against nothing.
#[test]
fn a_list_that_comes_after_the_delivery_is_held_against_the_payload_on_the_disk() {
    let mut machine = Signed::new(config(4, 0), view(4), &BTreeMap::new()).expect("sound");
    let lot = Lot { source: 0, sequence: 1 };
    let hears = |by, items: &[u32]| {
        let message = Message::Ack(ack(by, lot, "items", items));
        Event::Message { from: NodeId(by), message }
    };
    let offer = Offer::Broadcast { sequence: 1, payload: Bytes::from_static(b"items") };
    let script = [
        vec![Event::Input(offer), hears(1, &[7, 9]), hears(2, &[7, 9]), Event::Timer(Timer::Resend(lot))],
        vec![hears(3, &[9, 13]), hears(1, &[9]), hears(2, &[9])],
    ];
    let (mut blobs, mut blamed, mut open) = (BTreeMap::new(), Vec::new(), Vec::new());
    let looked = LOOKED.get();
    for event in script.into_iter().flatten() {
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            for effect in testing::effects(&mut machine, event, Time::ZERO) {
                match effect {
                    Effect::Compute(job) => events.push(Event::Done(synod_machine::Job::run(job, &keys(0)))),
                    Effect::Store { name, bytes } => drop(blobs.insert(name, bytes)),
                    Effect::Load(name) => {
                        events.push(Event::Loaded { name, bytes: blobs.get(&name).cloned() });
                    }
                    Effect::Output(Broadcast::Delivered { open: left, .. }) => {
                        open.push(left.items().to_vec())
                    }
                    Effect::Blame { peer, fault } => blamed.push((peer, fault.name)),
                    _ => {}
                }
            }
        }
    }
    assert_eq!(blamed, [(NodeId(3), "bad_exceptions")]);
    assert_eq!(open, [vec![7, 9], vec![9]], "lawful lists certify what they leave in");
    assert_eq!(LOOKED.get() - looked, 5, "every list, once");
}

#[test]
fn certificates_that_prove_nothing_are_blamed_and_do_nothing() {
    let lot = Lot { source: 3, sequence: 1 };
    let said = |by| ack(by, lot, "items", &[]).said;
    let good = || vec![said(0), said(1), said(3)];
    let forged = || Said { signature: said(1).signature, ..said(0) };
    let view = Context { shard: 4, ..CONTEXT };
    for (bad, why) in [
        (certificate(lot, "items", vec![said(0), said(1)]), "bad_certificate"),
        (certificate(lot, "items", vec![said(0), said(0), said(1)]), "bad_certificate"),
        (certificate(lot, "items", vec![said(1), said(0), said(3)]), "bad_certificate"),
        (certificate(lot, "items", vec![forged(), said(1), said(3)]), "bad_certificate"),
        (certificate(lot, "other", good()), "bad_certificate"),
        (certificate(Lot { sequence: 2, ..lot }, "items", good()), "bad_certificate"),
        (Certificate { context: view, ..certificate(lot, "items", good()) }, "other_view"),
        (Certificate { epoch: Epoch(8), ..certificate(lot, "items", good()) }, "other_view"),
    ] {
        let mut world = World::<Signed>::new(4, 2);
        world.liar = Some(NodeId(3));
        world.say(NodeId(3), NodeId(1), Message::Commit(bad));
        world.go_on(200);
        assert_eq!(world.seats[1].blamed, [(NodeId(3), why)]);
        assert!(world.told().all(|seat| seat.delivered.is_empty()));
    }
}

#[test]
fn two_certified_payloads_over_the_budget_are_shown_and_the_first_stays() {
    // Three of four lie: certificates of both payloads exist.
    let lot = Lot { source: 3, sequence: 1 };
    let by_liars = |payload| {
        let said = [1, 2, 3].map(|by| ack(by, lot, payload, &[]).said);
        certificate(lot, payload, said.to_vec())
    };
    let mut world = World::<Signed>::new(4, 11);
    world.liar = Some(NodeId(3));
    for payload in ["one", "two", "two"] {
        world.say(NodeId(3), NodeId(0), Message::Commit(by_liars(payload)));
    }
    world.say(NodeId(3), NodeId(0), prepare(3, 1, "one"));
    world.say(NodeId(3), NodeId(0), prepare(3, 1, "two"));
    world.go_on(400);
    let seat = &world.users.told[0];
    let shown = seat
        .conflicts
        .iter()
        .map(|evidence| TwoPayloads::decode(evidence.clone(), &Limits::default()).expect("evidence"));
    let certified: Vec<TwoPayloads> =
        shown.filter(|shown| matches!(shown, TwoPayloads::Certified { .. })).collect();
    let [TwoPayloads::Certified { one, other }] = &certified[..] else { panic!("{certified:?}") };
    assert!(one.digest != other.digest && one.lot == lot && other.lot == lot);
    for proof in [one, other] {
        assert!(verify_evidence(proof.clone(), &keys(9), CLUSTER, &view(4).roster).is_ok());
    }
    assert!(seat.delivered.get(&(NodeId(3), 1)).is_none_or(|payload| digest(payload) == one.digest));
}

#[test]
fn an_ack_of_another_shard_or_view_counts_for_nothing() {
    let mut world = World::<Signed>::new(4, 6);
    world.liar = Some(NodeId(3));
    let lot = Lot { source: 3, sequence: 1 };
    let elsewhere = |by: u32| {
        let context = Context { shard: 9, ..CONTEXT };
        let acked = Acked { context, lot, digest: digest(b"items"), except: Hash::ZERO, authorized: true };
        let signature = keys(by).sign(Scope { cluster: CLUSTER, epoch: EPOCH }, NodeId(by), acked).signature;
        Said { signature, ..ack(by, lot, "items", &[]).said }
    };
    let stolen = certificate(lot, "items", vec![elsewhere(0), elsewhere(1), elsewhere(3)]);
    world.say(NodeId(3), NodeId(1), Message::Commit(stolen));
    world.go_on(200);
    let blamed = &world.seats[1].blamed;
    assert!(!blamed.is_empty() && blamed.iter().all(|blame| *blame == (NodeId(3), "bad_certificate")));
}

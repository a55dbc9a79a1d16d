//! Bracha's broadcast: what it promises under loss, lies and crashes.

use std::collections::{BTreeMap, BTreeSet};

use synod_broadcast::bracha::{Message, Record, Setup, Vote};
use synod_broadcast::{Bracha, Config, Lot, PAYLOAD_MAX, Rule, Unsound};
use synod_crypto::Hash;
use synod_machine::broadcast::{Bounds, Broadcast, Offer};
use synod_machine::{Condition, Effect, Event, Log, Recover as _, Span, Time, testing};
use synod_quorum::{NodeId, NodeSet};
use synod_wire::{Blob, Bytes, Drawn};

use crate::world::{Seated, World, pick};

pub(crate) fn config(n: u32, me: u32) -> Config {
    let bounds = Bounds { window: 8, retain: 32, payload_max: 1_000, ..Bounds::default() };
    Config { me: NodeId(me), members: NodeSet::first(n), bounds }
}

impl Seated for Bracha {
    const ORDERED: bool = true;
    fn setup(n: u32, me: u32, delivered: BTreeMap<u8, u64>) -> Setup {
        Setup { config: config(n, me), delivered }
    }

    fn mine(&self) -> u64 {
        self.mine()
    }
}

fn prepare(sequence: u64, payload: &str) -> Message {
    let payload = Blob::try_from(Bytes::copy_from_slice(payload.as_bytes())).expect("short");
    Message::Prepare { sequence, payload }
}

fn digest(payload: &str) -> Hash {
    Hash::of(payload.as_bytes())
}

pub(crate) fn vote(source: u8, sequence: u64, payload: &str) -> Vote {
    Vote { lot: Lot { source, sequence }, digest: digest(payload) }
}

#[test]
fn everything_that_correct_members_broadcast_is_delivered_in_order_everywhere() {
    for (seed, n) in (0..40).zip([1, 4, 5, 6, 7, 10].into_iter().cycle()) {
        let mut world = World::<Bracha>::new(n, seed);
        world.loss = if seed % 2 == 0 { 0 } else { 200 };
        for at in 0..12 {
            while world.room(NodeId(at % n)) == 0 {
                assert!(world.happen());
            }
            world.broadcast(at % n, &format!("payload {at}"));
            (0..seed).for_each(|_| assert!(world.happen()));
        }
        assert!(world.settle(12), "seed {seed} with {n} members");
        assert!(world.correct().all(|(_, seat)| seat.blamed.is_empty()), "nobody lied");
    }
}

#[test]
fn a_source_that_says_two_things_gets_at_most_one_delivered_and_the_same_everywhere() {
    let mut outcomes = BTreeSet::new();
    for seed in 0..300 {
        let mut world = World::<Bracha>::new(4, seed);
        let mut drawn = Drawn::new(seed ^ 0xbad);
        world.liar = Some(NodeId(3));
        for to in 0..3 {
            let payload = ["one", "two"][pick(&mut drawn, 2)];
            world.say(NodeId(3), NodeId(to), prepare(1, payload));
            for _ in 0..drawn.below(3) {
                let payload = ["one", "two"][pick(&mut drawn, 2)];
                world.say(NodeId(3), NodeId(to), Message::Echo(vote(3, 1, payload)));
                world.say(NodeId(3), NodeId(to), Message::Ready(vote(3, 1, payload)));
            }
        }
        world.broadcast(0, "honest");
        for _ in 0..4_000 {
            world.happen();
        }
        assert!(world.agrees(), "seed {seed}");
        let logs: BTreeSet<_> =
            world.told().map(|seat| seat.delivered.get(&(NodeId(3), 1)).cloned()).collect();
        assert_eq!(logs.len(), 1, "totality, seed {seed}");
        outcomes.extend(logs);
        assert!(
            world.told().all(|told| told.delivered.contains_key(&(NodeId(0), 1))),
            "a liar delays nobody else"
        );
    }
    assert_eq!(outcomes.len(), 3, "none, one and the other all came about: {outcomes:?}");
}

#[test]
fn a_member_that_crashes_anywhere_breaks_no_promise_and_catches_up() {
    for seed in 0..60 {
        let mut world = World::<Bracha>::new(4, seed);
        world.loss = 100;
        let mut drawn = Drawn::new(seed ^ 0xdead);
        for at in 0..20 {
            world.broadcast(at % 4, &format!("payload {at}"));
            for _ in 0..drawn.below(30) {
                world.happen();
            }
            world.restart(NodeId([0, 1, 2, 3][pick(&mut drawn, 4)]), at % 2 == 0);
        }
        let told = world.correct().map(|(_, seat)| seat.machine.delivered(NodeId(0))).max();
        assert!(world.settle(4), "seed {seed}, {told:?}");
        assert!(
            world.correct().all(|(_, seat)| seat.blamed.is_empty()),
            "a member that came back contradicts itself"
        );
    }
}

/// The last member comes back after the others delivered six slots and said all there was to say.
fn missed() -> World<Bracha> {
    let mut world = World::<Bracha>::new(4, 1);
    world.liar = Some(NodeId(3));
    for at in 0..6 {
        while world.room(NodeId(0)) == 0 {
            assert!(world.happen());
        }
        world.broadcast(0, &format!("payload {at}"));
    }
    assert!(world.settle(6));
    for _ in 0..2_000 {
        world.happen();
    }
    world.liar = None;
    world.restart(NodeId(3), true);
    assert!(world.settle(6));
    world
}

#[test]
fn a_member_that_missed_everything_catches_up_by_the_frontier_of_others() {
    let world = missed();
    assert!(world.seats[3].rules.contains(Rule::CatchUp.name()));
    assert!(
        world.seats[3].rules.contains(Rule::Pull.name()),
        "payloads come from those who are ready for them"
    );
}

#[test]
fn every_rule_is_reached() {
    let mut reached: BTreeSet<&str> =
        missed().correct().flat_map(|(_, seat)| seat.rules.iter().copied()).collect();
    for seed in 0..30 {
        let mut world = World::<Bracha>::new(4, seed);
        world.loss = 300;
        for at in 0..8 {
            world.broadcast(at % 4, &format!("payload {at}"));
        }
        assert!(world.settle(8));
        reached.extend(world.correct().flat_map(|(_, seat)| seat.rules.iter().copied()));
    }
    let of_bracha = Rule::ALL.iter().map(|rule| rule.name()).filter(|name| !name.starts_with("L6"));
    let of_bracha = of_bracha.filter(|name| !["fuller", "rescue", "carry", "decide"].contains(name));
    let missing: Vec<&str> = of_bracha.filter(|name| !reached.contains(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn nothing_is_promised_for_what_the_user_does_not_endorse() {
    let mut world = World::<Bracha>::new(4, 5);
    world.users.judge = |_, _, looked| if looked == 0 { vec![u32::MAX] } else { Vec::new() };
    world.broadcast(1, "bad");
    for _ in 0..3_000 {
        world.happen();
    }
    assert!(world.told().all(|told| told.delivered.is_empty()));
    assert!(world.correct().all(|(_, seat)| !seat.rules.contains(Rule::L5Echo.name())));
    // The reason is gone: the same payload, the same slot.
    world.look_again(1, b"bad");
    assert!(world.settle(1));
}

pub(crate) fn alone() -> Bracha {
    Bracha::new(config(4, 0), &BTreeMap::new()).expect("sound")
}

fn hears(machine: &mut Bracha, from: u32, message: Message) -> Vec<Effect<Bracha>> {
    testing::effects(machine, Event::Message { from: NodeId(from), message }, Time::ZERO)
}

#[test]
fn a_promise_is_recorded_before_it_is_said() {
    let mut machine = alone();
    let lot = Lot { source: 2, sequence: 1 };
    for from in [1, 2] {
        assert!(
            !hears(&mut machine, from, Message::Echo(vote(2, 1, "a")))
                .iter()
                .any(|e| matches!(e, Effect::Persist(_)))
        );
    }
    let effects = hears(&mut machine, 3, Message::Echo(vote(2, 1, "a")));
    let said: Vec<_> =
        effects.iter().filter(|e| matches!(e, Effect::Persist(_) | Effect::Send { .. })).collect();
    let ready = Vote { lot, digest: digest("a") };
    assert!(
        matches!(said[..], [Effect::Persist(Record::Readied(v)), Effect::Send { message: Message::Ready(w), .. }] if *v == ready && *w == ready),
        "{said:?}"
    );
}

#[test]
fn lies_that_one_member_can_see_are_blamed() {
    for (first, second, fault) in [
        (Message::Echo(vote(2, 1, "a")), Message::Echo(vote(2, 1, "b")), "two_echoes"),
        (Message::Ready(vote(2, 1, "a")), Message::Ready(vote(2, 1, "b")), "two_readies"),
    ] {
        let mut machine = alone();
        hears(&mut machine, 1, first);
        let effects = hears(&mut machine, 1, second);
        assert!(
            matches!(&effects[..], [Effect::Blame { peer: NodeId(1), fault: found }] if found.name == fault && !found.evidence.is_empty()),
            "{effects:?}"
        );
    }
    let long = Blob::try_from(Bytes::from(vec![0; 1_001])).expect("under the wire's bound");
    for (from, message, fault) in [
        (9, Message::Ask(Lot { source: 0, sequence: 1 }), "stranger"),
        (1, prepare(0, "a"), "not_its_slot"),
        (1, Message::Prepare { sequence: 1, payload: long.clone() }, "too_long"),
        (1, Message::Pulled { lot: Lot { source: 1, sequence: 1 }, payload: long }, "too_long"),
    ] {
        let effects = hears(&mut alone(), from, message);
        assert!(
            matches!(&effects[..], [Effect::Blame { fault: found, .. }] if found.name == fault),
            "{effects:?}"
        );
    }
}

#[test]
fn slots_outside_the_window_take_no_memory() {
    let mut machine = alone();
    for sequence in [0, 9, u64::MAX] {
        for message in [
            Message::Echo(vote(2, sequence, "a")),
            Message::Ready(vote(2, sequence, "a")),
            Message::Ask(Lot { source: 2, sequence }),
            Message::Pull(vote(2, sequence, "a")),
        ] {
            assert!(hears(&mut machine, 1, message).is_empty());
        }
    }
    assert!(hears(&mut machine, 2, prepare(9, "a")).is_empty());
    let claims = vec![Lot { source: 1, sequence: u64::MAX }].try_into().expect("one");
    assert!(
        hears(&mut machine, 1, Message::Frontier(claims)).is_empty(),
        "one member's word on how far others are"
    );
    assert_eq!(synod_machine::Bounded::bytes(&machine), size_of::<Lot>() as u64);
}

#[test]
fn a_user_is_refused_beyond_half_of_the_window_and_above_the_length() {
    let mut machine = alone();
    let mut offer = |long: usize| {
        let (sequence, payload) = (machine.mine() + 1, Bytes::from(vec![7; long]));
        testing::effects(&mut machine, Event::Input(Offer::Broadcast { sequence, payload }), Time::ZERO)
    };
    assert!(matches!(offer(1_001)[..], [Effect::Output(Broadcast::Refused { .. })]));
    for _ in 0..4 {
        assert!(matches!(offer(10)[..], [Effect::Compute(_)]));
    }
    assert!(matches!(offer(10)[..], [Effect::Output(Broadcast::Refused { .. })]));
}

#[test]
fn a_configuration_that_cannot_work_is_refused() {
    let sound = config(4, 0);
    let with = |bounds: Bounds| Config { bounds, ..sound.clone() };
    assert_eq!(sound.quorums().map(|quorums| quorums.intersecting()), Ok(3));
    for (unsound, why) in [
        (Config { me: NodeId(4), ..sound.clone() }, Unsound::NoMember),
        (Config { members: NodeSet::EMPTY, ..sound.clone() }, Unsound::NoMember),
        (with(Bounds { window: 0, ..sound.bounds }), Unsound::Window),
        (with(Bounds { window: 33, ..sound.bounds }), Unsound::Window),
        (with(Bounds { retain: 1 << 17, ..sound.bounds }), Unsound::Window),
        (with(Bounds { payload_max: 0, ..sound.bounds }), Unsound::Payload),
        (with(Bounds { payload_max: PAYLOAD_MAX + 1, ..sound.bounds }), Unsound::Payload),
        (with(Bounds { frontier_every: Span::ZERO, ..sound.bounds }), Unsound::Wait),
        (with(Bounds { pull_max: Span::ZERO, ..sound.bounds }), Unsound::Wait),
    ] {
        assert_eq!(unsound.quorums(), Err(why));
    }
}

/// Found by `astro/i`: who started again counted everybody but itself.
#[test]
fn members_that_all_started_again_deliver_what_they_echoed_though_one_more_is_gone() {
    let mut early = 0;
    for seed in 0..40 {
        let mut world = World::<Bracha>::new(4, seed);
        world.liar = Some(NodeId(3));
        world.broadcast(0, "payload");
        while world.seats[0].log_len() == 0 {
            assert!(world.happen());
        }
        let mut drawn = Drawn::new(seed);
        (0..drawn.below(20)).for_each(|_| assert!(world.happen()));
        early += u32::from(world.told().all(|told| told.delivered.is_empty()));
        for member in 0..3 {
            world.restart(NodeId(member), seed % 2 == 0);
        }
        assert!(world.settle(1), "seed {seed}");
        assert!(world.correct().all(|(_, seat)| seat.blamed.is_empty()));
    }
    assert!(early >= 30, "{early} started again before they delivered");
}

/// Found by `astro/i:146`: no start was possible where a window had passed between what was delivered and what the user had recorded.
#[test]
fn a_user_that_recorded_less_than_it_was_told_starts_again_and_is_told_again() {
    for (seed, lag) in (0..12).zip([1, 7, 8, 20].into_iter().cycle()) {
        let world = World::<Bracha>::behind(seed, (40, lag));
        assert!(world.correct().all(|(_, seat)| seat.blamed.is_empty()));
    }
}

/// Found by `astro/i:172`: the lane stood still, for its source had the second payload and was never given the first one again.
#[test]
fn a_payload_that_was_not_hashed_when_its_source_crashed_is_taken_though_a_later_one_was() {
    let offer =
        |sequence: u64| Event::Input(Offer::Broadcast { sequence, payload: format!("{sequence}").into() });
    let mut machine = alone();
    let mut jobs = Vec::new();
    for sequence in 1..=3 {
        for effect in testing::effects(&mut machine, offer(sequence), Time::ZERO) {
            if let Effect::Compute(job) = effect {
                jobs.push(job);
            }
        }
    }
    // The last one is done first, and then the node is gone.
    let job = jobs.pop().expect("three payloads are hashed");
    let keys = crate::world::keys(0);
    let done = Event::Done(synod_machine::Job::run(job, &keys));
    let kept =
        testing::effects(&mut machine, done, Time::ZERO).into_iter().filter_map(|effect| match effect {
            Effect::Persist(record) => Some(record),
            _ => None,
        });
    let kept: Vec<Record> = kept.collect();
    assert!(matches!(kept[..], [Record::Mine { sequence: 3, .. }]), "{kept:?}");
    let mut records = kept.into_iter();
    let log = Log { condition: Condition::Clean, records: &mut records };
    let setup = Setup { config: config(4, 0), delivered: BTreeMap::new() };
    let mut machine = Bracha::recover(setup, log).expect("its own records");
    for sequence in [1, 2, 3, 4] {
        let effects = testing::effects(&mut machine, offer(sequence), Time::ZERO);
        let mut jobs = effects.into_iter().filter_map(|effect| match effect {
            Effect::Compute(job) => Some(job),
            _ => None,
        });
        let job = jobs.next().expect("its payload is not here");
        let done = Event::Done(synod_machine::Job::run(job, &keys));
        let effects = testing::effects(&mut machine, done, Time::ZERO);
        let promises = effects.iter().filter(|effect| matches!(effect, Effect::Persist(_))).count();
        assert_eq!(promises, usize::from(sequence != 3), "one promise for each slot");
        assert!(testing::effects(&mut machine, offer(sequence), Time::ZERO).is_empty(), "once is enough");
    }
}

/// Found by `astro/i:2cd`: of four members one was silent and one had never heard the payload, so that nothing was delivered for ever.
#[test]
fn a_payload_that_its_source_lost_is_taken_from_the_user_again() {
    let mut world = World::<Bracha>::new(4, 5);
    world.deaf = vec![NodeId(1), NodeId(2), NodeId(3)];
    world.broadcast(0, "alone");
    world.go_on(60);
    world.damage(NodeId(0));
    world.restart(NodeId(0), true);
    world.deaf.clear();
    world.go_on(300);
    assert!(world.told().all(|seat| seat.delivered.is_empty()), "nobody has it");
    world.ask(NodeId(0), Offer::Broadcast { sequence: 1, payload: "alone".into() });
    assert!(world.settle(1));
    assert!(world.correct().all(|(_, seat)| seat.blamed.is_empty()));
}

//! The signed broadcast through crashes, lost payloads and users that are behind.

use std::collections::BTreeMap;
use std::sync::Arc;

use synod_broadcast::signed::{Context, Except, Message, Record, Setup, View};
use synod_broadcast::{Lot, Rule};
use synod_crypto::{Hash, Signature};
use synod_machine::broadcast::{Begun, Broadcast, Offer};
use synod_machine::{Condition, Effect, Event, Log, Recover, Time, testing};
use synod_quorum::{Epoch, Member, NodeId, NodeSet, Roster};
use synod_wire::{Bytes, Drawn};

use crate::signed::{Signed, ack, certificate, prepare, proven, view};
use crate::world::{Seated, World, keys, pick, seed};

#[test]
fn a_member_that_crashes_anywhere_breaks_no_promise_and_catches_up() {
    for seed in 0..40 {
        let mut world = World::<Signed>::new(4, seed);
        world.loss = 100;
        let mut drawn = Drawn::new(seed ^ 0xdead);
        for at in 0..20 {
            world.broadcast(at % 4, &format!("payload {at}"));
            world.go_on(drawn.below(30));
            world.restart(NodeId([0, 1, 2, 3][pick(&mut drawn, 4)]), at % 2 == 0);
        }
        assert!(world.settle(4), "seed {seed}");
        assert!(
            world.correct().all(|(_, seat)| seat.blamed.is_empty()),
            "a member that came back contradicts itself"
        );
        assert!(world.told().all(|told| told.conflicts.is_empty()));
        proven(&world, 4);
    }
}

#[test]
fn a_payload_that_the_disk_lost_is_brought_by_others() {
    let mut pulled = 0;
    for seed in 0..60 {
        let mut world = World::<Signed>::new(4, seed);
        world.loss = 100;
        let mut drawn = Drawn::new(seed ^ 0xd15c);
        let victim = NodeId([0, 1, 2, 3][pick(&mut drawn, 4)]);
        for at in 0..12 {
            world.broadcast(at % 4, &format!("payload {at}"));
            world.go_on(drawn.below(40));
            if at % 3 == 0 {
                world.damage(victim);
            }
            world.restart(victim, at % 2 == 0);
        }
        assert!(world.settle(4), "seed {seed}");
        assert!(
            world.correct().all(|(_, seat)| seat.blamed.is_empty())
                && world.told().all(|told| told.conflicts.is_empty())
        );
        proven(&world, 4);
        pulled += world.correct().filter(|(_, seat)| seat.rules.contains(Rule::Pull.name())).count();
    }
    assert!(pulled >= 30, "payloads were brought in {pulled} members");
}

#[test]
fn a_source_alone_with_a_payload_that_its_disk_lost_gets_it_from_whoever_has_it() {
    let mut world = World::<Signed>::new(4, 5);
    // Only members 0 and 1 hear of it: no quorum.
    world.broadcast(0, "half way");
    world.deaf = vec![NodeId(2), NodeId(3)];
    world.go_on(60);
    assert!(world.told().all(|seat| seat.delivered.is_empty()));
    world.damage(NodeId(0));
    world.restart(NodeId(0), true);
    world.deaf.clear();
    assert!(world.settle(1));
    assert!(world.seats[0].rules.contains(Rule::Pull.name()));
    proven(&world, 4);
}

/// Found by a drawn run of payments (`astro/ii-f:27c`): the source asked for it for ever.
#[test]
fn a_payload_that_its_disk_lost_and_nobody_heard_of_is_taken_from_the_user_again() {
    let mut world = World::<Signed>::new(4, 5);
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
    proven(&world, 4);
}

#[test]
fn payloads_that_are_kept_no_longer_leave_the_disk_after_restarts_too() {
    let mut world = World::<Signed>::new(4, 3);
    for round in 0..7 {
        for at in 0..20 {
            while world.room(NodeId(0)) == 0 {
                assert!(world.happen());
            }
            world.broadcast(0, &format!("payload {round} {at}"));
        }
        assert!(world.settle(20 * (round + 1)));
        // From the log as it is, and from a snapshot of what that makes.
        (0..4).for_each(|id| world.restart(NodeId(id), id % 2 == 0));
    }
    world.broadcast(0, "after them");
    assert!(world.settle(141));
    proven(&world, 4);
    // 32 slots are kept, and a window of 8 behind them for a user that is behind.
    let blobs: Vec<usize> = world.correct().map(|(_, seat)| seat.blobs()).collect();
    assert_eq!(blobs, [40; 4]);
}

/// Found by a review: the log was ahead of what the user settled by a window, and no start was possible.
#[test]
fn a_user_that_settled_less_than_it_was_told_starts_again_and_is_told_again() {
    for (seed, lag) in (0..12).zip([1, 7, 8].into_iter().cycle()) {
        let world = World::<Signed>::behind(seed, (70, lag));
        proven(&world, 4);
    }
}

/// Member 3 lies, in the first slot of its lane.
const LIAR: NodeId = NodeId(3);
const LOT: Lot = Lot { source: 3, sequence: 1 };

/// Found by a run of the simulator: after its restart the member took the other payload that the source signed, and counted its
/// own signature on the first one for it.
#[test]
fn a_member_that_accepted_one_payload_and_came_back_counts_for_no_other() {
    for whole in [false, true] {
        let mut world = World::<Signed>::new(4, 3);
        world.liar = Some(LIAR);
        world.deaf = vec![NodeId(2)];
        world.say(LIAR, NodeId(0), prepare(3, 1, "one"));
        world.go_on(60);
        world.restart(NodeId(0), whole);
        for _ in 0..20 {
            for to in [0, 1] {
                world.say(LIAR, NodeId(to), prepare(3, 1, "two"));
                world.say(LIAR, NodeId(to), Message::Ack(ack(3, LOT, "two", &[])));
            }
            world.go_on(100);
        }
        assert!(world.told().all(|told| told.delivered.is_empty()), "two of four signed it");
        assert!(world.correct().all(|(_, seat)| seat.blamed.iter().all(|(whom, _)| *whom == LIAR)));
        // A certificate decides it, for that member too.
        let said = [1, 2, 3].map(|by| ack(by, LOT, "two", &[]).said);
        world.deaf.clear();
        world.say(LIAR, NodeId(2), prepare(3, 1, "two"));
        world.say(LIAR, NodeId(1), Message::Commit(certificate(LOT, "two", said.to_vec())));
        assert!(world.settle(1));
        assert!(world.told().all(|told| told.delivered.values().all(|payload| payload == "two")));
        proven(&world, 4);
    }
}

/// Found by a run of the simulator: the other payload was in memory, and so the certified one was never asked for.
#[test]
fn a_member_that_accepted_another_payload_asks_for_the_certified_one() {
    for whole in [None, Some(false), Some(true)] {
        let mut world = World::<Signed>::new(4, 4);
        world.liar = Some(LIAR);
        world.say(LIAR, NodeId(0), prepare(3, 1, "one"));
        [1, 2].into_iter().for_each(|to| world.say(LIAR, NodeId(to), prepare(3, 1, "two")));
        world.go_on(60);
        let said = [1, 2, 3].map(|by| ack(by, LOT, "two", &[]).said);
        for to in 0..3 {
            world.say(LIAR, NodeId(to), Message::Commit(certificate(LOT, "two", said.to_vec())));
        }
        if let Some(whole) = whole {
            world.go_on(20);
            world.restart(NodeId(0), whole);
        }
        assert!(world.settle(1), "{whole:?}");
        assert!(world.told().all(|told| told.delivered.values().all(|payload| payload == "two")));
        assert!(world.seats[0].rules.contains(Rule::Pull.name()));
        proven(&world, 4);
    }
}

/// Found by a run of the simulator: a power failure kept the payload and not the promise about it, then the source sent another one,
/// and the stored one was read and not looked at when it was certified.
#[test]
fn a_stored_payload_is_read_though_its_source_put_another_one_in_memory() {
    let held = Record::Held { lot: LOT, digest: Signed::digest(b"two"), name: Hash::of(b"two") };
    let log = Log { condition: Condition::Clean, records: &mut [held].into_iter() };
    let mut machine = Signed::recover(Signed::setup(4, 0, BTreeMap::new()), log).expect("sound");
    let said = [1, 2, 3].map(|by| ack(by, LOT, "two", &[]).said);
    let said = [prepare(3, 1, "one"), Message::Commit(certificate(LOT, "two", said.to_vec()))];
    let mut events = vec![Event::Start];
    events.extend(said.map(|message| Event::Message { from: LIAR, message }));
    let mut delivered = Vec::new();
    for event in events {
        let mut next = vec![event];
        while let Some(event) = next.pop() {
            for effect in testing::effects(&mut machine, event, Time::ZERO) {
                match effect {
                    Effect::Compute(job) => next.push(Event::Done(synod_machine::Job::run(job, &keys(0)))),
                    Effect::Load(name) => {
                        let bytes = (name == Hash::of(b"two")).then(|| Bytes::from_static(b"two"));
                        next.push(Event::Loaded { name, bytes });
                    }
                    Effect::Output(Broadcast::Delivered { payload, .. }) => delivered.push(payload),
                    _ => {}
                }
            }
        }
    }
    assert_eq!(delivered, ["two"]);
}

/// Found by a run of the simulator: its own lane was certified further than the member that had lost its disk knew of.
#[test]
fn a_slot_that_an_earlier_life_filled_and_lost_is_not_filled_again() {
    let log = Log { condition: Condition::Fresh, records: &mut std::iter::empty() };
    let mut machine = Signed::recover(Signed::setup(4, 0, BTreeMap::new()), log).expect("sound");
    let mut sent = Vec::new();
    let mut happens = |event| {
        let mut next = vec![event];
        while let Some(event) = next.pop() {
            for effect in testing::effects(&mut machine, event, Time::ZERO) {
                match effect {
                    Effect::Compute(job) => next.push(Event::Done(synod_machine::Job::run(job, &keys(0)))),
                    Effect::Send { message: Message::Prepare { lot, .. }, .. } => sent.push(lot),
                    _ => {}
                }
            }
        }
    };
    let offer = |sequence| {
        Event::Input(Offer::Broadcast { sequence, payload: Bytes::from(format!("new {sequence}")) })
    };
    happens(Event::Start);
    let lost = Lot { source: 0, sequence: 3 };
    let said = [0, 1, 2].map(|by| ack(by, lost, "lost", &[]).said);
    let message = Message::Commit(certificate(lost, "lost", said.to_vec()));
    happens(Event::Message { from: LIAR, message });
    (1..=4).for_each(|sequence| happens(offer(sequence)));
    assert_eq!(sent, [Lot { source: 0, sequence: 4 }]);
}

/// Found by a run of the simulator: the later of two payloads was signed first, the earlier one was not at the crash, and no offer
/// of it was taken again, so that its source's lane ended there.
#[test]
fn payloads_that_were_not_signed_at_a_crash_are_when_they_are_offered_again() {
    for seed in 0..60 {
        let mut world = World::<Signed>::new(4, seed);
        let offer = |world: &mut World<Signed>| {
            for sequence in 1..=4 {
                let payload = Bytes::from(format!("payload {sequence}").into_bytes());
                world.ask(NodeId(0), Offer::Broadcast { sequence, payload });
            }
        };
        offer(&mut world);
        world.go_on(1 + seed % 12);
        world.restart(NodeId(0), seed % 2 == 0);
        offer(&mut world);
        assert!(world.settle(4), "seed {seed}");
        assert!(world.correct().all(|(_, seat)| seat.blamed.is_empty()), "seed {seed}");
        proven(&world, 4);
    }
}

/// Found by a run of the simulator: members that came back heard no ACKs of a slot until somebody sent its payload again, and
/// nobody could.
#[test]
fn a_payload_that_a_quorum_accepted_is_certified_though_its_source_is_gone_and_all_others_started_again() {
    for seed in 0..12 {
        let mut world = World::<Signed>::new(4, seed);
        world.liar = Some(LIAR);
        (0..3).for_each(|to| world.say(LIAR, NodeId(to), prepare(3, 1, "left behind")));
        world.go_on(40);
        assert!(world.told().all(|told| told.delivered.is_empty()), "seed {seed}");
        (0..3).for_each(|id| world.restart(NodeId(id), seed % 2 == 0));
        assert!(world.settle(1), "seed {seed}");
        assert!(world.correct().all(|(_, seat)| seat.blamed.is_empty()), "seed {seed}");
        proven(&world, 4);
    }
}

/// A member that had accepted a payload and came back can show it to one that never heard of it.
#[test]
fn a_payload_goes_on_to_whoever_missed_it_from_members_that_started_again() {
    for seed in 0..12 {
        let mut world = World::<Signed>::new(4, seed);
        world.liar = Some(LIAR);
        (0..2).for_each(|to| world.say(LIAR, NodeId(to), prepare(3, 1, "passed on")));
        world.deaf = vec![NodeId(2)];
        world.go_on(40);
        (0..2).for_each(|id| world.restart(NodeId(id), seed % 2 == 0));
        world.deaf.clear();
        assert!(world.settle(1), "seed {seed}");
        proven(&world, 4);
    }
}

/// Found by a drawn run of views that change (`astro/views:14`): members asked for the slot for ever.
#[test]
fn what_is_endorsed_again_in_a_new_view_is_signed_after_a_crash_whatever_older_views_certified() {
    let older = view(4);
    let members = (0..4).map(|id| Member { key: seed(id).public(), power: 1 });
    let roster = Roster::new(Epoch(older.roster.epoch().0 + 1), members.collect()).expect("distinct members");
    let context = Context { view: Hash([6; 32]), ..older.context };
    let newer = Arc::new(View { cluster: older.cluster, roster: Arc::new(roster), context });
    let said = [1, 2, 3].map(|by| ack(by, LOT, "one", &[]).said);
    let old = certificate(LOT, "one", said.to_vec());
    let signature = Signature([0; 64]);
    // The crash came between the record and the signature.
    let accepted = Record::Accepted {
        lot: LOT,
        digest: old.digest,
        except: Except::default(),
        authorized: true,
        signature,
    };
    let sources = NodeSet::first(4);
    let begun =
        Begun { older: vec![older], sources, slots: BTreeMap::from([(LOT, None)]), ..Begun::default() };
    let setup = Setup { view: newer, begun, ..Signed::setup(4, 0, BTreeMap::new()) };
    let mut records = [Record::Committed(old), accepted].into_iter();
    let log = Log { condition: Condition::Clean, records: &mut records };
    let mut machine = Signed::recover(setup, log).expect("sound");
    let mut acks = 0;
    for event in [Event::Start, Event::Message { from: NodeId(2), message: Message::Ask(LOT) }] {
        let mut next = vec![event];
        while let Some(event) = next.pop() {
            for effect in testing::effects(&mut machine, event, Time::ZERO) {
                match effect {
                    Effect::Compute(job) => next.push(Event::Done(synod_machine::Job::run(job, &keys(0)))),
                    Effect::Send { message: Message::Ack(ack), .. } if ack.lot == LOT => acks += 1,
                    _ => {}
                }
            }
        }
    }
    assert!(acks > 0, "whoever lacks a certificate of this view gets no endorsement");
}

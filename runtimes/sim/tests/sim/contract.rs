//! The runtime contract, one test per item, on the simulator.

use synod_crypto::Hash;
use synod_machine::{Condition, Span, Time};
use synod_quorum::{NodeId, NodeSet};
use synod_sim::{Deed, Loss, Options, Seen, World};

use crate::probe::{Do, Said, calm, heard, said, setup, tell, world};

fn only(id: u32) -> NodeSet {
    NodeSet::only(NodeId(id))
}

#[test]
fn item_1_frames_of_one_queue_keep_their_order_whatever_the_jitter() {
    let options = Options { jitter: Span::millis(40), ..calm(5) };
    let mut world = World::new(setup(2, &[0], options));
    said(&mut world, Span::secs(1));
    for value in 0..15 {
        tell(&mut world, 0, vec![Do::SendOn(0, NodeId(1), value), Do::SendOn(1, NodeId(1), 100 + value)]);
        said(&mut world, Span::millis(3));
    }
    let heard = heard(&said(&mut world, Span::secs(2)), 1);
    let queue =
        |range: std::ops::Range<u64>| heard.iter().copied().filter(|v| range.contains(v)).collect::<Vec<_>>();
    assert!(heard.len() > 10, "most frames were still on their way");
    for queue in [queue(0..100), queue(100..200)] {
        assert!(queue.windows(2).all(|two| two[0] < two[1]), "{queue:?}");
    }
    assert!(heard.windows(2).any(|two| two[0] > two[1]), "the queues are independent: {heard:?}");
}

#[test]
fn item_1_a_broken_link_loses_a_suffix_then_goes_down_and_up() {
    let mut world = world(2, 8);
    for value in 0..10 {
        tell(&mut world, 0, vec![Do::Send(only(1), value)]);
        said(&mut world, Span::micros(50));
    }
    world.reset(NodeId(0), NodeId(1));
    let all = said(&mut world, Span::secs(20));
    let heard = heard(&all, 1);
    assert_eq!(heard, (0..heard.len() as u64).collect::<Vec<_>>(), "what arrives is a prefix");
    let links: Vec<bool> = all
        .iter()
        .filter_map(
            |(who, _, said)| if let (1, Said::Linked(_, up)) = (who, said) { Some(*up) } else { None },
        )
        .collect();
    assert_eq!(links, [false, true]);
    let position =
        |wanted: &dyn Fn(&Said) -> bool| all.iter().rposition(|(who, _, s)| *who == 1 && wanted(s));
    let last_heard = position(&|s| matches!(s, Said::Heard(..)));
    assert!(last_heard < position(&|s| *s == Said::Linked(NodeId(0), false)));
    assert!(world.linked(NodeId(0), NodeId(1)));
}

#[test]
fn item_2_sends_and_outputs_wait_for_the_record_before_them_and_timers_do_not() {
    let mut world = world(2, 3);
    let start = world.now();
    tell(
        &mut world,
        0,
        vec![
            Do::Output(1),
            Do::Persist(7),
            Do::Send(only(1), 7),
            Do::Output(2),
            Do::Arm(9, Span::micros(10)),
            Do::Compute(4),
        ],
    );
    let all = said(&mut world, Span::millis(20));
    let when =
        |wanted: Said| all.iter().find(|(_, _, s)| *s == wanted).map(|(_, at, _)| *at).expect("it was said");
    assert_eq!(when(Said::Printed(1)), start, "what came before the record leaves at once");
    let sync = Span::micros(1_500);
    assert!(when(Said::Printed(2)) >= start + sync, "an output waits for the sync");
    assert!(when(Said::Heard(NodeId(0), 7)) >= start + sync, "a send waits for the sync");
    let (_, fired, _) = all.iter().find(|(_, _, s)| matches!(s, Said::Fired(9, _))).expect("the timer fired");
    assert!(*fired >= when(Said::Printed(2)), "its output waits like any other");
    let rows: Vec<&Seen> = world.trace().last().map(|line| &line.seen).collect();
    let timer = rows.iter().position(|seen| matches!(seen, Seen::Timers(_))).expect("a tick");
    let durable = rows.iter().position(|seen| matches!(seen, Seen::Durable(_))).expect("a sync");
    assert!(timer < durable, "the timer itself fires before the sync");
}

#[test]
fn item_3_many_turns_and_machines_share_one_sync() {
    let mut world = World::new(setup(1, &[0, 1, 2], calm(3)));
    said(&mut world, Span::millis(50));
    for value in 0..30_u8 {
        world.input(NodeId(0), value % 3, Span::micros(u64::from(value)), Box::new(vec![Do::Persist(1)]));
    }
    said(&mut world, Span::millis(50));
    let syncs = world.trace().last().filter(|line| matches!(line.seen, Seen::Durable(_))).count();
    assert!((3..=6).contains(&syncs), "three lanes and two groups at most, not thirty: {syncs}");
}

#[test]
fn item_4_the_sender_is_the_other_end_of_the_link() {
    let mut world = world(4, 3);
    for node in 0..4 {
        tell(&mut world, node, vec![Do::Send(NodeSet::first(4), u64::from(node))]);
    }
    let all = said(&mut world, Span::millis(10));
    let heard: Vec<(u32, u64)> = all
        .iter()
        .filter_map(|(_, _, s)| if let Said::Heard(from, value) = s { Some((from.0, *value)) } else { None })
        .collect();
    assert_eq!(heard.len(), 16);
    assert!(heard.iter().all(|(from, value)| u64::from(*from) == *value));
}

#[test]
fn item_5_timers_fire_at_or_after_their_time_once_in_order_of_time_and_name() {
    let mut world = world(1, 3);
    let armed = [(5, 30), (1, 10), (2, 10), (3, 20), (4, 20)];
    let mut script: Vec<Do> = armed.iter().map(|(name, ms)| Do::Arm(*name, Span::millis(*ms))).collect();
    script.extend([Do::Disarm(4), Do::Arm(3, Span::millis(25)), Do::Draw]);
    tell(&mut world, 0, script);
    let all = said(&mut world, Span::secs(1));
    let start = all.iter().find_map(|(_, _, s)| if let Said::Clocked(at, _) = s { Some(*at) } else { None });
    let start = start.expect("the clock was read");
    let fired: Vec<(u64, Time)> = all
        .iter()
        .filter_map(|(_, _, s)| if let Said::Fired(name, at) = s { Some((*name, *at)) } else { None })
        .collect();
    assert_eq!(fired.iter().map(|(name, _)| *name).collect::<Vec<_>>(), [1, 2, 3, 5]);
    for ((_, at), ms) in fired.iter().zip([10, 10, 25, 30]) {
        assert_eq!(*at, start + Span::millis(ms));
    }
}

#[test]
fn item_5_after_a_pause_late_timers_come_at_once_and_in_order() {
    let mut world = world(1, 3);
    tell(&mut world, 0, (0..5).map(|name| Do::Arm(9 - name, Span::millis(10 + name))).collect());
    said(&mut world, Span::millis(1));
    world.pause(NodeId(0), Span::secs(2));
    let all = said(&mut world, Span::secs(3));
    let fired: Vec<u64> = all
        .iter()
        .filter_map(|(_, _, s)| if let Said::Fired(name, _) = s { Some(*name) } else { None })
        .collect();
    assert_eq!(fired, [9, 8, 7, 6, 5]);
    let times: Vec<Time> = all.iter().map(|(_, at, _)| *at).collect();
    assert!(times.iter().all(|at| *at == times[0] && at.0 >= Span::secs(2).0));
}

#[test]
fn item_6_a_job_is_answered_once_in_any_order_and_lost_in_a_crash() {
    let mut world = world(1, 3);
    world.delay_jobs(NodeId(0), Span::millis(50));
    for value in 0..8 {
        tell(&mut world, 0, vec![Do::Compute(value)]);
    }
    let computed = |all: &[(u32, Time, Said)]| -> Vec<u64> {
        all.iter().filter_map(|(_, _, s)| if let Said::Computed(v) = s { Some(*v) } else { None }).collect()
    };
    let mut first = computed(&said(&mut world, Span::secs(3)));
    assert!(first.windows(2).any(|two| two[0] > two[1]), "answers come out of order: {first:?}");
    first.sort_unstable();
    assert_eq!(first, (1..=8).collect::<Vec<_>>());
    tell(&mut world, 0, vec![Do::Compute(20)]);
    said(&mut world, Span::micros(1));
    world.crash(NodeId(0), Loss::Durable, Some(Span::millis(1)));
    assert_eq!(computed(&said(&mut world, Span::secs(5))), [] as [u64; 0]);
}

#[test]
fn item_6_a_machine_at_its_job_limit_takes_no_frames_until_answers_come() {
    let mut world = world(2, 3);
    world.delay_jobs(NodeId(1), Span::millis(100));
    tell(&mut world, 1, (0..8).map(Do::Compute).collect());
    tell(&mut world, 0, vec![Do::Send(only(1), 5)]);
    let all = said(&mut world, Span::secs(3));
    let answered = all.iter().position(|(_, _, s)| matches!(s, Said::Computed(_)));
    let frame = all.iter().position(|(who, _, s)| *who == 1 && matches!(s, Said::Heard(..)));
    assert!(answered.is_some() && answered < frame);
}

#[test]
fn item_7_a_send_to_oneself_is_a_later_event() {
    let mut world = world(1, 3);
    tell(&mut world, 0, vec![Do::Send(only(0), 1), Do::Output(2)]);
    let all = said(&mut world, Span::millis(1));
    let order: Vec<Said> = all.into_iter().map(|(_, _, s)| s).collect();
    assert_eq!(order, [Said::Printed(2), Said::Heard(NodeId(0), 1)]);
}

#[test]
fn item_8_what_does_not_decode_is_blamed_by_the_host_and_not_seen_by_the_machine() {
    let mut world = world(2, 3);
    let noise = synod_sim::Mutate { share_ppm: synod_sim::PPM, mutator: Some(Box::new(Garbage)) };
    world.corrupt_node(NodeId(0), Box::new(noise));
    tell(&mut world, 0, vec![Do::Send(only(1), 1)]);
    let all = said(&mut world, Span::millis(10));
    assert_eq!(heard(&all, 1), [] as [u64; 0]);
    let blames = world.trace().last().flat_map(|line| &line.deeds).filter_map(|deed| match deed {
        Deed::Blame { peer, fault } => Some((peer.0, fault.name)),
        _ => None,
    });
    assert_eq!(blames.collect::<Vec<_>>(), [(0, "undecodable_frame")]);
}

#[test]
fn item_8_the_third_undecodable_frame_closes_the_link_and_the_next_link_counts_anew() {
    let mut world = world(2, 3);
    let noise = synod_sim::Mutate { share_ppm: synod_sim::PPM, mutator: Some(Box::new(Garbage)) };
    world.corrupt_node(NodeId(0), Box::new(noise));
    let downs = |all: &[(u32, Time, Said)]| {
        all.iter().filter(|(who, _, said)| *who == 1 && *said == Said::Linked(NodeId(0), false)).count()
    };
    for _ in 0..2 {
        for _ in 0..2 {
            tell(&mut world, 0, vec![Do::Send(only(1), 1)]);
            assert_eq!(downs(&said(&mut world, Span::millis(500))), 0, "two are forgiven");
        }
        tell(&mut world, 0, vec![Do::Send(only(1), 1)]);
        assert_eq!(downs(&said(&mut world, Span::secs(12))), 1, "the third is not");
        assert!(world.linked(NodeId(0), NodeId(1)), "the link comes up again");
    }
}

struct Garbage;

impl synod_sim::Mutator for Garbage {
    fn levers(&self, _: &synod_wire::Bytes) -> Vec<synod_sim::Lever> {
        vec![synod_sim::Lever { kind: synod_sim::LeverKind::Id, index: 0 }]
    }
    fn pull(
        &self,
        _: &synod_wire::Bytes,
        _: synod_sim::Lever,
        _: synod_sim::Pull,
        keys: Option<&synod_crypto::Keys>,
    ) -> Option<synod_wire::Bytes> {
        assert!(keys.is_some(), "a strategy is given the keys of its own node");
        Some(synod_wire::Bytes::from_static(&[1, 0, 0xff, 0xff]))
    }
}

#[test]
fn item_9_the_random_stream_is_that_of_seed_node_and_machine() {
    let mut drawn = Vec::new();
    for _ in 0..2 {
        let mut world = world(2, 3);
        tell(&mut world, 0, vec![Do::Draw]);
        tell(&mut world, 1, vec![Do::Draw]);
        let all = said(&mut world, Span::millis(1));
        let mut values: Vec<(u32, u64)> = all
            .iter()
            .filter_map(|(who, _, s)| if let Said::Drew(v) = s { Some((*who, *v)) } else { None })
            .collect();
        values.sort_unstable();
        drawn.push(values);
    }
    assert_eq!(drawn[0], drawn[1]);
    assert_ne!(drawn[0][0].1, drawn[0][1].1);
    assert_eq!(drawn[0][0].1, synod_machine::Rng::new(1, NodeId(0), 0).draw());
}

#[test]
fn item_10_start_is_first_also_after_recovery_and_recovery_says_nothing() {
    let mut world = World::new(setup(1, &[0], calm(3)));
    tell(&mut world, 0, vec![Do::Output(1)]);
    let mut told: Vec<synod_sim::Told> = Vec::new();
    world.run(Time(Span::millis(50).0), &mut told).expect("nothing goes wrong");
    assert_eq!(told[0].output.downcast_ref(), Some(&Said::Started(Condition::Fresh, vec![])));
    tell(&mut world, 0, vec![Do::Persist(4), Do::Persist(5)]);
    said(&mut world, Span::millis(50));
    world.crash(NodeId(0), Loss::Durable, Some(Span::millis(1)));
    let all = said(&mut world, Span::millis(50));
    assert_eq!(all[0].2, Said::Started(Condition::Clean, vec![4, 5]));
    let opened = world.trace().last().filter(|line| matches!(line.seen, Seen::Opened { .. }));
    let effects: Vec<usize> = opened.map(|line| line.deeds.len()).collect();
    assert_eq!(effects, [0, 0]);
}

#[test]
fn a_blob_is_read_back_and_an_unknown_or_erased_one_is_not_there() {
    let mut world = world(1, 3);
    let bytes = b"a block body".to_vec();
    let name = Hash::of(&bytes);
    tell(&mut world, 0, vec![Do::Store(bytes.clone()), Do::Load(name), Do::Load(Hash::ZERO)]);
    let loaded = |all: &[(u32, Time, Said)]| -> Vec<Option<Vec<u8>>> {
        let bytes =
            |s: &Said| if let Said::Loaded(b) = s { Some(b.as_ref().map(|b| b.to_vec())) } else { None };
        let mut found: Vec<Option<Vec<u8>>> = all.iter().filter_map(|(_, _, s)| bytes(s)).collect();
        found.sort();
        found
    };
    assert_eq!(loaded(&said(&mut world, Span::millis(20))), [None, Some(bytes.clone())]);
    world.crash(NodeId(0), Loss::Durable, Some(Span::millis(1)));
    said(&mut world, Span::millis(20));
    tell(&mut world, 0, vec![Do::Load(name)]);
    assert_eq!(loaded(&said(&mut world, Span::millis(20))), [Some(bytes)]);
    tell(&mut world, 0, vec![Do::Erase(name), Do::Load(name)]);
    assert_eq!(loaded(&said(&mut world, Span::millis(20))), [None]);
}

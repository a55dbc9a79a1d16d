//! Strategies do what they are named after, with their own keys and nobody else's.

use synod_machine::{Queue, Span, To};
use synod_quorum::{NodeId, NodeSet};
use synod_sim::{
    Act, Deed, Delay, Flood, Loss, Mutate, PPM, Replay, Silent, Status, Strategy, World, WorstCrash,
};

use crate::probe::{Do, Said, heard, said, tell, world};

const OTHERS: NodeSet = NodeSet::first(4);

fn send(world: &mut World, value: u64) {
    tell(world, 0, vec![Do::Send(OTHERS.without(NodeId(0)), value)]);
}

#[test]
fn b1_withholds_by_target_queue_and_share() {
    let mut world = world(4, 3);
    let silent = Silent { queue: Some(Queue(0)), targets: (1, 2), share_ppm: PPM };
    world.corrupt_node(NodeId(0), Box::new(silent));
    send(&mut world, 5);
    tell(&mut world, 0, vec![Do::SendOn(1, NodeId(2), 6)]);
    let all = said(&mut world, Span::millis(10));
    assert_eq!((heard(&all, 1), heard(&all, 2), heard(&all, 3)), (vec![5], vec![6], vec![5]));
}

#[test]
fn b2_delays_each_frame_for_itself_and_loses_none() {
    let mut world = world(4, 3);
    world.corrupt_node(NodeId(0), Box::new(Delay { longest: Span::secs(5), share_ppm: PPM }));
    for value in 0..10 {
        send(&mut world, value);
    }
    assert!(said(&mut world, Span::millis(2)).len() < 30);
    let heard = heard(&said(&mut world, Span::secs(10)), 1);
    assert_ne!(heard, (0..10).collect::<Vec<_>>(), "the order is gone");
    let mut sorted = heard.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, (0..10).collect::<Vec<_>>());
}

#[test]
fn b3_says_again_what_was_said() {
    let mut world = world(4, 3);
    world.corrupt_node(NodeId(0), Box::new(Replay { share_ppm: PPM }));
    let mut total = 0;
    for value in 0..20 {
        send(&mut world, value);
        let all = said(&mut world, Span::millis(5));
        total += (1..4).map(|node| heard(&all, node).len()).sum::<usize>();
    }
    assert_eq!(total, 80, "sixty sent and twenty repeated");
    assert!(world.stats().swallowed > 0);
}

#[test]
fn b6_without_levers_flips_a_bit_and_is_mostly_refused() {
    let mut world = world(4, 3);
    world.corrupt_node(NodeId(0), Box::new(Mutate { share_ppm: PPM, mutator: None }));
    for value in 0..20 {
        send(&mut world, 1_000 + value);
    }
    let all = said(&mut world, Span::secs(1));
    let original: usize =
        (1..4).map(|node| heard(&all, node).iter().filter(|v| (1_000..1_020).contains(*v)).count()).sum();
    let stats = world.stats();
    assert!(stats.net.delivered < 60, "a link closes at the third frame that does not decode");
    assert!(stats.blames >= 6 && original < 30, "{} blames, {original} untouched", stats.blames);
}

#[test]
fn b10_floods_without_breaking_the_bounds_of_queues() {
    let mut world = world(4, 3);
    world.corrupt_node(NodeId(0), Box::new(Flood::new(100)));
    for value in 0..10 {
        send(&mut world, value);
        said(&mut world, Span::millis(1));
    }
    said(&mut world, Span::secs(20));
    let stats = world.stats();
    assert!(stats.net.sent > 500, "{stats:?}");
    assert!(stats.net.overflows > 0, "the queues of its own links overflow");
}

#[test]
fn b13_crashes_between_recipients_keeps_faith_and_comes_back() {
    let mut partial = 0;
    for seed in 0..20 {
        let mut world = world(4, seed);
        world.corrupt_node(NodeId(0), Box::new(WorstCrash { share_ppm: PPM }));
        assert!(world.honest(NodeId(0)));
        send(&mut world, 5);
        let all = said(&mut world, Span::millis(5));
        assert_eq!(world.stats().crashes, 1);
        let reached = (1..4).filter(|node| !heard(&all, *node).is_empty()).count();
        assert!(reached < 3);
        partial += reached;
        said(&mut world, Span::secs(20));
        assert_eq!(world.status(NodeId(0)), Status::Up);
    }
    assert!(partial > 5, "some recipients were reached: {partial}");
}

/// Sends each peer another body, if its keys are what they should be.
struct Equivocate;

impl Strategy for Equivocate {
    fn name(&self) -> &'static str {
        "byz.B4"
    }
    fn act(&mut self, act: &mut Act<'_>) -> bool {
        assert_eq!(act.keys.keys().copied().collect::<Vec<_>>(), [NodeId(0), NodeId(1)]);
        act.split_sends();
        for deed in act.deeds.iter_mut() {
            if let Deed::Send { to: To::Node(to), body, .. } = deed {
                let mut other = body.to_vec();
                let last = other.len() - 1;
                other[last] += u8::try_from(to.0).expect("small");
                *body = other.into();
            }
        }
        *act.board.numbers.entry("acts".to_owned()).or_insert(0) += 1;
        true
    }
}

#[test]
fn a_strategy_of_the_harness_sends_different_bodies_to_different_peers() {
    let mut world = world(4, 3);
    world.corrupt_node(NodeId(0), Box::new(Equivocate));
    world.corrupt_node(NodeId(1), Box::new(Equivocate));
    send(&mut world, 10);
    let all = said(&mut world, Span::millis(10));
    assert_eq!((heard(&all, 1), heard(&all, 2), heard(&all, 3)), (vec![11], vec![12], vec![13]));
    assert!(!world.honest(NodeId(0)) && world.stats().swallowed >= 2);
}

#[test]
fn a_released_node_behaves_and_stays_faulty() {
    let mut world = world(4, 3);
    world.corrupt_node(NodeId(0), Box::new(Silent::ALL));
    send(&mut world, 1);
    assert_eq!(heard(&said(&mut world, Span::millis(10)), 1), [] as [u64; 0]);
    world.release_node(NodeId(0));
    send(&mut world, 2);
    let all = said(&mut world, Span::millis(10));
    assert_eq!(heard(&all, 1), [2]);
    assert!(!world.honest(NodeId(0)));
}

#[test]
fn what_a_strategy_put_off_dies_with_its_node() {
    let mut world = world(4, 3);
    world.corrupt_node(NodeId(0), Box::new(Delay { longest: Span::secs(5), share_ppm: PPM }));
    send(&mut world, 1);
    said(&mut world, Span::ZERO);
    world.crash(NodeId(0), Loss::Durable, None);
    let all = said(&mut world, Span::secs(10));
    assert!(!all.iter().any(|(_, _, s)| matches!(s, Said::Heard(..))));
}

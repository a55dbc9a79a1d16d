//! Processes: crashes at boundaries, storms, pauses, slow processors, clocks, connectors.

use synod_machine::{Span, Time};
use synod_quorum::{NodeId, NodeSet};
use synod_sim::{
    Crypto, Desk, Harness, Loss, Options, Prices, Refused, Routed, Seen, Setup, Status, Told, World,
};

use crate::probe::{Do, Said, calm, heard, said, setup, tell, world};

#[test]
fn a_crash_falls_at_every_boundary_of_a_turn() {
    let script = || {
        vec![Do::Output(1), Do::Send(NodeSet::first(4).without(NodeId(0)), 2), Do::Output(3), Do::Persist(4)]
    };
    let mut outcomes = Vec::new();
    for after in 0..=7 {
        let mut world = world(4, 3);
        let before = world.boundaries(NodeId(0));
        world.crash_at(NodeId(0), after, Loss::Nothing, Some(Span::secs(3)));
        tell(&mut world, 0, script());
        let all = said(&mut world, Span::millis(500));
        let printed = all.iter().filter(|(_, _, s)| matches!(s, Said::Printed(_))).count();
        let sent: usize = (1..4).map(|node| heard(&all, node).len()).sum();
        outcomes.push((world.boundaries(NodeId(0)) - before, printed, sent));
        let up = if after < 7 { Status::Down } else { Status::Up };
        assert_eq!(world.status(NodeId(0)), up, "after {after}");
        let later = said(&mut world, Span::secs(5));
        let kept = later.iter().find_map(|(who, _, s)| match s {
            Said::Started(_, kept) if *who == 0 => Some(kept.len()),
            _ => None,
        });
        assert_eq!(kept, Some(usize::from(after >= 6)), "after {after}");
    }
    // Sent frames may be lost with the connection, so only their upper bound is sharp.
    for ((units, printed, sent), expected) in outcomes.iter().zip([
        (0, 0, 0),
        (1, 1, 0),
        (2, 1, 1),
        (3, 1, 2),
        (4, 1, 3),
        (5, 2, 3),
        (6, 2, 3),
        (6, 2, 3),
    ]) {
        assert_eq!((*units, *printed), (expected.0, expected.1));
        assert!(*sent <= expected.2, "{outcomes:?}");
    }
    assert!(outcomes.iter().any(|(_, _, sent)| *sent > 0), "{outcomes:?}");
    assert_eq!(outcomes[7].2, 3, "without a crash everything arrives");
}

#[test]
fn frames_sent_before_a_crash_arrive_before_the_link_goes_down() {
    let mut arrived = 0;
    for seed in 0..20 {
        let mut world = world(2, seed);
        tell(&mut world, 0, (0..5).map(|value| Do::SendOn(0, NodeId(1), value)).collect());
        said(&mut world, Span::micros(10));
        world.crash(NodeId(0), Loss::Drawn, None);
        let all = said(&mut world, Span::secs(5));
        let heard = heard(&all, 1);
        assert_eq!(heard, (0..heard.len() as u64).collect::<Vec<_>>());
        assert!(matches!(all.last(), Some((1, _, Said::Linked(NodeId(0), false)))), "{all:?}");
        arrived += heard.len();
    }
    assert!((20..90).contains(&arrived), "sometimes all, sometimes some: {arrived}");
}

#[test]
fn a_storm_crashes_everybody_and_everybody_comes_back() {
    let mut world = world(4, 3);
    world.load(&[synod_sim::Incident {
        id: 1,
        family: synod_sim::Family::NodeStorm,
        at: Span::millis(100),
        lasts: Span::millis(50),
        nodes: vec![],
        amount: 0,
    }]);
    said(&mut world, Span::secs(3));
    assert_eq!((world.stats().crashes, world.stats().starts), (4, 8));
    assert!((0..4).all(|id| world.status(NodeId(id)) == Status::Up && world.incarnation(NodeId(id)) == 2));
}

#[test]
fn a_slow_processor_spaces_its_events() {
    let options = Options { prices: Prices { turn: 1_000_000, ..Prices::FREE }, ..calm(3) };
    let mut world = World::new(setup(1, &[0], options));
    said(&mut world, Span::secs(1));
    let spacing = |world: &mut World| {
        for value in 0..5 {
            tell(world, 0, vec![Do::Output(value)]);
        }
        let all = said(world, Span::secs(1));
        all.windows(2).map(|two| two[1].1.since(two[0].1)).collect::<Vec<_>>()
    };
    assert_eq!(spacing(&mut world), [Span::millis(1); 4]);
    world.slow(NodeId(0), 700);
    assert_eq!(spacing(&mut world), [Span::millis(7); 4]);
}

#[test]
fn a_job_costs_virtual_time_by_the_price_list_inline_and_in_the_pool() {
    for pool in [0, 1, 2] {
        let prices = Prices { verify: 40_000_000, ..Prices::FREE };
        let mut world = World::new(setup(1, &[0], Options { prices, pool, ..calm(3) }));
        said(&mut world, Span::millis(50));
        let start = world.now();
        tell(&mut world, 0, vec![Do::Compute(1)]);
        let all = said(&mut world, Span::secs(1));
        assert_eq!(all, [(0, start + Span::millis(40), Said::Computed(2))], "pool {pool}");
    }
}

#[test]
fn clocks_drift_and_step_and_restart_elsewhere() {
    let mut world = world(1, 3);
    let clocks = |world: &mut World| {
        tell(world, 0, vec![Do::Draw]);
        let all = said(world, Span::ZERO);
        all.iter()
            .find_map(|(_, _, s)| if let Said::Clocked(at, wall) = s { Some((*at, *wall)) } else { None })
    };
    let (first, wall) = clocks(&mut world).expect("read");
    world.drift(NodeId(0), 100_000_000);
    world.step_wall(NodeId(0), -5_000);
    said(&mut world, Span::secs(10));
    let (second, later) = clocks(&mut world).expect("read");
    assert_eq!(second.since(first), Span::secs(11), "a tenth faster");
    assert_eq!(later.0, wall.0 + 10_000 - 5_000);
    tell(&mut world, 0, vec![Do::Arm(1, Span::secs(11))]);
    let start = world.now();
    let all = said(&mut world, Span::secs(20));
    let (_, fired, _) = all.iter().find(|(_, _, s)| matches!(s, Said::Fired(..))).expect("it fired");
    assert_eq!(fired.since(start), Span::secs(10), "a timer follows its own clock");
    world.crash(NodeId(0), Loss::Durable, Some(Span::millis(1)));
    said(&mut world, Span::millis(10));
    let (third, _) = clocks(&mut world).expect("read");
    let expected = second + Span::secs(22);
    assert!(third.0.abs_diff(expected.0) > Span::millis(100).0, "a new process has a new monotonic clock");
}

#[test]
fn an_armed_timer_follows_a_clock_that_changes_its_rate() {
    let mut world = world(1, 3);
    tell(&mut world, 0, vec![Do::Arm(1, Span::secs(10))]);
    said(&mut world, Span::ZERO);
    let start = world.now();
    world.drift(NodeId(0), -500_000_000);
    let all = said(&mut world, Span::secs(60));
    assert_eq!(all[0].1.since(start), Span::secs(20));
}

#[test]
fn connectors_feed_the_machines_beside_and_the_harness() {
    let base = setup(1, &[0, 1], calm(3));
    let connector = |_, machine: u8, output: Box<dyn core::any::Any + Send>| {
        let doubled = match (machine, output.downcast_ref::<Said>()) {
            (0, Some(Said::Printed(value))) => Some(vec![Do::Output(2 * value)]),
            _ => None,
        };
        match doubled {
            Some(input) => vec![Routed::Machine(1, Box::new(input)), Routed::Harness(output)],
            None => vec![Routed::Harness(output)],
        }
    };
    let mut world = World::new(Setup { connector: Box::new(connector), ..base });
    said(&mut world, Span::millis(50));
    tell(&mut world, 0, vec![Do::Output(21)]);
    let printed: Vec<Said> = said(&mut world, Span::millis(1)).into_iter().map(|(_, _, s)| s).collect();
    assert_eq!(printed, [Said::Printed(21), Said::Printed(42)]);
}

#[derive(Default)]
struct Script {
    refused: Vec<NodeId>,
    woken: Vec<u64>,
    started: Vec<(u32, u32)>,
    told: usize,
}

impl Harness for Script {
    fn told(&mut self, _: Told, desk: &mut Desk) {
        self.told += 1;
        if self.told == 1 {
            desk.wake(Span::millis(5), 7);
        }
    }
    fn refused(&mut self, refused: Refused, _: &mut Desk) {
        assert!(refused.input.is::<Vec<Do>>(), "the input comes back as it was");
        self.refused.push(refused.node);
    }
    fn wake(&mut self, token: u64, desk: &mut Desk) {
        self.woken.push(token);
        if token == 7 {
            desk.input(NodeId(0), 0, Span::millis(1), vec![Do::Output(1)]);
            desk.input(NodeId(1), 0, Span::millis(1), vec![Do::Output(1)]);
            desk.wake(Span::secs(1), 8);
        } else {
            desk.stop();
        }
    }
    fn started(&mut self, node: NodeId, incarnation: u32, _: &mut Desk) {
        self.started.push((node.0, incarnation));
    }
}

#[test]
fn a_harness_is_told_refused_woken_and_can_stop() {
    let mut world = World::new(setup(2, &[0], calm(3)));
    let mut script = Script::default();
    world.run(Time(Span::micros(2_500).0), &mut script).expect("nothing goes wrong");
    world.crash(NodeId(1), Loss::Durable, None);
    world.run(Time(Span::secs(100).0), &mut script).expect("nothing goes wrong");
    assert_eq!((script.refused, script.woken), (vec![NodeId(1)], vec![7, 8]));
    script.started.sort_unstable();
    assert_eq!(script.started, [(0, 1), (1, 1)]);
    assert!(world.now() < Time(Span::secs(2).0), "the run ended at the stop");
}

#[test]
fn real_keys_are_the_keys_of_the_ring() {
    let mut world = World::new(setup(1, &[0], Options { crypto: Crypto::Real, ..calm(3) }));
    assert_ne!(world.keyring().public(0), world.keyring().public(1));
    said(&mut world, Span::millis(50));
    tell(&mut world, 0, vec![Do::Compute(1)]);
    assert!(said(&mut world, Span::secs(1)).iter().any(|(_, _, s)| *s == Said::Computed(2)));
    assert!(world.trace().last().any(|line| matches!(line.seen, Seen::Done)));
}

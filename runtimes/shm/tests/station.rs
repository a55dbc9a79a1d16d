//! Machines of several nodes at one poller and at two: what they say arrives as their queues promise.

mod echo;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use echo::{Heard, Play, Told, hosted, player};
use synod_machine::{Link, Time};
use synod_quorum::NodeId;
use synod_shm::{
    Builder, Doorbell, Hosting, Monotonic, Observer, Polled, Poller, Rest, Running, Station, introduce,
    poller,
};

const GUARD: Duration = Duration::from_secs(20);

fn told(heard: &Heard) -> Vec<Told> {
    heard.lock().expect("no panic").clone()
}

fn came(heard: &Heard) -> Vec<u64> {
    let number = |told: &Told| if let Told::Came(number) = told { Some(*number) } else { None };
    heard.lock().expect("no panic").iter().filter_map(number).collect()
}

/// Two players at one poller.
fn pair() -> (Poller<Station, Monotonic>, [Heard; 2]) {
    let bell = Doorbell::new().expect("a bell");
    let (mut one, _, first) = player(0, bell.ropes());
    let (mut other, _, second) = player(1, bell.ropes());
    introduce(&mut one, &mut other, None).expect("alike");
    (poller(vec![one, other], Rest::Yield, bell), [first, second])
}

fn until(poller: &mut Poller<Station, Monotonic>, what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < GUARD, "{what}");
        poller.pass().expect("it polls");
    }
}

#[test]
fn two_nodes_at_one_poller_play_a_rally_in_order() {
    const BALLS: u64 = 10_000;
    let (mut poller, [first, second]) = pair();
    until(&mut poller, "links", || told(&first).len() == 1 && told(&second).len() == 1);
    assert_eq!(told(&first), [Told::Linked(NodeId(1), Link::Up)]);
    assert!(poller.items()[0].input(0, Play::Rally { peer: NodeId(1), balls: BALLS }));
    until(&mut poller, "the rally", || told(&first).contains(&Told::Back(BALLS)));
    assert_eq!(told(&first)[1..], (1..=BALLS).map(Told::Back).collect::<Vec<_>>());
    assert_eq!((poller.items()[0].lost(), poller.items()[1].lost()), (0, 0));
}

#[test]
fn two_nodes_at_two_pollers_wake_each_other_for_every_ball() {
    const BALLS: u64 = 3_000;
    let bells = [Doorbell::new().expect("a bell"), Doorbell::new().expect("a bell")];
    let (mut one, handle, first) = player(0, bells[0].ropes());
    let (mut other, _, _) = player(1, bells[1].ropes());
    introduce(&mut one, &mut other, Some((bells[0].ropes(), bells[1].ropes()))).expect("alike");
    let [bell, other_bell] = bells;
    let one = Running::start(poller(vec![one], Rest::Yield, bell), None).expect("a thread");
    let other = Running::start(poller(vec![other], Rest::Yield, other_bell), None).expect("a thread");
    let begun = Instant::now();
    let wait = |what: &str, done: &dyn Fn() -> bool| {
        while !done() {
            assert!(begun.elapsed() < GUARD, "{what}");
            std::thread::yield_now();
        }
    };
    wait("room", &|| handle.room(0) > 0);
    wait("a link", &|| told(&first).contains(&Told::Linked(NodeId(1), Link::Up)));
    assert!(handle.input(0, Play::Rally { peer: NodeId(1), balls: BALLS }).is_ok());
    wait("the rally", &|| told(&first).contains(&Told::Back(BALLS)));
    one.stop().expect("it ends");
    other.stop().expect("it ends");
}

/// Polls one station alone, as long as it works.
fn tick(poller: &mut Poller<Station, Monotonic>, at: usize, times: usize) {
    for _ in 0..times {
        poller.items()[at].tick(Time(1));
    }
}

fn volley(poller: &mut Poller<Station, Monotonic>, balls: u64, queue: u8, bytes: usize) {
    assert!(poller.items()[0].input(0, Play::Volley { peer: NodeId(1), balls: 0..balls, queue, bytes }));
}

#[test]
fn of_a_ring_that_is_not_read_the_last_messages_arrive_in_order_sixteen_a_tick() {
    let (mut poller, [first, second]) = pair();
    until(&mut poller, "links", || told(&first).len() == 1 && told(&second).len() == 1);
    volley(&mut poller, 100, 0, 8);
    tick(&mut poller, 0, 2);
    tick(&mut poller, 1, 1);
    assert_eq!(came(&second), (76..92).collect::<Vec<_>>());
    tick(&mut poller, 1, 1);
    assert_eq!(came(&second), (76..100).collect::<Vec<_>>());
    assert_eq!(poller.items()[1].lost(), 76);
}

#[test]
fn a_queue_that_drops_what_is_newest_keeps_the_oldest_and_its_link() {
    let (mut poller, [first, second]) = pair();
    until(&mut poller, "links", || told(&first).len() == 1 && told(&second).len() == 1);
    volley(&mut poller, 100, 1, 60_000);
    tick(&mut poller, 0, 2);
    until(&mut poller, "what was kept", || came(&second).len() > 4);
    let begun = Instant::now();
    while poller.items()[0].backlog() > 0 {
        assert!(begun.elapsed() < GUARD);
        poller.pass().expect("it polls");
    }
    for _ in 0..100 {
        poller.pass().expect("it polls");
    }
    let kept = came(&second);
    assert_eq!(kept, (0..kept.len() as u64).collect::<Vec<_>>(), "a prefix");
    assert!(kept.len() < 12, "what the pipe and four of backlog hold: {}", kept.len());
    assert_eq!(told(&first).len(), 1, "the link stands");
}

#[test]
fn a_queue_that_must_not_lose_breaks_its_link_when_it_is_full_and_both_go_on() {
    let (mut poller, [first, second]) = pair();
    until(&mut poller, "links", || told(&first).len() == 1 && told(&second).len() == 1);
    volley(&mut poller, 100, 2, 60_000);
    tick(&mut poller, 0, 1);
    let down_and_up = |heard: &Heard, peer| {
        told(heard).iter().filter(|told| **told == Told::Linked(NodeId(peer), Link::Up)).count() == 2
    };
    until(&mut poller, "it comes again", || down_and_up(&first, 1) && down_and_up(&second, 0));
    volley(&mut poller, 3, 2, 1_000);
    until(&mut poller, "the new link carries", || came(&second).ends_with(&[0, 1, 2]));
    let all = came(&second);
    let kept = all.len() - 3;
    assert_eq!(all[..kept], (0..kept as u64).collect::<Vec<_>>(), "a suffix is lost");
}

#[test]
fn a_frame_longer_than_a_pipe_arrives_whole_in_pieces() {
    let (mut poller, [first, second]) = pair();
    until(&mut poller, "links", || told(&first).len() == 1 && told(&second).len() == 1);
    volley(&mut poller, 7, 2, 65_536);
    until(&mut poller, "all of them", || came(&second).len() == 7);
    assert_eq!(came(&second), (0..7).collect::<Vec<_>>());
}

/// Counts what is sent.
#[derive(Default)]
struct Sent(AtomicU32);

impl Observer for Sent {
    fn sent(&self, _: u8, peers: u32) {
        self.0.fetch_add(peers, Ordering::Relaxed);
    }
}

#[test]
fn an_observer_hears_of_each_message_once_for_each_peer_whose_link_takes_it() {
    let (bell, sent) = (Doorbell::new().expect("a bell"), Arc::new(Sent::default()));
    let builder = Builder::new(NodeId(0)).machine(Hosting::new(0, hosted(0))).observer(sent.clone());
    let (mut one, _) = builder.build(bell.ropes()).expect("a sound plan");
    let (mut other, _, second) = player(1, bell.ropes());
    introduce(&mut one, &mut other, None).expect("alike");
    let mut poller = poller(vec![one, other], Rest::Yield, bell);
    until(&mut poller, "a link", || !told(&second).is_empty());
    let nobody = Play::Volley { peer: NodeId(2), balls: 0..5, queue: 0, bytes: 8 };
    assert!(poller.items()[0].input(0, nobody));
    tick(&mut poller, 0, 2);
    assert_eq!(sent.0.load(Ordering::Relaxed), 0, "there is no such peer");
    for (queue, sum) in [(0, 5), (1, 10), (2, 15)] {
        volley(&mut poller, 5, queue, 8);
        until(&mut poller, "the volley", || came(&second).len() == sum);
        assert_eq!(sent.0.load(Ordering::Relaxed), u32::try_from(sum).expect("few"));
    }
}

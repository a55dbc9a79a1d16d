//! The ten items of the runtime contract, on this runtime.

use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use synod_crypto::Hash;
use synod_machine::host::Lsn;
use synod_machine::{Keep, Link, Queue, Rng, Span};
use synod_net::{Brake, Busy, Hosting, Lane, LaneWriter, NodeBuilder, Reports};
use synod_quorum::{NodeId, NodeSet};
use synod_wire::Bytes;

use crate::rig::{Act, GUARD, Plan, Rig, Script, Told, cluster, config, probe};

fn to(node: u32) -> NodeSet {
    NodeSet::only(NodeId(node))
}

/// A lane that becomes durable when the test says so.
struct Slow {
    issued: Lsn,
    written: Sender<Lsn>,
}

/// The test's side of a [`Slow`] lane.
struct Disk {
    reports: Receiver<Arc<Reports>>,
    written: Receiver<Lsn>,
}

fn slow() -> (Lane, Disk) {
    let (tell, reports) = channel();
    let (write, written) = channel();
    let lane: Lane = Box::new(move |reports| {
        tell.send(reports).expect("the test listens");
        Box::new(Slow { issued: 0, written: write })
    });
    (lane, Disk { reports, written })
}

impl Disk {
    fn reports(&self) -> Arc<Reports> {
        self.reports.recv_timeout(GUARD).expect("the lane is made")
    }

    fn written(&self) -> Lsn {
        self.written.recv_timeout(GUARD).expect("a record is written")
    }
}

impl LaneWriter for Slow {
    fn append(&mut self, _: Keep, _: Bytes) -> Lsn {
        self.issued += 1;
        let _ = self.written.send(self.issued);
        self.issued
    }
    fn store(&mut self, _: Hash, bytes: Bytes) -> Lsn {
        self.append(Keep::Log, bytes)
    }
    fn erase(&mut self, _: Hash) {}
    fn load(&mut self, _: Hash) {}
    fn compact(&mut self, _: Vec<(Keep, Bytes)>) {}
    fn flush(&mut self) {}
}

fn alone(script: Script) -> Rig {
    Plan::new(config(0, 1)).script(script).start()
}

#[test]
fn item_1_one_event_at_a_time_and_peer_order_is_kept() {
    // The probe asserts that it is never entered twice; two peers and the local user drive it at once.
    let rigs = cluster(3, |own| Plan::new(config(own, 3)));
    for tag in 0..500 {
        rigs[1].act(vec![Act::Send { to: to(0), queue: 0, tag, size: 3 }]);
        rigs[2].act(vec![Act::Send { to: to(0), queue: 0, tag, size: 3 }]);
        rigs[0].act(vec![Act::Say(tag)]);
    }
    let mut next = [0_u64; 3];
    while next != [500; 3] {
        let (who, tag) = match rigs[0].next() {
            Told::Heard { from, tag, .. } => (usize::try_from(from.0).expect("small"), tag),
            Told::Said(tag) => (0, tag),
            _ => continue,
        };
        assert_eq!(tag, next[who]);
        next[who] += 1;
    }
}

#[test]
fn item_2_a_send_or_output_behind_a_record_waits_for_it_and_nothing_else_does() {
    let (lane, disk) = slow();
    let lane = Mutex::new(Some(lane));
    let rigs = cluster(2, |own| {
        let plan = Plan::new(config(own, 2));
        match lane.lock().expect("no panics").take().filter(|_| own == 0) {
            Some(lane) => plan.lane(lane),
            None => plan,
        }
    });
    let reports = disk.reports();
    rigs[0].act(vec![
        Act::Say(1),
        Act::Send { to: to(1), queue: 0, tag: 10, size: 0 },
        Act::Persist(1),
        Act::Say(2),
        Act::Send { to: to(1), queue: 0, tag: 11, size: 0 },
        Act::Compute(5, None),
        Act::Arm(6, Span::ZERO),
        Act::Persist(2),
        Act::Say(3),
        Act::Send { to: to(1), queue: 0, tag: 12, size: 0 },
    ]);
    assert_eq!((disk.written(), disk.written()), (1, 2));
    assert_eq!(rigs[0].next(), Told::Said(1));
    assert_eq!(rigs[1].hear(1), [10]);
    // The machine goes on meanwhile, and what it says then waits behind the records too.
    rigs[0].act(vec![Act::Say(4), Act::Send { to: to(1), queue: 0, tag: 13, size: 0 }]);
    reports.durable(1);
    assert_eq!(rigs[0].next(), Told::Said(2));
    assert_eq!(rigs[1].hear(1), [11]);
    assert!(rigs[0].quiet(), "what waits for the second record is held");
    reports.durable(2);
    // The answer and the timer came while outputs were held: job and timer were not held, their outputs were.
    let told: Vec<Told> = (0..4).map(|_| rigs[0].next()).collect();
    assert_eq!(told[0], Told::Said(3));
    for wanted in [Told::Done { number: 5, batch: 1 }, Told::Fired(6), Told::Said(4)] {
        assert!(told.contains(&wanted), "{told:?}");
    }
    assert_eq!(rigs[1].hear(2), [12, 13]);
}

#[test]
fn item_2_a_failed_write_halts_the_node_and_nothing_held_leaves() {
    let (lane, disk) = slow();
    let (fatal, ended) = channel();
    let mut plan = Plan::new(config(0, 1)).lane(lane);
    plan.fatal = Some(fatal);
    let rig = plan.start();
    let reports = disk.reports();
    rig.act(vec![Act::Say(1), Act::Persist(1), Act::Say(2)]);
    assert_eq!(rig.next(), Told::Started);
    assert_eq!(rig.next(), Told::Said(1));
    reports.failed("no space left");
    reports.failed("again");
    assert_eq!(ended.recv_timeout(GUARD), Ok(5_004));
    rig.node.wait().expect("the reactor ended by itself");
    reports.durable(1);
    assert!(rig.told.try_recv().is_err(), "what was held never left");
    assert!(ended.try_recv().is_err(), "the process ends once");
}

#[test]
fn a_node_whose_brake_is_pulled_sends_nothing_of_that_turn_and_ends() {
    let brake = Brake::default();
    let mut plan = Plan::new(config(0, 2));
    plan.machines.push((1, Script::default(), 1, None));
    let stopped = plan.start_with(|builder| builder.brake(brake.clone()));
    let mut plan = Plan::new(config(1, 2));
    plan.machines.push((1, Script::default(), 0, None));
    let peer = plan.start();
    stopped.dial(&peer);
    stopped.wait_link(1, Link::Up);
    stopped.act(vec![Act::Send { to: to(1), queue: 0, tag: 1, size: 0 }]);
    assert_eq!(peer.hear(1), [1]);

    let send = |tag| Act::Send { to: to(1), queue: 0, tag, size: 0 };
    stopped.act(vec![send(2), Act::Pull(brake.clone()), send(3)]);
    stopped.node.wait().expect("both reactors end by themselves");
    assert!(brake.is_pulled() && !brake.pull(), "it was pulled once");
    loop {
        match peer.next() {
            Told::Link(NodeId(0), Link::Down) => break,
            Told::Heard { tag, .. } => panic!("frame {tag} left after the brake"),
            _ => {}
        }
    }
}

#[test]
fn item_3_many_turns_share_one_sync_of_the_journal() {
    let config_of = synod_journal::Config::new([1; 32], 0, 1);
    let disk = synod_journal::memory::MemDisk::new();
    synod_journal::Journal::create(Box::new(disk.clone()), &config_of).expect("an empty disk");
    let opened = synod_journal::Journal::open(Box::new(disk), config_of).expect("a fresh journal");
    let (tell, syncs) = channel();
    let (release, released) = channel::<()>();
    let synced = Box::new(move |durable: &synod_journal::thread::Durable| {
        let _ = tell.send(durable.records);
        // The first sync is over when the test says so, every later one at once.
        let _ = released.recv();
    });
    let (keeper, mut lanes) = synod_net::keep(opened.journal, 1 << 30, synced).expect("a thread");
    let rig = Plan::new(config(0, 1)).lane(lanes.remove(0)).start();
    let blob = Bytes::from_static(b"a block's body");
    for n in 0..500 {
        rig.act(vec![Act::Persist(n), Act::Say(n)]);
    }
    let (knock, door) = channel();
    rig.act(vec![Act::Knock(knock)]);
    door.recv_timeout(GUARD).expect("500 turns are over while the disk syncs the first");
    drop(release);
    rig.act(vec![Act::Store(blob.clone()), Act::Say(500), Act::Load(Hash::of(&blob))]);
    for n in 0..=500 {
        rig.wait_for(&Told::Said(n));
    }
    rig.wait_for(&Told::Loaded(Hash::of(&blob), Some(blob)));
    rig.act(vec![Act::Load(Hash::of(b"never stored"))]);
    rig.wait_for(&Told::Loaded(Hash::of(b"never stored"), None));
    rig.node.stop().expect("no thread panicked");
    keeper.close().expect("a memory disk does not fail");
    let syncs: Vec<u64> = syncs.try_iter().collect();
    assert_eq!(syncs.iter().sum::<u64>(), 501);
    assert!(syncs.len() <= 4, "{} syncs for 501 records", syncs.len());
}

#[test]
fn item_4_from_is_the_identity_of_the_link() {
    let rigs = cluster(3, |own| Plan::new(config(own, 3)));
    for own in [1, 2] {
        let rig = &rigs[own];
        rig.act(vec![Act::Send { to: to(0), queue: 0, tag: own as u64, size: 0 }]);
    }
    let mut heard = BTreeSet::new();
    while heard.len() < 2 {
        if let Told::Heard { from, tag, .. } = rigs[0].next() {
            heard.insert((from.0, tag));
        }
    }
    assert_eq!(heard, BTreeSet::from([(1, 1), (2, 2)]));
}

#[test]
fn item_5_timers_fire_once_at_or_after_their_time_in_order() {
    let rig = alone(Script::default());
    rig.act(vec![
        Act::Arm(30, Span::millis(30)),
        Act::Arm(9, Span::millis(10)),
        Act::Arm(8, Span::millis(10)),
        Act::Arm(50, Span::millis(1)),
        Act::Disarm(50),
        Act::Arm(20, Span::millis(1)),
        Act::Arm(20, Span::millis(20)),
    ]);
    assert_eq!(rig.next(), Told::Started);
    let fired: Vec<Told> = (0..4).map(|_| rig.next()).collect();
    assert_eq!(fired, [8, 9, 20, 30].map(Told::Fired), "in (time, name) order, a moved one at its new time");
    rig.act(vec![Act::Arm(1, Span::millis(60))]);
    assert_eq!(rig.next(), Told::Fired(1), "and nothing fired twice meanwhile");
}

#[test]
fn item_6_every_job_answers_once_whatever_the_pool() {
    for threads in [0, 1, 3] {
        let mut plan = Plan::new(config(0, 1));
        plan.threads = threads;
        let rig = plan.start();
        let jobs = 2_000_u32;
        rig.act((0..jobs).map(|n| Act::Compute(u64::from(n), Some(NodeId(n % 7)))).collect());
        assert_eq!(rig.next(), Told::Started);
        let mut done = BTreeSet::new();
        let mut largest = 0;
        for _ in 0..jobs {
            let Told::Done { number, batch } = rig.next() else { unreachable!("only answers follow") };
            assert!(done.insert(number), "job {number} answered twice");
            largest = largest.max(batch);
        }
        assert_eq!(done.len(), 2_000);
        assert_eq!(largest, 256, "jobs run in batches of at most 256, with {threads} threads");
        assert_eq!(rig.handle().counters().jobs.get(), 2_000);
    }
}

#[test]
fn item_7_a_message_to_oneself_is_a_later_event() {
    let rigs = cluster(2, |own| Plan::new(config(own, 2)));
    let all = NodeSet::first(2);
    rigs[0].act(vec![Act::Send { to: all, queue: 0, tag: 4, size: 2 }, Act::Say(1)]);
    assert_eq!(rigs[0].next(), Told::Said(1), "the turn ended first");
    assert_eq!(rigs[0].next(), Told::Heard { from: NodeId(0), tag: 4, size: 2 });
    assert_eq!(rigs[1].hear(1), [4]);
}

// Item 8, undecodable frames, is `links::undecodable_frames_are_blamed_and_the_third_closes_the_link`.

#[test]
fn item_9_the_random_stream_is_that_of_seed_node_and_machine() {
    let rig = alone(Script::default());
    rig.act(vec![Act::Draw, Act::Draw]);
    assert_eq!(rig.next(), Told::Started);
    let mut stream = Rng::new(42, NodeId(0), 0);
    assert_eq!(rig.next(), Told::Drew(stream.draw()));
    assert_eq!(rig.next(), Told::Drew(stream.draw()));
}

#[test]
fn item_10_start_is_the_first_event() {
    for _ in 0..20 {
        let rig = alone(Script::default());
        rig.act(vec![Act::Say(1)]);
        assert_eq!(rig.next(), Told::Started);
        assert_eq!(rig.next(), Told::Said(1));
    }
}

#[test]
fn inputs_beyond_a_machines_room_are_answered_busy() {
    let rig = alone(Script { room: 0, ..Script::default() });
    assert!(matches!(rig.handle().input(0, vec![Act::Say(1)]), Err(Busy(acts)) if acts.len() == 1));
    assert_eq!(rig.handle().room(0), 0);
    assert!(rig.handle().input(9, vec![Act::Say(1)]).is_err(), "no such machine");
    let rig = alone(Script { room: 5, ..Script::default() });
    rig.act(vec![Act::Say(1)]);
    rig.wait_for(&Told::Said(1));
}

#[test]
fn a_machine_that_waits_for_its_journal_takes_no_frames_and_others_are_served() {
    let (lane, disk) = slow();
    let lane = Mutex::new(Some(lane));
    let rigs = cluster(2, |own| {
        let mut plan = Plan::new(config(own, 2));
        if own == 0 {
            plan = plan.lane(lane.lock().expect("no panics").take().expect("one node 0"));
        }
        plan.machines.push((1, Script::default(), 0, None));
        plan
    });
    let reports = disk.reports();
    // More than the gate holds: the machine pauses.
    let mut acts = vec![Act::Persist(1)];
    acts.extend((0..4_100).map(Act::Say));
    rigs[0].act(acts);
    assert_eq!(disk.written(), 1);
    rigs[1].act((0..10).map(|tag| Act::Send { to: to(0), queue: 0, tag, size: 0 }).collect());
    rigs[1].act_at(1, vec![Act::Send { to: to(0), queue: 0, tag: 100, size: 0 }]);
    // Machine 1 is served past machine 0, whose frames came first.
    assert_eq!(rigs[0].hear(1), [100]);
    reports.durable(1);
    for n in 0..4_100 {
        assert_eq!(rigs[0].next(), Told::Said(n));
    }
    assert_eq!(rigs[0].hear(10), (0..10).collect::<Vec<u64>>(), "its frames waited");
}

#[test]
fn a_machine_on_another_reactor_hears_speaks_and_is_fed_by_the_first() {
    let rigs = cluster(2, |own| {
        let mut plan = Plan::new(config(own, 2));
        plan.threads = 1;
        let echo = (own == 1).then_some(1_000_000);
        plan.machines.push((1, Script { echo, ..Script::default() }, 1, None));
        plan
    });
    let count = 5_000_u64;
    for start in (0..count).step_by(500) {
        let send = |tag| Act::Send { to: to(1), queue: 1, tag, size: 300 };
        rigs[0].act_at(1, (start..start + 500).map(send).collect());
    }
    let mut echoes = Vec::new();
    while echoes.len() < 5_000 {
        if let (1, Told::Heard { tag, .. }) = rigs[0].told.recv_timeout(GUARD).expect("in time") {
            echoes.push(tag);
        }
    }
    assert_eq!(echoes, (1_000_000..1_000_000 + count).collect::<Vec<u64>>());
    // Outputs of machine 0 become inputs of machine 1, in order and all of them.
    rigs[0].act((0..count).map(Act::Pass).collect());
    let mut passed = Vec::new();
    while passed.len() < 5_000 {
        if let (1, Told::Said(n)) = rigs[0].told.recv_timeout(GUARD).expect("in time") {
            passed.push(n);
        }
    }
    assert_eq!(passed, (0..count).collect::<Vec<u64>>());
}

#[test]
fn links_are_told_to_machines_of_every_reactor() {
    let rigs = cluster(2, |own| {
        let mut plan = Plan::new(config(own, 2));
        plan.machines.push((1, Script::default(), 1, None));
        plan
    });
    let mut told = BTreeSet::new();
    let [a, b] = <[Rig; 2]>::try_from(rigs).ok().expect("two");
    b.node.stop().expect("no thread panicked");
    while told.len() < 2 {
        if let (machine, Told::Link(NodeId(1), Link::Down)) = a.told.recv_timeout(GUARD).expect("in time") {
            told.insert(machine);
        }
    }
}

/// Roles of one vocabulary: what machine 7 says on queue 0 is for machine 0 of its peer, on queue 1 for machine 1, and
/// what those say on queue 2 is for machine 7.
#[test]
fn a_queue_leads_to_the_role_that_the_plan_names() {
    let hosting = |own, number| Hosting::new(number, probe(NodeId(own), number, Script::default()));
    let start = |own, hostings: Vec<Hosting>| {
        let mut plan = Plan::new(config(own, 2));
        plan.machines.clear();
        plan.start_with(|builder| hostings.into_iter().fold(builder.plan(&[0, 1, 7]), NodeBuilder::machine))
    };
    let two = start(0, vec![hosting(0, 0).route(7, [Queue::BULK]), hosting(0, 1).route(7, [Queue::BULK])]);
    let one = start(1, vec![hosting(1, 7).route(0, [Queue::CONTROL]).route(1, [Queue::PROPOSAL])]);
    one.dial(&two);
    one.wait_link(0, Link::Up);
    two.wait_link(1, Link::Up);
    let send = |peer, queue, tag| Act::Send { to: to(peer), queue, tag, size: 0 };
    one.act_at(7, vec![send(0, 0, 40), send(0, 1, 41)]);
    two.act_at(0, vec![send(1, 2, 50)]);
    two.act_at(1, vec![send(1, 2, 51)]);
    let heard = |rig: &Rig| {
        let mut heard: Vec<(u8, u64)> = Vec::new();
        while heard.len() < 2 {
            if let (machine, Told::Heard { tag, .. }) = rig.told.recv_timeout(GUARD).expect("it is told") {
                heard.push((machine, tag));
            }
        }
        heard.sort_unstable();
        heard
    };
    assert_eq!(heard(&two), [(0, 40), (1, 41)]);
    assert_eq!(heard(&one), [(7, 50), (7, 51)]);
    // Machine 0 is only spoken to from there: nobody may speak to it.
    two.act_at(0, vec![send(1, 0, 52)]);
    assert_eq!(one.failure().code, 4_003);
}

//! Links between nodes: order, loss, reconnection, bounded queues, quotas.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use synod_machine::{Full, Link, QueueSpec, Span};
use synod_net::{Address, Config, Hosting, Limits, Listener, Transport};
use synod_quorum::{NodeId, NodeSet};

use crate::rig::{
    Act, GUARD, Plan, Script, Seen, Stalled, Told, cluster, config, probe, queue, roster, secret,
};

fn to(node: u32) -> NodeSet {
    NodeSet::only(NodeId(node))
}

#[test]
fn two_members_link_up_over_tls_and_echo() {
    let rigs = cluster(2, |own| {
        let echo = (own == 1).then_some(1_000);
        Plan::new(config(own, 2)).script(Script { echo, ..Script::default() })
    });
    rigs[0].act((0..100).map(|tag| Act::Send { to: to(1), queue: 0, tag, size: 10 }).collect());
    assert_eq!(rigs[1].hear(100), (0..100).collect::<Vec<u64>>());
    assert_eq!(rigs[0].hear(100), (1_000..1_100).collect::<Vec<u64>>());
    let counters = rigs[0].handle().counters();
    assert_eq!(counters.peer(NodeId(1)).sent_frames[0].get(), 100);
    assert_eq!(counters.peer(NodeId(1)).received_frames[0].get(), 100);
    assert_eq!(counters.peer(NodeId(1)).reconnects.get(), 0);
}

#[test]
fn one_turn_of_one_peer_is_one_vectored_write() {
    let rigs = cluster(2, |own| Plan::new(config(own, 2)));
    let row = || rigs[0].handle().counters().peer(NodeId(1)).writes.get();
    let before = row();
    rigs[0].act((0..1_000).map(|tag| Act::Send { to: to(1), queue: 0, tag, size: 20 }).collect());
    rigs[1].hear(1_000);
    // A heartbeat or a full socket may add a write; a write per frame cannot hide.
    assert!(row() - before <= 10, "{} writes for 1,000 frames", row() - before);
}

#[test]
fn every_queue_keeps_its_order_under_load_and_large_frames_arrive_whole() {
    for transport in [Transport::Tls, Transport::InsecurePlain] {
        let rigs = cluster(3, |own| Plan::new(synod_net::Config { transport, ..config(own, 3) }));
        let sizes = [10, 5_000, 200_000];
        for round in 0..20_u64 {
            let acts = (0..30_u64).map(|n| {
                let queue = u8::try_from(n % 3).expect("below 3");
                let size = sizes[usize::from(queue)];
                Act::Send { to: to(0), queue, tag: u64::from(queue) << 32 | (round * 10 + n / 3), size }
            });
            let acts: Vec<Act> =
                acts.filter(|act| !matches!(act, Act::Send { queue: 2, tag, .. } if tag % 10 > 2)).collect();
            rigs[1].act(acts.clone());
            rigs[2].act(acts);
        }
        let mut next: BTreeMap<(NodeId, u64), u64> = BTreeMap::new();
        let mut heard = 0;
        // Bulk may drop the newest when full; the other two queues lose nothing.
        while heard < 2 * 2 * 200 {
            let Told::Heard { from, tag, size } = rigs[0].next() else { continue };
            let (queue, number) = (tag >> 32, tag & 0xffff_ffff);
            assert_eq!(size, sizes[usize::try_from(queue).expect("small")]);
            let expected = next.entry((from, queue)).or_default();
            if queue < 2 {
                assert_eq!(number, *expected, "{from} on queue {queue} over {transport:?}");
                heard += 1;
            } else {
                assert!(number >= *expected);
            }
            *expected = number + 1;
        }
    }
}

/// Passes bytes between a dialler and a node, until it is cut.
struct Proxy {
    address: Address,
    cut: std::sync::mpsc::Sender<()>,
}

impl Proxy {
    fn before(target: &Address) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let address = listener.local_addr().expect("bound").into();
        let Address::Tcp(target) = target.clone() else { unreachable!("rigs listen on TCP") };
        let (cut, cuts) = std::sync::mpsc::channel();
        let open = std::sync::Arc::new(std::sync::Mutex::new(Vec::<TcpStream>::new()));
        let closing = open.clone();
        thread::spawn(move || {
            while cuts.recv().is_ok() {
                for stream in closing.lock().expect("no panics").drain(..) {
                    let _ = stream.shutdown(std::net::Shutdown::Both);
                }
            }
        });
        thread::spawn(move || {
            for inward in listener.incoming().map_while(Result::ok) {
                let Ok(outward) = TcpStream::connect(&target) else { continue };
                for (mut from, mut into) in
                    [(clone(&inward), clone(&outward)), (clone(&outward), clone(&inward))]
                {
                    thread::spawn(move || {
                        let mut buffer = vec![0; 64 << 10];
                        while let Ok(count @ 1..) = from.read(&mut buffer) {
                            if into.write_all(&buffer[..count]).is_err() {
                                break;
                            }
                        }
                        let _ = into.shutdown(std::net::Shutdown::Both);
                    });
                }
                open.lock().expect("no panics").extend([inward, outward]);
            }
        });
        Self { address, cut }
    }

    fn cut(&self) {
        self.cut.send(()).expect("the proxy runs");
    }
}

fn clone(stream: &TcpStream) -> TcpStream {
    stream.try_clone().expect("a descriptor is left")
}

#[test]
fn a_broken_link_loses_only_a_suffix_and_comes_back() {
    let a = Plan::new(config(0, 2)).start();
    let b = Plan::new(config(1, 2)).start();
    let proxy = Proxy::before(b.peers_at.as_ref().expect("b listens"));
    a.handle().set_address(NodeId(1), Some(proxy.address.clone()));
    a.wait_link(1, Link::Up);
    b.wait_link(0, Link::Up);
    for round in 0..3_u64 {
        let first = round * 1_000_000;
        for start in (0..2_000).step_by(100) {
            let send = |tag| Act::Send { to: to(1), queue: 0, tag: first + tag, size: 1_000 };
            a.act((start..start + 100).map(send).collect());
            if start == 1_000 {
                proxy.cut();
            }
        }
        // What b heard of this round is a prefix: no hole before the link went down.
        let mut expected = first;
        loop {
            match b.next() {
                Told::Heard { tag, .. } => {
                    assert_eq!(tag, expected, "a link loses a suffix, nothing in between");
                    expected += 1;
                }
                Told::Link(NodeId(0), Link::Down) => break,
                _ => {}
            }
        }
        b.wait_link(0, Link::Up);
        a.wait_link(1, Link::Down);
        a.wait_link(1, Link::Up);
        a.act(vec![Act::Send { to: to(1), queue: 0, tag: u64::MAX, size: 0 }]);
        while b.hear(1) != [u64::MAX] {}
    }
    assert_eq!(a.handle().counters().peer(NodeId(1)).reconnects.get(), 3);
}

#[test]
fn a_peer_that_comes_back_has_no_more_frames_left_than_before() {
    let limits = Limits { member_frames_per_second: 20, ..Limits::default() };
    let a = Plan::new(config(0, 2)).start();
    let b = Plan::new(Config { limits, ..config(1, 2) }).start();
    let proxy = Proxy::before(b.peers_at.as_ref().expect("b listens"));
    let began = std::time::Instant::now();
    a.handle().set_address(NodeId(1), Some(proxy.address.clone()));
    a.wait_link(1, Link::Up);
    let send = |from: u64| {
        a.act((from..from + 20).map(|tag| Act::Send { to: to(1), queue: 0, tag, size: 0 }).collect());
    };
    send(0);
    assert_eq!(b.hear(20), (0..20).collect::<Vec<u64>>(), "a burst of one second");
    proxy.cut();
    b.wait_link(0, Link::Down);
    a.wait_link(1, Link::Down);
    a.wait_link(1, Link::Up);
    send(20);
    assert_eq!(b.hear(20), (20..40).collect::<Vec<u64>>());
    // 40 frames are one burst and what a second brings, whatever the links; the last take may run into debt.
    assert!(began.elapsed().as_millis() >= 950, "the second link began with a full allowance");
}

#[test]
fn simultaneous_dials_end_in_one_pair_of_lines() {
    for _ in 0..5 {
        let rigs = cluster(4, |own| Plan::new(config(own, 4)));
        for (own, rig) in (0..).zip(&rigs) {
            let others = NodeSet::first(4).without(NodeId(own));
            rig.act(vec![Act::Send { to: others, queue: 0, tag: u64::from(own), size: 1 }]);
        }
        for (own, rig) in (0_u64..).zip(&rigs) {
            let mut heard = rig.hear(3);
            heard.sort_unstable();
            assert_eq!(heard, (0..4).filter(|other| *other != own).collect::<Vec<u64>>());
        }
    }
}

#[test]
fn unix_sockets_link_members_too() {
    let folder = std::env::temp_dir().join(format!("synod-net-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    let path = folder.join("peer.sock");
    let listener = Listener::unix(&path).expect("a fresh path");
    let address = listener.address().expect("bound");
    let mut plan = Plan::new(config(1, 2));
    plan.listens = false;
    let b = plan.start_with(|builder| builder.listen(listener));
    let a = Plan::new(config(0, 2)).start();
    a.handle().set_address(NodeId(1), Some(address));
    a.wait_link(1, Link::Up);
    b.wait_link(0, Link::Up);
    a.act(vec![Act::Send { to: to(1), queue: 1, tag: 5, size: 100_000 }]);
    assert_eq!(b.hear(1), [5]);
    std::fs::remove_dir_all(folder).expect("the folder is ours");
}

#[test]
fn a_guest_comes_in_by_the_client_listener_and_is_known_by_its_key() {
    let node = Plan::new(config(0, 1)).start();
    let guest = Plan::new(config(777, 1)).start();
    guest.dial(&node);
    guest.wait_link(0, Link::Up);
    let id = loop {
        if let Told::Link(id, Link::Up) = node.next() {
            break id;
        }
    };
    assert!(!id.is_member());
    assert_eq!(node.handle().guest(id), Some(secret(777).public()));
    guest.act(vec![Act::Send { to: to(0), queue: 0, tag: 3, size: 4 }]);
    node.wait_for(&Told::Heard { from: id, tag: 3, size: 4 });
    node.act(vec![Act::Answer { to: id, tag: 9, size: 0 }]);
    guest.wait_for(&Told::Heard { from: NodeId(0), tag: 9, size: 0 });
    guest.node.stop().expect("no thread panicked");
    node.wait_for(&Told::Link(id, Link::Down));
    assert_eq!(node.handle().guest(id), None);
}

#[test]
fn a_guests_node_is_built_in_one_call() {
    let node = Plan::new(config(0, 1)).script(Script { echo: Some(1), ..Script::default() }).start();
    let guest = synod_net::Guest {
        seed: secret(5_000),
        cluster_name: "test".to_owned(),
        cluster: synod_crypto::Hash::of(b"test cluster"),
        roster: roster(1, 1),
        addresses: BTreeMap::from([(NodeId(0), node.guests_at.clone().expect("the node listens"))]),
        transport: Transport::Tls,
    };
    let (tell, told) = std::sync::mpsc::channel();
    let tell = std::sync::Mutex::new(tell);
    let started = guest
        .node(Hosting::new(0, probe(synod_net::Guest::OWN, 0, Script::default())))
        .connector(move |_: u8, output: Box<dyn std::any::Any + Send>, _: &mut synod_net::Deliveries<'_>| {
            let _ = tell.lock().expect("no panics").send(*output.downcast::<Told>().expect("a probe tells"));
        })
        .start()
        .expect("a sound plan");
    let next = || told.recv_timeout(GUARD).expect("in time");
    while next() != Told::Link(NodeId(0), Link::Up) {}
    started.handle().input(0, vec![Act::Send { to: to(0), queue: 0, tag: 1, size: 0 }]).expect("room");
    assert_eq!(next(), Told::Heard { from: NodeId(0), tag: 2, size: 0 });
}

#[test]
fn undecodable_frames_are_blamed_and_the_third_closes_the_link() {
    let good = Plan::new(config(0, 2)).start();
    let liar = Plan::new(config(1, 2)).start();
    good.dial(&liar);
    liar.wait_link(0, Link::Up);
    liar.act(vec![Act::Garble { to: to(0) }, Act::Garble { to: to(0) }]);
    liar.act(vec![Act::Send { to: to(0), queue: 0, tag: 77, size: 0 }]);
    assert_eq!(good.hear(1), [77], "two are forgiven and the frame behind them is heard");
    liar.act(vec![Act::Garble { to: to(0) }]);
    liar.wait_link(0, Link::Down);
    good.wait_link(1, Link::Down);
    let (mut blamed, mut closed) = (0, false);
    while blamed < 3 || !closed {
        match good.seen.recv_timeout(GUARD).expect("in time") {
            Seen::Blamed(peer, code) => {
                assert_eq!((peer, code), (NodeId(1), 4_001));
                blamed += 1;
            }
            Seen::Failed(failure) => closed |= failure.code == 4_001,
            Seen::Link(..) => {}
        }
    }
    assert_eq!(blamed, 3);
}

#[test]
fn a_misbehaving_peer_waits_out_its_penalty() {
    let limits = Limits { penalty: Span::secs(3_600), ..Limits::default() };
    let good = Plan::new(synod_net::Config { limits, ..config(0, 2) }).start();
    let liar = Plan::new(config(1, 2)).start();
    liar.dial(&good);
    liar.wait_link(0, Link::Up);
    liar.act((0..3).map(|_| Act::Garble { to: to(0) }).collect());
    liar.wait_link(0, Link::Down);
    assert_eq!(liar.failure().code, 2_001, "the redial is refused");
}

#[test]
fn a_full_queue_that_resets_closes_the_link_of_a_reader_that_stalls_and_no_other() {
    let specs = vec![queue(64, Full::Reset), QueueSpec::PROPOSAL, QueueSpec::BULK];
    let limits = Limits { silence: Span::secs(3_600), ..Limits::default() };
    let plan = |own| {
        Plan::new(synod_net::Config { limits, ..config(own, 3) })
            .script(Script { queues: specs.clone(), ..Script::default() })
    };
    let (a, b) = (plan(0).start(), plan(1).start());
    let stalled = Stalled::member(2, 3, &a, &specs);
    a.dial(&b);
    a.wait_link(1, Link::Up);
    a.wait_link(2, Link::Up);
    let both = to(1).with(NodeId(2));
    let mut sent = 0;
    let mut down = false;
    while !down {
        a.act(vec![Act::Send { to: both, queue: 0, tag: sent, size: 200_000 }]);
        assert_eq!(b.hear(1), [sent], "the reader that reads gets every frame");
        sent += 1;
        while let Ok((_, told)) = a.told.try_recv() {
            down |= told == Told::Link(NodeId(2), Link::Down);
            assert_ne!(told, Told::Link(NodeId(1), Link::Down));
        }
        assert!(sent < 2_000, "64 frames and the socket's buffers hold less");
    }
    assert!(a.handle().counters().peer(NodeId(2)).resets.get() == 1);
    drop(stalled);
}

#[test]
fn a_silent_peer_is_taken_down() {
    let limits = Limits { silence: Span::millis(600), heartbeat: Span::millis(100), ..Limits::default() };
    let a = Plan::new(synod_net::Config { limits, ..config(0, 2) }).start();
    let stalled = Stalled::member(1, 2, &a, &QueueSpec::standard());
    a.wait_link(1, Link::Up);
    a.wait_link(1, Link::Down);
    assert_eq!(a.handle().counters().peer(NodeId(1)).resets.get(), 1);
    drop(stalled);
}

#[test]
fn heartbeats_keep_an_idle_link_up_and_measure_it() {
    let limits = Limits { silence: Span::millis(1_500), heartbeat: Span::millis(100), ..Limits::default() };
    let rigs = cluster(2, |own| Plan::new(synod_net::Config { limits, ..config(own, 2) }));
    rigs[0].act(vec![Act::Arm(1, Span::secs(3))]);
    loop {
        match rigs[0].next() {
            Told::Fired(1) => break,
            told => assert!(!matches!(told, Told::Link(_, Link::Down)), "{told:?}"),
        }
    }
    assert!(rigs[0].handle().counters().peer(NodeId(1)).rtt_ns.get() > 0);
}

#[test]
fn a_guest_is_sent_frames_of_every_length_that_its_queue_allows() {
    let limits = Limits { guest_bytes_max: 100_000, ..Limits::default() };
    let script = || Script { queues: vec![queue(64, Full::Reset)], ..Script::default() };
    let node = Plan::new(Config { limits, ..config(0, 1) }).script(script()).start();
    let guest = Plan::new(config(300, 1)).script(script()).start();
    guest.dial(&node);
    let id = node.next_guest();
    for (tag, size) in [(1, 99_000), (2, 900_000), (3, 10)] {
        node.act(vec![Act::Answer { to: id, tag, size }]);
        assert_eq!(guest.hear(1), [tag], "{size} bytes");
    }
}

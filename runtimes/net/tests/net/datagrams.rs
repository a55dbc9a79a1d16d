//! Datagram links over loopback: sockets, machines, counters.

use std::net::{SocketAddr, UdpSocket};
use std::thread;

use synod_crypto::{HashKey, Signature};
use synod_machine::{Link, Queue, Span};
use synod_net::datagram::{
    BODY_MAX, DATAGRAM_MAX, Dropped, LINKED, LinkLimits, LinkPeer, LinkQueues, LinkSockets,
};
use synod_net::foreign::{Acceptance, Datagram, Opening, Ticket, seal};
use synod_net::{Error, Hosting, Node};
use synod_quorum::NodeId;

use crate::rig::{Act, GUARD, Plan, Rig, Script, Told, config, probe, secret};

/// Nothing is taken for silence on a machine that is busy, and loopback loses no word of a handshake.
fn limits() -> LinkLimits {
    LinkLimits { rto_min: Span::secs(10), buffer_bytes: 1 << 20, ..LinkLimits::default() }
}

/// A node that accepts links for its probe, which says back what it hears with 1,000 added.
fn server(limits: LinkLimits, sockets: u32) -> (Rig, SocketAddr) {
    let sockets = LinkSockets::bind("127.0.0.1:0", sockets, limits).expect("loopback has a port");
    let address = sockets.address();
    let plan = Plan::new(config(0, 1)).script(Script { echo: Some(1_000), ..Script::default() });
    (plan.start_with(|builder| builder.listen_links(sockets, 0, Queue(0))), address)
}

fn peer(id: u32, address: SocketAddr) -> LinkPeer {
    LinkPeer { id: NodeId(id), address, key: secret(0).public() }
}

fn client(peers: Vec<LinkPeer>) -> Rig {
    client_with(limits(), peers)
}

fn client_with(limits: LinkLimits, peers: Vec<LinkPeer>) -> Rig {
    let sockets = LinkSockets::caller("127.0.0.1:0", 1, limits).expect("loopback has a port");
    Plan::new(config(900, 1)).start_with(|builder| builder.dial_links(sockets, 0, Queue(0), peers))
}

/// Waits until links are up to all of `peers`, in whatever order.
fn wait_up(client: &Rig, peers: &[u32]) {
    let mut missing = peers.to_vec();
    while !missing.is_empty() {
        if let Told::Link(NodeId(peer), Link::Up) = client.next() {
            missing.retain(|id| *id != peer);
        }
    }
}

fn say(to: u32, tag: u64, size: usize) -> Act {
    Act::Answer { to: NodeId(to), tag, size }
}

#[test]
fn a_process_links_up_by_datagrams_and_machines_speak_both_ways() {
    let (server, address) = server(limits(), 1);
    let client = client(vec![peer(500, address)]);
    client.wait_link(500, Link::Up);
    client.act((0..50).map(|tag| say(500, tag, 100)).collect());
    let mut tags = client.hear(50);
    tags.sort_unstable();
    assert_eq!(tags, (1_000..1_050).collect::<Vec<u64>>());
    let guest = server.next_guest();
    assert!(guest >= LINKED);
    let counters = &server.handle().counters().datagrams;
    assert_eq!(counters.accepted.get(), 1);
    assert_eq!(counters.received.get(), 52, "two words of the handshake and the bodies");
    assert!(Dropped::ALL.iter().all(|why| counters.dropped(*why).get() == 0));
    let writes = client.handle().counters().datagrams.writes.get();
    assert!(writes <= 10, "{writes} system calls for 52 datagrams");
}

#[test]
fn two_links_of_one_process_are_two_peers_and_several_sockets_share_the_port() {
    let (server, address) = server(limits(), 2);
    let client = client(vec![peer(500, address), peer(501, address)]);
    wait_up(&client, &[500, 501]);
    let (a, b) = (server.next_guest(), server.next_guest());
    assert_ne!(a, b);
    client.act(vec![say(500, 1, 0), say(501, 2, 0)]);
    let mut heard = Vec::new();
    while heard.len() < 2 {
        if let Told::Heard { from, tag, .. } = server.next() {
            heard.push((tag, from));
        }
    }
    heard.sort_unstable();
    assert_eq!(heard.iter().map(|(tag, _)| *tag).collect::<Vec<_>>(), [1, 2]);
    assert_ne!(heard[0].1, heard[1].1);
    let mut back = Vec::new();
    while back.len() < 2 {
        if let Told::Heard { from, tag, .. } = client.next() {
            back.push((tag, from));
        }
    }
    back.sort_unstable();
    assert_eq!(back, [(1_001, NodeId(500)), (1_002, NodeId(501))]);
}

/// A socket that speaks by hand.
struct Stranger(UdpSocket);

impl Stranger {
    fn before(address: SocketAddr) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback has a port");
        socket.connect(address).expect("it is an address");
        socket.set_read_timeout(Some(GUARD)).expect("a time");
        Self(socket)
    }

    fn say(&self, datagram: &[u8]) {
        self.0.send(datagram).expect("loopback takes it");
    }

    fn hear(&self) -> Vec<u8> {
        let mut buffer = [0; 2_000];
        let length = self.0.recv(&mut buffer).expect("an answer in time");
        buffer[..length].to_vec()
    }
}

fn opening(attempt: u64) -> Opening {
    Opening { ticket: Ticket { place: 0, attempt }, random: [1; 32], share: [9; 32] }
}

#[test]
fn strangers_get_one_short_cookie_for_a_greeting_and_nothing_for_anything_else() {
    let (server, address) = server(limits(), 1);
    let (stranger, other) = (Stranger::before(address), Stranger::before(address));
    let hello = Datagram::Hello(opening(1)).encode();
    other.say(&hello);
    let cookie = other.hear();
    let Ok(Datagram::Cookie { cookie, .. }) = Datagram::read(&cookie) else { panic!("a cookie") };
    let key = HashKey::derive("synod test", b"guessed");
    let accept = Acceptance {
        ticket: Ticket { place: 0, attempt: 1 },
        link: 0,
        share: [9; 32],
        signature: Signature([0; 64]),
    };
    let silent = [
        (vec![1; DATAGRAM_MAX + 1], Dropped::Oversize),
        (vec![1; 9_000], Dropped::Oversize),
        (vec![], Dropped::Truncated),
        (hello[..159].to_vec(), Dropped::Truncated),
        (vec![7; 31], Dropped::Truncated),
        ([hello.as_slice(), &[0]].concat(), Dropped::Format),
        (vec![250; 200], Dropped::Format),
        (seal(&key, 0, 0, b"body").expect("short"), Dropped::Unknown),
        (Datagram::Accept(accept).encode(), Dropped::Unknown),
        (Datagram::Prove { opening: opening(1), cookie: [0; 32] }.encode(), Dropped::Cookie),
        // The cookie of the other one's address.
        (Datagram::Prove { opening: opening(1), cookie }.encode(), Dropped::Cookie),
    ];
    for (datagram, _) in &silent {
        stranger.say(datagram);
    }
    // One socket's datagrams stay in order on loopback: had anything been answered, it would come before this.
    stranger.say(&Datagram::Hello(opening(2)).encode());
    let first = stranger.hear();
    assert!(first.len() < 160);
    let Ok(Datagram::Cookie { ticket, .. }) = Datagram::read(&first) else { panic!("a cookie") };
    assert_eq!(ticket.attempt, 2);
    let counters = &server.handle().counters().datagrams;
    for why in Dropped::ALL {
        let expected = silent.iter().filter(|(_, dropped)| *dropped == why).count();
        assert_eq!(counters.dropped(why).get(), expected as u64, "{why}");
    }
    assert_eq!(counters.accepted.get(), 0);
    assert!(counters.sent_bytes.get() <= 3 * counters.received_bytes.get());
}

#[test]
fn a_link_that_gave_way_is_made_anew_once_it_is_silent() {
    let (server, address) = server(LinkLimits { links_max: 1, ..limits() }, 1);
    let quick = LinkLimits { rto_min: Span::millis(20), ..limits() };
    let first = client_with(quick, vec![peer(500, address)]);
    let one = server.next_guest();
    let second = client(vec![peer(500, address)]);
    server.wait_link(one.0, Link::Down);
    let two = server.next_guest();
    assert_ne!(one, two);
    second.wait_link(500, Link::Up);
    first.wait_link(500, Link::Up);
    first.act(vec![say(500, 1, 0)]);
    first.wait_link(500, Link::Down);
    first.wait_link(500, Link::Up);
    server.wait_link(two.0, Link::Down);
    first.act(vec![say(500, 2, 0)]);
    first.hear(1);
    let counters = &server.handle().counters().datagrams;
    assert!(counters.evicted.get() >= 2);
    assert!(counters.dropped(Dropped::Unknown).get() >= 1);
}

/// Passes datagrams on, all words of handshakes and every second body.
fn pass(from: &UdpSocket, mut to: impl FnMut(&[u8])) {
    let (mut buffer, mut bodies) = ([0; 2_000], 0_u64);
    while let Ok((length, _)) = from.recv_from(&mut buffer) {
        let is_word = buffer[0] >= 240;
        bodies += u64::from(!is_word);
        if is_word || bodies % 2 == 1 {
            to(&buffer[..length]);
        }
    }
}

/// Where a client finds `target` behind a network that loses every second body of each direction.
fn lossy(target: SocketAddr) -> SocketAddr {
    let front = UdpSocket::bind("127.0.0.1:0").expect("loopback has a port");
    let back = UdpSocket::bind("127.0.0.1:0").expect("loopback has a port");
    let address = front.local_addr().expect("bound");
    thread::spawn(move || {
        let mut buffer = [0; 2_000];
        let Ok((length, client)) = front.recv_from(&mut buffer) else { return };
        let (inward, outward) = (front.try_clone().expect("cloned"), back.try_clone().expect("cloned"));
        let _ = outward.send_to(&buffer[..length], target);
        thread::spawn(move || {
            pass(&inward, |bytes| drop(outward.send_to(bytes, target)));
        });
        pass(&back, |bytes| drop(front.send_to(bytes, client)));
    });
    address
}

#[test]
fn what_one_link_loses_holds_up_neither_it_nor_another() {
    let (_server, address) = server(limits(), 1);
    let client = client(vec![peer(500, lossy(address)), peer(501, address)]);
    wait_up(&client, &[500, 501]);
    client.act((0..40).flat_map(|tag| [say(500, tag, 10), say(501, 100 + tag, 10)]).collect());
    let (mut by_lossy, mut by_good) = (Vec::new(), Vec::new());
    while by_lossy.len() < 10 || by_good.len() < 40 {
        match client.next() {
            Told::Heard { from: NodeId(500), tag, .. } => by_lossy.push(tag),
            Told::Heard { from: NodeId(501), tag, .. } => by_good.push(tag),
            _ => {}
        }
    }
    assert_eq!(by_lossy, (0..10).map(|n| 1_000 + 4 * n).collect::<Vec<u64>>());
    by_good.sort_unstable();
    assert_eq!(by_good, (1_100..1_140).collect::<Vec<u64>>());
}

#[test]
fn a_body_longer_than_a_datagram_is_dropped_and_counted() {
    let (server, address) = server(limits(), 1);
    let client = client(vec![peer(500, address)]);
    client.wait_link(500, Link::Up);
    client.act(vec![say(500, 1, BODY_MAX), say(500, 2, 1_000)]);
    assert_eq!(client.hear(1), [1_002]);
    assert_eq!(client.handle().counters().peer(NodeId(500)).dropped_frames.get(), 1);
    server.act(vec![Act::Answer { to: NodeId(LINKED.0 + 77), tag: 3, size: 0 }, Act::Say(4)]);
    server.wait_for(&Told::Said(4));
    assert_eq!(server.handle().counters().peer(LINKED).dropped_frames.get(), 1, "no such link");
}

#[test]
fn a_socket_keeps_its_pace_and_sends_all_the_same() {
    let slow = LinkLimits { packets_per_second: 2_000, burst: 8, ..limits() };
    let (_server, address) = server(limits(), 1);
    let client = client_with(slow, vec![peer(500, address)]);
    client.wait_link(500, Link::Up);
    client.act((0..100).map(|tag| say(500, tag, 0)).collect());
    client.hear(100);
    let counters = &client.handle().counters().datagrams;
    assert!(counters.writes.get() >= 102 / 8, "{} calls for 102 datagrams", counters.writes.get());
    assert_eq!(counters.lost.get(), 0);
}

#[test]
fn an_acceptor_with_another_key_is_refused_by_name() {
    let (_server, address) = server(limits(), 1);
    let client = client(vec![LinkPeer { key: secret(7).public(), ..peer(500, address) }]);
    assert_eq!(client.failure().code, 2_102);
    assert_eq!(client.handle().counters().datagrams.dropped(Dropped::Forged).get(), 1);
    assert_eq!(client.handle().counters().links_up.get(), 0);
}

#[test]
fn a_link_whose_bodies_do_not_decode_is_closed() {
    let (server, address) = server(limits(), 1);
    let stranger = LinkLimits { rto_min: Span::millis(20), ..limits() };
    let client = client_with(stranger, vec![peer(500, address)]);
    client.wait_link(500, Link::Up);
    let guest = server.next_guest();
    for _ in 0..3 {
        client.act(vec![say(500, u64::MAX - 1, 0)]);
    }
    server.wait_link(guest.0, Link::Down);
    client.act(vec![say(500, 1, 0)]);
    client.wait_link(500, Link::Down);
    client.wait_link(500, Link::Up);
    assert_ne!(server.next_guest(), guest);
}

#[test]
fn plans_of_links_that_contradict_themselves_are_refused() {
    let sockets = || LinkSockets::caller("127.0.0.1:0", 1, limits()).expect("loopback has a port");
    let address = SocketAddr::from(([127, 0, 0, 1], 1));
    let refused_with = |machine, queues: LinkQueues, peers: Vec<LinkPeer>| {
        let builder = Node::builder(config(900, 1))
            .machine(Hosting::new(0, probe(NodeId(900), 0, Script::default())))
            .dial_links(sockets(), machine, queues, peers);
        matches!(builder.start(), Err(Error::Config(_)))
    };
    let refused = |machine, queue, peers| refused_with(machine, Queue(queue).into(), peers);
    assert!(refused(1, 0, vec![]), "no such machine");
    assert!(refused(0, 9, vec![]), "no such queue");
    for (inward, outward) in [(Queue(0), Queue(9)), (Queue(9), Queue(0))] {
        assert!(refused_with(0, LinkQueues { inward, outward }, vec![]), "no such queue in one direction");
    }
    assert!(refused(0, 0, vec![peer(3, address)]), "a member's id");
    assert!(refused(0, 0, vec![peer(500, address), peer(500, address)]), "one id twice");
    assert!(refused(0, 0, vec![peer(LINKED.0, address)]), "the id of an accepted link");
    assert!(refused(0, 0, vec![LinkPeer { key: synod_crypto::PublicKey([0; 32]), ..peer(500, address) }]));
    assert!(!refused(0, 0, vec![peer(500, address)]));
}

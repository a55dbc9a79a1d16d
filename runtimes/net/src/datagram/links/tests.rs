//! Bursts of datagrams through the links of a node.

use std::net::SocketAddr;
use std::sync::Arc;

use synod_crypto::{Hash, HashKey, Keys, Seed};
use synod_machine::{Link, Span, Time};
use synod_quorum::NodeId;

use super::{LinkParts, Links, guest};
use crate::counters::Counters;
use crate::datagram::burst::BURST_MAX;
use crate::datagram::dial::{Act, Dialler, LinkPeer};
use crate::datagram::exchange::LinkKeys;
use crate::datagram::format::{Dropped, seal};
use crate::datagram::settings::{LinkLimits, LinkSockets};
use crate::datagram::socket::Inbound;
use crate::frames::Route;

type Packet = (SocketAddr, Vec<u8>);

fn address(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

fn links(links_max: u32) -> Links {
    let limits = LinkLimits { links_max, ..LinkLimits::default() };
    let accepting = Some(LinkSockets::bind("127.0.0.1:0", 1, limits).expect("loopback has a port"));
    let keys = Arc::new(Keys::ed25519(&Seed::new([1; 32]), [1; 32]));
    let route = Route { machine: 0, queue: 0 };
    let cluster = Hash::of(b"cluster");
    let parts = LinkParts { inward: route, outward: route, accepting, calling: None, keys, cluster };
    Links::new(parts, Arc::new(Counters::new(1)), Arc::default())
}

fn key(port: u16) -> HashKey {
    HashKey::derive("synod test links", &port.to_le_bytes())
}

/// Opens a link from `port`; its number.
fn open(links: &mut Links, port: u16) -> u32 {
    let table = &mut links.acceptor.as_mut().expect("it accepts").table;
    let number = table.next_number();
    table.open(LinkKeys { to_acceptor: key(port), to_dialler: key(0) }, address(port), 0);
    number
}

/// A datagram by the link from `port`, whose body and its length tell its number.
fn packet(port: u16, link: u32, sequence: u64) -> Packet {
    let size = 8 + usize::try_from(sequence * 397 % 1_100).expect("small");
    let mut body = vec![7; size];
    body[1..5].copy_from_slice(&u32::try_from(sequence).expect("small").to_le_bytes());
    (address(port), seal(&key(port), link, sequence, &body).expect("it fits"))
}

/// What the machine gets: from whom, and which.
fn frames(links: &mut Links) -> Vec<(NodeId, u64)> {
    let all = core::iter::from_fn(|| links.next_frame());
    let number = |body: &[u8]| u64::from(u32::from_le_bytes(body[1..5].try_into().expect("four bytes")));
    all.map(|frame| (frame.from, number(&frame.body))).collect()
}

fn dropped(links: &Links) -> Vec<(Dropped, u64)> {
    let count = |why: &Dropped| (*why, links.count().dropped(*why).get());
    Dropped::ALL.iter().map(count).filter(|(_, count)| *count > 0).collect()
}

#[test]
fn a_forged_tag_in_the_middle_of_a_burst_is_dropped_alone_and_counted() {
    let mut links = links(10);
    let numbers = [1, 2, 3].map(|port| (port, open(&mut links, port)));
    for size in [3, 4, 40, BURST_MAX, 2 * BURST_MAX + 9] {
        let first = links.count().received.get();
        let mut packets: Vec<Packet> = (0..size)
            .map(|n| (numbers[n % 3], first + n as u64))
            .map(|((port, link), sequence)| packet(port, link, sequence))
            .collect();
        let forged = size / 2;
        let last = packets[forged].1.len() - 1;
        packets[forged].1[last] ^= 1;
        links.take_in(0, &Inbound::of(&packets));
        let sent = (0..size).map(|n| (guest(numbers[n % 3].1), first + n as u64));
        let wanted: Vec<_> = sent.enumerate().filter(|(n, _)| *n != forged).map(|(_, sent)| sent).collect();
        assert_eq!(frames(&mut links), wanted, "{size} at once, in the order in which they came");
    }
    assert_eq!(dropped(&links), [(Dropped::Tag, 5)]);
}

#[test]
fn each_datagram_of_a_burst_is_judged_as_if_it_came_alone() {
    let mut links = links(10);
    let link = open(&mut links, 1);
    let mut packets: Vec<Packet> = (0..30).map(|n| packet(1, link, n)).collect();
    packets[5].1[20] ^= 1;
    packets.push(packet(1, link, 5));
    packets.push(packet(1, link, 6));
    packets.push(packet(2, link, 40));
    packets.push((address(1), vec![7; 31]));
    packets.push((address(1), vec![250; 40]));
    packets.push(packet(1, link, 200));
    packets.push(packet(1, link, 31));
    links.take_in(0, &Inbound::of(&packets));
    let numbers: Vec<u64> = frames(&mut links).into_iter().map(|(_, number)| number).collect();
    let wanted: Vec<u64> = (0..30).filter(|n| *n != 5).chain([5, 200]).collect();
    assert_eq!(numbers, wanted, "the forged number was still to be had");
    let wanted = [
        (Dropped::Truncated, 1),
        (Dropped::Format, 1),
        (Dropped::Unknown, 1),
        (Dropped::Tag, 1),
        (Dropped::Replayed, 2),
    ];
    assert_eq!(dropped(&links), wanted);
    assert_eq!(links.count().received.get(), packets.len() as u64);
}

/// The proof of a caller at `port`, which has its cookie.
fn proof(links: &mut Links, port: u16) -> Vec<u8> {
    let peer = LinkPeer { id: NodeId(500), address: address(9), key: Seed::new([1; 32]).public() };
    let keys = Arc::new(Keys::ed25519(&Seed::new([2; 32]), [2; 32]));
    let mut dialler = Dialler::new(&[peer], keys, Hash::of(b"cluster"), Span::millis(100));
    let mut acts = Vec::new();
    dialler.tick(Time::ZERO, &mut acts);
    let said = |acts: &mut Vec<Act>| match acts.pop() {
        Some(Act::Send { datagram, .. }) => datagram.sealed(),
        other => panic!("{other:?} is no word"),
    };
    let acceptor = links.acceptor.as_mut().expect("it accepts");
    let cookie = match acceptor.receive(address(port), 0, &said(&mut acts), Time::ZERO) {
        Ok(super::Heard::Answer(cookie)) => cookie,
        other => panic!("{other:?} is no cookie"),
    };
    dialler.receive(address(9), &cookie, Time::ZERO, &mut acts).expect("the dialler takes it");
    said(&mut acts)
}

#[test]
fn a_word_of_the_handshake_in_a_burst_changes_links_in_its_place() {
    let mut links = links(1);
    let link = open(&mut links, 1);
    let proof = proof(&mut links, 2);
    let mut packets: Vec<Packet> = (0..20).map(|n| packet(1, link, n)).collect();
    packets.insert(12, (address(2), proof));
    links.take_in(0, &Inbound::of(&packets));
    let wanted: Vec<_> = (0..12).map(|n| (guest(link), n)).collect();
    assert_eq!(frames(&mut links), wanted, "the link was there until another took its place");
    assert_eq!(dropped(&links), [(Dropped::Unknown, 8)]);
    assert_eq!((links.count().accepted.get(), links.count().evicted.get()), (1, 1));
    let news = links.news();
    assert_eq!(news.len(), 2);
    assert_eq!((news[0], news[1].1), ((guest(link), Link::Down), Link::Up));
}

//! What each fault of a link does to a connection, and which links each shape cuts.

use super::{Links, Manner, Shape, owner};
use crate::Draw;
use std::collections::BTreeSet;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long anything that must happen may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// Two members, the first of which dialled the second.
struct Pair {
    links: Links,
    listener: TcpListener,
    dialler: TcpStream,
    dialled: TcpStream,
}

impl Pair {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let own = listener.local_addr().expect("it is bound");
        let links = Links::start(vec![own, own], Arc::new(|_, _| Some(0))).expect("ports are free");
        let (dialler, dialled) = Self::join(&links, &listener);
        Self { links, listener, dialler, dialled }
    }

    fn join(links: &Links, listener: &TcpListener) -> (TcpStream, TcpStream) {
        let mut dialler = TcpStream::connect(links.listening()[1]).expect("the proxy listens");
        let (mut dialled, _) = listener.accept().expect("the proxy dials");
        for stream in [&dialler, &dialled] {
            stream.set_read_timeout(Some(PATIENCE)).expect("it can wait");
        }
        // Behind this, both directions are carried.
        say(&mut dialler, "?");
        assert_eq!(hear(&mut dialled, 1), "?");
        say(&mut dialled, "!");
        assert_eq!(hear(&mut dialler, 1), "!");
        (dialler, dialled)
    }
}

fn say(stream: &mut TcpStream, text: &str) {
    stream.write_all(text.as_bytes()).expect("the other side listens");
}

fn hear(stream: &mut TcpStream, length: usize) -> String {
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).expect("it is said");
    String::from_utf8(bytes).expect("it is text")
}

/// What one look without waiting shows.
fn glance(stream: &mut TcpStream) -> std::io::Result<usize> {
    stream.set_nonblocking(true)?;
    let seen = stream.read(&mut [0; 16]);
    stream.set_nonblocking(false)?;
    seen
}

fn until(done: impl Fn() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < PATIENCE, "it never happens");
        std::thread::yield_now();
    }
}

#[test]
fn a_held_link_loses_nothing_and_the_other_direction_goes_on() {
    let mut pair = Pair::new();
    say(&mut pair.dialler, "hello");
    assert_eq!(hear(&mut pair.dialled, 5), "hello");
    pair.links.set(0, 1, Manner::Hold);
    say(&mut pair.dialler, "held");
    for _ in 0..50 {
        say(&mut pair.dialled, "back");
        assert_eq!(hear(&mut pair.dialler, 4), "back");
    }
    let nothing = glance(&mut pair.dialled).expect_err("nothing passed");
    assert_eq!(nothing.kind(), ErrorKind::WouldBlock);
    pair.links.heal();
    assert_eq!(hear(&mut pair.dialled, 4), "held");
    assert_eq!(pair.links.counts().connections, 1);
}

#[test]
fn over_a_cut_link_no_connection_is_made_until_it_heals() {
    let pair = Pair::new();
    pair.links.set(1, 0, Manner::Hold);
    let mut late = TcpStream::connect(pair.links.listening()[1]).expect("the proxy listens");
    say(&mut late, "late");
    pair.listener.set_nonblocking(true).expect("it can");
    assert_eq!(pair.listener.accept().map(drop).map_err(|e| e.kind()), Err(ErrorKind::WouldBlock));
    assert_eq!(pair.links.between(0, 1), 1);
    pair.listener.set_nonblocking(false).expect("it can");
    pair.links.heal();
    let (mut reached, _) = pair.listener.accept().expect("it is made");
    assert_eq!(hear(&mut reached, 4), "late");
}

#[test]
fn a_late_link_is_late_and_keeps_the_order_and_a_dripping_one_lets_a_byte_a_second_through() {
    let mut pair = Pair::new();
    let by = Duration::from_millis(120);
    pair.links.set(0, 1, Manner::Late(by));
    let begun = Instant::now();
    say(&mut pair.dialler, "one");
    say(&mut pair.dialler, "two");
    assert_eq!(hear(&mut pair.dialled, 6), "onetwo");
    assert!(begun.elapsed() >= by);
    pair.links.set(0, 1, Manner::Drip);
    let begun = Instant::now();
    say(&mut pair.dialler, "abcdef");
    assert_eq!(hear(&mut pair.dialled, 2), "ab");
    assert!(begun.elapsed() >= Duration::from_millis(990));
    pair.links.heal();
    assert_eq!(hear(&mut pair.dialled, 4), "cdef");
}

#[test]
fn a_reset_ends_both_sides_and_a_half_open_connection_one() {
    let mut pair = Pair::new();
    say(&mut pair.dialler, "x");
    hear(&mut pair.dialled, 1);
    assert_eq!(pair.links.reset(1, 0), 1);
    for stream in [&mut pair.dialler, &mut pair.dialled] {
        let end = stream.read(&mut [0; 1]).expect_err("it was reset");
        assert_eq!(end.kind(), ErrorKind::ConnectionReset);
    }
    until(|| pair.links.between(0, 1) == 0);
    for closed in [0, 1] {
        let (dialler, dialled) = Pair::join(&pair.links, &pair.listener);
        let (mut told, mut other) = if closed == 0 { (dialler, dialled) } else { (dialled, dialler) };
        say(&mut told, "x");
        hear(&mut other, 1);
        assert_eq!(pair.links.half_open(closed, 1 - closed), 1);
        let end = told.read(&mut [0; 1]).expect_err("this side is closed");
        assert_eq!(end.kind(), ErrorKind::ConnectionReset);
        say(&mut other, "is anybody there?");
        assert_eq!(glance(&mut other).map_err(|e| e.kind()), Err(ErrorKind::WouldBlock));
        assert_eq!(pair.links.between(0, 1), 1);
        drop(other);
        until(|| pair.links.between(0, 1) == 0);
    }
    let counts = pair.links.counts();
    assert_eq!((counts.reset, counts.half_open, counts.connections), (1, 2, 3));
}

#[test]
fn one_bit_of_one_direction_is_changed_and_who_goes_on_is_known() {
    let mut pair = Pair::new();
    pair.links.corrupt(0, 1);
    say(&mut pair.dialled, "good");
    assert_eq!(hear(&mut pair.dialler, 4), "good");
    assert_eq!(pair.links.uncut(), 0);
    say(&mut pair.dialler, "data");
    // The third byte, 't' or 0x74, with one bit changed.
    assert_eq!(hear(&mut pair.dialled, 4), "dada");
    assert_eq!((pair.links.uncut(), pair.links.counts().corrupted), (1, 1));
    say(&mut pair.dialler, "data");
    assert_eq!(hear(&mut pair.dialled, 4), "data", "once");
    drop(pair.dialled);
    until(|| pair.links.uncut() == 0);
}

#[test]
fn every_shape_parts_what_it_says_it_parts() {
    for members in 4..9 {
        for (shape, seed) in Shape::ALL.into_iter().flat_map(|shape| (0..40).map(move |seed| (shape, seed))) {
            let cut = shape.cut(members, &mut Draw::new(seed));
            let cut: BTreeSet<(usize, usize)> = cut.into_iter().collect();
            assert!(
                !cut.is_empty() && cut.len() < members * (members - 1),
                "{shape:?} of {members}: {cut:?}"
            );
            let back = cut.iter().filter(|(from, to)| cut.contains(&(*to, *from))).count();
            let degree = |at: usize| cut.iter().filter(|(from, _)| *from == at).count();
            let degrees: BTreeSet<usize> = (0..members).map(degree).collect();
            match shape {
                Shape::Deaf | Shape::Mute => assert_eq!((back, cut.len()), (0, members - 1)),
                _ => assert_eq!(back, cut.len(), "both directions"),
            }
            match shape {
                Shape::Alone => assert_eq!(cut.len(), 2 * (members - 1)),
                Shape::Bridge => assert_eq!((0..members).filter(|at| degree(*at) == 0).count(), 1),
                Shape::Ring => assert_eq!(degrees, BTreeSet::from([members - 3])),
                _ => {}
            }
        }
    }
}

#[test]
fn the_process_behind_a_connection_is_found() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let peer = listener.local_addr().expect("it is bound").port();
    let stream = TcpStream::connect(("127.0.0.1", peer)).expect("it listens");
    let port = stream.local_addr().expect("it is bound").port();
    let own = std::process::id();
    assert_eq!(owner(port, peer, &[(2, 1), (3, own)]), Some(3));
    assert_eq!(owner(port, peer, &[]), None);
    drop(stream);
    assert_eq!(owner(port, 1, &[(3, own)]), None);
}

//! The handshake and the datagrams of links, both sides played by hand.

use std::net::SocketAddr;
use std::sync::Arc;

use synod_crypto::{Hash, Keys, PublicKey, Seed};
use synod_machine::{Link, Span, Time};
use synod_quorum::NodeId;
use synod_wire::Bytes;

use super::accept::{Acceptor, Heard, Rates};
use super::dial::{Act, Dialler, LinkPeer};
use super::format::{ACCEPT, COOKIE, DATAGRAM_MAX, Datagram, Dropped, PADDED, seal};

const RTO: Span = Span::millis(100);
const PEER: NodeId = NodeId(500);
const BODY: Bytes = Bytes::from_static(b"a body");

fn at(ms: u64) -> Time {
    Time(1 + ms * 1_000_000)
}

fn keys(n: u8) -> (Arc<Keys>, PublicKey) {
    let seed = Seed::new([n; 32]);
    (Arc::new(Keys::ed25519(&seed, [n; 32])), seed.public())
}

fn address(port: u16) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], port))
}

fn acceptor(links_max: u32) -> Acceptor {
    let rates = Rates { links_max, links_per_second: 1_000, links_per_address: 100 };
    Acceptor::new(keys(1).0, Hash::of(b"cluster"), rates, at(0))
}

/// A dialler of one acceptor, at whose address `address(1)` it stands.
fn dialler() -> Dialler {
    let peer = LinkPeer { id: PEER, address: address(1), key: keys(1).1 };
    Dialler::new(&[peer], keys(2).0, Hash::of(b"cluster"), RTO)
}

/// The datagrams among `acts`.
fn sent(acts: &mut Vec<Act>) -> Vec<Vec<u8>> {
    let send = |act| if let Act::Send { datagram, .. } = act { Some(datagram.sealed()) } else { None };
    acts.drain(..).filter_map(send).collect()
}

fn due(dialler: &mut Dialler, now: Time) -> Vec<Vec<u8>> {
    let mut acts = Vec::new();
    dialler.tick(now, &mut acts);
    sent(&mut acts)
}

fn told(dialler: &mut Dialler, datagram: &[u8], now: Time) -> Vec<Act> {
    let mut acts = Vec::new();
    dialler.receive(address(1), datagram, now, &mut acts).expect("the dialler takes it");
    acts
}

fn one(mut datagrams: Vec<Vec<u8>>) -> Vec<u8> {
    assert_eq!(datagrams.len(), 1);
    datagrams.pop().expect("there is one")
}

fn answer(heard: Result<Heard, Dropped>) -> Vec<u8> {
    match heard {
        Ok(Heard::Answer(answer) | Heard::Opened { answer, .. }) => answer,
        other => panic!("no answer: {other:?}"),
    }
}

/// Shakes hands from `port`; the link's number, the words that were said, and what the dialler did at last.
fn shake(
    acceptor: &mut Acceptor,
    dialler: &mut Dialler,
    port: u16,
    now: Time,
) -> (u32, [Vec<u8>; 4], Vec<Act>) {
    let hello = one(due(dialler, now));
    let cookie = answer(acceptor.receive(address(port), 0, &hello, now));
    let prove = one(sent(&mut told(dialler, &cookie, now)));
    let Ok(Heard::Opened { link, answer, .. }) = acceptor.receive(address(port), 0, &prove, now) else {
        panic!("the proof opens a link")
    };
    let acts = told(dialler, &answer, now);
    (link, [hello, cookie, prove, answer], acts)
}

#[test]
fn a_handshake_of_four_words_opens_a_link_both_ways() {
    let (mut acceptor, mut dialler) = (acceptor(10), dialler());
    let (link, words, acts) = shake(&mut acceptor, &mut dialler, 7, at(0));
    assert_eq!(words.map(|word| word.len()), [PADDED, COOKIE, PADDED, ACCEPT]);
    assert_eq!(acts, [Act::News { peer: PEER, link: Link::Up }]);
    let mut acts = Vec::new();
    assert!(dialler.send(PEER, &BODY, at(1), &mut acts));
    let heard = acceptor.receive(address(7), 0, &one(sent(&mut acts)), at(1));
    assert_eq!(heard, Ok(Heard::Body { link, body: BODY }));
    let (socket, to, datagram) = acceptor.seal(link, b"answer").expect("there is a link");
    let datagram = datagram.sealed();
    assert_eq!((socket, to), (0, address(7)));
    let body = Bytes::from_static(b"answer");
    assert_eq!(told(&mut dialler, &datagram, at(2)), [Act::Body { peer: PEER, body }]);
    assert!(due(&mut dialler, at(301)).is_empty(), "nothing is waited for");
    assert_eq!(dialler.deadline(), None);
}

#[test]
fn links_of_equal_numbers_at_two_acceptors_are_told_apart() {
    let ids = [700, 500, 900, 501].map(NodeId);
    let peer = |(n, id): (u16, NodeId)| LinkPeer { id, address: address(1 + n % 2), key: keys(1).1 };
    let peers: Vec<LinkPeer> = (0..).zip(ids).map(peer).collect();
    let mut dialler = Dialler::new(&peers, keys(2).0, Hash::of(b"cluster"), RTO);
    let known: Vec<NodeId> = (490..910).map(NodeId).filter(|id| dialler.knows(*id)).collect();
    assert_eq!(known, [500, 501, 700, 900].map(NodeId), "whatever order they were named in");
    let (mut acceptors, mut acts, mut numbers) = ([acceptor(10), acceptor(10)], Vec::new(), Vec::new());
    dialler.tick(at(0), &mut acts);
    while !acts.is_empty() {
        for act in core::mem::take(&mut acts) {
            let Act::Send { to, datagram, .. } = act else { continue };
            let which = usize::from(to == address(2));
            let heard = acceptors[which].receive(address(7), 0, &datagram.sealed(), at(0));
            if let Ok(Heard::Opened { link, .. }) = heard {
                numbers.push((which, link));
            }
            dialler.receive(to, &answer(heard), at(0), &mut acts).expect("the dialler takes it");
        }
    }
    numbers.sort_unstable();
    assert_eq!(numbers, [(0, 0), (0, 1), (1, 0), (1, 1)]);
    for id in ids {
        assert!(dialler.send(id, &BODY, at(1), &mut acts));
        let Some(Act::Send { to, datagram, .. }) = acts.pop() else { panic!("it is sent") };
        let acceptor = &mut acceptors[usize::from(to == address(2))];
        let Ok(Heard::Body { link, .. }) = acceptor.receive(address(7), 0, &datagram.sealed(), at(1)) else {
            panic!("it is heard")
        };
        let (_, _, reply) = acceptor.seal(link, b"answer").expect("there is a link");
        dialler.receive(to, &reply.sealed(), at(1), &mut acts).expect("the dialler takes it");
        assert_eq!(acts, [Act::Body { peer: id, body: Bytes::from_static(b"answer") }]);
        acts.clear();
    }
}

#[test]
fn t30_before_the_cookie_returns_at_most_three_bytes_leave_per_byte_that_came() {
    let (mut acceptor, mut other) = (acceptor(10), acceptor(10));
    let (_, words, _) = shake(&mut other, &mut dialler(), 7, at(0));
    let hello = words[0].clone();
    let mut strange: Vec<Vec<u8>> = words.into();
    strange.extend((0..=DATAGRAM_MAX + 8).map(|length| vec![240; length]));
    strange.extend((0..PADDED).map(|length| hello[..length].to_vec()));
    strange.extend((0..=255).map(|kind| [&[kind], &hello[1..]].concat()));
    let (mut answered, mut said) = (0, 0);
    for (n, datagram) in strange.iter().enumerate() {
        if let Ok(heard) = acceptor.receive(address(9), 0, datagram, at(n as u64)) {
            let answer = answer(Ok(heard));
            assert!(answer.len() <= 3 * datagram.len(), "{} for {}", answer.len(), datagram.len());
            answered += 1;
            said += answer.len();
        }
    }
    assert_eq!((answered, said), (2, 2 * COOKIE), "the greeting, twice");
    assert_eq!(acceptor.table.len(), 0, "nothing is kept of it");
}

#[test]
fn a_cookie_is_good_for_its_address_its_greeting_and_two_minutes() {
    let (mut acceptor, mut dialler) = (acceptor(10), dialler());
    let hello = one(due(&mut dialler, at(0)));
    let cookie = answer(acceptor.receive(address(7), 0, &hello, at(0)));
    let prove = one(sent(&mut told(&mut dialler, &cookie, at(0))));
    let Ok(Datagram::Prove { opening, cookie }) = Datagram::read(&prove) else { panic!("a proof") };
    let mut refused = |from, datagram: Vec<u8>, now| {
        assert_eq!(acceptor.receive(from, 0, &datagram, now), Err(Dropped::Cookie));
        assert_eq!(acceptor.table.len(), 0);
    };
    refused(address(8), prove.clone(), at(0));
    refused(SocketAddr::from(([10, 0, 0, 2], 7)), prove.clone(), at(0));
    refused(address(7), prove.clone(), at(120_000));
    let mut wrong = cookie;
    wrong[31] ^= 1;
    refused(address(7), Datagram::Prove { opening, cookie: wrong }.encode(), at(0));
    let mut greeting = opening;
    greeting.random[0] ^= 1;
    refused(address(7), Datagram::Prove { opening: greeting, cookie }.encode(), at(0));
    let other =
        Acceptor::new(keys(1).0, Hash::of(b"cluster"), rates(), at(0)).receive(address(7), 0, &prove, at(0));
    assert_eq!(other, Err(Dropped::Cookie), "another life of the acceptor");
    assert!(matches!(acceptor.receive(address(7), 0, &prove, at(60_000)), Ok(Heard::Opened { .. })));
}

fn rates() -> Rates {
    Rates { links_max: 10, links_per_second: 1_000, links_per_address: 3 }
}

#[test]
fn a_proof_that_comes_again_gets_the_same_answer_and_no_second_link() {
    let (mut acceptor, mut dialler) = (acceptor(10), dialler());
    let (link, [_, _, prove, accept], _) = shake(&mut acceptor, &mut dialler, 7, at(0));
    assert_eq!(acceptor.receive(address(7), 0, &prove, at(1)), Ok(Heard::Answer(accept)));
    assert_eq!(acceptor.table.len(), 1);
    assert!(acceptor.table.close(link));
    assert!(matches!(acceptor.receive(address(7), 0, &prove, at(2)), Ok(Heard::Opened { .. })));
}

#[test]
fn what_is_forged_replayed_or_of_another_address_is_dropped_by_its_name() {
    let (mut acceptor, mut dialler) = (acceptor(10), dialler());
    let (link, ..) = shake(&mut acceptor, &mut dialler, 7, at(0));
    let mut acts = Vec::new();
    assert!(dialler.send(PEER, &BODY, at(0), &mut acts));
    let good = one(sent(&mut acts));
    let mut forged = good.clone();
    forged[17] ^= 1;
    let mut hear = |from, bytes: &[u8]| acceptor.receive(from, 0, bytes, at(0));
    assert_eq!(hear(address(7), &forged), Err(Dropped::Tag));
    assert_eq!(hear(address(8), &good), Err(Dropped::Unknown));
    assert_eq!(hear(address(7), &good[..31]), Err(Dropped::Truncated));
    assert_eq!(hear(address(7), &good[..good.len() - 1]), Err(Dropped::Tag));
    assert_eq!(hear(address(7), &[1; DATAGRAM_MAX + 1]), Err(Dropped::Oversize));
    assert_eq!(hear(address(7), &good), Ok(Heard::Body { link, body: BODY }), "none of them cost it");
    assert_eq!(hear(address(7), &good), Err(Dropped::Replayed));
    let mut strange = good;
    strange[4] ^= 1;
    assert_eq!(hear(address(7), &strange), Err(Dropped::Unknown));
    let datagram = acceptor.seal(link, b"answer").expect("there is a link").2.sealed();
    assert_eq!(told(&mut dialler, &datagram, at(0)).len(), 1);
    let mut acts = Vec::new();
    let again = dialler.receive(address(1), &datagram, at(0), &mut acts);
    assert_eq!(again, Err(Dropped::Replayed));
    assert_eq!(dialler.receive(address(2), &datagram, at(0), &mut acts), Err(Dropped::Unknown));
    // What one side said does not pass as the other's.
    assert!(dialler.send(PEER, &BODY, at(0), &mut acts));
    let own = one(sent(&mut acts));
    assert_eq!(dialler.receive(address(1), &own, at(0), &mut acts), Err(Dropped::Tag));
}

#[test]
fn datagrams_pass_in_any_order_and_what_is_lost_holds_nothing_up() {
    let (mut acceptor, mut dialler) = (acceptor(10), dialler());
    shake(&mut acceptor, &mut dialler, 7, at(0));
    let mut acts = Vec::new();
    for _ in 0..60 {
        assert!(dialler.send(PEER, &BODY, at(0), &mut acts));
    }
    let datagrams = sent(&mut acts);
    let mut heard = 0;
    for datagram in datagrams.iter().rev().step_by(3) {
        heard += usize::from(acceptor.receive(address(7), 0, datagram, at(0)).is_ok());
    }
    assert_eq!(heard, 20);
}

#[test]
fn a_full_table_gives_the_place_of_the_longest_idle_link_to_the_next() {
    let mut acceptor = acceptor(2);
    let (mut a, mut b, mut c) = (dialler(), dialler(), dialler());
    let (first, ..) = shake(&mut acceptor, &mut a, 7, at(0));
    let (second, ..) = shake(&mut acceptor, &mut b, 8, at(0));
    let mut acts = Vec::new();
    assert!(a.send(PEER, &BODY, at(1), &mut acts));
    assert!(acceptor.receive(address(7), 0, &one(sent(&mut acts)), at(1)).is_ok());
    let hello = one(due(&mut c, at(2)));
    let cookie = answer(acceptor.receive(address(9), 0, &hello, at(2)));
    let prove = one(sent(&mut told(&mut c, &cookie, at(2))));
    let heard = acceptor.receive(address(9), 0, &prove, at(2));
    assert!(matches!(heard, Ok(Heard::Opened { evicted: Some(link), .. }) if link == second));
    assert!(acceptor.seal(first, &BODY).is_some() && acceptor.seal(second, &BODY).is_none());
    assert!(b.send(PEER, &BODY, at(3), &mut acts));
    assert_eq!(acceptor.receive(address(8), 0, &one(sent(&mut acts)), at(3)), Err(Dropped::Unknown));
}

#[test]
fn links_are_rationed_by_address_and_in_all() {
    let mut acceptor = Acceptor::new(keys(1).0, Hash::of(b"cluster"), rates(), at(0));
    let mut open = |port| {
        let mut dialler = dialler();
        let hello = one(due(&mut dialler, at(0)));
        let cookie = answer(acceptor.receive(address(port), 0, &hello, at(0)));
        let prove = one(sent(&mut told(&mut dialler, &cookie, at(0))));
        acceptor.receive(address(port), 0, &prove, at(0))
    };
    let opened: Vec<bool> = (0..5).map(|port| open(port).is_ok()).collect();
    assert_eq!(opened, [true, true, true, false, false]);
    assert_eq!(open(9), Err(Dropped::Busy));
}

#[test]
fn an_acceptance_that_another_key_signed_is_forged_and_the_true_one_still_counts() {
    let (mut acceptor, mut dialler) = (acceptor(10), dialler());
    let hello = one(due(&mut dialler, at(0)));
    let mut impostor = Acceptor::new(keys(3).0, Hash::of(b"cluster"), rates(), at(0));
    let mut elsewhere = Acceptor::new(keys(1).0, Hash::of(b"another cluster"), rates(), at(0));
    let cookie = answer(acceptor.receive(address(7), 0, &hello, at(0)));
    let prove = one(sent(&mut told(&mut dialler, &cookie, at(0))));
    let Ok(Datagram::Prove { opening, .. }) = Datagram::read(&prove) else { panic!("a proof") };
    for other in [&mut impostor, &mut elsewhere] {
        let cookie = answer(other.receive(address(7), 0, &hello, at(0)));
        let Ok(Datagram::Cookie { cookie, .. }) = Datagram::read(&cookie) else { panic!("a cookie") };
        let prove = Datagram::Prove { opening, cookie }.encode();
        let accept = answer(other.receive(address(7), 0, &prove, at(0)));
        let mut acts = Vec::new();
        assert_eq!(dialler.receive(address(1), &accept, at(0), &mut acts), Err(Dropped::Forged));
        assert!(acts.is_empty());
    }
    let accept = answer(acceptor.receive(address(7), 0, &prove, at(0)));
    assert_eq!(told(&mut dialler, &accept, at(0)).len(), 1);
}

#[test]
fn a_handshake_survives_the_loss_of_any_of_its_words() {
    for lost in 0..4 {
        let (mut acceptor, mut dialler) = (acceptor(10), dialler());
        let (mut now, mut word, mut is_up) = (0, 0, false);
        for _ in 0..20 {
            let mut said = due(&mut dialler, at(now));
            while let Some(datagram) = said.pop() {
                let mut through = || {
                    word += 1;
                    word != lost + 1
                };
                if !through() {
                    continue;
                }
                let back = answer(acceptor.receive(address(7), 0, &datagram, at(now)));
                if through() {
                    let mut acts = told(&mut dialler, &back, at(now));
                    is_up |= acts.contains(&Act::News { peer: PEER, link: Link::Up });
                    said.extend(sent(&mut acts));
                }
            }
            now += 100;
        }
        assert!(is_up && acceptor.table.len() == 1, "word {lost} was lost");
    }
}

#[test]
fn what_is_said_before_there_is_a_link_waits_for_it_and_no_more_than_8() {
    let (mut acceptor, mut dialler) = (acceptor(10), dialler());
    let mut acts = Vec::new();
    let kept: Vec<bool> = (0..10).map(|_| dialler.send(PEER, &BODY, at(0), &mut acts)).collect();
    assert_eq!(kept.iter().filter(|kept| **kept).count(), 8);
    let (_, _, mut acts) = shake(&mut acceptor, &mut dialler, 7, at(0));
    let waited = sent(&mut acts);
    assert_eq!(waited.len(), 8);
    assert!(waited.iter().all(|datagram| acceptor.receive(address(7), 0, datagram, at(0)).is_ok()));
}

#[test]
fn after_three_silent_timeouts_hands_are_shaken_again_from_wherever_the_dialler_is() {
    let (mut acceptor, mut dialler) = (acceptor(10), dialler());
    let (old, ..) = shake(&mut acceptor, &mut dialler, 7, at(0));
    let mut acts = Vec::new();
    assert!(dialler.send(PEER, &BODY, at(10), &mut acts));
    acts.clear();
    assert_eq!(dialler.deadline(), Some(at(310)));
    assert!(due(&mut dialler, at(309)).is_empty());
    dialler.tick(at(310), &mut acts);
    assert_eq!(acts.first(), Some(&Act::News { peer: PEER, link: Link::Down }));
    // Its address has changed: the acceptor sees it come from another port.
    let hello = one(sent(&mut acts));
    let cookie = answer(acceptor.receive(address(8), 0, &hello, at(311)));
    let prove = one(sent(&mut told(&mut dialler, &cookie, at(312))));
    let accept = answer(acceptor.receive(address(8), 0, &prove, at(313)));
    let acts = told(&mut dialler, &accept, at(314));
    assert_eq!(acts, [Act::News { peer: PEER, link: Link::Up }]);
    let mut acts = Vec::new();
    assert!(dialler.send(PEER, &BODY, at(315), &mut acts));
    let heard = acceptor.receive(address(8), 0, &one(sent(&mut acts)), at(315));
    assert!(matches!(heard, Ok(Heard::Body { link, .. }) if link != old));
}

#[test]
fn silence_counts_from_what_was_said_last_without_an_answer() {
    let (mut acceptor, mut dialler) = (acceptor(10), dialler());
    let (link, ..) = shake(&mut acceptor, &mut dialler, 7, at(0));
    let mut acts = Vec::new();
    for second in 0..5 {
        assert!(dialler.send(PEER, &BODY, at(second * 200), &mut acts));
        let datagram = acceptor.seal(link, b"answer").expect("there is a link").2.sealed();
        told(&mut dialler, &datagram, at(second * 200 + 1));
        assert!(due(&mut dialler, at(second * 200 + 2)).is_empty());
    }
    assert!(dialler.send(PEER, &BODY, at(900), &mut acts));
    for ms in (900..1_200).step_by(10) {
        assert!(due(&mut dialler, at(ms)).is_empty(), "{ms} ms");
    }
    assert_eq!((dialler.deadline(), due(&mut dialler, at(1_200)).len()), (Some(at(1_200)), 1));
}

#[test]
fn a_link_that_speaks_while_hands_are_shaken_again_stays() {
    let (mut acceptor, mut dialler) = (acceptor(10), dialler());
    let (link, ..) = shake(&mut acceptor, &mut dialler, 7, at(0));
    let mut acts = Vec::new();
    assert!(dialler.send(PEER, &BODY, at(0), &mut acts));
    assert_eq!(due(&mut dialler, at(400)).len(), 1);
    let datagram = acceptor.seal(link, b"late").expect("there is a link").2.sealed();
    let acts = told(&mut dialler, &datagram, at(401));
    assert_eq!(acts.first(), Some(&Act::News { peer: PEER, link: Link::Up }));
    assert_eq!(dialler.deadline(), None);
    let sealed = seal(&synod_crypto::HashKey::derive("synod test", b""), link, 9, &BODY).expect("short");
    let mut acts = Vec::new();
    assert_eq!(dialler.receive(address(1), &sealed, at(402), &mut acts), Err(Dropped::Tag));
}

#[test]
fn one_forged_tag_among_many_costs_the_caller_that_datagram_alone() {
    let (mut acceptor, mut dialler) = (acceptor(10), dialler());
    let (link, ..) = shake(&mut acceptor, &mut dialler, 7, at(0));
    let body = |n: u8| Bytes::from(vec![n; 4 + 60 * usize::from(n)]);
    let mut datagrams: Vec<Vec<u8>> =
        (0..19).map(|n| acceptor.seal(link, &body(n)).expect("there is a link").2.sealed()).collect();
    datagrams[9][30] ^= 1;
    datagrams.push(datagrams[3].clone());
    let burst: Vec<_> = datagrams
        .iter()
        .map(|bytes| match Datagram::read(bytes) {
            Ok(Datagram::Sealed(sealed)) => (address(1), sealed),
            other => panic!("{other:?} is of no link"),
        })
        .collect();
    let mut acts = Vec::new();
    let taken = dialler.open_each(&burst, &mut acts);
    let mut wanted = vec![Ok(()); 20];
    (wanted[9], wanted[19]) = (Err(Dropped::Tag), Err(Dropped::Replayed));
    assert_eq!(taken, wanted);
    let bodies = (0..19).filter(|n| *n != 9).map(|n| Act::Body { peer: PEER, body: body(n) });
    assert_eq!(acts, bodies.collect::<Vec<Act>>(), "in the order in which they came");
}

//! Who hears of a result, when, and in which form (TK12, 3.5).

use synod_machine::{Effect, Event, Link};
use synod_service::{
    Answered, Attach, ClientMessage, CommandResult, ExecutorLimits, Reply, Said, body_digest,
};
use synod_wire::{Blob, Bytes, Wire};

use crate::alone::{Alone, GUEST, OTHER, faults, frame, item, replies, results, scope, signed};
use crate::world::{Setup, keys};

fn attach(member: u8, counter: u64, by: u8) -> ClientMessage {
    let said = Said::Channel { session: 1, member, counter };
    let signature = keys(by).sign(scope(), GUEST, said).signature;
    ClientMessage::Attach(Attach { session: 1, member, counter, signature })
}

/// A connection that ends is forgotten by what it waited for and by the sessions that replied to it; other waiters
/// and the items stay.
#[test]
fn a_client_that_disconnects_is_forgotten_and_what_it_sent_is_executed() {
    let mut alone = Alone::open(Setup::default());
    let one = signed(frame(1, 0, &["inc n"]), 100);
    let two = signed(frame(2, 0, &["inc n"]), 100);
    alone.say(GUEST, item(&one));
    alone.say(GUEST, item(&two));
    alone.say(OTHER, item(&two));
    let bytes = synod_machine::Bounded::bytes(&alone.executor);
    alone.step(Event::Link { peer: GUEST, link: Link::Down });
    assert!(replies(&alone.entry(&one)).is_empty(), "nobody is left to hear of it");
    let effects = alone.entry(&two);
    assert!(matches!(&replies(&effects)[..], [(OTHER, Reply::Executed { first: 2, .. })]), "{effects:?}");
    assert!(synod_machine::Bounded::bytes(&alone.executor) < bytes + (64 << 10));
}

#[test]
fn the_member_named_sends_the_body_and_the_others_its_digest() {
    for (full, expect_body) in [(0, true), (3, false), (77, false)] {
        let mut alone = Alone::open(Setup::default());
        let payload = signed(frame(1, full, &["big 10000"]), 100);
        alone.say(GUEST, item(&payload));
        let sent = replies(&alone.entry(&payload));
        let [(to, Reply::Executed { answer, .. })] = &sent[..] else { unreachable!("{sent:?}") };
        assert_eq!((*to, matches!(answer, Answered::Body(_))), (GUEST, expect_body));
        // A retry is answered in full by all, at once, with the same digest.
        let again = alone.say(GUEST, item(&payload));
        let body = results(&again).encode();
        let digest = match answer {
            Answered::Digest(digest) => *digest,
            Answered::Body(body) => body_digest(body),
            Answered::Gone(_) => unreachable!("just executed"),
        };
        assert_eq!(body_digest(&body), digest);
    }
}

#[test]
fn a_retry_beyond_ring_and_cache_says_that_the_result_is_too_old() {
    let limits = ExecutorLimits { ring_bytes: 15_000, ..Setup::default().limits };
    let mut alone = Alone::open(Setup { limits, ..Setup::default() });
    let old = signed(frame(1, 0, &["big 10000"]), 100);
    alone.entry(&old);
    alone.entry(&signed(frame(2, 0, &["big 10000"]), 100));
    let sent = replies(&alone.say(GUEST, item(&old)));
    assert!(matches!(&sent[..], [(_, Reply::Executed { answer: Answered::Gone(_), .. })]), "{sent:?}");
    let newer = alone.say(GUEST, item(&signed(frame(2, 0, &["big 10000"]), 100)));
    assert_eq!(results(&newer).first, 2);
}

#[test]
fn a_thousand_commands_are_one_reply() {
    let mut alone = Alone::open(Setup::default());
    let commands = vec!["inc n"; 1_024];
    let payload = signed(frame(1, 0, &commands), 100);
    alone.say(GUEST, item(&payload));
    let results = results(&alone.entry(&payload)).results;
    let last = CommandResult::Value(Blob::try_from(Bytes::from("1024")).expect("short"));
    assert_eq!((results.len(), results.last()), (1_024, Some(&last)));
}

#[test]
fn replies_of_a_block_leave_together_when_it_ends_and_before_its_snapshot() {
    let mut alone = Alone::open(Setup::default());
    let frames: Vec<Bytes> = (1..=14).map(|n| signed(frame(n, 0, &["inc n"]), 100)).collect();
    for payload in &frames {
        alone.say(GUEST, item(payload));
        assert_eq!(replies(&alone.entry_of(payload, false)), []);
    }
    let effects = alone.entry_of(&Bytes::new(), true);
    let sends: Vec<usize> =
        (0..effects.len()).filter(|at| matches!(effects[*at], Effect::Send { .. })).collect();
    let stored =
        effects.iter().position(|effect| matches!(effect, Effect::Store { .. })).expect("a checkpoint");
    assert!(matches!(sends[..], [only] if only < stored), "one message, not held by the snapshot");
    assert_eq!(replies(&effects).len(), 14);
}

#[test]
fn the_same_frame_in_flight_is_submitted_once_and_answered_to_all_who_wait() {
    let mut alone = Alone::open(Setup::default());
    let payload = signed(frame(1, 3, &["big 500"]), 100);
    alone.say(GUEST, item(&payload));
    assert_eq!(alone.say(OTHER, item(&payload)).len(), 0);
    let sent = replies(&alone.entry(&payload));
    let full: Vec<_> =
        sent.iter().filter(|(_, r)| matches!(r, Reply::Executed { answer: Answered::Body(_), .. })).collect();
    assert_eq!(
        full.iter().map(|(to, _)| *to).collect::<Vec<_>>(),
        [GUEST, OTHER],
        "a retry is answered in full"
    );
}

#[test]
fn replies_follow_the_newest_attachment_and_no_copy_of_an_older_one() {
    let mut alone = Alone::open(Setup::default());
    let to = |alone: &mut Alone, n| {
        replies(&alone.entry(&signed(frame(n, 0, &["inc n"]), 100))).pop().map(|r| r.0)
    };
    assert_eq!(to(&mut alone, 1), Some(GUEST), "who opened here");
    alone.say(OTHER, attach(0, 2, 100));
    assert_eq!(to(&mut alone, 2), Some(OTHER));
    alone.say(GUEST, attach(0, 2, 100));
    alone.say(GUEST, attach(0, 1, 100));
    alone.say(GUEST, attach(1, 9, 100));
    assert_eq!(faults(&alone.say(GUEST, attach(0, 3, 101))), [(GUEST, "forged_item")]);
    assert_eq!(to(&mut alone, 3), Some(OTHER), "old, meant for another member, forged");
    alone.step(Event::Link { peer: OTHER, link: Link::Down });
    assert_eq!(to(&mut alone, 4), None);
    alone.say(GUEST, attach(0, 3, 100));
    assert_eq!(to(&mut alone, 5), Some(GUEST));
}

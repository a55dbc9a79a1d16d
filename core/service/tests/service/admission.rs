//! What an executor takes from its clients and what it refuses (TK7, TK8).

use synod_machine::Event;
use synod_machine::broadcast::{Delivered, Position, Refusal, Submit, Ticket};
use synod_quorum::NodeId;
use synod_service::{
    ClientAuth, ClientFrame, ClientMessage, CommandResult, ExecutorInput, ExecutorLimits, Item, Opening,
    Refused, Reply, Results, UNSIGNED,
};
use synod_wire::{Blob, Bytes, List};

use crate::alone::{
    Alone, Effects, GUEST, OTHER, faults, frame, item, refused, replies, results, signed, submits,
};
use crate::world::{Setup, keys};

#[test]
fn an_item_is_submitted_with_the_bytes_that_came() {
    let mut alone = Alone::open(Setup::default());
    let payload = signed(frame(1, 0, &["inc n"]), 100);
    let effects = alone.say(GUEST, item(&payload));
    assert!(matches!(&submits(&effects)[..], [Submit::Payload { payload: sent, .. }] if *sent == payload));
    assert_eq!(replies(&effects), [], "nothing is answered before it is committed");
    let done = alone.entry(&payload);
    let expected = Results {
        session: 1,
        first: 1,
        position: Position(2),
        results: List::try_from(vec![CommandResult::Value(Blob::try_from(Bytes::from("1")).expect("short"))])
            .expect("one"),
    };
    assert_eq!(results(&done), expected);
    assert_eq!(submits(&done), [Submit::Applied { position: Position(2), root: None }]);
}

#[test]
fn an_admitted_item_does_not_keep_the_memory_it_was_received_in() {
    let mut alone = Alone::open(Setup::default());
    let payload = signed(frame(1, 0, &["inc n"]), 100);
    let mut received = vec![9; 1 << 20];
    received[1_000..1_000 + payload.len()].copy_from_slice(&payload);
    let received = Bytes::from(received);
    let effects = alone.say(GUEST, item(&received.slice(1_000..1_000 + payload.len())));
    let submitted = submits(&effects);
    let [Submit::Payload { payload: sent, .. }] = &submitted[..] else { unreachable!("{submitted:?}") };
    assert_eq!(*sent, payload);
    assert!(!received.as_ptr_range().contains(&sent.as_ptr()));
}

/// Section 6: a connection that is refused more than a hundred times in a minute is cut, and no other.
#[test]
fn a_client_that_is_refused_too_often_is_cut() {
    let mut alone = Alone::open(Setup::default());
    let cut = |effects: &Effects| faults(effects).contains(&(OTHER, "quota_exceeded"));
    for n in 0..100 {
        let outside = signed(frame(1 << 20 | n, 0, &["inc n"]), 100);
        let effects = alone.say(OTHER, item(&outside));
        assert!(!cut(&effects), "{n} were borne");
        assert!(matches!(
            &replies(&effects)[..],
            [(OTHER, Reply::Refused { why: Refused::OutsideWindow, .. })]
        ));
    }
    let forged = signed(frame(1, 0, &["inc n"]), 101);
    assert!(!cut(&alone.say(GUEST, item(&forged))), "another connection has its own count");
    let effects = alone.say(OTHER, item(&forged));
    assert!(cut(&effects), "{:?}", faults(&effects));
    let again = alone.say(OTHER, item(&forged));
    assert!(!cut(&again), "said once");
}

/// 4.14: openings, which anybody can make, have a part of the pool and each connection its share of that part.
#[test]
fn openings_leave_the_pool_to_frames_and_a_share_to_other_connections() {
    let mut setup = Setup::default();
    setup.limits = ExecutorLimits { pool_items: 64, ..setup.limits };
    let mut alone = Alone::open(setup);
    let opening =
        |nonce| signed(Item::Open(Opening { key: keys(101).public(), nonce, signature: UNSIGNED }), 101);
    let taken = |effects: &Effects| !submits(effects).is_empty();
    let flood = (0..64).filter(|nonce| taken(&alone.say(OTHER, item(&opening(100 + nonce))))).count();
    assert_eq!(flood, 8, "an eighth of the pool");
    let first = signed(frame(1, 0, &["inc n"]), 100);
    assert!(taken(&alone.say(GUEST, item(&first))), "frames have room");
    let executed = (0..4).map(|nonce| opening(100 + nonce)).collect::<Vec<_>>();
    executed.iter().for_each(|payload| drop(alone.entry(payload)));
    assert!(taken(&alone.say(NodeId(130), item(&opening(7)))), "another connection");
    let more = (0..8).filter(|nonce| taken(&alone.say(OTHER, item(&opening(200 + nonce))))).count();
    assert_eq!(more, 0, "the flood has had its share");
    assert!(taken(&alone.say(NodeId(130), item(&opening(8)))));
}

/// TK7.
#[test]
fn a_bad_frame_signature_is_refused_blamed_and_never_ordered() {
    let mut alone = Alone::open(Setup::default());
    let forged = signed(frame(1, 0, &["inc n"]), 101);
    let effects = alone.say(GUEST, item(&forged));
    assert_eq!(refused(&effects), Some(Refused::BadSignature));
    assert_eq!((submits(&effects), faults(&effects)), (Vec::new(), vec![(GUEST, "forged_item")]));
}

/// TK8.
#[test]
fn over_its_budget_a_session_is_busy_and_others_are_not() {
    let limits = ExecutorLimits { session_items: 2, ..Setup::default().limits };
    let mut alone = Alone::open(Setup { limits, ..Setup::default() });
    let second = Item::Open(Opening { key: keys(101).public(), nonce: 1, signature: UNSIGNED });
    alone.entry(&signed(second, 101));
    for n in 1..=2 {
        assert_eq!(submits(&alone.say(GUEST, item(&signed(frame(n, 0, &["inc n"]), 100)))).len(), 1);
    }
    let third = signed(frame(3, 0, &["inc n"]), 100);
    assert!(matches!(refused(&alone.say(GUEST, item(&third))), Some(Refused::Busy { retry_ms: 1.. })));
    let Item::Frame(other) = frame(1, 0, &["inc n"]) else { unreachable!("a frame") };
    let other = signed(Item::Frame(ClientFrame { session: 2, ..other }), 101);
    assert_eq!(submits(&alone.say(OTHER, item(&other))).len(), 1);
    alone.entry(&signed(frame(1, 0, &["inc n"]), 100));
    assert_eq!(submits(&alone.say(GUEST, item(&third))).len(), 1, "what was executed makes room");
}

/// TK8.
#[test]
fn from_half_of_the_pool_on_a_session_keeps_to_its_share() {
    let limits = ExecutorLimits { pool_bytes: 10_000, session_bytes: 9_000, ..Setup::default().limits };
    let mut alone = Alone::open(Setup { limits, ..Setup::default() });
    let second = Item::Open(Opening { key: keys(101).public(), nonce: 1, signature: UNSIGNED });
    alone.entry(&signed(second, 101));
    let big = "x".repeat(2_400);
    let Item::Frame(other) = frame(1, 0, &["small"]) else { unreachable!("a frame") };
    alone.say(OTHER, item(&signed(Item::Frame(ClientFrame { session: 2, ..other.clone() }), 101)));
    let taken = (1..=3).map(|n| submits(&alone.say(GUEST, item(&signed(frame(n, 0, &[&big]), 100)))).len());
    assert_eq!(taken.collect::<Vec<_>>(), [1, 1, 0], "two sessions, 5,000 bytes each");
    let next = signed(Item::Frame(ClientFrame { session: 2, first: 2, ..other }), 101);
    assert_eq!(submits(&alone.say(OTHER, item(&next))).len(), 1, "the other is below its share");
}

#[test]
fn a_refusal_of_the_ordering_layer_reaches_the_client_and_frees_the_name() {
    let mut alone = Alone::open(Setup::default());
    let payload = signed(frame(1, 0, &["inc n"]), 100);
    let submit = submits(&alone.say(GUEST, item(&payload))).pop();
    let Some(Submit::Payload { ticket, .. }) = submit else { unreachable!("{submit:?}") };
    let why = Refusal::Busy { retry_ms: 77 };
    let effects = alone.step(Event::Input(ExecutorInput::Delivered(Delivered::Refused { ticket, why })));
    assert_eq!(refused(&effects), Some(Refused::Busy { retry_ms: 77 }));
    assert_eq!(submits(&alone.say(GUEST, item(&payload))).len(), 1);
    let unknown = Delivered::Refused { ticket: Ticket(999), why };
    assert_eq!(alone.step(Event::Input(ExecutorInput::Delivered(unknown))).len(), 0);
}

#[test]
fn sequences_outside_the_window_other_bytes_and_unknown_sessions_are_refused() {
    let mut alone = Alone::open(Setup::default());
    let refuse = |alone: &mut Alone, item_of: Item| refused(&alone.say(GUEST, item(&signed(item_of, 100))));
    assert_eq!(refuse(&mut alone, frame(1_025, 0, &["inc n"])), Some(Refused::OutsideWindow));
    assert_eq!(refuse(&mut alone, frame(1_024, 0, &["inc n", "inc n"])), Some(Refused::OutsideWindow));
    assert_eq!(refuse(&mut alone, frame(1_024, 0, &["inc n"])), None);
    assert_eq!(refuse(&mut alone, frame(1_024, 0, &["inc m"])), Some(Refused::Reused));
    let Item::Frame(own) = frame(1, 0, &["inc n"]) else { unreachable!("a frame") };
    alone.entry(&signed(frame(1, 0, &["inc n"]), 100));
    let foreign = Item::Frame(ClientFrame { session: 2, ..own });
    assert_eq!(refuse(&mut alone, foreign), Some(Refused::UnknownSession));
}

#[test]
fn what_lies_ahead_of_a_node_is_refused_for_the_moment_only() {
    let mut alone = Alone::open(Setup::default());
    let refuse = |alone: &mut Alone, item_of: Item| refused(&alone.say(GUEST, item(&signed(item_of, 100))));
    let Item::Frame(own) = frame(1, 0, &["inc n"]) else { unreachable!("a frame") };
    let at = |first, acked| Item::Frame(ClientFrame { first, acked, ..own.clone() });
    let unopened = Item::Frame(ClientFrame { session: 9, ..own.clone() });
    assert_eq!(refuse(&mut alone, unopened), Some(Refused::NotReady));
    assert_eq!(refuse(&mut alone, at(1_026, 1_026)), Some(Refused::NotReady));
    assert_eq!(refuse(&mut alone, at(1_025, 1_025)), None);
}

#[test]
fn channel_mode_takes_unsigned_items_and_signed_mode_does_not() {
    let unsigned = Item::Open(Opening { key: keys(100).public(), nonce: 1, signature: UNSIGNED }).payload();
    let mut channel = Alone::new(Setup { auth: ClientAuth::Channel, ..Setup::default() });
    assert_eq!(submits(&channel.say(GUEST, item(&unsigned))).len(), 1);
    channel.entry(&unsigned);
    let payload = frame(1, 0, &["inc n"]).payload();
    channel.say(GUEST, item(&payload));
    assert_eq!(results(&channel.entry(&payload)).position, Position(2));
    let mut strict = Alone::new(Setup::default());
    assert_eq!(refused(&strict.say(GUEST, item(&unsigned))), Some(Refused::BadSignature));
    strict.entry(&unsigned);
    assert_eq!(strict.executor.sessions().count(), 0);
}

#[test]
fn what_guests_send_that_no_guest_may_is_blamed() {
    let mut alone = Alone::open(Setup::default());
    let junk = ClientMessage::Item(Blob::try_from(Bytes::from_static(b"junk")).expect("short"));
    assert_eq!(faults(&alone.say(GUEST, junk)), [(GUEST, "undecodable_item")]);
    let fetch = synod_service::FetchState { position: Position(16), part: synod_service::Part::Summary };
    assert_eq!(faults(&alone.say(GUEST, ClientMessage::FetchState(fetch))), [(GUEST, "out_of_role")]);
    let batch = synod_service::ReplyBatch { leader: None, replies: List::default() };
    assert_eq!(faults(&alone.say(NodeId(1), ClientMessage::Replies(batch))), [(NodeId(1), "out_of_role")]);
}

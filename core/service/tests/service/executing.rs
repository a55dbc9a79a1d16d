//! One executor alone: admission, order of effects, skipping, replies (TK7, TK8, TK12, 3.5).

use synod_crypto::Scope;
use synod_machine::broadcast::{Delivered, Entry, Origin, Position, Refusal, Submit, Ticket};
use synod_machine::{Effect, Event, Link, Machine, To, Wall, testing};
use synod_quorum::{Epoch, NodeId};
use synod_service::executor::ExecutorRecord;
use synod_service::{
    Answered, Attach, ClientAuth, ClientFrame, ClientMessage, CommandResult, Executor, ExecutorInput,
    ExecutorLimits, ExecutorOutput, Item, Opening, Refused, Reply, Results, Said, UNSIGNED, body_digest,
};
use synod_wire::{Blob, Bytes, Limits, List, Wire};

use crate::board::Board;
use crate::world::{CLUSTER, Setup, World, keys};

const GUEST: NodeId = NodeId(128);
const OTHER: NodeId = NodeId(129);

fn scope() -> Scope {
    Scope { cluster: CLUSTER, epoch: Epoch(0) }
}

fn signed(item: Item, by: u8) -> Bytes {
    let said = item.said(&item.payload());
    let signature = keys(by).sign(scope(), GUEST, said).signature;
    item.signed(signature).payload()
}

fn opening() -> Bytes {
    signed(Item::Open(Opening { key: keys(100).public(), nonce: 1, signature: UNSIGNED }), 100)
}

fn frame(first: u64, full: u8, commands: &[&str]) -> Item {
    let commands =
        commands.iter().map(|one| Blob::try_from(Bytes::copy_from_slice(one.as_bytes())).expect("short"));
    let commands = List::try_from(commands.collect::<Vec<_>>()).expect("bounded");
    Item::Frame(ClientFrame { session: 1, first, acked: 1, full, commands, signature: UNSIGNED })
}

fn item(payload: &Bytes) -> ClientMessage {
    ClientMessage::Item(Blob::try_from(payload.clone()).expect("bounded"))
}

/// One executor, its jobs run at once; effects without jobs come back in order.
struct Alone {
    executor: Executor<Board>,
    position: u64,
}

type Effects = Vec<Effect<Executor<Board>>>;

impl Alone {
    fn new(setup: Setup) -> Self {
        let mut world = World::new(setup);
        Self { executor: world.nodes.remove(0).machine.expect("running"), position: 0 }
    }

    /// With session 1 open, its replies going to `GUEST`.
    fn open(setup: Setup) -> Self {
        let mut alone = Self::new(setup);
        alone.say(GUEST, item(&opening()));
        alone.entry(&opening());
        alone
    }

    fn step(&mut self, event: Event<Executor<Board>>) -> Effects {
        let mut out = Vec::new();
        let mut todo = vec![event];
        while let Some(event) = todo.pop() {
            for effect in testing::effects(&mut self.executor, event, synod_machine::Time(5)) {
                match effect {
                    Effect::Compute(job) => todo.push(Event::Done(synod_machine::Job::run(job, &keys(200)))),
                    other => out.push(other),
                }
            }
        }
        out
    }

    fn say(&mut self, from: NodeId, message: ClientMessage) -> Effects {
        self.step(Event::Message { from, message })
    }

    fn entry(&mut self, payload: &Bytes) -> Effects {
        self.entry_of(payload, true)
    }

    fn entry_of(&mut self, payload: &Bytes, last: bool) -> Effects {
        self.position += 1;
        let entry = Entry {
            position: Position(self.position),
            time: Wall(1_000),
            last,
            origin: Origin::Member(NodeId(2)),
            payload: payload.clone(),
            proof: None,
        };
        self.step(Event::Input(ExecutorInput::Delivered(Delivered::Entry(entry))))
    }
}

fn replies(effects: &Effects) -> Vec<(NodeId, Reply)> {
    let batches = effects.iter().filter_map(|effect| match effect {
        Effect::Send { to: To::Node(to), message: ClientMessage::Replies(batch) } => Some((*to, batch)),
        _ => None,
    });
    batches.flat_map(|(to, batch)| batch.replies.iter().map(move |reply| (to, reply.clone()))).collect()
}

fn submits(effects: &Effects) -> Vec<Submit> {
    let outputs = effects.iter().filter_map(|effect| match effect {
        Effect::Output(ExecutorOutput::Submit(submit)) => Some(submit.clone()),
        _ => None,
    });
    outputs.collect()
}

fn faults(effects: &Effects) -> Vec<(NodeId, &'static str)> {
    let blames = effects.iter().filter_map(|effect| match effect {
        Effect::Blame { peer, fault } => Some((*peer, fault.name)),
        _ => None,
    });
    blames.collect()
}

fn refused(effects: &Effects) -> Option<Refused> {
    match &replies(effects)[..] {
        [(_, Reply::Refused { why, .. })] => Some(*why),
        _ => None,
    }
}

fn results(effects: &Effects) -> Results {
    match &replies(effects)[..] {
        [(_, Reply::Executed { answer: Answered::Body(body), .. })] => {
            Results::decode(body.bytes().clone(), &Limits::default()).expect("own results")
        }
        other => unreachable!("no body: {other:?}"),
    }
}

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

/// TK7.
#[test]
fn a_forgery_that_a_member_proposes_is_skipped_and_counts_against_it() {
    let mut alone = Alone::open(Setup::default());
    let before = alone.executor.sessions().get(1).cloned();
    let effects = alone.entry(&signed(frame(1, 0, &["inc n"]), 101));
    assert_eq!(faults(&effects), [(NodeId(2), "suspected_forgery")]);
    assert_eq!(submits(&effects), [Submit::Applied { position: Position(2), root: None }]);
    assert_eq!(alone.executor.sessions().get(1).cloned(), before, "nothing of it was acknowledged");
    assert_eq!(alone.executor.app().values.len(), 0);
    let effects = alone.entry(&Bytes::from_static(b"\x01no item"));
    assert_eq!(faults(&effects), [(NodeId(2), "suspected_forgery")]);
    let effects = alone.entry(&Bytes::new());
    assert_eq!((faults(&effects), alone.executor.executed()), (Vec::new(), Position(4)));
    assert_eq!(
        results(&{
            alone.say(GUEST, item(&signed(frame(1, 0, &["inc n"]), 100)));
            alone.entry(&signed(frame(1, 0, &["inc n"]), 100))
        })
        .position,
        Position(5)
    );
}

#[test]
fn a_frame_of_a_session_opened_just_before_it_waits_for_the_opening() {
    let mut alone = Alone::new(Setup::default());
    alone.entry_of(&opening(), false);
    let effects = alone.entry(&signed(frame(1, 0, &["put a 1"]), 100));
    assert_eq!(alone.executor.app().executed, [(1, 1)]);
    assert_eq!(submits(&effects), [Submit::Applied { position: Position(2), root: None }]);
    let mut late = Alone::new(Setup::default());
    late.entry(&signed(frame(1, 0, &["put a 1"]), 100));
    assert_eq!((late.executor.app().executed.len(), late.executor.executed()), (0, Position(1)));
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
fn results_that_do_not_fit_a_body_are_marked_and_the_frame_still_executes() {
    let mut alone = Alone::open(Setup::default());
    let payload = signed(frame(1, 0, &["big 2000000", "big 2000000", "inc n"]), 100);
    alone.say(GUEST, item(&payload));
    let results = results(&alone.entry(&payload)).results.into_vec();
    assert!(matches!(
        &results[..],
        [CommandResult::Value(_), CommandResult::Oversize, CommandResult::Value(_)]
    ));
    assert_eq!(alone.executor.app().executed.len(), 3);
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
fn a_root_leaves_after_the_snapshot_behind_it() {
    let mut alone = Alone::open(Setup::default());
    for _ in 2..16 {
        let effects = alone.entry(&Bytes::new());
        assert!(matches!(submits(&effects)[..], [Submit::Applied { root: None, .. }]));
    }
    let effects = alone.entry_of(&Bytes::new(), false);
    let place = |of: &dyn Fn(&Effect<Executor<Board>>) -> bool| effects.iter().position(of).expect("there");
    let stored = effects.iter().rposition(|effect| matches!(effect, Effect::Store { .. })).expect("there");
    let record = place(&|effect| matches!(effect, Effect::Persist(ExecutorRecord::Taken(_))));
    let root = place(&|effect| {
        matches!(effect, Effect::Output(ExecutorOutput::Submit(Submit::Applied { root: Some(_), .. })))
    });
    assert!(stored < record && record < root, "blobs, record, root: {effects:?}");
    assert_eq!(alone.executor.resume_position(), Position(16));
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

fn attach(member: u8, counter: u64, by: u8) -> ClientMessage {
    let said = Said::Channel { session: 1, member, counter };
    let signature = keys(by).sign(scope(), GUEST, said).signature;
    ClientMessage::Attach(Attach { session: 1, member, counter, signature })
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

#[test]
fn a_slow_executor_takes_no_more_than_its_lag() {
    let limits = ExecutorLimits { lag_bytes: 2_000, ..Setup::default().limits };
    let mut alone = Alone::open(Setup { limits, ..Setup::default() });
    assert_eq!(alone.executor.room(), u32::MAX);
    // Signatures that are never checked keep what is delivered waiting.
    let mut held = 0;
    while alone.executor.room() > 0 {
        held += 1;
        let entry = Entry {
            position: Position(alone.position + held),
            time: Wall(1_000),
            last: true,
            origin: Origin::Member(NodeId(2)),
            payload: signed(frame(held, 0, &["inc n"]), 100),
            proof: None,
        };
        let event = Event::Input(ExecutorInput::Delivered(Delivered::Entry(entry)));
        testing::effects(&mut alone.executor, event, synod_machine::Time(5));
    }
    assert!((3..10).contains(&held), "{held} frames of some 400 bytes");
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

#[test]
fn status_and_proofs_pass_through() {
    let mut alone = Alone::open(Setup::default());
    let prove = alone.step(Event::Input(ExecutorInput::Prove(Position(1))));
    assert_eq!(submits(&prove), [Submit::Prove(Position(1))]);
    let proof = Delivered::Proof { position: Position(1), proof: None };
    let answered = alone.step(Event::Input(ExecutorInput::Delivered(proof)));
    assert!(matches!(
        answered[..],
        [Effect::Output(ExecutorOutput::Proof { position: Position(1), proof: None })]
    ));
    let status = alone.step(Event::Input(ExecutorInput::Status));
    let [Effect::Output(ExecutorOutput::Status(status))] = &status[..] else { unreachable!("{status:?}") };
    assert_eq!((status.executed, status.sessions, status.pool_items, status.lag), (Position(1), 1, 0, 0));
}

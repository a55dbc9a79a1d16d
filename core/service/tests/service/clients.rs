//! Clients against liars, silence, overload and closed sessions (TK5, TK10, TK12, TK13).

use synod_machine::{Event, Link, Span, Time};
use synod_quorum::NodeId;
use synod_service::client::{Doubt, Rejection};
use synod_service::{
    Answered, ClientInput, ClientMessage, ExecutorLimits, Item, Outcome, Refused, Reply, Results,
};
use synod_wire::{Blob, Bytes, Limits, List, Wire};

use crate::world::{Lie, Setup, World};

fn rewrite(message: &mut ClientMessage, with: impl Fn(Reply) -> Reply) -> bool {
    if let ClientMessage::Replies(batch) = message {
        let replies: Vec<Reply> = batch.replies.iter().cloned().map(with).collect();
        batch.replies = List::try_from(replies).expect("as many");
    }
    true
}

/// Every result says something else.
fn wrong(message: &mut ClientMessage) -> bool {
    rewrite(message, |reply| match reply {
        Reply::Executed { session, first, answer } => {
            let body = match answer {
                Answered::Body(body) => {
                    let mut results =
                        Results::decode(body.into_bytes(), &Limits::default()).expect("results");
                    results.position.0 += 1;
                    results.encode()
                }
                _ => Bytes::from_static(b"no results at all"),
            };
            Reply::Executed { session, first, answer: Answered::Body(Blob::try_from(body).expect("short")) }
        }
        other => other,
    })
}

fn unknown_session(message: &mut ClientMessage) -> bool {
    rewrite(message, |reply| match reply {
        Reply::Executed { session, first, .. } => {
            Reply::Refused { session, first, why: Refused::UnknownSession }
        }
        other => other,
    })
}

/// Says nothing of who leads, so that the client stays with its nearest node.
fn of_no_leader(message: &mut ClientMessage) -> bool {
    if let ClientMessage::Replies(batch) = message {
        batch.leader = None;
    }
    true
}

fn silent(message: &mut ClientMessage) -> bool {
    !matches!(message, ClientMessage::Replies(_))
}

fn digests_only(message: &mut ClientMessage) -> bool {
    rewrite(message, |reply| match reply {
        Reply::Executed { session, first, answer: Answered::Body(body) } => {
            Reply::Executed { session, first, answer: Answered::Digest(synod_service::body_digest(&body)) }
        }
        other => other,
    })
}

fn opened(setup: Setup) -> World {
    let mut world = World::new(setup);
    let tags = world.submit(0, &["put a 1"]);
    world.run_until("the session", |world| world.all_answered(0, &tags));
    world.run_for(Span::millis(10));
    world
}

/// TK5, H30.
#[test]
fn one_lying_replica_changes_no_answer_and_is_named() {
    for liar in 0..4 {
        let mut world = opened(Setup { seed: liar, ..Setup::default() });
        let at = usize::try_from(liar).expect("small");
        world.nodes[at].lie = Some(wrong);
        for round in 1..=20 {
            let tags = world.submit(0, &["inc n", "get n"]);
            world.run_until("the answers", |world| world.all_answered(0, &tags));
            assert_eq!(world.value(0, tags[1]), Some(round.to_string()));
        }
        world.run_for(Span::secs(1));
        let liar = NodeId(u32::try_from(liar).expect("small"));
        assert_eq!(world.guests[0].machine.deviants().iter().collect::<Vec<_>>(), [liar]);
        assert!(world.guests[0].blamed.contains(&(liar, "contradicted_result")));
        assert!(world.guests[0].blamed.iter().all(|(node, _)| *node == liar), "nobody else is blamed");
    }
}

/// The opening reached a node only after its execution: there was nobody to reply to then, and later frames go to others.
#[test]
fn a_node_that_never_heard_where_replies_go_is_told_and_its_lies_are_named() {
    let mut world = World::new(Setup::default());
    for honest in [0, 1, 3] {
        world.nodes[honest].lie = Some(of_no_leader);
    }
    world.nodes[2].deaf = true;
    let tags = world.submit(0, &["put a 1"]);
    world.run_until("the session", |world| world.all_answered(0, &tags));
    world.run_for(Span::millis(10));
    world.nodes[2].deaf = false;
    world.nodes[2].lie = Some(wrong);
    let attaches = |world: &World| {
        let to = |(to, message): &&(NodeId, ClientMessage)| {
            *to == NodeId(2) && matches!(message, ClientMessage::Attach(_))
        };
        world.guests[0].sent.iter().filter(to).count()
    };
    let before = attaches(&world);
    for _ in 0..30 {
        let tags = world.submit(0, &["inc n"]);
        world.run_until("the answer", |world| world.all_answered(0, &tags));
        world.run_for(Span::millis(100));
    }
    assert!(world.guests[0].blamed.contains(&(NodeId(2), "contradicted_result")));
    assert_eq!(attaches(&world) - before, 1, "a node that answers is told no more");
}

/// TK13.
#[test]
fn one_liar_that_knows_no_session_causes_no_failure_and_no_new_session() {
    for liar in 0..4 {
        let mut world = opened(Setup::default());
        let session = world.guests[0].machine.session();
        world.nodes[liar].lie = Some(unknown_session);
        for _ in 0..10 {
            let tags = world.submit(0, &["inc n"]);
            world.run_until("the answer", |world| world.all_answered(0, &tags));
            assert!(world.value(0, tags[0]).is_some());
        }
        assert_eq!(world.guests[0].machine.session(), session);
    }
}

#[test]
fn nodes_that_have_not_come_to_the_opening_lose_no_session() {
    let mut world = World::new(Setup::default());
    world.nodes[2].paused = true;
    world.nodes[3].paused = true;
    let tags = world.submit(0, &["inc n"]);
    world.run_until("the session", |world| world.guests[0].machine.session().is_some());
    let session = world.guests[0].machine.session();
    world.orders = false;
    let more = world.submit(0, &["inc n"]);
    world.run_for(Span::secs(2));
    world.orders = true;
    world.run_until("the answers", |world| world.all_answered(0, &tags) && world.all_answered(0, &more));
    assert_eq!(world.value(0, more[0]), Some("2".to_owned()));
    assert_eq!(world.guests[0].machine.session(), session);
}

#[test]
fn what_was_lost_with_all_nodes_is_sent_again_as_soon_as_they_are_back() {
    let mut world = opened(Setup::default());
    (0..4).for_each(|at| world.crash(at));
    let tags = world.submit(0, &["inc n"]);
    world.run_for(Span::secs(8));
    let back = world.now;
    (0..4).for_each(|at| world.restart(at));
    world.run_until("the answer", |world| world.all_answered(0, &tags));
    assert_eq!(world.value(0, tags[0]), Some("1".to_owned()));
    assert!(world.now.since(back) < Span::millis(500), "it waited for {:?}", world.now.since(back));
}

#[test]
fn a_connection_that_comes_and_goes_is_not_sent_everything_each_time() {
    let mut world = opened(Setup::default());
    world.orders = false;
    world.submit(0, &["inc n"]);
    world.run_for(Span::secs(1));
    let before = world.guests[0].sent.len();
    for _ in 0..100 {
        world.step_guest(0, Event::Link { peer: NodeId(2), link: Link::Up });
    }
    let after = world.guests[0].sent[before..].iter();
    assert_eq!(after.filter(|(_, message)| matches!(message, ClientMessage::Item(_))).count(), 1);
}

#[test]
fn a_client_that_gave_up_windows_of_commands_is_served_again() {
    let mut setup = Setup { window: 64, ..Setup::default() };
    setup.limits.sessions.window = 64;
    let mut world = opened(setup);
    world.orders = false;
    for _ in 0..3 {
        let tags = world.submit_within(0, &["inc lost"; 64], Span::secs(1));
        world.run_until("the deadline", |world| world.all_answered(0, &tags));
        assert!(tags.iter().all(|tag| world.value(0, *tag).is_none()));
    }
    // The ordering layer lost every frame, but no opening.
    world.submitted.retain(|payload| matches!(Item::parse(payload), Ok(Item::Open(_))));
    world.orders = true;
    let tags = world.submit_within(0, &["inc n"], Span::secs(5));
    world.run_until("the answer", |world| world.all_answered(0, &tags));
    assert_eq!(world.value(0, tags[0]), Some("1".to_owned()));
}

/// TK12: a member that owes 10 KiB bodies and does not send them costs one wait, not one per request.
#[test]
fn a_full_member_that_misses_is_asked_once() {
    for lie in [wrong as Lie, silent, digests_only] {
        let mut world = opened(Setup::default());
        world.nodes[0].lie = Some(lie);
        let mut slow = 0;
        for round in 1..=12 {
            let before = world.now;
            let tags = world.submit(0, &["big 10000", "inc n"]);
            world.run_until("the answers", |world| world.all_answered(0, &tags));
            assert_eq!(world.value(0, tags[0]).map(|value| value.len()), Some(10_000));
            assert_eq!(world.value(0, tags[1]), Some(round.to_string()));
            slow += u32::from(world.now.since(before) >= Span::millis(200));
        }
        assert!(slow <= 1, "{slow} of 12 requests waited");
    }
}

#[test]
fn a_dead_nearest_node_costs_one_wait() {
    let mut world = opened(Setup::default());
    world.crash(0);
    let mut slow = 0;
    for _ in 0..10 {
        let before = world.now;
        let tags = world.submit(0, &["inc n"]);
        world.run_until("the answer", |world| world.all_answered(0, &tags));
        slow += u32::from(world.now.since(before) >= Span::millis(200));
    }
    assert!(slow <= 2, "{slow} of 10 requests waited");
}

#[test]
fn a_node_that_contradicts_after_the_decision_is_named_too() {
    let mut world = opened(Setup::default());
    world.nodes[3].lie = Some(wrong);
    world.nodes[3].paused = true;
    let tags = world.submit(0, &["inc n"]);
    world.run_until("the answer", |world| world.all_answered(0, &tags));
    assert!(world.guests[0].blamed.is_empty());
    world.nodes[3].paused = false;
    world.run_for(Span::secs(1));
    assert_eq!(world.guests[0].machine.deviants().iter().collect::<Vec<_>>(), [NodeId(3)]);
}

#[test]
fn a_deadline_leaves_the_outcome_unknown_and_the_session_usable() {
    let mut world = opened(Setup::default());
    world.orders = false;
    let tags = world.submit_within(0, &["inc n"], Span::secs(2));
    world.run_for(Span::secs(3));
    assert!(
        matches!(world.guests[0].outcomes[&tags[0]], Outcome::Unknown(id, Doubt::Deadline) if id.sequence == 2)
    );
    world.orders = true;
    let tags = world.submit(0, &["inc m"]);
    world.run_until("the next", |world| world.all_answered(0, &tags));
    assert_eq!(world.value(0, tags[0]).as_deref(), Some("1"));
    world.check_exactly_once();
}

#[test]
fn without_a_quorum_nothing_is_sent_and_the_deadline_rejects() {
    let mut world = World::new(Setup::default());
    (0..4).for_each(|at| world.crash(at));
    let tags = world.submit_within(0, &["inc n"], Span::secs(2));
    world.run_for(Span::secs(3));
    assert_eq!(world.guests[0].outcomes[&tags[0]], Outcome::Rejected(Rejection::NoQuorum));
    let none = world.submit_within(0, &["inc n"], Span::ZERO);
    assert_eq!(world.guests[0].outcomes[&none[0]], Outcome::Rejected(Rejection::Malformed));
}

/// TK10.
#[test]
fn a_closed_session_makes_what_is_in_flight_unknown_and_opens_another() {
    let mut setup = Setup { clients: 2, ..Setup::default() };
    setup.limits.sessions.sessions_max = 1;
    setup.limits.sessions.idle_ms = 1_000;
    let mut world = opened(setup);
    let first = world.guests[0].machine.session();
    world.now = world.now + Span::secs(5);
    let other = world.submit(1, &["inc n"]);
    world.run_until("the other's session", |world| world.all_answered(1, &other));
    let tags = world.submit(0, &["inc n"]);
    world.run_until("an outcome", |world| world.all_answered(0, &tags));
    assert!(
        matches!(world.guests[0].outcomes[&tags[0]], Outcome::Unknown(id, Doubt::SessionClosed) if Some(id.session) == first)
    );
    world.now = world.now + Span::secs(5);
    let again = world.submit(0, &["inc n"]);
    world.run_until("the new session", |world| world.all_answered(0, &again));
    assert_eq!(world.value(0, again[0]).as_deref(), Some("2"), "the unknown one was not sent again");
    assert_ne!(world.guests[0].machine.session(), first);
    world.check_exactly_once();
}

#[test]
fn a_full_table_keeps_new_clients_waiting_and_lets_them_in_later() {
    let mut setup = Setup { clients: 2, ..Setup::default() };
    setup.limits.sessions.sessions_max = 1;
    setup.limits.sessions.idle_ms = 20_000;
    let mut world = opened(setup);
    let tags = world.submit(1, &["inc n"]);
    world.run_for(Span::secs(5));
    assert!(!world.all_answered(1, &tags));
    world.run_until("a place", |world| world.all_answered(1, &tags));
    assert!(world.now > Time::ZERO + Span::secs(20));
    assert_eq!(world.executor(0).sessions().count(), 1);
}

#[test]
fn openings_that_every_node_submits_are_one_session() {
    let world = opened(Setup::default());
    let openings = world.log.iter().filter(|(payload, ..)| payload.get(1) == Some(&0)).count();
    assert_eq!(openings, 4, "the ideal order filters nothing");
    assert!((0..4).all(|at| world.executor(at).sessions().count() == 1));
}

#[test]
fn a_result_that_nobody_keeps_is_unknown_not_wrong() {
    let limits = ExecutorLimits { ring_bytes: 1, ..Setup::default().limits };
    let mut world = opened(Setup { limits, ..Setup::default() });
    (0..4).for_each(|at| world.nodes[at].lie = Some(silent));
    let tags = world.submit(0, &["big 5000"]);
    world.run_for(Span::millis(100));
    (0..4).for_each(|at| world.nodes[at].lie = None);
    world.run_until("an outcome", |world| world.all_answered(0, &tags));
    assert!(matches!(world.guests[0].outcomes[&tags[0]], Outcome::Unknown(_, Doubt::ResultLost)));
}

#[test]
fn a_busy_cluster_answers_later_and_loses_nothing() {
    let limits = ExecutorLimits { pool_bytes: 1_000, session_bytes: 600, ..Setup::default().limits };
    let mut world = opened(Setup { limits, ..Setup::default() });
    let mut tags = Vec::new();
    for _ in 0..30 {
        tags.extend(world.submit(0, &["inc n"]));
        world.run_for(Span::millis(1));
    }
    world.run_until("all answers", |world| world.all_answered(0, &tags));
    let mut values: Vec<u32> =
        tags.iter().map(|tag| world.value(0, *tag).expect("accepted").parse().expect("a number")).collect();
    values.sort_unstable();
    assert_eq!(values, (1..=30).collect::<Vec<_>>());
    world.check_exactly_once();
}

#[test]
fn the_window_bounds_what_is_in_flight_and_the_queue_what_waits() {
    let mut setup = Setup { window: 64, ..Setup::default() };
    setup.limits.sessions.window = 64;
    let mut world = opened(setup);
    world.orders = false;
    let tags = world.submit(0, &["inc n"; 200]);
    world.run_for(Span::secs(1));
    assert_eq!(world.submitted.iter().collect::<std::collections::BTreeSet<_>>().len(), 1);
    assert_eq!(world.guests[0].machine.outstanding(), 200);
    world.orders = true;
    world.run_until("all answers", |world| world.all_answered(0, &tags));
    assert_eq!(world.value(0, tags[199]).as_deref(), Some("200"));
    let flood = vec!["inc n"; 70_000];
    let tags = world.submit(0, &flood);
    let busy = tags
        .iter()
        .filter(|tag| world.guests[0].outcomes.get(tag) == Some(&Outcome::Rejected(Rejection::Busy)));
    assert_eq!(busy.count(), 70_000 - 65_536);
}

#[test]
fn a_burst_of_single_commands_is_few_frames_and_no_more_than_a_link_takes() {
    let mut world = opened(Setup::default());
    world.submitted.clear();
    world.orders = false;
    let frames = |world: &World| world.submitted.iter().collect::<std::collections::BTreeSet<_>>().len();
    let mut tags = Vec::new();
    for _ in 0..800 {
        tags.extend(world.submit(0, &["inc n"]));
        world.run_for(Span::micros(100));
    }
    world.run_for(Span::secs(1));
    assert_eq!(frames(&world), 64, "those in flight");
    world.orders = true;
    world.run_until("all answers", |world| world.all_answered(0, &tags));
    assert!(frames(&world) <= 64 + 4, "{} frames: what waited shares a few", frames(&world));
    let counts: Vec<Option<String>> = tags.iter().map(|tag| world.value(0, *tag)).collect();
    assert!((1..=800).map(|count| Some(count.to_string())).eq(counts), "executed in the order they came");
    world.check_exactly_once();
}

/// Commands that are due at times far apart share no frame: the first would be told too late.
#[test]
fn a_command_that_is_due_soon_waits_for_none_that_is_due_late() {
    let mut world = opened(Setup::default());
    world.orders = false;
    let soon = world.submit_within(0, &["inc n"], Span::secs(1));
    let late = world.submit_within(0, &["inc n"], Span::secs(9));
    world.run_for(Span::millis(1_100));
    assert!(world.all_answered(0, &soon) && !world.all_answered(0, &late));
}

#[test]
fn closing_names_every_outcome() {
    let mut world = opened(Setup::default());
    world.orders = false;
    let flying = world.submit(0, &["inc n"]);
    world.run_for(Span::millis(1));
    let waiting = world.submit(0, &["inc n"]);
    world.input(0, ClientInput::Close);
    assert!(matches!(world.guests[0].outcomes[&flying[0]], Outcome::Unknown(_, Doubt::Closed)));
    assert_eq!(world.guests[0].outcomes[&waiting[0]], Outcome::Rejected(Rejection::Closed));
    let after = world.submit(0, &["inc n"]);
    assert_eq!(world.guests[0].outcomes[&after[0]], Outcome::Rejected(Rejection::Closed));
    assert_eq!(world.guests[0].machine.outstanding(), 0);
}

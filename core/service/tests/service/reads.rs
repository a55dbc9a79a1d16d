//! Quorum reads: behind their barrier, from a quorum, linearizable with one node down and one lying (TK9, K2).

use synod_machine::broadcast::Position;
use synod_machine::testing::effects;
use synod_machine::{Condition, Effect, Event, Log, Recover, Span, Time};
use synod_quorum::{NodeId, Weights};
use synod_service::client::{ClientTimer, Rejection};
use synod_service::matching::Trust;
use synod_service::{
    Answer, Answered, Client, ClientConfig, ClientInput, ClientMessage, ClientOutput, Command,
    ExecutorOutput, Outcome, Query, ReadMode,
};
use synod_wire::{Blob, Bytes};

use crate::world::{CLUSTER, Setup, World, keys};

const GUEST: NodeId = NodeId(128);

fn read(world: &mut World, guest: usize, key: &str, mode: ReadMode, ordered: bool) -> u64 {
    let tag = world.tag();
    let text = format!("get {key}");
    let fallback = ordered.then(|| Bytes::from(text.clone()));
    let question = Bytes::from(text);
    world.input(guest, ClientInput::Query { tag, question, mode, fallback, deadline: Span::secs(60) });
    tag
}

fn opened(setup: Setup) -> World {
    let mut world = World::new(setup);
    for guest in 0..world.guests.len() {
        let tags = world.submit(guest, &["put a 1"]);
        world.run_until("the session", |world| world.all_answered(guest, &tags));
    }
    world.run_for(Span::millis(10));
    world
}

fn stale(message: &mut ClientMessage) -> bool {
    if let ClientMessage::Answer(answer) = message {
        answer.value = Answered::Body(Blob::try_from(Bytes::from_static(b"0")).expect("short"));
    }
    true
}

#[test]
fn a_read_returns_what_was_acknowledged_before_it() {
    let mut world = opened(Setup::default());
    for round in 1..=10_u32 {
        let tags = world.submit(0, &["inc n"]);
        world.run_until("the write", |world| world.all_answered(0, &tags));
        let tag = read(&mut world, 0, "n", ReadMode::Quorum, false);
        world.run_until("the read", |world| world.all_answered(0, &[tag]));
        assert_eq!(world.value(0, tag), Some(round.to_string()));
    }
    let ordered = world.log.len();
    let tag = read(&mut world, 0, "n", ReadMode::Quorum, false);
    world.run_until("the read", |world| world.all_answered(0, &[tag]));
    assert_eq!(world.log.len(), ordered, "a quorum read orders nothing");
}

/// TK9, K2.
#[test]
fn no_read_is_answered_before_its_barrier() {
    let mut world = opened(Setup::default());
    let question = Blob::try_from(Bytes::from_static(b"get n")).expect("short");
    let query = |id, mode| ClientMessage::Query(Query { id, mode, full: 0, question: question.clone() });
    world.nodes[0].paused = true;
    world.submit(0, &["put n 5"]);
    world.run_for(Span::secs(1));
    world.nodes[0].outputs.clear();
    (0..3).for_each(|id| world.inject(GUEST, 0, query(id, ReadMode::Quorum)));
    world.run_for(Span::secs(1));
    let barriers = |world: &World| {
        let outputs = world.nodes[0].outputs.iter();
        outputs
            .filter(|o| matches!(o, ExecutorOutput::Submit(synod_machine::broadcast::Submit::Barrier(_))))
            .count()
    };
    assert_eq!(barriers(&world), 1, "one barrier serves the reads of a turn");
    let held = world.executor(0).app().values.get("n").cloned();
    assert_eq!(held, None, "the entry in front of the barrier is not delivered");
    let before = world.guests[0].blamed.len();
    // The barrier comes back only behind the entry, whatever else happens meanwhile.
    world.nodes[0].paused = false;
    world.run_for(Span::secs(1));
    assert_eq!(world.executor(0).app().values.get("n").map(String::as_str), Some("5"));
    assert_eq!(world.guests[0].blamed.len(), before);
}

/// TK9: the probe of 4.10: an acknowledged write is executed by two nodes, the others lag, one of the two lies.
#[test]
fn a_stale_majority_and_a_liar_cannot_hide_a_write() {
    for seed in 0..20 {
        let mut world = opened(Setup { seed, ..Setup::default() });
        world.nodes[2].paused = true;
        world.nodes[3].paused = true;
        let tags = world.submit(0, &["put n new"]);
        world.run_until("two nodes answer", |world| world.all_answered(0, &tags));
        world.nodes[1].lie = Some(stale);
        let tag = read(&mut world, 0, "n", ReadMode::Quorum, false);
        world.run_for(Span::secs(2));
        assert!(!world.all_answered(0, &[tag]), "nobody but the first has executed and says the truth");
        world.nodes[2].paused = false;
        world.nodes[3].paused = false;
        world.run_until("the read", |world| world.all_answered(0, &[tag]));
        assert_eq!(world.value(0, tag).as_deref(), Some("new"));
    }
}

/// TK9.
#[test]
fn reads_and_writes_of_two_clients_are_linearizable() {
    for seed in 0..25 {
        let mut world = opened(Setup { clients: 2, seed, ..Setup::default() });
        world.lossy = 20;
        if seed % 2 == 0 {
            world.nodes[3].lie = Some(stale);
        } else {
            world.crash(3);
        }
        // The highest count that any answer showed; every later request must see at least that.
        let mut seen = 0_u64;
        for _ in 0..15 {
            let floor = seen;
            let writer = world.submit(0, &["inc n"])[0];
            for _ in 0..world.from.below(40) {
                world.tick();
            }
            let (ordered, lagging) = (world.from.below(2) == 0, world.from.below(3));
            let lagging = usize::try_from(lagging).expect("small");
            world.nodes[lagging].paused = true;
            let reader = read(&mut world, 1, "n", ReadMode::Quorum, ordered);
            for _ in 0..world.from.below(40) {
                world.tick();
            }
            world.nodes[lagging].paused = false;
            world.run_until("both", |w| w.all_answered(0, &[writer]) && w.all_answered(1, &[reader]));
            let number = |value: Option<String>| value.and_then(|v| v.parse::<u64>().ok()).unwrap_or(0);
            let (written, read) = (number(world.value(0, writer)), number(world.value(1, reader)));
            assert_eq!(written, floor + 1, "seed {seed}: one writer counts by one");
            assert!(
                read >= floor && read <= written,
                "seed {seed}: read {read} between {floor} and {written}"
            );
            seen = written;
        }
    }
}

#[test]
fn a_read_without_a_quorum_of_equal_answers_is_ordered() {
    let mut world = opened(Setup::default());
    world.nodes[2].lie = Some(stale);
    world.crash(3);
    let before = world.log.len();
    let tag = read(&mut world, 0, "a", ReadMode::Quorum, true);
    world.run_until("the order decides", |world| world.all_answered(0, &[tag]));
    assert_eq!(world.value(0, tag).as_deref(), Some("1"));
    assert!(world.log.len() > before);
    let tag = read(&mut world, 0, "a", ReadMode::Quorum, false);
    world.run_until("its deadline", |world| world.all_answered(0, &[tag]));
    assert_eq!(world.guests[0].outcomes[&tag], Outcome::Rejected(Rejection::NoQuorum));
}

#[test]
fn a_large_value_comes_from_the_member_named_or_from_another() {
    let mut world = opened(Setup::default());
    let value = "v".repeat(5_000);
    let tags = world.submit(0, &[&format!("put big {value}")]);
    world.run_until("the write", |world| world.all_answered(0, &tags));
    world.nodes[0].lie = Some(stale);
    for _ in 0..3 {
        let tag = read(&mut world, 0, "big", ReadMode::Quorum, false);
        world.run_until("the read", |world| world.all_answered(0, &[tag]));
        assert_eq!(world.value(0, tag), Some(value.clone()));
    }
}

#[test]
fn a_local_read_believes_one_node_and_asks_no_barrier() {
    let mut world = opened(Setup::default());
    let ordered = world.log.len();
    let tag = read(&mut world, 0, "a", ReadMode::Local, false);
    world.run_quiet();
    assert_eq!((world.value(0, tag).as_deref(), world.log.len()), (Some("1"), ordered));
    assert!(matches!(&world.guests[0].outcomes[&tag], Outcome::Accepted { by, .. } if by.count() == 1));
}

#[test]
fn a_question_nobody_understands_is_rejected_by_a_quorum() {
    let mut world = opened(Setup::default());
    let tag = world.tag();
    let question = Bytes::from_static(b"what?");
    let input =
        ClientInput::Query { tag, question, mode: ReadMode::Quorum, fallback: None, deadline: Span::secs(5) };
    world.input(0, input);
    world.run_until("the answer", |world| world.all_answered(0, &[tag]));
    assert_eq!(world.guests[0].outcomes[&tag], Outcome::Rejected(Rejection::NotUnderstood));
}

#[test]
fn a_read_that_must_be_ordered_finds_the_queue_full_and_is_busy() {
    let trust = Trust::Members(Weights::equal(4));
    let mut config = ClientConfig::new(trust, CLUSTER, keys(100).public(), 1);
    config.queue = 1;
    let log = Log { condition: Condition::Fresh, records: &mut core::iter::empty() };
    let mut client = Client::recover(config, log).expect("a client has no log");
    let mut step = |event| effects(&mut client, event, Time(1));
    let command = Command { tag: 1, body: Bytes::from_static(b"put a 1") };
    step(Event::Input(ClientInput::Submit { commands: vec![command], deadline: Span::secs(9) }));
    let text = Bytes::from_static(b"get a");
    let query = ClientInput::Query {
        tag: 2,
        question: text.clone(),
        mode: ReadMode::Quorum,
        fallback: Some(text),
        deadline: Span::secs(9),
    };
    step(Event::Input(query));
    let outcome =
        (1..=8).flat_map(|round| step(Event::Timer(ClientTimer::Read(round)))).find_map(
            |effect| match effect {
                Effect::Output(ClientOutput::Outcome { tag: 2, outcome, .. }) => Some(outcome),
                _ => None,
            },
        );
    assert_eq!(outcome, Some(Outcome::Rejected(Rejection::Busy)));
}

/// A frame that carries a question may arrive twice; the member that answers it twice, from two states, is honest.
#[test]
fn a_second_answer_from_a_later_state_is_no_lie_and_counts_for_nothing() {
    let config = ClientConfig::new(Trust::Members(Weights::equal(4)), CLUSTER, keys(100).public(), 1);
    let log = Log { condition: Condition::Fresh, records: &mut core::iter::empty() };
    let mut client = Client::recover(config, log).expect("a client has no log");
    let mut step = |event| effects(&mut client, event, Time(1));
    let (question, mode) = (Bytes::from_static(b"get a"), ReadMode::Quorum);
    let query = ClientInput::Query { tag: 2, question, mode, fallback: None, deadline: Span::secs(9) };
    let asked = step(Event::Input(query)).into_iter().find_map(|effect| match effect {
        Effect::Send { message: ClientMessage::Query(query), .. } => Some(query.id),
        _ => None,
    });
    let id = asked.expect("members are asked");
    let mut answer = |node, at, value: &'static [u8]| {
        let value = Answered::Body(Blob::try_from(Bytes::from_static(value)).expect("short"));
        let answer = Answer { id, executed: Position(at), understood: true, value };
        step(Event::Message { from: NodeId(node), message: ClientMessage::Answer(answer) })
    };
    let mut all = Vec::new();
    for (node, at, value) in
        [(0, 8, b"1"), (0, 9, b"2"), (1, 9, b"2"), (2, 9, b"2"), (3, 8, b"1"), (3, 9, b"2")]
    {
        all.extend(answer(node, at, value));
    }
    assert!(!all.iter().any(|effect| matches!(effect, Effect::Blame { .. })), "{all:?}");
    let accepted = all.iter().any(|effect| matches!(effect, Effect::Output(ClientOutput::Outcome { .. })));
    assert!(!accepted, "the second answers of 0 and 3 make no quorum with those of 1 and 2");
}

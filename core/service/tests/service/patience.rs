//! How long one node can keep others busy: a liar's advice, a liar's repetitions, signatures of a block.

use synod_crypto::Scope;
use synod_machine::broadcast::{Delivered, Entry, Origin, Position};
use synod_machine::testing::effects;
use synod_machine::{Bounded, Condition, Effect, Event, Log, Recover, Span, Time, To, Wall};
use synod_quorum::{Epoch, NodeId, Weights};
use synod_service::client::ClientTimer;
use synod_service::matching::Trust;
use synod_service::{
    Answer, Answered, Client, ClientAuth, ClientConfig, ClientFrame, ClientInput, ClientMessage, Command,
    ExecutorInput, Item, Opening, Query, ReadMode, Refused, Reply, ReplyBatch, UNSIGNED,
};
use synod_wire::{Blob, Bytes, List};

use crate::world::{CLUSTER, Setup, World, keys};

/// The longest honest wait for an answer of a node whose latency is not known yet.
const SILENCE: Span = Span::millis(250);
const SECOND: Span = Span::secs(1);

/// A client whose opening is under way.
fn opening_client() -> Client {
    let trust = Trust::Members(Weights::equal(4));
    let mut config = ClientConfig::new(trust, CLUSTER, keys(100).public(), 1);
    config.auth = ClientAuth::Channel;
    let log = Log { condition: Condition::Fresh, records: &mut core::iter::empty() };
    let mut client = Client::recover(config, log).expect("a client has no log");
    let command = Command { tag: 1, body: Bytes::from_static(b"put a 1") };
    let input = ClientInput::Submit { commands: vec![command], deadline: Span::secs(60) };
    step(&mut client, Event::Input(input));
    step(&mut client, Event::Timer(ClientTimer::Flush));
    client
}

fn step(client: &mut Client, event: Event<Client>) -> Vec<Effect<Client>> {
    effects(client, event, Time(SECOND.0))
}

fn hear(client: &mut Client, from: u32, reply: Reply) -> Vec<Effect<Client>> {
    let mut replies = List::default();
    replies.push(reply).expect("room");
    let message = ClientMessage::Replies(ReplyBatch { leader: None, replies });
    step(client, Event::Message { from: NodeId(from), message })
}

fn armed(effects: &[Effect<Client>], of: ClientTimer) -> Option<Span> {
    let mut armed = effects.iter().filter_map(|effect| match effect {
        Effect::Arm { timer, after } if *timer == of => Some(*after),
        _ => None,
    });
    armed.next_back()
}

/// A client with session 9 and one frame in flight.
fn flying_client() -> Client {
    let mut client = opening_client();
    (0..2).for_each(|node| drop(hear(&mut client, node, Reply::Opened { nonce: 1, session: 9 })));
    assert_eq!((client.session(), client.outstanding()), (Some(9), 1));
    client
}

fn busy(first: u64, session: u64, retry_ms: u32) -> Reply {
    Reply::Refused { session, first, why: Refused::Busy { retry_ms } }
}

#[test]
fn a_frame_that_one_node_alone_was_sent_goes_to_all_when_its_link_ends() {
    let down = |client: &mut Client, node| {
        let event = Event::Link { peer: NodeId(node), link: synod_machine::Link::Down };
        let sent = step(client, event).into_iter().filter_map(|effect| match effect {
            Effect::Send { to, message: ClientMessage::Item(_) } => Some(to),
            _ => None,
        });
        sent.collect::<Vec<_>>()
    };
    let told = (0..4).map(|node| down(&mut flying_client(), node)).collect::<Vec<_>>();
    let all: Vec<To> = (0..4).map(|node| NodeId(node).into()).collect();
    let (alone, others): (Vec<_>, Vec<_>) = told.iter().partition(|to| !to.is_empty());
    assert_eq!(alone, [&all], "one node had the frame, and all have it now");
    assert_eq!(others.len(), 3);
    // Once: links that flap cost nothing more.
    let mut client = flying_client();
    let sent: usize = (0..2).flat_map(|_| 0..4).map(|node| down(&mut client, node).len()).sum();
    assert_eq!(sent, 4);
}

#[test]
fn one_nodes_advice_to_come_back_later_delays_no_more_than_its_silence() {
    let mut client = flying_client();
    let told = hear(&mut client, 0, busy(1, 9, u32::MAX));
    let after = armed(&told, ClientTimer::Retry(1)).expect("it asks again");
    assert!(after <= SILENCE, "{after}");
    let mut client = opening_client();
    let told = hear(&mut client, 3, busy(1, 0, u32::MAX));
    assert!(armed(&told, ClientTimer::Open).is_none_or(|after| after <= SILENCE.times(2)));
    let told = hear(&mut client, 3, busy(1, 0, u32::MAX));
    assert_eq!(armed(&told, ClientTimer::Open), None, "repeating it moves nothing");
}

#[test]
fn the_advice_of_a_weak_quorum_is_followed_up_to_ten_seconds() {
    let mut client = flying_client();
    hear(&mut client, 0, busy(1, 9, 3_000));
    let told = hear(&mut client, 1, busy(1, 9, 3_000));
    let after = armed(&told, ClientTimer::Retry(1)).expect("it asks again");
    assert!(after >= Span::secs(3) && after <= Span::secs(4), "{after}");
    let told = hear(&mut client, 2, busy(1, 9, u32::MAX));
    let after = armed(&told, ClientTimer::Retry(1)).expect("it asks again");
    assert!(after <= Span::secs(13), "{after}");
}

#[test]
fn answers_repeated_by_one_node_take_no_memory() {
    let mut client = flying_client();
    let question = Bytes::from_static(b"get a");
    let mode = ReadMode::Quorum;
    let input = ClientInput::Query { tag: 2, question, mode, fallback: None, deadline: Span::secs(60) };
    let asked = step(&mut client, Event::Input(input));
    let query = |effect: &Effect<Client>| match effect {
        Effect::Send { message: ClientMessage::Query(Query { id, .. }), .. } => Some(*id),
        _ => None,
    };
    let id = asked.iter().find_map(query).expect("it asks");
    let answer = |value: &str| {
        let value = Answered::Body(Blob::try_from(Bytes::copy_from_slice(value.as_bytes())).expect("short"));
        let answer = Answer { id, executed: Position(5), understood: true, value };
        Event::Message { from: NodeId(3), message: ClientMessage::Answer(answer) }
    };
    step(&mut client, answer("1"));
    let once = client.bytes();
    (0..100).for_each(|_| drop(step(&mut client, answer("1"))));
    assert_eq!(client.bytes(), once);
    let told = step(&mut client, answer("2"));
    assert!(matches!(&told[..], [Effect::Blame { peer: NodeId(3), .. }]), "{told:?}");
}

fn signed(item: Item) -> Bytes {
    let said = item.said(&item.payload());
    let scope = Scope { cluster: CLUSTER, epoch: Epoch(0) };
    item.signed(keys(100).sign(scope, NodeId(128), said).signature).payload()
}

#[test]
fn the_signatures_of_a_block_are_one_job() {
    let mut world = World::new(Setup::default());
    let opening = Opening { key: keys(100).public(), nonce: 1, signature: UNSIGNED };
    world.order_again(signed(Item::Open(opening)));
    world.run_quiet();
    let executor = world.nodes[0].machine.as_mut().expect("running");
    let mut jobs = Vec::new();
    for first in 1..=5 {
        let command = Blob::try_from(Bytes::from_static(b"inc n")).expect("short");
        let commands = List::try_from(vec![command]).expect("short");
        let frame = ClientFrame { session: 1, first, acked: 1, full: 0, commands, signature: UNSIGNED };
        let entry = Entry {
            position: Position(first + 1),
            time: Wall(1_000),
            last: first == 5,
            origin: Origin::Member(NodeId(2)),
            payload: signed(Item::Frame(frame)),
            proof: None,
        };
        let event = Event::Input(ExecutorInput::Delivered(Delivered::Entry(entry)));
        let told = effects(executor, event, Time(SECOND.0));
        jobs.push(told.iter().filter(|effect| matches!(effect, Effect::Compute(_))).count());
    }
    assert_eq!(jobs, [0, 0, 0, 0, 1]);
}

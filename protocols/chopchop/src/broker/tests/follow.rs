//! One server that is slow, or lies, among those whose directory a broker follows.

use std::cell::Cell;
use std::rc::Rc;

use synod_machine::{Condition, Event, Log, Recover, Time, To};
use synod_quorum::NodeId;

use super::hostile::{from, jobs};
use crate::broker::{Broker, Config, Job, Timer};
use crate::by_hand::world::{BROKERS, Letter, World, directory, eager};
use crate::by_hand::{Hand, SERVERS, client_keys, cluster, keys, member, sent};
use crate::config::Class;
use crate::directory::{Directory, Member};
use crate::message::{Cards, Credit, ServerMessage, StoreMessage};
use crate::vocabulary::Message;

/// The server that a broker asks first.
const LIAR: NodeId = NodeId(1);

/// From which id the first broker asked for members last: the liar, and another server.
#[derive(Clone, Default)]
struct Asked {
    liar: Rc<Cell<Option<u32>>>,
    other: Rc<Cell<Option<u32>>>,
}

/// Servers whose directory grew by these members since the brokers started. The liar answers nothing of itself.
fn grown(members: impl Iterator<Item = Member>) -> (World, Asked) {
    let mut world = World::new(2, eager());
    for member in members {
        assert!(world.servers.directory.admit(&member).1);
    }
    let length = world.servers.directory.len();
    let asked = Asked::default();
    let seen = asked.clone();
    world.loss = Box::new(move |letter: &Letter| match &letter.message {
        Message::Server(ServerMessage::DirPull { from }) => {
            let is_liar = letter.to == LIAR;
            if letter.from == BROKERS[0] && *from < length {
                let seen = if is_liar { &seen.liar } else { &seen.other };
                seen.set(Some(*from));
            }
            is_liar
        }
        _ => false,
    });
    world.credit();
    world.settle();
    (world, asked)
}

fn clients(range: core::ops::Range<u32>) -> impl Iterator<Item = Member> {
    range.map(|id| member(&client_keys(id)))
}

/// The liar says that these are the members from this id on.
fn tell(world: &mut World, from: u32, members: Vec<Member>) {
    let (view, domains) = (world.servers.directory.view(), world.cluster.domains());
    let cards = Cards { from, members, length: view.len(), root: view.root(domains) };
    world.say_any(LIAR, BROKERS[0], Message::Server(ServerMessage::Cards(cards)));
}

/// Lets the liar give a true member whenever it was asked 890 ms ago; after how many milliseconds another one was asked.
fn dripped(world: &mut World, asked: &Asked) -> Option<u64> {
    for tenth in 0..200 {
        world.run_until(89 * tenth);
        if asked.other.get().is_some() {
            return Some(89 * tenth);
        }
        if let Some(from) = asked.liar.get().filter(|_| tenth % 10 == 9) {
            asked.liar.set(None);
            let view = world.servers.directory.view();
            let ids = (from..view.len()).take(1);
            let members = ids.filter_map(|id| view.member(id).cloned()).collect();
            tell(world, from, members);
        }
    }
    None
}

#[test]
fn a_server_that_gives_one_member_in_a_while_is_followed_by_the_next() {
    let (mut world, asked) = grown(clients(2..40));
    let next = dripped(&mut world, &asked);
    assert!(next.is_some_and(|next| (1_000..4_000).contains(&next)), "{next:?}");
    assert!(asked.other.get().is_some_and(|from| (3..8).contains(&from)), "what was true stays");
    world.run_until(6_000);
    assert_eq!(world.brokers[&BROKERS[0]].machine.trusted, 40);
    assert_eq!(world.blames, []);
}

#[test]
fn a_server_is_not_blamed_for_members_that_another_one_made_up() {
    let (mut world, asked) = grown(clients(2..12));
    world.run_until(1_500);
    assert_eq!(asked.liar.get(), Some(2), "the liar is asked first");
    // At the place of another client, so that the next server's members hold a key that is known.
    tell(&mut world, 2, clients(5..6).collect());
    world.run_until(8_000);
    assert_eq!(world.brokers[&BROKERS[0]].machine.trusted, 12);
    assert_eq!(world.blames, [], "nobody knows who it was");
}

#[test]
fn a_server_that_gives_a_member_twice_is_blamed() {
    let (mut world, asked) = grown(clients(2..12));
    world.run_until(1_500);
    assert_eq!(asked.liar.get(), Some(2));
    tell(&mut world, 2, clients(2..3).chain(clients(2..3)).collect());
    world.run_until(8_000);
    assert_eq!(world.brokers[&BROKERS[0]].machine.trusted, 12);
    assert_eq!(world.blames, [(LIAR, "false_cards")]);
}

/// Members from this id on, of a directory of `length`, by a server; the jobs that follow.
fn give(
    hand: &mut Hand<Broker>,
    server: u32,
    from_id: u32,
    members: Vec<Member>,
    of: &Directory,
) -> Vec<Job> {
    let (length, root) = (of.len(), of.view().root(cluster().domains()));
    let cards = Cards { from: from_id, members, length, root };
    jobs(hand.step_alone(from(NodeId(server), ServerMessage::Cards(cards))))
}

/// The server that the broker asks for members now, from this id on.
fn source(hand: &mut Hand<Broker>, ms: u64, first: u32) -> u32 {
    hand.now = Time(ms * 1_000_000);
    let sends = sent(hand.step_alone(Event::Timer(Timer::Heights))).into_iter();
    let asked = sends.filter_map(|(to, message)| match (to, message) {
        (To::Node(to), Message::Server(ServerMessage::DirPull { from })) if from == first => Some(to.0),
        _ => None,
    });
    asked.last().expect("one server is asked for members")
}

/// The servers' directory grew to these members: `source` gives them from `first` on, another one vouches; the jobs.
fn grow(hand: &mut Hand<Broker>, source: u32, first: u32, of: &Directory) -> Vec<Job> {
    let view = of.view();
    let members = (first..of.len()).filter_map(|id| view.member(id).cloned()).collect();
    let mut begun = give(hand, source, first, members, of);
    begun.extend(give(hand, (source + 1) % SERVERS, of.len(), Vec::new(), of));
    begun
}

fn answer(hand: &mut Hand<Broker>, job: Job) -> Vec<Job> {
    let done = hand.run(job);
    jobs(hand.step_alone(done))
}

fn says_length(hand: &mut Hand<Broker>, directory: u32) {
    for server in 0..SERVERS {
        let credit = Credit { bytes: 1 << 30, work: 1 << 30, height: 1, directory };
        hand.step_alone(from(NodeId(server), StoreMessage::Credit(credit)));
    }
}

#[test]
fn keys_that_were_read_from_members_that_nobody_vouched_for_enter_no_book() {
    let [known, more, most] = [2, 4, 6].map(directory);
    let config = Config::new(cluster(), 0, Class::Fixed(8), known, eager()).expect("sound");
    let log = Log { condition: Condition::Fresh, records: &mut std::iter::empty() };
    let mut hand = Hand::new(Broker::recover(config, log).expect("it keeps nothing"), keys(500));
    // The keys of the first two are being read while two more come.
    let first = jobs(hand.step_alone(Event::Start)).pop().expect("keys are read");
    says_length(&mut hand, 4);
    let asked = source(&mut hand, 1_000, 2);
    let root = grow(&mut hand, asked, 2, &more).pop().expect("a root is computed");
    assert!(answer(&mut hand, root).is_empty() && hand.machine.trusted == 4);
    // The next source makes two up, and the keys behind the second are read before anybody vouches.
    says_length(&mut hand, 6);
    let liar = source(&mut hand, 2_000, 4);
    let made_up = clients(90..92).collect();
    assert!(give(&mut hand, liar, 4, made_up, &most).is_empty());
    let second = answer(&mut hand, first).pop().expect("more keys are read");
    assert_eq!(hand.machine.book.len(), 2);
    let root = give(&mut hand, (liar + 1) % SERVERS, 6, Vec::new(), &most).pop().expect("a root is computed");
    assert!(answer(&mut hand, root).is_empty());
    assert_eq!((hand.machine.trusted, hand.machine.directory.len()), (4, 4), "they are dropped");
    // The true ones come before those keys are read.
    let honest = source(&mut hand, 3_000, 4);
    let root = grow(&mut hand, honest, 4, &most).pop().expect("a root is computed");
    assert!(answer(&mut hand, root).is_empty() && hand.machine.trusted == 6);
    let mut left = answer(&mut hand, second);
    while let Some(job) = left.pop() {
        left.extend(answer(&mut hand, job));
    }
    let read = |id| hand.machine.book.key(id).map(|key| key.to_bytes());
    let of = |id| most.view().member(id).map(|member| member.bls.0);
    assert_eq!((0..7).map(read).collect::<Vec<_>>(), (0..7).map(of).collect::<Vec<_>>());
}

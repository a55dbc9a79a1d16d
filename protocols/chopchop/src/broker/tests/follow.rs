//! One server that is slow, or lies, among those whose directory a broker follows.

use std::cell::Cell;
use std::rc::Rc;

use synod_quorum::NodeId;

use crate::by_hand::world::{BROKERS, Letter, World, eager};
use crate::by_hand::{client_keys, member};
use crate::directory::Member;
use crate::message::{Cards, ServerMessage};
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

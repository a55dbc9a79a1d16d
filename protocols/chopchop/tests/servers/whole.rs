//! The whole protocol: real clients and brokers around real servers and stores over the ideal order.

pub(crate) mod run;

use std::cell::Cell;
use std::rc::Rc;

use synod_chopchop::client::{Input, Output};
use synod_chopchop::message::{ClientMessage, ServerMessage, StoreMessage};
use synod_chopchop::vocabulary::Message;
use synod_machine::{Condition, Span};
use synod_sim::Crypto;

use crate::world::{BROKER, Envelope, OTHER, Setup};
use run::{Whole, link};

fn running(count: u32) -> Whole {
    let mut whole = Whole::new(Setup::default());
    (0..count).for_each(|id| whole.start_client(id, Some(id)));
    whole
}

/// Every word of every client once, in the order in which it broadcast them.
fn delivered_once(whole: &Whole, clients: u32, words: &[u64]) {
    for id in 0..clients {
        assert_eq!(whole.delivered(id), words, "client {id}");
    }
    whole.world.agree();
}

#[test]
fn clients_brokers_and_servers_deliver_together_and_receipts_hold() {
    let mut whole = running(8);
    for word in [5, 5, 6] {
        (0..8).for_each(|id| whole.broadcast(id, word));
    }
    whole.pass(Span::secs(20));
    delivered_once(&whole, 8, &[5, 5, 6]);
    assert_eq!(whole.receipts(), 24, "each with a receipt that holds");
    assert_eq!(whole.blamed(), []);
    let seen = whole.brokers[&BROKER].machine.as_ref().expect("it is up").seen();
    assert_eq!(seen.signed, seen.sealed, "everybody signs");
    assert!(seen.sealed >= 24);
}

/// The same with keys of the curves.
#[test]
fn the_whole_protocol_runs_on_real_keys() {
    let mut whole = Whole::new(Setup { crypto: Crypto::Real, ..Setup::default() });
    (0..4).for_each(|id| whole.start_client(id, Some(id)));
    (0..4).for_each(|id| whole.broadcast(id, 9));
    whole.pass(Span::secs(4));
    delivered_once(&whole, 4, &[9]);
    assert_eq!((whole.receipts(), whole.blamed()), (4, Vec::new()));
}

/// T26: the broker dies at any time and stays dead; the next one takes over, and nothing is delivered twice.
#[test]
fn a_broker_that_dies_at_any_time_costs_time_alone() {
    for steps in 0..14 {
        let mut whole = running(4);
        (0..4).for_each(|id| whole.broadcast(id, 7));
        whole.pass(Span::millis(50 * steps));
        whole.brokers.remove(&BROKER);
        whole.pass(Span::secs(30));
        delivered_once(&whole, 4, &[7]);
        assert!((0..4).all(|id| whole.done(id) == 1), "dead after {steps} steps");
    }
}

/// T27, and crashes of clients: the message in flight is resumed and delivered once.
#[test]
fn a_client_that_dies_at_any_time_is_delivered_once() {
    for steps in 0..10 {
        let mut whole = running(4);
        (0..4).for_each(|id| whole.broadcast(id, 7));
        whole.pass(Span::millis(50 * steps));
        whole.restart_client(2);
        whole.pass(Span::secs(30));
        assert!(whole.delivered(2).len() <= 1, "dead after {steps} steps");
        for id in [0, 1, 3] {
            assert_eq!((whole.delivered(id), whole.done(id)), (vec![7], 1), "dead after {steps} steps");
        }
        assert_eq!(whole.done(2) > 0, !whole.delivered(2).is_empty(), "told what was delivered");
        whole.world.agree();
    }
}

/// A server is down while batches are witnessed, ordered and certified.
#[test]
fn one_server_down_delays_and_never_stops() {
    // The ideal order needs member 0.
    for down in 1..4 {
        let mut whole = running(4);
        whole.world.kill(down);
        (0..4).for_each(|id| whole.broadcast(id, 3));
        whole.pass(Span::secs(20));
        assert!((0..4).all(|id| whole.done(id) == 1), "without {down}");
        whole.world.open(down, Condition::Clean);
        whole.pass(Span::secs(5));
        (0..4).for_each(|id| whole.broadcast(id, 4));
        whole.pass(Span::secs(20));
        assert!((0..4).all(|id| whole.done(id) == 2), "with {down} back");
    }
}

/// T7: DELIVERY never comes from the first broker; the second one's answer ends the retry.
#[test]
fn a_broker_that_keeps_deliveries_to_itself_changes_nothing_but_the_time() {
    let mut whole = running(3);
    whole.passes = Box::new(|envelope: &Envelope| {
        let kept = matches!(&envelope.message, Message::Client(ClientMessage::Delivery(_)));
        !(kept && envelope.from == BROKER)
    });
    (0..3).for_each(|id| whole.broadcast(id, 7));
    whole.pass(Span::secs(30));
    delivered_once(&whole, 3, &[7]);
    assert!((0..3).all(|id| whole.done(id) == 1));
}

/// T6: one message through two brokers, both ordered.
#[test]
fn what_two_brokers_order_is_delivered_once() {
    let mut whole = running(3);
    whole.passes = Box::new(|envelope: &Envelope| {
        let held = matches!(&envelope.message, Message::Server(ServerMessage::Order(_)));
        !(held && envelope.from == BROKER)
    });
    (0..3).for_each(|id| whole.broadcast(id, 7));
    whole.pass(Span::secs(5));
    whole.passes = Box::new(|_| true);
    whole.pass(Span::secs(30));
    delivered_once(&whole, 3, &[7]);
    assert!((0..3).all(|id| whole.done(id) == 1));
}

/// T44: between ordering and DELIVERY a second broker proves a height, and the client signs right below it. Without any other
/// traffic its next message is delivered all the same.
#[test]
fn a_lone_client_that_signed_ahead_is_delivered() {
    let mut whole = running(1);
    whole.passes = Box::new(|envelope: &Envelope| {
        let kept = matches!(&envelope.message, Message::Client(ClientMessage::Delivery(_)));
        !(kept && envelope.from == BROKER)
    });
    for word in 1..=4 {
        whole.broadcast(0, word);
    }
    whole.pass(Span::secs(60));
    whole.passes = Box::new(|_| true);
    whole.pass(Span::secs(60));
    delivered_once(&whole, 1, &[1, 2, 3, 4]);
    assert_eq!(whole.done(0), 4);
}

/// T49: a journal that is lost with signatures out leads to no forgery and no second delivery of what the client meant once.
#[test]
fn a_lost_journal_goes_on_above_what_servers_know() {
    let mut whole = running(2);
    (0..2).for_each(|id| whole.broadcast(id, 1));
    whole.pass(Span::secs(5));
    whole.lose_client(0);
    whole.broadcast(0, 1);
    whole.pass(Span::secs(40));
    assert_eq!(whole.delivered(0), [1, 1], "two broadcasts of equal payloads are two messages");
    assert_eq!(whole.done(0), 2);
}

/// 2.2: sign-up through broker, stores and servers, then a broadcast through a broker that was not there.
#[test]
fn a_client_signs_up_and_broadcasts_through_any_broker() {
    let mut whole = running(2);
    whole.start_client(40, None);
    whole.input(40, Input::SignUp);
    whole.pass(Span::secs(30));
    let id = crate::world::CLIENTS;
    assert!(whole.outputs.contains(&(link(40), Output::SignedUp { id })), "{:?}", whole.outputs);
    whole.brokers.remove(&BROKER);
    whole.broadcast(40, 8);
    whole.pass(Span::secs(60));
    assert_eq!((whole.delivered(id), whole.done(40)), (vec![8], 1));
    assert_eq!(whole.blamed(), []);
    let other = whole.brokers[&OTHER].machine.as_ref().expect("it is up").seen();
    assert_eq!(other.directory, id + 1, "it followed the directory");
}

/// A third of all letters between clients, brokers and servers is lost.
#[test]
fn losses_everywhere_cost_time_alone() {
    let mut whole = running(4);
    let drawn = core::cell::RefCell::new(synod_wire::Drawn::new(4));
    whole.passes = Box::new(move |_| drawn.borrow_mut().below(4) != 0);
    (0..4).for_each(|id| whole.broadcast(id, 7));
    whole.pass(Span::secs(240));
    delivered_once(&whole, 4, &[7]);
    assert!((0..4).all(|id| whole.done(id) == 1));
}

/// Row 14: no store is asked for more than its credit, and refusals stop nothing.
#[test]
fn uploads_that_are_lost_are_sent_again() {
    let mut whole = running(4);
    let lost = core::cell::Cell::new(0);
    whole.passes = Box::new(move |envelope: &Envelope| {
        let upload = matches!(&envelope.message, Message::Store(StoreMessage::Batch(_)));
        if upload {
            lost.set(lost.get() + 1);
        }
        !upload || lost.get() > 4
    });
    (0..4).for_each(|id| whole.broadcast(id, 7));
    whole.pass(Span::secs(20));
    delivered_once(&whole, 4, &[7]);
}

/// What a broker had witnessed and not ordered when it died is ordered by its next life, from what servers hold: it would take
/// credit until it expires.
#[test]
fn a_broker_that_comes_back_orders_what_servers_hold_of_its_earlier_life() {
    let mut whole = running(4);
    whole.passes = Box::new(|envelope: &Envelope| {
        !matches!(&envelope.message, Message::Server(ServerMessage::Order(_))) && envelope.to != OTHER
    });
    (0..4).for_each(|id| whole.broadcast(id, 7));
    whole.pass(Span::secs(2));
    assert_eq!(whole.world.delivered(), [1; 4], "witnessed, and never ordered");
    // Its clients are not heard any more.
    whole.passes = Box::new(|envelope: &Envelope| !matches!(&envelope.message, Message::Client(_)));
    whole.start_broker(BROKER);
    whole.pass(Span::secs(20));
    delivered_once(&whole, 4, &[7]);
    whole.passes = Box::new(|_| true);
    whole.pass(Span::secs(30));
    delivered_once(&whole, 4, &[7]);
    assert!((0..4).all(|id| whole.done(id) == 1), "each hears of it once it comes again");
    assert_eq!(whole.blamed(), []);
}

/// A store whose places for a broker are used up is not sent the same batch again with every word of its credit.
#[test]
fn a_store_without_places_for_a_broker_is_left_alone_until_it_has_some() {
    let mut setup = Setup::default();
    setup.parameters.genesis.batches = 1;
    setup.parameters.other.batches = 1;
    let mut whole = Whole::new(setup);
    (0..2).for_each(|id| whole.start_client(id, Some(id)));
    let uploads = Rc::new(Cell::new(0));
    let count = uploads.clone();
    whole.passes = Box::new(move |envelope: &Envelope| {
        let batch = matches!(&envelope.message, Message::Store(StoreMessage::Batch(_)));
        count.set(count.get() + u32::from(batch && envelope.from == BROKER));
        // Nothing is ordered, and the other broker does not help.
        !matches!(&envelope.message, Message::Server(ServerMessage::Order(_))) && envelope.to != OTHER
    });
    whole.broadcast(0, 7);
    whole.pass(Span::secs(1));
    whole.broadcast(1, 8);
    whole.pass(Span::secs(1));
    let before = uploads.get();
    whole.pass(Span::secs(20));
    assert!(uploads.get() - before <= 16, "{} uploads in 20 s", uploads.get() - before);
    assert_eq!(whole.blamed(), []);
    whole.passes = Box::new(|_| true);
    whole.pass(Span::secs(60));
    assert_eq!((whole.delivered(0), whole.delivered(1)), (vec![7], vec![8]));
}

/// Servers far behind find every batch too far; one is witnessed by those that are not, under its one digest.
#[test]
fn servers_that_are_behind_make_no_broker_seal_a_batch_again() {
    let mut setup = Setup::default();
    setup.rules.horizon = 8;
    let mut whole = Whole::new(setup);
    (0..2).for_each(|id| whole.start_client(id, Some(id)));
    // Servers 2 and 3 hear nothing of the order.
    whole.world.passes = Box::new(|e| !matches!(&e.message, Message::Ordering(_)) || e.to < 2);
    for word in 0..20 {
        (0..2).for_each(|id| whole.broadcast(id, word));
        whole.pass(Span::secs(2));
    }
    let words: Vec<u64> = (0..20).collect();
    assert_eq!((whole.delivered(0), whole.delivered(1)), (words.clone(), words));
    let sealed =
        whole.brokers.values().flat_map(|host| &host.notes).filter(|note| note.name == "batch_sealed");
    let delivered = whole.world.server(0).delivered() - 1;
    assert_eq!(sealed.count() as u64, delivered, "each batch is sealed once");
    assert_eq!(whole.blamed(), []);
}

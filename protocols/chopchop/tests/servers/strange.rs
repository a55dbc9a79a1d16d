//! Strange clients and strange clocks around the whole protocol (T27, T43, T49; section 6, rows 4 and 6).

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use synod_chopchop::broker;
use synod_chopchop::client;
use synod_chopchop::config::Class;
use synod_chopchop::message::{ClientMessage, Submit};
use synod_chopchop::statement::{BlsShareBytes, Submission};
use synod_chopchop::store::{StoreConfig, StoreParameters};
use synod_chopchop::vocabulary::Message;
use synod_machine::Span;
use synod_quorum::NodeId;
use synod_wire::{Blob, Bytes};

use crate::whole::run::{Whole, link};
use crate::world::{BROKER, Envelope, N, OTHER, Setup};

fn running(count: u32) -> Whole {
    let mut whole = Whole::new(Setup::default());
    (0..count).for_each(|id| whole.start_client(id, Some(id)));
    whole
}

/// A submission of client `id`, signed by it.
fn submission(whole: &Whole, (id, k0): (u32, u64), word: u64) -> ClientMessage {
    let (cluster, bytes) = (&whole.world.maker.cluster, word.to_le_bytes());
    let message = cluster.domains().msg.hash(&bytes);
    let statement = Submission { id, k0, parity: false, message };
    let t = whole.world.maker.client(id).sign(cluster.scope(), NodeId(link(id)), statement).signature;
    let message = Blob::try_from(Bytes::from(bytes.to_vec())).expect("eight bytes");
    ClientMessage::Submit(Submit { id, k0, message, parity: false, t, legitimacy: None })
}

#[test]
fn t27_a_client_that_is_gone_for_good_after_any_letter_is_delivered_once_if_it_submitted() {
    for letters in 0..4_u32 {
        let mut whole = running(4);
        let (sent, seen) = (Rc::new(Cell::new(0)), Rc::new(RefCell::new(Vec::new())));
        let (count, kinds) = (sent.clone(), seen.clone());
        whole.passes = Box::new(move |envelope: &Envelope| {
            let alive = count.get() < letters;
            if envelope.from == link(2) && alive {
                count.set(count.get() + 1);
                let signs = matches!(envelope.message, Message::Client(ClientMessage::MultiSig { .. }));
                kinds.borrow_mut().push(signs);
            }
            alive || (envelope.from != link(2) && envelope.to != link(2))
        });
        (0..4).for_each(|id| whole.broadcast(id, 7));
        whole.pass(Span::secs(20));
        let once = usize::from(letters > 0);
        assert_eq!(whole.delivered(2).len(), once, "gone after {letters} letters");
        assert_eq!(seen.borrow().first().copied(), (letters > 0).then_some(false), "SUBMIT is the first");
        assert_eq!(seen.borrow().get(1).copied(), (letters > 1).then_some(true), "MULTISIG the next");
        for id in [0, 1, 3] {
            assert_eq!((whole.delivered(id), whole.done(id)), (vec![7], 1), "gone after {letters} letters");
        }
        whole.world.agree();
    }
}

#[test]
fn t49_two_live_instances_of_one_client_forge_nothing_and_hinder_nobody() {
    let mut whole = running(3);
    whole.start_twin(60, 0);
    for word in 1..=3 {
        whole.broadcast(0, word);
        whole.broadcast(60, 10 + word);
        whole.broadcast(1, 20 + word);
        whole.pass(Span::secs(30));
    }
    whole.pass(Span::secs(120));
    let delivered = whole.delivered(0);
    assert!(delivered.iter().all(|word| [1, 2, 3, 11, 12, 13].contains(word)), "{delivered:?}");
    assert!(!delivered.is_empty());
    assert_eq!((whole.delivered(1), whole.done(1)), (vec![21, 22, 23], 3));
    assert!(whole.receipts() >= 3, "every receipt holds");
    assert_eq!(whole.blamed(), []);
    whole.world.agree();
}

#[test]
fn row_4_of_two_submissions_in_a_window_the_higher_number_stands_and_a_lower_one_is_dropped() {
    for swapped in [false, true] {
        let mut whole = running(2);
        let (low, high) = (submission(&whole, (5, 0), 50), submission(&whole, (5, 1), 51));
        let both = if swapped { [high, low] } else { [low, high] };
        for message in both {
            whole.say(link(5), BROKER, message);
        }
        (0..2).for_each(|id| whole.broadcast(id, 7));
        whole.pass(Span::secs(20));
        assert_eq!(whole.delivered(5), [51], "swapped: {swapped}");
        // What is older than what was admitted is a replay.
        let again = submission(&whole, (5, 0), 50);
        whole.say(link(9), BROKER, again);
        whole.pass(Span::secs(10));
        assert_eq!(whole.delivered(5), [51]);
        assert_eq!(whole.blamed(), []);
    }
}

#[test]
fn row_6_shares_of_no_root_and_of_no_point_are_ignored() {
    let mut whole = running(4);
    let root = Rc::new(Cell::new(None));
    let seen = root.clone();
    whole.passes = Box::new(move |envelope: &Envelope| match &envelope.message {
        Message::Client(ClientMessage::MultiSig { root_commit, .. }) if envelope.from == link(2) => {
            seen.set(Some(*root_commit));
            false
        }
        _ => true,
    });
    (0..4).for_each(|id| whole.broadcast(id, 7));
    whole.pass_finely(Span::millis(60));
    let root = root.get().expect("a batch is offered");
    whole.passes = Box::new(|_| true);
    let no_point = || Box::new(BlsShareBytes([0xff; 192]));
    for root_commit in [[3; 16], root, root] {
        let message = ClientMessage::MultiSig { id: 2, root_commit, share: no_point() };
        whole.say(link(2), BROKER, message);
    }
    whole.pass(Span::secs(20));
    for id in 0..4 {
        assert_eq!((whole.delivered(id), whole.done(id)), (vec![7], 1), "client {id}");
    }
    assert_eq!(whole.blamed(), []);
    whole.world.agree();
}

#[test]
fn t43_zero_waits_are_refused_by_every_configuration() {
    let whole = running(0);
    let cluster = || whole.world.maker.cluster.clone();
    let of_client = |parameters| {
        client::Config::new(cluster(), Class::Fixed(8), vec![NodeId(BROKER)], Some(0), parameters).is_ok()
    };
    let usual = client::Parameters::default();
    assert!(of_client(usual));
    assert!(!of_client(client::Parameters { submit: Span::ZERO, ..usual }));
    assert!(!of_client(client::Parameters { retransmit: Span::ZERO, ..usual }));
    let of_broker = |parameters| {
        let directory = whole.world.maker.directory(1);
        broker::Config::new(cluster(), 0, Class::Fixed(8), directory, parameters).is_ok()
    };
    let usual = broker::Parameters::of(N);
    assert!(of_broker(usual));
    assert!(!of_broker(broker::Parameters { window_min: Span::ZERO, ..usual }));
    assert!(!of_broker(broker::Parameters { distil_max: Span::ZERO, ..usual }));
    let usual = StoreParameters::default();
    let of_store =
        |parameters| StoreConfig::new(cluster(), NodeId(0), vec![NodeId(OTHER)], parameters).is_ok();
    assert!(of_store(usual));
    assert!(!of_store(StoreParameters { pull_patience: Span::ZERO, ..usual }));
}

#[test]
fn t43_clocks_that_jump_and_the_shortest_waits_make_nobody_busy() {
    let usual = Setup::default();
    let (directory_wait, pull_patience) = (Span::ZERO, Span::millis(10));
    let parameters = StoreParameters { directory_wait, pull_patience, ..usual.parameters };
    let mut whole = Whole::hasty(Setup { parameters, ..usual });
    (0..4).for_each(|id| whole.start_client(id, Some(id)));
    // Nobody hears from anybody, so everybody waits and tries again.
    whole.passes = Box::new(|_| false);
    whole.world.passes = Box::new(|_| false);
    (0..4).for_each(|id| whole.broadcast(id, 7));
    let before = whole.steps();
    whole.pass_finely(Span::secs(3));
    let each_second = (whole.steps() - before) / 3;
    assert!((1..1_000).contains(&each_second), "{each_second} events a second");
    for _ in 0..24 {
        let before = whole.steps();
        whole.jump(Span::secs(3_600));
        let steps = whole.steps() - before;
        assert!((1..200).contains(&steps), "{steps} events after an hour");
    }
    whole.passes = Box::new(|_| true);
    whole.world.passes = Box::new(|_| true);
    whole.pass(Span::secs(120));
    for id in 0..4 {
        assert_eq!((whole.delivered(id), whole.done(id)), (vec![7], 1), "client {id}");
    }
    whole.world.agree();
}

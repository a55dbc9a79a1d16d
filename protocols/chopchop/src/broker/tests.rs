//! Brokers with real clients, around servers that a test plays: the promises of section 7.1 that are theirs.

mod crashes;
mod follow;
mod heights;
mod held;
mod hostile;
mod pace;
mod questions;

use synod_crypto::Signature;
use synod_machine::Span;
use synod_quorum::{NodeId, NodeSet};
use synod_wire::Blob;

use super::{Config, Parameters, Verify};
use crate::by_hand::world::{BROKERS, Letter, World, directory, eager, link};
use crate::by_hand::{SERVERS, client_keys, cluster, keys};
use crate::card::Card;
use crate::client::{Input, Output};
use crate::config::Class;
use crate::message::{ClientMessage, Nack, ServerMessage, StoreMessage, Submit};
use crate::statement::{BlsKeyBytes, BlsShareBytes, BlsSignatureBytes, Possession, Root, SignUp, Submission};
use crate::vocabulary::Message;

/// A world of `count` running clients.
fn running(count: u32) -> World {
    let mut world = World::new(count, eager());
    (0..count).for_each(|id| world.start_client(id));
    world
}

fn submission(world: &World, (id, k0): (u32, u64), word: u64, parity: bool) -> Submit {
    let bytes = word.to_le_bytes();
    let message = world.cluster.domains().msg.hash(&bytes);
    let statement = Submission { id, k0, parity, message };
    let t = client_keys(id).sign(world.cluster.scope(), NodeId::GUESTS, statement).signature;
    let message = Blob::try_from(synod_wire::Bytes::from(bytes.to_vec())).expect("eight bytes");
    Submit { id, k0, message, parity, t, legitimacy: None }
}

#[test]
fn clients_sign_together_and_get_receipts() {
    let mut world = running(10);
    (0..10).for_each(|id| world.broadcast(id, 100 + u64::from(id)));
    world.run_until(2_000);
    assert_eq!(world.servers.shapes, [(10, 0, 0)], "one batch, no straggler");
    for id in 0..10 {
        assert_eq!(world.done(id), [(100 + u64::from(id), true)]);
    }
    for (_, output) in &world.outputs {
        let Output::Delivered { receipt: Some(receipt), .. } = output else { panic!("{output:?}") };
        assert_eq!(receipt.verify(&world.cluster, &keys(9)), Ok(()));
    }
    assert_eq!(world.blames, []);
}

/// D2: a lone client broadcasts twice, and more often.
#[test]
fn a_lone_client_broadcasts_again_and_again() {
    let mut world = running(1);
    (0..5).for_each(|word| world.broadcast(0, word));
    world.run_until(5_000);
    assert_eq!(world.delivered(0), [0, 1, 2, 3, 4]);
    assert_eq!(world.done(0).len(), 5);
    assert_eq!(world.blames, []);
}

/// D1, T10.
#[test]
fn two_equal_consecutive_messages_are_both_delivered() {
    let mut world = running(1);
    (0..3).for_each(|_| world.broadcast(0, 7));
    world.run_until(5_000);
    assert_eq!(world.delivered(0), [7, 7, 7]);
    assert_eq!(world.done(0), [(7, true), (7, true), (7, true)]);
}

/// D11.
#[test]
fn small_batches_skip_distillation() {
    let mut world = World::new(3, Parameters::of(SERVERS));
    for id in 0..3 {
        world.start_client(id);
        world.broadcast(id, 9);
    }
    world.run_until(2_000);
    assert_eq!(world.servers.shapes, [(3, 3, 0)]);
    assert_eq!(world.blames, []);
    assert!((0..3).all(|id| world.done(id) == [(9, true)]));
}

/// D16: a proposed number above a client's own comes with a certificate that the broker fetched.
#[test]
fn a_broker_without_certificate_fetches_one() {
    let mut world = running(4);
    (0..4).for_each(|id| world.broadcast(id, 1));
    world.run_until(2_000);
    // Clients 0 and 1 stand at 1; both sign with client 2 and 3, which do too, for all signed k = 0.
    (0..4).for_each(|id| world.broadcast(id, 2));
    world.run_until(4_000);
    (0..2).for_each(|id| world.broadcast(id, 3));
    world.run_until(6_000);
    world.start_client(3);
    (0..4).for_each(|id| world.broadcast(id, 4));
    world.run_until(9_000);
    assert_eq!(world.servers.shapes.iter().map(|(_, late, _)| late).sum::<u32>(), 0, "all sign");
    assert_eq!(world.delivered(3), [1, 2, 4]);
    assert_eq!(world.blames, []);
}

/// T27: a client that is gone after SUBMIT is a straggler, delivered once; the others stay distilled.
#[test]
fn a_client_gone_after_submit_is_delivered_once_by_its_own_signature() {
    let mut world = running(6);
    world.loss = Box::new(|letter: &Letter| {
        let to_gone = letter.to == link(5);
        to_gone && matches!(letter.message, Message::Client(ClientMessage::Inclusion(_)))
    });
    (0..6).for_each(|id| world.broadcast(id, 40 + u64::from(id)));
    world.run_until(3_000);
    assert_eq!(world.servers.shapes, [(6, 1, 0)]);
    assert_eq!(world.delivered(5), [45]);
    assert!((0..5).all(|id| world.done(id).len() == 1));
}

/// T7, T26: the first broker dies after ordering and before DELIVERY; the second one's SAME ends the retry.
#[test]
fn a_broker_that_dies_after_ordering_costs_time_and_no_second_delivery() {
    let mut world = running(3);
    world.loss = Box::new(|letter: &Letter| {
        letter.from == BROKERS[0] && matches!(letter.message, Message::Client(ClientMessage::Delivery(_)))
    });
    (0..3).for_each(|id| world.broadcast(id, 60 + u64::from(id)));
    world.run_until(2_000);
    assert_eq!(world.servers.shapes.len(), 1);
    world.brokers.remove(&BROKERS[0]);
    world.run_until(20_000);
    for id in 0..3 {
        assert_eq!(world.delivered(id), [60 + u64::from(id)]);
        assert_eq!(world.done(id), [(60 + u64::from(id), false)], "SAME is no receipt");
    }
}

/// T6: one message through two brokers, both ordered.
#[test]
fn a_message_through_two_brokers_is_delivered_once() {
    let mut world = running(2);
    world.loss = Box::new(|letter: &Letter| {
        letter.from == BROKERS[0] && letter.to == link(0)
            || letter.from == BROKERS[0] && matches!(letter.message, Message::Server(ServerMessage::Order(_)))
    });
    world.broadcast(0, 5);
    world.broadcast(1, 6);
    world.run_until(3_000);
    assert_eq!(world.servers.delivered.len(), 0, "nothing is ordered yet");
    world.loss = Box::new(|_| false);
    world.run_until(20_000);
    assert_eq!((world.delivered(0), world.delivered(1)), (vec![5], vec![6]));
    assert_eq!((world.done(0).len(), world.done(1).len()), (1, 1));
}

#[test]
fn a_broker_restarted_at_any_time_loses_no_message() {
    for cut in (0..1_000).step_by(40) {
        let mut world = running(3);
        (0..3).for_each(|id| world.broadcast(id, 10 + u64::from(id)));
        world.run_until(cut);
        world.start_broker(BROKERS[0], eager());
        world.run_until(30_000);
        for id in 0..3 {
            assert_eq!(world.delivered(id), [10 + u64::from(id)], "cut at {cut}");
            assert_eq!(world.done(id).len(), 1, "cut at {cut}");
        }
    }
}

#[test]
fn a_client_restarted_at_any_time_is_delivered_once() {
    for cut in [0, 5, 12, 20, 60, 300, 900] {
        let mut world = running(3);
        (0..3).for_each(|id| world.broadcast(id, 10 + u64::from(id)));
        world.run_until(cut);
        world.start_client(1);
        world.run_until(30_000);
        assert_eq!(world.delivered(1), [11], "cut at {cut}");
        assert!(!world.done(1).is_empty(), "cut at {cut}");
    }
}

/// Row 5.
#[test]
fn a_submission_that_its_client_did_not_sign_is_blamed_and_not_pooled() {
    let mut world = World::new(2, eager());
    let mut forged = submission(&world, (0, 0), 1, false);
    forged.t = Signature([9; 64]);
    world.say(link(9), BROKERS[0], ClientMessage::Submit(forged));
    world.run_until(1_000);
    assert_eq!(world.blames, [(link(9), "forged_submission")]);
    assert_eq!(world.servers.shapes, []);
}

/// T29: another message for a victim's id, unsigned by it, does not hinder the victim.
#[test]
fn a_victim_is_delivered_beside_forgeries_in_its_name() {
    let mut world = running(2);
    for word in 0..20 {
        let mut forged = submission(&world, (0, 0), word, true);
        forged.t = Signature([1; 64]);
        world.say(link(9), BROKERS[0], ClientMessage::Submit(forged));
    }
    world.broadcast(0, 77);
    world.broadcast(1, 78);
    world.run_until(3_000);
    assert_eq!((world.delivered(0), world.done(0)), (vec![77], vec![(77, true)]));
}

fn bad_share(world: &World, signer: u64) -> Box<BlsShareBytes> {
    let other = Root { root_commit: synod_crypto::Hash::of(b"another root") };
    let share = keys(signer).sign_bls(&world.cluster.scope(), &other).expect("it has a key");
    Box::new(BlsShareBytes(share.to_share()))
}

/// T47: a wrong share for a victim, from a strange link and from one that relayed its SUBMIT.
#[test]
fn a_wrong_share_from_elsewhere_leaves_the_victim_distilled() {
    let mut world = running(4);
    let inclusions = std::rc::Rc::new(std::cell::RefCell::new(None));
    let seen = std::rc::Rc::clone(&inclusions);
    // The clients' own shares are lost at first, so that the liar's come before them.
    world.loss = Box::new(move |letter: &Letter| match &letter.message {
        Message::Client(ClientMessage::MultiSig { root_commit, .. }) if letter.from != link(9) => {
            seen.borrow_mut().replace(*root_commit);
            true
        }
        _ => false,
    });
    (0..4).for_each(|id| world.broadcast(id, 30 + u64::from(id)));
    let relayed = submission(&world, (1, 0), 31, false);
    world.say(link(9), BROKERS[0], ClientMessage::Submit(relayed));
    world.run_until(30);
    let root_commit = inclusions.borrow().expect("a batch is offered");
    for id in [0, 1] {
        let share = bad_share(&world, 3_000);
        world.say(link(9), BROKERS[0], ClientMessage::MultiSig { id, root_commit, share });
    }
    world.settle();
    world.loss = Box::new(|_| false);
    world.run_until(5_000);
    assert_eq!(world.servers.shapes, [(4, 0, 0)], "all four sign");
    assert_eq!(world.blames, [(link(9), "bad_share")]);
    assert!((0..4).all(|id| world.done(id).len() == 1));
}

/// D12, row 7: a client that signs wrongly straggles alone.
#[test]
fn a_client_that_signs_wrongly_straggles_alone_and_its_link_is_struck() {
    let mut world = running(5);
    let stolen = std::rc::Rc::new(std::cell::RefCell::new(None));
    let seen = std::rc::Rc::clone(&stolen);
    world.loss = Box::new(move |letter: &Letter| match &letter.message {
        Message::Client(ClientMessage::MultiSig { root_commit, .. }) if letter.from == link(2) => {
            seen.borrow_mut().replace(*root_commit);
            true
        }
        _ => false,
    });
    (0..5).for_each(|id| world.broadcast(id, 30 + u64::from(id)));
    world.run_until(30);
    let root_commit = stolen.borrow().expect("a batch is offered");
    world.loss = Box::new(|_| false);
    let share = bad_share(&world, 1_002);
    world.say(link(2), BROKERS[0], ClientMessage::MultiSig { id: 2, root_commit, share });
    world.run_until(5_000);
    assert_eq!(world.servers.shapes, [(5, 1, 0)]);
    assert_eq!(world.blames, [(link(2), "bad_share")]);
    assert!((0..5).all(|id| world.done(id).len() == 1));
}

/// T46: old submissions of a victim in every window: the victim is batched next.
#[test]
fn replayed_submissions_of_a_victim_do_not_keep_it_out() {
    let mut world = running(2);
    world.broadcast(0, 1);
    world.broadcast(1, 1);
    world.run_until(1_000);
    let old = submission(&world, (0, 0), 1, false);
    for word in 2..8 {
        for _ in 0..3 {
            world.say(link(9), BROKERS[0], ClientMessage::Submit(old.clone()));
        }
        world.broadcast(0, word);
        world.broadcast(1, word);
        world.run_until(word * 1_000);
    }
    assert_eq!(world.delivered(0), [1, 2, 3, 4, 5, 6, 7]);
    assert!(world.servers.shapes.iter().all(|(count, late, _)| (*count, *late) == (2, 0)));
}

/// T4 at the broker: a number that nobody proved is not taken.
#[test]
fn a_huge_number_is_asked_for_its_certificate() {
    let mut world = World::new(1, eager());
    world.start_client(0);
    let nacks = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let seen = std::rc::Rc::clone(&nacks);
    world.loss = Box::new(move |letter: &Letter| {
        if let Message::Client(ClientMessage::Nack { why, .. }) = &letter.message {
            seen.borrow_mut().push(*why);
        }
        false
    });
    let huge = submission(&world, (0, u64::MAX - 1), 1, false);
    world.say(link(0), BROKERS[0], ClientMessage::Submit(huge));
    let beyond = submission(&world, (7, 0), 1, false);
    world.say(link(0), BROKERS[0], ClientMessage::Submit(beyond));
    world.run_until(1_000);
    assert_eq!(*nacks.borrow(), [Nack::NeedCertificate, Nack::NotInDirectory]);
    assert_eq!(world.servers.shapes, []);
}

/// T17: shards withheld by a server that was asked.
#[test]
fn withheld_shards_delay_but_never_stop() {
    for silent in 0..SERVERS {
        let mut world = running(2);
        world.servers.silent = NodeSet::only(NodeId(silent));
        world.broadcast(0, 3);
        world.broadcast(1, 4);
        world.run_until(10_000);
        assert_eq!((world.done(0).len(), world.done(1).len()), (1, 1), "without {silent}");
    }
}

/// T17: of ten servers, three of which may be faulty, five are asked at once with a margin of one. Shards withheld by no more
/// than the margin cost nothing; by one more, or by as many as may be faulty, at most three waits for them.
#[test]
fn t17_with_a_margin_withheld_shards_cost_at_most_three_waits() {
    let took = |withheld: NodeSet| {
        let mut world = World::among(10, 2, Parameters { margin: 1, ..eager() });
        (0..2).for_each(|id| world.start_client(id));
        world.loss = Box::new(move |letter| {
            let shard = matches!(&letter.message, Message::Store(StoreMessage::Shard(_)));
            shard && withheld.contains(letter.from)
        });
        (0..2).for_each(|id| world.broadcast(id, 3));
        let done = |world: &World| (0..2).all(|id| world.done(id).len() == 1);
        (0..5_000).find(|at| {
            world.run_until(*at);
            done(&world)
        })
    };
    let usual = took(NodeSet::EMPTY).expect("delivered");
    let mut waited = 0;
    for first in 0..10 {
        for count in 1..=3 {
            let withheld: NodeSet = (0..count).map(|nth| NodeId((first + nth) % 10)).collect();
            let took = took(withheld).expect("delivered");
            let most = if count == 1 { 0 } else { 150 };
            assert!(took <= usual + most, "{took} ms without {withheld:?}, {usual} ms with all");
            waited += u32::from(took > usual);
        }
    }
    assert!(waited > 0, "some of those that withhold theirs are asked first");
}

/// T18, row 19: a server that signs with another key is blamed, and counts for nothing.
#[test]
fn a_lying_server_is_blamed_and_left_out() {
    for liar in 0..SERVERS {
        let mut world = running(2);
        world.servers.lying = NodeSet::only(NodeId(liar));
        world.broadcast(0, 3);
        world.broadcast(1, 4);
        world.run_until(10_000);
        assert_eq!((world.done(0).len(), world.done(1).len()), (1, 1), "{liar} lies");
        assert!(world.blames.iter().all(|(who, _)| *who == NodeId(liar)), "{:?}", world.blames);
    }
}

/// Lost letters of every kind only cost time.
#[test]
fn a_third_of_all_letters_lost_only_costs_time() {
    for seed in 0..6 {
        let mut world = running(4);
        let mut drawn = synod_wire::Drawn::new(seed);
        world.loss = Box::new(move |_| drawn.below(3) == 0);
        (0..4).for_each(|id| world.broadcast(id, 90 + u64::from(id)));
        world.run_until(300_000);
        for id in 0..4 {
            assert_eq!(world.delivered(id), [90 + u64::from(id)], "seed {seed}");
            assert_eq!(world.done(id).len(), 1, "seed {seed}");
        }
    }
}

/// 2.2, D6, T51: sign-up through a broker, and then a broadcast.
#[test]
fn a_client_signs_up_and_broadcasts_under_its_id() {
    let mut world = World::new(3, eager());
    world.start_unknown(50, None);
    world.broadcast(50, 1);
    assert!(matches!(world.outputs[..], [(_, Output::Refused { .. })]));
    world.input(50, Input::SignUp);
    world.run_until(20_000);
    assert!(world.outputs.contains(&(link(50), Output::SignedUp { id: 3 })), "{:?}", world.outputs);
    world.broadcast(50, 8);
    world.run_until(40_000);
    assert_eq!((world.delivered(3), world.done(50)), (vec![8], vec![(8, true)]));
    assert_eq!(world.brokers[&BROKERS[0]].machine.seen().directory, 4, "the broker followed");
    assert_eq!(world.blames, []);
}

#[test]
fn a_replayed_card_gets_no_second_id() {
    let mut world = World::new(0, eager());
    for name in [20, 21] {
        world.start_unknown(name, None);
        world.input(name, Input::SignUp);
    }
    world.run_until(20_000);
    assert_eq!(world.servers.directory.len(), 2);
    // The same keys again, without a memory of the first time.
    world.records.remove(&link(20));
    world.start_unknown(20, None);
    world.input(20, Input::SignUp);
    world.run_until(60_000);
    assert_eq!(world.servers.directory.len(), 2);
    let ids: Vec<u32> = world
        .outputs
        .iter()
        .filter(|(of, _)| *of == link(20))
        .filter_map(|(_, output)| if let Output::SignedUp { id } = output { Some(*id) } else { None })
        .collect();
    assert_eq!(ids.len(), 2);
    assert_eq!(ids[0], ids[1]);
}

#[test]
fn lazy_brokers_are_refused_by_the_configuration() {
    let lazy = Parameters { verify: Verify::Lazy, ..Parameters::of(SERVERS) };
    let refused = Config::new(cluster(), 0, Class::Fixed(8), directory(0), lazy);
    assert!(refused.err().is_some_and(|why| why.0.contains("lazy")));
    let short = Parameters { distil_max: Span::millis(19), ..Parameters::of(SERVERS) };
    assert!(Config::new(cluster(), 0, Class::Fixed(8), directory(0), short).is_err());
}

/// T11, T12: a card without possession of its key, or with the keys of two owners, is not sound.
#[test]
fn cards_that_nobody_stands_behind_are_blamed_and_not_batched() {
    let mut world = World::new(0, eager());
    let scope = world.cluster.card_scope();
    let (own, victim) = (keys(60), keys(61));
    let bls = BlsKeyBytes(victim.bls_public().expect("it has one").to_bytes());
    let ed = own.public();
    let pop = BlsSignatureBytes(own.possess(&scope, &Possession { bls, ed }).expect("it has a key"));
    let signature = own.sign(scope, NodeId::GUESTS, SignUp { bls, ed, pop }).signature;
    let card = Card::new(bls, ed, pop, signature).expect("canonical");
    world.say(link(9), BROKERS[0], ClientMessage::SignUp(Box::new(card)));
    world.run_until(5_000);
    assert_eq!(world.blames, [(link(9), "unsound_card")]);
    assert_eq!((world.servers.directory.len(), world.servers.height), (0, 1));
}

/// T34: a client that never multi-signs is told to wait once its bucket is empty; the others sign on.
#[test]
fn a_client_that_never_signs_empties_its_bucket_and_hinders_nobody() {
    let mut world = running(4);
    // Another broker would have a bucket of its own.
    world.brokers.remove(&BROKERS[1]);
    world.loss = Box::new(|letter: &Letter| {
        letter.from == link(3) && matches!(letter.message, Message::Client(ClientMessage::MultiSig { .. }))
    });
    for word in 0..14 {
        (0..4).for_each(|id| world.broadcast(id, word));
        world.run_until(1_500 * (word + 1));
    }
    let late: u32 = world.servers.shapes.iter().map(|(_, late, _)| late).sum();
    assert!((8..=11).contains(&late), "{late} straggles in 21 seconds");
    assert!((0..3).all(|id| world.delivered(id).len() == 14));
    assert!(world.delivered(3).len() < 14);
}

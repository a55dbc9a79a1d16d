//! Liars among clients, links and servers, against one broker: what they cost, and that they stop nobody.

use super::*;
use crate::broker::{Broker, Job, Timer};
use crate::by_hand::{Hand, blamed, sent, signed_by};
use crate::certificate::{HeightCertificate, Legitimacy};
use crate::config::Rules;
use crate::message::{Cards, Credit, SignedHeight, StoreMessage};
use crate::statement::Height;
use synod_machine::{Condition, Effect, Event, Log, Recover, Time};

/// A broker alone that knows `count` clients; its keys are read.
pub(super) fn lone(count: u32, rules: Rules) -> Hand<Broker> {
    let cluster = crate::by_hand::cluster_with(rules);
    let config = Config::new(cluster, 0, Class::Fixed(8), directory(count), eager()).expect("sound");
    let log = Log { condition: Condition::Fresh, records: &mut std::iter::empty() };
    let mut hand = Hand::new(Broker::recover(config, log).expect("it keeps nothing"), keys(500));
    hand.step(Event::Start);
    hand
}

pub(super) fn small() -> Rules {
    Rules { batch_max: 4, body_bytes_max: 64 << 10, ..Rules::default() }
}

pub(super) fn from(from: NodeId, message: impl Into<Message>) -> Event<Broker> {
    Event::Message { from, message: message.into() }
}

pub(super) fn submit(id: u32, k0: u64, word: u64) -> Submit {
    let world = crate::by_hand::cluster_with(small());
    let bytes = word.to_le_bytes();
    let message = world.domains().msg.hash(&bytes);
    let t =
        client_keys(id).sign(world.scope(), NodeId::GUESTS, Submission { id, k0, parity: false, message });
    let message = Blob::try_from(synod_wire::Bytes::from(bytes.to_vec())).expect("eight bytes");
    Submit { id, k0, message, parity: false, t: t.signature, legitimacy: None }
}

fn nacks(effects: Vec<Effect<Broker>>) -> Vec<Nack> {
    let said = sent(effects).into_iter().filter_map(|(_, message)| match message {
        Message::Client(ClientMessage::Nack { why, .. }) => Some(why),
        _ => None,
    });
    said.collect()
}

pub(super) fn jobs(effects: Vec<Effect<Broker>>) -> Vec<Job> {
    let jobs = effects.into_iter().filter_map(|effect| match effect {
        Effect::Compute(job) => Some(job),
        _ => None,
    });
    jobs.collect()
}

fn lie(k0: u64) -> Legitimacy {
    let statement = Height { height: k0 };
    let aggregate = signed_by(&cluster(), &[2], &statement);
    Legitimacy::Height(HeightCertificate { statement, aggregate })
}

/// T33: certificates that do not hold cost two pairings per link and minute.
#[test]
fn t33_lying_certificates_cost_two_pairings_per_link_and_minute() {
    let mut hand = lone(1, small());
    let mut pairings = 0;
    for second in 0..60 {
        hand.now = Time(second * 1_000_000_000);
        let lying = Submit { legitimacy: Some(lie(50)), ..submit(0, 50, second) };
        let effects = hand.step(from(link(9), ClientMessage::Submit(lying)));
        pairings += blamed(&effects).iter().filter(|fault| **fault == "bad_certificate").count();
    }
    assert_eq!(pairings, 2);
}

/// Many links show a certificate each: no more than 64 pairings wait, and the others are told to come again.
#[test]
fn certificates_of_a_thousand_links_are_checked_64_at_a_time() {
    let mut hand = lone(1, small());
    let (mut waiting, mut busy) = (Vec::new(), 0);
    let shown = lie(50);
    for of in 0..1_000 {
        let lying = Submit { legitimacy: Some(shown.clone()), ..submit(0, 50, 1) };
        let effects = hand.step_alone(from(link(of), ClientMessage::Submit(lying)));
        let is_nack = |effect: &&Effect<Broker>| matches!(effect, Effect::Send { .. });
        busy += effects.iter().filter(is_nack).count();
        waiting.extend(jobs(effects));
    }
    assert_eq!((waiting.len(), busy), (64, 936));
    let answer = hand.run(waiting.remove(0));
    hand.step(answer);
    let next = Submit { legitimacy: Some(shown), ..submit(0, 50, 1) };
    assert_eq!(jobs(hand.step_alone(from(link(5_000), ClientMessage::Submit(next)))).len(), 1);
}

/// What is held over behind open batches has a bound, and comes to the pool within another.
#[test]
fn clients_that_submit_ahead_of_stalled_batches_stay_within_the_pool() {
    // 4 entries per batch: 16 in the pool, as many held.
    let mut hand = lone(80, small());
    let mut busy = 0;
    for round in 0..2 {
        for id in 0..80 {
            let effects = hand.step(from(link(id), ClientMessage::Submit(submit(id, round, u64::from(id)))));
            busy += nacks(effects).iter().filter(|why| **why == Nack::Busy).count();
            hand.now = Time(hand.now.0 + 10_000_000);
            hand.step(Event::Timer(Timer::Flush));
            for window in 0..40 {
                hand.step(Event::Timer(Timer::Window(window)));
            }
        }
    }
    assert!(busy > 0, "some came too early");
    assert_eq!(hand.machine.seen().pool, 16);
}

/// Cards that come one after another do not put off the check of submissions.
#[test]
fn a_trickle_of_cards_holds_no_submission_up() {
    let mut hand = lone(1, small());
    let armed = |effects: &[Effect<Broker>]| {
        effects.iter().any(|effect| matches!(effect, Effect::Arm { timer: Timer::Flush, .. }))
    };
    assert!(armed(&hand.step(from(link(0), ClientMessage::Submit(submit(0, 0, 1))))));
    for seed in 0..20 {
        hand.now = Time(hand.now.0 + 4_000_000);
        let card: Card = synod_wire::Draw::draw(&mut synod_wire::Drawn::new(seed));
        assert!(!armed(&hand.step(from(link(9), ClientMessage::SignUp(Box::new(card))))));
    }
    assert!(!armed(&hand.step(from(link(0), ClientMessage::Submit(submit(0, 0, 1))))));
}

fn credits(hand: &mut Hand<Broker>, height: u64, directory: u32) {
    for server in 0..SERVERS {
        let credit = Credit { bytes: 1 << 30, work: 1 << 30, height, directory };
        hand.step(from(NodeId(server), StoreMessage::Credit(credit)));
    }
}

/// A server that answers first, wrongly and again and again keeps no certificate of a height from forming.
#[test]
fn a_server_that_lies_fast_stops_no_certificate() {
    let mut hand = lone(0, small());
    credits(&mut hand, 9, 0);
    hand.now = Time(1_000_000_000);
    hand.step(Event::Timer(Timer::Heights));
    let statement = Height { height: 9 };
    let signed = |name: u64| {
        let signature = keys(name).sign_bls(&cluster().scope(), &statement).expect("it has a key");
        let signature = BlsSignatureBytes(signature.to_bytes());
        ServerMessage::Height(SignedHeight { statement: statement.clone(), signature })
    };
    let mut waiting = jobs(hand.step_alone(from(NodeId(3), signed(77))));
    waiting.extend(jobs(hand.step_alone(from(NodeId(0), signed(0)))));
    assert_eq!(waiting.len(), 1, "two of four are put together");
    // The others answer once, while the job is at work; the liar does again.
    for (server, name) in [(1, 1), (2, 2), (3, 77)] {
        assert!(jobs(hand.step_alone(from(NodeId(server), signed(name)))).is_empty());
    }
    let answer = hand.run(waiting.remove(0));
    let effects = hand.step(answer);
    assert_eq!(blamed(&effects), ["forged_height"]);
    assert_eq!(hand.machine.seen().height, 9);
}

/// A server that sends members nobody asked it for keeps nobody out of the directory.
#[test]
fn members_that_were_not_asked_for_do_not_count() {
    let mut hand = lone(2, small());
    credits(&mut hand, 1, 4);
    hand.now = Time(1_000_000_000);
    let asked = sent(hand.step(Event::Timer(Timer::Heights))).into_iter().find_map(|(to, message)| {
        let synod_machine::To::Node(to) = to else { return None };
        matches!(message, Message::Server(ServerMessage::DirPull { from: 2 })).then_some(to)
    });
    let source = asked.expect("one server is asked for members");
    let liar = NodeId((source.0 + 1) % SERVERS);
    let full = directory(4);
    let (view, root) = (full.view(), full.view().root(cluster().domains()));
    let member = |name: u32| crate::by_hand::member(&client_keys(name));
    let wrong = Cards { from: 2, members: vec![member(90), member(91)], length: 4, root };
    hand.step(from(liar, ServerMessage::Cards(wrong)));
    for server in 0..SERVERS {
        let is_source = NodeId(server) == source;
        let first = if is_source { 2 } else { 4 };
        let members = (first..4).filter_map(|id| view.member(id).cloned()).collect();
        hand.step(from(
            NodeId(server),
            ServerMessage::Cards(Cards { from: first, members, length: 4, root }),
        ));
    }
    assert_eq!(hand.machine.seen().directory, 4);
}

/// Refusals for their expiry do not make a broker seal and upload at the speed of the network.
#[test]
fn refused_expiries_are_sealed_anew_once_per_wait_and_four_times_at_most() {
    let mut world = World::new(2, eager());
    let uploads = std::rc::Rc::new(std::cell::Cell::new(0_u32));
    let seen = std::rc::Rc::clone(&uploads);
    world.servers.refuses = Some(crate::batch::Refusal::Expired);
    world.loss = Box::new(move |letter: &Letter| {
        let is_batch = matches!(&letter.message, Message::Store(StoreMessage::Batch(_)));
        seen.set(seen.get() + u32::from(is_batch && letter.from == BROKERS[0]));
        assert!(seen.get() < 1_000, "it never ends");
        false
    });
    world.start_client(0);
    world.broadcast(0, 1);
    world.run_until(3_000);
    assert_eq!(uploads.get(), 4 * SERVERS);
    assert_eq!(world.brokers[&BROKERS[0]].machine.seen().open, 0, "given up");
    world.servers.refuses = None;
    world.run_until(40_000);
    assert_eq!(world.delivered(0), [1]);
}

/// A server that puts a batch off and says at once that it takes it has it again once, until servers are asked again.
#[test]
fn a_server_that_refuses_and_invites_in_turn_is_sent_a_batch_again_once_until_servers_are_asked_again() {
    use crate::batch::Refusal;
    use crate::message::Refused;
    const LIAR: NodeId = NodeId(2);
    let mut world = running(2);
    let uploads = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let seen = std::rc::Rc::clone(&uploads);
    let domains = world.cluster.domains().clone();
    // No server witnesses anything, so that the batch waits.
    world.loss = Box::new(move |letter: &Letter| {
        if let Message::Store(StoreMessage::Batch(upload)) = &letter.message
            && (letter.from, letter.to) == (BROKERS[0], LIAR)
        {
            let batch = crate::content::AnyBatch::of_upload(upload).expect("of either kind");
            seen.borrow_mut().push(batch.name_and_digest(&domains).1);
        }
        matches!(letter.message, Message::Store(StoreMessage::Shard(_)))
    });
    (0..2).for_each(|id| world.broadcast(id, 7));
    let mut ms = 0;
    while uploads.borrow().is_empty() {
        ms += 1;
        world.run_until(ms);
    }
    let digest = uploads.borrow()[0];
    let lie = |world: &mut World, why| {
        let credit = Credit { bytes: u64::MAX, work: u64::MAX, height: 1, directory: 2 };
        let refused = Refused { digest, why };
        for said in [StoreMessage::Refuse(refused), StoreMessage::Credit(credit)] {
            world.say_any(LIAR, BROKERS[0], Message::Store(said));
        }
        world.settle();
    };
    for why in [Refusal::TooFar, Refusal::Credit, Refusal::Directory] {
        (0..100).for_each(|_| lie(&mut world, why));
    }
    assert_eq!(uploads.borrow().len(), 2, "and no more before others are asked");
    // Each further stage sends it to whoever is silent, and once more to whoever wants it.
    world.run_until(ms + 2_000);
    let before = uploads.borrow().len();
    (0..100).for_each(|_| lie(&mut world, Refusal::TooFar));
    assert_eq!(uploads.borrow().len(), before + 1);
    world.loss = Box::new(|_| false);
    world.run_until(ms + 10_000);
    assert!((0..2).all(|id| world.done(id).len() == 1));
}

/// D14, T31: neither an ACK of another link nor a SUBMIT that the client did not sign stops the resends of its delivery.
#[test]
fn a_forged_ack_changes_nothing() {
    let mut world = running(2);
    let lost = std::rc::Rc::new(std::cell::Cell::new(0_u32));
    let counted = std::rc::Rc::clone(&lost);
    world.loss = Box::new(move |letter: &Letter| {
        let is_victims = letter.to == link(0)
            && matches!(letter.message, Message::Client(ClientMessage::Delivery(_)))
            && counted.get() < 2;
        counted.set(counted.get() + u32::from(is_victims));
        is_victims
    });
    (0..2).for_each(|id| world.broadcast(id, 5));
    let relayed = submission(&world, (0, 0), 5, false);
    world.say(link(9), BROKERS[0], ClientMessage::Submit(relayed));
    world.run_until(1_050);
    assert_eq!((lost.get(), world.servers.height), (1, 2), "it is delivered, and the victim does not know");
    for height in 0..4 {
        world.say(link(9), BROKERS[0], ClientMessage::Ack { height });
        world.say(link(8), BROKERS[0], ClientMessage::Ack { height });
    }
    let mut forged = submission(&world, (0, 1), 6, true);
    forged.t = Signature([3; 64]);
    world.say(link(9), BROKERS[0], ClientMessage::Submit(forged));
    world.run_until(3_000);
    assert_eq!(world.done(0), [(5, true)], "before it turns to another broker");
}

/// Shares that come after the batch was sealed count as answers: else only the fast ones would say how long to wait.
#[test]
fn answers_that_come_too_late_to_sign_still_say_how_long_to_wait() {
    // Every client needs 60 ms for each way but one, which is at once: the wait must not follow the fast one alone.
    let mut world = running(4);
    world.way = Box::new(|letter: &Letter| {
        let slow = |node: NodeId| (link(1)..=link(3)).contains(&node);
        match letter.message {
            Message::Client(_) if slow(letter.from) || slow(letter.to) => vec![60],
            _ => vec![0],
        }
    });
    for word in 0..8 {
        (0..4).for_each(|id| world.broadcast(id, word));
        world.run_until(2_000 * (word + 1));
    }
    let late: u32 = world.servers.shapes.iter().map(|(_, late, _)| late).sum();
    let all: u32 = world.servers.shapes.iter().map(|(count, ..)| count).sum();
    assert!(late * 4 <= all, "{late} of {all} straggle");
}

/// A batch that was sealed anew may be delivered under both digests: late verdicts about the other one accuse nobody.
#[test]
fn verdicts_about_an_earlier_sealing_accuse_nobody() {
    let mut world = running(2);
    let first = std::rc::Rc::new(std::cell::RefCell::new(None));
    let seen = std::rc::Rc::clone(&first);
    world.loss = Box::new(move |letter: &Letter| {
        let Message::Server(ServerMessage::Delivered(verdict)) = &letter.message else { return false };
        if letter.from == NodeId(3) && seen.borrow().is_none() {
            seen.borrow_mut().replace(verdict.clone());
        }
        seen.borrow().as_ref().is_none_or(|first| first.statement.digest == verdict.statement.digest)
    });
    (0..2).for_each(|id| world.broadcast(id, 5));
    world.run_until(1_100);
    let late = first.borrow().clone().expect("it was delivered, and nobody heard of it");
    world.servers.height += 20_000;
    world.credit();
    world.settle();
    world.loss = Box::new(|_| false);
    world.say_any(NodeId(3), BROKERS[0], Message::Server(ServerMessage::Delivered(late)));
    world.run_until(3_900);
    assert_eq!(world.servers.ordered.len(), 2, "it was sealed and ordered twice");
    assert!((0..2).all(|id| world.delivered(id) == [5] && world.done(id).len() == 1));
    assert_eq!(world.blames, []);
}

/// A batch that was sealed anew and delivered under each of its digests is certified, whichever of them servers spoke of first.
#[test]
fn servers_that_speak_of_different_sealings_first_certify_one_in_the_end() {
    let mut world = running(1);
    let sealings = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let seen = std::rc::Rc::clone(&sealings);
    // The other broker does not help, one server is silent, and of each sealing one server alone is heard.
    world.loss = Box::new(move |letter: &Letter| {
        let Message::Server(ServerMessage::Delivered(verdict)) = &letter.message else {
            return letter.to == BROKERS[1];
        };
        let (digest, mut seen) = (verdict.statement.digest, seen.borrow_mut());
        if !seen.contains(&digest) {
            seen.push(digest);
        }
        seen.iter().position(|known| *known == digest) != Some(letter.from.0 as usize)
    });
    world.broadcast(0, 5);
    world.run_until(60_000);
    assert!(sealings.borrow().len() >= 3, "{} sealings", sealings.borrow().len());
    assert_eq!(world.done(0), []);
    world.loss = Box::new(|letter: &Letter| letter.to == BROKERS[1] || letter.from == NodeId(3));
    world.run_until(120_000);
    assert_eq!((world.delivered(0), world.done(0).len()), (vec![5], 1));
    assert_eq!(world.blames, []);
}

/// T46: strangers that repeat an earlier message of a client, with its signature or a made-up one, are not answered in the
/// client's place: it signs its next message, and the batch waits for nobody.
#[test]
fn strangers_that_repeat_an_earlier_message_take_no_links_of_its_client_away() {
    for made_up in [false, true] {
        let mut world = running(2);
        (0..2).for_each(|id| world.broadcast(id, 1));
        world.run_until(1_000);
        let mut old = submission(&world, (0, 0), 1, false);
        if made_up {
            old.t = Signature([3; 64]);
        }
        let offered = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
        let seen = std::rc::Rc::clone(&offered);
        world.loss = Box::new(move |letter: &Letter| {
            if let Message::Client(ClientMessage::Inclusion(inclusion)) = &letter.message
                && !inclusion.closed
            {
                seen.borrow_mut().push(letter.to);
            }
            false
        });
        (0..2).for_each(|id| world.broadcast(id, 2));
        world.run_until(1_008);
        assert_eq!(world.brokers[&BROKERS[0]].machine.seen().pool, 2, "the next messages wait");
        for stranger in [8, 9] {
            world.say(link(stranger), BROKERS[0], ClientMessage::Submit(old.clone()));
        }
        world.run_until(3_000);
        assert_eq!(*offered.borrow(), [link(0), link(1)], "each client is offered its own place at once");
        assert!(world.servers.shapes.iter().all(|(count, late, _)| (*count, *late) == (2, 0)), "all sign");
        assert_eq!(world.done(0), [(1, true), (2, true)]);
    }
}

/// A copy with a made-up signature of what waits or is in a batch is checked before its link is answered.
#[test]
fn a_copy_of_a_message_counts_for_its_link_only_with_a_signature_of_its_client() {
    let mut hand = lone(2, Rules { batch_max: 64, body_bytes_max: 64 << 10, ..Rules::default() });
    let links = |hand: &Hand<Broker>| {
        hand.machine.pool.get(0).expect("it waits").carriers.iter().collect::<Vec<NodeId>>()
    };
    hand.step(from(link(0), ClientMessage::Submit(submit(0, 0, 1))));
    hand.step(Event::Timer(Timer::Flush));
    assert_eq!(links(&hand), [link(0)]);
    let forged = Submit { t: Signature([3; 64]), ..submit(0, 0, 1) };
    for stranger in [8, 9] {
        hand.step(from(link(stranger), ClientMessage::Submit(forged.clone())));
    }
    let effects = hand.step(Event::Timer(Timer::Flush));
    assert_eq!(blamed(&effects), ["forged_submission", "forged_submission"]);
    assert_eq!(links(&hand), [link(0)], "no stranger took the place of the client");
    hand.step(from(link(7), ClientMessage::Submit(submit(0, 0, 1))));
    assert_eq!(links(&hand), [link(7), link(0)], "its own signature is enough");
}

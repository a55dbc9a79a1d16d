//! What comes late, again or over another link: earlier words about equal messages, timers, new links.

use super::*;
use crate::certified::aggregate_of;
use synod_crypto::Scope;
use synod_crypto::bls::combine;
use synod_machine::Link;
use synod_quorum::Epoch;

/// A client that broadcast 7, 8 and 7 again, the first two of which were delivered; where the first 7 stood, and the last.
fn third_of_three() -> (Hand<Client>, Batch, Submit) {
    let mut hand = client();
    let first = submitted(broadcast(&mut hand, 7));
    // It straggled under the number of others, far above its own.
    let old = Batch::of(&first, 100);
    let closed =
        |batch: &Batch| ClientMessage::Inclusion(Inclusion { closed: true, ..batch.inclusion(None) });
    hear(&mut hand, FIRST, closed(&old));
    hear(&mut hand, FIRST, old.delivered(2, None));
    let second = Batch::of(&submitted(broadcast(&mut hand, 8)), 101);
    hear(&mut hand, FIRST, closed(&second));
    hear(&mut hand, FIRST, second.delivered(3, None));
    let third = submitted(broadcast(&mut hand, 7));
    assert_eq!((&third.message, third.parity), (&first.message, first.parity), "equal to the last bit");
    (hand, old, third)
}

/// T48, T7: a broker shows where an equal message stood before, and that it was delivered: true, and of another broadcast.
#[test]
fn the_delivery_of_an_equal_message_before_ends_nothing() {
    let (mut hand, old, third) = third_of_three();
    let shown = Inclusion { closed: true, ..old.inclusion(None) };
    hear(&mut hand, FIRST, ClientMessage::Inclusion(shown));
    let effects = hear(&mut hand, FIRST, old.delivered(2, None));
    assert!(outputs(&effects).is_empty(), "{effects:?}");
    assert_eq!(hand.machine.waiting(), (0, true));
    let own = Batch::of(&third, 2);
    hear(&mut hand, FIRST, ClientMessage::Inclusion(own.inclusion(None)));
    assert!(receipt(&hear(&mut hand, FIRST, own.delivered(4, None))).is_some());
}

#[test]
fn a_restart_does_not_forget_which_deliveries_are_old() {
    let mut hand = client();
    let batch = Batch::of(&submitted(broadcast(&mut hand, 7)), 0);
    hear(&mut hand, FIRST, ClientMessage::Inclusion(batch.inclusion(None)));
    hear(&mut hand, FIRST, batch.delivered(5, None));
    let effects = broadcast(&mut hand, 7);
    let record = effects.iter().find_map(|effect| match effect {
        Effect::Persist(record) => Some(record.clone()),
        _ => None,
    });
    let mut hand = Hand::new(recovered(Condition::Clean, record.into_iter().collect()), client_keys(ID));
    let again = submitted(hand.step(Event::Start));
    let own = Batch::of(&again, 3);
    hear(&mut hand, FIRST, ClientMessage::Inclusion(own.inclusion(None)));
    assert!(outputs(&hear(&mut hand, FIRST, own.delivered(5, None))).is_empty());
    assert!(receipt(&hear(&mut hand, FIRST, own.delivered(6, None))).is_some());
}

/// What a correct broker said of an earlier message may come when the next one is in flight.
#[test]
fn words_about_earlier_messages_accuse_nobody() {
    let (mut hand, old, third) = third_of_three();
    let late = Batch::of(&Submit { parity: !third.parity, ..third.clone() }, 2);
    let below = Batch::of(&third, 1);
    for batch in [&old, &late, &below] {
        let effects = hear(&mut hand, FIRST, ClientMessage::Inclusion(batch.inclusion(None)));
        let proven = blamed(&effects).into_iter().filter(|fault| !fault.starts_with("suspected"));
        assert_eq!(proven.count(), usize::from(batch.k == 100), "{} is above what is proven", batch.k);
        assert!(!signs(effects));
    }
}

/// A question about the standing leaves the message in flight its timers.
#[test]
fn a_resync_while_a_message_is_in_flight_stops_no_retry() {
    let mut hand = client();
    let effects = broadcast(&mut hand, 7);
    let timer = effects.iter().find_map(|effect| match effect {
        Effect::Arm { timer: timer @ Timer::Submit(_), .. } => Some(*timer),
        _ => None,
    });
    let first = submitted(effects);
    let nonce = query(hand.step(Event::Input(Input::Resync)))[0].1;
    hear(&mut hand, FIRST, state(nonce, 0, 0));
    let effects = hand.step(Event::Timer(timer.expect("it waits for so long")));
    assert_eq!(submitted(effects), first, "the next broker gets it");
}

/// The broker answers on links that carried the submission, and knows none of a link that is new.
#[test]
fn over_a_new_link_the_broker_hears_the_submission_again() {
    let mut hand = client();
    let up = |peer| Event::Link { peer, link: Link::Up };
    assert!(hand.step(up(FIRST)).is_empty(), "there is nothing to say");
    let first = submitted(broadcast(&mut hand, 7));
    let batch = Batch::of(&first, 0);
    hear(&mut hand, FIRST, ClientMessage::Inclusion(batch.inclusion(None)));
    assert_eq!(said(hand.step(up(FIRST))), [(FIRST, ClientMessage::Submit(first))]);
    assert!(hand.step(up(SECOND)).is_empty(), "it is not its turn");
    assert!(hand.step(Event::Link { peer: FIRST, link: Link::Down }).is_empty());
}

/// A client that signed right below the proven height gives a number that is not proven to itself.
#[test]
fn an_own_number_without_certificate_is_not_signed_and_nobody_is_blamed() {
    let next = Next { next_k: 1, ..blank() };
    let mut hand = Hand::new(recovered(Condition::Clean, vec![ClientRecord::Next(next)]), client_keys(ID));
    let batch = Batch::of(&submitted(broadcast(&mut hand, 7)), 1);
    let effects = hear(&mut hand, FIRST, ClientMessage::Inclusion(batch.inclusion(None)));
    assert_eq!(blamed(&effects), [""; 0]);
    assert!(!signs(effects));
    let shown = batch.inclusion(Some(height(2, &[0, 1])));
    assert!(signs(hear(&mut hand, FIRST, ClientMessage::Inclusion(shown))));
}

/// Another word of eight bytes with the same tag, which its author can compute.
fn twin(word: u64) -> u64 {
    const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
    let mixed = (8 ^ word).wrapping_mul(FACTOR);
    // The tag drops the highest bit of the fold.
    let other = mixed ^ mixed >> 29 ^ 1 << 63;
    let unmixed = (0..3).fold(other, |guess, _| other ^ guess >> 29);
    let inverse = (0..6).fold(FACTOR, |x, _| x.wrapping_mul(2_u64.wrapping_sub(FACTOR.wrapping_mul(x))));
    unmixed.wrapping_mul(inverse) ^ 8
}

/// T50: two messages with one tag: the second is SAME, which makes no receipt, whoever puts one together.
#[test]
fn t50_two_messages_of_one_tag_are_the_same_and_only_one_has_a_receipt() {
    let (word, twin) = (7, twin(7));
    assert_ne!(word, twin);
    assert_eq!(tag(&payload(word), true), tag(&payload(twin), true));
    let mut hand = client();
    let batch = Batch::of(&submitted(broadcast(&mut hand, twin)), 0);
    let (inclusion, delivery) = (batch.inclusion(None), batch.delivery(2, Some(Reason::Same), &[0, 2]));
    let statement = Delivered {
        height: 2,
        kind: Kind::Messages,
        digest: delivery.digest,
        root_commit: batch.commit(),
        exceptions_root: delivery.exceptions_root,
        exc_count: 1,
    };
    let own = &batch.entries[1];
    let made = Receipt {
        id: own.id,
        message: own.message.clone().try_into().expect("eight bytes"),
        parity: own.parity,
        k: 0,
        shape: batch.shape,
        root: inclusion.root,
        proof: inclusion.proof,
        certificate: DeliveryCertificate { statement, aggregate: delivery.aggregate },
        exception: delivery.exception,
    };
    assert_eq!(made.verify(&cluster(), &keys(9)), Err(NoReceipt::Exception));
    let without = Receipt { exception: None, ..made };
    assert_eq!(without.verify(&cluster(), &keys(9)), Err(NoReceipt::Exception));
}

/// T37, row 3: what the same servers signed in another epoch or for another cluster proves nothing here.
#[test]
fn t37_certificates_of_another_epoch_or_cluster_are_refused() {
    let cluster = cluster();
    let here = cluster.scope();
    let elsewhere = [
        Scope { epoch: Epoch(2), ..here },
        Scope { cluster: Hash::of(b"another"), ..here },
        Scope { epoch: Epoch(0), ..here },
    ];
    let mut hand = client();
    let batch = Batch::of(&submitted(broadcast(&mut hand, 7)), 5);
    let show = |hand: &mut Hand<Client>, scope: Scope| {
        let statement = Height { height: 9 };
        let votes: Vec<_> = [0, 2]
            .map(|server| {
                let vote = keys(server).sign_bls(&scope, &statement).expect("it has a key");
                (NodeId(u32::try_from(server).expect("small")), vote)
            })
            .into();
        let of = (statement.clone(), scope);
        let certificate = combine(of, &votes, cluster.bls(), |_| true, &keys(0)).expect("they signed");
        let aggregate = aggregate_of(&certificate, &cluster).expect("members");
        let inclusion = batch.inclusion(Some(HeightCertificate { statement, aggregate }));
        hear(hand, FIRST, ClientMessage::Inclusion(inclusion))
    };
    for scope in elsewhere {
        let effects = show(&mut hand, scope);
        assert_eq!(blamed(&effects), ["bad_certificate"]);
        assert!(!signs(effects));
        assert_eq!(hand.machine.height(), 1);
    }
    assert!(signs(show(&mut hand, here)));
}

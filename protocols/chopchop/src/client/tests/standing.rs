//! Where a client stands: resynchronisation, and entering the directory.

use super::*;
use crate::card::Card;
use crate::directory::Directory;
use crate::message::Signed;

/// T49: without a journal nothing is signed before the servers said where the client stands, and then above n^.
#[test]
fn a_lost_journal_starts_above_the_proven_height() {
    let mut hand = Hand::new(recovered(Condition::Fresh, Vec::new()), client_keys(ID));
    let asked = query(hand.step(Event::Start));
    assert_eq!(asked.len(), 2, "every broker is asked");
    assert!(said(broadcast(&mut hand, 7)).is_empty());
    let nonce = asked[0].1;
    let effects = hear(&mut hand, FIRST, state(nonce, 4, tag(&payload(3), true)));
    assert!(said(effects).is_empty(), "answers of one T_submit count together");
    let submit = submitted(hand.step(Event::Timer(Timer::Resync(1))));
    assert_eq!((submit.k0, submit.parity), (9, false), "the other parity than the last delivered one");
}

#[test]
fn stale_resynchronises_and_signs_anew_above_what_the_servers_said() {
    let mut hand = client();
    let first = submitted(broadcast(&mut hand, 7));
    let batch = Batch::of(&first, 0);
    hear(&mut hand, FIRST, ClientMessage::Inclusion(batch.inclusion(None)));
    let asked = query(hear(&mut hand, FIRST, batch.delivered(12, Some(Reason::Stale))));
    assert_eq!(asked.len(), 1);
    let forged = ClientMessage::State(Box::new(StateAnswer {
        next_k: 11,
        tag: 0,
        aggregate: signed_by(&cluster(), &[2], &State { nonce: asked[0].1, id: ID, next_k: 11, tag: 0 }),
        height: height(9, &[1, 3]),
    }));
    assert_eq!(blamed(&hear(&mut hand, FIRST, forged)), ["suspected_state"]);
    let second = submitted(hear(&mut hand, FIRST, state(asked[0].1, 11, tag(&payload(1), false))));
    assert_eq!((second.k0, second.parity), (11, first.parity));
}

/// T48: a state that lags to an older broadcast of the same payload and parity ends nothing.
#[test]
fn a_state_that_lags_finishes_nothing_and_an_equal_one_ahead_does() {
    let next = Next { next_k: 4, ..blank() };
    let mut hand = Hand::new(recovered(Condition::Clean, vec![ClientRecord::Next(next)]), client_keys(ID));
    let submit = submitted(broadcast(&mut hand, 7));
    assert_eq!(submit.k0, 4);
    let own = tag(&submit.message, submit.parity);
    let nonce = query(hand.step(Event::Input(Input::Resync)))[0].1;
    let effects = hear(&mut hand, FIRST, state(nonce, 1, own));
    assert_eq!(outputs(&effects), [Output::Resynced { next_k: 5 }]);
    assert_eq!(hand.machine.waiting(), (0, true), "the third broadcast is still in flight");
    let nonce = query(hand.step(Event::Input(Input::Resync)))[0].1;
    let effects = hear(&mut hand, FIRST, state(nonce, 5, own));
    let told = Output::Delivered { tokens: vec![7], receipt: None };
    assert_eq!(outputs(&effects), [Output::Resynced { next_k: 5 }, told]);
}

#[test]
fn an_idle_client_keeps_its_parity_unless_the_servers_are_ahead() {
    let next = Next { next_k: 4, parity: true, ..blank() };
    let mut hand = Hand::new(recovered(Condition::Clean, vec![ClientRecord::Next(next)]), client_keys(ID));
    let nonce = query(hand.step(Event::Input(Input::Resync)))[0].1;
    hear(&mut hand, FIRST, state(nonce, 3, tag(&payload(1), true)));
    assert!(submitted(broadcast(&mut hand, 7)).parity, "a state that lags changes nothing");
}

fn newcomer(name: u32) -> (Hand<Client>, Card) {
    let config = Config::new(cluster(), Class::Fixed(8), vec![FIRST], None, Parameters::default());
    let log = Log { condition: Condition::Fresh, records: &mut std::iter::empty() };
    let client = Client::recover(config.expect("sound"), log).expect("an empty journal");
    let mut hand = Hand::new(client, client_keys(name));
    let sent = said(hand.step(Event::Input(Input::SignUp)));
    let [(FIRST, ClientMessage::SignUp(card))] = &sent[..] else { panic!("{sent:?}") };
    (hand, *card.clone())
}

/// T51: the place of another card gives this one no id.
#[test]
fn an_id_shown_for_the_index_of_another_card_is_refused() {
    let ((_, other), (mut hand, own)) = (newcomer(70), newcomer(71));
    let cluster = cluster();
    let assigned = Directory::default().deliver(&[other, own]);
    let statement = Delivered {
        height: 2,
        kind: Kind::SignUp,
        digest: Hash::of(b"cards"),
        root_commit: Hash::ZERO,
        exceptions_root: assigned.root(cluster.domains()),
        exc_count: 0,
    };
    let aggregate = signed_by(&cluster, &[0, 3], &statement);
    let shown = |index: u32, id: u32| {
        let path = assigned.prove(cluster.domains(), index).expect("one of two");
        let (height, digest, aggregate) = (2, statement.digest, aggregate.clone());
        let signed = Signed { height, digest, index, count: 2, id, path, exc_count: 0, aggregate };
        ClientMessage::Signed(Box::new(signed))
    };
    for (index, id) in [(0, 0), (0, 1), (1, 0)] {
        assert_eq!(blamed(&hear(&mut hand, FIRST, shown(index, id))), ["false_id"]);
    }
    assert_eq!(outputs(&hear(&mut hand, FIRST, shown(1, 1))), [Output::SignedUp { id: 1 }]);
}

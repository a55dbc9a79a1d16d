//! The client against brokers and servers that a test plays by hand.

mod late;
mod standing;

use synod_crypto::Hash;
use synod_machine::{Condition, Effect, Event, Log, Recover, Span, To};
use synod_quorum::NodeId;
use synod_wire::Bytes;

use super::{Client, ClientRecord, Config, Input, Next, Output, Parameters, Refusal, Timer};
use crate::batch::OwnedEntry;
use crate::by_hand::{Hand, blamed, client_keys, cluster, keys, sent, signed_by};
use crate::certificate::{DeliveryCertificate, HeightCertificate};
use crate::config::{Class, Cluster};
use crate::dedup::{Exceptions, Reason, tag};
use crate::message::{ClientMessage, Delivery, ExceptionProof, Inclusion, Nack, StateAnswer, Submit};
use crate::receipt::{NoReceipt, Receipt};
use crate::statement::{Delivered, Height, Kind, State};
use crate::tree::{EntryTree, TreeShape, root_commit};
use crate::vocabulary::Message;

const ID: u32 = 5;
const FIRST: NodeId = NodeId(200);
const SECOND: NodeId = NodeId(201);

fn config(parameters: Parameters) -> Config {
    let brokers = vec![FIRST, SECOND];
    Config::new(cluster(), Class::Fixed(8), brokers, Some(ID), parameters).expect("sound")
}

fn recovered(condition: Condition, records: Vec<ClientRecord>) -> Client {
    let log = Log { condition, records: &mut records.into_iter() };
    Client::recover(config(Parameters::default()), log).expect("its own journal")
}

fn blank() -> Next {
    Next { id: Some(ID), next_k: 0, parity: false, flight: None, certificate: None }
}

/// A client whose journal begins here.
fn client() -> Hand<Client> {
    Hand::new(recovered(Condition::Clean, vec![ClientRecord::Next(blank())]), client_keys(ID))
}

fn payload(word: u64) -> Bytes {
    word.to_le_bytes().to_vec().into()
}

fn broadcast(hand: &mut Hand<Client>, word: u64) -> Vec<Effect<Client>> {
    hand.step(Event::Input(Input::Broadcast { token: word, payload: payload(word) }))
}

fn hear(hand: &mut Hand<Client>, from: NodeId, message: ClientMessage) -> Vec<Effect<Client>> {
    hand.step(Event::Message { from, message: Message::Client(message) })
}

fn said(effects: Vec<Effect<Client>>) -> Vec<(NodeId, ClientMessage)> {
    let sends = sent(effects).into_iter().filter_map(|(to, message)| match (to, message) {
        (To::Node(to), Message::Client(message)) => Some((to, message)),
        _ => None,
    });
    sends.collect()
}

fn submitted(effects: Vec<Effect<Client>>) -> Submit {
    let found = said(effects).into_iter().find_map(|(_, message)| match message {
        ClientMessage::Submit(submit) => Some(submit),
        _ => None,
    });
    found.expect("a SUBMIT")
}

fn signs(effects: Vec<Effect<Client>>) -> bool {
    said(effects).iter().any(|(_, message)| matches!(message, ClientMessage::MultiSig { .. }))
}

/// A batch that holds the client's message between two others.
struct Batch {
    cluster: Cluster,
    k: u64,
    shape: TreeShape,
    tree: EntryTree,
    entries: Vec<OwnedEntry>,
}

impl Batch {
    fn of(submit: &Submit, k: u64) -> Self {
        let other = |id| OwnedEntry { id, message: payload(0), parity: false };
        let own =
            OwnedEntry { id: submit.id, message: submit.message.bytes().clone(), parity: submit.parity };
        let entries = vec![other(1), own, other(9)];
        let (cluster, shape) = (cluster(), TreeShape { count: 3, msg_size: 8 });
        let tree = EntryTree::grow(cluster.domains(), shape, entries.iter().map(OwnedEntry::as_entry));
        Self { cluster, k, shape, tree, entries }
    }

    fn commit(&self) -> Hash {
        root_commit(self.cluster.domains(), self.k, &self.shape, &self.tree.root())
    }

    fn inclusion(&self, height: Option<HeightCertificate>) -> Inclusion {
        let entry = |index: u32| self.entries.get(index as usize).map(OwnedEntry::as_entry);
        let proof = self.tree.prove(1, entry).expect("the second of three");
        let (root, k, shape) = (self.tree.root(), self.k, self.shape);
        Inclusion { root, k, shape, proof, height, closed: false }
    }

    fn delivery(&self, height: u64, reason: Option<Reason>, servers: &[u32]) -> Delivery {
        let domains = self.cluster.domains();
        let exceptions = Exceptions::new(3, reason.map(|reason| (1, reason)).into_iter().collect());
        let said = Delivered {
            height,
            kind: Kind::Messages,
            digest: Hash::of(b"batch"),
            root_commit: self.commit(),
            exceptions_root: exceptions.root(domains),
            exc_count: exceptions.exc_count(),
        };
        let exception = reason.map(|_| {
            let (leaf, path) = exceptions.prove(domains, 1).expect("one of three");
            ExceptionProof { leaf, path }
        });
        Delivery {
            root_commit: super::flight::half(&self.commit()),
            height,
            digest: said.digest,
            exceptions_root: said.exceptions_root,
            exc_count: said.exc_count,
            aggregate: signed_by(&self.cluster, servers, &said),
            exception,
        }
    }

    fn delivered(&self, height: u64, reason: Option<Reason>) -> ClientMessage {
        ClientMessage::Delivery(Box::new(self.delivery(height, reason, &[0, 2])))
    }
}

fn height(height: u64, servers: &[u32]) -> HeightCertificate {
    let statement = Height { height };
    let aggregate = signed_by(&cluster(), servers, &statement);
    HeightCertificate { statement, aggregate }
}

fn outputs(effects: &[Effect<Client>]) -> Vec<Output> {
    let outputs = effects.iter().filter_map(|effect| match effect {
        Effect::Output(output) => Some(output.clone()),
        _ => None,
    });
    outputs.collect()
}

fn receipt(effects: &[Effect<Client>]) -> Option<Receipt> {
    outputs(effects).into_iter().find_map(|output| match output {
        Output::Delivered { receipt, .. } => receipt.map(|receipt| *receipt),
        _ => None,
    })
}

/// Where an effect of this kind stands first.
fn place(effects: &[Effect<Client>], is: impl Fn(&Effect<Client>) -> bool) -> usize {
    effects.iter().position(is).expect("it happens")
}

fn is_record(effect: &Effect<Client>) -> bool {
    matches!(effect, Effect::Persist(_))
}

#[test]
fn the_record_stands_before_submit_and_again_before_the_multi_signature() {
    let mut hand = client();
    let effects = broadcast(&mut hand, 7);
    let record = place(&effects, is_record);
    assert!(record < place(&effects, |effect| matches!(effect, Effect::Send { .. })));
    let Effect::Persist(ClientRecord::Next(next)) = &effects[record] else { unreachable!("it is one") };
    let flight = next.flight.as_ref().expect("in flight");
    assert_eq!((next.next_k, flight.k0, &flight.message[..]), (1, 0, &payload(7)[..]));
    let batch = Batch::of(&submitted(effects), 0);
    let effects = hear(&mut hand, FIRST, ClientMessage::Inclusion(batch.inclusion(None)));
    let record = place(&effects, is_record);
    assert!(record < place(&effects, |effect| matches!(effect, Effect::Send { .. })));
    let Effect::Persist(ClientRecord::Next(next)) = &effects[record] else { unreachable!("it is one") };
    assert!(next.next_k > batch.k);
    assert!(signs(effects));
}

#[test]
fn a_delivery_gives_a_receipt_that_anybody_can_check_and_is_output_before_the_record_drops_it() {
    let mut hand = client();
    let batch = Batch::of(&submitted(broadcast(&mut hand, 7)), 0);
    hear(&mut hand, FIRST, ClientMessage::Inclusion(batch.inclusion(None)));
    let effects = hear(&mut hand, FIRST, batch.delivered(2, None));
    let told = place(&effects, |effect| matches!(effect, Effect::Output(_)));
    assert!(told < place(&effects, is_record));
    let receipt = receipt(&effects).expect("delivered");
    assert_eq!(receipt.verify(&cluster(), &keys(9)), Ok(()));
    assert_eq!(hand.machine.height(), 2);
    assert_eq!(said(effects), [(FIRST, ClientMessage::Ack { height: 2 })]);
    let again = hear(&mut hand, FIRST, batch.delivered(2, None));
    assert_eq!(said(again), [(FIRST, ClientMessage::Ack { height: 2 })], "its acknowledgement was lost");
}

#[test]
fn no_changed_part_of_a_receipt_still_proves_anything() {
    let mut hand = client();
    let batch = Batch::of(&submitted(broadcast(&mut hand, 7)), 0);
    hear(&mut hand, FIRST, ClientMessage::Inclusion(batch.inclusion(None)));
    let good = receipt(&hear(&mut hand, FIRST, batch.delivered(2, None))).expect("delivered");
    let verdict = |change: fn(&mut Receipt)| {
        let mut receipt = good.clone();
        change(&mut receipt);
        receipt.verify(&cluster(), &keys(9))
    };
    assert_eq!(verdict(|receipt| receipt.parity ^= true), Err(NoReceipt::Inclusion));
    assert_eq!(verdict(|receipt| receipt.id += 1), Err(NoReceipt::Inclusion));
    assert_eq!(verdict(|receipt| receipt.k += 1), Err(NoReceipt::OtherBatch));
    assert_eq!(verdict(|receipt| receipt.certificate.statement.exc_count = 1), Err(NoReceipt::Exception));
    assert!(matches!(
        verdict(|receipt| receipt.certificate.statement.height += 1),
        Err(NoReceipt::Certificate(_))
    ));
    let weak = |receipt: &mut Receipt| {
        let statement = receipt.certificate.statement.clone();
        let aggregate = signed_by(&cluster(), &[3], &statement);
        receipt.certificate = DeliveryCertificate { statement, aggregate };
    };
    assert!(matches!(verdict(weak), Err(NoReceipt::Certificate(_))), "one server of four proves nothing");
}

#[test]
fn same_ends_the_retry_without_a_receipt() {
    let mut hand = client();
    let batch = Batch::of(&submitted(broadcast(&mut hand, 7)), 0);
    hear(&mut hand, FIRST, ClientMessage::Inclusion(batch.inclusion(None)));
    let effects = hear(&mut hand, FIRST, batch.delivered(2, Some(Reason::Same)));
    assert_eq!(outputs(&effects), [Output::Delivered { tokens: vec![7], receipt: None }]);
}

#[test]
fn a_certificate_of_f_servers_delivers_nothing() {
    let mut hand = client();
    let batch = Batch::of(&submitted(broadcast(&mut hand, 7)), 0);
    hear(&mut hand, FIRST, ClientMessage::Inclusion(batch.inclusion(None)));
    let weak = ClientMessage::Delivery(Box::new(batch.delivery(2, None, &[1])));
    let effects = hear(&mut hand, FIRST, weak);
    assert_eq!(blamed(&effects), ["false_delivery"]);
    assert!(outputs(&effects).is_empty());
    assert_eq!((hand.machine.height(), hand.machine.waiting()), (1, (0, true)));
}

/// T3, T4 and row 8: numbers that nobody proved, or below the own, are not signed.
#[test]
fn only_legitimate_numbers_at_or_above_the_own_are_signed() {
    let mut hand = client();
    let batch = Batch::of(&submitted(broadcast(&mut hand, 7)), 0);
    hear(&mut hand, FIRST, ClientMessage::Inclusion(batch.inclusion(None)));
    hear(&mut hand, FIRST, batch.delivered(6, None));
    let submit = submitted(broadcast(&mut hand, 8));
    assert_eq!(submit.k0, 1);
    for (k, certificate, verdict) in [
        (0, None, vec![]),
        (6, None, vec!["illegitimate_k"]),
        (6, Some(height(6, &[0, 1])), vec!["illegitimate_k"]),
        (6, Some(height(9, &[1])), vec!["bad_certificate"]),
        (u64::MAX - 1, None, vec!["illegitimate_k"]),
        (u64::MAX, Some(height(u64::MAX, &[0, 1])), vec!["illegitimate_k"]),
    ] {
        let inclusion = Batch::of(&submit, k).inclusion(certificate);
        let effects = hear(&mut hand, FIRST, ClientMessage::Inclusion(inclusion));
        assert_eq!(blamed(&effects), verdict, "k {k}");
        assert!(!signs(effects), "k {k}");
    }
    for (k, certificate) in [(1, None), (5, None), (8, Some(height(9, &[0, 1])))] {
        let inclusion = Batch::of(&submit, k).inclusion(certificate);
        assert!(signs(hear(&mut hand, SECOND, ClientMessage::Inclusion(inclusion))), "k {k}");
    }
    assert_eq!((hand.machine.next_k(), hand.machine.height()), (9, 9));
}

#[test]
fn an_inclusion_of_another_message_count_or_index_is_not_signed() {
    let mut hand = client();
    let submit = submitted(broadcast(&mut hand, 7));
    let good = Batch::of(&submit, 0).inclusion(None);
    let other = Submit { parity: !submit.parity, ..submit.clone() };
    let mut changed = vec![Batch::of(&other, 0).inclusion(None)];
    changed.push(Inclusion { shape: TreeShape { count: 5, msg_size: 8 }, ..good.clone() });
    changed.push(Inclusion { root: Hash::of(b"else"), ..good.clone() });
    let mut moved = good.clone();
    moved.proof.index = 2;
    changed.push(moved);
    for inclusion in changed {
        let effects = hear(&mut hand, FIRST, ClientMessage::Inclusion(inclusion));
        assert_eq!(blamed(&effects), ["suspected_inclusion"]);
        assert!(!signs(effects));
    }
    let large = Inclusion { shape: TreeShape { count: 65_537, msg_size: 8 }, ..good.clone() };
    let sized = Inclusion { shape: TreeShape { count: 3, msg_size: 9 }, ..good.clone() };
    for inclusion in [large, sized] {
        let effects = hear(&mut hand, FIRST, ClientMessage::Inclusion(inclusion));
        assert_eq!(blamed(&effects), ["false_inclusion"]);
        assert!(!signs(effects));
    }
    let closed = Inclusion { closed: true, ..good.clone() };
    assert!(!signs(hear(&mut hand, FIRST, ClientMessage::Inclusion(closed))), "nothing is left to sign");
    assert!(signs(hear(&mut hand, FIRST, ClientMessage::Inclusion(good))));
}

#[test]
fn the_same_root_again_is_answered_by_the_same_signature() {
    let mut hand = client();
    let inclusion = Batch::of(&submitted(broadcast(&mut hand, 7)), 0).inclusion(None);
    let first = said(hear(&mut hand, FIRST, ClientMessage::Inclusion(inclusion.clone())));
    let again = hear(&mut hand, FIRST, ClientMessage::Inclusion(inclusion));
    assert!(!again.iter().any(is_record), "nothing new is promised");
    assert_eq!(said(again), first);
}

/// T45: a faulty broker displaces only its own roots.
#[test]
fn a_thousand_inclusions_of_one_broker_hide_no_delivery_of_another() {
    let mut hand = client();
    let submit = submitted(broadcast(&mut hand, 7));
    let honest = Batch::of(&submit, 0);
    hear(&mut hand, SECOND, ClientMessage::Inclusion(honest.inclusion(None)));
    let certificate = height(1_001, &[0, 1]);
    for k in 1..1_000 {
        let inclusion = Batch::of(&submit, k).inclusion(Some(certificate.clone()));
        hear(&mut hand, FIRST, ClientMessage::Inclusion(inclusion));
    }
    let effects = hear(&mut hand, SECOND, honest.delivered(2, None));
    assert!(receipt(&effects).is_some());
}

/// T7, T26, T27: the first broker falls silent; the same message goes to the next one.
#[test]
fn the_next_broker_gets_the_same_message_under_the_same_number_and_signature() {
    let mut hand = client();
    let effects = broadcast(&mut hand, 7);
    let armed = effects.iter().find_map(|effect| match effect {
        Effect::Arm { timer: timer @ Timer::Submit(_), after } => Some((*timer, *after)),
        _ => None,
    });
    let (timer, after) = armed.expect("it waits for so long");
    assert_eq!(after, Span::secs(4));
    let first = submitted(effects);
    let effects = hand.step(Event::Timer(timer));
    assert!(
        effects.iter().any(|effect| matches!(effect, Effect::Send { to, .. } if *to == To::Node(SECOND)))
    );
    assert_eq!(submitted(effects), first);
    assert!(hand.step(Event::Timer(timer)).is_empty(), "a stale firing does nothing");
}

#[test]
fn a_restart_resumes_the_message_in_flight_exactly() {
    let mut hand = client();
    let effects = broadcast(&mut hand, 7);
    let records = effects.iter().filter_map(|effect| match effect {
        Effect::Persist(record) => Some(record.clone()),
        _ => None,
    });
    let records: Vec<ClientRecord> = records.collect();
    let first = submitted(effects);
    let mut hand = Hand::new(recovered(Condition::Clean, records), client_keys(ID));
    let effects = hand.step(Event::Start);
    assert_eq!(submitted(effects), first);
    let busy = broadcast(&mut hand, 8);
    assert!(said(busy).is_empty(), "the next one waits");
    let batch = Batch::of(&first, 0);
    hear(&mut hand, FIRST, ClientMessage::Inclusion(batch.inclusion(None)));
    let effects = hear(&mut hand, FIRST, batch.delivered(2, None));
    let next = submitted(effects);
    assert_eq!((next.k0, next.parity), (1, true));
}

/// T10 at the client: equal payloads in a row are two messages.
#[test]
fn two_equal_consecutive_messages_have_different_parities() {
    let mut hand = client();
    let first = submitted(broadcast(&mut hand, 7));
    broadcast(&mut hand, 7);
    let batch = Batch::of(&first, 0);
    hear(&mut hand, FIRST, ClientMessage::Inclusion(batch.inclusion(None)));
    let second = submitted(hear(&mut hand, FIRST, batch.delivered(2, None)));
    assert_eq!(second.message, first.message);
    assert_ne!(second.parity, first.parity);
    assert_ne!(tag(&first.message, first.parity), tag(&second.message, second.parity));
}

#[test]
fn a_certificate_is_attached_only_when_the_broker_asks_for_it() {
    let mut hand = client();
    let batch = Batch::of(&submitted(broadcast(&mut hand, 7)), 0);
    hear(&mut hand, FIRST, ClientMessage::Inclusion(batch.inclusion(None)));
    hear(&mut hand, FIRST, batch.delivered(2, None));
    let plain = submitted(broadcast(&mut hand, 8));
    assert_eq!(plain.legitimacy, None);
    let nack = ClientMessage::Nack { why: Nack::NeedCertificate, retry_ms: 0 };
    let explained = submitted(hear(&mut hand, FIRST, nack.clone()));
    assert_eq!(explained.legitimacy.map(|shown| shown.height()), Some(2));
    assert!(said(hear(&mut hand, FIRST, nack)).is_empty(), "it is not asked in a circle");
}

fn query(effects: Vec<Effect<Client>>) -> Vec<(NodeId, u64)> {
    let queries = said(effects).into_iter().filter_map(|(to, message)| match message {
        ClientMessage::Query { nonce, id: ID } => Some((to, nonce)),
        _ => None,
    });
    queries.collect()
}

fn state(nonce: u64, next_k: u64, of: u64) -> ClientMessage {
    let statement = State { nonce, id: ID, next_k, tag: of };
    let aggregate = signed_by(&cluster(), &[1, 3], &statement);
    ClientMessage::State(Box::new(StateAnswer { next_k, tag: of, aggregate, height: height(9, &[1, 3]) }))
}

#[test]
fn payloads_are_refused_by_size_and_number() {
    let mut hand = client();
    let wrong = Input::Broadcast { token: 1, payload: vec![0; 9].into() };
    let effects = hand.step(Event::Input(wrong));
    assert_eq!(outputs(&effects), [Output::Refused { token: 1, why: Refusal::Class }]);
    for word in 0..1_025 {
        assert!(outputs(&broadcast(&mut hand, word)).is_empty(), "{word}");
    }
    let effects = broadcast(&mut hand, 1_025);
    assert_eq!(outputs(&effects), [Output::Refused { token: 1_025, why: Refusal::Busy }]);
}

#[test]
fn bursts_are_packed_and_unpacked() {
    let parameters = Parameters { burst: true, ..Parameters::default() };
    let config =
        Config::new(cluster(), Class::Variable(40), vec![FIRST], Some(ID), parameters).expect("sound");
    let records = vec![ClientRecord::Next(blank())];
    let log = Log { condition: Condition::Clean, records: &mut records.into_iter() };
    let mut hand = Hand::new(Client::recover(config, log).expect("its journal"), client_keys(ID));
    let alone = submitted(broadcast(&mut hand, 0));
    for word in 1..=5 {
        broadcast(&mut hand, word);
    }
    let nonce = query(hand.step(Event::Input(Input::Resync)))[0].1;
    let own = tag(&alone.message, alone.parity);
    let packed = submitted(hear(&mut hand, FIRST, state(nonce, 1, own)));
    let frames: Vec<u8> = (1..=4_u64).flat_map(|word| [8, 0].into_iter().chain(word.to_le_bytes())).collect();
    assert_eq!(&packed.message[..], frames, "four frames of ten bytes fill 40");
    assert_eq!(hand.machine.waiting(), (1, true));
}

#[test]
fn a_foreign_journal_is_refused() {
    let next = Next { id: Some(ID + 1), ..blank() };
    let log = Log { condition: Condition::Clean, records: &mut [ClientRecord::Next(next)].into_iter() };
    assert!(Client::recover(config(Parameters::default()), log).is_err());
}

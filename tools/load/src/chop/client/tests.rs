//! A crowd whose broker the test plays, with real keys.

mod pace;
mod shown;

use std::collections::VecDeque;
use std::sync::Arc;

use synod_chopchop::card::Card;
use synod_chopchop::certificate::{Aggregate, Signers};
use synod_chopchop::columns::Entry;
use synod_chopchop::config::{Class, Cluster};
use synod_chopchop::dedup::{Exceptions, Reason, tag};
use synod_chopchop::message::{
    ClientMessage, Delivery, ExceptionProof, Inclusion, Nack, Signed, StateAnswer, Submit,
};
use synod_chopchop::statement::{BlsSignatureBytes, Height, Root, Submission};
use synod_chopchop::tree::{EntryTree, TreeShape, root_commit};
use synod_crypto::bls::{Registration, Share, search};
use synod_crypto::{Claim, Hash, Keys, Seed};
use synod_machine::{
    Condition, Effect, Event, Job as _, Log, Machine as _, Recover as _, Rng, Span, Time, To, Turn, Wall,
};
use synod_quorum::{NodeId, NodeSet};

use super::machine::{Input, LoadClient, Output, Timer};
use super::{Account, Conduct, Crowd, Pace, Stats};
use crate::chop::family::{KeyFamily, cluster};

const FAMILY: [u8; 32] = [3; 32];

fn crowd(count: u32, ids: Option<u32>) -> Crowd {
    Crowd {
        family: Arc::new(KeyFamily::new(&Seed::new(FAMILY))),
        members: (5, count),
        ids,
        cluster: cluster(),
        class: Class::Fixed(8),
        brokers: 2,
        silent: 0,
        invalid: 0,
        receipts: true,
        payee: 9,
        pace: Pace::default(),
    }
}

/// Who says what to which broker: broker, member, message.
type Said = (u32, u32, ClientMessage);

struct Hand {
    machine: LoadClient,
    crowd: Crowd,
    now: Time,
    rng: Rng,
    keys: Keys,
    said: Vec<Said>,
    outputs: Vec<Output>,
}

impl Hand {
    fn new(crowd: Crowd) -> Self {
        let log = Log { condition: Condition::Fresh, records: &mut std::iter::empty() };
        let machine = LoadClient::recover(crowd.clone(), log).expect("a sound crowd");
        let rng = Rng::new(1, NodeId::GUESTS, 4);
        let keys = Keys::ed25519(&Seed::new([1; 32]), [2; 32]);
        let mut hand =
            Self { machine, crowd, now: Time::ZERO, rng, keys, said: Vec::new(), outputs: Vec::new() };
        hand.step(Event::Start);
        hand
    }

    fn step(&mut self, event: Event<LoadClient>) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let mut effects = Vec::new();
            let mut turn = Turn::new(self.now, Wall(0), &mut self.rng, &mut effects);
            self.machine.step(event, &mut turn);
            for effect in effects {
                match effect {
                    Effect::Compute(job) => events.push_back(Event::Done(job.run(&self.keys))),
                    Effect::Output(output) => self.outputs.push(output),
                    Effect::Send { to: To::Node(to), message } => {
                        let (broker, member) = self.crowd.of_link(to).expect("a link of the crowd");
                        let synod_chopchop::vocabulary::Message::Client(message) = message else {
                            panic!("clients speak as clients")
                        };
                        self.said.push((broker, member, message));
                    }
                    _ => {}
                }
            }
        }
        use synod_machine::Bounded as _;
        assert!(self.machine.bytes() <= self.machine.bytes_max(), "within the formula");
    }

    fn input(&mut self, input: Input) {
        self.step(Event::Input(input));
    }

    /// Lets time pass; both timers fire.
    fn wait(&mut self, ms: u64) {
        self.now = self.now + Span::millis(ms);
        self.step(Event::Timer(Timer::Begin));
        self.step(Event::Timer(Timer::Tick));
    }

    fn said(&mut self) -> Vec<Said> {
        std::mem::take(&mut self.said)
    }

    fn tell(&mut self, broker: u32, member: u32, message: ClientMessage) {
        let from = self.crowd.link(broker, member);
        self.step(Event::Message { from, message: message.into() });
    }

    fn stats(&mut self) -> Stats {
        self.input(Input::Report);
        match self.outputs.pop() {
            Some(Output::Stats(stats)) => *stats,
            other => panic!("the counts, not {other:?}"),
        }
    }

    fn accounts(&mut self) -> Vec<Account> {
        self.input(Input::Accounts);
        match self.outputs.pop() {
            Some(Output::Accounts(accounts)) => accounts,
            other => panic!("the accounts, not {other:?}"),
        }
    }
}

/// The submissions that were said, by member.
fn submits(said: Vec<Said>) -> Vec<(u32, u32, Submit)> {
    let submit = |(broker, member, message)| match message {
        ClientMessage::Submit(submit) => Some((broker, member, submit)),
        _ => None,
    };
    said.into_iter().filter_map(submit).collect()
}

fn statement(cluster: &Cluster, submit: &Submit) -> Submission {
    let message = cluster.domains().msg.hash(&submit.message);
    Submission { id: submit.id, k0: submit.k0, parity: submit.parity, message }
}

fn is_signed(hand: &Hand, member: u32, submit: &Submit) -> bool {
    let key = hand.crowd.family.ed.keys(5 + member, 1)[0];
    let (statement, scope) = (statement(&hand.crowd.cluster, submit), hand.crowd.cluster.scope());
    let claim = Claim { statement, scope, signer: NodeId::GUESTS, key, signature: submit.t };
    claim.verify(&hand.keys).is_ok()
}

/// A batch as a broker closes it.
struct Batch {
    members: Vec<(u32, u32)>,
    tree: EntryTree,
    k: u64,
    commit: Hash,
}

impl Batch {
    fn close(cluster: &Cluster, k: u64, submits: &[(u32, u32, Submit)]) -> Self {
        let entries: Vec<Entry<'_>> = submits
            .iter()
            .map(|(_, _, of)| Entry { id: of.id, message: &of.message, parity: of.parity })
            .collect();
        let shape = TreeShape { count: u32::try_from(entries.len()).expect("few"), msg_size: 8 };
        let tree = EntryTree::grow(cluster.domains(), shape, entries.iter().copied());
        let commit = root_commit(cluster.domains(), k, &shape, &tree.root());
        let members = submits.iter().map(|(broker, member, _)| (*broker, *member)).collect();
        Self { members, tree, k, commit }
    }

    fn half(&self) -> [u8; 16] {
        *self.commit.0.first_chunk().expect("half of it")
    }

    fn show(&self, hand: &mut Hand, submits: &[(u32, u32, Submit)], closed: bool) {
        for (index, (broker, member)) in (0_u32..).zip(&self.members) {
            let entry = |at: u32| {
                let (_, _, of) = submits.get(at as usize)?;
                Some(Entry { id: of.id, message: &of.message, parity: of.parity })
            };
            let proof = self.tree.prove(index, entry).expect("an entry");
            let (root, k, shape) = (self.tree.root(), self.k, *self.tree.shape());
            let inclusion = Inclusion { root, k, shape, proof, height: None, closed };
            hand.tell(*broker, *member, ClientMessage::Inclusion(inclusion));
        }
    }

    fn deliver(&self, hand: &mut Hand, height: u64, exceptions: &[(u32, Reason)]) {
        let domains = hand.crowd.cluster.domains().clone();
        let all = Exceptions::new(self.tree.shape().count, exceptions.to_vec());
        for (index, (broker, member)) in (0_u32..).zip(&self.members) {
            let proof = (!exceptions.is_empty()).then(|| {
                let (leaf, path) = all.prove(&domains, index).expect("an entry");
                ExceptionProof { leaf, path }
            });
            let delivery = Delivery {
                root_commit: self.half(),
                height,
                digest: Hash([7; 32]),
                exceptions_root: all.root(&domains),
                exc_count: all.exc_count(),
                aggregate: aggregate(),
                exception: proof,
            };
            hand.tell(*broker, *member, ClientMessage::Delivery(Box::new(delivery)));
        }
    }
}

fn aggregate() -> Aggregate {
    let signers = Signers::new(NodeSet::first(2), 4).expect("members");
    Aggregate { signers, signature: BlsSignatureBytes([1; 96]) }
}

/// Whose shares of `root` are good, and whose are not; members that sent none are in neither.
fn judged(hand: &Hand, root: Hash, said: Vec<Said>) -> (Vec<u32>, Vec<u32>) {
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    for (_, member, message) in said {
        let ClientMessage::MultiSig { share, root_commit, .. } = message else { continue };
        assert_eq!(root_commit[..], root.0[..16]);
        let key = (&hand.crowd.family.bls.secret(5 + member).public()).into();
        let read = hand.keys.bls().share(&share.0).ok();
        let found = read.map(|signature| {
            let scope = hand.crowd.cluster.scope();
            search(Root { root_commit: root }, scope, &[Share { key, signature }], 10, &hand.keys)
        });
        if found.is_some_and(|found| found.good.is_some()) { good.push(member) } else { bad.push(member) }
    }
    (good, bad)
}

#[test]
fn members_that_paint_sign_their_own_strokes_and_no_two_are_at_one_place() {
    let mut hand = Hand::new(crowd(3, Some(0)));
    let places = |said: &[(u32, u32, Submit)]| -> Vec<u64> {
        let operation = |submit: &Submit| u64::from_le_bytes(submit.message[..].try_into().expect("8 bytes"));
        said.iter().map(|(_, _, submit)| operation(submit)).collect()
    };
    hand.input(Input::Paint(2));
    hand.input(Input::Broadcast(2));
    let first = begun(&mut hand);
    assert_eq!(places(&first), [super::stroke(5, 2, 0), super::stroke(6, 2, 0), super::stroke(7, 2, 0)]);
    assert!(first.iter().all(|(_, member, submit)| is_signed(&hand, *member, submit)));
    let cluster = hand.crowd.cluster.clone();
    let batch = Batch::close(&cluster, 0, &first);
    batch.show(&mut hand, &first, false);
    batch.deliver(&mut hand, 2, &[]);
    let second = begun(&mut hand);
    assert_eq!(places(&second)[0], super::stroke(5, 2, 1));
    let all: Vec<u64> =
        (0..100).flat_map(|member| [0, 1, 2].map(|at| super::stroke(member, 3, at))).collect();
    let spots: std::collections::BTreeSet<u64> = all.iter().map(|stroke| stroke & 0x3f_ffff).collect();
    assert_eq!(spots.len(), 300);
    assert!(all.iter().all(|stroke| stroke >> 46 == 0 && stroke >> 22 != 0), "a colour that is not black");
}

/// Begins a message of every member.
fn begun(hand: &mut Hand) -> Vec<(u32, u32, Submit)> {
    hand.wait(100);
    submits(hand.said())
}

#[test]
fn every_message_is_signed_when_it_is_sent_and_equal_ones_differ_by_parity_alone() {
    let mut hand = Hand::new(crowd(6, Some(100)));
    hand.input(Input::Broadcast(2));
    let first = begun(&mut hand);
    assert_eq!(first.iter().map(|(_, member, _)| *member).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
    for (_, member, submit) in &first {
        assert!(is_signed(&hand, *member, submit) && submit.id == 100 + member && submit.k0 == 0);
        assert!(!submit.parity && *submit.message == (9_u64 | 1 << 32).to_le_bytes()[..]);
    }
    let batch = Batch::close(&hand.crowd.cluster, 0, &first);
    batch.show(&mut hand, &first, false);
    let said = hand.said();
    assert_eq!(judged(&hand, batch.commit, said), (vec![0, 1, 2, 3, 4, 5], vec![]));
    batch.deliver(&mut hand, 2, &[]);
    let second = begun(&mut hand);
    assert_eq!(second.len(), 6);
    for ((_, member, then), (_, _, now)) in first.iter().zip(&second) {
        assert!(is_signed(&hand, *member, now));
        assert_eq!((now.message == then.message, now.parity, now.k0), (true, true, 1));
    }
    let stats = hand.stats();
    assert_eq!((stats.begun, stats.confirmed, stats.flying, stats.height), (12, 6, 6, 2));
}

#[test]
fn receipts_show_the_delivered_message() {
    let mut hand = Hand::new(crowd(3, Some(0)));
    hand.input(Input::Broadcast(1));
    let said = begun(&mut hand);
    let batch = Batch::close(&hand.crowd.cluster, 0, &said);
    batch.show(&mut hand, &said, false);
    batch.deliver(&mut hand, 2, &[(1, Reason::Same)]);
    let mut ids = Vec::new();
    for output in std::mem::take(&mut hand.outputs) {
        let Output::Receipt(receipt) = output else { panic!("receipts alone") };
        let (cluster, proof) = (&hand.crowd.cluster, &receipt.proof);
        assert_eq!(proof.root(cluster.domains(), &receipt.shape, &receipt.entry()), Some(receipt.root));
        assert_eq!(receipt.certificate.statement.root_commit, batch.commit);
        // The servers' part was made up here, and that is what is wrong with it.
        let refused = receipt.verify(cluster, &hand.keys).expect_err("nobody signed");
        assert!(matches!(refused, synod_chopchop::receipt::NoReceipt::Certificate(_)), "{refused}");
        ids.push(receipt.id);
    }
    assert_eq!(ids, [0, 2], "the one that came back as the same proves nothing");
    let stats = hand.stats();
    assert_eq!((stats.confirmed, stats.same), (3, 1));
}

#[test]
fn silent_members_sign_no_root_and_invalid_ones_sign_what_does_not_hold() {
    let mut wild = crowd(1_000, Some(0));
    (wild.silent, wild.invalid) = (50, 10);
    let of = |conduct| (0..1_000).filter(|member| wild.conduct(*member) == conduct).collect::<Vec<_>>();
    assert_eq!(of(Conduct::Silent).len(), 50);
    let [other, none, forged] = [Conduct::OtherShare, Conduct::NoShare, Conduct::Forged].map(of);
    assert_eq!(other.len() + none.len() + forged.len(), 10);
    assert!(!other.is_empty() && !none.is_empty() && !forged.is_empty());
    // A few of each kind are enough to look at.
    let mut few = crowd(6, Some(0));
    (few.silent, few.invalid) = (0, 1_000);
    let mut hand = Hand::new(few);
    hand.input(Input::Broadcast(1));
    let all = begun(&mut hand);
    let conduct = |member: u32| hand.crowd.conduct(member);
    for (_, member, submit) in &all {
        assert_eq!(is_signed(&hand, *member, submit), conduct(*member) != Conduct::Forged, "{member}");
    }
    let batch = Batch::close(&hand.crowd.cluster, 0, &all);
    batch.show(&mut hand, &all, false);
    let said = hand.said();
    let (good, bad) = judged(&hand, batch.commit, said);
    let expected: Vec<u32> = (0..6).filter(|member| hand.crowd.conduct(*member) != Conduct::Forged).collect();
    assert_eq!((good, bad), (vec![], expected));
}

#[test]
fn a_root_that_does_not_show_the_message_or_is_closed_is_not_signed() {
    let mut hand = Hand::new(crowd(4, Some(0)));
    hand.input(Input::Broadcast(1));
    let said = begun(&mut hand);
    let high = Batch::close(&hand.crowd.cluster, 1, &said);
    high.show(&mut hand, &said, false);
    assert!(hand.said().is_empty(), "nobody knows that height 2 was reached");
    let closed = Batch::close(&hand.crowd.cluster, 0, &said);
    closed.show(&mut hand, &said, true);
    assert!(hand.said().is_empty());
    let mut other = said.clone();
    other[0].2.parity = true;
    let strange = Batch::close(&hand.crowd.cluster, 0, &other);
    strange.show(&mut hand, &other, false);
    let shares = hand.said();
    assert_eq!(judged(&hand, strange.commit, shares).0, [1, 2, 3]);
    assert_eq!(hand.stats().false_inclusions, 1);
}

#[test]
fn silence_sends_again_and_then_asks_the_next_broker_under_the_same_signature() {
    let mut hand = Hand::new(crowd(2, Some(0)));
    hand.input(Input::Broadcast(1));
    let first = begun(&mut hand);
    hand.wait(1_100);
    let again = submits(hand.said());
    assert_eq!(again, first);
    hand.wait(4_000);
    let elsewhere = submits(hand.said());
    assert!(elsewhere.iter().all(|(broker, ..)| *broker == 1));
    assert_eq!(elsewhere.iter().map(|(_, _, submit)| submit).collect::<Vec<_>>(), [&first[0].2, &first[1].2]);
    let stats = hand.stats();
    assert_eq!((stats.retransmits, stats.other_broker, stats.begun), (2, 2, 2));
}

#[test]
fn a_stale_message_is_signed_anew_above_what_servers_say_unless_it_was_delivered() {
    let mut hand = Hand::new(crowd(2, Some(0)));
    hand.input(Input::Broadcast(2));
    let said = begun(&mut hand);
    let batch = Batch::close(&hand.crowd.cluster, 0, &said);
    batch.show(&mut hand, &said, false);
    batch.deliver(&mut hand, 2, &[(0, Reason::Stale), (1, Reason::Stale)]);
    let asked: Vec<u32> = hand
        .said()
        .into_iter()
        .filter_map(|(_, member, message)| matches!(message, ClientMessage::Query { .. }).then_some(member))
        .collect();
    assert_eq!(asked, [0, 1]);
    let tags = [tag(b"another", true), tag(&said[1].2.message, false)];
    for (member, tag) in (0..).zip(tags) {
        let height = synod_chopchop::certificate::HeightCertificate {
            statement: Height { height: 9 },
            aggregate: aggregate(),
        };
        let answer = StateAnswer { next_k: 7, tag, aggregate: aggregate(), height };
        hand.tell(0, member, ClientMessage::State(Box::new(answer)));
    }
    let renewed = begun(&mut hand);
    let shape: Vec<(u32, u64, bool)> =
        renewed.iter().map(|(_, member, of)| (*member, of.k0, of.parity)).collect();
    assert_eq!(shape, [(0, 7, false), (1, 7, true)], "the one again, the other its next message");
    assert!(renewed.iter().all(|(_, member, submit)| is_signed(&hand, *member, submit)));
}

#[test]
fn a_broker_that_lags_is_shown_a_certificate_and_a_busy_one_is_asked_later() {
    let mut hand = Hand::new(crowd(1, Some(0)));
    hand.input(Input::Broadcast(2));
    let said = begun(&mut hand);
    let batch = Batch::close(&hand.crowd.cluster, 0, &said);
    batch.show(&mut hand, &said, false);
    batch.deliver(&mut hand, 5, &[]);
    assert!(begun(&mut hand)[0].2.legitimacy.is_none());
    hand.tell(0, 0, ClientMessage::Nack { why: Nack::NeedCertificate, retry_ms: 0 });
    let explained = submits(hand.said());
    assert_eq!(explained[0].2.legitimacy.as_ref().map(|shown| shown.height()), Some(5));
    hand.tell(0, 0, ClientMessage::Nack { why: Nack::Busy, retry_ms: 2_000 });
    hand.wait(1_900);
    assert!(hand.said().is_empty());
    hand.wait(200);
    assert_eq!(submits(hand.said()).len(), 1);
}

#[test]
fn cards_prove_possession_and_so_many_are_on_their_way_at_a_time() {
    let mut small = crowd(70, None);
    small.pace.cards = 32;
    let mut hand = Hand::new(small);
    hand.input(Input::SignUp);
    hand.input(Input::Broadcast(1));
    hand.wait(10);
    let card = |(_, member, message)| match message {
        ClientMessage::SignUp(card) => Some((member, card)),
        _ => None,
    };
    let cards: Vec<(u32, Box<Card>)> = hand.said().into_iter().filter_map(card).collect();
    assert_eq!(cards.len(), 32);
    let scope = hand.crowd.cluster.card_scope();
    for (member, card) in cards.iter().take(3) {
        let of = Registration::of_statement(card.bls().0, card.pop().0, &card.possession(), &scope);
        assert!(hand.keys.bls().register(&[of])[0].is_ok());
        let (statement, key) = (card.sign_up(), *card.ed());
        let claim = Claim { statement, scope, signer: NodeId::GUESTS, key, signature: *card.signature() };
        assert!(claim.verify(&hand.keys).is_ok());
        assert_eq!(key, hand.crowd.family.ed.keys(5 + member, 1)[0]);
    }
    let signed = |id| Signed {
        height: 2,
        digest: Hash::ZERO,
        index: 0,
        count: 1,
        id,
        path: Vec::new(),
        exc_count: 0,
        aggregate: aggregate(),
    };
    hand.tell(0, cards[0].0, ClientMessage::Signed(Box::new(signed(40))));
    hand.tell(0, cards[1].0, ClientMessage::Signed(Box::new(signed(u32::MAX))));
    hand.wait(10);
    let said = hand.said();
    let (stats, next) = (hand.stats(), submits(said.clone()));
    assert_eq!((stats.enrolled, stats.refused), (1, 1));
    assert_eq!((next.len(), next[0].2.id), (1, 40), "whoever has an id broadcasts");
    assert_eq!(said.into_iter().filter_map(card).count(), 32, "room for two lets a whole part go");
    let known = Account { id: 40, keeps_rules: true, begun: 1, confirmed: 0 };
    assert_eq!(hand.accounts(), [known]);
    // A card without an answer goes to the next broker.
    hand.wait(5_000);
    assert!(hand.said().iter().any(|(broker, ..)| *broker == 1));
}

#[test]
fn crowds_that_contradict_themselves_are_refused() {
    type Change = fn(&mut Crowd);
    let changes: [Change; 6] = [
        |crowd| crowd.members.1 = 0,
        |crowd| crowd.brokers = 0,
        |crowd| crowd.members.1 = 1 << 30,
        |crowd| (crowd.silent, crowd.invalid) = (600, 401),
        |crowd| crowd.class = Class::Fixed(9),
        |crowd| crowd.payee = 1 << 28,
    ];
    for (at, change) in changes.into_iter().enumerate() {
        let mut crowd = crowd(4, Some(0));
        assert_eq!(crowd.check(), Ok(()));
        change(&mut crowd);
        assert!(crowd.check().is_err(), "{at}");
    }
}

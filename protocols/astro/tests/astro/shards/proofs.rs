//! One member of shard 1, driven by hand, and what it is shown of shard 0 (T35, T57 as far as views stand, T49's descent).

use std::collections::BTreeMap;
use std::sync::Arc;

use synod_astro::{Auth, Bundle, Content, Line, Opened, Place, Promise, Proven, Word};
use synod_broadcast::Lot;
use synod_broadcast::signed::{self, Ack, Acked, Certificate, Context, Except, Said};
use synod_crypto::{Hash, Scope};
use synod_ledger::{AccountId, Digests, Entry, EntryId, Flags, Kind, UserData, genesis};
use synod_machine::{Condition, Effect, Event, Job as _, Log, Recover as _, Span, Time, testing};
use synod_quorum::{Epoch, NodeId};
use synod_wire::{Blob, Bytes, List, Wire};

use super::country::{context, customer, issuer, keys, number, setup};
use super::placed::abroad;
use crate::Record;
use crate::alone::Timer;
use crate::bank::{CLUSTER, EPOCH, EURO, Message, Replica, multi, pay};

/// Its number in the world.
const ME: u32 = 4;
/// Members 0 to 2 of shard 0 endorse everything.
const QUORUM: [(u32, &[u32]); 3] = [(0, &[]), (1, &[]), (2, &[])];

/// What it did, in order.
#[derive(Debug)]
enum Did {
    Kept(Record),
    Sent(Message),
}

struct Side {
    replica: Replica,
    now: Time,
    timers: BTreeMap<Timer, Time>,
    did: Vec<Did>,
    blamed: Vec<(NodeId, &'static str)>,
}

impl Side {
    fn new() -> Self {
        let log = Log { condition: Condition::Clean, records: &mut std::iter::empty() };
        let replica = Replica::recover(setup(2, 1, NodeId(0)), log).expect("a sound configuration");
        let (now, timers, did, blamed) = (Time::ZERO, BTreeMap::new(), Vec::new(), Vec::new());
        let mut side = Self { replica, now, timers, did, blamed };
        side.run(Event::Start);
        side
    }

    fn run(&mut self, event: Event<Replica>) {
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            for effect in testing::effects(&mut self.replica, event, self.now) {
                match effect {
                    Effect::Compute(job) => events.push(Event::Done(job.run(&keys(ME)))),
                    Effect::Persist(record) => self.did.push(Did::Kept(record)),
                    Effect::Send { message, .. } => self.did.push(Did::Sent(message)),
                    Effect::Blame { peer, fault } => self.blamed.push((peer, fault.name)),
                    Effect::Arm { timer, after } => {
                        self.timers.insert(timer, Time(self.now.0 + after.0));
                    }
                    Effect::Disarm(timer) => {
                        self.timers.remove(&timer);
                    }
                    _ => {}
                }
            }
        }
    }

    fn hear(&mut self, from: NodeId, message: Message) {
        self.run(Event::Message { from, message });
    }

    /// Everything happens that is due until then.
    fn until(&mut self, at: Time) {
        while let Some((timer, due)) =
            self.timers.iter().map(|(timer, due)| (*timer, *due)).min_by_key(|of| of.1)
            && due <= at
        {
            self.now = due;
            self.timers.remove(&timer);
            self.run(Event::Timer(timer));
        }
        self.now = at;
    }

    /// The place of the first thing that it did of a kind.
    fn first(&self, is_it: impl Fn(&Did) -> bool) -> Option<usize> {
        self.did.iter().position(is_it)
    }

    fn imported(&self) -> Vec<EntryId> {
        let runs = self.replica.book().used_runs();
        runs.flat_map(|(spender, run)| (run.first..=run.last).map(move |n| EntryId { spender, n })).collect()
    }

    /// Its own batches, as it sent them.
    fn sent(&self) -> Vec<Opened> {
        let sent = self.did.iter().filter_map(|did| match did {
            Did::Sent(Message::Broadcast(signed::Message::Prepare { payload, .. })) => {
                Opened::read(payload.bytes())
            }
            _ => None,
        });
        sent.collect()
    }

    fn acked(&self, by: u8) -> bool {
        self.first(|did| matches!(did, Did::Sent(Message::Broadcast(signed::Message::Ack(ack))) if ack.lot.source == by))
            .is_some()
    }
}

fn is_inbound(did: &Did) -> bool {
    matches!(did, Did::Kept(Record::Own(Promise::Inbound(_))))
}

fn is_imported(did: &Did) -> bool {
    matches!(did, Did::Sent(Message::Own(Word::Imported { .. })))
}

fn entry(spender: AccountId, n: u64, prev: Hash, kind: Kind) -> Entry {
    Entry {
        id: EntryId { spender, n },
        prev,
        kind,
        transfer: u128::from(n),
        ledger: EURO,
        code: 0,
        user_data: UserData::default(),
        flags: Flags::default(),
    }
}

/// The first entries of somebody's log.
fn chain(spender: AccountId, kinds: Vec<Kind>) -> Vec<Entry> {
    let mut prev = genesis(spender);
    let next = (1_u64..).zip(kinds).map(|(n, kind)| {
        let one = entry(spender, n, prev, kind);
        prev = Digests::default().entry(&one);
        one
    });
    next.collect()
}

/// A batch of a member of a shard.
fn batch(shard: u32, source: u8, entries: &[Entry], imports: Vec<Entry>) -> Opened {
    let lines = entries.iter().map(|entry| Line { entry: Arc::new(entry.clone()), auth: Auth::Institution });
    let imports = imports.into_iter().map(Arc::new).collect();
    let content = Content { lines: lines.collect(), imports, ..Content::default() };
    Opened::of(context(shard).shard, Lot { source, sequence: 1 }, Hash::ZERO, content)
}

fn said((context, epoch): (Context, Epoch), global: u32, lot: Lot, digest: Hash, except: &[u32]) -> Said {
    let except = Except::new(except.to_vec()).expect("rising");
    let statement = Acked { context, lot, digest, except: except.digest(), authorized: true };
    let member = global % 4;
    let signature = keys(global).sign(Scope { cluster: CLUSTER, epoch }, NodeId(member), statement).signature;
    Said { member: u8::try_from(member).expect("few"), except, authorized: true, signature }
}

fn certificate(opened: &Opened, at: (Context, Epoch), by: &[(u32, &[u32])]) -> Bytes {
    let (lot, digest) = (opened.lot(), opened.digest);
    let said: Vec<Said> = by.iter().map(|(global, except)| said(at, *global, lot, digest, except)).collect();
    let said = said.try_into().expect("few");
    Certificate { context: at.0, epoch: at.1, lot, digest, said }.encode()
}

fn here() -> (Context, Epoch) {
    (context(0), EPOCH)
}

/// A bundle of chains, each with the index in the batch of its last entry.
fn bundle(opened: &Opened, certificate: Bytes, chains: Vec<(Vec<Entry>, u32)>) -> Bundle {
    let proven = chains.into_iter().map(|(chain, at)| Proven {
        chain: List::try_from(chain.into_iter().map(Arc::new).collect::<Vec<_>>()).expect("few"),
        place: opened.prove(at).expect("it has an entry there"),
    });
    Bundle {
        header: opened.batch.header,
        certificate: Blob::try_from(certificate).expect("short"),
        proven: List::try_from(proven.collect::<Vec<_>>()).expect("few"),
    }
}

fn shown(bundle: Bundle) -> Message {
    Message::Own(Word::Bundle(Arc::new(bundle)))
}

/// Somebody of shard 0 pays 7 to a customer of shard 1.
fn payment() -> (Opened, Vec<Entry>) {
    let entries = chain(issuer(0, 2), vec![pay(customer(1, 0), 7)]);
    (batch(0, 2, &entries, Vec::new()), entries)
}

fn good() -> Bundle {
    let (opened, entries) = payment();
    bundle(&opened, certificate(&opened, here(), &QUORUM), vec![(entries, 0)])
}

/// The others endorse a batch of its own.
fn certify(side: &mut Side, batch: &Opened) {
    for by in [1, 2] {
        let said = said((context(1), EPOCH), ME + by, batch.lot(), batch.digest, &[]);
        let ack = Ack { lot: batch.lot(), digest: batch.digest, said };
        side.hear(NodeId(by), Message::Broadcast(signed::Message::Ack(ack)));
    }
}

#[test]
fn what_came_is_recorded_before_the_batch_leaves_and_credited_for_good_before_anybody_is_told() {
    let mut side = Side::new();
    side.hear(abroad(0, 2), shown(good()));
    let batch = side.sent().pop().expect("its next batch leaves at once");
    assert_eq!(batch.batch.beside.imports.len(), 1);
    let is_prepare =
        |did: &Did| matches!(did, Did::Sent(Message::Broadcast(signed::Message::Prepare { .. })));
    let is_beside = |did: &Did| matches!(did, Did::Sent(Message::Own(Word::Bundle(_))));
    assert!(side.first(is_inbound) < side.first(is_prepare), "inbound, then the batch");
    assert!(side.first(is_inbound).is_some() && side.first(is_beside).is_some(), "with its proof beside it");
    assert!(side.imported().is_empty() && side.first(is_imported).is_none());
    certify(&mut side, &batch);
    assert_eq!(side.imported(), [EntryId { spender: issuer(0, 2), n: 1 }]);
    let is_certified = |did: &Did| matches!(did, Did::Kept(Record::Own(Promise::Certified { .. })));
    assert!(side.first(is_certified).is_some() && side.first(is_certified) < side.first(is_imported));
    let credited =
        side.replica.book().account(customer(1, 0)).map(|account| number(account.credits_posted()));
    assert_eq!(credited, Some(7));
    // Once more: it is answered, and nothing else happens.
    side.did.clear();
    side.hear(abroad(0, 3), shown(good()));
    let answers: Vec<&Did> = side.did.iter().collect();
    assert!(
        matches!(answers.as_slice(), [Did::Sent(Message::Own(Word::Imported { first: 0, .. }))]),
        "{answers:?}"
    );
    assert!(side.blamed.is_empty());
}

#[test]
pub(crate) fn a_bundle_that_proves_nothing_is_blamed_and_changes_nothing() {
    let (opened, entries) = payment();
    let whole = || vec![(entries.clone(), 0)];
    let by = |by: &[(u32, &[u32])]| certificate(&opened, here(), by);
    let other = Entry { transfer: 99, ..entries[0].clone() };
    let mut of_shard_one = payment().0;
    of_shard_one.batch.header.shard = 1;
    let foreign = chain(issuer(1, 2), vec![pay(customer(1, 0), 7)]);
    let foreign_batch = batch(0, 2, &foreign, Vec::new());
    let two = chain(issuer(0, 2), vec![pay(customer(1, 0), 7), pay(customer(1, 0), 7)]);
    let two_batch = batch(0, 2, &two[1..], Vec::new());
    let unchained = vec![Entry { transfer: 7, ..two[0].clone() }, two[1].clone()];
    let mut lot = bundle(&opened, by(&QUORUM), whole());
    lot.header.lot.sequence = 2;
    let forged = [
        ("two members", bundle(&opened, by(&QUORUM[..2]), whole())),
        ("one member twice", bundle(&opened, by(&[(0, &[]), (1, &[]), (1, &[])]), whole())),
        ("keys of another shard", bundle(&opened, by(&[(4, &[]), (5, &[]), (6, &[])]), whole())),
        ("one of a quorum leaves it out", bundle(&opened, by(&[(0, &[]), (1, &[]), (2, &[0])]), whole())),
        ("another entry", bundle(&opened, by(&QUORUM), vec![(vec![other], 0)])),
        ("another batch", lot),
        ("nothing", bundle(&opened, by(&QUORUM), Vec::new())),
        (
            "a chain that is none",
            bundle(&two_batch, certificate(&two_batch, here(), &QUORUM), vec![(unchained, 0)]),
        ),
        (
            "an entry of this shard in a batch of that",
            bundle(&foreign_batch, certificate(&foreign_batch, here(), &QUORUM), vec![(foreign, 0)]),
        ),
        ("no certificate", bundle(&opened, Bytes::from_static(&[1, 2, 3]), whole())),
    ];
    for (what, forged) in forged {
        let mut side = Side::new();
        side.hear(abroad(0, 1), shown(forged.clone()));
        let pays = forged.proven.iter().flat_map(|proven| &proven.chain).count() > 0;
        let blamed = if pays { vec![(abroad(0, 1), "bad_bundle")] } else { Vec::new() };
        assert_eq!(side.blamed, blamed, "{what}");
        assert!(side.first(is_inbound).is_none() && side.first(is_imported).is_none(), "{what}");
    }
    // A shard that nobody knows.
    let mut side = Side::new();
    let mut unknown = good();
    unknown.header.shard = 9;
    side.hear(abroad(0, 1), shown(unknown));
    assert_eq!(side.blamed, [(abroad(0, 1), "bad_bundle")]);
}

#[test]
fn an_entry_that_a_later_one_certifies_comes_with_those_between() {
    let kinds = vec![
        pay(customer(1, 0), 1),
        pay(customer(0, 0), 2),
        multi(&[(customer(1, 1), 3), (customer(0, 1), 4)]),
        pay(customer(0, 0), 5),
    ];
    let entries = chain(issuer(0, 2), kinds);
    // The last alone stands in the batch.
    let opened = batch(0, 2, &entries[3..], Vec::new());
    let proof = bundle(&opened, certificate(&opened, here(), &QUORUM), vec![(entries, 0)]);
    let mut side = Side::new();
    side.hear(abroad(0, 0), shown(proof));
    assert!(side.blamed.is_empty());
    let batch = side.did.iter().find_map(|did| match did {
        Did::Sent(Message::Broadcast(signed::Message::Prepare { payload, .. })) => {
            Opened::read(payload.bytes())
        }
        _ => None,
    });
    let places: Vec<u64> =
        batch.expect("it leaves").batch.beside.imports.iter().map(|entry| entry.id.n).collect();
    assert_eq!(places, [1, 3], "those that pay this shard");
}

/// Member 1 of shard 1 imports the payment.
fn importing(side: &mut Side) {
    importing_of(side, payment().1);
}

fn importing_of(side: &mut Side, imports: Vec<Entry>) {
    let opened = batch(1, 1, &[], imports);
    let at = (context(1), EPOCH);
    let signature = said(at, ME + 1, opened.lot(), opened.digest, &[]).signature;
    let payload = Blob::try_from(opened.payload()).expect("short");
    let lot = opened.lot();
    side.hear(NodeId(1), Message::Broadcast(signed::Message::Prepare { lot, payload, signature }));
}

#[test]
fn a_batch_that_imports_is_endorsed_once_its_proof_holds_here_and_a_proof_may_be_replaced() {
    let mut side = Side::new();
    importing(&mut side);
    assert!(!side.acked(1), "nobody showed a proof");
    let is_question = |did: &Did| matches!(did, Did::Sent(Message::Own(Word::WantProof(_))));
    assert!(side.first(is_question).is_none(), "it may be on its way");
    side.until(Time(Span::millis(150).0));
    assert!(side.first(is_question).is_some(), "it is asked for");
    // Proofs that another view signed prove nothing here, and are no lie.
    let (opened, entries) = payment();
    let elsewhere = Context { view: Hash([1; 32]), ..context(0) };
    for at in [(context(0), Epoch(EPOCH.0 + 1)), (elsewhere, EPOCH)] {
        let old = bundle(&opened, certificate(&opened, at, &QUORUM), vec![(entries.clone(), 0)]);
        side.hear(NodeId(1), shown(old));
    }
    assert!(!side.acked(1) && side.blamed.is_empty());
    side.hear(NodeId(1), shown(good()));
    assert!(side.acked(1), "the lane goes on");
    assert!(side.first(is_inbound).is_none(), "whoever imports it answers for it");
    assert!(side.imported().is_empty() && side.blamed.is_empty());
}

/// A certificate says that its members saw the proof: whoever lags credits by it.
#[test]
pub(crate) fn an_entry_is_imported_again_in_another_batch_and_none_but_it_in_its_place() {
    for is_other in [false, true] {
        let mut side = Side::new();
        side.hear(abroad(0, 2), shown(good()));
        let batch = side.sent().pop().expect("it leaves at once");
        certify(&mut side, &batch);
        assert_eq!(side.imported().len(), 1, "credited");
        let other = chain(issuer(0, 2), vec![pay(customer(1, 0), 1_000_000)]);
        importing_of(&mut side, if is_other { other } else { payment().1 });
        assert_eq!(side.acked(1), !is_other);
        let blamed: Vec<&str> = side.blamed.iter().map(|(_, fault)| *fault).collect();
        assert_eq!(blamed, if is_other { vec!["bad_import"] } else { Vec::new() });
    }
}

#[test]
fn what_is_imported_fits_into_batches_however_much_came() {
    let mut side = Side::new();
    let legs = [(customer(1, 0), 1); 60];
    let entries = chain(issuer(0, 2), (0..60).map(|_| multi(&legs)).collect());
    let opened = batch(0, 2, &entries, Vec::new());
    let chains = entries.iter().cloned().zip(0..).map(|(entry, at)| (vec![entry], at)).collect();
    side.hear(abroad(0, 2), shown(bundle(&opened, certificate(&opened, here(), &QUORUM), chains)));
    let all: usize = entries.iter().map(|entry| entry.encode().len()).sum();
    let payload_max = 8_704;
    assert!(all > 2 * payload_max, "{all} bytes are more than two batches hold");
    for number in 0..60 {
        let sent = side.sent();
        let Some(batch) = sent.get(number) else { break };
        assert!(batch.payload().len() <= payload_max && !batch.batch.beside.imports.is_empty());
        certify(&mut side, batch);
        side.until(Time(side.now.0 + Span::millis(20).0));
    }
    assert_eq!(side.imported().len(), 60, "all of it, batch after batch");
}

#[test]
fn what_others_invent_is_asked_for_once_around_and_takes_no_lane_its_proof() {
    let mut side = Side::new();
    let invented = |n: u64| Place { id: EntryId { spender: issuer(1, 0), n }, digest: Hash([3; 32]) };
    for some in 0..10_u64 {
        let places = (0..500).map(|at| invented(1_000 + 500 * some + at)).collect::<Vec<_>>();
        let places = List::try_from(places).expect("as one message holds");
        side.hear(abroad(0, 3), Message::Own(Word::Imported { life: 1, first: 1, places }));
    }
    let is_question = |did: &Did| matches!(did, Did::Sent(Message::Own(Word::WantProof(_))));
    importing(&mut side);
    side.did.clear();
    side.until(Time(Span::secs(60).0));
    let questions = side.did.iter().filter(|did| is_question(did)).count();
    assert!((512..8 * 512).contains(&questions), "{questions}: what one member named, once around");
    let imports = payment().1;
    let is_ours = |did: &Did| matches!(did, Did::Sent(Message::Own(Word::WantProof(place))) if place.id == imports[0].id);
    assert!(side.first(is_ours).is_some(), "the lane's proof is asked for");
    side.did.clear();
    side.until(Time(Span::secs(120).0));
    let is_invented = |did: &Did| matches!(did, Did::Sent(Message::Own(Word::WantProof(place))) if place.id != imports[0].id);
    assert!(side.first(is_invented).is_none(), "nobody knows of it");
}

#[test]
fn a_proof_that_is_here_before_the_batch_is_not_asked_for() {
    let mut side = Side::new();
    side.hear(NodeId(1), shown(good()));
    importing(&mut side);
    assert!(side.acked(1));
    side.until(Time(Span::secs(2).0));
    let is_question = |did: &Did| matches!(did, Did::Sent(Message::Own(Word::WantProof(_))));
    assert!(side.first(is_question).is_none());
}

#[test]
pub(crate) fn a_batch_that_imports_what_cannot_be_credited_is_blamed() {
    let elsewhere = chain(issuer(0, 2), vec![pay(customer(0, 0), 7)]);
    let own = chain(issuer(1, 2), vec![pay(customer(1, 0), 7)]);
    let unknown = chain(AccountId { shard: 5, registrar: 0, local: 1 }, vec![pay(customer(1, 0), 7)]);
    let other_ledger = vec![Entry { ledger: EURO + 1, ..payment().1[0].clone() }];
    for imports in [elsewhere, own, unknown, other_ledger] {
        let mut side = Side::new();
        let opened = batch(1, 1, &[], imports);
        let signature = said((context(1), EPOCH), ME + 1, opened.lot(), opened.digest, &[]).signature;
        let payload = Blob::try_from(opened.payload()).expect("short");
        let lot = opened.lot();
        side.hear(NodeId(1), Message::Broadcast(signed::Message::Prepare { lot, payload, signature }));
        assert_eq!(side.blamed, [(NodeId(1), "bad_import")]);
        assert!(!side.acked(1));
    }
}

#[test]
fn batches_that_import_are_in_order_and_those_that_do_not_are_written_as_ever() {
    let two = chain(issuer(0, 2), vec![pay(customer(1, 0), 7), pay(customer(1, 0), 8)]);
    let opened = batch(1, 1, &[], two.clone());
    assert_eq!(Opened::read(&opened.payload()).map(|read| read.digest), Some(opened.digest));
    let turned = batch(1, 1, &[], two.iter().rev().cloned().collect());
    assert!(Opened::read(&turned.payload()).is_none(), "places rise");
    let twice = batch(1, 1, &[], vec![two[0].clone(), two[0].clone()]);
    assert!(Opened::read(&twice.payload()).is_none(), "each once");
    // What a batch imports is part of what its digest stands for.
    let mut other = opened.batch.clone();
    other.beside = batch(1, 1, &[], two[..1].to_vec()).batch.beside;
    assert!(Opened::read(&other.encode()).is_none());
    let plain = batch(1, 1, &two, Vec::new());
    let bytes = ((plain.batch.header, plain.batch.openings.clone()), plain.batch.lines.clone()).encode();
    assert_eq!(plain.payload(), bytes, "no byte says that it imports nothing");
    let mut empty = bytes.to_vec();
    empty.push(0);
    assert!(Opened::read(&Bytes::from(empty)).is_none());
}

#[test]
fn strangers_and_members_say_what_is_theirs_to_say() {
    let mut side = Side::new();
    let lines = List::default();
    side.hear(NodeId(1), Message::Own(Word::Imported { life: 1, first: 1, places: lines }));
    side.hear(abroad(0, 1), Message::Own(Word::AskReceipts(List::default())));
    side.hear(NodeId(5_000), shown(good()));
    let blamed: Vec<NodeId> = side.blamed.iter().map(|(peer, _)| *peer).collect();
    assert_eq!(blamed, [NodeId(1), abroad(0, 1), NodeId(5_000)]);
    assert!(side.blamed.iter().all(|(_, name)| *name == "stranger"));
    // Counts beyond what was told are no counts.
    side.hear(abroad(0, 1), Message::Own(Word::Heard { life: 0, upto: u64::MAX }));
    assert_eq!(side.blamed.len(), 3);
}

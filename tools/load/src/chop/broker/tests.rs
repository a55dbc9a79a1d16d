//! A load broker stepped by hand, and what its source makes against the checks and the table of servers.

use super::{
    Config, Cooldown, Input, LoadBroker, Lost, Operations, Output, Ready, Source, SourcePlan, Timer,
};
use crate::chop::{IdDraw, KeyFamily, Members, Witness, cluster};
use std::collections::BTreeSet;
use std::sync::Arc;
use synod_chopchop::batch::{Batch, Refusal};
use synod_chopchop::dedup::{Runs, Table};
use synod_chopchop::message::{
    Credit, ExceptionList, Refused, ServerMessage, Shard, StoreMessage, Upload, Verdict,
};
use synod_chopchop::statement::{BlsSignatureBytes, Delivered, Kind};
use synod_chopchop::vocabulary::Message;
use synod_crypto::{Hash, Seed, Signature};
use synod_machine::{Condition, Effect, Event, Link, Log, Never, Recover as _, Span, Time, To, testing};
use synod_quorum::{NodeId, NodeSet};

fn members(count: u32) -> Members {
    KeyFamily::new(&Seed::new([4; 32])).members(count, count).expect("as many ids as members")
}

const PLAN: SourcePlan = SourcePlan {
    ids: IdDraw::Uniform,
    count: 50,
    distilled: 1_000,
    operations: Operations::Payments { clients: 512 },
    pool: 4,
};

/// The machine, and what it said last.
struct World {
    broker: LoadBroker,
    ready: Ready,
    now: Time,
}

type Said = Vec<Effect<LoadBroker>>;

impl World {
    /// A broker with links to `up`, and a batch that it does not know yet.
    fn new(up: &[u32]) -> Self {
        let (cluster, members) = (cluster(), members(512));
        let mut source = Source::new(&members, &cluster, PLAN).expect("a sound plan");
        let ready = source.next(&mut Cooldown::new(512), 1).expect("sound").expect("all are free");
        let log = Log { condition: Condition::Fresh, records: &mut std::iter::empty() };
        let config = Config { cluster, margin: 0, window: 2 };
        let broker = LoadBroker::recover(config, log).expect("nothing to recover");
        let mut world = Self { broker, ready, now: Time::ZERO };
        for server in up {
            world.step(Event::Link { peer: NodeId(*server), link: Link::Up });
        }
        world
    }

    fn step(&mut self, event: Event<LoadBroker>) -> Said {
        testing::effects(&mut self.broker, event, self.now)
    }

    fn begin(&mut self) -> Said {
        let ready = Box::new(self.ready.clone());
        self.step(Event::Input(Input::Batch(ready)))
    }

    fn hear(&mut self, from: u32, message: impl Into<Message<Never>>) -> Said {
        self.step(Event::Message { from: NodeId(from), message: message.into() })
    }

    fn shard(&mut self, from: u32) -> Said {
        let digest = self.ready.digest;
        self.hear(from, StoreMessage::Shard(Shard { digest, signature: Signature([1; 64]) }))
    }

    fn refuse(&mut self, from: u32, why: Refusal) -> Said {
        let digest = self.ready.digest;
        self.hear(from, StoreMessage::Refuse(Refused { digest, why }))
    }

    fn verdict(&mut self, from: u32, height: u64, root_commit: Hash) -> Said {
        let (kind, digest) = (Kind::Messages, self.ready.digest);
        let statement =
            Delivered { height, kind, digest, root_commit, exceptions_root: Hash::ZERO, exc_count: 0 };
        let exceptions = ExceptionList::Pairs(Vec::new());
        let signature = BlsSignatureBytes::ZERO;
        self.hear(from, ServerMessage::Delivered(Verdict { statement, exceptions, signature }))
    }

    fn root_commit(&self) -> Hash {
        self.ready.sealed.header.root_commit(cluster().domains())
    }

    /// The next batch, of another number.
    fn next(&mut self) {
        self.ready.number += 1;
        self.ready.digest = Hash::of(&self.ready.number.to_le_bytes());
    }

    /// Lets a timer that was armed run out: how long that took, and what it led to.
    fn expire(&mut self, said: &Said, timer: Timer) -> (Span, Said) {
        let armed = said.iter().find_map(|effect| match effect {
            Effect::Arm { timer: of, after } if *of == timer => Some(*after),
            _ => None,
        });
        let after = armed.expect("it is armed");
        self.now = self.now + after;
        (after, self.step(Event::Timer(timer)))
    }
}

/// To whom uploads went, asking and not asking.
fn uploads(said: &Said) -> [NodeSet; 2] {
    let mut to = [NodeSet::EMPTY; 2];
    for effect in said {
        if let Effect::Send { to: To::Set(set), message: Message::Store(StoreMessage::Batch(upload)) } =
            effect
        {
            let at = usize::from(!Upload::asks(upload));
            to[at] = to[at].or(*set);
        }
    }
    to
}

/// To whom messages of this kind went.
fn sent(said: &Said, is: impl Fn(&Message<Never>) -> bool) -> NodeSet {
    let mut all = NodeSet::EMPTY;
    for effect in said {
        if let Effect::Send { to: To::Set(set), message } = effect
            && is(message)
        {
            all = all.or(*set);
        }
    }
    all
}

fn ordered(said: &Said) -> u32 {
    sent(said, |message| matches!(message, Message::Server(ServerMessage::Order(_)))).count()
}

fn outputs(said: &Said) -> Vec<Output> {
    said.iter()
        .filter_map(|effect| if let Effect::Output(output) = effect { Some(*output) } else { None })
        .collect()
}

#[test]
fn a_batch_is_uploaded_to_all_witnessed_by_two_ordered_by_one_and_delivered_by_two_equal_words() {
    let mut world = World::new(&[0, 1, 2, 3]);
    let [asked, others] = uploads(&world.begin());
    assert_eq!((asked.count(), others.count(), asked.or(others)), (2, 2, NodeSet::first(4)));
    assert_eq!(ordered(&world.shard(0)), 0);
    assert_eq!(ordered(&world.shard(0)), 0, "one server is no two");
    assert_eq!(ordered(&world.shard(1)), 1);
    assert_eq!(ordered(&world.shard(2)), 0, "an ordered batch is not ordered by every further shard");
    let root = world.root_commit();
    assert!(outputs(&world.verdict(3, 2, Hash::ZERO)).is_empty(), "of another root");
    assert!(outputs(&world.verdict(0, 2, root)).is_empty());
    assert!(outputs(&world.verdict(1, 3, root)).is_empty(), "two heights are no equal words");
    let delivered = Output::Delivered { number: 1, height: 2, exceptions: 0 };
    assert_eq!(outputs(&world.verdict(2, 2, root)), [delivered]);
    assert!(outputs(&world.verdict(3, 2, root)).is_empty(), "once");
}

#[test]
fn who_is_silent_is_asked_again_and_others_are_asked_too() {
    let mut world = World::new(&[0, 1, 2, 3]);
    let [asked, _] = uploads(&world.begin());
    let said = world.step(Event::Timer(Timer::Witness(1, 1)));
    let third = sent(&said, |message| matches!(message, Message::Store(StoreMessage::Ask(_))));
    assert_eq!((third.count(), third.and(asked)), (1, NodeSet::EMPTY), "2f + 1, without another upload");
    let [again, none] = uploads(&world.step(Event::Timer(Timer::Witness(1, 2))));
    assert_eq!((again, none), (NodeSet::first(4), NodeSet::EMPTY), "all, and nobody answered");
    world.shard(0);
    let [again, _] = uploads(&world.step(Event::Timer(Timer::Witness(1, 3))));
    assert_eq!(again, NodeSet::first(4).without(NodeId(0)));
    world.shard(1);
    let said = world.step(Event::Timer(Timer::Witness(1, 4)));
    assert!(said.is_empty(), "it has its shards: {said:?}");
    assert_eq!(ordered(&world.step(Event::Timer(Timer::Order(1, 1)))), 2);
    let said = world.step(Event::Timer(Timer::Order(1, 2)));
    let certify = sent(&said, |message| matches!(message, Message::Server(ServerMessage::Certify(_))));
    assert_eq!((ordered(&said), certify), (4, NodeSet::first(4)));
}

#[test]
fn a_server_that_let_a_wait_run_out_is_asked_last_for_some_seconds() {
    let mut world = World::new(&[0, 1, 2, 3]);
    let [asked, _] = uploads(&world.begin());
    world.step(Event::Timer(Timer::Witness(1, 1)));
    let others = NodeSet::first(4).minus(asked);
    others.iter().for_each(|server| drop(world.shard(server.0)));
    world.next();
    assert_eq!(uploads(&world.begin())[0], others, "whoever was silent is asked behind the others");
    let (first, second) = (others.iter().next().expect("two"), others.iter().nth(1).expect("two"));
    world.shard(first.0);
    let said = world.shard(second.0);
    let ordering = |said: &Said| sent(said, |m| matches!(m, Message::Server(ServerMessage::Order(_))));
    let before = ordering(&said);
    assert_eq!((before.count(), before.and(asked)), (1, NodeSet::EMPTY));
    world.step(Event::Timer(Timer::Order(2, 1)));
    let root = world.root_commit();
    [0, 1].into_iter().for_each(|server| drop(world.verdict(server, 2, root)));
    world.now = world.now + Span::secs(6);
    world.next();
    assert_eq!(uploads(&world.begin())[0], asked, "and as before when that is over");
}

#[test]
fn servers_that_never_answer_do_not_make_the_waits_for_others_longer_and_longer() {
    let mut world = World::new(&[0, 1, 2, 3]);
    let second = Span::secs(1);
    for round in 0..200 {
        let (number, said) = (world.ready.number, world.begin());
        let (first, said) = world.expire(&said, Timer::Witness(number, 1));
        let (_, _) = world.expire(&said, Timer::Witness(number, 2));
        world.now = world.now + Span::millis(5);
        world.shard(2);
        let said = world.shard(3);
        let (asked, said) = world.expire(&said, Timer::Order(number, 1));
        let (_, _) = world.expire(&said, Timer::Order(number, 2));
        world.now = world.now + Span::millis(5);
        let root = world.root_commit();
        world.verdict(2, 2 + round, root);
        assert_eq!(outputs(&world.verdict(3, 2 + round, root)).len(), 1, "{round}");
        let settled = round == 0 || (first < second && asked < second);
        assert!(settled, "round {round}: {first:?} for shards, {asked:?} for the order");
        world.next();
    }
}

#[test]
fn servers_without_link_or_room_get_a_batch_when_they_have_both() {
    let mut world = World::new(&[0, 1]);
    let [asked, others] = uploads(&world.begin());
    assert_eq!(asked.or(others), NodeSet::first(2));
    let [asked, others] = uploads(&world.step(Event::Link { peer: NodeId(2), link: Link::Up }));
    assert_eq!(asked.or(others), NodeSet::only(NodeId(2)));
    let credit = StoreMessage::Credit(Credit { bytes: 1 << 30, work: 1, height: 1, directory: 512 });
    assert_eq!(uploads(&world.hear(0, credit)), [NodeSet::EMPTY; 2], "it has the batch");
    world.step(Event::Link { peer: NodeId(2), link: Link::Down });
    let [asked, others] = uploads(&world.step(Event::Link { peer: NodeId(2), link: Link::Up }));
    assert_eq!(asked.or(others), NodeSet::only(NodeId(2)), "once more, for its link broke");
}

#[test]
fn a_batch_that_waits_for_credit_is_sent_when_there_is_some() {
    let mut world = World::new(&[0]);
    let credit = |bytes| StoreMessage::Credit(Credit { bytes, work: 1, height: 1, directory: 512 });
    world.hear(0, credit(10));
    assert_eq!(uploads(&world.begin()), [NodeSet::EMPTY; 2], "ten bytes are no batch");
    let [asked, others] = uploads(&world.hear(0, credit(1 << 20)));
    assert_eq!(asked.or(others), NodeSet::only(NodeId(0)));
    // What lies too far for a server that is behind, does not for long.
    world.refuse(0, Refusal::TooFar);
    world.refuse(0, Refusal::Credit);
    assert_eq!(uploads(&world.hear(0, credit(1 << 20))), [NodeSet::EMPTY; 2], "not in a circle");
    let [asked, others] = uploads(&world.step(Event::Timer(Timer::Witness(1, 2))));
    assert_eq!(asked.or(others), NodeSet::only(NodeId(0)), "but when the wait is over");
}

#[test]
fn a_batch_that_two_servers_refuse_is_lost_and_one_is_not_heard() {
    let mut world = World::new(&[0, 1, 2, 3]);
    world.begin();
    assert!(outputs(&world.refuse(0, Refusal::Aggregate)).is_empty());
    assert!(outputs(&world.refuse(0, Refusal::Aggregate)).is_empty());
    let lost = Output::Lost { number: 1, why: Lost::Refused(Refusal::Root) };
    assert_eq!(outputs(&world.refuse(1, Refusal::Root)), [lost]);
    for number in [2, 3, 4] {
        world.ready.number = number;
        world.ready.digest = Hash::of(&number.to_le_bytes());
        let full = outputs(&world.begin());
        assert_eq!(full.len(), usize::from(number == 4), "two are on their way at most: {full:?}");
    }
}

/// Draws `rounds` batches one after another, at most `window` on their way; has each witnessed and delivered.
fn delivered(plan: SourcePlan, window: usize, rounds: usize) -> (Vec<Ready>, u64) {
    let (cluster, members) = (cluster(), members(512));
    let witness = Witness::new(&cluster, &members);
    let mut source = Source::new(&members, &cluster, plan).expect("a sound plan");
    let (mut cooldown, mut table) = (Cooldown::new(512), Table::new(4));
    table.grow(512);
    let (mut all, mut open) = (Vec::<Ready>::new(), Vec::<Ready>::new());
    while all.len() < rounds {
        let height = 1 + all.len() as u64;
        match source.next(&mut cooldown, height).expect("sound") {
            Some(ready) if open.len() < window => {
                assert_eq!(ready.number, 1 + (all.len() + open.len()) as u64);
                open.push(ready);
                continue;
            }
            Some(ready) => open.push(ready),
            None => assert!(!open.is_empty(), "somebody must have them"),
        }
        // The newest first: batches on their way may overtake each other.
        while let Some(ready) = open.pop() {
            assert_eq!(witness.check(&ready.sealed), Ok(()), "{plan:?} {}", ready.number);
            assert_eq!(ready.sealed.digest(cluster.domains()), ready.digest);
            let batch = Batch::open(&ready.sealed).expect("well formed");
            let runs = Runs::split(batch, &table).expect("ids of the table");
            assert_eq!(runs.apply(&mut table).exc_count(), 0, "{plan:?}: every message is delivered");
            cooldown.release(&ready.ids);
            all.push(ready);
        }
    }
    (all, source.waits())
}

#[test]
fn every_message_of_every_source_is_witnessed_and_delivered_whatever_the_order() {
    for (ids, distilled, pool) in [
        (IdDraw::Uniform, 1_000, 4),
        (IdDraw::Cohort(20), 1_000, 8),
        (IdDraw::Block, 1_000, 4),
        (IdDraw::Uniform, 1_000, 0),
        (IdDraw::Uniform, 600, 4),
        (IdDraw::Block, 0, 0),
    ] {
        let plan = SourcePlan { ids, distilled, pool, ..PLAN };
        let (all, waits) = delivered(plan, 3, 24);
        assert!(all.iter().all(|ready| ready.ids.len() == 50));
        assert_eq!(waits, 0, "{plan:?}: 512 members are enough for four batches of 50");
        let stragglers = all[0].sealed.header.stragglers;
        assert_eq!(stragglers, 50 * (1_000 - u32::from(distilled)) / 1_000);
    }
}

#[test]
fn small_batches_behind_those_of_any_source_are_witnessed_and_delivered() {
    for (distilled, pool) in [(1_000, 4), (1_000, 0), (0, 4)] {
        let (cluster, members) = (cluster(), members(512));
        let witness = Witness::new(&cluster, &members);
        let plan = SourcePlan { distilled, pool, ..PLAN };
        let mut source = Source::new(&members, &cluster, plan).expect("a sound plan");
        let (mut cooldown, mut table) = (Cooldown::new(512), Table::new(4));
        table.grow(512);
        for number in 1..=40_u64 {
            let made = if number <= 4 { Source::next } else { Source::small };
            let ready = made(&mut source, &mut cooldown, number).expect("sound").expect("enough are free");
            assert_eq!((ready.number, ready.ids.len()), (number, if number <= 4 { 50 } else { 16 }));
            assert_eq!(witness.check(&ready.sealed), Ok(()), "{plan:?} {number}");
            let batch = Batch::open(&ready.sealed).expect("well formed");
            let runs = Runs::split(batch, &table).expect("ids of the table");
            assert_eq!(runs.apply(&mut table).exc_count(), 0, "{plan:?}: every message is delivered");
            cooldown.release(&ready.ids);
        }
        assert!(cooldown.draw(500, &mut synod_machine::Rng::new(1, NodeId(0), 0)).is_some());
        assert!(source.small(&mut cooldown, 9).expect("sound").is_none(), "twelve are free");
    }
}

#[test]
fn a_member_is_in_one_batch_at_a_time_and_who_waits_for_it_is_counted() {
    let (all, waits) = delivered(SourcePlan { count: 300, ..PLAN }, 3, 12);
    assert!(waits > 0, "two batches of 300 do not fit 512 members");
    let numbers: BTreeSet<u64> = all.iter().map(|ready| ready.number).collect();
    assert_eq!((numbers.len(), numbers.last()), (all.len(), Some(&(all.len() as u64))), "none left out");
}

#[test]
fn a_pool_says_the_same_with_the_other_parity_in_the_next_round() {
    let (all, _) = delivered(PLAN, 1, 12);
    let mut bodies: Vec<Hash> = all.iter().map(|ready| ready.sealed.name()).collect();
    bodies.sort_unstable();
    bodies.dedup();
    assert_eq!(bodies.len(), 8, "four bodies, each with both parities");
    let ids = |at: usize| -> Arc<[u32]> { all[at].ids.clone() };
    assert_eq!((ids(0), ids(1)), (ids(4), ids(5)));
    assert_eq!(all[0].sealed.name(), all[8].sealed.name());
    assert_ne!(all[0].sealed.name(), all[4].sealed.name());
}

//! Profile I: whole batches from registered representatives alone, over Bracha's broadcast; what is not funded waits in its log.

use synod_astro::{Config, Input, Level, Line, Opened, Output, Profile, Promise, Refusal, Rule, Setup};
use synod_broadcast::{Bracha, Lot, bracha};
use synod_crypto::{Hash, Keys};
use synod_ledger::{AccountId, Book, Code, EntryId, Flags, Kind, genesis};
use synod_machine::testing::{self, Users, World as Members, pick};
use synod_machine::{Condition, Effect, Event, Job as _, Log, Recover as _, Time};
use synod_quorum::NodeId;
use synod_wire::{Blob, Drawn};

use crate::bank::{
    LIMIT, Tells, Told, agrees, custodial, digest, draft, equal_books, first, issuer, keys, numbers, order,
    pay, settle, signed, signing, told,
};
use crate::forge::carried;

type Replica = synod_astro::Replica<Bracha>;
type World = Members<Tills>;
type Kept = synod_astro::Record<bracha::Record>;

/// The users of all members.
struct Tills {
    n: u32,
    change: fn(&mut Config),
    told: Vec<Told>,
}

impl Tills {
    fn world(n: u32, seed: u64, change: fn(&mut Config)) -> World {
        Members::new(n, seed, Self { n, change, told: (0..n).map(|_| Told::default()).collect() })
    }
}

impl Users for Tills {
    type Machine = Replica;

    fn config(&self, id: NodeId) -> Setup<Bracha> {
        let mut config = numbers(self.n, id);
        config.parameters.profile = Profile::I;
        (self.change)(&mut config);
        let (members, bounds) = (config.view.roster.all(), config.parameters.bounds());
        let own = synod_broadcast::Config { me: id, members, bounds };
        Setup { config, channel: Box::new(move |delivered| bracha::Setup { config: own.clone(), delivered }) }
    }

    fn keys(&self, id: NodeId) -> Keys {
        keys(id.0)
    }

    fn told(&mut self, id: NodeId, output: Output) -> Vec<Input> {
        self.told[id.0 as usize].hear(output)
    }
}

impl Tells for Tills {
    fn told(&self) -> &[Told] {
        &self.told
    }

    fn book(machine: &Replica) -> &Book {
        machine.book()
    }
}

fn usual(_: &mut Config) {}

fn accepted(world: &World) -> usize {
    told(world).map(|told| told.accepted.len()).sum()
}

/// An issuer pays its institution's customer enough for all that it ordered, once its window has room.
fn fund(world: &mut World, ticket: u64, lane: u32) {
    for _ in 0..200 {
        order(world, ticket, issuer(lane), custodial(lane), 10_000);
        if world.users.told[lane as usize].accepted.contains_key(&ticket) {
            return;
        }
        world.go_on(100);
    }
    unreachable!("entries of issuer {lane} settle");
}

/// A liar's batch, to these.
fn proposed(
    world: &mut World,
    liar: u32,
    to: &[u32],
    (sequence, prev): (u64, Hash),
    lines: Vec<Line>,
) -> Hash {
    let lot = Lot { source: u8::try_from(liar).expect("few"), sequence };
    let opened = Opened::new(0, lot, prev, Vec::new(), lines);
    for to in to {
        let payload = Blob::try_from(opened.payload()).expect("short");
        let message = bracha::Message::Prepare { sequence, payload };
        world.say(NodeId(liar), NodeId(*to), synod_astro::Message::Broadcast(message));
    }
    opened.digest
}

/// Everybody pays everybody, with money and without; in the end issuers pay for all that waits.
#[test]
fn what_is_taken_settles_everywhere_in_the_order_of_its_logs_once_money_comes() {
    let mut queued = 0;
    for (seed, n) in (0..16).zip([4, 5, 1, 7].into_iter().cycle()) {
        let mut world = Tills::world(n, seed, usual);
        let mut drawn = Drawn::new(seed ^ 0x71);
        // Nobody says a vote again that a member alone did not hear from itself.
        world.loss = if n == 1 { 0 } else { [0, 50, 150][pick(&mut drawn, 3)] };
        let accounts: Vec<AccountId> = (0..n).flat_map(|lane| [issuer(lane), custodial(lane)]).collect();
        for ticket in 1..=50 {
            let from = accounts[pick(&mut drawn, accounts.len())];
            let to = accounts[pick(&mut drawn, accounts.len())];
            order(&mut world, ticket, from, to, u128::from(1 + drawn.below(300)));
            world.go_on(drawn.below(60));
        }
        (0..n).for_each(|lane| fund(&mut world, 100 + u64::from(lane), lane));
        queued += told(&world).map(|told| told.queued.len()).sum::<usize>();
        let count = accepted(&world);
        assert!(count >= 15, "seed {seed}: {count} were taken");
        assert!(settle(&mut world, count), "seed {seed}");
        assert!(world.correct().all(|(_, seat)| seat.blamed.is_empty()), "nobody lied");
        assert!(agrees(&world));
        equal_books(&world);
    }
    assert!(queued >= 50, "{queued} waited for money");
}

#[test]
fn a_member_that_crashes_anywhere_breaks_no_promise_and_catches_up() {
    for seed in 0..24 {
        let mut world = Tills::world(4, seed, usual);
        let mut drawn = Drawn::new(seed ^ 0xc4a5);
        let accounts: Vec<AccountId> = (0..4).flat_map(|lane| [issuer(lane), custodial(lane)]).collect();
        for ticket in 1..=40 {
            let from = accounts[pick(&mut drawn, accounts.len())];
            let to = accounts[pick(&mut drawn, accounts.len())];
            order(&mut world, ticket, from, to, u128::from(1 + drawn.below(300)));
            world.go_on(drawn.below(60));
            if ticket % 4 == 0 {
                world.restart(NodeId(u32::try_from(drawn.below(4)).expect("few")), drawn.below(2) == 0);
            }
        }
        (0..4).for_each(|lane| fund(&mut world, 1_000 + u64::from(lane), lane));
        let money = |world: &World, lane: u32| {
            let transfer = u128::from(1_000 + lane);
            told(world).all(|told| told.settled.values().any(|(entry, _)| entry.transfer == transfer))
        };
        assert!(world.until(|world| (0..4).all(|lane| money(world, lane))), "seed {seed}");
        // Nothing that was delivered waits for ever: there is money for all of it.
        assert!(settle(&mut world, 10), "seed {seed}");
        assert!(world.correct().all(|(_, seat)| seat.blamed.is_empty()), "seed {seed}");
        assert!(agrees(&world));
        equal_books(&world);
    }
}

/// T10.
#[test]
fn an_entry_without_money_waits_and_what_comes_releases_it() {
    let mut world = Tills::world(4, 1, usual);
    order(&mut world, 1, issuer(0), custodial(1), 50);
    assert!(settle(&mut world, 1));
    order(&mut world, 2, custodial(1), custodial(2), 60);
    order(&mut world, 3, custodial(1), custodial(2), 1);
    assert!(world.users.told[1].queued.contains(&2), "the order waits, and its customer hears so");
    world.go_on(3_000);
    assert!(told(&world).all(|told| told.settled.len() == 1), "the log stands still");
    // Others do not.
    order(&mut world, 4, issuer(2), custodial(3), 5);
    assert!(settle(&mut world, 2));
    order(&mut world, 5, issuer(0), custodial(1), 11);
    assert!(settle(&mut world, 5));
    assert!(world.correct().all(|(_, seat)| seat.rules.contains(Rule::Settle.name())));
    equal_books(&world);
}

/// Whether an order without money has its place and waits, and whether a liar's entry does, each until there is money for it.
pub(crate) fn waits_for_money() -> (bool, bool) {
    let mut world = Tills::world(4, 1, usual);
    order(&mut world, 1, custodial(0), custodial(1), 5);
    let is_queued = world.users.told[0].queued.contains(&1);
    world.liar = Some(NodeId(3));
    let line = carried(custodial(3), 1, genesis(custodial(3)), pay(custodial(1), 5), 9);
    proposed(&mut world, 3, &[0, 1, 2], (1, Hash::ZERO), vec![line]);
    world.go_on(3_000);
    assert!(told(&world).all(|told| told.settled.is_empty()), "there is no money");
    order(&mut world, 2, issuer(0), custodial(3), 5);
    let is_released = settle(&mut world, 2) && told(&world).all(|told| told.settled.len() == 2);
    order(&mut world, 3, issuer(0), custodial(0), 5);
    (is_queued && settle(&mut world, 4), is_released)
}

/// T14.
#[test]
fn ten_entries_without_money_settle_in_their_order_whatever_comes_first() {
    for seed in 0..10 {
        let mut world = Tills::world(4, seed, usual);
        for n in 0..10 {
            order(&mut world, 1 + n, custodial(0), custodial(1), 10 * u128::from(1 + n));
        }
        let mut credits: Vec<u128> = (1..=10).map(|n| 10 * n).collect();
        let mut drawn = Drawn::new(seed);
        for ticket in 100..110 {
            let amount = credits.swap_remove(pick(&mut drawn, credits.len()));
            let from = issuer(u32::try_from(drawn.below(4)).expect("few"));
            order(&mut world, ticket, from, custodial(0), amount);
            world.go_on(drawn.below(200));
        }
        assert_eq!(world.users.told[0].queued.len(), 10);
        assert!(settle(&mut world, 20), "seed {seed}");
        assert_eq!(world.users.told[2].settled.len(), 20);
        equal_books(&world);
    }
}

/// T13.
#[test]
fn a_whole_balance_that_goes_to_its_owner_changes_nothing() {
    let mut world = Tills::world(4, 2, usual);
    order(&mut world, 1, issuer(0), custodial(0), 50);
    assert!(settle(&mut world, 1));
    let mut itself = draft(custodial(0), pay(custodial(0), 50), 2);
    itself.flags = Flags::ALLOW_SELF;
    world.ask(NodeId(0), Input::Order { ticket: 2, draft: itself });
    order(&mut world, 3, custodial(0), custodial(1), 50);
    assert!(world.users.told[0].queued.contains(&3), "what comes back counts once it is back");
    assert!(settle(&mut world, 3));
    equal_books(&world);
}

/// T15.
#[test]
fn votes_for_many_batches_in_any_order_deliver_all_of_them() {
    for seed in 0..10 {
        let mut world = Tills::world(4, seed, |config| config.parameters.batch_max = 1);
        for ticket in 1..=16 {
            order(&mut world, ticket, issuer(0), custodial(0), 1);
        }
        let count = accepted(&world);
        assert!(count >= 4, "{count} orders are taken at once");
        assert!(settle(&mut world, count), "seed {seed}");
        equal_books(&world);
    }
}

/// T3, E4.
#[test]
fn nobody_but_the_registered_representative_carries_an_entry() {
    let mut world = Tills::world(4, 3, usual);
    order(&mut world, 1, issuer(0), signing(0), 100);
    order(&mut world, 2, issuer(0), custodial(0), 100);
    assert!(settle(&mut world, 2));
    let line = first(signing(0), pay(custodial(1), 60), 7);
    world.ask(NodeId(1), Input::Signed { ticket: 3, line: line.clone() });
    assert!(world.until(|world| world.users.told[1].refused.contains_key(&3)));
    assert_eq!(world.users.told[1].refused[&3], Refusal::Ledger(Code::Unauthorized));
    // A liar asks nobody.
    world.liar = Some(NodeId(3));
    let theirs = carried(custodial(0), 1, genesis(custodial(0)), pay(issuer(3), 100), 8);
    proposed(&mut world, 3, &[0, 1, 2], (1, Hash::ZERO), vec![line.clone(), theirs]);
    world.go_on(3_000);
    assert!(told(&world).all(|told| told.settled.len() == 2));
    assert!(world.correct().all(|(_, seat)| seat.rules.contains(Rule::Hold.name())), "all looked at it");
    world.ask(NodeId(0), Input::Signed { ticket: 4, line });
    assert!(settle(&mut world, 3));
    equal_books(&world);
}

/// One bad entry keeps its batch from being delivered, and the lane of whoever sent it; nobody else's.
#[test]
fn a_batch_with_one_bad_entry_is_not_endorsed_and_holds_up_its_own_lane_alone() {
    let mut world = Tills::world(4, 4, usual);
    world.liar = Some(NodeId(3));
    let good = carried(issuer(3), 1, genesis(issuer(3)), pay(custodial(1), 10), 1);
    let bad = carried(custodial(3), 1, genesis(custodial(3)), pay(custodial(1), 0), 2);
    let after = carried(issuer(3), 1, genesis(issuer(3)), pay(custodial(2), 10), 3);
    let head = proposed(&mut world, 3, &[0, 1, 2], (1, Hash::ZERO), vec![good, bad]);
    proposed(&mut world, 3, &[0, 1, 2], (2, head), vec![after]);
    for lane in 0..3 {
        order(&mut world, 10, issuer(lane), custodial(lane), 5);
    }
    assert!(settle(&mut world, 3));
    world.go_on(3_000);
    assert!(told(&world).all(|told| told.settled.keys().all(|id| id.spender.registrar != 3)));
    assert_eq!(open_of(&mut world, issuer(3)), 0, "nothing may be endorsed behind what nobody was promised");
}

/// How many entries of a log member 0 has in their places that have not settled.
fn open_of(world: &mut World, from: AccountId) -> u32 {
    world.ask(NodeId(0), Input::Look { ticket: 77, from, count: 1 });
    world.users.told[0].looked[&77][0].open
}

/// T2 and A-S1: a liar shows one half this entry and the other half that one.
#[test]
fn two_entries_for_one_place_never_both_settle() {
    for seed in 0..10 {
        let mut world = Tills::world(4, seed, usual);
        world.liar = Some(NodeId(3));
        let lines = |to: u32, transfer| {
            let kind = pay(custodial(to), LIMIT);
            vec![carried(issuer(3), 1, genesis(issuer(3)), kind, transfer)]
        };
        proposed(&mut world, 3, &[0, 1], (1, Hash::ZERO), lines(0, 1));
        proposed(&mut world, 3, &[2], (1, Hash::ZERO), lines(2, 2));
        order(&mut world, 10, issuer(0), custodial(0), 5);
        assert!(settle(&mut world, 1), "seed {seed}");
        world.go_on(2_000);
        assert!(agrees(&world));
    }
}

/// T24: a queue is bounded where orders come in, and where batches are endorsed.
#[test]
fn entries_without_money_are_no_more_than_may_wait() {
    let few: fn(&mut Config) = |config| {
        (config.parameters.unfunded_max, config.parameters.lane_window) = (4, 2);
    };
    let mut world = Tills::world(4, 5, few);
    for ticket in 1..=6 {
        order(&mut world, ticket, custodial(0), custodial(1), 10);
    }
    assert_eq!(world.users.told[0].queued.len(), 4);
    assert!(world.users.told[0].refused.values().all(|why| matches!(why, Refusal::Busy(_))));
    // With money orders are still taken, and money lets the others in.
    order(&mut world, 10, issuer(0), custodial(0), 40);
    assert!(settle(&mut world, 5));
    order(&mut world, 11, custodial(0), custodial(1), 10);
    assert!(world.users.told[0].queued.contains(&11));
    // A liar queues without end: what is behind the bound is not endorsed, and others go on.
    world.liar = Some(NodeId(3));
    let (mut prev, mut head) = (genesis(custodial(3)), Hash::ZERO);
    for sequence in 1..=4 {
        let lines = (1..=4).map(|at| {
            let n = 4 * (sequence - 1) + at;
            let line = carried(custodial(3), n, prev, pay(custodial(1), 1), u128::from(n));
            prev = digest(&line.entry);
            line
        });
        let lines = lines.collect();
        head = proposed(&mut world, 3, &[0, 1, 2], (sequence, head), lines);
        world.go_on(2_000);
    }
    let waiting = open_of(&mut world, custodial(3));
    assert!((12..16).contains(&waiting), "4 and 2 batches of 5 may wait, and {waiting} do");
    order(&mut world, 12, issuer(0), custodial(3), 100);
    assert!(world.until(|world| told(world).all(|told| told.settled.keys().any(|id| id.n == 16))));
    equal_books(&world);
}

/// 4.3: what changes the representative counts once it has settled.
#[test]
fn an_account_that_moves_is_carried_by_its_new_representative_once_that_has_settled() {
    for seed in 0..8 {
        let mut world = Tills::world(4, seed, usual);
        order(&mut world, 1, issuer(0), signing(0), 100);
        assert!(settle(&mut world, 1));
        let moves = first(signing(0), Kind::Move(2), 2);
        let then = EntryId { spender: signing(0), n: 2 };
        let pays = signed(then, digest(&moves.entry), pay(custodial(1), 100), 3);
        world.ask(NodeId(0), Input::Signed { ticket: 2, line: moves });
        assert!(world.until(|world| world.users.told[0].accepted.contains_key(&2)));
        world.ask(NodeId(0), Input::Signed { ticket: 3, line: pays.clone() });
        assert!(world.until(|world| world.users.told[0].refused.contains_key(&3)));
        assert!(settle(&mut world, 2), "seed {seed}");
        world.ask(NodeId(0), Input::Signed { ticket: 4, line: pays.clone() });
        assert!(world.until(|world| world.users.told[0].refused.contains_key(&4)));
        assert_eq!(world.users.told[0].refused[&4], Refusal::Ledger(Code::Unauthorized));
        world.ask(NodeId(2), Input::Signed { ticket: 5, line: pays });
        assert!(settle(&mut world, 3), "seed {seed}");
        equal_books(&world);
    }
}

/// A-S10: found by `astro/i`. Behind a snapshot the batch is gone that carried what waits.
#[test]
fn an_order_that_waits_for_money_has_its_place_after_a_restart_too() {
    let mut world = Tills::world(4, 6, usual);
    order(&mut world, 1, custodial(0), custodial(1), 60);
    let id = EntryId { spender: custodial(0), n: 1 };
    let is_certified = |world: &World| {
        world.users.told[0].levels.get(&id).is_some_and(|levels| levels.contains(&Level::Certified))
    };
    assert!(world.until(is_certified));
    world.go_on(3_000);
    for _ in 0..2 {
        world.restart(NodeId(0), true);
        order(&mut world, 2, custodial(0), custodial(1), 1);
        world
            .ask(NodeId(0), Input::Order { ticket: 3, draft: draft(custodial(0), pay(custodial(1), 60), 1) });
        assert_eq!(world.users.told[0].refused.get(&3), Some(&Refusal::Exists(id)), "it has its place");
    }
    order(&mut world, 4, issuer(0), custodial(0), 61);
    assert!(settle(&mut world, 3));
    equal_books(&world);
}

/// Member 0 with this log hears a liar's batch; what it echoes, and what it writes.
fn echoed(log: Vec<Kept>, batch: &Opened) -> (Vec<bracha::Vote>, Vec<Kept>) {
    let users = Tills { n: 4, change: usual, told: Vec::new() };
    let mut records = log.into_iter();
    let log = Log { condition: Condition::Clean, records: &mut records };
    let mut replica = Replica::recover(users.config(NodeId(0)), log).expect("its own records");
    let payload = Blob::try_from(batch.payload()).expect("short");
    let prepare = bracha::Message::Prepare { sequence: batch.lot().sequence, payload };
    let message = synod_astro::Message::Broadcast(prepare);
    let mut events = vec![Event::Message { from: NodeId(3), message }, Event::Start];
    let (mut votes, mut kept) = (Vec::new(), Vec::new());
    while let Some(event) = events.pop() {
        for effect in testing::effects(&mut replica, event, Time::ZERO) {
            match effect {
                Effect::Compute(job) => events.push(Event::Done(job.run(&keys(0)))),
                Effect::Persist(record) => kept.push(record),
                Effect::Send { message: synod_astro::Message::Broadcast(message), .. } => {
                    votes.extend(match message {
                        bracha::Message::Echo(vote) => Some(vote),
                        _ => None,
                    });
                }
                _ => {}
            }
        }
    }
    (votes, kept)
}

/// X3: found by `astro/i`. The crash took the echo from the disk and left what the ledger had endorsed.
#[test]
fn behind_a_crash_no_other_batch_is_echoed_than_was_endorsed_in_its_slot() {
    let batch = |amount| {
        let line = carried(issuer(3), 1, genesis(issuer(3)), pay(custodial(1), amount), amount);
        Opened::new(0, Lot { source: 3, sequence: 1 }, Hash::ZERO, Vec::new(), vec![line])
    };
    let (one, other) = (batch(1), batch(2));
    let (votes, kept) = echoed(Vec::new(), &one);
    assert_eq!(votes.len(), 1);
    let endorsed = kept.into_iter().filter(|record| matches!(record, Kept::Own(Promise::Endorsed { .. })));
    let endorsed: Vec<Kept> = endorsed.collect();
    assert_eq!(endorsed.len(), 1);
    assert_eq!(echoed(endorsed.clone(), &one).0, votes, "the same one is echoed");
    assert_eq!(echoed(endorsed, &other).0, []);
}

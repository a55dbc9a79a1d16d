//! Payments between shards under drawn schedules (T32 to T34, T48, T49).

use synod_astro::{Input, Refusal, Word};
use synod_ledger::{Code, EntryId, genesis};
use synod_machine::testing::pick;
use synod_quorum::NodeId;
use synod_wire::Drawn;

use super::country::{
    Country, MEMBERS, World, account, adds_up, balances, credits, customer, is_quiet, issuer, member, order,
    signing,
};
use crate::bank::{Message, draft, hold_kind, multi, pay, signed};

/// Runs until nothing is on its way any more, and looks at the books.
fn settle(world: &mut World) {
    world.loss = 0;
    assert!(world.until(is_quiet), "what left came, and was confirmed");
    balances(world);
}

/// Drawn payments in and between shards, with members that crash.
fn trade(world: &mut World, shards: u32, drawn: &mut Drawn, rounds: u64) {
    let number = |drawn: &mut Drawn, below: u32| u32::try_from(drawn.below(u64::from(below))).expect("small");
    for round in 0..rounds {
        let (shard, registrar) = (number(drawn, shards), number(drawn, MEMBERS));
        let from = if drawn.below(3) == 0 { issuer(shard, registrar) } else { customer(shard, registrar) };
        let mut to = || customer(number(drawn, shards), number(drawn, MEMBERS));
        let (one, other) = (to(), to());
        let legs = [(one, 1 + u128::from(drawn.below(40))), (other, 2)];
        let count = 1 + pick(drawn, 2);
        order(world, 1 + round, from, &legs[..count]);
        world.go_on(drawn.below(120));
        if drawn.below(8) == 0 {
            let id = NodeId(number(drawn, shards * MEMBERS));
            world.restart(id, drawn.below(2) == 0);
        }
        adds_up(world);
    }
}

#[test]
fn between_two_shards_money_comes_once_whatever_is_lost_repeated_or_crashes() {
    for seed in 0..12 {
        let (mut world, mut drawn) = (Country::world(2, seed), Drawn::new(seed + 100));
        world.loss = 100;
        trade(&mut world, 2, &mut drawn, 40);
        settle(&mut world);
        let abroad = world
            .users
            .settled
            .values()
            .filter(|entry| entry.legs().iter().any(|leg| leg.to.shard != entry.id.spender.shard));
        assert!(abroad.count() >= 4, "seed {seed}: payments crossed");
        for rule in ["export", "import"] {
            assert!(world.seats.iter().any(|seat| seat.rules.contains(rule)), "{rule}");
        }
        assert!(world.seats.iter().all(|seat| seat.blamed.is_empty()), "nobody lied");
    }
}

#[test]
fn among_four_shards_what_leaves_each_is_what_comes_to_the_others() {
    for seed in 0..3 {
        let (mut world, mut drawn) = (Country::world(4, seed), Drawn::new(seed + 7));
        world.loss = 60;
        trade(&mut world, 4, &mut drawn, 50);
        settle(&mut world);
    }
}

#[test]
fn the_next_member_sends_and_the_next_imports_when_the_first_are_gone() {
    // Whoever has the first turn is one of these pairs.
    for gone in 0..MEMBERS {
        let mut world = Country::world(2, u64::from(gone));
        world.deaf = vec![member(0, gone), member(1, gone)];
        let payer = (gone + 1) % MEMBERS;
        for ticket in 1..=3 {
            order(&mut world, ticket, issuer(0, payer), &[(customer(1, payer), 7)]);
        }
        let there = |world: &World| {
            (0..MEMBERS)
                .filter(|at| *at != gone)
                .all(|at| credits(world, member(1, at), customer(1, payer)) == 21)
        };
        assert!(world.until(there), "the others of both shards bring it over");
        world.deaf.clear();
        settle(&mut world);
    }
}

#[test]
fn a_lane_that_keeps_its_bundles_to_itself_holds_nothing_back() {
    let mut world = Country::world(2, 5);
    // The representative sends nothing over the border.
    *world.users.passes.borrow_mut() = Box::new(|from, to, message: &Message| {
        !(from == 0 && to >= MEMBERS && matches!(message, Message::Own(Word::Bundle(_))))
    });
    order(&mut world, 1, issuer(0, 0), &[(customer(1, 0), 7), (customer(1, 1), 8)]);
    let both = |world: &World| {
        (0..MEMBERS).all(|at| {
            credits(world, member(1, at), customer(1, 0)) == 7
                && credits(world, member(1, at), customer(1, 1)) == 8
        })
    };
    assert!(world.until(both));
    settle(&mut world);
}

#[test]
fn an_entry_of_two_lanes_is_credited_once_in_all_its_legs() {
    let mut by_both = 0;
    for seed in 0..4 {
        let mut world = Country::world(2, seed);
        let owner = signing(0, 1);
        order(&mut world, 1, issuer(0, 1), &[(owner, 50)]);
        assert!(world.until(|world| (0..4).all(|at| credits(world, member(0, at), owner) == 50)));
        let kind =
            multi(&[(customer(1, 2), 5), (customer(0, 2), 6), (customer(1, 2), 7), (customer(1, 3), 8)]);
        let line = signed(EntryId { spender: owner, n: 1 }, genesis(owner), kind, 9);
        // The same bytes to two representatives.
        for (ticket, at) in [(2, 1), (3, 3)] {
            world.ask(member(0, at), Input::Signed { ticket, line: line.clone() });
        }
        assert!(world.until(|world| world.users.settled.contains_key(&line.entry.id)));
        settle(&mut world);
        by_both += usize::from([2, 3].iter().all(|ticket| world.users.accepted.contains_key(ticket)));
        for at in 0..MEMBERS {
            assert_eq!(credits(&world, member(1, at), customer(1, 2)), 12);
            assert_eq!(credits(&world, member(1, at), customer(1, 3)), 8);
        }
    }
    assert!(by_both > 0, "two lanes carried it");
}

#[test]
fn a_certificate_that_went_abroad_alone_settles_at_home_by_what_was_imported() {
    let mut world = Country::world(2, 3);
    // Member 0 collects the ACKs of its batch, and shows the certificate to the other shard alone.
    *world.users.passes.borrow_mut() = Box::new(|from, to, message: &Message| {
        use synod_broadcast::signed::Message as Said;
        let withheld = |said: &Said| {
            !matches!(said, Said::Prepare { .. } | Said::Ack(_) | Said::Ask(_) | Said::Pulled { .. })
        };
        match message {
            Message::Broadcast(said) => from != 0 || to == 0 || !withheld(said),
            // Nor does it answer at home.
            Message::Own(_) => from != 0 || to >= MEMBERS,
        }
    });
    let payer = issuer(0, 0);
    order(&mut world, 1, payer, &[(customer(1, 0), 7)]);
    let at_home = |world: &World| (1..MEMBERS).all(|at| world.users.at[at as usize].len() == 1);
    assert!(world.until(at_home), "whoever is told of the import pulls its proof");
    let imported = (0..MEMBERS).filter(|at| credits(&world, member(1, *at), customer(1, 0)) == 7).count();
    assert!(imported >= 1, "the other shard had it first");
    *world.users.passes.borrow_mut() = Box::new(|_, _, _| true);
    settle(&mut world);
}

#[test]
fn what_pays_an_account_that_is_not_open_waits_for_it() {
    let mut world = Country::world(2, 8);
    let later = account(1, 2, 4);
    order(&mut world, 1, issuer(0, 0), &[(later, 9), (customer(1, 2), 1)]);
    world.go_on(3_000);
    assert!((0..MEMBERS).all(|at| credits(&world, member(1, at), customer(1, 2)) == 0), "all legs or none");
    let owner = synod_ledger::Owner::Custodial(2);
    let opening = crate::bank::opening(later, owner, 0);
    world.ask(member(1, 2), Input::Open { ticket: 5, opening });
    assert!(world.until(|world| (0..MEMBERS).all(|at| credits(world, member(1, at), later) == 9)));
    settle(&mut world);
}

#[test]
fn what_stays_in_its_shard_and_what_goes_nowhere_is_refused() {
    let mut world = Country::world(2, 1);
    let payer = issuer(0, 0);
    let unknown = account(9, 0, 2);
    order(&mut world, 1, payer, &[(unknown, 7)]);
    order(&mut world, 2, payer, &[(customer(1, 0), 7), (unknown, 7)]);
    let held = draft(payer, hold_kind(customer(1, 0), 5, payer), 3);
    world.ask(member(0, 0), Input::Order { ticket: 3, draft: held });
    for ticket in 1..=3 {
        assert_eq!(world.users.refused.get(&ticket), Some(&Refusal::Ledger(Code::WrongShard)), "{ticket}");
    }
    let alone = draft(payer, pay(customer(1, 0), 5), 4);
    world.ask(member(0, 0), Input::Order { ticket: 4, draft: alone });
    assert!(world.users.accepted.contains_key(&4));
    settle(&mut world);
}

#[test]
fn an_account_has_a_window_of_payments_on_their_way() {
    let mut world = Country::world(2, 2);
    // Nobody of the other shard answers.
    world.deaf = (0..MEMBERS).map(|at| member(1, at)).collect();
    let payer = issuer(0, 0);
    for ticket in 1..=16 {
        order(&mut world, ticket, payer, &[(customer(1, 0), 1)]);
        world.go_on(200);
    }
    assert!(world.until(|world| (0..4).all(|at| world.users.at[at].len() == 16)));
    order(&mut world, 17, payer, &[(customer(1, 0), 1)]);
    assert_eq!(world.users.refused.get(&17), Some(&Refusal::Ledger(Code::Busy)));
    order(&mut world, 18, payer, &[(customer(0, 0), 1)]);
    assert!(world.users.accepted.contains_key(&18), "at home it pays on");
    world.deaf.clear();
    settle(&mut world);
    order(&mut world, 19, payer, &[(customer(1, 0), 1)]);
    assert!(world.users.accepted.contains_key(&19));
    settle(&mut world);
}

#[test]
fn what_was_sent_once_is_imported_after_a_crash_of_whoever_took_it() {
    let mut world = Country::world(2, 4);
    order(&mut world, 1, issuer(0, 0), &[(customer(1, 0), 7)]);
    let exported =
        |world: &World| world.seats.iter().take(4).any(|seat| seat.machine.replica.unconfirmed() > 0);
    assert!(world.until(exported));
    // Every member of both shards crashes, again and again, from its log and from snapshots.
    for round in 0..20_u32 {
        world.go_on(40);
        world.restart(NodeId(round * 3 % 8), round % 2 == 0);
    }
    settle(&mut world);
    for id in 0..8 {
        world.restart(NodeId(id), true);
    }
    settle(&mut world);
}

/// A-L2: found by `astro/shards`. Nobody confirms anything for a while, and each entry pays into three shards.
#[test]
fn what_pays_into_many_shards_is_kept_by_whoever_endorsed_it_until_all_of_them_have_it() {
    let mut world = Country::world(4, 5);
    *world.users.passes.borrow_mut() =
        Box::new(|_, _, word: &Message| !matches!(word, Message::Own(Word::Imported { .. })));
    let legs: Vec<_> = (1..4).map(|shard| (customer(shard, 1), 2)).collect();
    for ticket in 1..=32 {
        order(&mut world, ticket, issuer(0, 0), &legs);
    }
    world.go_on(20_000);
    let count = world.users.accepted.len();
    assert!(count >= 8, "a window of entries is on its way: {count}");
    *world.users.passes.borrow_mut() = Box::new(|_, _, _| true);
    settle(&mut world);
    assert_eq!(credits(&world, member(3, 0), customer(3, 1)), 2 * i128::try_from(count).expect("few"));
}

//! What customers of correct institutions get.

use std::collections::BTreeSet;

use synod_astro::{Input, Level, Refusal, Rule};
use synod_ledger::{AccountId, Code, EntryId, Owner, genesis};
use synod_machine::testing::pick;
use synod_quorum::NodeId;
use synod_wire::Drawn;

use crate::bank::{
    Bank, LIMIT, World, account, agrees, custodial, digest, equal_books, first, issuer, opening, order,
    owner, pay, settle, signed, signing, told,
};

#[test]
fn a_payment_settles_everywhere_and_its_representative_learns_how_sure_it_is() {
    let mut world = Bank::world(4, 1);
    order(&mut world, 1, issuer(0), custodial(1), 500);
    assert!(settle(&mut world, 1));
    let id = EntryId { spender: issuer(0), n: 1 };
    let sure = |world: &World| world.users.told[0].levels.get(&id).cloned().unwrap_or_default();
    assert!(world.until(|world| sure(world).len() == 3));
    assert_eq!(sure(&world), BTreeSet::from([Level::Certified, Level::Settled, Level::Stable]));
    assert!(world.users.told[1].levels.is_empty(), "others are not told");
    // What came can be spent.
    order(&mut world, 2, custodial(1), custodial(2), 500);
    assert!(settle(&mut world, 2));
    order(&mut world, 3, custodial(1), custodial(2), 1);
    assert_eq!(world.users.told[1].refused[&3], Refusal::Ledger(Code::InsufficientFunds));
    equal_books(&world);
}

/// Everybody pays everybody, at random; refused orders are asked again later.
fn busy(n: u32, seed: u64, crash: impl Fn(u64) -> bool) -> World {
    let mut world = Bank::world(n, seed);
    let mut drawn = Drawn::new(seed ^ 0xba2);
    world.loss = [0, 50, 200][pick(&mut drawn, 3)];
    let accounts: Vec<AccountId> = (0..n).flat_map(|lane| [issuer(lane), custodial(lane)]).collect();
    for ticket in 1..=60 {
        let from = accounts[pick(&mut drawn, accounts.len())];
        let to = accounts[pick(&mut drawn, accounts.len())];
        order(&mut world, ticket, from, to, u128::from(1 + drawn.below(300)));
        world.go_on(drawn.below(60));
        if crash(ticket) {
            let id = NodeId(u32::try_from(drawn.below(u64::from(n))).expect("few"));
            world.restart(id, drawn.below(2) == 0);
        }
    }
    world
}

#[test]
fn everybody_pays_everybody_and_all_books_are_equal() {
    for (seed, n) in (0..24).zip([1, 4, 5, 7].into_iter().cycle()) {
        let mut world = busy(n, seed, |_| false);
        let accepted: usize = told(&world).map(|told| told.accepted.len()).sum();
        assert!(accepted >= 20, "seed {seed}: {accepted} of 60 could be paid");
        assert!(settle(&mut world, accepted), "seed {seed}");
        assert_eq!(told(&world).next().map(|told| told.settled.len()), Some(accepted));
        assert!(world.correct().all(|(_, seat)| seat.blamed.is_empty()), "nobody lied");
        assert!(agrees(&world) && told(&world).all(|told| told.conflicts.is_empty()));
        equal_books(&world);
    }
}

#[test]
fn a_member_that_crashes_anywhere_breaks_no_promise_and_catches_up() {
    for seed in 0..40 {
        let mut world = busy(4, seed, |ticket| ticket % 4 == 0);
        // What was accepted and not yet broadcast at a crash is gone; what was certified is not.
        let certified: usize = told(&world)
            .map(|told| told.levels.values().filter(|levels| levels.contains(&Level::Certified)).count())
            .sum();
        assert!(settle(&mut world, certified), "seed {seed}");
        assert!(world.correct().all(|(_, seat)| seat.blamed.is_empty()), "seed {seed}");
        assert!(agrees(&world));
        // Everybody can go on.
        for lane in 0..4 {
            order(&mut world, 1_000 + u64::from(lane), issuer(lane), custodial(lane), 1);
        }
        let all = world.until(|world| {
            let settled = |lane: u32| {
                told(world).all(|told| {
                    told.settled.values().any(|(entry, _)| entry.transfer == u128::from(1_000 + lane))
                })
            };
            (0..4).all(settled)
        });
        assert!(all, "seed {seed}");
        assert!(settle(&mut world, certified + 4));
        equal_books(&world);
    }
}

#[test]
fn a_customer_who_signs_is_served_by_any_member_and_the_same_entry_settles_once() {
    for seed in 0..10 {
        let mut world = Bank::world(4, seed);
        order(&mut world, 1, issuer(2), signing(2), 100);
        assert!(settle(&mut world, 1));
        let one = first(signing(2), pay(custodial(0), 60), 7);
        let next = EntryId { spender: signing(2), n: 2 };
        let two = signed(next, digest(&one.entry), pay(custodial(1), 40), 8);
        for (ticket, member, line) in [(2, 0, &one), (3, 3, &one), (4, 2, &two), (5, 3, &two)] {
            world.ask(NodeId(member), Input::Signed { ticket, line: line.clone() });
            world.go_on(40);
        }
        // A member that had not seen the first yet refuses the second; its customer tries again.
        assert!(settle(&mut world, 2), "seed {seed}");
        world.ask(NodeId(2), Input::Signed { ticket: 6, line: two.clone() });
        assert!(settle(&mut world, 3), "seed {seed}");
        assert!(told(&world).all(|told| told.conflicts.is_empty()));
        equal_books(&world);
    }
}

#[test]
fn an_order_that_cannot_be_carried_is_refused_with_its_reason_and_uses_no_place() {
    let mut world = Bank::world(4, 3);
    let nobody = account(0, 99);
    let wrong_key = {
        let line = first(signing(0), pay(custodial(0), 1), 1);
        synod_astro::Line { auth: first(signing(1), pay(custodial(0), 1), 1).auth, ..line }
    };
    order(&mut world, 1, custodial(0), custodial(1), 1);
    order(&mut world, 2, issuer(0), nobody, 1);
    order(&mut world, 3, nobody, custodial(1), 1);
    order(&mut world, 4, issuer(0), issuer(0), 1);
    order(&mut world, 5, issuer(0), custodial(1), 0);
    order(&mut world, 6, issuer(0), custodial(1), LIMIT + 1);
    order(&mut world, 7, signing(0), custodial(1), 1);
    world.ask(NodeId(0), Input::Signed { ticket: 8, line: wrong_key });
    world.ask(NodeId(0), Input::Signed { ticket: 9, line: first(issuer(0), pay(custodial(0), 1), 1) });
    order(&mut world, 11, issuer(0), AccountId { shard: 4, ..custodial(1) }, 5);
    order(&mut world, 10, issuer(0), custodial(1), 5);
    order(&mut world, 10, issuer(0), custodial(1), 5);
    assert!(settle(&mut world, 1));
    let refused = |ticket: u64| world.users.told[0].refused.get(&ticket).copied();
    let ledger = |code| Some(Refusal::Ledger(code));
    assert_eq!(refused(1), ledger(Code::InsufficientFunds));
    assert_eq!(refused(2), ledger(Code::UnknownBeneficiary));
    assert_eq!(refused(3), ledger(Code::UnknownAccount));
    assert_eq!(refused(4), ledger(Code::SelfPayment));
    assert_eq!(refused(5), ledger(Code::AmountZero));
    assert_eq!(refused(6), ledger(Code::InsufficientFunds));
    assert_eq!(refused(7), ledger(Code::Unauthorized));
    assert_eq!(refused(8), ledger(Code::Unauthorized));
    assert_eq!(refused(9), ledger(Code::Unauthorized));
    assert_eq!(refused(11), ledger(Code::WrongShard), "nothing would import it");
    let id = EntryId { spender: issuer(0), n: 1 };
    assert_eq!(refused(10), Some(Refusal::Exists(id)), "the same order twice");
    assert_eq!(world.users.told[0].settled.keys().copied().collect::<Vec<_>>(), [id]);
    assert_eq!(world.users.told[0].settled[&id].0.prev, genesis(issuer(0)));
}

#[test]
fn accounts_open_everywhere_in_order_and_can_be_paid_then() {
    for seed in 0..10 {
        let mut world = Bank::world(4, seed);
        world.loss = 100;
        for local in 4..20_u64 {
            let id = account(1, local);
            let opening = opening(id, Owner::SelfSigned(owner(id).public()), 0);
            world.ask(NodeId(1), Input::Open { ticket: local, opening });
            world.go_on(5);
            if local % 5 == 0 {
                world.restart(NodeId(2), local % 2 == 0);
            }
        }
        assert!(world.until(|world| told(world).all(|told| told.opened.len() >= 16)), "seed {seed}");
        for told in told(&world) {
            let locals: Vec<u64> = told.opened.iter().map(|id| id.local).collect();
            assert!(locals.iter().copied().eq(4..20), "seed {seed}: {locals:?}");
        }
        order(&mut world, 100, issuer(3), account(1, 19), 9);
        assert!(settle(&mut world, 1));
        world
            .ask(NodeId(0), Input::Signed { ticket: 101, line: first(account(1, 19), pay(issuer(3), 9), 5) });
        assert!(settle(&mut world, 2), "seed {seed}");
        equal_books(&world);
    }
}

#[test]
fn accounts_that_are_not_the_registrars_next_are_refused() {
    let mut world = Bank::world(4, 2);
    let open = |id: AccountId, limit: u128| opening(id, Owner::Custodial(1), limit);
    for (ticket, opening) in [
        open(account(1, 5), 0),
        open(account(1, 3), 0),
        open(account(2, 4), 0),
        open(AccountId { shard: 4, ..account(1, 4) }, 0),
        open(account(1, 4), LIMIT + 1),
    ]
    .into_iter()
    .enumerate()
    {
        world.ask(NodeId(1), Input::Open { ticket: ticket as u64, opening });
    }
    let refused: Vec<Refusal> = world.users.told[1].refused.values().copied().collect();
    let codes = [
        Code::SequenceGap,
        Code::SequenceConflict,
        Code::Unauthorized,
        Code::WrongShard,
        Code::LimitNotCosigned,
    ];
    assert_eq!(refused, codes.map(Refusal::Ledger));
}

#[test]
fn a_registrar_has_no_more_accounts_than_it_may() {
    let mut world = Bank::world(4, 9);
    let own = |local| opening(account(1, local), Owner::Custodial(1), 0);
    for local in 4..=90 {
        world.ask(NodeId(1), Input::Open { ticket: local, opening: own(local) });
        assert!(world.until(|world| world.users.told[3].opened.contains(&account(1, local))));
    }
    world.ask(NodeId(1), Input::Open { ticket: 91, opening: own(91) });
    assert_eq!(world.users.told[1].refused.get(&91), Some(&Refusal::Ledger(Code::Busy)));
}

#[test]
fn a_bound_on_what_waits_is_told_and_nothing_is_lost() {
    let mut world = Bank::world(4, 8);
    for ticket in 1..=60 {
        order(&mut world, ticket, issuer(0), custodial(0), 1);
    }
    let (accepted, refused) = (world.users.told[0].accepted.len(), world.users.told[0].refused.len());
    assert!(accepted + refused == 60 && refused > 0, "16 entries per account");
    assert!(world.users.told[0].refused.values().all(|why| matches!(why, Refusal::Busy(_))));
    assert!(settle(&mut world, accepted));
    assert!(world.correct().any(|(_, seat)| seat.rules.contains(Rule::Fund.name())));
    equal_books(&world);
}

//! Joins and leaves under load.

use synod_astro::member::Input;
use synod_ledger::{Owner, Units};
use synod_quorum::NodeId;

use crate::crew::{Town, account, join, leave, opening, order};

#[test]
fn payments_settle_in_the_first_view_as_they_do_without_views() {
    let mut town = Town::new(4, 1);
    town.trade(40);
    assert!(town.until_settled(&[0, 1, 2, 3]));
    town.assert_equal(&[0, 1, 2, 3]);
}

/// T27, T28: one joins and one leaves while payments go on.
#[test]
fn a_member_joins_and_another_leaves_under_load_and_no_payment_is_lost() {
    // In 8 and 34 the member that joined enters the third view so far behind that a slot open there lies beyond its window.
    for seed in (0..13).chain([34]) {
        let mut town = Town::new(5, seed);
        town.trade(30);
        town.change(4, join(4));
        town.trade(30);
        assert!(town.until_runs(&[join(4)], &[0, 1, 2, 3, 4]), "seed {seed}");
        town.trade(20);
        town.open.retain(|open| *open != 1);
        town.change(1, leave(1));
        town.trade(30);
        let all = [0, 2, 3, 4];
        assert!(town.until_runs(&[join(4), leave(1)], &all), "seed {seed}");
        town.trade(20);
        assert!(town.until_settled(&all), "seed {seed}");
        town.assert_equal(&all);
        let promised = town.users.told[1].certified.clone();
        assert!(promised.is_subset(&town.users.told[0].names), "seed {seed}: what was certified is lost");
        assert!(town.users.seen[1].left && town.users.told[4].settled.len() > 60, "seed {seed}");
        for (_, seat) in town.correct() {
            assert_eq!(seat.blamed, [], "seed {seed}");
        }
    }
}

/// A number that nobody had gets a lane: its customers pay and are paid.
#[test]
fn whoever_joined_opens_accounts_and_carries_payments() {
    let mut town = Town::new(5, 3);
    town.change(4, join(4));
    town.trade(10);
    let all = [0, 1, 2, 3, 4];
    assert!(town.until_runs(&[join(4)], &all));
    let issuer = opening(account(4, 0), Owner::Custodial(4), 500);
    assert_eq!(issuer.limit_max, Units(500));
    town.ask(NodeId(4), Input::Pay(synod_astro::Input::Open { ticket: 1, opening: issuer }));
    assert!(town.until(|world| all.iter().all(|id| world.users.told[*id].opened.contains(&account(4, 1)))));
    town.open.push(4);
    town.trade(40);
    assert!(town.until_settled(&all));
    town.assert_equal(&all);
    let by_it = town.users.told[0].settled.keys().filter(|id| id.spender.registrar == 4).count();
    assert!(by_it > 0, "nobody paid through it");
}

/// T54 with payments: three join at once, in views that nobody planned.
#[test]
fn three_join_at_once_under_load_and_loss() {
    for seed in 0..6 {
        let mut town = Town::new(7, seed);
        town.loss = town.drawn.below(100);
        town.trade(15);
        for member in [4, 5, 6] {
            town.change(member, join(member));
            town.trade(4);
        }
        town.trade(20);
        let all = [0, 1, 2, 3, 4, 5, 6];
        assert!(town.until_runs(&[join(4), join(5), join(6)], &all), "seed {seed}");
        assert!(town.until_settled(&all), "seed {seed}");
        town.assert_equal(&all);
    }
}

/// T27: one after the other, until founders are the fewer; then two of them go at once.
#[test]
fn members_come_one_after_the_other_and_founders_go() {
    let mut town = Town::new(9, 7);
    let mut changes = Vec::new();
    for member in 4..9 {
        town.trade(8);
        changes.push(join(member));
        town.change(member, join(member));
        town.trade(8);
        let members: Vec<usize> = (0..=usize::from(member)).collect();
        assert!(town.until_runs(&changes, &members), "member {member}");
    }
    town.open.retain(|open| *open > 1);
    for member in [0, 1] {
        changes.push(leave(member));
        town.change(member, leave(member));
        town.trade(6);
    }
    let all: Vec<usize> = (2..9).collect();
    assert!(town.until_runs(&changes, &all));
    town.trade(20);
    assert!(town.until_settled(&all));
    town.assert_equal(&all);
}

/// T56, 4.12: a batch that members endorsed, and whose source left before anybody certified it, completes in the next view in its place.
#[test]
fn a_batch_whose_source_left_before_it_was_certified_completes_in_its_place() {
    let mut carried = 0;
    for seed in 0..12 {
        let mut town = Town::new(4, seed);
        town.trade(6);
        let all = [0, 1, 2, 3];
        assert!(town.until_settled(&all), "seed {seed}");
        // It hears no endorsement of what it broadcasts.
        town.deaf = vec![NodeId(1)];
        let name = 9_000;
        town.ask(NodeId(1), Input::Pay(order(1, name)));
        town.go_on(60);
        let id = town.users.told[1].settled.keys().filter(|id| id.spender == account(1, 1)).count();
        assert!(!town.users.told[0].names.contains(&name), "seed {seed}: nobody certified it");
        town.change(0, leave(1));
        let rest = [0, 2, 3];
        assert!(town.until_runs(&[leave(1)], &rest), "seed {seed}");
        let is_settled = |world: &synod_machine::testing::World<_>| {
            let users: &crate::crew::Crew = &world.users;
            rest.iter().all(|id| users.told[*id].names.contains(&name))
        };
        assert!(town.until(is_settled), "seed {seed}: it is lost");
        let by_it = town.users.told[0].settled.keys().filter(|id| id.spender == account(1, 1)).count();
        assert_eq!(by_it, id + 1, "it has its place");
        carried += town.correct().filter(|(_, seat)| seat.rules.contains("carry")).count();
        town.open.retain(|open| *open != 1);
        town.assert_equal(&rest);
    }
    assert!(carried > 0, "nobody endorsed anything again");
}

/// One of four is silent from the beginning: f, in each of the views.
#[test]
fn a_silent_member_holds_up_neither_joins_nor_leaves_nor_payments() {
    for seed in 0..6 {
        let mut town = Town::new(5, seed);
        town.liar = Some(NodeId(3));
        town.open.retain(|open| *open != 3);
        town.trade(15);
        town.change(4, join(4));
        town.trade(10);
        assert!(town.until_runs(&[join(4)], &[0, 1, 2, 4]), "seed {seed}");
        town.open.retain(|open| *open != 1);
        town.change(1, leave(1));
        town.trade(10);
        let all = [0, 2, 4];
        assert!(town.until_runs(&[join(4), leave(1)], &all), "seed {seed}");
        assert!(town.until_settled(&all), "seed {seed}");
        town.assert_equal(&all);
    }
}

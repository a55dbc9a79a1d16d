//! Joins and leaves under drawn schedules: one sequence of views, and everything that is asked for is made.

use synod_astro::views::{Step, View, follow};
use synod_machine::testing::World;
use synod_quorum::NodeId;

use crate::crew::{Crew, Views, join, leave};

#[test]
fn a_member_joins_and_its_chain_is_proof_for_anybody() {
    let mut all = Views::new(4, 5, 1);
    all.request(4, join(4));
    assert!(all.until_runs(&[join(4)]));
    let founding = all.users.founding.clone();
    for (_, seat) in all.correct() {
        let chain = seat.machine.chain();
        let rolls = follow(&founding, chain).expect("links hold together");
        assert_eq!(rolls.last().map(|roll| roll.members().count()), Some(5));
        let claims = synod_astro::views::claims_of(&chain[0], &rolls[0], Step::Converged).expect("a quorum");
        let good = synod_crypto::verify_all(claims, &crate::crew::keys(0));
        assert!(good.len() >= 3 && good.iter().all(Result::is_ok));
        assert_eq!(seat.blamed, []);
    }
}

#[test]
fn a_member_leaves_once_the_others_have_what_it_kept() {
    let mut all = Views::new(5, 5, 2);
    all.request(2, leave(2));
    assert!(all.until_runs(&[leave(2)]));
    assert!(all.until(|all| all.users.told[2].left));
    assert!(all.users.told[2].running.is_none());
}

/// T54.
#[test]
fn three_join_at_once_under_loss_and_crashes_and_resumed_views_are_one_chain() {
    for seed in 0..50 {
        let mut all = Views::new(4, 7, seed);
        all.loss = all.drawn.below(250);
        for member in [4, 5, 6] {
            all.request(member, join(member));
            let steps = all.drawn.below(60);
            all.go_on(steps);
        }
        let crashes = all.drawn.below(12);
        // A node that crashes before it is confirmed asks again.
        for _ in 0..crashes {
            all.crash();
        }
        for member in [4, 5, 6] {
            all.request(member, join(member));
        }
        assert!(all.until_runs(&[join(4), join(5), join(6)]), "seed {seed}");
        let contradictions: usize = all.users.told.iter().map(|told| told.contradictions).sum();
        assert_eq!(contradictions, 0, "seed {seed}");
        for (_, seat) in all.correct() {
            assert_eq!(seat.blamed, [], "seed {seed}");
        }
    }
}

#[test]
fn members_go_and_come_at_once() {
    for seed in 0..30 {
        let mut all = Views::new(4, 8, seed);
        all.loss = all.drawn.below(200);
        let changes = [join(4), join(5), leave(0), join(6), join(7), leave(1)];
        for (change, by) in changes.into_iter().zip([4, 5, 0, 6, 7, 1]) {
            let steps = all.drawn.below(100);
            all.go_on(steps);
            all.request(by, change);
        }
        assert!(all.until_runs(&changes), "seed {seed}");
        assert!(all.until(|all| all.users.told[0].left && all.users.told[1].left), "seed {seed}");
        let last = View::of(changes).expect("few");
        for id in 2..8 {
            assert_eq!(all.users.told[id].resumed.last(), Some(&last));
        }
    }
}

/// T27, without payments: one joins after the other.
#[test]
fn four_become_sixteen_one_by_one_and_the_chain_has_twelve_links() {
    let mut all = Views::new(4, 16, 5);
    let mut changes = Vec::new();
    for member in 4..16 {
        changes.push(join(member));
        all.request(member, join(member));
        assert!(all.until_runs(&changes), "member {member}");
    }
    assert_eq!(all.seats[0].machine.chain().len(), 12);
    assert!(follow(&all.users.founding, all.seats[15].machine.chain()).is_ok());
}

/// T28, without payments: whoever heard nothing of two changes finds its way, though those who left are gone.
#[test]
fn a_member_that_heard_nothing_comes_along_when_those_who_left_are_gone() {
    for seed in 0..15 {
        let mut all = Views::new(5, 7, seed);
        all.deaf = vec![NodeId(4)];
        all.request(5, join(5));
        all.request(0, leave(0));
        assert!(all.until(|all| all.users.told[0].left), "seed {seed}");
        all.deaf = vec![NodeId(0), NodeId(4)];
        all.request(6, join(6));
        let others = [1, 2, 3, 5, 6];
        let last = View::of([join(5), join(6), leave(0)]).expect("few");
        let run = |all: &World<Crew>, ids: &[usize]| {
            ids.iter().all(|id| all.users.told[*id].running.as_ref() == Some(&last))
        };
        assert!(all.until(|all| run(all, &others)), "seed {seed}");
        all.deaf = vec![NodeId(0)];
        assert!(all.until(|all| run(all, &[4])), "seed {seed}");
    }
}

//! What an atomic broadcast promises, kept by [`synod_ubft::Ordering`].

use std::collections::BTreeSet;

use synod_machine::broadcast::{Position, Refusal, Submit};
use synod_machine::{Condition, Span};
use synod_quorum::NodeId;
use synod_ubft::ordering::OrderingConfig;

use crate::choir::Choir;
use crate::net::seeds;

const SOON: Span = Span::millis(50);
const LONG: Span = Span::secs(20);

const fn plain(_: &mut OrderingConfig) {}

/// Says so many of each, and waits for all.
fn say(choir: &mut Choir, ids: &[u32], count: u32, what: &str) -> Vec<String> {
    let mut said = Vec::new();
    for round in 0..count {
        for id in ids {
            let payload = format!("{what} {round} of {id}");
            let ticket = choir.submit(*id, payload.as_bytes());
            said.push((*id, ticket, payload));
        }
    }
    for (id, ticket, _) in &said {
        choir.ordered(*id, &[*ticket], LONG);
    }
    said.into_iter().map(|(_, _, payload)| payload).collect()
}

fn once(choir: &Choir, payloads: &[String]) {
    for payload in payloads {
        assert_eq!(choir.times(payload.as_bytes()), 1, "{payload}");
    }
}

#[test]
fn what_each_submits_is_delivered_at_all_once_at_positions_without_holes_and_without_a_signature() {
    for n in [3, 5] {
        for seed in seeds(6) {
            let mut choir = Choir::new(n, seed, plain);
            let ids: Vec<u32> = (0..n).collect();
            let said = say(&mut choir, &ids, 12, "payload");
            once(&choir, &said);
            // Replica by replica the same, with its own ones known as such.
            assert_eq!(choir.order.len(), said.len());
            assert!(choir.users.values().all(|user| user.local.len() == 12));
            let others = |id: u32| (0..n).filter(|other| *other != id).collect::<BTreeSet<u32>>();
            assert!(choir.users.iter().all(|(id, user)| user.origins == others(id.0)));
            // Requests of replicas are heard, and nobody signs them; what is signed is of checkpoints and states.
            assert_eq!(choir.count("D02_need_signed"), 0, "{:?}", choir.net.rules);
            assert!(choir.net.blamed.is_empty(), "{:?}", choir.net.blamed);
            assert!(
                choir.order.values().any(|row| row.last)
                    && choir.order.values().next_back().is_some_and(|row| row.last)
            );
        }
    }
}

#[test]
fn several_payloads_of_a_slot_have_one_time_and_the_last_one_is_marked() {
    let mut choir = Choir::new(3, 3, plain);
    let tickets: Vec<u64> = (0..60).map(|at| choir.submit(0, format!("{at}").as_bytes())).collect();
    choir.ordered(0, &tickets, LONG);
    let slots = choir.of(0).replica().executed().0;
    let last = choir.order.values().filter(|row| row.last).count() as u64;
    assert!(slots < 60 && last == slots, "{slots} slots, {last} are marked");
    let rows: Vec<_> = choir.order.values().collect();
    assert!(rows.windows(2).all(|two| two[0].last || two[0].time == two[1].time));
    assert_eq!(choir.of(1).position(), Position(60));
}

#[test]
fn what_has_no_place_is_refused_by_code_and_what_is_taken_is_ordered() {
    let mut choir = Choir::new(3, 4, |settings| {
        (settings.pending_max, settings.pending_bytes_max) = (20, 600);
    });
    let most = Choir::settings(NodeId(0), 3, 0, plain).payload_max();
    // Longer than any batch, also where it just fits.
    let long = choir.submit(1, &vec![1; most + 1]);
    let fits = choir.submit(1, &vec![2; most]);
    assert_eq!(choir.user(1).refused, [(long, Refusal::TooLarge)]);
    // One too many by bytes, then by number.
    let wide = choir.submit(1, &[3; 200]);
    let tickets: Vec<u64> = (0..25).map(|at| choir.submit(1, &[at])).collect();
    let busy: Vec<u64> = choir.user(1).refused.iter().skip(1).map(|(ticket, _)| *ticket).collect();
    assert_eq!(busy.first(), Some(&wide));
    assert_eq!(busy.len(), 1 + 25 - 19, "{busy:?}");
    let is_busy = |why: &Refusal| matches!(why, Refusal::Busy { retry_ms: 1.. });
    assert!(choir.user(1).refused.iter().skip(1).all(|(_, why)| is_busy(why)));
    assert!({
        let refused = choir.barrier(1);
        choir.user(1).refused.last().is_some_and(|(ticket, why)| *ticket == refused && is_busy(why))
    });
    let taken: Vec<u64> = tickets.into_iter().filter(|ticket| !busy.contains(ticket)).chain([fits]).collect();
    choir.ordered(1, &taken, LONG);
    assert_eq!(choir.order.len(), taken.len());
    // There is room again.
    let again = choir.submit(1, &[3; 200]);
    choir.ordered(1, &[again], LONG);
}

#[test]
fn the_longest_payload_has_a_place_in_a_batch_where_that_is_what_bounds_it() {
    for is_fast in [true, false] {
        let tweak: fn(&mut OrderingConfig) = if is_fast {
            |settings| settings.replica.config.parameters.request_inline_max = 1_000
        } else {
            |settings| {
                settings.replica.config.parameters.request_inline_max = 1_000;
                settings.replica.fast_path = false;
            }
        };
        let most = Choir::settings(NodeId(0), 3, 0, tweak).payload_max();
        assert!(most < 1_000 && most > 800, "{most}");
        let mut choir = Choir::new(3, 1, tweak);
        let ticket = choir.submit(1, &vec![1; most]);
        choir.ordered(1, &[ticket], LONG);
    }
}

#[test]
fn a_ticket_that_waits_is_not_taken_twice_and_equal_payloads_of_two_are() {
    let mut choir = Choir::new(3, 5, plain);
    let ticket = choir.submit(2, b"one");
    choir.submit_as(2, ticket, b"one");
    let other = choir.submit(2, b"one");
    choir.ordered(2, &[ticket, other], LONG);
    choir.pass(SOON);
    assert_eq!(choir.times(b"one"), 2);
}

#[test]
fn a_barrier_comes_back_behind_everything_that_was_delivered_anywhere_before_it_was_asked() {
    for seed in seeds(12) {
        let mut choir = Choir::new(3, seed, plain);
        for round in 0..10 {
            let ticket = choir.submit(round % 3, format!("{round}").as_bytes());
            choir.pass(Span::micros(200 * (seed % 5)));
            let most = choir.users.values().map(|user| user.position).max().unwrap_or(0);
            let barrier = choir.barrier(2);
            choir.until(LONG, |choir| choir.users[&NodeId(2)].barriers.contains_key(&barrier));
            assert!(choir.user(2).barriers[&barrier] > most, "behind what was there, and its own entry");
            choir.ordered(round % 3, &[ticket], LONG);
        }
        assert_eq!(choir.times(b""), 10, "an empty payload each");
    }
}

#[test]
fn a_decision_has_no_proof_and_says_so() {
    let mut choir = Choir::new(3, 6, plain);
    let ticket = choir.submit(0, b"one");
    choir.ordered(0, &[ticket], LONG);
    choir.input(1, Submit::Prove(Position(1)));
    assert_eq!(choir.user(1).proofs, [(Position(1), None)]);
}

#[test]
fn payloads_are_ordered_without_the_leader_and_without_a_follower_each_once() {
    for seed in seeds(8) {
        for victim in [0, 2] {
            let mut choir = Choir::new(3, seed, plain);
            let mut said = say(&mut choir, &[0, 1, 2], 3, "before");
            // Some are on their way when it stops.
            let late: Vec<u64> = (0..20).map(|at| choir.submit(1, format!("late {at}").as_bytes())).collect();
            choir.pass(Span::micros(seed * 150));
            choir.stop(victim);
            said.extend((0..20).map(|at| format!("late {at}")));
            choir.ordered(1, &late, LONG);
            said.extend(say(&mut choir, &[1], 20, "after"));
            once(&choir, &said);
            assert!(choir.net.blamed.is_empty(), "{:?}", choir.net.blamed);
        }
    }
}

#[test]
fn payloads_survive_links_that_lose_and_the_slow_path_alone() {
    for seed in seeds(4) {
        let mut choir = Choir::new(3, seed, |settings| settings.replica.fast_path = seed_is_fast());
        choir.net.loss = 30;
        let said = say(&mut choir, &[0, 1, 2], 8, "lossy");
        once(&choir, &said);
        let mut choir = Choir::new(3, seed, |settings| settings.replica.fast_path = false);
        let said = say(&mut choir, &[0, 1, 2], 8, "slow");
        once(&choir, &said);
        assert!(choir.count("A2.41_decide_slow") > 0);
    }
}

const fn seed_is_fast() -> bool {
    true
}

#[test]
fn states_are_stable_behind_the_own_report_and_f_plus_one_equal_ones() {
    for seed in seeds(6) {
        let mut choir = Choir::new(3, seed, plain);
        // Two users say nothing: one alone certifies nothing.
        (choir.user(1).is_idle, choir.user(2).is_idle) = (true, true);
        say(&mut choir, &[0, 1, 2], 6, "entry");
        choir.pass(Span::millis(200));
        assert!(choir.users.values().all(|user| user.stable.is_empty() && user.position >= 16));
        // The second makes f + 1; the third, which is not there yet, is told nothing (this is checked with each `Stable`).
        choir.wake(1);
        choir.until(LONG, |choir| {
            [0, 1]
                .iter()
                .all(|id| choir.users[&NodeId(*id)].stable.last().is_some_and(|last| last.position.0 == 16))
        });
        choir.pass(Span::millis(200));
        assert!(choir.user(2).stable.is_empty());
        choir.wake(2);
        choir.until(LONG, |choir| !choir.users[&NodeId(2)].stable.is_empty());
        assert!(choir.net.blamed.is_empty(), "{:?}", choir.net.blamed);
    }
}

#[test]
fn a_user_that_applies_nothing_is_given_no_more_than_it_may_have_and_goes_on_when_it_does() {
    let mut choir = Choir::new(3, 7, |settings| settings.ahead_max = 10);
    choir.user(2).is_idle = true;
    say(&mut choir, &[0], 10, "first");
    let tickets: Vec<u64> = (0..60).map(|at| choir.submit(0, format!("{at}").as_bytes())).collect();
    choir.liars.insert(NodeId(2));
    choir.ordered(0, &tickets, LONG);
    choir.pass(SOON);
    assert_eq!(choir.user(2).position, 10, "as many as it may have");
    choir.wake(2);
    choir.liars.clear();
    choir.ordered(0, &tickets, LONG);
}

#[test]
fn a_user_whose_state_differs_from_what_is_certified_stops_its_replica_and_no_other() {
    let mut choir = Choir::new(3, 8, plain);
    choir.user(1).is_wrong = true;
    choir.liars.insert(NodeId(1));
    say(&mut choir, &[0, 2], 12, "entry");
    choir.until(LONG, |choir| choir.of(1).is_halted());
    assert!(choir.count("diverged") > 0 && !choir.of(0).is_halted() && !choir.of(2).is_halted());
    let ticket = choir.submit(1, b"nobody takes it");
    assert_eq!(choir.user(1).refused, [(ticket, Refusal::NotReady)]);
    say(&mut choir, &[0, 2], 12, "after");
}

#[test]
fn one_that_was_restarted_takes_nothing_before_an_epoch_lists_it_and_goes_on_behind_what_its_user_has() {
    for seed in seeds(8) {
        for victim in 0..3 {
            let mut choir = Choir::new(3, seed, plain);
            let mut said = say(&mut choir, &[0, 1, 2], 7, "before");
            let at = choir.user(victim).position;
            assert!(at >= 21);
            // What it submitted last may be lost, or not: never twice.
            let lost: Vec<String> = (0..5).map(|at| format!("lost {at}")).collect();
            for payload in &lost {
                choir.submit(victim, payload.as_bytes());
            }
            choir.pass(Span::micros(seed * 100));
            choir.stop(victim);
            choir.start(victim, Condition::Clean);
            let resume = choir.user(victim).applied;
            assert!(resume > 0 && resume.is_multiple_of(crate::choir::EVERY), "it goes on from its disk");
            let early = choir.submit(victim, b"too early");
            assert_eq!(choir.user(victim).refused, [(early, Refusal::NotReady)]);
            let other = (victim + 1) % 3;
            said.extend(say(&mut choir, &[other], 4, "without it"));
            choir.until(LONG, |choir| choir.of(victim).replica().own_floor().is_some());
            choir.liars.clear();
            said.extend(say(&mut choir, &[0, 1, 2], 10, "after"));
            once(&choir, &said);
            assert!(lost.iter().all(|payload| choir.times(payload.as_bytes()) <= 1));
            assert!(choir.user(victim).jumps.is_empty(), "the log is there: {}", choir.describe());
            assert!(choir.net.blamed.is_empty(), "{:?}", choir.net.blamed);
        }
    }
}

#[test]
fn payloads_that_wait_while_an_epoch_ends_are_ordered_once_under_new_ids() {
    for seed in seeds(10) {
        let mut choir = Choir::new(3, seed, plain);
        let mut said = say(&mut choir, &[0, 1, 2], 2, "before");
        choir.stop(2);
        choir.start(2, Condition::Clean);
        // All the while others submit, more than a window at once.
        let mut tickets = Vec::new();
        for round in 0..60 {
            for id in [0, 1] {
                let payload = format!("meanwhile {round} of {id}");
                tickets.push((id, choir.submit(id, payload.as_bytes())));
                said.push(payload);
            }
            choir.pass(Span::micros(seed * 40));
        }
        choir.until(LONG, |choir| choir.of(2).replica().own_floor().is_some());
        choir.liars.clear();
        for (id, ticket) in tickets {
            choir.ordered(id, &[ticket], LONG);
        }
        assert!(choir.of(0).replica().own_floor() > Some(0), "another epoch");
        said.extend(say(&mut choir, &[0, 1, 2], 20, "after"));
        once(&choir, &said);
    }
}

#[test]
fn one_whose_journal_is_damaged_comes_back_as_well() {
    let mut choir = Choir::new(3, 9, plain);
    say(&mut choir, &[0, 1, 2], 3, "before");
    choir.stop(1);
    choir.net.persisted.remove(&NodeId(1));
    choir.start(1, Condition::Damaged);
    choir.until(LONG, |choir| choir.of(1).replica().own_floor().is_some());
    choir.liars.clear();
    let said = say(&mut choir, &[0, 1, 2], 20, "after");
    once(&choir, &said);
}

#[test]
fn numbers_that_could_stand_still_for_ever_are_refused() {
    let sound = Choir::settings(NodeId(0), 3, 0, plain);
    assert!(sound.check().is_ok());
    let refused: [fn(&mut OrderingConfig); 8] = [
        |settings| settings.checkpoint_every = 0,
        |settings| settings.ahead_max = 0,
        |settings| settings.pending_max = 0,
        |settings| settings.retry = Span::ZERO,
        |settings| settings.resume = Position(1 << 62),
        |settings| settings.checkpoint_every = 1 << 16,
        |settings| settings.replica.archive_bytes_max = 64 << 10,
        |settings| settings.replica.config.parameters.snapshot_slots = 64,
    ];
    for (at, tweak) in refused.into_iter().enumerate() {
        let mut settings = sound.clone();
        tweak(&mut settings);
        assert!(settings.check().is_err(), "rule {at}");
    }
}

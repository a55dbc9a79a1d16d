//! Orders that owners sign: what comes while others are checked is checked at once with the rest, and each is answered.

use std::collections::BTreeMap;

use synod_astro::{Auth, Draft, Input, Job, Line, Output, Refusal, Work};
use synod_crypto::Hash;
use synod_ledger::{AccountId, Code, EntryId, genesis};
use synod_machine::{Effect, Event, Job as _, testing};

use crate::alone::Alone;
use crate::bank::{Replica, account, custodial, digest, draft, first, issuer, keys, pay, signed, signing};
use crate::forge::{batch, carried};

/// What an event makes of a replica.
#[derive(Default)]
struct Seen {
    /// Orders of each check.
    checks: Vec<Vec<u64>>,
    jobs: Vec<Job<<synod_broadcast::SignedBroadcast<synod_astro::Batches> as synod_machine::Machine>::Job>>,
    accepted: Vec<u64>,
    refused: Vec<(u64, Refusal)>,
}

fn step(alone: &mut Alone, event: Event<Replica>) -> Seen {
    let mut seen = Seen::default();
    for effect in testing::effects(&mut alone.replica, event, alone.now) {
        match effect {
            Effect::Compute(job) => {
                if let Job::Own(work) = &job
                    && let Work::Admit { orders, .. } = &**work
                {
                    assert_eq!(job.cost().batch_verify as usize, orders.len());
                    assert_eq!(job.cost().verify, 0, "they are checked at once");
                    seen.checks.push(orders.iter().map(|(ticket, ..)| *ticket).collect());
                    seen.jobs.push(job);
                }
            }
            Effect::Output(Output::Accepted { ticket, .. }) => seen.accepted.push(ticket),
            Effect::Output(Output::Refused { ticket, why }) => seen.refused.push((ticket, why)),
            _ => {}
        }
    }
    seen
}

/// Member 0, whose customer has 100, and the next entries of that customer.
fn funded(count: u64) -> (Alone, Vec<Line>) {
    let mut alone = Alone::new();
    let funds = carried(issuer(3), 1, genesis(issuer(3)), pay(signing(0), 100), 1);
    alone.certify_whole(&batch(1, Hash::ZERO, Vec::new(), vec![funds]));
    let mut head = genesis(signing(0));
    let lines = (1..=count).map(|n| {
        let id = EntryId { spender: signing(0), n };
        let line = signed(id, head, pay(custodial(1), 1), u128::from(n) + 10);
        head = digest(&line.entry);
        line
    });
    let lines = lines.collect();
    (alone, lines)
}

fn done(seen: &mut Seen) -> Event<Replica> {
    Event::Done(seen.jobs.pop().expect("something is checked").run(&keys(0)))
}

#[test]
fn orders_that_come_while_others_are_checked_are_checked_at_once_and_taken_in_their_order() {
    let (mut alone, lines) = funded(6);
    let ask = |alone: &mut Alone, ticket: u64| {
        let line = lines[usize::try_from(ticket).expect("few")].clone();
        step(alone, Event::Input(Input::Signed { ticket, line }))
    };
    let mut one = ask(&mut alone, 0);
    assert_eq!(one.checks, [[0]]);
    for ticket in 1..6 {
        assert!(ask(&mut alone, ticket).checks.is_empty(), "one check is under way");
    }
    let mut rest = step(&mut alone, done(&mut one));
    assert_eq!(
        (rest.accepted.as_slice(), rest.checks.as_slice()),
        ([0].as_slice(), [vec![1, 2, 3, 4, 5]].as_slice())
    );
    let last = step(&mut alone, done(&mut rest));
    assert_eq!(last.accepted, [1, 2, 3, 4, 5]);
    assert!(last.checks.is_empty() && last.refused.is_empty());
}

#[test]
fn a_bad_signature_among_many_is_refused_alone() {
    let (mut alone, mut lines) = funded(3);
    let other = first(signing(1), pay(custodial(1), 1), 99);
    let forged = Line { auth: other.auth, ..lines[2].clone() };
    let vouched = Line { auth: Auth::Institution, ..lines[2].clone() };
    lines.insert(2, forged);
    lines.insert(2, vouched);
    let mut jobs = Seen::default();
    for (ticket, line) in (0..).zip(lines) {
        jobs.jobs.extend(step(&mut alone, Event::Input(Input::Signed { ticket, line })).jobs);
    }
    let mut rest = step(&mut alone, done(&mut jobs));
    let last = step(&mut alone, done(&mut rest));
    assert_eq!((rest.accepted, last.accepted), (vec![0], vec![1, 4]));
    let unauthorized = Refusal::Ledger(Code::Unauthorized);
    assert_eq!(last.refused, [(2, unauthorized), (3, unauthorized)]);
}

#[test]
fn orders_beyond_the_room_are_refused_before_anybody_checks_them() {
    let (mut alone, lines) = funded(1);
    let room = synod_machine::Machine::room(&alone.replica);
    let line = &lines[0];
    for ticket in 0..u64::from(room) {
        assert!(
            step(&mut alone, Event::Input(Input::Signed { ticket, line: line.clone() })).refused.is_empty()
        );
    }
    assert_eq!(synod_machine::Machine::room(&alone.replica), 0);
    let seen = step(&mut alone, Event::Input(Input::Signed { ticket: 99, line: line.clone() }));
    assert!(matches!(seen.refused.as_slice(), [(99, Refusal::Busy(_))]) && seen.checks.is_empty());
}

/// What an institution answers to each of these orders, by ticket.
fn answers(alone: &Alone) -> BTreeMap<u64, Output> {
    let answered = |told: &&Output| matches!(told, Output::Accepted { .. } | Output::Refused { .. });
    let ticketed = alone.told.iter().filter(answered).map(|told| match told {
        Output::Accepted { ticket, .. } | Output::Refused { ticket, .. } => (*ticket, told.clone()),
        _ => unreachable!("answers alone are looked at"),
    });
    ticketed.collect()
}

#[test]
fn orders_that_come_together_are_answered_as_if_each_came_alone() {
    // The issuer pays as often as its window lets it, its customer has nothing, and an account is not there: names come twice, and some pay themselves.
    let payers = [issuer(0), custodial(0), account(0, 999), issuer(0), issuer(1)];
    let order = |(ticket, payer): (u64, AccountId)| {
        let to = if ticket % 11 == 0 { payer } else { custodial(1) };
        (ticket, draft(payer, pay(to, 1 + u128::from(ticket % 3)), u128::from(ticket % 70)))
    };
    let orders: Vec<(u64, Draft)> = (1..=200).zip(payers.into_iter().cycle()).map(order).collect();
    let members = || {
        let mut alone = Alone::new();
        alone.builds = false;
        alone
    };
    let (mut apart, mut together) = (members(), members());
    for (ticket, draft) in orders.clone() {
        apart.ask(Input::Order { ticket, draft });
    }
    together.ask(Input::Orders(orders));
    let answered = answers(&together);
    assert_eq!(answered, answers(&apart));
    let accepted = answered.values().filter(|told| matches!(told, Output::Accepted { .. })).count();
    assert!(answered.len() == 200 && (10..100).contains(&accepted), "{accepted} of {}", answered.len());
}

//! What a representative took is offered until it is certified.

use synod_astro::{Auth, Input, Line, Output, Promise, Refusal};
use synod_crypto::Hash;
use synod_ledger::{EntryId, Owner, genesis};
use synod_machine::{Event, Machine as _};

use crate::alone::{Alone, Timer};
use crate::bank::{account, custodial, digest, draft, first, issuer, opening, pay, signed, signing};
use crate::forge::{ALL, batch, carried, prepare};

/// One of three signers leaves the first entry out, so it is not certified.
const BUT_THE_FIRST: [(u32, &[u32]); 3] = [(1, &[0]), (2, &[]), (3, &[])];

/// So many batches of this member's own are certified, each with an account that it opens.
fn batches(alone: &mut Alone, locals: std::ops::Range<u64>) {
    for local in locals {
        let opening = opening(account(0, local), Owner::Custodial(0), 0);
        alone.ask(Input::Open { ticket: local, opening });
        let mine = alone.mine();
        alone.certify(&mine, ALL);
    }
}

fn has_batch(alone: &Alone, sequence: u64) -> bool {
    alone
        .promises()
        .any(|promise| matches!(promise, Promise::Batch { lot, .. } if (lot.source, lot.sequence) == (0, sequence)))
}

/// An order of the institution's issuer is in a batch that is certified without it, and the batch is gone.
fn left() -> (Alone, Line) {
    let mut alone = Alone::new();
    alone.ask(Input::Order { ticket: 1, draft: draft(issuer(0), pay(custodial(1), 5), 1) });
    let line = carried(issuer(0), 1, genesis(issuer(0)), pay(custodial(1), 5), 1);
    let mine = alone.mine();
    alone.certify(&mine, BUT_THE_FIRST);
    assert!(has_batch(&alone, 1));
    batches(&mut alone, 4..24);
    assert!(!has_batch(&alone, 1), "16 are kept");
    assert_eq!(alone.carried(&line), 1);
    (alone, line)
}

#[test]
fn an_entry_that_was_left_uncertified_is_offered_until_it_is_certified_though_its_batch_is_gone() {
    let (mut alone, line) = left();
    alone.wait(600);
    assert_eq!(alone.carried(&line), 2);
    // While that batch is under way it is enough.
    alone.wait(30_000);
    assert_eq!(alone.carried(&line), 2);
    let again = alone.mine();
    alone.certify(&again, BUT_THE_FIRST);
    alone.wait(30_000);
    assert_eq!(alone.carried(&line), 3);
    let again = alone.mine();
    alone.certify(&again, ALL);
    let is_settled = |output: &Output| matches!(output, Output::Settled { entries, .. } if entries.iter().any(|(entry, _)| *entry == line.entry));
    assert!(alone.told.iter().any(is_settled));
    (0..3).for_each(|_| alone.wait(30_000));
    assert_eq!(alone.carried(&line), 3, "no more than that");
}

#[test]
fn an_order_that_was_left_uncertified_is_offered_after_a_restart_though_its_batch_is_gone() {
    let (alone, line) = left();
    for again in [alone.restarted(), alone.compacted()] {
        assert_eq!(again.carried(&line), 1, "at the start");
        assert!(again.blamed.is_empty());
    }
}

#[test]
fn what_an_owner_signed_is_offered_after_a_restart_by_whoever_took_it() {
    let mut alone = Alone::new();
    alone.ask(Input::Order { ticket: 1, draft: draft(issuer(0), pay(signing(0), 9), 1) });
    let money = alone.mine();
    alone.certify(&money, ALL);
    let line = first(signing(0), pay(custodial(1), 9), 2);
    alone.ask(Input::Signed { ticket: 2, line: line.clone() });
    let mine = alone.mine();
    // Its batch is under way: nothing else is needed.
    for mut again in [alone.restarted(), alone.compacted()] {
        again.wait(600);
        assert_eq!(again.carried(&line), 0);
    }
    alone.certify(&mine, BUT_THE_FIRST);
    for again in [alone.restarted(), alone.compacted()] {
        assert_eq!(again.carried(&line), 1, "at the start: its batch is kept");
    }
    batches(&mut alone, 4..24);
    assert!(!has_batch(&alone, 2));
    for mut again in [alone.restarted(), alone.compacted()] {
        assert_eq!(again.carried(&line), 0, "another representative may have it certified");
        again.wait(600);
        assert_eq!(again.carried(&line), 1);
    }
}

#[test]
fn entries_of_an_account_that_changes_its_owner_are_offered_after_a_restart_by_whoever_had_it() {
    let mut alone = Alone::new();
    alone.builds = false;
    let rekey = synod_ledger::Kind::Rekey(Owner::Custodial(2));
    alone.ask(Input::Order { ticket: 1, draft: draft(issuer(0), pay(custodial(1), 5), 1) });
    alone.ask(Input::Order { ticket: 2, draft: draft(issuer(0), rekey.clone(), 2) });
    let one = carried(issuer(0), 1, genesis(issuer(0)), pay(custodial(1), 5), 1);
    let two = carried(issuer(0), 2, digest(&one.entry), rekey, 2);
    let again = alone.compacted();
    assert_eq!([&one, &two].map(|line| again.carried(line)), [1, 1]);
}

#[test]
fn a_name_is_free_again_when_another_entry_has_the_place() {
    let mut alone = Alone::new();
    alone.ask(Input::Order { ticket: 1, draft: draft(issuer(0), pay(signing(3), 9), 1) });
    let money = alone.mine();
    alone.certify(&money, ALL);
    let mine = first(signing(3), pay(custodial(1), 9), 77);
    alone.ask(Input::Signed { ticket: 2, line: mine.clone() });
    let id = EntryId { spender: signing(3), n: 1 };
    let again = |alone: &mut Alone, ticket, prev| {
        let line = signed(EntryId { n: 2, ..id }, prev, pay(custodial(1), 1), 77);
        alone.ask(Input::Signed { ticket, line });
        refused(alone, ticket)
    };
    assert_eq!(again(&mut alone, 3, digest(&mine.entry)), Some(Refusal::Exists(id)));
    let displacing = first(signing(3), pay(custodial(1), 8), 5);
    let head = digest(&displacing.entry);
    let theirs = batch(1, Hash::ZERO, Vec::new(), vec![displacing]);
    alone.hear(3, prepare(&theirs));
    alone.certify(&theirs, ALL);
    assert_eq!(again(&mut alone, 4, head), None);
}

fn refused(alone: &Alone, ticket: u64) -> Option<Refusal> {
    alone.told.iter().find_map(|output| match output {
        Output::Refused { ticket: of, why } if *of == ticket => Some(*why),
        _ => None,
    })
}

/// Two payers of one institution call their payments the same at one time: both are paid, and each name is kept for its own payer, also
/// after a restart.
#[test]
fn a_name_of_one_payer_is_none_of_anothers() {
    let mut alone = Alone::new();
    alone.ask(Input::Order { ticket: 1, draft: draft(issuer(0), pay(custodial(0), 9), 1) });
    let money = alone.mine();
    alone.certify(&money, ALL);
    let payers = [issuer(0), custodial(0)];
    let order = |alone: &mut Alone, ticket: u64, spender, amount| {
        alone.ask(Input::Order { ticket, draft: draft(spender, pay(custodial(1), amount), 77) });
        refused(alone, ticket)
    };
    for (ticket, payer) in (2..).zip(payers) {
        assert_eq!(order(&mut alone, ticket, payer, 5), None);
    }
    let places = [2, 1].map(|n| EntryId { spender: payers[usize::from(n == 1)], n });
    for mut later in [alone.restarted(), alone.compacted(), alone] {
        for (ticket, (payer, place)) in (10..).zip(payers.into_iter().zip(places)) {
            // For whatever it is: a name says one thing.
            assert_eq!(order(&mut later, ticket, payer, 1), Some(Refusal::Exists(place)));
        }
    }
}

#[test]
fn a_batch_has_the_entries_of_a_log_in_order_though_an_earlier_one_is_offered_again() {
    let mut alone = Alone::new();
    let line = carried(issuer(0), 1, genesis(issuer(0)), pay(custodial(1), 5), 1);
    let next = carried(issuer(0), 2, digest(&line.entry), pay(custodial(1), 5), 2);
    alone.ask(Input::Order { ticket: 1, draft: draft(issuer(0), pay(custodial(1), 5), 1) });
    let mine = alone.mine();
    // Two more batches are under way, so the next order waits.
    for local in 4..6 {
        let opening = opening(account(0, local), Owner::Custodial(0), 0);
        alone.ask(Input::Open { ticket: local, opening });
        alone.run(Event::Timer(Timer::Flush));
    }
    alone.ask(Input::Order { ticket: 2, draft: draft(issuer(0), pay(custodial(1), 5), 2) });
    assert_eq!([&line, &next].map(|line| alone.carried(line)), [1, 0]);
    alone.certify(&mine, BUT_THE_FIRST);
    alone.wait(600);
    alone.run(Event::Timer(Timer::Flush));
    let last = alone.mine();
    let entries: Vec<_> = last.batch.lines.iter().map(|line| (line.entry.clone(), line.auth)).collect();
    assert_eq!(entries, [(line.entry, Auth::Institution), (next.entry, Auth::Institution)]);
}

#[test]
fn an_entry_is_offered_again_though_new_orders_fill_the_queue() {
    let mut alone = Alone::bounded(|parameters| parameters.accounts_max = 200);
    let line = carried(issuer(0), 1, genesis(issuer(0)), pay(custodial(1), 5), 1);
    alone.ask(Input::Order { ticket: 1, draft: draft(issuer(0), pay(custodial(1), 5), 1) });
    let mine = alone.mine();
    alone.certify(&mine, BUT_THE_FIRST);
    let mut local = 4;
    let mut fill = |alone: &mut Alone| {
        while alone.replica.room() > 0 {
            let opening = opening(account(0, local), Owner::Custodial(0), 0);
            alone.ask(Input::Open { ticket: local, opening });
            let is_taken =
                |told: &Output| matches!(told, Output::Numbered { ticket, .. } if *ticket == local);
            assert!(alone.told.iter().any(is_taken), "a member has so many accounts at most");
            alone.run(Event::Timer(Timer::Flush));
            local += 1;
        }
    };
    fill(&mut alone);
    for sequence in 2..12 {
        alone.wait(600);
        let next = alone.all_mine().remove(&sequence).expect("it is under way");
        alone.certify(&next, ALL);
        fill(&mut alone);
    }
    assert_eq!(alone.carried(&line), 2);
}

//! What settles is told in one order until its user keeps it.

use synod_astro::{Input, Output, Refusal};
use synod_broadcast::Lot;
use synod_crypto::Hash;
use synod_ledger::{EntryId, genesis};

use crate::alone::Alone;
use crate::bank::{custodial, draft, first, issuer, pay, signing};
use crate::forge::{ALL, batch, carried, prepare};

/// What was told to have settled: position and place.
fn settled(alone: &Alone) -> Vec<(u64, EntryId)> {
    let mut all = Vec::new();
    for told in &alone.told {
        if let Output::Settled { first, entries } = told {
            all.extend((*first..).zip(entries).map(|(position, (entry, _))| (position, entry.id)));
        }
    }
    all
}

/// Three payments of the liar's issuer, certified.
fn three() -> Alone {
    let mut alone = Alone::new();
    let (mut prev, mut head) = (Hash::ZERO, genesis(issuer(3)));
    for n in 1..=3_u64 {
        let line = carried(issuer(3), n, head, pay(custodial(0), 10), u128::from(n));
        head = crate::bank::digest(&line.entry);
        let opened = batch(n, prev, Vec::new(), vec![line]);
        prev = opened.digest;
        alone.hear(3, prepare(&opened));
        alone.certify(&opened, ALL);
    }
    alone
}

fn places(positions: std::ops::RangeInclusive<u64>) -> Vec<(u64, EntryId)> {
    positions.map(|n| (n, EntryId { spender: issuer(3), n })).collect()
}

#[test]
fn what_the_user_does_not_keep_is_told_again_after_a_restart_in_the_same_order() {
    let mut alone = three();
    assert_eq!(settled(&alone), places(1..=3));
    for again in [alone.restarted(), alone.compacted(), alone.compacted().restarted()] {
        assert_eq!(settled(&again), places(1..=3));
    }
    alone.ask(Input::Kept(2));
    for again in [alone.restarted(), alone.compacted(), alone.restarted().compacted()] {
        assert_eq!(settled(&again), places(3..=3));
    }
    // More than there is cannot be kept.
    alone.ask(Input::Kept(9));
    let mut again = alone.compacted();
    assert!(settled(&again).is_empty());
    let line = carried(issuer(2), 1, genesis(issuer(2)), pay(custodial(0), 1), 9);
    let other =
        synod_astro::Opened::new(0, Lot { source: 2, sequence: 1 }, Hash::ZERO, Vec::new(), vec![line]);
    again.certify_whole(&other);
    assert_eq!(settled(&again), [(4, EntryId { spender: issuer(2), n: 1 })]);
}

/// Between its settling and the user's keeping it, a restart may hide it from the user, who asks again.
#[test]
fn an_order_that_settled_is_known_by_its_name_until_the_user_keeps_it() {
    let ask = |alone: &mut Alone, ticket: u64| {
        alone.told.clear();
        alone.ask(Input::Order { ticket, draft: draft(issuer(0), pay(custodial(1), 5), 7) });
        alone.told.iter().find_map(|told| match told {
            Output::Refused { why, .. } => Some(*why),
            _ => None,
        })
    };
    let mut alone = Alone::new();
    assert_eq!(ask(&mut alone, 1), None);
    let mine = alone.mine();
    alone.certify(&mine, ALL);
    let id = EntryId { spender: issuer(0), n: 1 };
    assert_eq!(settled(&alone), [(1, id)]);
    let known = Some(Refusal::Exists(id));
    for mut again in [alone.restarted(), alone.compacted(), alone.compacted().restarted()] {
        assert_eq!(ask(&mut again, 2), known, "after a restart");
    }
    assert_eq!(ask(&mut alone, 2), known);
    alone.ask(Input::Kept(1));
    for mut again in [alone.restarted(), alone.compacted(), alone] {
        assert_eq!(ask(&mut again, 3), None, "its user knows the name from here on");
    }
}

/// The certificate is here before the money that the entry takes.
#[test]
fn a_certified_entry_settles_when_its_money_comes_though_its_member_started_again_meanwhile() {
    let early = || {
        let mut alone = Alone::new();
        let line = first(signing(3), pay(custodial(0), 60), 1);
        let opened = batch(1, Hash::ZERO, Vec::new(), vec![line]);
        alone.certify_whole(&opened);
        assert!(settled(&alone).is_empty(), "nobody has paid it yet");
        alone
    };
    let money = || {
        let line = carried(issuer(2), 1, genesis(issuer(2)), pay(signing(3), 100), 2);
        synod_astro::Opened::new(0, Lot { source: 2, sequence: 1 }, Hash::ZERO, Vec::new(), vec![line])
    };
    for mut alone in [early(), early().restarted(), early().compacted(), early().compacted().restarted()] {
        alone.certify_whole(&money());
        let wanted = [EntryId { spender: issuer(2), n: 1 }, EntryId { spender: signing(3), n: 1 }];
        assert_eq!(settled(&alone), [(1, wanted[0]), (2, wanted[1])]);
    }
}

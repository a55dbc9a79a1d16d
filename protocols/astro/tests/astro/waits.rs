//! What has to wait waits once, and is let go of.

use synod_astro::{Input, Line, Opened};
use synod_broadcast::Lot;
use synod_crypto::Hash;
use synod_ledger::{EntryId, Kind, Owner, genesis};
use synod_machine::Bounded;

use crate::alone::Alone;
use crate::bank::{account, custodial, digest, draft, first, issuer, opening, owner, pay, signed, signing};
use crate::forge::{ALL, batch, carried, prepare};

/// The liar's customers: so many accounts without money.
const POOR: u64 = 60;

/// A liar's batch behind another, with an entry of each of its customers, who have nothing.
fn unfunded(sequence: u64, prev: Hash) -> Opened {
    let lines = (4..4 + POOR).map(|local| {
        let spender = account(3, local);
        carried(spender, 1, genesis(spender), pay(custodial(0), 1), u128::from(sequence))
    });
    batch(sequence, prev, Vec::new(), lines.collect())
}

#[test]
fn a_lying_lane_has_no_more_waiting_than_its_kept_batches_hold() {
    let mut alone = Alone::new();
    let customers = (4..4 + POOR).map(|local| opening(account(3, local), Owner::Custodial(3), 0));
    let opened = batch(1, Hash::ZERO, customers.collect(), Vec::new());
    alone.hear(3, prepare(&opened));
    alone.certify(&opened, ALL);
    let everything: Vec<u32> = (0..u32::try_from(POOR).expect("few")).collect();
    let mut head = opened.digest;
    let mut grow = |alone: &mut Alone, sequences: std::ops::Range<u64>| {
        for sequence in sequences {
            let opened = unfunded(sequence, head);
            head = opened.digest;
            alone.hear(3, prepare(&opened));
            assert_eq!(alone.lists(&opened), std::slice::from_ref(&everything));
            alone.certify(&opened, [(0, &everything), (1, &everything), (3, &[])]);
        }
        alone.replica.bytes()
    };
    // 16 batches are kept in memory, and 16 more in the broadcast.
    let full = grow(&mut alone, 2..60);
    let later = grow(&mut alone, 60..120);
    let per_batch = later.saturating_sub(full) / 60;
    // What the broadcast tells of slots that are certified in part is bounded by itself: 4 bytes per entry, and a little.
    assert!(per_batch < 4 * POOR + 200, "{per_batch} bytes are left of each batch");
}

#[test]
fn an_entry_that_waits_for_the_one_before_it_is_endorsed_as_soon_as_that_is() {
    let mut alone = Alone::new();
    alone.ask(Input::Order { ticket: 1, draft: draft(issuer(0), pay(signing(3), 9), 1) });
    let money = alone.mine();
    alone.certify(&money, ALL);
    let one = first(signing(3), pay(custodial(0), 4), 2);
    let two = signed(EntryId { spender: signing(3), n: 2 }, digest(&one.entry), pay(custodial(1), 5), 3);
    let later = batch(1, Hash::ZERO, Vec::new(), vec![two]);
    let earlier = Opened::new(0, Lot { source: 2, sequence: 1 }, Hash::ZERO, Vec::new(), vec![one]);
    alone.hear(3, prepare(&later));
    assert_eq!(alone.lists(&later), [vec![0]]);
    alone.hear(2, prepare(&earlier));
    assert_eq!(alone.lists(&earlier), [Vec::<u32>::new()]);
    assert_eq!(alone.lists(&later), [vec![0], Vec::new()]);
}

/// 16 entries of an account are open at most.
#[test]
fn an_entry_beyond_the_window_is_endorsed_once_the_window_reaches_it() {
    let mut alone = Alone::new();
    let mut lines = vec![carried(issuer(3), 1, genesis(issuer(3)), pay(custodial(0), 1), 1)];
    for n in 2..=17 {
        let prev = digest(&lines[lines.len() - 1].entry);
        lines.push(carried(issuer(3), n, prev, pay(custodial(0), 1), u128::from(n)));
    }
    let last = lines.split_off(16);
    let full = batch(1, Hash::ZERO, Vec::new(), lines);
    let beyond = batch(2, full.digest, Vec::new(), last);
    alone.hear(3, prepare(&full));
    alone.hear(3, prepare(&beyond));
    assert_eq!(alone.lists(&beyond), [vec![0]]);
    let all_but_the_first: Vec<u32> = (1..16).collect();
    alone.certify(&full, [(0, &all_but_the_first), (1, &[]), (3, &[])]);
    assert_eq!(alone.lists(&beyond), [vec![0], Vec::new()]);
}

#[test]
fn an_entry_below_an_open_change_of_owner_can_be_offered_again() {
    let mut alone = Alone::new();
    alone.ask(Input::Order { ticket: 1, draft: draft(issuer(0), pay(signing(3), 9), 1) });
    let money = alone.mine();
    alone.certify(&money, ALL);
    let one = first(signing(3), pay(custodial(0), 4), 2);
    let rekey = Kind::Rekey(Owner::Custodial(3));
    let two = signed(EntryId { spender: signing(3), n: 2 }, digest(&one.entry), rekey, 3);
    let both = batch(1, Hash::ZERO, Vec::new(), vec![one.clone(), two]);
    alone.hear(3, prepare(&both));
    assert_eq!(alone.lists(&both), [Vec::<u32>::new()]);
    let again: Vec<Line> = vec![one];
    let again = batch(2, both.digest, Vec::new(), again);
    alone.hear(3, prepare(&again));
    assert_eq!(alone.lists(&again), [Vec::<u32>::new()], "its owner is the one of its place");
}

#[test]
fn an_owner_who_is_not_known_yet_is_waited_for() {
    let mut alone = Alone::new();
    let (id, institution) = (account(2, 4), Owner::Custodial(2));
    let key = Owner::SelfSigned(owner(id).public());
    let line = first(id, pay(custodial(0), 5), 1);
    let early = batch(1, Hash::ZERO, Vec::new(), vec![line]);
    alone.hear(3, prepare(&early));
    assert_eq!(alone.lists(&early), [vec![0]]);
    let opens = vec![opening(id, key, 0), opening(account(2, 5), institution, 0)];
    let opens = Opened::new(0, Lot { source: 2, sequence: 1 }, Hash::ZERO, opens, Vec::new());
    alone.hear(2, prepare(&opens));
    alone.certify(&opens, ALL);
    assert_eq!(alone.lists(&early), [vec![0]], "it has nothing");
    alone.ask(Input::Order { ticket: 1, draft: draft(issuer(0), pay(id, 5), 1) });
    let money = alone.mine();
    alone.certify(&money, ALL);
    assert_eq!(alone.lists(&early), [vec![0], Vec::new()]);
}

#[test]
fn an_entry_of_a_new_owner_waits_for_the_one_that_names_him() {
    let mut alone = Alone::new();
    let rekey = first(signing(3), Kind::Rekey(Owner::Custodial(3)), 1);
    let line = carried(signing(3), 2, digest(&rekey.entry), Kind::Move(1), 2);
    let early = batch(1, Hash::ZERO, Vec::new(), vec![line]);
    alone.hear(3, prepare(&early));
    assert_eq!(alone.lists(&early), [vec![0]]);
    let later = Opened::new(0, Lot { source: 2, sequence: 1 }, Hash::ZERO, Vec::new(), vec![rekey]);
    alone.hear(2, prepare(&later));
    assert_eq!(alone.lists(&early), [vec![0], Vec::new()]);
}

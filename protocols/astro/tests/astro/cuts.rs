//! Cuts: members that settled different entries sign one root, or none.

use std::collections::BTreeMap;

use synod_astro::{
    Cut, CutSign, CutSigned, Exception, LaneEnd, Opened, Output, RootRecord, Timer as Due, Word,
};
use synod_broadcast::Lot;
use synod_crypto::{Hash, Scope};
use synod_ledger::{AccountId, Total, genesis};
use synod_machine::testing::pick;
use synod_machine::{Event, Span};
use synod_quorum::NodeId;
use synod_wire::{Drawn, List};

use crate::alone::{Alone, Timer};
use crate::bank::{
    Bank, CLUSTER, CONTEXT, EPOCH, EURO, Message, World, custodial, digest, equal_books, issuer, keys, order,
    pay, settle, told,
};
use crate::forge::{batch, carried, prepare};

const OFTEN: Span = Span::millis(300);

/// Everybody pays everybody while cuts are proposed.
pub(crate) fn busy(n: u32, seed: u64, crash: impl Fn(u64) -> bool) -> World {
    let mut world = Bank::cutting(n, seed, OFTEN);
    let mut drawn = Drawn::new(seed ^ 0xc07);
    world.loss = [0, 50, 150][pick(&mut drawn, 3)];
    let accounts: Vec<AccountId> = (0..n).flat_map(|lane| [issuer(lane), custodial(lane)]).collect();
    for ticket in 1..=60 {
        let from = accounts[pick(&mut drawn, accounts.len())];
        let to = accounts[pick(&mut drawn, accounts.len())];
        order(&mut world, ticket, from, to, u128::from(1 + drawn.below(300)));
        world.go_on(drawn.below(120));
        if crash(ticket) {
            let id = NodeId(u32::try_from(drawn.below(u64::from(n))).expect("few"));
            world.restart(id, drawn.below(2) == 0);
        }
    }
    world
}

/// One root per number, whoever certified it, and no money made; gives the cuts.
fn one_root(world: &World) -> BTreeMap<u64, RootRecord> {
    let mut all: BTreeMap<u64, RootRecord> = BTreeMap::new();
    for (number, (record, certificate)) in told(world).flat_map(|told| &told.cuts) {
        let known = all.entry(*number).or_insert_with(|| record.clone());
        assert_eq!(known, record, "two roots of cut {number}");
        assert_eq!(certificate.root, record.digest());
        for ledger in &record.ledgers {
            let sums = ledger.root.sums;
            assert_eq!((sums.credits, sums.liabilities), (sums.debits, sums.issued), "money was made");
        }
    }
    all
}

#[test]
fn members_that_settle_in_any_order_certify_one_root_per_cut() {
    let mut moving = 0;
    for (seed, n) in (0..16).zip([4, 1, 5, 7].into_iter().cycle()) {
        let mut world = busy(n, seed, |_| false);
        let before = one_root(&world);
        moving += before
            .values()
            .filter(|record| record.ledgers.iter().any(|ledger| ledger.root.sums.credits > Total::ZERO))
            .count();
        let last = before.keys().last().copied().unwrap_or_default();
        assert!(
            world.until(|world| told(world).all(|told| told.cuts.keys().any(|cut| *cut > last))),
            "seed {seed}"
        );
        assert!(world.correct().all(|(_, seat)| seat.blamed.is_empty()), "nobody lied");
        one_root(&world);
    }
    assert!(moving > 16, "{moving} cuts while money moved");
}

#[test]
fn a_member_that_crashes_anywhere_signs_no_two_roots_and_cuts_go_on() {
    for seed in 0..16 {
        let mut world = busy(4, 100 + seed, |ticket| ticket % 5 == 0);
        let last = one_root(&world).keys().last().copied().unwrap_or_default();
        assert!(
            world.until(|world| told(world).all(|told| told.cuts.keys().any(|cut| *cut > last))),
            "seed {seed}"
        );
        assert!(world.correct().all(|(_, seat)| seat.blamed.is_empty()), "seed {seed}");
        assert!(settle(&mut world, 1));
        one_root(&world);
        equal_books(&world);
    }
}

#[test]
fn a_silent_member_delays_cuts_by_its_own_turns_alone() {
    let mut world = Bank::cutting(4, 3, OFTEN);
    world.liar = Some(NodeId(1));
    order(&mut world, 1, issuer(0), custodial(2), 5);
    assert!(world.until(|world| told(world).all(|told| told.cuts.len() >= 4)));
    assert!(one_root(&world).values().all(|record| record.proposer != 1));
}

/// Payments of an issuer to the customers of lane 2, in a batch of lane 3 each.
fn batches(count: u64) -> Vec<Opened> {
    let (mut head, mut prev) = (genesis(issuer(3)), Hash::ZERO);
    let all = (1..=count).map(|n| {
        let line = carried(issuer(3), n, head, pay(custodial(2), 10), u128::from(n));
        head = digest(&line.entry);
        let opened = batch(n, prev, Vec::new(), vec![line]);
        prev = opened.digest;
        opened
    });
    all.collect()
}

/// A cut of member 1 that counts batches of lane 3 up to this one.
fn cut(number: u64, last: Option<&Opened>, exceptions: Vec<Exception>) -> Cut {
    let ends = (0..4).map(|source| {
        let last = last.filter(|_| source == 3);
        let sequence = last.map_or(0, |opened| opened.lot().sequence);
        LaneEnd { lot: Lot { source, sequence }, digest: last.map_or(Hash::ZERO, |opened| opened.digest) }
    });
    let lanes = List::try_from(ends.collect::<Vec<_>>()).expect("four");
    let exceptions = List::try_from(exceptions).expect("few");
    Cut { context: CONTEXT, epoch: EPOCH, number, proposer: 1, lanes, exceptions }
}

fn propose(cut: Cut) -> Message {
    Message::Own(Word::CutPropose(Box::new(cut)))
}

fn exception(carried: u64, first: u64) -> Exception {
    Exception { account: issuer(3), carried, first }
}

/// What a member signed, by the cut's number.
fn signed(alone: &Alone) -> Vec<(u64, Hash)> {
    let all = alone.sent.iter().filter_map(|message| match message {
        Message::Own(Word::CutSign(sign)) => Some((sign.number, sign.root)),
        _ => None,
    });
    all.collect()
}

fn take(alone: &mut Alone, opened: &Opened) {
    alone.certify_whole(opened);
}

/// The root that a member signs who settled exactly the first so many payments.
fn root(count: usize) -> Hash {
    let (mut alone, all) = (Alone::cutting(), batches(5));
    all[..count].iter().for_each(|opened| take(&mut alone, opened));
    alone.hear(1, propose(cut(1, all[..count].last(), Vec::new())));
    let signed = signed(&alone);
    assert_eq!(signed.len(), 1);
    signed[0].1
}

#[test]
fn what_a_member_settled_beyond_a_cut_leaves_no_trace_in_the_root_that_it_signs() {
    let all = batches(5);
    for counted in 0..=3 {
        let mut alone = Alone::cutting();
        all.iter().for_each(|opened| take(&mut alone, opened));
        alone.hear(1, propose(cut(1, all[..counted].last(), Vec::new())));
        assert_eq!(signed(&alone), [(1, root(counted))], "{counted} of five are counted");
    }
    // The same set in other words: a later batch, and an exception.
    let mut alone = Alone::cutting();
    all.iter().for_each(|opened| take(&mut alone, opened));
    alone.hear(1, propose(cut(1, all.get(2), vec![exception(3, 3)])));
    alone.hear(1, propose(cut(5, all.get(1), vec![exception(2, 5)])));
    assert_eq!(signed(&alone).len(), 1, "one look at a proposer's cuts in a period");
    alone.run(Event::Timer(Timer::Cut));
    alone.hear(1, propose(cut(5, all.get(1), vec![exception(2, 5)])));
    assert_eq!(signed(&alone).len(), 2, "below and above what the lane carried");
    assert!(alone.blamed.is_empty());
}

#[test]
fn a_cut_waits_for_what_it_counts_and_is_signed_when_that_has_settled() {
    let (mut alone, all) = (Alone::cutting(), batches(3));
    alone.hear(1, propose(cut(1, all.get(1), Vec::new())));
    assert!(signed(&alone).is_empty());
    take(&mut alone, &all[0]);
    assert!(signed(&alone).is_empty());
    take(&mut alone, &all[1]);
    assert_eq!(signed(&alone), [(1, root(2))]);
}

/// T43: another certificate of a counted batch leaves an entry open here: no signature before it is certified here as well.
#[test]
fn a_batch_that_is_certified_in_part_here_is_signed_as_its_cut_counts_it() {
    let one = carried(issuer(3), 1, genesis(issuer(3)), pay(custodial(2), 10), 1);
    let two = carried(custodial(3), 1, genesis(custodial(3)), pay(custodial(2), 10), 2);
    let opened = batch(1, Hash::ZERO, Vec::new(), vec![one, two]);
    let part: [(u32, &[u32]); 3] = [(1, &[1]), (2, &[1]), (3, &[1])];
    let mut alone = Alone::cutting();
    alone.hear(3, prepare(&opened));
    alone.certify(&opened, part);
    // Its proposer settled the second too.
    alone.hear(1, propose(cut(1, Some(&opened), Vec::new())));
    assert!(signed(&alone).is_empty(), "it was not certified here");
    // Another member's cut leaves it out.
    let left_out = Exception { account: custodial(3), carried: 1, first: 1 };
    let other = Cut { number: 2, proposer: 2, ..cut(1, Some(&opened), vec![left_out]) };
    alone.hear(2, propose(other));
    assert_eq!(signed(&alone).iter().map(|(number, _)| *number).collect::<Vec<_>>(), [2]);
    assert!(alone.blamed.is_empty());
}

#[test]
fn a_number_has_one_signature_of_a_member_also_after_a_crash() {
    let (mut alone, all) = (Alone::cutting(), batches(3));
    all.iter().for_each(|opened| take(&mut alone, opened));
    alone.hear(1, propose(cut(1, all.first(), Vec::new())));
    assert_eq!(signed(&alone), [(1, root(1))]);
    for mut again in [alone.restarted(), alone.compacted(), alone.restarted().compacted()] {
        let before = signed(&again).len();
        again.hear(1, propose(cut(1, all.get(1), Vec::new())));
        assert_eq!(signed(&again)[before..], [(1, root(1))], "the same again");
        assert!(again.blamed.is_empty());
    }
    alone.hear(1, propose(cut(1, all.get(1), Vec::new())));
    assert!(signed(&alone).iter().all(|signed| *signed == (1, root(1))));
}

/// What a snapshot leaves of lanes is enough for the next cut.
#[test]
fn a_member_back_from_a_snapshot_signs_the_next_cut_as_the_others_do() {
    let (mut alone, all) = (Alone::cutting(), batches(5));
    all[..2].iter().for_each(|opened| take(&mut alone, opened));
    for mut again in [alone.restarted(), alone.compacted(), alone.compacted().restarted()] {
        take(&mut again, &all[2]);
        take(&mut again, &all[3]);
        again.hear(1, propose(cut(1, all.get(2), Vec::new())));
        assert_eq!(signed(&again), [(1, root(3))]);
    }
}

#[test]
fn a_cut_that_is_none_is_refused_and_its_proposer_blamed() {
    let all = batches(3);
    let elsewhere = LaneEnd { digest: Hash([1; 32]), lot: all[1].lot() };
    let lanes = |ends: Vec<LaneEnd>| List::try_from(ends).expect("few");
    let good = cut(1, all.get(1), Vec::new());
    let with = |at: usize, end: LaneEnd| {
        let mut ends = good.lanes.to_vec();
        ends[at] = end;
        Cut { lanes: lanes(ends), ..good.clone() }
    };
    let wrong = [
        with(3, elsewhere),
        Cut { lanes: lanes(good.lanes[..3].to_vec()), ..good.clone() },
        cut(1, all.get(1), vec![exception(2, 3)]),
        cut(1, all.get(1), vec![exception(1, 2)]),
        cut(1, all.get(1), vec![exception(2, 0)]),
        cut(1, all.get(1), vec![exception(2, 2), exception(2, 2)]),
        cut(1, all.get(1), vec![Exception { account: crate::bank::account(3, 77), carried: 0, first: 2 }]),
        Cut { proposer: 2, ..good.clone() },
        Cut { number: 2, ..good.clone() },
        Cut { epoch: synod_quorum::Epoch(8), ..good.clone() },
    ];
    for wrong in wrong {
        let mut alone = Alone::cutting();
        all.iter().for_each(|opened| take(&mut alone, opened));
        alone.hear(1, propose(wrong.clone()));
        assert_eq!(
            (signed(&alone).len(), alone.blamed.as_slice()),
            (0, ["wrong_cut"].as_slice()),
            "{wrong:?}"
        );
    }
    let mut alone = Alone::cutting();
    all.iter().for_each(|opened| take(&mut alone, opened));
    alone.hear(2, propose(good.clone()));
    assert_eq!(alone.blamed, ["wrong_cut"], "somebody else's turn");
    alone.hear(1, propose(good));
    assert_eq!(signed(&alone), [(1, root(2))]);
}

/// The payee's payment is counted, what paid for it is not.
#[test]
fn a_cut_that_is_not_closed_is_not_signed() {
    let paid = carried(issuer(3), 1, genesis(issuer(3)), pay(custodial(3), 10), 1);
    let spent = carried(custodial(3), 1, genesis(custodial(3)), pay(custodial(2), 10), 2);
    let one = batch(1, Hash::ZERO, Vec::new(), vec![paid]);
    let two = batch(2, one.digest, Vec::new(), vec![spent]);
    let mut alone = Alone::cutting();
    take(&mut alone, &one);
    take(&mut alone, &two);
    alone.hear(1, propose(cut(1, Some(&two), vec![exception(1, 1)])));
    assert_eq!((signed(&alone).len(), alone.blamed.as_slice()), (0, ["wrong_cut"].as_slice()));
}

fn sign(by: u32, number: u64, root: Hash) -> CutSign {
    let proposer = u8::try_from(number % 4).expect("few");
    let statement = CutSigned { context: CONTEXT, number, proposer, root };
    let signature = keys(by).sign(Scope { cluster: CLUSTER, epoch: EPOCH }, NodeId(by), statement).signature;
    CutSign { number, proposer, root, member: u8::try_from(by).expect("few"), signature }
}

#[test]
fn a_quorum_on_one_root_certifies_and_two_roots_of_one_member_are_shown() {
    let (mut alone, all) = (Alone::cutting(), batches(1));
    take(&mut alone, &all[0]);
    alone.hear(1, propose(cut(1, all.first(), Vec::new())));
    let root = root(1);
    let word = |sign: CutSign| Message::Own(Word::CutSign(sign));
    // A forged one, one for another member, and another root count for nothing.
    alone.hear(1, word(CutSign { root: Hash([1; 32]), ..sign(1, 1, root) }));
    alone.hear(1, word(sign(2, 1, root)));
    assert_eq!(std::mem::take(&mut alone.blamed), ["wrong_cut", "wrong_cut"]);
    alone.hear(1, word(sign(1, 1, Hash([1; 32]))));
    alone.hear(2, word(sign(2, 1, root)));
    let certified = |alone: &Alone| {
        alone.told.iter().filter(|output| matches!(output, Output::CutCertified { .. })).count()
    };
    assert_eq!(certified(&alone), 0, "two of four");
    alone.hear(1, word(sign(1, 1, root)));
    let shown = alone.told.iter().filter_map(|output| match output {
        Output::TwoRoots { member, number, .. } => Some((*member, *number)),
        _ => None,
    });
    assert_eq!(shown.collect::<Vec<_>>(), [(NodeId(1), 1)]);
    assert_eq!((certified(&alone), alone.blamed.as_slice()), (0, ["two_roots"].as_slice()));
    alone.hear(3, word(sign(3, 1, root)));
    assert_eq!(certified(&alone), 1);
    // Whoever asks is told, and it is known after a restart.
    for mut again in [alone.restarted(), alone.compacted()] {
        again.hear(2, Message::Own(Word::AskCut(0)));
        let told = again.sent.iter().filter_map(|message| match message {
            Message::Own(Word::CutCertified(certified)) => Some(certified.certificate.root),
            _ => None,
        });
        assert_eq!(told.collect::<Vec<_>>(), [root]);
        again.hear(2, Message::Own(Word::AskCut(1)));
        assert_eq!(
            again.sent.iter().filter(|one| matches!(one, Message::Own(Word::CutCertified(_)))).count(),
            1
        );
    }
}

#[test]
fn a_member_proposes_in_its_turn_what_has_settled_there() {
    let (mut alone, all) = (Alone::cutting(), batches(2));
    take(&mut alone, &all[0]);
    let proposals = |alone: &Alone| {
        let all = alone.sent.iter().filter_map(|message| match message {
            Message::Own(Word::CutPropose(cut)) => Some(cut.number),
            _ => None,
        });
        all.collect::<Vec<u64>>()
    };
    for _ in 0..5 {
        alone.run(Event::Timer(Due::Cut));
    }
    assert!(proposals(&alone).is_empty(), "numbers 1 to 3 are the others'");
    alone.run(Event::Timer(Due::Cut));
    assert_eq!(proposals(&alone)[0], 4);
    assert_eq!(signed(&alone)[0].0, 4);
    assert!(alone.replica.book().account(issuer(3)).is_some_and(|account| account.ledger() == EURO));
}

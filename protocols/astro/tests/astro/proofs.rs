//! What proofs of balances show to somebody who has the members' keys and nothing else, and what they do not.

use std::collections::{BTreeMap, BTreeSet};

use synod_astro::{
    Accounts, Adjacent, Balance, CutCertificate, CutSignedBy, Input, NoProof, Proof, RootRecord, Shown,
    Shows, StoodAt, verify_proof,
};
use synod_crypto::{Hash, Refusal};
use synod_ledger::{AccountId, Flags, Opened, Standing, Total};
use synod_machine::Span;
use synod_machine::testing::pick;
use synod_quorum::{Epoch, NodeId};
use synod_wire::{Bytes, Drawn, Limits, List, Wire};

use crate::bank::{Bank, EURO, account, custodial, issuer, keys, order, settle, told, view};

/// Every account, and some that there are not.
fn asked() -> Vec<AccountId> {
    let there = (0..4).flat_map(|lane| (1..=3).map(move |local| account(lane, local)));
    there.chain((0..5).map(|lane| account(lane, 4))).chain([account(2, 0), account(9, 1)]).collect()
}

/// Proofs of all of them behind a cut of a cluster where money moved, by one member.
fn proofs() -> BTreeMap<AccountId, Proof> {
    let mut world = Bank::cutting(4, 11, Span::millis(300));
    for (ticket, lane) in (1..).zip([0, 1, 2, 3]) {
        order(&mut world, ticket, issuer(lane), custodial((lane + 1) % 4), 100 + u128::from(lane));
    }
    assert!(settle(&mut world, 4));
    let last = told(&world).filter_map(|told| told.cuts.keys().last()).max().copied().unwrap_or_default();
    assert!(world.until(|world| told(world).all(|told| told.cuts.keys().any(|cut| *cut > last + 1))));
    let asked = asked();
    for (ticket, account) in (0..).zip(&asked) {
        world.ask(NodeId(0), Input::Prove { ticket, ledger: EURO, account: *account });
    }
    world.ask(NodeId(0), Input::Prove { ticket: 999, ledger: EURO + 1, account: issuer(0) });
    let told = &world.users.told[0];
    assert_eq!(told.proofs[&999], None, "nobody has an account there");
    let proofs = (0..).zip(&asked).map(|(ticket, account)| (*account, told.proofs[&ticket].clone()));
    proofs.map(|(account, proof)| (account, proof.expect("a cut is certified"))).collect()
}

fn verify(proof: &Proof) -> Result<Shows, NoProof> {
    verify_proof(proof, &view(4), &keys(9))
}

#[test]
fn every_balance_is_shown_and_every_absence() {
    let proofs = proofs();
    let mut sum = (0, 0);
    for (id, proof) in &proofs {
        let shows = verify(proof).unwrap_or_else(|why| unreachable!("{id}: {why}"));
        assert!(shows.signers.count() >= 3);
        let is_there = id.registrar < 4 && (1..=3).contains(&id.local);
        assert_eq!(shows.account.as_ref().map(|opened| opened.account), is_there.then_some(*id));
        let lane = u128::from(id.registrar);
        let expected = match id.local {
            1 if is_there => (0, 100 + lane),
            2 if is_there => (100 + (lane + 3) % 4, 0),
            _ => (0, 0),
        };
        assert_eq!(shows.balance, (Total::of(expected.0), Total::of(expected.1)), "{id}");
        sum = (sum.0 + expected.0, sum.1 + expected.1);
    }
    let sums = verify(&proofs[&issuer(0)]).expect("it is good").sums;
    assert_eq!((sums.liabilities, sums.issued), (Total::of(sum.0), Total::of(sum.1)));
    assert_eq!(sum, (406, 406));
}

#[test]
fn what_all_accounts_are_owed_is_shown_of_the_ledger_that_was_signed() {
    let of = proofs().remove(&custodial(1)).expect("asked for");
    let proof = Proof::of_liabilities(EURO, &of.record, &of.certificate).expect("there are accounts");
    let shows = verify(&proof).expect("it is good");
    assert_eq!((shows.account, shows.number), (None, of.record.number));
    assert_eq!((shows.sums.liabilities, shows.sums.issued), (Total::of(406), Total::of(406)));
    assert_eq!(Proof::of_liabilities(EURO + 1, &of.record, &of.certificate), None);
    assert_eq!(verify(&Proof { ledger: EURO + 1, ..proof.clone() }), Err(NoProof::Ledger));
    let mut ledgers = proof.record.ledgers.to_vec();
    ledgers[0].root.sums.liabilities = Total::of(405);
    let record = RootRecord { ledgers: List::try_from(ledgers).expect("one"), ..proof.record.clone() };
    assert_eq!(verify(&Proof { record, ..proof }), Err(NoProof::OtherState));
}

#[test]
fn accounts_are_put_together_again_under_the_roots_that_were_signed_and_no_others() {
    let mut world = Bank::cutting(4, 11, Span::millis(300));
    order(&mut world, 1, issuer(0), custodial(1), 100);
    assert!(settle(&mut world, 1));
    let last = told(&world).filter_map(|told| told.cuts.keys().last()).max().copied().unwrap_or_default();
    assert!(world.until(|world| told(world).any(|told| told.behind.keys().any(|cut| *cut > last + 1))));
    let told = told(&world).find(|told| !told.behind.is_empty()).expect("it signed one");
    let (number, accounts) = told.behind.iter().next_back().expect("it signed one");
    let record = &told.cuts[number].0;
    let kept =
        |(standing, pending): &(Standing, Total)| StoodAt { standing: standing.clone(), pending: *pending };
    let all: Vec<StoodAt> = accounts.iter().map(kept).collect();
    assert_eq!(all.len(), 12);
    assert_eq!(Accounts::restore(record, all.clone()).as_ref(), Some(&**accounts));
    let changed = |change: &dyn Fn(&mut Vec<StoodAt>)| {
        let mut all = all.clone();
        change(&mut all);
        Accounts::restore(record, all)
    };
    assert_eq!(changed(&|all| all.truncate(all.len() - 1)), None);
    assert_eq!(changed(&|all| all.swap(0, 1)), None);
    assert_eq!(changed(&|all| all.push(all[11].clone())), None);
    assert_eq!(changed(&|all| all[3].standing.sequence += 1), None);
    assert_eq!(changed(&|all| all[3].pending = Total::of(1)), None);
    assert_eq!(changed(&Vec::clear), None);
}

#[test]
fn a_proof_is_good_for_its_view_alone() {
    let proof = proofs().remove(&custodial(1)).expect("asked for");
    let mut other = (*view(4)).clone();
    other.context.shard = 1;
    assert_eq!(verify_proof(&proof, &other, &keys(9)), Err(NoProof::OtherView));
    let mut other = (*view(4)).clone();
    other.cluster = Hash([8; 32]);
    assert!(matches!(verify_proof(&proof, &other, &keys(9)), Err(NoProof::Certificate(Refusal::Forged(_)))));
    let later =
        Proof { record: synod_astro::RootRecord { epoch: Epoch(8), ..proof.record.clone() }, ..proof };
    assert_eq!(verify(&later), Err(NoProof::OtherView));
}

fn signed(certificate: &CutCertificate, change: impl Fn(&mut Vec<CutSignedBy>)) -> CutCertificate {
    let mut signed = certificate.signed.to_vec();
    change(&mut signed);
    CutCertificate { signed: List::try_from(signed).expect("few"), ..certificate.clone() }
}

#[test]
fn fewer_than_a_quorum_of_distinct_members_prove_nothing() {
    let proof = proofs().remove(&custodial(1)).expect("asked for");
    let with = |change: &dyn Fn(&mut Vec<CutSignedBy>)| {
        verify(&Proof { certificate: signed(&proof.certificate, change), ..proof.clone() })
            .expect_err("it is no quorum")
    };
    let short = with(&|signed| signed.truncate(2));
    assert_eq!(short, NoProof::Certificate(Refusal::TooWeak));
    assert!(matches!(with(&|signed| signed[2] = signed[1]), NoProof::Certificate(_)), "one twice");
    assert!(matches!(with(&|signed| signed.swap(0, 1)), NoProof::Certificate(_)), "out of order");
    let traded = with(&|signed| {
        let one = signed[0].signature;
        signed[0].signature = std::mem::replace(&mut signed[1].signature, one);
    });
    assert!(matches!(traded, NoProof::Certificate(Refusal::Forged(_))));
    assert!(matches!(with(&|signed| signed[2].member = 77), NoProof::Certificate(Refusal::Stranger(_))));
}

/// The balance that a proof shows, changed.
fn changed(proof: &Proof, change: impl Fn(&mut Opened)) -> Result<Shows, NoProof> {
    let Shown::Balance(balance) = &proof.shown else { unreachable!("a balance") };
    let mut opened = balance.opened.clone();
    change(&mut opened);
    let shown = Shown::Balance(Box::new(Balance { opened, path: balance.path.clone() }));
    verify(&Proof { shown, ..proof.clone() })
}

#[test]
fn no_field_of_a_balance_can_be_changed() {
    let proof = proofs().remove(&custodial(1)).expect("asked for");
    let changes: [&dyn Fn(&mut Opened); 8] = [
        &|opened| opened.account = custodial(2),
        &|opened| opened.salt = [1; 16],
        &|opened| opened.sequence += 1,
        &|opened| opened.head = Hash::ZERO,
        &|opened| opened.flags = Flags(1),
        &|opened| opened.credits = Total::of(1_000),
        &|opened| opened.debits = Total::of(50),
        &|opened| opened.rest = Hash::ZERO,
    ];
    for change in changes {
        assert_eq!(changed(&proof, change), Err(NoProof::Path));
    }
    assert!(changed(&proof, |_| {}).is_ok());
}

#[test]
fn an_account_that_is_there_cannot_be_shown_to_be_absent() {
    let proofs = proofs();
    let sides = |id: AccountId| match &proofs[&id].shown {
        Shown::Absence { below, above, .. } => (below.clone(), above.clone()),
        Shown::Balance(_) | Shown::Liabilities => unreachable!("{id} is not there"),
    };
    let good = proofs[&account(1, 4)].clone();
    let absent = |account, below: Option<Box<Adjacent>>, above: Option<Box<Adjacent>>| {
        let shown = Shown::Absence { account, below, above };
        verify(&Proof { shown, ..good.clone() })
    };
    let (below, above) = sides(account(1, 4));
    assert!(absent(account(1, 4), below.clone(), above.clone()).is_ok());
    let (lower, first) = (sides(account(0, 4)).0, sides(account(2, 0)).0);
    assert!(first.is_some());
    // Another account, one side alone, two that are no neighbours, and the wrong way round.
    for there in [custodial(1), issuer(2), account(0, 1), account(3, 3)] {
        assert_eq!(absent(there, below.clone(), above.clone()), Err(NoProof::Neighbours));
    }
    assert_eq!(absent(account(1, 4), below.clone(), None), Err(NoProof::Neighbours));
    assert_eq!(absent(account(1, 4), None, above.clone()), Err(NoProof::Neighbours));
    assert_eq!(absent(account(1, 4), None, None), Err(NoProof::Neighbours));
    assert_eq!(absent(custodial(1), lower, above.clone()), Err(NoProof::Neighbours));
    assert_eq!(absent(account(1, 4), above, below), Err(NoProof::Neighbours));
}

/// Bits flipped, parts of other proofs put in, and cut short: whatever still passes says what a good proof says.
#[test]
fn nothing_that_is_made_of_proofs_shows_anything_else() {
    let proofs: Vec<Proof> = proofs().into_values().collect();
    let good: BTreeSet<String> =
        proofs.iter().map(|proof| format!("{:?}", verify(proof).expect("good").account)).collect();
    let encoded: Vec<Vec<u8>> = proofs.iter().map(|proof| proof.encode().to_vec()).collect();
    let (mut drawn, mut passed) = (Drawn::new(5), 0);
    for _ in 0..3_000 {
        let mut bytes = encoded[pick(&mut drawn, encoded.len())].clone();
        match drawn.below(4) {
            0 => {
                let other = &encoded[pick(&mut drawn, encoded.len())];
                let at = pick(&mut drawn, bytes.len().min(other.len()));
                let long = pick(&mut drawn, bytes.len().min(other.len()) - at);
                bytes[at..at + long].copy_from_slice(&other[at..at + long]);
            }
            1 => bytes.truncate(pick(&mut drawn, bytes.len())),
            2 => {}
            _ => {
                let at = pick(&mut drawn, bytes.len());
                bytes[at] ^= 1 << drawn.below(8);
            }
        }
        let Ok(proof) = Proof::decode(Bytes::from(bytes), &Limits::default()) else { continue };
        if let Ok(shows) = verify(&proof) {
            passed += 1;
            assert!(good.contains(&format!("{:?}", shows.account)), "{shows:?}");
        }
    }
    assert!((500..2_000).contains(&passed), "{passed} of 3,000 passed");
}

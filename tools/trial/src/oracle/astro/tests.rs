//! Each check says no to what it is there for, and only to that.

use synod_crypto::Hash;
use synod_ledger::{
    AccountId, Entry, EntryId, Flags, Kind, Leg, Opening, Owner, Terms, Units, UserData, genesis,
};

use super::{Acks, BatchSeen, Facts, Keeping, Promised, Reckoning, StandingSeen, StateSeen, Texts};
use crate::oracle::Verdict;

const BATCH: Hash = Hash([1; 32]);
const OTHER: Hash = Hash([2; 32]);

fn account(local: u64) -> AccountId {
    AccountId { shard: 0, registrar: 0, local }
}

fn opening(local: u64, limit: u128) -> Opening {
    let terms = Terms {
        owner: Owner::Custodial(0),
        recovery: None,
        limit: Units(limit),
        code: 0,
        user_data: UserData::default(),
    };
    Opening { id: account(local), ledger: 1, terms, limit_max: Units(limit), representative: 0 }
}

/// Entry `n` of account 1, which pays account 2; its digest is made of its amount.
fn pays(n: u64, prev: Hash, amount: u128) -> (Entry, Hash) {
    let id = EntryId { spender: account(1), n };
    let kind = Kind::Pay(Leg { to: account(2), amount: Units(amount) });
    let (user_data, flags) = (UserData::default(), Flags::default());
    let entry = Entry { id, prev, kind, transfer: amount, ledger: 1, code: 0, user_data, flags };
    (entry, Hash::of(&amount.to_le_bytes()))
}

fn first(amount: u128) -> (Entry, Hash) {
    pays(1, genesis(account(1)), amount)
}

/// A batch, its number in lane 0, and its entries.
type Shown<'a> = (Hash, u64, &'a [(Entry, Hash)]);

fn shown(lines: &[Shown<'_>]) -> Texts {
    let mut texts = Texts::default();
    for (batch, sequence, lines) in lines {
        lines.iter().for_each(|(entry, digest)| texts.entry(*digest, entry));
        let lines = lines.iter().map(|(entry, digest)| (entry.id, *digest)).collect();
        texts.show(*batch, BatchSeen { slot: (0, *sequence), lines, ..BatchSeen::default() });
    }
    texts
}

fn fired(verdict: Verdict) -> &'static str {
    verdict.map_or_else(|breach| breach.checker, |()| "")
}

#[test]
fn a_member_that_signs_two_payloads_for_a_slot_or_takes_back_what_it_endorsed_is_told() {
    let texts = shown(&[(BATCH, 1, &[first(5), pays(2, first(5).1, 6)]), (OTHER, 1, &[first(7)])]);
    let mut acks = Acks::new(4);
    assert_eq!(fired(acks.say(&texts, (1, (0, 1)), (BATCH, &[1]))), "");
    assert_eq!(fired(acks.say(&texts, (1, (0, 1)), (BATCH, &[1]))), "", "the same again");
    assert_eq!(fired(acks.say(&texts, (1, (0, 1)), (BATCH, &[]))), "", "a list shrinks");
    assert_eq!(fired(acks.clone().say(&texts, (1, (0, 1)), (BATCH, &[1]))), "X4");
    assert_eq!(fired(acks.say(&texts, (1, (0, 1)), (OTHER, &[]))), "X4");
    assert_eq!(fired(acks.say(&texts, (2, (0, 1)), (BATCH, &[0]))), "A-S4", "a list that is not closed");
    assert_eq!(fired(acks.say(&texts, (2, (0, 9)), (Hash([9; 32]), &[]))), "X3", "nobody showed it");
}

#[test]
fn a_certificate_is_put_together_of_closed_lists_whoever_signed_them() {
    let texts = shown(&[(BATCH, 1, &[first(5), pays(2, first(5).1, 6)])]);
    let acks = Acks::new(4);
    let gathered = |lists: &[&[u32]]| fired(acks.gather(&texts, (1, BATCH), lists.iter().copied()));
    assert_eq!(gathered(&[&[], &[1], &[0, 1]]), "");
    assert_eq!(gathered(&[&[], &[0]]), "A-S4");
}

/// Endorses in a record and signs it.
fn endorse(acks: &mut Acks, texts: &Texts, member: u32, sequence: u64, batch: Hash) -> &'static str {
    let slot = (0, sequence);
    let written = acks.endorse(texts, (member, sequence), (slot, batch), &[], None);
    fired(written.and_then(|()| acks.say(texts, (member, slot), (batch, &[]))))
}

#[test]
fn two_entries_for_one_place_take_a_certificate_between_and_two_certificates_are_money_twice() {
    let texts = shown(&[(BATCH, 1, &[first(5)]), (OTHER, 2, &[first(7)])]);
    let mut acks = Acks::new(4);
    assert_eq!(endorse(&mut acks, &texts, 1, 1, BATCH), "");
    assert_eq!(endorse(&mut acks.clone(), &texts, 1, 2, OTHER), "X4");
    for member in [0, 2, 3] {
        assert!(!acks.is_certified(first(7).0.id, &first(7).1));
        assert_eq!(endorse(&mut acks, &texts, member, 2, OTHER), "");
    }
    assert!(acks.is_certified(first(7).0.id, &first(7).1));
    assert_eq!(endorse(&mut acks.clone(), &texts, 1, 2, OTHER), "", "a certificate displaced it");
    // Two who lie can have signed the other one as well.
    assert_eq!(fired(acks.fault(&texts, 2)), "");
    assert_eq!(fired(acks.fault(&texts, 3)), "A-S3");
}

#[test]
fn what_a_crash_took_from_the_disk_was_not_endorsed_and_what_was_there_was() {
    let texts = shown(&[(BATCH, 1, &[first(5)]), (OTHER, 2, &[first(7)])]);
    let slots = ((0, 1), (0, 2));
    let written = |acks: &mut Acks| fired(acks.endorse(&texts, (1, 1), (slots.0, BATCH), &[], None));
    let other = |acks: &mut Acks| fired(acks.endorse(&texts, (1, 2), (slots.1, OTHER), &[], None));
    let mut lost = Acks::new(4);
    assert_eq!(written(&mut lost), "");
    lost.open(1, &std::collections::BTreeMap::new());
    assert_eq!(other(&mut lost), "");
    let mut kept = Acks::new(4);
    assert_eq!(written(&mut kept), "");
    kept.open(1, &[(slots.0, (BATCH, std::collections::BTreeSet::new()))].into());
    assert_eq!(other(&mut kept), "X4");
    let mut synced = Acks::new(4);
    assert_eq!(written(&mut synced), "");
    synced.durable(1, 1);
    synced.open(1, &std::collections::BTreeMap::new());
    assert_eq!(other(&mut synced), "X4");
}

#[test]
fn an_entry_is_endorsed_behind_one_that_is_there_and_certified_with_all_below_it() {
    let (one, two) = (first(5), pays(2, first(5).1, 6));
    let texts = shown(&[(BATCH, 1, std::slice::from_ref(&one)), (OTHER, 2, std::slice::from_ref(&two))]);
    let mut acks = Acks::new(4);
    assert_eq!(endorse(&mut acks.clone(), &texts, 0, 2, OTHER), "A-S4");
    for member in 0..3 {
        acks.hold(member, one.1);
        assert_eq!(endorse(&mut acks, &texts, member, 2, OTHER), "");
    }
    assert!(acks.is_certified(one.0.id, &one.1) && acks.is_any_certified(two.0.id));
}

#[test]
fn an_ack_wants_two_records_on_the_disk_and_a_start_forgets_what_was_not() {
    let mut keeping = Keeping::default();
    let said = |keeping: &Keeping, digest, except: &[u32]| fired(keeping.said((1, (0, 1)), digest, except));
    keeping.write(1, 10, Promised::Endorsed((0, 1), Some(BATCH), vec![2]));
    keeping.write(1, 11, Promised::Accepted((0, 1), BATCH, vec![2]));
    keeping.durable(1, 10);
    assert_eq!(said(&keeping, BATCH, &[2]), "X3");
    keeping.durable(1, 11);
    assert_eq!(said(&keeping, BATCH, &[2]), "");
    assert_eq!((said(&keeping, BATCH, &[]), said(&keeping, OTHER, &[2])), ("X3", "X3"));
    keeping.write(1, 12, Promised::Endorsed((0, 1), None, vec![]));
    keeping.write(1, 13, Promised::Accepted((0, 1), BATCH, vec![]));
    keeping.durable(1, 13);
    assert_eq!(said(&keeping, BATCH, &[]), "");
    keeping.open(1, [Promised::Accepted((0, 1), BATCH, vec![])].into_iter());
    assert_eq!(said(&keeping, BATCH, &[]), "X3");
}

fn books() -> Reckoning {
    let mut books = Reckoning::default();
    books.open(&opening(1, 100));
    books.open(&opening(2, 0));
    books
}

#[test]
fn what_settles_comes_once_in_order_paid_for_and_to_somebody() {
    let mut books = books();
    let (one, two) = (first(60), pays(2, first(60).1, 40));
    assert_eq!(fired(books.clone().settle(&two.0, two.1)), "A-S4");
    assert_eq!(fired(books.settle(&one.0, one.1)), "");
    assert_eq!(fired(books.clone().settle(&one.0, one.1)), "A-S2");
    assert_eq!(fired(books.clone().settle(&pays(2, one.1, 41).0, two.1)), "A-S6");
    assert_eq!(fired(books.clone().settle(&pays(2, BATCH, 40).0, two.1)), "A-S4");
    let mut nowhere = two.0.clone();
    nowhere.kind = Kind::Pay(Leg { to: account(9), amount: Units(1) });
    assert_eq!(fired(books.clone().settle(&nowhere, two.1)), "A-S7");
    assert_eq!(fired(books.settle(&two.0, two.1)), "");
    assert_eq!(books.purse(account(2)).map(super::Purse::available), Some(100));
}

#[test]
fn a_payment_that_comes_next_and_is_paid_for_is_welcome_and_a_member_that_leaves_it_out_is_told_from_one_that_did()
 {
    let (one, two) = (first(60), pays(2, first(60).1, 41));
    let mut books = books();
    assert!(books.welcomes(&one.0) && !books.welcomes(&two.0), "it is not the next");
    assert!(!books.welcomes(&first(101).0) && !books.welcomes(&first(0).0));
    assert!(books.settle(&one.0, one.1).is_ok());
    assert!(!books.welcomes(&two.0), "no money");
    let mut nowhere = first(5).0;
    nowhere.kind = Kind::Pay(Leg { to: account(9), amount: Units(1) });
    assert!(!books.welcomes(&nowhere));
    let (texts, mut acks) = (shown(&[(BATCH, 1, std::slice::from_ref(&one))]), Acks::new(4));
    assert!(acks.endorse(&texts, (1, 1), ((0, 1), BATCH), &[0], None).is_ok());
    assert!(acks.leaves_out(1, (0, 1), 0) && !acks.leaves_out(2, (0, 1), 0));
    acks.open(1, &[((0, 1), (BATCH, [0].into()))].into());
    assert!(!acks.leaves_out(1, (0, 1), 0), "it has not looked at it since");
    assert!(acks.endorse(&texts, (1, 2), ((0, 1), BATCH), &[], None).is_ok());
    assert!(!acks.leaves_out(1, (0, 1), 0));
    let mut facts = Facts::default();
    facts.open(opening(1, 100));
    assert!(facts.is_customer(account(1), 0) && !facts.is_customer(account(1), 1));
    facts.fault(0);
    assert!(!facts.is_customer(account(1), 0));
}

#[test]
fn what_stands_beside_what_settled_is_not_endorsed() {
    let (one, other) = (first(60), first(50));
    let (two, beside) = (pays(2, one.1, 3), pays(2, other.1, 4));
    let texts =
        shown(&[(BATCH, 1, &[one.clone(), other, two.clone()]), (OTHER, 2, std::slice::from_ref(&beside))]);
    let mut books = books();
    assert!(books.settle(&one.0, one.1).is_ok());
    let purse = books.purse(account(1)).expect("it is open");
    assert!(purse.leads_to(&texts, two.0.id, two.1) && purse.leads_to(&texts, one.0.id, one.1));
    assert!(!purse.leads_to(&texts, beside.0.id, beside.1));
    let mut acks = Acks::new(4);
    acks.hold(1, first(50).1);
    let endorsed = acks.endorse(&texts, (1, 1), ((0, 2), OTHER), &[], Some(&books));
    assert_eq!(fired(endorsed), "A-S4");
}

#[test]
fn what_is_endorsed_behind_what_settled_is_paid_for_and_decides_over_money_once() {
    let (one, two, other) = (first(60), pays(2, first(60).1, 41), pays(3, Hash([7; 32]), 1_000));
    let decides = |n, prev, mark: u128| {
        let (mut entry, _) = pays(n, prev, 1);
        let hold = EntryId { spender: account(2), n: 7 };
        let holds = vec![hold].try_into().expect("one");
        entry.kind = Kind::Resolve { holds, verdict: synod_ledger::Verdict::Void };
        (entry, Hash::of(&mark.to_le_bytes()))
    };
    let (yes, again) = (decides(2, one.1, 1_001), decides(3, Hash::of(&1_001_u128.to_le_bytes()), 1_002));
    let texts = shown(&[(BATCH, 1, &[one.clone(), two.clone(), yes.clone(), again.clone()])]);
    let pays = |books: &Reckoning, of: &(Entry, Hash)| {
        fired(books.purse(account(1)).expect("it is open").pays(&texts, of.0.id, of.1))
    };
    let mut books = books();
    assert_eq!((pays(&books, &one), pays(&books, &two)), ("", "A-S6"));
    assert_eq!((pays(&books, &yes), pays(&books, &again)), ("", "A-S7"));
    assert_eq!(fired(books.settle(&one.0, one.1)), "");
    assert_eq!((pays(&books, &two), pays(&books, &yes), pays(&books, &again)), ("A-S6", "", "A-S7"));
    assert_eq!(pays(&books, &other), "", "it gave way");
}

fn standing(sequence: u64, head: Hash, credits: u128, debits: u128, limit: u128) -> StandingSeen {
    StandingSeen { sequence, head, credits: Some(credits), debits: Some(debits), limit }
}

#[test]
fn a_book_is_what_its_entries_make_of_it_those_among_them_that_were_not_told() {
    let (one, two) = (first(60), pays(2, first(60).1, 40));
    let texts = shown(&[(BATCH, 1, &[one.clone(), two.clone()])]);
    let state = |sequence, head, credits| {
        let accounts = [
            (account(1), standing(sequence, head, 0, 100, 100)),
            (account(2), standing(0, genesis(account(2)), credits, 0, 0)),
        ];
        StateSeen { accounts: accounts.into(), ..StateSeen::default() }
    };
    let met = |books: &mut Reckoning, state: &StateSeen| {
        books.meet(&texts, state).map(|new| new.len()).map_err(|breach| breach.checker)
    };
    assert_eq!(met(&mut books(), &state(2, two.1, 100)), Ok(2));
    assert_eq!(met(&mut books(), &state(2, two.1, 200)), Err("A-S7"), "credited twice");
    assert_eq!(met(&mut books(), &state(2, one.1, 100)), Err("A-S4"), "no chain");
    let mut told = books();
    assert!(told.settle(&one.0, one.1).is_ok());
    assert_eq!(met(&mut told.clone(), &state(2, two.1, 100)), Ok(1));
    assert_eq!(met(&mut told, &state(0, genesis(account(1)), 0)), Err("A-S4"), "what was told is gone");
}

#[test]
fn an_entry_of_a_customer_was_ordered_and_broadcast_and_settles_as_often_as_that() {
    let (one, two) = (first(60), pays(2, first(60).1, 60));
    let mut texts = shown(&[(BATCH, 1, &[one.clone(), two.clone()])]);
    let mut facts = Facts::default();
    assert_eq!(fired(facts.clone().settled(&texts, &one.0, (one.1, one.1))), "A-S2", "it is not open");
    facts.open(opening(1, 100));
    assert_eq!(fired(facts.clone().settled(&texts, &one.0, (one.1, one.1))), "A-S2", "nobody broadcast it");
    texts.broadcast(&BATCH);
    assert_eq!(fired(facts.clone().settled(&texts, &one.0, (one.1, one.1))), "A-S2", "nobody ordered it");
    facts.order(account(1), 60, &one.0.kind);
    assert_eq!(fired(facts.settled(&texts, &one.0, (one.1, one.1))), "");
    assert_eq!(fired(facts.settled(&texts, &one.0, (one.1, one.1))), "", "at another member");
    let again = Hash([8; 32]);
    texts.entry(again, &two.0);
    texts.show(OTHER, BatchSeen { slot: (0, 2), lines: vec![(two.0.id, again)], ..BatchSeen::default() });
    texts.broadcast(&OTHER);
    assert_eq!(fired(facts.clone().settled(&texts, &two.0, (again, again))), "A-S10");
    facts.fault(0);
    assert_eq!(fired(facts.settled(&texts, &two.0, (again, again))), "", "its institution may do anything");
}

#[test]
fn an_owner_signed_what_settles_and_an_account_was_asked_for() {
    let one = first(60);
    let texts = shown(&[(BATCH, 1, std::slice::from_ref(&one))]);
    let mut facts = Facts::default();
    let mut own = opening(1, 100);
    own.terms.owner = Owner::SelfSigned(synod_crypto::PublicKey([3; 32]));
    facts.open(own);
    assert_eq!(fired(facts.clone().settled(&texts, &one.0, (one.1, one.1))), "A-S2");
    facts.sign(one.1);
    assert_eq!(fired(facts.clone().settled(&texts, &one.0, (one.1, one.1))), "");
    assert!(facts.is_sound(account(1)));
    facts.lie(account(1));
    assert!(!facts.is_sound(account(1)));
    assert_eq!(fired(facts.may_open(account(5))), "A-S2");
    facts.want(account(5));
    assert_eq!(fired(facts.may_open(account(5))), "");
}

//! Who waits for what, and is woken by what.

use synod_ledger::{Digests, Flags, Leg, Terms, UserData, Verdict};
use synod_wire::List;

use super::*;
use crate::xlog::Certified;

const ISSUER: AccountId = account(1);
const ANNA: AccountId = account(2);
const BERT: AccountId = account(3);
/// Not open at first.
const CARL: AccountId = account(4);
const LOT: Lot = Lot { source: 3, sequence: 7 };

const fn account(local: u64) -> AccountId {
    AccountId { shard: 0, registrar: 1, local }
}

fn opening(id: AccountId, limit: u128) -> Opening {
    let limit = Units(limit);
    let user_data = UserData::default();
    let terms = Terms { owner: Owner::Custodial(1), recovery: None, limit, code: 1, user_data };
    Opening { id, ledger: 1, terms, limit_max: limit, representative: 1 }
}

fn ledger() -> Ledger {
    let mut book = Book::new(0);
    for (id, limit) in [(ISSUER, 1_000), (ANNA, 0), (BERT, 0)] {
        book.open(&opening(id, limit)).expect("the next account");
    }
    Ledger::new(Profile::Funded, book, 16, BTreeSet::new())
}

fn pay(to: AccountId, amount: u128) -> Kind {
    Kind::Pay(Leg { to, amount: Units(amount) })
}

/// The next entry behind the tip of a log is certified, and what can settle does.
fn certify(ledger: &mut Ledger, spender: AccountId, kind: Kind) -> Settlement {
    let (n, prev) = ledger.tip(spender).expect("open");
    let entry = Entry {
        id: EntryId { spender, n: n + 1 },
        prev,
        kind,
        transfer: 0,
        ledger: 1,
        code: 0,
        user_data: UserData::default(),
        flags: Flags::default(),
    };
    let digest = Digests::default().entry(&entry);
    let line = Line { entry: entry.into(), auth: Auth::Institution };
    assert_eq!(ledger.certify(&line, digest), Certified::Whole);
    let settlement = ledger.settle([spender]);
    ledger.assert_sound();
    settlement
}

fn settled(settlement: &Settlement) -> Vec<AccountId> {
    settlement.entries.iter().map(|settled| settled.line.entry.id.spender).collect()
}

#[test]
fn a_log_that_lacks_money_waits_for_its_own_and_not_for_whomever_it_pays() {
    let mut ledger = ledger();
    assert!(settled(&certify(&mut ledger, ANNA, pay(BERT, 30))).is_empty());
    assert_eq!(ledger.waits.take(Cause::Funds(ANNA)), [(Waiter::Log(ANNA), 0)]);
    assert_eq!(ledger.waits, Waits::default(), "and for nothing else");
    certify(&mut ledger, ANNA, pay(BERT, 1));
    // Everybody pays Bert: that is nothing to Anna.
    for _ in 0..3 {
        assert_eq!(settled(&certify(&mut ledger, ISSUER, pay(BERT, 1))), [ISSUER]);
        assert!(ledger.waits.has(Cause::Funds(ANNA)), "nobody looked");
    }
    assert_eq!(settled(&certify(&mut ledger, ISSUER, pay(ANNA, 31))), [ISSUER, ANNA, ANNA]);
    assert_eq!(ledger.waits, Waits::default());
}

#[test]
fn a_log_waits_for_the_account_that_is_not_open_and_for_the_hold_that_is_not_there() {
    let mut ledger = ledger();
    let legs = |to: &[AccountId]| {
        let legs: Vec<Leg> = to.iter().map(|to| Leg { to: *to, amount: Units(1) }).collect();
        Kind::MultiPay(List::try_from(legs).expect("few"))
    };
    assert!(settled(&certify(&mut ledger, ISSUER, legs(&[ANNA, BERT, CARL]))).is_empty());
    ledger.open_account(&opening(CARL, 0)).expect("the next account");
    assert!(ledger.is_stirred());
    assert_eq!(settled(&ledger.settle(None)), [ISSUER]);
    // Bert decides over two holds of the issuer: the first is there, the second is not.
    let hold = Kind::Hold { to: ANNA, amount: Units(5), resolver: BERT, expires_at: 0 };
    assert_eq!(settled(&certify(&mut ledger, ISSUER, hold.clone())), [ISSUER]);
    let holds = [2, 3].map(|n| EntryId { spender: ISSUER, n });
    let holds = List::try_from(holds.to_vec()).expect("two");
    let resolve = Kind::Resolve { holds, verdict: Verdict::Void };
    assert!(settled(&certify(&mut ledger, BERT, resolve)).is_empty());
    assert_eq!(settled(&certify(&mut ledger, ISSUER, hold)), [ISSUER, BERT]);
    assert_eq!(ledger.waits, Waits::default());
}

#[test]
fn a_batch_waits_once_for_each_log_and_is_let_go_of_as_a_whole() {
    let mut ledger = ledger();
    let left = Left { lot: LOT, spender: ANNA, at: 3 };
    let other = Lot { sequence: 8, ..LOT };
    let place = Cause::Place(EntryId { spender: ANNA, n: 5 });
    ledger.wait(LOT, [(ANNA, 9, place), (BERT, 4, Cause::Funds(BERT))]);
    ledger.wait(LOT, [(ANNA, 3, Cause::Funds(ANNA)), (BERT, 4, Cause::Opening(CARL))]);
    ledger.wait(other, [(ANNA, 1, Cause::Funds(ANNA))]);
    assert_eq!(certify(&mut ledger, ISSUER, pay(BERT, 1)).again, [], "Bert's entry waits for Carl by now");
    let woken = certify(&mut ledger, ISSUER, pay(ANNA, 1)).again;
    assert_eq!(woken, [left, Left { lot: other, at: 1, ..left }]);
    ledger.wait_again(left, Cause::Funds(ANNA));
    ledger.let_go(LOT);
    assert_eq!(certify(&mut ledger, ISSUER, pay(ANNA, 1)).again, []);
    assert_eq!(ledger.waits, Waits::default());
}

#[test]
fn what_gives_way_to_a_certificate_wakes_whoever_wants_its_place_or_its_money() {
    let mut ledger = ledger();
    certify(&mut ledger, ISSUER, pay(ANNA, 10));
    let line = |ledger: &Ledger, amount: u128, transfer: u128| {
        let (n, prev) = ledger.tip(ANNA).expect("open");
        let id = EntryId { spender: ANNA, n: n + 1 };
        let (kind, user_data, flags) = (pay(BERT, amount), UserData::default(), Flags::default());
        let entry = Entry { id, prev, kind, transfer, ledger: 1, code: 0, user_data, flags };
        let digest = Digests::default().entry(&entry);
        (Line { entry: entry.into(), auth: Auth::Institution }, digest)
    };
    let ((accepted, digest), (certified, other)) = (line(&ledger, 10, 1), line(&ledger, 4, 2));
    let place = |n: u64| Cause::Place(EntryId { spender: ANNA, n });
    let other_lot = Lot { sequence: 8, ..LOT };
    ledger.wait(LOT, [(ANNA, 0, place(2))]);
    ledger.wait(other_lot, [(ANNA, 0, place(3))]);
    let by = Authority { lane: 1, key: None };
    assert_eq!(ledger.accept(&accepted, digest, by), Ok(()));
    let woken: Vec<Lot> = ledger.settle(None).again.iter().map(|left| left.lot).collect();
    assert_eq!(woken, [LOT], "the place behind it is the next");
    ledger.let_go(other_lot);
    ledger.wait(LOT, [(ANNA, 0, Cause::Funds(ANNA))]);
    assert_eq!(ledger.certify(&accepted, digest), Certified::Whole);
    assert!(!ledger.is_stirred(), "nothing gave way");
    let mut ledger = Ledger { open: Logs::new(ledger.book().shard()), ..ledger };
    assert_eq!(ledger.accept(&accepted, digest, by), Ok(()));
    ledger.wait(other_lot, [(ANNA, 0, place(1))]);
    assert_eq!(ledger.certify(&certified, other), Certified::Whole);
    assert_eq!(ledger.settle(None).again.len(), 2, "one wants its money, one its place");
}

/// The first places of Anna's log: `count` payments of one unit, named after `which` from place `fork` on.
fn log_of_anna(count: u64, fork: u64, which: u128) -> Vec<(Line, Hash)> {
    let mut prev = synod_ledger::genesis(ANNA);
    let lines = (1..=count).map(|n| {
        let (id, transfer) = (EntryId { spender: ANNA, n }, if n < fork { 0 } else { which });
        let (kind, user_data, flags) = (pay(BERT, 1), UserData::default(), Flags::default());
        let entry = Entry { id, prev, kind, transfer, ledger: 1, code: 0, user_data, flags };
        prev = Digests::default().entry(&entry);
        (Line { entry: entry.into(), auth: Auth::Institution }, prev)
    });
    lines.collect()
}

/// In profile II the certificate of an entry says nothing of those before it: without their own they never settle.
#[test]
fn where_certificates_do_not_descend_an_entry_below_a_certified_one_is_endorsed_if_that_one_names_it() {
    let (log, other) = (log_of_anna(4, 1, 1), log_of_anna(2, 2, 9));
    for profile in [Profile::II, Profile::Funded] {
        let book = ledger().book().clone();
        let mut ledger = Ledger::new(profile, book, 16, BTreeSet::new());
        let by = Authority { lane: 1, key: None };
        ledger.open_account(&opening(CARL, 0)).expect("the next account");
        let accept = |ledger: &mut Ledger, at: &(Line, Hash)| ledger.accept(&at.0, at.1, by);
        if profile == Profile::Funded {
            // There, what is below a certified entry comes by that one's chain and is not endorsed by anybody.
            let whole = ledger.certify(&log[2].0, log[2].1);
            assert_eq!(whole, Certified::Missing(log[1].0.entry.id, log[1].1));
            assert_eq!(accept(&mut ledger, &log[0]), Err(Code::SequenceGap));
            continue;
        }
        assert_eq!(accept(&mut ledger, &log[0]), Ok(()));
        for above in &log[2..] {
            assert_eq!(ledger.certify(&above.0, above.1), Certified::Whole);
        }
        assert_eq!(accept(&mut ledger, &other[1]), Err(Code::SequenceGap), "the third place names another");
        assert_eq!(accept(&mut ledger, &log[1]), Ok(()));
        ledger.assert_sound();
        assert_eq!(ledger.tip(ANNA), Some((4, log[3].1)), "the log is whole");
        drop(ledger.settle(None));
    }
}

//! A book with an issuer and a few customers, and short ways to write entries.

use synod_crypto::Hash;
use synod_ledger::{
    AccountId, Book, Code, Digests, Entry, EntryId, Flags, Kind, Leg, Opening, Owner, Terms, Total, Units,
    UserData,
};
use synod_quorum::PublicKey;
use synod_wire::List;

/// Ledger of all accounts but those of [`FOREIGN_LEDGER`].
pub(crate) const EURO: u32 = 978;
/// Another.
pub(crate) const FOREIGN_LEDGER: u32 = 840;
/// May go down to -1,000.
pub(crate) const ISSUER: AccountId = account(1);
/// Customers.
pub(crate) const ANNA: AccountId = account(2);
pub(crate) const BERT: AccountId = account(3);
pub(crate) const CARL: AccountId = account(4);
/// A customer of [`FOREIGN_LEDGER`].
pub(crate) const DORA: AccountId = account(5);
/// Someone at home elsewhere.
pub(crate) const ABROAD: AccountId = AccountId { shard: 7, registrar: 1, local: 9 };
/// Nobody.
pub(crate) const NOBODY: AccountId = account(99);

const fn account(local: u64) -> AccountId {
    AccountId { shard: 0, registrar: 1, local }
}

pub(crate) fn opening(id: AccountId, limit: u128) -> Opening {
    let owner = Owner::SelfSigned(PublicKey([7; 32]));
    let terms = Terms { owner, recovery: None, limit: Units(limit), code: 1, user_data: UserData::default() };
    Opening { id, ledger: EURO, terms, limit_max: Units(limit), representative: 0 }
}

/// A book with these accounts, all empty.
pub(crate) fn book() -> Book {
    let mut book = Book::new(0);
    book.open(&opening(ISSUER, 1_000)).expect("the issuer opens");
    for id in [ANNA, BERT, CARL] {
        book.open(&opening(id, 0)).expect("a customer opens");
    }
    book.open(&Opening { ledger: FOREIGN_LEDGER, ..opening(DORA, 0) }).expect("Dora opens");
    book
}

/// The same after the issuer paid Anna.
pub(crate) fn with(anna: u128) -> Book {
    let mut book = book();
    assert_eq!(put(&mut book, ISSUER, pay(ANNA, anna)), Ok(()));
    book
}

pub(crate) fn pay(to: AccountId, amount: u128) -> Kind {
    Kind::Pay(leg(to, amount))
}

pub(crate) fn leg(to: AccountId, amount: u128) -> Leg {
    Leg { to, amount: Units(amount) }
}

pub(crate) fn legs(legs: &[(AccountId, u128)]) -> Kind {
    let legs: Vec<Leg> = legs.iter().map(|(to, amount)| leg(*to, *amount)).collect();
    Kind::MultiPay(List::try_from(legs).expect("at most 64"))
}

pub(crate) fn hold(to: AccountId, amount: u128, resolver: AccountId) -> Kind {
    Kind::Hold { to, amount: Units(amount), resolver, expires_at: 0 }
}

/// The next entry of a log.
pub(crate) fn next(book: &Book, spender: AccountId, kind: Kind) -> Entry {
    let account = book.account(spender);
    let (n, prev) = account.map_or((1, Hash::ZERO), |account| (account.sequence() + 1, account.head()));
    Entry {
        id: EntryId { spender, n },
        prev,
        kind,
        transfer: u128::from(n),
        ledger: EURO,
        code: 0,
        user_data: UserData::default(),
        flags: Flags::default(),
    }
}

/// An entry of somebody of another shard.
pub(crate) fn incoming(n: u64, to: &[(AccountId, u128)]) -> Entry {
    let id = EntryId { spender: ABROAD, n };
    Entry { id, ..next(&book(), ABROAD, legs(to)) }
}

/// Settles the next entry of a log.
pub(crate) fn put(book: &mut Book, spender: AccountId, kind: Kind) -> Result<(), Code> {
    let entry = next(book, spender, kind);
    book.apply(&entry, Digests::default().entry(&entry))
}

/// What an account can spend.
pub(crate) fn available(book: &Book, id: AccountId) -> Total {
    book.available(id).expect("the account is open")
}

/// Credits, debits and holds of every account of a ledger.
pub(crate) fn sums(book: &Book, ledger: u32) -> (Total, Total, Total) {
    let mut sums = (Total::ZERO, Total::ZERO, Total::ZERO);
    for (_, account) in book.accounts().filter(|(_, account)| account.ledger() == ledger) {
        sums.0 = sums.0.checked_add(account.credits_posted()).expect("small");
        sums.1 = sums.1.checked_add(account.debits_posted()).expect("small");
        sums.2 = sums.2.checked_add(account.debits_pending()).expect("small");
    }
    sums
}

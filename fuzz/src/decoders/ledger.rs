//! The ledger: entries, openings, parts of a book, proofs over sums, names of accounts.

use synod_ledger::{
    AccountId, Amount, Book, Code, Digests, Entry, Node, Opened, Opening, Part, SumLeaf, SumPath, Units,
};
use synod_wire::{Bytes, Draw, Drawn, Limits, Wire};

use super::wires;
use crate::check::{accept, drawn, wire};
use crate::{Kind, Target};

wires! {
    "ledger-opening" opening Opening;
    "ledger-code" code Code;
    "ledger-leaf" leaf SumLeaf;
    "ledger-node" node Node;
    "ledger-opened" opened Opened;
    "ledger-sum-path" sum_path SumPath;
    and Target::new("ledger-entry", Kind::Decoder, entry, drawn::<Entry>);
    and Target::new("ledger-part", Kind::Decoder, part, drawn::<Part>);
    and Target::new("ledger-name", Kind::Slow, name, names);
}

/// Decodes an entry, and adds up what it takes: a rule over foreign numbers, so it must be total.
///
/// # Panics
/// With the property that broke, or where an entry takes less than one of its legs.
pub fn entry(bytes: &[u8]) {
    wire::<Entry>(bytes);
    let Ok(entry) = Entry::decode(Bytes::copy_from_slice(bytes), &Limits::default()) else { return };
    let cost = entry.cost(Units(u128::MAX));
    let legs: &[synod_ledger::Leg] = match &entry.kind {
        synod_ledger::Kind::Pay(leg) | synod_ledger::Kind::Close(leg) => std::slice::from_ref(leg),
        synod_ledger::Kind::MultiPay(legs) => legs,
        _ => &[],
    };
    assert!(legs.iter().all(|leg| synod_ledger::Total::of(leg.amount.0) <= cost), "a leg is not paid for");
    assert!(legs.iter().all(|leg| entry.names().any(|id| id == leg.to)), "a beneficiary is not named");
    let mut other = entry.clone();
    other.transfer ^= 1;
    assert_ne!(Digests::default().entry(&entry), Digests::default().entry(&other), "one digest for two");
}

/// Decodes a part of a book, and takes it into an empty one: it is refused, or the book gives it back.
///
/// # Panics
/// With the property that broke.
pub fn part(bytes: &[u8]) {
    wire::<Part>(bytes);
    let Ok(part) = Part::decode(Bytes::copy_from_slice(bytes), &Limits::default()) else { return };
    let shard = match &part {
        Part::Account(standing) => standing.opening.id.shard,
        _ => 0,
    };
    let mut book = Book::new(shard);
    let taken = book.restore(part.clone());
    let mut parts = Vec::new();
    book.parts(&mut |part| parts.push(part));
    match taken {
        Ok(()) => assert_eq!(parts, [part], "a book is not what it was made of"),
        Err(_) => assert!(parts.is_empty(), "a refused part changed the book"),
    }
}

/// Reads the name of an account, and an amount in front of it.
///
/// # Panics
/// When a name that is written again is another one, or stands for another number.
pub fn name(bytes: &[u8]) {
    let Ok(text) = core::str::from_utf8(bytes) else { return };
    let Ok(id) = text.parse::<AccountId>() else { return };
    accept();
    assert_eq!(id.to_string().parse(), Ok(id), "a name does not come back");
    assert_eq!(AccountId::try_from(id.number()), Ok(id), "a number does not come back");
    assert_eq!(id.number().to_string().parse(), Ok(id), "a number in words does not come back");
    let units = Units(id.number());
    assert_eq!(Amount::new(units).is_ok(), units.0 > 0 && units.0 < 1 << 96, "amounts have 96 bits");
}

fn names(from: &mut Drawn) -> Vec<u8> {
    let id = AccountId { local: 1 + u64::from(u32::draw(from)), ..AccountId::draw(from) };
    let text = if bool::draw(from) { id.to_string() } else { id.number().to_string() };
    text.into_bytes()
}

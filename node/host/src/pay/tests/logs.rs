//! The log of a node: every record once, in pages and in a file.

use std::io::BufReader;

use synod_astro::audit::{Format, Head, Item};
use synod_astro::{Level, Output};
use synod_crypto::Hash;
use synod_machine::broadcast::Lot;
use synod_wire::{Bytes, Limits, Wire as _};

use super::Counter;
use super::receipts::{batch, certified, two, word};
use crate::pay::{Frames, Unreadable, Write};

/// All records of a log that is read in pages of what is left at each.
fn read(counter: &Counter, until: u64) -> Vec<Item> {
    let (mut items, mut from): (Vec<Item>, Option<Bytes>) = (Vec::new(), None);
    loop {
        let page = counter.teller.index().log(from.as_deref(), until);
        items.extend(
            page.records
                .into_iter()
                .map(|record| Item::decode(record, &Limits::default()).expect("a record")),
        );
        from = page.next;
        if from.is_none() {
            return items;
        }
    }
}

#[test]
fn what_came_from_another_shard_stands_in_histories_and_not_in_the_log() {
    let counter = Counter::new();
    let [one, two] = two();
    let abroad = |n| {
        let mut draft = super::draft(&super::paying(7, super::account(0, 1), 5));
        draft.spender.shard = 1;
        super::entry(&draft, n)
    };
    let (came, more) = (abroad(1), abroad(2));
    let payer = came.0.id.spender;
    counter.settled(1, one.clone());
    let entries = vec![(came.0.clone().into(), came.1), (more.0.into(), more.1)];
    counter.teller.hear(Output::Imported { first: 2, entries });
    counter.settled(4, two.clone());
    let counter = counter.again();
    let index = counter.teller.index();
    assert_eq!(index.position(), 4, "positions count both");
    let history = |id| index.history(id, 0, 9).entries;
    let found = history(super::account(0, 1));
    let seen: Vec<_> = found.iter().map(|row| (row.position, row.place().spender, row.level)).collect();
    assert!(seen.contains(&(2, payer, Level::Certified)) && seen.contains(&(3, payer, Level::Certified)));
    assert_eq!(index.changes(1, 9).entries.len(), 3);
    assert_eq!(read(&counter, u64::MAX), [Item::Settled(one.0), Item::Settled(two.0)]);
    assert_eq!(index.named((7, payer)).map(|known| known.digest), Some(came.1), "the first of its name");
}

#[test]
fn the_log_has_what_settled_in_its_order_and_then_what_proves_it() {
    let counter = Counter::new();
    assert_eq!(read(&counter, u64::MAX), []);
    let [one, two] = two();
    let (first, second) = (batch(1, std::slice::from_ref(&one.0)), batch(2, std::slice::from_ref(&two.0)));
    for (position, opened, paid) in [(1, &first, &one), (2, &second, &two)] {
        counter.teller.hear(certified(opened, &[]));
        counter.settled(position, paid.clone());
    }
    counter.teller.hear(word(&second, 1));
    counter.kept();
    let items = read(&counter, u64::MAX);
    assert_eq!(items[..2], [Item::Settled(one.0.clone()), Item::Settled(two.0)]);
    let lots = items[2..4].iter().map(|item| match item {
        Item::Batch(carried) => carried.header.lot,
        other => panic!("{other:?} is no batch"),
    });
    assert_eq!(lots.collect::<Vec<_>>(), [1, 2].map(|sequence| Lot { source: 0, sequence }));
    assert!(items[4..6].iter().all(|item| matches!(item, Item::Certificate(_))));
    assert!(matches!(items[6..], [Item::Word(_)]));
    // What settled later than its reader began is left out; what proves it is no harm.
    let early = read(&counter, 1);
    assert_eq!((early.len(), &early[0]), (items.len() - 1, &items[0]));
    assert_eq!(read(&counter, 0).len(), items.len() - 2);
    // From the middle, by any key that was not there.
    assert_eq!(counter.teller.index().log(Some(b"z"), u64::MAX).records, Vec::<Bytes>::new());
}

#[test]
fn a_log_in_pages_has_every_record_once() {
    let counter = Counter::new();
    let mut prev = Hash::ZERO;
    let count = 6_000_u64;
    for n in 1..=count {
        let (mut entry, _) = super::entry(&super::draft(&super::order(u128::from(n), 5)), n);
        entry.prev = prev;
        prev = synod_ledger::Digests::default().entry(&entry);
        counter.settled(n, (entry, prev));
    }
    counter.kept();
    let first = counter.teller.index().log(None, u64::MAX);
    assert!(first.next.is_some() && (first.records.len() as u64) < count, "one page has all: no test");
    let read = read(&counter, u64::MAX);
    let ns = read.iter().map(|item| match item {
        Item::Settled(entry) => entry.id.n,
        other => panic!("{other:?} did not settle"),
    });
    assert!(ns.eq(1..=count));
}

fn head() -> Head {
    Head { format: Format::First, cluster: Hash([4; 32]), shard: 0, member: 2 }
}

fn written(records: &[Bytes]) -> Vec<u8> {
    let mut log = Write::begin(Vec::new(), &head()).expect("memory");
    for record in records {
        log.record(record).expect("memory");
    }
    let (bytes, count) = log.end().expect("memory");
    assert_eq!(count, records.len() as u64);
    bytes
}

/// Every record, or why there are no more.
fn read_file(bytes: &[u8]) -> Result<Vec<(u64, Item)>, Unreadable> {
    let mut frames = Frames::open(BufReader::with_capacity(7, bytes))?;
    assert_eq!(frames.head().shard, head().shard);
    let mut all = Vec::new();
    while let Some(next) = frames.next_item()? {
        all.push(next);
    }
    Ok(all)
}

#[test]
fn a_file_that_was_cut_off_changed_or_added_to_is_told_from_a_whole_one() {
    let [one, two] = two();
    let items = [Item::Settled(one.0), Item::Settled(two.0)];
    let bytes = written(&items.each_ref().map(synod_wire::Wire::encode));
    let whole = read_file(&bytes).expect("it is whole");
    assert_eq!(whole, (1..).zip(items).collect::<Vec<_>>());
    for length in 0..bytes.len() {
        let cut = read_file(&bytes[..length]);
        assert!(matches!(cut, Err(Unreadable::NoLog | Unreadable::Short(_))), "{length}: {cut:?}");
    }
    let mut longer = bytes.clone();
    longer.push(0);
    assert!(matches!(read_file(&longer), Err(Unreadable::Long)));
    let mut changed = 0;
    for at in 0..bytes.len() {
        let mut other = bytes.clone();
        other[at] ^= 1;
        // The shard stands in the head, which the reader above asks for.
        if Frames::open(&other[..]).is_ok_and(|frames| frames.head().shard != 0) {
            continue;
        }
        assert!(read_file(&other).is_err(), "byte {at} was changed unseen");
        changed += 1;
    }
    assert!(changed > bytes.len() / 2);
    assert!(matches!(read_file(b"synodlog\xff\xff\xff\xff"), Err(Unreadable::Short(0))));
}

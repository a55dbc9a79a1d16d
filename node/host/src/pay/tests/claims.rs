//! Which file a node takes for its index.

use synod_config::{SynError, code};
use synod_crypto::Hash;
use synod_ledger::{Entry, Kind, Verdict};
use synod_machine::broadcast::Position;
use synod_service::{Change, StateStore as _};
use synod_store::{Options, Store};
use synod_wire::{Bytes, Wire as _};

use super::{Folder, account, claim, draft, entry, order};
use crate::pay::rows::place;
use crate::pay::{Claim, Index, Kept, Level, Named, Order, Seat, What};

/// An index with so many entries.
fn with(entries: u64) -> Folder {
    let folder = Folder::new();
    let index = Index::open(&folder.0, &claim()).expect("an index");
    let all = (1..=entries).map(|n| Kept::Settled(n, entry(&draft(&order(u128::from(n), 5)), n).0.into()));
    assert_eq!(index.keep(all.collect()), entries);
    folder
}

fn open(folder: &Folder, claim: &Claim) -> Result<u64, SynError> {
    Index::open(&folder.0, claim).map(|index| index.position())
}

fn refused(folder: &Folder, claim: &Claim, why: &str) {
    let error = open(folder, claim).expect_err("it is refused");
    assert_eq!(error.code(), code::PAY_INDEX);
    assert!(error.message().contains(why), "{}", error.message());
}

#[test]
fn an_index_that_is_as_far_as_the_log_says_is_taken() {
    for (kept, last) in [(0, 3), (3, 3), (2, 9), (0, u64::MAX)] {
        assert_eq!(open(&with(3), &Claim { kept, last, ..claim() }).ok(), Some(3), "{kept} to {last}");
    }
    assert_eq!(open(&Folder::new(), &Claim { last: 9, ..claim() }).ok(), Some(0), "none has been yet");
}

#[test]
fn an_index_that_is_gone_is_not_made_anew() {
    let (folder, claim) = (with(3), Claim { kept: 3, last: 3, ..claim() });
    let file = folder.0.join("pay.redb");
    std::fs::remove_file(&file).expect("it is there");
    for _ in 0..2 {
        refused(&folder, &claim, "it is missing, and had 3 entries");
        assert!(!file.exists(), "nothing stands in its place");
    }
}

#[test]
fn an_index_of_another_time_is_refused() {
    refused(&with(3), &Claim { kept: 4, last: 5, ..claim() }, "it has 3 entries");
    refused(&with(3), &Claim { kept: 0, last: 2, ..claim() }, "at least 0 and at most 2");
}

#[test]
fn an_index_of_another_node_or_cluster_is_refused() {
    let folder = with(3);
    refused(&folder, &Claim { member: 1, ..claim() }, "another node");
    refused(&folder, &Claim { cluster: Hash([5; 32]), ..claim() }, "another node");
    assert_eq!(open(&folder, &claim()).ok(), Some(3), "it is its own node's still");
}

#[test]
fn a_file_that_is_no_index_is_refused() {
    let folder = Folder::new();
    std::fs::write(folder.0.join("pay.redb"), vec![7; 10_000]).expect("a folder");
    refused(&folder, &claim(), "it cannot be opened");
}

/// A row of the index of an earlier release.
fn put(kind: u8, parts: &[&[u8]], value: &[u8]) -> Change {
    let key: Vec<u8> = std::iter::once(&[kind][..]).chain(parts.iter().copied()).flatten().copied().collect();
    Change::Put(key.into(), Bytes::copy_from_slice(value))
}

/// What an earlier release wrote, with this mark, or none.
fn written_earlier(entries: &[Entry], has_positions: bool, mark: Option<&[u8]>) -> Folder {
    let folder = Folder::new();
    let mut rows: Vec<Change> = mark.map(|mark| put(b'm', &[], mark)).into_iter().collect();
    for (position, entry) in (1_u64..).zip(entries) {
        let (at, of) = (place(entry.id), position.to_be_bytes());
        // Every third is stable.
        let level = if position.is_multiple_of(3) { 3 } else { 1 };
        let row: Vec<u8> = of.into_iter().chain([level]).chain(entry.encode()).collect();
        rows.push(put(b'e', &[&at], &row));
        rows.push(put(b't', &[&entry.transfer.to_be_bytes(), &at], &[]));
        rows.push(put(b'h', &[&entry.id.spender.to_be_bytes(), &of], &at));
        rows.push(put(b'l', &[&at, &[2], &7_u64.to_be_bytes()], &[]));
        rows.extend(has_positions.then(|| put(b'p', &[&of], &at)));
    }
    let mut store = Store::open(&folder.0.join("pay.redb"), Options::default()).expect("a folder");
    store.commit(Position(entries.len() as u64), rows);
    folder
}

/// The mark that earlier releases wrote.
fn earlier_mark() -> Vec<u8> {
    claim().cluster.0.into_iter().chain(claim().member.to_be_bytes()).collect()
}

#[test]
fn an_index_of_an_earlier_release_is_taken_with_all_that_it_has() {
    let hold = |id| {
        let (to, resolver) = (account(1, 2), account(0, 1));
        Order { what: What::Hold { to, amount: 60, resolver, expires_at: 9 }, ..order(id, 1) }
    };
    let mut entries: Vec<Entry> = (1..=20).map(|n| entry(&draft(&order(u128::from(n), 5)), n).0).collect();
    let [open, decided] = [21, 22].map(|n| entry(&draft(&hold(u128::from(n))), n).0);
    let holds = vec![decided.id].try_into().expect("one");
    let kind = Kind::Resolve { holds, verdict: Verdict::Void };
    let void = Entry { kind, ..entry(&draft(&order(23, 1)), 23).0 };
    entries.extend([open.clone(), decided.clone(), void.clone()]);
    let mark = earlier_mark();
    for (has_positions, mark) in [(true, Some(&*mark)), (false, Some(&*mark)), (false, None)] {
        let folder = written_earlier(&entries, has_positions, mark);
        // A crash left what it had written.
        std::fs::write(folder.0.join("pay.redb.new"), b"half").expect("a folder");
        for _ in 0..2 {
            let index = Index::open(&folder.0, &claim()).expect("an index");
            let changes = index.changes(0, 99).entries;
            assert!(changes.iter().map(|known| &*known.entry).eq(entries.iter()), "{has_positions}");
            let stable =
                changes.iter().filter(|known| known.level == Level::Stable).map(|known| known.position);
            assert!(stable.eq((1..=23).filter(|position| position % 3 == 0)));
            for entry in &entries {
                let named = index.named((entry.transfer, account(0, 1))).expect("it is known");
                assert_eq!((&*named.entry, index.payers(entry.transfer)), (entry, vec![account(0, 1)]));
                assert_eq!(index.known().batches(index.read(), entry.id, 9), [(2, 7)]);
            }
            assert_eq!(index.history(account(1, 2), 0, 99).entries.len(), 23);
            let holds = |id| index.open_holds(&Named { id, payer: None }, account(0, 1));
            assert_eq!(holds(21).into_iter().map(|hold| hold.entry.id).collect::<Vec<_>>(), [open.id]);
            assert!(holds(22).is_empty(), "it is decided");
            assert_eq!(index.decided(decided.id).map(|by| by.entry.id), Some(void.id));
        }
        assert!(!folder.0.join("pay.redb.new").exists());
        refused(&folder, &Claim { member: 1, ..claim() }, "another node");
    }
}

#[test]
fn an_index_of_an_earlier_release_that_lacks_a_payment_stays_as_it_is() {
    let entries: Vec<Entry> = (1..=5).map(|n| entry(&draft(&order(u128::from(n), 5)), n).0).collect();
    let folder = written_earlier(&entries, true, Some(&earlier_mark()));
    let file = folder.0.join("pay.redb");
    let mut store = Store::open(&file, Options::default()).expect("it is there");
    let lost = [&b"e"[..], &place(entries[2].id)].concat();
    store.commit(Position(5), vec![Change::Delete(lost.into())]);
    drop(store);
    for _ in 0..2 {
        refused(&folder, &claim(), "it cannot be written anew");
    }
    refused(&folder, &Claim { kept: 6, last: 9, ..claim() }, "it has 5 entries");
    assert!(
        Store::open(&file, Options::default())
            .expect("it is there")
            .get(b"m")
            .is_some_and(|mark| mark.len() == 36)
    );
}

#[test]
fn an_index_of_a_newer_release_is_refused() {
    let mark = [earlier_mark(), vec![3]].concat();
    let folder = written_earlier(&[], true, Some(&mark));
    refused(&folder, &claim(), "a newer release wrote it");
}

#[test]
fn an_index_that_lost_rows_is_refused() {
    let without = |folder: &Folder, kind: u8, position: u64| {
        let path = folder.0.join("pay.redb");
        let mut store = Store::open(&path, Options::default()).expect("it is there");
        let lost = store.scan(&[kind], 1).remove(0).0;
        assert_eq!(lost[0], kind);
        store.commit(Position(position), vec![Change::Delete(lost)]);
    };
    let folder = with(200);
    without(&folder, b's', 200);
    refused(&folder, &claim(), "some of its rows are missing");
    // The filter of a run.
    let folder = with(200);
    let store = Store::open(&folder.0.join("pay.redb"), Options::default()).expect("it is there");
    let index = Index::of(store, Seat::default(), 64).expect("an index");
    index.keep(vec![Kept::Settled(201, entry(&draft(&order(201, 5)), 201).0.into())]);
    assert_eq!(index.known().runs.all.len(), 1);
    drop(index);
    without(&folder, b'f', 201);
    refused(&folder, &claim(), "some of its rows are missing");
}

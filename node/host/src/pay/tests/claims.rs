//! Which file a node takes for its index.

use synod_config::{SynError, code};
use synod_crypto::Hash;
use synod_ledger::{Entry, Kind, Verdict};
use synod_machine::broadcast::Position;
use synod_service::{Change, StateStore as _};
use synod_store::{Options, Store};

use super::{Folder, account, claim, draft, entry, order};
use crate::pay::{Claim, Index, Kept, Named, Order, What};

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

/// Earlier builds wrote no mark, and no rows of open holds.
#[test]
fn an_index_of_an_earlier_build_is_taken_with_its_open_holds() {
    let (folder, hold) = (Folder::new(), |id| {
        let (to, resolver) = (account(1, 2), account(0, 1));
        Order { what: What::Hold { to, amount: 60, resolver, expires_at: 9 }, ..order(id, 1) }
    });
    let index = Index::open(&folder.0, &claim()).expect("an index");
    let [open, decided] = [entry(&draft(&hold(8)), 1).0, entry(&draft(&hold(9)), 2).0];
    let holds = vec![decided.id].try_into().expect("one");
    let void =
        Entry { kind: Kind::Resolve { holds, verdict: Verdict::Void }, ..entry(&draft(&order(10, 1)), 3).0 };
    index.keep(
        (1..).zip([open.clone(), decided, void]).map(|(at, one)| Kept::Settled(at, one.into())).collect(),
    );
    drop(index);
    let mut store = Store::open(&folder.0.join("pay.redb"), Options::default()).expect("the file");
    let news = [&b"m"[..], b"o"].map(|kind| store.scan(kind, 1).remove(0).0);
    store.commit(Position(3), news.into_iter().map(Change::Delete).collect());
    drop(store);
    for _ in 0..2 {
        let index = Index::open(&folder.0, &claim()).expect("an index");
        let holds = |id| index.open_holds(&Named { id, payer: None }, account(0, 1));
        assert_eq!(holds(8).into_iter().map(|hold| hold.entry.id).collect::<Vec<_>>(), [open.id]);
        assert!(holds(9).is_empty(), "it is decided");
    }
    refused(&folder, &Claim { member: 1, ..claim() }, "another node");
}

/// An index of an earlier build has no rows by position: they are made when it is opened.
#[test]
fn an_index_without_rows_by_position_gets_them() {
    let folder = with(3);
    let mut store = Store::open(&folder.0.join("pay.redb"), Options::default()).expect("it is there");
    let rows = store.scan(b"p", 9);
    let gone: Vec<Change> = rows
        .iter()
        .filter(|(key, _)| key.starts_with(b"p"))
        .map(|(key, _)| Change::Delete(key.clone()))
        .collect();
    assert_eq!(gone.len(), 3);
    store.commit(Position(3), gone);
    drop(store);
    let index = Index::open(&folder.0, &claim()).expect("an index");
    let positions: Vec<u64> = index.changes(0, 9).entries.iter().map(|known| known.position).collect();
    assert_eq!(positions, [1, 2, 3]);
}

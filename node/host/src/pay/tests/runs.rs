//! What an index knows stays the same while its records go from memory to runs and from runs to larger ones, and across restarts at any time.

use std::collections::BTreeMap;

use synod_ledger::Entry;
use synod_machine::broadcast::Position;
use synod_service::StateStore as _;
use synod_store::{Options, Store};

use super::{Folder, account, draft, entry};
use crate::pay::{AccountId, Index, Kept, Level, Order, Seat, What};

/// Entries in memory that become a run here.
const SEAL: usize = 64;

fn open(folder: &Folder) -> Index {
    let store = Store::open(&folder.0.join("pay.redb"), Options::default()).expect("a folder");
    Index::of(store, Seat::default(), SEAL).expect("an index")
}

/// Numbers as they come, the same in each run.
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) % bound
    }
}

/// What a plain list says of payments.
#[derive(Default)]
struct Plain {
    entries: Vec<Entry>,
    levels: BTreeMap<u64, Level>,
    next: BTreeMap<AccountId, u64>,
}

impl Plain {
    /// Another payment; names are used by several payers, and one payer uses some twice.
    fn pay(&mut self, draw: &mut Draw) -> (u64, Entry) {
        let of = |number: u64| account(u32::try_from(number % 4).expect("small"), 2 + number / 4);
        let (from, to) = (of(draw.below(24)), of(draw.below(24)));
        let n = self.next.entry(from).or_insert(0);
        *n += 1;
        let (id, amount) = (u128::from(draw.below(3_000)) << 70, u128::from(draw.below(9) + 1));
        let order = Order { id, from, what: What::Pay { to, amount }, ledger: 1, code: 0 };
        let (entry, _) = entry(&draft(&order), *n);
        self.entries.push(entry.clone());
        (self.entries.len() as u64, entry)
    }

    fn positions(&self, is_meant: impl Fn(&Entry) -> bool) -> Vec<u64> {
        (1..).zip(&self.entries).filter(|(_, entry)| is_meant(entry)).map(|(position, _)| position).collect()
    }

    fn compare(&self, index: &Index, draw: &mut Draw) {
        assert_eq!(index.position(), self.entries.len() as u64);
        for _ in 0..40 {
            let at = draw.below(self.entries.len() as u64);
            let entry = &self.entries[usize::try_from(at).expect("an index")];
            let known = index.entry(entry.id).expect("it settled");
            let level = self.levels.get(&(at + 1)).copied().unwrap_or(Level::Certified);
            assert_eq!((&*known.entry, known.position, known.level), (entry, at + 1, level));
            let (name, payer) = (entry.transfer, entry.id.spender);
            let first = self.positions(|entry| (entry.transfer, entry.id.spender) == (name, payer))[0];
            let named = [index.named((name, payer)), index.all_named_once(&[(name, payer)]).remove(0)];
            assert!(named.iter().all(|known| known.as_ref().is_some_and(|known| known.position == first)));
            let of_name = self.entries.iter().filter(|entry| entry.transfer == name);
            let mut payers: Vec<AccountId> = of_name.map(|entry| entry.id.spender).collect();
            payers.sort_unstable();
            payers.dedup();
            payers.truncate(2);
            assert_eq!(index.payers(name), payers);
            assert_eq!(index.named((name + 1, payer)), None);
        }
        let after = draw.below(self.entries.len() as u64);
        let who = account(1, 2);
        let told = |entry: &Entry| entry.id.spender == who || entry.names().any(|name| name == who);
        let wanted = self.positions(told).into_iter().filter(|position| *position > after).take(50);
        let history = index.history(who, after, 50);
        assert!(history.entries.iter().map(|known| known.position).eq(wanted));
        let changes = index.changes(after, 30).entries;
        assert!(changes.iter().map(|known| known.position).eq((after + 1..).take(changes.len())));
    }
}

#[test]
fn an_index_says_the_same_from_memory_and_from_runs_and_after_restarts() {
    let (folder, mut draw, mut plain) = (Folder::new(), Draw(1), Plain::default());
    let mut index = open(&folder);
    let mut runs = 0;
    for round in 0..260_u64 {
        let paid: Vec<(u64, Entry)> = (0..draw.below(70)).map(|_| plain.pay(&mut draw)).collect();
        let mut news: Vec<Kept> =
            paid.into_iter().map(|(position, entry)| Kept::Settled(position, entry.into())).collect();
        // Of any that settled, now or long ago.
        for _ in 0..draw.below(20).min(plain.entries.len() as u64) {
            let at = draw.below(plain.entries.len() as u64);
            let entry = &plain.entries[usize::try_from(at).expect("an index")];
            let level = if draw.below(2) == 0 { Level::Settled } else { Level::Stable };
            news.push(Kept::Level(entry.id, entry.transfer, level));
            let known = plain.levels.entry(at + 1).or_insert(level);
            *known = level.max(*known);
        }
        index.keep(news);
        if round % 9 == 8 {
            drop(index);
            index = open(&folder);
        }
        if round % 5 == 0 && !plain.entries.is_empty() {
            plain.compare(&index, &mut draw);
        }
        runs = runs.max(index.known().runs.all.len());
    }
    assert!(plain.entries.len() > 64 * SEAL, "{} entries: no run of runs of runs", plain.entries.len());
    assert!((8..32).contains(&runs), "{runs} runs");
    plain.compare(&index, &mut draw);
}

/// Pages of runs that became one go, and so do those of one that a crash left half written.
#[test]
fn what_no_list_has_goes() {
    let (folder, mut draw, mut plain) = (Folder::new(), Draw(2), Plain::default());
    let mut index = open(&folder);
    let pay = |index: &Index, plain: &mut Plain, draw: &mut Draw, count: usize| {
        let news = (0..count).map(|_| plain.pay(draw)).map(|(at, entry)| Kept::Settled(at, entry.into()));
        index.keep(news.collect());
    };
    (0..40).for_each(|_| pay(&index, &mut plain, &mut draw, SEAL));
    drop(index);
    // A run that a crash left.
    let mut store = Store::open(&folder.0.join("pay.redb"), Options::default()).expect("it is there");
    let position = store.position();
    let stray = [&b"rn"[..], &7_000_u32.to_be_bytes(), &[9; 40]].concat();
    store.commit(position, vec![synod_service::Change::Put(stray.into(), vec![9; 40].into())]);
    drop(store);
    index = open(&folder);
    plain.compare(&index, &mut draw);
    (0..60).for_each(|_| pay(&index, &mut plain, &mut draw, 1));
    plain.compare(&index, &mut draw);
    let listed: Vec<u32> = index.known().runs.numbers().collect();
    let rows = index.read().scan(b"r", usize::MAX).into_iter().filter(|(key, _)| key.starts_with(b"r"));
    let written = rows.map(|(key, _)| u32::from_be_bytes(key[2..6].try_into().expect("a number")));
    let written: std::collections::BTreeSet<u32> = written.collect();
    assert!(written.iter().all(|run| listed.contains(run)), "{written:?} and {listed:?}");
    assert_eq!(index.position(), Position(40 * SEAL as u64 + 60).0);
}

/// The index had these on disk, and the replica did not hear of it: it tells them again.
#[test]
fn what_is_told_again_after_a_crash_is_kept_once() {
    let (folder, mut draw, mut plain) = (Folder::new(), Draw(3), Plain::default());
    let all: Vec<Kept> =
        (0..300).map(|_| plain.pay(&mut draw)).map(|(at, entry)| Kept::Settled(at, entry.into())).collect();
    for end in [100, 130, 300] {
        let index = open(&folder);
        assert_eq!(index.keep(all[..end].to_vec()), end as u64);
    }
    plain.compare(&open(&folder), &mut draw);
}

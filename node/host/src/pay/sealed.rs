//! Runs: sorted records of many entries on disk, in pages.
//!
//! *Rows.* `r` kind, run, last record: a page of records. `f` run: which names of own payers it may hold. `R`: up to which position runs
//! have everything, and which runs there are.
//!
//! *Writing.* What is in memory becomes a run of level 0. [`RUNS_MAX`] runs of a level become one of the next, some of their records with each group
//! that is kept; until it is whole, nobody reads it, and after a crash it is begun again. Pages of runs that nobody reads any more go the same way.
//!
//! *Bounds.* [`RUNS_MAX`] runs of each level, and a few bits of memory per name of an own payer.

use std::sync::Arc;

use synod_store::Reader;
use synod_wire::Bytes;

use super::filter::Filter;
use super::rows::{Rows, key, prefixed};
use super::sorted::{Accounts, Carried, Names, Places, Sorted, TABLES, Table, begins_alike, put, read};

/// Runs of one level that become one.
pub(super) const RUNS_MAX: usize = 8;
/// Bytes of a page.
const PAGE_BYTES: usize = 8 << 10;
/// Pages of runs that nobody reads, which go at a time.
const GONE_MAX: usize = 32;
/// Most runs of an index: a list of more is damaged.
const LIST_MAX: usize = 4_096;

/// A run.
#[derive(Debug)]
pub(super) struct Run {
    number: u32,
    level: u8,
    filter: Filter,
}

/// The list of runs.
#[derive(Clone, Debug, Default)]
pub(super) struct Runs {
    /// The last position of which the runs have everything.
    pub(super) position: u64,
    pub(super) all: Vec<Arc<Run>>,
}

fn page_key(kind: u8, run: u32, record: &[u8]) -> Bytes {
    key(b'r', &[&[kind], &run.to_be_bytes(), record])
}

fn filter_key(run: u32) -> Bytes {
    key(b'f', &[&run.to_be_bytes()])
}

fn list_key() -> Bytes {
    key(b'R', &[])
}

/// Whether the name of a record is one of an own payer, for whom it is looked for.
fn is_own(record: &[u64], own: u64) -> bool {
    // The number of an account has its shard and its registrar in bits 80 to 127.
    record.get(2).is_some_and(|payer| payer >> 16 == own)
}

impl Run {
    /// Records from this one on that begin with the same `alike` numbers, the first `max`.
    fn range<T: Table>(&self, reader: &Reader, wanted: (&T::Record, usize), max: usize) -> Vec<T::Record> {
        let (from, alike) = wanted;
        let mut bytes = Vec::new();
        put(from, &mut bytes);
        let width = bytes.len();
        let prefix = page_key(T::KIND, self.number, &[]);
        let mut at = page_key(T::KIND, self.number, &bytes);
        let mut found: Vec<T::Record> = Vec::new();
        loop {
            let page = reader.scan(&at, 1).pop().filter(|(key, _)| key.starts_with(&prefix));
            let Some((key, page)) = page else { return found };
            let count = page.len() / width;
            let record = |at: usize| read::<T::Record>(page.get(at * width..).unwrap_or_default());
            for index in first(count, |at| record(at) < *from)..count {
                let record = record(index);
                if found.len() == max || !begins_alike(&record, from, alike) {
                    return found;
                }
                found.push(record);
            }
            at = key.iter().copied().chain([0]).collect();
        }
    }
}

/// The first of so many for which this does not hold; it holds for all before.
fn first(count: usize, is_before: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = usize::midpoint(low, high);
        if is_before(middle) { low = middle + 1 } else { high = middle }
    }
    low
}

impl Runs {
    /// The runs of a store; `None` where their list or a filter is damaged.
    pub(super) fn open(reader: &Reader) -> Option<Self> {
        let Some(list) = reader.get(&list_key()) else { return Some(Self::default()) };
        let (position, runs) = list.split_first_chunk::<8>()?;
        let (runs, []) = runs.as_chunks::<5>() else { return None };
        if runs.len() > LIST_MAX {
            return None;
        }
        let run = |[a, b, c, d, level]: &[u8; 5]| {
            let number = u32::from_be_bytes([*a, *b, *c, *d]);
            let filter = Filter::read(&reader.get(&filter_key(number))?)?;
            Some(Arc::new(Run { number, level: *level, filter }))
        };
        let all: Option<Vec<Arc<Run>>> = runs.iter().map(run).collect();
        Some(Self { position: u64::from_be_bytes(*position), all: all? })
    }

    fn list(&self, rows: &mut Rows) {
        let runs = self.all.iter().flat_map(|run| run.number.to_be_bytes().into_iter().chain([run.level]));
        let list = self.position.to_be_bytes().into_iter().chain(runs).collect();
        rows.insert(list_key(), Some(list));
    }

    /// Records of all runs, in no order.
    pub(super) fn range<T: Table>(
        &self,
        reader: &Reader,
        wanted: (&T::Record, usize),
        max: usize,
    ) -> Vec<T::Record> {
        let found = self.all.iter().flat_map(|run| run.range::<T>(reader, wanted, max));
        found.collect()
    }

    /// Records of a name of an own payer: few runs are looked at.
    pub(super) fn named(
        &self,
        reader: &Reader,
        name: &<Names as Table>::Record,
        max: usize,
    ) -> Vec<[u64; 5]> {
        let wanted = name.get(..4).unwrap_or_default();
        let may = self.all.iter().filter(|run| run.filter.may_have(wanted));
        may.flat_map(|run| run.range::<Names>(reader, (name, 4), max)).collect()
    }

    /// Their numbers.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u32> {
        self.all.iter().map(|run| run.number)
    }

    /// A number that no run has.
    fn next(&self) -> u32 {
        self.numbers().max().map_or(0, |last| last.wrapping_add(1))
    }
}

/// The pages of a table that is written.
struct Pages {
    kind: u8,
    run: u32,
    page: Vec<u8>,
}

impl Pages {
    fn new(kind: u8, run: u32) -> Self {
        Self { kind, run, page: Vec::with_capacity(PAGE_BYTES) }
    }

    fn put(&mut self, record: &[u8], rows: &mut Rows) {
        self.page.extend_from_slice(record);
        if self.page.len() + record.len() > PAGE_BYTES {
            self.end(record.len(), rows);
        }
    }

    /// Writes what is left, of records of this width.
    fn end(&mut self, width: usize, rows: &mut Rows) {
        if let Some(last) = self.page.len().checked_sub(width).and_then(|at| self.page.get(at..)) {
            let key = page_key(self.kind, self.run, last);
            let page = std::mem::replace(&mut self.page, Vec::with_capacity(PAGE_BYTES));
            rows.insert(key, Some(page.into()));
        }
    }
}

fn write<T: Table>(sorted: &Sorted, run: u32, rows: &mut Rows) {
    let (mut pages, mut bytes, mut width) = (Pages::new(T::KIND, run), Vec::new(), 0);
    for record in T::of(sorted) {
        bytes.clear();
        put(record, &mut bytes);
        width = bytes.len();
        pages.put(&bytes, rows);
    }
    if width > 0 {
        pages.end(width, rows);
    }
}

/// A run that is made of several.
struct Merging {
    sources: Vec<Arc<Run>>,
    target: u32,
    level: u8,
    filter: Filter,
    /// The table that is written, by its place among all; behind the last it is done.
    table: usize,
    pages: Pages,
    cursors: Vec<Cursor>,
}

/// How far a run is read.
struct Cursor {
    run: u32,
    page: Bytes,
    at: usize,
    /// Where the next page begins; `None` behind the last.
    next: Option<Bytes>,
}

impl Cursor {
    fn new(kind: u8, run: u32, reader: &Reader) -> Self {
        let mut cursor = Self { run, page: Bytes::new(), at: 0, next: Some(page_key(kind, run, &[])) };
        cursor.turn(kind, reader);
        cursor
    }

    /// Reads the next page.
    fn turn(&mut self, kind: u8, reader: &Reader) {
        let prefix = page_key(kind, self.run, &[]);
        let found = self.next.take().and_then(|from| reader.scan(&from, 1).pop());
        (self.page, self.at) = (Bytes::new(), 0);
        if let Some((key, page)) = found.filter(|(key, _)| key.starts_with(&prefix)) {
            self.page = page;
            self.next = Some(key.iter().copied().chain([0]).collect());
        }
    }

    fn record(&self, width: usize) -> Option<&[u8]> {
        self.page.get(self.at..self.at + width)
    }
}

/// What happens to runs while the index is written.
#[derive(Default)]
pub(super) struct Upkeep {
    merging: Option<Merging>,
    /// Runs that are in no list; whoever reads may still have one that has them.
    gone: Vec<Arc<Run>>,
    /// Above all numbers that were given.
    next: u32,
}

impl Upkeep {
    /// What a crash left: pages of runs that are in no list go.
    pub(super) fn open(reader: &Reader, runs: &Runs) -> Self {
        let (mut gone, mut next) = (Vec::new(), runs.next());
        for (kind, _) in TABLES {
            let mut from = page_key(kind, 0, &[]);
            while let Some((key, _)) = reader.scan(&from, 1).pop() {
                let Some(number) = key.strip_prefix(&[b'r', kind][..]).and_then(|rest| rest.first_chunk())
                else {
                    break;
                };
                let number = u32::from_be_bytes(*number);
                let is_known = |all: &[Arc<Run>]| all.iter().any(|run| run.number == number);
                if !is_known(&runs.all) && !is_known(&gone) {
                    gone.push(Arc::new(Run { number, level: 0, filter: Filter::new(0) }));
                }
                next = next.max(number.saturating_add(1));
                let Some(behind) = number.checked_add(1) else { break };
                from = page_key(kind, behind, &[]);
            }
        }
        Self { merging: None, gone, next }
    }

    fn number(&mut self) -> u32 {
        let number = self.next;
        self.next = number.checked_add(1).expect("a run is of 262,144 entries at least");
        number
    }

    /// Makes records up to this position a run.
    pub(super) fn seal(
        &mut self,
        runs: &mut Runs,
        sorted: &Sorted,
        (position, own): (u64, u64),
        rows: &mut Rows,
    ) {
        let number = self.number();
        write::<Names>(sorted, number, rows);
        write::<Places>(sorted, number, rows);
        write::<Accounts>(sorted, number, rows);
        write::<Carried>(sorted, number, rows);
        let own_names = || sorted.names.iter().filter(|record| is_own(*record, own));
        let mut filter = Filter::new(own_names().count());
        own_names().for_each(|record| filter.add(&record[..4]));
        rows.insert(filter_key(number), Some(filter.to_bytes().into()));
        runs.all.push(Arc::new(Run { number, level: 0, filter }));
        runs.position = position;
        runs.list(rows);
    }

    /// Goes on making runs of runs, by so many records, and lets pages go that nobody reads; whether the list is another one now.
    pub(super) fn work(
        &mut self,
        reader: &Reader,
        runs: &mut Runs,
        (records, own): (usize, u64),
        rows: &mut Rows,
    ) -> bool {
        self.let_go(reader, rows);
        if self.merging.is_none() {
            self.begin(reader, runs);
        }
        let Some(merging) = &mut self.merging else { return false };
        merging.step(reader, (records, own), rows);
        if merging.table < TABLES.len() {
            return false;
        }
        let Some(Merging { sources, target, level, filter, .. }) = self.merging.take() else { return false };
        runs.all.retain(|run| sources.iter().all(|source| source.number != run.number));
        rows.insert(filter_key(target), Some(filter.to_bytes().into()));
        runs.all.push(Arc::new(Run { number: target, level, filter }));
        runs.list(rows);
        self.gone.extend(sources);
        true
    }

    /// Begins to make a run of the runs of the lowest level that has many.
    fn begin(&mut self, reader: &Reader, runs: &Runs) {
        let of = |level: u8| runs.all.iter().filter(move |run| run.level == level);
        let full = (0..u8::MAX).find(|level| of(*level).count() >= RUNS_MAX);
        let Some(level) = full else { return };
        let sources: Vec<Arc<Run>> = of(level).take(RUNS_MAX).cloned().collect();
        let names: u64 = sources.iter().map(|run| run.filter.names()).sum();
        let target = self.number();
        let (kind, _) = TABLES[0];
        self.merging = Some(Merging {
            cursors: sources.iter().map(|run| Cursor::new(kind, run.number, reader)).collect(),
            sources,
            target,
            level: level + 1,
            filter: Filter::new(usize::try_from(names).unwrap_or(usize::MAX)),
            table: 0,
            pages: Pages::new(kind, target),
        });
    }

    /// Pages of runs that nobody reads go.
    fn let_go(&mut self, reader: &Reader, rows: &mut Rows) {
        let mut left = GONE_MAX;
        while let Some(at) = self.gone.iter().position(|run| Arc::strong_count(run) == 1) {
            let Some(number) = self.gone.get(at).map(|run| run.number) else { return };
            for (kind, _) in TABLES {
                let pages = prefixed(reader, &page_key(kind, number, &[]), left);
                left -= pages.len();
                rows.extend(pages.into_iter().map(|(key, _)| (key, None)));
            }
            if left == 0 {
                return;
            }
            rows.insert(filter_key(number), None);
            self.gone.remove(at);
        }
    }
}

impl Merging {
    /// Writes so many records.
    fn step(&mut self, reader: &Reader, (mut records, own): (usize, u64), rows: &mut Rows) {
        while let Some((kind, width)) = TABLES.get(self.table).copied() {
            let least =
                (0..self.cursors.len()).filter_map(|at| Some((self.cursors.get(at)?.record(width)?, at)));
            let Some((record, at)) = least.min() else {
                self.pages.end(width, rows);
                self.table += 1;
                let kind = TABLES.get(self.table).map_or(0, |(kind, _)| *kind);
                let cursor = |run: &Arc<Run>| Cursor::new(kind, run.number, reader);
                self.cursors = self.sources.iter().map(cursor).collect();
                self.pages = Pages::new(kind, self.target);
                continue;
            };
            if records == 0 {
                return;
            }
            records -= 1;
            if kind == Names::KIND {
                let name: [u64; 5] = read(record);
                if is_own(&name, own) {
                    self.filter.add(&name[..4]);
                }
            }
            self.pages.put(record, rows);
            let Some(cursor) = self.cursors.get_mut(at) else { return };
            cursor.at += width;
            if cursor.at >= cursor.page.len() {
                cursor.turn(kind, reader);
            }
        }
    }
}

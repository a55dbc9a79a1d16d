//! What is looked for in the index, as records of numbers: sorted, packed, and without a row each.
//!
//! A record is all there is to it: whoever looks for some knows how they begin. Numbers stand with the most significant byte first on
//! disk, so bytes sort as numbers do.

use synod_ledger::{AccountId, EntryId};
use synod_machine::broadcast::Lot;

/// Numbers that sort by the first, then by the second, and so on.
pub(super) trait Record: Copy + Ord + Default + AsRef<[u64]> + AsMut<[u64]> + Send + Sync {}
impl<T: Copy + Ord + Default + AsRef<[u64]> + AsMut<[u64]> + Send + Sync> Record for T {}

/// A kind of record.
pub(super) trait Table {
    /// Its letter on disk.
    const KIND: u8;
    type Record: Record;
    fn of(sorted: &Sorted) -> &Vec<Self::Record>;
}

/// Name (2), payer (2), position: payments by name.
pub(super) enum Names {}
/// Payer (2), n, position: payments by place.
pub(super) enum Places {}
/// Account (2), position: payments of an account.
pub(super) enum Accounts {}
/// Payer (2), n, lane, number of a batch that carries the entry.
pub(super) enum Carried {}

/// All kinds: their letters, and the bytes of a record.
pub(super) const TABLES: [(u8, usize); 4] =
    [(Names::KIND, 40), (Places::KIND, 32), (Accounts::KIND, 24), (Carried::KIND, 40)];

macro_rules! table {
    ($table:ident, $kind:literal, $words:literal, $field:ident) => {
        impl Table for $table {
            const KIND: u8 = $kind;
            type Record = [u64; $words];

            fn of(sorted: &Sorted) -> &Vec<Self::Record> {
                &sorted.$field
            }
        }
    };
}

table!(Names, b'n', 5, names);
table!(Places, b'p', 4, places);
table!(Accounts, b'a', 3, accounts);
table!(Carried, b'c', 5, carried);

/// Records of one stretch of entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sorted {
    pub(super) names: Vec<[u64; 5]>,
    pub(super) places: Vec<[u64; 4]>,
    pub(super) accounts: Vec<[u64; 3]>,
    pub(super) carried: Vec<[u64; 5]>,
}

/// A number of 128 bits as two.
pub(super) fn halves(number: u128) -> [u64; 2] {
    let [high, low] = [number >> 64, number & u128::from(u64::MAX)];
    [high, low].map(|half| u64::try_from(half).unwrap_or(u64::MAX))
}

/// The account that two numbers are.
pub(super) fn account(high: u64, low: u64) -> Option<AccountId> {
    AccountId::try_from(u128::from(high) << 64 | u128::from(low)).ok()
}

impl Sorted {
    /// Adds an entry under its name and its place.
    pub(super) fn add(&mut self, name: u128, id: EntryId, position: u64) {
        let ([first, second], [payer, of]) = (halves(name), halves(id.spender.number()));
        self.names.push([first, second, payer, of, position]);
        self.places.push([payer, of, id.n, position]);
    }

    /// Adds an entry to those of an account.
    pub(super) fn tell(&mut self, account: AccountId, position: u64) {
        let [high, low] = halves(account.number());
        self.accounts.push([high, low, position]);
    }

    /// Adds a batch to those that carry an entry.
    pub(super) fn carry(&mut self, id: EntryId, lot: Lot) {
        let [payer, of] = halves(id.spender.number());
        self.carried.push([payer, of, id.n, u64::from(lot.source), lot.sequence]);
    }

    /// Entries.
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// Records in all.
    pub(super) fn records(&self) -> usize {
        self.names.len() + self.places.len() + self.accounts.len() + self.carried.len()
    }

    /// Puts all in order, each once. Stretches that are in order stay together, so this merges.
    pub(super) fn sort(&mut self) {
        self.names.sort();
        self.places.sort();
        self.accounts.sort();
        self.carried.sort();
        self.carried.dedup();
    }

    /// All of several.
    pub(super) fn merged<'a>(parts: impl Iterator<Item = &'a Self> + Clone) -> Self {
        let mut all = Self::default();
        let count = |of: fn(&Self) -> usize| parts.clone().map(of).sum();
        all.names.reserve_exact(count(|part| part.names.len()));
        all.places.reserve_exact(count(|part| part.places.len()));
        all.accounts.reserve_exact(count(|part| part.accounts.len()));
        all.carried.reserve_exact(count(|part| part.carried.len()));
        for part in parts {
            all.names.extend_from_slice(&part.names);
            all.places.extend_from_slice(&part.places);
            all.accounts.extend_from_slice(&part.accounts);
            all.carried.extend_from_slice(&part.carried);
        }
        all.sort();
        all
    }

    /// Records from this one on that begin with the same `alike` numbers, the first `max`.
    pub(super) fn range<T: Table>(&self, from: &T::Record, alike: usize, max: usize) -> &[T::Record] {
        let records = T::of(self);
        let begin = records.partition_point(|record| record < from);
        let found = records.get(begin..).unwrap_or_default();
        let like = |record: &T::Record| begins_alike(record, from, alike);
        let end = found.iter().take(max).take_while(|record| like(record)).count();
        found.get(..end).unwrap_or_default()
    }
}

/// Whether two records have the same first numbers.
pub(super) fn begins_alike<R: Record>(one: &R, other: &R, alike: usize) -> bool {
    one.as_ref().get(..alike) == other.as_ref().get(..alike)
}

/// A record as bytes.
pub(super) fn put<R: Record>(record: &R, into: &mut Vec<u8>) {
    record.as_ref().iter().for_each(|number| into.extend_from_slice(&number.to_be_bytes()));
}

/// The record that bytes are.
pub(super) fn read<R: Record>(bytes: &[u8]) -> R {
    let mut record = R::default();
    let (numbers, _) = bytes.as_chunks::<8>();
    record.as_mut().iter_mut().zip(numbers).for_each(|(to, number)| *to = u64::from_be_bytes(*number));
    record
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(local: u64, n: u64) -> EntryId {
        EntryId { spender: AccountId { shard: 0, registrar: 1, local }, n }
    }

    #[test]
    fn records_sort_as_their_bytes_do_and_are_read_as_they_were_put() {
        let mut sorted = Sorted::default();
        for (name, place, position) in [(7, id(2, 9), 1), (u128::MAX, id(2, 3), 2), (1 << 64, id(300, 1), 3)]
        {
            sorted.add(name, place, position);
        }
        sorted.sort();
        let bytes = |record: &[u64; 5]| {
            let mut bytes = Vec::new();
            put(record, &mut bytes);
            bytes
        };
        let all: Vec<Vec<u8>> = sorted.names.iter().map(bytes).collect();
        assert!(all.is_sorted() && all.iter().all(|bytes| bytes.len() == 40));
        assert_eq!(all.iter().map(|bytes| read::<[u64; 5]>(bytes)).collect::<Vec<_>>(), sorted.names);
        assert_eq!(sorted.names.iter().map(|record| record[4]).collect::<Vec<_>>(), [1, 3, 2]);
        for (kind, width) in TABLES {
            let words = match kind {
                b'n' => size_of::<<Names as Table>::Record>(),
                b'p' => size_of::<<Places as Table>::Record>(),
                b'a' => size_of::<<Accounts as Table>::Record>(),
                _ => size_of::<<Carried as Table>::Record>(),
            };
            assert_eq!(words, width);
        }
    }

    #[test]
    fn a_range_begins_where_it_is_asked_for_and_ends_where_its_beginning_does() {
        let mut sorted = Sorted::default();
        (1..=9).for_each(|position| sorted.tell(id(position % 2, 1).spender, position));
        sorted.sort();
        let [high, low] = halves(id(1, 1).spender.number());
        let of = |after: u64, max| {
            let found = sorted.range::<Accounts>(&[high, low, after], 2, max);
            found.iter().map(|record| record[2]).collect::<Vec<_>>()
        };
        assert_eq!(of(0, 99), [1, 3, 5, 7, 9]);
        assert_eq!(of(4, 2), [5, 7]);
        assert!(of(10, 9).is_empty());
        assert_eq!(account(high, low), Some(id(1, 1).spender));
    }

    #[test]
    fn parts_become_one_in_order_and_a_batch_carries_an_entry_once() {
        let parts: Vec<Sorted> = (0..3_u64)
            .map(|part| {
                let mut sorted = Sorted::default();
                (0..5).for_each(|n| sorted.add(u128::from(n * 3 + part), id(n, part), n * 3 + part));
                sorted.carry(id(1, 1), Lot { source: 2, sequence: 7 });
                sorted.sort();
                sorted
            })
            .collect();
        let all = Sorted::merged(parts.iter());
        assert_eq!(all.names.iter().map(|record| record[1]).collect::<Vec<_>>(), (0..15).collect::<Vec<_>>());
        assert!(all.places.is_sorted());
        assert_eq!((all.len(), all.carried.len(), all.records()), (15, 1, 31));
    }
}

//! Slots certified in part: told to others, so that whoever lacks an item asks for it.

use std::collections::VecDeque;

use super::words::{Except, ROWS_PER_ANSWER, Row};
use crate::Lot;

/// Rows that are kept for others to read.
pub(super) const ROWS_MAX: usize = 1 << 16;
/// Bytes of them; a source can fill each of its slots with items that nobody endorses.
pub(super) const ROWS_BYTES_MAX: usize = 16 << 20;
/// Bytes of one answer, in which one row finds place however long it is.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// Slots certified in part, in the order in which they came to be so; the oldest go. Numbers begin at 0 with each life.
#[derive(Clone, Debug, Default)]
pub(super) struct RowLog {
    gone: u64,
    rows: VecDeque<Row>,
    bytes: usize,
}

impl RowLog {
    pub(super) fn push(&mut self, lot: Lot, open: Except) {
        let row = Row { lot, open };
        self.bytes += weight(&row);
        self.rows.push_back(row);
        while self.rows.len() > ROWS_MAX || self.bytes > ROWS_BYTES_MAX {
            let Some(oldest) = self.rows.pop_front() else { return };
            self.bytes -= weight(&oldest);
            self.gone += 1;
        }
    }

    pub(super) fn count(&self) -> u64 {
        self.gone.saturating_add(self.rows.len() as u64)
    }

    /// Rows from a number on, and the number of the first.
    pub(super) fn from(&self, number: u64) -> (u64, Vec<Row>) {
        let first = number.max(self.gone);
        let skipped = usize::try_from(first.saturating_sub(self.gone)).unwrap_or(usize::MAX);
        let (mut rows, mut bytes) = (Vec::new(), 0_usize);
        for row in self.rows.iter().skip(skipped).take(ROWS_PER_ANSWER) {
            bytes += weight(row);
            if bytes > ANSWER_BYTES_MAX && !rows.is_empty() {
                break;
            }
            rows.push(row.clone());
        }
        (first, rows)
    }

    pub(super) const fn bytes(&self) -> u64 {
        self.bytes as u64
    }
}

fn weight(row: &Row) -> usize {
    size_of::<Row>() + size_of_val(row.open.items())
}

#[cfg(test)]
mod tests {
    use super::super::words::ITEMS_MAX;
    use super::*;

    fn lot(sequence: u64) -> Lot {
        Lot { source: 1, sequence }
    }

    fn long() -> Except {
        let items = u32::try_from(ITEMS_MAX).expect("few");
        Except::new((0..items).collect()).expect("rising")
    }

    #[test]
    fn rows_of_long_lists_are_kept_within_their_bytes_and_the_oldest_go() {
        let mut log = RowLog::default();
        (1..=1_000).for_each(|sequence| log.push(lot(sequence), long()));
        assert!(log.bytes() <= ROWS_BYTES_MAX as u64);
        assert_eq!(log.count(), 1_000);
        let (first, rows) = log.from(0);
        assert!(first > 700, "the oldest went");
        assert_eq!(rows.first().map(|row| row.lot), Some(lot(first + 1)));
    }

    #[test]
    fn an_answer_fits_a_message_and_a_reader_gets_all_rows_in_turn() {
        let mut log = RowLog::default();
        (1..=200).for_each(|sequence| log.push(lot(sequence), long()));
        let (mut read, mut seen) = (0, Vec::new());
        while read < log.count() {
            let (first, rows) = log.from(read);
            assert!(first == read && !rows.is_empty());
            assert!(rows.iter().map(weight).sum::<usize>() <= ANSWER_BYTES_MAX);
            read += rows.len() as u64;
            seen.extend(rows.into_iter().map(|row| row.lot.sequence));
        }
        assert!(seen.into_iter().eq(1..=200));
    }

    #[test]
    fn short_rows_are_kept_up_to_their_number() {
        let mut log = RowLog::default();
        (1..=ROWS_MAX as u64 + 5).for_each(|sequence| log.push(lot(sequence), Except::default()));
        assert_eq!(log.from(0).0, 5);
        assert_eq!(log.from(u64::MAX).1, []);
    }
}

//! Cuts as records of the log for audits: what each counts, as far as the one before counts something else, and what a quorum signed of it.

use synod_astro::audit::{CountedAt, Item};
use synod_ledger::AccountId;
use synod_wire::{Bytes, List, Wire as _};

use super::{Cuts, account_in, number_in};
use crate::pay::proofs::LogPage;
use crate::pay::rows::key;

/// The kind of rows of cuts in the log for audits.
pub(in crate::pay) const LOG: u8 = b'k';
/// Accounts of one record of the log.
pub(super) const COUNTS: usize = 4_096;
/// Bytes of records behind which a page of the log takes no more.
const PAGE_BYTES: usize = 256 << 10;

/// Where a page of cuts of the log begins.
#[derive(Clone, Copy, Debug)]
struct Page {
    /// The last cut that the log has; 0: none.
    last: u64,
    /// The cut that comes next, or the first behind it.
    number: u64,
    /// The first account of it.
    from: u128,
}

impl Page {
    fn read(bytes: &[u8]) -> Option<Self> {
        let from = bytes.get(17..33)?.try_into().ok()?;
        Some(Self {
            last: number_in(bytes, 1)?,
            number: number_in(bytes, 9)?,
            from: u128::from_be_bytes(from),
        })
    }

    fn write(&self) -> Bytes {
        key(LOG, &[&self.last.to_be_bytes(), &self.number.to_be_bytes(), &self.from.to_be_bytes()])
    }
}

impl Cuts {
    /// A page of the log for audits: cuts all of whose entries stand up to this position, with what they count. `from` is what the page
    /// before gave, or [`LOG`].
    pub(in crate::pay) fn log(&self, from: &[u8], until: u64) -> LogPage {
        let mut at = Page::read(from).unwrap_or(Page { last: 0, number: 0, from: 0 });
        let (mut page, mut bytes) = (LogPage::default(), 0);
        while let Some(cut) = self.cuts_from(at.number, 1).pop().filter(|cut| cut.position <= until) {
            let number = cut.record.number;
            if bytes >= PAGE_BYTES {
                page.next = Some(at.write());
                return page;
            }
            if at.from > 0 && number != at.number {
                // The one that was begun is not kept any more.
                (at.last, at.from) = (0, 0);
            }
            at.number = number;
            let is_whole = self.cut_row(at.last).is_none();
            let accounts = if is_whole { self.all_from(at.from) } else { self.changed_from(number, at.from) };
            let next = accounts.last().filter(|_| accounts.len() == COUNTS).map(|last| last.number());
            let counted = accounts.into_iter().map(|account| {
                let n = self.stood(account, number).map(|stood| stood.standing.sequence);
                CountedAt { account, n }
            });
            let counted: Vec<CountedAt> = counted.collect();
            if !counted.is_empty() {
                let counted = List::try_from(counted).expect("a record has place for more");
                page.records.push(Item::Counted(counted).encode());
            }
            match next.and_then(|last| last.checked_add(1)) {
                Some(from) => at.from = from,
                None => {
                    let (root, certificate) = (Box::new(cut.record), Box::new(cut.certificate));
                    page.records.push(Item::Cut { root, certificate }.encode());
                    at = Page { last: number, number: number.saturating_add(1), from: 0 };
                }
            }
            bytes = page.records.iter().map(Bytes::len).sum();
        }
        page
    }

    /// Accounts that have rows, from this number of an account on.
    fn all_from(&self, from: u128) -> Vec<AccountId> {
        let (mut all, mut from) = (Vec::new(), from);
        while all.len() < COUNTS
            && let Some((found, _)) = self.reader.scan(&key(b's', &[&from.to_be_bytes()]), 1).pop()
            && let Some(account) = account_in(&found, 1).filter(|_| found.starts_with(b"s"))
        {
            all.push(account);
            let Some(next) = account.number().checked_add(1) else { break };
            from = next;
        }
        all
    }

    /// Accounts that changed at a cut, from this number of an account on.
    pub(super) fn changed_from(&self, number: u64, from: u128) -> Vec<AccountId> {
        let prefix = key(b'd', &[&number.to_be_bytes()]);
        let from = key(b'd', &[&number.to_be_bytes(), &from.to_be_bytes()]);
        let found = self.reader.scan(&from, COUNTS).into_iter();
        found
            .take_while(|(key, _)| key.starts_with(&prefix))
            .filter_map(|(key, _)| account_in(&key, 9))
            .collect()
    }
}

//! Customers who sign: those of one institution, each with its log, on a thread of their own.
//!
//! What they cost is the load's and no replica's, so it is counted apart. What a plan asks for they sign before the clock runs, as owners
//! elsewhere would, whose processors are not the replicas'; then as far ahead as the channel to their institution has room. An entry names
//! the one before it, so an institution gives what it refused again before what comes behind it.

use super::bank::{Bank, FIRST, Place};
use super::orders::{Draw, draw_of, payment};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use synod_astro::wallet::{Done, Job};
use synod_astro::{Draft, Line};
use synod_crypto::{Hash, Keys};
use synod_ledger::{Digests, Entry, EntryId, genesis};
use synod_machine::Job as _;

/// Entries that an institution puts back at most before it gives no others.
pub(super) const AHEAD: usize = 4_096;
/// Entries that are handed over at once while the clock runs.
const SHEET: usize = 256;
/// Sheets that are signed ahead of the one that is read.
pub(super) const SHEETS: usize = AHEAD / SHEET;

/// See the module.
pub(super) struct Owners<'a> {
    bank: &'a Bank,
    at: Place,
    /// Of each customer: its keys, its last place, and what stands there.
    logs: Vec<(Keys, u64, Hash)>,
    draw: Draw,
    transfer: u128,
}

impl<'a> Owners<'a> {
    pub(super) fn new(bank: &'a Bank, at: Place) -> Self {
        let locals = FIRST..bank.customers() + FIRST;
        let log = |local| {
            let id = super::bank::account(at, local);
            (Bank::owner(id), 0, genesis(id))
        };
        Self { bank, at, logs: locals.map(log).collect(), draw: draw_of(bank, at), transfer: 1 << 64 }
    }

    /// Signs until nobody takes it any more; says when what is signed before the clock runs is there.
    pub(super) fn run(mut self, lines: &SyncSender<Vec<Line>>, ready: &AtomicBool) {
        let share = usize::try_from(self.bank.ahead()).unwrap_or(usize::MAX);
        let mut next = |count: usize| std::iter::from_fn(|| self.next()).take(count).collect::<Vec<_>>();
        let first = next(share);
        let mut is_taken = lines.send(first).is_ok();
        ready.store(true, Ordering::Release);
        while is_taken {
            let sheet = next(SHEET);
            is_taken = !sheet.is_empty() && lines.send(sheet).is_ok();
        }
    }

    /// The next payment; none only where a plan names a customer who is none.
    pub(super) fn next(&mut self) -> Option<Line> {
        self.transfer += 1;
        let draft = payment(self.bank, self.at, &mut self.draw, self.transfer);
        let Draft { spender, kind, transfer, ledger, code, user_data, flags } = draft;
        let at = usize::try_from(spender.local.checked_sub(FIRST)?).ok()?;
        let (keys, n, head) = self.logs.get_mut(at)?;
        let id = EntryId { spender, n: *n + 1 };
        let entry = Entry { id, prev: *head, kind, transfer, ledger, code, user_data, flags };
        (*n, *head) = (id.n, Digests::default().entry(&entry));
        let view = std::sync::Arc::clone(self.bank.view(self.at.shard)?);
        match (Job::Sign { view, entry: entry.into() }).run(keys) {
            Done::Signed(line) => Some(line),
            Done::Shown { .. } | Done::Shared { .. } => None,
        }
    }
}

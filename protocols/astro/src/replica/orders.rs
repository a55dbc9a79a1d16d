//! Orders that come together: each is answered as if it came alone, and a handful of them is looked up and hashed at once, for less.

use synod_crypto::Hash;
use synod_ledger::{Entry, EntryId};
use synod_machine::Turn;

use super::desk::refuse;
use super::{Carrier, Replica};
use crate::batch::{Auth, Line};
use crate::words::{Draft, Refusal};

/// Orders that are looked up and hashed at once.
const HANDFUL: usize = 32;

impl<B: Carrier> Replica<B> {
    /// Orders of customers of this institution: each gets the next place of its log (Listing 2).
    pub(super) fn on_orders(&mut self, orders: Vec<(u64, Draft)>, turn: &mut Turn<'_, Self>) {
        let mut orders = orders.into_iter();
        while !orders.as_slice().is_empty() {
            // The next place of a log is known once the order before it was answered: what pays again begins the next handful.
            let count = handful(orders.as_slice());
            self.near_orders(orders.as_slice());
            let (tickets, entries) = self.entries(orders.by_ref().take(count), turn);
            let measured = self.digests.measured_each(&entries);
            for ((ticket, entry), measured) in tickets.into_iter().zip(entries).zip(measured) {
                self.on_entry(ticket, entry, measured, turn);
            }
        }
    }

    /// An order as an entry, measured.
    pub(super) fn on_entry(
        &mut self,
        ticket: u64,
        entry: Entry,
        measured: (Hash, usize),
        turn: &mut Turn<'_, Self>,
    ) {
        let line = Line { entry: entry.into(), auth: Auth::Institution };
        self.admit((ticket, None), line, measured, turn);
    }

    /// Has what the handful behind this one rests on brought nearer.
    fn near_orders(&self, orders: &[(u64, Draft)]) {
        for (_, draft) in orders.iter().skip(HANDFUL).take(HANDFUL) {
            self.ledger.near_order(draft.spender, &draft.kind);
            self.desk.near(draft.spender);
        }
    }

    /// Each order in its place, with its ticket; who has no log is refused.
    fn entries(
        &self,
        orders: impl Iterator<Item = (u64, Draft)>,
        turn: &mut Turn<'_, Self>,
    ) -> (Vec<u64>, Vec<Entry>) {
        let (mut tickets, mut entries) = (Vec::with_capacity(HANDFUL), Vec::with_capacity(HANDFUL));
        for (ticket, draft) in orders {
            if let Some(entry) = self.entry(ticket, draft, turn) {
                tickets.push(ticket);
                entries.push(entry);
            }
        }
        (tickets, entries)
    }

    /// An order in the next place of its log.
    pub(super) fn entry(&self, ticket: u64, draft: Draft, turn: &mut Turn<'_, Self>) -> Option<Entry> {
        let Draft { spender, kind, transfer, ledger, code, user_data, flags } = draft;
        let Some((n, prev)) = self.ledger.tip(spender) else {
            refuse(ticket, Refusal::Ledger(self.ledger.unknown(spender)), turn);
            return None;
        };
        let id = EntryId { spender, n: n.saturating_add(1) };
        Some(Entry { id, prev, kind, transfer, ledger, code, user_data, flags })
    }
}

/// How many of these orders are of different accounts, a handful at most.
fn handful(orders: &[(u64, Draft)]) -> usize {
    let handful = orders.get(..HANDFUL.min(orders.len())).unwrap_or_default();
    let is_again = |(at, (_, draft)): (usize, &(u64, Draft))| {
        handful.iter().take(at).any(|(_, before)| before.spender == draft.spender)
    };
    (0..).zip(handful).position(is_again).unwrap_or(handful.len())
}

#[cfg(test)]
mod tests {
    use synod_ledger::{AccountId, Flags, Kind, UserData};

    use super::*;

    fn order(local: u64) -> (u64, Draft) {
        let spender = AccountId { shard: 0, registrar: 0, local };
        let (user_data, flags) = (UserData::default(), Flags::default());
        (local, Draft { spender, kind: Kind::Move(1), transfer: 0, ledger: 1, code: 0, user_data, flags })
    }

    #[test]
    fn a_handful_has_an_account_once() {
        let counts = |locals: &[u64]| handful(&locals.iter().map(|local| order(*local)).collect::<Vec<_>>());
        assert_eq!(counts(&[]), 0);
        assert_eq!(counts(&[7]), 1);
        assert_eq!(counts(&[7, 7]), 1);
        assert_eq!(counts(&[7, 8, 9, 8, 10]), 3);
        let many: Vec<u64> = (1..=40).collect();
        assert_eq!(counts(&many), HANDFUL);
        assert_eq!(counts(&many[..HANDFUL]), HANDFUL);
    }
}

//! What books must be: at any time as much came as went, over all borders; in the end what the entries of all shards make of them,
//! each leg credited once, and all that left came (A-S5, A-S7, A-S8).

use std::collections::{BTreeMap, BTreeSet};

use synod_ledger::{AccountId, Entry, EntryId, Kind, Leg, Part, Total};

use crate::oracle::{Verdict, breach};

/// A member's book.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BookSeen {
    /// Credits and debits of each account.
    pub accounts: BTreeMap<AccountId, (u128, u128)>,
    /// What left, by shard.
    pub exported: BTreeMap<u16, u128>,
    /// What came, by shard.
    pub imported: BTreeMap<u16, u128>,
    /// Entries of other shards that were credited.
    pub used: BTreeSet<EntryId>,
}

/// A total as runs can move it; more than that where it is more.
fn units(total: Total) -> u128 {
    let [high @ .., a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = total.to_be_bytes();
    let low = u128::from_be_bytes([a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p]);
    if high.iter().all(|byte| *byte == 0) { low } else { u128::MAX }
}

fn legs(kind: &Kind) -> &[Leg] {
    match kind {
        Kind::Pay(leg) => std::slice::from_ref(leg),
        Kind::MultiPay(legs) => legs,
        _ => &[],
    }
}

impl BookSeen {
    /// A book from its parts.
    #[must_use]
    pub fn of(parts: impl IntoIterator<Item = Part>) -> Self {
        let mut book = Self::default();
        for part in parts {
            match part {
                Part::Account(standing) => {
                    let sums = (units(standing.credits), units(standing.debits));
                    book.accounts.insert(standing.opening.id, sums);
                }
                Part::Exported { border, total } => drop(book.exported.insert(border.shard, units(total))),
                Part::Imported { border, total } => drop(book.imported.insert(border.shard, units(total))),
                Part::Used { spender, run } => {
                    book.used.extend((run.first..=run.last).map(|n| EntryId { spender, n }));
                }
                Part::Hold { .. } => {}
            }
        }
        book
    }

    /// What these entries make of the book of a shard, whose accounts these are.
    #[must_use]
    pub fn made_by<'a>(
        shard: u16,
        accounts: impl IntoIterator<Item = AccountId>,
        entries: impl IntoIterator<Item = &'a Entry>,
    ) -> Self {
        let accounts = accounts.into_iter().map(|id| (id, (0, 0))).collect();
        let mut book = Self { accounts, ..Self::default() };
        for entry in entries {
            let from = entry.id.spender.shard;
            for leg in legs(&entry.kind) {
                let amount = leg.amount.0;
                if let Some(payer) = book.accounts.get_mut(&entry.id.spender) {
                    payer.1 += amount;
                }
                if let Some(payee) = book.accounts.get_mut(&leg.to) {
                    payee.0 += amount;
                }
                if from == shard && leg.to.shard != shard {
                    *book.exported.entry(leg.to.shard).or_default() += amount;
                }
                if from != shard && leg.to.shard == shard {
                    *book.imported.entry(from).or_default() += amount;
                    book.used.insert(entry.id);
                }
            }
        }
        book
    }

    /// At any time: what was credited less what was debited is what came less what left.
    ///
    /// # Errors
    /// A-S5.
    pub fn adds_up(&self) -> Verdict {
        let credits: u128 = self.accounts.values().map(|sums| sums.0).sum();
        let debits: u128 = self.accounts.values().map(|sums| sums.1).sum();
        let (came, left) = (self.imported.values().sum::<u128>(), self.exported.values().sum::<u128>());
        match credits + left == debits + came {
            true => Ok(()),
            false => breach(
                "A-S5",
                format!("{credits} credited and {left} left, {debits} debited and {came} came"),
            ),
        }
    }

    /// In the end: it is what all entries that settled make of it.
    ///
    /// # Errors
    /// A-S8: what came is not what left; A-S7: a leg is credited twice, or not.
    pub fn is(&self, made: &Self, member: u32) -> Verdict {
        if (&self.exported, &self.imported, &self.used) != (&made.exported, &made.imported, &made.used) {
            let (mine, other) = ((&self.exported, &self.imported), (&made.exported, &made.imported));
            return breach(
                "A-S8",
                format!("at member {member} {mine:?} crossed, and entries make {other:?}"),
            );
        }
        let mut wrong = self.accounts.iter().filter(|(id, sums)| made.accounts.get(id) != Some(sums));
        match wrong.next() {
            Some((id, sums)) => {
                let made = made.accounts.get(id);
                breach("A-S7", format!("{id} has {sums:?} at member {member}, and entries make {made:?}"))
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use synod_ledger::{Entry, EntryId, Flags, Kind, Leg, Units, UserData, genesis};

    use super::BookSeen;
    use crate::systems::astro::shards::plan::account;

    #[test]
    fn a_leg_that_is_credited_twice_or_never_and_money_from_nowhere_are_told() {
        let (payer, payee) = (account(0, 0, 1), account(1, 0, 2));
        let entry = Entry {
            id: EntryId { spender: payer, n: 1 },
            prev: genesis(payer),
            kind: Kind::Pay(Leg { to: payee, amount: Units(5) }),
            transfer: 1,
            ledger: 1,
            code: 0,
            user_data: UserData::default(),
            flags: Flags::default(),
        };
        let fired = |verdict: crate::oracle::Verdict| verdict.map_or_else(|breach| breach.checker, |()| "");
        let (left, came) = (BookSeen::made_by(0, [payer], [&entry]), BookSeen::made_by(1, [payee], [&entry]));
        assert_eq!((left.accounts[&payer], came.accounts[&payee]), ((0, 5), (5, 0)));
        assert_eq!((fired(left.adds_up()), fired(came.adds_up())), ("", ""));
        let mut twice = came.clone();
        twice.accounts.insert(payee, (10, 0));
        assert_eq!((fired(twice.adds_up()), fired(twice.is(&came, 0))), ("A-S5", "A-S7"));
        twice.imported.insert(0, 10);
        assert_eq!((fired(twice.adds_up()), fired(twice.is(&came, 0))), ("", "A-S8"));
        let never = BookSeen::made_by(1, [payee], []);
        assert_eq!((fired(never.adds_up()), fired(never.is(&came, 0))), ("", "A-S8"));
    }
}
